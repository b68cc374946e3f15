"""A map of nodes: one cell for each, or for many, by how full the fullest resource is.

Every level has a glyph of its own, so that nothing is told by colour alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from drfh.resources import format_quantity, some

if TYPE_CHECKING:
    from drfh.engines.slurm.status import NodeStatus

__all__ = ["glyph", "print_nodes"]

_LEVELS = "·▁▂▃▄▅▆▇█"
_CLOSING, _DOWN = "◇", "✘"
#: From empty to full: cold to warm. A terminal of 16 colours shows the nearest.
_STYLES = ("bright_black", "color(31)", "color(37)", "color(36)", "color(71)", "color(107)",
           "color(143)", "color(178)", "color(208)")  # fmt: skip
_STATE_STYLES = {_CLOSING: "color(141)", _DOWN: "bold red"}
_GROUP = 10  # cells between two blanks
_MOST_CELLS = 640
_MOST_SHAPES = 12
_LONGEST_NAME = 20


def glyph(node: NodeStatus) -> str:
    """Return the cell of a node.

    Examples
    --------
    >>> from drfh.engines.slurm.status import NodeStatus
    >>> size = {"cpu": 8.0}
    >>> [glyph(NodeStatus("n", "up", size, {"cpu": used}, 1)) for used in (0.0, 0.1, 4.0, 7.9, 8.0)]
    ['·', '▁', '▄', '▇', '█']
    >>> glyph(NodeStatus("n", "down", size, {}, 0))
    '✘'
    """
    if node.state != "up":
        return _DOWN if node.state == "down" else _CLOSING
    return _level(node.fullness)


def _level(fullness: float) -> str:
    """Return a glyph; only what is empty looks empty, and only what is full looks full."""
    if fullness <= 0:
        return _LEVELS[0]
    if fullness >= 1 - 1e-9:
        return _LEVELS[-1]
    return _LEVELS[1 + int(fullness * (len(_LEVELS) - 2))]


def print_nodes(out: Any, nodes: Sequence[NodeStatus], width: int) -> None:
    """Print a map of the nodes, and what its glyphs mean.

    Parameters
    ----------
    out
        A console, or what keeps lines as one.
    nodes
        In the order in which they are shown.
    width
        Columns.
    """
    if not nodes:
        return
    out.print()
    out.print(_head(nodes), style="bold")
    if len(nodes) > _MOST_CELLS:
        out.print("by size, each from its fullest nodes to its empty ones", style="dim")
        _print_shapes(out, nodes, width)
    else:
        _print_cells(out, nodes, width)
    _print_legend(out, nodes)


def _head(nodes: Sequence[NodeStatus]) -> str:
    states = Counter(node.state for node in nodes)
    words = {"up": "up", "closing": "take nothing new", "down": "down"}
    if states["closing"] == 1:
        words["closing"] = "takes nothing new"
    listed = [f"{states[state]:,} {word}" for state, word in words.items() if states[state]]
    return f"{some(len(nodes), 'node')}: {', '.join(listed)}"


def _print_cells(out: Any, nodes: Sequence[NodeStatus], width: int) -> None:
    """Print a cell for each node, in lines that begin with the name of the first."""
    longest = min(max(len(node.name) for node in nodes), _LONGEST_NAME)
    groups = max((width - longest - 1) // (_GROUP + 1), 1)
    per_line = groups * _GROUP
    for start in range(0, len(nodes), per_line):
        line = nodes[start : start + per_line]
        name = line[0].name
        if len(name) > longest:
            name = f"…{name[1 - longest :]}"  # the end of a name is what tells nodes apart
        out.print(_cells(f"{name:>{longest}} ", [glyph(node) for node in line]))


def _cells(label: str, glyphs: Sequence[str], *, apart: bool = True) -> Any:
    from rich.text import Text

    line = Text(label, no_wrap=True)
    for position, one in enumerate(glyphs):
        if apart and position and position % _GROUP == 0:
            line.append(" ")
        line.append(one, style=_style(one))
    return line


def _style(one: str) -> str:
    return _STATE_STYLES.get(one) or _STYLES[_LEVELS.index(one)]


def _print_shapes(out: Any, nodes: Sequence[NodeStatus], width: int) -> None:
    """Print a strip for each size of node: those that are up, the fullest first."""
    shapes: dict[str, list[NodeStatus]] = {}
    for node in nodes:
        shapes.setdefault(_shape(node.size), []).append(node)
    listed = sorted(shapes.items(), key=lambda item: -len(item[1]))
    if len(listed) > _MOST_SHAPES:
        rest = [node for _, group in listed[_MOST_SHAPES - 1 :] for node in group]
        kinds = some(len(listed) - _MOST_SHAPES + 1, "other size")
        listed = [*listed[: _MOST_SHAPES - 1], (kinds, rest)]
    label = max(len(shape) for shape, _ in listed)
    number = max(len(f"{len(group):,}") for _, group in listed)
    room = width - number - 4
    together = label + 22 <= room  # else the size has a line of its own
    strip = min(room - label - 1 if together else room, 80)
    for shape, group in listed:
        count = f"{len(group):>{number},} × "
        glyphs = _strip(group, strip)
        if together:
            out.print(_cells(f"{count}{shape:{label}} ", glyphs, apart=False))
        else:
            out.print(f"{count}{shape}")
            out.print(_cells(" " * (number + 3), glyphs, apart=False))


def _shape(size: Mapping[str, float]) -> str:
    return ", ".join(f"{r.removeprefix('gres/')} {format_quantity(a)}" for r, a in size.items())


def _strip(nodes: Sequence[NodeStatus], width: int) -> list[str]:
    """Return the nodes from full to empty, then those that are not up, in so many cells."""
    up = sorted((node.fullness for node in nodes if node.state == "up"), reverse=True)
    cells = [_level(fullness) for fullness in up]
    cells += [_CLOSING for node in nodes if node.state == "closing"]
    cells += [_DOWN for node in nodes if node.state == "down"]
    if len(cells) <= width:
        return cells
    picked = [cells[(2 * i + 1) * len(cells) // (2 * width)] for i in range(width)]
    # One node that is down must not vanish among thousands.
    for position, state in ((-1, _DOWN), (-2, _CLOSING)):
        if state in cells and state not in picked:
            picked[position] = state
    return picked


def _print_legend(out: Any, nodes: Sequence[NodeStatus]) -> None:
    there = Counter(node.state for node in nodes)
    line = _cells("", _LEVELS[0])
    line.append(" empty ", style="dim")
    for one in _LEVELS[1:]:
        line.append(one, style=_style(one))
    line.append(" full, by its fullest resource", style="dim")
    for state, one, word in (("closing", _CLOSING, "draining"), ("down", _DOWN, "down")):
        if there[state]:
            line.append("  ")
            line.append(one, style=_style(one))
            line.append(f" {word}", style="dim")
    out.print(line)
