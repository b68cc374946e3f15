"""The controller: look at Slurm, let the brain decide, carry it out, again and again.

It keeps nothing that it cannot rebuild from a look. What it remembers (since when a released job
has not started, which jobs Slurm refused lately) only makes it more patient.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from drfh.engines.cache import SchedulerCache
from drfh.engines.slurm import actions as orders
from drfh.engines.slurm.client import Slurm, SlurmError
from drfh.engines.slurm.cluster import SlurmCluster, reconciled_cluster
from drfh.engines.slurm.config import SlurmConfig
from drfh.engines.slurm.reconcile import Reconciliation, reconcile
from drfh.engines.slurm.state import SlurmJob, SlurmState, read_state
from drfh.engines.snapshot import BlockedCode, BlockedReason, ClusterSnapshot
from drfh.scheduler import Placed

__all__ = ["Controller", "Cycle"]

_LONGEST_BACK_OFF = 300.0
#: Slurm's word for a node that is no choice for a job, such as one that is reserved for others.
_NOT_THERE = "ReqNodeNotAvail"
_WORDS_A_ROUND = 20  # each is a process of its own; the rest has time
_WORTH_NUMBERS = 8  # tasks of arrays
_IN_ONE_GO = 40  # jobs that are pinned before they are released


@dataclass(slots=True)
class Cycle:
    """What one round did.

    Parameters
    ----------
    time
        When the cluster was looked at, seconds since 1970.
    picture, view
        What was seen, and what that means.
    placed
        What the brain decided, in order.
    released
        Jobs that Slurm may start from now on.
    recalled
        Jobs that were put under the hold again: job → why.
    failed
        What Slurm refused: job → words; an empty key for what names no job.
    decision_seconds, seconds
        Time of the brain, and of the whole round.
    fresh
        The brain started afresh.
    """

    time: float
    picture: SlurmState
    view: Reconciliation
    placed: list[Placed] = field(default_factory=list)
    released: list[str] = field(default_factory=list)
    recalled: dict[str, BlockedReason] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    decision_seconds: float = 0.0
    seconds: float = 0.0
    fresh: bool = False

    @property
    def busy(self) -> bool:
        """Whether something was asked of Slurm, so that the next look shows something new."""
        seen = self.view
        asked = (seen.to_hold, seen.to_give_back, seen.to_park, seen.to_collect, seen.to_keep)
        return bool(self.placed or self.recalled or any(asked))


@dataclass(slots=True)
class _Refusals:
    """How often Slurm has refused a job in a row, until when it is left alone, and by which nodes.

    `nodes` did not take it, and are left out until the time there: they may be reserved for
    others, now or before the job would end.
    """

    times: int = 0
    until: float = 0.0
    why: str = ""
    nodes: dict[str, float] = field(default_factory=dict)


class Controller:
    """Drives Slurm.

    Parameters
    ----------
    slurm
        Its commands.
    site
        How the site wants it.
    cache
        The brain.
    patience
        Seconds that a released job may wait for its node before it is taken back.
    batch
        Most jobs that are placed in one round.
    noted
        Called in each round after the decision and before anything is done about it, with the
        time, what was snapshot and what was placed: the journal.
    clock
        Seconds since 1970.
    """

    def __init__(
        self,
        slurm: Slurm,
        site: SlurmConfig,
        cache: SchedulerCache,
        *,
        patience: float = 60.0,
        batch: int = 200,
        noted: Callable[[float, ClusterSnapshot, list[Placed]], None] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.slurm, self.site, self.cache = slurm, site, cache
        self.patience, self.batch, self.noted, self.clock = patience, batch, noted, clock
        self._waiting_since: dict[str, float] = {}
        self._refusals: dict[str, _Refusals] = {}
        self._hoped: dict[str, str] = {}  # what the last round released: job → node

    def forget(self) -> None:
        """Drop everything that was remembered, as after a restart."""
        self.cache = SchedulerCache(self.cache.policy, seed=self.cache.seed)
        self._waiting_since.clear()
        self._refusals.clear()
        self._hoped.clear()

    def read_state(self) -> SlurmState:
        """Read nodes and jobs."""
        nodes, jobs = self.slurm.nodes(), self.slurm.jobs()
        return read_state(
            nodes, jobs, self.clock(), memory=self.site.memory, linear=self.site.linear
        )

    def cycle(self) -> Cycle:
        """Go round once; raise :class:`SlurmError` if Slurm cannot be read."""
        started = time.perf_counter()
        picture = self.read_state()
        seen = self._view(picture)
        if self._learn(seen, picture.time):
            seen = self._view(picture)
        before, starts = time.perf_counter(), self.cache.starts
        self.cache.follow(seen.snapshot)
        placed = self.cache.place(self.batch)
        done = Cycle(picture.time, picture, seen, placed, fresh=self.cache.starts > starts)
        done.decision_seconds = time.perf_counter() - before
        if self.noted is not None:
            self.noted(picture.time, seen.snapshot, placed)
        self._put_in_order(done)
        self._carry_out(done)
        done.seconds = time.perf_counter() - started
        return done

    def cluster(self, cycle: Cycle) -> SlurmCluster:
        """Return the cluster as a cycle found it."""
        return reconciled_cluster(cycle.picture, self.site, cycle.view, self.cache)

    # What was learned from the look

    def _view(self, picture: SlurmState) -> Reconciliation:
        now = picture.time
        avoided = {
            name: frozenset(node for node, until in known.nodes.items() if until > now)
            for name, known in self._refusals.items()
        }
        return reconcile(picture, self.site, self._back_off(now), avoided)

    def _back_off(self, now: float) -> dict[str, BlockedReason]:
        return {
            name: BlockedReason(
                BlockedCode.BACK_OFF,
                "Slurm did not take it",
                f" ({known.why}); tried again in {known.until - now:.0f} s",
            )
            for name, known in self._refusals.items()
            if known.until > now
        }

    def _learn(self, seen: Reconciliation, now: float) -> bool:
        """Note what became of what we released; return whether a job is to be left alone now."""
        news = False
        for name in list(self._refusals):
            job = seen.jobs.get(name)
            if job is None or job.on:
                del self._refusals[name]
        for name, why in self._hoped.items():
            task = seen.snapshot.tasks.get(name)
            if task is not None and task.on is None and task.blocked is None:
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

    def _avoid(self, name: str, node: str, done: Cycle) -> None:
        """Note that a node did not take a job, which may go elsewhere at once."""
        known = self._refusals.setdefault(name, _Refusals())
        known.nodes[node] = done.time + _LONGEST_BACK_OFF
        allowed = done.view.jobs[name].allowed
        if not (done.picture.nodes.keys() if allowed is None else allowed) - known.nodes.keys():
            known.nodes.clear()
            self._refuse(name, done.view.jobs[name].reason, done.time)

    # What is asked of Slurm

    def _put_in_order(self, done: Cycle) -> None:
        seen = done.view
        back = dict(seen.to_recall)
        for name, since in self._waiting_since.items():
            job, node = seen.jobs[name], seen.released[name]
            if done.time - since > self.patience or job.reason == _NOT_THERE:
                back[name] = BlockedReason(
                    BlockedCode.NOT_STARTED, f"it did not start on {node}", f" ({job.reason})"
                )
                self._avoid(name, node, done)
        done.recalled = back
        known = seen.known.values()
        self._hold_again(done, {name: seen.jobs[name] for name in back})
        self._park(done)
        lines = [
            *orders.hold(orders.together(seen.to_hold, known)),
            *orders.keep(orders.together(seen.to_keep, known)),
        ]
        self._ask(lines, done)
        giving = orders.together(seen.to_give_back, known)
        orders.give_back(lambda asked: self._ask(asked, done), giving, done.time, self.site.hold_by)
        lines, commands = orders.notes(seen.to_annotate, seen.known)
        self._ask(lines, done)
        for command in commands[:_WORDS_A_ROUND]:
            try:
                self.slurm.call(*command)
            except SlurmError as error:
                done.failed[command[2].removeprefix("JobId=")] = str(error)

    def _park(self, done: Cycle) -> None:
        """Give jobs a begin time far away; release those that have it: without, they would start.

        Those of which that is not sure are released when a look shows it.
        """
        jobs = orders.together(done.view.to_park, done.view.known.values())
        parked = [name for name, job in jobs.items() if orders.is_parked(job)]
        others = {name: job for name, job in jobs.items() if not orders.is_parked(job)}
        failed = self._ask(list(orders.park(others)), done)
        self._ask(list(orders.release([*parked, *orders.without(failed, others)])), done)

    def _hold_again(self, done: Cycle, back: dict[str, SlurmJob]) -> None:
        """Hold what was released or parked; change what keeps it from starting only after that."""
        collecting = orders.together(done.view.to_collect, done.view.known.values())
        free = [*back, *(name for name, job in collecting.items() if job.hold == "no")]
        failed = self._ask(list(orders.hold_again(free, self.site.hold_by)), done)
        held = {name for name in collecting if name not in free} | set(orders.without(failed, free))
        back = {name: job for name, job in back.items() if name in held}
        collecting = {name: job for name, job in collecting.items() if name in held}
        self._ask([*orders.taken_back(back), *orders.collected(collecting, done.time)], done)

    def _carry_out(self, done: Cycle) -> None:
        """Pin what was placed; release what is pinned: Slurm starts some while others wait."""
        where = {one.task: one.server for one in done.placed}
        called = self._numbers(where)
        listed = list(where)
        self._hoped = {}
        for start in range(0, len(listed), _IN_ONE_GO):
            some = listed[start : start + _IN_ONE_GO]
            self._start({name: where[name] for name in some}, called, done)

    def _start(self, where: dict[str, str], called: Mapping[str, str], done: Cycle) -> None:
        """Pin jobs, and release those of which that is sure."""
        lines = [
            orders.pin(called.get(name, name), node, done.view.jobs[name])
            for name, node in where.items()
        ]
        names = {called[name]: name for name in where if name in called}
        failed = self._ask(lines, done, self.slurm.at_once, names)
        good = orders.without(failed, where)
        if failed is None or "" in failed:
            good = self._pinned(where, done)
        self._hoped |= {
            name: (failed or {}).get(name, "its node could not be set")
            for name in where.keys() - set(good)
        }
        failed = self._ask(list(orders.release(good)), done)
        self._hoped |= dict.fromkeys(good, "it was not released")
        if failed is not None:
            done.released += good

    def _pinned(self, where: dict[str, str], done: Cycle) -> list[str]:
        """Return which jobs are on their nodes as asked, by another look.

        Some error was about nobody knows which. A job without its pin would start anywhere, but
        one that cannot be pinned, and says it so, must not keep all others from starting.
        """
        try:
            jobs = self.read_state().jobs
        except SlurmError as error:
            done.failed[""] = str(error)
            return []
        return [
            name
            for name, node in where.items()
            if name in jobs and _is_on(jobs[name], node) and jobs[name].hold == self.site.hold
        ]

    def _numbers(self, names: Iterable[str]) -> dict[str, str]:
        """Return what to call tasks of arrays, so that Slurm is quick about them.

        A task gets a number of its own when it is changed and others of its array are not: to hold
        what is held is the change that changes nothing, and one of them stays out of it. Nobody
        relies on it: a task without a number is called by its name.
        """
        tasks = [name for name in names if "_" in name]
        if len(tasks) < _WORTH_NUMBERS:
            return {}
        last = set({name.partition("_")[0]: name for name in tasks}.values())
        first = [name for name in tasks if name not in last]
        try:
            self.slurm.together(orders.hold_again(first, self.site.hold_by))
            found = self.slurm.numbers(tasks)
        except SlurmError:
            return {}
        return {name: found[name] for name in tasks if name in found}

    def _ask(
        self,
        lines: list[str],
        done: Cycle,
        how: Callable[[list[str]], dict[str, str]] | None = None,
        names: Mapping[str, str] | None = None,
    ) -> dict[str, str] | None:
        """Give lines to scontrol; return what failed, or None if nobody knows.

        `names` are those of jobs that the lines call by something else.
        """
        try:
            failed = (how or self.slurm.together)(lines)
        except SlurmError as error:
            done.failed[""] = str(error)
            return None
        failed = {(names or {}).get(name, name): words for name, words in failed.items()}
        done.failed |= failed
        return failed


def _is_on(job: SlurmJob, node: str) -> bool:
    return job.annotation is not None and job.annotation.pin == node == job.required
