"""Conformance suite for mechanisms.

A mechanism is one function from a :class:`~drfh.allocation.problem.Problem` to a
:class:`~drfh.mechanisms.Solution`. :func:`check_mechanism` sends small random problems through it
and looks at the answers; what its docstring claims about itself is put to the test as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from drfh.allocation.problem import Floats, Problem
from drfh.allocation.proofs.certificate import Verification, placement_checks
from drfh.auditor import PROPERTIES, audit
from drfh.errors import DrfhError, InputError, UnknownNameError
from drfh.files.scenario_file import scenario_text
from drfh.mechanisms import Mechanism, Solution, find_mechanism
from drfh.mechanisms.shared.card import ASSUMPTIONS, card_of
from drfh.model.cluster import Cluster, Server
from drfh.model.scenario import Scenario
from drfh.model.users import User
from drfh.testing.conformance import Conformance, ConformanceError

__all__ = ["SYMMETRIES", "check_mechanism", "random_scenario"]

_SAME = 1e-5  # tasks that differ by less, relatively to the largest, are the same
_ROUND_OFF = 1e-12
_LIES = 150  # tries for claims of truthfulness, a problem


Change = Callable[[Scenario, np.random.Generator], tuple[Scenario, Sequence[int]]]


def _other_users(scenario: Scenario, rng: np.random.Generator) -> tuple[Scenario, Sequence[int]]:
    order = rng.permutation(len(scenario.users)).tolist()
    return replace(scenario, users=tuple(scenario.users[i] for i in order)), order


def _other_servers(scenario: Scenario, rng: np.random.Generator) -> tuple[Scenario, Sequence[int]]:
    servers = scenario.cluster.servers
    order = rng.permutation(len(servers)).tolist()
    # Named first in another order, resources change places too.
    cluster = Cluster([_turned(servers[i]) for i in order])
    return replace(scenario, cluster=cluster), range(len(scenario.users))


def _turned(server: Server) -> Server:
    return replace(server, resources=dict(reversed(list(server.resources.items()))))


def _other_units(scenario: Scenario, rng: np.random.Generator) -> tuple[Scenario, Sequence[int]]:
    factor = {r: 2.0 ** int(rng.integers(-6, 7)) for r in scenario.cluster.resources}

    def scaled(amounts: Mapping[str, float]) -> dict[str, float]:
        return {r: a * factor[r] for r, a in amounts.items()}

    cluster = Cluster([replace(s, resources=scaled(s.resources)) for s in scenario.cluster.servers])
    users = tuple(replace(u, demand=scaled(u.demand)) for u in scenario.users)
    return replace(scenario, cluster=cluster, users=users), range(len(users))


def _halves(scenario: Scenario, rng: np.random.Generator) -> tuple[Scenario, Sequence[int]]:
    servers = list(scenario.cluster.servers)
    g = int(rng.integers(len(servers)))
    half = {r: a / 2 for r, a in servers[g].resources.items()}
    servers[g] = replace(servers[g], resources=half, count=2 * servers[g].count)
    return replace(scenario, cluster=Cluster(servers)), range(len(scenario.users))


#: What must not matter, unless the card says ``NAME: no; why``.
SYMMETRIES: dict[str, Change] = {
    "order-of-users": _other_users,
    "order-of-servers": _other_servers,
    "units": _other_units,
    "halved-servers": _halves,
}


def check_mechanism(
    mechanism: str | Mechanism,
    *,
    cases: int = 40,
    seed: int = 0,
    claims: bool = True,
    **parameters: Any,
) -> Conformance:
    """Check a mechanism on small random problems.

    It must return a :class:`Solution` that respects every server, restriction and number of
    tasks, the same one each time; its certificate, if it has one, must hold; the order of users
    and servers, units, and cutting a server in halves must not matter; and no property that its
    docstring claims may fail where the assumptions hold.

    Parameters
    ----------
    mechanism
        A name, or your own function.
    cases
        Number of random problems for each check.
    seed
        For the problems.
    claims
        Whether to put the property card to the test too.
    **parameters
        For the mechanism.

    Raises
    ------
    ConformanceError
        With the broken rule and the case as a scenario.

    Examples
    --------
    >>> import numpy as np
    >>> from drfh import Placement, Pools, Solution
    >>> def first_come(problem):
    ...     '''Give everything to the first user that can run.
    ...
    ...     Properties
    ...         pareto: no; the others could use what is left
    ...         order-of-users: no; it is the rule
    ...     '''
    ...     user = int(np.argmax(problem.reachable))
    ...     blocks = np.flatnonzero(problem.can_use(
    ...         np.full(len(problem.blocks), user), np.arange(len(problem.blocks))))
    ...     need = problem.demand[user]
    ...     size = problem.cluster.capacity[problem.blocks.group[blocks]][:, need > 0]
    ...     tasks = (size / need[need > 0]).min(axis=1) * problem.blocks.count[blocks]
    ...     tasks = tasks * min(1.0, problem.limit[user] / max(tasks.sum(), 1e-300))
    ...     placement = Placement.fitted(problem, np.full(len(blocks), user), blocks, tasks,
    ...                                  Pools.single(len(problem.blocks)))
    ...     return Solution(placement)
    >>> print(check_mechanism(first_come, cases=5))
    first-come
    ok answers: 5 problems
    ok halved-servers: 5 problems
    ok order-of-servers: 5 problems
    ok units: 5 problems
    """
    name, function = find_mechanism(mechanism)
    ask = _Answered(name, function, parameters)
    card = card_of(function)
    for claimed in card.claims:
        if claimed not in PROPERTIES and claimed not in SYMMETRIES:
            raise UnknownNameError(f"property of {name}", claimed, [*PROPERTIES, *SYMMETRIES])
    done: Counter[str] = Counter()
    rng = np.random.default_rng(seed)
    for scenario in _scenarios(cases, seed):
        solution = ask(scenario)
        if solution is None:
            continue
        done["answers"] += 1
        _check_answer(ask, scenario, solution)
        for check, change in SYMMETRIES.items():
            claim = card.claims.get(check)
            if claim is not None and not claim.holds:
                continue
            if solution.whole and check == "halved-servers":
                continue
            done[check] += _check_symmetry(ask, scenario, solution, check, change, rng)
    if not done["answers"]:
        raise ConformanceError(f"{name} refuses all of {cases} problems")
    if claims:
        for check, claim in card.claims.items():
            if check in PROPERTIES and claim.holds:
                done[f"{check} (claimed)"] += _check_claim(
                    ask, check, claim.assumes, cases, seed, parameters
                )
    return Conformance(name, dict(done))


class _Answered:
    """The mechanism, with the case in every complaint."""

    def __init__(self, name: str, function: Mechanism, parameters: dict[str, Any]) -> None:
        self.name = name
        self.function = function
        self._parameters = parameters

    def __call__(self, scenario: Scenario) -> Solution | None:
        """Return the answer, or None if the mechanism refuses the problem."""
        problem = Problem.build(scenario.cluster, scenario.users)
        try:
            solution = self.function(problem, **self._parameters)
        except InputError:
            return None
        except DrfhError as error:
            raise self.broken(f"fails: {error}", scenario) from error
        if not isinstance(solution, Solution):
            raise self.broken(f"returns {type(solution).__name__}, not a Solution", scenario)
        return solution

    def broken(self, rule: str, scenario: Scenario) -> ConformanceError:
        return ConformanceError(f"{self.name} {rule}; the case:\n{scenario_text(scenario)}")


def _check_answer(ask: _Answered, scenario: Scenario, solution: Solution) -> None:
    checks = placement_checks(solution.placement)
    if solution.whole:  # counted in integers; only the sum in float64 may be over
        checks = tuple(replace(c, limit=max(c.limit, _ROUND_OFF)) for c in checks)
    found = Verification(checks)
    if not found:
        raise ask.broken(f"gives what does not fit:\n{found}", scenario)
    tasks = solution.placement.user_tasks
    if not np.isfinite(tasks).all() or (tasks < 0).any():
        raise ask.broken(f"gives tasks {tasks.tolist()}", scenario)
    if solution.whole and not np.allclose(tasks, np.rint(tasks), atol=1e-9):
        raise ask.broken(f"gives parts of whole tasks, {tasks.tolist()}", scenario)
    again = ask(scenario)
    if again is None or not np.array_equal(again.placement.user_tasks, tasks):
        raise ask.broken("gives another answer when asked again", scenario)
    if solution.certificate is not None and not (proof := solution.certificate.verify()):
        raise ask.broken(f"has a certificate that does not hold:\n{proof}", scenario)


def _check_symmetry(
    ask: _Answered,
    scenario: Scenario,
    solution: Solution,
    check: str,
    change: Change,
    rng: np.random.Generator,
) -> bool:
    changed, order = change(scenario, rng)
    other = ask(changed)
    if other is None:
        return False
    before: Floats = solution.placement.user_tasks[np.array(order)]
    after: Floats = other.placement.user_tasks
    scale = np.maximum(before, after)
    if (np.abs(before - after) > _SAME * np.where(scale > 0, scale, 1.0)).any():
        rule = f"depends on {check}: {before.tolist()} becomes {after.tolist()}"
        raise ask.broken(rule, scenario)
    return True


def _check_claim(
    ask: _Answered,
    check: str,
    assumes: tuple[str, ...],
    cases: int,
    seed: int,
    parameters: dict[str, Any],
) -> int:
    count = 0
    for scenario in _scenarios(cases, seed + 1, assumes):
        if ask(scenario) is None:
            continue
        report = audit(
            scenario, mechanism=ask.function, properties=[check], tries=_LIES, **parameters
        )
        finding = report[check]
        if finding.verdict == "fails":
            raise ask.broken(f"claims to be {check} and is not: {finding.text}", scenario)
        count += finding.verdict != "not applicable"
    return count


def _scenarios(cases: int, seed: int, assumes: tuple[str, ...] = ()) -> Iterator[Scenario]:
    rng = np.random.default_rng(seed)
    for _ in range(cases):
        yield random_scenario(rng, assumes)


def random_scenario(rng: np.random.Generator | int, assumes: Sequence[str] = ()) -> Scenario:
    """Return a small random problem that fulfils some assumptions.

    Parameters
    ----------
    rng
        A generator, or a seed: a whole number ≥ 0.
    assumes
        Names from :data:`drfh.mechanisms.shared.card.ASSUMPTIONS`.

    Examples
    --------
    >>> len(random_scenario(0, ["one server"]).cluster)
    1
    """
    if isinstance(rng, int) and not isinstance(rng, bool) and rng >= 0:
        rng = np.random.default_rng(rng)
    if not isinstance(rng, np.random.Generator):
        raise InputError("rng", "must be a numpy Generator or a seed, a whole number ≥ 0", rng)
    for name in assumes:
        if name not in ASSUMPTIONS:
            raise UnknownNameError("assumption", name, ASSUMPTIONS)
    m = 1 if "one resource" in assumes else int(rng.integers(1, 4))
    k = 1 if "one server" in assumes else int(rng.integers(1, 4))
    resources = ("cpu", "memory", "gpu")[:m]
    zeros = "positive demands" not in assumes
    servers = [
        Server(
            _amounts(rng, resources, zeros and k > 1, (1, 2, 3, 4, 6, 8, 12)),
            name=f"s{g}",
            count=1 if "one server" in assumes else int(rng.integers(1, 3)),
        )
        for g in range(k)
    ]
    for r in resources:  # somebody has some of everything
        if not any(s.resources.get(r, 0) for s in servers):
            servers[0] = replace(servers[0], resources={**servers[0].resources, r: 4.0})
    users = []
    for i in range(int(rng.integers(1, 5))):
        restricted = "no restrictions" not in assumes and k > 1 and rng.random() < 0.3
        finite = "endless tasks" not in assumes and rng.random() < 0.3
        users.append(
            User(
                f"u{i}",
                _amounts(rng, resources, zeros, (0.1, 0.25, 0.5, 1, 1.5, 2, 3)),
                weight=1.0 if "equal weights" in assumes else float(rng.choice([1, 1, 2, 3])),
                tasks=float(rng.integers(1, 9)) if finite else None,
                servers=[f"s{int(rng.integers(k))}"] if restricted else None,
            )
        )
    return Scenario(Cluster(servers), tuple(users))


def _amounts(
    rng: np.random.Generator,
    resources: Sequence[str],
    zeros: bool,
    values: Sequence[float],
) -> dict[str, float]:
    row = {r: float(rng.choice(values)) for r in resources}
    if zeros and len(row) > 1:
        for r in list(row)[1:] if rng.random() < 0.5 else list(row)[:-1]:
            if rng.random() < 0.25:
                row[r] = 0.0
    return row
