"""Workbooks from uploaded files and from files of the page's folder."""

from __future__ import annotations

import json
import os
import stat
from contextlib import ExitStack
from pathlib import Path

from drfh.errors import InputError
from drfh.files.scenario_file import parse_scenario, shipped_scenarios
from drfh.web.session.share_links import book_from_text
from drfh.web.session.workbook import Workbook, base_from_data

__all__ = [
    "LARGEST_UPLOAD",
    "book_from_file",
    "is_quick_to_open",
    "open_named",
    "path_inside",
    "scenario_files",
]

#: Bytes of a file that is sent to the page.
LARGEST_UPLOAD = 2_000_000

_ENDINGS = (".yaml", ".yml", ".json")
_MOST_FILES = 200
# Bytes of a file that is read at once: more takes seconds, in which no page would move.
_QUICK = 200_000


def book_from_file(data: bytes | str, name: str) -> Workbook:
    r"""Return the workbook of a saved workbook or a scenario file.

    Parameters
    ----------
    data
        What the file holds, at most :data:`LARGEST_UPLOAD` bytes.
    name
        What to call it in errors.

    Examples
    --------
    >>> text = "cluster: [{resources: {cpu: 4}}]\nusers: [{name: ann, demand: {cpu: 1}}]"
    >>> book_from_file(text, "team.yaml").scenario.cluster
    Cluster(1 server in 1 group: cpu 4)
    >>> book_from_file(b"\xff", "team.yaml")
    Traceback (most recent call last):
    drfh.errors.InputError: team.yaml: the file must be text in UTF-8
    """
    if len(data) > LARGEST_UPLOAD:
        rule = f"must be at most {LARGEST_UPLOAD // 1_000_000} MB"
        raise InputError("the file", rule, f"{len(data):,} bytes", place=name)
    if isinstance(data, bytes):
        try:
            data = data.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise InputError("the file", "must be text in UTF-8", place=name) from None
    if data.lstrip()[:1] == "{" and _is_workbook(data):
        return book_from_text(data, name)
    return Workbook(parse_scenario(data, name, strict=True))


def _is_workbook(text: str) -> bool:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return False  # YAML may begin with a brace too
    return isinstance(found, dict) and "base" in found


def open_named(name: str, folder: Path | None) -> Workbook:
    """Return the workbook of a shipped scenario or a file.

    Examples
    --------
    >>> open_named("google-2011", None).title
    "Google's cluster of 12,583 servers"
    >>> open_named("../secret.yaml", None)
    Traceback (most recent call last):
    drfh.errors.InputError: open must be the name of a shipped scenario, got '../secret.yaml'
    """
    if name in shipped_scenarios():
        return Workbook(base_from_data(name))
    if folder is None:
        raise InputError("open", "must be the name of a shipped scenario", name)
    path = path_inside(folder, name)
    if path.suffix not in _ENDINGS:
        raise InputError("open", f"must end in {', '.join(_ENDINGS)}", name)
    return book_from_file(_read(folder.resolve(), path, name), name)


def is_quick_to_open(name: str, folder: Path | None) -> bool:
    """Return whether a page may wait for :func:`open_named`.

    Examples
    --------
    >>> is_quick_to_open("google-2011", None)
    True
    """
    if name in shipped_scenarios() or folder is None:
        return True
    try:
        return path_inside(folder, name).stat().st_size <= _QUICK
    except (InputError, OSError):
        return True  # so is what is wrong with it


def _read(root: Path, path: Path, name: str) -> bytes:
    """Return the content of a file, up to the largest allowed.

    Its path was resolved: a link in it was put there since, and may lead anywhere.
    """
    inner = path.relative_to(root).parts
    with ExitStack() as stack:
        try:
            here = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
            stack.callback(os.close, here)
            for part in inner[:-1]:
                here = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
                stack.callback(os.close, here)
            # Opening a pipe would wait for its writer; this does not.
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
            there = stack.enter_context(open(os.open(inner[-1], flags, dir_fd=here), "rb"))
            if not stat.S_ISREG(os.fstat(there.fileno()).st_mode):
                raise InputError("the file", "must be a regular file", place=name)
            return there.read(LARGEST_UPLOAD + 1)
        except OSError as error:
            rule = f"must be there and readable ({error.strerror or error})"
            raise InputError("the file", rule, place=name) from None


def path_inside(folder: Path, name: str) -> Path:
    """Return a path in a folder; refuse one that leads out.

    Examples
    --------
    >>> path_inside(Path("/srv/drfh"), "../../etc/passwd")
    Traceback (most recent call last):
    drfh.errors.InputError: open must be in the folder of this page, got '../../etc/passwd'
    """
    root = folder.resolve()
    try:
        path = (root / name).resolve()
        inside = path.is_relative_to(root)
    except (OSError, ValueError, RuntimeError):  # too long, a null byte, links in a circle
        inside = False
    if not inside:
        raise InputError("open", "must be in the folder of this page", name)
    return path


def scenario_files(folder: Path | None) -> list[str]:
    """Return the names of the scenario files in a folder, sorted.

    Examples
    --------
    >>> scenario_files(None)
    []
    """
    if folder is None:
        return []
    try:
        names = sorted(p.name for p in folder.iterdir() if p.suffix in _ENDINGS and p.is_file())
    except OSError:
        return []
    return names[:_MOST_FILES]
