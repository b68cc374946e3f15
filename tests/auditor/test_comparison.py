"""Mechanisms side by side, and the conformance suite that all of them pass."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from drfh import (
    MECHANISMS,
    Cluster,
    InputError,
    Placement,
    Problem,
    Server,
    Solution,
    SolverError,
    UnknownNameError,
    User,
    compare,
    load_scenario,
)
from drfh.auditor import PROPERTIES
from drfh.auditor.comparison import default_mechanisms
from drfh.testing import ConformanceError, check_mechanism, random_scenario

FAMILIES = {"norm:P": "norm:2", "max-min:RESOURCE": "max-min:cpu", "pooled:MECHANISM": "pooled:tsf"}


def test_rows_are_what_the_mechanisms_answer() -> None:
    result = compare(load_scenario("paper-two-servers"), mechanisms=["drfh", "drf", "nash"])
    row = result["drf"]
    assert row.allocation is not None
    assert row.gap == pytest.approx(1 / 7)
    assert row.distance == 0.0
    assert result["drfh"].gap is None
    assert {name: f.verdict for name, f in row.marks.items()} == {
        "envy-free": "holds",
        "pareto": "holds",
        "sharing-incentive": "holds",
    }
    assert result.promises().height == 2
    assert result.table().height == 6
    with pytest.raises(UnknownNameError, match="mechanism must be one of"):
        result["tsf"]


def test_what_applies_is_compared_by_default() -> None:
    two = load_scenario("paper-two-servers")
    names = default_mechanisms(two.cluster, two.users)
    assert {"max-min:cpu", "max-min:memory", "whole-tasks"} <= set(names)
    assert not {"cmmf", "hdrf", "endowment-drf"} & set(names)
    one = Cluster([Server({"cpu": 4})])
    assert "cmmf" in default_mechanisms(one, [User("a", {"cpu": 1})])
    tree = load_scenario("tree-of-users")
    assert "hdrf" in default_mechanisms(tree.cluster, tree.users)
    listed = {name.partition(":")[0] for name in MECHANISMS} - {"pooled"}
    compared = {n.partition(":")[0] for n in names} | {"cmmf", "hdrf", "endowment-drf"}
    assert compared - {"whole-tasks"} == listed


def test_a_mechanism_without_an_answer_does_not_stop_the_others() -> None:
    # Tasks so small that more whole ones fit than anybody wants to place.
    cluster = Cluster([Server({"cpu": 1e9})])
    result = compare(cluster, [User("a", {"cpu": 1e-3})])
    row = result["whole-tasks"]
    assert row.allocation is None
    assert "200,000,000" in row.why_not
    assert row.to_dict()["why_not"] == row.why_not
    assert len(result.answered) >= 15


def test_own_parameters_are_for_the_own_mechanism() -> None:
    scenario = replace(load_scenario("nsdi11-single-server"), mechanism="fds",
                       parameters={"beta": 5})  # fmt: skip
    result = compare(scenario, mechanisms=["fds", "gfj"])
    assert list(result["fds"].allocation.tasks.values()) == pytest.approx(  # type: ignore[union-attr]
        [3.2833520488, 1.9055493171], abs=1e-5
    )


def half_of_drfh(problem: Problem, *, part: float = 0.5) -> Solution:
    """Give everybody half."""
    answer = MECHANISMS["drfh"](problem).placement
    return Solution(replace(answer, tasks=answer.tasks * part))


def broken(problem: Problem) -> Solution:
    """Divide by nothing."""
    raise ZeroDivisionError("division by zero")


def test_functions_are_compared_too() -> None:
    scenario = load_scenario("paper-two-servers")
    result = compare(
        scenario,
        mechanisms=["drfh", half_of_drfh, partial(half_of_drfh, part=0.25), MECHANISMS["drfh"]],
    )
    names = ["drfh", "half-of-drfh", "half-of-drfh-2", "drfh-2"]
    assert [row.name for row in result.rows] == names
    assert result["half-of-drfh"].distance == pytest.approx(0.5)
    assert result["half-of-drfh-2"].distance == pytest.approx(0.75)
    assert result["half-of-drfh"].marks["pareto"].verdict == "fails"
    assert result.table()["mechanism"].unique(maintain_order=True).to_list() == names
    assert result.same_as_drfh() == ("drfh-2",)
    assert result.fair == pytest.approx({"ann": 10, "bob": 10})
    assert repr(result) == f"Comparison(4 mechanisms for 2 users: {', '.join(names)})"
    assert repr(result["half-of-drfh"]) == "Row(half-of-drfh: 10 tasks, 50.0 % from fair)"
    # Parameters of the scenario's mechanism are not for a function of the same name.
    own = replace(scenario, parameters={"method": "simplex"})
    assert compare(own, mechanisms=[MECHANISMS["drfh"]])["drfh"].allocation.parameters == {}  # type: ignore[union-attr]


def test_a_text_is_names_separated_by_commas() -> None:
    scenario = load_scenario("paper-two-servers")
    comparison = compare(scenario, mechanisms="drfh, tsf", properties=[])
    assert [row.name for row in comparison.rows] == ["drfh", "tsf"]
    with pytest.raises(InputError, match="mechanisms must be a list of names and functions"):
        compare(scenario, mechanisms=half_of_drfh)  # type: ignore[arg-type]


def test_a_name_counts_once() -> None:
    result = compare(load_scenario("paper-two-servers"), mechanisms=["drfh", "drf", "drfh"])
    assert [row.name for row in result.rows] == ["drfh", "drf"]


def test_what_breaks_does_not_take_down_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = load_scenario("paper-two-servers")
    with pytest.raises(SolverError, match="broken: ZeroDivisionError: division by zero"):
        compare(scenario, mechanisms=["drfh", broken])
    monkeypatch.setitem(MECHANISMS, "tsf", broken)
    result = compare(scenario)
    assert result["tsf"].allocation is None
    assert result["tsf"].why_not == "ZeroDivisionError: division by zero"
    assert repr(result["tsf"]) == "Row(tsf: no answer, ZeroDivisionError: division by zero)"
    assert [row.name for row in result.rows if row.allocation is None] == ["tsf"]
    empty = replace(result, rows=(result["tsf"],))
    assert empty.table().height == empty.promises().height == 0


def test_a_mark_that_breaks_leaves_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    known = PROPERTIES["pareto"]
    monkeypatch.setitem(PROPERTIES, "pareto", replace(known, check=broken))  # type: ignore[arg-type]
    row = compare(load_scenario("paper-two-servers"), mechanisms=["drfh"])["drfh"]
    assert row.allocation is not None
    assert row.marks["pareto"].verdict == "not applicable"
    assert "ZeroDivisionError" in row.marks["pareto"].text
    assert row.marks["envy-free"].verdict == "holds"


def test_only_the_row_of_whole_tasks_is_filled() -> None:
    scenario = load_scenario("paper-two-servers-weighted")
    parameters = {"whole_tasks": True, "reference": "memory"}
    result = compare(replace(scenario, parameters=parameters), mechanisms=["drfh", "whole-tasks"])
    divisible, whole = (result[name].allocation for name in ("drfh", "whole-tasks"))
    assert divisible is not None
    assert whole is not None
    assert not divisible.whole
    assert divisible.certificate is not None
    assert whole.whole
    assert whole.parameters == {**parameters, "filling": "paper"}
    assert result["drfh"].distance == 0


def test_json_has_no_infinity() -> None:
    result = compare(load_scenario("paper-two-servers"), mechanisms=["drfh"])
    row = result["drfh"]
    assert row.allocation is not None
    proof = row.allocation.certificate
    assert proof is not None
    object.__setattr__(proof, "gap", math.inf)
    data = result.to_dict()
    assert data["mechanisms"][0]["certificate_gap"] is None
    assert data["mechanisms"][0]["tasks"] == {"ann": 10.0, "bob": 10.0}
    json.dumps(data, allow_nan=False)


def test_bad_questions() -> None:
    scenario = load_scenario("paper-two-servers")
    with pytest.raises(InputError, match="users must be given"):
        compare(scenario.cluster)
    with pytest.raises(InputError, match="subject must be"):
        compare("paper-two-servers")  # type: ignore[arg-type]
    with pytest.raises(UnknownNameError, match="property must be one of"):
        compare(scenario, properties=["nice"])
    with pytest.raises(UnknownNameError, match="mechanism must be one of"):
        compare(scenario, mechanisms=["nice"])


@pytest.mark.parametrize("cases", [6, pytest.param(12, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", [FAMILIES.get(name, name) for name in MECHANISMS])
def test_every_mechanism_conforms(name: str, cases: int) -> None:
    conformance = check_mechanism(name, cases=cases, seed=7)
    assert conformance.checks["answers"] > 0
    assert str(conformance).startswith(name)


def test_claims_assume_what_they_say() -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        scenario = random_scenario(rng, ["one server", "positive demands", "endless tasks"])
        assert scenario.cluster.size == 1
        assert all(min(u.demand.values()) > 0 and u.tasks is None for u in scenario.users)
    with pytest.raises(UnknownNameError, match="assumption must be one of"):
        random_scenario(rng, ["good luck"])
    assert random_scenario(3) == random_scenario(np.random.default_rng(3))
    for wrong in (-1, True, "3", None):
        with pytest.raises(InputError, match="rng must be a numpy Generator or a seed"):
            random_scenario(wrong)  # type: ignore[arg-type]


def overfull(problem: Problem) -> Solution:
    """Place a little more than there is."""
    answer = MECHANISMS["drfh"](problem).placement
    return Solution(replace(answer, tasks=answer.tasks * 1.001))


def forgetful(problem: Problem) -> Solution:
    """Give another answer each time."""
    answer = MECHANISMS["drfh"](problem).placement
    part = 1 - 1e-3 * np.random.default_rng().random()
    return Solution(replace(answer, tasks=answer.tasks * part))


def first_is_king(problem: Problem) -> Solution:
    """Favour whoever is listed first."""
    weight = problem.weight * np.where(np.arange(len(problem.users)) == 0, 2.0, 1.0)
    return replace(MECHANISMS["drfh"](replace(problem, weight=weight)), certificate=None)


def large_units(problem: Problem) -> Solution:
    """Weigh users by the numbers in their demands."""
    weight = problem.weight * problem.demand.max(axis=1)
    return replace(MECHANISMS["drfh"](replace(problem, weight=weight)), certificate=None)


def boastful(problem: Problem) -> Solution:
    """Claim too much.

    Properties
        sharing-incentive: yes; it is not so
    """
    return MECHANISMS["drfh"](problem)


def confused(problem: Problem) -> Solution:
    """Claim what nobody knows.

    Properties
        heavenly: yes; nobody knows what it is
    """
    return MECHANISMS["drfh"](problem)


def no_solution(problem: Problem) -> Placement:
    """Return the wrong thing."""
    return MECHANISMS["drfh"](problem).placement


def fussy(problem: Problem) -> Solution:
    """Refuse everything."""
    raise InputError("problem", "must be another")


@pytest.mark.parametrize(
    ("mechanism", "message"),
    [
        (overfull, "overfull gives what does not fit"),
        (forgetful, "forgetful gives another answer when asked again"),
        (first_is_king, "first-is-king depends on order-of-users"),
        (large_units, "large-units depends on (units|order-of)"),
        (boastful, "boastful claims to be sharing-incentive and is not"),
        (no_solution, "no-solution returns Placement, not a Solution"),
        (fussy, "fussy refuses all of 40 problems"),
    ],
)
def test_defects_are_noticed(mechanism: object, message: str) -> None:
    with pytest.raises(ConformanceError, match=message):
        check_mechanism(mechanism, cases=40)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(12))
def test_every_seed_is_a_good_one(seed: int) -> None:
    conformance = check_mechanism("drfh", cases=4, seed=seed, claims=False)
    assert conformance.checks["units"] == 4


def test_unknown_claims_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="property of confused must be one of"):
        check_mechanism(confused)
