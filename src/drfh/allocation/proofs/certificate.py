"""Certificate of a leximin allocation: prices for each round, and their check.

A price vector p for every server bounds what users can have together: whatever they are given,
the tasks of user i cost at least mu_i = min over its servers of p·d_i a unit, and all servers
together are worth P = Σ p·c. So Σ_i mu_i·share_i ≤ P for *every* allocation. If the shares
that were given out use up P, nobody with mu_i > 0 can have more without somebody at or below
its level having less. That is one round of the leximin order; the next round says the same for
those that are left, with the earlier ones held.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np

from drfh.allocation.placement import Placement
from drfh.allocation.problem import (
    Bools,
    Entitlement,
    Floats,
    Ints,
    Problem,
    Promise,
    Rule,
    by_mix,
    by_weight,
    water_level,
)
from drfh.formatting import format_count
from drfh.model.resources import TOLERANCE

if TYPE_CHECKING:
    from drfh.allocation.proofs.rational import RationalProof

__all__ = [
    "Certificate",
    "Check",
    "KinkedPrices",
    "Prices",
    "Proof",
    "ResourcePrices",
    "Round",
    "TablePrices",
    "Verification",
    "placement_checks",
]


_CHUNK = 4_000_000  # numbers in one temporary array
_FIRM = 1e-9


class Prices(Protocol):
    """Prices ≥ 0 of resources on blocks of servers, per share."""

    #: Whether 0 means 0: a closed form has no small number that stands for it, a solver has.
    sharp: ClassVar[bool]

    def value(self, problem: Problem) -> float:
        """Return the worth of all capacity."""

    def of_users(self, problem: Problem) -> Floats:
        """Return the least price of one unit of share, for each user."""

    def of_blocks(self, problem: Problem) -> Floats:
        """Return the prices as a table, blocks × resources."""


@dataclass(frozen=True, slots=True)
class ResourcePrices:
    """One resource is worth 1 on every server, the others nothing."""

    sharp: ClassVar[bool] = True

    resource: int

    def value(self, problem: Problem) -> float:
        """Return the worth of all capacity."""
        return float(problem.capacity[:, self.resource].sum())

    def of_users(self, problem: Problem) -> Floats:
        """Return the price of one unit of share, for each user."""
        return problem.direction[:, self.resource]

    def of_blocks(self, problem: Problem) -> Floats:
        """Return the prices as a table, blocks × resources."""
        table = np.zeros((len(problem.blocks), problem.demand.shape[1]))
        table[:, self.resource] = 1.0
        return table


@dataclass(frozen=True, slots=True)
class KinkedPrices:
    """Two resources: the price function min(slope·x_first, x_second)."""

    sharp: ClassVar[bool] = True

    slope: float
    first: int
    second: int

    def _of(self, rows: Floats) -> Floats:
        return np.minimum(self.slope * rows[:, self.first], rows[:, self.second])

    def value(self, problem: Problem) -> float:
        """Return the worth of all capacity."""
        return float(self._of(problem.capacity).sum())

    def of_users(self, problem: Problem) -> Floats:
        """Return the price of one unit of share, for each user."""
        return self._of(problem.direction)

    def of_blocks(self, problem: Problem) -> Floats:
        """Return the prices as a table, blocks × resources."""
        capacity = problem.capacity
        by_first = self.slope * capacity[:, self.first] <= capacity[:, self.second]
        table = np.zeros_like(capacity)
        table[by_first, self.first] = self.slope
        table[~by_first, self.second] = 1.0
        return table


@dataclass(frozen=True, slots=True, eq=False)
class TablePrices:
    """A price vector for each class of servers."""

    sharp: ClassVar[bool] = False

    table: Floats
    class_of_block: Ints

    def value(self, problem: Problem) -> float:
        """Return the worth of all capacity."""
        return float(np.einsum("br,br->", problem.capacity, self.table[self.class_of_block]))

    def of_users(self, problem: Problem) -> Floats:
        """Return the least price of one unit of share, for each user."""
        rows, blocks = self._distinct(problem)
        n = len(problem.users)
        cheapest = np.empty(n)
        usable = problem.usable_on(blocks)
        step = max(1, _CHUNK // len(blocks))
        for start in range(0, n, step):
            part = slice(start, start + step)
            cost = problem.direction[part] @ rows.T
            if usable is not None:
                cost[~usable[part]] = np.inf
            cheapest[part] = cost.min(axis=1)
        # A user that can use no server pays nothing for nothing.
        cheapest[np.isinf(cheapest)] = 0.0
        return cheapest

    def firm(self, paid: float) -> TablePrices:
        """Return the prices without those below a solver's precision at `paid`."""
        return TablePrices(self.table * (self.table >= _FIRM * paid), self.class_of_block)

    def _distinct(self, problem: Problem) -> tuple[Floats, Ints]:
        """Return price rows and example blocks: a row a class, if its blocks are all alike."""
        classes, first, member = np.unique(
            self.class_of_block, return_index=True, return_inverse=True
        )
        example = first[member]
        alike = problem.eligible is None or bool(
            (problem.eligible == problem.eligible[:, example]).all()
        )
        if alike and problem.lacks is not None:
            alike = bool((problem.lacks == problem.lacks[example]).all())
        if alike:
            return self.table[classes], first
        return self.table[self.class_of_block], np.arange(len(self.class_of_block))

    def of_blocks(self, problem: Problem) -> Floats:
        """Return the prices as a table, blocks × resources."""
        table: Floats = self.table[self.class_of_block]
        return table


_ROUND_OFF = 1e-15  # part of a sum of many products
_ALL = 1e-12  # part of all tasks that may be lacking by round-off
_PAST = 1e-7  # relative rise that is no round-off


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """One round of the leximin order.

    Attributes
    ----------
    users : int array
        Who stops in this round, by position. They stop at `level`, or at their last task.
    level : float
        The common level (share / weight) of those that have tasks left.
    prices : Prices or None
        Why nobody of them can have more; None if all of them have all their tasks.
    bound : float
        Upper bound of `level` by the prices, given what stopped earlier.
    gap : float
        1 − level / bound.
    """

    users: Ints
    level: float
    prices: Prices | None
    bound: float = math.inf
    gap: float = 0.0


@dataclass(frozen=True, slots=True)
class Check:
    """One check: what, its error, and the limit of it."""

    name: str
    worst: float
    limit: float

    @property
    def ok(self) -> bool:
        """Whether it is within its limit."""
        return bool(self.worst <= self.limit)


@dataclass(frozen=True, slots=True)
class Verification:
    """What `verify` found; true if every check is within its limit."""

    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Whether every check is within its limit."""
        return all(check.ok for check in self.checks)

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        return "\n".join(
            f"{'ok  ' if c.ok else 'FAIL'} {c.name}: {c.worst:.2e} (limit {c.limit:.0e})"
            for c in self.checks
        )


class Proof(Protocol):
    """What every certificate can do, whatever it proves.

    Attributes
    ----------
    gap
        How far, relatively, the answer may be from what it should be.
    tolerance
        The gap that it should reach.
    what
        What is proven, in a few words.
    """

    @property
    def gap(self) -> float: ...  # noqa: D102
    @property
    def tolerance(self) -> float: ...  # noqa: D102
    @property
    def what(self) -> str: ...  # noqa: D102
    @property
    def closed(self) -> bool:
        """Whether the gap is within the tolerance."""

    def verify(self) -> Verification:
        """Check placement and proof from scratch, without a solver."""


def proof_text(proof: Proof) -> str:
    """Return what is proven, or that it is not and by how much.

    Examples
    --------
    >>> from drfh import allocate, load_scenario
    >>> proof = allocate(load_scenario("paper-two-servers")).certificate
    >>> proof_text(proof)
    'proven optimal'
    >>> from dataclasses import replace
    >>> proof_text(replace(proof, gap=0.002))
    'NOT proven optimal: relative gap 2.0e-03 is above 1e-09'
    """
    if proof.closed:
        return f"proven {proof.what}"
    return f"NOT proven {proof.what}: relative gap {proof.gap:.1e} is above {proof.tolerance:.0e}"


@dataclass(frozen=True, eq=False)
class Certificate:
    """Prices for each round and the gap that they leave.

    Attributes
    ----------
    rounds : tuple of Round
        In the order of rising levels.
    gap : float
        How far, relatively, any single user may be from its exact level or from its last task.
    tolerance : float
        The gap that this problem should reach: 1e-9 for two resources, 1e-8 otherwise.
    rule : callable
        What a level is, see :mod:`drfh.allocation.problem`.
    exact : RationalProof or None
        The proof in rational arithmetic; then `gap` is the distance from the exact numbers.
    """

    placement: Placement
    rounds: tuple[Round, ...]
    gap: float
    tolerance: float
    rule: Rule = by_weight
    exact: RationalProof | None = None

    @classmethod
    def of(
        cls,
        placement: Placement,
        rounds: list[Round],
        rule: Rule = by_weight,
        entitlement: Entitlement | None = None,
    ) -> Certificate:
        """Measure the rounds against a placement.

        Parameters
        ----------
        placement
            What was given out.
        rounds
            Who stopped when, and the prices that say why.
        rule
            What a level is.
        entitlement
            What the rule says here, if that is known already.
        """
        problem = placement.problem
        measured, gap = _measured(placement, rounds, rule, entitlement or rule(problem))
        needed = np.count_nonzero(problem.demand.any(axis=0))
        tolerance = TOLERANCE if needed <= 2 else 10 * TOLERANCE
        return cls(placement, tuple(measured), gap, tolerance, rule)

    @classmethod
    def rational(
        cls, placement: Placement, proof: RationalProof, rule: Rule = by_weight
    ) -> Certificate:
        """Return the certificate of a placement whose exact numbers are proven.

        Parameters
        ----------
        placement
            What was given out.
        proof
            The exact allocation.
        rule
            What a level is.
        """
        problem = placement.problem
        rounds = []
        for stop in proof.rounds:
            level, prices = float(stop.level), None
            if stop.prices is not None:
                largest = max(stop.prices.values())
                table = np.zeros((len(problem.blocks), problem.demand.shape[1]))
                for (block, resource), price in stop.prices.items():
                    table[block, resource] = float(price / largest)
                totals = problem.cluster.totals
                table *= totals / totals.max()
                prices = TablePrices(table, np.arange(len(problem.blocks)))
            rounds.append(Round(np.array(stop.users), level, prices, level, 0.0))
        gap = _rational_gap(placement, proof)
        return cls(placement, tuple(rounds), gap, 10 * TOLERANCE, rule, proof)

    @property
    def what(self) -> str:
        """What is proven."""
        return "optimal placement of the promise" if isinstance(self.rule, Promise) else "optimal"

    def __repr__(self) -> str:
        rounds = format_count(len(self.rounds), "round")
        return f"Certificate({rounds}, gap {self.gap:.1e}, {proof_text(self)})"

    @property
    def closed(self) -> bool:
        """Whether the gap is within the tolerance."""
        return self.gap <= self.tolerance

    def round_of(self, user: int) -> int:
        """Return the number of the round in which a user stopped."""
        return next(k for k, r in enumerate(self.rounds) if user in r.users)

    def mix_levels(self) -> Floats:
        """Return the level of each user with kinds: that at which the last of them stopped."""
        problem = self.placement.problem
        cap = problem.share_limit
        assert problem.mixes is not None
        levels = np.zeros(len(problem.mixes.users))
        share, active, last = np.zeros(len(cap)), cap > 0, 0.0
        for r in self.rounds:
            path, step = problem.path(active, share), max(0.0, r.level - last)
            rises = np.zeros(len(levels), dtype=bool)
            rises[problem.mixes.owner[active]] = True
            levels += np.where(rises, np.minimum(step, path.ends), 0.0)
            share = np.where(active, np.minimum(path.at(step) * problem.task_share, cap), share)
            share = np.where(share >= cap * (1 - _ALL), cap, share)
            active[r.users], last = False, max(last, r.level)
        return levels

    def verify(self) -> Verification:
        """Check placement and prices from scratch, without a solver.

        Every server is summed up in user order; every user's least price is taken over all
        servers it can use; every round's bound is computed anew.

        Examples
        --------
        >>> import drfh
        >>> cluster = drfh.Cluster([drfh.Server({"cpu": 9, "memory": 18})])
        >>> user = drfh.User("a", {"cpu": 1, "memory": 4})
        >>> bool(drfh.allocate(cluster, [user]).certificate.verify())
        True
        """
        placement, problem = self.placement, self.placement.problem
        entitlement = self.rule(problem)
        tables = [r.prices.of_blocks(problem) for r in self.rounds if r.prices is not None]
        unsound = sum(int((~(np.isfinite(t) & (t >= 0))).sum()) for t in [placement.tasks, *tables])
        stopped = np.zeros(len(problem.users), dtype=np.int64)
        for r in self.rounds:
            stopped[r.users] += 1
        if self.exact is None:
            _, gap = _measured(placement, list(self.rounds), self.rule, entitlement)
        else:
            mixed = self.rule is by_mix
            same = self.exact.problem == type(self.exact.problem).of(
                problem, entitlement, mixed=mixed
            )
            gap = _rational_gap(placement, self.exact) if same else math.inf
        checks = (
            *placement_checks(placement, entitlement.cap),
            Check("negative or infinite task or price", float(unsound), 0.0),
            Check("user without a proof", float((stopped != 1).sum()), 0.0),
            Check("relative gap", gap, self.tolerance),
        )
        return Verification(checks)


def _rational_gap(placement: Placement, proof: RationalProof) -> float:
    """Return how far any user of a placement may be from the tasks that a proof is about."""
    return proof.error(placement.user_tasks) + proof.gap()


def placement_checks(placement: Placement, cap: Floats | None = None) -> tuple[Check, ...]:
    """Check a placement from scratch: every server, every restriction, every number of tasks.

    Parameters
    ----------
    placement
        Who runs where.
    cap
        The most share of each user; by default what its tasks come to.
    """
    problem = placement.problem
    blocks = np.arange(len(problem.blocks))
    parts = np.array_split(blocks, 1 + placement.expanded // _CHUNK)
    overload = max(placement.overload(part) for part in parts)
    misplaced = sum(placement.misplaced(part) for part in parts)
    share = placement.user_tasks * problem.task_share
    cap = problem.share_limit if cap is None else cap
    with np.errstate(invalid="ignore", divide="ignore"):
        above = np.where(np.isfinite(cap), share / cap - 1, -1.0)
        above[cap == 0] = np.where(share[cap == 0] > 0, np.inf, 0.0)
    return (
        Check("server over capacity", overload, 0.0),
        Check("task where it may not run", float(misplaced), 0.0),
        Check("task on no server", placement.lost(), 1e-12),
        Check("more tasks than a user has", max(float(above.max()), 0.0), 1e-12),
    )


def _measure(
    placement: Placement, rounds: list[Round], scale: Entitlement
) -> tuple[list[Round], float]:
    """Return the rounds with bound and gap, and the largest gap or shortfall below a cap."""
    problem = placement.problem
    entitlement, cap = scale.share, scale.cap
    share = placement.user_tasks * problem.task_share
    active = np.ones(len(share), dtype=bool)
    measured: list[Round] = []
    worst = 0.0
    for r in rounds:
        bound, gap = math.inf, 0.0
        # Who waits for a later phase may be left with nothing in this one.
        turn = active if scale.phase is None else _in_phase(active, scale.phase)
        satisfied = np.ones(len(r.users), dtype=bool)
        if r.prices is not None:
            unit, value = r.prices.of_users(problem), r.prices.value(problem)
            held = float(unit[~active] @ share[~active]) if len(measured) else 0.0
            rising = entitlement if turn.all() else np.where(turn, entitlement, 0.0)
            bound = water_level(unit, rising, cap, value - held)
            full = cap <= entitlement * bound  # has all its tasks at this level
            # What the earlier phases leave may be next to nothing: compare with all there is.
            late = scale.phase is not None and bool((scale.phase[turn] > 0).any())
            whole = water_level(unit, rising, cap, value) if late else bound
            gap = _gap_of_round(share, entitlement, turn & ~full, bound, whole)
            # A user counts as stopped by the prices only if it pays them.
            satisfied = full[r.users] | ~(unit[r.users] > 0)
            payers = r.users[~satisfied]
            if len(payers) and not r.prices.sharp:
                paid = unit * np.minimum(share, np.where(active, rising * bound, math.inf))
                unspent = max(_ROUND_OFF * value, value - float(paid.sum()))
                slack = unspent / value if late else _slack(paid, unspent, payers)
                gap = max(gap, slack)
            later = turn.copy()
            later[r.users] = False
            if isinstance(r.prices, TablePrices) and later.any():
                firm = r.prices.firm(float(unit[r.users].max()))
                gap = max(gap, _escape(firm, problem, share / entitlement, later, bound))
        if satisfied.any():
            given, limit = share[r.users][satisfied], cap[r.users][satisfied]
            with np.errstate(invalid="ignore", divide="ignore"):
                missing = np.where(limit > 0, 1 - given / limit, 0.0)
            worst = max(worst, float(np.nan_to_num(missing, nan=1.0).max()))
        worst = max(worst, gap)
        measured.append(Round(r.users, r.level, r.prices, bound, gap))
        active[r.users] = False
    return measured, worst


def _measured(
    placement: Placement, rounds: list[Round], rule: Rule, scale: Entitlement
) -> tuple[list[Round], float]:
    """Return the rounds with bound and gap, and the largest gap or shortfall."""
    if rule is by_mix:
        return _measure_mixes(placement, rounds, scale.cap)
    return _measure(placement, rounds, scale)


def _measure_mixes(
    placement: Placement, rounds: list[Round], cap: Floats
) -> tuple[list[Round], float]:
    """Return the rounds with bound and gap, and the largest gap or shortfall of a kind.

    What each kind has at the end of a round follows from the levels. The prices of a round must
    leave those that stop in it nothing more; the placement must give what the last round says.
    """
    problem = placement.problem
    given = placement.user_tasks * problem.task_share
    share = np.zeros(len(given))
    active = cap > 0
    measured: list[Round] = []
    worst = level = 0.0
    for r in rounds:
        path = problem.path(active, share)
        step = max(0.0, r.level - level)
        bound, gap = math.inf, 0.0
        share = np.where(active, np.minimum(path.at(step) * problem.task_share, cap), share)
        full = active & (share >= cap * (1 - _ALL))
        share = np.where(full, cap, share)
        if r.prices is not None:
            unit, value = r.prices.of_users(problem), r.prices.value(problem)
            bound = level + path.level_for(unit * problem.task_share, value)
            gap = (bound - r.level) / bound if bound > 0 else 0.0
            gap = abs(gap) if gap < -TOLERANCE else max(gap, 0.0)
            paid = unit * share
            unspent = max(_ROUND_OFF * value, value - float(paid.sum()))
            payers = r.users[~full[r.users] & (unit[r.users] > 0)]
            if len(payers) and not r.prices.sharp:
                gap = max(gap, _slack(paid, unspent, payers))
            if (~full[r.users] & ~(unit[r.users] > 0) & active[r.users]).any():
                gap = 1.0  # nothing stops this one
            later = active.copy()
            later[r.users] = False
            if isinstance(r.prices, TablePrices) and later.any():
                past = later & (given > share * (1 + _PAST))
                firm = r.prices.firm(float(unit[r.users].max(initial=0.0)))
                if past.any() and (firm.of_users(problem)[past] > 0).any():
                    gap = 1.0
        elif (active & ~full)[r.users].any():
            gap = 1.0
        measured.append(Round(r.users, r.level, r.prices, bound, gap))
        worst = max(worst, gap)
        level = max(level, r.level)
        active = active.copy()
        active[r.users] = False
    with np.errstate(invalid="ignore", divide="ignore"):
        missing = np.where(share > 0, np.abs(1 - given / share), np.where(given > 0, 1.0, 0.0))
    return measured, max(worst, float(missing.max()))


def _in_phase(active: Bools, phase: Ints) -> Bools:
    """Return who rises: those of the earliest phase that is not over."""
    turn: Bools = active & (phase == phase[active].min(initial=phase.max()))
    return turn


def _gap_of_round(
    share: Floats, entitlement: Floats, raised: Bools, bound: float, whole: float
) -> float:
    """Return how far below the bound the lowest of all users stays that this round raises."""
    if math.isnan(bound):
        return math.inf
    if not raised.any() or bound <= 0:
        return 0.0
    gap = (bound - float((share[raised] / entitlement[raised]).min())) / whole
    # Everybody clearly above a bound that holds for all allocations: that is no allocation.
    return abs(gap) if gap < -TOLERANCE else max(gap, 0.0)


def _escape(
    prices: TablePrices, problem: Problem, level: Floats, later: Bools, bound: float
) -> float:
    """Return 1 if a user rises past prices that it pays, however little it needs; else 0.

    DRFH jumps where a demand becomes 0: a user that needs 1e-12 of what is used up stops with
    the others, and a solver does not see it.
    """
    past = later & (level > bound * (1 + _PAST))
    if not past.any():
        return 0.0
    return float((prices.of_users(problem)[past] > 0).any())


def _slack(paid: Floats, unspent: float, users: Ints) -> float:
    """Return by what part a user could rise, all others held, for what the prices leave unspent."""
    smallest = float(paid[users].min())
    return min(1.0, unspent / smallest) if smallest > 0 else 1.0
