"""The whole state as plain data, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from drfh.errors import InputError
from drfh.model.cluster import Server
from drfh.policies import Policy
from drfh.scheduler.core import CoreState
from drfh.scheduler.log import same_policy
from drfh.scheduler.nodes import Fleet
from drfh.scheduler.restrictions import from_json, to_json
from drfh.scheduler.units import Units

if TYPE_CHECKING:
    from drfh.scheduler.scheduler import Scheduler

__all__ = ["restore", "take"]

_FORMAT = "drfh scheduler 1"


def take(scheduler: Scheduler) -> dict[str, Any]:
    """Return a snapshot."""
    state = scheduler._core.dump()
    names = scheduler._task_names
    left = set(range(len(scheduler._user_names))) - set(scheduler._users.values())
    known = scheduler._restrictions
    past: dict[str, list[str]] = {"done": [], "cancelled": []}
    for name, ended in scheduler._past.items():
        past[ended].append(name)
    # Without the numbers of before: the names below are in the same order.
    kept = [field.name for field in fields(CoreState) if field.name != "tasks"]
    core = {name: getattr(state, name) for name in kept}
    # Only a core that goes down the tree keeps it.
    above = scheduler._groups
    core["groups"] = [list(row) for row in scheduler._group_rows]
    core["group"] = [-1 if name is None else above[name] for name in scheduler._parents]
    return {
        "format": _FORMAT,
        "policy": scheduler.policy.name,
        "own": list(scheduler.policy.own),
        "seed": scheduler._rules.seed,
        "resources": list(scheduler._units.resources),
        "units": list(scheduler._units.sizes),
        "servers": [
            {
                "name": member.name,
                "group": member.group,
                "up": up,
                "record": member.record.name,
                "resources": {r: a for r, a in member.record.resources.items() if a},
                "labels": dict(member.record.labels),
            }
            for member, up in zip(scheduler._fleet.members, scheduler._up, strict=True)
        ],
        "groups": list(scheduler._groups),
        "users": [
            {"name": name, "left": user in left, "parent": parent, "servers": to_json(terms)}
            for user, (name, parent, terms) in enumerate(
                zip(scheduler._user_names, scheduler._parents, scheduler._user_terms, strict=True)
            )
        ],
        "predicates": [sorted(accepted) for accepted in known.answers],
        "restrictions": [[to_json(first), to_json(second)] for first, second in known.pairs],
        "tasks": [names[task] for task in state.tasks],
        **past,
        "evictions": {
            "total": scheduler._evictions,
            "users": dict(scheduler._user_evictions),
            "tasks": dict(scheduler._task_evictions),
        },
        "core": core,
    }


def restore(
    scheduler: Scheduler,
    snapshot: Mapping[str, Any],
    policy: str | Policy | None,
    engine: str,
    log: bool,
) -> None:
    """Fill an object that has nothing yet."""
    if not isinstance(snapshot, Mapping) or snapshot.get("format") != _FORMAT:
        raise InputError("snapshot", f"must be what snapshot() returned ({_FORMAT!r})")
    _check_kinds(snapshot)
    try:
        _fill(scheduler, snapshot, policy, engine, log)
    except InputError:
        raise
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
        rule = f"must be what snapshot() returned ({type(error).__name__}: {error})"
        raise InputError("snapshot", rule) from error
    if log:
        scheduler._records.append({"call": "restore", "snapshot": dict(snapshot)})


def _check_kinds(snapshot: Mapping[str, Any]) -> None:
    """Raise unless what should be a list, or a mapping, is one."""
    lists = ("resources", "units", "servers", "groups", "users", "predicates", "restrictions",
             "tasks", "done", "cancelled")  # fmt: skip
    for name in lists:
        if not isinstance(snapshot.get(name), (list, tuple)):
            raise InputError(f"snapshot.{name}", "must be a list", snapshot.get(name))
    for name in ("evictions", "core"):
        if not isinstance(snapshot.get(name), Mapping):
            raise InputError(f"snapshot.{name}", "must be a mapping", snapshot.get(name))


def _fill(
    scheduler: Scheduler,
    saved: Mapping[str, Any],
    policy: str | Policy | None,
    engine: str,
    log: bool,
) -> None:
    chosen = same_policy(saved, policy, "snapshot")
    fleet = Fleet.__new__(Fleet)
    fleet.members, fleet.position = [], {}
    for server in saved["servers"]:
        record = Server(server["resources"], name=server["record"], labels=server["labels"])
        fleet.add(server["name"], record, server["group"])
    units = Units(tuple(saved["resources"]), tuple(saved["units"]))
    scheduler._open(fleet, units, chosen, saved["seed"], engine, log)
    scheduler._up = [bool(server["up"]) for server in saved["servers"]]
    known = scheduler._restrictions
    for accepted in saved["predicates"]:
        known.remember(accepted)
    core = dict(saved["core"])
    core["groups"] = [(int(parent), float(weight)) for parent, weight in core["groups"]]
    wanted = {field.name for field in fields(CoreState)} - {"tasks"}
    if set(core) != wanted:
        odd = ", ".join(sorted(wanted ^ set(core)))
        raise InputError("snapshot.core", f"must have the fields of this version ({odd})")
    for pair, row in zip(saved["restrictions"], core["allowed"], strict=True):
        first, second = (known.read(from_json(terms)) for terms in pair)
        known.add((first, second), list(row))
    scheduler._group_rows = core["groups"]
    scheduler._groups = {name: number for number, name in enumerate(saved["groups"])}
    for number, user in enumerate(saved["users"]):
        if not user["left"]:
            scheduler._users[user["name"]] = number
        scheduler._user_names.append(user["name"])
        scheduler._parents.append(user["parent"])
        scheduler._user_terms.append(known.read(from_json(user["servers"])))
    scheduler._weights = [float(weight) for weight in core["weight"]]
    for need, restriction in zip(core["need"], core["restriction"], strict=True):
        scheduler._name_shape(tuple(need), restriction)
    scheduler._totals = [sum(column) for column in zip(*core["capacity"], strict=True)]
    names = list(saved["tasks"])
    scheduler._task_names = names
    scheduler._owners = [scheduler._user_names[user] for user in core["user"]]
    scheduler._past = {name: ended for ended in ("done", "cancelled") for name in saved[ended]}
    scheduler._take_over(CoreState(**core, tasks=list(range(len(names)))))
    evictions = saved["evictions"]
    scheduler._evictions = int(evictions["total"])
    scheduler._user_evictions = dict(evictions["users"])
    scheduler._task_evictions = dict(evictions["tasks"])
