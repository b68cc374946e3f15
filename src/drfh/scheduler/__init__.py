"""Online scheduler: events in, placements out; no clock, no I/O.

:class:`Scheduler` has the names, the checks, the log and the explanations. Below it a *core*
decides in numbers: :class:`~drfh.scheduler.plain.PlainCore` is the definition,
:class:`~drfh.scheduler.indexed.IndexedCore` does the same fast.
"""

from __future__ import annotations

from drfh.scheduler.diagnostics import Why
from drfh.scheduler.scheduler import Scheduler
from drfh.scheduler.state import Placed

__all__ = ["Placed", "Scheduler", "Why"]
