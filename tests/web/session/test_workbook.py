"""Steps and workbooks: what a step does, what is refused, and that undo is exact."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drfh import (
    AddServers,
    Cluster,
    InputError,
    Job,
    RemoveServers,
    ResizeServer,
    Scenario,
    Server,
    User,
    load_scenario,
)
from drfh.files.scenario_file import shipped_scenarios
from drfh.model.users import shown_restriction
from drfh.web.session import workbook
from drfh.web.session.steps import (
    SAME,
    STEPS,
    AddServer,
    AddUser,
    CellRef,
    LieStep,
    RemoveServer,
    RemoveUser,
    SetServer,
    SetUser,
    Step,
    TrueValueStep,
    step_from_list,
)
from drfh.web.session.workbook import Workbook
from tests.web.session.steps import demands, steps, workbooks

TEAM = Scenario(
    Cluster(
        [
            Server({"cpu": 8, "memory": "64Gi"}, name="big", count=4, labels={"zone": "a"}),
            Server({"cpu": 2, "memory": "4Gi", "gpu": 1}, name="small", count=2),
        ]
    ),
    (
        User("ann", {"cpu": 1, "memory": "2Gi"}),
        User("bob", {"cpu": "500m", "gpu": 0.5}, weight=2, tasks=10, servers=["small", "big/3"]),
    ),
    title="A team",
)


def done(*some: Step, base: Scenario = TEAM) -> Workbook:
    return Workbook(base, some)


def group(book: Workbook, name: str) -> Server:
    return book.scenario.cluster.servers[book.scenario.cluster.group_index[name]]


def user(book: Workbook, name: str) -> User:
    return next(one for one in book.scenario.users if one.name == name)


@pytest.mark.parametrize(
    ("step", "text"),
    [
        (SetServer("big", "count", "10"), "big: 10 servers instead of 4"),
        (SetServer("big", "count", 1), "big: 1 server instead of 4"),
        (SetServer("big", "cpu", "500m"), "big: cpu 500m instead of 8"),
        (SetServer("small", "memory", "16Gi"), "small: memory 16Gi instead of 4Gi"),
        (SetServer("small", "memory", "16 GB"), "small: memory 16 GB instead of 4Gi"),
        (SetServer("small", "tape", "2 TB"), "small: tape 2 TB instead of 0"),
        (SetUser("ann", "tasks", 2**20), "ann: 1048576 tasks instead of no end"),
        (SetServer("big", "gpu", " 2 "), "big: gpu 2 instead of 0"),
        (SetServer("small", "cpu", ""), "small: cpu 0 instead of 2"),
        (SetServer("big", "labels", "zone=b"), "big: labels zone=b instead of zone=a"),
        (SetServer("big", "labels", ""), "big: labels none instead of zone=a"),
        (SetServer("big", "name", "huge"), "big is now called huge"),
        (AddServer("new", {"cpu": "8"}, "10"), "10 new servers new: cpu 8"),
        (AddServer(None, {"cpu": 8}), "1 new server: cpu 8"),
        (RemoveServer("big"), "big is removed (4 servers)"),
        (SetUser("ann", "weight", "3"), "ann: weight 3 instead of 1"),
        (SetUser("ann", "tasks", "1"), "ann: 1 task instead of no end"),
        (SetUser("bob", "tasks", ""), "bob: no end of tasks instead of 10"),
        (SetUser("ann", "servers", "zone=a"), "ann: servers zone=a instead of all"),
        (SetUser("bob", "servers", ""), "bob: servers all instead of small or big/3"),
        (SetUser("ann", "cpu", "2"), "ann: cpu 2 instead of 1"),
        (SetUser("ann", "parent", "team"), "ann: parent team instead of none"),
        (SetUser("ann", "name", "eve"), "ann is now called eve"),
        (
            AddUser("eve", {"cpu": 1, "gpu": "100m"}, "2", "5", "small"),
            "eve joins: cpu 1, gpu 100m, weight 2, 5 tasks, servers small",
        ),
        (RemoveUser("ann"), "ann leaves"),
        (LieStep("ann", {"cpu": 2}), "ann claims cpu 2 instead of cpu 1, memory 2Gi"),
        (
            LieStep("bob", tasks="", servers="all"),
            "bob claims no end, servers all instead of 10 tasks, servers small or big/3",
        ),
    ],
)
def test_a_step_is_said_in_a_line(step: Step, text: str) -> None:
    assert done(step).texts == (text,)
    assert step.text in text
    assert step_from_list(step.to_list()) == step
    assert hash(step_from_list(step.to_list())) == hash(step)


def test_cells_of_servers() -> None:
    book = done(
        SetServer("big", "count", "10"),
        SetServer("big", "cpu", "16"),
        SetServer("big", "gpu", "4"),
        SetServer("small", "memory", "8Gi"),
        SetServer("small", "labels", "zone=b, disk=ssd"),
        SetServer("big", "name", "huge"),
    )
    assert book.scenario.cluster == Cluster(
        [
            Server(
                {"cpu": 16, "memory": "64Gi", "gpu": 4},
                name="huge",
                count=10,
                labels={"zone": "a"},
            ),
            Server(
                {"cpu": 2, "memory": "8Gi", "gpu": 1},
                name="small",
                count=2,
                labels={"zone": "b", "disk": "ssd"},
            ),
        ]
    )
    assert book.base == TEAM


def test_cells_of_users() -> None:
    book = done(
        SetUser("ann", "weight", "2.5"),
        SetUser("ann", "tasks", "100"),
        SetUser("ann", "servers", "small or zone=a"),
        SetUser("ann", "gpu", "250m"),
        SetUser("ann", "memory", ""),
        SetUser("ann", "name", " eve "),
    )
    assert user(book, "eve") == User(
        "eve",
        {"cpu": 1, "memory": 0, "gpu": 0.25},
        weight=2.5,
        tasks=100,
        servers=["small", {"zone": "a"}],
    )
    assert [one.name for one in book.scenario.users] == ["eve", "bob"]


def test_rows_come_and_go() -> None:
    book = done(
        AddServer("", {"cpu": 1}),
        AddServer(None, {"cpu": 2}, 3, {"zone": "b"}),
        AddUser("eve", {"cpu": "1"}),
        RemoveServer("added-1"),
        RemoveUser("ann"),
    )
    assert book.scenario.cluster.names == ("big", "small", "added-2")
    assert group(book, "added-2") == Server(
        {"cpu": 2}, name="added-2", count=3, labels={"zone": "b"}
    )
    assert [one.name for one in book.scenario.users] == ["bob", "eve"]


def test_a_resource_may_have_the_name_of_a_column() -> None:
    base = Scenario(
        Cluster([Server({"count": 4, "weight": 8}, name="a")]), (User("u", {"count": 1}),)
    )
    book = done(
        SetServer("a", "resources.count", "6"), SetUser("u", "demand.weight", "2"), base=base
    )
    assert group(book, "a") == Server({"count": 6, "weight": 8}, name="a")
    assert user(book, "u") == User("u", {"count": 1, "weight": 2})
    assert book.texts == ("a: count 6 instead of 4", "u: weight 2 instead of 0")


REFUSED = [
    (SetServer("big", "count", "0"), "count of big must be a whole number ≥ 1, got '0'"),
    (SetServer("big", "count", "2.5"), "count of big must be a whole number ≥ 1, got '2.5'"),
    (SetServer("big", "count", ""), "count of big must be a whole number ≥ 1, got ''"),
    (SetServer("big", "count", 2**60), "count of big must be a whole number ≥ 1, got"),
    (SetServer("big", "cpu", "8 cores"), "cpu of big must be a finite number ≥ 0"),
    (SetServer("big", "cpu", float("nan")), "cpu of big must be a finite number ≥ 0"),
    (SetServer("big", "cpu", "1e308"), "cpu of big must be a finite number, got inf"),
    (SetServer("big", "name", "small"), "name of big must be unique, got 'small'"),
    (SetServer("small", "name", "big/1"), "name of small must not be a server of another group"),
    (SetServer("big", "name", "  "), "name of big must not be empty"),
    (SetServer("big", "name", "a\tb"), "name of big must have no control characters"),
    (SetServer("big", "labels", "zone"), "labels of big must be labels such as"),
    (SetServer("bgi", "count", "1"), "server group must be one of big, small (did you mean big?)"),
    (
        SetServer("small", "gpu", "0"),
        "gpu of small must not break another entry: demand.gpu of bob must be a resource that "
        "some server has",
    ),
    (SetServer("big", "resources.", "1"), "resources. of big must not be empty"),
    (AddServer("big", {"cpu": 1}), "name of big must be unique, got 'big'"),
    (AddServer("new", {}), "resources of new must have at least one amount > 0, got {}"),
    (AddServer("new", {"cpu": "x"}), "cpu of new must be a finite number ≥ 0"),
    (AddServer("new", {"cpu": 1}, "none"), "count of new must be a whole number ≥ 1, got 'none'"),
    (AddServer(None, {"cpu": 1}, 0), "count of the new servers must be a whole number ≥ 1, got 0"),
    (RemoveServer("nowhere"), "server group must be one of big, small, got 'nowhere'"),
    (
        RemoveServer("small"),
        "small must not break another entry: demand.gpu of bob must be a resource",
    ),
    (SetUser("ann", "weight", "0"), "weight of ann must be a number > 0, such as 1 or"),
    (SetUser("ann", "weight", ""), "weight of ann must be a number > 0"),
    (SetUser("ann", "tasks", "5Gi"), "tasks of ann must be a number without a unit, such as 1"),
    (SetUser("ann", "weight", "500m"), "weight of ann must be a number without a unit, such"),
    (SetServer("big", "count", "5k"), "count of big must be a whole number ≥ 1, got '5k'"),
    (SetServer("big", "cpu", "16 GB"), "cpu of big must be a number, such as 4, 0.5 or 500m: it"),
    (SetServer("big", "gpu", "1Gi"), "gpu of big must be a number, such as 4, 0.5 or 500m: it"),
    (AddUser("eve", {"cpu": "2Mi"}), "cpu of eve must be a number, such as 4, 0.5 or 500m: it"),
    (LieStep("ann", {"cpu": "1G"}), "cpu of ann must be a number, such as 4, 0.5 or 500m: it"),
    (SetUser("ann", "tasks", "many"), "tasks of ann must be a number ≥ 0, such as 100 (empty for"),
    (SetUser("ann", "gpu", "-1"), "gpu of ann must be a finite number ≥ 0"),
    (SetUser("ann", "tpu", "1"), "tpu of ann must be a resource that some server has"),
    (SetUser("ann", "cpu", "1e-250"), "cpu of ann must be at least 1e-200 of the user's other"),
    (SetUser("ann", "name", "bob"), "name of ann must be unique, got 'bob'"),
    (SetUser("ann", "servers", "bgi"), "servers of ann must name a server or a group of the "
     "cluster (did you mean big?), got 'bgi'"),
    (SetUser("ann", "servers", "zone=c"), "servers of ann must match at least one server, got"),
    (SetUser("ann", "servers", "big, zone=a"), "servers of ann must be servers such as 'big', "),
    (SetUser("ann", "servers", [[]]), "servers of ann must be the name of a server or group"),
    (SetUser("eve", "weight", "1"), "user must be one of ann, bob, got 'eve'"),
    (AddUser("ann", {"cpu": 1}), "name of ann must be unique, got 'ann'"),
    (AddUser("", {"cpu": 1}), "name of the new user must not be empty, got ''"),
    (AddUser("eve", {"cpu": 0}), "demand of eve must have at least one amount > 0"),
    (AddUser("eve", {"tpu": 1}), "tpu of eve must be a resource that some server has"),
    (AddUser("eve", {"cpu": 1}, "x"), "weight of eve must be a number > 0"),
    (AddUser("eve", {"cpu": 1}, servers="x"), "servers of eve must name a server or a group"),
    (RemoveUser("eve"), "user must be one of ann, bob, got 'eve'"),
    (LieStep("ann", {"cpu": 0}), "demand of ann must have at least one amount > 0"),
    (LieStep("ann", {"tpu": 1}), "tpu of ann must be a resource that some server has"),
    (LieStep("ann", "cpu"), "demand of ann must map resource names to amounts"),
    (LieStep("eve", {"cpu": 1}), "user must be one of ann, bob, got 'eve'"),
    (TrueValueStep("ann"), "ann must lie first, to tell the truth again"),
]  # fmt: skip


@pytest.mark.parametrize(("step", "text"), REFUSED)
def test_a_refused_step_names_its_cell_and_changes_nothing(step: Step, text: str) -> None:
    book = done(SetUser("ann", "weight", "4"))
    book.undo()
    with pytest.raises(InputError) as caught:
        book.do(step)
    assert str(caught.value).startswith(text)
    assert "\n" not in str(caught.value)
    assert book.scenario == TEAM
    assert (book.steps, book.texts) == ((), ())
    assert book.undone == (SetUser("ann", "weight", "4"),)


def test_the_cell_of_a_step_is_where_an_error_belongs() -> None:
    assert SetServer("big", "cpu", "x").cell == CellRef("servers", "big", "cpu")
    assert SetUser("ann", "tasks", "x").cell == CellRef("users", "ann", "tasks")
    assert RemoveUser("ann").cell == CellRef("users", "ann", "")
    with pytest.raises(InputError, match="cpu of big must have at most 1,000 characters"):
        SetServer("big", "cpu", "9" * 1_001)


def test_the_last_rows_stay() -> None:
    book = done(RemoveUser("bob"), RemoveServer("small"))
    with pytest.raises(InputError, match="ann must stay: there is nobody else"):
        book.do(RemoveUser("ann"))
    with pytest.raises(InputError, match="big must stay: there are no other servers"):
        book.do(RemoveServer("big"))


def test_restrictions_follow_a_group() -> None:
    book = done(SetServer("small", "name", "tiny"), SetServer("big", "name", "big/x"))
    assert user(book, "bob").servers == ("tiny", "big/x/3")
    book = done(SetServer("big", "count", "3"))
    assert user(book, "bob").servers == ("small",)
    book = done(SetUser("bob", "servers", "big/3"), SetServer("big", "gpu", 1))
    for step in (SetServer("big", "count", "3"), RemoveServer("big")):
        with pytest.raises(InputError, match="must not take the last server that bob may use"):
            book.do(step)
    book = done(SetServer("big", "gpu", 1), RemoveServer("small"))
    assert user(book, "bob").servers == ("big/3",)


def test_jobs_and_events_follow() -> None:
    base = replace(
        TEAM,
        jobs=(Job("ann", duration=5, servers=["big/0", "small"]), Job("bob", duration=[1, 2])),
        events=(
            RemoveServers(1, "big/3"),
            ResizeServer(2, "small/1", {"cpu": 1}),
            AddServers(3, Server({"cpu": 1}, name="biggest")),
            RemoveServers(4, "biggest"),
        ),
    )
    book = done(
        SetServer("big", "name", "huge"),
        SetUser("ann", "name", "eve"),
        SetServer("small", "count", "1"),
        base=base,
    )
    scenario = book.scenario
    assert scenario.jobs[0] == Job("eve", duration=5, servers=["huge/0", "small"])
    assert scenario.events == (RemoveServers(1, "huge/3"), *base.events[2:])
    book.do(RemoveUser("eve"))
    assert [job.user for job in book.scenario.jobs] == ["bob"]
    book = done(SetServer("big", "gpu", "1"), RemoveServer("small"), base=base)
    assert book.scenario.jobs[0].servers == ("big/0",)
    assert book.scenario.events == (base.events[0], *base.events[2:])
    with pytest.raises(InputError, match=r"biggest must not break another entry: events\[2\]"):
        done(AddServer("biggest", {"cpu": 1}), base=base)


def test_endowments_follow_a_user() -> None:
    owned = {"endowments": {"ann": {"cpu": 0.5}, "bob": {"cpu": 0.1}}}
    base = replace(TEAM, mechanism="endowment-drf", parameters=owned)
    book = done(SetUser("ann", "name", "eve"), RemoveUser("bob"), base=base)
    assert book.scenario.parameters == {"endowments": {"eve": {"cpu": 0.5}}}


def test_a_lie_keeps_the_truth() -> None:
    book = done(LieStep("ann", {"cpu": 2}, tasks="7"), SetUser("ann", "weight", "3"))
    assert user(book, "ann") == User("ann", {"cpu": 2}, weight=3, tasks=7)
    assert book.truths == {"ann": replace(TEAM.users[0], weight=3)}
    assert demands(book.truths) == {"ann": {"cpu": 1.0, "memory": 2.0**31}}
    book.do(SetUser("ann", "cpu", "4"))  # what is claimed
    book.do(SetUser("ann", "name", "eve"))
    assert demands(book.truths) == {"eve": {"cpu": 1.0, "memory": 2.0**31}}
    book.do(LieStep("eve", servers="big"))
    assert user(book, "eve").demand == {"cpu": 4.0}
    assert book.truths["eve"] == User("eve", {"cpu": 1, "memory": "2Gi"}, weight=3)
    book.do(TrueValueStep("eve"))
    assert user(book, "eve") == User("eve", {"cpu": 1, "memory": "2Gi"}, weight=3)
    assert demands(book.truths) == {}


def test_a_lie_that_is_true_is_none() -> None:
    book = done(LieStep("ann", {"cpu": 2}), LieStep("ann", {"cpu": "1", "memory": "2Gi"}))
    assert demands(book.truths) == {}
    assert LieStep("ann").text == "ann claims the truth"
    assert LieStep("ann", SAME, SAME, SAME).to_list() == ["lie", "ann"]


def test_the_truth_follows_servers() -> None:
    book = done(LieStep("bob", servers="all"), SetServer("small", "name", "tiny"))
    assert book.truths["bob"].servers == ("tiny", "big/3")
    book.do(SetServer("big", "count", "1"))
    assert shown_restriction(book.truths["bob"].servers) == "tiny"
    book.do(SetServer("big", "gpu", "1"))
    with pytest.raises(InputError, match=r"the last server that bob \(in truth\) may use"):
        book.do(RemoveServer("tiny"))
    book.do(RemoveUser("bob"))
    assert book.truths == {}


def test_undo_redo_reset() -> None:
    first, second = SetUser("ann", "weight", "2"), SetUser("bob", "weight", "3")
    book = done(first, second)
    assert book.undo() == second
    assert (book.steps, book.undone) == ((first,), (second,))
    assert user(book, "bob").weight == 2
    assert book.redo() == second
    assert user(book, "bob").weight == 3
    book.undo()
    book.do(RemoveUser("bob"))
    assert book.undone == ()
    book.reset()
    assert (book.scenario, book.steps, book.texts) == (TEAM, (), ())
    assert list(book.undone) == [RemoveUser("bob"), first]
    assert (book.redo(), book.redo()) == (first, RemoveUser("bob"))
    assert book.texts == ("ann: weight 2 instead of 1", "bob leaves")
    for wrong in (book.redo, Workbook(TEAM).undo):
        with pytest.raises(InputError, match="must have a step"):
            wrong()


def test_undo_goes_back_beyond_what_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workbook, "_KEPT", 3)
    book = done(*(SetUser("ann", "weight", n) for n in range(1, 20)))
    assert len(book._states) == 4
    for n in range(18, 0, -1):
        book.undo()
        assert user(book, "ann").weight == n
    book.undo()
    assert book.scenario == TEAM


def test_there_is_an_end_of_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workbook, "MOST_STEPS", 2)
    book = done(RemoveUser("bob"), SetUser("ann", "weight", "2"))
    with pytest.raises(InputError, match="steps must be at most 2"):
        book.do(SetUser("ann", "weight", "1"))
    data = book.to_dict()
    data["undone"] = [["user", "ann", "weight", 1]]
    with pytest.raises(InputError, match="steps must be at most 2, got 3"):
        Workbook.from_dict(data)


def test_users_without_a_demand_get_that_of_their_jobs() -> None:
    jobs = (
        Job("ann", demand={"cpu": 1}, duration=5, tasks=3),
        Job("ann", demand={"cpu": 3, "gpu": 1}, duration=5),
    )
    users = (User("ann", weight=2), User("bob", {"cpu": 1}))
    book = Workbook(replace(TEAM, users=users, jobs=jobs))
    assert book.base.users == (
        User("ann", {"cpu": 1.5, "gpu": 0.25}, weight=2, tasks=4),
        users[1],
    )
    assert book.base.jobs == jobs
    with pytest.raises(InputError, match=r"demand of ann must be given"):
        Workbook(replace(TEAM, users=users))


def test_a_scenario_that_cannot_run_is_refused() -> None:
    for wrong in (User("ann", {"tpu": 1}), User("ann", {"cpu": 1}, servers="nowhere")):
        with pytest.raises(InputError, match=r"users\[0\]"):
            Workbook(replace(TEAM, users=(wrong,)))
    with pytest.raises(InputError, match=r"scenario must be a drfh\.Scenario"):
        Workbook("team.yaml")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"step must be a drfh\.web\.session\.steps\.Step"):
        Workbook(TEAM).do("ann leaves")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", shipped_scenarios())
def test_every_shipped_scenario_opens(name: str) -> None:
    book = Workbook(load_scenario(name))
    assert book.to_dict() == {"drfh": 1, "base": name}
    assert Workbook.from_dict(book.to_dict()) == book


def test_a_shipped_title_is_not_enough() -> None:
    two = load_scenario("paper-two-servers")
    data = Workbook(replace(two, users=two.users[:1])).to_dict()
    assert data["base"]["users"] == [{"name": "ann", "demand": {"cpu": 0.2, "memory": 1}}]


def test_plain_data_has_the_title_if_it_differs() -> None:
    book = Workbook(TEAM, title="What if\nwe grow")
    assert book.title == "What if we grow"
    assert Workbook.from_dict(book.to_dict()).title == "What if we grow"
    assert "title" not in Workbook(TEAM).to_dict()
    assert repr(book).startswith("Workbook('What if we grow', 0 steps, Cluster(6 servers")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (None, "workbook must be a mapping with the keys drfh and base, got None"),
        ({"drfh": 1}, "workbook must be a mapping with the keys drfh and base"),
        ({"drfh": 2, "base": "gpu-day"}, "drfh must be 1: this was made by another version"),
        ({"drfh": 1, "base": "gpu-dya"}, "base must be one of claim-a"),
        ({"drfh": 1, "base": 5}, "base must be the name of a shipped scenario, or a scenario"),
        ({"drfh": 1, "base": {}}, "base, line 1: cluster must be given"),
        ({"drfh": 1, "base": "gpu-day", "extra": 1}, "workbook must have no other keys"),
        ({"drfh": 1, "base": "gpu-day", "title": 5}, "title must be text, got 5"),
        ({"drfh": 1, "base": "gpu-day", "steps": "x"}, "steps must be a list of steps, got 'x'"),
        ({"drfh": 1, "base": "gpu-day", "steps": [5]}, "steps[0]: step must be a list that starts"),
        ({"drfh": 1, "base": "gpu-day", "steps": [["fly"]]}, "steps[0]: step must be one of"),
        (
            {"drfh": 1, "base": "gpu-day", "steps": [["-user", "course"], ["-user", "course"]]},
            "steps[1]: user must be one of",
        ),
        (
            {"drfh": 1, "base": "gpu-day", "undone": [["-user", "course"], ["-user", "course"]]},
            "undone[0]: user must be one of",
        ),
        ({"drfh": 1, "base": "gpu-day", "steps": [["-user", 5]]}, "steps[0]: user must be text"),
        (
            {"drfh": 1, "base": "gpu-day", "steps": [["user", "course", "cpu", True]]},
            "steps[0]: cpu of course must be text, a number, a list or a mapping, got True",
        ),
    ],
)
def test_wrong_data_is_refused(data: Any, text: str) -> None:
    with pytest.raises(InputError) as caught:
        Workbook.from_dict(data)
    assert str(caught.value).startswith(text)


def test_every_kind_of_step_has_its_word() -> None:
    assert {word: kind.kind for word, kind in STEPS.items()} == {word: word for word in STEPS}


@given(st.data())
def test_any_sequence_equals_its_steps_done_afresh(data: st.DataObject) -> None:
    book = data.draw(workbooks())
    base = book.base
    for _ in range(data.draw(st.integers(1, 12))):
        match data.draw(st.sampled_from(["do", "do", "do", "undo", "redo", "reset"])):
            case "do":
                before = (book.scenario, book.steps, book.undone, book.texts, book.truths)
                try:
                    book.do(data.draw(steps(book)))
                except InputError:
                    now = (book.scenario, book.steps, book.undone, book.texts, book.truths)
                    assert now == before
            case "undo" if book.steps:
                book.undo()
            case "redo" if book.undone:
                book.redo()
            case "reset":
                book.reset()
        afresh = Workbook(base, book.steps)
        assert afresh.state == book.state
        assert afresh.texts == book.texts
        assert book.base == base
    again = Workbook.from_dict(book.to_dict())
    assert again == book
    assert (again.state, again.texts, again.title) == (book.state, book.texts, book.title)
    while again.undone:
        again.redo()
