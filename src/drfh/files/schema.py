"""The shape of a scenario file: pydantic models, their JSON Schema and their errors in our words.

The models check shape only (keys, lists, mappings, text). What a number may be, the records say.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema

from drfh.errors import InputError
from drfh.files.yaml import Document, plain, written

__all__ = ["ScenarioModel", "json_schema", "validated"]

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
_TERM = {
    "anyOf": [
        _TEXT_SCHEMA,
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
    schema = ScenarioModel.model_json_schema()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "drfh scenario",
    }


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
        raise document.at(
            InputError("the file", "must be a mapping with the keys cluster and users")
        )
    try:
        return ScenarioModel.model_validate(document.root)
    except ValidationError as error:
        # One line, so one error: a misspelt key also makes the right one missing, so it goes first.
        found = [_in_our_words(e, document) for e in error.errors(include_url=False)]
        found.sort(key=lambda pair: pair[0])
        raise found[0][1] from None


def _in_our_words(error: Any, document: Document) -> tuple[tuple[bool, int], InputError]:
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
    model = GroupModel if location[2:3] == ("add",) else inside.get(str(location[0]), ScenarioModel)
    return list(model.model_fields)
