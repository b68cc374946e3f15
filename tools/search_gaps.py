"""Search for answers that are off by more than the gap that they state.

Run it from the project's root::

    python tools/search_gaps.py                     # all families, a few of each
    python tools/search_gaps.py mixtures --count 50 # fifty of each size

Three families: two zones with nearly equal levels; amounts from 10⁻¹² to 10¹²; mixtures of zero
demands, servers that lack a resource, restrictions and finite tasks. Small problems are compared
with leximin in rational arithmetic, which shares no code with the package. Wide numbers that are
too many for that, and mixtures that need more digits than a double has, were solved by exact or
nearly exact arithmetic of the package's own, and their proof is checked in fractions. Of the
others some users are asked for one by one, by a linear program of scipy: how far could this one
rise if nobody fell below it, or had less and was below it before? That
is the definition, and it needs no rounds.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linprog

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.instances import RESOURCES, Case, mixture, usable_pairs
from tests.support.rational import leximin

from drfh import Allocation, Cluster, User, allocate, warm
from drfh.allocation.problem import Problem

ASKED = 3  # users asked for one by one
SPARE = 1e-12
MANY_PAIRS = 30_000  # from which on only one is asked for, by the interior-point method
LP_ERROR = 1e-7  # of scipy's answers, where the user has little of what there is
EXACTLY_PROVEN = ("rational", "refined")  # methods whose proof has no round-off
EXACT_ENTRIES = 150  # users × servers × resources up to which plain rational arithmetic ends


def zones(servers: int, users: int, resources: int, delta: float, seed: int) -> Case:
    """Return two zones with the same servers and users, of which one has `delta` more weight."""
    random = np.random.default_rng(seed)
    capacity = np.exp(random.normal(0, 0.7, (servers, resources)))
    demand = np.exp(random.normal(0, 0.7, (users, resources))) * 0.01
    names = RESOURCES[:resources]
    labels = [{"zone": zone} for zone in "ab" for _ in range(servers)]
    cluster = Cluster.from_arrays(np.vstack((capacity, capacity)), names, labels=labels)
    return cluster, [
        User(f"{zone}{i}", dict(zip(names, row, strict=True)), weight=weight,
             servers={"zone": zone})
        for zone, weight in (("a", 1.0), ("b", 1 / (1 + delta)))
        for i, row in enumerate(demand.tolist())
    ]  # fmt: skip


def wide(servers: int, users: int, resources: int, decades: float, seed: int) -> Case:
    """Return amounts of ten to the power of at most `decades`, up and down."""
    random = np.random.default_rng(seed)
    names = RESOURCES[:resources]
    capacity = 10 ** random.uniform(-decades, decades, (servers, resources))
    demand = 10 ** random.uniform(-decades, decades, (users, resources))
    cluster = Cluster.from_arrays(capacity, names)
    return cluster, [
        User(f"u{i}", dict(zip(names, row, strict=True))) for i, row in enumerate(demand.tolist())
    ]


def families(count: int) -> Iterator[tuple[str, str, list[partial[Case]]]]:
    """Yield family, size and the cases of each row of the table."""
    for delta in (1e-3, 1e-4, 1e-5, 1e-6, 1e-7):
        cases = [partial(zones, 60, 20, 3, delta, seed) for seed in range(count)]
        yield "zones", f"120×40, m=3, δ={delta:g}", cases
    for decades in (6, 12):
        for servers, users, resources in ((6, 5, 3), (12, 8, 3), (12, 8, 4)):
            cases = [partial(wide, servers, users, resources, decades, s) for s in range(count)]
            yield "wide", f"{servers}×{users}, m={resources}, 10^±{decades}", cases
    for most, users, resources in ((300, 100, 3), (300, 100, 4), (1000, 200, 3), (1000, 200, 4)):
        cases = []
        for seed in range(count):
            random = np.random.default_rng(seed)
            # Up to 300×100 all sizes occur, beyond that only the largest.
            k, n = (most, users) if most > 300 else (
                int(random.integers(10, most)), int(random.integers(5, users))
            )  # fmt: skip
            cases.append(partial(mixture, k, n, resources, 20, seed))
        yield "mixtures", f"{'' if most > 300 else '≤ '}{most}×{users}, m={resources}", cases


def rational_shares(problem: Problem) -> list[Fraction]:
    """Return the dominant share of each user, by rational arithmetic."""
    usable = [np.flatnonzero(row).tolist() for row in usable_pairs(problem)]
    weight = [Fraction(user.weight) for user in problem.users]
    limit = (problem.limit * problem.task_share).tolist()
    return leximin(
        [[Fraction(x) for x in row] for row in problem.direction.tolist()],
        [[Fraction(x) for x in row] for row in problem.capacity.tolist()],
        usable,
        [None if not np.isfinite(x) else Fraction(x) for x in limit],
        lambda rising: weight,
    )


def highest(problem: Problem, held: NDArray[np.float64], user: int) -> float:
    """Return what part of its share one user can have at most while the others hold theirs."""
    who, where = np.nonzero(usable_pairs(problem) & (held > 0)[:, None])
    capacity, need = problem.capacity, problem.direction[who]
    with np.errstate(divide="ignore", invalid="ignore"):
        each = np.where(need > 0, capacity[where] / need, np.inf)
    each = each.min(axis=1)  # the share that fills a server: the columns' unit
    columns = np.arange(len(who))
    resources = capacity.shape[1]
    load = need * each[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        load = np.where(capacity[where] > 0, load / capacity[where], 0.0)
    full = sparse.csr_matrix(
        (load.ravel(),
         ((where[:, None] * resources + np.arange(resources)).ravel(),
          np.repeat(columns, resources))),
        shape=(capacity.size, len(who)),
    )  # fmt: skip
    scale = np.where(held > 0, held, 1.0)
    keep = sparse.csr_matrix((-each / scale[who], (who, columns)), shape=(len(held), len(who)))
    others = np.flatnonzero((held > 0) & (np.arange(len(held)) != user))
    answer = linprog(
        np.where(who == user, -each / held[user], 0.0),
        sparse.vstack((full, keep[others])),
        np.concatenate((np.ones(capacity.size), -np.ones(len(others)))),
        method="highs" if len(who) <= MANY_PAIRS else "highs-ipm",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if answer.status != 0:
        raise ArithmeticError(answer.message)
    return -float(answer.fun)


def off_by(cluster: Cluster, users: list[User], allocation: Allocation) -> tuple[float, float]:
    """Return how far an answer is off at most, of the users looked at, and the check's error."""
    problem = Problem.build(cluster, users)
    share = np.array([allocation.tasks[user.name] for user in users]) * problem.task_share
    if problem.demand.size * len(problem.blocks) <= EXACT_ENTRIES:
        right = np.array([float(x) for x in rational_shares(problem)])
        return float(np.max(np.abs(share - right) / np.maximum(right, 1e-300))), 1e-13
    if allocation.method in EXACTLY_PROVEN:
        return (0.0 if allocation.verify() else math.inf), 0.0
    weight = np.array([user.weight for user in users])
    level = share / weight
    rising = (share > 0) & (share < problem.limit * problem.task_share * (1 - 1e-9))
    order = np.flatnonzero(rising)[np.argsort(level[rising])]
    worst = 0.0
    asked = ASKED if len(users) * len(problem.blocks) <= MANY_PAIRS else 1
    for user in order[np.linspace(len(order) - 1, 0, min(asked, len(order))).astype(int)]:
        # A little less for all but this one: the program must have an answer despite round-off.
        held = np.minimum(share, level[user] * weight) * (1 - SPARE)
        held[user] = share[user]
        worst = max(worst, highest(problem, held, int(user)) - 1.0)
    return worst, LP_ERROR


@dataclass
class Row:
    """Counts of one family and size."""

    drawn: int = 0
    closed: int = 0
    wrong: int = 0
    slowest: float = 0.0
    gaps: list[float] = field(default_factory=list)


def main() -> int:
    """Search, print a line for each size; fail if an answer is off by more than its gap."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("families", nargs="*", metavar="FAMILY", help="zones, wide, mixtures; all")
    parser.add_argument("--count", type=int, default=5, help="cases of each size (5)")
    options = parser.parse_args()
    warm()
    wrong = 0
    for family, size, cases in families(options.count):
        if options.families and family not in options.families:
            continue
        row = Row()
        for case in cases:
            cluster, users = case()
            started = time.process_time()
            allocation = allocate(cluster, users)
            row.slowest = max(row.slowest, time.process_time() - started)
            assert allocation.certificate is not None
            row.drawn += 1
            if not allocation.certificate.closed:
                row.gaps.append(allocation.certificate.gap)
                continue
            row.closed += 1
            off, error = off_by(cluster, users, allocation)
            row.wrong += off > allocation.certificate.gap + error
        wrong += row.wrong
        left = f"  open: {', '.join(f'{gap:.0e}' for gap in sorted(row.gaps))}" if row.gaps else ""
        print(
            f"{family:9} {size:24} {row.closed:4} of {row.drawn} closed, {row.wrong} off by more "
            f"than the gap, slowest {row.slowest:.1f} CPU s{left}",
            flush=True,
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
