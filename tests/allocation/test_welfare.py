"""Mechanisms that maximise a welfare: their proofs close, and break where they should."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import highspy
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drfh import Allocation, Cluster, InputError, Server, User, allocate
from drfh.allocation.placement import Solution
from drfh.allocation.problem import Floats, Problem
from drfh.allocation.proofs.certificate import TablePrices
from drfh.allocation.proofs.welfare import LowestLevel, PowerWelfare, WelfareProof
from drfh.errors import SolverError
from drfh.mechanisms.bbf import complaints
from drfh.mechanisms.drfh_one_shot import drfh_one_shot
from drfh.mechanisms.fds import fds, fds_objective
from drfh.mechanisms.gfj import gfj, gfj_objective
from drfh.mechanisms.nash import nash
from drfh.mechanisms.pooled import one_server
from drfh.mechanisms.shared.welfare import most_welfare
from drfh.mechanisms.solvers.interior.welfare import Optimum
from drfh.mechanisms.solvers.presolve import Classes
from drfh.mechanisms.utilitarian import utilitarian
from tests.support.strategies import problems

Records = tuple[Cluster, list[User]]

NSDI = Cluster([Server({"cpu": 9, "memory": 18})])
PAIR = [User("a", {"cpu": 1, "memory": 4}), User("b", {"cpu": 3, "memory": 1})]
FIGURE = Cluster([Server({"cpu": 2, "memory": 12}), Server({"cpu": 12, "memory": 2})])


def proof_of(solution: Solution) -> WelfareProof:
    assert isinstance(solution.certificate, WelfareProof)
    return solution.certificate


def tasks_of(records: Records, mechanism: str, **parameters: Any) -> Floats:
    cluster, users = records
    answer: Allocation = allocate(cluster, users, mechanism=mechanism, **parameters)
    assert answer.certificate is not None
    assert answer.certificate.closed, answer.certificate.gap
    return answer.assignment.user_tasks


def closes(solution: Solution) -> None:
    proof = proof_of(solution)
    assert proof.closed, proof.gap
    assert proof.verify(), str(proof.verify())


@given(problems())
@settings(deadline=None, max_examples=60)
def test_nash_is_proven(records: Records) -> None:
    closes(nash(Problem.build(*records)))


@given(problems(), st.sampled_from([0.25, 0.5, 1, 1.5, 2, 3, 5, 8]), st.sampled_from([1, 1.5, 4]))
@settings(deadline=None, max_examples=60)
def test_joe_wong_is_proven(records: Records, beta: float, more: float) -> None:
    problem = Problem.build(*records)
    lam = more * (1 - beta) / beta
    closes(fds(problem, beta=beta, lam=lam))
    closes(gfj(problem, beta=beta, lam=lam))


@given(problems())
@settings(deadline=None, max_examples=60)
def test_utilitarian_is_proven_and_right(records: Records) -> None:
    problem = Problem.build(*records)
    solution = utilitarian(problem)
    closes(solution)
    total = float(solution.placement.user_tasks.sum())
    assert total == pytest.approx(most_tasks(problem), rel=1e-8, abs=1e-12)


@given(problems())
@settings(deadline=None, max_examples=60)
def test_one_shot_is_proven(records: Records) -> None:
    closes(drfh_one_shot(Problem.build(*records)))


@given(problems())
@settings(deadline=None, max_examples=30)
def test_nobody_complains_of_bbf(records: Records) -> None:
    problem = one_server(Problem.build(*records))
    assert not complaints(problem, nash(problem).placement.user_tasks)


def most_tasks(problem: Problem) -> float:
    """Return the most tasks in total: every block and every user a column of its own."""
    model = highspy.Highs()
    model.silent()
    blocks = range(len(problem.blocks))
    capacity = problem.cluster.capacity[problem.blocks.group] * problem.blocks.count[:, None]
    user, block = np.divmod(np.arange(len(problem.users) * len(blocks)), len(blocks))
    can = problem.can_use(user, block)
    scale = np.array([1 / share for share in problem.task_share])  # a share each
    columns = {
        (i, b): model.addVariable(lb=0, ub=highspy.kHighsInf if ok else 0, obj=scale[i])
        for i, b, ok in zip(user.tolist(), block.tolist(), can.tolist(), strict=True)
    }
    for b in blocks:
        for r in np.flatnonzero(capacity[b] > 0).tolist():
            loads = [
                columns[i, b] * float(problem.demand[i, r] * scale[i] / capacity[b, r])
                for i in range(len(problem.users))
                if problem.demand[i, r] > 0
            ]
            if loads:
                model.addConstr(model.qsum(loads) <= 1)
    for i, limit in enumerate(problem.limit.tolist()):
        if np.isfinite(limit):
            model.addConstr(model.qsum([columns[i, b] for b in blocks]) <= limit / scale[i])
    model.changeObjectiveSense(highspy.ObjSense.kMaximize)
    model.run()
    return float(model.getInfo().objective_function_value)


def test_nash_has_known_values() -> None:
    assert tasks_of((NSDI, PAIR), "nash") == pytest.approx([45 / 11, 18 / 11], rel=1e-9)
    heavy = [replace_user(PAIR[0], weight=3), PAIR[1]]
    # Both resources are used up, whatever the weights (unless they are far apart).
    assert tasks_of((NSDI, heavy), "nash") == pytest.approx([45 / 11, 18 / 11], rel=1e-9)
    line = Cluster([Server({"cpu": 12})])
    users = [User("a", {"cpu": 1}, weight=2), User("b", {"cpu": 2}), User("c", {"cpu": 1}, tasks=1)]
    assert tasks_of((line, users), "nash") == pytest.approx([22 / 3, 11 / 6, 1], rel=1e-9)


def replace_user(user: User, **changes: Any) -> User:
    fields = {"weight": user.weight, "tasks": user.tasks, "servers": user.servers, **changes}
    return User(user.name, user.demand, **fields)


def test_weights_are_copies_of_users() -> None:
    users = [User("a", {"cpu": 1, "memory": 2}), User("b", {"cpu": 2, "memory": 1}, weight=2)]
    twins = [users[0], *(User(f"b{i}", {"cpu": 2, "memory": 1}) for i in range(2))]
    for mechanism, beta in (("fds", 3), ("gfj", 3), ("fds", 0.5), ("gfj", 0.5)):
        one = tasks_of((FIGURE, users), mechanism, beta=beta)
        many = tasks_of((FIGURE, twins), mechanism, beta=beta)
        assert [one[0], one[1] / 2] == pytest.approx(many[:2].tolist(), rel=1e-6)


@given(problems(restrictions=False))
@settings(deadline=None, max_examples=30)
def test_beta_one_is_nash(records: Records) -> None:
    expected = tasks_of(records, "nash")
    assert tasks_of(records, "fds", beta=1) == pytest.approx(expected, rel=1e-9)
    assert tasks_of(records, "gfj", beta="1", lam=0) == pytest.approx(expected, rel=1e-5, abs=1e-9)


def test_large_beta_equalises() -> None:
    fair = allocate(FIGURE, PAIR).assignment.user_tasks
    assert tasks_of((FIGURE, PAIR), "fds", beta=20) == pytest.approx(fair, rel=0.1)
    equal = tasks_of((FIGURE, PAIR), "gfj", beta=20)
    assert equal[0] == pytest.approx(equal[1], rel=0.1)
    weighted = [replace_user(PAIR[0], weight=2), PAIR[1]]
    fair = allocate(NSDI, weighted).assignment.user_tasks
    assert tasks_of((NSDI, weighted), "fds", beta=20) == pytest.approx(fair, rel=0.1)


@pytest.mark.parametrize(("beta", "lam"), [(2, None), (2, -3), (0.5, None), (0.5, 4)])
@pytest.mark.parametrize("tasks", [False, True])
def test_no_allocation_nearby_is_better(beta: float, lam: float | None, tasks: bool) -> None:
    problem = Problem.build(NSDI, PAIR)
    mechanism, objective = (gfj, gfj_objective) if tasks else (fds, fds_objective)
    best = objective(problem, mechanism(problem, beta=beta, lam=lam).placement.user_tasks,
                     beta=beta, lam=lam)  # fmt: skip
    random = np.random.default_rng(0)
    for point in random.dirichlet([1, 1], size=200):
        others = point / (point @ problem.demand / NSDI.totals).max()  # uses something up
        assert objective(problem, others, beta=beta, lam=lam) <= best + 1e-9 * abs(best)


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_units_and_sizes_do_not_matter(size: float) -> None:
    gib = 2**30
    cluster = Cluster([Server({"cpu": 96, "memory": 512 * gib}, count=40),
                       Server({"cpu": 192, "memory": 384 * gib}, count=7)])  # fmt: skip
    users = [User("a", {"cpu": 1 * size, "memory": 4 * gib * size}),
             User("b", {"cpu": 3, "memory": 1 * gib}),
             User("c", {"cpu": 2e-6, "memory": gib / 1e6}),
             User("d", {"cpu": 0.5, "memory": 16 * gib}, tasks=30)]  # fmt: skip
    problem = Problem.build(cluster, users)
    for solution in (nash(problem), fds(problem), gfj(problem), utilitarian(problem)):
        closes(solution)


Tamper = Callable[[WelfareProof], WelfareProof]


def _prices(proof: WelfareProof, change: Callable[[Floats], Floats]) -> WelfareProof:
    assert isinstance(proof.prices, TablePrices)
    table = change(proof.prices.table.copy())
    return replace(proof, prices=TablePrices(table, proof.prices.class_of_block))


def _tasks(proof: WelfareProof, change: Callable[[Floats], Floats]) -> WelfareProof:
    placement = replace(proof.placement, tasks=change(proof.placement.tasks.copy()))
    return replace(proof, placement=placement)


def _one(values: Floats, position: int, factor: float) -> Floats:
    values[position] *= factor
    return values


TAMPERED: dict[str, Tamper] = {
    "more tasks than fit": lambda p: _tasks(p, lambda t: t * 1.001),
    "fewer tasks": lambda p: _tasks(p, lambda t: t * 0.999),
    "one user less": lambda p: _tasks(p, lambda t: _one(t, 0, 0.9)),
    "negative tasks": lambda p: _tasks(p, lambda t: _one(t, 0, -1)),
    "no tasks": lambda p: _tasks(p, lambda t: t * 0),
    "lower prices": lambda p: _prices(p, lambda t: t * 0.99),
    "higher prices": lambda p: _prices(p, lambda t: t * 1.01),
    "one price lower": lambda p: _prices(
        p, lambda t: _one(t.ravel(), int(t.argmax()), 0.9).reshape(t.shape)
    ),
    "no prices": lambda p: replace(p, prices=None),
    "negative prices": lambda p: _prices(p, lambda t: -t),
    "infinite prices": lambda p: _prices(p, lambda t: t + np.inf),
    "prices that are none": lambda p: _prices(p, lambda t: t * np.nan),
    "another gradient": lambda p: replace(p, gradient=_one(p.gradient.copy(), 0, 0.5)),
    "gradient fit to the prices": lambda p: replace(p, gradient=p.gradient * [1, 0]),
    "negative gradient": lambda p: replace(p, gradient=-p.gradient),
    "gradient that is none": lambda p: replace(p, gradient=p.gradient * np.nan),
    "another welfare": lambda p: replace(p, welfare=PowerWelfare(beta=7, of_tasks=True)),
    "the lowest level": lambda p: replace(p, welfare=LowestLevel()),
}


@pytest.mark.parametrize("change", TAMPERED.values(), ids=TAMPERED)
@pytest.mark.parametrize("mechanism", [nash, fds, gfj])
def test_a_tampered_proof_fails(mechanism: Callable[[Problem], Solution], change: Tamper) -> None:
    proof = proof_of(mechanism(Problem.build(NSDI, PAIR)))
    assert proof.verify()
    with np.errstate(invalid="ignore"):
        assert not change(proof).verify()


def test_utilitarian_with_another_gradient_fails() -> None:
    proof = proof_of(utilitarian(Problem.build(NSDI, PAIR)))
    assert proof.verify()
    # Nobody of those that get nothing may be forgotten either.
    for factor in (0.0, 0.5, 2.0):
        for position in (0, 1):
            wrong = _one(proof.gradient.copy(), position, factor)
            assert not replace(proof, gradient=wrong).verify()


def test_one_shot_tampered_fails() -> None:
    cluster = Cluster([Server({"cpu": 1, "memory": 1})])
    users = [User("a", {"cpu": 1}), User("b", {"memory": 1}), User("c", {"memory": 1})]
    proof = proof_of(drfh_one_shot(Problem.build(cluster, users)))
    assert proof.verify()
    less = replace(proof, placement=replace(proof.placement, tasks=proof.placement.tasks * 0.9))
    assert not less.verify()
    assert not replace(proof, gradient=np.array([1.0, 0.0, 0.0])).verify()  # a does not stop it
    assert not replace(proof, gradient=np.zeros(3)).verify()
    capped = [replace_user(users[0], tasks=0.25), *users[1:]]
    stopped = proof_of(drfh_one_shot(Problem.build(cluster, capped)))
    assert stopped.verify()
    assert not replace(stopped, gradient=stopped.gradient[::-1].copy()).verify()


def test_users_that_can_have_nothing_are_left_out() -> None:
    cluster = Cluster([Server({"cpu": 4}, name="s"), Server({"gpu": 1}, name="g")])
    users = [User("a", {"cpu": 1}), User("b", {"cpu": 1, "gpu": 1}), User("c", {"cpu": 1}, tasks=0)]
    for mechanism in ("nash", "fds", "gfj", "utilitarian"):
        answer = allocate(cluster, users, mechanism=mechanism)
        assert answer.tasks == pytest.approx({"a": 4.0, "b": 0.0, "c": 0.0})
        assert answer.verify()
    nobody = allocate(cluster, users[1:], mechanism="nash")
    assert nobody.verify()
    assert list(nobody.tasks.values()) == [0, 0]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"beta": "two"}, "beta of fds must be a number from 0.2 to 20, got 'two'"),
        ({"beta": float("nan")}, "beta of fds must be a number from 0.2 to 20"),
        ({"beta": -1}, "beta of fds must be a number from 0.2 to 20, got -1"),
        ({"beta": True}, "beta of fds"),
        ({"beta": [2]}, "beta of fds"),
        ({"beta": 10**400}, "beta of fds"),
        ({"beta": 2, "lam": 0}, "lam of fds must be at most -0.5"),
        ({"beta": 2, "lam": "-inf"}, "lam of fds must be at most -0.5"),
        ({"beta": 0.5, "lam": 0.5}, "lam of fds must be at least 1"),
        ({"beta": 0.5, "lam": "nan"}, "lam of fds"),
        ({"beta": 1, "lam": 1}, "lam of fds must be 0 where beta is 1"),
    ],
)
def test_wrong_parameters(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        allocate(NSDI, PAIR, mechanism="fds", **parameters)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_complaints_want_numbers() -> None:
    problem = Problem.build(NSDI, PAIR)
    for tasks in ([1.0], [1.0, -1.0], [1.0, np.nan]):
        with pytest.raises(InputError, match="tasks must be"):
            complaints(problem, np.array(tasks))
    assert set(complaints(problem, np.zeros(2))) == {"a", "b"}  # nothing is used up
    satisfied = [replace_user(PAIR[0], tasks=3), replace_user(PAIR[1], tasks=2)]
    assert not complaints(Problem.build(NSDI, satisfied), np.array([3.0, 2.0]))


def test_prices_are_shown() -> None:
    answer = allocate(FIGURE, PAIR, mechanism="nash")
    assert set(answer.price_table()["round"]) == {1}
    assert answer.to_dict()["certificate"]["prices"]["server-1"]["cpu"] > 0
    assert most_welfare(answer.problem, PowerWelfare(beta=1)).method == "interior-point"


GIB = 2.0**30
POOL = Cluster([Server({"cpu": 64, "memory": 1024 * GIB}, count=12_000)])


def test_utilitarian_runs_the_smallest_tasks_first() -> None:
    large = {"cpu": 1, "memory": 4 * GIB}
    for part in (1, 1e-3, 1e-6):
        small = User("a", {"cpu": 1e-6 * part, "memory": part * 2**20}, tasks=1)
        for tasks in (None, 5e5):
            users = [small, User("b", large, tasks=tasks), User("c", {"cpu": 2, "memory": GIB})]
            assert tasks_of((POOL, users), "utilitarian")[0] == pytest.approx(1, rel=1e-9)
        assert tasks_of((POOL, [small]), "utilitarian").tolist() == [1.0]


def test_utilitarian_gives_everything_that_fits() -> None:
    users = [
        User(f"u{i}", {"cpu": 10.0**-i, "memory": GIB * 10.0**-i}, tasks=10.0 ** (i % 4))
        for i in range(14)
    ]
    expected = [10.0 ** (i % 4) for i in range(14)]
    assert tasks_of((POOL, users), "utilitarian") == pytest.approx(expected, rel=1e-12)


def spread_problem(seed: int, servers: int, users: int, endless: bool) -> Records:
    """Return tasks of sizes over twelve orders of magnitude, some with a GPU."""
    random = np.random.default_rng(seed)
    cluster = Cluster(
        [
            Server(
                {
                    "cpu": float(random.choice([8, 64, 192])) + i
                    if not endless
                    else float(10 ** random.uniform(0, 8)),
                    "memory": float(random.choice([16, 256, 1024])) * GIB,
                    **({"gpu": 8} if i % 3 == 0 else {}),
                },
                count=int(10 ** random.uniform(0, 3)),
            )
            for i in range(servers)
        ]
    )
    people = []
    for i in range(users):
        size = 10 ** random.uniform(-10, 2)
        demand = {"cpu": size * random.uniform(0.1, 2), "memory": size * GIB}
        if i % 5 == 4:
            demand["gpu"] = size
        tasks = None if endless else float(np.ceil(10 ** random.uniform(-1, 9)))
        people.append(User(f"u{i}", demand, tasks=tasks))
    return cluster, people


@pytest.mark.parametrize("seed", range(20))
def test_utilitarian_is_proven_however_sizes_are_spread(seed: int) -> None:
    closes(utilitarian(Problem.build(*spread_problem(seed, 3, 8, endless=False))))


@pytest.mark.parametrize("endless", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_utilitarian_is_proven_on_many_servers(seed: int, endless: bool) -> None:
    closes(utilitarian(Problem.build(*spread_problem(seed, 60, 40, endless))))


def test_utilitarian_overlooks_nobody_beside_millions() -> None:
    # Alone on its servers, but one task of 10¹²: far below every tolerance.
    servers = [Server({"cpu": 64}, name="s", count=100), Server({"gpu": 8}, name="g")]
    for kinds in (1, 2_100):  # one linear program; server by server
        crowd = [User(f"u{i}", {"cpu": 1e-9 * (1 + i)}) for i in range(kinds)]
        last = User("last", {"gpu": 8, "cpu": 0})
        names = [*crowd, last] if kinds > 1 else [*crowd, replace_user(last, tasks=1)]
        assert tasks_of((Cluster(servers), names), "utilitarian")[-1] == pytest.approx(1, rel=1e-9)


@pytest.mark.parametrize("mechanism", ["nash", "fds", "gfj", "bbf", "utilitarian"])
@pytest.mark.parametrize("weight", [1e-300, 1e-200, 1e-20, 1e20, 1e200, 1e300])
def test_extreme_weights_have_an_answer(mechanism: str, weight: float) -> None:
    users = [User("a", {"cpu": 1, "memory": 4}, weight=weight), User("b", {"cpu": 3, "memory": 1}),
             User("c", {"cpu": 1, "memory": 1}, weight=1 / weight, tasks=1e-5)]  # fmt: skip
    answer = allocate(FIGURE, users, mechanism=mechanism)
    assert np.isfinite(answer.assignment.user_tasks).all()
    assert (answer.assignment.user_tasks >= 0).all()


@pytest.mark.parametrize("mechanism", ["nash", "fds", "gfj"])
@pytest.mark.parametrize("weight", [1e-300, 1e-15, 1e-11, 1e15, 1e200])
def test_extreme_weights_of_endless_tasks_are_proven_as_a_whole(
    mechanism: str, weight: float
) -> None:
    users = [replace_user(PAIR[0], weight=weight), PAIR[1], User("c", {"cpu": 1, "memory": 1})]
    light, heavy = (slice(0, 1), slice(1, 3)) if weight < 1 else (slice(1, 3), slice(0, 1))
    answer = allocate(FIGURE, users, mechanism=mechanism)
    proof, tasks = answer.certificate, answer.assignment.user_tasks
    # Proven as a whole; the light ones count for nothing there, and are not proven.
    assert isinstance(proof, WelfareProof)
    assert {check.name for check in proof.verify().checks if not check.ok} <= {
        "user that the prices do not stop"
    }
    alone = tasks_of((FIGURE, users[heavy]), mechanism)
    assert tasks[heavy] == pytest.approx(alone, rel=1e-4)  # the root of the proof's tolerance
    assert tasks[light].max() < 1e-6


def test_lost_ratios_are_not_called_proven() -> None:
    # The heavy one has all it wants; between the others the path cannot tell.
    users = [User("a", {"cpu": 1, "memory": 4}, weight=1e-20), User("b", {"cpu": 3, "memory": 1}),
             User("c", {"cpu": 1, "memory": 1}, weight=1e20, tasks=1e-5)]  # fmt: skip
    solution = gfj(Problem.build(FIGURE, users))
    tasks = solution.placement.user_tasks
    assert tasks[0] < 1e-9 * tasks[1] or not proof_of(solution).closed


@pytest.mark.parametrize("mechanism", ["nash", "fds", "gfj", "bbf", "utilitarian"])
def test_extreme_input_gives_an_answer_or_one_line(mechanism: str) -> None:
    random = np.random.default_rng(3)
    for _ in range(12):
        users = [
            User(
                f"u{i}",
                {"cpu": float(10 ** random.uniform(-18, 6)), "memory": 1.0},
                weight=float(10 ** random.uniform(-300, 300)),
                tasks=None if random.random() < 0.5 else float(10 ** random.uniform(-15, 9)),
            )
            for i in range(4)
        ]
        with contextlib.suppress(SolverError):
            answer = allocate(FIGURE, users, mechanism=mechanism)
            assert np.isfinite(answer.assignment.user_tasks).all()


def test_a_speck_of_the_pool_is_solved() -> None:
    users = [User("a", {"cpu": 64 * 12_000 * 1e-16}, tasks=1e-14)]
    for mechanism in ("nash", "fds", "gfj", "utilitarian"):
        answer = allocate(POOL, users, mechanism=mechanism)
        assert answer.tasks["a"] == pytest.approx(1e-14, rel=1e-6)


@pytest.mark.parametrize("error", [ZeroDivisionError("x"), OverflowError(), FloatingPointError("x"),
                                   np.linalg.LinAlgError("singular")])  # fmt: skip
def test_errors_of_arithmetic_are_ours(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("drfh.mechanisms.shared.welfare.maximise", fail)
    with pytest.raises(SolverError, match="too far apart for float64"):
        allocate(NSDI, PAIR, mechanism="nash")


def test_what_is_no_number_is_never_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(classes: Classes, *_: object) -> Optimum:
        n, k = classes.usable.shape
        users = np.full(len(classes.problem.users), np.nan)
        return Optimum(users, np.zeros((n, k)), np.zeros((k, 2)), np.zeros(n), users)

    monkeypatch.setattr("drfh.mechanisms.shared.welfare.maximise", nothing)
    with pytest.raises(SolverError, match="no numbers"):
        allocate(NSDI, PAIR, mechanism="nash")


@pytest.mark.parametrize("mechanism", ["fds", "gfj"])
@pytest.mark.parametrize("weight", [1e5, 1e6])
def test_a_user_that_counts_for_little_is_not_forgotten(mechanism: str, weight: float) -> None:
    # The heavy one has its half task; all else belongs to the light one, whatever it counts.
    cluster = Cluster([Server({"cpu": 100})])
    users = [User("heavy", {"cpu": 1}, weight=weight, tasks=0.5), User("light", {"cpu": 1})]
    answer = allocate(cluster, users, mechanism=mechanism)
    right = answer.tasks["light"] == pytest.approx(99.5, rel=1e-4)
    assert answer.certificate is not None
    assert right or not answer.certificate.closed
    assert right or not answer.verify()
