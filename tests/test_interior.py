"""The interior-point solver: agreement with HiGHS, honest bounds, and equal kernels."""

from __future__ import annotations

from typing import Any

import highspy
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drfh.kernels import compiled
from drfh.kernels.schur import price_servers, subtract_outer
from drfh.mechanisms.solvers import coarse
from drfh.mechanisms.solvers import columns as generation
from drfh.mechanisms.solvers.columns import RadialSolution, solve_radial

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


def hard(n: int, k: int, m: int, seed: int = 0) -> tuple[Floats, Floats]:
    """Demands and capacities of the family on which few pairs suit each other."""
    draw = np.random.default_rng(seed)
    d = np.exp(draw.normal(0, 0.3, (n, m)))
    c = np.exp(draw.normal(0, 1, (k, m)))
    return d / d.max(axis=1, keepdims=True), c / c.sum(axis=0)


def odd(seed: int) -> tuple[Floats, Floats, Floats, Flags | None]:
    """A small problem with, at times, zeros, ties, restrictions and very uneven shares."""
    draw = np.random.default_rng(seed)
    n, k, m = (int(draw.integers(1, top)) for top in (16, 16, 6))
    d = np.exp(draw.normal(0, draw.choice([0.3, 1.0]), (n, m)))
    if seed % 2:
        d[draw.random(d.shape) < 0.4] = 0
    if seed % 5 == 0:
        d = np.round(2 * d) / 2
    d[np.arange(n), draw.integers(0, m, n)] += 0.1
    c = np.exp(draw.normal(0, draw.choice([0.1, 1.0, 2.0]), (k, m)))
    if seed % 3 == 0:
        c[draw.random(c.shape) < 0.3] = 0
    if seed % 7 == 0:
        c = c[draw.integers(0, k, k)]
    c[0] = 1.0
    a = 10 ** draw.uniform(-3, 3, n) if seed % 4 == 1 else np.ones(n)
    allowed = None
    if seed % 3 == 1:
        allowed = draw.random((n, k)) < 0.4
        allowed[:, 0] = True
    return d / d.max(axis=1, keepdims=True), c / c.sum(axis=0), a, allowed


def usable_pairs(d: Floats, c: Floats, allowed: Flags | None) -> Flags:
    lacking = ((d[:, None, :] > 0) & (c[None, :, :] <= 0)).any(axis=2)
    return np.asarray(~lacking if allowed is None else allowed & ~lacking)


def recheck(
    d: Floats, c: Floats, a: Floats, allowed: Flags | None, solution: RadialSolution
) -> float:
    """Recompute both bounds from the placement and the prices alone; return the gap."""
    (n, m), k = d.shape, c.shape[0]
    usable = usable_pairs(d, c, allowed)
    user, server, share = solution.user, solution.server, solution.share
    assert usable[user, server].all()
    assert (share >= 0).all()
    assert (solution.prices >= 0).all()
    for r in range(m):
        load = np.bincount(server, share * d[user, r], minlength=k)
        assert (load <= c[:, r] * (1 + 1e-13)).all()
    theta = float((np.bincount(user, share, minlength=n) / a).min())
    cheapest = np.where(usable, d @ solution.prices.T, np.inf).min(axis=1)
    bound = float((solution.prices * c).sum() / (a @ cheapest))
    assert solution.theta == pytest.approx(theta, rel=1e-12)
    assert solution.bound == pytest.approx(bound, rel=1e-12)
    assert solution.mu == pytest.approx(cheapest, rel=1e-9, abs=1e-12 * cheapest.max())
    assert float(a @ solution.mu) == pytest.approx(1.0)
    return float((bound - theta) / bound)


def by_highs(d: Floats, c: Floats, a: Floats, usable: Flags) -> float:
    """The same program, by HiGHS."""
    (n, m), k = d.shape, c.shape[0]
    model: Any = highspy.Highs()  # type: ignore[no-untyped-call, unused-ignore]
    model.setOptionValue("output_flag", False)
    for tolerance in ("primal_feasibility_tolerance", "dual_feasibility_tolerance"):
        model.setOptionValue(tolerance, 1e-10)
    for capacity in c.ravel():
        model.addRow(-highspy.kHighsInf, float(capacity) * k, 0, [], [])
    for _ in range(n):
        model.addRow(0.0, 0.0, 0, [], [])
    rows = np.arange(n, dtype=np.int32) + k * m
    model.addCol(-1.0, 0.0, highspy.kHighsInf, n, rows, -a / a.mean())
    for i, server in np.argwhere(usable):
        rows = np.append(np.arange(m) + server * m, k * m + i).astype(np.int32)
        model.addCol(0.0, 0.0, highspy.kHighsInf, m + 1, rows, np.append(d[i], 1.0))
    model.run()
    value = float(model.getInfo().objective_function_value)
    return float(-value / k / a.mean())


@pytest.mark.parametrize("seed", range(40))
def test_agrees_with_highs_and_proves_it(seed: int) -> None:
    d, c, a, allowed = odd(seed)
    gaps: list[float] = []
    solution = solve_radial(d, c, a, allowed, progress=gaps.append)
    assert recheck(d, c, a, allowed, solution) <= 1e-9
    assert solution.gap <= 1e-9
    assert gaps
    optimum = by_highs(d, c, a, usable_pairs(d, c, allowed))
    assert solution.theta <= optimum * (1 + 1e-8)
    assert solution.bound >= optimum * (1 - 1e-8)


def test_hard_family() -> None:
    for n, k, m in ((50, 300, 3), (60, 400, 4)):
        d, c = hard(n, k, m)
        solution = solve_radial(d, c, np.ones(n))
        assert recheck(d, c, np.ones(n), None, solution) <= 1e-9
        assert solution.share.size < n * k / 2  # what nobody needs is left out


@pytest.mark.parametrize("kind", ["free", "restricted", "uneven", "zeros"])
def test_chosen_columns_agree_with_all(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    n, k, m = 40, 500, 3
    d, c = hard(n, k, m, seed=3)
    draw = np.random.default_rng(4)
    a = 10 ** draw.uniform(-2, 2, n) if kind == "uneven" else np.ones(n)
    allowed = None
    if kind == "restricted":
        zone = draw.integers(0, 4, k)
        allowed = (zone == draw.integers(1, 4, (n, 1))) | (zone == 0)
    if kind == "zeros":
        d[draw.random(d.shape) < 0.2] = 0
        d[np.arange(n), draw.integers(0, m, n)] = 1.0
        c[1:][draw.random((k - 1, m)) < 0.2] = 0
    whole = solve_radial(d, c, a, allowed)
    monkeypatch.setattr(generation, "WHOLE", 3000)
    monkeypatch.setattr(coarse, "CLUSTERS", 25)
    monkeypatch.setattr(generation, "CLUSTERS", 25)
    monkeypatch.setattr(generation, "AFFORDABLE", 0)
    chosen = solve_radial(d, c, a, allowed)
    assert recheck(d, c, a, allowed, chosen) <= 1e-9
    assert chosen.theta == pytest.approx(whole.theta, rel=2e-9)
    again = solve_radial(d, c, a, allowed)
    assert np.array_equal(again.share, chosen.share)  # nothing is left to chance


def test_warm_start_takes_fewer_iterations() -> None:
    d, c = hard(50, 200, 3, seed=1)
    first = solve_radial(d, c, np.ones(50))
    a = np.exp(np.random.default_rng(2).normal(0, 0.02, 50))
    warm = solve_radial(d, c, a, start=first.state)
    cold = solve_radial(d, c, a)
    assert recheck(d, c, a, None, warm) <= 1e-9
    assert warm.theta == pytest.approx(cold.theta, rel=2e-9)
    assert warm.iterations < cold.iterations


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 6), st.integers(1, 4), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_kernels_equal_their_compiled_twins(n: int, k: int, m: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    pair = draw.random((k, n)) < 0.7
    start = np.concatenate(([0], np.cumsum(pair.sum(axis=1)))).astype(np.int64)
    user = np.nonzero(pair)[1].astype(np.int64)
    factor = draw.normal(size=(user.size, m))
    plain = np.diag(draw.random(n))
    fast = plain.copy()
    subtract_outer(start, user, factor, plain)
    compiled(subtract_outer)(start, user, factor, fast)
    assert np.array_equal(plain, fast)

    d = np.round(draw.random((n, m)), 1)
    c = np.round(draw.random((k, m)), 1)
    mu = np.where(pair, draw.random((k, n)), -1.0)
    plain, fast = np.empty((k, m)), np.empty((k, m))
    price_servers(d, c, mu, 20, plain)
    compiled(price_servers)(d, c, mu, 20, fast)
    assert np.array_equal(plain, fast)
