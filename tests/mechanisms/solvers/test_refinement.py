"""Ill-conditioned rounds are solved and proven to hundreds of digits."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import highspy
import pytest
from benchmarks.instances import mixture
from hypothesis import given, settings

from drfh import allocate
from drfh.allocation.allocation import Allocation
from drfh.allocation.problem import Problem, by_weight
from drfh.allocation.proofs.certificate import Certificate
from drfh.allocation.proofs.rational import RationalProblem, RationalProof, RationalRound
from drfh.errors import SolverError
from drfh.mechanisms.solvers import refinement
from drfh.mechanisms.solvers.rational import rational_leximin
from drfh.mechanisms.solvers.refinement import refined_leximin
from drfh.mechanisms.solvers.simplex import exact_model
from tests.support.examples import examples
from tests.support.rational import leximin
from tests.support.strategies import rational_problems

TINY = Fraction(1, 10**100)


def apart(tasks: list[Fraction], others: list[Fraction]) -> Fraction:
    """Return how far, relatively, the tasks of any user are apart."""
    pairs = zip(tasks, others, strict=True)
    return max(abs(one - other) / other if other else one for one, other in pairs)


def far(proof: RationalProof) -> Fraction:
    """Return how far any user is from its tasks by the definition."""
    problem = proof.problem
    right = leximin(
        problem.demand, problem.capacity, problem.usable, problem.cap, lambda rising: problem.rate
    )
    return apart(proof.tasks(), right)


def certificate(allocation: Allocation) -> Certificate:
    assert isinstance(allocation.certificate, Certificate)
    return allocation.certificate


# Late users live on a ten-millionth of all there is: doubles leave gaps of 1e-8 and more.
@pytest.mark.parametrize(
    ("servers", "users", "resources", "seed"), [(49, 69, 3, 97), (125, 51, 4, 189)]
)
def test_mixtures_that_doubles_leave_open_are_closed(
    servers: int, users: int, resources: int, seed: int
) -> None:
    allocation = allocate(*mixture(servers, users, resources, 20, seed))
    proof = certificate(allocation)
    assert (allocation.method, proof.closed) == ("refined", True)
    assert proof.exact is not None
    assert proof.exact.gap() < TINY
    assert proof.gap < 1e-13
    assert allocation.verify()


@given(rational_problems("0 0 1 2 3 5 1/3 7/1000"))
@settings(max_examples=examples(200))
def test_refined_rounds_are_those_of_the_definition(problem: RationalProblem) -> None:
    proof = refined_leximin(problem)
    assert proof.gap() < TINY
    assert far(proof) < TINY


@given(rational_problems())
@settings(max_examples=examples(200))
def test_numbers_far_apart_are_solved_or_given_up(problem: RationalProblem) -> None:
    try:
        proof = refined_leximin(problem)
    except SolverError:
        return
    assert far(proof) <= proof.gap()


def test_a_basis_that_is_wrong_with_all_digits_is_mended(monkeypatch: pytest.MonkeyPatch) -> None:
    """HiGHS is made to stop early, at numbers that are a tenth below 0."""
    runs = []

    def loose(lp: highspy.HighsLp, basis: highspy.HighsBasis | None) -> highspy.Highs:
        model = exact_model(lp, basis)
        for kind in ("primal", "dual"):
            model.setOptionValue(f"{kind}_feasibility_tolerance", 0.1)
        runs.append(model)
        return model

    def tasks() -> list[Fraction]:
        problem = Problem.build(*mixture(40, 30, 3, 4, 3))
        proof = refined_leximin(RationalProblem.of(problem, by_weight(problem)))
        assert proof.gap() < TINY
        return proof.tasks()

    right = tasks()
    monkeypatch.setattr(refinement, "exact_model", loose)
    assert apart(tasks(), right) < TINY
    assert len(runs) > 10  # of which five would do


def test_what_more_digits_do_not_close_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refinement, "_PIVOTS", 1)
    allocation = allocate(*mixture(49, 69, 3, 20, 97))
    assert (allocation.method, certificate(allocation).closed) == ("simplex", False)


def test_a_damaged_proof_is_refused() -> None:
    allocation = allocate(*mixture(49, 69, 3, 20, 97))
    sound = certificate(allocation)
    proof = sound.exact
    assert proof is not None
    number = next(i for i, stop in reversed([*enumerate(proof.rounds)]) if stop.prices)
    stop = proof.rounds[number]
    assert stop.prices is not None
    place, price = max(stop.prices.items(), key=lambda item: item[1])
    pair, amount = max(proof.placement.items(), key=lambda item: item[1])

    def changed(**changes: Any) -> tuple[RationalRound, ...]:
        rounds = list(proof.rounds)
        rounds[number] = replace(stop, **changes)
        return tuple(rounds)

    more = 1 + Fraction(1, 10**4)
    for wrong in (
        {"rounds": changed(prices={**stop.prices, place: price * more})},
        {"rounds": changed(prices={**stop.prices, place: -price})},
        {"rounds": changed(prices=None)},
        {"rounds": changed(level=stop.level * more)},
        {"rounds": changed(level=stop.level / more)},
        {"rounds": changed(users=stop.users[1:])},
        {"rounds": proof.rounds[:number]},
        {"placement": {**proof.placement, pair: amount * more}},
        {"placement": {**proof.placement, pair: amount / more}},
        {"placement": {**proof.placement, pair: -amount}},
    ):
        assert replace(proof, **wrong).gap() > sound.tolerance, wrong.keys()
    lower = replace(proof, rounds=changed(level=stop.level / more))
    other = replace(proof, problem=replace(proof.problem, rate=proof.problem.rate[::-1]))
    for unsound in (lower, other):
        assert not replace(sound, exact=unsound).verify()


@given(rational_problems("0 0 1 2 3 5 1/3 7/1000"))
@settings(max_examples=examples(100))
def test_a_gap_says_how_far_levels_are_off(problem: RationalProblem) -> None:
    exact, part = rational_leximin(problem, work=4.0), 1 - TINY
    lowered = replace(
        exact,
        rounds=tuple(replace(stop, level=stop.level * part) for stop in exact.rounds),
        placement={pair: amount * part for pair, amount in exact.placement.items()},
    )
    assert exact.gap() == 0.0
    assert far(lowered) <= lowered.gap()
    assert lowered.gap() > 0.0 or not any(exact.tasks())


def test_what_is_off_in_one_round_counts_in_the_next() -> None:
    """The second user lives on a thousandth that the first one leaves."""
    one, most = Fraction(1), Fraction(999, 1000)
    problem = RationalProblem(
        ((one, most), (Fraction(0), one)),
        ((one, one),),
        ((0,), (0,)),
        (10**4 * one, one),
        (None, None),
    )
    exact = rational_leximin(problem, work=1.0)
    assert exact.tasks() == [1, Fraction(1, 1000)]
    low, high = 1 - TINY, Fraction(1, 1000) + most * TINY
    levels = low / 10**4, high
    shifted = replace(
        exact,
        rounds=tuple(
            replace(stop, level=level) for stop, level in zip(exact.rounds, levels, strict=True)
        ),
        placement={(0, 0): low, (1, 0): high},
    )
    assert shifted.gap() == pytest.approx(999e-100, rel=1e-6, abs=0)
