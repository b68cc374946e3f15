"""Validation of scenario files: JSON Schema, errors and warnings.

The pydantic models check shape only (keys, lists, mappings, text); the records check numbers, and
:func:`problems` what cluster, users and jobs must be together.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema

from drfh.errors import InputError, nearest
from drfh.files.yaml import Document, plain, written
from drfh.model.cluster import Cluster
from drfh.model.jobs import Job, ServerEvent, check_events, everything_up
from drfh.model.resources import TOLERANCE
from drfh.model.rules import RULE_SCHEMA
from drfh.model.scenario import Scenario, titled_shapes, unit_slips
from drfh.model.users import Kind, Restriction, User, resolve_restriction

__all__ = [
    "Issue",
    "ScenarioModel",
    "check",
    "json_schema",
    "problems",
    "validated",
]


_QUANTITY_PATTERN = r"^\s*[+]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*([numkKMGTPE]|[KMGTPE]i)?[bB]?\s*$"
_TEXT_SCHEMA = {"type": ["string", "number", "boolean"]}

# A name may be written 007 or no: it is the text as written, not a number or a truth value.
Text = Annotated[str, BeforeValidator(written), WithJsonSchema(_TEXT_SCHEMA)]
Quantity = Annotated[
    Any,
    BeforeValidator(plain),
    WithJsonSchema(
        {
            "description": "A number ≥ 0, or one with a Kubernetes suffix: 500m, 16Gi, 2T.",
            "anyOf": [
                {"type": "number", "minimum": 0},
                {"type": "string", "pattern": _QUANTITY_PATTERN},
            ],
        }
    ),
]


def _whole(value: Any) -> Any:
    """Read ``1e3`` and JSON's ``3.0`` as whole numbers; leave the rest for the record to judge."""
    number = plain(value)
    return int(number) if isinstance(number, float) and number.is_integer() else number


Count = Annotated[
    Any, BeforeValidator(_whole), WithJsonSchema({"type": "integer", "minimum": 1, "default": 1})
]
_SECONDS = {"type": "number", "minimum": 0}
Seconds = Annotated[Any, BeforeValidator(plain), WithJsonSchema(_SECONDS)]
Durations = Annotated[
    Any,
    BeforeValidator(plain),
    WithJsonSchema({"anyOf": [_SECONDS, {"type": "array", "minItems": 1, "items": _SECONDS}]}),
]
_NAMES = {"anyOf": [_TEXT_SCHEMA, {"type": "array", "items": _TEXT_SCHEMA}]}
_A_RULE = {"type": "object", "description": "A rule on labels, names and taints."}
_TERM = {
    "anyOf": [
        _TEXT_SCHEMA,
        {
            "type": "object",
            "properties": {"rule": _A_RULE},
            "required": ["rule"],
            "additionalProperties": False,
        },
        {"type": "object", "minProperties": 1, "additionalProperties": _NAMES},
    ]
}
Servers = Annotated[
    Any,
    WithJsonSchema(
        {
            "anyOf": [
                *_TERM["anyOf"],
                {"type": "array", "minItems": 1, "items": _TERM},
                {"type": "null"},
            ]
        }
    ),
]


class _FileModel(BaseModel):
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class GroupModel(_FileModel):
    """A group of equal servers."""

    name: Text | None = Field(default=None, examples=["big-memory"])
    """Name of the group; its servers are name/0, name/1, … By default server-1, server-2, …"""
    count: Count = 1
    """How many servers the group has."""
    resources: dict[str, Quantity] = Field(examples=[{"cpu": 8, "memory": "512Gi"}])
    """Capacity of one server by resource name. What is not mentioned is 0."""
    labels: dict[str, Text] = Field(default={}, examples=[{"zone": "a"}])
    """Free labels that users can restrict themselves to."""


class KindModel(_FileModel):
    """Tasks of one shape, among the kinds of tasks of a user."""

    name: Text | None = Field(default=None, examples=["training"])
    """Unique among the kinds of the user; by default its number."""
    demand: dict[str, Quantity] = Field(examples=[{"cpu": 4, "gpu": 1}])
    """What one task needs by resource name. What is not mentioned is 0."""
    tasks: Quantity | None = Field(default=None, examples=[100])
    """How many tasks there are; left out for no end."""
    servers: Servers = Field(default=None, examples=[["big-memory", "small/0"], {"zone": "a"}])
    """Where tasks may run: a group or server, labels, or a list of these. Default: everywhere."""
    ratio: Quantity | None = Field(default=None, examples=[3])
    """Tasks of this kind in one mix. Default: tasks, if all kinds have an end, else 1."""


class UserModel(_FileModel):
    """Somebody who runs tasks."""

    name: Text = Field(examples=["ann"])
    """Unique among the users."""
    demand: dict[str, Quantity] | None = Field(
        default=None, examples=[{"cpu": "500m", "memory": "2Gi"}]
    )
    """What one task needs by resource name. What is not mentioned is 0. Left out: see its jobs."""
    weight: Quantity = Field(default=1, examples=[2])
    """Entitlement relative to other users, > 0."""
    tasks: Quantity | None = Field(default=None, examples=[100])
    """How many tasks there are; left out for no end."""
    servers: Servers = Field(default=None, examples=[["big-memory", "small/0"], {"zone": "a"}])
    """Where tasks may run: a group or server, labels, or a list of these. Default: everywhere."""
    parent: Text | None = Field(default=None, examples=["team"])
    """Name of the group of users above, for hierarchical mechanisms."""
    kinds: list[KindModel] = Field(default=[])
    """Kinds of tasks that rise together, instead of demand, tasks and servers."""


class JobModel(_FileModel):
    """Tasks of one user and one shape that arrive together."""

    user: Text = Field(examples=["ann"])
    """Name of the user."""
    name: Text | None = Field(default=None, examples=["nightly"])
    """Entries of one user with the same name are one job. By default job-1, job-2, …"""
    demand: dict[str, Quantity] | None = Field(default=None, examples=[{"cpu": 4, "gpu": 1}])
    """What one task needs by resource name; by default the demand of the user."""
    duration: Durations = Field(examples=[60, [60, 90, 75]])
    """How long a task runs, in seconds; or a list with a number for each task."""
    tasks: Count | None = Field(default=None, examples=[100])
    """How many tasks there are. Default: 1, or as many as there are durations."""
    arrival: Seconds = Field(default=0, examples=[3600])
    """When they arrive, in seconds."""
    servers: Servers = Field(default=None, examples=["big-memory", {"zone": "a"}])
    """Where they may run, besides what holds for the user."""


class EventModel(_FileModel):
    """Servers that come, go or change; one of add, remove and resize."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [{"required": [key]} for key in ("add", "remove", "resize")],
            "dependentRequired": {"resize": ["resources"], "resources": ["resize"]},
        }
    )

    at: Seconds = Field(examples=[300])
    """When, in seconds."""
    add: GroupModel | None = Field(default=None)
    """A group of servers that joins; it must have a name."""
    remove: Text | None = Field(default=None, examples=["big", "small/0"])
    """Name of the server or group that leaves."""
    resize: Text | None = Field(default=None, examples=["small/1"])
    """Name of a single server that has other resources from then on."""
    resources: dict[str, Quantity] | None = Field(default=None, examples=[{"cpu": 4}])
    """With resize: all it has then. What is not mentioned is 0."""


class ScenarioModel(_FileModel):
    """A cluster, its users and what to do with them."""

    version: Annotated[Literal[1], BeforeValidator(plain)] = 1
    """Version of the file format."""
    title: Text = ""
    """One line that says what this is."""
    description: Text = ""
    """Where it comes from and what to look at."""
    cluster: list[GroupModel] = Field(min_length=1)
    """Groups of equal servers, in order."""
    users: list[UserModel] = Field(min_length=1)
    """Who shares the cluster."""
    jobs: list[JobModel] = []
    """What the users submit over time, for a simulation."""
    events: list[EventModel] = []
    """What happens to the servers meanwhile."""
    mechanism: Text = Field(default="drfh", examples=["drfh", "per-server-drf"])
    """How to share it."""
    parameters: Annotated[dict[str, Any], BeforeValidator(plain)] = {}
    """Parameters of the mechanism."""


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a scenario file.

    Examples
    --------
    >>> json_schema()["required"]
    ['cluster', 'users']
    """
    schema = _with_rules(ScenarioModel.model_json_schema())
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "$defs": {**schema["$defs"], "Rule": RULE_SCHEMA},
        "title": "drfh scenario",
    }


def _with_rules(schema: Any) -> Any:
    """Return a schema in which a rule refers to its definition; pydantic would look it up."""
    if schema == _A_RULE:
        return {"$ref": "#/$defs/Rule"}
    if isinstance(schema, dict):
        return {key: _with_rules(entry) for key, entry in schema.items()}
    return [_with_rules(entry) for entry in schema] if isinstance(schema, list) else schema


def validated(document: Document) -> ScenarioModel:
    r"""Check the shape of a file.

    Examples
    --------
    >>> from drfh.files.yaml import parse
    >>> validated(parse("cluster:\n- resources: {cpu: 1}\nuser: []\n", "a.yaml"))
    Traceback (most recent call last):
    drfh.errors.InputError: a.yaml, line 3: user is not a known key (did you mean users?)
    """
    if not isinstance(document.root, dict):
        rule = "must be a mapping with the keys cluster and users, or the JSON of kubectl or Slurm"
        raise document.at(InputError("the file", rule))
    if {"apiVersion", "kind"} <= document.root.keys():
        rule = "must be JSON where it is of Kubernetes: kubectl get nodes,pods -A -o json"
        raise document.at(InputError("the file", rule))
    try:
        return ScenarioModel.model_validate(document.root)
    except ValidationError as error:
        # One line, so one error: a misspelt key also makes the right one missing, so it goes first.
        found = [_as_input_error(e, document) for e in error.errors(include_url=False)]
        found.sort(key=lambda pair: pair[0])
        raise found[0][1] from None


def _as_input_error(error: Any, document: Document) -> tuple[tuple[bool, int], InputError]:
    kind, location = error["type"], error["loc"]
    path = _path(location)
    unknown = kind == "extra_forbidden"
    if unknown:
        known = _keys(location[:-1])
        near = difflib.get_close_matches(str(location[-1]), known, n=1, cutoff=0.5)
        hint = f"(did you mean {near[0]}?)" if near else f"(known are {', '.join(known)})"
        ours = InputError(path, f"is not a known key {hint}")
    elif kind == "missing":
        ours = InputError(path, "must be given")
    elif kind == "too_short":
        ours = InputError(path, "must have at least one entry")
    else:
        rules = {
            "dict_type": "must be a mapping",
            "list_type": "must be a list, each entry starting with '- '",
            "string_type": "must be text",
            "literal_error": "must be 1",
            "model_type": f"must be a mapping with keys among {', '.join(_keys(location))}",
        }
        ours = InputError(path, rules.get(kind, str(error["msg"])), error["input"])
    document.at(ours)
    return (not unknown, document.line(path)), ours


def _path(location: Sequence[str | int]) -> str:
    """Return ``users[2].demand.cpu`` for the steps of a path.

    Examples
    --------
    >>> _path(("users", 2, "demand", "cpu"))
    'users[2].demand.cpu'
    """
    return "".join(f"[{s}]" if isinstance(s, int) else f".{s}" for s in location).removeprefix(".")


def _keys(location: Sequence[str | int]) -> list[str]:
    if not location:
        return list(ScenarioModel.model_fields)
    inside: dict[str, type[BaseModel]] = {
        "cluster": GroupModel,
        "users": UserModel,
        "jobs": JobModel,
        "events": EventModel,
    }
    model = inside.get(str(location[0]), ScenarioModel)
    if location[2:3] == ("add",):
        model = GroupModel
    if location[2:3] == ("kinds",) and len(location) > 3:
        model = KindModel
    return list(model.model_fields)


def problems(
    cluster: Cluster,
    users: Sequence[User],
    jobs: Sequence[Job] = (),
    events: Sequence[ServerEvent] = (),
) -> Iterator[InputError]:
    """Yield what cannot run: unknown resources, restrictions that match nothing, lost events.

    Examples
    --------
    >>> from drfh.model.cluster import Server
    >>> cluster = Cluster([Server({"cpu": 4, "memory": 8})])
    >>> for problem in problems(cluster, [User("ann", {"cpu": 1, "memoy": 1})]):
    ...     print(problem)
    users[0].demand.memoy must be a resource that some server has (did you mean memory?), got 1.0
    """
    pool = cluster
    if events:
        try:
            check_events(cluster, events)
        except InputError as error:
            yield error
            return  # which servers there are is not known
        pool = everything_up(cluster, events)
    had = [r for r, total in zip(pool.resources, pool.totals, strict=True) if total > 0]
    matched = _Restrictions(pool)
    entries: list[tuple[str, User | Kind | Job, str]] = []
    for position, user in enumerate(users):
        entries.append((f"users[{position}]", user, user.name))
        for number, kind in enumerate(user.kinds):
            entries.append((f"users[{position}].kinds[{number}]", kind, user.name))
    entries += [(f"jobs[{p}]", job, job.name or f"job-{p + 1}") for p, job in enumerate(jobs)]
    for field, entry, name in entries:
        for resource, amount in (entry.demand or {}).items():
            if amount > 0 and resource not in had:
                near = nearest(resource, had, cutoff=0.7)
                hint = f"did you mean {near}?" if near else f"these are {', '.join(had)}"
                rule = f"must be a resource that some server has ({hint})"
                yield InputError(f"{field}.demand.{resource}", rule, amount, item=resource)
        if isinstance(entry, User) and not (entry.demand or entry.kinds or jobs):
            rule = "must be given (there are no jobs either)"
            yield InputError(f"{field}.demand", rule, item="demand")
        try:
            matched.groups(entry.servers, name)
        except InputError as error:
            error.field = f"{field}.servers"
            yield error


@dataclass(frozen=True, slots=True)
class Issue:
    """Something wrong or odd about a scenario.

    Attributes
    ----------
    severity : str
        ``error``: every mechanism refuses it; ``warning``: it is allowed but odd.
    code : str
        ``invalid``, ``unit``, ``does-not-fit``, ``no-jobs`` or ``unused-resource``.
    message : str
        What is wrong.
    """

    severity: Literal["error", "warning"]
    code: str
    message: str

    def __str__(self) -> str:
        return f"{self.severity}: {self.message}"


def check(scenario: Scenario) -> list[Issue]:
    """Return what every mechanism refuses, then what is allowed but odd.

    Examples
    --------
    >>> from drfh.model.cluster import Server
    >>> cluster = Cluster([Server({"cpu": 4, "gpu": 1, "memory": "8Gi"})])
    >>> for issue in check(Scenario(cluster, (User("ann", {"cpu": 1, "memory": 4}),))):
    ...     print(issue)
    warning: users[0] (ann): memory 4 is 4 bytes where servers have 8Gi; did you mean 4Gi?
    warning: resource gpu: no user demands it
    """
    parts = scenario.cluster, scenario.users, scenario.jobs, scenario.events
    found = [Issue("error", "invalid", str(error)) for error in problems(*parts)]
    return [*found, *_warnings(*parts)]


def _warning(code: str, about: str, text: str) -> Issue:
    return Issue("warning", code, f"{about}: {text}")


def _warnings(
    cluster: Cluster,
    users: Sequence[User],
    jobs: Sequence[Job] = (),
    events: Sequence[ServerEvent] = (),
) -> Iterator[Issue]:
    """Yield likely wrong units, tasks that fit nowhere, and what is idle."""
    pool = cluster
    if events:
        try:
            pool = everything_up(cluster, events)
        except InputError:
            return  # the events are wrong, which is a problem and not a warning
    titles = [f"jobs[{p}] ({job.name or f'job-{p + 1}'})" for p, job in enumerate(jobs)]
    shapes = titled_shapes(users)
    named = [(title, shape.demand) for title, shape in shapes]
    named += [(title, job.demand or {}) for title, job in zip(titles, jobs, strict=True)]
    for title, text in unit_slips(pool, named):
        yield _warning("unit", title, text)
    fits = _Fits(pool)
    for title, one in shapes:
        if one.demand and fits.any(one.demand, one.servers) is False:
            where = "server" if one.servers is None else "server it may use"
            text = f"one whole task fits no {where}; only a divisible allocation gives it anything"
            yield _warning("does-not-fit", title, text)
    owner = {user.name: user for user in users}
    for title, job in zip(titles, jobs, strict=True):
        user = owner[job.user]
        demand = user.demand if job.demand is None else job.demand
        if fits.any(demand, user.servers, job.servers) is False:
            free = user.servers is None and job.servers is None
            text = f"a task fits no server{'' if free else ' it may use'}, so none runs"
            yield _warning("does-not-fit", title, text)
    if jobs:
        busy = {job.user for job in jobs}
        for (title, _), user in zip(named, users, strict=False):
            if user.name not in busy:
                yield _warning("no-jobs", title, "has no jobs")
    demanded = {resource for _, demand in named for resource, a in demand.items() if a > 0}
    for resource in pool.resources:
        if resource not in demanded:
            yield _warning("unused-resource", f"resource {resource}", "no user demands it")


class _Restrictions:
    """The groups that a restriction allows, worked out once for each different one."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.known: dict[Any, NDArray[np.bool_]] = {None: np.ones(len(cluster), dtype=bool)}

    def groups(self, restriction: Restriction | None, owner: str) -> NDArray[np.bool_]:
        if restriction not in self.known:
            groups, singles = resolve_restriction(restriction or (), self.cluster, owner)
            groups[list(singles)] = True
            self.known[restriction] = groups
        return self.known[restriction]


class _Fits:
    """Whether one task fits a server, worked out once for each different shape."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.column = {resource: position for position, resource in enumerate(cluster.resources)}
        self.matched = _Restrictions(cluster)
        self.known: dict[Any, bool | None] = {}

    def any(self, demand: Mapping[str, float], *restrictions: Restriction | None) -> bool | None:
        """Return whether some server holds it; None if that is a problem, not a warning."""
        shape = demand, restrictions
        if shape not in self.known:
            self.known[shape] = self._any(demand, restrictions)
        return self.known[shape]

    def _any(
        self, demand: Mapping[str, float], restrictions: Sequence[Restriction | None]
    ) -> bool | None:
        if not set(demand) <= set(self.column):
            return None
        needs = np.zeros(len(self.column))
        for resource, amount in demand.items():
            needs[self.column[resource]] = amount
        allowed = (self.cluster.capacity * (1 + TOLERANCE) >= needs).all(axis=1)
        try:
            for restriction in restrictions:
                allowed &= self.matched.groups(restriction, "")
        except InputError:
            return None
        return bool(allowed.any())
