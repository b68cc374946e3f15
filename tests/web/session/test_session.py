"""The explorer without a browser: its session, its rows, files that come in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import drfh
from drfh.allocation.problem import Problem
from drfh.errors import InputError
from drfh.web.session import open_file as opening
from drfh.web.session.open_file import (
    LARGEST_UPLOAD,
    book_from_file,
    open_named,
    path_inside,
    scenario_files,
)
from drfh.web.session.session import Session
from drfh.web.session.share_links import book_to_text
from drfh.web.session.steps import AddServer, LieStep, RemoveUser, SetServer, SetUser
from drfh.web.session.table_rows import RowCache, server_table_rows, user_columns, user_table_rows
from drfh.web.session.workbook import Workbook
from tests.test_layout import imports, package, sources


class PagelessSession(Session):
    """A session without a page, whose background work runs when it is asked to."""

    def __init__(self, book: Workbook, mechanism: str = "") -> None:
        super().__init__(book, mechanism)
        self.shown = 0
        self.said: list[str] = []
        self.waiting: list[Callable[[], None]] = []
        self.solve()

    def refresh(self) -> None:
        self.shown += 1

    def notify(self, text: str, kind: str = "info") -> None:
        self.said.append(text)

    def background(
        self,
        work: Callable[[], Any],
        then: Callable[[Any], Any],
        label: str,
        on_cancel: Callable[[], None] = lambda: None,
    ) -> Callable[[], None]:
        def finish() -> None:
            then(work())

        self.waiting.append(finish)
        return lambda: self.waiting.remove(finish) if finish in self.waiting else None

    def finish(self) -> None:
        while self.waiting:
            self.waiting.pop(0)()


def paper(**changes: Any) -> Workbook:
    return Workbook(drfh.load_scenario("paper-two-servers"), **changes)


def test_steps_are_made_whole_or_not_at_all() -> None:
    session = PagelessSession(paper())
    before = session.answer
    bad = SetUser("bob", "weight", "-1")
    with pytest.raises(InputError, match="weight of bob must be a number > 0"):
        session.do(SetUser("ann", "weight", "2"), bad)
    assert session.book.steps == ()
    assert session.answer is before
    session.do(SetUser("ann", "weight", "2"), SetUser("bob", "weight", "3"))
    assert len(session.book.steps) == 2
    expected = drfh.allocate(session.book.scenario.cluster, session.book.scenario.users)
    assert session.answer.allocation.tasks == expected.tasks
    session.undo(2)
    assert session.answer.allocation.tasks == before.allocation.tasks
    session.redo()
    session.reset()
    assert session.book.steps == ()


@pytest.mark.parametrize("mechanism", ["drfh", "per-server-drf"])
def test_an_edit_applies_each_step_once_and_builds_the_problem_once(
    mechanism: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = drfh.load_scenario("paper-two-servers")
    users = tuple(replace(user, servers=["high-memory", "high-cpu"]) for user in base.users)
    session = PagelessSession(Workbook(replace(base, users=users)), mechanism)
    session.finish()
    counts: Counter[str] = Counter()
    build, change = Problem.build, SetServer.change

    def counted_build(*args: Any, **options: Any) -> Problem:
        counts["problems"] += 1
        return build(*args, **options)

    def counted_change(self: SetServer, state: Any) -> Any:
        counts["steps"] += 1
        return change(self, state)

    monkeypatch.setattr(Problem, "build", counted_build)
    monkeypatch.setattr(SetServer, "change", counted_change)
    session.do(SetServer("high-cpu", "count", "3"))
    session.finish()
    assert session.answer.allocation.problem.cluster.size == 4
    assert counts == {"steps": 1, "problems": 1}
    session.do(SetServer("high-cpu", "count", "2"), SetServer("high-memory", "count", "2"))
    session.finish()
    assert counts == {"steps": 3, "problems": 3}
    session.undo()
    session.redo()
    session.finish()
    assert counts["steps"] == 4


def test_an_answer_that_was_there_is_there_again() -> None:
    session = PagelessSession(paper())
    first = session.answer
    session.do(SetUser("ann", "weight", "2"))
    session.undo()
    assert session.answer is first


def test_slow_mechanisms_answer_in_the_background_and_the_last_good_answer_stays() -> None:
    session = PagelessSession(paper())
    first = session.answer
    session.choose_mechanism("per-server-drf")
    assert (session.mechanism, session.answer) == ("drfh", first)
    session.finish()
    assert session.mechanism == "per-server-drf"
    assert session.answer.allocation.tasks == {"ann": 6.0, "bob": 6.0}
    # Two edits in a row: only the last one counts.
    second = session.answer
    session.do(SetServer("high-cpu", "count", "2"))
    assert session.stale == "solving …"
    assert session.answer is second
    session.do(SetServer("high-cpu", "count", "3"))
    assert len(session.waiting) == 1
    session.finish()
    assert session.stale == ""
    expected = drfh.allocate(
        session.book.scenario.cluster, session.book.scenario.users, mechanism="per-server-drf"
    )
    assert session.answer.allocation.tasks == expected.tasks
    session.do(SetServer("high-cpu", "count", "4"))
    session.on_stop()
    assert session.stale.startswith("not solved")


def test_a_mechanism_without_an_answer_is_said_and_changes_nothing() -> None:
    session = PagelessSession(paper())
    session.choose_mechanism("no-such-mechanism")
    session.finish()
    assert session.mechanism == "drfh"
    assert "no-such-mechanism" in session.said[0]
    # From the start: DRFH instead.
    session = PagelessSession(paper(), "no-such-mechanism")
    assert not session.has_answer
    session.finish()
    assert session.mechanism == "drfh"
    assert session.has_answer


def test_a_scenario_brings_its_mechanism() -> None:
    session = PagelessSession(paper())
    assert session.shipped_name == "paper-two-servers"
    session.load(Workbook(drfh.load_scenario("claim-h-whole-tasks")))
    session.finish()
    assert session.mechanism == "whole-tasks"
    session.load(Workbook(drfh.Scenario(drfh.Cluster([drfh.Server({"cpu": 1})]),
                                     (drfh.User("a", {"cpu": 1}),))))  # fmt: skip
    assert (session.mechanism, session.shipped_name) == ("drfh", "")


def test_rows_hold_what_is_asked_and_what_is_given() -> None:
    session = PagelessSession(paper())
    rows = RowCache()
    first = user_table_rows(session.answer, rows)
    assert [row["name"] for row in first] == ["ann", "bob"]
    session.do(
        LieStep("ann", {"cpu": "1", "memory": "0.5"}), AddServer("new", {"cpu": "500m", "gpu": "2"})
    )
    second = user_table_rows(session.answer, rows)
    assert second[0]["lies"]
    assert not second[1]["lies"]
    # In truth a task needs twice the memory that it claims.
    assert second[0]["real"] == pytest.approx(second[0]["gets"] / 2)
    assert second[1]["real"] == second[1]["gets"] > 0
    assert [c.title for c in user_columns(session.answer)][1:4] == ["cpu", "memory", "gpu"]
    assert (second[0]["r0"], second[0]["r2"]) == ("1", "")
    servers = server_table_rows(session.answer, RowCache())
    assert (servers[2]["name"], servers[2]["r0"], servers[2]["r2"]) == ("new", "0.5", "2")
    assert servers[2]["u1"] is None  # it has no memory
    allocation = session.answer.allocation
    assert servers[0]["u0"] == pytest.approx(allocation.group_table()["cpu"][0])
    session.do(RemoveUser("ann"))
    assert [row["name"] for row in user_table_rows(session.answer, rows)] == ["bob"]


def test_files_that_come_in() -> None:
    book = paper(steps=[SetUser("ann", "weight", "2")])
    assert book_from_file(book_to_text(book).encode(), "saved.json") == book
    text = json.dumps({"cluster": [{"resources": {"cpu": 4}}],
                       "users": [{"name": "a", "demand": {"cpu": 1}}]})  # fmt: skip
    assert book_from_file(b"\xef\xbb\xbf" + text.encode(), "a.json").scenario.users[0].name == "a"
    for data, text in (
        (b"x" * (LARGEST_UPLOAD + 1), "the file must be at most 2 MB"),
        (b"\xff\xfe", "must be text in UTF-8"),
        (b'{"drfh": 1, "base": "../secret"}', "base must be one"),
        (b'{"drfh": 1, "base": "paper-two-servers", "steps": [["no"]]}', "step must be one of"),
        (b"cluster: [{resources: {gpu: x}}]", "bad.yaml, line 1"),
        (b"", "bad.yaml"),
        (b"[" * 100_000, "bad.yaml"),
    ):
        with pytest.raises(InputError, match=text):
            book_from_file(data, "bad.yaml")


def test_names_that_lead_out_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "secret.yaml").write_text("cluster: []")
    folder = tmp_path / "team"
    folder.mkdir()
    (folder / "loop.yaml").symlink_to(folder / "loop.yaml")
    (folder / "out.yaml").symlink_to(tmp_path / "secret.yaml")
    (folder / "program.py").write_text("")
    for name in ("../secret.yaml", str(tmp_path / "secret.yaml"), "out.yaml", "a\0b", "x" * 5_000,
                 "loop.yaml", ".", "program.py", "none.yaml"):  # fmt: skip
        with pytest.raises(InputError):
            open_named(name, folder)
    assert path_inside(folder, "a/../b.yaml") == folder.resolve() / "b.yaml"
    assert scenario_files(folder) == ["out.yaml"]
    assert scenario_files(folder / "none") == []


def test_files_that_become_something_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a.yaml").write_text("cluster: []")
    folder = tmp_path / "team"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.yaml").symlink_to(tmp_path / "out" / "a.yaml")
    (folder / "linked").symlink_to(tmp_path / "out")
    os.mkfifo(folder / "pipe.yaml")
    (folder / "long.yaml").write_bytes(b"#" * (LARGEST_UPLOAD + 1))
    # As if they had been files of the folder when they were checked.
    monkeypatch.setattr(opening, "path_inside", lambda folder, name: folder.resolve() / name)
    for name, text in (("a.yaml", "a.yaml: the file must be there and readable"),
                        ("linked/a.yaml", "linked/a.yaml: the file must be there and readable"),
                        ("pipe.yaml", "must be a regular file"),
                        ("long.yaml", "must be at most 2 MB")):  # fmt: skip
        with pytest.raises(InputError, match=text):
            open_named(name, folder)
    (folder / "sub" / "a.yaml").write_text(
        "cluster: [{resources: {a: 1}}]\nusers: [{name: b, demand: {a: 1}}]"
    )
    assert open_named("sub/a.yaml", folder).scenario.users[0].name == "b"


def test_only_pages_know_nicegui() -> None:
    names = ("nicegui", "fastapi", "uvicorn")
    for path in sources():
        text = path.read_text()
        if any(name in text for name in names):
            found = {module.split(".")[0] for module, _ in imports(path)}
            assert found.isdisjoint(names) or package(path) == "web", path
    code = (
        "import drfh.web, drfh.web.session.session, drfh.cli, sys; print('nicegui' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout == "False\n"
