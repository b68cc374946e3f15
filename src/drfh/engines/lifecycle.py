"""What runs for long stops when it is told to, between two rounds."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["Stoppable"]


class Stoppable:
    """Has an event that says stop, and lets signals set it.

    Examples
    --------
    >>> loop = Stoppable()
    >>> loop.stop()
    >>> loop.stopping.is_set()
    True
    """

    def __init__(self) -> None:
        self.stopping = threading.Event()

    def stop(self, *_: Any) -> None:
        """Stop after the round that goes on."""
        self.stopping.set()

    @contextmanager
    def signals(self) -> Iterator[None]:
        """Let SIGTERM and SIGINT stop it after the round."""
        before = {number: signal.signal(number, self.stop) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


_SIGNALS = (signal.SIGTERM, signal.SIGINT)
