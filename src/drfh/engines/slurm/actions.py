"""Changes of jobs, as input lines of ``scontrol``.

Functions take jobs by the id that ``scontrol`` is given, as :func:`job_ids` returns them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from drfh.engines.slurm.state import DAY, DEFERRED_UNTIL, HELD_UNTIL, Annotation, SlurmJob

__all__ = [
    "annotate",
    "defer",
    "hold",
    "hold_new",
    "is_deferred",
    "job_ids",
    "job_lists",
    "owner_hold",
    "pin",
    "release",
    "reset_recalled",
    "succeeded",
    "undefer",
    "unmanage",
]

_LIST_LENGTH = 100  # jobs in one line
_UNLIMITED_NODES = 500_000


# Which jobs


def job_ids(jobs: Iterable[SlurmJob], known: Iterable[SlurmJob]) -> dict[str, SlurmJob]:
    """Return jobs by id; an array of which all tasks are in `jobs`, and alike, is one entry.

    Parameters
    ----------
    jobs
        Those that are meant.
    known
        All that there are.
    """
    meant = list(jobs)
    counts = Counter(job.array for job in meant if job.array is not None)
    existing = Counter(job.array for job in known if job.array in counts)
    kinds: dict[str | None, set[Any]] = {}
    for job in meant:
        kinds.setdefault(job.array, set()).add((job.annotation, job.required, job.hold, job.begins))

    def job_id(job: SlurmJob) -> str:
        array = job.array
        if array is None or counts[array] != existing[array] or len(kinds[array]) > 1:
            return job.name
        # Slurm sets no node list for several tasks, and those that had a node were alone anyway.
        return array if job.annotation is None or job.annotation.pin is None else job.name

    return {job_id(job): job for job in meant}


def job_lists(names: Iterable[str]) -> Iterator[str]:
    """Yield job lists in the syntax of ``scontrol``, tasks of an array in one.

    slurmctld is asked once for each job of a list, and once for all tasks in brackets.

    Examples
    --------
    >>> list(job_lists(["9_3", "7", "9_5"]))
    ['7', '9_[3,5]']
    """
    arrays: dict[str, list[str]] = {"": []}
    for name in names:
        array, _, task = name.partition("_")
        arrays.setdefault(array if task else "", []).append(task or name)
    for array, listed in arrays.items():
        for start in range(0, len(listed), _LIST_LENGTH):
            some = listed[start : start + _LIST_LENGTH]
            tasks = some[0] if len(some) == 1 else f"[{','.join(some)}]"
            yield f"{array}_{tasks}" if array else ",".join(some)


def succeeded(failed: Mapping[str, str] | None, names: Iterable[str]) -> list[str]:
    """Return the jobs and arrays about which there was no error; none if that is unknown.

    An error about one task of an array is one about the array, and the other way round.

    Examples
    --------
    >>> succeeded({"9_3": "no"}, ["7", "9", "9_4"]), succeeded(None, ["7"])
    (['7', '9_4'], [])
    """
    if failed is None or "" in failed:
        return []
    arrays = {name.partition("_")[0] for name in failed}
    return [
        name
        for name in names
        if name not in failed and name not in arrays and name.partition("_")[0] not in failed
    ]


# Placing


def pin(name: str, node: str, job: SlurmJob) -> str:
    """Return the line that binds a job to its node; it stays held.

    Slurm takes no list of jobs here, and no list of tasks of an array.
    """
    old = job.annotation or Annotation()
    if old.pin is not None and job.required == old.pin:
        nodes, most = old.nodes, old.most
    else:
        nodes, most = job.required, job.most_nodes
    annotation = Annotation(pin=node, nodes=nodes, restarts=job.restarts, most=most)
    # Slurm would add a second node to the one that is named, if it may.
    one = " NumNodes=1-1" if job.most_nodes != 1 else ""
    return f"update JobId={name} ReqNodeList={node} AdminComment={annotation}{one}"


def release(names: Iterable[str]) -> Iterator[str]:
    """Yield lines that let Slurm start jobs.

    Examples
    --------
    >>> list(release(["7", "9_3", "8", "9_5"]))
    ['release 7,8', 'release 9_[3,5]']
    """
    return (f"release {several}" for several in job_lists(names))


# Holds


def hold_new(jobs: Iterable[str]) -> Iterator[str]:
    """Yield lines that hold jobs for the first time; their owners cannot release them."""
    for name in jobs:
        yield f"update JobId={name} Priority=0 AdminComment={Annotation()}"


def hold(names: Iterable[str], hold_by: str = "plugin") -> Iterator[str]:
    """Yield lines that hold managed jobs again.

    Examples
    --------
    >>> list(hold(["7", "9_3"]))
    ['uhold 7', 'uhold 9_3']
    """
    verb = "uhold" if hold_by == "plugin" else "hold"
    return (f"{verb} {several}" for several in job_lists(names))


def owner_hold(jobs: Mapping[str, SlurmJob]) -> Iterator[str]:
    """Yield lines that make a hold of ``scontrol requeuehold`` one that the owner can release."""
    until = datetime.fromtimestamp(HELD_UNTIL).isoformat()
    for name, job in jobs.items():
        annotation = _changed(job.annotation or Annotation(), held=True, restarts=job.restarts)
        yield f"update JobId={name} StartTime={until} AdminComment={annotation}"


def reset_recalled(jobs: Mapping[str, SlurmJob]) -> Iterator[str]:
    """Yield lines for jobs that are held again, after they had a node."""
    for name, job in jobs.items():
        annotation = job.annotation or Annotation()
        if annotation.held:
            begin = " StartTime=now" if _held_by_owner(job) else ""
            yield f"update JobId={name} AdminComment={_changed(annotation, held=False)}{begin}"
        elif job.restarts != annotation.restarts:
            # Slurm gives a requeued job a later begin time; it may go where there is room.
            yield f"update JobId={name} StartTime=now"


# Dependencies


def defer(jobs: Mapping[str, SlurmJob]) -> Iterator[str]:
    """Yield lines that give jobs a begin time far away; released then, they still wait."""
    for name, job in jobs.items():
        old = job.annotation or Annotation()
        held = _held_by_owner(job)
        begin = old.begin if old.deferred or held else int(job.begins)
        annotation = _changed(old, deferred=True, begin=begin, held=held)
        until = datetime.fromtimestamp(HELD_UNTIL if held else DEFERRED_UNTIL).isoformat()
        yield f"update JobId={name} StartTime={until} AdminComment={annotation}"


def is_deferred(job: SlurmJob) -> bool:
    """Return whether a job has a begin time far away already."""
    deferred = job.annotation is not None and job.annotation.deferred
    return deferred and job.begins >= DEFERRED_UNTIL - DAY


def undefer(jobs: Mapping[str, SlurmJob], now: float) -> Iterator[str]:
    """Yield lines for held jobs that need not wait for another one any more."""
    for name, job in jobs.items():
        old = job.annotation or Annotation()
        held = _held_by_owner(job)  # since it was deferred: that begin time stays
        begin = "" if held else f" StartTime={_begin_time(old, now)}"
        annotation = _changed(old, deferred=False, begin=0, held=held)
        yield f"update JobId={name} AdminComment={annotation}{begin}"


# The end of management


def unmanage(
    scontrol: Callable[[list[str]], dict[str, str] | None],
    jobs: Mapping[str, SlurmJob],
    now: float,
    hold_by: str = "plugin",
) -> None:
    """Leave jobs to Slurm's own scheduler, as their owners submitted them.

    What its owner or an administrator holds stays held, by a hold of Slurm's own. Each step is
    made for those of which the one before is known to have worked; the annotation goes last:
    while a job has it, the rest can be done again.

    Parameters
    ----------
    scontrol
        Carries out lines and returns what failed; None if that is unknown.
    jobs
        Those that are meant.
    now
        Seconds since 1970.
    hold_by
        Whose holds are drfh's.
    """
    lines: list[str] = []
    for name, job in jobs.items():
        lines += _restored(name, job, now)
    restored = succeeded(scontrol(lines), jobs)
    ours = "user" if hold_by == "plugin" else "admin"
    free = [name for name in restored if jobs[name].hold == ours and not _held_by_owner(jobs[name])]
    released = succeeded(scontrol(list(release(free))), free)
    done = [
        name
        for name in restored
        if (name not in free or name in released) and not _held_by_owner(jobs[name])
    ]
    scontrol([f"update JobId={name} AdminComment=" for name in done])


def _restored(name: str, job: SlurmJob, now: float) -> Iterator[str]:
    """Yield lines that undo all changes of a job, but for hold and annotation."""
    annotation = job.annotation or Annotation()
    changes = []
    if annotation.pin is not None and job.required == annotation.pin:
        changes.append(f"ReqNodeList={annotation.nodes}")
        if annotation.most != 1:
            changes.append(f"NumNodes=1-{annotation.most or _UNLIMITED_NODES}")
    if _held_by_owner(job):  # in one line: later only the begin time shows that it was held
        changes += ["StartTime=now", "AdminComment="]
        if job.hold == "no":
            yield f"uhold {name}"
    elif is_deferred(job):  # not again, if it was done and the answer was lost
        changes.append(f"StartTime={_begin_time(annotation, now)}")
    if changes:
        yield f"update JobId={name} {' '.join(changes)}"


# Annotations


def annotate(
    annotations: Mapping[str, Annotation], known: Mapping[str, SlurmJob]
) -> tuple[list[str], dict[str, tuple[str, ...]]]:
    """Return lines that write annotations, and commands for those with blanks in their text.

    Parameters
    ----------
    annotations
        Job → its new annotation.
    known
        All jobs, by name.
    """
    lines: list[str] = []
    commands: dict[str, tuple[str, ...]] = {}
    for name, job in job_ids((known[name] for name in annotations), known.values()).items():
        annotation = annotations[job.name]
        if annotation.refused:
            change = (f"JobId={name}", f"AdminComment={annotation}")
            commands[name] = ("scontrol", "update", *change)
        else:
            lines.append(f"update JobId={name} AdminComment={annotation}")
    return lines, commands


def _changed(annotation: Annotation, **changes: Any) -> Annotation:
    """Return a changed annotation without `refused`, which may have blanks."""
    return replace(annotation, refused="", **changes)


def _held_by_owner(job: SlurmJob) -> bool:
    return job.begins >= HELD_UNTIL - DAY


def _begin_time(annotation: Annotation, now: float) -> str:
    """Return the begin time that its owner asked for."""
    if annotation.begin > now:
        return datetime.fromtimestamp(annotation.begin).isoformat()
    return "now"
