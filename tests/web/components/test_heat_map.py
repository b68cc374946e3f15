"""The heat map: cells as bytes, and the canvas in a real browser with 12,583 of them."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drfh.engines.snapshot import TaskSnapshot
from drfh.engines.status import NodeStatus
from drfh.errors import InputError
from drfh.web.components.heat_map_data import HeatMapData, change_between, levels_of
from drfh.web.live.store import node_map
from tests.web.live.pages import LiveTab, View, made_up_view
from tests.web.live.server import made_up

NODES = 12_583
SHADES = {
    "light": {"empty": [237, 240, 244], "full": [11, 47, 94]},
    "dark": {"empty": [34, 42, 53], "full": [223, 241, 255]},
}


# Bytes


@given(st.lists(st.floats(0, 1), max_size=30))
def test_only_what_is_empty_is_level_0_and_only_what_is_full(
    parts: list[float],
) -> None:
    levels = levels_of(parts, np.ones(len(parts))).tolist()
    for part, level in zip(parts, levels, strict=True):
        assert (level == 0) == (part <= 1e-9)
        assert (level == 255) == (part >= 1 - 1e-9)
        assert abs(level / 255 - part) <= 1 / 255
    assert sorted(levels) == [level for _, level in sorted(zip(parts, levels, strict=True))]


def cells(numbers: Any, states: Any) -> HeatMapData:
    return HeatMapData(
        [("a", 3), ("b", 2)], ["cpu", "memory"], np.array(numbers).reshape(2, 5), states
    )


bytes_ = st.lists(st.integers(0, 255), min_size=10, max_size=10)
states_ = st.lists(st.integers(0, 2), min_size=5, max_size=5)


@given(bytes_, bytes_, states_, states_)
def test_a_change_makes_one_map_of_the_other(a: Any, b: Any, old: Any, new: Any) -> None:
    before, after = cells(a, old), cells(b, new)
    change = change_between(before, after)
    assert change is not None
    levels, states = before.levels.copy(), before.states.copy()
    data = change.to_dict()
    at = np.frombuffer(base64.b64decode(data["at"]), dtype="<u4")
    for row, text in zip(levels, data["levels"], strict=True):
        row[at] = np.frombuffer(base64.b64decode(text), dtype=np.uint8)
    states[at] = np.frombuffer(base64.b64decode(data["states"]), dtype=np.uint8)
    assert (levels == after.levels).all()
    assert (states == after.states).all()
    same = [(x == y).all() for x, y in zip(before.levels.T, after.levels.T, strict=True)]
    assert at.size == 5 - sum(bool(s) and o == n for s, o, n in zip(same, old, new, strict=True))
    assert data["summary"] == after.summary


def test_maps_of_other_blocks_are_sent_as_a_whole() -> None:
    before = HeatMapData([("a", 2)], ["cpu"], [[0, 1]])
    assert change_between(before, HeatMapData([("a", 3)], ["cpu"], [[0, 1, 2]])) is None
    assert change_between(before, HeatMapData([("b", 2)], ["cpu"], [[0, 1]])) is None
    assert change_between(before, HeatMapData([("a", 2)], ["gpu"], [[0, 1]])) is None


@pytest.mark.parametrize(
    ("levels", "states", "text"),
    [
        ([[0, 1]], None, "levels must have 1 rows of 3 levels"),
        ([[0, 1, 2]], [0, 1], "states must be 3 numbers from 0 to 2"),
        ([[0, 1, 2]], [0, 1, 3], "states must be 3 numbers from 0 to 2"),
    ],
)
def test_cells_that_do_not_fit(levels: Any, states: Any, text: str) -> None:
    with pytest.raises(InputError, match=text):
        HeatMapData([("a", 3)], ["cpu"], levels, states)


def test_a_map_as_text() -> None:
    assert HeatMapData([], [], []).summary == "no servers"
    assert HeatMapData([("a", 2)], [], []).summary == (
        "2 servers: 2 are up. 2 are empty, 0 have a resource that is full."
    )
    found = cells([0, 255, 3, 0, 9] * 2, [0, 0, 1, 2, 1])
    assert found.summary == (
        "5 servers in 2 groups: 2 are up, 2 take nothing new, 1 is down. "
        "1 is empty, 1 has a resource that is full."
    )


def test_nodes_in_blocks_of_their_sizes() -> None:
    sizes = [{"cpu": 1.0 + i % 60, "gres/gpu": 2.0} for i in range(300)]
    nodes = [NodeStatus(f"n{i}", "up", size, {"cpu": 1.0}, 1) for i, size in enumerate(sizes)]
    found = node_map(nodes)
    assert len(found.cells.groups) == 40
    assert found.cells.groups[0] == ("1 cpu, 2 gpu", 5)
    assert found.cells.groups[-1] == ("21 other sizes", 105)
    assert sorted(node.name for node in found.nodes) == sorted(node.name for node in nodes)
    assert found.cells.resources == ("cpu", "gpu")
    for position, node in enumerate(found.nodes):
        assert found.cells.levels[0][position] == levels_of(1.0, node.size["cpu"])
    tasks = [(f"{i}@n0", TaskSnapshot("ann", {"cpu": 1.0}, (i, 0), on="n0")) for i in range(10)]
    text = found.cell_text(0, tasks)
    assert text.title == "n0, up, 1 job"
    assert text.lines == ["cpu: 1 of 1 (100 %)", "gpu: 0 of 2 (0 %)"]
    assert text.tasks[0] == "job 0 of ann: 1 cpu"
    assert text.tasks[-1] == "… and 2 jobs more"


# In a browser


@pytest.fixture(scope="module")
def view(browser: Any) -> Iterator[View]:
    with made_up_view(NODES) as found:
        yield found


def show(page: LiveTab, resource: str) -> None:
    page.page.select_option("[data-testid=heat-shown]", label=resource)
    page.settle()


def colours(page: LiveTab, cell: int, *parts: float) -> list[list[int]]:
    """Return colours in the middle of the height of a cell, which is scrolled into view."""
    page.heat(f"heat.go({cell}, 'keys'); return 0")
    page.settle()
    found: list[list[int]] = page.heat(f"""
        const [x, y] = heat.spot({cell}), side = heat.cell - heat.gap(), dots = devicePixelRatio;
        const copy = document.createElement("canvas");
        [copy.width, copy.height] = [heat.$refs.canvas.width, heat.$refs.canvas.height];
        const pencil = copy.getContext("2d", {{ willReadFrequently: true }});
        pencil.drawImage(heat.$refs.canvas, 0, 0);
        const row = (y + side / 2 - heat.$refs.view.scrollTop) * dots;
        return {list(parts)}.map((part) => [...pencil.getImageData(
          (x + side * part) * dots, row, 1, 1).data].slice(0, 3));
    """)
    return found


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_every_node_is_a_cell_of_its_colour(browser: Any, view: View, scheme: str) -> None:
    page = LiveTab(browser, view.url, scheme)
    shown = page.page.locator("[data-testid=heat-view]")
    assert shown.get_attribute("data-cells") == str(NODES)
    assert shown.get_attribute("data-drawn") == str(NODES)  # they are all in view at first
    nodes = node_map(made_up(NODES).nodes)
    assert shown.get_attribute("aria-label") == nodes.cells.summary
    for r, resource in enumerate(nodes.cells.resources):
        show(page, resource)
        levels, states = nodes.cells.levels[r], nodes.cells.states
        for name, found in (
            ("empty", np.flatnonzero((levels == 0) & (states == 0))),
            ("full", np.flatnonzero((levels == 255) & (states == 0))),
        ):
            for cell in (found[0], found[len(found) // 2], found[-1]):
                assert colours(page, int(cell), 0.5) == [SHADES[scheme][name]], (resource, name)
    page.close()


def test_bars_for_each_resource_when_there_is_room(browser: Any, view: View) -> None:
    page = LiveTab(browser, view.url)
    for _ in range(6):
        page.page.click("[data-testid=heat-larger]")
    page.settle()
    assert page.heat("return heat.bars") is True
    assert "cpu" in page.page.inner_text(".drfh-heat .keys")
    nodes = node_map(made_up(NODES).nodes)
    full = (nodes.cells.levels == 255).all(axis=0) & (nodes.cells.states == 0)
    cell = int(np.flatnonzero(full)[0])
    found = colours(page, cell, 0.25, 0.75)
    assert found == [[0x2D, 0x7D, 0xC4], [0xE0, 0x7B, 0x00]]  # the first two of the palette
    page.close()


def test_it_scrolls(browser: Any, view: View, capsys: pytest.CaptureFixture[str]) -> None:
    page = LiveTab(browser, view.url)
    lines = []
    for clicks in (0, 3, 6):
        page.page.click("[data-testid=heat-fit]")
        for _ in range(clicks):
            page.page.click("[data-testid=heat-larger]")
        found = page.page.evaluate("""async () => {
          const view = document.querySelector("[data-testid=heat-view]");
          const frames = [], draws = [];
          let last = 0;
          await new Promise((done) => {
            const step = (now) => {
              if (last) frames.push(now - last);
              last = now;
              draws.push(+view.dataset.milliseconds);
              view.scrollTop += 19;
              view.dispatchEvent(new Event("scroll"));
              if (frames.length < 60) requestAnimationFrame(step); else done();
            };
            requestAnimationFrame(step);
          });
          const middle = (list) => list.sort((a, b) => a - b)[list.length >> 1];
          return [view.dataset.size, +view.dataset.drawn, view.scrollTop, middle(frames),
            middle(draws)];
        }""")
        size, drawn, top, frame, draw = found
        lines.append(f"{drawn:6} cells of {size} px in view: {draw:.1f} ms, frame {frame:.1f} ms")
        assert (drawn < NODES) == (clicks > 0)
        assert (top > 0) == (clicks > 0)
    with capsys.disabled():
        print("\n" + "\n".join(lines))
    page.page.mouse.move(700, 450)
    page.close()


def test_pointing_tells_of_a_node(browser: Any, view: View) -> None:
    page = LiveTab(browser, view.url)
    nodes = node_map(made_up(NODES).nodes)
    cell = [node.name for node in nodes.nodes].index("n1")
    page.page.locator("[data-testid=heat-view]").scroll_into_view_if_needed()
    x, y = page.heat(f"""
        const box = heat.$refs.stage.getBoundingClientRect(), [x, y] = heat.spot({cell});
        return [box.left + x + 1, box.top + y + 1];
    """)
    page.page.mouse.move(x, y)
    page.page.wait_for_function(
        "document.querySelector('[data-testid=heat-tip]').innerText.includes('job 0 of ann: 1 cpu')"
    )
    text = nodes.cell_text(cell)
    tip = page.text("heat-tip")
    assert tip.splitlines()[:3] == [text.title, *text.lines]
    assert "… and 4 jobs more" in tip
    page.page.mouse.move(5, 5)
    assert not page.page.is_visible("[data-testid=heat-tip]")
    assert page.text("heat-said") == ""  # only keys speak
    page.close()


def test_keys_move_and_speak(browser: Any, view: View) -> None:
    page = LiveTab(browser, view.url)
    nodes = node_map(made_up(NODES).nodes)

    def says(cell: int) -> None:
        title = nodes.cell_text(cell).title
        page.page.wait_for_function(
            "title => document.querySelector('[data-testid=heat-said]')"
            ".textContent.startsWith(title + '.')",
            arg=title,
        )

    page.page.focus("[data-testid=heat-larger]")
    page.page.keyboard.press("Tab")
    says(0)
    across = page.heat("return heat.blocks[0].across")
    for key, cell in (("ArrowRight", 1), ("ArrowDown", 1 + across), ("ArrowLeft", across),
                      ("ArrowUp", 0), ("End", NODES - 1), ("Home", 0)):  # fmt: skip
        page.page.keyboard.press(key)
        says(cell)
    first = nodes.cells.groups[0][1]
    page.heat(f"heat.go({first - 1}, 'keys'); return 0")
    page.page.keyboard.press("ArrowDown")  # into the next block
    at = page.heat("return heat.at")
    assert first <= at < first + across
    size = page.heat("return heat.cell")
    page.page.keyboard.press("+")
    assert page.heat("return heat.cell") > size
    page.page.keyboard.press("0")
    assert page.heat("return heat.cell") == size
    page.page.keyboard.press("Escape")
    assert not page.page.is_visible("[data-testid=heat-tip]")
    page.close()


def test_changes_come_by_themselves_and_what_was_missed_comes_again(
    browser: Any, small: View
) -> None:
    page = LiveTab(browser, small.url)
    show(page, "cpu")
    before = node_map(made_up(64).nodes).cells

    def follows(step: int) -> None:
        small.tell("step")
        cells = node_map(made_up(64, step).nodes).cells
        page.page.wait_for_function(
            """([levels]) => {
              const heat = getElement(+document.querySelector(".drfh-heat").id.slice(1));
              return JSON.stringify([...heat.cells.levels[0]]) === JSON.stringify(levels); }""",
            arg=[cells.levels[0].tolist()],
        )

    follows(1)
    assert (before.levels[0] != node_map(made_up(64, 1).nodes).cells.levels[0]).any()
    page.heat("heat.version = -7; return 0")  # as if a message had been lost
    follows(2)
    assert page.heat("return heat.version") > 0
    page.close()
