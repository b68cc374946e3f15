"""How fast the explorer's page is: its first paint, and an edit from the key to the new numbers.

Run with ``make bench-explore`` on an idle machine, or ``python benchmarks/explore.py --quick``. A
real server and a real browser (Debian's chromium) on this machine. Times are of the browser's own
clock: the first paint of a page whose files the browser has already; and, for an edit, from the key
that ends it to the frame that shows what the user gets now. The solver's time is part of that, and
stands beside it. Each is the median.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.web.explorer.site import ExplorerTab, Site, explorer

from drfh import Cluster, Scenario, Server, User, load_scenario, save_scenario

SIZES = ((2, 2), (933, 10), (100, 1000))

_ARM = """() => {
  const cell = document.querySelector(
    "[data-testid=users-table] .ag-row[row-index='1'] [col-id=share]");
  window.shown = null;
  addEventListener("keydown", (event) => { window.pressed = event.timeStamp; },
                   {capture: true, once: true});
  const watch = new MutationObserver(() => {
    watch.disconnect();
    requestAnimationFrame(() => setTimeout(() => { window.shown = performance.now(); }));
  });
  watch.observe(cell, {childList: true, subtree: true, characterData: true});
}"""
_PAINT = "performance.getEntriesByName('first-contentful-paint')[0].startTime"


def made(users: int, groups: int) -> Scenario:
    """Return a scenario of this size, the same each time."""
    if (users, groups) == (2, 2):
        return load_scenario("paper-two-servers")
    random = np.random.default_rng(8)
    servers = [
        Server(
            {"cpu": float(random.integers(4, 65)), "memory": float(random.integers(8, 513))},
            name=f"group-{g}",
            count=int(random.integers(1, 40)),
        )
        for g in range(groups)
    ]
    people = [
        User(
            f"user-{u}",
            {
                "cpu": round(float(random.uniform(0.1, 4)), 3),
                "memory": round(float(random.uniform(0.1, 16)), 3),
            },
        )
        for u in range(users)
    ]
    return Scenario(Cluster(servers), tuple(people), title=f"{users} users, {groups} server groups")


def paints(page: ExplorerTab, times: int) -> list[float]:
    """Load the page again and again; return when it was first painted, in milliseconds."""
    found = []
    for _ in range(times + 1):
        page.page.goto(page.site.url)
        page.page.wait_for_selector(".ag-row")
        page.page.wait_for_timeout(300)
        found.append(float(page.page.evaluate(_PAINT)))
    return found[1:]


def edits(page: ExplorerTab, times: int) -> tuple[list[float], list[float]]:
    """Edit a weight again and again; return key to paint, and the solver's part of it."""
    took, solved = [], []
    for number in range(times + 1):
        page.cell("users", 1, "weight").click()
        page.page.keyboard.press("ControlOrMeta+a")
        page.page.keyboard.type(str(number + 2))
        page.page.evaluate(_ARM)
        page.page.keyboard.press("Enter")
        page.page.wait_for_function("window.shown !== null")
        took.append(float(page.page.evaluate("window.shown - window.pressed")))
        _, amount, unit = page.part("solved").inner_text().split(",")[1].split(" ")
        solved.append(float(amount) * (1 if unit == "ms" else 1000))
        page.page.wait_for_timeout(700)  # the address follows
    return took[1:], solved[1:]


def measure(browser: Any, site: Site, times: int) -> tuple[float, float, float]:
    """Return medians: first paint, key to paint, solver."""
    page = ExplorerTab(browser, site)
    took, solved = edits(page, times)
    first = paints(page, times)
    page.close()
    return statistics.median(first), statistics.median(took), statistics.median(solved)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="only see that it works")
    times = 2 if parser.parse_args().quick else 9
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("needs Debian's chromium (make browser)")
    table = Table("users", "server groups", "first paint", "edit, key to paint", "of it the solver",
                  "the rest", title="milliseconds, medians")  # fmt: skip
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(
            executable_path=chromium,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        for users, groups in SIZES:
            file = Path(folder) / f"{users}-{groups}.yaml"
            save_scenario(made(users, groups), file)
            with explorer(file) as site:
                first, took, solved = measure(browser, site, times)
            numbers = (first, took, solved, took - solved)
            table.add_row(str(users), str(groups), *(f"{number:.0f}" for number in numbers))
        browser.close()
    Console().print(table)


if __name__ == "__main__":
    main()
