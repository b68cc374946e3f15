"""Google's trace through the compiled kernels: the plain twins say what must come out."""

from __future__ import annotations

import gzip
import json
import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numba  # noqa: F401  (its presence is what selects the compiled twins)
import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drfh import Cluster, InputError, Server, User, allocate, traces
from drfh.files import reader as opening
from drfh.files.reader import Ledger
from drfh.traces import build as building
from drfh.traces.google2011 import task_events as google_rows
from drfh.traces.google2011 import task_runs as google_runs
from drfh.traces.google2011.task_events import Part, compiled_part, plain_part
from drfh.traces.google2011.task_runs import Steps, find_runs, plain_runs
from tests.support.examples import examples
from tests.traces.test_google2011 import unexplained

DATA = os.environ.get("DRFH_DATA")
needs_data = pytest.mark.skipif(not DATA, reason="DRFH_DATA is not set")
EACH = settings(
    max_examples=examples(150),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


# Rows of a part. A few endings come again and again, as in the trace.
def _texts(*usual: str) -> st.SearchStrategy[str]:
    return st.sampled_from(usual)


NUMBERS = st.one_of(
    st.floats(0, 1).map(repr),
    st.floats(0, allow_infinity=False).map(repr),
    st.floats(0, 1).map("{:.4g}".format),
    st.integers(0, 10**20).map(str),
    st.decimals(0, 1, places=20).map(str),
    st.tuples(st.integers(0, 10**16), st.integers(-30, 30)).map(lambda p: f"{p[0]}e{p[1]}"),
    _texts(
        "", "0", "0.5", "0.06158", "1", "9.537e-06", "1E5", "2.5e+3", "00.125", "0.0000000000001"
    ),
    _texts("9007199254740991", "9007199254740993", "1e22", "1e23", "1e-22", "3e-23", "0e99"),
)
WHOLE = st.one_of(_texts("", "0", "1", "2", "3", "11"), st.integers(0, 140).map(str))
USERS = st.one_of(_texts("ann", "bob", "x", "pUz8GwA+Y6EIw9rPqVYyqQpn2IN3jre0J3rZHrVqzR4="))
ENDINGS = st.tuples(USERS, WHOLE, WHOLE, NUMBERS, NUMBERS, NUMBERS, WHOLE)
HEADERS = st.tuples(
    st.integers(0, 5) | st.integers(0, 10**12),  # how much later than the row above
    _texts("", "", "0", "2"),
    st.integers(0, 4) | st.integers(0, 2**39 - 1),
    st.integers(0, 40) | st.integers(0, 2**23 - 1),
    _texts("", "43", "336051682", "4479131725") | st.integers(0, 10**18 - 1).map(str),
    st.integers(0, 8),
)


@st.composite
def rows_in_order(draw: st.DrawFn) -> list[list[str]]:
    endings = draw(st.lists(ENDINGS, min_size=1, max_size=4))
    time = 0
    rows = []
    for header in draw(st.lists(HEADERS, max_size=30)):
        time += header[0]
        ending = draw(st.sampled_from(endings))
        rows.append([str(time), *map(str, header[1:]), *ending])
    return rows


STRANGE = _texts(
    "", " ", "-1", "+1", "x", "1.5", "5.", ".5", ".", "-0.0", "inf", "nan", "NaN", "1e", "1e+",
    "e5", "1_0", "0x1", " 1", "1 ", "½", "ann bob", " ann", "\x7f", '"1"', '"', "\t", "\0", "007",
    "128", "256", "9223372036854775807", "9223372036854775808", "99999999999999999999999999",
    "1e400", "1e-400", "549755813888", "8388608", "1;2", "#", "1e5000", "0.30000000000000004",
    "a" * 300,
)  # fmt: skip


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """The bytes of a part with something unusual in it, or with nothing."""
    rows = draw(rows_in_order())
    for _ in range(draw(st.integers(0, 2)) if rows else 0):
        row = draw(st.sampled_from(rows))
        how = draw(st.sampled_from(["field", "less", "more", "empty", "swap"]))
        if how == "field" and row:
            row[draw(st.integers(0, len(row) - 1))] = draw(STRANGE)
        elif how == "less":
            del row[-1:]
        elif how == "more":
            row.append(draw(WHOLE))
        elif how == "empty":
            row.clear()
        elif len(row) > 6:
            row[0], row[6] = row[6], row[0]
    data = "".join(",".join(row) + "\n" for row in rows).encode()
    how = draw(st.sampled_from(["", "", "", "", "no end", "cut", "carriage", "flip", "mark"]))
    if how == "no end":
        return data.removesuffix(b"\n")
    if how == "cut":
        return data[: draw(st.integers(0, len(data)))]
    if how == "carriage":
        return data.replace(b"\n", b"\r\n")
    if how == "mark":
        return b"\xef\xbb\xbf" + data
    if how == "flip" and data:
        at = draw(st.integers(0, len(data) - 1))
        return data[:at] + bytes([data[at] ^ (1 << draw(st.integers(0, 7)))]) + data[at + 1 :]
    return data


def same(one: Part, other: Part) -> None:
    for name in Steps._fields:
        a, b = getattr(one.steps, name), getattr(other.steps, name)
        assert a.dtype == b.dtype
        assert a.flags.writeable
        assert b.flags.writeable
        assert a.tolist() == b.tolist()
    a, b = one.forms[one.form], other.forms[other.form]
    assert a.schema == b.schema
    assert a.equals(b)
    assert set(one.users) == set(other.users)
    assert len(one.users) == len(set(one.users))
    assert sorted(one.jobs.tolist()) == sorted(other.jobs.tolist())
    assert one.kinds == other.kinds
    assert (one.rows, one.first, one.last) == (other.rows, other.first, other.last)


def agree(path: Path) -> bool:
    """Check that what the kernel reads is what its twin reads; return whether it reads it."""
    quick = compiled_part(path)
    if quick is None:
        return False
    ledger = Ledger()
    same(quick, plain_part(path, ledger))
    assert not ledger.counts
    assert not ledger.oddities
    return True


@EACH
@given(data=files(), piece=st.sampled_from([1, 7, 50, 200, 2**17]), packed=st.booleans())
def test_the_kernel_reads_what_its_twin_reads(
    tmp_path: Path, data: bytes, piece: int, packed: bool
) -> None:
    path = tmp_path / "part.csv"
    path.write_bytes(gzip.compress(data, 1) if packed else data)
    with patch.object(opening, "_PIECE", max(piece, 2) if packed else piece):
        agree(path)


@EACH
@given(rows=rows_in_order(), piece=st.sampled_from([60, 300, 2**17]))
def test_the_kernel_reads_what_is_in_order(
    tmp_path: Path, rows: list[list[str]], piece: int
) -> None:
    for row in rows:
        row[7], row[8], row[12] = (
            field if len(field) < 3 else "7" for field in row[7:9] + row[12:]
        )
        row[9:12] = ["0.06158", "9.537e-06", ""]
    path = tmp_path / "part.csv"
    path.write_text("".join(",".join(row) + "\n" for row in rows))
    with patch.object(opening, "_PIECE", piece):
        assert agree(path)


NUMBER_FORMS = st.one_of(
    st.tuples(st.integers(0, 2**53 - 1), st.integers(-22, 22)).map(lambda p: f"{p[0]}e{p[1]}"),
    st.decimals(0, 10, places=14).map("{:f}".format),
    st.floats(0, 1).map("{:.15g}".format),
)


@EACH
@given(texts=st.lists(NUMBER_FORMS, min_size=3, max_size=3))
def test_numbers_come_out_to_the_last_bit(tmp_path: Path, texts: list[str]) -> None:
    path = tmp_path / "part.csv"
    path.write_text(f"5,,1,0,,0,ann,1,1,{','.join(texts)},0\n")
    found = compiled_part(path)
    if found is not None:
        assert found.forms.row(0)[1:4] == tuple(map(float, texts))


def test_what_must_go_the_slow_way_does(tmp_path: Path) -> None:
    before: list[list[str]]
    good = ["600", "", "7", "1", "", "0", "ann", "1", "9", "0.5", "0.25", "0", "1"]
    path = tmp_path / "part.csv"
    path.write_text(",".join(good) + "\n")
    assert agree(path)
    for field, text in (
        (0, "-1"), (0, ""), (0, "9223372036854775807"), (1, "x"), (1, "128"), (2, "549755813888"),
        (2, ""), (3, "8388608"), (3, "1.0"), (4, "x"), (5, "9"), (5, ""), (5, "00"), (6, ""),
        (6, " ann"), (6, "ann\r"), (6, '"ann"'), (6, "é"), (7, "128"), (8, "-1"), (9, "-0.5"),
        (9, "inf"), (10, "nan"), (10, "1e23"), (10, "0.1234567890123456789"), (11, "5."),
        (11, "9007199254740993"), (12, "1 "), (12, "1,"), (12, "1\n"), (12, "1\r"),
    ):  # fmt: skip
        for before in ([], [good, good]):
            wrong = [*good]
            wrong[field] = text
            lines = [*before, wrong]
            path.write_text("".join(",".join(line) + "\n" for line in lines), newline="")
            assert compiled_part(path) is None, (field, text)
    path.write_text(",".join(good) + "\n" + ",".join(["599", *good[1:]]) + "\n")
    assert compiled_part(path) is None


def test_room_is_made_for_many_jobs_users_and_forms(tmp_path: Path) -> None:
    path = tmp_path / "part.csv"
    with path.open("w") as file:
        for n in range(30_000):
            user, cpu = f"user-{n % 7_000}", f"0.{n % 9_000 + 1}"
            file.write(f"{n},,{n * 977 % 20_011},{n},,{n % 9},{user},1,9,{cpu},0.25,{'' * n},\n")
        file.write(f"30000,,1,1,,0,{'u' * 2**20},1,9,0.5,0.5,0,1\n")
    assert agree(path)
    assert agree(path)


def test_endings_that_differ_in_one_byte_differ(tmp_path: Path) -> None:
    path = tmp_path / "part.csv"
    for user in ("x", "user-1", "pUz8GwA+Y6EIw9rPqVYyqQpn2IN3jre0J3rZHrVqzR4="):
        ending = f"{user},1,1,0.1111,0.11111,1.111e-01,1"
        others = [ending[:n] + "2" + ending[n + 1 :] for n, c in enumerate(ending) if c == "1"]
        for other in others:
            path.write_text("".join(f"5,,7,1,,0,{text}\n" for text in (ending, other, ending)))
            assert agree(path)


def test_a_damaged_file_goes_the_slow_way(tmp_path: Path) -> None:
    row = b"600,,7,1,,0,ann,1,9,0.5,0.25,0,1\n"
    whole = gzip.compress(row * 1000)
    path = tmp_path / "part.csv.gz"
    for data, odd in (
        (whole, 0), (whole[:-9], 1), (whole[:-1], 1), (whole[:30] + b"\xff\xff" + whole[32:], 1),
        (whole[:-8] + bytes(8), 1), (whole + whole, 0), (whole + b"\0\0", 0), (whole + b"x", 0),
    ):  # fmt: skip
        path.write_bytes(data)
        assert (compiled_part(path) is None) == (data != whole)
        ledger = Ledger()
        text = opening.unpacked(path, ledger)
        assert text == row * (len(text) // len(row)) + row[: len(text) % len(row)]
        assert len(ledger.oddities) == odd
        if not odd:
            assert len(text) == len(row) * (2000 if data == whole * 2 else 1000)


def test_zlib_unpacks_where_isal_is_not(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    data = bytes(np.random.default_rng(1).integers(0, 9, 10**6, dtype=np.uint8))
    path.write_bytes(gzip.compress(data, 1))
    assert b"".join(opening.pieces(path)) == data
    with patch.object(opening, "isal_zlib", zlib):
        assert b"".join(opening.pieces(path)) == data


@st.composite
def histories(draw: st.DrawFn) -> list[Steps]:
    tasks = draw(st.lists(st.integers(0, 2**62 - 1) | st.integers(0, 40), min_size=1, max_size=12))
    steps = st.tuples(st.sampled_from(tasks), st.integers(0, 3), st.integers(0, 8))
    found = []
    time = 0
    for _ in range(draw(st.integers(1, 3))):
        rows = draw(st.lists(steps, max_size=40))
        task, later, event = (
            (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
            if rows
            else ([np.zeros(0, dtype=np.int64)] * 3)
        )
        times = time + np.cumsum(later)
        time = int(times[-1]) if len(times) else time
        found.append(Steps(task, times, event.astype(np.int8)))
    return found


@EACH
@given(
    steps=histories(),
    until=st.integers(0, 60),
    each=st.booleans(),
    block=st.sampled_from([1, 2, 64]),
)
def test_one_pass_finds_the_same_runs(
    steps: list[Steps], until: int, each: bool, block: int
) -> None:
    with patch.object(google_runs, "_BLOCK", block):
        quick = find_runs(steps, until, each=each)
    cuts = [int((piece.time <= until).sum()) for piece in steps]
    inside = [piece.part(0, cut) for piece, cut in zip(steps, cuts, strict=True)]
    outside = [piece.part(cut, None) for piece, cut in zip(steps, cuts, strict=True)]
    plain = plain_runs(inside, outside, each=each)
    for name in plain._fields:
        a, b = np.asarray(getattr(quick, name)), np.asarray(getattr(plain, name))
        assert a.dtype == b.dtype, name
        assert a.tolist() == b.tolist(), name


@EACH
@given(data=st.data())
def test_values_are_numbered_alike(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 30))
    kinds: dict[str, Any] = {
        "whole": st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1),
        "number": st.sampled_from([0.0, -0.0, 0.5, 1e-300, float("inf"), -1.0]),
        "name": st.sampled_from(["ann", "bob", "eve"]),
    }
    frame = pl.DataFrame(
        {n: data.draw(st.lists(k, min_size=size, max_size=size)) for n, k in kinds.items()}
    ).with_columns(pl.col("name").cast(pl.Categorical), pl.col("name").alias("text"))
    keys = data.draw(st.lists(st.sampled_from(frame.columns), min_size=1, max_size=3, unique=True))
    number, values = building.codes(frame, keys)
    assert (building._compiled_codes(frame, keys) is None) == ("text" in keys)
    with plain():
        expected, same_values = building.codes(frame, keys)
    assert number.dtype == expected.dtype
    assert number.tolist() == expected.tolist()
    assert values.equals(same_values)


def test_many_values_are_numbered_alike() -> None:
    frame = pl.DataFrame({"a": np.random.default_rng(3).integers(0, 50_000, 200_000)})
    number, values = building.codes(frame, ["a"])
    with plain():
        expected, same_values = building.codes(frame, ["a"])
    assert np.array_equal(number, expected)
    assert values.equals(same_values)


def plain() -> Any:
    """Take the plain twins."""
    return patch.dict(
        sys.modules,
        {name: sys.modules[name] for name in sys.modules if name != "numba"},
        clear=True,
    )


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small trace with all that options ask about, and users that share a job."""
    folder = tmp_path_factory.mktemp("google")
    (folder / "machine_events").mkdir()
    (folder / "task_events").mkdir()
    (folder / "machine_events" / "part-00000-of-00001.csv").write_text(
        "0,1,0,p,0.5,0.25\n0,2,0,q,1,1\n0,3,0,,0.5,0.5\n900000000,1,2,p,0.25,0.25\n"
        "950000000,2,1,q,1,1\n990000000,2,0,q,1,0.5\n"
    )
    draw = np.random.default_rng(5)
    for part in range(3):
        rows = []
        times = np.sort(draw.integers(0, 400_000_000, 600)) + 400_000_000 * part
        times[: 100 if part == 0 else 0] = 0
        for time in times:
            job, index = draw.integers(0, 12), draw.integers(0, 15)
            user = f"user-{(job + (draw.random() < 0.02)) % 5}"
            cpu = ["", "0", "0.5", "0.0625"][job % 4]
            memory = ["", "0", "0.25", "0.1249"][(job + index) % 4 if job % 4 else 0]
            event = draw.choice(9, p=[0.3, 0.3, 0.05, 0.05, 0.2, 0.05, 0.02, 0.02, 0.01])
            rows.append(
                f"{time},,{job},{index},,{event},{user},1,{job % 12},{cpu},{memory},0.001,0"
            )
        path = folder / "task_events" / f"part-{part:05}-of-00500.csv.gz"
        path.write_bytes(gzip.compress(("\n".join(rows) + "\n").encode()))
    return folder


def everything(found: traces.Trace) -> Iterator[Any]:
    workload, cluster = found.workload, found.cluster
    for name in ("demand", "batch_user", "batch_job", "batch_arrival", "batch_shape", "batch_count",
                 "duration", "job_user"):  # fmt: skip
        array = getattr(workload, name)
        yield name, array.dtype, array.tolist()
    yield workload.users, workload.job_names, workload.events, workload.resources
    yield cluster.servers, cluster.names, cluster.resources, cluster.capacity.tolist()
    yield found.details.schema, found.details.rows()
    yield list(found.counts.items()), found.oddities, found.remarks, found.window


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"preset": "each_drop"},
        {"resubmissions": "each", "at_cut": "run"},
        {"hours": 0.1, "start": 0.05},
        {"missing_requests": "mean"},
        {"missing_requests": "mean", "resubmissions": "each", "zero_requests": "drop"},
        {"ended_by": "finish"},
        {"users": ("user-1", "user-3"), "sample": 0.7},
    ],
)
def test_a_trace_is_the_same_either_way(trace: Path, options: dict[str, Any]) -> None:
    parts = sorted((trace / "task_events").iterdir())
    assert all(compiled_part(path) is not None for path in parts)
    quick = traces.read("google-2011", trace, **options)
    with plain():
        slow = traces.read("google-2011", trace, **options)
        assert "numba" not in sys.modules
    for one, other in zip(everything(quick), everything(slow), strict=True):
        assert one == other
    assert unexplained(quick) == 0
    if not options:
        assert quick.counts["tasks left out: of a job of another user"] > 0


@pytest.mark.parametrize("options", [{}, {"hours": 0.05}, {"resubmissions": "each"}])
def test_parts_without_a_snapshot_are_the_same_either_way(
    trace: Path, tmp_path: Path, options: dict[str, Any]
) -> None:
    (tmp_path / "machine_events").symlink_to(trace / "machine_events")
    (tmp_path / "task_events").mkdir()
    for path in sorted((trace / "task_events").iterdir())[1:]:
        (tmp_path / "task_events" / path.name).symlink_to(path)
    quick = traces.read("google-2011", tmp_path, **options)
    with plain():
        slow = traces.read("google-2011", tmp_path, **options)
    for one, other in zip(everything(quick), everything(slow), strict=True):
        assert one == other
    assert unexplained(quick) == 0
    assert quick.counts["tasks left out: SCHEDULE without SUBMIT"] > 0


def test_parts_out_of_order_are_the_same_either_way(trace: Path, tmp_path: Path) -> None:
    for table in ("machine_events", "task_events"):
        (tmp_path / table).mkdir()
        for path in (trace / table).iterdir():
            name = path.name.replace("part-00000-of-00500", "part-00007-of-00500")
            (tmp_path / table / name).write_bytes(path.read_bytes())
    quick = traces.read("google-2011", tmp_path)
    with plain():
        slow = traces.read("google-2011", tmp_path)
    assert any("part before it" in oddity.kind for oddity in quick.oddities)
    for one, other in zip(everything(quick), everything(slow), strict=True):
        assert one == other


def write_tasks(folder: Path, trace: Path, *parts: list[str]) -> None:
    (folder / "machine_events").symlink_to(trace / "machine_events")
    (folder / "task_events").mkdir()
    for number, rows in enumerate(parts):
        path = folder / "task_events" / f"part-{number:05}-of-00500.csv"
        path.write_text("".join(row + "\n" for row in rows))


def test_requests_stay_with_their_tasks_if_parts_are_out_of_order(
    trace: Path, tmp_path: Path
) -> None:
    def run(time: int, job: int) -> list[str]:
        return [f"{10**9 + time + e},,{job},0,,{e},ann,1,9,0.{job},0.25,,0" for e in (0, 1)]

    write_tasks(tmp_path, trace, run(50, 5) + run(60, 6), run(10, 1) + run(20, 2) + run(70, 7))
    for chosen in (nullcontext(), plain()):
        with chosen:
            found = traces.read("google-2011", tmp_path)
        workload = found.workload
        assert workload.job_names == ("1", "2", "5", "6", "7")
        assert workload.demand[workload.batch_shape][:, 0].tolist() == [0.1, 0.2, 0.5, 0.6, 0.7]
        assert [oddity.count for oddity in found.oddities] == [1]


def test_a_job_is_of_the_user_of_its_lowest_task(trace: Path, tmp_path: Path) -> None:
    rows = [
        f"{10**9 + 9 * n + e},,7,{index},,{e},{user},1,9,0.5,0.25,,0"
        for n, (index, user) in enumerate([(5, "bob"), (3, "eve"), (0, "ann"), (9, "ann")])
        for e in (0, 1)
    ]
    write_tasks(tmp_path, trace, rows)
    for chosen in (nullcontext(), plain()):
        with chosen:
            found = traces.read("google-2011", tmp_path)
        assert [user.name for user in found.workload.users] == ["ann"]
        assert found.details["index"].to_list() == [0, 9]
        assert found.counts["tasks left out: of a job of another user"] == 2


def test_servers_from_arrays_have_labels() -> None:
    labels = [{"platform": "p"}, {}, {"platform": "q"}]
    pool = Cluster.from_arrays([[1, 2], [3, 4], [5, 6]], ["cpu", "memory"], names=["a", "b", "c"],
                               labels=labels)  # fmt: skip
    each = [
        Server({"cpu": c, "memory": c + 1}, name=n, labels=it)
        for c, n, it in zip((1, 3, 5), "abc", labels, strict=True)
    ]
    assert pool == Cluster(each)
    assert hash(pool) == hash(Cluster(each))
    assert pool.plus(Server({"cpu": 1})) == Cluster(each).plus(Server({"cpu": 1}))
    user = User("ann", {"cpu": 1, "memory": 1}, servers={"platform": "q"})
    assert allocate(pool, [user]).tasks == allocate(Cluster(each), [user]).tasks
    with pytest.raises(InputError, match=r"labels must be a list with one entry for each group"):
        Cluster.from_arrays([[1]], ["cpu"], labels=[])
    with pytest.raises(InputError, match=r"labels\[0\] must map label names to values, got 'x'"):
        Cluster.from_arrays([[1]], ["cpu"], labels=["x"])  # type: ignore[list-item]


@needs_data
def test_all_parts_of_the_real_trace_go_the_fast_way() -> None:
    parts = sorted((Path(str(DATA)) / "clusterdata-2011-2" / "task_events").iterdir())
    assert len(parts) >= 14
    with patch.object(google_rows, "plain_part", side_effect=AssertionError):
        read = [google_rows.read_part(path, Ledger()) for path in parts]
    assert sum(part.rows for part in read) >= 2_609_335
    same(read[1], plain_part(parts[1], Ledger()))


@pytest.mark.slow
def test_the_benchmark_runs_and_both_find_the_same_tasks(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pandas")
    from benchmarks import trace_reading

    monkeypatch.delenv("DRFH_DATA", raising=False)
    trace_reading.main([])
    assert "set DRFH_DATA" in capsys.readouterr().err
    # One user a job, and events in an order that can be: else the two mean different things.
    rows = []
    for n in range(60):
        ending = f"user-{n % 3},1,9,0.{n % 7},{'' if n % 5 else '0.25'},0.001,0"
        rows += [f"{600_000_000 + 9 * n + e},,{n % 9},{n},{e},{e},{ending}" for e in (0, 1)]
        rows += [f"{600_000_000 + 9 * n + 7},,{n % 9},{n},4,{n % 7},{ending}"] * (n % 3 > 0)
    (tmp_path / "task_events").mkdir()
    (tmp_path / "machine_events").symlink_to(trace / "machine_events")
    for number in range(3):
        path = tmp_path / "task_events" / f"part-{number:05}-of-00500.csv"
        path.write_text("\n".join(rows[number * 40 : number * 40 + 40 if number < 2 else None]))
    trace_reading.main(["--path", str(tmp_path), "--quick", "--full", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert [row["parts"] for row in found["turns"]] == [2, 3]
    assert all(row["same"] for row in found["turns"])
    assert [row["parts"] for row in found["fresh"]] == [3, 3, 30, 30]
    tasks = [row["tasks"] for row in found["fresh"]]
    assert tasks[0] == tasks[1]
    assert tasks[2] == tasks[3] == 10 * tasks[0]
    twice = traces.read("google-2011", trace_reading.longer(tmp_path, tmp_path / "twice", 2))
    assert not twice.oddities
    table = trace_reading.rival(tmp_path)
    assert trace_reading.same_tasks(traces.read("google-2011", tmp_path), table)
    table.loc[table.index[3], "duration"] += 1e-6
    assert not trace_reading.same_tasks(traces.read("google-2011", tmp_path), table)


def test_the_tables_of_the_benchmark(capsys: pytest.CaptureFixture[str]) -> None:
    from benchmarks import report, trace_reading

    rows = [trace_reading.Row(14, 2_609_335, 573_309, 0.5, 0.8, 1.25, same=False)]
    fresh = [trace_reading.Fresh("drfh", 140, 9, 5.0, 2.5), trace_reading.Fresh("x", 140, 9, 5, 9)]
    report.show(trace_reading.turns_table(rows), trace_reading.fresh_table(fresh))
    shown = capsys.readouterr().out
    for word in ("2.50× (3: NOT MET)", "NO", "2.50 GiB (4 GiB: met)", "9.00 GiB"):
        assert word in shown
