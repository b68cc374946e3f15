"""A real `drfh explore` for tests, and its page in a real browser."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import drfh
from drfh.web.session.workbook import Workbook
from tests.support.pages import Tab

_LONGEST_START = 60.0
_USED = {"button", "checkbox", "columnheader", "combobox", "dialog", "grid", "gridcell", "image",
         "link", "listbox", "menuitem", "option", "radio", "searchbox", "slider", "spinbutton",
         "switch", "tab", "textbox"}  # fmt: skip


class Site:
    """A running explorer: `url` is the address that it printed, `lines` all it said."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self._ready = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert self._ready.wait(_LONGEST_START), self.lines
        found = [re.search(r"http://\S+", line) for line in self.lines]
        assert any(found), self.lines
        self.url = next(match[0] for match in found if match)
        parts = urlsplit(self.url)
        self.port = parts.port
        self.origin = f"{parts.scheme}://{parts.netloc}"

    def close(self) -> None:
        """Let go of what it says, once it has ended."""
        self._reader.join(20)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as said:  # nobody else closes it
            for line in said:
                self.lines.append(line)
                if "Ctrl-C" in line:
                    self._ready.set()
        self._ready.set()


@contextmanager
def explorer(*options: str | Path) -> Iterator[Site]:
    """Run ``drfh explore`` on a free port until the end of the block."""
    pytest.importorskip("nicegui", reason="needs the extra [web]: pip install 'drfh[web]'")
    arguments = [sys.executable, "-m", "drfh", "explore", "--no-open", "--port", "0"]
    process = subprocess.Popen(
        [*arguments, *map(str, options)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    site = None
    try:
        site = Site(process)
        yield site
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if site is not None:
            site.close()


class ExplorerTab(Tab):
    """A page of the explorer, in a browser that knows nothing of any other page.

    Parameters
    ----------
    query
        Of the address.
    apart, viewport, color_scheme
        As of :class:`~tests.support.pages.Tab`.
    """

    def __init__(self, browser: Any, site: Site, query: str = "", **options: Any) -> None:
        size = options.pop("viewport", {"width": 1400, "height": 900})
        scheme = options.pop("color_scheme", "light")
        sides = (size["width"], size["height"])
        super().__init__(browser, (f"{site.origin}/",), scheme=scheme, size=sides, **options)
        self.site = site
        self.page.goto(f"{site.origin}/{query}")
        self.page.wait_for_selector("[data-testid=solved]:not(:empty)")
        # What is typed sooner may be overwritten by what the server sends first: people are slower.
        self.page.wait_for_selector("body[data-ready]")

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
        self.page.keyboard.press("Delete")
        self.page.keyboard.type(text)
        self.page.keyboard.press("Enter")

    def point_at(self, element: Any) -> None:
        """Move the mouse there from elsewhere: who rests on a cell has not just come to it."""
        self.page.mouse.move(2, 2)
        element.hover()

    def wait_for(self, table: str, row: int, field: str, text: str) -> None:
        """Wait until a cell shows a text."""
        self.expect(self.cell(table, row, field)).to_have_text(text)

    def nameless(self) -> list[str]:
        """Return what can be used or read in a table, but has no name for a screen reader."""
        session = self.context.new_cdp_session(self.page)
        nodes = session.send("Accessibility.getFullAXTree")["nodes"]
        session.detach()
        found = [node for node in nodes if not node["ignored"]]
        named = {node["role"]["value"] for node in found if node["name"]["value"].strip()}
        assert {"button", "tab", "combobox"} <= named  # the tree is complete
        return [
            f"{node['role']['value']} {node['nodeId']}"
            for node in found
            if node["role"]["value"] in _USED and not node["name"]["value"].strip()
        ]

    def focused(self, attribute: str) -> str | None:
        """Return an attribute of what has the focus."""
        found = self.page.evaluate("name => document.activeElement.getAttribute(name)", attribute)
        return None if found is None else str(found)

    def expect(self, element: Any) -> Any:
        """Return what waits for an element to be as it should."""
        from playwright.sync_api import expect

        expect.set_options(timeout=20_000)
        return expect(element)

    def close(self) -> None:
        """Leave it, and fail if it was not quiet."""
        self.page.wait_for_timeout(100)
        self.release()
        assert not self.trouble


@contextmanager
def explorer_tab(
    browser: Any, site: Site, query: str = "", **options: Any
) -> Iterator[ExplorerTab]:
    """Open a page; at the end it must have been quiet, and nothing may have left the machine."""
    page = ExplorerTab(browser, site, query, **options)
    try:
        yield page
    except BaseException:
        page.discard()
        raise
    page.close()


# Numbers of the tables, computed without the page.


def tasks(book: Workbook) -> dict[str, float]:
    return drfh.allocate(book.scenario.cluster, book.scenario.users).tasks


def shown(number: float) -> str:
    """Write a number as the tables do."""
    return rounded(number, 4 if abs(number) < 1 else 2).rstrip("0").rstrip(".")


def rounded(number: float, digits: int) -> str:
    """Round as browsers do: a half goes up."""
    exact = Decimal(repr(round(number, 9)))
    return f"{exact.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP):,f}"


def check_users(page: ExplorerTab, book: Workbook) -> None:
    """Wait until the table of users shows what a workbook comes to."""
    allocation = drfh.allocate(book.scenario.cluster, book.scenario.users)
    for row, user in enumerate(book.scenario.users):
        page.wait_for("users", row, "name", user.name)
        page.wait_for("users", row, "gets", shown(allocation.tasks[user.name]))
        page.wait_for("users", row, "share", f"{rounded(100 * allocation.shares[user.name], 1)} %")


def paper() -> Workbook:
    return Workbook(drfh.load_scenario("paper-two-servers"))
