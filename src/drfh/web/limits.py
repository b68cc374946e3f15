"""What a link may ask of the machine that opens it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from drfh.errors import InputError

__all__ = ["check_link"]

#: Characters of a name or of a value.
LONGEST_TEXT = 1_000
_LONGEST_STORY = 20_000
#: Entries of the base that all steps go through, with the pairs of restrictions and servers.
_MOST_WORK = 2_000_000
#: Users times server groups: what the solver sees.
_MOST_PAIRS = 1_000_000
# Where a step has a restriction: after its kind.
_AT = {"user": 3, "+user": 5, "lie": 4}


def check_link(data: Any) -> None:
    """Raise if plain data of a link would take long to build or to solve.

    What is wrong with it otherwise is for others to say.

    Examples
    --------
    >>> check_link({"drfh": 1, "base": "paper-two-servers"})
    >>> check_link({"base": {"users": [{"name": "x" * 2000}]}})
    Traceback (most recent call last):
    drfh.errors.InputError: text must have at most 1,000 characters, got 2000
    """
    _check_size(data if isinstance(data, Mapping) else {})
    for text, longest in _texts(data):
        if len(text) > longest:
            raise InputError("text", f"must have at most {longest:,} characters", len(text))


def _check_size(data: Mapping[str, Any]) -> None:
    base = data.get("base")
    entries = {
        key: _listed(base.get(key) if isinstance(base, Mapping) else None)
        for key in ("cluster", "users", "jobs", "events")
    }
    steps = [step for key in ("steps", "undone") for step in _listed(data.get(key))]
    kinds = [step[0] if isinstance(step, list) and step else None for step in steps]
    groups = len(entries["cluster"]) + kinds.count("+server")
    users = len(entries["users"]) + kinds.count("+user")
    owners = [one for one in (*entries["users"], *entries["jobs"]) if isinstance(one, Mapping)]
    # Every name and label of a restriction is looked for on every server.
    terms = sum(_size(one.get("servers")) for one in owners)
    terms += sum(_size(_restriction(step)) for step in steps)
    once = users + len(entries["jobs"]) + len(entries["events"])
    once += groups * (1 + terms + len(entries["events"]))
    if once * (len(steps) + 2) > _MOST_WORK or users * groups > _MOST_PAIRS:
        rule = "must be smaller to be opened from a link (save it as a file)"
        raise InputError("the cluster and its steps", rule)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _restriction(step: Any) -> Any:
    at = _AT.get(step[0]) if isinstance(step, list) and step and isinstance(step[0], str) else None
    if at is None or len(step) <= at or (step[0] == "user" and step[2] != "servers"):
        return None
    return step[at]


def _size(value: Any) -> int:
    return 0 if value is None else sum(1 for _ in _texts(value))


def _texts(value: Any) -> Iterator[tuple[str, int]]:
    """Yield every text and how long it may be."""
    waiting = [(value, LONGEST_TEXT)]
    while waiting:
        here, longest = waiting.pop()
        if isinstance(here, str):
            yield here, longest
        elif isinstance(here, Mapping):
            for key, entry in here.items():
                yield str(key), LONGEST_TEXT
                story = key in ("title", "description")
                waiting.append((entry, _LONGEST_STORY if story else LONGEST_TEXT))
        elif isinstance(here, list):
            waiting += [(entry, LONGEST_TEXT) for entry in here]
