"""Parser of comma-separated rows: a typed table, and counts of broken rows."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Mapping
from typing import Any

import polars as pl

from drfh.errors import InputError
from drfh.files.reader import Ledger
from drfh.formatting import format_count

__all__ = ["LINE", "header_of", "parse_rows", "refuse"]

#: The column with the number of the line in the file, from 1.
LINE = "_line"
_TYPE_NAMES = {pl.Float64: "a number", pl.Int64: "a whole number", pl.Int32: "a whole number"}
_HUGE_FIELD = 2**31 - 1


def parse_rows(
    data: bytes,
    columns: Mapping[str, Any],
    ledger: Ledger,
    place: str,
    *,
    header: bool = False,
    required: Collection[str] = (),
) -> pl.DataFrame:
    """Return the rows of a file as a table with line numbers.

    The whole is parsed at once if it is in order; else row by row.

    Parameters
    ----------
    data
        The bytes of the file.
    columns
        Name → polars type, in order. With a header, only these columns are taken, and any of them
        that is not `required` may be absent: it is null then.
    ledger
        Where broken rows are counted.
    place
        What to call the file.
    header
        Whether the first line names the columns (then fields may be quoted).
    required
        Columns in which a field must not be empty.

    Examples
    --------
    >>> ledger = Ledger()
    >>> types = {"time": pl.Int64, "cpu": pl.Float64}
    >>> data = "1,0.5 2,x 3 4,".replace(" ", chr(10)).encode()
    >>> parse_rows(data, types, ledger, "a.csv")["time"].to_list()
    [1, 4]
    >>> ledger.oddities[0].first, ledger.oddities[1].kind
    ('a.csv, line 3: row must have 2 fields, got 1', 'cpu must be a number')
    """
    names = _header(data, columns, place, required) if header else list(columns)
    frame = _at_once(data, names, columns, header)
    if frame is None:
        frame = _one_by_one(data, names, columns, ledger, place, header)
    for name in required:
        frame = refuse(frame, pl.col(name).is_null(), name, "must be given", ledger, place)
    return frame.with_columns(
        pl.lit(None, kind).alias(name) for name, kind in columns.items() if name not in names
    )


def refuse(
    frame: pl.DataFrame,
    wrong: pl.Expr,
    field: str,
    rule: str,
    ledger: Ledger,
    place: str,
) -> pl.DataFrame:
    """Return the rows without the `wrong` ones, which are counted.

    Parameters
    ----------
    frame
        A table with line numbers; `field` is one of its columns.
    wrong
        True for rows to leave out.
    field, rule
        What the rule is about, for the report.
    ledger, place
        Where they are counted, and what to call the file.

    Examples
    --------
    >>> ledger = Ledger()
    >>> frame = pl.DataFrame({"cpu": [1.0, -2.0], LINE: [1, 2]})
    >>> refuse(frame, pl.col("cpu") < 0, "cpu", "must be ≥ 0", ledger, "a.csv")["cpu"].to_list()
    [1.0]
    >>> ledger.oddities[0].first
    'a.csv, line 2: cpu must be ≥ 0, got -2.0'
    """
    bad = frame.select(field, LINE, wrong.fill_null(False).alias("_wrong")).filter("_wrong")
    if not len(bad):
        return frame
    value, line, _ = bad.row(0)
    got: tuple[Any, ...] = () if value is None else (value,)
    ledger.broken(InputError(field, rule, *got, place=f"{place}, line {line}"), len(bad))
    return frame.filter(~wrong.fill_null(False))


def header_of(data: bytes) -> list[str]:
    """Return the column names of the first line of a file.

    Examples
    --------
    >>> header_of(b"user,cpu")
    ['user', 'cpu']
    """
    first = data.partition(b"\n")[0].removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
    try:
        return [name.strip() for name in next(csv.reader([first.rstrip("\r")]), [])]
    except csv.Error:
        return []


def _header(
    data: bytes, columns: Mapping[str, Any], place: str, required: Collection[str]
) -> list[str]:
    names = header_of(data)
    for name in required:
        if name not in names:
            shown = ", ".join(names)[:200]
            rule = f"must be among the columns, separated by commas (found: {shown})"
            raise InputError(name, rule, place=f"{place}, line 1")
    for name in columns:
        if names.count(name) > 1:
            raise InputError(name, "must be the name of one column", place=f"{place}, line 1")
    return names


def _at_once(
    data: bytes, names: list[str], columns: Mapping[str, Any], header: bool
) -> pl.DataFrame | None:
    """Parse all rows, or return None if anything is not as it should be."""
    lines = data.count(b"\n") + (not data.endswith(b"\n") and len(data) > 0)
    if b"\r" in data or b'"' in data or data.count(b",") != lines * (len(names) - 1):
        return None
    if lines <= header:
        return None
    schema = {f"_{i}": columns.get(name, pl.String) for i, name in enumerate(names)}
    try:
        frame = pl.read_csv(
            data,
            has_header=False,
            skip_rows=int(header),
            schema=schema,
            quote_char=None,
            row_index_name=LINE,
            row_index_offset=1 + header,
        )
    except (pl.exceptions.PolarsError, ValueError):
        return None
    if len(frame) != lines - header:  # an empty line was dropped, or a comment was taken for one
        return None
    chosen = [pl.col(f"_{i}").alias(n) for i, n in enumerate(names) if n in columns]
    return frame.select(*chosen, LINE)


def _one_by_one(
    data: bytes,
    names: list[str],
    columns: Mapping[str, Any],
    ledger: Ledger,
    place: str,
    header: bool,
) -> pl.DataFrame:
    """Parse row by row, and leave out what is not as it should be."""
    text = io.StringIO(data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace"), newline="")
    csv.field_size_limit(_HUGE_FIELD)
    # Without a header there are no quotes: a stray one must not swallow the lines that follow.
    reader = csv.reader(text, quoting=csv.QUOTE_MINIMAL if header else csv.QUOTE_NONE)
    rows: list[list[str]] = []
    lines: list[int] = []
    rule = f"must have {format_count(len(names), 'field')}"
    while True:
        before = reader.line_num
        try:
            row = next(reader)
        except StopIteration:
            break
        except csv.Error as error:
            where = f"{place}, line {before + 1}"
            ledger.broken(InputError("row", f"must be comma-separated text ({error})", place=where))
            continue
        if (header and before == 0) or not row:
            continue
        if len(row) != len(names):
            ledger.broken(InputError("row", rule, len(row), place=f"{place}, line {before + 1}"))
            continue
        rows.append(row)
        lines.append(before + 1)
    schema = {f"_{i}": pl.String for i in range(len(names))}
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    frame = frame.with_columns(pl.all().replace("", None), pl.Series(LINE, lines, pl.UInt32))
    frame = frame.select(
        *(pl.col(f"_{i}").alias(n) for i, n in enumerate(names) if n in columns), LINE
    )
    for name in [name for name in names if name in columns]:
        kind = columns[name]
        if kind == pl.String:
            continue
        typed = pl.col(name).str.strip_chars().cast(kind, strict=False)
        rule = f"must be {_TYPE_NAMES.get(kind, 'a whole number')}"
        frame = refuse(
            frame, typed.is_null() & pl.col(name).is_not_null(), name, rule, ledger, place
        )
        frame = frame.with_columns(typed.alias(name))
    return frame
