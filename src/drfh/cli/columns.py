"""Tables that fit the terminal: bars go first, headers wrap, at last the table is split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

__all__ = ["Column", "print_columns"]

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
        Whether the header may be broken after a hyphen or at a blank.
    """

    header: str
    cells: Sequence[str]
    right: bool = True
    spare: int = 0
    wraps: bool = False

    @property
    def width(self) -> int:
        """How wide the widest line is."""
        from rich.cells import cell_len

        return max(cell_len(line) for line in (*self.header.split("\n"), *self.cells))

    def wrapped(self) -> Column:
        """Return the column with its header broken, if it may be.

        Examples
        --------
        >>> Column("sharing-incentive", ["✔"], wraps=True).wrapped().header.split()
        ['sharing-', 'incentive']
        """
        if not self.wraps:
            return self
        return replace(self, header=self.header.replace("-", "-\n").replace(" ", "\n"))


def print_columns(out: Any, names: Column, sections: Sequence[Sequence[Column]]) -> None:
    """Print columns beside the names of the lines, in parts if they are too wide together.

    Names and numbers are never broken. Parts hold columns of one section, unless fewer parts would
    do otherwise.
    """
    for part in _parts(out.width, names, sections):
        _print_part(out, names, part)


def _parts(
    room: int, names: Column, sections: Sequence[Sequence[Column]]
) -> list[Sequence[Column]]:
    """Return columns that fit side by side."""
    room -= _EDGES + names.width
    every = [column for section in sections for column in section]
    plain = [column for column in every if column.spare != 1]
    wrapped = [column.wrapped() for column in plain]
    least = [column for column in wrapped if not column.spare]
    for attempt in (every, plain, wrapped, least):
        if sum(column.width + _BETWEEN for column in attempt) <= room:
            return [attempt]
    apart = [
        part
        for section in sections
        for part in _split([column.wrapped() for column in section if not column.spare], room)
    ]
    together = _split(least, room)
    return together if len(together) < len(apart) else apart


def _split(columns: Sequence[Column], room: int) -> list[Sequence[Column]]:
    parts: list[Sequence[Column]] = []
    part: list[Column] = []
    used = 0
    for column in columns:
        if part and used + column.width + _BETWEEN > room:
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
        grid.add_column(column.header, justify=justify, no_wrap=True, vertical="top")
    for cells in zip(*(column.cells for column in columns), strict=True):
        grid.add_row(*cells)
    out.print(grid)
