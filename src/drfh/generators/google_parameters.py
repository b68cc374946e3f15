"""The fitted figures of the `google-like` generator: ``google_like.json``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "LEVELS",
    "USUAL",
    "Profile",
    "Stream",
    "Table",
    "as_stream",
    "as_table",
    "shipped_table",
]

Floats: TypeAlias = NDArray[np.float64]

#: Levels of the quantiles of run times.
LEVELS = np.array([0.0, 0.05, 0.15, 0.3, 0.5, 0.7, 0.85, 0.95, 1.0])


#: What the file leaves out.
USUAL: dict[str, Any] = {"jobs": [1], "sizes": [1], "spread": 2, "stay": 0, "kill": [0]}


@dataclass(frozen=True, slots=True)
class Stream:
    """Jobs of one user that are alike.

    Parameters
    ----------
    start
        Whether they are there at the start; else they arrive during the window.
    jobs
        How many one user has in the fitted window: values that equally many users have each.
    sizes
        Tasks of a job: values that equally many jobs have each.
    ask, ask_chance
        What tasks ask for, positions in the table's requests, and what part of the tasks does.
    tail
        What the other tasks ask for: weight, mean of the logarithms of CPU and memory, their
        deviations and their correlation. Empty if none do.
    spread
        How far run times in one job lie apart, in ranks among those of the stream: 0 all equal, 2
        as far as those of different jobs.
    age
        Of jobs that are there at the start: where nine tenths of them stand in the order of all
        such jobs, 0 the youngest and 1 the oldest.
    stay
        What part of the tasks that are there at the start still runs at the end of the window.
    late
        Of those: what part of the window they do not run, at :data:`LEVELS`.
    seconds
        Run times of the other tasks, at :data:`LEVELS`.
    kill
        What part of these is killed, of the shortest, middle and longest third.
    """

    start: bool
    jobs: Floats
    sizes: Floats
    ask: NDArray[np.int64]
    ask_chance: Floats
    tail: Floats
    spread: float
    age: Floats
    stay: float
    late: Floats
    seconds: Floats
    kill: Floats


@dataclass(frozen=True, slots=True)
class Profile:
    """Users that are alike.

    Parameters
    ----------
    users
        How many users of the trace it stands for.
    sitting
        Jobs that such a user submits in one sitting.
    gap
        Mean seconds between them.
    streams
        What the user submits.
    """

    users: int
    sitting: float
    gap: float
    streams: tuple[Stream, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """All figures.

    Parameters
    ----------
    window
        Seconds of the trace that they were fitted to.
    users
        Users of the trace.
    servers
        CPU, memory and how many: one row for each shape of servers.
    hours
        How many sittings begin in each hour of the window; 1 is the mean.
    other_ends
        By ``start`` and ``later``: what part of the ended tasks was evicted, failed or lost.
    mixed_chance, mixed_part
        What part of the jobs at the start (of two or more tasks) asks for two things, and what
        part of their tasks asks for the second: values that equally many jobs have each.
    requests
        The common requests, CPU and memory.
    profiles
        Kinds of users, the heaviest first.
    """

    window: float
    users: int
    servers: Floats
    hours: Floats
    other_ends: dict[str, dict[str, float]]
    mixed_chance: float
    mixed_part: Floats
    requests: Floats
    profiles: tuple[Profile, ...]


def as_table(data: dict[str, Any]) -> Table:
    """Return the figures as arrays.

    Examples
    --------
    >>> as_table({"window": 60, "users": 1, "servers": [[1, 1, 5]], "hours": [1],
    ...     "other_ends": {}, "mixed": [0, [0]], "requests": [], "profiles": []}).window
    60.0
    """
    return Table(
        window=float(data["window"]),
        users=int(data["users"]),
        servers=np.array(data["servers"], dtype=np.float64),
        hours=np.array(data["hours"], dtype=np.float64),
        other_ends=data["other_ends"],
        mixed_chance=float(data["mixed"][0]),
        mixed_part=np.array(data["mixed"][1], dtype=np.float64),
        requests=np.array(data["requests"], dtype=np.float64).reshape(-1, 2),
        profiles=tuple(
            Profile(
                users=int(profile["users"]),
                sitting=float(profile.get("sitting", [1.0])[0]),
                gap=float(profile.get("sitting", [1.0, 0.0])[1]),
                streams=tuple(
                    as_stream(stream, start=when == "start")
                    for when in ("start", "later")
                    for stream in profile.get(when, ())
                ),
            )
            for profile in data["profiles"]
        ),
    )


def as_stream(data: dict[str, Any], *, start: bool) -> Stream:
    """Return the figures of a stream as arrays.

    Examples
    --------
    >>> as_stream({"ask": [4, 1.0], "seconds": [60]}, start=False).sizes.tolist()
    [1.0]
    """
    data = USUAL | data

    def array(name: str) -> Floats:
        return np.array(data.get(name, []), dtype=np.float64)

    return Stream(
        start=start,
        jobs=array("jobs"),
        sizes=array("sizes"),
        ask=np.array(data["ask"][::2], dtype=np.int64),
        ask_chance=np.array(data["ask"][1::2], dtype=np.float64),
        tail=array("tail"),
        spread=float(data["spread"]),
        age=array("age"),
        stay=float(data["stay"]),
        late=array("late"),
        seconds=array("seconds"),
        kill=array("kill"),
    )


@cache
def shipped_table() -> Table:
    """Return the figures that come with the package.

    Examples
    --------
    >>> shipped_table().users
    565
    """
    file = resources.files("drfh.generators") / "google_like.json"
    return as_table(json.loads(file.read_text(encoding="utf-8")))
