"""Tiles: the numbers at the top of a page."""

from __future__ import annotations

from collections.abc import Sequence

from nicegui import ui

from drfh.report.html import Tile
from drfh.web.components.controls import container

__all__ = ["Tiles"]


class Tiles:
    """A row of tiles; they are made anew only if their names change."""

    def __init__(self, testid: str) -> None:
        self._boxes: dict[str, _TileBox] = {}
        with container("tiles", testid):
            self._build()

    def show(self, tiles: Sequence[Tile]) -> None:
        """Show other tiles, or other values of the same."""
        if list(self._boxes) != [tile.name for tile in tiles]:
            self._build.refresh(tiles)
            return
        for tile in tiles:
            self._boxes[tile.name].show(tile)

    @ui.refreshable_method
    def _build(self, tiles: Sequence[Tile] = ()) -> None:
        self._boxes = {tile.name: _TileBox(tile) for tile in tiles}


class _TileBox:
    """Elements of a tile: label, value, bar, note."""

    def __init__(self, tile: Tile) -> None:
        with container(f"tile {tile.name}", f"tile-{tile.name}") as self.box:
            self.label, self.value = ui.label().classes("label"), ui.label().classes("value")
            self.bar = container("bar")
            self.note = ui.label().classes("remark")
            if tile.hint:
                self.box.props("tabindex=0")
                ui.tooltip(tile.hint)
        self.show(tile)

    def show(self, tile: Tile) -> None:
        """Show other values."""
        self.label.set_text(tile.label)
        self.value.set_text(tile.value)
        self.value.classes(replace=f"value {tile.tone}".strip())
        self.note.set_text(tile.note)
        self.bar.set_visibility(tile.part is not None)
        if tile.part is not None:
            self.bar.style(f"--part: {100 * min(max(tile.part, 0.0), 1.0):.1f}%")
