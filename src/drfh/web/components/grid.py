"""A table with cells that can be edited and marked as wrong.

The page must have loaded ``assets/grid.js``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from nicegui import ui

from drfh.web.components.controls import container
from drfh.web.session.table_rows import TableColumn

__all__ = ["Grid"]

_ROW, _HEAD, _REST = 34, 36, 20  # pixels
_NARROW_NAME, _NARROW = 125, 92
_FEW_COLUMNS = 30  # all drawn at once, so that keys reach those out of sight

# Columns with a format of their own, a function of assets/grid.js.
_FORMATS = ("number", "part", "change")
_PIN_LEFT = "drfhGrid.pin('left', 700)"
_PIN_RIGHT = "drfhGrid.pin('right', 1000)"


class Grid:
    """A table; a row is identified by its name.

    Parameters
    ----------
    label
        What it is, for screen readers.
    testid
        For tests.
    edited
        Called with the row's name, the column and the text when a cell was edited.
    tallest
        Rows that are shown at once; the others are scrolled to.
    """

    def __init__(
        self,
        label: str,
        testid: str,
        edited: Callable[[str, TableColumn, str], None] | None = None,
        *,
        tallest: int = 12,
    ) -> None:
        self.label, self.testid, self._edited, self._tallest = label, testid, edited, tallest
        self._numbers = count()
        self._keys: dict[str, str] = {}
        self._columns: list[TableColumn] = []
        self._rows: list[dict[str, Any]] = []
        self._bad: dict[tuple[str, str], tuple[str, str]] = {}
        self._grid: ui.aggrid | None = None
        self._sent = 0
        self.box = container("grid-box").props(f"data-testid={testid}")

    def show(self, columns: Sequence[TableColumn], rows: Sequence[dict[str, Any]]) -> None:
        """Show rows; only differences are sent to the browser.

        Parameters
        ----------
        columns
            The columns.
        rows
            What they hold; ``name`` is different in each, and new dicts each time.
        """
        keys = {
            row["name"]: self._keys.get(row["name"]) or f"k{next(self._numbers)}" for row in rows
        }
        self._bad = {cell: text for cell, text in self._bad.items() if cell[0] in keys}
        made = [self._marked({**row, "id": keys[row["name"]]}) for row in rows]
        same_rows = [row["id"] for row in made] == [row["id"] for row in self._rows]
        before, self._keys, self._rows = self._rows, keys, made
        new_columns = list(columns) != self._columns
        self._columns = list(columns)
        self._set_height()
        if self._grid is None:
            self._build()
            return
        if new_columns:
            self._grid.run_grid_method("setGridOption", "columnDefs", self._definitions())
        if same_rows:
            self._patch(before, made)
        else:
            self._sent += 1
            self._grid.run_grid_method("setGridOption", "rowData", made)

    def _patch(self, before: Sequence[dict[str, Any]], after: Sequence[dict[str, Any]]) -> None:
        """Send the differences between two lists of the same rows."""
        changes = []
        for old, new in zip(before, after, strict=True):
            if old != new:
                change = {k: new.get(k) for k in (*new, *old) if new.get(k) != old.get(k)}
                changes.append((new["id"], change))
        if changes and self._grid is not None:
            self._sent += 1
            ui.run_javascript(f"drfhGrid.patch({self._grid.id}, {json.dumps(changes)})")

    def mark(self, name: str, column: TableColumn, text: str, rule: str) -> None:
        """Mark a cell whose text was refused, with the rule it breaks."""
        self._bad[name, column.field] = text, rule
        self._renew(name)

    @property
    def has_marks(self) -> bool:
        """Whether a cell is marked."""
        return bool(self._bad)

    def unmark(self, name: str, column: TableColumn) -> None:
        """Remove the mark of a cell."""
        self._bad.pop((name, column.field), None)

    def forget_marks(self) -> None:
        """Remove all marks, and the text that was typed."""
        names = {name for name, _ in self._bad}
        self._bad = {}
        for name in names:
            self._renew(name)

    def rename(self, old: str, new: str) -> None:
        """Give a row a new name; it keeps its place and marks."""
        if old in self._keys and new not in self._keys:
            self._keys[new] = self._keys.pop(old)
            self._bad = {(new if n == old else n, f): v for (n, f), v in self._bad.items()}

    def edit(self, name: str, field: str) -> None:
        """Start editing a cell."""
        if self._grid is None or name not in self._keys:
            return
        cell = f"{json.dumps(self._keys[name])}, {json.dumps(field)}"
        ui.run_javascript(f"drfhGrid.edit({self._grid.id}, {cell})")

    async def selected(self) -> list[str]:
        """Return the names of the rows that are ticked."""
        if self._grid is None:
            return []
        ids = [row["id"] for row in await self._grid.get_selected_rows()]
        return [row["name"] for row in self._rows if row["id"] in ids]

    def _renew(self, name: str) -> None:
        """Send the marks of a row."""
        key = self._keys.get(name)
        for i, row in enumerate(self._rows):
            if row["id"] == key:
                clean = {k: v for k, v in row.items() if k not in ("bad", "was")}
                clean |= row.get("was", {})
                self._rows[i] = self._marked(clean)
                self._patch([row], [self._rows[i]])

    def _marked(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return a row with the text and rules of its marked cells."""
        bad = {field: mark for (name, field), mark in self._bad.items() if name == row["name"]}
        if not bad:
            return row
        was = {field: row.get(field) for field in bad}
        texts = {field: text for field, (text, _) in bad.items()}
        return {**row, **texts, "bad": {f: rule for f, (_, rule) in bad.items()}, "was": was}

    def _set_height(self) -> None:
        rows = min(max(len(self._rows), 1), self._tallest)
        self.box.style(f"height: {_HEAD + rows * _ROW + _REST}px")

    def _definitions(self) -> list[dict[str, Any]]:
        return [self._definition(column) for column in self._columns]

    def _definition(self, column: TableColumn) -> dict[str, Any]:
        made: dict[str, Any] = {
            "field": column.field,
            "headerName": column.title,
            "headerTooltip": column.hint or column.title,
            "editable": bool(column.step and self._edited),
            "minWidth": column.width,
            "flex": column.width,
        }
        classes = ["can-edit"] if made["editable"] else ["result"] if column.kind != "text" else []
        if column.kind != "text":
            classes.append("right")
            made["headerClass"] = "right"
        if column.kind == "part":
            classes.append("part")
            made[":cellStyle"] = "drfhGrid.partStyle"
        if column.kind in _FORMATS:
            made[":valueFormatter"] = f"drfhGrid.{column.kind}"
            made["sortable"] = True
        if column.field == "name":
            made |= {":pinned": _PIN_LEFT, "sortable": True}
        if column.pinned:
            made[":pinned"] = _PIN_RIGHT
        if ":pinned" in made:
            # On a phone the names, what everybody gets and its share are in sight at once.
            narrow = _NARROW_NAME if column.field == "name" else _NARROW
            del made["flex"], made["minWidth"]
            width = f"drfhGrid.width({narrow}, {column.width})"
            made |= {":width": width, ":minWidth": width}
        made["cellClass"] = classes
        made["cellRendererParams"] = {"empty": column.empty}
        return made

    def _build(self) -> None:
        options: dict[str, Any] = {
            "columnDefs": self._definitions(),
            "rowData": self._rows,
            "defaultColDef": {
                "sortable": False,
                "resizable": True,
                "suppressHeaderMenuButton": True,
                "cellDataType": False,
                ":cellRenderer": "drfhGrid.cell",
                ":valueParser": "drfhGrid.typed",
                ":cellClassRules": "drfhGrid.classes",
                ":tooltipValueGetter": "drfhGrid.tooltip",
            },
            ":getRowId": "drfhGrid.rowId",
            "singleClickEdit": True,
            "stopEditingWhenCellsLoseFocus": True,
            "enterNavigatesVerticallyAfterEdit": True,
            "suppressScrollOnNewData": True,
            "tooltipShowDelay": 200,
            "animateRows": False,
            "suppressColumnVirtualisation": len(self._columns) <= _FEW_COLUMNS,
            "suppressNoRowsOverlay": True,  # read to who cannot see it, with rows or without
            ":onGridReady": f"drfhGrid.ready({json.dumps(self.label)})",
            ":onNewColumnsLoaded": "drfhGrid.arrange",
            "rowHeight": _ROW,
            "headerHeight": _HEAD,
        }
        if self._edited is not None:
            options["rowSelection"] = {"mode": "multiRow", "enableClickSelection": False}
            options["selectionColumnDef"] = {"width": 44, ":pinned": _PIN_LEFT}
        with self.box:
            self._grid = ui.aggrid(options, auto_size_columns=False)
        self._grid.on("gridReady", self._ready, [])
        if self._edited is not None:
            self._grid.on("cellValueChanged", self._changed, ["rowId", "colId", "newValue"])

    def _ready(self) -> None:
        """Send again what was sent before the browser was ready."""
        if self._sent and self._grid is not None:
            self._grid.run_grid_method("setGridOption", "columnDefs", self._definitions())
            self._grid.run_grid_method("setGridOption", "rowData", self._rows)

    def _changed(self, event: Any) -> None:
        args = event.args if isinstance(event.args, dict) else {}  # anybody may send anything
        key, field, text = args.get("rowId"), args.get("colId"), args.get("newValue") or ""
        column = next((c for c in self._columns if c.field == field and c.step), None)
        name = next((name for name, known in self._keys.items() if known == key), None)
        row = next((row for row in self._rows if row["id"] == key), None)
        if column is None or name is None or row is None or self._edited is None:
            return
        if not isinstance(text, str):
            return
        # What the browser shows now, and what should be there until the edit is accepted.
        row["was"] = {column.field: row.get(column.field)} | row.get("was", {})
        row[column.field] = text
        self._edited(name, column, text)
