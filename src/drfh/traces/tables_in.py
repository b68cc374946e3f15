"""The files of a directory of tables → rows with the right types."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import polars as pl

from drfh.errors import InputError, UnknownNameError
from drfh.resources import parse_quantity
from drfh.traces.ledger import Ledger
from drfh.traces.opening import unpacked
from drfh.traces.rows import LINE, header_of, parse_rows, refuse
from drfh.traces.tables_layout import COLUMNS, KINDS, LABEL, NOTE

__all__ = ["find_table", "needed_table", "read_table"]

_LONGEST_NAME = 100
_TYPES = {"arrival": pl.Float64, "count": pl.Int64, "time": pl.Float64, "weight": pl.Float64}


def find_table(folder: Path, table: str) -> Path | None:
    """Return the file of a table, if there is one.

    Examples
    --------
    >>> find_table(Path("no-such-folder"), "events")
    """
    found = [path for kind in KINDS if (path := folder / f"{table}.{kind}").is_file()]
    if len(found) > 1:
        rule = f"must have one of {table}.csv and {table}.parquet, not both"
        raise InputError("path", rule, str(folder))
    return found[0] if found else None


def needed_table(folder: Path, table: str) -> Path:
    """Return the file of a table; raise if there is none.

    Examples
    --------
    >>> needed_table(Path("no-such-folder"), "jobs")
    Traceback (most recent call last):
    drfh.errors.InputError: path must have a jobs.csv or jobs.parquet in it, got 'no-such-folder'
    """
    found = find_table(folder, table)
    if found is None:
        raise InputError("path", f"must have a {table}.csv or {table}.parquet in it", str(folder))
    return found


def read_table(
    path: Path, table: str, ledger: Ledger, known: Iterable[str] | None
) -> tuple[pl.DataFrame, list[str], str]:
    """Return the rows of one file, its resource columns, and what to call it.

    Parameters
    ----------
    path
        CSV or Parquet.
    table
        Which of the tables it is.
    ledger
        Where broken rows are counted.
    known
        The resources that there are; None if this file says so itself.
    """
    own = COLUMNS[table]
    frame = _parquet(path) if path.suffix == ".parquet" else None
    data = b"" if frame is not None else unpacked(path, ledger)
    names = header_of(data) if frame is None else frame.columns
    prefix = NOTE if table == "jobs" else LABEL
    resources = [name for name in names if name not in own and not name.startswith(prefix)]
    place = path.name
    for name in names:
        if not name or len(name) > _LONGEST_NAME:
            rule = f"must have a name of 1 to {_LONGEST_NAME} characters"
            raise InputError("column", rule, name, place=f"{place}, line 1")
    for name in resources:
        if known is not None and name not in known:
            allowed = {*own, *(known or ())}
            raise UnknownNameError("column", name, allowed, place=f"{place}, line 1")
    for name, needed in own.items():
        if needed and name not in names:
            rule = f"must be among the columns (found: {', '.join(names)[:200]})"
            raise InputError(name, rule, place=f"{place}, line 1")
    required = [name for name, needed in own.items() if needed]
    if frame is None:
        kinds = {name: _TYPES.get(name, pl.String) for name in dict.fromkeys([*own, *names])}
        frame = parse_rows(data, kinds, ledger, place, header=True, required=required)
    else:
        frame = frame.with_row_index(LINE, offset=1)
        missing = [name for name in own if name not in names]
        frame = frame.with_columns(pl.lit(None, pl.String).alias(name) for name in missing)
        for name in required:
            frame = refuse(frame, pl.col(name).is_null(), name, "must be given", ledger, place)
    for resource in resources:
        frame = _quantities(frame, resource, ledger, place)
    return frame, resources, place


def _parquet(path: Path) -> pl.DataFrame:
    try:
        return pl.read_parquet(path)
    except Exception as error:  # polars has many; a damaged file may raise any of them
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise InputError("the file", f"must be Parquet ({reason})", place=str(path)) from None


def _quantities(frame: pl.DataFrame, name: str, ledger: Ledger, place: str) -> pl.DataFrame:
    """Read a column of amounts: numbers, or text such as 16Gi. Empty stays empty."""
    column = frame[name]
    if column.dtype.is_numeric():
        typed = column.cast(pl.Float64)
    elif column.dtype == pl.String or column.dtype == pl.Null:
        typed = column.cast(pl.String).cast(pl.Float64, strict=False)
        odd = column.filter(typed.is_null() & column.is_not_null()).unique().to_list()
        read = {text: _quantity(text) for text in odd}
        if read:
            spelt = column.replace_strict(read, default=None, return_dtype=pl.Float64)
            typed = typed.fill_null(spelt)
    else:
        rule = "must be a column of amounts"
        raise InputError(name, rule, str(column.dtype), place=place)
    bad = (column.is_not_null() & typed.is_null()) | ~(typed.is_finite() & (typed >= 0))
    rule = "must be a finite number ≥ 0, such as 4, 0.5, '500m' or '16Gi'"
    frame = frame.with_columns(bad.fill_null(False).alias("_bad"), typed.alias("_typed"))
    frame = refuse(frame, pl.col("_bad"), name, rule, ledger, place)
    return frame.with_columns(pl.col("_typed").alias(name)).drop("_bad", "_typed")


def _quantity(text: str) -> float | None:
    try:
        return parse_quantity(text)
    except InputError:
        return None
