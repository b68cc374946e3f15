"""What is written to a journal is read back, whatever happens to the file."""

from __future__ import annotations

import gzip
import json
import os
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drfh.engines.journal.reader import Journal, JournalEntry, read_journal
from drfh.engines.journal.writer import JournalWriter
from drfh.engines.snapshot import (
    BlockedCode,
    BlockedReason,
    ClusterSnapshot,
    NodeSnapshot,
    TaskSnapshot,
)
from drfh.errors import DrfhError, InputError
from drfh.scheduler import Placed
from tests.support.examples import examples

HEADER: dict[str, Any] = {
    "policy": "best-fit-drfh",
    "engine": "slurm",
    "started": 1000.0,
    "cluster": "tiny",
}
ROOM = NodeSnapshot({"cpu": 4.0}, {"cpu": 4.0})

names = st.sampled_from(["n0", "n1", "n2", "größe", "n\n4"])
amounts = st.dictionaries(
    st.sampled_from(["cpu", "memory", "gpu"]),
    st.sampled_from([0.0, 1.0, 0.1, 17179869184.0, 1e300]),
    max_size=3,
)
servers = st.builds(
    NodeSnapshot,
    size=amounts,
    available=amounts,
    state=st.sampled_from(["up", "closing", "down"]),
    labels=st.dictionaries(st.sampled_from(["zone", "feature"]), st.text(max_size=3), max_size=2),
)
tasks = st.builds(
    TaskSnapshot,
    user=st.sampled_from(["ann", "bob", "\udce4"]),  # a name that is no UTF-8
    demand=amounts,
    order=st.lists(st.integers(-5, 2**40), max_size=2).map(tuple),
    servers=st.none() | st.lists(names, max_size=3).map(tuple),
    on=st.none() | names,
    blocked=st.sampled_from([None, BlockedReason(BlockedCode.RECORDED, "it depends")]),
    recalled=st.booleans(),
    since=st.sampled_from([0.0, 1763222400.125, 5.0]),
    limit=st.none() | st.sampled_from([60.0, 0.3]),
)
snapshots = st.builds(
    ClusterSnapshot,
    servers=st.lists(st.tuples(names, servers), max_size=4).map(dict),
    tasks=st.dictionaries(st.sampled_from([f"7_{i}" for i in range(6)]), tasks, max_size=6),
    weights=st.dictionaries(st.sampled_from(["ann", "bob"]), st.sampled_from([1.0, 2.5])),
)


def ordered(snapshot: ClusterSnapshot) -> tuple[Any, ...]:
    return tuple(snapshot.servers), snapshot


@settings(max_examples=examples(100), deadline=None)
@given(data=st.data())
def test_what_is_written_is_read(data: st.DataObject) -> None:
    with TemporaryDirectory() as folder:
        write_and_read(data, Path(folder) / "log")


def write_and_read(data: st.DataObject, path: Path) -> None:
    expected: list[tuple[float, Any, Any, Any]] = []
    base, started = 0.0, 1000.0
    for section in range(data.draw(st.integers(1, 3), label="sections")):
        with JournalWriter(path, {**HEADER, "started": started}, append=section > 0) as writer:
            snapshot, time = ClusterSnapshot({}, {}), 0.0
            for _ in range(data.draw(st.integers(0, 4), label="entries")):
                if data.draw(st.booleans(), label="changes"):
                    snapshot = data.draw(snapshots)
                time += data.draw(st.sampled_from([0.0, 0.3, 7.0]))
                placed = None
                if data.draw(st.booleans(), label="asked"):
                    pairs = [
                        (t, s) for t in list(snapshot.tasks)[:2] for s in list(snapshot.servers)[:1]
                    ]
                    placed = [Placed(task, "somebody", server) for task, server in pairs]
                limit = data.draw(st.none() | st.integers(0, 3)) if placed is not None else None
                at = writer.write(time, snapshot, placed, limit)
                if at is None:
                    assert not placed
                    assert not expected[-1][2]
                    assert ordered(snapshot) == expected[-1][1]
                    continue
                assert at * 1024 % 1 == 0
                pairs_ = None if placed is None else tuple((p.task, p.server) for p in placed)
                expected.append((base + at, ordered(snapshot), pairs_, limit))
        started += 100.0
        base += 100.0
    journal = read_journal(path)
    found = [(entry.t, ordered(entry.snapshot), entry.placed, entry.limit) for entry in journal]
    assert found == expected
    assert all(earlier[0] < later[0] for earlier, later in pairwise(found))
    assert (journal.entries, journal.remarks) == (len(expected), ())
    assert journal.headers[0].facts == {"cluster": "tiny"}


def snapshot_at(count: int) -> ClusterSnapshot:
    every = {f"7_{i}": TaskSnapshot("ann", {"cpu": 1.0}, (7, i)) for i in range(count)}
    return ClusterSnapshot({"n0": ROOM}, every)


def write(path: Path, *snapshots: ClusterSnapshot, **options: Any) -> None:
    with JournalWriter(path, HEADER, **options) as writer:
        for time, snapshot in enumerate(snapshots):
            writer.write(time, snapshot)


def shown(journal: Journal) -> list[tuple[float, int]]:
    return [(entry.t, len(entry.snapshot.tasks)) for entry in journal]


def test_a_large_array_is_written_together(tmp_path: Path) -> None:
    nodes = [f"node{i:04}" for i in range(2000)]
    rooms = dict.fromkeys(nodes, NodeSnapshot({"cpu": 64.0, "memory": 2.0**38}, {"cpu": 64.0}))
    part = tuple(nodes[:1500])
    demand = {"cpu": 1.0, "memory": 2.0**31}
    waiting = {
        f"7_{i}": TaskSnapshot("ann", demand, (7, i), part, since=1.8e9, limit=3600.0)
        for i in range(1000)
    }
    running = {
        name: TaskSnapshot(
            "ann", demand, task.order, part, on=nodes[i % 40], since=1.8e9, limit=3600
        )
        for i, (name, task) in enumerate(waiting.items())
    }
    sizes = []
    with JournalWriter(tmp_path / "log", HEADER) as writer:
        for time, some in enumerate([{}, waiting, running, {}]):
            before = os.path.getsize(tmp_path / "log")
            writer.write(time, ClusterSnapshot(rooms, some))
            sizes.append(os.path.getsize(tmp_path / "log") - before)
    # The list of 1,500 nodes is written once; then a thousand names and places in the queue.
    assert sizes[1] < 1500 * 12 + 1000 * 22
    assert max(sizes[2:]) < 1000 * 12
    assert shown(read_journal(tmp_path / "log")) == [(0, 0), (1, 1000), (2, 1000), (3, 0)]


def test_a_snapshot_without_changes_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "log"
    placed = [Placed("7_0", "ann", "n0")]
    with JournalWriter(path, HEADER) as writer:
        times = [
            writer.write(0.0, snapshot_at(1), placed),
            writer.write(1.0, snapshot_at(1), []),  # the engine did not start it: that is news
            writer.write(2.0, snapshot_at(1), []),
            writer.write(3.0, snapshot_at(2), []),
            writer.write(3.0, snapshot_at(3)),  # later, if only by a little
        ]
    assert times == [0.0, 1.0, None, 3.0, 3.0 + 1 / 1024]
    assert [entry.placed for entry in read_journal(path)] == [(("7_0", "n0"),), (), (), None]


def test_the_caller_may_go_on_with_the_same_mapping(tmp_path: Path) -> None:
    every = dict(snapshot_at(1).tasks)
    with JournalWriter(tmp_path / "log", HEADER) as writer:
        writer.write(0.0, ClusterSnapshot({"n0": ROOM}, every))
        del every["7_0"]
        writer.write(1.0, ClusterSnapshot({"n0": ROOM}, every))
    assert shown(read_journal(tmp_path / "log")) == [(0, 1), (1, 0)]


# The file


def test_a_last_line_cut_short_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "log"
    write(path, snapshot_at(1), snapshot_at(2))
    path.write_bytes(path.read_bytes()[:-7])
    journal = read_journal(path)
    assert shown(journal) == [(0, 1)]
    assert journal.remarks == ("line 3, the last one, is cut short and left out",)
    write(path, snapshot_at(5), append=True)
    mended = read_journal(path)
    assert shown(mended) == [(0, 1), (1 / 1024, 5)]
    assert len(mended.headers) == 2
    assert mended.remarks == ("the clock went back before line 4",)


def test_a_file_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "log"
    write(path, snapshot_at(1))
    text = path.read_text()
    with pytest.raises(InputError, match=r"log: the journal must be new \(or be continued with"):
        write(path, snapshot_at(2))
    assert path.read_text() == text
    write(path, snapshot_at(2), force=True)
    assert shown(read_journal(path)) == [(0, 2)]
    other = tmp_path / "notes.txt"
    other.write_text("my notes\n")
    with pytest.raises(InputError, match=r"notes.txt: the file must be a journal to be continued"):
        write(other, append=True)
    assert other.read_text() == "my notes\n"
    with pytest.raises(InputError, match="must be a regular file or a new one"):
        write(tmp_path, force=True)
    with pytest.raises(InputError, match=r"must be writable \(No such file or directory\)"):
        write(tmp_path / "no" / "log")


def test_append_starts_a_new_file_too(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    for name in ("new", "empty"):
        write(tmp_path / name, snapshot_at(1), append=True)
        assert shown(read_journal(tmp_path / name)) == [(0, 1)]


def test_packed_files(tmp_path: Path) -> None:
    write(tmp_path / "log", snapshot_at(1), snapshot_at(2))
    data = (tmp_path / "log").read_bytes()
    packed = tmp_path / "log.gz"
    packed.write_bytes(gzip.compress(data))
    assert list(read_journal(packed)) == list(read_journal(tmp_path / "log"))
    packed.write_bytes(gzip.compress(data)[:-9])
    assert "damaged" in read_journal(packed).remarks[0]


def test_a_disk_that_is_full_leaves_no_half_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log"
    really = os.write
    with JournalWriter(path, HEADER) as writer:
        writer.write(0.0, snapshot_at(1))
        calls = iter([10])

        def full(file: int, data: bytes) -> int:
            for count in calls:
                return really(file, data[:count])
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "write", full)
        with pytest.raises(DrfhError, match="log: cannot write the journal: No space left"):
            writer.write(1.0, snapshot_at(2))
        monkeypatch.undo()
        writer.write(2.0, snapshot_at(3))
    assert shown(read_journal(path)) == [(0, 1), (2, 3)]


def test_a_journal_that_grows_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with JournalWriter(path, HEADER) as writer:
        writer.write(0.0, snapshot_at(1))
        journal = read_journal(path)
        writer.write(1.0, snapshot_at(2))
        assert shown(journal) == [(0, 1)]
        assert shown(read_journal(path)) == [(0, 1), (1, 2)]


# Errors

GOOD = {"drfh": "journal 1", "version": "1", "seed": 0, "engine": "slurm", "controls": True,
        "policy": "fifo", "started": 0}  # fmt: skip
TASK = {"names": ["7"], "user": "ann", "demand": {"cpu": 1}, "order": [[7]]}
FIRST = {"t": 0, "order": ["n0"], "servers": [{"names": ["n0"], "size": {"cpu": 4}}],
         "tasks": [TASK]}  # fmt: skip


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "line 3: the line must be JSON, got '{"),
        ("[1]", "line 3: the line must be a JSON object, got [1]"),
        ({"t": -1}, "line 3: t must be a number of seconds ≥ 0, got -1"),
        ({"tasks": []}, "line 3: t must be a number of seconds ≥ 0, got None"),
        ({"t": 0}, "line 3: t must be later than at the line before, got 0.0"),
        ({"t": 1, "task": []}, "line 3: a key of the line must be one of gone"),
        ({"t": 1, "gone": ["8"]}, "line 3: gone must name tasks that are there, got '8'"),
        ({"t": 1, "gone": "8"}, "line 3: gone must be a list, got '8'"),
        ({"t": 1, "order": ["n0", "n1"]}, "line 3: order must name servers that are there, got"),
        ({"t": 1, "order": ["n0", "n0"]}, "line 3: order must name each server once"),
        ({"t": 1, "servers": [{"names": ["n1"], "size": {"cpu": 1}}]}, "3: order must be given"),
        ({"t": 1, "servers": [{"names": ["n1"]}]}, "3: servers[0].size must be given: n1 is new"),
        ({"t": 1, "servers": [{"names": ["n0"], "size": {"cpu": -4}}]}, "servers[0].size.cpu must"),
        ({"t": 1, "servers": [{"names": ["n0"], "labels": 4}]}, "servers[0].labels must map"),
        ({"t": 1, "tasks": [{"names": ["8"], "user": "a"}]}, "tasks[0].demand must be given: 8 is"),
        ({"t": 1, "tasks": [{"names": ["7"], "servers": 0}]}, "tasks[0].servers must be one of 0"),
        ({"t": 1, "tasks": [{"names": ["7"], "servers": "n"}]}, "servers must be the number of a"),
        ({"t": 1, "tasks": [{"names": ["7"], "order": []}]}, "order must be one for each of 1 nam"),
        ({"t": 1, "tasks": [{"names": ["7"], "order": [["a"]]}]}, "order[0] must be a list of who"),
        ({"t": 1, "tasks": [{"names": ["7"], "when": 4}]}, "a key of tasks[0] must be one of asid"),
        ({"t": 1, "tasks": [{"names": ["7"], "limit": "4"}]}, "tasks[0].limit must be a number"),
        ({"t": 1, "tasks": [{"names": ["7"], "returned": 1}]}, "returned must be true or false"),
        ({"t": 1, "tasks": [{"names": [7]}]}, "tasks[0].names must be a list of names, got 7"),
        ({"t": 1, "tasks": [7]}, "tasks[0] must be a mapping with names, got 7"),
        ({"t": 1, "weights": {"ann": 0}}, "weights.ann must be a number > 0, or null, got 0"),
        ({"t": 1, "weights": [1]}, "weights must map users to weights"),
        ({"t": 1, "placed": [["8", "n0"]]}, "placed[0] must name a task that is there, got '8'"),
        ({"t": 1, "placed": [["7", "n1"]]}, "placed[0] must name a server that is there, got 'n1"),
        ({"t": 1, "placed": [["7"]]}, "placed[0] must be [task, server], got ['7']"),
        ({"t": 1, "placed": 7}, "placed must be a list of [task, server], got 7"),
        ({"t": 1, "limit": 7}, "limit must come together with placed, got 7"),
        ({"t": 1, "placed": [], "limit": -7}, "limit must be a whole number ≥ 0, got -7"),
        ({**GOOD, "drfh": "journal 2"}, "line 3: drfh must be 'journal 1', got 'journal 2'"),
        ({**GOOD, "seed": 0.5}, "line 3: seed must be a whole number, got 0.5"),
        ({**GOOD, "started": "now"}, "line 3: started must be a number of seconds since 1970"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: Any, says: str) -> None:
    path = tmp_path / "log"
    lines = [
        json.dumps(GOOD),
        json.dumps(FIRST),
        line if isinstance(line, str) else json.dumps(line),
    ]
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(InputError) as caught:
        read_journal(path)
    text = str(caught.value)
    assert says in text
    assert text.startswith(f"{path}, line 3: ")
    assert "\n" not in text


def test_files_that_are_no_journals(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "list").write_text("[]\n")
    (tmp_path / "header").write_text(json.dumps(FIRST) + "\n")
    for name, says in (
        ("empty", "empty: the journal must not be empty"),
        ("list", "list, line 1: the line must be a JSON object"),
        ("header", "header, line 1: drfh must be 'journal 1', got None"),
        ("missing", "missing: the journal must be readable (No such file or directory)"),
        (".", "the journal must be a regular file"),
    ):
        with pytest.raises(InputError) as caught:
            read_journal(tmp_path / name)
        assert says in str(caught.value)


def test_what_does_not_fit_into_json_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a line of the journal must fit into JSON"):
        JournalWriter(tmp_path / "log", {**HEADER, "what": object()})
    with JournalWriter(tmp_path / "other", HEADER) as writer:
        endless = TaskSnapshot("ann", {"cpu": 1.0}, (1,), limit=float("inf"))
        with pytest.raises(InputError, match="a number in a journal must be finite, got inf"):
            writer.write(0.0, ClusterSnapshot({}, {"1": endless}))
        with pytest.raises(InputError, match="policy must be the name of a policy, got None"):
            JournalWriter(tmp_path / "third", {"started": 0})
    assert not (tmp_path / "third").exists()


def test_an_entry_has_four_values(tmp_path: Path) -> None:
    write(tmp_path / "log", snapshot_at(1))
    [(t, snapshot, placed, limit)] = read_journal(tmp_path / "log")
    assert JournalEntry(t, snapshot, placed, limit) == (0.0, snapshot_at(1), None, None)
