"""The nodes of a live cluster as cells of a heat map: blocks of nodes of one size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from drfh.engines.snapshot import job_of
from drfh.formatting import (
    format_amounts,
    format_count,
    format_percent,
    format_quantity,
    format_rest,
    short_resource,
)
from drfh.web.components.heat_map_data import STATES, Cells, CellText, levels_by_resource

if TYPE_CHECKING:
    from drfh.engines.snapshot import TaskSnapshot
    from drfh.engines.status import NodeStatus

__all__ = ["NodeMap", "node_map"]

_MOST_GROUPS = 40
_MOST_TASKS = 8
_STATE_WORDS = {"up": "up", "closing": "takes nothing new", "down": "down"}


@dataclass(frozen=True, eq=False)
class NodeMap:
    """Cells, and the node behind each.

    Parameters
    ----------
    cells
        For the heat map.
    nodes
        In the order of the cells.
    """

    cells: Cells
    nodes: Sequence[NodeStatus]

    def words(self, position: int, tasks: Sequence[tuple[str, TaskSnapshot]] = ()) -> CellText:
        """Return what is said of a node.

        Parameters
        ----------
        position
            Of its cell.
        tasks
            What runs there, by name.
        """
        node = self.nodes[position]
        lines = [
            f"{short_resource(name)}: {format_quantity(node.used.get(name, 0.0))} of "
            f"{format_quantity(size)} "
            f"({format_percent(node.used.get(name, 0.0) / size, trim=True)})"
            for name, size in node.size.items()
            if size > 0
        ]
        listed = [
            f"job {job_of(name)} of {task.user}: {format_amounts(task.demand)}"
            for name, task in tasks[:_MOST_TASKS]
        ]
        if len(tasks) > _MOST_TASKS:
            listed.append(format_rest(len(tasks) - _MOST_TASKS, "job"))
        state = _STATE_WORDS.get(node.state, node.state)
        return CellText(f"{node.name}, {state}, {format_count(node.jobs, 'job')}", lines, listed)


def node_map(nodes: Sequence[NodeStatus]) -> NodeMap:
    """Return nodes as cells, in blocks of one size in the order in which sizes appear.

    Examples
    --------
    >>> from drfh.engines.status import NodeStatus
    >>> found = node_map([NodeStatus("n0", "up", {"cpu": 4.0}, {"cpu": 4.0}, 1),
    ...                   NodeStatus("n1", "up", {"cpu": 8.0}, {}, 0),
    ...                   NodeStatus("n2", "down", {"cpu": 4.0}, {}, 0)])
    >>> found.cells.groups, [node.name for node in found.nodes]
    ((('4 cpu', 2), ('8 cpu', 1)), ['n0', 'n2', 'n1'])
    >>> found.words(0).lines
    ['cpu: 4 of 4 (100 %)']
    """
    shapes: dict[tuple[tuple[str, float], ...], list[NodeStatus]] = {}
    for node in nodes:
        shapes.setdefault(tuple(node.size.items()), []).append(node)
    blocks = [(format_amounts(dict(shape)), group) for shape, group in shapes.items()]
    if len(blocks) > _MOST_GROUPS:
        blocks.sort(
            key=lambda block: -len(block[1])
        )  # stable: the order of appearance among equals
        rest = [node for _, group in blocks[_MOST_GROUPS - 1 :] for node in group]
        kinds = format_count(len(blocks) - _MOST_GROUPS + 1, "other size")
        blocks = [*blocks[: _MOST_GROUPS - 1], (kinds, rest)]
    listed = [node for _, group in blocks for node in group]
    names, levels = levels_by_resource(
        [node.size for node in listed], [node.used for node in listed]
    )
    number = {state: position for position, state in enumerate(STATES)}
    cells = Cells(
        [(name, len(group)) for name, group in blocks],
        [short_resource(name) for name in names],
        levels,
        [number.get(node.state, 1) for node in listed],
        "node",
    )
    return NodeMap(cells, listed)
