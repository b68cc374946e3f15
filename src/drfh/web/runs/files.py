"""Run directories in the folder of a page: which there are, and what is read of them.

Nothing outside the folder is opened, by whatever way a name or a link in it leads there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from drfh.errors import DrfhError, InputError
from drfh.experiments.reproduction import SUMMARY_FILE, TABLES, Reproduction
from drfh.files.atomic import shown_path
from drfh.formatting import format_count
from drfh.simulation.result import RUN_FILE, Result
from drfh.web.session.open_file import path_inside

__all__ = ["MOST_RUNS", "RunPlace", "newest", "place_of", "read_place", "run_places"]

Kind = Literal["run", "runs", "reproduction"]

#: Runs on one page.
MOST_RUNS = 32
#: Numbers in one table, and bytes of the files of a run.
_MOST_NUMBERS = 50_000_000
_LARGEST_RUN = 400_000_000
_LARGEST_TEXT = 8_000_000
# What is looked at for the list.
_MOST_PLACES = 200
_MOST_SEEN = 3_000
_DEEPEST = 4

_HERE = "."  # the folder itself
_FEW = 8  # that open together without being asked for

_TEXTS = ("config.yaml", "summary.json", RUN_FILE)
_RUN_TABLES = ("jobs", "users", "samples", "tasks")


@dataclass(frozen=True)
class RunPlace:
    """A directory that can be shown.

    Attributes
    ----------
    name : str
        Its path in the folder, for people.
    path : Path
        Where it is.
    root : Path
        What its files must be in.
    kind : str
        ``run``; ``runs``, a directory of run directories; or ``reproduction``.
    inside : tuple of str
        Names of the run directories that it holds.
    """

    name: str
    path: Path
    root: Path
    kind: Kind
    inside: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """What a list says of it."""
        name = shown_path(self.path.name if self.name == _HERE else self.name)
        if self.kind == "runs":
            return f"{name} · {format_count(len(self.inside), 'run')} together"
        return f"{name} · reproduction of the paper" if self.kind == "reproduction" else name


def run_places(folder: Path | None, run: Path | None = None) -> list[RunPlace]:
    """Return what can be shown: in a folder, and a directory that was asked for.

    Links are not followed; a folder with very many directories is not looked through to its end.

    Examples
    --------
    >>> run_places(None)
    []
    """
    found: list[RunPlace] = []
    if run is not None:
        given = _given(run, folder)
        found += [given] if given is not None else []
    known = {place.path for place in found}
    if folder is None:
        return found
    root = folder.resolve()
    waiting, seen = [(root, 0)], 0
    while waiting and seen < _MOST_SEEN and len(found) < _MOST_PLACES:
        here, depth = waiting.pop(0)
        seen += 1
        place = _look(here, root)
        # One that holds a single run is that run, which comes by itself.
        if place is not None and here not in known and len(place.inside) != 1:
            found.append(place)
        if depth < _DEEPEST and (place is None or place.kind != "run"):
            waiting += [(path, depth + 1) for path in _directories(here)]
    return found


def newest(places: Sequence[RunPlace]) -> RunPlace | None:
    """Return what was written last; where a few stand together, all of them.

    Examples
    --------
    >>> newest([]) is None
    True
    """

    def when(place: RunPlace) -> float:
        names = [f"{name}/{RUN_FILE}" for name in place.inside] or [
            SUMMARY_FILE if place.kind == "reproduction" else RUN_FILE
        ]
        times = []
        for name in names:
            try:
                times.append((place.path / name).stat().st_mtime)
            except OSError:
                continue
        return max(times, default=0.0)

    # The first of those with the same time: it stands higher up.
    few = [place for place in places if place.name != _HERE and len(place.inside) <= _FEW]
    return max(few or places, key=when, default=None)


def place_of(name: str, folder: Path | None, run: Path | None = None) -> RunPlace:
    """Return a directory by its name, and refuse one that is outside or holds nothing to show.

    Examples
    --------
    >>> place_of("../elsewhere", Path("."))
    Traceback (most recent call last):
    drfh.errors.InputError: run must be a path in the folder of this page, got '../elsewhere'
    """
    if run is not None:
        given = _given(run, folder)
        if given is not None and given.name == name:
            return given
    if folder is None:
        raise InputError("run", "must be in a folder: start the page with --folder DIR", name)
    if not name or os.path.isabs(name) or ".." in Path(name).parts:
        raise InputError("run", "must be a path in the folder of this page", name)
    try:
        path = path_inside(folder, name)
    except InputError:
        raise InputError("run", "must be a path in the folder of this page", name) from None
    found = _look(path, folder.resolve())
    if found is None:
        rule = f"must be a run directory, or one that holds some ({RUN_FILE} is missing)"
        raise InputError("run", rule, name)
    return found


def _given(run: Path, folder: Path | None) -> RunPlace | None:
    """Return the directory that the page was started with: it may be outside the folder."""
    path = run.resolve()
    if folder is not None and path.is_relative_to(folder.resolve()):
        return _look(path, folder.resolve())
    place = _look(path, path)
    return None if place is None else replace(place, name=str(path))


def _look(path: Path, root: Path) -> RunPlace | None:
    """Return what a directory is, if it can be shown."""
    name = str(path.relative_to(root))
    try:
        if (path / RUN_FILE).is_file():
            return RunPlace(name, path, root, "run")
        inside = tuple(p.name for p in _directories(path) if (p / RUN_FILE).is_file())
        if inside:
            return RunPlace(name, path, root, "runs", inside)
        if (path / SUMMARY_FILE).is_file() and (path / TABLES).is_dir():
            return RunPlace(name, path, root, "reproduction")
    except OSError:
        pass
    return None


def _directories(path: Path) -> list[Path]:
    try:
        with os.scandir(path) as entries:
            names = [
                entry.name
                for entry in entries
                if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False)
            ]
    except OSError:
        return []
    return [path / name for name in sorted(names)[:_MOST_SEEN]]


def read_place(
    place: RunPlace, tell: Callable[[str, float], None]
) -> list[tuple[str, Result]] | Reproduction:
    """Read a directory: a reproduction, or runs with their names.

    Raises
    ------
    InputError
        In one line, if it is damaged, too large, or if a file of it is elsewhere.
    """
    if place.kind == "reproduction":
        tell(f"reading {shown_path(place.name)}", 0.1)
        tables = sorted((place.path / TABLES).glob("*.parquet"))
        with _readable(place.name):
            _check(place.name, place.root, [place.path / SUMMARY_FILE], tables)
            return Reproduction.load(place.path)
    runs: list[tuple[str, Result]] = []
    names = place.inside or ("",)
    if len(names) > MOST_RUNS:
        raise InputError("run", f"must be at most {MOST_RUNS} runs on one page", len(names))
    for position, inner in enumerate(names):
        path = place.path / inner
        name = inner if place.name == _HERE and inner else str(Path(place.name, inner))
        tell(f"reading {shown_path(name)}", position / len(names))
        with _readable(name):
            texts = [path / text for text in _TEXTS]
            _check(name, place.root, texts, [path / f"{table}.parquet" for table in _RUN_TABLES])
            runs.append((name, Result.load(path)))
    return runs


def _check(name: str, root: Path, texts: Sequence[Path], tables: Sequence[Path]) -> None:
    """Raise unless all files are inside the root, and small enough to be shown."""
    import polars as pl

    if any(letter in str(texts[0].parent) for letter in "*?["):
        # Polars would take them for patterns, and read what they match.
        raise InputError("run", "must have none of * ? [ in its path", name)
    there = [path for path in (*texts, *tables) if os.path.lexists(path)]
    for path in there:
        if not path.resolve().is_relative_to(root):
            rule = f"must have all its files in the folder of this page ({path.name} is elsewhere)"
            raise InputError("run", rule, name)
        if not path.is_file():
            raise InputError("run", f"must have regular files ({path.name} is none)", name)
    sizes = {path: path.stat().st_size for path in there}
    if sum(sizes.values()) > _LARGEST_RUN:
        rule = f"must be at most {_LARGEST_RUN // 1_000_000} MB to be shown here (see drfh report)"
        raise InputError("run", rule, name)
    if any(sizes.get(path, 0) > _LARGEST_TEXT for path in texts):
        raise InputError("run", f"must have texts of at most {_LARGEST_TEXT // 1_000_000} MB", name)
    for path in tables:
        if path in sizes:
            table = pl.scan_parquet(path)
            rows = int(table.select(pl.len()).collect().item())
            if rows * len(table.collect_schema()) > _MOST_NUMBERS:
                rule = f"must have at most {_MOST_NUMBERS:,} numbers in a table to be shown here"
                raise InputError("run", f"{rule} ({path.name}; see drfh report)", name)


@contextmanager
def _readable(name: str) -> Iterator[None]:
    """Turn whatever damaged files make libraries say into one line."""
    try:
        yield
    except DrfhError:
        raise
    except Exception as error:
        raise damaged(name, error) from None
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # what Polars raises at broken files
            raise
        raise damaged(name, error) from None


def damaged(name: str, error: Any) -> InputError:
    """Return what is said of a run that cannot be read or drawn."""
    reason = " ".join(f"{type(error).__name__}: {error}".split())[:120]
    return InputError("run", f"must be whole: it is damaged, or not of this drfh ({reason})", name)
