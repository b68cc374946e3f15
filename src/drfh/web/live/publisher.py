"""Follows a controller for a live view, from a thread of its own: a page is not worth a round.

The controller hands over what it saw and decided, which nobody changes any more, and goes on. All
that costs time (what would be fair, why jobs wait) is done here, at this thread's own pace and by
a brain of its own; if several rounds passed meanwhile, the newest counts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Self

from drfh.engines.cache import SchedulerCache
from drfh.engines.slurm.cluster import SlurmCluster
from drfh.web.live.events import done_in

if TYPE_CHECKING:
    from drfh.engines.slurm.config import SlurmConfig
    from drfh.engines.slurm.controller import Controller, Cycle
    from drfh.engines.slurm.reconcile import Reconciliation
    from drfh.engines.slurm.state import SlurmState
    from drfh.policies import Policy
    from drfh.web.live.store import LiveStore

__all__ = ["Publisher"]

_POLL = 0.25  # seconds: somebody may begin to watch
_LONGEST_STOP = 5.0


@dataclass(frozen=True, slots=True)
class _Round:
    """What a round has left behind; `placed` is what the brain has placed and no look shows yet."""

    site: SlurmConfig
    picture: SlurmState
    view: Reconciliation
    placed: Mapping[str, str]
    policy: Policy


class Publisher:
    """Tells a feed of the rounds of a controller; started and stopped by a ``with`` block.

    Parameters
    ----------
    feed
        The live view.
    say
        Told once if it cannot follow.
    """

    def __init__(self, feed: LiveStore, say: Callable[[str], None] | None = None) -> None:
        self.feed, self._say = feed, say or (lambda line: None)
        self._news = threading.Condition()
        self._newest: _Round | None = None
        self._stopping = self._failed = False
        self._failures = 0  # rounds of the controller, in a row
        self._cache: SchedulerCache | None = None
        self._thread = threading.Thread(target=self._run, name="drfh-follower", daemon=True)

    def round(self, controller: Controller, done: Cycle) -> None:
        """Take what a round did; called by the controller, and over in no time."""
        self._failures, cache = 0, controller.cache
        left = _Round(controller.site, done.picture, done.view, dict(cache.placed), cache.policy)
        self.feed.happened(done_in(done), len(done.placed))
        with self._news:
            self._newest = left
            self._news.notify()

    def failed(self, words: str, failures: int) -> None:
        """Take what the controller says of rounds that failed, of which there are so many by now.

        That it goes on after them is no trouble.
        """
        if failures > self._failures:
            self.feed.trouble(words)
        else:
            self.feed.note(words)
        self._failures = failures

    def step(self) -> bool:
        """Look at the newest round, if there is one and it is time; return whether it did."""
        with self._news:
            if self._newest is None or not self.feed.due():
                return False
            left, self._newest = self._newest, None
        try:
            self.feed.observe(self._understood(left), starts=False)
            self._failed = False
        except Exception as error:  # a page that does not follow is better than none
            self._cache = None
            words = f"the live view could not follow ({type(error).__name__}: {error})"
            self.feed.trouble(words)
            if not self._failed:
                self._say(words)
            self._failed = True
        return True

    def _understood(self, left: _Round) -> SlurmCluster:
        """Return the cluster after a round: what was placed has its node, as the brain has it."""
        view = left.view
        if left.placed:
            tasks = dict(view.snapshot.tasks)
            for name, node in left.placed.items():
                tasks[name] = replace(tasks[name], on=node)
            snapshot = replace(view.snapshot, tasks=tasks)
            view = replace(view, snapshot=snapshot, released={**view.released, **left.placed})
        if self._cache is None or self._cache.policy != left.policy:
            self._cache = SchedulerCache(left.policy)
        self._cache.follow(view.snapshot)
        return SlurmCluster(left.site, left.picture, view, self._cache)

    # The thread

    def _run(self) -> None:
        while not self._stopping:
            if self.step():
                continue
            with self._news:
                if self._newest is None:
                    self._news.wait_for(lambda: self._stopping or self._newest is not None)
                else:  # it waits for its time
                    self._news.wait_for(lambda: self._stopping, _POLL)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._news:
            self._stopping = True
            self._news.notify()
        self._thread.join(_LONGEST_STOP)
