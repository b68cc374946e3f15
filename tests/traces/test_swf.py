"""The SWF reader: a small log with everything that occurs in the archive, and damaged ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import drfh
from drfh import traces
from drfh.errors import InputError
from drfh.traces import Trace
from tests.support.damage import damaged, folder_with, packed, survives
from tests.support.examples import examples

KB = 1024.0
#                 job submit wait run alloc cpu used req time mem status user group exe queue part
LOG = b"""\
; Version: 2.2
; Computer: thin and wide nodes
;   MaxJobs: 11
; MaxNodes: 4 (2 thin, 2 wide)
; MaxProcs: 10
; Note: numbers of our own
;
    1     0     5    60    2   -1    -1    2   100   2048   1   3   1   7   1   1   -1   -1
    2    10     0    30    4   29   512    4   100     -1   0   4   1   7   2   2   -1   -1
    3    20     3    -1   -1   -1    -1    1   100     -1   1   3   1  -1   1   1   -1   -1
    4    30    -1     0   -1   -1    -1    8   100     -1   5   5   2  -1   1   1   -1   -1
    5    40    10    20    3   -1    -1   -1   100   1024   5   5   2  -1   1   2   -1   -1
    6    50     0    10   -1   -1    -1   -1   100     -1   1   5   2  -1   1   2   -1   -1
    7    60     2     0    1   -1  1024    1    -1   4096   1  -1   2  -1   1   1    1   10
    8    70     1    90    2   -1    -1    2    -1   4096   1   3   1   7   2   1   -1   -1
    8    70     1    40    2   -1    -1    2    -1   4096   2   3   1   7   2   1   -1   -1
    8    -1     9    50    2   -1    -1    2    -1   4096   3   3   1   7   2   1   -1   -1

    9    65   0.5  12.5    5   -1    -1    6    -1     -1  -1   4   1   7   2   3   -1   -1
"""
MACHINE = b"""\
name,count,cpu,memory,label.partition
thin,2,2,4Mi,1
wide,2,3,64Mi,2
"""
FILES = {"log.swf": LOG, "nodes.csv": MACHINE}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    for name, data in FILES.items():
        (tmp_path / name).write_bytes(data)
    return tmp_path / "log.swf"


def machine(log: Path) -> str:
    return str(log.with_name("nodes.csv"))


def test_the_log(log: Path) -> None:
    cluster, workload = trace = traces.read(None, log)
    workload.check(cluster)
    assert trace.format == "swf"
    groups = [(s.name, s.count, dict(s.resources)) for s in cluster]
    assert groups == [("node-of-3", 2, {"cpu": 3.0}), ("node-of-2", 2, {"cpu": 2.0})]
    assert workload.job_names == ("1", "2", "5", "7", "9", "8")
    assert [u.name for u in workload.users] == ["user-3", "user-4", "user-5", "user-unknown"]
    assert workload.batch_user.tolist() == [0, 1, 2, 3, 1, 0]
    assert workload.batch_arrival.tolist() == [0, 10, 40, 60, 65, 70]
    assert workload.batch_count.tolist() == [2, 4, 3, 1, 6, 2]
    assert workload.duration[workload.batch_first].tolist() == [60, 30, 20, 0, 12.5, 90]
    assert workload.resources == ("cpu",)
    assert workload.demand.tolist() == [[1.0]]
    assert trace.window == 70 + 1 + 90
    assert trace.details["wait"].to_list() == [5, 0, 10, 2, 0.5, 1]
    assert trace.details["status"].to_list() == [1, 0, 5, 1, -1, 1]
    assert trace.details["partition"].to_list() == [1, 2, 2, 1, 3, 1]
    expected = {
        "lines": 11,
        "lines left out: a part of a job that has its own line": 2,
        "lines left out: a part of a job without one": 0,
        "jobs": 9,
        "jobs completed": 5,
        "jobs failed": 1,
        "jobs cancelled": 2,
        "jobs of which it is not known how they ended": 1,
        "jobs left out: never ran": 2,
        "jobs left out: no processors": 1,
        "jobs that ran 0 s": 1,
        "jobs of which the user is not known": 1,
        "jobs with allocated processors, as requested are not known": 1,
        "jobs listed after a later one": 1,
        "jobs kept": 6,
    }
    assert {what: trace.counts[what] for what in expected} == expected
    assert not trace.oddities
    remarks = " ".join(trace.remarks)
    assert "Memory is left out: nothing says how much" in remarks
    assert "may start at different times" in remarks
    assert "1 jobs wait for another one" in remarks


def test_a_machine_of_your_own(log: Path) -> None:
    cluster, workload = trace = traces.read("swf", log, machine=machine(log))
    assert cluster.size == 4
    assert cluster.totals.tolist() == [10, 2 * (4 + 64) * 2**20]
    assert workload.resources == ("cpu", "memory")
    demand = workload.demand[workload.batch_shape].tolist()
    assert demand == [[1, kb * KB] for kb in (2048, 0, 1024, 4096, 0, 4096)]
    asked = [workload.restrictions[n] for n in workload.restriction[workload.batch_shape].tolist()]
    assert asked == [({"partition": (p,)},) for p in "122131"]
    assert trace.counts["jobs without requested memory"] == 2
    # Nobody has partition 3; a thin node has memory for one processor with 4 MiB.
    assert trace.counts["jobs of a partition that no node has"] == 1
    result = drfh.simulate(cluster, workload, log=True)
    tasks = result.summary()["tasks"]
    assert (tasks["completed"], tasks["never"]) == (12, 6)
    assert result.tasks is not None
    for part, server in result.tasks.select("job", "server").rows():
        kind = {"1": "thin", "2": "wide", "5": "wide", "7": "thin", "8": "thin"}.get(part)
        assert (server or "").rpartition("/")[0] == (kind or "")


@pytest.mark.parametrize(
    ("options", "jobs", "tasks", "cpu"),
    [
        ({}, "1 2 5 7 9 8", [2, 4, 3, 1, 6, 2], [1] * 6),
        ({"tasks": "one"}, "1 2 5 7 9 8", [1] * 6, [2, 4, 3, 1, 6, 2]),
        ({"processors": "allocated"}, "1 2 5 7 9 8", [2, 4, 3, 1, 5, 2], [1] * 6),
        ({"failed": "drop"}, "1 5 7 9 8", [2, 3, 1, 6, 2], [1] * 5),
        ({"cancelled": "drop"}, "1 2 7 9 8", [2, 4, 1, 6, 2], [1] * 5),
        ({"start": 10 / 3600, "hours": 50 / 3600}, "2 5 7", [4, 3, 1], [1] * 3),
        ({"users": ["user-4"]}, "2 9", [4, 6], [1] * 2),
    ],
)
def test_choices(
    log: Path, options: dict[str, Any], jobs: str, tasks: list[int], cpu: list[int]
) -> None:
    trace = traces.read("swf", log, **options)
    workload = trace.workload
    assert workload.job_names == tuple(jobs.split())
    assert workload.batch_count.tolist() == tasks
    assert workload.demand[workload.batch_shape][:, 0].tolist() == cpu
    left_out = sum(n for what, n in trace.counts.items() if what.startswith("jobs left out"))
    assert left_out + trace.counts["jobs kept"] == trace.counts["jobs"] == 9


def test_memory_of_a_job_as_one_task(log: Path) -> None:
    workload = traces.read("swf", log, machine=machine(log), tasks="one").workload
    demand = workload.demand[workload.batch_shape]
    assert demand[0].tolist() == [2, 2 * 2048 * KB]


@pytest.mark.parametrize(
    ("memory", "kilobytes"),
    [("used", [0, 512, 0, 1024, 0, 0]), ("requested", [2048, 0, 1024, 4096, 0, 4096])],
)
def test_memory(log: Path, memory: str, kilobytes: list[int]) -> None:
    workload = traces.read("swf", log, machine=machine(log), memory=memory).workload
    assert (workload.demand[workload.batch_shape][:, 1] / KB).tolist() == kilobytes
    assert traces.read("swf", log, machine=machine(log), memory="none").workload.resources == (
        "cpu",
    )


@pytest.mark.parametrize(
    ("user_by", "users"),
    [
        ("group", "group-1 group-2"),
        ("executable", "executable-7 executable-unknown"),
        ("queue", "queue-1 queue-2"),
        ("partition", "partition-1 partition-2 partition-3"),
    ],
)
def test_user_by(log: Path, user_by: str, users: str) -> None:
    workload = traces.read("swf", log, user_by=user_by).workload
    assert [user.name for user in workload.users] == users.split()


@pytest.mark.parametrize(
    ("header", "servers"),
    [
        ("; MaxNodes: 4\n", [("node", 4, {"cpu": 1.0})]),
        ("; MaxProcs: 10\n", [("node", 1, {"cpu": 10.0})]),
        ("; MaxNodes: 5\n; MaxProcs: 10\n", [("node", 5, {"cpu": 2.0})]),
        (
            ";MaxNodes: 2\n;MaxProcs: 4\n;MaxMemory: 8\n",
            [("node", 2, {"cpu": 2.0, "memory": 2 * 8 * KB})],
        ),
        ("; MaxNodes: -1\n; MaxProcs: 1,024\n", [("node", 1, {"cpu": 1024.0})]),
    ],
)
def test_the_machine_of_a_header(tmp_path: Path, header: str, servers: list[Any]) -> None:
    path = tmp_path / "log"
    row = "1 0 5 60 2 -1 -1 2 100 -1 1 3 1 7 1 1 -1 -1\n"
    path.write_text(header + row)
    trace = traces.read(None, path)  # by its comments
    assert [(s.name, s.count, dict(s.resources)) for s in trace.cluster] == servers


def test_a_header_without_a_machine(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    path.write_text("1 0 5 60 2 -1 -1 2 100 -1 1 3 1 7 1 1 -1 -1\n")
    with pytest.raises(InputError, match=r"machine must be given .* neither MaxNodes nor MaxProcs"):
        traces.read(None, path)
    path.write_text("; MaxNodes: 99999999999\n")
    with pytest.raises(InputError, match="MaxNodes must be at most 10,000,000"):
        traces.read(None, path)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "nodes.csv, line 1: columns must have one for each resource"),
        ("name,cpu\n", "nodes.csv: machine must have at least one server"),
        ("name,memory\na,1\n", r"nodes.csv, line 1: cpu must be among the columns \(found: memory"),
        ("name,cpu,cpu\na,1,2\n", "nodes.csv, line 1: cpu must be the name of one column"),
        ("name,cpu\na,1\nb,x\n", "nodes.csv, line 3: cpu must be a finite number"),
        ("name,cpu\na,1\nb,1,2\n", "nodes.csv, line 3: row must have 2 fields, got 3"),
        ("name,count,cpu\na,1.5,2\n", "nodes.csv, line 2: count must be a whole number"),
        ("name,cpu\na,1\na,2\n", "nodes.csv, line 3: name must be unique, got 'a'"),
    ],
)
def test_a_wrong_machine_is_refused(log: Path, text: str, word: str) -> None:
    log.with_name("nodes.csv").write_text(text)
    with pytest.raises(InputError, match=f"^{word}"):
        traces.read("swf", log, machine=machine(log))
    with pytest.raises(InputError, match=r"^machine must be a file or directory that exists"):
        traces.read("swf", log, machine="no-such-file.csv")


@pytest.mark.parametrize(
    ("row", "word"),
    [
        ("2 0 5 60 2", "fields must be 18 numbers"),
        ("2 0 5 x 2 -1 -1 2 100 -1 1 3 1 7 1 1 -1 -1", "run must be a number"),
        ("2 0 5 nan 2 -1 -1 2 100 -1 1 3 1 7 1 1 -1 -1", "run must be a number"),
        ("2 0 5 60 2.5 -1 -1 2 100 -1 1 3 1 7 1 1 -1 -1", "allocated must be a whole number"),
        ("2 -1 5 60 2 -1 -1 2 100 -1 1 3 1 7 1 1 -1 -1", "submit must be ≥ 0"),
        ("1 0 5 60 2 -1 -1 2 100 -1 1 3 1 7 1 1 -1 -1", "job must be unique"),
    ],
)
def test_broken_lines_are_counted(tmp_path: Path, row: str, word: str) -> None:
    path = tmp_path / "log.swf.gz"
    good = "1 0 5 60 2 -1 -1 2 100 -1 1 3 1 7 1 1 -1 -1"
    path.write_bytes(packed(f"; MaxProcs: 4\n\n{good}\n{row}\n".encode()))
    trace = traces.read(None, path)
    assert trace.workload.job_names == ("1",)
    (oddity,) = trace.oddities
    assert oddity.kind == word
    assert oddity.first.startswith("log.swf.gz, line 4: ")
    with pytest.raises(InputError, match="line 4"):
        traces.read("swf", path, strict=True)


def row(job: int, submit: float = 0, processors: int = 1, memory: int = -1, more: str = "") -> str:
    return f"{job} {submit} 5 60 {processors} -1 -1 -1 100 {memory} 1 3 1 7 1 1 -1 -1{more}"


def read_rows(
    folder: Path, rows: list[str], header: str = "; MaxNodes: 4\n", **options: Any
) -> Trace:
    path = folder / "log.swf"
    path.write_text(header + "\n".join(rows) + "\n")
    return traces.read("swf", path, **options)


def test_lines_with_more_fields_are_read(tmp_path: Path) -> None:
    rows = [row(1), row(2, 5, more=" 99 nodes=2:ppn=4 x"), row(3, 9, more=" 7")]
    trace = read_rows(tmp_path, rows, strict=True)
    assert trace.workload == read_rows(tmp_path, [row(1), row(2, 5), row(3, 9)]).workload
    assert trace.counts["lines with more than 18 fields"] == 2
    said = [text for text in trace.remarks if "18 fields" in text]
    assert said == ["2 lines have more than 18 fields: the rest of them is not read."]


def test_submit_times_that_are_dates_count_from_the_first(tmp_path: Path) -> None:
    rows = [row(1, 1_300_000_030), row(2, 1_300_000_000), row(3, 1_300_000_090.5)]
    trace = read_rows(tmp_path, rows)
    assert trace.workload.batch_arrival.tolist() == [0, 30, 90.5]
    assert trace.window == 90.5 + 5 + 60
    assert any("count from the first (2011-03-13 07:06 UTC)" in text for text in trace.remarks)
    part = read_rows(tmp_path, rows, start=20 / 3600, hours=1)
    assert part.workload.job_names == ("1", "3")
    # One that is no date cannot be put beside them.
    odd = read_rows(tmp_path, [*rows, row(4, 12)])
    assert odd.workload == trace.workload
    assert odd.oddities[0].first.endswith(
        "line 5: submit must be a date in seconds since 1970, as those of most jobs are, got 12.0"
    )
    # Three and a half years after the start of a log is no date.
    late = read_rows(tmp_path, [row(1, 110_000_000), row(2, 110_000_001)])
    assert late.workload.batch_arrival.tolist() == [110_000_000, 110_000_001]


NODES = "name,count,cpu,memory\nnode,4,16,64Gi\n"
GIB = 2**30
TOO_LARGE = "jobs that need more memory for a task than any node has"


def test_memory_that_is_plainly_bytes(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text(NODES)
    nodes = str(tmp_path / "nodes.csv")
    rows = [row(i, memory=GIB * (1 + i % 4)) for i in range(1, 9)]
    trace = read_rows(tmp_path, rows, machine=nodes)
    assert sorted(set(trace.workload.demand[:, 1] / GIB)) == [1, 2, 3, 4]
    assert any(
        "taken for bytes: in kilobytes 8 of 8 jobs would need more for a task than any node has "
        "(memory_unit=kilobytes takes it for that)" in text
        for text in trace.remarks
    )
    # Where somebody says what it is, that is what it is.
    same = read_rows(tmp_path, rows, machine=nodes, memory_unit="bytes")
    assert same.workload == trace.workload
    assert not any("emory" in text for text in same.remarks)
    other = read_rows(tmp_path, rows, machine=nodes, memory_unit="kilobytes")
    assert sorted(set(other.workload.demand[:, 1] / GIB)) == [1024, 2048, 3072, 4096]
    assert other.counts[TOO_LARGE] == 8
    assert any("memory=none leaves memory out, memory_unit=bytes" in t for t in other.remarks)
    with pytest.raises(InputError, match="memory_unit must be one of bytes, kilobytes"):
        read_rows(tmp_path, rows, machine=nodes, memory_unit="MB")


def test_memory_that_may_be_kilobytes_is_kilobytes(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text(NODES)
    nodes = str(tmp_path / "nodes.csv")
    # Half of a node for one processor, and one job that asks for nonsense.
    rows = [row(i, memory=32 * 2**20) for i in range(1, 20)]
    trace = read_rows(tmp_path, [*rows, row(20, memory=2**31)], machine=nodes)
    assert trace.workload.demand[0, 1] == 32 * GIB
    assert trace.counts[TOO_LARGE] == 1
    assert (
        "1 job needs more memory for a task than any node has, and never runs (memory=none leaves "
        "memory out, memory_unit=bytes takes it for bytes)."
    ) in trace.remarks
    # Requests that do not fit a small machine are not bytes for that.
    (tmp_path / "nodes.csv").write_text("name,cpu,memory\nnode,16,1Gi\n")
    small = read_rows(tmp_path, [row(i, memory=2**20 + i) for i in range(1, 9)], machine=nodes)
    assert small.workload.demand[0, 1] == GIB + 1024
    assert small.counts[TOO_LARGE] == 8


def test_what_an_option_would_mend_is_said(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("name,count,cpu,memory,label.partition\nnode,4,2,4Gi,9\n")
    rows = [row(1, processors=3, memory=2 * 2**20)]
    trace = read_rows(tmp_path, rows, machine=str(tmp_path / "nodes.csv"), tasks="one")
    said = " ".join(trace.remarks)
    assert "1 job needs more processors than any node has, and never runs (tasks=processors" in said
    assert "1 job needs more memory for a task than any node has" in said
    assert "1 job is of a partition that no node has, and never runs (label.partition" in said
    of_header = " ".join(read_rows(tmp_path, rows, header="; MaxProcs: 8\n").remarks)
    assert "(tasks=one makes it one)" in of_header
    assert "(machine=FILE does)" in of_header
    assert "(machine=FILE says otherwise)" in of_header


@pytest.mark.parametrize(
    ("rows", "options", "why"),
    [
        (["1 0 5 60"], {}, r"log\.swf, line 2: fields must be 18 numbers, got 4\)"),
        ([row(1, processors=-1)], {}, r"jobs left out: no processors: 1\)"),
        (
            [row(1).replace(" 1 3 1 7", " 0 3 1 7"), row(2, processors=-1)],
            {"failed": "drop"},
            r"jobs left out: no processors: 1; jobs left out: failed: 1 \(failed=keep keeps them",
        ),
        ([row(1, 1)], {"start": 1}, r"jobs left out: not submitted in the window: 1\)"),
    ],
)
def test_a_log_without_jobs_says_why(
    tmp_path: Path, rows: list[str], options: dict[str, Any], why: str
) -> None:
    with pytest.raises(InputError, match=rf"^trace must have at least one task .* \({why}"):
        read_rows(tmp_path, rows, **options)


@pytest.mark.parametrize(
    "text",
    [
        "0\tzewura\t20\t80\t1.0\t528\n1\tmandos\t14\t64\t1.0\t256\n",
        "zewura 20 80\n",
        "name;count;cpu;memory\na;2;4;8\n",
        "zewura,20,80,528\n",
        "<machines>\n",
    ],
)
def test_a_file_of_machines_that_is_no_table(log: Path, text: str) -> None:
    path = log.with_name("log.machines")
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        traces.read("swf", log, machine=str(path))
    assert str(caught.value).startswith(
        "log.machines, line 1: machine must be a table of nodes, separated by commas, with a "
        "header such as name,count,cpu,memory, got '"
    )


def test_too_many_tasks_for_single_processors(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    rows = [f"{i} 0 5 60 9999999 -1 -1 -1 9 -1 1 3 1 7 1 1 -1 -1" for i in range(1, 13)]
    path.write_text("; MaxProcs: 9999999\n" + "\n".join(rows))
    with pytest.raises(InputError, match="tasks must be one: processors would be more than"):
        traces.read("swf", path)
    assert traces.read("swf", path, tasks="one").workload.task_count == 12


def test_not_a_log(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="path must be a file, not a directory"):
        traces.read("swf", tmp_path)
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="path must hold a trace in a known format"):
        traces.read(None, tmp_path / "a.csv")


def look_at(trace: Trace | None) -> None:
    """Use all of what was read."""
    if trace is None:
        return
    trace.workload.check(trace.cluster)
    assert len(trace.details) == len(trace.workload.batch_count)
    left_out = sum(n for what, n in trace.counts.items() if what.startswith("jobs left out"))
    assert left_out + trace.counts["jobs kept"] == trace.counts["jobs"]


@settings(max_examples=examples(200))
@given(damaged(LOG), st.booleans(), st.sampled_from(["processors", "one"]))
def test_damaged_logs(data: bytes, strict: bool, tasks: str) -> None:
    with folder_with({**FILES, "log.swf": data}) as folder:
        log = folder / "log.swf"
        look_at(survives(lambda: traces.read(None, log, strict=strict, tasks=tasks)))
        look_at(survives(lambda: traces.read("swf", log, machine=machine(log), tasks=tasks)))


@settings(max_examples=examples(200))
@given(damaged(MACHINE))
def test_damaged_machines(data: bytes) -> None:
    with folder_with({**FILES, "nodes.csv": data}) as folder:
        log = folder / "log.swf"
        look_at(survives(lambda: traces.read("swf", log, machine=machine(log))))


def test_a_path_without_a_format_says_how_to_write_it() -> None:
    with pytest.raises(drfh.InputError, match=r"path must be given.*read\(None, 'my.swf'\)"):
        drfh.traces.read("my.swf")
