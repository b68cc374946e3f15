"""Links: what goes in comes out, and whatever else is opened is refused with a word."""

from __future__ import annotations

import base64
import difflib
import json
import tracemalloc
import zlib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from drfh import Cluster, InputError, Job, Scenario, Server, User, load_scenario
from drfh.files.scenario_file import scenario_text, shipped_scenarios
from drfh.web.session.share_links import (
    LARGEST,
    LONGEST_LINK,
    book_from_link,
    book_from_text,
    book_to_link,
    book_to_text,
)
from drfh.web.session.steps import AddUser, LieStep, SetServer, SetUser
from drfh.web.session.workbook import Workbook
from tests.support.wrong_types import STRANGE_VALUES, _places
from tests.web.session.steps import demands, steps, workbooks

SMALL = Scenario(
    Cluster([Server({"cpu": 4, "memory": "8Gi"}, name="big", count=2, labels={"zone": "a"})]),
    (User("ann", {"cpu": 1}, servers={"zone": "a"}), User("bob", {"memory": "1Gi"}, tasks=3)),
    title="Ünïcode 𝄞",
)


def packed(data: Any) -> str:
    """Return a link to anything: plain data, text or bytes."""
    raw = data if isinstance(data, bytes) else json.dumps(data).encode()
    return base64.urlsafe_b64encode(zlib.compress(raw, 9)).decode().rstrip("=")


@given(st.data())
def test_a_link_holds_all_of_a_workbook(data: st.DataObject) -> None:
    book = data.draw(workbooks())
    for _ in range(data.draw(st.integers(0, 5))):
        try:
            book.do(data.draw(steps(book)))
        except InputError:
            continue
    for _ in range(data.draw(st.integers(0, len(book.steps)))):
        book.undo()
    link = book_to_link(book)
    assert link is not None
    assert len(link) <= LONGEST_LINK
    for again in (
        book_from_link(link),
        book_from_text(book_to_text(book)),
        book_from_link(f" {link}==\n"),
    ):
        assert again == book
        assert again.state == book.state


def test_a_shipped_scenario_is_its_name_only() -> None:
    for name in shipped_scenarios():
        link = book_to_link(Workbook(load_scenario(name)))
        assert link is not None
        assert len(link) < 120
        assert book_from_link(link).base == load_scenario(name)


def test_letters_of_all_kinds_survive() -> None:
    book = Workbook(
        SMALL, [AddUser("Zoë 𝄞 '\"\\", {"cpu": 1}), LieStep("ann", {"cpu": 2})], title="≠"
    )
    again = book_from_link(book_to_link(book) or "")
    assert again.title == "≠"
    assert again.scenario == book.scenario
    assert demands(again.truths) == {"ann": {"cpu": 1.0}}


def test_what_is_too_long_has_no_link_but_a_file() -> None:
    users = tuple(User(f"user {i * 7919 % 10007}", {"cpu": 1 + 1 / (i + 3)}) for i in range(1_000))
    book = Workbook(replace(SMALL, users=users))
    assert book_to_link(book) is None
    assert book_from_text(book_to_text(book)) == book
    assert book_from_text(book_to_text(book).encode()) == book
    # Many equal steps are short, but take long on many servers.
    cluster = Cluster([Server({"cpu": 1})] * 1_500)
    many = Workbook(replace(SMALL, cluster=cluster, users=(User("a", {"cpu": 1}),)))
    assert book_to_link(many) is not None
    many._steps += [SetServer("server-1", "cpu", "1")] * 900
    assert len(packed(many.to_dict())) < LONGEST_LINK
    assert book_to_link(many) is not None
    many._steps += [SetServer("server-1", "cpu", "1")] * 500
    assert book_to_link(many) is None


def test_a_scenario_that_json_cannot_hold_says_so() -> None:
    endless = replace(SMALL, jobs=(Job("ann", duration=float("inf")),))
    with pytest.raises(InputError, match=r"jobs\[0\]\.duration must be finite"):
        book_to_link(Workbook(endless))


def test_no_file_is_ever_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("paper-two-servers", "mine.yaml"):
        Path(name).write_text(scenario_text(SMALL))
    assert book_from_link(packed({"drfh": 1, "base": "paper-two-servers"})).title.startswith(
        "Two servers"
    )
    for path in ("mine.yaml", str(tmp_path / "mine.yaml"), "../mine.yaml", "/etc/passwd"):
        with pytest.raises(InputError, match="base must be one of"):
            book_from_link(packed({"drfh": 1, "base": path}))


def test_a_damaged_link_says_so() -> None:
    link = book_to_link(Workbook(SMALL, [SetUser("ann", "weight", "2")])) or ""
    for wrong in (link[:-3], link[3:], link[:20] + "A" + link[21:], link + "AAAA", "", "?", "a b"):
        with pytest.raises(InputError, match="the link must be whole, as it was copied"):
            book_from_link(wrong)
    with pytest.raises(InputError, match="the link must have at most 8,000 characters, got 9000"):
        book_from_link("A" * 9_000)
    with pytest.raises(InputError, match="the link must be text"):
        book_from_link(None)  # type: ignore[arg-type]


ONE = {"name": "a", "demand": {"cpu": 1}}
GROUP = {"resources": {"cpu": 1}}
HOSTILE: dict[str, Any] = {
    "a bomb": b"0" * 6_000_000,
    "deep lists": b"[" * 400_000,
    "deep mappings": b'{"drfh":1,"base":' + b'{"a":' * 30_000 + b"1" + b"}" * 30_001,
    "deep parameters": b'{"drfh":1,"base":{"cluster":[{"resources":{"cpu":1}}],"users":[{"name":'
    b'"a","demand":{"cpu":1}}],"parameters":{"x":' + b"[" * 900 + b"]" * 900 + b"}}}",
    "a deep step": {
        "drfh": 1,
        "base": "gpu-day",
        "steps": [["user", "course", "servers", json.loads("[" * 300 + "]" * 300)]],
    },
    "many digits": b'{"drfh":1,"base":{"cluster":[{"resources":{"cpu":' + b"9" * 90_000 + b"}}]}}",
    "a huge count": {"drfh": 1, "base": {"cluster": [{**GROUP, "count": 10**300}], "users": [ONE]}},
    "a huge amount": {"drfh": 1, "base": {"cluster": [{"resources": {"cpu": 1e308}}] * 2,
                                          "users": [ONE]}},
    "infinity": b'{"drfh":1,"base":"gpu-day","steps":[["user","course","cpu",Infinity]]}',
    "no number": b'{"drfh":1,"base":"gpu-day","steps":[["user","course","cpu",NaN]]}',
    "half a letter": b'{"drfh":1,"base":"gpu-day","steps":[["user","course","name","\\ud800"]]}',
    "half a letter in the base": b'{"drfh":1,"base":{"cluster":[{"name":"\\ud800","resources":'
    b'{"cpu":1}}],"users":[{"name":"a","demand":{"cpu":1}}]}}',
    "a million tasks of a job": {"drfh": 1, "base": {"cluster": [GROUP], "users": [ONE], "jobs": [
        {"user": "a", "duration": 1, "tasks": 10**15}]}},
    "many resources": {"drfh": 1, "base": {"cluster": [{"resources": {f"r{i}": 1}}
                                                       for i in range(2_000)], "users": [ONE]}},
    "resources in steps": {"drfh": 1, "base": {"cluster": [GROUP] * 1_500, "users": [ONE]},
                           "steps": [["server", "server-1", f"r{i}", 1] for i in range(101)]},
    "restrictions": {"drfh": 1, "base": {"cluster": [GROUP] * 4_000, "users": [
        {**ONE, "name": f"u{i}", "servers": ["server-1"] * 50} for i in range(200)]}},
    "labels": {"drfh": 1, "base": {"cluster": [GROUP] * 4_000, "users": [
        {**ONE, "servers": [{"z": str(j)} for j in range(900)]}]}},
    "events": {"drfh": 1, "base": {"cluster": [GROUP] * 3_000, "users": [ONE], "events": [
        {"at": 1, "add": {"name": f"y{i}", "resources": {"cpu": 1}}} for i in range(600)]}},
    "many steps": {"drfh": 1, "base": {"cluster": [GROUP] * 4_000, "users": [ONE]},
                   "steps": [["server", "server-1", "count", 2]] * 1_000},
    "too many steps": {"drfh": 1, "base": "gpu-day",
                       "steps": [["user", "course", "cpu", 1]] * 1_001},
    "pairs": {"drfh": 1, "base": {"cluster": [GROUP] * 3_000, "users": [
        {**ONE, "name": f"u{i}"} for i in range(900)]}},
    "a long name": {"drfh": 1, "base": {"cluster": [GROUP], "users": [
        {**ONE, "name": "x" * 9_999}]}},
    "a long title": {"drfh": 1, "base": "gpu-day", "title": "x" * 90_000},
    "nothing": None,
    "a number": 5,
    "a list": [],
    "no keys": {},
    "no JSON": b"cluster: [1, 2",
    "no letters": bytes(range(256)),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_links_are_refused_in_bounded_memory(name: str) -> None:
    link = packed(HOSTILE[name])
    tracemalloc.start()
    try:
        with pytest.raises(InputError) as caught:
            book_from_link(link)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert str(caught.value).startswith("the link")
    assert len(str(caught.value)) < 1_000
    assert "\n" not in str(caught.value)
    assert peak < 100 * LARGEST


def test_the_nearest_name_is_searched_among_few(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def spy(word: str, known: list[str], **options: Any) -> list[str]:
        calls.append([word, *known])
        return difflib.get_close_matches(word, known[:10], **options)

    monkeypatch.setattr("drfh.errors.difflib", SimpleNamespace(get_close_matches=spy))
    # To look through all of these takes minutes: a hundred letters of two kinds are the worst.
    names = [f"{'ab' * 27}{i}" for i in range(2_000)] + [f"{'ab' * 50}{i}" for i in range(200)]
    base = {"cluster": [{"name": name, **GROUP} for name in names], "users": [ONE]}
    jobs = {"users": [{**ONE, "name": name} for name in names], "cluster": [GROUP],
            "jobs": [{"user": names[0] + "x", "duration": 1}]}  # fmt: skip
    for data in (
        {"base": base, "steps": [["server", names[0] + "x", "count", 2]]},
        {"base": base, "steps": [["user", "a", "servers", names[0] + "x"]]},
        {"base": {**base, "users": [{**ONE, "servers": names[0] + "x"}]}},
        {"base": base, "steps": [["server", names[-1] + "x", "count", 2]]},
        {"base": jobs},
    ):
        with pytest.raises(InputError, match="must"):
            book_from_text(json.dumps({"drfh": 1, **data}))
    assert len(calls) == 4
    assert max(len(name) for names in calls for name in names) <= 60
    assert max(sum(map(len, names)) for names in calls) <= 100_100


@given(st.text(max_size=200))
@example("eNqrVkopSstQsjLUUUpKLE5VslIqSCxILdItKc")
def test_any_text_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        book_from_link(text)


@given(st.binary(max_size=300))
def test_any_bytes_are_refused(raw: bytes) -> None:
    for wrong in (packed(raw), base64.urlsafe_b64encode(raw).decode()):
        with pytest.raises(InputError):
            book_from_link(wrong)
    with pytest.raises(InputError):
        book_from_text(raw)


@given(st.data())
def test_one_wrong_letter_never_gives_another_workbook(data: st.DataObject) -> None:
    book = Workbook(SMALL, [SetUser("ann", "weight", "2"), LieStep("bob", {"cpu": 1})])
    link = book_to_link(book) or ""
    place = data.draw(st.integers(0, len(link) - 1))
    letter = data.draw(st.sampled_from("ABCxyz019-_"))
    wrong = link[:place] + letter + link[place + 1 :]
    try:
        assert book_from_link(wrong) == book  # the last letter has bits that do not count
    except InputError as error:
        assert error.field  # noqa: PT017


@given(st.data())
def test_wrong_types_in_the_right_places_give_errors_only(data: st.DataObject) -> None:
    good = Workbook(
        SMALL,
        [
            SetServer("big", "count", "3"),
            SetUser("ann", "servers", ["big", {"zone": "a"}]),
            AddUser("eve", {"cpu": 1}, servers="big"),
            LieStep("bob", {"cpu": 1}),
        ],
    )
    good.undo()
    changed = json.loads(book_to_text(good))
    places = _places(changed)
    for _ in range(data.draw(st.integers(1, 3))):
        *way, last = data.draw(st.sampled_from(places))
        inner = changed
        try:
            for key in way:
                inner = inner[key]
            inner[last] = data.draw(st.sampled_from(STRANGE_VALUES))
        except (KeyError, IndexError, TypeError):
            continue
    link = packed(json.dumps(changed).encode())
    try:
        book = book_from_link(link)
    except InputError as error:
        assert "\n" not in str(error)  # noqa: PT017
    else:
        assert Workbook.from_dict(book.to_dict()) == book
