"""The conformance suite for policies: ours pass it, and broken ones do not."""

from __future__ import annotations

import json
from itertools import count, product
from typing import Any

import pytest

from drfh import Cluster, Scheduler, Server
from drfh.policies import POLICIES, Policy
from drfh.policies.policy import CHOICES, TURNS, ServerView, TaskView, UserView
from drfh.testing import ConformanceError, check_policy

SLOTS = ["slots:4", "slots:5:cpu", "slots:5:reject", "slots:6:overcommit", "slots:3:fitcheck",
         "slots:7:cpu:fitcheck"]  # fmt: skip
CHOSEN = [*CHOICES, "best-fit:memory"]
COMMON = {"tasks", "returning", "deterministic", "snapshot", "log"}


def checked(policy: Any, **options: Any) -> set[str]:
    report = check_policy(policy, **{"cases": 8, "steps": 50, **options})
    assert set(report.checks) >= COMMON
    return set(report.checks)


@pytest.mark.parametrize("name", [*POLICIES, *SLOTS])
def test_policies_with_a_name(name: str) -> None:
    found = checked(name, cases=15)
    assert {"turn", "engines"} <= found
    assert ("strict" in found) == (name == "fifo")
    assert ("work-conserving" in found) == (name != "fifo")
    assert ("capacity" in found) == (name not in ("slots:5:cpu", "slots:6:overcommit"))


@pytest.mark.parametrize("choice", CHOSEN)
def test_every_choice(choice: str) -> None:
    for number, (blocked, inside) in enumerate(
        product(("skip", "strict"), ("inside=fifo", "backfill"))
    ):
        checked(f"drfh+{choice}+{blocked}+{inside}", cases=3, seed=10 * number)


@pytest.mark.parametrize("turn", ["tsf", "asset", "max-min:disk", "hdrf", "turn=fifo", *SLOTS[:3]])
def test_every_turn(turn: str) -> None:
    assert turn.removeprefix("turn=").partition(":")[0] in {name.rstrip(":") for name in TURNS}
    for number, rest in enumerate(
        ("best-fit+skip", "first-fit+strict+backfill", "random+backfill")
    ):
        found = checked(f"{turn}+{rest}", cases=4, seed=10 * number)
        assert ("turn" in found) == ("engines" in found) == (turn != "hdrf")


@pytest.mark.parametrize("engine", ["plain", "indexed"])
@pytest.mark.parametrize("choice", CHOICES)
def test_slots_may_place_what_needs_only_what_is_gone(choice: str, engine: Any) -> None:
    cluster = Cluster([Server({"cpu": 4, "gpu": 1}, name="a"), Server({"cpu": 4}, name="b")])
    scheduler = Scheduler(cluster, f"slots:2:cpu:overcommit+{choice}", engine=engine)
    scheduler.add_user("ann")
    scheduler.submit("t", "ann", {"gpu": 1})
    scheduler.remove_server("a")
    assert [placed.server for placed in scheduler.place()] == ["b"]


# Own functions


def hungriest(user: UserView) -> float:
    return sum(user.usage.values()) / user.weight


def with_reserve(task: TaskView, server: ServerView) -> bool:
    """Leave one CPU on every server to others."""
    return server.free["cpu"] - task.demand["cpu"] >= 1 and all(
        need <= server.free[r] for r, need in task.demand.items()
    )


def emptiest(task: TaskView, server: ServerView) -> float:
    return -server.shares["cpu"]


def patient(user: UserView) -> bool:
    return user.running == 0


def smallest(task: TaskView) -> float:
    return sum(task.shares.values())


def test_own_functions() -> None:
    whole = Policy(
        turn=hungriest, choice=emptiest, blocked=patient, inside=smallest, fits=with_reserve
    )
    assert checked(whole, cases=20) == COMMON | {"capacity", "turn"}
    for part, function in (("turn", hungriest), ("choice", emptiest), ("inside", smallest)):
        assert "work-conserving" in checked({part: function})
    assert "work-conserving" in checked({"fits": with_reserve})


def anything(task: TaskView, server: ServerView) -> bool:
    return task.demand["cpu"] <= server.capacity["cpu"]


def test_a_policy_that_overfills_has_to_say_so() -> None:
    with pytest.raises(ConformanceError, match=r"fits=anything overfills s\d+: t\d+"):
        check_policy({"fits": anything})
    assert "capacity" not in checked({"fits": anything}, overfills=True)


def test_a_policy_with_a_memory_is_caught() -> None:
    calls = count()

    def round_robin(task: TaskView, server: ServerView) -> float:
        return (next(calls) * 7919) % 13

    with pytest.raises(ConformanceError, match="decides otherwise when asked again"):
        check_policy({"choice": round_robin})


def test_answers_that_are_none_are_caught() -> None:
    def ratio(user: UserView) -> float:
        used = user.usage["cpu"]
        return user.usage["memory"] / used if used else float("nan")

    with pytest.raises(ConformanceError, match="turn must return a number, got nan"):
        check_policy({"turn": ratio})

    def maybe(task: TaskView, server: ServerView) -> Any:
        return None

    with pytest.raises(ConformanceError, match="fits must return True or False, got None"):
        check_policy({"fits": maybe})

    def fussy(task: TaskView) -> float:
        return 1 / (2 - task.demand["cpu"])

    with pytest.raises(ConformanceError, match="ZeroDivisionError"):
        check_policy({"inside": fussy})


def test_functions_that_change_what_they_are_given_are_caught() -> None:
    def spend(task: TaskView, server: ServerView) -> float:
        server.free["cpu"] = 0.0  # type: ignore[index]
        return 0.0

    def forget(user: UserView) -> float:
        user.usage["cpu"] = -1.0  # type: ignore[index]
        return 0.0

    for part, function in {"choice": spend, "turn": forget}.items():
        with pytest.raises(ConformanceError, match=f"{part} must not change the mappings"):
            check_policy({part: function})


def test_a_core_that_passes_over_a_user_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    from drfh.scheduler.plain import PlainCore

    monkeypatch.setattr(PlainCore, "_stops", lambda core, user: False)
    with pytest.raises(ConformanceError, match=r"serves .* before .*, whose turn it is"):
        check_policy({"blocked": "strict", "turn": hungriest})
    monkeypatch.setattr(PlainCore, "next_user", lambda core, waiting, levels: waiting[-1])
    with pytest.raises(ConformanceError, match="who comes first and has a task that fits"):
        check_policy({"turn": hungriest})


def test_a_core_that_leaves_work_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    from drfh.scheduler.plain import PlainCore

    monkeypatch.setattr(PlainCore, "_stops", lambda core, user: True)
    with pytest.raises(ConformanceError, match="waiting, and it fits"):
        check_policy({"choice": emptiest})


def test_a_core_that_forgets_returning_tasks_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    from drfh.scheduler import plain

    monkeypatch.setattr(plain, "RETURNED", 0)
    with pytest.raises(ConformanceError, match="queue as"):
        check_policy({"choice": emptiest})


def test_the_log_in_the_message_leads_to_the_case() -> None:
    with pytest.raises(ConformanceError) as caught:
        check_policy({"fits": anything}, steps=200)
    lines = str(caught.value).splitlines()[1:]
    policy = Policy(fits=anything)
    scheduler = Scheduler.replay([json.loads(line) for line in lines], policy=policy)
    status = scheduler.status()
    assert any(min(server["free"].values()) < 0 for server in status["servers"].values())


def test_a_function_that_fails_is_named() -> None:
    def division(user: UserView) -> float:
        return 1 / user.running

    with pytest.raises(ConformanceError, match="ZeroDivisionError: division by zero"):
        check_policy({"turn": division})
