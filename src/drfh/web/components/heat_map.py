"""A heat map in the browser: one cell a server.

All cells go over once, as bytes; after that only those that change. What one cell stands for is
asked of the server when somebody points at it, or comes to it with the arrow keys.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nicegui.element import Element
from nicegui.events import GenericEventArguments

from drfh.report.html import PALETTE
from drfh.web.components.heat_map_data import CellText, HeatMapData, change_between

__all__ = ["HeatMap"]


class HeatMap(Element, component="../assets/heat_map.js"):
    """A heat map of servers, drawn on a canvas.

    Parameters
    ----------
    cells
        What it shows first.
    describe
        Called with the position of a cell; returns the text of its tooltip.
    picked
        Called when somebody clicks on a cell, or presses Enter on it.
    height
        Pixels at most: what is higher is scrolled.
    """

    def __init__(
        self,
        cells: HeatMapData | None = None,
        *,
        describe: Callable[[int], CellText] | None = None,
        picked: Callable[[int], None] | None = None,
        height: int = 420,
    ) -> None:
        super().__init__()
        self._cells = cells
        self._number = 0  # of the version: what was missed is sent again
        self._describe, self._picked = describe, picked
        self._props["height"] = height
        self._props["colours"] = list(PALETTE)
        self._props["number"] = self._number
        self._props["first"] = None if cells is None else cells.to_dict()
        self.on("ready", self._ready)
        self.on("ask", self._asked)
        self.on("pick", self._pick)

    @property
    def cells(self) -> HeatMapData | None:
        """The cells that are shown."""
        return self._cells

    def set(self, cells: HeatMapData) -> None:
        """Send all cells."""
        self._cells = cells
        self._number += 1
        self._send()

    def patch(self, cells: HeatMapData) -> int:
        """Send the cells that changed; return how many.

        Parameters
        ----------
        cells
            All cells, changed or not.
        """
        change = None if self._cells is None else change_between(self._cells, cells)
        if change is None:
            self.set(cells)
            return len(cells)
        if not change.at.size:
            return 0
        before, self._cells = self._number, cells
        self._number += 1
        self.run_method("patch", change.to_dict(), before, self._number)
        return int(change.at.size)

    def _send(self) -> None:
        if self._cells is not None:
            self.run_method("set", self._cells.to_dict(), self._number)

    def _ready(self, event: GenericEventArguments) -> None:
        """Send all cells to a browser that has other ones."""
        if event.args != self._number:
            self._send()

    def _position(self, event: GenericEventArguments) -> int | None:
        at: Any = event.args
        there = isinstance(at, int) and self._cells is not None and 0 <= at < len(self._cells)
        return at if there else None

    def _asked(self, event: GenericEventArguments) -> None:
        at = self._position(event)
        if at is not None and self._describe is not None:
            self.run_method("describe", at, self._describe(at).to_dict())

    def _pick(self, event: GenericEventArguments) -> None:
        at = self._position(event)
        if at is not None and self._picked is not None:
            self._picked(at)
