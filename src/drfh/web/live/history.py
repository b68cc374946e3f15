"""The history of shares in a live view: the last minutes, hours and days, in bounded memory.

Each span is a ring of so many samples. A point of a long span is a sample, not a mean.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drfh.errors import UnknownNameError

__all__ = ["SPANS", "HistoryColumns", "HistorySample", "ShareHistory"]

_POINTS = 900
#: Name → seconds between two points.
SPANS: Mapping[str, float] = {"15 min": 1.0, "3 h": 12.0, "36 h": 144.0}
_MOST_USERS = 300
_EARLY = 0.1  # seconds
_BACK = 60.0  # seconds: a clock that jumps back by more starts a new history


@dataclass(frozen=True, slots=True)
class HistorySample:
    """A sample of the cluster for the history.

    Parameters
    ----------
    time
        Seconds since 1970.
    shares
        Global dominant share of each user with jobs, and what would be fair; None if it is not
        active.
    distance
        From fair, 0 to 1.
    running, waiting
        Jobs.
    placed
        Jobs that were placed since the last sample.
    """

    time: float
    shares: Mapping[str, tuple[float, float | None]]
    distance: float = 0.0
    running: int = 0
    waiting: int = 0
    placed: int = 0


@dataclass(frozen=True, slots=True)
class HistoryColumns:
    """Samples of a span, the oldest first; NaN before a user had jobs or without a fair share.

    Attributes
    ----------
    time, distance, running, waiting, placed : arrays
        As in :class:`HistorySample`.
    share, fair : mapping of arrays
        By user.
    """

    time: NDArray[np.float64]
    distance: NDArray[np.float64]
    running: NDArray[np.float64]
    waiting: NDArray[np.float64]
    placed: NDArray[np.float64]
    share: Mapping[str, NDArray[np.float64]]
    fair: Mapping[str, NDArray[np.float64]]


class ShareHistory:
    """The history in three spans; one thread at a time.

    Parameters
    ----------
    points
        Of each span.
    users
        How many are kept at most: the ones seen last.

    Examples
    --------
    >>> history = ShareHistory()
    >>> for second in range(30):
    ...     shares = {"ann": (0.01 * second, 0.5)}
    ...     history.add(HistorySample(1000.0 + second, shares, waiting=second))
    >>> found = history.columns("15 min", ["ann"], since=1027.0)
    >>> found.time.tolist(), found.share["ann"].round(2).tolist()
    ([1028.0, 1029.0], [0.28, 0.29])
    >>> history.columns("3 h").time.tolist()
    [1000.0, 1012.0, 1024.0]
    """

    def __init__(self, points: int = _POINTS, users: int = _MOST_USERS) -> None:
        self._rings = {name: _Ring(step, points, users) for name, step in SPANS.items()}

    def add(self, sample: HistorySample) -> None:
        """Add a sample."""
        for ring in self._rings.values():
            ring.add(sample)

    def columns(
        self, span: str, users: Iterable[str] = (), since: float = -math.inf
    ) -> HistoryColumns:
        """Return the samples of a span that are younger than a time.

        Parameters
        ----------
        span
            A name in :data:`SPANS`.
        users
            Whose shares to return.
        since
            Seconds since 1970.
        """
        if span not in self._rings:
            raise UnknownNameError("span", span, SPANS)
        return self._rings[span].columns(users, since)

    def users(self, span: str) -> tuple[str, ...]:
        """Return who is in a span, the one seen last first."""
        if span not in self._rings:
            raise UnknownNameError("span", span, SPANS)
        return self._rings[span].users()


_PLAIN = ("time", "distance", "running", "waiting", "placed")


class _Ring:
    """One span. A row for each plain column, two for each user (share, fair)."""

    def __init__(self, step: float, points: int, most: int) -> None:
        self.step, self.points, self.most = step, points, most
        self.plain = np.full((len(_PLAIN), points), math.nan)
        self.lines: dict[str, NDArray[np.float32]] = {}
        self.latest: dict[str, float] = {}  # who was seen when, the latest at the end
        self.count = 0
        self.last = -math.inf
        self.placed = 0

    def add(self, sample: HistorySample) -> None:
        self.placed += sample.placed
        if sample.time < self.last - _BACK:
            self.__init__(self.step, self.points, self.most)  # type: ignore[misc]
            self.placed = sample.placed
        # A little early is in time: cycles are never exactly a second apart.
        if sample.time < self.last + self.step - _EARLY:
            return
        at = self.count % self.points
        row = (sample.time, sample.distance, sample.running, sample.waiting, self.placed)
        self.plain[:, at] = row
        for line in self.lines.values():
            line[:, at] = (0.0, math.nan)
        for user, (share, fair) in sample.shares.items():
            if self._has_row(user, sample.time):
                self.lines[user][:, at] = (share, math.nan if fair is None else fair)
        self.count += 1
        self.last, self.placed = sample.time, 0

    def _has_row(self, user: str, now: float) -> bool:
        """Return whether a user has a row, made in place of the one seen longest ago."""
        if user in self.lines:
            del self.latest[user]
        else:
            if len(self.lines) >= self.most:
                oldest = next(iter(self.latest))
                if self.latest[oldest] >= self.last:
                    return False
                del self.lines[oldest], self.latest[oldest]
            self.lines[user] = np.full((2, self.points), math.nan, dtype=np.float32)
        self.latest[user] = now
        return True

    def users(self) -> tuple[str, ...]:
        oldest = self.last - self.step * self.points
        return tuple(user for user, when in reversed(self.latest.items()) if when > oldest)

    def columns(self, users: Iterable[str], since: float) -> HistoryColumns:
        first = max(self.count - self.points, 0)
        order = np.arange(first, self.count) % self.points
        order = order[self.plain[0, order] > since]
        plain = dict(zip(_PLAIN, self.plain[:, order], strict=True))
        known = {user: self.lines[user][:, order].astype(np.float64)
                 for user in users if user in self.lines}  # fmt: skip
        return HistoryColumns(
            **plain,
            share={user: rows[0] for user, rows in known.items()},
            fair={user: rows[1] for user, rows in known.items()},
        )
