"""What only a cluster and the events together can tell: which servers there are, and when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from drfh.cluster import Cluster, Server
from drfh.errors import InputError
from drfh.jobs.events import AddServers, RemoveServers, ResizeServer, ServerEvent
from drfh.workload import unknown_server

__all__ = ["check_events", "check_names", "everything_up"]


@dataclass(slots=True)
class _Group:
    """A group that is up: how many servers it came with, and which of them left."""

    count: int
    left: set[int] = field(default_factory=set)


class _Up:
    """The names of the servers that are up, as events change them."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        self.groups = {name: _Group(count) for name, count in counts.items()}
        # Only these can be taken for a server of another group.
        self.with_slash = {name for name in counts if "/" in name}

    def find(self, name: str) -> tuple[str, int | None] | None:
        """Return (group, index inside it); index None for a whole group."""
        if name in self.groups:
            return name, None
        found = _single(name)
        group = self.groups.get(found[0]) if found else None
        if found is None or group is None or found[1] >= group.count or found[1] in group.left:
            return None
        return found[0], (found[1] if group.count > 1 else None)

    def single(self, name: str) -> bool:
        found = self.find(name)
        return found is not None and (found[1] is not None or self.groups[found[0]].count == 1)

    def remove(self, name: str) -> bool:
        found = self.find(name)
        if found is None:
            return False
        group = self.groups[found[0]]
        if found[1] is not None:
            group.left.add(found[1])
        if found[1] is None or len(group.left) == group.count:
            del self.groups[found[0]]
            self.with_slash.discard(found[0])
        return True

    def add(self, name: str, count: int) -> bool:
        if self.find(name) is not None:
            return False
        inside = (_single(other) for other in self.with_slash)
        if any(one is not None and one[0] == name and one[1] < count for one in inside):
            return False
        self.groups[name] = _Group(count)
        if "/" in name:
            self.with_slash.add(name)
        return True

    def counts(self) -> dict[str, int]:
        return {name: group.count for name, group in self.groups.items()}


def _single(name: str) -> tuple[str, int] | None:
    """Split ``big/3``, as a cluster does."""
    group, slash, digits = name.rpartition("/")
    if not slash or not (digits.isascii() and digits.isdigit() and len(digits) < 16):
        return None
    return group, int(digits)


def check_events(cluster: Cluster, events: Sequence[ServerEvent]) -> None:
    """Raise unless every event finds, at its time, the server it is about.

    A name may be added again once no server that is up has it: so a server comes back.

    Parameters
    ----------
    cluster
        The servers at the start.
    events
        In any order; those of one time happen in the order given.

    Examples
    --------
    >>> cluster = Cluster([Server({"cpu": 8}, name="big", count=2)])
    >>> check_events(cluster, [RemoveServers(60, "big/0"), RemoveServers(90, "big/0")])
    Traceback (most recent call last):
    drfh.errors.InputError: events[1].remove must name a server or group that is up at 90 s, \
got 'big/0'
    """
    if not events:
        return
    up = _Up(dict(zip(cluster.names, cluster.counts.tolist(), strict=True)))
    for position in sorted(range(len(events)), key=lambda i: events[i].time):
        event = events[position]
        when = f"at {event.time:,.6g} s"
        if isinstance(event, AddServers):
            name = str(event.server.name)
            if not up.add(name, event.server.count):
                rule = f"must not be the name of a server or group that is up {when}"
                raise InputError(f"events[{position}].add.name", rule, name)
        elif isinstance(event, RemoveServers):
            if not up.remove(event.name):
                rule = f"must name a server or group that is up {when}"
                raise _near(f"events[{position}].remove", rule, event.name, up)
        elif not up.single(event.name):
            rule = f"must name a single server that is up {when}"
            raise _near(f"events[{position}].resize", rule, event.name, up)


def _near(field: str, rule: str, name: str, up: _Up) -> InputError:
    """Return the error with the nearest name, where there is one."""
    if name in up.groups:  # all of a group where one server is asked for
        last = up.groups[name].count - 1
        return InputError(field, f"{rule} ({name} has {name}/0 to {name}/{last})", name)
    found = _single(name)
    group = up.groups.get(found[0]) if found else None
    if found and group is not None and found[1] in group.left:
        return InputError(field, rule, name)  # it left: no other name was meant
    hint = unknown_server(field, name, up.counts()).rule
    hint = hint[hint.index(" (") :] if " (" in hint else ""
    return InputError(field, rule + hint, name)


def check_names(names: Mapping[str, str], cluster: Cluster, events: Sequence[ServerEvent]) -> None:
    """Raise if a name in a restriction is that of no server, neither at the start nor added.

    Parameters
    ----------
    names
        Who restricts itself to it (for the error), by name of a server or group.
    cluster, events
        The servers.

    Examples
    --------
    >>> check_names({"bgi": "ann"}, Cluster([Server({"cpu": 8}, name="big", count=2)]), ())
    Traceback (most recent call last):
    drfh.errors.InputError: servers of ann must name a server or a group of the cluster \
(did you mean big?), got 'bgi'
    """
    lost = {name: owner for name, owner in names.items() if cluster.find_server(name) is None}
    if not lost:
        return
    added: dict[str, int] = {}
    for event in events:
        if isinstance(event, AddServers):
            name = str(event.server.name)
            added[name] = max(event.server.count, added.get(name, 0))
    later = _Up(added)
    for name, owner in lost.items():
        if later.find(name) is None:
            counts = dict(zip(cluster.names, cluster.counts.tolist(), strict=True))
            raise unknown_server(f"servers of {owner}", name, {**counts, **added})


def everything_up(cluster: Cluster, events: Sequence[ServerEvent]) -> Cluster:
    """Return a cluster with every server that is ever up, each group at its largest.

    It is not a pool that ever exists: it tells whether a task could run at some time.

    Examples
    --------
    >>> cluster = Cluster([Server({"cpu": 8}, name="big", count=2)])
    >>> everything_up(cluster, [
    ...     AddServers(60, Server({"gpu": 1}, name="new")), ResizeServer(90, "big/0", {"cpu": 12}),
    ... ])
    Cluster(3 servers in 2 groups: cpu 24, gpu 1)
    """
    if not events:
        return cluster
    groups = {str(server.name): server for server in cluster.servers}
    for event in sorted(events, key=lambda event: event.time):
        if isinstance(event, AddServers):
            name = str(event.server.name)
            found = _home(name, groups)
            if found is not None and groups[found].labels != event.server.labels:
                found, name = None, f"{name} from {event.time:g} s"
            if found is None:
                for other in [o for o in groups if "/" in o and (_single(o) or ("",))[0] == name]:
                    del groups[other]  # it left before, or the name could not be added
                groups[name] = replace(event.server, name=name)
            else:
                count = event.server.count if found == name else 1
                groups[found] = _larger(groups[found], event.server.resources, count)
        elif isinstance(event, ResizeServer):
            found = _home(event.name, groups)
            if found is not None:
                groups[found] = _larger(groups[found], event.resources, 1)
    return Cluster(groups.values())


def _home(name: str, groups: Mapping[str, Server]) -> str | None:
    """Return the group that a name belongs to."""
    if name in groups:
        return name
    found = _single(name)
    return found[0] if found and found[0] in groups else None


def _larger(server: Server, resources: Mapping[str, float], count: int) -> Server:
    names = {**server.resources, **resources}
    amounts = {r: max(server.resources.get(r, 0.0), resources.get(r, 0.0)) for r in names}
    return replace(server, resources=amounts, count=max(server.count, count))
