"""Tables of what runs, from whatever library they are."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import polars
import pytest

import drfh

SCENARIO = drfh.load_scenario("paper-two-servers")
COLUMNS: dict[str, list[Any]] = {
    "user": ["ann", "bob", "bob"],
    "server": ["high-memory", "high-cpu", "high-memory"],
    "tasks": [8, None, 1],
    "cpu": [None, 6.0, None],
    "memory": [None, 1.2, None],
}
ROWS = [dict(zip(COLUMNS, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)]


class ArrowTable:
    """A table with the names that pyarrow has."""

    def __init__(self, columns: dict[str, list[Any]]) -> None:
        self.column_names = list(columns)
        self._columns = columns

    @property
    def columns(self) -> list[list[Any]]:
        return list(self._columns.values())

    def __getitem__(self, name: str) -> Any:
        return type("Column", (), {"to_pylist": lambda _: self._columns[name]})()


def pandas_table(*, typed: bool) -> Any:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(COLUMNS)
    return table.convert_dtypes() if typed else table  # missing: NA, or NaN


@pytest.mark.parametrize(
    "table",
    [
        lambda: polars.DataFrame(COLUMNS),
        lambda: pandas_table(typed=False),
        lambda: pandas_table(typed=True),
        lambda: ArrowTable(COLUMNS),
    ],
    ids=["polars", "pandas", "pandas-na", "arrow"],
)
def test_any_table_is_as_good_as_rows(table: Any) -> None:
    expected = drfh.audit(SCENARIO, observed=ROWS, properties=["fair", "feasible"])
    report = drfh.audit(SCENARIO, observed=table(), properties=["fair", "feasible"])
    assert report.tasks == expected.tasks == pytest.approx({"ann": 8, "bob": 7})
    assert [f.text for f in report] == [f.text for f in expected]


def test_pandas_is_not_imported_for_it() -> None:
    code = (
        "import drfh, polars, sys; s = drfh.load_scenario('paper-two-servers')\n"
        "rows = [{'user': 'ann', 'server': 'high-memory', 'tasks': 8}]\n"
        "for table in (rows, polars.DataFrame(rows)):\n"
        "    drfh.audit(s, observed=table, properties=['fair'])\n"
        "assert 'pandas' not in sys.modules and 'pyarrow' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("table", [[], polars.DataFrame(), 7, "user,server", [1, 2]])
def test_what_is_no_table_is_refused(table: Any) -> None:
    with pytest.raises(drfh.InputError, match="observed must be a table with at least one row"):
        drfh.audit(SCENARIO, observed=table)
