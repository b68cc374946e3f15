"""What we ask of ``scontrol``, as lines of its input."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from drfh.engines.slurm.annotations import DAY, HELD_UNTIL, PARKED_UNTIL, Annotation
from drfh.engines.slurm.state import SlurmJob

__all__ = [
    "collected",
    "give_back",
    "grouped",
    "hold",
    "hold_again",
    "is_parked",
    "keep",
    "notes",
    "park",
    "pin",
    "release",
    "taken_back",
    "together",
    "without",
]

_AT_ONCE = 100  # jobs in one line
_NO_END = 500_000  # nodes


def pin(name: str, node: str, job: SlurmJob) -> str:
    """Return the line that puts a job on its node; it stays under its hold.

    Slurm takes no list of jobs here, and no list of tasks of an array.
    """
    return f"update JobId={name} {_pinned(job, node)}"


def _pinned(job: SlurmJob, node: str) -> str:
    old = job.annotation or Annotation()
    if old.pin is not None and job.required == old.pin:
        nodes, most = old.nodes, old.most
    else:
        nodes, most = job.required, job.most_nodes
    mark = Annotation(pin=node, nodes=nodes, restarts=job.restarts, most=most)
    # Slurm would add a second node to the one that is named, if it may.
    one = " NumNodes=1-1" if job.most_nodes != 1 else ""
    return f"ReqNodeList={node} AdminComment={mark}{one}"


def release(names: Iterable[str]) -> Iterator[str]:
    """Yield lines that let Slurm start jobs.

    Examples
    --------
    >>> list(release(["7", "9_3", "8", "9_5"]))
    ['release 7,8', 'release 9_[3,5]']
    """
    return (f"release {several}" for several in grouped(names))


def hold_again(names: Iterable[str], hold_by: str = "plugin") -> Iterator[str]:
    """Yield lines that put jobs under the hold again.

    Examples
    --------
    >>> list(hold_again(["7", "9_3"]))
    ['uhold 7', 'uhold 9_3']
    """
    word = "uhold" if hold_by == "plugin" else "hold"
    return (f"{word} {several}" for several in grouped(names))


def grouped(names: Iterable[str]) -> Iterator[str]:
    """Yield lists of jobs as ``scontrol`` takes them, tasks of an array in one: quicker by far.

    For each job of a list slurmctld is asked again, for all tasks in brackets only once.

    Examples
    --------
    >>> list(grouped(["9_3", "7", "9_5"]))
    ['7', '9_[3,5]']
    """
    arrays: dict[str, list[str]] = {"": []}
    for name in names:
        array, _, task = name.partition("_")
        arrays.setdefault(array if task else "", []).append(task or name)
    for array, listed in arrays.items():
        for start in range(0, len(listed), _AT_ONCE):
            some = listed[start : start + _AT_ONCE]
            tasks = some[0] if len(some) == 1 else f"[{','.join(some)}]"
            yield f"{array}_{tasks}" if array else ",".join(some)


def taken_back(jobs: Mapping[str, SlurmJob]) -> Iterator[str]:
    """Yield lines for jobs that are under the hold again, after they had a node."""
    for name, job in jobs.items():
        mark = job.annotation or Annotation()
        if mark.held:
            begin = " StartTime=now" if job.begins >= HELD_UNTIL - DAY else ""
            yield f"update JobId={name} AdminComment={_plain(mark, held=False)}{begin}"
        elif job.restarts != mark.restarts:
            # Slurm lets a requeued job wait for a while; it may go where there is room.
            yield f"update JobId={name} StartTime=now"


def together(jobs: Iterable[SlurmJob], known: Iterable[SlurmJob]) -> dict[str, SlurmJob]:
    """Return what to call jobs: an array of which all tasks are meant, and alike, by its number.

    Parameters
    ----------
    jobs
        Those that are meant.
    known
        All that there are.
    """
    meant = list(jobs)
    counts = Counter(job.array for job in meant if job.array is not None)
    there = Counter(job.array for job in known if job.array in counts)
    kinds: dict[str | None, set[Any]] = {}
    for job in meant:
        kinds.setdefault(job.array, set()).add((job.annotation, job.required, job.hold, job.begins))

    def name(job: SlurmJob) -> str:
        array = job.array
        if array is None or counts[array] != there[array] or len(kinds[array]) > 1:
            return job.name
        # Slurm sets no node list for several tasks, and those that had a node were alone anyway.
        return array if job.annotation is None or job.annotation.pin is None else job.name

    return {name(job): job for job in meant}


def hold(jobs: Mapping[str, SlurmJob]) -> Iterator[str]:
    """Yield lines that put new jobs under a hold which their owners cannot lift."""
    for name in jobs:
        yield f"update JobId={name} Priority=0 AdminComment={Annotation()}"


def park(jobs: Mapping[str, SlurmJob]) -> Iterator[str]:
    """Yield lines that give jobs a begin time far away; released then, they still wait."""
    for name, job in jobs.items():
        old = job.annotation or Annotation()
        held = job.begins >= HELD_UNTIL - DAY  # by its owner
        begin = old.begin if old.parked or held else int(job.begins)
        mark = _plain(old, parked=True, begin=begin, held=held)
        far = datetime.fromtimestamp(HELD_UNTIL if held else PARKED_UNTIL).isoformat()
        yield f"update JobId={name} StartTime={far} AdminComment={mark}"


def is_parked(job: SlurmJob) -> bool:
    """Return whether a job has a begin time far away already."""
    return job.annotation is not None and job.annotation.parked and job.begins >= PARKED_UNTIL - DAY


def collected(jobs: Mapping[str, SlurmJob], now: float) -> Iterator[str]:
    """Yield lines for jobs under the hold again, which need not wait for another one any more."""
    for name, job in jobs.items():
        old = job.annotation or Annotation()
        held = job.begins >= HELD_UNTIL - DAY  # by its owner, meanwhile: that begin time stays
        begin = "" if held else f" StartTime={_begin(old, now)}"
        mark = _plain(old, parked=False, begin=0, held=held)
        yield f"update JobId={name} AdminComment={mark}{begin}"


def give_back(
    ask: Callable[[list[str]], dict[str, str] | None],
    jobs: Mapping[str, SlurmJob],
    now: float,
    hold_by: str = "plugin",
) -> None:
    """Leave jobs to Slurm's own scheduler, as their owners submitted them.

    What its owner or an administrator holds stays held, by a hold of Slurm's own. Each step is
    made for those of which the one before is known to have worked; the mark goes last: while a
    job carries it, the rest can be done again.

    Parameters
    ----------
    ask
        Gives lines to scontrol and returns what failed; None if nobody knows.
    jobs
        Those that are meant, by what to call them.
    now
        Seconds since 1970.
    hold_by
        Whose holds are ours.
    """
    lines: list[str] = []
    for name, job in jobs.items():
        lines += _restored(name, job, now)
    back = without(ask(lines), jobs)
    ours = "user" if hold_by == "plugin" else "admin"
    free = [name for name in back if jobs[name].hold == ours and not _by_owner(jobs[name])]
    released = without(ask(list(release(free))), free)
    done = [
        name
        for name in back
        if (name not in free or name in released) and not _by_owner(jobs[name])
    ]
    ask([f"update JobId={name} AdminComment=" for name in done])


def _restored(name: str, job: SlurmJob, now: float) -> Iterator[str]:
    """Yield lines that undo what we changed about a job, but for hold and mark."""
    mark = job.annotation or Annotation()
    changes = []
    if mark.pin is not None and job.required == mark.pin:
        changes.append(f"ReqNodeList={mark.nodes}")
        if mark.most != 1:
            changes.append(f"NumNodes=1-{mark.most or _NO_END}")
    if _by_owner(job):  # in one line: later nobody knows that it was held, but by its begin time
        changes += ["StartTime=now", "AdminComment="]
        if job.hold == "no":
            yield f"uhold {name}"
    elif is_parked(job):  # not again, if it was done and nobody knew
        changes.append(f"StartTime={_begin(mark, now)}")
    if changes:
        yield f"update JobId={name} {' '.join(changes)}"


def _by_owner(job: SlurmJob) -> bool:
    return job.begins >= HELD_UNTIL - DAY


def without(failed: Mapping[str, str] | None, names: Iterable[str]) -> list[str]:
    """Return the jobs and arrays about which there was no error; none if nobody knows.

    An error about one task of an array is one about the array, and the other way round.

    Examples
    --------
    >>> without({"9_3": "no"}, ["7", "9", "9_4"]), without(None, ["7"])
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


def keep(jobs: Mapping[str, SlurmJob]) -> Iterator[str]:
    """Yield lines that make a hold of ``scontrol requeuehold`` one that the owner can lift."""
    far = datetime.fromtimestamp(HELD_UNTIL).isoformat()
    for name, job in jobs.items():
        mark = _plain(job.annotation or Annotation(), held=True, restarts=job.restarts)
        yield f"update JobId={name} StartTime={far} AdminComment={mark}"


def _plain(mark: Annotation, **changes: Any) -> Annotation:
    """Return a changed mark without words, which may have blanks and are written again."""
    return replace(mark, refused="", **changes)


def _begin(mark: Annotation, now: float) -> str:
    """Return the begin time that its owner asked for."""
    return datetime.fromtimestamp(mark.begin).isoformat() if mark.begin > now else "now"


def notes(
    marks: Mapping[str, Annotation], known: Mapping[str, SlurmJob]
) -> tuple[list[str], list[tuple[str, ...]]]:
    """Return how to write marks: lines, and commands for those with blanks in their words.

    Parameters
    ----------
    marks
        Job → what its mark should say.
    known
        All jobs, by name.
    """
    lines: list[str] = []
    commands: list[tuple[str, ...]] = []
    for name, job in together((known[name] for name in marks), known.values()).items():
        mark = marks[job.name]
        if mark.refused:
            commands.append(("scontrol", "update", f"JobId={name}", f"AdminComment={mark}"))
        else:
            lines.append(f"update JobId={name} AdminComment={mark}")
    return lines, commands
