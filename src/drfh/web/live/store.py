"""The store of a live view: the cluster as it is, events and history; bounded, thread-safe.

One thread observes the cluster and updates the store; pages in other threads read it. All work
that needs the scheduler is done by the observing thread, so that nothing is read while it changes.
Beside a controller that is not the controller's thread: see :mod:`drfh.web.live.publisher`.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from drfh.engines.engine import LiveCluster
from drfh.engines.snapshot import ClusterSnapshot, TaskSnapshot, job_of
from drfh.engines.status import Status, status_of
from drfh.errors import InputError
from drfh.formatting import (
    format_amounts,
    format_count,
    format_percent,
    format_quantity,
    format_rest,
    short_resource,
)
from drfh.web.components.heat_map_data import STATES, CellText, HeatMapData, levels_by_resource
from drfh.web.live.events import LiveEvent, change_events, remark_events
from drfh.web.live.history import HistoryColumns, HistorySample, ShareHistory
from drfh.web.live.pending import Pending, PendingQueue

if TYPE_CHECKING:
    from drfh.engines.status import NodeStatus

__all__ = ["LiveExplanation", "LiveStore", "LiveView", "NodeMap", "node_map"]


_MOST_GROUPS = 40
_MOST_TASKS = 8
_STATE_TEXTS = {"up": "up", "closing": "takes nothing new", "down": "down"}


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

    cells: HeatMapData
    nodes: Sequence[NodeStatus]

    def cell_text(self, position: int, tasks: Sequence[tuple[str, TaskSnapshot]] = ()) -> CellText:
        """Return the tooltip of a node.

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
        state = _STATE_TEXTS.get(node.state, node.state)
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
    >>> found.cell_text(0).lines
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
    cells = HeatMapData(
        [(name, len(group)) for name, group in blocks],
        [short_resource(name) for name in names],
        levels,
        [number.get(node.state, 1) for node in listed],
        "node",
    )
    return NodeMap(cells, listed)


_MOST_EVENTS = 300
_MOST_EXPLANATIONS = 50
_MOST_REQUESTS = 20
_SHORTEST_PAUSE, _LONG_PAUSE = 0.5, 10.0  # seconds between observations: watched, and not
_LEAST_BUDGET, _PART = 0.1, 0.5  # seconds for explanations; part of what the status took
_WATCHED = 5.0  # seconds after a page has read the store
_RATIO, _LONG_RATIO = 1.0, 9.0  # an observation of a second is followed by so many without
_LATE = 15.0


@dataclass(frozen=True, slots=True)
class LiveExplanation:
    """Why a job waits, as requested on a page; `time` is that of the cluster."""

    time: float
    job: str
    text: str


@dataclass(frozen=True)
class LiveView:
    """The cluster at one moment, as pages show it.

    Parameters
    ----------
    version
        Rises with everything that is new.
    title, how
        What the cluster is called, and how it is shared.
    status
        None before the first observation.
    events
        The latest first.
    explanations
        Those requested on a page, by job.
    trouble
        Why there is no newer observation; empty if all is well.
    placed
        Jobs placed since the start.
    nodes
        The nodes as cells of a heat map.
    """

    version: int = 0
    title: str = ""
    how: str = ""
    status: Status | None = None
    pending: tuple[Pending, ...] = ()
    events: tuple[LiveEvent, ...] = ()
    explanations: Mapping[str, LiveExplanation] = field(default_factory=dict)
    trouble: str = ""
    placed: int = 0
    snapshot: ClusterSnapshot = field(default_factory=lambda: ClusterSnapshot({}, {}))
    nodes: NodeMap = field(default_factory=lambda: node_map(()))

    @cached_property
    def on_nodes(self) -> Mapping[str, list[tuple[str, TaskSnapshot]]]:
        """What runs on each node; grouped when somebody points at one."""
        found: dict[str, list[tuple[str, TaskSnapshot]]] = {}
        for name, task in self.snapshot.tasks.items():
            if task.on is not None:
                found.setdefault(task.on, []).append((name, task))
        return found


class LiveStore:
    """The live view of a cluster: updated by one thread, read by pages.

    Parameters
    ----------
    title, how
        As of :class:`LiveView`.
    cluster_type
        Knows names of jobs before there is an observation.
    late
        Seconds without an observation, from which on pages say so.
    clock
        Seconds that only rise.

    Examples
    --------
    >>> from drfh.engines.cache import SchedulerCache
    >>> from drfh.engines.snapshot import NodeSnapshot
    >>> node = NodeSnapshot({"cpu": 4.0}, {"cpu": 4.0})
    >>> snapshot = ClusterSnapshot({"n0": node}, {"7": TaskSnapshot("ann", {"cpu": 2.0}, (7, 0))})
    >>> cache = SchedulerCache("best-fit-drfh")
    >>> cache.follow(snapshot)
    >>> store = LiveStore("sandbox")
    >>> store.observe(LiveCluster(0.0, snapshot, cache))
    >>> view = store.view()
    >>> view.version, view.status.distance, view.pending[0].explanations
    (2, 1.0, {'7': 'job 7 of ann can start when its turn comes: 1 server has room.'})
    """

    def __init__(
        self,
        title: str = "",
        how: str = "",
        *,
        cluster_type: type[LiveCluster] = LiveCluster,
        late: float = _LATE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.late = late
        self._cluster_type = cluster_type
        self._clock = clock
        self._lock = threading.Lock()
        self._view = LiveView(title=title, how=how)
        self._history = ShareHistory()
        self._events: deque[LiveEvent] = deque(maxlen=_MOST_EVENTS)
        self._requests: deque[str] = deque(maxlen=_MOST_REQUESTS)
        self._explanations: dict[str, LiveExplanation] = {}
        self._pending = PendingQueue()
        self._cluster: LiveCluster | None = None  # the last that was observed
        self._placed = self._placed_before = 0
        self._troubled = self._next = self._watched = -float("inf")

    # The observing thread

    def add_events(self, events: Iterable[LiveEvent], placed: int = 0) -> None:
        """Add events, and how many jobs were placed by them."""
        with self._lock:
            self._events.extend(events)
            self._placed += placed

    def due(self) -> bool:
        """Return whether it is time for an observation: of a large cluster it takes a while."""
        return self._clock() >= self._next or bool(self._requests)

    def observe(self, cluster: LiveCluster, *, starts: bool = True) -> None:
        """Show a newer observation of the cluster.

        Parameters
        ----------
        starts
            Whether jobs that started are events; not where :meth:`add_events` has the placed ones.
        """
        began = self._clock()
        status = status_of(cluster)
        budget = max(_LEAST_BUDGET, _PART * (self._clock() - began))
        self.add_events(change_events(self._cluster, cluster, starts=starts))
        self._cluster, self._cluster_type = cluster, type(cluster)
        self.update(status, self._view.pending, cluster.snapshot)  # explanations take longer
        pending = self._pending.observe(cluster, status, budget)
        self._explain(cluster)
        with self._lock:
            self._publish(pending=pending)
        cost = self._clock() - began
        watched = began - self._watched < _WATCHED
        pause = max(_SHORTEST_PAUSE, _RATIO * cost)
        self._next = began + cost + (pause if watched else max(_LONG_PAUSE, _LONG_RATIO * cost))

    def update(
        self,
        status: Status,
        pending: Iterable[Pending] = (),
        snapshot: ClusterSnapshot | None = None,
    ) -> None:
        """Show a newer status; :meth:`observe` does, and explains pending jobs."""
        new = remark_events(self._view.status, status)
        nodes = node_map(status.nodes)
        snapshot = ClusterSnapshot({}, {}) if snapshot is None else snapshot
        with self._lock:
            self._events.extend(new)
            self._history.add(_sample(status, self._placed - self._placed_before))
            self._placed_before = self._placed
            # Trouble that came while an older observation was worked on stays.
            trouble = self._view.trouble if status.time < self._troubled else ""
            self._publish(
                status=status,
                pending=tuple(pending),
                trouble=trouble,
                snapshot=snapshot,
                nodes=nodes,
            )

    def trouble(self, text: str, when: float | None = None) -> None:
        """Show why there is no newer observation."""
        with self._lock:
            self._troubled = time.time() if when is None else when
            if text != self._view.trouble:
                self._events.append(LiveEvent(self._troubled, "trouble", text))
                self._publish(trouble=text)

    def note(self, text: str, when: float | None = None) -> None:
        """Add a line to the events."""
        self.add_events([LiveEvent(time.time() if when is None else when, "note", text)])

    def _explain(self, cluster: LiveCluster) -> None:
        while self._requests:
            job = self._requests.popleft()
            try:
                found = cluster.explain(job)
                text = found.text if found.first is None else f"{found.text} {found.first.text}"
            except InputError as error:  # requested before there was a cluster to check it
                text = str(error)
            self._explanations.pop(job, None)
            self._explanations[job] = LiveExplanation(cluster.time, job, text)
        while len(self._explanations) > _MOST_EXPLANATIONS:
            del self._explanations[next(iter(self._explanations))]

    def _publish(self, **new: object) -> None:
        self._view = replace(
            self._view,
            version=self._view.version + 1,
            events=tuple(reversed(self._events)),
            explanations=dict(self._explanations),
            placed=self._placed,
            **new,  # type: ignore[arg-type]
        )

    # Pages

    def view(self) -> LiveView:
        """Return the cluster as it was observed last."""
        before, self._watched = self._watched, self._clock()
        if self._watched - before >= _WATCHED:  # nobody watched until now
            self._next = min(self._next, self._watched)
        return self._view

    def columns(
        self, span: str, users: Iterable[str] = (), since: float = -float("inf")
    ) -> HistoryColumns:
        """Return the history, as :meth:`~drfh.web.live.history.ShareHistory.columns` has it."""
        with self._lock:
            return self._history.columns(span, users, since)

    def past_users(self, span: str) -> tuple[str, ...]:
        """Return who had jobs in a span, the latest first."""
        with self._lock:
            return self._history.users(span)

    def request_explanation(self, job: str) -> str:
        """Request why a job waits; a later view has that under the name returned."""
        name = self._cluster_type.job_name(job)
        if name not in self._requests:
            self._requests.append(name)
        return name


def _sample(status: Status, placed: int) -> HistorySample:
    return HistorySample(
        time=status.time,
        shares={user.name: (user.share, user.fair_share) for user in status.users if user.jobs},
        distance=status.distance,
        running=sum(user.running + user.starting for user in status.users),
        waiting=sum(user.waiting for user in status.users),
        placed=placed,
    )
