"""A workload like Google's of 2011, drawn from figures that were fitted to its trace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from drfh.errors import InputError
from drfh.files.reader import Ledger
from drfh.generators.base import Generator, at_levels, even_ranks, reflected, rounded_evenly, spans
from drfh.generators.google_parameters import LEVELS, Stream, Table, shipped_table
from drfh.model.cluster import Cluster
from drfh.traces.base import Option, TraceReading
from drfh.traces.build import build
from drfh.traces.google2011.machine_events import drawn_servers

__all__ = ["GENERATOR", "Drawn", "draw_stream", "make", "mean_work", "tail_mean"]


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


_ENDS = pl.Enum(["cut", "evict", "fail", "finish", "kill", "lost"])
_NUMBER = {end: number for number, end in enumerate(_ENDS.categories)}
#: More are refused.
MOST_TASKS = 20_000_000
_MOST = {"users": 100_000, "hours": 10_000, "servers": 1_000_000, "load": 1_000}
# Tasks are added to or taken from jobs of at least so many, to meet the load that is asked for.
_LARGE_JOB = 10


def make(options: Mapping[str, Any], ledger: Ledger, table: Table | None = None) -> TraceReading:
    """Draw a cluster and a workload.

    Parameters
    ----------
    options
        Of the generator.
    ledger
        For counts and remarks.
    table
        The fitted figures; by default those that come with the package.
    """
    table = shipped_table() if table is None else table
    for name, most in _MOST.items():
        if not 0 < options[name] <= most:
            raise InputError(name, f"must be > 0 and ≤ {most:,}", options[name])
    seed, users = options["seed"], options["users"]
    window = options["hours"] * 3600.0
    shapes = Cluster.from_arrays(
        table.servers[:, :2], ("cpu", "memory"), counts=table.servers[:, 2].astype(np.int64)
    )
    cluster = drawn_servers(shapes, options["servers"], seed)
    draw = np.random.default_rng([seed, 2011])
    profile = _profiles(table, users, draw)
    capacity = cluster.capacity.T @ cluster.counts
    plan, scale = _plan(table, profile, window, capacity, options["load"], draw)
    drawn = [draw_stream(stream, table, owners, draw) for stream, owners in plan]
    starts = np.repeat([stream.start for stream, _ in plan], [len(o) for _, o in plan])
    jobs = _Jobs(drawn, starts, window)
    jobs.arrive(table, profile, scale, draw)
    jobs.end(table, draw)
    before = jobs.load(capacity)
    jobs.meet(options["load"], capacity, draw)
    workload, details = build(jobs.frame(), ("cpu", "memory"))
    after = jobs.load(capacity)
    ledger.count("users", len(workload.users))
    ledger.count("jobs", workload.job_count)
    ledger.count("tasks", workload.task_count)
    ledger.count("tasks that are there at the start", int(details["at_start"].sum()))
    ledger.count("tasks that still run at the end", int((details["end"] == "cut").sum()))
    ledger.remark(
        "drawn from figures fitted to Google's trace of 2011 (clusterdata-2011-2, CC-BY 4.0, "
        "J. Wilkes and C. Reiss); no rows of it are contained"
    )
    ledger.remark(f"offered load {after:.3f} of what the servers have (first drawn: {before:.3f})")
    if abs(after / options["load"] - 1) > 0.02:
        why = (
            "every user has at least one job"
            if after > options["load"]
            else f"tasks are added to jobs of at least {_LARGE_JOB}, and there are too few"
        )
        ledger.remark(f"a load of {options['load']:g} could not be met: {why}")
    return TraceReading(cluster, workload, details, window=window)


def _profiles(table: Table, users: int, draw: np.random.Generator) -> Ints:
    """Return the profile of each user: each as often as among the users of the trace, ± 1."""
    weights = np.array([profile.users for profile in table.profiles])
    edges = np.cumsum(weights) / weights.sum() * users
    found = np.searchsorted(edges, np.arange(users) + draw.random(), side="right")
    return np.minimum(found, len(weights) - 1).astype(np.int64)


def _plan(
    table: Table,
    profile: Ints,
    window: float,
    capacity: Floats,
    load: float,
    draw: np.random.Generator,
) -> tuple[list[tuple[Stream, Ints]], float]:
    """Return the streams, each with the user of every job, so that the load is about right.

    Also return how many times the jobs are that so many users would have in the trace.
    """
    streams: list[Stream] = []
    owners, places, expected = list[Ints](), list[Ints](), list[Floats]()
    for number, entry in enumerate(table.profiles):
        mine = np.flatnonzero(profile == number)
        for stream in entry.streams if len(mine) else ():
            values = stream.jobs[(even_ranks(draw, len(mine)) * len(stream.jobs)).astype(int)]
            owners.append(mine)
            places.append(np.full(len(mine), len(streams)))
            expected.append(values if stream.start else values * (window / table.window))
            streams.append(stream)
    user, place, jobs = np.concatenate(owners), np.concatenate(places), np.concatenate(expected)
    work = np.array([mean_work(s, table.requests, window) / capacity for s in streams])[place]
    # Neighbours weigh about the same, so that rounding does not change the load by much.
    order = np.argsort(-work.max(axis=1), kind="stable")
    user, place, jobs, work = user[order], place[order], jobs[order], work[order]
    offset = float(draw.random())
    # A user whose jobs are all rounded away keeps one, of the stream with the most jobs.
    likeliest = np.lexsort((-jobs, user))
    only = likeliest[np.unique(user[likeliest], return_index=True)[1]]

    def rounded(scale: float) -> Ints:
        found = rounded_evenly(jobs * scale, offset)
        idle = np.bincount(user, weights=found, minlength=len(profile)) == 0
        found[only[idle[user[only]]]] = 1
        return found

    def excess(scale: float) -> float:
        return float((rounded(scale) @ work).max()) / load - 1

    scale = load / float((jobs @ work).max())
    sizes = np.array([stream.sizes.mean() for stream in streams])[place]
    if scale * float(jobs @ sizes) > MOST_TASKS:
        raise InputError("load", f"must be so low that there are ≤ {MOST_TASKS:,} tasks", load)
    if abs(scale - 1) < 0.05:
        scale = 1.0  # as many jobs as in the trace; the rest is met with their tasks
    elif abs(excess(scale)) > 0.01:
        low, high = 0.0, 2 * scale
        for _ in range(30):
            scale = (low + high) / 2
            low, high = (low, scale) if excess(scale) > 0 else (scale, high)
    counts = rounded(scale)
    plan = [
        (stream, np.repeat(user[place == i], counts[place == i]))
        for i, stream in enumerate(streams)
        if counts[place == i].any()
    ]
    return plan, scale


class _Jobs:
    """All jobs, and their tasks job by job, as they are worked out step by step."""

    def __init__(self, drawn: list[Drawn], starts: NDArray[np.bool_], window: float) -> None:
        self.window = window
        self.user = np.concatenate([d.user for d in drawn])
        self.size = np.concatenate([d.size for d in drawn])
        self.start = starts
        self.age = np.concatenate([d.age for d in drawn])
        self.arrival = np.zeros(len(self.user))
        self.tasks = {
            name: np.concatenate([getattr(d, name) for d in drawn])
            for name in ("cpu", "memory", "seconds", "missing", "killed")
        }

    @property
    def job(self) -> Ints:
        """The job of each task."""
        return np.repeat(np.arange(len(self.size)), self.size)

    def arrive(self, table: Table, profile: Ints, scale: float, draw: np.random.Generator) -> None:
        """Let users sit down at some hours and submit several jobs in a row.

        Where there are fewer jobs than in the trace, by `scale`, there are fewer in a sitting.
        """
        later = np.flatnonzero(~self.start)
        if not len(later):
            return
        later = later[np.lexsort((draw.random(len(later)), self.user[later]))]
        user = self.user[later]
        fewer = min(scale, 1.0) or 1.0
        sitting = np.maximum([p.sitting * fewer for p in table.profiles], 1.0)[profile]
        gap = np.array([p.gap / fewer for p in table.profiles])[profile]
        jobs = np.bincount(user, minlength=len(profile))
        sittings = np.ceil(jobs / sitting).astype(np.int64)
        first = np.cumsum(sittings) - sittings
        ranks = np.concatenate([even_ranks(draw, n) for n in sittings])
        begins = _time_of_day(ranks, table, self.window)
        chosen = first[user] + (draw.random(len(later)) * sittings[user]).astype(np.int64)
        order = np.argsort(chosen, kind="stable")
        later, chosen = later[order], chosen[order]
        passed = np.cumsum(draw.standard_exponential(len(later)) * gap[self.user[later]])
        opening = np.flatnonzero(np.diff(chosen, prepend=-1))
        length = np.diff(opening, append=len(chosen))
        passed -= np.repeat(passed[opening], length)
        self.arrival[later] = (begins[chosen] + passed) % self.window

    def end(self, table: Table, draw: np.random.Generator) -> None:
        """Cut what runs beyond the window, and say how each task ended."""
        job, tasks = self.job, self.tasks
        start = self.start[job]
        left = self.window - self.arrival[job]
        cut = tasks["seconds"] >= left
        stays = np.isinf(tasks["seconds"])
        missing = np.where(stays, tasks.pop("missing"), 0.0)
        tasks["seconds"] = np.where(cut, left * (1 - missing), tasks["seconds"])
        end = np.where(tasks.pop("killed"), _NUMBER["kill"], _NUMBER["finish"])
        chance = draw.random(len(end))
        for name, here in (("start", start), ("later", ~start)):
            edge = 0.0
            for kind, part in table.other_ends[name].items():
                end[here & (edge <= chance) & (chance < edge + part)] = _NUMBER[kind]
                edge += part
        tasks["end"] = np.where(cut, _NUMBER["cut"], end)

    def load(self, capacity: Floats) -> float:
        """Return the demanded resource time over what there is, of the scarcer resource."""
        return max(
            float(self.tasks[r] @ self.tasks["seconds"]) / self.window / float(capacity[i])
            for i, r in enumerate(("cpu", "memory"))
        )

    def meet(self, load: float, capacity: Floats, draw: np.random.Generator) -> None:
        """Add tasks to large jobs, or take some away, until the load is as asked for."""
        for _ in range(4):
            job = self.job
            large = self.size[job] >= _LARGE_JOB
            works = [
                self.tasks[r] * self.tasks["seconds"] / self.window / capacity[i]
                for i, r in enumerate(("cpu", "memory"))
            ]
            work = max(works, key=lambda w: float(w.sum()))
            there, movable = float(work.sum()), float(work[large].sum())
            if abs(there - load) < 0.002 * load or not movable:
                return
            factor = max(0.0, 1 + (load - there) / movable)
            times = np.where(large, np.floor(factor + draw.random(len(job))), 1).astype(np.int64)
            first = np.cumsum(self.size) - self.size
            times[first] = np.maximum(times[first], 1)
            self.tasks = {name: np.repeat(v, times) for name, v in self.tasks.items()}
            self.size = np.bincount(job, weights=times, minlength=len(self.size)).astype(np.int64)

    def frame(self) -> pl.DataFrame:
        """Return the tasks in the order of their arrival; users are numbered in this order."""
        order = np.lexsort((-self.age, self.arrival))
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        owners = self.user[order]
        _, first, number = np.unique(owners, return_index=True, return_inverse=True)
        rank = np.empty(len(first), dtype=np.int64)
        rank[np.argsort(first)] = np.arange(1, len(first) + 1)
        digits = len(str(len(first)))
        names = pl.Series([f"user-{n:0{digits}}" for n in rank[number].tolist()])
        job = place[self.job]
        tasks = np.argsort(job, kind="stable")
        job = job[tasks]
        return pl.DataFrame(
            {
                "user": names.gather(job),
                "job": pl.Series([f"job-{n}" for n in range(1, len(order) + 1)]).gather(job),
                "arrival": self.arrival[order][job],
                "duration": self.tasks["seconds"][tasks],
                "cpu": self.tasks["cpu"][tasks],
                "memory": self.tasks["memory"][tasks],
                "at_start": self.start[order][job],
                "end": pl.Series(_ENDS.categories, dtype=_ENDS).gather(self.tasks["end"][tasks]),
            }
        )


def _time_of_day(ranks: Floats, table: Table, window: float) -> Floats:
    """Return times in the window, more of them in hours when more sittings begin.

    The trace does not reach round the clock: the hours that it lacks are like the mean of others.
    """
    day = np.concatenate([table.hours, np.full(max(0, 24 - len(table.hours)), table.hours.mean())])
    hours = int(np.ceil(window / 3600))
    rate = np.resize(day, hours)
    edges = np.minimum(np.arange(hours + 1) * 3600.0, window)
    passed = np.concatenate([[0.0], np.cumsum(rate * np.diff(edges))])
    times: Floats = np.interp(ranks * passed[-1], passed, edges)
    return times


GENERATOR = Generator(
    title="Like Google's cluster of 2011: fitted to its trace",
    make=make,
    options=(
        Option("users", "How many users.", "whole", 900),
        Option("hours", "How long the window is.", "number", 24.0),
        Option("servers", "How many servers, drawn from Google's ten shapes.", "whole", 2000),
        Option(
            "load",
            "Resource time that is asked for in the window, over what the servers have, of the "
            "scarcer resource: 1 is just full.",
            "number",
            1.0,
        ),
        Option("seed", "Start of the draws.", "whole", 7),
    ),
)
