"""JSON documents of live clusters: files, and values of the right type."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from drfh.errors import InputError
from drfh.files.reader import Ledger, Progress, unpacked

__all__ = [
    "JSON_FILES",
    "documents",
    "items_of",
    "listing",
    "mapping",
    "nothing_of",
    "text",
]

#: Glob patterns of the files that are read of a directory.
JSON_FILES = ("*.json", "*.json.gz")


def documents(
    paths: tuple[Path, ...], ledger: Ledger, progress: Progress | None = None
) -> Iterator[tuple[str, Any]]:
    """Yield every JSON value of the files, each with the name of its file.

    A file may hold several, one after the other, as two commands with ``>>`` leave them.

    Parameters
    ----------
    paths
        Files and directories.
    ledger
        Where damaged gzip files are counted.
    progress
        Called with the name of each file.
    """
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            found = (file for pattern in JSON_FILES for file in path.glob(pattern))
            files += sorted(file for file in found if file.is_file())
        else:
            files.append(path)
    if not files:
        shown = ", ".join(map(str, paths))
        raise InputError("path", "must be a directory with .json or .json.gz files", shown)
    decoder = json.JSONDecoder()
    for number, path in enumerate(files):
        if progress is not None:
            progress(path.name, number, len(files))
        data = unpacked(path, ledger)
        place = str(path)
        try:
            whole = data.decode(json.detect_encoding(data)).removeprefix("\ufeff")
        except UnicodeDecodeError:
            raise InputError("the file", "must be text in UTF-8", place=place) from None
        start = _skip_blanks(whole, 0)
        if start == len(whole):
            raise InputError("the file", "must not be empty", place=place)
        while start < len(whole):
            try:
                value, end = decoder.raw_decode(whole, start)
            except json.JSONDecodeError as error:
                rule = f"must be whole JSON ({error.msg})"
                where = f"{place}, line {error.lineno}"
                raise InputError("the file", rule, place=where) from None
            except RecursionError:
                raise InputError("the file", "must not be nested so deep", place=place) from None
            except ValueError as error:  # a whole number of thousands of digits
                raise InputError("the file", f"must be JSON ({error})", place=place) from None
            yield place, value
            start = _skip_blanks(whole, end)


def _skip_blanks(whole: str, start: int) -> int:
    while start < len(whole) and whole[start] in " \t\r\n":
        start += 1
    return start


def items_of(value: Any, key: str, place: str) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the entries of a list inside a document, each with where it is.

    Examples
    --------
    >>> items_of({"jobs": [{"a": 1}]}, "jobs", "q.json")
    [('q.json, jobs[0]', {'a': 1})]
    """
    listed = value.get(key)
    if not isinstance(listed, list):
        raise InputError(key, "must be a list", listed, place=place)
    return [(f"{place}, {key}[{number}]", entry) for number, entry in enumerate(listed)]


def nothing_of(field: str, rule: str, place: str, ledger: Ledger) -> InputError:
    """Return the error for entries of which there is none, or none that is in order.

    Examples
    --------
    >>> print(nothing_of("pods", "must be in the files", "a.json", Ledger()))
    a.json: pods must be in the files
    """
    broken = ledger.oddities
    hint = f"; broken: {broken[0].count:,}, {broken[0].first}" if broken else ""
    return InputError(field, rule + hint[:500], place=place)


def mapping(value: Any, field: str) -> Mapping[str, Any]:
    """Return a JSON object; a missing one is empty.

    Examples
    --------
    >>> mapping(None, "spec"), mapping({"a": 1}, "spec")
    ({}, {'a': 1})
    """
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InputError(field, "must be an object", value)
    return value


def listing(value: Any, field: str) -> list[Any]:
    """Return a JSON list; a missing one is empty.

    Examples
    --------
    >>> listing("a,b", "items")
    Traceback (most recent call last):
    drfh.errors.InputError: items must be a list, got 'a,b'
    """
    if value is None:
        return []
    if not isinstance(value, list):
        raise InputError(field, "must be a list", value)
    return value


def text(value: Any, field: str) -> str:
    """Return a name: text that is not blank, and that can be printed.

    Examples
    --------
    >>> text("node-1", "name")
    'node-1'
    >>> text("", "name")
    Traceback (most recent call last):
    drfh.errors.InputError: name must be text that is not blank, got ''
    """
    rule = "must be text that is not blank"
    if not isinstance(value, str) or not value or value != value.strip():
        raise InputError(field, rule, value)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InputError(field, "must have only characters that UTF-8 can write", value) from None
    return value
