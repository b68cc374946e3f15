"""Jobs of Slurm → tasks: one for each node that a job has or asks for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from drfh.errors import InputError
from drfh.traces.documents import listing, mapping, text
from drfh.traces.ledger import Ledger
from drfh.traces.records import Task
from drfh.traces.slurm_words import array_tasks, expand_nodes, gres, meets, number, tres, words

__all__ = ["ENDED", "HOLDING", "MIB", "WAITING", "Jobs", "array_of", "by_node", "evenly"]

MIB = 2.0**20
HOLDING = {
    "RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT",
    "RESIZING",
}  # fmt: skip
WAITING = {"PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"}
ENDED = {
    "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL",
    "DEADLINE", "OUT_OF_MEMORY", "REVOKED", "LAUNCH_FAILED", "RECONFIG_FAIL",
}  # fmt: skip
_HELD_FOR = {
    "JobHeldUser", "JobHeldAdmin", "JobHoldMaxRequeue", "Dependency", "DependencyNeverSatisfied",
    "BeginTime",
}  # fmt: skip
_ENDED_WORDS = "jobs that ended, left out"
_HELD_WORDS = "jobs that are held or wait for another job or a time, left out"
_BEYOND_WORDS = "array tasks beyond the array's own limit, left out"
_EMPTY_WORDS = "jobs that ask for nothing, left out"
_MOST_NODES = 1_000_000


@dataclass(slots=True)
class Jobs:
    """Reads jobs.

    Parameters
    ----------
    options, ledger
        Of the reading.
    partitions
        Names of the nodes of each partition.
    features
        Features of each node.
    """

    options: Mapping[str, Any]
    ledger: Ledger
    partitions: Mapping[str, set[str]]
    features: Mapping[str, frozenset[str]]
    _known: dict[tuple[Any, ...], frozenset[str] | None] = field(default_factory=dict)
    _running: dict[str, int] = field(default_factory=dict)

    def read(self, jobs: Mapping[str, tuple[str, Mapping[str, Any]]]) -> Iterator[Task]:
        """Yield the tasks; jobs that have none are counted."""
        for kind in (_ENDED_WORDS, _HELD_WORDS, _BEYOND_WORDS, _EMPTY_WORDS):
            self.ledger.count(kind, 0)
        waiting: list[tuple[str, Mapping[str, Any]]] = []
        for place, entry in jobs.values():
            try:
                job = mapping(entry, "job")
                states = {word.upper() for word in words(job.get("job_state"), "job_state")}
                if states & HOLDING:
                    yield from self._holding(job)
                elif states & WAITING:
                    waiting.append((place, job))  # how many of an array run is known later
                elif states & ENDED:
                    self.ledger.count(_ENDED_WORDS)
                else:
                    raise InputError("job_state", "must be a state of Slurm", job.get("job_state"))
            except InputError as error:
                self._broken(error, place)
        for place, job in waiting:
            try:
                yield from self._waiting(job)
            except InputError as error:
                self._broken(error, place)

    def _broken(self, error: InputError, place: str) -> None:
        error.place = place
        self.ledger.broken(error)

    def _holding(self, job: Mapping[str, Any]) -> list[Task]:
        names = expand_nodes(job.get("nodes"), "nodes")
        if not names:
            raise InputError("nodes", "must name the nodes of a job that runs", job.get("nodes"))
        total = tres(job.get("tres_alloc_str"), "tres_alloc_str")
        total = total or tres(job.get("tres_req_str"), "tres_req_str")
        base = self._base(job)
        demands = by_node(job, names, total)
        array = array_of(job)
        if array is not None:
            self._running[array] = self._running.get(array, 0) + 1
        since = number(job.get("start_time"), "start_time") or 0.0
        allowed = self.allowed(job, len(names))
        tasks = []
        for name, demand in zip(names, demands, strict=True):
            if any(demand.values()):
                tasks.append(Task(demand=demand, servers=allowed, on=name, since=since, **base))
        if not tasks:
            self.ledger.count(_EMPTY_WORDS)
        return tasks

    def _waiting(self, job: Mapping[str, Any]) -> list[Task]:
        priority = number(job.get("priority"), "priority")
        held = str(job.get("state_reason")) in _HELD_FOR or job.get("hold") is True or priority == 0
        if held and self.options["held"] == "drop":
            self.ledger.count(_HELD_WORDS)
            return []
        asked = number(job.get("node_count"), "node_count")
        nodes = max(int(asked or 1), 1)
        if nodes > _MOST_NODES:
            raise InputError("node_count", f"must be at most {_MOST_NODES:,}", nodes)
        total = tres(job.get("tres_req_str"), "tres_req_str")
        base = self._base(job)
        demand = evenly(job, nodes, total)
        count, cut = array_tasks(job.get("array_task_string"), "array_task_string")
        if cut:
            self.ledger.remark("a list of array tasks was cut short by Slurm: the rest is missing")
        most = number(job.get("array_max_tasks"), "array_max_tasks") or 0
        array = array_of(job)
        if most > 0 and array is not None and job.get("array_task_string"):
            free = max(int(most) - self._running.get(array, 0), 0)
            if free < count and self.options["held"] == "drop":
                self.ledger.count(_BEYOND_WORDS, count - free)
                count = free
        if count == 0:
            return []
        if not any(demand.values()):
            self.ledger.count(_EMPTY_WORDS)
            return []
        since = number(job.get("submit_time"), "submit_time") or 0.0
        allowed = self.allowed(job, nodes)
        return [Task(demand=demand, servers=allowed, since=since, count=nodes * count, **base)]

    def _base(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """Return user, job name and details."""
        identity = _identity(job.get("job_id"), "job_id")
        user = _identity(job.get("user_name") or f"uid-{job.get('user_id')}", "user_name")
        facts = {"user": user}
        for name in ("account", "partition", "qos"):
            facts[name] = _identity(job.get(name) or f"(no {name})", name)
        details = {"job_id": identity, **{k: v for k, v in facts.items() if k != "user"}}
        return {
            "user": facts[self.options["user_by"]],
            "job": array_of(job) or identity,
            "details": details,
        }

    def allowed(self, job: Mapping[str, Any], nodes: int) -> frozenset[str] | None:
        """Return the nodes that partition, constraint and node lists allow; None for all."""
        asked = words(job.get("partition"), "partition") if self.partitions else ()
        constraint = job.get("features") or ""
        if not isinstance(constraint, str):
            raise InputError("features", "must be text", constraint)
        required = expand_nodes(job.get("required_nodes"), "required_nodes")
        excluded = expand_nodes(job.get("excluded_nodes"), "excluded_nodes")
        if len(required) < nodes:
            # It asks for these and more: which more is open.
            required = ()
        key = (asked, constraint, required, excluded)
        if key not in self._known:
            names = set(self.features)
            if asked:
                names = set().union(*(self.partitions.get(p, set()) for p in asked))
            if constraint:
                names = {name for name in names if meets(constraint, self.features[name])}
            if required:
                names &= set(required)
            names -= set(excluded)
            self._known[key] = None if len(names) == len(self.features) else frozenset(names)
        return self._known[key]


def _identity(value: Any, field_: str) -> str:
    return text(str(value) if isinstance(value, int) else value, field_)


def array_of(job: Mapping[str, Any]) -> str | None:
    """Return the number of the array that a job belongs to."""
    found = number(job.get("array_job_id"), "array_job_id")
    return f"{found:.0f}" if found else None


def evenly(job: Mapping[str, Any], nodes: int, total: Mapping[str, float]) -> dict[str, float]:
    """Return what one node of a job holds if all hold the same."""
    cpus = total.get("cpu")
    if cpus is None:
        cpus = number(job.get("cpus"), "cpus") or 0.0
    demand = {"cpu": cpus / nodes}
    memory = total.get("memory")
    if memory is None:
        each = number(job.get("memory_per_node"), "memory_per_node")
        per_cpu = number(job.get("memory_per_cpu"), "memory_per_cpu") or 0.0
        memory = (each if each is not None else per_cpu * demand["cpu"]) * nodes * MIB
    demand["memory"] = memory / nodes
    generic = {name: amount / nodes for name, amount in total.items() if name.startswith("gres/")}
    return {**demand, **(generic or _asked_gres(job, nodes))}


def _asked_gres(job: Mapping[str, Any], nodes: int) -> dict[str, float]:
    """Return the generic resources of one node, where Slurm does not track them."""
    tasks = number(job.get("tasks"), "tasks") or 1.0
    found: dict[str, float] = {}
    for key, times in (
        ("tres_per_node", 1.0),
        ("tres_per_job", 1.0 / nodes),
        ("tres_per_task", tasks / nodes),
    ):
        for name, amount in gres(job.get(key), key).items():
            if amount > 0 and name not in ("gres/cpu", "gres/mem", "gres/license"):
                found[name] = max(found.get(name, 0.0), amount * times)
    return found


def by_node(
    job: Mapping[str, Any], names: tuple[str, ...], total: Mapping[str, float]
) -> list[dict[str, float]]:
    """Return what a job holds on each of its nodes: as told, else evenly."""
    even = evenly(job, len(names), total)
    told = _told(job)
    generic = listing(job.get("gres_detail"), "gres_detail")
    listed = [gres(entry, "gres_detail") for entry in generic]
    cores = [told.get(name, (0.0, None))[0] for name in names]
    all_cores = sum(cores)
    demands = []
    for position, name in enumerate(names):
        demand = dict(even)
        if all_cores > 0 and min(cores) > 0:
            demand["cpu"] = even["cpu"] * len(names) * cores[position] / all_cores
        memory = told.get(name, (0.0, None))[1]
        if memory:
            demand["memory"] = memory * MIB
        if len(listed) == len(names):
            demand = {r: a for r, a in demand.items() if not r.startswith("gres/")}
            demand |= listed[position]
        demands.append(demand)
    return demands


def _told(job: Mapping[str, Any]) -> dict[str, tuple[float, float | None]]:
    """Return cores and memory (MiB) of each node, in the writing of any version."""
    resources = mapping(job.get("job_resources"), "job_resources")
    nodes = resources.get("nodes")
    entries = nodes.get("allocation") if isinstance(nodes, dict) else None
    entries = resources.get("allocated_nodes") if entries is None else entries
    found: dict[str, tuple[float, float | None]] = {}
    for entry in listing(entries, "job_resources") if not isinstance(entries, dict) else ():
        node = mapping(entry, "job_resources.nodes")
        name = node.get("name", node.get("nodename"))
        if not isinstance(name, str):
            continue
        memory = node.get("memory_allocated")
        if isinstance(node.get("memory"), dict):
            memory = node["memory"].get("allocated")
        cpus = node.get("cpus")
        counted = number(cpus.get("count"), "cpus.count") if isinstance(cpus, dict) else None
        cores = counted if counted else _cores(node.get("sockets"))
        found[name] = (cores, number(memory, "job_resources.memory"))
    return found


def _cores(sockets: Any) -> float:
    """Return how many cores a picture of the sockets marks as allocated."""
    if not isinstance(sockets, dict):
        return 0.0
    return float(
        sum(
            str(state).lower().startswith("allocated")
            for socket in sockets.values()
            if isinstance(socket, dict) and isinstance(socket.get("cores"), dict)
            for state in socket["cores"].values()
        )
    )
