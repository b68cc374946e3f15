"""A slider over the steps of a film."""

from __future__ import annotations

from collections.abc import Callable

from nicegui.element import Element
from nicegui.events import GenericEventArguments

__all__ = ["Slider"]


class Slider(Element, component="../assets/slider.js"):
    """A slider with keyboard control: arrows, Home and End.

    Parameters
    ----------
    moved
        Called with the step that somebody moved it to; then :meth:`set` must be called.
    """

    def __init__(self, moved: Callable[[int], None]) -> None:
        super().__init__()
        self._moved_to = moved
        self._at, self._last, self._text, self._turn = 0, 1, "", 0
        self.on("ready", self._send)
        self.on("move", self._moved)

    def set(self, at: int, last: int, text: str) -> None:
        """Set the step, the last step, and the step's text."""
        self._at, self._last, self._text = at, last, text
        self._send()

    def _send(self) -> None:
        self.run_method("set", self._at, self._last, self._text, self._turn)

    def _moved(self, event: GenericEventArguments) -> None:
        news = event.args if isinstance(event.args, dict) else {}
        at, turn = news.get("at"), news.get("turn")
        if isinstance(at, int) and isinstance(turn, int):
            self._turn = turn
            self._moved_to(min(max(at, 0), self._last))
