"""Published and cross-checked answers (data/vectors.json names the source of each)."""

import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from drfh import Cluster, Server, User, allocate
from drfh.allocation.problem import Problem
from drfh.mechanisms.bbf import complaints
from drfh.mechanisms.cautious_lp import cautious_lp_steps
from drfh.mechanisms.dynamic_drf import dynamic_drf_steps
from drfh.mechanisms.fds import fds_objective
from drfh.mechanisms.gavel import gavel
from drfh.mechanisms.gfj import gfj_objective
from drfh.mechanisms.hug import hug
from drfh.mechanisms.quincy import quincy
from drfh.mechanisms.sequential_min_max import sequential_min_max_order
from tests.support.paths import DATA

VECTORS = json.loads((DATA / "vectors.json").read_text())
RESOURCES = ("cpu", "memory", "gpu")

#: Names of the vectors that some test is given (see test_vectors_online.py).
GIVEN: set[str] = set()


def chosen(*policies: str, single: bool = False) -> list[Any]:
    found = [
        v for v in VECTORS if v["policy"] in policies and (not single or len(v["servers"]) == 1)
    ]
    GIVEN.update(v["name"] for v in found)
    return [pytest.param(v, id=v["name"]) for v in found]


def records(vector: dict[str, Any]) -> tuple[Cluster, list[User]]:
    cluster = Cluster([Server(dict(zip(RESOURCES, s, strict=False))) for s in vector["servers"]])
    n = len(vector["users"])
    weights = vector["weights"] or [1] * n
    tasks = vector["max_tasks"] or [None] * n
    allowed = vector["eligibility"] or [None] * n
    users = [
        User(
            f"u{i}",
            dict(zip(RESOURCES, d, strict=False)),
            weight=weights[i],
            tasks=tasks[i],
            servers=allowed[i] and [cluster.names[k] for k, may in enumerate(allowed[i]) if may],
        )
        for i, d in enumerate(vector["users"])
    ]
    return cluster, users


def check(vector: dict[str, Any], key: str = "tasks", **options: Any) -> None:
    cluster, users = records(vector)
    allocation = allocate(cluster, users, **options)
    close = {"abs": vector["tolerance"], "rel": 1e-9}
    assert list(allocation.tasks.values()) == pytest.approx(vector["expected"][key], **close)
    levels = vector["expected"].get("levels")
    if levels is not None:
        tolerance = max(vector["tolerance"], 1e-9)
        assert list(allocation.levels.values()) == pytest.approx(levels, abs=tolerance)
    if allocation.certificate is not None:
        assert allocation.verify(), str(allocation.verify())


@pytest.mark.parametrize("method", ["auto", "simplex", "interior-point"])
@pytest.mark.parametrize("vector", chosen("drfh"))
def test_drfh(vector: dict[str, Any], method: str) -> None:
    check(vector, method=method)


@pytest.mark.parametrize("vector", chosen("drfh", single=True))
def test_single_server_is_drf(vector: dict[str, Any]) -> None:
    check(vector, mechanism="drf")


@pytest.mark.parametrize("vector", chosen("per_server_drf"))
def test_per_server_drf(vector: dict[str, Any]) -> None:
    check(vector, mechanism="per-server-drf")


#: Vectors by the name of their policy, where the mechanism is called otherwise.
NAMES = {"egalitarian_fixed_numeraire": "egalitarian"}


@pytest.mark.parametrize(
    "vector",
    chosen("asset_fairness", "cdrf", "cmmf", "egalitarian_fixed_numeraire", "ps_dsf", "tsf"),
)
def test_other_mechanisms(vector: dict[str, Any]) -> None:
    policy = vector["policy"]
    check(vector, mechanism=NAMES.get(policy, policy.replace("_", "-")))


@pytest.mark.parametrize("vector", chosen("sequential_min_max"))
def test_sequential_min_max(vector: dict[str, Any]) -> None:
    check(vector, mechanism="sequential-min-max")
    order = sequential_min_max_order(Problem.build(*records(vector)))
    assert order.tolist() == vector["expected"]["sequence"]


@pytest.mark.parametrize("vector", chosen("drf_weighted_endowments"))
def test_endowments(vector: dict[str, Any]) -> None:
    own = {f"u{i}": dict(zip(RESOURCES, w, strict=False))
           for i, w in enumerate(vector["params"]["w"])}  # fmt: skip
    check(vector, mechanism="endowment-drf", endowments=own)


@pytest.mark.parametrize("vector", chosen("dynamic_drf", "cautious_lp"))
def test_arrivals(vector: dict[str, Any]) -> None:
    cluster, users = records(vector)
    expected = vector["expected"]
    if vector["policy"] == "dynamic_drf":
        steps = dynamic_drf_steps(Problem.build(cluster, users))
        assert [s.tolist() for s in steps] == [pytest.approx(e) for e in expected["per_step"]]
    else:
        steps = cautious_lp_steps(Problem.build(cluster, users))
        levels = expected["per_step_level"]
        wanted = [pytest.approx([level] * (k + 1)) for k, level in enumerate(levels)]
        assert [s.tolist() for s in steps] == wanted
    answer = allocate(cluster, users, mechanism=vector["policy"].replace("_", "-"))
    assert list(answer.shares.values()) == pytest.approx(steps[-1].tolist())
    assert answer.verify()


@pytest.mark.parametrize("vector", chosen("hdrf"))
def test_hdrf(vector: dict[str, Any]) -> None:
    cluster = Cluster([Server(dict(zip(RESOURCES, s, strict=False))) for s in vector["servers"]])
    above = {c: p for p, names in vector["params"]["tree"].items() if p != "root" for c in names}
    users = [
        User(name, dict(zip(RESOURCES, d, strict=False)), parent=above.get(name))
        for name, d in vector["users"].items()
    ]
    answer = allocate(cluster, users, mechanism="hdrf")
    shares = {name: max(row) for name, row in vector["expected"]["shares"].items()}
    assert answer.shares == pytest.approx(shares)


@pytest.mark.parametrize("vector", chosen("hug"))
def test_hug(vector: dict[str, Any]) -> None:
    progress, allocation = hug(vector["users"])
    assert progress == pytest.approx(vector["expected"]["M"])
    assert allocation.tolist() == [pytest.approx(row) for row in vector["expected"]["allocation"]]


@pytest.mark.parametrize("vector", chosen("gavel_maxmin"))
def test_gavel(vector: dict[str, Any]) -> None:
    params = vector["params"]
    objective, time = gavel(
        params["throughput"], params["workers"], scale_factor=params["scale_factor"]
    )
    assert objective == pytest.approx(vector["expected"]["objective"])
    assert time.sum(axis=0).max() <= 1 + 1e-9
    assert time.sum(axis=1).max() <= 1 + 1e-9


@pytest.mark.parametrize("vector", chosen("quincy_mcf"))
def test_quincy(vector: dict[str, Any]) -> None:
    base = next(v for v in VECTORS if v["name"] == vector["params"].get("same_as", vector["name"]))
    params = base["params"]
    plan = quincy(
        params["arc_cost"],
        {f"m{i + 1}": s[0] for i, s in enumerate(vector["servers"])},
        params["jobs"],
        unscheduled=params["unscheduled_cost"],
        job_min_running=vector["params"].get("job_min_running"),
    )
    assert plan.cost == vector["expected"]["cost"]
    shown = {task: machine or "unscheduled" for task, machine in plan.assignment.items()}
    assert shown == vector["expected"]["assignment"]


@pytest.mark.parametrize("vector", chosen("bestfit_discrete", "drf_discrete_min_share"))
def test_whole_tasks(vector: dict[str, Any]) -> None:
    if "tasks" in vector["expected"]:
        check(vector, whole_tasks=True, filling="paper")
    else:
        check(vector, "tasks_ref0", whole_tasks=True, filling="paper", reference="cpu")
        check(vector, "tasks_ref1", whole_tasks=True, filling="paper", reference="memory")


@pytest.mark.parametrize("vector", chosen("nash_welfare"))
def test_nash(vector: dict[str, Any]) -> None:
    check(vector, mechanism="nash")


@pytest.mark.parametrize("vector", chosen("fds", "gfj"))
def test_joe_wong(vector: dict[str, Any]) -> None:
    beta, lam = vector["params"]["beta"], vector["params"]["lambda"]
    check(vector, mechanism=vector["policy"], beta=beta, lam=lam)
    cluster, users = records(vector)
    answer = allocate(cluster, users, mechanism=vector["policy"], beta=beta)
    objective = {"fds": fds_objective, "gfj": gfj_objective}[vector["policy"]]
    value = objective(answer.problem, answer.assignment.user_tasks, beta=beta, lam=lam)
    assert value == pytest.approx(vector["expected"]["objective"], abs=vector["tolerance"])


@pytest.mark.parametrize("vector", chosen("fds_objective", "gfj_objective"))
def test_objectives_of_joe_wong(vector: dict[str, Any]) -> None:
    objective = {"fds_objective": fds_objective, "gfj_objective": gfj_objective}[vector["policy"]]
    tasks = np.array(vector["params"]["tasks"], dtype=float)
    beta, lam = vector["params"]["beta"], vector["params"]["lambda"]
    value = objective(Problem.build(*records(vector)), tasks, beta=beta, lam=lam)
    assert value == pytest.approx(vector["expected"]["value"], abs=vector["tolerance"])


@pytest.mark.parametrize("vector", chosen("bbf_checker"))
def test_bbf(vector: dict[str, Any]) -> None:
    tasks = np.array([float(Fraction(t)) for t in vector["params"]["allocation_tasks"]])
    entitlements = np.array(vector["params"]["entitlements"])
    problem = Problem.build(*records(vector))
    found = complaints(problem, tasks, entitlements=entitlements)
    assert list(found) == [f"u{i}" for i in vector["expected"]["complaining_users"]]
    assert (not found) == vector["expected"]["is_bbf"]


def test_all_of_them_are_there() -> None:
    assert len(chosen("nash_welfare")) == 6
    assert len(chosen("fds", "gfj", "fds_objective", "gfj_objective", "bbf_checker")) == 8
    assert len(chosen("drfh")) == 23
    assert len(chosen("per_server_drf")) == 2
