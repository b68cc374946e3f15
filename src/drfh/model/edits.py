"""What-if edits of a scenario: add, change and remove servers and users.

Names follow: what names a server or a user in restrictions, jobs, events and parameters gets the
new name, or goes with it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from drfh.errors import InputError, UnknownNameError
from drfh.model.cluster import Cluster, Server
from drfh.model.jobs import AddServers, ServerEvent
from drfh.model.resources import FrozenMap
from drfh.model.rules import RuleRecord, renamed
from drfh.model.scenario import Scenario
from drfh.model.users import User

__all__ = [
    "ReportedScenario",
    "add_group",
    "add_user",
    "claim",
    "fresh_name",
    "remove_servers",
    "remove_user",
    "set_group",
    "set_user",
    "tell_truth",
]


@dataclass(frozen=True)
class ReportedScenario:
    """A scenario as its users report it, and the true values.

    Attributes
    ----------
    scenario : Scenario
        What the mechanism sees.
    truths : mapping
        User → field (``demand``, ``tasks``, ``servers``) → true value, of what it lies about.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> state = ReportedScenario(load_scenario("paper-two-servers"))
    >>> lying = claim(state, "ann", demand={"cpu": 1})
    >>> lying.user("ann").demand, lying.true_user("ann").demand
    ({'cpu': 1.0}, {'cpu': 0.2, 'memory': 1.0})
    """

    scenario: Scenario
    truths: Mapping[str, Mapping[str, Any]] = FrozenMap()

    def group(self, name: str) -> Server:
        """Return a group of servers."""
        cluster = self.scenario.cluster
        if name not in cluster.group_index:
            raise UnknownNameError("server group", name, cluster.names)
        return cluster.servers[cluster.group_index[name]]

    def user(self, name: str) -> User:
        """Return a user as it reports itself."""
        for user in self.scenario.users:
            if user.name == name:
                return user
        raise UnknownNameError("user", name, [user.name for user in self.scenario.users])

    def true_user(self, name: str) -> User:
        """Return a user with its true values."""
        return replace(self.user(name), **self.truths.get(name, {}))


S = TypeVar("S", bound=ReportedScenario)


# Servers


def set_group(state: S, name: str, server: Server) -> S:
    """Replace a group of servers: another size, count, name or labels."""
    cluster = state.scenario.cluster
    old = state.group(name)
    servers = tuple(server if one is old else one for one in cluster.servers)
    if server.name == name and server.count >= old.count:
        return _with_cluster(state, Cluster(servers))
    return _with_cluster(state, Cluster(servers), _follow(cluster, old, server))


def add_group(state: S, server: Server) -> S:
    """Add a group of servers; an unnamed one is called ``added-1``.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> state = ReportedScenario(load_scenario("paper-two-servers"))
    >>> add_group(state, Server({"cpu": 4})).scenario.cluster.names
    ('high-memory', 'high-cpu', 'added-1')
    """
    cluster = state.scenario.cluster
    if server.name is None:
        server = replace(server, name=fresh_name("added", cluster.group_index))
    return _with_cluster(state, cluster.plus(server))


def remove_servers(state: S, name: str, count: int | None = None) -> S:
    """Remove the last `count` servers of a group, by default all.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> state = ReportedScenario(load_scenario("paper-two-servers"))
    >>> remove_servers(state, "high-cpu").scenario.cluster
    Cluster(1 server in 1 group: cpu 2, memory 12)
    """
    cluster, old = state.scenario.cluster, state.group(name)
    if len(cluster) == 1 and count in (None, old.count):
        raise InputError("servers", "must stay: there are no other servers")
    left = cluster.minus(name, count)
    new = left.servers[left.group_index[name]] if name in left.group_index else None
    return _with_cluster(state, left, _follow(cluster, old, new))


def fresh_name(stem: str, taken: Container[str]) -> str:
    """Return the first of ``stem-1``, ``stem-2``, … that is not taken.

    Examples
    --------
    >>> fresh_name("user", {"user-1"})
    'user-2'
    """
    number = 1
    while f"{stem}-{number}" in taken:
        number += 1
    return f"{stem}-{number}"


# Users


def set_user(state: S, name: str, user: User) -> S:
    """Replace a user: another demand, weight, limit, restriction, parent or name.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> state = ReportedScenario(load_scenario("paper-two-servers"))
    >>> heavier = set_user(state, "ann", replace(state.user("ann"), weight=2.0))
    >>> heavier.user("ann").weight
    2.0
    """
    scenario = state.scenario
    old = state.user(name)
    users = tuple(user if one is old else one for one in scenario.users)
    if user.name == name:
        return replace(state, scenario=replace(scenario, users=users))
    _check_new_user(scenario, user)

    def renamed(entries: Mapping[str, Any]) -> dict[str, Any]:
        return {user.name if key == name else key: entry for key, entry in entries.items()}

    jobs = tuple(replace(j, user=user.name) if j.user == name else j for j in scenario.jobs)
    parameters = _with_endowments(scenario, renamed)
    scenario = replace(scenario, users=users, jobs=jobs, parameters=parameters)
    return replace(state, scenario=scenario, truths=FrozenMap(renamed(state.truths)))


def add_user(state: S, user: User) -> S:
    """Add a user, after the others."""
    scenario = state.scenario
    _check_new_user(scenario, user)
    return replace(state, scenario=replace(scenario, users=(*scenario.users, user)))


def remove_user(state: S, name: str) -> S:
    """Remove a user and its jobs.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> state = remove_user(ReportedScenario(load_scenario("paper-two-servers")), "ann")
    >>> [user.name for user in state.scenario.users]
    ['bob']
    """
    scenario, gone = state.scenario, state.user(name)
    users = tuple(user for user in scenario.users if user is not gone)
    if not users:
        raise InputError("users", "must stay: there is nobody else")

    def without(entries: Mapping[str, Any]) -> dict[str, Any]:
        return {key: entry for key, entry in entries.items() if key != name}

    jobs = tuple(job for job in scenario.jobs if job.user != name)
    parameters = _with_endowments(scenario, without)
    scenario = replace(scenario, users=users, jobs=jobs, parameters=parameters)
    return replace(state, scenario=scenario, truths=FrozenMap(without(state.truths)))


def claim(state: S, name: str, **claims: Any) -> S:
    """Let a user report another `demand`, `tasks` or `servers`.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> state = ReportedScenario(load_scenario("paper-two-servers"))
    >>> claim(state, "ann", tasks=5.0).truths
    {'ann': {'tasks': None}}
    """
    reported, true = replace(state.user(name), **claims), state.true_user(name)
    fields = sorted({*claims, *state.truths.get(name, {})})
    truth = {f: getattr(true, f) for f in fields if getattr(true, f) != getattr(reported, f)}
    return _with_truth(set_user(state, name, reported), name, truth)


def tell_truth(state: S, name: str) -> S:
    """Let a user that lies report its true values."""
    true = state.true_user(name)
    if name not in state.truths:
        raise InputError(name, "must lie first, to tell the truth again")
    return _with_truth(set_user(state, name, true), name, {})


def _check_new_user(scenario: Scenario, user: User) -> None:
    if any(one.name == user.name for one in scenario.users):
        raise InputError("name", "must be unique", user.name)


def _with_endowments(
    scenario: Scenario, change: Callable[[Mapping[str, Any]], dict[str, Any]]
) -> Mapping[str, Any]:
    owned = scenario.parameters.get("endowments")
    if not isinstance(owned, Mapping):
        return scenario.parameters
    return {**scenario.parameters, "endowments": change(owned)}


def _with_truth(state: S, name: str, truth: Mapping[str, Any]) -> S:
    rest = {user: entry for user, entry in state.truths.items() if user != name}
    return replace(state, truths=FrozenMap({**rest, name: FrozenMap(truth)} if truth else rest))


# Names of servers, in restrictions and events

#: Maps a term of a restriction, or a name in an event, to its new form; None if it is gone.
_TermMap = Callable[[Any], Any]


def _follow(cluster: Cluster, old: Server, new: Server | None) -> _TermMap:
    """Return the function that maps names in `old` to names in `new`."""
    group = str(old.name)

    def follow(term: Any) -> Any:
        if isinstance(term, RuleRecord):
            return renamed(term, follow)  # type: ignore[arg-type]
        if not _inside(term, group, cluster):
            return term
        if new is None:
            return None
        index = (cluster.find_server(term) or (0, None))[1]
        gone = index is not None and index >= new.count
        return None if gone else str(new.name) + term[len(group) :]

    return follow


def _inside(term: Any, group: str, cluster: Cluster) -> bool:
    if not isinstance(term, str) or not term.startswith(group):
        return False
    found = cluster.find_server(term)
    if found is not None:
        return cluster.names[found[0]] == group
    # What is not up at the start may still be named by an event.
    return group in (term, term.rpartition("/")[0])


def _with_cluster(state: S, cluster: Cluster, term: _TermMap | None = None) -> S:
    scenario = state.scenario
    if term is None:
        return replace(state, scenario=replace(scenario, cluster=cluster))
    users = tuple(_restricted(user, term, user.name) for user in scenario.users)
    jobs = tuple(_restricted(job, term, f"a job of {job.user}") for job in scenario.jobs)
    events = tuple(e for event in scenario.events if (e := _event(event, term)) is not None)
    truths = {}
    for name, truth in state.truths.items():
        entry = dict(truth)
        if entry.get("servers") is not None:
            entry["servers"] = _terms(entry["servers"], term, f"{name} (in truth)")
        truths[name] = FrozenMap(entry)
    scenario = replace(scenario, cluster=cluster, users=users, jobs=jobs, events=events)
    return replace(state, scenario=scenario, truths=FrozenMap(truths))


def _restricted(owner: Any, term: _TermMap, whose: str) -> Any:
    kinds = getattr(owner, "kinds", ())
    if kinds:
        names = [f"{whose}/{kind.name or number}" for number, kind in enumerate(kinds, start=1)]
        new = [_restricted(kind, term, name) for kind, name in zip(kinds, names, strict=True)]
        return owner if new == list(kinds) else replace(owner, kinds=new)
    if owner.servers is None:
        return owner
    terms = _terms(owner.servers, term, whose)
    return owner if terms == owner.servers else replace(owner, servers=terms)


def _terms(terms: Any, term: _TermMap, whose: str) -> Any:
    kept = tuple(new for old in terms if (new := term(old)) is not None)
    if not kept:
        raise InputError("servers", f"must not take the last server that {whose} may use")
    return kept


def _event(event: ServerEvent, term: _TermMap) -> ServerEvent | None:
    if isinstance(event, AddServers):
        name = term(event.server.name)
        return event if name is None else replace(event, server=replace(event.server, name=name))
    name = term(event.name)
    return None if name is None else replace(event, name=name)
