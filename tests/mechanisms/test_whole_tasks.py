"""Progressive filling with Best-Fit against a plain simulation written from the definition."""

from __future__ import annotations

from fractions import Fraction
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings

from drfh import Allocation, Cluster, InputError, Server, User, allocate
from drfh.kernels import compiled
from drfh.kernels.fill import fill_best_fit
from drfh.model.users import eligible_servers
from tests.support.examples import examples
from tests.support.strategies import problems

Pair = tuple[Cluster, list[User]]


def paper(cluster: Cluster, users: list[User]) -> Allocation:
    return allocate(cluster, users, whole_tasks=True, filling="paper")


def by_definition(cluster: Cluster, users: list[User]) -> dict[str, int]:
    """Lowest level first, smallest H, lowest index, skip: exact rationals, all servers."""
    servers = [
        (g, i, {r: Fraction(str(a)) for r, a in s.resources.items()})
        for g, s in enumerate(cluster.servers)
        for i in range(s.count)
    ]
    total = {r: sum(f.get(r, Fraction(0)) for _, _, f in servers) for r in cluster.resources}
    need = [{r: Fraction(str(a)) for r, a in u.demand.items() if a > 0} for u in users]
    allowed = [None if u.servers is None else eligible_servers(u, cluster) for u in users]
    count = [0] * len(users)
    out = [u.tasks is not None and u.tasks < 1 for u in users]
    reference = "cpu" if "cpu" in cluster.resources else cluster.resources[0]
    while not all(out):

        def level(i: int) -> tuple[Fraction, int]:
            top = max(count[i] * a / total[r] for r, a in need[i].items())
            return top / Fraction(users[i].weight), i

        turn = min((i for i in range(len(users)) if not out[i]), key=level)
        mine = need[turn]
        ref = reference if reference in mine else next(r for r in cluster.resources if r in mine)
        best = None
        for position, (g, i, free) in enumerate(servers):
            rule = allowed[turn]
            if rule is not None and not (rule[0][g] or i in rule[1].get(g, ())):
                continue
            if any(free.get(r, Fraction(0)) < a for r, a in mine.items()):
                continue
            h = sum(
                abs(
                    float((mine.get(r, Fraction(0)) / total[r]) / (mine[ref] / total[ref]))
                    - float((free.get(r, Fraction(0)) / total[r]) / (free[ref] / total[ref]))
                )
                for r in cluster.resources
                if total[r] > 0
            )
            # Equal up to the rounding of H counts as a tie.
            if best is None or h < best[0] - 1e-12:
                best = (h, position)
        if best is None:
            out[turn] = True
            continue
        for r, a in mine.items():
            servers[best[1]][2][r] -= a
        count[turn] += 1
        limit = users[turn].tasks
        out[turn] = limit is not None and count[turn] >= np.floor(limit)
    return {u.name: c for u, c in zip(users, count, strict=True)}


@settings(max_examples=examples(150))
@given(problems())
def test_filling_follows_the_definition(pair: Pair) -> None:
    cluster, users = pair
    whole = paper(cluster, users)
    assert whole.tasks == by_definition(cluster, users)
    assert whole.loss is not None
    assert whole.loss <= 1
    assert all(float(t).is_integer() for _, _, t in whole.placement(expand=True).rows())


@settings(max_examples=60)
@given(problems())
def test_twins_agree_exactly(pair: Pair) -> None:
    cluster, users = pair
    answers = []
    for twin in (fill_best_fit, compiled(fill_best_fit)):
        with patch("drfh.mechanisms.shared.progressive_filling.fast", return_value=twin):
            answers.append(paper(cluster, users).placement(expand=True).rows())
    with patch("drfh.mechanisms.shared.progressive_filling._WORTH_AN_INDEX", -1):
        answers.append(paper(cluster, users).placement(expand=True).rows())
    assert answers[0] == answers[1] == answers[2]


def test_a_task_that_fits_no_server_is_named() -> None:
    cluster = Cluster([Server({"cpu": 4}, name="small", count=3)])
    users = [User("big", {"cpu": 5}), User("ok", {"cpu": 1})]
    assert allocate(cluster, users).tasks["big"] == pytest.approx(1.2)
    whole = paper(cluster, users)
    assert whole.notes == ("big: one whole task fits no server",)
    assert whole.tasks == {"big": 0, "ok": 12}
    assert whole.worst_off() == ("big", 1.0)


def test_the_paper_example_loses_nothing() -> None:
    cluster = Cluster([Server({"cpu": 2, "memory": 12}), Server({"cpu": 12, "memory": 2})])
    users = [User("ann", {"cpu": 0.2, "memory": 1}), User("bob", {"cpu": 1, "memory": 0.2})]
    whole = paper(cluster, users)
    assert whole.tasks == {"ann": 10, "bob": 10}
    assert whole.loss == pytest.approx(0, abs=1e-12)


def test_too_many_tasks_are_refused() -> None:
    with pytest.raises(InputError, match="whole tasks may be placed"):
        allocate(Cluster([Server({"cpu": 1e12})]), [User("a", {"cpu": 1})], whole_tasks=True)


def test_demands_below_the_unit_are_refused() -> None:
    cluster = Cluster([Server({"cpu": 1e15, "memory": 1e15})])
    with pytest.raises(InputError, match=r"demand\.memory of a must be at least"):
        allocate(cluster, [User("a", {"cpu": 1e14, "memory": 1e-3})], whole_tasks=True)


def test_other_mechanisms_have_no_filling() -> None:
    with pytest.raises(InputError, match="whole_tasks must be used with the mechanism drfh"):
        allocate(
            Cluster([Server({"cpu": 1})]),
            [User("a", {"cpu": 1})],
            mechanism="drf",
            whole_tasks=True,
        )
