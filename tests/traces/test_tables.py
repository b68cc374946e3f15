"""Our own tables: what is written is read again, and people may write them by hand."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import drfh
from drfh.traces import Trace, read
from drfh.traces.build import build
from drfh.traces.tables.writer import write
from tests.support.damage import damaged, folder_with, survives
from tests.support.examples import examples

BY_HAND = {
    "servers.csv": b"name,count,cpu,memory,gpu,label.zone\nbig,2,16,64Gi,,a\ngpu,1,8,32Gi,4,b\n",
    "users.csv": b"name,weight,servers\nann,2,\nbob,1,big\n",
    "jobs.csv": (
        b"user,job,arrival,duration,tasks,cpu,memory,gpu,servers,note.kind\n"
        b"bob,sort,5,60,3,500m,1Gi,,,batch\n"
        b'ann,train,0,90 80,2,1,2Gi,1,"{""zone"": ""b""}",\n'
        b"cyd,,10,inf,,1,1Gi,,big/0,\n"
    ),
    "events.csv": b"time,event,name,count,cpu,label.zone\n30,add,new,2,4,c\n40,remove,big/1,,,\n"
    b"50,resize,gpu,,2,\n",
}


def read_files(files: dict[str, bytes], **options: Any) -> Trace:
    with folder_with(files) as folder:
        return read(None, folder, **options)


def test_by_hand() -> None:
    trace = read_files(BY_HAND)
    assert trace.format == "tables"
    cluster, workload = trace
    assert cluster == drfh.Cluster(
        [
            drfh.Server({"cpu": 16, "memory": "64Gi"}, name="big", count=2, labels={"zone": "a"}),
            drfh.Server({"cpu": 8, "memory": "32Gi", "gpu": 4}, name="gpu", labels={"zone": "b"}),
        ]
    )
    users = [drfh.User("ann", weight=2), drfh.User("bob", servers="big"), drfh.User("cyd")]
    jobs = [
        drfh.Job("bob", demand={"cpu": 0.5, "memory": 2**30, "gpu": 0}, duration=60, tasks=3,
                 arrival=5, name="sort"),
        drfh.Job("ann", demand={"cpu": 1, "memory": 2**31, "gpu": 1}, duration=[90, 80],
                 servers={"zone": "b"}, name="train"),
        drfh.Job("cyd", demand={"cpu": 1, "memory": 2**30}, duration=math.inf, arrival=10,
                 servers="big/0", name="job-4"),
    ]  # fmt: skip
    events: list[Any] = [
        drfh.AddServers(30, drfh.Server({"cpu": 4}, name="new", count=2, labels={"zone": "c"})),
        drfh.RemoveServers(40, "big/1"),
        drfh.ResizeServer(50, "gpu", {"cpu": 2}),
    ]
    assert workload == drfh.Workload(users, jobs, events)
    assert trace.details.columns == ["kind"]
    assert trace.oddities == ()
    workload.check(cluster)


def test_servers_and_jobs_are_enough() -> None:
    trace = read_files(
        {"servers.csv": b"cpu\n8\n4\n", "jobs.csv": b"user,duration,cpu\nann,60,1\nann,5,2\n"}
    )
    assert trace.cluster.names == ("server-1", "server-2")
    assert trace.workload.job_names == ("job-2", "job-3")  # their lines
    assert trace.window is None


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("jobs.csv", b"user,duration,cpus\nann,1,1\n", "jobs.csv, line 1: column must be one of"),
        ("jobs.csv", b"user,cpu\nann,1\n", "duration must be among the columns"),
        ("jobs.csv", b"user,duration\nann,1\n", "columns must have one for each resource"),
        ("jobs.csv", b"", "user must be among the columns"),
        ("servers.csv", b"name,count\na,1\n", "columns must have one for each resource"),
        ("servers.csv", b"name,cpu\n", "must have at least one server"),
        ("users.csv", b"weight\n1\n", "name must be among the columns"),
        ("trace.json", b"{", "must be JSON"),
    ],
)
def test_wrong_files(name: str, text: bytes, message: str) -> None:
    with pytest.raises(drfh.InputError, match=message):
        read_files({**BY_HAND, name: text})


@pytest.mark.parametrize(
    ("name", "row", "message"),
    [
        ("jobs.csv", b"ann,x,-1,5,1,1,,,,\n", "arrival must be a number of seconds"),
        ("jobs.csv", b"ann,x,1,-5,1,1,,,,\n", "duration must be a number of seconds"),
        ("jobs.csv", b"ann,x,1,5 6,3,1,,,,\n", "duration must be a number of seconds"),
        ("jobs.csv", b"ann,x,1,5,0,1,,,,\n", "tasks must be a whole number"),
        ("jobs.csv", b"ann,x,1,5,1,0,0,0,,\n", "another amount must be > 0"),
        ("jobs.csv", b"ann,x,1,5,1,4 cores,,,,\n", "cpu must be a finite number"),
        ("jobs.csv", b"ann,x,1,5,1,1,,,{,\n", "servers must be a name, or JSON"),
        ("jobs.csv", b"ann,sort,1,5,1,1,,,,\n", "user must be that of the job's other rows"),
        ("jobs.csv", b",x,1,5,1,1,,,,\n", "user must be given"),
        ("servers.csv", b"big,1,1,,,\n", "name must be unique"),
        ("servers.csv", b"odd,0,1,,,\n", "count must be a whole number"),
        ("servers.csv", b"odd,1,,,,\n", "resources must have at least one amount"),
        ("users.csv", b"cyd,0,\n", "weight must be > 0"),
        ("events.csv", b"60,grow,big,,,\n", "event must be one of add, remove, resize"),
        ("events.csv", b"-60,remove,big,,,\n", "time must be a finite number"),
    ],
)
def test_broken_rows_are_left_out_and_counted(name: str, row: bytes, message: str) -> None:
    files = {**BY_HAND, name: BY_HAND[name] + row}
    trace = read_files(files)
    line = BY_HAND[name].count(b"\n") + 1
    assert [odd.count for odd in trace.oddities] == [1]
    first = trace.oddities[0].first
    assert message in first
    assert first.startswith(f"{name}, line {line}: ")
    assert trace.workload == read_files(BY_HAND).workload
    with pytest.raises(drfh.InputError, match=message):
        read_files(files, strict=True)


def test_a_window_and_a_sample() -> None:
    trace = read_files(BY_HAND, start=5 / 3600, hours=3 / 3600)
    assert trace.workload.job_names == ("sort",)
    assert trace.workload.batch_arrival.tolist() == [0.0]
    assert [event.time for event in trace.workload.events] == [25.0, 35.0, 45.0]
    assert trace.window == pytest.approx(3)
    only = read_files(BY_HAND, users="bob")
    assert [user.name for user in only.workload.users] == ["bob"]


names = st.text("abcxyz019-_. é", min_size=1, max_size=6).filter(lambda s: s == s.strip())
amounts = st.sampled_from([0.1, 0.25, 1.0, 3.5, 1e-7, 2.0**33, 1 / 3])


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    resources = draw(st.lists(st.sampled_from(["cpu", "memory", "gpu"]), min_size=1, unique=True))
    groups = draw(st.lists(names, min_size=1, max_size=4, unique=True))
    labels = st.dictionaries(st.sampled_from(["zone", "rack"]), names, max_size=2)
    servers = [
        drfh.Server(
            dict.fromkeys(resources, draw(amounts)),
            name=name,
            count=draw(st.integers(1, 3)),
            labels=draw(labels),
        )
        for name in groups
    ]
    restriction = st.one_of(
        st.none(),
        st.sampled_from(groups),
        st.lists(st.sampled_from(groups), min_size=1, max_size=2),
        st.fixed_dictionaries({"zone": st.lists(names, min_size=1, max_size=2)}),
    )
    people = draw(st.lists(names, min_size=1, max_size=3, unique=True))
    users = [
        drfh.User(name, weight=draw(amounts), servers=draw(restriction), parent=draw(st.none()))
        for name in people
    ]
    duration = st.sampled_from([0.0, 1.5, 1 / 3, math.inf])
    jobs = draw(
        st.lists(
            st.builds(
                drfh.Job,
                st.sampled_from(people),
                demand=st.fixed_dictionaries(dict.fromkeys(resources, amounts)),
                duration=st.one_of(duration, st.lists(duration, min_size=1, max_size=3)),
                arrival=st.sampled_from([0.0, 0.1, 7.0, 1e6]),
                servers=restriction,
                name=st.none(),
            ),
            min_size=1,
            max_size=5,
        )
    )
    events = draw(
        st.lists(
            st.builds(
                drfh.AddServers,
                st.sampled_from([0.0, 3.3]),
                st.builds(drfh.Server, st.just({"cpu": 4.0}), name=st.just("late"), labels=labels),
            ),
            max_size=1,
        )
    )
    workload = drfh.Workload(users, jobs, events)
    size = len(workload.batch_user)
    details = pl.DataFrame(
        {
            "priority": pl.Series(range(size), dtype=pl.Int8),
            "flag": [i % 2 == 0 for i in range(size)],
            "word": pl.Series([["a", "b, c", None][i % 3] for i in range(size)], dtype=pl.String),
        }
    )
    return Trace("mine", "here", drfh.Cluster(servers), workload, details, window=12.5)


@settings(max_examples=examples(80))
@given(traces(), st.sampled_from(["csv", "parquet"]))
def test_round_trip(trace: Trace, kind: str) -> None:
    with folder_with({}) as folder:
        write(trace, folder / "out", kind=kind)
        again = read(None, folder / "out", strict=True)
    assert again.cluster == trace.cluster
    assert again.workload == trace.workload
    assert again.details.equals(trace.details, null_equal=True)
    assert again.details.schema == trace.details.schema
    assert again.window == trace.window


def test_round_trip_of_the_published_trace(data: Path, tmp_path: Path) -> None:
    trace = read("google-2011", data / "clusterdata-2011-2", hours=2, servers=500)
    log = drfh.simulate(trace.cluster, trace.workload, until=trace.window, log=True).tasks
    assert log is not None
    for kind in ("csv", "parquet"):
        write(trace, tmp_path / kind, kind=kind)
        again = read("tables", tmp_path / kind)
        assert again.workload == trace.workload
        assert again.cluster == trace.cluster
        assert again.details.equals(trace.details)
        same = drfh.simulate(again.cluster, again.workload, until=trace.window, log=True).tasks
        assert same is not None
        assert log.equals(same)


def test_a_directory_is_never_replaced_unasked(tmp_path: Path) -> None:
    trace = read_files(BY_HAND)
    write(trace, tmp_path / "out")
    with pytest.raises(drfh.InputError, match="must be new"):
        write(trace, tmp_path / "out")
    write(trace, tmp_path / "out", kind="parquet", force=True)
    assert not (tmp_path / "out" / "jobs.csv").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("x")
    with pytest.raises(drfh.InputError, match=r"trace\.json"):
        write(trace, tmp_path / "mine", force=True)
    with pytest.raises(drfh.UnknownNameError, match="kind must be one of csv, parquet"):
        write(trace, tmp_path / "new", kind="xlsx")


def test_what_cannot_be_written() -> None:
    def odd(server: drfh.Server) -> bool:
        return True

    job = drfh.Job("ann", demand={"cpu": 1}, duration=1, servers=odd)
    cluster = drfh.Cluster([drfh.Server({"cpu": 1})])
    details = pl.DataFrame()
    trace = Trace("mine", "", cluster, drfh.Workload(["ann"], [job]), details)
    with folder_with({}) as folder:
        with pytest.raises(drfh.InputError, match="not a predicate"):
            write(trace, folder / "out")
        assert not list(folder.iterdir())
        workload = drfh.Workload(["ann"], [drfh.Job("ann", demand={"user": 1}, duration=1)])
        with pytest.raises(drfh.InputError, match="must not be called as a column"):
            write(Trace("mine", "", cluster, workload, details), folder / "out")


@settings(max_examples=examples(150))
@given(st.data())
def test_damaged_files(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(BY_HAND)))
    files = {**BY_HAND, name: data.draw(damaged(BY_HAND[name]))}
    trace = survives(lambda: read_files(files))
    if trace is not None:
        survives(lambda: trace.workload.check(trace.cluster))


@settings(max_examples=examples(80))
@given(st.data())
def test_damaged_parquet(data: st.DataObject) -> None:
    with folder_with({}) as folder:
        write(read_files(BY_HAND), folder / "out", kind="parquet")
        name = data.draw(st.sampled_from(["servers", "jobs", "users", "events"]))
        path = folder / "out" / f"{name}.parquet"
        path.write_bytes(data.draw(damaged(path.read_bytes())))
        survives(lambda: read(None, folder / "out"))


def test_unused_restrictions_are_dropped() -> None:
    frame = pl.DataFrame(
        {"user": ["a", "a"], "job": [1, 2], "arrival": [0.0, 0.0], "duration": [1.0, 1.0],
         "cpu": [1.0, 1.0], "restriction": [3, 1]}
    )  # fmt: skip
    workload, _ = build(frame, ["cpu"], restrictions=[None, "x", "y", "z"])
    assert workload.restrictions == (None, ("z",), ("x",))
    assert np.array_equal(workload.restriction[workload.batch_shape], [1, 2])
