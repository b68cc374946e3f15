"""Log of a scheduler: its first record, and its replay."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from drfh.errors import InputError, UnknownNameError
from drfh.model.cluster import Cluster, Server
from drfh.policies import Policy, find_policy
from drfh.scheduler.nodes import Restrictions, from_json

if TYPE_CHECKING:
    from drfh.scheduler.scheduler import Scheduler
    from drfh.scheduler.state import Engine, SchedulerState

__all__ = ["first_record", "keeps_log", "replay", "same_policy"]

_CALLS = (
    "add_user", "set_weight", "remove_user", "submit", "cancel", "update", "place", "finish",
    "adopt", "unplace", "add_server", "remove_server", "resize_server",
)  # fmt: skip


def keeps_log(log: bool | None, remember: bool) -> bool:
    """Return whether there is a log: by default if ended tasks are remembered.

    Examples
    --------
    >>> keeps_log(None, remember=True), keeps_log(None, remember=False)
    (True, False)
    """
    if log and not remember:
        raise InputError("log", "must be False with remember=False", log)
    return bool(remember if log is None else log)


def first_record(
    cluster: Cluster,
    policy: Policy,
    seed: int,
    tree: Mapping[str, tuple[str | None, float]],
) -> dict[str, Any]:
    """Return the entry that starts a log."""
    sizes = cluster.capacity.tolist()
    record: dict[str, Any] = {
        "call": "Scheduler",
        "policy": policy.name,
        "own": list(policy.own),
        "seed": seed,
        "servers": [
            {
                "name": server.name,
                # With the zeros, so that the order of resources is the same again.
                "resources": dict(zip(cluster.resources, size, strict=True)),
                "count": server.count,
                "labels": dict(server.labels),
            }
            for server, size in zip(cluster.servers, sizes, strict=True)
        ],
    }
    if tree:
        record["groups"] = {
            name: {"parent": parent, "weight": weight} for name, (parent, weight) in tree.items()
        }
    return record


def same_policy(written: Mapping[str, Any], given: str | Policy | None, field: str) -> Policy:
    """Return the policy of a log or snapshot, which may have functions that only `given` has."""
    name = str(written["policy"])
    if given is None:
        if written["own"]:
            parts = ", ".join(written["own"])
            rule = f"must be given again: {name} has functions of your own ({parts})"
            raise InputError("policy", rule)
        return find_policy(name)
    policy = find_policy(given)
    if policy.name != name or list(policy.own) != list(written["own"]):
        rule = (
            f"must be that of the {field}, {name} (`drfh simulate` answers what another would do)"
        )
        raise InputError("policy", rule, policy.name)
    return policy


def replay(
    cls: type[Scheduler],
    log: Sequence[Mapping[str, Any]],
    policy: str | Policy | None,
    engine: Engine,
    state_of: Callable[[Scheduler], SchedulerState],
) -> Scheduler:
    """Make the calls of a log again and return the scheduler.

    Parameters
    ----------
    state_of
        Returns the state of a scheduler: answers of predicates are restored there.
    """
    if isinstance(log, (str, bytes, Mapping)) or not isinstance(log, Sequence) or not log:
        raise InputError("log", "must be a list of records, the first of which starts it", log)
    scheduler: Scheduler | None = None
    for position, record in enumerate(log):
        if not isinstance(record, Mapping) or not isinstance(record.get("call"), str):
            raise InputError(f"log[{position}]", "must be a record with a call", record)
        try:
            if scheduler is None:
                scheduler = _restart(cls, record, policy, engine)
            else:
                _repeat(scheduler, record, state_of(scheduler).restrictions)
        except InputError as error:
            raise error.within(f"log[{position}]") from None
        except (KeyError, TypeError, AttributeError) as error:
            rule = f"must be a record of {record['call']} ({type(error).__name__}: {error})"
            raise InputError(f"log[{position}]", rule) from error
    assert scheduler is not None
    return scheduler


def _restart(
    cls: type[Scheduler], record: Mapping[str, Any], policy: str | Policy | None, engine: Engine
) -> Scheduler:
    if record["call"] == "restore":
        return cls.restore(record["snapshot"], policy=policy, engine=engine)
    if record["call"] != "Scheduler":
        raise UnknownNameError("call", record["call"], ["Scheduler", "restore"])
    cluster = Cluster(
        Server(s["resources"], name=s["name"], count=s["count"], labels=s["labels"])
        for s in record["servers"]
    )
    chosen = same_policy(record, policy, "log")
    return cls(cluster, chosen, seed=record["seed"], engine=engine, groups=record.get("groups"))


def _repeat(scheduler: Scheduler, record: Mapping[str, Any], restrictions: Restrictions) -> None:
    fields = dict(record)
    call = fields.pop("call")
    if call not in _CALLS:
        raise UnknownNameError("call", call, _CALLS)
    for accepted in fields.pop("accepted", ()):
        restrictions.remember(accepted)
    if "servers" in fields:
        fields["servers"] = from_json(fields["servers"])
    if call == "add_server":
        restrictions.expect(fields["name"], fields.pop("accepting", ()))
    if call == "place":
        placed = len(scheduler.place(fields.get("limit")))
        if placed != fields["placed"]:
            rule = f"must start {fields['placed']} tasks, as when it was written"
            raise InputError("place", rule, placed)
    elif call in ("finish", "cancel"):
        getattr(scheduler, call)(*fields["tasks"])
    else:
        getattr(scheduler, call)(**fields)
