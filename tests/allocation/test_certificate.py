"""A certificate must fail when the answer is not the best, and when the placement is wrong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from drfh import Cluster, Server, User, allocate
from drfh.allocation.allocation import Allocation
from drfh.allocation.placement import Placement, Pools
from drfh.allocation.problem import Promise, Rule, by_weight
from drfh.allocation.proofs.certificate import (
    Certificate,
    KinkedPrices,
    ResourcePrices,
    Round,
    TablePrices,
)
from tests.support.strategies import problems


def fig1(**options: object) -> Allocation:
    cluster = Cluster([Server({"cpu": 2, "memory": 12}), Server({"cpu": 12, "memory": 2})])
    users = [User("ann", {"cpu": 0.2, "memory": 1}), User("bob", {"cpu": 1, "memory": 0.2})]
    return allocate(cluster, users, **options)  # type: ignore[arg-type]


def failing(certificate: Certificate) -> set[str]:
    return {check.name for check in certificate.verify().checks if not check.ok}


def with_tasks(allocation: Allocation, tasks: np.ndarray) -> Certificate:
    """The same proof for other amounts."""
    assert isinstance(allocation.certificate, Certificate)
    placed = replace(allocation.assignment, tasks=tasks)
    return replace(allocation.certificate, placement=placed)


# Prices of a solver are summed up over servers: that round-off is in the gap.
@pytest.mark.parametrize(("method", "most"), [("closed-form", 2e-15), ("simplex", 1e-14)])
def test_a_good_certificate_passes(method: str, most: float) -> None:
    certificate = fig1(method=method).certificate
    assert isinstance(certificate, Certificate)
    assert failing(certificate) == set()
    assert certificate.gap <= most


@given(problems(), st.floats(1e-6, 0.5))
def test_less_than_the_best_is_noticed(pair: tuple[Cluster, list[User]], less: float) -> None:
    allocation = allocate(*pair)
    assume(len(allocation.assignment.tasks))
    certificate = with_tasks(allocation, allocation.assignment.tasks * (1 - less))
    assert failing(certificate) == {"relative gap"}
    gap = next(c.worst for c in certificate.verify().checks if c.name == "relative gap")
    assert gap == pytest.approx(less, rel=1e-3) or gap > less


def test_more_than_capacity_is_noticed() -> None:
    allocation = fig1()
    certificate = with_tasks(allocation, allocation.assignment.tasks * (1 + 1e-15 * 4))
    assert failing(certificate) == {"server over capacity"}


def test_one_user_raised_at_the_cost_of_another_is_noticed() -> None:
    allocation = fig1()
    tasks = allocation.assignment.tasks.copy()
    tasks[allocation.assignment.user == 0] *= 0.99
    assert failing(with_tasks(allocation, tasks)) == {"relative gap"}


def test_a_user_without_a_round_is_noticed() -> None:
    certificate = fig1().certificate
    assert isinstance(certificate, Certificate)
    first = replace(certificate.rounds[0], users=np.array([0]))
    assert "user without a proof" in failing(replace(certificate, rounds=(first,)))


def test_prices_that_stop_nobody_are_noticed() -> None:
    cluster = Cluster([Server({"cpu": 1, "memory": 1})])
    users = [User("a", {"cpu": 1}), User("b", {"memory": 1}), User("c", {"memory": 1})]
    allocation = allocate(cluster, users)
    certificate = allocation.certificate
    assert isinstance(certificate, Certificate)
    # All three frozen at the level 1/2 of LP (7): memory's price does not stop user a.
    half = allocation.assignment.tasks.copy()
    half[allocation.assignment.user == 0] = 0.5
    wrong = Round(np.arange(3), 0.5, ResourcePrices(1))
    placed = replace(allocation.assignment, tasks=half)
    assert "relative gap" in failing(Certificate.of(placed, [wrong]))


def test_negative_prices_are_noticed() -> None:
    certificate = fig1().certificate
    assert isinstance(certificate, Certificate)
    table = TablePrices(np.array([[1.0, -1e-3], [0.0, 1.0]]), np.arange(2))
    bad = replace(certificate.rounds[0], prices=table)
    assert "negative or infinite task or price" in failing(replace(certificate, rounds=(bad,)))


def test_a_task_on_a_forbidden_server_is_noticed() -> None:
    cluster = Cluster([Server({"cpu": 4}, name="a"), Server({"cpu": 4, "gpu": 1}, name="b")])
    users = [User("x", {"cpu": 1}, servers="a"), User("y", {"gpu": 1})]
    allocation = allocate(cluster, users)
    placed = allocation.assignment
    for moved in (np.where(placed.user == 0, 1, placed.pool), np.where(placed.user == 1, 0, 1)):
        assert isinstance(allocation.certificate, Certificate)
        certificate = replace(allocation.certificate, placement=replace(placed, pool=moved))
        assert "task where it may not run" in failing(certificate)


def test_more_tasks_than_a_user_has_are_noticed() -> None:
    allocation = allocate(Cluster([Server({"cpu": 8})]), [User("a", {"cpu": 1}, tasks=3)])
    certificate = with_tasks(allocation, allocation.assignment.tasks * 2)
    assert failing(certificate) == {"more tasks than a user has"}


def test_without_a_proof_the_placement_is_checked() -> None:
    # With finite tasks, what a server is asked for is a choice.
    users = [User("a", {"cpu": 1}, tasks=3)]
    answer = allocate(Cluster([Server({"cpu": 8})]), users, mechanism="per-server-drf")
    assert answer.certificate is None
    assert answer.verify()
    assert "relative gap" not in [check.name for check in answer.verify().checks]
    doubled = replace(answer.assignment, tasks=answer.assignment.tasks * 2)
    found = replace(answer, assignment=doubled).verify()
    assert [check.name for check in found.checks if not check.ok] == ["more tasks than a user has"]


def test_table_prices_tell_servers_apart_that_a_wrong_class_joins() -> None:
    allocation = allocate(
        Cluster([Server({"cpu": 1}, name="a"), Server({"cpu": 1}, name="b")]),
        [User("x", {"cpu": 1}, servers="a"), User("y", {"cpu": 1})],
    )
    joined = TablePrices(np.array([[1.0]]), np.zeros(2, dtype=np.int64))
    assert joined.of_users(allocation.problem).tolist() == [1.0, 1.0]
    assert joined.value(allocation.problem) == 1.0


def test_fitting_scales_down_and_never_up() -> None:
    problem = fig1().problem
    user, pool = np.array([0, 0, 1]), np.array([0, 0, 0])
    tight = Placement.fitted(problem, user, pool, np.array([5.0, 5.0, 0.1]), Pools.single(2))
    assert tight.user.tolist() == [0, 1]
    assert tight.pool_usage[0, 0] <= 2
    assert tight.pool_usage[0, 0] == pytest.approx(2)
    loose = Placement.fitted(problem, user, pool, np.array([1.0, 1.0, 0.1]), Pools.single(2))
    assert loose.user_tasks.tolist() == [2.0, 0.1]


def cpu(tasks: list[float], rounds: list[Round], rule: Rule = by_weight) -> Certificate:
    """Two users of one task shape on ten CPUs, with any claim about them."""
    cluster = Cluster([Server({"cpu": 10, "memory": 10})])
    users = [User("a", {"cpu": 1}), User("b", {"cpu": 1}), User("c", {"memory": 1})]
    problem = allocate(cluster, users[: len(tasks)]).problem
    who, where = np.arange(len(tasks)), np.zeros(len(tasks), dtype=np.int64)
    placed = Placement.fitted(problem, who, where, np.array(tasks), Pools.single(1))
    return Certificate.of(placed, rounds, rule)


def table(*prices: float) -> TablePrices:
    return TablePrices(np.array([prices]), np.zeros(1, dtype=np.int64))


def test_rounds_in_the_wrong_order_are_noticed() -> None:
    for tasks in ([9.0, 1.0], [10.0, 0.0]):
        first = Round(np.array([0]), tasks[0] / 10, ResourcePrices(0))
        second = Round(np.array([1]), tasks[1] / 10, ResourcePrices(0))
        assert "relative gap" in failing(cpu(tasks, [first, second]))


@pytest.mark.parametrize("faint", [1e-3, 1e-8, 1e-11, 1e-14, 1e-300])
def test_prices_next_to_nothing_do_not_stop_anybody(faint: float) -> None:
    everyone = Round(np.arange(3), 0.5, table(1.0, faint))
    assert "relative gap" in failing(cpu([5.0, 5.0, 5.0], [everyone]))
    kinked = Round(np.arange(3), 0.5, KinkedPrices(faint, 0, 1))
    assert "relative gap" in failing(cpu([5.0, 5.0, 5.0], [kinked]))


@pytest.mark.parametrize("price", [np.nan, np.inf, -1.0, 0.0])
def test_prices_that_are_no_numbers_are_noticed(price: float) -> None:
    assert failing(cpu([1.0, 1.0], [Round(np.arange(2), 0.5, table(price, 0.0))]))


def test_tasks_that_are_on_no_server_are_noticed() -> None:
    cluster = Cluster([Server({"cpu": 5}), Server({"cpu": 5})])
    allocation = allocate(cluster, [User("a", {"cpu": 1}), User("b", {"cpu": 1})])
    zero = np.zeros(2, dtype=np.int64)
    thin = Pools(zero, np.array([0.05, 0.05]))
    placed = Placement(allocation.problem, np.arange(2), zero, np.array([50.0, 50.0]), thin)
    claim = Certificate.of(placed, [Round(np.arange(2), 0.5, ResourcePrices(0))])
    assert "task on no server" in failing(claim)


def test_a_broken_promise_is_noticed() -> None:
    rule = Promise(np.array([1.0, 1.0]))
    done = Round(np.arange(2), np.inf, None)
    assert failing(cpu([1.0, 1.0], [done], rule=rule)) == set()
    assert failing(cpu([1.0, 0.5], [done], rule=rule)) == {"relative gap"}
    assert failing(cpu([1.0, 1.0], [done])) == {"relative gap"}


def test_rising_past_prices_that_are_paid_is_noticed() -> None:
    # c needs next to nothing of the cpu that is used up, but not nothing: it stops with the others.
    cluster = Cluster([Server({"cpu": 10, "memory": 10})])
    users = [User("a", {"cpu": 1}), User("b", {"cpu": 1}), User("c", {"cpu": 1e-12, "memory": 1})]
    problem = allocate(cluster, users).problem
    who, where = np.arange(3), np.zeros(3, dtype=np.int64)
    placed = Placement.fitted(problem, who, where, np.array([5.0, 5.0, 10.0]), Pools.single(1))
    rounds = [
        Round(np.array([0, 1]), 0.5, table(1.0, 0.0)),
        Round(np.array([2]), 1.0, table(0.0, 1.0)),
    ]
    assert failing(Certificate.of(placed, rounds)) == {"relative gap"}
    assert list(allocate(cluster, users).tasks.values()) == pytest.approx([5, 5, 5])


@pytest.mark.parametrize("mechanism", ["drfh", "nash", "ps-dsf"])
def test_certificates_and_what_they_are_about_are_shown_in_one_line(mechanism: str) -> None:
    cluster = Cluster([Server({"cpu": 8, "memory": 4 + i}, name=f"s{i}") for i in range(40)])
    users = [User(f"u{i}", {"cpu": 1, "memory": 1 + i}) for i in range(30)]
    answer = allocate(cluster, users, mechanism=mechanism)
    assert answer.certificate is not None
    for shown in map(repr, (answer.certificate, answer.assignment, answer.problem)):
        assert "\n" not in shown
        assert len(shown) < 160
    assert f"gap {answer.certificate.gap:.1e}, proven" in repr(answer.certificate)
