"""One look at a Slurm cluster: its nodes, and its jobs that have not ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from drfh.engines.slurm.annotations import Annotation, read_annotation
from drfh.errors import InputError
from drfh.files.ledger import Ledger
from drfh.wire.documents import mapping
from drfh.wire.slurm import (
    ENDED,
    HOLDING,
    WAITING,
    Node,
    SlurmJobs,
    array_indices,
    array_of,
    by_node,
    evenly,
    expand_nodes,
    number,
    take_nodes,
    tres,
    words,
)

__all__ = ["SlurmJob", "SlurmState", "read_state"]

_REQUEUED = "job requeued in held state"  # of scontrol requeuehold
_FAILED_HOLDS = {"JobHoldMaxRequeue", "launch_failed_requeued_held", "RequeueHold"}


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
    mark
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
    mark: Annotation | None
    restarts: int
    since: float
    limit: float | None
    reason: str


@dataclass(frozen=True, slots=True)
class SlurmState:
    """All nodes in Slurm's order, and jobs by name.

    `broken` has a line for each entry that could not be read.
    """

    time: float
    nodes: Mapping[str, Node]
    jobs: Mapping[str, SlurmJob]
    broken: tuple[str, ...] = ()


@dataclass(slots=True)
class _StateReader:
    """Reads jobs one by one."""

    rules: SlurmJobs
    memory: bool
    linear: bool

    def read(self, job: Mapping[str, Any]) -> Iterator[SlurmJob]:
        states = {word.upper() for word in words(job.get("job_state"), "job_state")}
        if states & HOLDING:
            yield self._one(job, holding=True)
        elif states & WAITING:
            yield from self._waiting(job)
        elif not states & ENDED:
            raise InputError("job_state", "must be a state of Slurm", job.get("job_state"))

    def _waiting(self, job: Mapping[str, Any]) -> Iterator[SlurmJob]:
        one = self._one(job, holding=False)
        listed = job.get("array_task_string")
        if one.array is None or not listed:
            yield one
            return
        for index in array_indices(listed, "array_task_string"):
            name = f"{one.array}_{index}"
            yield replace(one, name=name, order=(one.order[0], index))

    def _one(self, job: Mapping[str, Any], *, holding: bool) -> SlurmJob:
        own = _whole(job.get("job_id"), "job_id")
        array = array_of(job)
        index = number(job.get("array_task_id"), "array_task_id")
        name, order = str(own), (own, 0)
        if array is not None:
            name = f"{array}_{index:.0f}" if index is not None else array
            order = (int(array), int(index or 0))
        mark = read_annotation(job.get("admin_comment"))
        required = str(job.get("required_nodes") or "")
        if mark is not None and mark.pin is not None and required == mark.pin:
            job = {**job, "required_nodes": mark.nodes}  # what its owner asked for
        asked = max(_whole(job.get("node_count") or 1, "node_count"), 1)
        names = expand_nodes(job.get("nodes"), "nodes") if holding else ()
        if holding and not names:
            raise InputError("nodes", "must name the nodes of a job that runs", job.get("nodes"))
        total = tres(job.get("tres_alloc_str"), "tres_alloc_str") if holding else {}
        total = total or tres(job.get("tres_req_str"), "tres_req_str")
        on = (
            dict(zip(names, map(self._counted, by_node(job, names, total)), strict=True))
            if holding
            else {}
        )
        limit = number(job.get("time_limit"), "time_limit")
        since = number(job.get("start_time" if holding else "submit_time"), "time") or 0.0
        return SlurmJob(
            name=name, order=order, owner=_owner(job),
            partitions=words(job.get("partition"), "partition"), on=on,
            demand=self._counted(evenly(job, asked, total)), nodes=asked,
            tasks=int(number(job.get("tasks"), "tasks") or 1),
            most_nodes=int(number(job.get("max_nodes"), "max_nodes") or 0),
            required=required, allowed=self._allowed(job, asked, holding=holding),
            whole=self._takes_whole(job), hold=_hold(job, mark),
            depends=str(job.get("dependency") or ""),
            begins=number(job.get("eligible_time"), "eligible_time") or 0.0,
            reserved=bool(job.get("resv_name")), array=array,
            array_most=int(number(job.get("array_max_tasks"), "array_max_tasks") or 0),
            mark=mark, restarts=int(number(job.get("restart_cnt"), "restart_cnt") or 0),
            since=since, limit=None if limit is None else limit * 60.0,
            reason=str(job.get("state_reason") or ""),
        )  # fmt: skip

    def _allowed(
        self, job: Mapping[str, Any], nodes: int, *, holding: bool
    ) -> frozenset[str] | None:
        try:
            return self.rules.allowed(job, nodes)
        except InputError:
            if holding:  # it has its nodes, and they must be counted
                return None
            raise

    def _counted(self, demand: Mapping[str, float]) -> dict[str, float]:
        """Return what Slurm counts of a demand."""
        return {r: a for r, a in demand.items() if a > 0 and (self.memory or r != "memory")}

    def _takes_whole(self, job: Mapping[str, Any]) -> str:
        shared = job.get("shared", job.get("exclusive"))
        if self.linear or shared in ("none", "true", True) or shared == ["true"]:
            return "node"
        asked = (job.get("memory_per_node"), job.get("memory_per_cpu"))
        each = [number(amount, "memory") for amount in asked]
        return "memory" if self.memory and not any(each) else ""


def read_state(
    nodes: Iterable[Any],
    jobs: Iterable[Any],
    now: float,
    *,
    memory: bool = True,
    linear: bool = False,
) -> SlurmState:
    """Return what the entries of ``sinfo --json`` and ``squeue --json`` say.

    Parameters
    ----------
    nodes, jobs
        The entries.
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
    >>> picture = read_state([node], [job], 0.0)
    >>> picture.jobs["7"].demand, picture.jobs["7"].hold
    ({'cpu': 1.0, 'memory': 104857600.0}, 'user')
    """
    ledger = Ledger()
    found: dict[str, Node] = {}
    for position, entry in enumerate(nodes):
        take_nodes(entry, "nodes", f"nodes[{position}]", found, ledger)
    if not memory:
        for name, node in found.items():
            amounts = {r: a for r, a in node.machine.amounts.items() if r != "memory"}
            found[name] = replace(node, machine=replace(node.machine, amounts=amounts))
    partitions: dict[str, set[str]] = {}
    for name, node in found.items():
        for partition in node.partitions:
            partitions.setdefault(partition, set()).add(name)
    rules = SlurmJobs({"user_by": "user", "held": "keep"}, ledger, partitions,
                 {name: node.features for name, node in found.items()})  # fmt: skip
    reader = _StateReader(rules, memory, linear)
    kept: dict[str, SlurmJob] = {}
    broken: list[str] = []
    for position, entry in enumerate(jobs):
        try:
            for job in reader.read(mapping(entry, "job")):
                kept[job.name] = job
        except InputError as error:
            error.place = _place(entry, position)
            broken.append(str(error))
        except Exception as error:  # one strange job must not hide all the others
            broken.append(f"{_place(entry, position)}: {type(error).__name__}: {error}")
    broken += [str(oddity.first) for oddity in ledger.oddities]
    return SlurmState(now, found, kept, tuple(broken))


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


def _hold(job: Mapping[str, Any], mark: Annotation | None) -> str:
    reason = str(job.get("state_reason") or "")
    if reason in _FAILED_HOLDS:
        return "failed"
    if number(job.get("priority"), "priority") != 0 and job.get("hold") is not True:
        return "no"
    if reason == "JobHeldAdmin":
        return "admin"
    if job.get("state_description") == _REQUEUED and mark is not None:
        # Slurm keeps these words until somebody holds or releases it: they may be old.
        restarts = number(job.get("restart_cnt"), "restart_cnt") or 0
        return "user" if mark.restarts == restarts else "requeued"
    return "user"


def _whole(value: Any, field_: str) -> int:
    found = number(value, field_)
    if found is None or found != int(found):
        raise InputError(field_, "must be a whole number", value)
    return int(found)
