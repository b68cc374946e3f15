"""Google's cluster trace of 2011 (clusterdata-2011-2), in the published layout.

J. Wilkes, C. Reiss: *Google cluster-usage traces: format + schema*, 2011. Two of its tables are
read: ``machine_events/`` and ``task_events/``, gzip or plain, any parts of them. How events become
tasks is in :mod:`drfh.traces.google_tasks`, how they become servers in
:mod:`drfh.traces.google_machines`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from drfh.errors import InputError
from drfh.traces.building import build, keep_sample
from drfh.traces.format import Format
from drfh.traces.google_machines import drawn_servers, read_machines
from drfh.traces.google_parts import START_OF_TRACE, find_parts, read_task_events
from drfh.traces.google_tasks import tasks_of
from drfh.traces.ledger import Ledger, Progress
from drfh.traces.options import SAMPLING, WINDOW, Option
from drfh.traces.trace import Reading

__all__ = ["FORMAT", "PRESETS"]

#: Sets of choices with a name.
PRESETS: dict[str, dict[str, str]] = {
    "backlog_cut": {
        "at_start": "backlog",
        "resubmissions": "dedup",
        "ended_by": "any",
        "at_cut": "cut",
    },
    "each_drop": {
        "at_start": "drop",
        "resubmissions": "each",
        "ended_by": "any",
        "at_cut": "drop",
    },
}

_OPTIONS = (
    *WINDOW,
    *SAMPLING,
    Option(
        "preset",
        "The four choices below at once: backlog_cut is backlog, dedup, any, cut; each_drop is "
        "drop, each, any, drop.",
        "choice",
        "backlog_cut",
        tuple(PRESETS),
    ),
    Option(
        "at_start",
        "Tasks that are there when the window begins: backlog (they arrive then; what they ran "
        "before is lost) or drop.",
        "choice",
        None,
        ("backlog", "drop"),
    ),
    Option(
        "resubmissions",
        "Of the same task: dedup (one task: first SUBMIT, run time of the last attempt that ran) "
        "or each (every SUBMIT is a task).",
        "choice",
        None,
        ("dedup", "each"),
    ),
    Option(
        "ended_by",
        "What ends a run: any (FINISH, FAIL, KILL, EVICT, LOST) or finish (others are left out).",
        "choice",
        None,
        ("any", "finish"),
    ),
    Option(
        "at_cut",
        "Tasks still running when the window ends: cut (they ran until then), run (they never "
        "end) or drop.",
        "choice",
        None,
        ("cut", "run", "drop"),
    ),
    Option("zero_requests", "Of CPU or memory: keep or drop.", "choice", "keep", ("keep", "drop")),
    Option(
        "missing_requests",
        "Tasks without a request: drop, or mean (what all others ask for on average).",
        "choice",
        "drop",
        ("drop", "mean"),
    ),
    Option(
        "servers",
        "Draw so many servers from the shapes of the machines, without machine events; by "
        "default the machines as they are.",
        "whole",
    ),
)


def _recognises(paths: tuple[Path, ...]) -> bool:
    return any((path / "task_events").is_dir() for path in paths)


def _read(
    paths: tuple[Path, ...], given: Mapping[str, Any], ledger: Ledger, tell: Progress | None
) -> Reading:
    options = dict(given)
    for name, choice in PRESETS[options["preset"]].items():
        options[name] = options[name] or choice
    if len(paths) != 1 or not paths[0].is_dir():
        rule = "must be one directory, with machine_events/ and task_events/ in it"
        raise InputError("path", rule, ", ".join(map(str, paths)))
    folder = paths[0]
    parts = find_parts(folder, "task_events", ledger)
    events = read_task_events(parts, ledger, tell)
    begin, end = _window(events.first_time, events.last_time, options)
    batches = tasks_of(events, begin, end, options, ledger)
    every = len(batches)
    batches = keep_sample(batches, options)
    ledger.count("tasks left out: not in the sample", every - len(batches))
    ledger.count("tasks kept", len(batches))
    ledger.count("tasks kept that were there at the start", int(batches["at_start"].sum()))
    ledger.count("tasks kept that still run at the cut", int((batches["end"] == "cut").sum()))
    cluster, changes = read_machines(
        find_parts(folder, "machine_events", ledger), begin, end, ledger
    )
    if options["servers"] is not None:
        cluster, changes = drawn_servers(cluster, options["servers"], options["seed"]), ()
    workload, details = build(batches, ("cpu", "memory"), events=changes)
    ledger.remark("amounts are parts of the largest machine's; disk requests are in the details")
    if details["at_start"].any():
        ledger.remark("run times of tasks that were there at the start are truncated on the left")
    return Reading(cluster, workload, details, window=(end - begin) / 1e6, options=options)


def _window(first: int, last: int, options: Mapping[str, Any]) -> tuple[int, int]:
    """Return begin and end in the trace's own microseconds."""
    origin = START_OF_TRACE if first < START_OF_TRACE else first
    begin = origin + round(options["start"] * 3600e6)
    end = last
    if begin >= end:
        if not options["start"]:
            raise InputError("trace", "must have events after its first 600 seconds")
        rule = (
            f"must be less than the {max(end - origin, 0) / 3600e6:.2f} hours that the parts hold"
        )
        raise InputError("start", rule, options["start"])
    if options["hours"] is not None:
        end = min(end, begin + round(options["hours"] * 3600e6))
    return begin, end


FORMAT = Format(
    title="Google cluster trace 2011, version 2 (machine_events/, task_events/)",
    read=_read,
    recognises=_recognises,
    options=_OPTIONS,
)
