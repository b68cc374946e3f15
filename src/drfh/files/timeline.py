"""Jobs and events ⇄ their entries in a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from drfh.cluster import Server
from drfh.errors import InputError
from drfh.files.values import amounts, number, read_restriction, saved_group, saved_restriction
from drfh.jobs import AddServers, Job, RemoveServers, ResizeServer, ServerEvent

if TYPE_CHECKING:
    from drfh.files.schema import EventModel, JobModel

__all__ = ["read_event", "read_job", "saved_event", "saved_job"]


def read_job(position: int, entry: JobModel) -> Job:
    """Return the job of an entry; an error says which entry.

    Examples
    --------
    >>> from drfh.files.schema import JobModel
    >>> read_job(0, JobModel(user="ann", duration=60, tasks=3))
    Job('ann', duration=60.0, tasks=3)
    """
    try:
        return Job(
            entry.user,
            demand=entry.demand,
            duration=entry.duration,
            tasks=entry.tasks,
            arrival=entry.arrival,
            servers=read_restriction(entry.servers),
            name=entry.name,
        )
    except InputError as error:
        raise error.within(f"jobs[{position}]") from None


def read_event(position: int, entry: EventModel) -> ServerEvent:
    """Return the event of an entry; an error says which entry.

    Examples
    --------
    >>> from drfh.files.schema import EventModel
    >>> read_event(0, EventModel(at=60, remove="big/0"))
    RemoveServers(60.0, 'big/0')
    """
    try:
        return _event(entry)
    except InputError as error:
        # The records say time, server and name; the file says at, add, and remove or resize.
        verb = "remove" if entry.remove is not None else "resize"
        word, _, rest = error.field.partition(".")
        here = {"time": "at", "server": "add", "name": verb}.get(word, word)
        error.field = f"{here}.{rest}" if rest else here
        raise error.within(f"events[{position}]") from None


def _event(entry: EventModel) -> ServerEvent:
    given = [key for key in ("add", "remove", "resize") if getattr(entry, key) is not None]
    if len(given) != 1:
        rule = "must have exactly one of add, remove and resize"
        raise InputError(given[1] if given else "at", rule)
    if (entry.resize is None) != (entry.resources is None):
        rule = "must be given with resize" if entry.resources is None else "must not be given here"
        raise InputError("resources", f"{rule} (it is what a resized server has)")
    if entry.add is not None:
        group = entry.add
        try:
            server = Server(
                group.resources, name=group.name, count=group.count, labels=group.labels
            )
        except InputError as error:
            raise error.within("add") from None
        return AddServers(entry.at, server)
    if entry.remove is not None:
        return RemoveServers(entry.at, entry.remove)
    return ResizeServer(entry.at, str(entry.resize), entry.resources or {})


def saved_job(position: int, job: Job) -> dict[str, Any]:
    """Return the entry of a job.

    Examples
    --------
    >>> saved_job(0, Job("ann", duration=60, tasks=3, arrival=1.5))
    {'user': 'ann', 'duration': 60, 'tasks': 3, 'arrival': 1.5}
    """
    entry: dict[str, Any] = {"user": job.user}
    if job.name is not None:
        entry["name"] = job.name
    if job.demand is not None:
        entry["demand"] = amounts(job.demand)
    if isinstance(job.duration, tuple):
        entry["duration"] = [number(seconds) for seconds in job.duration]
    else:
        entry["duration"] = number(job.duration)
        if job.tasks != 1:
            entry["tasks"] = job.tasks
    if job.arrival:
        entry["arrival"] = number(job.arrival)
    if job.servers is not None:
        entry["servers"] = saved_restriction(job.servers, f"jobs[{position}].servers")
    return entry


def saved_event(event: ServerEvent) -> dict[str, Any]:
    """Return the entry of an event.

    Examples
    --------
    >>> saved_event(ResizeServer(60, "big/0", {"cpu": 4}))
    {'at': 60, 'resize': 'big/0', 'resources': {'cpu': 4}}
    """
    when: dict[str, Any] = {"at": number(event.time)}
    if isinstance(event, AddServers):
        return {**when, "add": saved_group(event.server)}
    if isinstance(event, RemoveServers):
        return {**when, "remove": event.name}
    return {**when, "resize": event.name, "resources": amounts(event.resources)}
