"""Run directories in the folder of a page: listed, found by name, read.

Nothing outside the folder is opened, neither by a name nor through a link.
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
from drfh.web.session.cell_input import LONGEST
from drfh.web.session.open_file import path_inside

__all__ = [
    "MOST_RUNS",
    "RunDirectory",
    "find_run",
    "list_runs",
    "newest",
    "read_run",
]

Kind = Literal["run", "runs", "reproduction"]

#: Runs on one page.
MOST_RUNS = 32
_MAX_VALUES = 50_000_000  # in one table
_MAX_RUN_BYTES = 400_000_000
_MAX_TEXT_BYTES = 8_000_000
_MAX_LISTED = 200
_MAX_VISITED = 3_000  # directories searched for the list
_MAX_DEPTH = 4

_HERE = "."  # the folder itself
_FEW = 8  # runs opened together by default

_TEXTS = ("config.yaml", "summary.json", RUN_FILE)
_RUN_TABLES = ("jobs", "users", "samples", "tasks")


@dataclass(frozen=True)
class RunDirectory:
    """Directory that the panel can show.

    Attributes
    ----------
    name : str
        Path relative to the folder.
    path : Path
        Absolute path.
    root : Path
        Directory that all files must be in.
    kind : str
        ``run``; ``runs``, a directory of run directories; or ``reproduction``.
    inside : tuple of str
        Names of the run directories in it.
    """

    name: str
    path: Path
    root: Path
    kind: Kind
    inside: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Text in the list."""
        name = shown_path(self.path.name if self.name == _HERE else self.name)
        if self.kind == "runs":
            return f"{name} · {format_count(len(self.inside), 'run')} together"
        return f"{name} · reproduction of the paper" if self.kind == "reproduction" else name


def list_runs(folder: Path | None, run: Path | None = None) -> list[RunDirectory]:
    """Return the run directories of a folder, after `run` if given.

    Links are not followed; at most 3,000 directories are searched.

    Examples
    --------
    >>> list_runs(None)
    []
    """
    found: list[RunDirectory] = []
    if run is not None:
        given = _start_run(run, folder)
        found += [given] if given is not None else []
    known = {directory.path for directory in found}
    if folder is None:
        return found
    root = folder.resolve()
    waiting, visited = [(root, 0)], 0
    while waiting and visited < _MAX_VISITED and len(found) < _MAX_LISTED:
        here, depth = waiting.pop(0)
        visited += 1
        directory = _inspect(here, root)
        # A directory with a single run is listed as that run.
        if directory is not None and here not in known and len(directory.inside) != 1:
            found.append(directory)
        if depth < _MAX_DEPTH and (directory is None or directory.kind != "run"):
            waiting += [(path, depth + 1) for path in _directories(here)]
    return found


def newest(directories: Sequence[RunDirectory]) -> RunDirectory | None:
    """Return the directory written last; one that holds a few runs before these.

    Examples
    --------
    >>> newest([]) is None
    True
    """

    def when(directory: RunDirectory) -> float:
        names = [f"{name}/{RUN_FILE}" for name in directory.inside] or [
            SUMMARY_FILE if directory.kind == "reproduction" else RUN_FILE
        ]
        times = []
        for name in names:
            try:
                times.append((directory.path / name).stat().st_mtime)
            except OSError:
                continue
        return max(times, default=0.0)

    # Of equal times the first, which is higher up.
    few = [
        directory
        for directory in directories
        if directory.name != _HERE and len(directory.inside) <= _FEW
    ]
    return max(few or directories, key=when, default=None)


def find_run(name: str, folder: Path | None, run: Path | None = None) -> RunDirectory:
    """Return a run directory by its name; raise if it is outside the folder or no run.

    Examples
    --------
    >>> find_run("../elsewhere", Path("."))
    Traceback (most recent call last):
    drfh.errors.InputError: run must be a path in the folder of this page, got '../elsewhere'
    """
    if run is not None:
        given = _start_run(run, folder)
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
    found = _inspect(path, folder.resolve())
    if found is None:
        rule = f"must be a run directory, or one that holds some ({RUN_FILE} is missing)"
        raise InputError("run", rule, name)
    return found


def _start_run(run: Path, folder: Path | None) -> RunDirectory | None:
    """Return the directory of ``--run``, which may be outside the folder."""
    path = run.resolve()
    if folder is not None and path.is_relative_to(folder.resolve()):
        return _inspect(path, folder.resolve())
    directory = _inspect(path, path)
    return None if directory is None else replace(directory, name=str(path))


def _inspect(path: Path, root: Path) -> RunDirectory | None:
    """Return a directory with its kind; None if it holds no run."""
    name = str(path.relative_to(root))
    try:
        if (path / RUN_FILE).is_file():
            return RunDirectory(name, path, root, "run")
        inside = tuple(p.name for p in _directories(path) if (p / RUN_FILE).is_file())
        if inside:
            return RunDirectory(name, path, root, "runs", inside)
        if (path / SUMMARY_FILE).is_file() and (path / TABLES).is_dir():
            return RunDirectory(name, path, root, "reproduction")
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
    return [path / name for name in sorted(names)[:_MAX_VISITED]]


def read_run(
    directory: RunDirectory, tell: Callable[[str, float], None]
) -> list[tuple[str, Result]] | Reproduction:
    """Read a directory: a reproduction, or runs with their names.

    Raises
    ------
    InputError
        If it is damaged, too large, or has a file outside the folder.
    """
    if directory.kind == "reproduction":
        tell(f"reading {shown_path(directory.name)}", 0.1)
        tables = sorted((directory.path / TABLES).glob("*.parquet"))
        with _readable(directory.name):
            _check(directory.name, directory.root, [directory.path / SUMMARY_FILE], tables)
            return Reproduction.load(directory.path)
    runs: list[tuple[str, Result]] = []
    names = directory.inside or ("",)
    if len(names) > MOST_RUNS:
        raise InputError("run", f"must be at most {MOST_RUNS} runs on one page", len(names))
    for position, inner in enumerate(names):
        path = directory.path / inner
        name = inner if directory.name == _HERE and inner else str(Path(directory.name, inner))
        tell(f"reading {shown_path(name)}", position / len(names))
        with _readable(name):
            texts = [path / text for text in _TEXTS]
            _check(
                name, directory.root, texts, [path / f"{table}.parquet" for table in _RUN_TABLES]
            )
            runs.append((name, Result.load(path)))
    return runs


def _check(name: str, root: Path, texts: Sequence[Path], tables: Sequence[Path]) -> None:
    """Raise unless all files are inside the root, and small enough to be shown."""
    import polars as pl

    if any(letter in str(texts[0].parent) for letter in "*?["):
        # Polars would expand them as glob patterns.
        raise InputError("run", "must have none of * ? [ in its path", name)
    there = [path for path in (*texts, *tables) if os.path.lexists(path)]
    for path in there:
        if not path.resolve().is_relative_to(root):
            rule = f"must have all its files in the folder of this page ({path.name} is elsewhere)"
            raise InputError("run", rule, name)
        if not path.is_file():
            raise InputError("run", f"must have regular files ({path.name} is none)", name)
    sizes = {path: path.stat().st_size for path in there}
    if sum(sizes.values()) > _MAX_RUN_BYTES:
        rule = f"must be at most {_MAX_RUN_BYTES // 10**6} MB to be shown here (see drfh report)"
        raise InputError("run", rule, name)
    if any(sizes.get(path, 0) > _MAX_TEXT_BYTES for path in texts):
        raise InputError(
            "run", f"must have texts of at most {_MAX_TEXT_BYTES // 1_000_000} MB", name
        )
    for path in tables:
        if path in sizes:
            table = pl.scan_parquet(path)
            rows, columns = int(table.select(pl.len()).collect().item()), table.collect_schema()
            texts_of = pl.col(pl.String, pl.Categorical).cast(pl.String).str.len_bytes().max()
            sizes_of = table.select(texts_of).collect().rows()
            if max((n or 0 for row in sizes_of for n in row), default=0) > LONGEST or any(
                len(column) > LONGEST for column in columns
            ):
                rule = f"must have names of at most {LONGEST:,} bytes ({path.name})"
                raise InputError("run", rule, name)
            if rows * len(columns) > _MAX_VALUES:
                rule = f"must have at most {_MAX_VALUES:,} numbers in a table to be shown here"
                raise InputError("run", f"{rule} ({path.name}; see drfh report)", name)


@contextmanager
def _readable(name: str) -> Iterator[None]:
    """Turn exceptions of libraries at damaged files into an InputError."""
    try:
        yield
    except DrfhError:
        raise
    except Exception as error:
        raise damaged(name, error) from None
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # of Polars
            raise
        raise damaged(name, error) from None


def damaged(name: str, error: Any) -> InputError:
    """Return the error of a run that cannot be read or drawn."""
    reason = " ".join(f"{type(error).__name__}: {error}".split())[:120]
    return InputError("run", f"must be whole: it is damaged, or not of this drfh ({reason})", name)
