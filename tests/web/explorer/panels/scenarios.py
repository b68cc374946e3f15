"""Scenarios for tests of panels, and panels that are opened in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode

import drfh
from drfh import Cluster, Scenario, Server, User
from drfh.web.session.share_links import book_to_link
from drfh.web.session.workbook import Workbook
from tests.web.explorer.site import ExplorerTab, Site, explorer_tab

LONG = 240_000  # milliseconds: other work may keep the machine busy


def many() -> Scenario:
    servers = [
        Server({"cpu": 4 + g % 7, "memory": 8 + g % 5}, name=f"rack-{g:02}", count=1 + g % 3)
        for g in range(60)
    ]
    users = [
        User(f"team-{i:02}", {"cpu": 1 + i % 3, "memory": 1 + i % 4}, weight=1 + i % 5)
        for i in range(30)
    ]
    return Scenario(Cluster(servers), tuple(users))


def huge() -> Scenario:
    """Return a cluster with too many servers to be filled one by one."""
    servers = [Server({"cpu": 4, "memory": 8}, name="node", count=300_000)]
    return Scenario(Cluster(servers), (User("ann", {"cpu": 1, "memory": 1}),))


def hostile() -> Scenario:
    names = ["<img src=x onerror=alert(1)>", "{a} {b} {c}", "a" * 80, 'q"uote | %']
    servers = [Server({"cpu": 4, "memory": 4}, name=name) for name in names]
    users = [User(name, {"cpu": 1 + i, "memory": 1}) for i, name in enumerate(names)]
    return Scenario(Cluster(servers), tuple(users))


def lie() -> Scenario:
    """Return a scenario in which lies pay with Nash welfare."""
    servers = [Server({"cpu": 100, "memory": 100}, name="node")]
    users = [User("ann", {"cpu": 16, "memory": 1}), User("bob", {"cpu": 1, "memory": 2})]
    return Scenario(Cluster(servers), tuple(users))


OWN = {"many": many, "huge": huge, "hostile": hostile, "lie": lie}


def scenario_of(name: str) -> Scenario:
    return OWN[name]() if name in OWN else drfh.load_scenario(name)


@contextmanager
def opened(
    browser: Any,
    site: Site,
    panel: str,
    name: str,
    mechanism: str = "drfh",
    *,
    scheme: str = "light",
    width: int = 1200,
) -> Iterator[ExplorerTab]:
    """Open a panel on a scenario; at the end it must have been quiet, and not too wide."""
    query = {"panel": panel, "m": mechanism}
    if name in OWN:
        query["s"] = book_to_link(Workbook(scenario_of(name))) or ""
        assert query["s"]
    else:
        query["open"] = name
    options = {"color_scheme": scheme, "viewport": {"width": width, "height": 900}}
    with explorer_tab(browser, site, f"?{urlencode(query)}", **options) as page:
        page.page.set_default_timeout(LONG)
        yield page
        assert page.page.evaluate("document.documentElement.scrollWidth") <= width


def rows_of(page: ExplorerTab, name: str) -> list[list[str]]:
    """Return the cells of a table, its head first; parts of a cell with spaces between."""
    page.page.wait_for_selector(f"[data-testid={name}] td", state="attached")
    text = "cell => [...cell.childNodes].map(node => node.textContent).join(' ')"
    lines: list[list[str]] = (
        page.part(name)
        .locator("tr")
        .evaluate_all(f"rows => rows.map(row => [...row.cells].map({text}))")
    )
    return lines
