"""SlurmJobs of Slurm → tasks: one for each node that a job has or asks for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from drfh.errors import InputError
from drfh.files.ledger import Ledger
from drfh.wire.documents import listing, mapping, text
from drfh.wire.records import Machine, Task

__all__ = [
    "ENDED",
    "HOLDING",
    "MIB",
    "WAITING",
    "Node",
    "SlurmJobs",
    "array_indices",
    "array_of",
    "array_tasks",
    "by_node",
    "evenly",
    "expand_nodes",
    "gres",
    "meets",
    "number",
    "take_nodes",
    "tres",
    "words",
]


_MOST_NAMES = 1_000_000
_MOST_ARRAY_TASKS = 4_000_001  # what Slurm allows
_UNSET = (4294967294.0, 4294967295.0)  # NO_VAL and INFINITE of older versions
_BINARY = {"": 1.0, "K": 2.0**10, "M": 2.0**20, "G": 2.0**30, "T": 2.0**40, "P": 2.0**50}
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]?)B?", re.IGNORECASE | re.ASCII)
_GRES = re.compile(r"([^,()]+)(\([^)]*\))?")
_COUNT = re.compile(r"\(CNT:(\d{1,15})\)", re.ASCII)
_TOKEN = re.compile(r"\s*([&|()\[\]]|[^&|()\[\]*,\s]+)(?:\*\d+)?")
_NODE_LIST = re.compile(r"(?:[^\[\]]|\[[^\[\]]*\])+")
_RANGE = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?(?::(\d{1,18}))?", re.ASCII)


def number(value: Any, field: str) -> float | None:
    """Return a number ≥ 0, plain or ``{"set": true, "infinite": false, "number": 4}``.

    None if it is not set or has no end.

    Examples
    --------
    >>> number(4, "cpus"), number({"set": True, "infinite": False, "number": 4}, "cpus")
    (4.0, 4.0)
    >>> number({"set": False, "number": 0}, "cpus") is None
    True
    """
    if isinstance(value, dict):
        if value.get("infinite") is True or value.get("set") is False:
            return None
        value = value.get("number")
    if value is None or value == "":
        return None
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 16:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 2**62:
        raise InputError(field, "must be a number ≥ 0", value)
    return None if float(value) in _UNSET else float(value)


def words(value: Any, field: str) -> tuple[str, ...]:
    """Return names, from a list or from text with commas.

    Examples
    --------
    >>> words("skylake,ib", "features"), words(["a"], "features"), words("", "features")
    (('skylake', 'ib'), ('a',), ())
    """
    if value is None:
        return ()
    listed = value.split(",") if isinstance(value, str) else listing(value, field)
    given = [word.strip() if isinstance(word, str) else word for word in listed]
    return tuple(text(word, field) for word in given if word != "")


def _amount(word: str, field: str, unit: str = "") -> float:
    found = _AMOUNT.fullmatch(word)
    if found is None:
        raise InputError(field, "must be a number such as 4, 62.5G or 4096M", word)
    return float(found[1]) * _BINARY[(found[2] or unit).upper()]


def tres(value: Any, field: str) -> dict[str, float]:
    """Read trackable resources; memory in bytes, as Slurm's G is 2³⁰.

    What belongs to no server (nodes, billing, energy, licenses, file systems) is left out.

    Examples
    --------
    >>> tres("cpu=4,mem=16G,node=1,billing=4,gres/gpu=2,gres/gpu:a100=2", "tres")
    {'cpu': 4.0, 'memory': 17179869184.0, 'gres/gpu': 2.0}
    """
    if value is None or value == "":
        return {}
    if not isinstance(value, str):
        raise InputError(field, "must be text such as cpu=4,mem=16G", value)
    found: dict[str, float] = {}
    typed: dict[str, float] = {}
    for part in value.split(","):
        name, equals, word = part.strip().partition("=")
        if not equals:
            raise InputError(field, "must be text such as cpu=4,mem=16G", value)
        if name == "cpu":
            found["cpu"] = _amount(word, field)
        elif name == "mem":
            found["memory"] = _amount(word, field, "M")
        elif name.startswith("gres/"):
            general, colon, _ = text(name, field).partition(":")
            known = typed if colon else found
            known[general] = known.get(general, 0.0) + _amount(word, field)
    return {**found, **{name: a for name, a in typed.items() if name not in found}}


def gres(value: Any, field: str) -> dict[str, float]:
    """Read generic resources as nodes and jobs list them, types put together.

    Examples
    --------
    >>> gres("gpu:a100:4(S:0-1),gpu:v100:2", "gres")
    {'gres/gpu': 6.0}
    >>> gres("gres:accel:a100:2", "gres"), gres("accel:a100(CNT:2)", "gres")
    ({'gres/accel': 2.0}, {'gres/accel': 2.0})
    """
    if value is None:
        return {}
    if not isinstance(value, str):
        raise InputError(field, "must be text such as gpu:a100:4", value)
    found: dict[str, float] = {}
    if value in ("(null)", "N/A"):
        return found
    for part in _GRES.finditer(value):
        named = part[1].strip().replace("=", ":").removeprefix("gres/").removeprefix("gres:")
        if not named:
            continue
        name, *rest = named.split(":")
        counted = _COUNT.search(part[2] or "")
        if counted:
            amount = float(counted[1])
        elif rest and _AMOUNT.fullmatch(rest[-1]):
            amount = _amount(rest[-1], field)
        else:
            amount = 1.0
        key = f"gres/{text(name, field)}"
        found[key] = found.get(key, 0.0) + amount
    return found


def expand_nodes(value: Any, field: str) -> tuple[str, ...]:
    """Return the names in a node list.

    Examples
    --------
    >>> expand_nodes("node[01-03,07],login1", "nodes")
    ('node01', 'node02', 'node03', 'node07', 'login1')
    >>> expand_nodes("r[1-2]n[1-2]", "nodes")
    ('r1n1', 'r1n2', 'r2n1', 'r2n2')
    """
    if value is None or value in ("", "(null)", "None assigned"):
        return ()
    if not isinstance(value, str):
        raise InputError(field, "must be a node list such as node[01-03,07]", value)
    names: list[str] = []
    if _NODE_LIST.fullmatch(value) is None:
        raise InputError(field, "must be a node list such as node[01-03,07]", value)
    for part in re.findall(r"(?:\[[^\]]*\]|[^,\[])+", value):
        heads = [""]
        for piece in re.findall(r"\[[^\]]*\]|[^\[]+", part.strip()):
            tails = _ranges(piece[1:-1], field) if piece.startswith("[") else [piece]
            if len(heads) * len(tails) + len(names) > _MOST_NAMES:
                raise InputError(field, f"must name at most {_MOST_NAMES:,} nodes", value)
            heads = [head + tail for head in heads for tail in tails]
        names += heads
    for name in names:
        text(name, field)
    return tuple(dict.fromkeys(names))


def _ranges(inside: str, field: str) -> list[str]:
    names: list[str] = []
    for part in inside.split(","):
        found = _RANGE.fullmatch(part.strip())
        if found is None or found[3] is not None:
            raise InputError(field, "must have ranges such as 01-03 in brackets", inside)
        first, last = found[1], found[2] or found[1]
        size = int(last) - int(first) + 1
        if not 1 <= size <= _MOST_NAMES:
            raise InputError(field, "must have ranges such as 01-03 in brackets", inside)
        names += [str(i).zfill(len(first)) for i in range(int(first), int(last) + 1)]
    return names


def array_tasks(value: Any, field: str) -> tuple[int, bool]:
    """Return how many tasks of an array wait, and whether the list of them was cut short.

    Examples
    --------
    >>> array_tasks("6,9,20-29:3%2", "array_task_string")
    (6, False)
    >>> array_tasks("", "array_task_string"), array_tasks("1,3,...", "array_task_string")
    ((1, False), (2, True))
    """
    if value is None or value == "":
        return 1, False
    if not isinstance(value, str):
        raise InputError(field, "must be text such as 1-10:2%4", value)
    total, cut = 0, False
    for part in value.partition("%")[0].strip("[]").split(","):
        if part.strip() == "...":
            cut = True
            continue
        found = _RANGE.fullmatch(part.strip())
        step = int(found[3] or 1) if found else 0
        if found is None or step < 1 or int(found[2] or found[1]) < int(found[1]):
            raise InputError(field, "must be text such as 1-10:2%4", value)
        total += (int(found[2] or found[1]) - int(found[1])) // step + 1
    if not 1 <= total <= _MOST_ARRAY_TASKS:
        raise InputError(field, f"must be at most {_MOST_ARRAY_TASKS:,} tasks", value)
    return total, cut


def array_indices(value: Any, field: str) -> list[int]:
    """Return the numbers of the tasks of an array that wait; of a list cut short, those in it.

    Examples
    --------
    >>> array_indices("6,9,20-29:3%2", "array_task_string")
    [6, 9, 20, 23, 26, 29]
    """
    array_tasks(value, field)  # raises where it is not such a list
    indices: list[int] = []
    for part in str(value).partition("%")[0].strip("[]").split(","):
        found = _RANGE.fullmatch(part.strip())
        if found is not None:
            indices += range(int(found[1]), int(found[2] or found[1]) + 1, int(found[3] or 1))
    return indices


def meets(constraint: str, features: Set[str]) -> bool:
    """Return whether one node with these features meets a constraint.

    In square brackets any one feature will do: they are about several nodes together.

    Examples
    --------
    >>> meets("skylake&bigmem", {"skylake"}), meets("a100|(ib&skylake)", {"skylake", "ib"})
    (False, True)
    >>> meets("[rack1*2&rack2*4]", {"rack2"})
    True
    """
    tokens = _tokens(constraint)
    holds, end = _either(tokens, 0, features, constraint)
    if end != len(tokens):
        raise _wrong(constraint)
    return holds


def _tokens(constraint: str) -> list[str]:
    found: list[str] = []
    start = 0
    whole = constraint.rstrip()
    while start < len(whole):
        token = _TOKEN.match(whole, start)
        if token is None or len(found) > 1000:
            raise _wrong(constraint)
        found.append(token[1])
        start = token.end()
    return found


def _wrong(constraint: str) -> InputError:
    return InputError("features", "must be a constraint such as a100|(ib&skylake)", constraint)


def _either(tokens: list[str], start: int, features: Set[str], whole: str) -> tuple[bool, int]:
    holds, end = _both(tokens, start, features, whole)
    while end < len(tokens) and tokens[end] == "|":
        other, end = _both(tokens, end + 1, features, whole)
        holds = holds or other
    return holds, end


def _both(tokens: list[str], start: int, features: Set[str], whole: str) -> tuple[bool, int]:
    holds, end = _one(tokens, start, features, whole)
    while end < len(tokens) and tokens[end] == "&":
        other, end = _one(tokens, end + 1, features, whole)
        holds = holds and other
    return holds, end


def _one(tokens: list[str], start: int, features: Set[str], whole: str) -> tuple[bool, int]:
    token = tokens[start] if start < len(tokens) else ""
    if token == "(":
        holds, end = _either(tokens, start + 1, features, whole)
        if end >= len(tokens) or tokens[end] != ")":
            raise _wrong(whole)
        return holds, end + 1
    if token == "[":
        if "]" not in tokens[start:]:
            raise _wrong(whole)
        end = tokens.index("]", start)
        return any(word in features for word in tokens[start + 1 : end]), end + 1
    if token in ("", "&", "|", ")", "]"):
        raise _wrong(whole)
    return token in features, start + 1


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
class SlurmJobs:
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


_MIB = 2.0**20
_DOWN = {"DOWN", "NOT_RESPONDING", "UNKNOWN", "FUTURE", "ERROR", "INVALID", "INVALID_REG"}
_CLOSING = {"DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "MAINT", "MAINTENANCE", "BLOCKED"}


@dataclass(slots=True)
class Node:
    """A node, and the partitions that it is in."""

    machine: Machine
    partitions: set[str] = field(default_factory=set)
    features: frozenset[str] = frozenset()

    def labelled(self) -> Machine:
        """Return the machine with its partitions and features as labels."""
        labels = {f"partition/{name}": "yes" for name in sorted(self.partitions)}
        labels |= {f"feature/{name}": "yes" for name in sorted(self.features)}
        return replace(self.machine, labels=labels)


def take_nodes(entry: Any, key: str, where: str, nodes: dict[str, Node], ledger: Ledger) -> None:
    """Add the nodes of one entry; a node that is there already gets its partitions."""
    try:
        read = _node if key == "nodes" else _row
        for node in read(mapping(entry, key)):
            there = nodes.setdefault(node.machine.name, node)
            there.partitions |= node.partitions
    except InputError as error:
        error.place = where
        if error.field == "sinfo":  # it is so for all rows, and there is a better command
            raise
        ledger.broken(error)


def _state(value: Any, flags: Any) -> Literal["up", "closing", "down"]:
    """Return what a node can do, from its state and flags in any version's writing."""
    found = {
        word.upper().rstrip("*$~#!%@+-^")
        for given in (value, flags)
        for part in words(given, "state")
        for word in part.split("+")
    }
    if found & _DOWN:
        return "down"
    return "closing" if found & _CLOSING else "up"


def _node(entry: Mapping[str, Any]) -> Iterator[Node]:
    """Yield the node of ``sinfo --json`` (22.05) or ``scontrol show nodes --json``."""
    name = text(entry.get("name"), "name")
    tracked = tres(entry.get("tres"), "tres")
    cpus = number(entry.get("effective_cpus"), "effective_cpus") or number(
        entry.get("cpus"), "cpus"
    )
    memory = number(entry.get("real_memory"), "real_memory")
    special = number(entry.get("specialized_memory"), "specialized_memory") or 0.0
    generic = gres(entry.get("gres"), "gres")
    amounts = {
        "cpu": tracked.get("cpu", 0.0) if cpus is None else cpus,
        "memory": tracked.get("memory", 0.0) if memory is None else (memory - special) * _MIB,
        **{r: a for r, a in tracked.items() if r.startswith("gres/")},
        **generic,
    }
    if amounts["memory"] < 0:
        raise InputError("specialized_memory", "must be less than real_memory", special)
    features = words(entry.get("active_features") or entry.get("features"), "features")
    yield Node(
        Machine(name, amounts, {}, _state(entry.get("state"), entry.get("state_flags"))),
        set(words(entry.get("partitions"), "partitions")),
        frozenset(features),
    )


def _row(entry: Mapping[str, Any]) -> Iterator[Node]:
    """Yield the nodes of a row of ``sinfo --json`` (23.02 and later): one row, many nodes."""
    listed = mapping(entry.get("nodes"), "nodes")
    names = [
        name
        for part in listing(listed.get("nodes"), "nodes.nodes")
        for name in expand_nodes(part, "nodes.nodes")
    ]
    amounts: dict[str, float] = {}
    for key, resource, unit in (("cpus", "cpu", 1.0), ("memory", "memory", _MIB)):
        found = mapping(entry.get(key), key)
        least = number(found.get("minimum"), f"{key}.minimum")
        if least is None or least != number(found.get("maximum"), f"{key}.maximum"):
            rule = (
                f"must have rows of equal nodes ({key} differs inside one): capture with "
                "scontrol show nodes --json"
            )
            raise InputError("sinfo", rule)
        amounts[resource] = least * unit
    amounts |= gres(mapping(entry.get("gres"), "gres").get("total"), "gres.total")
    features = mapping(entry.get("features"), "features")
    partition = mapping(entry.get("partition"), "partition").get("name")
    for name in names:
        yield Node(
            Machine(
                name, amounts, {}, _state(mapping(entry.get("node"), "node").get("state"), None)
            ),
            set(words(partition, "partition.name")),
            frozenset(words(features.get("active") or features.get("total"), "features")),
        )
