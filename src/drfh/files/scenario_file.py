"""Scenario files (YAML or JSON) ⇄ records."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from importlib import resources
from typing import TYPE_CHECKING, Any

from drfh.errors import InputError, UnknownNameError
from drfh.files.atomic import read_text, shown_path, write_whole
from drfh.files.yaml import Document, dump, parse, written
from drfh.formatting import format_quantity
from drfh.model.cluster import Cluster, Server
from drfh.model.jobs import AddServers, Job, RemoveServers, ResizeServer, ServerEvent
from drfh.model.resources import parse_quantity
from drfh.model.rules import RuleRecord
from drfh.model.scenario import Scenario
from drfh.model.users import Kind, User

if TYPE_CHECKING:
    from drfh.files.validation import EventModel, JobModel, KindModel

__all__ = [
    "Scenario",
    "amount",
    "amounts",
    "load_scenario",
    "number",
    "parse_scenario",
    "read_event",
    "read_job",
    "read_restriction",
    "save_scenario",
    "saved_event",
    "saved_group",
    "saved_job",
    "saved_restriction",
    "scenario_schema",
    "scenario_text",
    "shipped_scenarios",
    "shipped_text",
]


def number(value: float) -> int | float:
    """Return a number as people write it: without a point if it is whole.

    Examples
    --------
    >>> number(3.0), number(2.5)
    (3, 2.5)
    """
    return int(value) if value.is_integer() and value < 2**53 else value


def amount(value: float) -> int | float | str:
    """Return an amount as people write it.

    Examples
    --------
    >>> amount(2.0**34), amount(4.0)
    ('16Gi', 4)
    """
    short = format_quantity(value)
    return short if short.endswith("i") and parse_quantity(short) == value else number(value)


def amounts(values: Mapping[str, float]) -> dict[str, Any]:
    """Return amounts by name, each as people write it.

    Examples
    --------
    >>> amounts({"cpu": 0.5, "memory": 2.0**30})
    {'cpu': 0.5, 'memory': '1Gi'}
    """
    return {name: amount(value) for name, value in values.items()}


def read_restriction(value: Any) -> Any:
    """Return a restriction with every name and label as the text that was written.

    Examples
    --------
    >>> from drfh.files.yaml import resolve
    >>> read_restriction([resolve("007"), {"zone": "a"}])
    ['007', {'zone': 'a'}]
    """
    if isinstance(value, list):
        return [_term(term, f"servers[{position}]") for position, term in enumerate(value)]
    return None if value is None else _term(value, "servers")


def _term(value: Any, field: str) -> Any:
    value = written(value)
    if isinstance(value, dict):
        if isinstance(value.get("rule"), dict):
            return _texts(value)
        return {key: _choices(choice, f"{field}.{key}") for key, choice in value.items()}
    if not isinstance(value, str):
        raise InputError(field, "must be the name of a server or group, or labels", value)
    return value


def _texts(value: Any) -> Any:
    """Return nested lists and mappings with every scalar as the text that was written."""
    if isinstance(value, dict):
        return {key: _texts(entry) for key, entry in value.items()}
    return [_texts(entry) for entry in value] if isinstance(value, list) else written(value)


def _choices(value: Any, field: str) -> str | list[str]:
    several = isinstance(value, list)
    choices = [written(choice) for choice in (value if several else [value])]
    if not choices or not all(isinstance(choice, str) for choice in choices):
        raise InputError(field, "must be a label value or a list of them", value)
    return choices if several else choices[0]


def saved_restriction(restriction: Any, field: str) -> Any:
    """Return a restriction for a file; `field` names it in an error.

    Examples
    --------
    >>> saved_restriction(("big", {"gpu": ("a100", "h100")}), "servers")
    ['big', {'gpu': ['a100', 'h100']}]
    """
    saved: list[Any] = []
    for term in restriction:
        if isinstance(term, str):
            saved.append(term)
        elif isinstance(term, Mapping):
            saved.append({k: v[0] if len(v) == 1 else list(v) for k, v in term.items()})
        elif isinstance(term, RuleRecord):
            saved.append({"rule": term.to_dict()})
        else:
            raise InputError(field, "must be names or labels to be saved, not a predicate", term)
    return saved[0] if len(saved) == 1 else saved


def saved_group(server: Server) -> dict[str, Any]:
    """Return a group of servers for a file.

    Examples
    --------
    >>> saved_group(Server({"cpu": 8}, name="big"))
    {'name': 'big', 'count': 1, 'resources': {'cpu': 8}}
    """
    entry: dict[str, Any] = {"name": server.name, "count": server.count}
    entry["resources"] = amounts(server.resources)
    return {**entry, "labels": dict(server.labels)} if server.labels else entry


def read_job(position: int, entry: JobModel) -> Job:
    """Return the job of an entry; an error says which entry.

    Examples
    --------
    >>> from drfh.files.validation import JobModel
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


def read_kind(position: int, entry: KindModel) -> Kind:
    """Return the kind of an entry; an error says which entry.

    Examples
    --------
    >>> from drfh.files.validation import KindModel
    >>> read_kind(0, KindModel(demand={"cpu": 4}, tasks=10))
    Kind({'cpu': 4.0}, tasks=10.0)
    """
    try:
        return Kind(
            entry.demand,
            tasks=entry.tasks,
            servers=read_restriction(entry.servers),
            ratio=entry.ratio,
            name=entry.name,
        )
    except InputError as error:
        raise error.within(f"kinds[{position}]") from None


def read_event(position: int, entry: EventModel) -> ServerEvent:
    """Return the event of an entry; an error says which entry.

    Examples
    --------
    >>> from drfh.files.validation import EventModel
    >>> read_event(0, EventModel(at=60, remove="big/0"))
    RemoveServers(60.0, 'big/0')
    """
    try:
        return _event(entry)
    except InputError as error:
        # The records say time, server and name; the file says at, add, and remove or resize.
        verb = "remove" if entry.remove is not None else "resize"
        error = error.with_root({"time": "at", "server": "add", "name": verb})
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


def load_scenario(source: str | os.PathLike[str], *, strict: bool = False) -> Scenario:
    """Read a scenario file, or one that comes with drfh; an error names file and line.

    Parameters
    ----------
    source
        Path of a YAML or JSON file; if there is none, the name of a shipped scenario.
    strict
        Also refuse what no mechanism can run: a demand for a resource that no server has, a
        restriction that matches no server. Without it, the cluster may be completed first.

    Examples
    --------
    >>> scenario = load_scenario("paper-two-servers")
    >>> scenario.cluster
    Cluster(2 servers in 2 groups: cpu 14, memory 14)
    >>> [user.name for user in scenario.users]
    ['ann', 'bob']
    """
    path = os.fspath(source)
    if not isinstance(path, str) or not path:
        raise InputError("scenario", "must be a path or the name of a shipped scenario", source)
    shipped = _shipped_names()
    if path in shipped and not os.path.lexists(path):
        return parse_scenario(shipped_text(path), f"{path}.yaml", strict=strict)
    return parse_scenario(read_text(path, shipped), shown_path(path), strict=strict)


def parse_scenario(text: str, place: str, *, strict: bool = False) -> Scenario:
    """Read the text of a scenario file, as :func:`load_scenario` reads the file.

    Parameters
    ----------
    text
        YAML or JSON.
    place
        What to call it in errors.
    strict
        As for :func:`load_scenario`.

    Examples
    --------
    >>> text = '{"cluster": [{"resources": {"cpu": 4}}], "users": [{"name": "a", "weight": 0}]}'
    >>> parse_scenario(text, "upload")
    Traceback (most recent call last):
    drfh.errors.InputError: upload, line 1: users[0].weight must be > 0, got 0
    """
    from drfh.files.validation import problems

    document = parse(text, place)
    try:
        scenario = _records(document)
        if strict:
            for problem in problems(
                scenario.cluster, scenario.users, scenario.jobs, scenario.events
            ):
                raise problem
    except InputError as error:
        raise error if error.place else document.at(error) from None
    return scenario


def _records(document: Document) -> Scenario:
    from drfh.files.validation import validated

    model = validated(document)
    servers: list[Server] = []
    for position, group in enumerate(model.cluster):
        try:
            servers.append(
                Server(group.resources, name=group.name, count=group.count, labels=group.labels)
            )
        except InputError as error:
            raise error.within(f"cluster[{position}]") from None
    try:
        cluster = Cluster(servers)
    except InputError as error:
        # The record calls its groups servers; the file calls them cluster.
        raise document.at(error.with_root({"servers": "cluster"}), "cluster") from None
    users: list[User] = []
    for position, user in enumerate(model.users):
        try:
            users.append(
                User(
                    user.name,
                    user.demand,
                    weight=user.weight,
                    tasks=user.tasks,
                    servers=read_restriction(user.servers),
                    parent=user.parent,
                    kinds=[read_kind(number, kind) for number, kind in enumerate(user.kinds)],
                )
            )
        except InputError as error:
            raise error.within(f"users[{position}]") from None
    return Scenario(
        cluster,
        tuple(users),
        model.title,
        model.description,
        model.mechanism,
        model.parameters,
        tuple(read_job(position, job) for position, job in enumerate(model.jobs)),
        tuple(read_event(position, event) for position, event in enumerate(model.events)),
    )


def save_scenario(scenario: Scenario, path: str | os.PathLike[str]) -> None:
    """Write a scenario file: JSON if the name ends in ``.json``, else YAML.

    The file is written whole or not at all, and loading it gives an equal scenario.

    Raises
    ------
    InputError
        If a user is restricted by a predicate, which no file can hold, or the path is no good.

    Examples
    --------
    >>> import tempfile
    >>> scenario = load_scenario("paper-two-servers")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_scenario(scenario, f"{folder}/copy.yaml")
    ...     load_scenario(f"{folder}/copy.yaml") == scenario
    True
    """
    as_json = os.fspath(path).endswith(".json")
    write_whole(path, scenario_text(scenario, as_json=as_json).encode())


def scenario_text(scenario: Scenario, *, as_json: bool = False) -> str:
    """Return the text of a scenario file: what :func:`save_scenario` writes.

    Parameters
    ----------
    scenario
        What to write.
    as_json
        JSON instead of YAML.

    Raises
    ------
    InputError
        As :func:`save_scenario` does.

    Examples
    --------
    >>> scenario = Scenario(Cluster([Server({"cpu": 4})]), [User("ann", {"cpu": 1})])
    >>> print(scenario_text(scenario), end="")
    cluster:
      - name: server-1
        count: 1
        resources:
          cpu: 4
    users:
      - name: ann
        demand:
          cpu: 1
    """
    data = _to_dict(scenario)
    try:
        json.dumps(data, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        rule = "must have only characters that UTF-8 can write to be saved"
        raise InputError("scenario", rule, error.object[error.start : error.end]) from None
    if not as_json:
        return dump(data)
    for position, job in enumerate(scenario.jobs):
        seconds = job.duration if isinstance(job.duration, tuple) else (job.duration,)
        if math.inf in seconds:
            rule = "must be finite to be saved as JSON (YAML can hold it)"
            raise InputError(f"jobs[{position}].duration", rule, math.inf)
    try:
        return json.dumps(data, indent=2, allow_nan=False) + "\n"
    except ValueError:
        rule = "must be finite numbers to be saved as JSON"
        raise InputError("parameters", rule, dict(scenario.parameters)) from None


def saved_kind(kind: Kind, field: str) -> dict[str, Any]:
    """Return a kind of tasks as a scenario file has it.

    Examples
    --------
    >>> saved_kind(Kind({"cpu": 4}, ratio=2), "kinds[0]")
    {'demand': {'cpu': 4}, 'ratio': 2}
    """
    entry: dict[str, Any] = {} if kind.name is None else {"name": kind.name}
    entry["demand"] = amounts(kind.demand)
    if kind.tasks is not None:
        entry["tasks"] = amount(kind.tasks)
    if kind.servers is not None:
        entry["servers"] = saved_restriction(kind.servers, f"{field}.servers")
    return entry if kind.ratio is None else {**entry, "ratio": amount(kind.ratio)}


def _to_dict(scenario: Scenario) -> dict[str, Any]:
    def user(position: int, user: User) -> dict[str, Any]:
        entry: dict[str, Any] = {"name": user.name}
        if user.demand:
            entry["demand"] = amounts(user.demand)
        if user.weight != 1:
            entry["weight"] = amount(user.weight)
        if user.tasks is not None:
            entry["tasks"] = amount(user.tasks)
        if user.servers is not None:
            entry["servers"] = saved_restriction(user.servers, f"users[{position}].servers")
        if user.parent is not None:
            entry["parent"] = user.parent
        if user.kinds:
            entry["kinds"] = [
                saved_kind(kind, f"users[{position}].kinds[{number}]")
                for number, kind in enumerate(user.kinds)
            ]
        return entry

    texts = {"title": scenario.title, "description": scenario.description}
    data: dict[str, Any] = {key: text for key, text in texts.items() if text}
    data["cluster"] = [saved_group(server) for server in scenario.cluster.servers]
    data["users"] = [user(position, entry) for position, entry in enumerate(scenario.users)]
    if scenario.jobs:
        data["jobs"] = [saved_job(position, job) for position, job in enumerate(scenario.jobs)]
    if scenario.events:
        data["events"] = [saved_event(event) for event in scenario.events]
    if scenario.mechanism != "drfh":
        data["mechanism"] = scenario.mechanism
    if scenario.parameters:
        data["parameters"] = _thawed(scenario.parameters)
    return data


def _thawed(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _thawed(entry) for key, entry in value.items()}
    return [_thawed(entry) for entry in value] if isinstance(value, tuple) else value


def scenario_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a scenario file, for editors.

    Examples
    --------
    >>> sorted(scenario_schema()["properties"])
    ['cluster', 'description', 'events', 'jobs', 'mechanism', 'parameters', 'title', 'users', \
'version']
    """
    from drfh.files.validation import json_schema

    return json_schema()


def _shipped_names() -> list[str]:
    folder = resources.files("drfh") / "scenarios"
    names = (entry.name for entry in folder.iterdir())
    return sorted(name.removesuffix(".yaml") for name in names if name.endswith(".yaml"))


def shipped_scenarios() -> dict[str, str]:
    """Return the name and title of every scenario that comes with drfh.

    Examples
    --------
    >>> shipped_scenarios()["nsdi11-single-server"]
    'Two users on one server of 9 CPUs and 18 GB'
    """
    return {name: parse(shipped_text(name), name).root["title"] for name in _shipped_names()}


def shipped_text(name: str) -> str:
    """Return the file of a shipped scenario.

    Examples
    --------
    >>> shipped_text("paper-two-servers").splitlines()[0]
    'title: Two servers, two users'
    """
    names = _shipped_names()
    if name not in names:
        raise UnknownNameError("scenario", name, names)
    return (resources.files("drfh") / "scenarios" / f"{name}.yaml").read_text("utf-8")
