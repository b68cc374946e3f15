"""A workbook as a link, compressed and URL-safe, and as a file."""

from __future__ import annotations

import base64
import binascii
import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from drfh.errors import InputError
from drfh.web.session.workbook import Workbook

__all__ = [
    "LONGEST_LINK",
    "book_from_link",
    "book_from_text",
    "book_to_link",
    "book_to_text",
    "check_link",
]


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
    """Raise if a link's data would take long to build or solve.

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
    """Yield every text and its largest length."""
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


#: Characters of a link; what is longer goes into a file.
LONGEST_LINK = 8_000
#: Bytes that a link may grow to: real ones grow tenfold, a bomb a thousandfold.
LARGEST = 500_000

_LETTERS = re.compile(r"[A-Za-z0-9_-]*", re.ASCII)
_DAMAGED = "must be whole, as it was copied"


def book_to_link(book: Workbook) -> str | None:
    """Return the text of a link; None if it is too long.

    Raises
    ------
    InputError
        If its scenario cannot be written, as :func:`drfh.save_scenario` does.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> book_to_link(Workbook(load_scenario("paper-two-servers")))[:6]
    'eNqrVk'
    """
    data = book.to_dict()
    try:
        check_link(data)
    except InputError:
        return None
    raw = _json(data).encode()
    if len(raw) > LARGEST:
        return None
    link = base64.urlsafe_b64encode(zlib.compress(raw, 9)).decode().rstrip("=")
    return link if len(link) <= LONGEST_LINK else None


def book_from_link(link: str) -> Workbook:
    """Return the workbook of a link.

    Whatever the text is, this takes little time and memory, reads no file but the scenarios that
    come with drfh, and gives a workbook or an error.

    Raises
    ------
    InputError
        If the text is no link, or what it holds breaks a rule.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> book_from_link(book_to_link(Workbook(load_scenario("paper-two-servers")))).title
    'Two servers, two users'
    >>> book_from_link("eNqrVk")
    Traceback (most recent call last):
    drfh.errors.InputError: the link must be whole, as it was copied, got 'eNqrVk'
    """
    if not isinstance(link, str):
        raise InputError("the link", "must be text", link)
    link = link.strip().rstrip("=")
    if len(link) > LONGEST_LINK:
        rule = f"must have at most {LONGEST_LINK:,} characters"
        raise InputError("the link", rule, len(link))
    if not _LETTERS.fullmatch(link):
        raise InputError("the link", _DAMAGED, link)
    try:
        packed = base64.b64decode(link + "=" * (-len(link) % 4), altchars=b"-_", validate=True)
        opener = zlib.decompressobj()
        raw = opener.decompress(packed, LARGEST + 1)
    except (binascii.Error, ValueError, zlib.error):
        raise InputError("the link", _DAMAGED, link) from None
    if len(raw) > LARGEST:
        raise InputError("the link", f"must hold at most {LARGEST:,} bytes")
    if not opener.eof or opener.unused_data:
        raise InputError("the link", _DAMAGED, link)
    return _book(raw, "the link", check_link)


def book_to_text(book: Workbook) -> str:
    r"""Return the text of a workbook file, with its steps.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> book_to_text(Workbook(load_scenario("paper-two-servers")))
    '{"drfh":1,"base":"paper-two-servers"}\n'
    """
    return _json(book.to_dict()) + "\n"


def book_from_text(text: str | bytes, place: str = "the file") -> Workbook:
    """Return the workbook of a file's text.

    Parameters
    ----------
    text
        The content; the caller checks its size.
    place
        What to call it in errors.

    Examples
    --------
    >>> book_from_text('{"drfh": 1, "base": "gpu-day"}').title
    'A day on a small GPU cluster'
    """
    return _book(text.encode(errors="replace") if isinstance(text, str) else text, place)


def _json(data: dict[str, Any]) -> str:
    return json.dumps(data, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def _book(raw: bytes, place: str, check: Callable[[Any], None] | None = None) -> Workbook:
    try:
        data: Any = json.loads(raw)
    except (ValueError, RecursionError):
        raise InputError("what it holds", "must be JSON as drfh writes it", place=place) from None
    try:
        if check is not None:
            check(data)
        return Workbook.from_dict(data)
    except InputError as error:
        error.place = place if not error.place else f"{place}, {error.place}"
        raise
    except RecursionError:
        rule = "must not be nested so deep"
        raise InputError("what it holds", rule, place=place) from None
