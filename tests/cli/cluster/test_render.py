"""The status of a live cluster as text: tables, bars and the map of nodes."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from drfh.cli.cluster.render import glyph, print_nodes, write_status
from drfh.engines.engine import ControllerFacts
from drfh.engines.slurm.cluster import SlurmCluster, cluster_of
from drfh.engines.slurm.config import SlurmConfig
from drfh.engines.slurm.state import read_state
from drfh.engines.status import NodeStatus, Status, UserStatus, status_of
from tests.engines.slurm.entries import INACTIVE, JOBS, NODES, NOW, SITE


@pytest.fixture(scope="module")
def live() -> SlurmCluster:
    return cluster_of(read_state(NODES, JOBS, NOW), SITE)


@pytest.fixture(scope="module")
def status(live: SlurmCluster) -> Status:
    return status_of(live)


def by_name(status: Status) -> dict[str, UserStatus]:
    return {user.name: user for user in status.users}


def drawn(status: Status, width: int, *, most: int | None = None, colour: bool = False) -> str:
    out = io.StringIO()
    console = Console(
        file=out, width=width, markup=False, highlight=False, emoji=False, soft_wrap=True,
        force_terminal=colour, color_system="256" if colour else None,
    )  # fmt: skip
    write_status(console, status, controller=ControllerFacts(False, {}), most=most)
    return out.getvalue()


def many(status: Status, users: int, nodes: int) -> Status:
    """Return a status with so many users and nodes, of three sizes and all levels."""
    someone = by_name(status)["ann"]
    sizes = [{"cpu": 64.0, "memory": 2.0**38}, {"cpu": 32.0, "memory": 2.0**40},
             {"cpu": 128.0, "memory": 2.0**39, "gres/gpu": 8.0}]  # fmt: skip
    states = ["up"] * 40 + ["closing", "down"]
    return replace(
        status,
        users=tuple(
            replace(someone, name=f"user{i:04}", share=(i + 1) / 2 / users**2, fair_share=1 / users,
                    waiting=12_345, uneven=i % 3 == 0)
            for i in range(users)
        ),
        nodes=tuple(
            NodeStatus(f"node{i:05}", states[j % 42], size, {"cpu": size["cpu"] * (j % 9) / 8}, i)
            for i in range(nodes)
            for j, size in [(i // 3, sizes[i % 3])]
        ),
        worst="user0000",
    )  # fmt: skip


def test_the_text(status: Status) -> None:
    text = drawn(status, 100)
    assert "3 jobs run, 11 wait  (best-fit-drfh)" in text
    assert "no controller runs" in text
    [ann] = [line for line in text.splitlines() if line.startswith(" ann")]
    assert ann.split()[:3] == ["ann", "1", "50.0"]
    assert "zoe" not in text
    assert "1 user with a weight has no job" in text
    assert "distance from fair 41.7 %; worst off: bob has 0.0 % of its fair share" in text
    assert re.search(r" now +│ in the fair allocation +largest in ", drawn(status, 120))
    assert "cpu         7 of 12 used   58.3 %  █████████▍" in text
    assert "4 nodes: 2 up, 1 takes nothing new, 1 down" in text
    assert "n0 █▃◇✘" in text
    assert "◇ draining  ✘ down" in text
    assert "of those that run, 1 has a node and will start" in text
    assert "aside: 1 job: held by its owner" in text
    assert "not drfh's: 1 job that waits: it asks for a reservation" in text
    assert "broken: job 31: job_state must be" in text


@pytest.mark.parametrize(("nodes", "jobs"), INACTIVE)
def test_there_is_no_distance_where_nobody_is_active(nodes: list[Any], jobs: list[Any]) -> None:
    found = status_of(cluster_of(read_state(nodes, jobs, NOW), SlurmConfig()))
    assert "distance" not in drawn(found, 80)


def test_a_bar_has_a_line_at_the_fair_share(status: Status) -> None:
    def strip(share: float, ideal: float | None) -> str:
        someone = replace(by_name(status)["ann"], share=share, fair_share=ideal, uneven=False)
        other = replace(someone, name="bob", share=0.0, fair_share=1.0)
        text = drawn(replace(status, users=(someone, other), worst=None), 120)
        [line] = [line for line in text.splitlines() if line.startswith(" ann")]
        return line.partition("%")[2][3:19]

    assert strip(0.25, 0.5) == "████    │       "
    assert strip(0.75, 0.5) == "████████│███    "
    assert strip(0.5, None) == "████████        "
    assert strip(1.0, 1.0) == "███████████████│"


@pytest.mark.parametrize("width", [40, 80, 120, 200])
@pytest.mark.parametrize(("users", "nodes"), [(3, 16), (60, 64), (60, 640), (60, 5000)])
def test_nothing_is_cut_or_too_wide(status: Status, width: int, users: int, nodes: int) -> None:
    shown = replace(many(status, users, nodes), unmanaged={}, broken=())
    text = drawn(shown, width, most=12)
    rows = [line for line in text.splitlines() if line.startswith(" user0")]
    parts = len(rows) // min(users, 12)
    assert len(rows) == parts * min(users, 12)
    assert parts == 1 or width == 40
    names = sorted({row.split()[0] for row in rows})
    assert names == [f"user{i:04}" for i in range(min(users, 12))]  # who is worst off
    assert sum(row.count("12,345") for row in rows) == min(users, 12)
    if width >= 80:
        assert all("│" in row for row in rows)
        assert max(map(len, text.splitlines())) <= width
        assert ("aside" in text.split("───")[0]) is False
    assert "…" not in text.replace("… and 48 users", "")
    assert ("… and 48 users nearer to fair" in text) == (users == 60)


def test_the_map_has_every_node(status: Status) -> None:
    for width in (60, 80, 120):
        for nodes in (1, 10, 64, 500):
            shown = many(status, 1, nodes).nodes
            out = io.StringIO()
            print_nodes(Console(file=out, width=width, soft_wrap=True), shown, width)
            _, head, *lines, _ = out.getvalue().splitlines()
            assert head.startswith(f"{nodes} node")
            assert "".join("".join(line.split()[1:]) for line in lines) == "".join(
                glyph(one) for one in shown
            )
            assert max(map(len, lines)) <= width
            for line in lines:  # each begins with the name of its first node
                first = next(n for n in shown if n.name == line.split()[0])
                assert glyph(first) == line.split()[1][0]
    # 64 nodes need few lines.
    assert drawn(many(status, 1, 64), 80).count("\nnode0") == 2


def test_thousands_of_nodes_are_a_strip_for_each_size(status: Status) -> None:
    shown = many(status, 1, 5001)
    for width in (80, 120):
        text = drawn(shown, width)
        rows = [line for line in text.splitlines() if line.startswith("1,667 × ")]
        assert len(rows) == 3
        assert any("1,667 × cpu 128, memory 512Gi, gpu 8 " in row for row in rows)
        for row in rows:
            strip = row.split(" ")[-1]
            order = [("█▇▆▅▄▃▂▁·◇✘").index(one) for one in strip]
            assert order == sorted(order)
            assert {"◇", "✘", "█"} <= set(strip)
    lone = [NodeStatus(f"n{i}", "down" if i == 7 else "up", {"cpu": 1.0}, {}, 0)
            for i in range(3000)]  # fmt: skip
    text = drawn(replace(shown, nodes=tuple(lone)), 80)
    assert re.search(r"3,000 × cpu 1 ·+✘\n", text)  # one of thousands is still seen
    odd = [NodeStatus(f"n{i}", "up", {"cpu": 1.0 + i % 50}, {}, 0) for i in range(3000)]
    text = drawn(replace(shown, nodes=tuple(odd)), 80)
    assert text.count(" × ") == 12
    assert "2,340 × 39 other sizes " in text


def test_colours_tell_nothing_that_glyphs_do_not(status: Status) -> None:
    shown = many(status, 3, 64)
    coloured = drawn(shown, 80, colour=True)
    assert "\x1b[38;5;" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == drawn(shown, 80)


def test_a_node_that_is_full_but_for_rounding_is_full() -> None:
    used = sum([0.1] * 80)
    assert 7.99 < used < 8
    assert glyph(NodeStatus("n0", "up", {"cpu": 8.0}, {"cpu": used}, 80)) == "█"


def test_long_names_of_nodes_keep_their_end(status: Status) -> None:
    nodes = [NodeStatus(f"rack-seven-of-the-north-hall-{i:03}", "up", {"cpu": 1.0}, {}, 0)
             for i in range(100)]  # fmt: skip
    text = drawn(replace(status, nodes=tuple(nodes)), 80)
    assert "\n…-the-north-hall-050 ·" in text
