"""Draw the jobs and tasks of one stream of the `google-like` generator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from drfh.generators.draws import at_levels, even_ranks, reflected, spans
from drfh.generators.google_table import LEVELS, Stream, Table

__all__ = ["Drawn", "draw_stream", "mean_work", "tail_mean"]

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

_TAIL = 2.0  # deviations
_MIDDLES = (np.arange(64) + 0.5) / 64


@dataclass(frozen=True, slots=True)
class Drawn:
    """Jobs of a stream, and their tasks job by job.

    ``age`` orders the jobs that are there at the start, the oldest first. ``seconds`` is how long a
    task would run if the window did not end, inf for one that stays; ``missing`` is what part of
    the window the latter does not run.
    """

    user: Ints
    size: Ints
    age: Floats
    cpu: Floats
    memory: Floats
    seconds: Floats
    missing: Floats
    killed: NDArray[np.bool_]


def tail_mean(center: float, deviation: float) -> float:
    """Return the mean of what the tail draws: normal logarithms, cut at two deviations.

    Examples
    --------
    >>> round(tail_mean(0.0, 0.0), 6), round(tail_mean(0.0, 1.0), 2)
    (1.0, 1.56)
    """
    places = np.linspace(-5, 5, 401)
    weights = np.exp(-(places**2) / 2)
    drawn = np.exp(center + deviation * np.clip(places, -_TAIL, _TAIL))
    return float(weights @ drawn / weights.sum())


def mean_work(stream: Stream, requests: Floats, window: float) -> Floats:
    """Return the CPU and the memory that a job asks for, on average over the window.

    Parameters
    ----------
    stream
        What is drawn.
    requests
        The common requests, CPU and memory.
    window
        In seconds; work beyond its end does not count.
    """
    asked = stream.ask_chance @ requests[stream.ask]
    if len(stream.tail):
        weight, mean, deviation = stream.tail[0], stream.tail[1:3], stream.tail[3:5]
        asked = asked + weight * np.array(
            [tail_mean(m, d) for m, d in zip(mean, deviation, strict=True)]
        )
    chances = stream.ask_chance.sum() + (stream.tail[0] if len(stream.tail) else 0.0)
    runs = 0.0
    if len(stream.seconds):
        ran = at_levels(_MIDDLES, LEVELS, stream.seconds) / window
        inside = np.minimum(ran, 1.0)
        if not stream.start:  # they arrive evenly, and the window's end cuts them
            inside = np.where(ran < 1, ran * (1 - ran / 2), 0.5)
        runs = float(inside.mean()) * (1 - stream.stay)
    if stream.stay:
        late = at_levels(_MIDDLES, LEVELS, stream.late) if len(stream.late) else np.zeros(1)
        runs += stream.stay * (1 - float(late.mean()))
    work: Floats = asked / chances * float(stream.sizes.mean()) * runs
    return work


def draw_stream(stream: Stream, table: Table, user: Ints, draw: np.random.Generator) -> Drawn:
    """Draw one job for each entry of `user`.

    Parameters
    ----------
    stream, table
        What is drawn.
    user
        Whose jobs they are.
    draw
        Where the draws come from.
    """
    jobs = len(user)
    picked = (even_ranks(draw, jobs) * len(stream.sizes)).astype(np.int64)
    size = np.maximum(stream.sizes[picked].astype(np.int64), 1)
    asked = _requests(stream, table, size, draw)
    owner = np.repeat(np.arange(jobs), size)
    request = asked[owner]
    if stream.start and table.mixed_chance:
        _mix(request, size, stream, table, draw)

    lasting = spans(draw, size)
    rank = lasting[owner] + stream.spread * (draw.random(len(owner)) - 0.5)
    rank = reflected(rank)
    seconds = np.full(len(owner), np.inf)
    missing = np.zeros(len(owner))
    killed = np.zeros(len(owner), dtype=bool)
    over = rank < 1 - stream.stay if stream.stay else np.ones(len(owner), dtype=bool)
    if over.any():
        ended = rank[over] / (1 - stream.stay)
        seconds[over] = at_levels(ended, LEVELS, stream.seconds)
        third = np.minimum((ended * len(stream.kill)).astype(np.int64), len(stream.kill) - 1)
        killed[over] = draw.random(jobs)[owner[over]] < stream.kill[third]
    if len(stream.late):
        missing[~over] = at_levels(draw.random(int((~over).sum())), LEVELS, stream.late)
    age = np.zeros(jobs)
    if stream.start:  # what has run for long runs on for long
        low, high = stream.age
        age[np.argsort(lasting + 0.5 * draw.random(jobs))] = np.sort(draw.uniform(low, high, jobs))
    return Drawn(user, size, age, request[:, 0], request[:, 1], seconds, missing, killed)


def _requests(stream: Stream, table: Table, size: Ints, draw: np.random.Generator) -> Floats:
    """Return what the tasks of each job ask for."""
    chances = np.append(stream.ask_chance, stream.tail[:1])
    edges = np.cumsum(chances) / chances.sum()
    which = np.searchsorted(edges[:-1], spans(draw, size), side="right")
    common = which < len(stream.ask)
    asked = np.empty((len(size), 2))
    asked[common] = table.requests[stream.ask[which[common]]]
    if not common.all():
        _, *mean, first_deviation, second_deviation, together = stream.tail
        first, second = draw.standard_normal((2, int((~common).sum())))
        second = together * first + np.sqrt(max(0.0, 1 - together**2)) * second
        normal = np.clip(np.stack([first, second], axis=1), -_TAIL, _TAIL)
        logs = np.array(mean) + normal * [first_deviation, second_deviation]
        # No task of the trace is larger than the largest server.
        asked[~common] = np.minimum(_four_digits(np.exp(logs)), table.requests.max(axis=0))
    return asked


def _mix(
    request: Floats, size: Ints, stream: Stream, table: Table, draw: np.random.Generator
) -> None:
    """Let a part of the tasks of some jobs ask for something else of the stream."""
    mixed = np.flatnonzero((size > 1) & (draw.random(len(size)) < table.mixed_chance))
    if not len(mixed):
        return
    second = _requests(stream, table, size[mixed], draw)
    part = draw.choice(table.mixed_part, len(mixed))
    first = np.cumsum(size) - size
    for job, other, number in zip(mixed, second, np.ceil(part * size[mixed]), strict=True):
        request[first[job] : first[job] + min(int(number), size[job] - 1)] = other


def _four_digits(values: Floats) -> Floats:
    """Return the values rounded to four digits, as in the trace."""
    scale = 10.0 ** (3 - np.floor(np.log10(values)))
    rounded: Floats = np.round(values * scale) / scale
    return rounded
