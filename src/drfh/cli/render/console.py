"""What the verbs share: consoles, tables, bars, JSON."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

import typer

from drfh.formatting import escaped, json_text

__all__ = [
    "Column",
    "bar",
    "console",
    "json_output",
    "lines",
    "print_columns",
    "print_csv",
    "print_json",
    "print_line",
    "progress_bar",
    "table",
]


_PIPE_WIDTH = 200
_EIGHTHS = " ▏▎▍▌▋▊▉█"


@cache
def _console_class() -> Any:
    from rich.console import Console  # not with the module: every verb would pay for it

    class EscapingConsole(Console):
        """Shows control characters of names instead of obeying them."""

        def render_str(self, text: str, **options: Any) -> Any:
            return super().render_str(escaped(text), **options)

    return EscapingConsole


def console(*, stderr: bool = False, soft_wrap: bool = True) -> Any:
    """Return a console without markup; it cuts no line in pipes.

    What it prints is :func:`~drfh.formatting.escaped`, ends of lines too: see :func:`lines`.
    """
    result = _console_class()(
        stderr=stderr, markup=False, highlight=False, emoji=False, soft_wrap=soft_wrap
    )
    if not result.is_terminal:
        result.width = max(result.width, _PIPE_WIDTH)
    return result


def table(*columns: str, right: tuple[str, ...] = ()) -> Any:
    """Return an empty table; columns in `right` hold numbers."""
    from rich import box
    from rich.table import Table

    result = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        if column in right:
            result.add_column(column, justify="right", no_wrap=True)
        else:
            result.add_column(column, overflow="fold")
    return result


def lines(*texts: str) -> Any:
    """Return texts as lines of one cell, or of one print."""
    from rich.text import Text

    return Text("\n".join(escaped(text) for text in texts))


def bar(part: float, width: int = 10) -> str:
    """Return a small bar for a number from 0 to 1.

    Examples
    --------
    >>> bar(0.5, 4), bar(1.0, 4)
    ('██  ', '████')
    """
    filled = min(max(part, 0.0), 1.0) * width
    whole = int(filled + 1e-9)
    rest = _EIGHTHS[int((filled - whole) * 8 + 0.5)] if whole < width else ""
    return f"{'█' * whole}{rest.strip()}".ljust(width)


def print_line(text: str, style: str | None = None) -> None:
    """Print a line; a terminal gets it broken between words."""
    out = console()
    out.print(text, style=style, soft_wrap=not out.is_terminal)


def print_json(data: Mapping[str, Any], *, in_a_line: bool = False) -> None:
    """Print an output as JSON, with its version first."""
    typer.echo(json_output(data, in_a_line=in_a_line))


def json_output(data: Mapping[str, Any], *, in_a_line: bool = False) -> str:
    """Return an output as JSON, with its version first.

    Examples
    --------
    >>> json_output({"page": "a.html"}, in_a_line=True)
    '{"version": 1, "page": "a.html"}'
    """
    from drfh.files.output_schema import versioned

    return json_text(versioned(data), indent=None if in_a_line else 2)


def print_csv(text: str) -> None:
    """Print a table as CSV: as it is, but for what a terminal would act on."""
    if sys.stdout.isatty():
        text = "\n".join(map(escaped, text.split("\n")))
    sys.stdout.write(text)  # typer's echo would take sequences for colours out of names


@contextmanager
def progress_bar() -> Iterator[Callable[[str, float, int], None] | None]:
    """Show a progress bar: call with what is next, done, total.

    In a pipe there is nothing to call.
    """
    out = console(stderr=True)
    if not out.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:22}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=out, transient=True) as shown:
        task = shown.add_task("", total=None)

        def update(next_: str, done: float, total: int) -> None:
            shown.update(task, description=next_, completed=done, total=total)

        yield update


_BETWEEN = 3
_EDGES = 2


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes
    ----------
    header : str
        Its name.
    cells : sequence of str
        What stands below, a line each.
    right : bool
        Whether it holds numbers.
    spare : int
        Whether it can go when there is no room: 1 for the first to go, 2 for the last.
    wraps : bool
        Whether the header may be broken after a hyphen or at a blank; ``~`` is a blank where not.
    broken : bool
        Whether it is.
    """

    header: str
    cells: Sequence[str]
    right: bool = True
    spare: int = 0
    wraps: bool = False
    broken: bool = False

    @property
    def header_lines(self) -> list[str]:
        """The header as it is shown.

        Examples
        --------
        >>> Column("sharing-incentive", ["✔"], wraps=True).wrapped().header_lines
        ['sharing-', 'incentive']
        >>> Column("in~the~fair allocation", ["1"], wraps=True).wrapped().header_lines
        ['in the fair', 'allocation']
        """
        text = escaped(self.header)
        if not self.wraps:
            return [text]
        if self.broken:
            text = text.replace("-", "-\n").replace(" ", "\n")
        return text.replace("~", " ").split("\n")

    @property
    def width(self) -> int:
        """How wide the widest line is."""
        from rich.cells import cell_len

        return max(cell_len(line) for line in (*self.header_lines, *map(escaped, self.cells)))

    def wrapped(self) -> Column:
        """Return the column with its header broken, if it may be."""
        return replace(self, broken=self.wraps)


def print_columns(out: Any, names: Column, sections: Sequence[Sequence[Column]]) -> None:
    """Print columns beside row names, in several tables if too wide.

    Names and numbers are never broken. Parts hold columns of one section, unless fewer parts would
    do otherwise.
    """
    for part in _parts(out.width, names, sections):
        _print_part(out, names, part)


def _parts(
    width: int, names: Column, sections: Sequence[Sequence[Column]]
) -> list[Sequence[Column]]:
    """Return columns that fit side by side."""
    width -= _EDGES + names.width
    every = [column for section in sections for column in section]
    plain = [column for column in every if column.spare != 1]
    wrapped = [column.wrapped() for column in plain]
    least = [column for column in wrapped if not column.spare]
    for attempt in (every, plain, wrapped, least):
        if sum(column.width + _BETWEEN for column in attempt) <= width:
            return [attempt]
    apart = [
        part
        for section in sections
        for part in _split([column.wrapped() for column in section if not column.spare], width)
    ]
    together = _split(least, width)
    return together if len(together) < len(apart) else apart


def _split(columns: Sequence[Column], width: int) -> list[Sequence[Column]]:
    parts: list[Sequence[Column]] = []
    part: list[Column] = []
    used = 0
    for column in columns:
        if part and used + column.width + _BETWEEN > width:
            parts.append(part)
            part, used = [], 0
        part.append(column)
        used += column.width + _BETWEEN
    return [*parts, part] if part else parts


def _print_part(out: Any, names: Column, part: Sequence[Column]) -> None:
    from rich import box
    from rich.table import Table

    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    columns = [names, *part]
    for column in columns:
        justify: Literal["left", "right"] = "right" if column.right else "left"
        header = lines(*column.header_lines)
        grid.add_column(header, justify=justify, no_wrap=True, vertical="top")
    for cells in zip(*(column.cells for column in columns), strict=True):
        grid.add_row(*cells)
    out.print(grid)
