"""The interface of an engine: a live cluster that drfh observes, whatever runs it.

Status, explanations, audits, journals and the live view use what is here. An engine derives its
cluster from :class:`LiveCluster` and adds only what it alone knows.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

from drfh.engines.cache import SchedulerCache
from drfh.engines.lock import ControllerLock, is_running
from drfh.engines.snapshot import BlockedCode, BlockedReason, ClusterSnapshot
from drfh.engines.weights import read_weights
from drfh.errors import DrfhError, InputError
from drfh.formatting import format_clock, format_time, join_names
from drfh.model.users import parse_weight
from drfh.scheduler.diagnostics import Why

__all__ = [
    "ControllerFacts",
    "Engine",
    "EngineError",
    "LiveCluster",
    "TaskExplanation",
    "TaskState",
]

_YEAR = 365 * 86_400.0  # a limit as long as that is none
_NAMED = 3
#: Reasons whose text is a predicate: "job 7 waits for another job", not "waits: waits for …".
_PREDICATES = {
    BlockedCode.BEGIN_TIME,
    BlockedCode.DEPENDENCY,
    BlockedCode.RESUMING,
    BlockedCode.UNSUPPORTED,
}


class EngineError(DrfhError):
    """The engine of a cluster refused, or did not answer in time."""


class TaskState(StrEnum):
    """What a task does; the values are those of JSON output."""

    RUNNING = "running"
    STARTING = "starting"  # released to its node
    WAITING = "waiting"
    BLOCKED = "aside"  # must not be placed now
    NEVER = "never"  # no node could hold it
    UNMANAGED = "outside"  # left to the engine's own scheduler
    UNKNOWN = "unknown"
    ARRAY = "array"  # several tasks


@dataclass(frozen=True, slots=True)
class TaskExplanation:
    """Why a task waits, or where it runs.

    Parameters
    ----------
    job, user
        The task as the engine names it, and whose it is.
    text
        The explanation in a sentence or a few.
    nodes
        Where it runs or will.
    engine, engine_reason
        The engine, and its own word for why the task waits.
    why
        What the scheduler says of it.
    tasks
        Of an array: how many tasks are in each state.
    first
        Of an array: the explanation of the first task that does not run.
    """

    job: str
    user: str | None
    state: TaskState
    text: str
    nodes: tuple[str, ...] = ()
    engine: str = ""
    engine_reason: str = ""
    why: Why | None = None
    tasks: Mapping[str, int] = field(default_factory=dict)
    first: TaskExplanation | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data; the engine's reason is under the engine's name.

        Examples
        --------
        >>> unknown = TaskExplanation("7", None, TaskState.UNKNOWN, "7 is gone.", engine="slurm")
        >>> unknown.to_dict()["state"], unknown.to_dict()["slurm"]
        ('unknown', '')
        """
        return {
            "job": self.job,
            "user": self.user,
            "state": str(self.state),
            "text": self.text,
            "nodes": list(self.nodes),
            self.engine: self.engine_reason,
            "why": None if self.why is None else self.why.to_dict(),
            "tasks": dict(self.tasks),
            "first": None if self.first is None else self.first.to_dict(),
        }


@dataclass(frozen=True)
class LiveCluster:
    """A live cluster as an engine observed it at one moment.

    Parameters
    ----------
    time
        Seconds since 1970.
    cache
        A scheduler that holds the snapshot, and its policy.
    starting
        Tasks that were released to their nodes and do not run yet.
    broken
        A line for each entry of the engine that could not be read.
    notes
        What else an operator should know.

    Examples
    --------
    >>> from drfh.engines.snapshot import NodeSnapshot, TaskSnapshot
    >>> tasks = {"7": TaskSnapshot("ann", {"cpu": 6.0}, (7, 0))}
    >>> node = NodeSnapshot({"cpu": 4.0}, {"cpu": 4.0})
    >>> snapshot = ClusterSnapshot({"n0": node}, tasks)
    >>> cache = SchedulerCache("best-fit-drfh")
    >>> cache.follow(snapshot)
    >>> print(LiveCluster(0.0, snapshot, cache).explain("7").text)
    job 7 of ann never runs: it needs 6 cpu, and no server has more than 4 cpu.
    """

    time: float
    snapshot: ClusterSnapshot
    cache: SchedulerCache
    starting: Collection[str] = frozenset()
    broken: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    #: The engine in commands and data, and as people write it.
    engine: ClassVar[str] = "cluster"
    title: ClassVar[str] = "the cluster"

    # What an engine with names, jobs and schedulers of its own replaces

    @classmethod
    def job_name(cls, text: str) -> str:
        """Return the name of a job as it was typed; raise unless it can be one."""
        return text.strip()

    def unmanaged(self) -> Mapping[str, BlockedReason]:
        """Return the jobs that wait, and not for drfh: job → why."""
        return {}

    def explain(self, job: str) -> TaskExplanation:
        """Return why a job waits, or where it runs."""
        name = self.job_name(job)
        task = self.snapshot.tasks.get(name)
        if task is not None:
            return self.explain_task(name, task.user)
        return self.explain_unknown(name)

    # Parts of an explanation

    def task_state(self, name: str) -> TaskState:
        """Return the state of a task of the snapshot."""
        task = self.snapshot.tasks[name]
        if task.on is not None:
            return TaskState.STARTING if name in self.starting else TaskState.RUNNING
        if task.blocked is not None:
            return TaskState.BLOCKED
        never = self.cache.scheduler.state(name) == "never"
        return TaskState.NEVER if never else TaskState.WAITING

    def explain_task(
        self, name: str, user: str, engine_reason: str = "", *, quoted: bool = False
    ) -> TaskExplanation:
        """Return the explanation of a task of the snapshot.

        Parameters
        ----------
        engine_reason
            The engine's word for why it waits.
        quoted
            Whether that says more than drfh, and belongs in the text.
        """
        task, state = self.snapshot.tasks[name], self.task_state(name)
        if state is TaskState.RUNNING:
            assert task.on is not None
            return self.explain_running(name, user, [task.on], task.since, task.limit)
        who, says = f"job {name} of {user}", self._says(engine_reason) if quoted else ""
        nodes = () if task.on is None else (task.on,)
        why = None
        if task.on is not None:
            text = f"{who} is released to {task.on}, {self.title} starts it{says}."
        elif task.blocked is not None:
            joint = " " if task.blocked.code in _PREDICATES else " waits: "
            text = f"{who}{joint}{task.blocked}{says}."
        else:
            why = self.cache.scheduler.why(name)
            text = f"job {why.text}"
        return TaskExplanation(name, user, state, text, nodes, self.engine, engine_reason, why)

    def explain_running(
        self, name: str, user: str, nodes: Sequence[str], since: float, limit: float | None
    ) -> TaskExplanation:
        """Return the explanation of a job that runs.

        Parameters
        ----------
        since
            Seconds since 1970; 0 if that is not known.
        limit
            Seconds that it may run at most; None if there is no limit.
        """
        times = ""
        if since:
            started = format_time(since, date=True)
            most = (
                ""
                if limit is None or limit >= _YEAR
                else f", for at most {format_clock(round(limit))}"
            )
            times = f" since {started} ({format_clock(round(max(self.time - since, 0.0)))}{most})"
        text = f"job {name} of {user} runs on {_listed(nodes)}{times}."
        return TaskExplanation(name, user, TaskState.RUNNING, text, tuple(nodes), self.engine)

    def explain_unmanaged(
        self,
        name: str,
        user: str,
        reason: BlockedReason,
        engine_reason: str = "",
        *,
        quoted: bool = False,
    ) -> TaskExplanation:
        """Return the explanation of a job that waits, and not for drfh.

        Parameters
        ----------
        reason
            Why it is not drfh's to place.
        engine_reason, quoted
            As of :meth:`explain_task`.
        """
        says = self._says(engine_reason) if quoted else ""
        text = f"job {name} of {user} is left to {self.title}'s own scheduler: {reason}{says}."
        state = TaskState.UNMANAGED
        return TaskExplanation(name, user, state, text, (), self.engine, engine_reason)

    def explain_unknown(self, name: str) -> TaskExplanation:
        """Return the explanation of a job that is not there."""
        text = f"job {name} is not in {self.title}'s queue: it has ended, or there was never one."
        return TaskExplanation(name, None, TaskState.UNKNOWN, text, engine=self.engine)

    def _says(self, engine_reason: str) -> str:
        return f" ({self.title} says: {engine_reason})"

    # After a cycle

    def after(self, placed: Mapping[str, str], cache: SchedulerCache) -> Self:
        """Return the cluster with placed tasks on their nodes, in another cache.

        Parameters
        ----------
        placed
            Task → node, as :attr:`SchedulerCache.placed` has it.
        cache
            Follows the result.
        """
        tasks = dict(self.snapshot.tasks)
        for name, node in placed.items():
            tasks[name] = replace(tasks[name], on=node)
        snapshot = replace(self.snapshot, tasks=tasks) if placed else self.snapshot
        cache.follow(snapshot)
        starting = frozenset((*self.starting, *placed))
        return replace(self, snapshot=snapshot, cache=cache, starting=starting)


@dataclass(frozen=True, slots=True)
class ControllerFacts:
    """What can be known of the controller of a cluster.

    Attributes
    ----------
    running : bool or None
        Whether it runs; None if that cannot be known here.
    facts : mapping
        What it wrote down: pid, host, started, and how it shares the cluster.

    Examples
    --------
    >>> ControllerFacts(True, {"user_by": "team"}).one_of("user_by", ("user", "account"), "user")
    'user'
    """

    running: bool | None
    facts: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the lock of a controller; nothing is known if others cannot read it.

        Examples
        --------
        >>> ControllerFacts.read(Path("/no/such/place/drfh.lock")).running is None
        True
        """
        try:
            facts = ControllerLock.read(path)
        except InputError:  # it is not for everybody to read
            return cls(None, {})
        if facts is not None:
            return cls(is_running(facts), facts)
        # The folder may be that of another host: then nothing can be known.
        visible = os.access(path.parent, os.R_OK | os.X_OK)
        return cls(False if visible else None, {})

    # How it shares the cluster; what has a wrong type counts as absent

    def one_of(self, key: str, known: Sequence[str], default: str) -> str:
        """Return a fact that is one of the known ones, or the default."""
        found = self.facts.get(key)
        return found if isinstance(found, str) and found in known else default

    def names(self, key: str) -> tuple[str, ...]:
        """Return a list of names."""
        found = self.facts.get(key)
        return tuple(map(str, found)) if isinstance(found, list) else ()

    def policy(self, default: str) -> str | Mapping[str, Any]:
        """Return the policy by which it shares the cluster, or the default."""
        found = self.facts.get("policy")
        return found if isinstance(found, str | dict) and found else default

    def weights(self) -> dict[str, float]:
        """Return the weights of users, of the facts or the file that they name."""
        found = self.facts.get("weights")
        if isinstance(found, str) and found:
            return read_weights(Path(found))
        if not isinstance(found, dict):
            return {}
        return {str(name): parse_weight(value, str(name)) for name, value in found.items()}

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data, ready for JSON."""
        known = {key: self.facts.get(key) for key in ("pid", "host", "started")}
        return {"running": self.running, **known}

    @property
    def text(self) -> str:
        """It in a line; empty if nothing can be known.

        Examples
        --------
        >>> ControllerFacts(False, {}).text
        'no controller runs'
        """
        if not self.facts:
            return {False: "no controller runs", True: "controller runs", None: ""}[self.running]
        who = f"process {self.facts['pid']} on {self.facts['host']}"
        since = f"since {_local_time(str(self.facts['started']))}"
        if self.running is None:
            return f"controller: {who} {since}, if it still runs"
        if self.running:
            return f"controller runs: {who} {since}"
        return f"no controller runs: {who} was killed"


class Engine(Protocol):
    """A connection to a live cluster, as the commands of every engine use it."""

    @property
    def name(self) -> str:
        """The name of the cluster."""

    @property
    def user_by(self) -> str:
        """Who shares it, such as ``user`` or ``account``."""

    @property
    def policy(self) -> str | Mapping[str, Any]:
        """The policy by which it is shared."""

    @property
    def sharing(self) -> Mapping[str, Any]:
        """What the header of a journal has on how it is shared, ready for JSON."""

    @property
    def controller(self) -> ControllerFacts:
        """Who schedules it."""

    @property
    def cluster_type(self) -> type[LiveCluster]:
        """The class of what it observes."""

    def observe(self) -> LiveCluster:
        """Read the state of the cluster once."""

    def snapshot(self) -> ClusterSnapshot:
        """Read it with all tasks that drfh could place, also those that it does not manage."""


def _listed(names: Sequence[str]) -> str:
    most = _NAMED if len(names) > _NAMED + 1 else None
    return join_names(names, most=most, thing="other node")


def _local_time(written: str) -> str:
    try:
        when = datetime.fromisoformat(written)
    except ValueError:
        return written
    return format_time(when.timestamp(), date=True)
