"""Why a job of Slurm waits, or where it runs: for jobs, tasks of arrays, and whole arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from drfh.engines.slurm.cluster import SlurmCluster
from drfh.engines.slurm.state import SlurmJob
from drfh.engines.slurm.unmanaged import unmanaged_reason
from drfh.model.resources import some
from drfh.scheduler.diagnostics import Why
from drfh.wire.slurm.notation import parse_job_name

__all__ = ["JobWhy", "why_job"]

# As squeue writes them: 12, 12_3, and what is left of an array, 12_[4-9%2].
_NAMED = 3
_YEAR = 365 * 86_400.0
#: In the order in which a summary has them, with a word for one and for several.
_STATES = {
    "running": ("runs", "run"),
    "starting": ("starts", "start"),
    "waiting": ("waits", "wait"),
    "aside": ("is set aside", "are set aside"),
    "never": ("never runs", "never run"),
    "outside": ("is not drfh's", "are not drfh's"),
}
#: Words of Slurm that say nothing beyond our own: holds and begin times are mostly drfh's.
_NO_NEWS = {"", "None", "JobHeldUser", "JobHeldAdmin", "BeginTime", "Dependency"}
_VERBS = ("waits ", "needs ", "must ", "can ")


@dataclass(frozen=True, slots=True)
class JobWhy:
    """Why a job is where it is.

    Parameters
    ----------
    job, user
        The job and whose it is.
    state
        ``running``, ``starting`` (released to its node), ``waiting``, ``aside`` (must not be
        placed now), ``never``, ``outside`` (not drfh's), ``unknown``, or ``array``.
    text
        The answer in a sentence or a few.
    nodes
        Where it runs or will.
    slurm
        Slurm's own word for why it waits.
    why
        What the brain says of it.
    tasks
        Of an array: how many tasks are in each state.
    first
        Of an array: the answer for the first task that does not run.
    """

    job: str
    user: str | None
    state: str
    text: str
    nodes: tuple[str, ...] = ()
    slurm: str = ""
    why: Why | None = None
    tasks: Mapping[str, int] = field(default_factory=dict)
    first: JobWhy | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data, ready for JSON.

        Examples
        --------
        >>> JobWhy("7", None, "unknown", "job 7 is not in the queue.").to_dict()["state"]
        'unknown'
        """
        data = asdict(self) | {"nodes": list(self.nodes)}
        data["why"] = None if self.why is None else self.why.to_dict()
        data["first"] = None if self.first is None else self.first.to_dict()
        return data


def why_job(live: SlurmCluster, name: str) -> JobWhy:
    """Say why a job waits, or where it runs.

    Parameters
    ----------
    live
        The cluster.
    name
        A job (``12``), a task of an array (``12_3``), or an array (``12``).

    Examples
    --------
    >>> from drfh.engines.slurm.cluster import understood
    >>> from drfh.engines.slurm.state import read_state
    >>> from drfh.engines.slurm.config import SlurmConfig
    >>> node = {"name": "n0", "cpus": 4, "real_memory": 1024, "state": "idle", "partitions": ["a"]}
    >>> job = {"job_id": 7, "job_state": "PENDING", "user_name": "ann", "partition": "a",
    ...        "tres_req_str": "cpu=6,mem=100M,node=1", "memory_per_node": 100, "priority": 0,
    ...        "state_reason": "JobHeldUser", "admin_comment": "drfh"}
    >>> live = understood(read_state([node], [job], 0.0), SlurmConfig())
    >>> print(why_job(live, "7").text)
    job 7 of ann never runs: it needs 6 cpu, and no server has more than 4 cpu.
    >>> print(why_job(live, "8").text)
    job 8 is not in Slurm's queue: it has ended, or there was never one.
    """
    number, task = parse_job_name(name)
    jobs = live.picture.jobs
    if task is not None:
        return _of_one(live, f"{number}_{task}")
    if number in jobs:
        return _of_one(live, number)
    members = [job for job in jobs.values() if job.array == number]
    if members:
        return _of_array(live, number, sorted(members, key=lambda job: job.order))
    return _of_one(live, number)


def _of_one(live: SlurmCluster, name: str) -> JobWhy:
    job = live.picture.jobs.get(name)
    if job is None:
        text = f"job {name} is not in Slurm's queue: it has ended, or there was never one."
        return JobWhy(name, None, "unknown", text)
    user = job.owner[live.site.user_by]
    state, text, nodes, why = _told(live, job, f"job {name} of {user}")
    slurm = "" if job.on else job.reason
    return JobWhy(name, user, state, text, nodes, slurm, why)


def _told(
    live: SlurmCluster, job: SlurmJob, who: str
) -> tuple[str, str, tuple[str, ...], Why | None]:
    """Return the state of a job, the answer, its nodes and what the brain says."""
    if job.on:
        text = f"{who} runs on {_listed(list(job.on))}{_times(live, job)}."
        return "running", text, tuple(job.on), None
    task = live.view.snapshot.tasks.get(job.name)
    if task is None:
        text = f"{who} is left to Slurm's own scheduler: {unmanaged_reason(live, job)}"
        return "outside", f"{text}{_slurm_says(job)}.", (), None
    if task.on is not None:
        text = f"{who} is released to {task.on}, Slurm starts it{_slurm_says(job)}."
        return "starting", text, (task.on,), None
    if task.aside:
        joint = " " if task.aside.startswith(_VERBS) else " waits: "
        says = "" if job.reason in task.aside else _slurm_says(job)
        return "aside", f"{who}{joint}{task.aside}{says}.", (), None
    why = live.cache.scheduler.why(job.name)
    text = f"job {why.text}" if why.text.startswith(job.name) else why.text
    return why.state, text, (), why


def _of_array(live: SlurmCluster, number: str, members: Sequence[SlurmJob]) -> JobWhy:
    user = members[0].owner[live.site.user_by]
    states = {job.name: _state(live, job) for job in members}
    counts = Counter(states.values())
    tasks = {state: counts[state] for state in _STATES if counts[state]}
    words = [f"{n:,} {_STATES[state][n != 1]}" for state, n in tasks.items()]
    text = f"array {number} of {user} has {some(len(members), 'task')} left: {', '.join(words)}."
    first = None
    for state in ("waiting", "aside", "never", "outside"):
        name = next((name for name, found in states.items() if found == state), None)
        if name is not None:
            first = _of_one(live, name)
            break
    return JobWhy(number, user, "array", text, tasks=tasks, first=first)


def _state(live: SlurmCluster, job: SlurmJob) -> str:
    """Return the state alone: an array may have many thousands of tasks."""
    if job.on:
        return "running"
    task = live.view.snapshot.tasks.get(job.name)
    if task is None:
        return "outside"
    if task.on is not None:
        return "starting"
    if task.aside:
        return "aside"
    return "never" if live.cache.scheduler.state(job.name) == "never" else "waiting"


def _times(live: SlurmCluster, job: SlurmJob) -> str:
    if not job.since:
        return ""
    started = datetime.fromtimestamp(job.since).isoformat(" ", "seconds")
    endless = job.limit is None or job.limit >= _YEAR  # Slurm writes a year for no limit
    limit = "" if endless else f", for at most {_span(job.limit or 0.0)}"
    return f" since {started} ({_span(max(live.picture.time - job.since, 0.0))}{limit})"


def _span(seconds: float) -> str:
    """Return a time in the largest units that tell it, at most two of them."""
    left = round(seconds)
    words = []
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")):
        number, left = divmod(left, size)
        if number:
            words.append(f"{number} {unit}")
    return " ".join(words[:2]) or "0 s"


def _slurm_says(job: SlurmJob) -> str:
    return "" if job.reason in _NO_NEWS else f" (Slurm says: {job.reason})"


def _listed(names: Sequence[str]) -> str:
    if len(names) == 1:
        return names[0]
    if len(names) > _NAMED + 1:
        names = [*names[:_NAMED], some(len(names) - _NAMED, "other node")]
    return f"{', '.join(names[:-1])} and {names[-1]}"
