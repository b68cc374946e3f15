"""The interior-point solver: agreement with HiGHS, honest bounds, and equal kernels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import highspy
import numpy as np
import numpy.typing as npt
import pytest
from benchmarks.instances import fleet
from hypothesis import given, settings
from hypothesis import strategies as st

import drfh
from drfh.kernels import compiled
from drfh.kernels.schur import nearest_pairs, price_servers, server_loads, subtract_outer
from drfh.mechanisms.solvers.interior import column_generation as generation
from drfh.mechanisms.solvers.interior import points, rounds
from drfh.mechanisms.solvers.interior.column_generation import RadialSolution, solve_radial
from drfh.mechanisms.solvers.interior.newton import ServersLast, UsersLast
from drfh.mechanisms.solvers.interior.points import (
    Columns,
    Iterate,
    RadialProblem,
    cold_start,
    every_pair,
)
from drfh.mechanisms.solvers.interior.primal_dual import improve

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

RESOURCES = ("cpu", "memory", "gpu")


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


def by_highs(d: Floats, c: Floats, a: Floats, usable: Flags, fixed: Floats | None = None) -> float:
    """The same program, by HiGHS."""
    (n, m), k = d.shape, c.shape[0]
    model: Any = highspy.Highs()  # type: ignore[no-untyped-call, unused-ignore]
    model.setOptionValue("output_flag", False)
    for tolerance in ("primal_feasibility_tolerance", "dual_feasibility_tolerance"):
        model.setOptionValue(tolerance, 1e-10)
    for capacity in c.ravel():
        model.addRow(-highspy.kHighsInf, float(capacity) * k, 0, [], [])
    for part in np.zeros(n) if fixed is None else fixed * k:
        model.addRow(float(part), highspy.kHighsInf, 0, [], [])
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
    users, same_users = np.empty((k, m), dtype=np.int64), np.empty((k, m), dtype=np.int64)
    price_servers(d, c, mu, 20, 1e-9, plain, users)
    compiled(price_servers)(d, c, mu, 20, 1e-9, fast, same_users)
    assert np.array_equal(plain, fast)
    assert np.array_equal(users, same_users)


def test_sums_over_many_columns_are_those_over_few(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(5)
    pairs = np.flatnonzero(draw.random(40 * 7) < 0.4)
    columns = Columns(draw.random((7, 3)), 40, pairs % 7, pairs // 7)
    x, p = draw.random(len(pairs)), draw.random((3, 40))
    load, cost = columns.load(x), columns.cost(p)
    monkeypatch.setattr(points, "MANY", 0)
    assert columns.load(x) == pytest.approx(load, rel=1e-14)
    assert np.array_equal(columns.cost(p), cost)
    plain = np.empty_like(load)
    server_loads(columns.start, columns.demand, x, plain)
    assert np.array_equal(columns.load(x), plain)


def test_the_last_digits_come_from_the_active_set() -> None:
    draw = np.random.default_rng(6)
    d = np.exp(draw.normal(0, 0.7, (30, 3)))
    c = np.exp(draw.normal(0, 0.7, (300, 3)))
    d /= d.max(axis=1, keepdims=True)
    solution = solve_radial(d, c / c.sum(axis=0), np.ones(30), tolerance=1e-12)
    assert solution.gap < 5e-14


def somewhere(
    d: Floats, c: Floats, a: Floats, allowed: Flags | None, seed: int
) -> tuple[Columns, Floats, Floats, Iterate]:
    """All columns of a problem, scaled, and an uneven point on them, part of it fixed."""
    draw = np.random.default_rng(seed)
    n, k = usable_pairs(d, c, allowed).shape
    keys = np.flatnonzero(usable_pairs(d, c, allowed).T)
    columns = Columns(d, k, keys % n, keys // n)
    c, a = np.ascontiguousarray(c.T / c.mean()), a * (k / a.sum())
    fixed = np.where(draw.random(n) < 0.5, draw.random(n), 0.0)
    at = cold_start(columns, c, a, fixed, 1.0, 10.0)
    at.x *= 10 ** draw.uniform(-2, 0, at.x.size)
    at.z *= 10 ** draw.uniform(-2, 0, at.z.size)
    at.s = np.where(c > 0, at.s * 10 ** draw.uniform(-2, 0, at.s.shape), 1.0)
    return columns, c, fixed, at


@pytest.mark.parametrize("seed", range(30))
def test_both_eliminations_take_the_same_step(seed: int) -> None:
    d, c, a, allowed = odd(seed)
    columns, c, fixed, at = somewhere(d, c, a, allowed, seed)
    live, a = c > 0, a * (columns.servers / a.sum())
    draw = np.random.default_rng(seed)
    residual = (
        np.where(live, draw.normal(size=c.shape), 0.0),
        draw.normal(size=a.size),
        0.3,
        draw.normal(size=at.x.size),
        0.1,
    )
    for held in (fixed, np.zeros_like(fixed)):
        steps = [
            system(columns, a, at, live, held).step(
                -at.x * at.z, np.where(live, -at.s * at.p, 0.0), -1.0, residual, refine=2
            )
            for system in (UsersLast, ServersLast)
        ]
        for name in ("x", "s", "theta", "p", "mu", "z", "lack", "calm"):
            one, other = (np.asarray(getattr(step, name)) for step in steps)
            scale = max(1.0, float(np.abs(one).max()))
            assert one == pytest.approx(other, rel=1e-6, abs=1e-8 * scale), name
        step = steps[1]
        given = columns.per_user(step.x) + held * step.lack - a * step.theta
        assert given == pytest.approx(residual[1], abs=1e-8 * max(1.0, np.abs(step.x).max()))
        assert float(a @ step.mu) == pytest.approx(0.3, abs=1e-8)


@pytest.mark.parametrize("kind", ["free", "restricted", "uneven"])
def test_many_users_few_servers(kind: str) -> None:
    n, k, m = 400, 6, 3
    d, c = hard(n, k, m, seed=5)
    draw = np.random.default_rng(6)
    a = 10 ** draw.uniform(-2, 2, n) if kind == "uneven" else np.ones(n)
    allowed = None
    if kind == "restricted":
        allowed = draw.random((n, k)) < 0.3
        allowed[:, 0] = True
    solution = solve_radial(d, c, a, allowed)
    assert recheck(d, c, a, allowed, solution) <= 1e-9
    optimum = by_highs(d, c, a, usable_pairs(d, c, allowed))
    assert solution.theta == pytest.approx(optimum, rel=1e-8)


def test_thousands_of_users() -> None:
    d, c = hard(3000, 8, 3, seed=7)
    solution = solve_radial(d, c, np.ones(3000))
    assert recheck(d, c, np.ones(3000), None, solution) <= 1e-9


@pytest.mark.parametrize("seed", range(24))
def test_fixed_part_agrees_with_highs(seed: int) -> None:
    d, c, a, allowed = odd(seed)
    n, k = len(a), len(c)
    draw = np.random.default_rng(seed)
    # Either those that the prices stop are fixed where they are, the others rise; or anybody.
    first = solve_radial(d, c, a, allowed, tolerance=1e-11)
    still = first.mu * a > 1e-7
    fixed = np.where(still, first.theta * a, 0.0)
    if still.all():
        still = draw.random(n) < 0.6
        still[draw.integers(n)] = False
        fixed = draw.choice([0.3, 0.9]) * first.theta * a * (draw.random(n) < 0.8)
        fixed[still] = 0.9 * first.theta * a[still]
    rising = np.where(still, 0.0, a)
    usable = usable_pairs(d, c, allowed)
    optimum = by_highs(d, c, rising, usable, fixed)
    solution = solve_radial(d, c, rising, allowed, fixed=fixed, guess=optimum)
    load = np.zeros((k, d.shape[1]))
    np.add.at(load, solution.server, solution.share[:, None] * d[solution.user])
    assert (load <= c * (1 + 1e-13)).all()
    given = np.bincount(solution.user, solution.share, minlength=n)
    level, kept = solution.theta, solution.kept
    assert (given >= (kept * fixed + level * rising) * (1 - 1e-12)).all()
    assert kept >= 1 - 1e-9
    cheapest = np.where(usable, d @ solution.prices.T, np.inf).min(axis=1)
    paid = float(rising @ cheapest)
    bound = float((solution.prices * c).sum() - kept * (cheapest @ fixed)) / paid
    assert solution.bound == pytest.approx(bound, rel=1e-9)
    assert solution.gap <= 1e-8
    assert level == pytest.approx(optimum, rel=1e-6)


def test_frozen_users_at_rest_do_not_stop_the_others() -> None:
    # Round-off in prices that only frozen users pay once left the first user with nothing.
    kinds = {"g0": (5, 0, 16), "g1": (1, 11, 7)}
    cluster = drfh.Cluster(
        [
            drfh.Server(dict(zip(RESOURCES, have, strict=True)), name=name, count=2)
            for name, have in kinds.items()
        ]
    )
    need = [(0, 0, 3), (4, 2.5, 8), (2, 1.5, 1), (5, 8, 0.25)]
    demands = [dict(zip(RESOURCES, row, strict=True)) for row in need]
    users = [
        drfh.User("a", demands[0], weight=3, tasks=4),
        drfh.User("b", demands[1], tasks=0.5),
        drfh.User("c", demands[2], weight=2, tasks=0.5),
        drfh.User("d", demands[3], tasks=1, servers=["g1/1"]),
    ]
    allocation = drfh.allocate(cluster, users, method="interior-point")
    assert allocation.certificate is not None
    assert allocation.certificate.closed
    assert list(allocation.tasks.values()) == pytest.approx([4, 0.125, 0.5, 0.1])


@pytest.mark.parametrize("seed", range(12))
def test_rounds_agree_with_simplex(seed: int) -> None:
    draw = np.random.default_rng(seed)
    n, k = 12, 15
    have = draw.lognormal(0, 1, (k, 3))
    have[draw.random(k) < 0.3, 2] = 0
    need = draw.lognormal(-3, 1, (n, 3))
    need[draw.random((n, 3)) < 0.4] = 0
    need[need.max(axis=1) <= 0] = 0.1
    alone = 1 / (need / have.sum(axis=0)).max(axis=1) / n
    cluster = drfh.Cluster(
        [
            drfh.Server(dict(zip(RESOURCES, row, strict=True)), labels={"zone": "abc"[i % 3]})
            for i, row in enumerate(have.tolist())
        ]
    )
    users = [
        drfh.User(
            f"u{i}",
            dict(zip(RESOURCES, row, strict=True)),
            weight=float(draw.choice([0.5, 1, 2])),
            tasks=None if draw.random() < 0.6 else float(draw.integers(1, 3 * int(alone[i]) + 2)),
            servers=None if draw.random() < 0.7 else {"zone": str(draw.choice(list("abc")))},
        )
        for i, row in enumerate(need.tolist())
    ]
    sure = drfh.allocate(cluster, users, method="simplex")
    ours = drfh.allocate(cluster, users, method="interior-point")
    assert ours.certificate is not None
    assert ours.certificate.closed
    assert list(ours.shares.values()) == pytest.approx(list(sure.shares.values()), rel=1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_many_pairs_follow_a_path(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Caps, restrictions and zero demands, solved the way that large problems are."""
    monkeypatch.setattr(rounds, "_SMALL", 0)
    test_rounds_agree_with_simplex(seed)


@pytest.mark.parametrize("seed", range(3))
def test_many_kinds_follow_a_path(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, teams = fleet(6, 100, kinds=3, seed=seed)
    sure = drfh.allocate(cluster, teams, method="simplex")
    monkeypatch.setattr(rounds, "_SMALL", 0)
    ours = drfh.allocate(cluster, teams, method="interior-point")
    assert ours.certificate is not None
    assert ours.certificate.closed
    for team in teams:
        assert ours.kinds[team.name] == pytest.approx(sure.kinds[team.name], rel=1e-6, abs=1e-9)


def test_a_point_too_close_to_the_edge_is_left_as_it_is() -> None:
    d = np.array([[1.0, 0.2], [0.2, 1.0]])
    c, a = np.array([[1.5, 0.5], [0.5, 1.5]]), np.array([0.5, 1.5])
    problem = RadialProblem(d, c, a, None, 1.0, 0.0, None)
    state = every_pair(problem)
    # x / z is beyond all numbers
    edge = replace(state, point=replace(state.point, z=np.full_like(state.point.z, 1e-320)))
    _, found, gap, iterations = improve(problem, edge, 1e-9)
    assert gap > 1e-9
    assert found is edge
    assert iterations == 0


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 6), st.integers(1, 4), st.integers(1, 3), st.integers(0, 2**32 - 1))
def test_pairs_to_join_are_the_first_to_become_too_cheap(n: int, k: int, m: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    play, usable = draw.random((k, n)) < 0.3, draw.random((k, n)) < 0.8
    start = np.concatenate(([0], np.cumsum(play.sum(axis=1)))).astype(np.int64)
    user = np.nonzero(play)[1].astype(np.int64)
    d, p, mu = draw.random((n, m)), 1 + draw.random((k, m)), draw.random(n)
    step_p, step_mu = draw.normal(size=(k, m)), draw.normal(size=n)
    z, move = p @ d.T - mu, step_p @ d.T - step_mu
    with np.errstate(divide="ignore"):
        length = np.where(z > 0, -z / move, 0.0)
    cheaper = usable & ~play & (z + move < 0.2 * z)
    for kernel in (nearest_pairs, compiled(nearest_pairs)):
        found, reach = np.empty((k, 2), dtype=np.int64), np.empty((k, 2))
        kernel(start, user, d, usable, p, mu, step_p, step_mu, 0.2, found, reach)
        for server in range(k):
            expected = np.sort(length[server][cheaper[server]])[:2]
            assert reach[server][: len(expected)] == pytest.approx(expected)
            chosen = found[server][found[server] >= 0]
            assert len(chosen) == len(expected)
            assert cheaper[server, chosen].all()


def zones(n: int, k: int, m: int, seed: int) -> tuple[Floats, Floats, Flags]:
    """Servers of four zones and users that may use some of them."""
    draw = np.random.default_rng(seed)
    d, c = hard(n, k, m, seed)
    zone = draw.integers(0, 4, k)
    allowed = (draw.random((n, 4)) < 0.5)[:, zone]
    allowed[:, zone == 0] = True
    return d, c, allowed


def test_sums_over_runs_of_servers_are_those_over_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    d, _, allowed = zones(9, 80, 3, seed=1)
    usable = allowed.T[points.alike_order(allowed.T)]
    keys = np.flatnonzero(usable)
    plain = Columns(d, 80, keys % 9, keys // 9)
    monkeypatch.setattr(points, "MANY", 0)
    runs = Columns(d, 80, keys % 9, keys // 9)
    assert plain.runs is None
    assert runs.runs is not None
    assert sum(run.servers.stop - run.servers.start for run in runs.runs) == 80
    draw = np.random.default_rng(2)
    x, p, mu = draw.random(len(keys)), draw.random((3, 80)), draw.random(9)
    monkeypatch.setattr(points, "MANY", 10**9)
    for name, values in (("load", x), ("cost", p), ("per_user", x), ("of_users", mu), ("least", x)):
        ours = getattr(plain, name)(values)
        monkeypatch.setattr(points, "MANY", 0)
        assert getattr(runs, name)(values) == pytest.approx(ours, rel=1e-13), name
        monkeypatch.setattr(points, "MANY", 10**9)
    for row, other in zip(runs.moments(x), plain.moments(x), strict=True):
        for one, two in zip(row, other, strict=True):
            assert one == pytest.approx(two, rel=1e-13)


def test_a_coarse_answer_that_is_split_up_ends_at_the_same_level(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    d, c, allowed = zones(30, 300, 3, seed=3)
    whole = solve_radial(d, c, np.ones(30), allowed)
    monkeypatch.setattr(generation, "WHOLE", 0)
    monkeypatch.setattr(generation, "CLUSTERS", 40)
    monkeypatch.setattr(points, "MANY", 0)
    split = solve_radial(d, c, np.ones(30), allowed)
    assert recheck(d, c, np.ones(30), allowed, split) <= 1e-9
    assert split.theta == pytest.approx(whole.theta, rel=2e-9)
