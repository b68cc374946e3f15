"""Workbooks from files that somebody sends or that lie in the folder that was given."""

from __future__ import annotations

import json
from pathlib import Path

from drfh.disk import read_text
from drfh.errors import InputError
from drfh.files import parse_scenario, shipped_scenarios
from drfh.web.filing import base_of
from drfh.web.sharing import book_of_text
from drfh.web.workbook import Workbook

__all__ = ["LARGEST_UPLOAD", "book_of_file", "open_named", "path_inside", "scenario_files"]

#: Bytes of a file that is sent to the page.
LARGEST_UPLOAD = 2_000_000

_ENDINGS = (".yaml", ".yml", ".json")
_MOST_FILES = 200


def book_of_file(data: bytes | str, name: str) -> Workbook:
    r"""Return the workbook of a file: one that a page saved, or a scenario.

    Parameters
    ----------
    data
        What the file holds, at most :data:`LARGEST_UPLOAD` bytes.
    name
        What to call it in errors.

    Examples
    --------
    >>> text = "cluster: [{resources: {cpu: 4}}]\nusers: [{name: ann, demand: {cpu: 1}}]"
    >>> book_of_file(text, "team.yaml").scenario.cluster
    Cluster(1 server in 1 group: cpu 4)
    >>> book_of_file(b"\xff", "team.yaml")
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
        return book_of_text(data, name)
    return Workbook(parse_scenario(data, name, strict=True))


def _is_workbook(text: str) -> bool:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return False  # YAML may begin with a brace too
    return isinstance(found, dict) and "base" in found


def open_named(name: str, folder: Path | None) -> Workbook:
    """Return the workbook of a shipped scenario, or of a file in the folder.

    Examples
    --------
    >>> open_named("google-2011", None).title
    "Google's cluster of 12,583 servers"
    >>> open_named("../secret.yaml", None)
    Traceback (most recent call last):
    drfh.errors.InputError: open must be the name of a shipped scenario, got '../secret.yaml'
    """
    if name in shipped_scenarios():
        return Workbook(base_of(name))
    if folder is None:
        raise InputError("open", "must be the name of a shipped scenario", name)
    path = path_inside(folder, name)
    if path.suffix not in _ENDINGS:
        raise InputError("open", f"must end in {', '.join(_ENDINGS)}", name)
    return book_of_file(read_text(str(path)), name)


def path_inside(folder: Path, name: str) -> Path:
    """Return a path in a folder, and refuse one that leads out of it, by whatever way.

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
    """Return the names of the files in a folder that may be scenarios, in order.

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
