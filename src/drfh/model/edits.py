"""What if: small changes to a scenario, written the way people say them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from drfh.errors import InputError, UnknownNameError
from drfh.model.cluster import Cluster, Server
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
    """Return the scenario after some changes.

    Parameters
    ----------
    scenario
        Before.
    add
        Servers, such as ``10x cpu=8,memory=512Gi``, or ``10x NAME`` for more of a group.
    remove
        Groups, ``NAME`` or ``NAME:COUNT``.
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
    cluster = scenario.cluster
    for text in remove:
        cluster = _without(cluster, text)
    for text in add:
        cluster = _with(cluster, text)
    users = {user.name: user for user in scenario.users}
    for text in weight:
        name, equals, value = text.rpartition("=")
        if not equals:
            raise InputError("--weight", "must look like ann=2", text)
        user = _named(users, name, "--weight")
        users[name] = _replaced(user, "--weight", weight=parse_quantity(value, f"--weight {name}"))
    for text in tasks:
        name, equals, value = text.rpartition("=")
        if not equals:
            raise InputError("--tasks", "must look like ann=100", text)
        user = _named(users, name, "--tasks")
        users[name] = _replaced(user, "--tasks", tasks=value or None)
    for text in demand:
        name, amounts = _user_and_rest(users, text)
        user = users[name]
        new = dict(user.demand)
        for item in amounts.split(","):
            resource, equals, value = item.strip().partition("=")
            if not equals or not resource:
                raise InputError("--demand", "must look like bob:cpu=4,memory=2Gi", text)
            new[resource] = parse_quantity(value, f"--demand {name}:{resource}")
        users[name] = _replaced(user, "--demand", demand=new)
    return replace(scenario, cluster=cluster, users=tuple(users.values()))


def _about(option: str, error: InputError) -> InputError:
    return InputError(f"{option}: {error.field}", error.rule, error.value)


def _replaced(user: User, option: str, **values: object) -> User:
    try:
        return replace(user, **values)  # type: ignore[arg-type]
    except InputError as error:
        raise _about(f"{option} {user.name}", error) from None


def _without(cluster: Cluster, text: str) -> Cluster:
    if text in cluster.group_index:
        return cluster.minus(text)
    name, colon, number = text.rpartition(":")
    if not colon or name not in cluster.group_index:
        raise UnknownNameError("--remove", name if colon else text, cluster.names)
    if not (number.isascii() and number.isdigit()):
        raise InputError("--remove", "must look like NAME or NAME:COUNT", text)
    try:
        return cluster.minus(name, int(number))
    except InputError as error:
        raise _about(f"--remove {name}", error) from None


def _with(cluster: Cluster, text: str) -> Cluster:
    found = _SERVERS.fullmatch(text)
    if found is None or found[2] not in cluster.group_index:
        return cluster.plus(parse_servers(text, _fresh_name(cluster)))
    position = cluster.group_index[found[2]]
    servers = list(cluster.servers)
    count = servers[position].count + int(found[1] or 1)
    servers[position] = replace(servers[position], count=count)
    return Cluster(servers)


def _fresh_name(cluster: Cluster) -> str:
    number = 1
    while f"added-{number}" in cluster.group_index:
        number += 1
    return f"added-{number}"


def _named(users: dict[str, User], name: str, option: str) -> User:
    if name not in users:
        raise UnknownNameError(option, name, users)
    return users[name]


def _user_and_rest(users: dict[str, User], text: str) -> tuple[str, str]:
    # A user's name may itself contain a colon, so the longest name that fits wins.
    fitting = [name for name in users if text.startswith(f"{name}:")]
    if fitting:
        name = max(fitting, key=len)
        return name, text[len(name) + 1 :]
    name, colon, _ = text.partition(":")
    if not colon:
        raise InputError("--demand", "must look like bob:cpu=4,memory=2Gi", text)
    raise UnknownNameError("--demand", name, users)
