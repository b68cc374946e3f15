"""How smooth the heat map is: milliseconds a frame while it is scrolled, zoomed and updated.

Run with ``make bench-heat`` on an idle machine, or ``python benchmarks/heat.py --quick``. The live
view of a made-up cluster in a real browser (Debian's chromium), which draws as many frames as it
can: the time between two frames is what a frame costs, and 60 frames a second leave 16.7 ms. The
plain twin is what a page would be without a canvas: an element for each node in a CSS grid, with
the same colours, sizes and gestures. Medians, and the 95th percentile in brackets.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.web.live.pages import LiveTab, made_up_view

SIZES = (64, 1_000, 12_583, 50_000)
TWIN = 12_583
GESTURES = ("scroll", "zoom", "update")
_CELL = 15  # pixels: large enough to be scrolled, and for a bar for each resource
_FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking",
          "--disable-frame-rate-limit", "--disable-gpu-vsync"]  # fmt: skip

_TIMED = """async ([frames, gesture]) => {
  const step = window.gestures[gesture], took = [];
  let last = 0;
  await new Promise((done) => {
    const frame = (now) => {
      if (last) took.push(now - last);
      last = now;
      if (took.length >= frames + 10) { done(); return; }
      step(took.length);
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  });
  return took.slice(10);
}"""

_OURS = """(size) => {
  const heat = getElement(+document.querySelector(".drfh-heat").id.slice(1));
  const { view } = heat.$refs;
  view.scrollIntoView();
  const bytes = (array) => btoa(String.fromCharCode(...new Uint8Array(array.buffer)));
  const start = () => { heat.size = size; heat.relayout(); view.scrollTop = 0; };
  window.ready = (gesture) => { if (gesture === "zoom") heat.fit(); else start(); };
  window.gestures = {
    scroll: () => {
      const room = Math.max(view.scrollHeight - view.clientHeight, 1);
      view.scrollTop = (view.scrollTop + 19) % room;
      heat.redraw();
    },
    zoom: (i) => heat.zoom(i % 12 < 6 ? 1.3 : 1 / 1.3),
    update: (i) => {  // one cell in fifty
      const at = new Uint32Array(Math.ceil(heat.cells.states.length / 50));
      at.forEach((_, j) => { at[j] = (j * 50 + i) % heat.cells.states.length; });
      const levels = new Uint8Array(at.length).fill((i * 37) % 256);
      heat.patch({ at: bytes(at), levels: heat.names.map(() => bytes(levels)),
        states: bytes(new Uint8Array(at.length)), summary: "" }, heat.seen, heat.seen);
    },
  };
}"""

_PLAIN = """([cells, size]) => {
  document.body.innerHTML = `<style>
    #view { height: 520px; overflow-y: auto; } #grid { display: grid; --size: ${size}px;
      grid-template-columns: repeat(auto-fill, var(--size)); grid-auto-rows: var(--size); }
    #grid i { margin: 0 2px 2px 0; }</style><div id="view"><div id="grid"></div></div>`;
  const view = document.getElementById("view"), grid = document.getElementById("grid");
  const shade = (i) => `hsl(210 60% ${90 - (i * 7) % 9 * 9}%)`;
  for (let i = 0; i < cells; i++) {
    const cell = document.createElement("i");
    cell.style.background = shade(i);
    grid.append(cell);
  }
  let now = size;
  const sized = (next) => { now = next; grid.style.setProperty("--size", `${now}px`); };
  window.ready = (gesture) => { sized(gesture === "zoom" ? 6 : size); view.scrollTop = 0; };
  window.gestures = {
    scroll: () => {
      view.scrollTop = (view.scrollTop + 19) % Math.max(view.scrollHeight - view.clientHeight, 1);
    },
    zoom: (i) => sized(i % 12 < 6 ? Math.ceil(now * 1.3) : Math.max(Math.floor(now / 1.3), 4)),
    update: (i) => {
      for (let j = i % 50; j < cells; j += 50) grid.children[j].style.background = shade(i + j);
    },
  };
}"""


def frames(page: Any, number: int) -> dict[str, list[float]]:
    """Return how long frames took under each gesture, in milliseconds."""
    found = {}
    for gesture in GESTURES:
        page.evaluate("gesture => window.ready(gesture)", gesture)
        page.wait_for_timeout(300)
        found[gesture] = sorted(page.evaluate(_TIMED, [number, gesture]))
    return found


def ours(browser: Any, nodes: int, number: int) -> dict[str, list[float]]:
    """Measure the heat map of the live view."""
    with made_up_view(nodes) as view:
        watched = LiveTab(browser, view.url, width=1280)
        watched.page.click("[data-testid=live-pause]")
        watched.page.evaluate(_OURS, _CELL)
        found = frames(watched.page, number)
        watched.page.close()
    return found


def plain(browser: Any, cells: int, number: int) -> dict[str, list[float]]:
    """Measure a page with an element for each cell."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.set_default_timeout(300_000)
    page.evaluate(_PLAIN, [cells, _CELL])
    found = frames(page, number)
    page.close()
    return found


def shown(took: list[float]) -> str:
    return f"{statistics.median(took):.1f} ({took[int(0.95 * len(took))]:.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="only see that it works")
    number = 20 if parser.parse_args().quick else 200
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("needs Debian's chromium (make browser)")
    table = Table("cells", *GESTURES, title="milliseconds a frame")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=_FLAGS)
        found = {nodes: ours(browser, nodes, number) for nodes in SIZES}
        twin = plain(browser, TWIN, max(number // 5, 10))
        browser.close()
    for nodes, took in found.items():
        table.add_row(f"{nodes:,}", *(shown(took[gesture]) for gesture in GESTURES))
    table.add_row(f"{TWIN:,} elements", *(shown(twin[gesture]) for gesture in GESTURES))
    ratios = [statistics.median(twin[g]) / statistics.median(found[TWIN][g]) for g in GESTURES]
    table.add_row("ratio", *(f"{ratio:.1f} ×" for ratio in ratios))
    Console().print(table)


if __name__ == "__main__":
    main()
