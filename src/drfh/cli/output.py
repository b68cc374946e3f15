"""What the verbs share: consoles, tables, bars, JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer

__all__ = ["bar", "console", "percent", "print_json", "progress_bar", "table"]

_PIPE_WIDTH = 200
_EIGHTHS = " ▏▎▍▌▋▊▉█"


def console(*, stderr: bool = False) -> Any:
    """Return a console that prints names as they are and never cuts a line in a pipe."""
    from rich.console import Console

    result = Console(stderr=stderr, markup=False, highlight=False, emoji=False, soft_wrap=True)
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


def percent(part: float | None) -> str:
    """Return a part as percent.

    Examples
    --------
    >>> percent(0.7142), percent(None)
    ('71.4 %', '–')
    """
    if part is None:
        return "–"
    small = 0 < part < 0.001
    return f"{100 * part:.1g} %" if small else f"{100 * part:.1f} %"


def print_json(data: Any) -> None:
    """Print data as JSON."""
    typer.echo(json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False))


@contextmanager
def progress_bar() -> Iterator[Callable[[str, float, int], None] | None]:
    """Show a bar on a terminal: call with what is next, how much is done, and of how much.

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

        def tell(next_: str, done: float, total: int) -> None:
            shown.update(task, description=next_, completed=done, total=total)

        yield tell
