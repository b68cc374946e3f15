"""NiceGUI element with the figures of runs, drawn by Vega in the browser."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import cache
from hashlib import sha256
from importlib.metadata import version

from fastapi import Response
from nicegui import app
from nicegui.element import Element
from nicegui.events import GenericEventArguments

from drfh.report.html import stylesheet

__all__ = ["LIBRARY", "RunFigures", "runs_css", "vega_bundle"]


#: Path of the Vega bundle; it differs by version, so that browsers may cache it.
LIBRARY = f"/_drfh/vega-{sha256(version('vl-convert-python').encode()).hexdigest()[:12]}.js"

_CODE = "import sys, vl_convert as v; sys.stdout.buffer.write(v.javascript_bundle().encode())"
_BUNDLE_TIMEOUT = 120.0  # seconds


@cache
def vega_bundle() -> Future[str]:
    """Start to build the Vega bundle, once; return its future.

    It takes seconds with the interpreter lock held, which would stall all pages: hence a process.
    """
    made: Future[str] = Future()
    threading.Thread(target=lambda: made.set_result(_bundle()), daemon=True).start()
    return made


def _bundle() -> str:
    try:
        done = subprocess.run(
            [sys.executable, "-c", _CODE],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            timeout=_BUNDLE_TIMEOUT,
        )
        return done.stdout.decode()
    except (OSError, subprocess.SubprocessError, UnicodeError):
        from drfh.report.html import library

        return library()


@app.get(LIBRARY, include_in_schema=False)
def _library() -> Response:
    headers = {"Cache-Control": "private, max-age=31536000, immutable"}
    return Response(vega_bundle().result(), media_type="text/javascript", headers=headers)


def runs_css() -> str:
    """Return the stylesheet of the panel: that of the offline pages inside ``.run-page``."""
    page = stylesheet("drfh.report", "page.css")
    return f".run-page {{ {page} }}{stylesheet('drfh.web', 'runs.css')}"


class RunFigures(Element, component="../assets/run_figures.js"):
    """Element with the markup of the offline pages, and figures that zoom.

    Parameters
    ----------
    everything
        Called when a link to a hidden figure is followed.
    moved
        Called on zoom with the visible part of the time, from 0 to 1.
    """

    def __init__(
        self, everything: Callable[[], None], moved: Callable[[float, float], None]
    ) -> None:
        super().__init__()
        self._props["library"] = LIBRARY
        self._content, self._only, self._number = "", "", 0
        self._span = (0.0, 1.0)
        self._moved = moved
        self.on("ready", self._ready)
        self.on("everything", everything)
        self.on("span", self._on_span)

    def set(self, content: str) -> None:
        """Show the content of a :class:`drfh.web.runs.pages.RunPage`."""
        self._content, self._only, self._span = content, "", (0.0, 1.0)
        self._number += 1
        self._send()

    def only(self, name: str) -> None:
        """Show one figure alone, enlarged; empty: all figures."""
        self._only = name
        self.run_method("only", name)

    def span(self, start: float, end: float) -> None:
        """Zoom all figures to a part of the time, from 0 to 1."""
        self._span = (start, end)
        self.run_method("showSpan", start, end)

    def _on_span(self, event: GenericEventArguments) -> None:
        try:
            start, end = (min(max(float(part), 0.0), 1.0) for part in event.args)
        except (TypeError, ValueError, OverflowError):  # anybody may send anything
            return
        self._span = (start, end)
        self._moved(start, end)

    def _send(self) -> None:
        self.run_method("set", self._content, self._only, list(self._span), self._number)

    def _ready(self, event: GenericEventArguments) -> None:
        if self._number and event.args != self._number:
            self._send()
