"""Divisible allocation: one file per mechanism, one visible registry, one entry point."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from drfh.allocation.allocation import Allocation
from drfh.allocation.placement import Solution
from drfh.allocation.problem import Problem
from drfh.errors import InputError, UnknownNameError, shown
from drfh.kernels import expect
from drfh.mechanisms.asset_fairness import asset_fairness
from drfh.mechanisms.bbf import bbf
from drfh.mechanisms.cautious_lp import cautious_lp
from drfh.mechanisms.cdrf import cdrf
from drfh.mechanisms.cmmf import cmmf
from drfh.mechanisms.drf import drf
from drfh.mechanisms.drfh import drfh
from drfh.mechanisms.drfh_one_shot import drfh_one_shot
from drfh.mechanisms.dynamic_drf import dynamic_drf
from drfh.mechanisms.egalitarian import egalitarian
from drfh.mechanisms.endowment_drf import endowment_drf
from drfh.mechanisms.fds import fds
from drfh.mechanisms.gfj import gfj
from drfh.mechanisms.hdrf import hdrf
from drfh.mechanisms.max_min import max_min
from drfh.mechanisms.nash import nash
from drfh.mechanisms.norm import norm
from drfh.mechanisms.per_server_drf import per_server_drf
from drfh.mechanisms.pooled import pooled
from drfh.mechanisms.ps_dsf import ps_dsf
from drfh.mechanisms.sequential_min_max import sequential_min_max
from drfh.mechanisms.shared.best_filling import best_filling
from drfh.mechanisms.shared.progressive_filling import (
    fill_whole_tasks,
    fits_some_server,
    progressive_filling,
)
from drfh.mechanisms.tsf import tsf
from drfh.mechanisms.utilitarian import utilitarian
from drfh.model.cluster import Cluster
from drfh.model.scenario import Scenario
from drfh.model.users import User

__all__ = [
    "FILLINGS",
    "MECHANISMS",
    "WHOLE_PARAMETERS",
    "Mechanism",
    "Solution",
    "allocate",
    "allocate_problem",
    "check_parameters",
    "find_mechanism",
    "prepare",
    "solve",
]

#: A mechanism: the problem (and parameters of its own) in, a solution out.
Mechanism: TypeAlias = Callable[..., Solution]

#: Every mechanism by name. A name with a colon takes a value: ``norm:2``, ``max-min:memory``.
MECHANISMS: dict[str, Mechanism] = {
    "asset-fairness": asset_fairness,
    "bbf": bbf,
    "cautious-lp": cautious_lp,
    "cdrf": cdrf,
    "cmmf": cmmf,
    "drf": drf,
    "drfh": drfh,
    "drfh-one-shot": drfh_one_shot,
    "dynamic-drf": dynamic_drf,
    "egalitarian": egalitarian,
    "endowment-drf": endowment_drf,
    "fds": fds,
    "gfj": gfj,
    "hdrf": hdrf,
    "max-min:RESOURCE": max_min,
    "nash": nash,
    "norm:P": norm,
    "per-server-drf": per_server_drf,
    "pooled:MECHANISM": pooled,
    "ps-dsf": ps_dsf,
    "sequential-min-max": sequential_min_max,
    "tsf": tsf,
    "utilitarian": utilitarian,
}


#: How whole tasks are filled in: the best found, or as in the paper.
FILLINGS = ("best", "paper")

#: Parameters of whole tasks.
WHOLE_PARAMETERS = ("reference", "filling", "seconds", "seed")

#: Mechanisms that take users with several kinds of tasks.
TAKE_KINDS: tuple[Mechanism, ...] = (drfh, drf)


def allocate(
    cluster: Cluster | Scenario,
    users: Iterable[User] | None = None,
    *,
    mechanism: str | Mechanism | None = None,
    whole_tasks: bool = False,
    progress: Callable[[str], None] | None = None,
    **parameters: Any,
) -> Allocation:
    """Share a cluster among users.

    Parameters
    ----------
    cluster
        The servers; or a scenario, with its users, mechanism and parameters.
    users
        Who wants to run what, if `cluster` is no scenario.
    mechanism
        A name from :data:`MECHANISMS`, or a function from a
        :class:`~drfh.allocation.problem.Problem` to a :class:`Solution`; by default that of the
        scenario, else ``drfh``.
    whole_tasks
        Place whole tasks, and report the loss against the divisible optimum. Only for ``drfh``.
    progress
        Called now and then, during long work, with a few words on how far it is.
    **parameters
        For the mechanism. ``drfh`` and ``drf`` take ``method=``: ``"auto"``, ``"closed-form"``,
        ``"single-pool"``, ``"simplex"`` or ``"interior-point"``. Whole tasks take ``filling=``:
        ``"best"`` (default), the leximin best of all shipped choices of a server and of a local
        search of at most ``seconds=`` (default 2) with the draws of ``seed=``; or ``"paper"``, the
        paper's, the lowest level first with Best-Fit. ``reference=`` is the resource that
        Best-Fit divides by.

    Returns
    -------
    Allocation
        Tasks, shares, placement, utilisation and, where the mechanism has one, the certificate.

    Examples
    --------
    >>> from drfh import Cluster, Server, User
    >>> cluster = Cluster([Server({"cpu": 6, "memory": 6})])
    >>> users = [User("a", {"cpu": 1, "memory": 1}), User("b", {"cpu": 4, "memory": 3})]
    >>> whole = allocate(cluster, users, whole_tasks=True)
    >>> whole.tasks
    {'a': 2.0, 'b': 1.0}
    >>> round(whole.loss, 4)  # a has 2 tasks instead of 3
    0.3333
    >>> from drfh import load_scenario
    >>> allocate(load_scenario("paper-two-servers")).tasks
    {'ann': 10.0, 'bob': 10.0}
    """
    started = time.perf_counter()
    if isinstance(cluster, Scenario):
        if users is not None:
            raise InputError("users", "must be left out: the scenario has them")
        scenario = cluster
        cluster, users = scenario.cluster, scenario.users
        if mechanism is None or mechanism == scenario.mechanism:
            mechanism, parameters = scenario.mechanism, {**scenario.parameters, **parameters}
            whole_tasks = bool(parameters.pop("whole_tasks", False)) or whole_tasks
    elif users is None:
        raise InputError("users", "must be a list of drfh.User", users)
    mechanism = "drfh" if mechanism is None else mechanism
    find_mechanism(mechanism)
    problem = Problem.build(cluster, users)
    return allocate_problem(
        problem,
        mechanism=mechanism,
        whole_tasks=whole_tasks,
        progress=progress,
        started=started,
        **parameters,
    )


def allocate_problem(
    problem: Problem,
    *,
    mechanism: str | Mechanism = "drfh",
    whole_tasks: bool = False,
    progress: Callable[[str], None] | None = None,
    started: float | None = None,
    **parameters: Any,
) -> Allocation:
    """Share a cluster among users as :func:`allocate` does, from their arrays.

    Parameters
    ----------
    problem
        The servers and the users.
    mechanism, whole_tasks, progress, **parameters
        As for :func:`allocate`.
    started
        When the work began, by `time.perf_counter`; by default now.

    Examples
    --------
    >>> from drfh import Cluster, Server, User
    >>> cluster = Cluster([Server({"cpu": 6})])
    >>> allocate_problem(Problem.build(cluster, [User("a", {"cpu": 2})])).tasks
    {'a': 3.0}
    """
    if started is None:
        started = time.perf_counter()
    name, function = find_mechanism(mechanism)
    check_parameters(name, function, parameters, whole_tasks=whole_tasks)
    kept = {**parameters, **({"whole_tasks": True} if whole_tasks else {})}
    whole = {name: parameters.pop(name) for name in WHOLE_PARAMETERS if name in parameters}
    if whole_tasks:
        _check_whole(whole)
    source = partial(function, **parameters) if parameters else function
    if progress is not None and "progress" in inspect.signature(function).parameters:
        parameters["progress"] = lambda gap: progress(f"relative gap {gap:.1e}")
    check_kinds(problem, name, function)
    solution = solve(name, partial(function, **parameters), problem)
    if not _shipped(function):
        solution.placement.check(f"mechanism {name}")
    allocation = Allocation(
        solution.placement.problem,  # whole tasks see every server by itself
        solution.placement,
        mechanism=name,
        method=solution.method,
        certificate=solution.certificate,
        promised_tasks=solution.promised,
        whole=solution.whole,
        seconds=time.perf_counter() - started,
        parameters=kept,
        source=source,
    )
    if not whole_tasks:
        return allocation
    if function is not drfh:
        raise InputError("whole_tasks", "must be used with the mechanism drfh", name)
    never = np.flatnonzero(~fits_some_server(problem))
    notes = [f"{problem.users[i].name}: one whole task fits no server" for i in never]
    filling, reference = whole.pop("filling", "best"), whole.get("reference")
    rule: Mechanism | None = None  # a search within a time is none that could be asked again
    if filling == "paper":
        placement = fill_whole_tasks(
            problem,
            reference=reference,
            progress=progress and (lambda placed: progress(f"{placed:,} tasks placed")),
        )
        found_by, rule = "best-fit filling", partial(progressive_filling, reference=reference)
    else:
        best = best_filling(
            problem, enough=allocation.assignment.user_tasks, progress=progress, **whole
        )
        placement, found_by = best.placement, best.found_by
        if not best.complete:
            notes.append("the local search ended with its time; more seconds may find more")
        if best.left_out:
            notes.append(f"not tried on so large a cluster: {', '.join(best.left_out)}")
    return Allocation(
        placement.problem,
        placement,
        mechanism="drfh",
        method=found_by,
        divisible=allocation,
        whole=True,
        seconds=time.perf_counter() - started,
        notes=tuple(notes),
        parameters={**kept, "filling": filling},
        source=rule,
    )


def solve(name: str, mechanism: Mechanism, problem: Problem) -> Solution:
    """Return the answer of a mechanism; raise unless it is a placement in finite numbers.

    Whether it fits is for :meth:`Placement.check <drfh.allocation.placement.Placement.check>` to
    say, or for the auditor.

    Examples
    --------
    >>> from drfh import Cluster, Server
    >>> problem = Problem.build(Cluster([Server({"cpu": 6})]), [User("a", {"cpu": 2})])
    >>> solve("mine", lambda problem: 3, problem)
    Traceback (most recent call last):
    drfh.errors.InputError: mechanism mine must return a drfh.Solution, got 3
    """
    solution = mechanism(problem)
    if not isinstance(solution, Solution):
        raise InputError(f"mechanism {name}", "must return a drfh.Solution", solution)
    if not _shipped(mechanism):
        solution.placement.check_entries(f"mechanism {name}")
    return solution


def _shipped(mechanism: Mechanism) -> bool:
    """Return whether a mechanism is one of this package, whose answers are tested."""
    while isinstance(mechanism, partial):
        mechanism = mechanism.func
    return str(getattr(mechanism, "__module__", "")).partition(".")[0] == "drfh"


def _check_whole(parameters: Mapping[str, Any]) -> None:
    """Raise unless the parameters of whole tasks have values that they can have."""
    filling, seconds = parameters.get("filling", "best"), parameters.get("seconds", 0)
    if filling not in FILLINGS:
        raise UnknownNameError("filling", shown(filling).strip("'"), FILLINGS)
    number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not number or not 0 <= seconds < float("inf"):
        raise InputError("seconds", "must be a finite number ≥ 0", seconds)
    seed = parameters.get("seed", 0)
    if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
        raise InputError("seed", "must be an integer ≥ 0", seed)


def check_kinds(problem: Problem, name: str, mechanism: Mechanism) -> None:
    """Raise for several kinds of tasks unless the mechanism takes them.

    Examples
    --------
    >>> from drfh import Cluster, Server
    >>> problem = Problem.build(Cluster([Server({"cpu": 6})]), [User("a", {"cpu": 2})])
    >>> check_kinds(problem, "tsf", tsf)
    """
    if problem.mixes is not None and mechanism not in TAKE_KINDS:
        problem.mixes.refuse(name)


def check_parameters(
    name: str, mechanism: Mechanism, parameters: Mapping[str, Any], *, whole_tasks: bool = False
) -> None:
    """Raise unless the mechanism takes all the parameters.

    Examples
    --------
    >>> check_parameters("drfh", drfh, {"metod": "simplex"})
    Traceback (most recent call last):
    drfh.errors.UnknownNameError: parameter of drfh must be one of method (did you mean method?), \
got 'metod'
    """
    if not parameters:
        return
    accepted = inspect.signature(mechanism).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in accepted):
        return
    taken = {"progress", *(mechanism.keywords if isinstance(mechanism, partial) else ())}
    known = {p.name for p in accepted if p.kind is p.KEYWORD_ONLY} - taken
    known |= set(WHOLE_PARAMETERS) if whole_tasks else set()
    for parameter in parameters:
        if not known:
            rule = "must be left out: it takes none"
            raise InputError(f"parameter of {name}", rule, parameter)
        if parameter not in known:
            raise UnknownNameError(f"parameter of {name}", parameter, known)


def prepare(problem: Problem, solves: int) -> None:
    """Say that problems of this size will be solved many times, so that it pays to load more.

    Examples
    --------
    >>> from drfh import Cluster, Server
    >>> prepare(Problem.build(Cluster([Server({"cpu": 4})]), [User("a", {"cpu": 1})]), 10)
    """
    size = len(problem.users) + len(problem.blocks)
    expect(solves * size * problem.demand.shape[1])


def find_mechanism(mechanism: str | Mechanism) -> tuple[str, Mechanism]:
    """Return name and function of a mechanism, its value (``norm:2``) filled in.

    Examples
    --------
    >>> find_mechanism("norm:2")  # doctest: +ELLIPSIS
    ('norm:2', functools.partial(<function norm at ...>, p='2'))
    """
    if callable(mechanism):
        plain = mechanism.func if isinstance(mechanism, partial) else mechanism
        return getattr(plain, "__name__", "custom").replace("_", "-"), mechanism
    if isinstance(mechanism, str):
        if mechanism in MECHANISMS and ":" not in mechanism:
            return mechanism, MECHANISMS[mechanism]
        family, _, value = mechanism.partition(":")
        for key, function in MECHANISMS.items():
            name, colon, parameter = key.partition(":")
            if colon and name == family:
                if not value or value == parameter:
                    rule = f"must have a value after the colon: {key}"
                    raise InputError("mechanism", rule, mechanism)
                argument = find_mechanism(value)[1] if parameter == "MECHANISM" else value
                return mechanism, partial(function, **{parameter.lower(): argument})
    raise UnknownNameError("mechanism", shown(mechanism).strip("'"), MECHANISMS)
