"""A real `drfh explore` for tests, and its page in a real browser."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

_LONGEST_START = 60.0


class Site:
    """A running explorer: `url` is the address that it printed, `lines` all it said."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self._ready = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()
        assert self._ready.wait(_LONGEST_START), self.lines
        found = [re.search(r"http://\S+", line) for line in self.lines]
        assert any(found), self.lines
        self.url = next(match[0] for match in found if match)
        parts = urlsplit(self.url)
        self.port = parts.port
        self.origin = f"{parts.scheme}://{parts.netloc}"

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as said:  # else whatever test runs later is blamed for it
            for line in said:
                self.lines.append(line)
                if "Ctrl-C" in line:
                    self._ready.set()
        self._ready.set()


@contextmanager
def explorer(*words: str | Path) -> Iterator[Site]:
    """Run ``drfh explore`` on a free port until the end of the block."""
    pytest.importorskip("nicegui", reason="needs the extra [web]: pip install 'drfh[web]'")
    arguments = [sys.executable, "-m", "drfh", "explore", "--no-open", "--port", "0"]
    process = subprocess.Popen(
        [*arguments, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    try:
        yield Site(process)
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Seen:
    """A page of the explorer in a browser context of its own."""

    def __init__(self, browser: Any, site: Site, query: str = "", **options: Any) -> None:
        options = {"viewport": {"width": 1400, "height": 900}, **options}
        self.site = site
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.trouble: list[str] = []
        self.page.on("pageerror", lambda error: self.trouble.append(str(error)))
        self.page.on("console", self._heard)
        self.page.on("request", self._asked)
        self.page.goto(f"{site.origin}/{query}")
        self.page.wait_for_selector("[data-testid=solved]:not(:empty)")

    def _heard(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.trouble.append(message.text)

    def _asked(self, request: Any) -> None:
        if not request.url.startswith((f"{self.site.origin}/", "data:", "blob:")):
            self.trouble.append(f"a request left: {request.url}")

    def part(self, testid: str) -> Any:
        """Return an element by what tests call it."""
        return self.page.get_by_test_id(testid)

    def cell(self, table: str, row: int, field: str) -> Any:
        """Return a cell of a table."""
        return self.part(f"{table}-table").locator(f".ag-row[row-index='{row}'] [col-id='{field}']")

    def edit(self, table: str, row: int, field: str, text: str) -> None:
        """Type into a cell, as somebody with a mouse does."""
        self.cell(table, row, field).click()
        self.page.keyboard.press("ControlOrMeta+a")
        self.page.keyboard.type(text)
        self.page.keyboard.press("Enter")

    def wait_for(self, table: str, row: int, field: str, text: str) -> None:
        """Wait until a cell shows a text."""
        from playwright.sync_api import expect

        expect(self.cell(table, row, field)).to_have_text(text, timeout=20_000)

    def close(self) -> None:
        """Close it, and fail if it was not quiet."""
        self.page.wait_for_timeout(100)
        self.context.close()
        assert not self.trouble


@contextmanager
def seen(browser: Any, site: Site, query: str = "", **options: Any) -> Iterator[Seen]:
    """Open a page; at the end it must have been quiet, and nothing may have left the machine."""
    page = Seen(browser, site, query, **options)
    yield page
    page.close()
