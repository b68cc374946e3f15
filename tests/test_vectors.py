"""Published and cross-checked answers (data/vectors.json names the source of each)."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drfh import Cluster, Server, User, allocate
from drfh.mechanisms.bbf import complaints
from drfh.mechanisms.joe_wong import fds_objective, gfj_objective
from drfh.problem import Problem

VECTORS = json.loads((Path(__file__).parent / "data" / "vectors.json").read_text())
RESOURCES = ("cpu", "memory", "gpu")


def chosen(*policies: str, single: bool = False) -> list[Any]:
    return [
        pytest.param(v, id=v["name"])
        for v in VECTORS
        if v["policy"] in policies and (not single or len(v["servers"]) == 1)
    ]


def records(vector: dict[str, Any]) -> tuple[Cluster, list[User]]:
    cluster = Cluster([Server(dict(zip(RESOURCES, s, strict=False))) for s in vector["servers"]])
    n = len(vector["users"])
    weights = vector["weights"] or [1] * n
    tasks = vector["max_tasks"] or [None] * n
    users = [
        User(f"u{i}", dict(zip(RESOURCES, d, strict=False)), weight=weights[i], tasks=tasks[i])
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


@pytest.mark.parametrize("vector", chosen("bestfit_discrete", "drf_discrete_min_share"))
def test_whole_tasks(vector: dict[str, Any]) -> None:
    if "tasks" in vector["expected"]:
        check(vector, whole_tasks=True)
    else:
        check(vector, "tasks_ref0", whole_tasks=True, reference="cpu")
        check(vector, "tasks_ref1", whole_tasks=True, reference="memory")


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
