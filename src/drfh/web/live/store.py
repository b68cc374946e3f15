"""What a live view knows: the cluster as it is, what happened, and the past; bounded, thread-safe.

One thread looks at the cluster and tells the feed; pages in other threads take snapshots. All
work that needs the brain is done by the one who looks, so that nothing is read while it changes.
Beside a controller that is not the controller: see :mod:`drfh.web.live.publisher`.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from drfh.engines.slurm.cluster import SlurmCluster
from drfh.engines.slurm.explain import why_job
from drfh.engines.slurm.status import Status, status_of
from drfh.engines.snapshot import ClusterSnapshot, TaskSnapshot
from drfh.web.live.events import LiveEvent, changes, remarks
from drfh.web.live.history import HistoryColumns, HistorySample, ShareHistory
from drfh.web.live.nodes import NodeMap, node_map
from drfh.web.live.pending import Pending, PendingQueue
from drfh.wire.slurm.notation import parse_job_name

__all__ = ["LiveExplanation", "LiveStore", "LiveView"]

_MOST_EVENTS = 300
_MOST_ANSWERS = 50
_MOST_QUESTIONS = 20
_SHORTEST_PAUSE, _LONG_PAUSE = 0.5, 10.0  # seconds between two looks: watched, and not
_LEAST_BUDGET, _PART = 0.1, 0.5  # seconds for why jobs wait: of what the numbers took
_WATCHED = 5.0  # seconds after a page has asked
_RATIO, _LONG_RATIO = 1.0, 9.0  # a look of a second is followed by so many without
_LATE = 15.0


@dataclass(frozen=True, slots=True)
class LiveExplanation:
    """Why a job waits, as somebody has asked on a page."""

    time: float
    job: str
    text: str


@dataclass(frozen=True)
class LiveView:
    """The cluster at a moment, as pages show it.

    Parameters
    ----------
    version
        Rises with everything that is new.
    title, how
        What the cluster is called, and how it is shared.
    status
        Its numbers; None before the first look.
    waits
        Who waits and why.
    events
        What happened, the latest first.
    answers
        To what was asked on a page, by job.
    trouble
        Why there is no newer look; empty if all is well.
    placed
        Jobs placed since the start.
    snapshot
        Servers and tasks of the look.
    nodes
        The nodes as cells of a heat map.
    """

    version: int = 0
    title: str = ""
    how: str = ""
    status: Status | None = None
    waits: tuple[Pending, ...] = ()
    events: tuple[LiveEvent, ...] = ()
    answers: Mapping[str, LiveExplanation] = field(default_factory=dict)
    trouble: str = ""
    placed: int = 0
    snapshot: ClusterSnapshot = field(default_factory=lambda: ClusterSnapshot({}, {}))
    nodes: NodeMap = field(default_factory=lambda: node_map(()))

    @cached_property
    def on_nodes(self) -> Mapping[str, list[tuple[str, TaskSnapshot]]]:
        """What runs on each node; put together when somebody points at one."""
        found: dict[str, list[tuple[str, TaskSnapshot]]] = {}
        for name, task in self.snapshot.tasks.items():
            if task.on is not None:
                found.setdefault(task.on, []).append((name, task))
        return found


class LiveStore:
    """Told of each round or look; asked by pages.

    Parameters
    ----------
    title, how
        As of :class:`LiveView`.
    late
        Seconds without a look, from which on pages say so.
    clock
        Seconds that only rise.

    Examples
    --------
    >>> from drfh.engines.slurm.cluster import understood
    >>> from drfh.engines.slurm.state import read_state
    >>> from drfh.engines.slurm.config import SlurmConfig
    >>> node = {"name": "n0", "cpus": 4, "real_memory": 1024, "state": "idle", "partitions": ["a"]}
    >>> job = {"job_id": 7, "job_state": "PENDING", "user_name": "ann", "partition": "a",
    ...        "tres_req_str": "cpu=2,mem=100M,node=1", "memory_per_node": 100, "priority": 0,
    ...        "state_reason": "JobHeldUser", "admin_comment": "drfh"}
    >>> feed = LiveStore("sandbox")
    >>> feed.observe(understood(read_state([node], [job], 0.0), SlurmConfig()))
    >>> seen = feed.snapshot()
    >>> seen.version, seen.status.distance, seen.waits[0].answers
    (2, 1.0, {'7': 'job 7 of ann can start when its turn comes: 1 server has room.'})
    """

    def __init__(
        self,
        title: str = "",
        how: str = "",
        *,
        late: float = _LATE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.late = late
        self._clock = clock
        self._lock = threading.Lock()
        self._now = LiveView(title=title, how=how)
        self._history = ShareHistory()
        self._events: deque[LiveEvent] = deque(maxlen=_MOST_EVENTS)
        self._questions: deque[str] = deque(maxlen=_MOST_QUESTIONS)
        self._answers: dict[str, LiveExplanation] = {}
        self._desk = PendingQueue()
        self._before: SlurmCluster | None = None
        self._placed = self._placed_before = 0
        self._troubled = self._next = self._watched = -float("inf")

    # The one who looks

    def happened(self, events: Iterable[LiveEvent], placed: int = 0) -> None:
        """Take what was done, and how many jobs were placed by that."""
        with self._lock:
            self._events.extend(events)
            self._placed += placed

    def due(self) -> bool:
        """Return whether it is time for a look: a large cluster takes a while to look at."""
        return self._clock() >= self._next or bool(self._questions)

    def observe(self, live: SlurmCluster, *, starts: bool = True) -> None:
        """Take a look at the cluster.

        Parameters
        ----------
        live
            The look.
        starts
            Whether jobs that started are events; not where :meth:`happened` tells what was placed.
        """
        began = self._clock()
        status = status_of(live)
        budget = max(_LEAST_BUDGET, _PART * (self._clock() - began))
        self.happened(changes(self._before, live, starts=starts))
        self._before = live
        self.take(status, self._now.waits, live.view.snapshot)  # words take longer than numbers
        waits = self._desk.look(live, status, budget)
        self._answer(live)
        with self._lock:
            self._publish(waits=waits)
        cost = self._clock() - began
        watched = began - self._watched < _WATCHED
        pause = max(_SHORTEST_PAUSE, _RATIO * cost)
        self._next = began + cost + (pause if watched else max(_LONG_PAUSE, _LONG_RATIO * cost))

    def take(
        self, status: Status, waits: Iterable[Pending] = (), snapshot: ClusterSnapshot | None = None
    ) -> None:
        """Take the numbers of a look; :meth:`look` does, with all that it can find out.

        Parameters
        ----------
        status
            The cluster.
        waits, snapshot
            As of :class:`LiveView`.
        """
        new = remarks(self._now.status, status)
        nodes = node_map(status.nodes)
        snapshot = ClusterSnapshot({}, {}) if snapshot is None else snapshot
        with self._lock:
            self._events.extend(new)
            self._history.add(_moment(status, self._placed - self._placed_before))
            self._placed_before = self._placed
            # Trouble that came while an older look was thought about stays.
            trouble = self._now.trouble if status.time < self._troubled else ""
            self._publish(
                status=status, waits=tuple(waits), trouble=trouble, snapshot=snapshot, nodes=nodes
            )

    def trouble(self, words: str, when: float | None = None) -> None:
        """Take why there is no look now."""
        with self._lock:
            self._troubled = time.time() if when is None else when
            if words != self._now.trouble:
                self._events.append(LiveEvent(self._troubled, "trouble", words))
                self._publish(trouble=words)

    def note(self, words: str, when: float | None = None) -> None:
        """Take a line for the events."""
        self.happened([LiveEvent(time.time() if when is None else when, "note", words)])

    def _answer(self, live: SlurmCluster) -> None:
        while self._questions:
            job = self._questions.popleft()
            told = why_job(live, job)
            text = told.text if told.first is None else f"{told.text} {told.first.text}"
            self._answers.pop(job, None)
            self._answers[job] = LiveExplanation(live.picture.time, job, text)
        while len(self._answers) > _MOST_ANSWERS:
            del self._answers[next(iter(self._answers))]

    def _publish(self, **new: object) -> None:
        self._now = replace(
            self._now,
            version=self._now.version + 1,
            events=tuple(reversed(self._events)),
            answers=dict(self._answers),
            placed=self._placed,
            **new,  # type: ignore[arg-type]
        )

    # Pages

    def snapshot(self) -> LiveView:
        """Return the cluster as it was seen last."""
        before, self._watched = self._watched, self._clock()
        if self._watched - before >= _WATCHED:  # nobody watched until now
            self._next = min(self._next, self._watched)
        return self._now

    def columns(
        self, span: str, users: Iterable[str] = (), since: float = -float("inf")
    ) -> HistoryColumns:
        """Return the past, as :meth:`~drfh.web.live.history.ShareHistory.columns` has it."""
        with self._lock:
            return self._history.columns(span, users, since)

    def past_users(self, span: str) -> tuple[str, ...]:
        """Return who had jobs in a span, the latest first."""
        with self._lock:
            return self._history.users(span)

    def ask(self, job: str) -> str:
        """Ask why a job waits; the answer is in a later snapshot, under the name returned.

        Parameters
        ----------
        job
            Such as 12, or 12_3 for a task of an array.
        """
        number, task = parse_job_name(job)
        name = number if task is None else f"{number}_{task}"
        if name not in self._questions:
            self._questions.append(name)
        return name


def _moment(status: Status, placed: int) -> HistorySample:
    return HistorySample(
        time=status.time,
        shares={user.name: (user.share, user.ideal) for user in status.users if user.jobs},
        distance=status.distance,
        running=sum(user.running + user.starting for user in status.users),
        waiting=sum(user.waiting for user in status.users),
        placed=placed,
    )
