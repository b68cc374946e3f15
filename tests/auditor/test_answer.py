"""The answer about what runs now: shares, who is short and why, what is free, what limits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import drfh
from drfh import Cluster, Kind, Scenario, Server, User
from drfh.allocation.explain import LimitCode
from drfh.allocation.fairness import missing_share
from drfh.auditor import PROPERTIES, FairnessAnswer, Topic, answer_of, case_of

NODES = Cluster([Server({"cpu": 8, "memory": 32}, name="node", count=2)])


def rows(**held: dict[str, float]) -> list[dict[str, Any]]:
    return [
        {"user": user, "server": server.replace("_", "/"), "tasks": tasks}
        for user, where in held.items()
        for server, tasks in where.items()
    ]


def answer(users: list[User], observed: Any, cluster: Cluster = NODES) -> FairnessAnswer:
    return answer_of(case_of(Scenario(cluster, tuple(users)), observed=observed))


def said(found: FairnessAnswer, topic: Topic) -> str:
    (text,) = (str(sentence) for sentence in found.sentences if sentence.topic is topic)
    return text


def task(name: str, tasks: float | None = None, **more: Any) -> User:
    return User(name, {"cpu": 2, "memory": 4}, tasks=tasks, **more)


def test_who_holds_too_much_and_who_is_short() -> None:
    found = answer(
        [task("x", 7), task("y", 5)], rows(x={"node_0": 4, "node_1": 3}, y={"node_1": 1})
    )
    y, x = found.teams
    assert (y.name, y.now, y.fair, y.difference) == ("y", 0.125, 0.5, -0.375)
    assert (y.waiting, y.fits, y.held_by) == (4, 0, ("x",))
    assert y.code is LimitCode.USED_UP
    assert y.limited_by == x.limited_by == "cpu on the 2 node servers"
    assert x.above
    assert (x.resource, x.amount, x.fair_amount) == ("cpu", 14, 8)
    assert (found.fair, found.within_a_task, found.missing) == (False, False, 0.375)
    assert (found.worst_off, found.worst_missing) == ("y", 0.75)
    assert found.free == {"cpu": 0.0, "memory": 0.5}
    assert said(found, Topic.FAIR) == (
        "Not fair: 37.5 % of all fair shares is missing; y is worst off, with 25.0 % of its own."
    )
    assert said(found, Topic.SHORT) == (
        "Short: y (-37.5 points): x (+37.5 points) has more than its fair share on servers that it "
        "may use."
    )
    assert said(found, Topic.WASTE) == (
        "Wasted: nothing that is free could be used now: 0 % of cpu and 50 % of memory is free, "
        "and no waiting task fits there."
    )
    assert said(found, Topic.CHANGE) == (
        "What would change it: giving back what is above the fair shares: x 6 cpu; cpu on the 2 "
        "node servers limits y and x in the fair allocation (--add tries more)."
    )


def test_missing_share_is_that_of_the_semantics() -> None:
    users = [task("a", weight=2), task("b"), User("c", {"cpu": 1, "memory": 8}, tasks=3)]
    observed = rows(a={"node_0": 1}, b={"node_0": 2, "node_1": 1}, c={"node_1": 1})
    found = answer(users, observed)
    teams = {team.name: team for team in found.teams}
    best = drfh.allocate(NODES, users)
    assert {name: team.fair for name, team in teams.items()} == pytest.approx(best.shares)
    now, fair, weight = (
        np.array([getattr(teams[name], what) for name in "abc"])
        for what in ("now", "fair", "weight")
    )
    assert found.missing == pytest.approx(float(missing_share(now, weight, fair / weight)))
    assert found.missing > 0


def test_fair_with_and_without_a_queue() -> None:
    held = rows(x={"node_0": 2, "node_1": 2}, y={"node_0": 2, "node_1": 2})
    found = answer([task("x", 4), task("y", 4)], held)
    assert found.fair
    assert [team.limited_by for team in found.teams] == ["no task waits"] * 2
    assert said(found, Topic.FAIR) == "Fair: every team has its fair share now, and no task waits."
    assert said(found, Topic.SHORT) == "Short: nobody."
    assert said(found, Topic.CHANGE).endswith("nothing, as nobody waits for more.")
    found = answer([task("x", 4), task("y", 9)], held)
    assert found.fair
    assert said(found, Topic.FAIR) == "Fair: every team has its fair share now."
    assert found.worst_off == ""
    assert {part.resource: names for part, names in found.bottlenecks.items()} == {"cpu": ("y",)}


def test_who_asks_for_little_is_not_short() -> None:
    """A fair share is at most what a team has tasks for."""
    held = rows(x={"node_0": 4, "node_1": 3}, y={"node_1": 1})
    found = answer([task("x", 9), task("y", 1)], held)
    assert found.fair
    assert found.teams[1].now == found.teams[1].fair == 0.125


def test_less_than_a_task_is_said() -> None:
    users = [task(name, 7) for name in "xyz"]
    held = rows(x={"node_0": 3}, y={"node_1": 3}, z={"node_0": 1, "node_1": 1})
    found = answer(users, held)
    assert not found.fair
    assert found.within_a_task
    assert said(found, Topic.FAIR) == (
        "Fair up to whole tasks: 8.3 % of all fair shares is missing, less than one task of each "
        "team."
    )
    assert "z (-8.3 points): it lacks less than one task" in said(found, Topic.SHORT)
    assert "give back" not in said(found, Topic.CHANGE)


def test_what_fits_now_is_counted_server_by_server() -> None:
    """Three free cpus on each node hold one task of two each: not three."""
    users = [task("x", 4), User("odd", {"cpu": 5, "memory": 1}, tasks=2)]
    found = answer(users, rows(odd={"node_0": 1, "node_1": 1}))
    x = next(team for team in found.teams if team.name == "x")
    assert (x.waiting, x.fits, found.fits) == (4, 2, 2)
    assert said(found, Topic.WASTE) == (
        "Wasted: 38 % of cpu and 97 % of memory is free, and 2 of 4 waiting tasks would fit there "
        "now, with nothing moved (x 2)."
    )
    assert found.missing_later < found.missing
    # Two teams do not get the same room twice: the shorter one is first.
    found = answer([*users, task("y", 4)], rows(odd={"node_0": 1, "node_1": 1}, y={"node_0": 1}))
    assert {team.name: team.fits for team in found.teams} == {"x": 1, "y": 0, "odd": 0}


def test_who_is_lowest_starts_next() -> None:
    """One team without end must not take the room of the others first."""
    users = [User("big", {"memory": 8}), User("small", {"cpu": 1, "memory": 1}, tasks=16)]
    found = answer(users, rows(small={"node_0": 1}))
    assert found["small"].fits == 15
    assert found["big"].fits == 6
    assert found.missing_later == pytest.approx(0.0, abs=0.11)


def test_only_who_holds_what_is_lacking_is_in_the_way() -> None:
    """x holds too much gpu; what y needs is free, and z needs gpu."""
    cluster = Cluster([Server({"cpu": 8, "gpu": 4}, name="gpu"), Server({"cpu": 8}, name="cpu")])
    users = [
        User("x", {"cpu": 1, "gpu": 1}, tasks=9),
        User("y", {"cpu": 2}, tasks=4),
        User("z", {"cpu": 1, "gpu": 1}, tasks=4),
    ]
    found = answer(users, rows(x={"gpu": 4}), cluster)
    assert (found["y"].fits, found["y"].held_by) == (4, ())
    assert (found["z"].fits, found["z"].held_by) == (0, ("x",))
    assert (found["z"].resource, found["z"].amount, found["z"].fair_amount) == ("gpu", 0, 2)
    assert found["z"].sentences == (
        "z has a share of 0.0 % now, 50.0 % in the fair allocation: less than its fair share.",
        "It is largest in gpu: 0 now, 2 in the fair allocation.",
        "4 tasks of it wait; 0 would fit now.",
        "What the rest needs is held by others: x has more than its fair share, on servers that z "
        "may use.",
    )
    with pytest.raises(drfh.errors.UnknownNameError, match="team must be one of x, y, z"):
        found["w"]


def test_the_largest_resource_now_may_be_another_one() -> None:
    """x runs gpu tasks alone: what it gives back is a part of its share, of gpu."""
    cluster = Cluster([Server({"cpu": 8, "gpu": 4}, name="a")])
    mixed = User("x", kinds=[Kind({"cpu": 4}, tasks=1), Kind({"gpu": 1}, tasks=4)])
    users = [mixed, User("y", {"gpu": 1}, tasks=4)]
    observed = [{"user": "x", "kind": "2", "server": "a", "tasks": 4}]
    found = answer(users, observed, cluster)
    x = found["x"]
    assert (x.now, x.resource, x.amount) == (1.0, "gpu", 4)
    assert x.fair < 1
    given = 4 * (1 - x.fair)
    assert f"x {given:.4g} gpu" in said(found, Topic.CHANGE)
    assert x.sentences[0].startswith("x has a share of 100.0 % now, ")


def test_sums_of_groups_are_said_to_be_sums() -> None:
    found = answer([task("x", 4), task("y", 4)], [{"user": "x", "server": "node", "tasks": 4}])
    assert found.by_group
    assert "by the sums of their groups" in said(found, Topic.WASTE)


def test_more_than_there_is() -> None:
    found = answer([task("x"), task("y")], rows(x={"node_0": 40}))
    assert found.overfull
    assert said(found, Topic.WASTE).startswith("Wasted: more is held on a server than it has; ")
    assert found.free["cpu"] == 0.5


def test_rules_decide_who_is_in_the_way() -> None:
    cluster = Cluster([Server({"cpu": 8}, name="a"), Server({"cpu": 8}, name="b")])
    users = [
        User("x", {"cpu": 2}, servers=["a"], tasks=4),
        User("y", {"cpu": 2}, servers=["b"], tasks=4),
        User("z", {"cpu": 2}, servers=["b"], tasks=4),
    ]
    found = answer(users, rows(x={"a": 1}, y={"b": 4}), cluster)
    teams = {team.name: team for team in found.teams}
    assert teams["x"].held_by == ()
    assert teams["x"].fits == 3
    assert teams["z"].held_by == ("y",)
    assert teams["z"].limited_by == "cpu on b"
    assert teams["x"].limited_by == "nothing: there, all its tasks run"


def test_kinds_of_tasks_share_one_line() -> None:
    cluster = Cluster([Server({"cpu": 8, "gpu": 4}, name="gpu"), Server({"cpu": 8}, name="cpu")])
    kinds = (
        Kind({"cpu": 1, "gpu": 1}, name="train", tasks=4),
        Kind({"cpu": 1}, name="prepare", tasks=4),
    )
    users = [User("ml", kinds=kinds), User("web", {"cpu": 1, "gpu": 1}, tasks=8)]
    observed = [
        {"user": "ml", "kind": "train", "server": "gpu", "tasks": 1},
        {"user": "ml", "kind": "prepare", "server": "cpu", "tasks": 4},
        {"user": "web", "kind": "", "server": "gpu", "tasks": 3},
    ]
    found = answer(users, observed, cluster)
    ml, web = found.teams
    assert (ml.name, ml.tasks) == ("ml", 5)
    assert ml.now == pytest.approx(5 / 16)
    assert ml.limited_by == web.limited_by == "gpu on gpu"
    assert ml.held_by == ("web",)
    assert found.truthful.outside == ("one kind of tasks a user",)
    text = said(found, Topic.TRUTHFUL)
    assert text.startswith("Misreporting: somebody might gain by it")
    assert "proven" not in text


def test_misreporting_is_proven_only_where_it_is() -> None:
    found = answer([task("x"), task("y")], rows(x={"node_0": 1}))
    assert found.truthful.proven
    text = said(found, Topic.TRUTHFUL)
    assert text.startswith("Misreporting: no, proven: nobody gains by it in the fair allocation ")
    assert text.endswith("; which rule placed what runs now is not known.")


def test_a_gap_is_said() -> None:
    found = answer([task("x")], rows(x={"node_0": 1}))
    assert Topic.EXACT not in [sentence.topic for sentence in found.sentences]
    assert said(replace(found, closed=False, gap=1e-4), Topic.EXACT) == (
        "Not exact: the fair allocation is not proven, relative gap 1.0e-04."
    )


def test_the_answer_comes_before_the_properties() -> None:
    order: list[str] = []
    report = drfh.audit(
        drfh.load_scenario("paper-two-servers"),
        observed=[{"user": "ann", "server": "high-memory", "tasks": 1}],
        properties=["fair"],
        progress=lambda name, part: order.append(name),
        on_answer=lambda found: order.append("answer"),
    )
    assert order[0] == "answer"
    assert report.answer is not None
    assert report.to_dict()["answer"]["worst_off"] == "bob"
    assert drfh.audit(drfh.load_scenario("paper-two-servers"), properties=["fair"]).answer is None


def test_a_gloss_has_at_most_eight_words() -> None:
    assert all(len(item.title.split()) <= 8 for item in PROPERTIES.values())


@pytest.mark.parametrize("amount", [{"tasks": 8}, {"cpu": 8}], ids=["tasks", "amounts"])
def test_what_is_held_beyond_the_scenarios_tasks_counts_and_is_warned_of(
    amount: dict[str, float],
) -> None:
    cluster = Cluster([Server({"cpu": 8}, name="n", count=2)])
    users = (User("a", {"cpu": 1}, tasks=5), User("b", {"cpu": 1}))
    table = [{"user": "a", "server": "n/0", **amount}, {"user": "b", "server": "n/1", **amount}]
    report = drfh.audit(Scenario(cluster, users), observed=table)
    found = report.answer
    assert found is not None
    teams = {team.name: team for team in found.teams}
    assert (teams["a"].now, teams["a"].tasks, teams["a"].beyond) == (0.5, 8, 3)
    assert (teams["b"].now, teams["b"].beyond, teams["b"].held_by) == (0.5, 0, ("a",))
    assert said(found, Topic.TASKS).startswith(
        "Warning: a runs 8 tasks, and the scenario says 5: is `tasks` only what waits?"
    )
    assert "giving back what is above the fair shares: a 3 cpu" in said(found, Topic.CHANGE)
    assert report["non-wasteful"].text == "a cannot use 37.5 % of the cpu that it holds"
    assert report["feasible"].verdict == "fails"


def test_no_warning_where_the_scenario_has_all_tasks_that_run() -> None:
    cluster = Cluster([Server({"cpu": 8}, name="n")])
    users = (User("a", {"cpu": 1}, tasks=8), User("b", {"cpu": 1}))
    rows = [{"user": "a", "server": "n", "tasks": 8}]
    found = drfh.audit(Scenario(cluster, users), observed=rows, properties=["feasible"]).answer
    assert found is not None
    assert Topic.TASKS not in {sentence.topic for sentence in found.sentences}
    assert [team.beyond for team in found.teams] == [0, 0]
