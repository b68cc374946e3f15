"""Whether a JSON output is what its schema says, with no field that the schema does not name."""

from __future__ import annotations

import json
from typing import Any

import jsonschema

from drfh.files.output_schema import output_schema

__all__ = ["check_output", "closed"]


def check_output(name: str, text: str) -> dict[str, Any]:
    """Check what a command printed against its schema, and return it."""
    data: dict[str, Any] = json.loads(text)
    assert next(iter(data)) == "version", "the version comes first"
    jsonschema.validate(data, output_schema(name))
    jsonschema.validate(data, closed(output_schema(name)))
    return data


def closed(schema: Any) -> Any:
    """Return a schema whose records have the named fields only."""
    if isinstance(schema, list):
        return [closed(entry) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: closed(value) for key, value in schema.items()}
    # A record, and not the names of fields, one of which may be called so.
    if schema.get("type") == "object" and "properties" in schema:
        result.setdefault("additionalProperties", False)
    return result
