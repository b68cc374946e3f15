"""The scripts that draw the figures of runs, served from here: put together beside the page."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import Future
from functools import cache
from hashlib import sha256
from importlib.metadata import version

from fastapi import Response
from nicegui import app

__all__ = ["LIBRARY", "begin"]

#: Where it is served. Another version has another address, so that browsers may keep it.
LIBRARY = f"/_drfh/vega-{sha256(version('vl-convert-python').encode()).hexdigest()[:12]}.js"

_CODE = "import sys, vl_convert as v; sys.stdout.buffer.write(v.javascript_bundle().encode())"
_PATIENCE = 120.0  # seconds


@cache
def begin() -> Future[str]:
    """Begin to put the library together, once; return what will hold it.

    It takes seconds, in which this process would stand still with all its pages: hence another.
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
            timeout=_PATIENCE,
        )
        return done.stdout.decode()
    except (OSError, subprocess.SubprocessError, UnicodeError):
        from drfh.report.page import library

        return library()


@app.get(LIBRARY, include_in_schema=False)
def _library() -> Response:
    headers = {"Cache-Control": "private, max-age=31536000, immutable"}
    return Response(begin().result(), media_type="text/javascript", headers=headers)
