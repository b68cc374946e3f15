"""Leximin by rounds in rational arithmetic, as the definition says it: slow and plain.

Nothing of the package is used. A round is a linear program; an item (a user, or a kind of tasks)
is stuck if the program that raises it alone, all others held, raises it by nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

Row = list[Fraction]
Rates = Callable[[frozenset[int]], Sequence[Fraction]]


def maximise(cost: Row, rows: list[Row], right: Row) -> tuple[Fraction, Row]:
    """Return the largest cost · x with rows · x <= right, x >= 0, and x (two phases, Bland)."""
    n, m = len(cost), len(rows)
    one, zero = Fraction(1), Fraction(0)
    # Columns: x, slacks, and one artificial variable that makes every right side reachable.
    table = [
        [*row, *(one if i == j else zero for j in range(m)), -one, b]
        for i, (row, b) in enumerate(zip(rows, right, strict=True))
    ]
    basis = list(range(n, n + m))

    def pivot(r: int, c: int) -> None:
        factor = table[r][c]
        table[r] = [v / factor for v in table[r]]
        for i in range(m):
            if i != r and table[i][c]:
                times = table[i][c]
                table[i] = [v - times * w for v, w in zip(table[i], table[r], strict=True)]
        basis[r] = c

    def run(objective: Row, columns: int) -> None:
        while True:
            for c in range(columns):
                if c in basis:
                    continue
                gain = objective[c] - sum(
                    (objective[b] * table[i][c] for i, b in enumerate(basis)), zero
                )
                if gain > 0:
                    break
            else:
                return
            ratios = [
                (table[i][-1] / table[i][c], basis[i], i) for i in range(m) if table[i][c] > 0
            ]
            if not ratios:
                raise ArithmeticError("unbounded")
            pivot(min(ratios)[2], c)

    artificial = n + m
    if any(b < 0 for b in right):
        pivot(min(range(m), key=lambda i: right[i]), artificial)
        run([zero] * artificial + [-one], artificial + 1)
        if artificial in basis:
            r = basis.index(artificial)
            if table[r][-1] != 0:
                raise ArithmeticError("infeasible")
            pivot(r, next(c for c in range(artificial) if table[r][c]))
    run([*cost, *([zero] * m), zero], artificial)
    x = [zero] * n
    for i, b in enumerate(basis):
        if b < n:
            x[b] = table[i][-1]
    return sum((c * v for c, v in zip(cost, x, strict=True)), zero), x


def leximin(
    demand: Sequence[Sequence[Fraction]],
    capacity: Sequence[Sequence[Fraction]],
    usable: Sequence[Sequence[int]],
    cap: Sequence[Fraction | None],
    rates: Rates,
) -> list[Fraction]:
    """Return the tasks of each item.

    Parameters
    ----------
    demand, capacity
        Items × resources, and servers × resources.
    usable
        The servers of each item.
    cap
        The most tasks of each item; None for no end.
    rates
        Tasks of each item a unit of level, given who rises.
    """
    zero = Fraction(0)
    items, servers = range(len(demand)), range(len(capacity))
    resources = range(len(capacity[0]))
    pairs = [(i, s) for i in items for s in usable[i]]

    def rise(have: list[Fraction], speed: Sequence[Fraction]) -> Fraction:
        """Return the largest t such that everyone has at least have + t * speed, within caps."""
        rows: list[Row] = []
        right: Row = []
        for s in servers:
            for r in resources:
                rows.append([demand[i][r] if t == s else zero for i, t in pairs] + [zero])
                right.append(capacity[s][r])
        for i in items:
            rows.append([-Fraction(j == i) for j, _ in pairs] + [speed[i]])
            right.append(-have[i])
            most = cap[i]
            if speed[i] and most is not None:
                rows.append([zero] * len(pairs) + [speed[i]])
                right.append(most - have[i])
        return maximise([zero] * len(pairs) + [Fraction(1)], rows, right)[0]

    have = [zero] * len(items)
    rising = {i for i in items if usable[i] and cap[i] != 0}
    while rising:
        speed = rates(frozenset(rising))
        step = rise(have, [speed[i] if i in rising else zero for i in items])
        have = [have[i] + (step * speed[i] if i in rising else zero) for i in items]
        for i in sorted(rising):
            alone = [Fraction(j == i) for j in items]
            if have[i] == cap[i] or rise(have, alone) == 0:
                rising.discard(i)
    return have
