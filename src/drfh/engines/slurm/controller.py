"""The controller: look at Slurm, let the brain decide, carry it out, again and again.

It keeps nothing that it cannot rebuild from a look. What it remembers (since when a released job
has not started, which jobs Slurm refused lately) only makes it more patient.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from drfh.engines.mirror import Mirror
from drfh.engines.slurm import orders
from drfh.engines.slurm.commands import Slurm, SlurmError
from drfh.engines.slurm.picture import Picture, SlurmJob, look
from drfh.engines.slurm.site import Site
from drfh.engines.slurm.wanting import View, view
from drfh.engines.wanted import Wanted
from drfh.scheduler import Placed

__all__ = ["Controller", "Cycle"]

_LONGEST_BACK_OFF = 300.0


@dataclass(slots=True)
class Cycle:
    """What one round did.

    Parameters
    ----------
    time
        When the cluster was looked at, seconds since 1970.
    view
        What was seen.
    placed
        What the brain decided, in order.
    released
        Jobs that Slurm may start from now on.
    taken_back
        Jobs that were put under the hold again: job → why.
    failed
        What Slurm refused: job → words; an empty key for what names no job.
    decision_seconds, seconds
        Time of the brain, and of the whole round.
    fresh
        The brain started afresh.
    """

    time: float
    view: View
    placed: list[Placed] = field(default_factory=list)
    released: list[str] = field(default_factory=list)
    taken_back: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    decision_seconds: float = 0.0
    seconds: float = 0.0
    fresh: bool = False

    @property
    def busy(self) -> bool:
        """Whether something was asked of Slurm, so that the next look shows something new."""
        seen = self.view
        asked = (seen.to_hold, seen.to_give_back, seen.to_park, seen.to_collect)
        return bool(self.placed or self.taken_back or any(asked))


@dataclass(slots=True)
class _Refusals:
    """How often Slurm has refused a job in a row, and until when it is left alone."""

    times: int = 0
    until: float = 0.0
    why: str = ""


class Controller:
    """Drives Slurm.

    Parameters
    ----------
    slurm
        Its commands.
    site
        How the site wants it.
    mirror
        The brain.
    patience
        Seconds that a released job may wait for its node before it is taken back.
    batch
        Most jobs that are placed in one round.
    noted
        Called in each round after the decision and before anything is done about it, with the
        time, what was wanted and what was placed: the journal.
    clock
        Seconds since 1970.
    """

    def __init__(
        self,
        slurm: Slurm,
        site: Site,
        mirror: Mirror,
        *,
        patience: float = 60.0,
        batch: int = 200,
        noted: Callable[[float, Wanted, list[Placed]], None] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.slurm, self.site, self.mirror = slurm, site, mirror
        self.patience, self.batch, self.noted, self.clock = patience, batch, noted, clock
        self._waiting_since: dict[str, float] = {}
        self._refusals: dict[str, _Refusals] = {}
        self._hoped: dict[str, str] = {}  # what the last round released: job → node

    def forget(self) -> None:
        """Drop everything that was remembered, as after a restart."""
        self.mirror = Mirror(self.mirror.policy, seed=self.mirror.seed)
        self._waiting_since.clear()
        self._refusals.clear()
        self._hoped.clear()

    def look(self) -> Picture:
        """Read nodes and jobs."""
        nodes, jobs = self.slurm.nodes(), self.slurm.jobs()
        return look(nodes, jobs, self.clock(), memory=self.site.memory, linear=self.site.linear)

    def cycle(self) -> Cycle:
        """Go round once; raise :class:`SlurmError` if Slurm cannot be read."""
        started = time.perf_counter()
        picture = self.look()
        seen = view(picture, self.site, self._back_off(picture.time))
        if self._learn(seen, picture.time):
            seen = view(picture, self.site, self._back_off(picture.time))
        before, starts = time.perf_counter(), self.mirror.starts
        self.mirror.follow(seen.wanted)
        placed = self.mirror.place(self.batch)
        done = Cycle(picture.time, seen, placed, fresh=self.mirror.starts > starts)
        done.decision_seconds = time.perf_counter() - before
        if self.noted is not None:
            self.noted(picture.time, seen.wanted, placed)
        self._put_in_order(done)
        self._carry_out(done)
        done.seconds = time.perf_counter() - started
        return done

    # What was learned from the look

    def _back_off(self, now: float) -> dict[str, str]:
        return {
            name: f"Slurm did not take it ({known.why}); tried again in {known.until - now:.0f} s"
            for name, known in self._refusals.items()
            if known.until > now
        }

    def _learn(self, seen: View, now: float) -> bool:
        """Note what became of what we released; return whether a job is to be left alone now."""
        news = False
        for name in list(self._refusals):
            job = seen.jobs.get(name)
            if job is None or job.on:
                del self._refusals[name]
        for name, why in self._hoped.items():
            task = seen.wanted.tasks.get(name)
            if task is not None and task.on is None and not task.aside:
                self._refuse(name, why, now)
                news = True
        self._hoped.clear()
        since = self._waiting_since
        self._waiting_since = {name: since.get(name, now) for name in seen.released}
        return news

    def _refuse(self, name: str, why: str, now: float) -> None:
        known = self._refusals.setdefault(name, _Refusals())
        known.times += 1
        known.why = why
        known.until = now + min(2.0 ** min(known.times - 1, 20), _LONGEST_BACK_OFF)

    # What is asked of Slurm

    def _put_in_order(self, done: Cycle) -> None:
        seen = done.view
        back = dict(seen.to_take_back)
        for name, since in self._waiting_since.items():
            if done.time - since > self.patience:
                job = seen.jobs[name]
                back[name] = f"it did not start on {seen.released[name]} ({job.reason})"
                self._refuse(name, job.reason, done.time)
        done.taken_back = back
        known = seen.known.values()
        self._hold_again(done, {name: seen.jobs[name] for name in back})
        parking = orders.together(seen.to_park, known)
        if parking and self._ask(list(orders.park(parking)), done) == {}:
            # Only then: without its begin time it would start.
            self._ask(list(orders.release(parking)), done)
        giving = orders.together(seen.to_give_back, known)
        lines = [
            *orders.hold(orders.together(seen.to_hold, known)),
            *orders.give_back(giving, done.time, self.site.hold_by),
        ]
        self._ask(lines, done)
        for name, mark in seen.to_note.items():
            try:
                self.slurm.call(*orders.note(name, mark))
            except SlurmError as error:
                done.failed[name] = str(error)

    def _hold_again(self, done: Cycle, back: dict[str, SlurmJob]) -> None:
        """Hold what was released or parked; change what keeps it from starting only after that."""
        collecting = orders.together(done.view.to_collect, done.view.known.values())
        failed = self._ask(list(orders.hold_again([*back, *collecting], self.site.hold_by)), done)
        if failed is None or "" in failed:
            return
        back = {name: job for name, job in back.items() if not _named(failed, name)}
        collecting = {name: job for name, job in collecting.items() if not _named(failed, name)}
        lines = [*orders.taken_back(back), *orders.collected(collecting, done.time)]
        self._ask(lines, done)

    def _carry_out(self, done: Cycle) -> None:
        """Pin what was placed; release what is pinned."""
        where = {one.task: one.server for one in done.placed}
        lines = [orders.pin(name, node, done.view.jobs[name]) for name, node in where.items()]
        failed = self._ask(lines, done)
        if failed is None or "" in failed:
            # Nobody knows which pins hold. A job without one would start anywhere: release none,
            # and see at the next look.
            self._hoped = dict.fromkeys(where, "its node could not be set")
            return
        good = [name for name in where if not _named(failed, name)]
        self._hoped = {
            name: failed.get(name, "its node could not be set") for name in set(where) - set(good)
        }
        failed = self._ask(list(orders.release(good)), done)
        self._hoped |= dict.fromkeys(good, "it was not released")
        done.released = good if failed is not None else []

    def _ask(self, lines: list[str], done: Cycle) -> dict[str, str] | None:
        """Give lines to scontrol; return what failed, or None if nobody knows."""
        try:
            failed = self.slurm.together(lines)
        except SlurmError as error:
            done.failed[""] = str(error)
            return None
        done.failed |= failed
        return failed


def _named(failed: dict[str, str], name: str) -> bool:
    """Return whether an error is about this job, or about the array that it is part of."""
    return name in failed or name.partition("_")[0] in failed
