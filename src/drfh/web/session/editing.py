"""Changes to a scenario that keep it whole: what names a thing follows it, or goes with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from drfh.errors import InputError, UnknownNameError
from drfh.model.cluster import Cluster, Server
from drfh.model.jobs import AddServers, ServerEvent
from drfh.model.resources import FrozenMap
from drfh.model.scenario import Scenario
from drfh.model.users import User

__all__ = [
    "WorkbookState",
    "add_group",
    "add_user",
    "group_of",
    "put_group",
    "put_user",
    "remove_group",
    "remove_user",
    "unrestricted",
    "user_of",
]

#: How many resources there may be: each is a column of every table.
MOST_RESOURCES = 100


@dataclass(frozen=True, slots=True)
class WorkbookState:
    """A scenario as the users report it, and what is really true of those who lie.

    Attributes
    ----------
    scenario : Scenario
        What the mechanism sees.
    truths : mapping
        User → field (``demand``, ``tasks``, ``servers``) → true value, of what it lies about.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> WorkbookState(load_scenario("paper-two-servers")).really("ann").demand
    {'cpu': 0.2, 'memory': 1.0}
    """

    scenario: Scenario
    truths: Mapping[str, Mapping[str, Any]] = FrozenMap()

    def really(self, user: str) -> User:
        """Return the true record of a user."""
        record = user_of(self, user)
        return replace(record, **self.truths.get(user, {}))

    def with_truth(self, user: str, truth: Mapping[str, Any]) -> WorkbookState:
        """Return the state in which this is what a user lies about."""
        rest = {name: entry for name, entry in self.truths.items() if name != user}
        return replace(self, truths=FrozenMap({**rest, user: FrozenMap(truth)} if truth else rest))


def group_of(state: WorkbookState, name: str) -> Server:
    """Return a group of servers."""
    cluster = state.scenario.cluster
    if name not in cluster.group_index:
        raise UnknownNameError("server group", name, cluster.names)
    return cluster.servers[cluster.group_index[name]]


def user_of(state: WorkbookState, name: str) -> User:
    """Return a user as it reports itself."""
    for user in state.scenario.users:
        if user.name == name:
            return user
    raise UnknownNameError("user", name, [user.name for user in state.scenario.users])


def put_group(state: WorkbookState, name: str, server: Server) -> WorkbookState:
    """Return the state with another record for a group.

    What names the group follows a new name; what names a server that goes no longer does.
    """
    cluster = state.scenario.cluster
    position = cluster.group_index[name]
    old = cluster.servers[position]
    servers = (*cluster.servers[:position], server, *cluster.servers[position + 1 :])
    new = str(server.name)

    def followed(term: Any) -> Any:
        if not _inside(term, name, cluster):
            return term
        index = (cluster.find_server(term) or (0, None))[1]
        return None if index is not None and index >= server.count else new + term[len(name) :]

    same = new == name and server.count >= old.count
    return _with(state, _cluster(servers), None if same else followed)


def add_group(state: WorkbookState, server: Server) -> WorkbookState:
    """Return the state with one more group."""
    cluster = state.scenario.cluster
    if server.name is None:
        number = 1
        while f"added-{number}" in cluster.group_index:
            number += 1
        server = replace(server, name=f"added-{number}")
    return _with(state, _cluster((*cluster.servers, server)))


def remove_group(state: WorkbookState, name: str) -> WorkbookState:
    """Return the state without a group; restrictions and events no longer name it."""
    cluster = state.scenario.cluster
    if len(cluster) == 1:
        raise InputError("servers", "must stay: there are no other servers")

    def kept(term: Any) -> Any:
        return None if _inside(term, name, cluster) else term

    left = _cluster(tuple(server for server in cluster.servers if server.name != name))
    return _with(state, left, kept)


def put_user(state: WorkbookState, name: str, user: User) -> WorkbookState:
    """Return the state with another record for a user; its jobs follow a new name."""
    scenario, truths = state.scenario, state.truths
    users = tuple(user if one.name == name else one for one in scenario.users)
    if user.name == name:
        return replace(state, scenario=replace(scenario, users=users))
    if any(one.name == user.name for one in scenario.users):
        raise InputError("name", "must be unique", user.name)
    jobs = tuple(replace(j, user=user.name) if j.user == name else j for j in scenario.jobs)
    owned = scenario.parameters.get("endowments")
    parameters = dict(scenario.parameters)
    if isinstance(owned, Mapping) and name in owned:
        parameters["endowments"] = {user.name if k == name else k: v for k, v in owned.items()}
    lies = FrozenMap({user.name if k == name else k: v for k, v in truths.items()})
    return WorkbookState(replace(scenario, users=users, jobs=jobs, parameters=parameters), lies)


def add_user(state: WorkbookState, user: User) -> WorkbookState:
    """Return the state with one more user."""
    scenario = state.scenario
    if any(one.name == user.name for one in scenario.users):
        raise InputError("name", "must be unique", user.name)
    return replace(state, scenario=replace(scenario, users=(*scenario.users, user)))


def remove_user(state: WorkbookState, name: str) -> WorkbookState:
    """Return the state without a user and its jobs."""
    scenario = state.scenario
    users = tuple(user for user in scenario.users if user.name != name)
    if not users:
        raise InputError("users", "must stay: there is nobody else")
    parameters = dict(scenario.parameters)
    owned = parameters.get("endowments")
    if isinstance(owned, Mapping) and name in owned:
        parameters["endowments"] = {k: v for k, v in owned.items() if k != name}
    jobs = tuple(job for job in scenario.jobs if job.user != name)
    changed = replace(scenario, users=users, jobs=jobs, parameters=parameters)
    return replace(state, scenario=changed).with_truth(name, {})


def unrestricted(user: User) -> User:
    """Return a user that may use every server.

    Examples
    --------
    >>> unrestricted(User("ann", {"cpu": 1}, servers="big"))
    User('ann', {'cpu': 1.0})
    """
    return user if user.servers is None else replace(user, servers=None)


def _cluster(servers: tuple[Server, ...]) -> Cluster:
    cluster = Cluster(servers)
    if len(cluster.resources) > MOST_RESOURCES:
        rule = f"must have at most {MOST_RESOURCES} resources in all"
        raise InputError("servers", rule, len(cluster.resources))
    return cluster


def _inside(term: Any, group: str, cluster: Cluster) -> bool:
    """Return whether a term of a restriction, or the name in an event, is in a group."""
    if not isinstance(term, str) or not term.startswith(group):
        return False
    found = cluster.find_server(term)
    if found is not None:
        return cluster.names[found[0]] == group
    # What is not up at the start may still be named by an event.
    return group in (term, term.rpartition("/")[0])


def _with(
    state: WorkbookState, cluster: Cluster, term: Callable[[Any], Any] | None = None
) -> WorkbookState:
    """Return the state with another cluster; `term` gives new names, or None for those gone."""
    scenario = state.scenario
    if term is None:
        return replace(state, scenario=replace(scenario, cluster=cluster))
    users = tuple(_restricted(user, term, user.name) for user in scenario.users)
    jobs = tuple(_restricted(job, term, f"a job of {job.user}")
                 for job in scenario.jobs)  # fmt: skip
    events = tuple(e for event in scenario.events if (e := _event(event, term)) is not None)
    truths = {}
    for name, truth in state.truths.items():
        entry = dict(truth)
        if entry.get("servers") is not None:
            entry["servers"] = _terms(entry["servers"], term, f"{name} (in truth)")
        truths[name] = FrozenMap(entry)
    changed = replace(scenario, cluster=cluster, users=users, jobs=jobs, events=events)
    return WorkbookState(changed, FrozenMap(truths))


def _restricted(owner: Any, term: Callable[[Any], Any], whose: str) -> Any:
    if owner.servers is None:
        return owner
    terms = _terms(owner.servers, term, whose)
    return owner if terms == owner.servers else replace(owner, servers=terms)


def _terms(terms: Any, term: Callable[[Any], Any], whose: str) -> Any:
    kept = tuple(new for old in terms if (new := term(old)) is not None)
    if not kept:
        raise InputError("servers", f"must not take the last server that {whose} may use")
    return kept


def _event(event: ServerEvent, term: Callable[[Any], Any]) -> ServerEvent | None:
    if isinstance(event, AddServers):
        name = term(event.server.name)
        return event if name is None else replace(event, server=replace(event.server, name=name))
    name = term(event.name)
    return None if name is None else replace(event, name=name)
