"""Leximin by rounds: raise everyone together, freeze those the prices stop, go on."""

from __future__ import annotations

import numpy as np

from drfh.certificate import Certificate, Round
from drfh.entitlement import Entitlement, Rule, by_weight
from drfh.mechanisms.solvers.oracle import Oracle
from drfh.placement import Placement
from drfh.prices import Prices
from drfh.problem import Bools, Floats, Problem

__all__ = ["leximin"]

_NOTHING_LEFT = 1e-12  # of the pool


def leximin(
    problem: Problem, oracle: Oracle, rule: Rule = by_weight
) -> tuple[Placement, Certificate]:
    """Return the leximin allocation of levels, share / entitlement, and its proof.

    Only levels are frozen between rounds, never placements: where the tasks of a frozen user run
    is decided anew each time.

    Parameters
    ----------
    problem
        Cluster and users.
    oracle
        Solver for a round.
    rule
        What a level is.
    """
    entitlement = rule(problem)
    share, rounds = _shares_by_rounds(problem, oracle, entitlement)
    placement = oracle.place(share)
    return placement, Certificate.of(placement, rounds, rule, entitlement)


def _shares_by_rounds(
    problem: Problem, oracle: Oracle, entitlement: Entitlement
) -> tuple[Floats, list[Round]]:
    """Return the share of each user and the rounds, not measured yet; nothing is placed."""
    cap, phase = entitlement.cap, entitlement.phase
    fixed = np.zeros(len(problem.users))
    active = np.ones(len(fixed), dtype=bool)
    rounds: list[Round] = []
    last = 0
    if not cap.all():
        nothing = np.flatnonzero(cap <= 0)
        active[nothing] = False
        rounds.append(Round(nothing, 0.0, None))
    while active.any():
        turn = active
        if phase is not None:
            current = int(phase[active].min())
            turn = active & (phase == current)
            if current > last:
                oracle.new_phase()
                last = current
        rising = np.where(turn, entitlement.share, 0.0)
        cut = oracle.raise_level(fixed, rising, cap)
        if cut.prices is None:
            stopped = turn.copy()
            fixed[stopped] = cap[stopped]
        else:
            share = np.minimum(rising * cut.level, cap)
            if last > 0:  # what the earlier phases leave may be round-off
                share[share < _NOTHING_LEFT] = 0.0
            share[~turn] = fixed[~turn]
            stopped = turn & (
                _stopped(problem, cut.prices, share, turn, oracle.faintest)
                | (cap <= rising * cut.level)
            )
            fixed[stopped] = share[stopped]
        rounds.append(Round(np.flatnonzero(stopped), cut.level, cut.prices))
        active &= ~stopped
    return fixed, rounds


def _stopped(
    problem: Problem, prices: Prices, share: Floats, active: Bools, faintest: float
) -> Bools:
    """Return who pays the prices that stop this round."""
    unit = prices.of_users(problem)
    # At level 0 (nothing is left for a late phase) nobody spends: then a price is enough.
    spent = unit * share if (share[active] > 0).any() else np.where(active, unit, 0.0)
    stopped: Bools = spent > faintest * float(spent.sum())
    if not (stopped & active).any():
        # The certificate will show how good this is; going on is better than stopping here.
        stopped = spent == spent[active].max()
    return stopped
