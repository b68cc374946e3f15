"""The auditor's report card, and the steps to its counterexamples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from drfh.auditor import PROPERTIES, Finding, Report, audit
from drfh.errors import InputError
from drfh.files.scenario_file import saved_restriction
from drfh.mechanisms.shared.slots import MOST_SERVERS
from drfh.model.scenario import Scenario
from drfh.model.users import User
from drfh.web.session.answers import Answer, mechanism_of, own_parameters
from drfh.web.session.steps import (
    SAME,
    AddServer,
    AddUser,
    LieStep,
    RemoveServer,
    RemoveUser,
    SetServer,
    SetUser,
    Step,
    WorkbookState,
)
from drfh.web.session.workbook import Workbook

__all__ = ["audit_answer", "case_book", "case_steps"]

_MOST_STEPS = 40
_LIES = ("truthful", "group-truthful")


def audit_answer(
    answer: Answer,
    *,
    properties: Sequence[str] | None = None,
    tries: int = 1_000,
    seconds: float = 5.0,
    progress: Callable[[str, float], None] | None = None,
) -> Report:
    """Audit the mechanism of an answer on its scenario.

    Parameters
    ----------
    answer
        What to audit, as the users report it.
    properties
        Which ones, see :data:`drfh.auditor.PROPERTIES`; by default all that can be measured here.
    tries, seconds
        For the searches, see :func:`drfh.audit`.
    progress
        Called with the name of a property and the part of it that is done; what it raises stops
        the audit.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> from drfh.web.session.answers import answer_of
    >>> book = Workbook(load_scenario("claim-c-skewed-servers"))
    >>> audit_answer(answer_of(book), properties=["pareto", "sharing-incentive"]).failed
    ('sharing-incentive',)
    """
    chosen = list(PROPERTIES if properties is None else properties)
    if answer.scenario.cluster.size > MOST_SERVERS:
        chosen = [name for name in chosen if name != "dedicated-cloud"]  # looks at every server
    return audit(
        answer.scenario,
        mechanism=mechanism_of(answer.mechanism),
        properties=chosen,
        tries=tries,
        seconds=seconds,
        progress=progress,
        **own_parameters(answer.scenario, answer.mechanism),
    )


def case_book(finding: Finding) -> Workbook | None:
    """Return a workbook of a finding's counterexample, if it has one."""
    if finding.counterexample is None:
        return None
    return Workbook(finding.counterexample.scenario)


def case_steps(finding: Finding, scenario: Scenario) -> list[Step]:
    """Return the steps from a scenario to a finding's counterexample.

    Empty if there is none, if it is the scenario itself (envy is seen in what is there), or if
    no few steps lead there: then :func:`case_book` opens it by itself.

    Parameters
    ----------
    finding
        From the report card of the scenario.
    scenario
        What was audited.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> from drfh.web.session.answers import answer_of
    >>> scenario = load_scenario("claim-b-user-leaves")
    >>> report = audit_answer(answer_of(Workbook(scenario)), properties=["population-monotone"])
    >>> [step.text for step in case_steps(report["population-monotone"], scenario)]
    ['b leaves']
    """
    if finding.counterexample is None:
        return []
    target = finding.counterexample.scenario
    steps: list[Step] = []
    state = WorkbookState(scenario)
    try:
        for step in _between(scenario, target, lying=finding.name in _LIES):
            if len(steps) == _MOST_STEPS:
                return []
            steps.append(step)
            state = step.apply(state)
    except InputError:
        return []
    return steps if _allocated_part(state.scenario) == _allocated_part(target) else []


def _between(old: Scenario, new: Scenario, *, lying: bool) -> Iterator[Step]:
    """Yield steps between two scenarios, in an order that stays valid."""
    groups = {str(server.name): server for server in old.cluster.servers}
    target = {str(server.name): server for server in new.cluster.servers}
    users = {user.name: user for user in old.users}
    for name, server in target.items():
        if name not in groups:
            yield AddServer(name, dict(server.resources), server.count, dict(server.labels))
    there = {user.name for user in new.users}
    for user in new.users:
        if user.name not in users:
            servers = _saved(user)
            demand = dict(user.demand)
            yield AddUser(user.name, demand, user.weight, user.tasks, servers, user.parent)
        elif lying:
            yield from _lie(users[user.name], user)
        else:
            yield from _user_steps(users[user.name], user)
    for name in users:
        if name not in there:
            yield RemoveUser(name)
    for name, server in target.items():
        before = groups.get(name, server)
        if before.count != server.count:
            yield SetServer(name, "count", server.count)
        for resource, amount in _changed(before.resources, server.resources):
            yield SetServer(name, f"resources.{resource}", amount)
        if before.labels != server.labels:
            yield SetServer(name, "labels", dict(server.labels))
    for name in groups:
        if name not in target:
            yield RemoveServer(name)


def _lie(old: User, new: User) -> Iterator[Step]:
    lie = LieStep(
        new.name,
        SAME if old.demand == new.demand else dict(new.demand),
        SAME if old.tasks == new.tasks else new.tasks,
        SAME if old.servers == new.servers else _saved(new),
    )
    if lie != LieStep(new.name):
        yield lie


def _user_steps(old: User, new: User) -> Iterator[Step]:
    if old.servers != new.servers:
        yield SetUser(new.name, "servers", _saved(new))
    for field in ("weight", "tasks", "parent"):
        if getattr(old, field) != getattr(new, field):
            yield SetUser(new.name, field, getattr(new, field))
    for resource, amount in _changed(old.demand, new.demand):
        yield SetUser(new.name, f"demand.{resource}", amount)


def _saved(user: User) -> Any:
    return None if user.servers is None else saved_restriction(user.servers, "servers")


def _changed(old: Mapping[str, float], new: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    """Yield the amounts that differ, those that grow first."""
    names = {**old, **new}
    pairs = [(r, new.get(r, 0.0)) for r in names if old.get(r, 0.0) != new.get(r, 0.0)]
    yield from sorted(pairs, key=lambda pair: pair[1] <= old.get(pair[0], 0.0))


def _allocated_part(scenario: Scenario) -> tuple[Any, ...]:
    """Return what an allocation depends on; order breaks ties of whole tasks."""
    groups = [(s.name, _amounts(s.resources), s.count, s.labels) for s in scenario.cluster.servers]
    users = [
        (u.name, _amounts(u.demand), u.weight, u.tasks, u.servers, u.parent) for u in scenario.users
    ]
    return groups, users


def _amounts(amounts: Mapping[str, float]) -> dict[str, float]:
    return {resource: amount for resource, amount in amounts.items() if amount > 0}
