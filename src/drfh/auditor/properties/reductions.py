"""What a mechanism comes to in simple cases: one server, one resource, one bottleneck."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from drfh.allocation.problem import Bools, Floats, Problem
from drfh.auditor.case import Case, lost, worst_of
from drfh.auditor.finding import Counterexample, Finding
from drfh.errors import InputError
from drfh.formatting import format_count, format_number, format_percent
from drfh.mechanisms.bbf import complaints
from drfh.mechanisms.shared.leximin import lexicographic
from drfh.model.cluster import Cluster
from drfh.model.users import User

__all__ = ["bbf", "bottleneck_fair", "bottleneck_share", "single_resource", "single_server"]

_MOST_SERVERS = 8


@dataclass(frozen=True, slots=True)
class _Part:
    """A simple case inside the case."""

    label: str
    cluster: Cluster
    users: list[User]


def single_server(case: Case) -> Finding:
    """On each server by itself, the mechanism is DRF (Wang et al. 2014, Prop. 4)."""
    chosen = case.shuffled(len(case.problem.cluster), _MOST_SERVERS)
    parts = [part for g in chosen if (part := _one_server(case, g)) is not None]
    fine = f"it is DRF on each of {format_count(len(parts), 'server')} alone"
    return _compare(case, "single-server", parts, fine)


def single_resource(case: Case) -> Finding:
    """With each resource by itself, the mechanism is max-min fair (Wang et al. 2014, Prop. 5)."""
    problem = case.problem
    needed = np.flatnonzero(problem.demand.any(axis=0)).tolist()
    parts = [_one_resource(case, problem.cluster.resources[r]) for r in needed]
    fine = f"it is max-min fair with each of {format_count(len(parts), 'resource')} alone"
    return _compare(case, "single-resource", parts, fine)


def bottleneck_fair(case: Case) -> Finding:
    """If all users have one dominant resource, all hold equal amounts of it, per weight."""
    shares = _of_bottleneck(case)
    if isinstance(shares, str):
        return case.skipped("bottleneck-fair", shares)
    resource, level, wants = shares
    short = np.where(wants, lost(level, level.max()), 0.0)
    i = worst_of(short)
    text = f"all hold equal amounts of {resource}, the dominant resource of everybody"
    if short[i] > case.tolerance:
        j = worst_of(level)
        text = f"{case.name(i)} holds {format_percent(level[i])} of the {resource} per weight and "
        text += f"{case.name(j)} {format_percent(level[j])}, though it is dominant for both"
    return case.found(
        "bottleneck-fair", float(short[i]), text, hurt=case.hurt(short),
        counterexample=case.changed("unequal amounts of the bottleneck", text),
    )  # fmt: skip


def bottleneck_share(case: Case) -> Finding:
    """If all users have one dominant resource, each holds its part of it: 1/n, by weight."""
    shares = _of_bottleneck(case)
    if isinstance(shares, str):
        return case.skipped("bottleneck-share", shares)
    resource, level, wants = shares
    part = 1 / case.problem.weight.sum()
    short = np.where(wants, lost(level, part), 0.0)
    i = worst_of(short)
    text = f"everybody holds its part of {resource}, the dominant resource of everybody"
    if short[i] > case.tolerance:
        weight = float(case.problem.weight[i])
        text = (
            f"{case.name(i)} holds {format_percent(level[i] * weight)} of the {resource}, not "
            "its part "
        )
        text += f"of {format_percent(part * weight)}"
    return case.found(
        "bottleneck-share", float(short[i]), text, hurt=case.hurt(short),
        counterexample=case.changed("less than its part of the bottleneck", text),
    )  # fmt: skip


def bbf(case: Case) -> Finding:
    """One server: nobody has a justified complaint (Dolev et al., ITCS 2012).

    Everybody has all its tasks, or at least its entitlement of some resource that is used up.
    """
    problem = case.problem
    if problem.cluster.size != 1:
        return case.skipped("bbf", "defined for one server")
    entitlement = problem.weight / problem.weight.sum()
    lacking = complaints(problem, case.tasks, tolerance=case.tolerance)
    short = np.array([lacking.get(name, 0.0) for name in problem.names()])
    i = worst_of(short)
    text = "everybody has its entitlement of some resource that is used up"
    if short[i] > case.tolerance:
        text = (
            f"{case.name(i)} holds less than {format_percent(entitlement[i])} of everything used up"
        )
    return case.found(
        "bbf", float(short[i]), text, hurt=case.hurt(short),
        counterexample=case.changed("a justified complaint", text),
    )  # fmt: skip


def _of_bottleneck(case: Case) -> tuple[str, Floats, Bools] | str:
    """Return the common dominant resource, what each holds of it per weight, and who wants more."""
    problem = case.problem
    if len(problem.users) < 2:
        return "there is one user only"
    common = np.flatnonzero((problem.direction >= 1 - 1e-12).all(axis=0))
    if len(common) == 0:
        return "the users differ in their dominant resource"
    wants = (case.tasks < problem.limit * (1 - 1e-9)) & problem.reachable
    if not wants.any():
        return "everybody has all its tasks"
    return problem.cluster.resources[int(common[0])], case.levels, wants


def _compare(case: Case, name: str, parts: list[_Part], fine: str) -> Finding:
    if case.whole:
        return case.skipped(name, "for divisible tasks")
    worst, text, hurt = 0.0, fine, ""
    example: Counterexample | None = None
    compared = 0
    for part in parts:
        try:
            problem = Problem.build(part.cluster, part.users)
            answer = case.ask(problem)
        except InputError:
            continue  # a restriction fits no server there, or the mechanism is not defined
        compared += 1
        has = answer.placement.user_tasks
        should = lexicographic(problem).placement.user_tasks
        short = case.fall(answer, should, has)
        i = worst_of(short)
        if short[i] > worst:
            worst, hurt = float(short[i]), part.users[i].name
            text = (
                f"{part.label}, {hurt} has {format_count(has[i], 'task', 4)} instead of "
                f"{format_number(should[i])}"
            )
            example = case.changed(
                part.label, text, cluster=part.cluster, users=part.users,
                before={hurt: float(should[i])}, after={hurt: float(has[i])},
            )  # fmt: skip
    if compared == 0:
        return case.skipped(name, "neither the mechanism nor the restrictions make sense there")
    return case.found(name, worst, text, hurt=(hurt,), counterexample=example, tries=compared)


def _one_server(case: Case, group: int) -> _Part | None:
    problem = case.problem
    block = int(np.flatnonzero(problem.blocks.group == group)[0])
    everyone = np.arange(len(problem.users))
    here = problem.can_use(everyone, np.full(len(everyone), block))
    if not here.any():
        return None
    server = case.scenario.cluster.servers[group]
    users = [replace(case.scenario.users[i], servers=None) for i in np.flatnonzero(here).tolist()]
    return _Part(f"on {server.name} alone", Cluster([replace(server, count=1)]), users)


def _one_resource(case: Case, resource: str) -> _Part:
    users = [
        replace(user, demand={resource: user.demand[resource]})
        for user in case.scenario.users
        if user.demand.get(resource, 0) > 0
    ]
    servers = [
        replace(server, resources={resource: server.resources[resource]})
        for server in case.scenario.cluster.servers
        if server.resources.get(resource, 0) > 0
    ]
    return _Part(f"with {resource} alone", Cluster(servers), users)
