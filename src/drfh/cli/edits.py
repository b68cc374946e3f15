"""Options that edit a scenario: --add, --remove, --weight, --demand, --tasks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from drfh.errors import InputError, UnknownNameError
from drfh.model.cluster import Server
from drfh.model.edits import ReportedScenario, add_group, remove_servers, set_group, set_user
from drfh.model.resources import parse_quantity
from drfh.model.scenario import Scenario
from drfh.model.users import User

__all__ = ["changed", "parse_servers"]

_SERVERS = re.compile(r"\s*(?:(\d+)\s*[x×]\s*)?(.*?)\s*")


def parse_servers(text: str, name: str | None = None) -> Server:
    """Read servers such as ``10x cpu=8,memory=512Gi,zone:a`` (labels with a colon).

    Examples
    --------
    >>> parse_servers("10x cpu=8,memory=512Gi,zone:a", "new")
    Server({'cpu': 8.0, 'memory': 549755813888.0}, name='new', count=10, labels={'zone': 'a'})
    """
    rule = "must look like '10x cpu=8,memory=512Gi' (labels as zone:a)"
    found = _SERVERS.fullmatch(text)
    count, items = (found[1], found[2]) if found else (None, "")
    resources: dict[str, float] = {}
    labels: dict[str, str] = {}
    for item in items.split(","):
        key, equals, value = item.strip().partition("=")
        if equals and key and not any(letter.isspace() for letter in key):
            if key in resources:
                raise InputError("--add", f"must name {key} once", text)
            resources[key] = parse_quantity(value, f"--add {key}")
            continue
        key, colon, value = item.strip().partition(":")
        if not (colon and key and value):
            raise InputError("--add", rule, text)
        labels[key] = value
    try:
        return Server(resources, name=name, count=int(count or 1), labels=labels)
    except InputError as error:
        raise _about("--add", error) from None


def changed(
    scenario: Scenario,
    *,
    add: Sequence[str] = (),
    remove: Sequence[str] = (),
    weight: Sequence[str] = (),
    demand: Sequence[str] = (),
    tasks: Sequence[str] = (),
) -> Scenario:
    """Return the scenario after edits given as the command line's options.

    Parameters
    ----------
    scenario
        Before.
    add
        Servers, such as ``10x cpu=8,memory=512Gi``, or ``10x NAME`` for more of a group.
    remove
        Groups, ``NAME`` or ``NAME:COUNT``. They are removed before others are added.
    weight
        Weights, ``USER=WEIGHT``.
    demand
        Demands, ``USER:RESOURCE=AMOUNT`` with more resources after commas.
    tasks
        Numbers of tasks, ``USER=N``, or ``USER=`` for no end.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> changed(load_scenario("paper-two-servers"), add=["2x cpu=8,memory=8"]).cluster
    Cluster(4 servers in 3 groups: cpu 30, memory 30)
    """
    state = ReportedScenario(scenario)
    for text in remove:
        state = _remove(state, text)
    for text in add:
        state = _add(state, text)
    for text in weight:
        name, equals, value = text.rpartition("=")
        if not equals:
            raise InputError("--weight", "must look like ann=2", text)
        user = _named(state, name, "--weight")
        entitled = parse_quantity(value, f"--weight {name}")
        state = _replace_user(state, user, "--weight", weight=entitled)
    for text in tasks:
        name, equals, value = text.rpartition("=")
        if not equals:
            raise InputError("--tasks", "must look like ann=100", text)
        user = _named(state, name, "--tasks")
        state = _replace_user(state, user, "--tasks", tasks=value or None)
    for text in demand:
        name, amounts = _user_and_rest(state, text)
        user = _named(state, name, "--demand")
        new = dict(user.demand)
        for item in amounts.split(","):
            resource, equals, value = item.strip().partition("=")
            if not equals or not resource:
                raise InputError("--demand", "must look like bob:cpu=4,memory=2Gi", text)
            new[resource] = parse_quantity(value, f"--demand {name}:{resource}")
        state = _replace_user(state, user, "--demand", demand=new)
    return state.scenario


def _about(option: str, error: InputError) -> InputError:
    error.field = f"{option}: {error.field}"
    return error


def _named(state: ReportedScenario, name: str, option: str) -> User:
    try:
        return state.user(name)
    except UnknownNameError as error:
        error.field = option
        raise


def _replace_user(
    state: ReportedScenario, user: User, option: str, **values: Any
) -> ReportedScenario:
    try:
        return set_user(state, user.name, replace(user, **values))
    except InputError as error:
        raise _about(f"{option} {user.name}", error) from None


def _remove(state: ReportedScenario, text: str) -> ReportedScenario:
    groups = state.scenario.cluster.group_index
    name, count = text, None
    if text not in groups:
        name, colon, number = text.rpartition(":")
        if not colon or name not in groups:
            raise UnknownNameError("--remove", name if colon else text, groups)
        if not (number.isascii() and number.isdigit()):
            raise InputError("--remove", "must look like NAME or NAME:COUNT", text)
        count = int(number)
    try:
        return remove_servers(state, name, count)
    except InputError as error:
        raise _about(f"--remove {name}", error) from None


def _add(state: ReportedScenario, text: str) -> ReportedScenario:
    found = _SERVERS.fullmatch(text)
    if found is None or found[2] not in state.scenario.cluster.group_index:
        return add_group(state, parse_servers(text))
    server = state.group(found[2])
    return set_group(state, found[2], replace(server, count=server.count + int(found[1] or 1)))


def _user_and_rest(state: ReportedScenario, text: str) -> tuple[str, str]:
    # A user's name may itself contain a colon, so the longest name that fits wins.
    fitting = [u.name for u in state.scenario.users if text.startswith(f"{u.name}:")]
    if fitting:
        name = max(fitting, key=len)
        return name, text[len(name) + 1 :]
    name, colon, rest = text.partition(":")
    if not colon:
        raise InputError("--demand", "must look like bob:cpu=4,memory=2Gi", text)
    return name, rest
