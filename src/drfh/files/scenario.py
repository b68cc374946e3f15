"""Scenario files (YAML or JSON) ⇄ records."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from drfh.cluster import Cluster, Server, check_name
from drfh.disk import read_text, shown_path, write_whole
from drfh.errors import InputError, UnknownNameError
from drfh.files.checks import problems, warnings
from drfh.files.reading import Document, parse
from drfh.files.scalars import dump
from drfh.files.timeline import read_event, read_job, saved_event, saved_job
from drfh.files.values import amount, amounts, read_restriction, saved_group, saved_restriction
from drfh.jobs import Job, ServerEvent, Workload
from drfh.resources import FrozenMap
from drfh.workload import User

__all__ = [
    "Scenario",
    "check",
    "load_scenario",
    "parse_scenario",
    "save_scenario",
    "scenario_schema",
    "scenario_text",
    "shipped_scenarios",
    "shipped_text",
]


@dataclass(frozen=True)
class Scenario:
    """A cluster, its users and what to do with them: what a scenario file holds.

    Parameters
    ----------
    cluster
        The servers.
    users
        Who shares them; at least one, with names that differ.
    title, description
        What this is and where it comes from.
    mechanism
        Name of a mechanism.
    parameters
        Its parameters: plain values by name. Lists become tuples.
    jobs
        What the users submit over time, for a simulation; none are needed to allocate.
    events
        What happens to the servers meanwhile.

    Examples
    --------
    >>> scenario = Scenario(Cluster([Server({"cpu": 4})]), [User("ann", {"cpu": 1})])
    >>> scenario.mechanism, len(scenario.users)
    ('drfh', 1)
    """

    cluster: Cluster
    users: tuple[User, ...]
    title: str = ""
    description: str = ""
    mechanism: str = "drfh"
    parameters: Mapping[str, Any] = field(default_factory=FrozenMap)
    jobs: tuple[Job, ...] = ()
    events: tuple[ServerEvent, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.cluster, Cluster):
            raise InputError("cluster", "must be a drfh.Cluster", self.cluster)
        users = tuple(self.users)
        if not users:
            raise InputError("users", "must have at least one entry")
        first: dict[str, int] = {}
        for position, user in enumerate(users):
            if not isinstance(user, User):
                raise InputError(f"users[{position}]", "must be a drfh.User", user)
            if first.setdefault(user.name, position) != position:
                rule = f"must be unique (users[{first[user.name]}] has it too)"
                raise InputError(f"users[{position}].name", rule, user.name)
        for name in ("title", "description"):
            if not isinstance(getattr(self, name), str):
                raise InputError(name, "must be text", getattr(self, name))
        check_name(self.mechanism, "mechanism")
        if not isinstance(self.parameters, Mapping):
            raise InputError("parameters", "must map names to values", self.parameters)
        object.__setattr__(self, "users", users)
        object.__setattr__(self, "parameters", _frozen(self.parameters, "parameters"))
        for name in ("jobs", "events"):
            given = getattr(self, name)
            listed = isinstance(given, Iterable) and not isinstance(given, (str, Mapping))
            object.__setattr__(self, name, tuple(given) if listed else given)
        if self.jobs != () or self.events != ():  # anything else than a list is refused here
            self.__dict__["_workload"] = Workload(users, self.jobs, self.events)

    @property
    def workload(self) -> Workload:
        """The users, jobs and events, as a simulation reads them.

        Raises
        ------
        InputError
            If there are no jobs.

        Examples
        --------
        >>> load_scenario("gpu-day").workload.users[0].name
        'research'
        """
        if not self.jobs:
            rule = "must have at least one entry"
            raise InputError(
                "jobs", f"{rule} (a scenario without jobs can be allocated, not simulated)"
            )
        workload: Workload = self.__dict__["_workload"]
        return workload


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
    from drfh.files.schema import validated

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
        if error.field.startswith("servers"):
            error.field = "cluster" + error.field.removeprefix("servers")
        else:
            error.place = f"{document.place}, line {document.line('cluster')}"
        raise
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
        return entry if user.parent is None else {**entry, "parent": user.parent}

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


def _frozen(value: Any, field: str) -> Any:
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise InputError(field, "must have keys that are text", key)
        return FrozenMap({k: _frozen(v, f"{field}.{k}") for k, v in value.items()})
    if isinstance(value, (list, tuple)):
        return tuple(_frozen(entry, f"{field}[{i}]") for i, entry in enumerate(value))
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    raise InputError(field, "must be a plain value: text, number, list or mapping", value)


def _thawed(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _thawed(entry) for key, entry in value.items()}
    return [_thawed(entry) for entry in value] if isinstance(value, tuple) else value


def check(scenario: Scenario) -> list[str]:
    """Return what looks wrong: lines that start with ``error:`` or ``warning:``.

    An error is what every mechanism refuses; a warning is allowed but odd.

    Examples
    --------
    >>> check(load_scenario("paper-two-servers"))
    []
    >>> cluster = Cluster([Server({"cpu": 4, "gpu": 1})])
    >>> check(Scenario(cluster, (User("ann", {"cpu": 1}),)))
    ['warning: resource gpu: no user demands it']
    """
    parts = scenario.cluster, scenario.users, scenario.jobs, scenario.events
    wrong = [f"error: {problem}" for problem in problems(*parts)]
    return wrong + [f"warning: {odd}" for odd in warnings(*parts)]


def scenario_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a scenario file, for editors.

    Examples
    --------
    >>> sorted(scenario_schema()["properties"])
    ['cluster', 'description', 'events', 'jobs', 'mechanism', 'parameters', 'title', 'users']
    """
    from drfh.files.schema import json_schema

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
