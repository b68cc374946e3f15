"""Snapshot of a scheduler: its state as plain data, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from drfh.errors import InputError
from drfh.model.cluster import Server
from drfh.model.resources import Units
from drfh.policies import Policy
from drfh.scheduler.core import CoreState
from drfh.scheduler.log import same_policy
from drfh.scheduler.nodes import NodeTable, from_json, to_json
from drfh.scheduler.state import SchedulerState
from drfh.scheduler.validation import check_snapshot

__all__ = ["read_snapshot", "write_snapshot"]

_FORMAT = "drfh scheduler 1"


def write_snapshot(state: SchedulerState) -> dict[str, Any]:
    """Return a state as plain data."""
    saved = state.core.dump()
    left = set(range(len(state.user_names))) - set(state.users.values())
    known = state.restrictions
    ended: dict[str, list[str]] = {"done": [], "cancelled": []}
    for name, how in state.ended.items():
        ended[how].append(name)
    # Without the numbers of before: the names below are in the same order.
    kept = [field.name for field in fields(CoreState) if field.name != "tasks"]
    core = {name: getattr(saved, name) for name in kept}
    # Only a core that goes down the tree keeps it.
    above = state.groups
    core["groups"] = [list(row) for row in state.group_rows]
    core["group"] = [-1 if name is None else above[name] for name in state.parents]
    return {
        "format": _FORMAT,
        "policy": state.rules.policy.name,
        "own": list(state.rules.policy.own),
        "seed": state.rules.seed,
        "resources": list(state.units.resources),
        "units": list(state.units.sizes),
        "servers": [
            {
                "name": entry.name,
                "group": entry.group,
                "up": up,
                "record": entry.record.name,
                "resources": {r: a for r, a in entry.record.resources.items() if a},
                "labels": dict(entry.record.labels),
            }
            for entry, up in zip(state.nodes.entries, state.up, strict=True)
        ],
        "groups": list(state.groups),
        "users": [
            {"name": name, "left": user in left, "parent": parent, "servers": to_json(terms)}
            for user, (name, parent, terms) in enumerate(
                zip(state.user_names, state.parents, state.user_terms, strict=True)
            )
        ],
        "predicates": [sorted(accepted) for accepted in known.answers],
        "restrictions": [[to_json(first), to_json(second)] for first, second in known.pairs],
        "tasks": [state.task_names[task] for task in saved.tasks],
        **ended,
        "evictions": {
            "total": state.evictions,
            "users": dict(state.user_evictions),
            "tasks": dict(state.task_evictions),
        },
        "core": core,
    }


def read_snapshot(
    snapshot: Mapping[str, Any], policy: str | Policy | None, engine: str
) -> SchedulerState:
    """Return the state of a snapshot."""
    if not isinstance(snapshot, Mapping) or snapshot.get("format") != _FORMAT:
        raise InputError("snapshot", f"must be what snapshot() returned ({_FORMAT!r})")
    check_snapshot(snapshot)
    return _state(snapshot, policy, engine)


def _state(saved: Mapping[str, Any], policy: str | Policy | None, engine: str) -> SchedulerState:
    chosen = same_policy(saved, policy, "snapshot")
    nodes = NodeTable()
    for server in saved["servers"]:
        record = Server(server["resources"], name=server["record"], labels=server["labels"])
        nodes.add(server["name"], record, server["group"])
    units = Units(tuple(saved["resources"]), tuple(saved["units"]))
    state = SchedulerState(nodes, units, chosen, saved["seed"], engine)
    state.up = [server["up"] for server in saved["servers"]]
    known = state.restrictions
    for accepted in saved["predicates"]:
        known.remember(accepted)
    core = dict(saved["core"])
    core["groups"] = [(parent, float(weight)) for parent, weight in core["groups"]]
    for pair, row in zip(saved["restrictions"], core["allowed"], strict=True):
        first, second = (known.read(from_json(terms)) for terms in pair)
        known.add((first, second), list(row))
    state.group_rows = core["groups"]
    state.groups = {name: number for number, name in enumerate(saved["groups"])}
    for number, user in enumerate(saved["users"]):
        if not user["left"]:
            state.users[user["name"]] = number
        state.user_names.append(user["name"])
        state.parents.append(user["parent"])
        state.user_terms.append(known.read(from_json(user["servers"])))
    state.weights = core["weight"] = [float(weight) for weight in core["weight"]]
    for need, restriction in zip(core["need"], core["restriction"], strict=True):
        state.enter_shape(tuple(need), restriction)
    state.totals = [sum(column) for column in zip(*core["capacity"], strict=True)]
    names = list(saved["tasks"])
    state.task_names = names
    state.owners = [state.user_names[user] for user in core["user"]]
    state.ended = {name: ended for ended in ("done", "cancelled") for name in saved[ended]}
    state.load_core(CoreState(**core, tasks=list(range(len(names)))))
    evictions = saved["evictions"]
    state.evictions = evictions["total"]
    state.user_evictions = dict(evictions["users"])
    state.task_evictions = dict(evictions["tasks"])
    return state
