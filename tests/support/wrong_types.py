"""JSON with values of the wrong type in the right places."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

STRANGE_VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 3.5, 1e308, float("nan"), float("inf"), 10**30, "", " ", "0",
    "-1", "1e999", "x" * 5_000, "\ud800", "\x00", "a/0", "[", "node[01-", "node[1-999999999]",
    "0-99999999999", "cpu=", "a&", "(((", [], [None], [[]], ["x"], [{}], {}, {"": ""},
    {"set": True, "infinite": False, "number": -4}, {"cpu": "many"},
]  # fmt: skip


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    entries = value.items() if isinstance(value, dict) else ()
    for key, inner in enumerate(value) if isinstance(value, list) else entries:
        found += _places(inner, (*path, key))
    return found


@st.composite
def with_wrong_types(draw: st.DrawFn, path: Path) -> Any:
    """Return what a JSON file holds, with one to four values replaced or gone."""
    changed = json.loads(path.read_bytes())
    places = _places(changed)
    for _ in range(draw(st.integers(1, 4))):
        *way, last = draw(st.sampled_from(places))
        inner = changed
        try:
            for key in way:
                inner = inner[key]
            if draw(st.booleans()):
                inner[last] = draw(st.sampled_from(STRANGE_VALUES))
            else:
                del inner[last]
        except (KeyError, IndexError, TypeError):
            continue  # what stood there is gone already
    return changed
