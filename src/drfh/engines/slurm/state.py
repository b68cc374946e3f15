"""The state of a Slurm cluster: nodes, jobs that have not ended, annotations of ours.

An annotation is all that must survive the controller. It stands in the job's ``AdminComment``,
which only administrators can write. Text without blanks, as ``scontrol`` takes it from its input:
``drfh;pin=n3;nodes=n[1-4];restarts=0``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from drfh.errors import InputError
from drfh.wire.documents import mapping
from drfh.wire.slurm.notation import array_indices
from drfh.wire.slurm.records import EligibleNodes, JobRecord, SlurmNode, add_nodes

__all__ = [
    "DAY",
    "DEFERRED_UNTIL",
    "FLAGS",
    "HELD_UNTIL",
    "PREFIX",
    "Annotation",
    "SlurmJob",
    "SlurmState",
    "read_annotation",
    "read_state",
]

#: Begin times with a meaning: held by its owner (2099); deferred until another job ends (2098).
#: Slurm checks dependencies only of jobs that are not held, so a begin time holds those.
HELD_UNTIL, DEFERRED_UNTIL = 4_070_908_800, 4_039_372_800
#: Tolerance of a begin time in seconds, as commands write local time.
DAY = 86_400

#: Start of the text.
PREFIX = "drfh"
#: The flags in the text.
FLAGS = {"held": "held", "deferred": "parked"}


@dataclass(frozen=True, slots=True)
class Annotation:
    """What drfh must remember of a managed job.

    Parameters
    ----------
    held
        Its owner holds it.
    deferred
        It waits for another job, under a begin time instead of a hold.
    begin
        The begin time that its owner had asked for before that; seconds since 1970, or 0.
    pin
        Node on which it was placed last; None: it was never placed.
    nodes
        The node list that its owner asked for, which the pin has replaced.
    restarts
        How often it had been restarted when it was placed.
    most
        The largest number of nodes that its owner allowed; 0: not said.
    refused
        Why it is not placed, as text.

    Examples
    --------
    >>> annotation = Annotation(pin="n3", nodes="n[1-4]", restarts=1)
    >>> str(annotation)
    'drfh;pin=n3;nodes=n[1-4];restarts=1'
    >>> read_annotation(str(annotation)) == annotation
    True
    """

    held: bool = False
    deferred: bool = False
    begin: int = 0
    pin: str | None = None
    nodes: str = ""
    restarts: int = 0
    most: int = 0
    refused: str = ""

    def __str__(self) -> str:
        parts = [PREFIX]
        parts += [flag for name, flag in FLAGS.items() if getattr(self, name)]
        if self.pin is not None:
            parts.append(f"pin={self.pin}")
        for name in ("begin", "nodes", "restarts", "most", "refused"):
            value = getattr(self, name)
            if value or (name == "restarts" and self.pin is not None):
                parts.append(f"{name}={value}")
        return ";".join(parts)


def read_annotation(comment: Any) -> Annotation | None:
    """Return the annotation in an ``AdminComment``; None if it is not drfh's.

    Examples
    --------
    >>> read_annotation("drfh") == Annotation(), read_annotation("from the help desk")
    (True, None)
    """
    if not isinstance(comment, str):
        return None
    first, *parts = comment.strip().split(";")
    if first != PREFIX:
        return None
    facts: dict[str, str] = {}
    for part in parts:
        name, _, value = part.partition("=")
        facts[name] = value
    return Annotation(
        held=FLAGS["held"] in facts,
        deferred=FLAGS["deferred"] in facts,
        begin=_count(facts.get("begin")),
        pin=facts.get("pin") or None,
        nodes=facts.get("nodes", ""),
        restarts=_count(facts.get("restarts")),
        most=_count(facts.get("most")),
        refused=facts.get("refused", ""),
    )


def _count(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() else 0


@dataclass(frozen=True, slots=True)
class SlurmJob:
    """A job, or one task of an array, that waits or holds nodes.

    Parameters
    ----------
    name
        As ``scontrol`` takes it: ``12``, or ``12_3`` for a task of an array.
    order
        Number of the job or array, and of the task.
    owner
        Names by kind: user, account, partition.
    partitions
        Those that it may run in.
    on
        What it holds on each node; empty while it waits.
    demand
        What it asks for on a node.
    nodes
        How many nodes it asks for at least.
    tasks
        How many processes it starts.
    most_nodes
        How many nodes it allows at most; 0: not said.
    required
        The node list that Slurm has for it now; ours if it is pinned.
    allowed
        Nodes that its owner allows, by partition, constraint and lists; None: all.
    whole
        ``node`` if it takes whole nodes, ``memory`` if all memory of a node, or empty.
    hold
        ``no``, ``user`` (which is also ours), ``admin``, ``requeued`` (somebody has put it back
        under a hold, by scontrol requeuehold), or ``failed``.
    depends
        The jobs that it waits for, as Slurm writes them; empty if there are none.
    begins
        It must not start before; seconds since 1970, or 0.
    reserved
        It asks for a reservation.
    array, array_most
        Number of its array, and how many of that may run at once (0: all).
    annotation
        Ours, if it has one.
    restarts
        How often it has been restarted.
    since, limit
        When it was submitted, or started if it runs; seconds that it may run.
    reason
        Slurm's word for why it waits.
    """

    name: str
    order: tuple[int, int]
    owner: Mapping[str, str]
    partitions: tuple[str, ...]
    on: Mapping[str, Mapping[str, float]]
    demand: Mapping[str, float]
    nodes: int
    tasks: int
    most_nodes: int
    required: str
    allowed: frozenset[str] | None
    whole: str
    hold: str
    depends: str
    begins: float
    reserved: bool
    array: str | None
    array_most: int
    annotation: Annotation | None
    restarts: int
    since: float
    limit: float | None
    reason: str


@dataclass(frozen=True, slots=True)
class SlurmState:
    """All nodes in Slurm's order, and jobs by name.

    `time` is in seconds since 1970; `broken` has a line for each entry that could not be read.
    """

    time: float
    nodes: Mapping[str, SlurmNode]
    jobs: Mapping[str, SlurmJob]
    broken: tuple[str, ...] = ()


@dataclass(slots=True)
class _StateReader:
    """Reads jobs one by one, by Slurm's configuration."""

    eligible: EligibleNodes
    memory: bool
    linear: bool

    def read(self, job: JobRecord) -> Iterator[SlurmJob]:
        if job.state == "running":
            yield self._one(job)
        elif job.state == "pending":
            one = self._one(job)
            listed = job.entry.get("array_task_string")
            if one.array is None or not listed:
                yield one
                return
            for index in array_indices(listed, "array_task_string"):
                yield replace(one, name=f"{one.array}_{index}", order=(one.order[0], index))

    def _one(self, job: JobRecord) -> SlurmJob:
        running = job.state == "running"
        own = job.whole("job_id")
        if own is None:
            raise InputError("job_id", "must be a whole number", job.entry.get("job_id"))
        array, index = job.array, job.number("array_task_id")
        name, order = str(own), (own, 0)
        if array is not None:
            name = f"{array}_{index:.0f}" if index is not None else array
            order = (int(array), int(index or 0))
        annotation = read_annotation(job.entry.get("admin_comment"))
        required = str(job.entry.get("required_nodes") or "")
        if annotation is not None and annotation.pin is not None and required == annotation.pin:
            # What its owner asked for.
            job = JobRecord({**job.entry, "required_nodes": annotation.nodes})
        limit = job.number("time_limit")
        return SlurmJob(
            name=name, order=order, owner=_owner(job.entry), partitions=job.partitions,
            on={n: self._counted(held) for n, held in job.held.items()} if running else {},
            demand=self._counted(job.demand), nodes=job.node_count,
            tasks=int(job.number("tasks") or 1), most_nodes=int(job.number("max_nodes") or 0),
            required=required, allowed=self._allowed(job), whole=self._takes_whole(job),
            hold=_hold(job, annotation), depends=str(job.entry.get("dependency") or ""),
            begins=job.number("eligible_time") or 0.0,
            reserved=bool(job.entry.get("resv_name")), array=array,
            array_most=int(job.number("array_max_tasks") or 0),
            annotation=annotation, restarts=int(job.number("restart_cnt") or 0),
            since=job.number("start_time" if running else "submit_time") or 0.0,
            limit=None if limit is None else limit * 60.0, reason=job.reason,
        )  # fmt: skip

    def _allowed(self, job: JobRecord) -> frozenset[str] | None:
        try:
            return self.eligible.of(job)
        except InputError:
            if job.state == "running":  # it has its nodes, and they must be counted
                return None
            raise

    def _counted(self, demand: Mapping[str, float]) -> dict[str, float]:
        """Return what Slurm counts of a demand."""
        return {r: a for r, a in demand.items() if a > 0 and (self.memory or r != "memory")}

    def _takes_whole(self, job: JobRecord) -> str:
        if self.linear or job.is_exclusive:
            return "node"
        return "memory" if self.memory and not job.asks_for_memory else ""


def read_state(
    nodes: Iterable[Any],
    jobs: Iterable[Any],
    now: float,
    *,
    memory: bool = True,
    linear: bool = False,
) -> SlurmState:
    """Read the entries of ``sinfo --json`` and ``squeue --json``.

    Parameters
    ----------
    now
        Seconds since 1970.
    memory
        Slurm counts memory (``SelectTypeParameters`` has MEMORY).
    linear
        Slurm gives whole nodes only (``select/linear``).

    Examples
    --------
    >>> node = {"name": "n0", "cpus": 4, "real_memory": 1024, "state": "idle", "partitions": ["a"]}
    >>> job = {"job_id": 7, "job_state": "PENDING", "user_name": "ann", "partition": "a",
    ...        "tres_req_str": "cpu=1,mem=100M,node=1", "memory_per_node": 100, "priority": 0,
    ...        "state_reason": "JobHeldUser", "admin_comment": "drfh"}
    >>> state = read_state([node], [job], 0.0)
    >>> state.jobs["7"].demand, state.jobs["7"].hold
    ({'cpu': 1.0, 'memory': 104857600.0}, 'user')
    """
    found: dict[str, SlurmNode] = {}
    broken_nodes: list[str] = []
    for position, entry in enumerate(nodes):
        try:
            add_nodes(entry, "nodes", found)
        except InputError as error:
            error.place = f"nodes[{position}]"
            broken_nodes.append(str(error))
    if not memory:
        for name, node in found.items():
            amounts = {r: a for r, a in node.amounts.items() if r != "memory"}
            found[name] = replace(node, amounts=amounts)
    reader = _StateReader(EligibleNodes(found), memory, linear)
    kept: dict[str, SlurmJob] = {}
    broken: list[str] = []
    for position, entry in enumerate(jobs):
        try:
            for job in reader.read(JobRecord(mapping(entry, "job"))):
                kept[job.name] = job
        except InputError as error:
            error.place = _place(entry, position)
            broken.append(str(error))
        except Exception as error:  # one strange job must not hide all the others
            broken.append(f"{_place(entry, position)}: {type(error).__name__}: {error}")
    return SlurmState(now, found, kept, (*broken, *broken_nodes))


def _place(entry: Any, position: int) -> str:
    """Return what to call an entry: by its number, which stays, if it has one."""
    known = entry.get("job_id") if isinstance(entry, dict) else None
    return f"jobs[{position}]" if known is None else f"job {known}"


def _owner(job: Mapping[str, Any]) -> dict[str, str]:
    # Users choose their accounts: one of blanks must not hide what the job holds.
    return {
        "user": _cleaned(job.get("user_name")) or f"uid-{job.get('user_id')}",
        "account": _cleaned(job.get("account")) or "(no account)",
        "partition": _cleaned(job.get("partition")) or "(no partition)",
    }


def _cleaned(name: Any) -> str:
    return str(name or "").encode(errors="replace").decode().strip()


def _hold(job: JobRecord, annotation: Annotation | None) -> str:
    hold = job.hold
    if hold != "requeued":
        return hold
    # Slurm says so until somebody holds or releases it: it may be old.
    restarts = job.number("restart_cnt") or 0
    return "user" if annotation is None or annotation.restarts == restarts else "requeued"
