"""Published and cross-checked answers about whole tasks, through the public scheduler."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from drfh import Cluster, Scheduler, Server
from drfh.policies.fgd import fragmentation, least_fragmenting_device
from drfh.policies.scores import SCORES, alignment, best_fit, dot
from drfh.policies.slots import Slots
from tests.mechanisms.test_vectors import GIVEN, RESOURCES, VECTORS, chosen

ENGINES = ("plain", "indexed")
MANY = 200  # tasks of a user who has no end of them


def amounts(row: list[float]) -> dict[str, float]:
    return dict(zip(RESOURCES, row, strict=False))


def cluster_of(vector: dict[str, Any], *more: list[float]) -> Cluster:
    rows = [*vector["servers"], *more]
    return Cluster([Server(amounts(row), name=f"s{i}") for i, row in enumerate(rows)])


def fill(vector: dict[str, Any], policy: str, engine: Any, *, last_first: bool = False) -> Any:
    """Fill the cluster of a vector with tasks of its users, and return scheduler and tasks."""
    scheduler = Scheduler(cluster_of(vector), policy, engine=engine)
    order = list(enumerate(vector["users"]))
    for i, demand in reversed(order) if last_first else order:
        scheduler.add_user(f"u{i}", (vector["weights"] or [1] * len(order))[i])
        scheduler.submit(f"t{i}", f"u{i}", amounts(demand), count=MANY)
    placed = scheduler.place()
    return scheduler, [int(task.user[1:]) for task in placed]


def counted(sequence: list[int], users: int) -> list[int]:
    number = Counter(sequence)
    return [number[user] for user in range(users)]


def choice(cluster: Cluster, policy: str, engine: Any, demand: list[float], *held: Any) -> int:
    """Return where a task goes, beside tasks that already run there."""
    scheduler = Scheduler(cluster, policy, engine=engine)
    scheduler.add_user("u")
    for server, row in held:
        scheduler.adopt(f"held on {server}", "u", amounts(row), f"s{server}")
    scheduler.submit("task", "u", amounts(demand))
    (placed,) = scheduler.place()
    return int(placed.server[1:])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("vector", chosen("bestfit_score"))
def test_scores(vector: dict[str, Any], engine: str) -> None:
    expected = vector["expected"]["H"]
    for demand, row in zip(vector["users"], expected, strict=True):
        assert [best_fit(demand, s) for s in vector["servers"]] == pytest.approx(row)
        best = int(np.argmin(row))
        assert choice(cluster_of(vector), "best-fit-drfh", engine, demand) == best


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("vector", chosen("bestfit_choice"))
def test_order_of_resources(vector: dict[str, Any], engine: str) -> None:
    (demand,) = vector["users"]
    # A server that holds nothing here makes the totals equal: shares are then as raw amounts.
    even = cluster_of(vector, [0, 1])
    assert len(set(even.totals.tolist())) == 1
    for key, name in {
        "ref0": "best-fit:cpu", "ref1": "best-fit:memory", "cosine": "cosine", "dot": "dot",
        "l1_simplex": "simplex", "hilbert": "hilbert",
    }.items():  # fmt: skip
        expected = vector["expected"][key]
        head, _, resource = name.partition(":")
        options = {"reference": RESOURCES.index(resource)} if resource else {}
        scores = [SCORES[head](demand, server, **options) for server in vector["servers"]]
        assert int(np.argmin(scores)) == expected
        assert choice(even, f"drfh+{name}", engine, demand) == expected


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("vector", chosen("tetris_choice"))
def test_tetris(vector: dict[str, Any], engine: str) -> None:
    (demand,), expected = vector["users"], vector["expected"]
    pairs = list(zip(vector["servers"], vector["params"]["available"], strict=True))
    scores = [
        -alignment(*(np.array([demand, free]) / np.array(size)).tolist()) for size, free in pairs
    ]
    assert scores == pytest.approx(expected["scores_capacity_normalised"])
    assert [-dot(demand, free) for _, free in pairs] == expected["raw_dot"]
    held = [
        (server, [have - left for have, left in zip(size, free, strict=True)])
        for server, (size, free) in enumerate(pairs)
    ]
    even = cluster_of(vector, [0, 15])
    assert choice(even, "drfh+alignment", engine, demand, *held) == expected["choice"]
    assert choice(even, "drfh+dot", engine, demand, *held) == expected["raw_choice"]


@pytest.mark.parametrize("vector", chosen("fgd_score"))
def test_fragmentation(vector: dict[str, Any]) -> None:
    expected, node = vector["expected"], vector["params"]["node"]
    mix = [(task["cpu"], task["gpu"], task["p"]) for task in vector["params"]["workload"]]
    task = (vector["params"]["task"]["cpu"], vector["params"]["task"]["gpu"])
    assert fragmentation(node["cpu"], node["gpus"], mix) == pytest.approx(expected["F"])
    for device, key in ((0, "F_after_gpu0"), (2, "F_after_gpu2")):
        left = list(node["gpus"])
        left[device] -= task[1]
        after = fragmentation(node["cpu"] - task[0], left, mix)
        assert after == pytest.approx(expected[key])
    found = least_fragmenting_device(node["cpu"], node["gpus"], task, mix)
    assert found is not None
    assert f"gpu{found[0]}" == expected["choice"]
    assert found[1] == pytest.approx(expected["F_after_gpu0"])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("rule", ["min", "cpu"])
@pytest.mark.parametrize("vector", chosen("slots_count"))
def test_slots_of_servers(vector: dict[str, Any], rule: Any, engine: Any) -> None:
    expected = vector["expected"][f"{rule}_floor"]
    number = vector["params"]["N"]
    units = np.rint(np.array(vector["servers"]) * 100).astype(np.int64)
    assert Slots(number, rule).of_servers(units, 0).tolist() == expected
    scheduler = Scheduler(cluster_of(vector), f"slots:{number}:{rule}", engine=engine)
    scheduler.add_user("u")
    scheduler.submit("t", "u", {"cpu": 0.001}, count=MANY)
    filled = Counter(placed.server for placed in scheduler.place())
    assert [filled[f"s{i}"] for i in range(len(expected))] == expected


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("vector", chosen("slots"))
def test_slots(vector: dict[str, Any], engine: str) -> None:
    params, expected = vector["params"], vector["expected"]
    rules = [params["oversize"]] if "oversize" in params else ["ceil", "reject"]
    for rule in rules:
        wanted = expected if "tasks" in expected else expected[rule]
        policy = f"slots:{params['N']}:{params['count_rule']}:{rule}"
        scheduler, sequence = fill(vector, policy, engine)
        assert counted(sequence, len(vector["users"])) == wanted["tasks"]
        levels = [scheduler.level(user) for user in scheduler.users]
        if "slots" in wanted:
            assert levels[0] / levels[1] == wanted["slots"][0] / wanted["slots"][1]
        for resource, key in (("cpu", "cpu_util"), ("memory", "mem_util")):
            if key in wanted:
                servers = scheduler.status()["servers"].values()
                size = sum(server["capacity"][resource] for server in servers)
                free = sum(server["free"][resource] for server in servers)
                assert 1 - free / size == pytest.approx(wanted[key])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "vector", chosen("bestfit_discrete", "firstfit_discrete", "drf_discrete_min_share")
)
def test_filling(vector: dict[str, Any], engine: str) -> None:
    params, expected, users = vector.get("params", {}), vector["expected"], len(vector["users"])
    last_first = params.get("tie_break", "").startswith("last")
    server = "first-fit" if vector["policy"] == "firstfit_discrete" else "best-fit"
    for blocked in params.get("mode", "skip").split(" or "):
        if "tasks" not in expected:
            for key, resource in (("tasks_ref0", "cpu"), ("tasks_ref1", "memory")):
                _, sequence = fill(vector, f"drfh+best-fit:{resource}+{blocked}", engine)
                assert counted(sequence, users) == expected[key]
            continue
        policy = f"drfh+{server}+{blocked}"
        scheduler, sequence = fill(vector, policy, engine, last_first=last_first)
        assert counted(sequence, users) == expected["tasks"]
        assert sequence == expected.get("sequence", sequence)
        levels = [scheduler.level(f"u{i}") for i in range(users)]
        assert levels == pytest.approx(expected.get("levels", levels), abs=vector["tolerance"])
        if "user0_resources" in expected:  # what a lie brought
            held = [expected["tasks"][0] * need for need in vector["users"][0]]
            assert held == expected["user0_resources"]


_ALL_GIVEN = frozenset(GIVEN)  # by now both files have been read


def test_every_vector_is_run_by_some_test() -> None:
    names = [vector["name"] for vector in VECTORS]
    assert len(names) == len(set(names)) == 78
    assert set(names) == _ALL_GIVEN
