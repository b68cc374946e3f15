"""Fleets and mixtures, which take several leximin rounds: drfh against HiGHS.

HiGHS's interior-point method (without crossover) solves the first round, and is told who has all
its tasks in it, which drfh has to find out. The old second try is what drfh did with such problems
before it generated columns: all rounds by HiGHS's simplex method, each a new model of all pairs.
Neither proves anything. Everybody solves in a process of its own, and is stopped at a limit.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import Any, TypeAlias

import numpy as np
from rich.table import Table

from benchmarks import report
from benchmarks.instances import Case, Floats, fleet, hard, mixture, usable_pairs
from benchmarks.processes import apart, limit_processor
from benchmarks.rivals import first_round, highs_ipm, old_second_try
from drfh import Allocation, allocate
from drfh.allocation.proofs.certificate import Certificate

__all__ = ["fleet_table", "mixture_table", "questions"]

LIMIT, OUR_LIMIT = 60.0, 300.0  # seconds of the processor
REPEATED = 0.5  # seconds for which a short call is measured again and again

FIRST, OLD = "HiGHS, first round", "old second try"
RIVALS: dict[str, Callable[..., float | Floats]] = {FIRST: first_round, OLD: old_second_try}

Size: TypeAlias = tuple[int, int, int]
# Users, nodes, kinds of tasks; and the most seconds that some should take.
FLEETS: tuple[Size, ...] = (
    (50, 500, 1), (100, 2_000, 1), (200, 5_000, 1), (10, 200, 5), (40, 1_000, 5), (200, 5_000, 5),
)  # fmt: skip
QUICK_FLEETS: tuple[Size, ...] = ((50, 500, 1), (10, 200, 5))
GOALS = {(200, 5_000, 1): 3.0, (200, 5_000, 5): 15.0}
# Servers, users, resources.
MIXTURES: tuple[Size, ...] = (
    (100, 30, 3), (300, 100, 3), (300, 100, 4), (1_000, 60, 3), (1_000, 200, 3),
)  # fmt: skip
QUICK_MIXTURES: tuple[Size, ...] = ((100, 30, 3),)
SEEDS = range(3)  # of mixtures


@dataclass(frozen=True)
class Question:
    """Arguments of a rival, and the right answer."""

    arguments: tuple[Any, ...]
    answer: float | Floats

    def error(self, answer: float | Floats) -> float:
        """Return the largest relative error of an answer."""
        right = np.asarray(self.answer)
        return float((np.abs(answer - right) / np.where(right > 0, right, 1.0)).max())


def questions(allocation: Allocation) -> dict[str, Question]:
    """Return what the rivals are asked about a problem that drfh has solved.

    In the first round those with all their tasks are held, and the others rise in proportion to
    what they have when the first of them stops: the right answer is 1.
    """
    problem, proof = allocation.problem, allocation.certificate
    assert isinstance(proof, Certificate)
    cap = problem.share_limit
    level = next(r.level for r in proof.rounds if r.prices is not None)
    if problem.mixes is None:
        share = np.minimum(problem.weight * level, cap)
    else:
        share = problem.path(cap > 0, np.zeros(len(cap))).at(level) * problem.task_share
    full = share >= cap * (1 - 1e-12)
    model = (problem.direction, problem.capacity, usable_pairs(problem))
    held, rising = np.where(full, cap, 0.0), np.where(full, 0.0, share)
    asked = {FIRST: Question((*model, held, rising), 1.0)}
    if problem.mixes is None:
        asked[OLD] = Question((*model, problem.weight, cap), allocation.share_vector)
    return asked


@dataclass(frozen=True)
class Ours:
    """What drfh answers, and after how many seconds of the processor and of the clock."""

    processor: float
    wall: float
    rounds: int
    gap: float
    closed: bool
    questions: dict[str, Question]


def _solve(make: Callable[[], Case]) -> Ours:
    """Run in a process of its own: the median of some calls."""
    from drfh.precompile import warm_up

    warm_up()
    cluster, users = make()
    limit_processor(OUR_LIMIT)
    times: list[tuple[float, float]] = []
    while not times or sum(wall for _, wall in times) < REPEATED:
        processor, wall = time.process_time(), time.perf_counter()
        allocation = allocate(cluster, users)
        times.append((time.process_time() - processor, time.perf_counter() - wall))
    processor, wall = (median(column) for column in zip(*times, strict=True))
    proof = allocation.certificate
    assert isinstance(proof, Certificate)
    return Ours(processor, wall, len(proof.rounds), proof.gap, proof.closed, questions(allocation))


def _ask(name: str, question: Question) -> tuple[float, float]:
    """Run in a process of its own: seconds of the processor and error of a rival."""
    highs_ipm(hard(3, 3, 2))  # loads what it needs
    limit_processor(LIMIT)
    started = time.process_time()
    answer = RIVALS[name](*question.arguments)
    return time.process_time() - started, question.error(answer)


@dataclass
class Measured:
    """What the problems of one size gave; a time is infinite where a limit ended it."""

    name: str
    goal: float | None = None
    problems: int = 0
    ours: list[Ours] = field(default_factory=list)
    theirs: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    errors: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def add(self, make: Callable[[], Case], rivals: Sequence[str]) -> None:
        """Measure one problem."""
        self.problems += 1
        try:
            ours = apart(_solve, make)
        except TimeoutError:
            report.say(self.name, _limited(math.inf, OUR_LIMIT))
            return
        self.ours.append(ours)
        said = [report.seconds(ours.processor)]
        for name in rivals:
            try:
                seconds, error = apart(_ask, name, ours.questions[name])
            except TimeoutError:
                seconds = math.inf
            else:
                self.errors[name].append(error)
            self.theirs[name].append(seconds)
            said.append(f"{name}: {_limited(seconds, LIMIT)}")
        report.say(self.name, *said)

    def cells(self, rivals: Sequence[str]) -> Iterator[str]:
        """Yield the cells of a row: medians, and the largest gap and errors."""
        ended = len(self.ours) == self.problems
        processor = median(one.processor for one in self.ours) if ended else math.inf
        yield self.name
        yield f"{sum(one.closed for one in self.ours)} of {self.problems}"
        yield f"{max(one.gap for one in self.ours):.0e}" if ended else ""
        yield f"{median(one.rounds for one in self.ours):g}" if ended else ""
        if self.goal is None:
            yield _limited(processor, OUR_LIMIT)
        elif ended:
            yield report.at_most(processor, self.goal, "s")
        else:
            yield f"> {OUR_LIMIT:g} s ({self.goal:g} s: NOT MET)"
        yield report.seconds(median(one.wall for one in self.ours)) if ended else ""
        for name in rivals:
            theirs = median(self.theirs[name]) if ended else math.nan
            least = min(theirs, LIMIT) / processor
            yield _limited(theirs, LIMIT) if ended else ""
            yield f"{'> ' if math.isinf(theirs) else ''}{report.times(least)}" if ended else ""
            yield f"{max(self.errors[name]):.0e}" if self.errors[name] else ""


def _limited(seconds: float, limit: float) -> str:
    return f"> {limit:g} s" if math.isinf(seconds) else report.seconds(seconds)


def _table(title: str, rows: Sequence[Measured], rivals: Sequence[str]) -> Table:
    columns = ["problem", "closed", "gap", "rounds", "drfh", "wall"]
    for name in rivals:
        columns += [name, "ratio", "its error"]
    table = report.table(title, columns)
    for row in rows:
        table.add_row(*row.cells(rivals))
    return table


def fleet_table(quick: bool) -> Table:
    """Measure fleets, and teams with five kinds of tasks; return the table."""
    rows = []
    for size in QUICK_FLEETS if quick else FLEETS:
        users, nodes, kinds = size
        name = f"{users:,} users × {nodes:,} nodes"
        row = Measured(f"{name}, {kinds} kinds" if kinds > 1 else name, GOALS.get(size))
        row.add(partial(fleet, users, nodes, kinds=kinds), (FIRST,))
        rows.append(row)
    title = "fleets, four resources: seconds of the processor, all rounds against one of HiGHS"
    return _table(title, rows, (FIRST,))


def mixture_table(quick: bool) -> Table:
    """Measure mixtures, several of each size; return the table."""
    rows = []
    for servers, users, resources in QUICK_MIXTURES if quick else MIXTURES:
        row = Measured(f"{servers:,} servers × {users:,} users, m = {resources}")
        for seed in SEEDS:
            row.add(partial(mixture, servers, users, resources, seed=seed), (FIRST, OLD))
        rows.append(row)
    title = f"mixtures: seconds of the processor, medians of {len(SEEDS)} problems"
    return _table(title, rows, (FIRST, OLD))
