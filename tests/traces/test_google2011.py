"""Google's trace: what events become, on small hand-made files and on the published ones."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import drfh
from drfh.traces import Trace, read
from drfh.traces.google2011.task_runs import Steps, find_runs
from tests.support.damage import damaged, folder_with, survives
from tests.support.examples import examples

SECOND = 1_000_000
START = 600  # seconds; the trace begins then


def task_row(
    time: float, job: int, index: int, event: int, user: str = "ann", cpu: Any = 0.25,
    memory: Any = 0.125, priority: int = 2,
) -> str:  # fmt: skip
    return (
        f"{round(time * SECOND)},,{job},{index},,{event},{user},1,{priority},{cpu},{memory},0.01,0"
    )


def machine_row(time: float, machine: int, event: int, cpu: Any = 0.5, memory: Any = 0.25) -> str:
    return f"{round(time * SECOND)},{machine},{event},HofLG,{cpu},{memory}"


MACHINES = [machine_row(0, 5, 0), machine_row(0, 6, 0, 1, 1), machine_row(700, 5, 1)]
TASKS = [
    task_row(0, 1, 0, 0),
    task_row(0, 1, 0, 1),
    task_row(0, 1, 1, 0, cpu=0),
    task_row(610, 2, 0, 0, "bob", 0.5, 0.5, 9),
    task_row(615, 2, 0, 1, "bob", 0.5, 0.5, 9),
    task_row(620, 1, 1, 1, cpu=0),
    task_row(640, 2, 0, 2, "bob", 0.5, 0.5, 9),  # evicted
    task_row(641, 2, 0, 0, "bob", 0.5, 0.5, 9),  # and submitted again
    task_row(650, 2, 0, 1, "bob", 0.5, 0.5, 9),
    task_row(690, 1, 1, 5, cpu=0),  # killed
    task_row(700, 3, 0, 0, "cyd"),  # never runs
    task_row(720, 2, 0, 4, "bob", 0.5, 0.5, 9),
    task_row(800, 4, 0, 0, "cyd", "", ""),  # asks for nothing
    task_row(801, 4, 0, 1, "cyd", "", ""),
]


def files(tasks: list[str] = TASKS, machines: list[str] = MACHINES) -> dict[str, bytes]:
    half = len(tasks) // 2
    return {
        "machine_events/part-00000-of-00001.csv": ("\n".join(machines) + "\n").encode(),
        "task_events/part-00000-of-00002.csv": ("\n".join(tasks[:half]) + "\n").encode(),
        "task_events/part-00001-of-00002.csv.gz": gzip.compress(
            ("\n".join(tasks[half:]) + "\n").encode()
        ),
    }


def read_small(tasks: list[str] = TASKS, machines: list[str] = MACHINES, **options: Any) -> Trace:
    with folder_with(files(tasks, machines)) as folder:
        return read("google-2011", folder, **options)


def batches(trace: Trace) -> list[tuple[str, str, float, float]]:
    """Return (user, job, arrival, duration) of each task."""
    w = trace.workload
    return [
        (w.users[user].name, w.job_name(job), arrival, duration)
        for user, job, arrival, duration in zip(
            w.batch_user.tolist(),
            w.batch_job.tolist(),
            w.batch_arrival.tolist(),
            w.duration.tolist(),
            strict=True,
        )
    ]


def test_default_choices() -> None:
    trace = read_small()
    assert batches(trace) == [
        ("ann", "1", 0.0, 201.0),  # ran before the trace and still does at 801 s
        ("ann", "1", 0.0, 70.0),
        ("bob", "2", 10.0, 70.0),  # first SUBMIT, last attempt
    ]
    assert trace.window == 201.0
    assert trace.workload.demand.tolist() == [[0.25, 0.125], [0.0, 0.125], [0.5, 0.5]]
    assert trace.details["end"].to_list() == ["cut", "kill", "finish"]
    assert trace.details["at_start"].to_list() == [True, True, False]
    assert trace.details["priority"].to_list() == [2, 2, 9]
    assert trace.counts["tasks left out: never ran"] == 1
    assert trace.counts["tasks left out: without a request"] == 1
    assert trace.counts["runs that ended"] == 3
    assert trace.oddities == ()


def test_servers_are_the_machines_of_the_start() -> None:
    cluster, workload = read_small()
    assert [server.name for server in cluster.servers] == ["5", "6"]
    assert cluster.capacity.tolist() == [[0.5, 0.25], [1.0, 1.0]]
    assert cluster.servers[0].labels == {"platform": "HofLG"}
    assert workload.events == (drfh.RemoveServers(100.0, "5"),)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"at_start": "drop"}, [("bob", "2", 10.0, 70.0)]),
        (
            {"resubmissions": "each"},
            [
                ("ann", "1", 0.0, 201.0),
                ("ann", "1", 0.0, 70.0),
                ("bob", "2", 10.0, 25.0),
                ("bob", "2", 41.0, 70.0),
            ],
        ),
        ({"ended_by": "finish"}, [("ann", "1", 0.0, 201.0), ("bob", "2", 10.0, 70.0)]),
        ({"at_cut": "drop"}, [("ann", "1", 0.0, 70.0), ("bob", "2", 10.0, 70.0)]),
        (
            {"at_cut": "run", "zero_requests": "drop"},
            [("ann", "1", 0.0, float("inf")), ("bob", "2", 10.0, 70.0)],
        ),
        ({"preset": "each_drop"}, [("bob", "2", 10.0, 25.0), ("bob", "2", 41.0, 70.0)]),
        (
            {"preset": "each_drop", "resubmissions": "dedup"},
            [("bob", "2", 10.0, 70.0)],
        ),
        ({"users": "bob"}, [("bob", "2", 10.0, 70.0)]),
    ],
)
def test_choices(options: dict[str, Any], expected: list[Any]) -> None:
    trace = read_small(**options)
    assert batches(trace) == expected
    for name, value in options.items():
        assert trace.options[name] == value or name == "users"


def test_missing_requests_can_be_the_mean() -> None:
    trace = read_small(missing_requests="mean")
    assert batches(trace)[-1] == ("cyd", "4", 200.0, 0.0)
    assert trace.workload.demand[-1].tolist() == pytest.approx([0.25, 0.25])


def test_what_an_option_would_keep_is_said() -> None:
    note = (
        "1 task without a request is left out (missing_requests=mean gives the mean of the others)"
    )
    assert note in read_small().remarks
    assert note not in read_small(missing_requests="mean").remarks
    with pytest.raises(drfh.InputError) as caught:
        read_small([*TASKS[:3], task_row(620, 1, 1, 1)], at_start="drop")
    assert str(caught.value) == (
        "trace must have at least one task that ran in the window (tasks left out: there at the "
        "start: 2 (at_start=backlog keeps them))"
    )


def test_a_window_inside() -> None:
    trace = read_small(start=60 / 3600, hours=50 / 3600)  # from 660 s to 710 s
    assert trace.window == pytest.approx(50)
    assert batches(trace) == [
        ("ann", "1", 0.0, 50.0),
        ("ann", "1", 0.0, 30.0),
        ("bob", "2", 0.0, 50.0),  # its last attempt runs on beyond the window
    ]
    assert trace.details["end"].to_list() == ["cut", "kill", "cut"]
    assert trace.workload.events == (drfh.RemoveServers(40.0, "5"),)
    late = read_small(start=110 / 3600)  # from 710 s: machine 5 is gone, one task is over
    assert [server.name for server in late.cluster.servers] == ["6"]
    assert late.counts["tasks left out: ended before the window"] == 1
    assert batches(late) == [("ann", "1", 0.0, 91.0), ("bob", "2", 0.0, 10.0)]


def unexplained(trace: Trace) -> int:
    """Return how many tasks are neither kept nor left out for a reason."""
    counts = trace.counts
    out = sum(number for what, number in counts.items() if what.startswith("tasks left out: "))
    every = counts["tasks"] + counts["later SUBMITs, each a task"]
    return every - out - counts["tasks kept"]


# What parts say that begin in the middle: some tasks were submitted before them.
NO_SNAPSHOT = [
    task_row(1000, 1, 0, 1),  # SCHEDULE, and its end
    task_row(1001, 1, 1, 4),  # an end alone
    task_row(1002, 1, 2, 8),  # an UPDATE alone
    task_row(1003, 1, 3, 5),  # killed before, and submitted again
    task_row(1004, 1, 3, 0),
    task_row(1005, 1, 3, 1),
    task_row(1006, 1, 4, 7),  # pending, then scheduled
    task_row(1007, 1, 4, 1),
    task_row(1008, 1, 0, 4),
    task_row(1009, 2, 0, 0, "bob"),
    task_row(1010, 2, 0, 1, "bob"),
    task_row(1011, 2, 0, 3, "bob"),
    task_row(1012, 2, 0, 0, "bob"),  # again
    task_row(1013, 2, 1, 0, "bob"),  # never runs
    task_row(1014, 2, 1, 8, "bob"),
    task_row(1100, 3, 0, 0, "cyd"),  # later than the window of the second case
    task_row(1101, 3, 0, 1, "cyd"),
    task_row(1102, 3, 1, 8, "cyd"),
]
WITHOUT_SUBMIT = ("SCHEDULE without SUBMIT", "end without SUBMIT or SCHEDULE", "UPDATE alone")


def test_tasks_that_began_before_the_parts_are_left_out_by_name() -> None:
    trace = read_small(NO_SNAPSHOT)
    assert [trace.counts[f"tasks left out: {why}"] for why in WITHOUT_SUBMIT] == [2, 1, 2]
    assert trace.counts["tasks"] == 9
    assert trace.counts["tasks kept"] == trace.workload.task_count == 3
    assert trace.counts["tasks left out: never ran"] == 1
    assert trace.counts["tasks left out: after the window"] == 0
    assert unexplained(trace) == 0
    assert any("5 tasks are left out: no SUBMIT" in text for text in trace.remarks)
    short = read_small(NO_SNAPSHOT, hours=50 / 3600)
    assert [short.counts[f"tasks left out: {why}"] for why in WITHOUT_SUBMIT] == [2, 1, 1]
    assert short.counts["tasks left out: after the window"] == 2
    assert unexplained(short) == 0
    each = read_small(NO_SNAPSHOT, resubmissions="each")
    assert each.counts["later SUBMITs, each a task"] == 1
    assert unexplained(each) == 0
    whole = read_small()
    assert not any("no SUBMIT" in text for text in whole.remarks)
    assert unexplained(whole) == 0


def test_machines_come_back_change_and_are_odd() -> None:
    machines = [
        *MACHINES,
        machine_row(710, 5, 0),  # back
        machine_row(720, 6, 2, 0.5, 0.5),  # shrinks
        machine_row(730, 6, 2, 0.5, 0.5),  # changes something else
        machine_row(740, 7, 0, "", ""),
        machine_row(750, 8, 1),
        machine_row(760, 8, 2),
        machine_row(770, 9, 0, 0, 0),
        machine_row(9_000, 9, 0),  # after the window
    ]
    trace = read_small(machines=machines)
    assert [type(event).__name__ for event in trace.workload.events] == [
        "RemoveServers", "AddServers", "ResizeServer",
    ]  # fmt: skip
    for what in (
        "ADD rows without capacities",
        "REMOVE rows of machines that are not up",
        "UPDATE rows of machines that are not up",
        "UPDATE rows that change no capacity",
        "rows with no capacity at all",
    ):
        assert trace.counts[f"machine {what}, ignored"] == 1, what
    trace.workload.check(trace.cluster)


def test_drawn_servers() -> None:
    trace = read_small(servers=50, seed=3)
    assert trace.cluster.size == 50
    assert trace.workload.events == ()
    assert {tuple(row) for row in trace.cluster.capacity.tolist()} == {(0.5, 0.25), (1.0, 1.0)}
    assert read_small(servers=50, seed=3).cluster == trace.cluster
    assert read_small(servers=50, seed=4).cluster != trace.cluster


def test_broken_rows_are_counted_with_their_place() -> None:
    tasks = [
        *TASKS[:3],
        "610000000,,x,0,,0,ann,1,2,0.1,0.1,0,0",
        "611000000,,7,0,,0,ann,1,2,0.1,0.1,0",
        "612000000,,7,0,,9,ann,1,2,0.1,0.1,0,0",
        "613000000,,7,0,,0,,1,2,0.1,0.1,0,0",
        *TASKS[3:],
    ]
    trace = read_small(tasks)
    clean = read_small()
    assert trace.workload == clean.workload
    kinds = {odd.kind: odd for odd in trace.oddities}
    assert kinds["job ID must be a whole number"].count == 1
    assert kinds["job ID must be a whole number"].first == (
        "task_events/part-00000-of-00002.csv, line 4: job ID must be a whole number, got 'x'"
    )
    assert kinds["row must have 13 fields"].count == 1
    assert kinds["event type must be from 0 to 8"].count == 1
    assert kinds["user must be given"].count == 1
    with pytest.raises(drfh.InputError, match=r"line 5: row must have 13 fields, got 12"):
        read_small(tasks, strict=True)


def test_a_packed_part_of_no_bytes_is_damaged() -> None:
    name = "task_events/part-00001-of-00002.csv.gz"
    with folder_with({**files(), name: b""}) as folder:
        trace = read("google-2011", folder)
        with pytest.raises(drfh.InputError, match=r"must be a whole gzip file .* ends too early"):
            read("google-2011", folder, strict=True)
    assert [(odd.count, odd.what) for odd in trace.oddities] == [(1, "damaged file")]


def test_a_trace_that_ends_as_it_begins() -> None:
    with pytest.raises(drfh.InputError, match="trace must have events after its first 600 seconds"):
        read_small(TASKS[:3])


def test_time_running_backwards_is_put_in_order() -> None:
    swapped = [*TASKS[:4], TASKS[5], TASKS[4], *TASKS[6:]]
    trace = read_small(swapped)
    assert trace.workload == read_small().workload
    assert [odd.count for odd in trace.oddities] == [1]
    assert "must not be before that of the row above" in trace.oddities[0].kind
    assert trace.oddities[0].what == "disordered row"


def test_parts_missing_in_the_middle() -> None:
    given_files = files()
    given_files["task_events/part-00003-of-00004.csv.gz"] = given_files.pop(
        "task_events/part-00001-of-00002.csv.gz"
    )
    with folder_with(given_files) as folder:
        trace = read("google-2011", folder)
        assert trace.oddities[0].count == 2
        assert "part-00001" in trace.oddities[0].first
        with pytest.raises(drfh.InputError, match="part-00001"):
            read("google-2011", folder, strict=True)


def test_a_truncated_part_keeps_what_came_before() -> None:
    given_files = files(TASKS * 1)
    name = "task_events/part-00001-of-00002.csv.gz"
    given_files[name] = given_files[name][:-20]
    with folder_with(given_files) as folder:
        trace = read("google-2011", folder)
    kinds = [odd.first for odd in trace.oddities]
    assert any("must be a whole gzip file" in first and name in first for first in kinds)
    assert trace.counts["rows"] >= len(TASKS) // 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"task_events/part-00000-of-00002.csv": None}, None),  # a later part alone is fine
        ({"machine_events/part-00000-of-00001.csv": None}, "machine_events"),
        ({"machine_events/part-00000-of-00001.csv": b""}, "at least one machine"),
    ],
)
def test_missing_files(change: dict[str, bytes | None], message: str | None) -> None:
    given_files = {**files(), **change}
    with folder_with({k: v for k, v in given_files.items() if v is not None}) as folder:
        if message is None:
            assert read("google-2011", folder).workload.task_count == 1
            return
        with pytest.raises(drfh.InputError, match=message):
            read("google-2011", folder)


def test_wrong_places(tmp_path: Path) -> None:
    with pytest.raises(drfh.InputError, match="task_events"):
        read("google-2011", tmp_path)
    (tmp_path / "task_events").mkdir()
    with pytest.raises(drfh.InputError, match=r"part-00000-of-00500"):
        read("google-2011", tmp_path)
    with pytest.raises(drfh.InputError, match="must hold a trace in a known format"):
        read(None, Path(__file__).parent)
    with folder_with(files()) as folder, pytest.raises(drfh.InputError, match="hours that the"):
        read("google-2011", folder, start=5)


@settings(max_examples=examples(150))
@given(st.data())
def test_damaged_files(data: st.DataObject) -> None:
    whole = files()
    name = data.draw(st.sampled_from(sorted(whole)))
    plain = gzip.decompress(whole[name]) if name.endswith(".gz") else whole[name]
    whole[name] = data.draw(damaged(plain))
    several: list[dict[str, Any]] = [{}, {"preset": "each_drop"}, {"strict": True}]
    options = data.draw(st.sampled_from(several))
    with folder_with(whole) as folder:
        trace = survives(lambda: read("google-2011", folder, **options))
    if trace is not None:
        trace.workload.check(trace.cluster)
        assert len(trace.details) == len(trace.workload.batch_user)
        assert unexplained(trace) == 0


def plain_runs(rows: list[tuple[int, int, int]], *, each: bool) -> dict[int, tuple[int, int, int]]:
    """Return (start, end, event) by position of the SUBMIT: one row after the other."""
    found: dict[int, tuple[int, int, int]] = {}
    first: dict[int, int] = {}
    submit: dict[int, int] = {}
    open_: dict[int, list[int]] = {}
    number = -1
    for task, time, event in rows:
        if event == 0:
            number += 1
            first.setdefault(task, number)
            submit[task] = number
        owner = (submit if each else first).get(task)
        if event == 1:
            # Of a SUBMIT the first SCHEDULE counts, of a whole task the last one.
            if owner is not None and (not each or owner not in found):
                found[owner] = (time, -1, -1)
            open_.setdefault(task, [])
            if owner is not None and found[owner][0] == time and owner not in open_[task]:
                open_[task].append(owner)
        elif event > 1:
            for one in open_.pop(task, []):
                if found[one][1] < 0:
                    found[one] = (found[one][0], time, event)
    return found


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 6)), max_size=25), st.booleans())
def test_runs_agree_with_going_through_the_rows(steps: list[tuple[int, int]], each: bool) -> None:
    rows = [(task, 10 * time, event) for time, (task, event) in enumerate(steps)]
    columns = np.array(rows, dtype=np.int64).reshape(-1, 3)
    pieces = [Steps(columns[:, 0], columns[:, 1], columns[:, 2].astype(np.int8))]
    # A SCHEDULE before the first SUBMIT belongs to nobody here.
    known: set[int] = set()
    for task, event in steps:
        if event == 0:
            known.add(task)
        elif event == 1 and task not in known:
            return
    runs = find_runs(pieces, 10**9, each=each)
    found = {
        int(s): (int(a), int(b), int(e))
        for s, a, b, e in zip(runs.submit, runs.start, runs.end, runs.event, strict=True)
        if a >= 0
    }
    assert found == plain_runs(rows, each=each)


PUBLISHED = {
    "rows": 2_609_335,
    "users": 567,
    "jobs": 19_146,
    "tasks": 614_019,
    "SUBMIT rows": 936_182,
    "SUBMIT rows at time 0": 144_339,
    "SUBMIT rows without a request": 291,
    "SUBMIT rows that ask for no CPU": 4_161,
    "SUBMIT rows that ask for no memory": 238,
    "different requests of CPU and memory": 2_407,
    "runs that ended": 752_939,
    "runs still open at the cut": 137_578,
    "machine rows": 37_780,
    "machines": 12_583,
    "machine ADD rows": 21_443,
    "machine ADD rows without capacities": 32,
    "machine REMOVE rows": 8_957,
    "machine UPDATE rows": 7_380,
}
SHAPES = {
    (0.5, 0.4995): 6672, (0.5, 0.2493): 3835, (0.5, 0.749): 992, (1.0, 1.0): 788,
    (0.25, 0.2498): 123, (0.5, 0.1241): 54, (0.5, 0.03085): 5, (0.5, 0.9678): 4,
    (1.0, 0.5): 3, (0.5, 0.06158): 1,
}  # fmt: skip


def test_the_published_counts(data: Path) -> None:
    trace = read("google-2011", data / "clusterdata-2011-2")
    for what, number in PUBLISHED.items():
        assert trace.counts[what] == number, what
    assert trace.oddities == ()
    assert trace.window == pytest.approx(70_156.165)
    shapes, counts = np.unique(trace.cluster.capacity, axis=0, return_counts=True)
    found = dict(zip(map(tuple, shapes.tolist()), counts.tolist(), strict=True))
    assert found == SHAPES
    kinds = [type(event).__name__ for event in trace.workload.events]
    assert (kinds.count("AddServers"), kinds.count("RemoveServers")) == (212, 224)
    assert trace.counts["machine UPDATE rows that change no capacity, ignored"] == 175
    # The figures of an independent reading of the same rows.
    assert trace.workload.task_count == 573_309
    assert len(trace.workload.users) == 565
    other = read("google-2011", data / "clusterdata-2011-2", preset="each_drop")
    assert other.workload.task_count == 695_149


def test_nothing_is_lost_in_a_simulation_with_machine_events(data: Path) -> None:
    trace = read("google-2011", data / "clusterdata-2011-2", hours=2)
    assert trace.workload.events
    tasks = drfh.simulate(trace.cluster, trace.workload, until=trace.window).summary()["tasks"]
    assert tasks["submitted"] == trace.workload.task_count
    parts = ("completed", "running", "queued", "never")
    assert tasks["submitted"] == sum(tasks[part] for part in parts)


def test_no_task_of_the_backlog_starts_at_the_cut(data: Path) -> None:
    """Runs are cut at the end of the window, where thousands end at once."""
    trace = read("google-2011", data / "clusterdata-2011-2", servers=2000)
    result = drfh.simulate(trace.cluster, trace.workload, until=trace.window, log=True)
    assert result.tasks is not None
    assert float(result.tasks["first_start"].max()) < result.horizon  # type: ignore[arg-type]
    waits = result.tasks["first_start"] - result.tasks["submission"]
    assert result.numbers["mean_waiting"] == pytest.approx(waits.mean())
    assert result.numbers["mean_waiting"] / 3600 == pytest.approx(1.979, abs=1e-3)  # not 2.579


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"hours": 1.5},
        {"start": 0.5, "hours": 1},
        {"preset": "each_drop"},
        {"resubmissions": "each", "hours": 1, "ended_by": "finish", "users": 20},
    ],
)
def test_every_task_of_a_window_without_a_snapshot_is_accounted_for(
    data: Path, tmp_path: Path, options: dict[str, Any]
) -> None:
    whole = data / "clusterdata-2011-2"
    (tmp_path / "machine_events").symlink_to(whole / "machine_events")
    (tmp_path / "task_events").mkdir()
    for part in range(7, 11):
        name = f"part-{part:05}-of-00500.csv.gz"
        (tmp_path / "task_events" / name).symlink_to(whole / "task_events" / name)
    trace = read("google-2011", tmp_path, **options)
    assert trace.counts["tasks"] == 189_393  # those of which UPDATE rows are all included
    assert unexplained(trace) == 0
    assert trace.counts["tasks kept"] == trace.workload.task_count
    if not {"start", "hours"} & options.keys():  # an independent count of the same rows
        found = [trace.counts[f"tasks left out: {why}"] for why in WITHOUT_SUBMIT]
        assert found == [272, 19_193, 9]
