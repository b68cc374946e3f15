"""Edits of a scenario as the options --add, --remove, --weight, --demand and --tasks have them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from drfh.errors import InputError, UnknownNameError
from drfh.model.cluster import Server
from drfh.model.edits import ReportedScenario, add_group, remove_servers, set_group, set_user
from drfh.model.resources import FrozenMap, parse_quantity
from drfh.model.rules import parse_taint
from drfh.model.scenario import Scenario
from drfh.model.users import User

__all__ = [
    "changed",
    "parse_servers",
    "parse_weight_option",
]

#: Labels that tell a machine from others of its kind.
_OWN_LABELS = ("kubernetes.io/hostname",)

_SERVERS = re.compile(r"\s*(?:(\d+)\s*[x×]\s*)?(.*?)\s*")


def parse_servers(
    text: str, name: str | None = None, *, like: Callable[[str], Server] | None = None
) -> Server:
    """Read servers such as ``10x cpu=8,memory=512Gi,zone:a`` (labels with a colon).

    Parameters
    ----------
    text
        The servers; a taint is ``taint:KEY=VALUE:EFFECT``.
    name
        What to call them.
    like
        Finds the servers of ``like=NAME``, whose labels, taints and resources they have unless
        they are given others.

    Examples
    --------
    >>> parse_servers("10x cpu=8,memory=512Gi,zone:a", "new")
    Server({'cpu': 8.0, 'memory': 549755813888.0}, name='new', count=10, labels={'zone': 'a'})
    >>> parse_servers("gpu=4,taint:gpu=yes:NoSchedule").labels
    {'taint:gpu:NoSchedule': 'yes'}
    """
    rule = "must look like '10x cpu=8,memory=512Gi' (labels as zone:a, taints as taint:gpu=yes)"
    found = _SERVERS.fullmatch(text)
    count, items = (found[1], found[2]) if found else (None, "")
    resources: dict[str, float] = {}
    labels: dict[str, str] = {}
    model: Server | None = None
    for item in map(str.strip, items.split(",")):
        if item.startswith("taint:"):
            label, value = parse_taint(item.removeprefix("taint:"))
            labels[label] = value
            continue
        key, equals, value = item.partition("=")
        if key == "like" and like is not None:
            model = like(value.strip())
        elif equals and key and not any(letter.isspace() for letter in key):
            if key in resources:
                raise InputError("--add", f"must name {key} once", text)
            if not value.lstrip("+-.")[:1].isdigit():
                raise InputError(
                    f"--add {key}", f"must be an amount (a label is {key}:{value})", value
                )
            resources[key] = parse_quantity(value, f"--add {key}")
        else:
            key, colon, value = item.partition(":")
            if not (colon and key and value):
                raise InputError("--add", rule, text)
            labels[key] = value
    if model is not None:
        resources = {**model.resources, **resources}
        common = {key: value for key, value in model.labels.items() if key not in _OWN_LABELS}
        labels = {**common, **labels}
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
    nodes: Mapping[str, Sequence[str]] = FrozenMap(),
) -> Scenario:
    """Return the scenario after edits given as the command line's options.

    Parameters
    ----------
    scenario
        Before.
    add
        Servers, such as ``10x cpu=8,memory=512Gi``, or ``10x NAME`` for more of a group; see
        :func:`parse_servers`.
    remove
        Groups, ``NAME`` or ``NAME:COUNT``. They are removed before others are added.
    weight
        Weights, ``USER=WEIGHT``.
    demand
        Demands, ``USER:RESOURCE=AMOUNT`` with more resources after commas. A user with several
        kinds of tasks is edited kind by kind: ``USER/KIND``.
    tasks
        Numbers of tasks, ``USER=N``, or ``USER=`` for no end; ``USER/KIND`` here too.
    nodes
        Names of the nodes of groups: each stands for its group, and may be removed by itself.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> changed(load_scenario("paper-two-servers"), add=["2x cpu=8,memory=8"]).cluster
    Cluster(4 servers in 3 groups: cpu 30, memory 30)
    """
    state = ReportedScenario(scenario)
    groups = {node: group for group, names in nodes.items() for node in names}
    for number, text in enumerate(remove):
        if text in groups and text in remove[:number]:
            raise InputError("--remove", "must name a node once", text)
        if (node := text.rpartition(":")[0]) in groups and text not in groups:
            raise InputError("--remove", f"must not count {node}, one node of {groups[node]}", text)
        state = _remove(state, f"{groups[text]}:1" if text in groups else text)
    left = state.scenario.cluster.resources
    for user in state.scenario.users if remove else ():
        for one in user.kinds or (user,):
            gone = next((r for r, amount in one.demand.items() if amount and r not in left), None)
            if gone is not None:
                rule = f"must leave a server with {gone}, which {user.name} needs"
                raise InputError("--remove", rule, ", ".join(remove))
    for text in add:
        state = _add(state, text, groups)
    for text in weight:
        name, entitled = parse_weight_option(text)
        user = _named(state, name, "--weight")
        state = _replace_user(state, user, "--weight", weight=entitled)
    for text in tasks:
        name, equals, value = text.rpartition("=")
        if not equals:
            raise InputError("--tasks", "must look like ann=100", text)
        user, kind = _find_kind(state, name, "--tasks")
        state = _replace_kind(state, user, kind, "--tasks", tasks=value or None)
    for text in demand:
        name, amounts = _name_and_rest(state, text)
        user, kind = _find_kind(state, name, "--demand")
        new = dict(user.demand if kind is None else user.kinds[kind].demand)
        for item in amounts.split(","):
            resource, equals, value = item.strip().partition("=")
            if not equals or not resource:
                raise InputError("--demand", "must look like bob:cpu=4,memory=2Gi", text)
            new[resource] = parse_quantity(value, f"--demand {name}:{resource}")
        state = _replace_kind(state, user, kind, "--demand", demand=new)
    return state.scenario


def parse_weight_option(text: str) -> tuple[str, float]:
    """Read a weight.

    Examples
    --------
    >>> parse_weight_option("ann=2")
    ('ann', 2.0)
    """
    name, equals, value = text.rpartition("=")
    if not equals:
        raise InputError("--weight", "must look like ann=2", text)
    if value.lstrip().startswith("-"):
        raise InputError(f"--weight {name}", "must be a number > 0", value)
    return name, parse_quantity(value, f"--weight {name}")


def _kind_names(user: User) -> list[str]:
    """Return the kinds of a user as edits name them; nothing if it has one kind."""
    return [f"{user.name}/{kind.name or number}" for number, kind in enumerate(user.kinds, 1)]


def _find_kind(state: ReportedScenario, name: str, option: str) -> tuple[User, int | None]:
    """Return the user and the position of the kind that a name means; None for an only kind."""
    named = next((user for user in state.scenario.users if user.name == name), None)
    for user in state.scenario.users:
        kinds = _kind_names(user)
        if named is None and name in kinds:
            return user, kinds.index(name)
        if user is named and kinds:
            rule = f"must name one kind of tasks of {name}: {'; '.join(kinds)}"
            raise InputError(option, rule, name)
    if named is None:
        known = [n for u in state.scenario.users for n in (_kind_names(u) or [u.name])]
        raise UnknownNameError(option, name, known)
    return named, None


def _replace_kind(
    state: ReportedScenario, user: User, kind: int | None, option: str, **values: Any
) -> ReportedScenario:
    """Give a user, or one of its kinds, other values."""
    if kind is None:
        return _replace_user(state, user, option, **values)
    kinds = list(user.kinds)
    try:
        kinds[kind] = replace(kinds[kind], **values)
    except InputError as error:
        raise _about(f"{option} {_kind_names(user)[kind]}", error) from None
    return _replace_user(state, user, option, kinds=kinds)


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


def _add(state: ReportedScenario, text: str, groups: Mapping[str, str]) -> ReportedScenario:
    def like(name: str) -> Server:
        try:
            return state.group(groups.get(name, name))
        except UnknownNameError as error:
            error.field = "--add like"
            raise

    found = _SERVERS.fullmatch(text)
    name = groups.get(found[2], found[2]) if found else ""
    known = state.scenario.cluster.group_index
    if found and name and name not in known and not any(sign in name for sign in "=:, "):
        raise UnknownNameError("--add", name, known)
    if found is None or name not in known:
        return add_group(state, parse_servers(text, like=like))
    server = state.group(name)
    return set_group(state, name, replace(server, count=server.count + int(found[1] or 1)))


def _name_and_rest(state: ReportedScenario, text: str) -> tuple[str, str]:
    # A name may itself contain a colon, so the longest name that fits wins.
    names = [n for u in state.scenario.users for n in (u.name, *_kind_names(u))]
    fitting = [name for name in names if text.startswith(f"{name}:")]
    if fitting:
        name = max(fitting, key=len)
        return name, text[len(name) + 1 :]
    name, colon, rest = text.partition(":")
    if not colon:
        raise InputError("--demand", "must look like bob:cpu=4,memory=2Gi", text)
    return name, rest
