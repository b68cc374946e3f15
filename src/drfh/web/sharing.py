"""A workbook as a link: compressed JSON in letters that a URL may hold; and as a file."""

from __future__ import annotations

import base64
import binascii
import json
import re
import zlib
from collections.abc import Callable
from typing import Any

from drfh.errors import InputError
from drfh.web.limits import check_link
from drfh.web.workbook import Workbook

__all__ = ["LONGEST_LINK", "book_of", "book_of_text", "link_of", "text_of"]

#: Characters of a link; what is longer goes into a file.
LONGEST_LINK = 8_000
#: Bytes that a link may grow to: real ones grow tenfold, a bomb a thousandfold.
LARGEST = 500_000

_LETTERS = re.compile(r"[A-Za-z0-9_-]*", re.ASCII)
_DAMAGED = "must be whole, as it was copied"


def link_of(book: Workbook) -> str | None:
    """Return the text of a link to a workbook; None if it would be too long.

    Raises
    ------
    InputError
        If its scenario cannot be written, as :func:`drfh.save_scenario` does.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> link_of(Workbook(load_scenario("paper-two-servers")))[:6]
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


def book_of(link: str) -> Workbook:
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
    >>> book_of(link_of(Workbook(load_scenario("paper-two-servers")))).title
    'Two servers, two users'
    >>> book_of("eNqrVk")
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


def text_of(book: Workbook) -> str:
    r"""Return the text of a file that holds a workbook, its steps included.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> text_of(Workbook(load_scenario("paper-two-servers")))
    '{"drfh":1,"base":"paper-two-servers"}\n'
    """
    return _json(book.to_dict()) + "\n"


def book_of_text(text: str | bytes, place: str = "the file") -> Workbook:
    """Return the workbook that a file holds, with the checks of :func:`book_of`.

    Parameters
    ----------
    text
        What the file holds; how much that may be is for the caller to say.
    place
        What to call it in errors.

    Examples
    --------
    >>> book_of_text('{"drfh": 1, "base": "gpu-day"}').title
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
