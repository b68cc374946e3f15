"""The runs of a reproduction: which there are, their simulation, their files."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from drfh.errors import InputError
from drfh.experiments.setup import Inputs, Setup, with_users
from drfh.files.atomic import read_text
from drfh.model.cluster import Cluster
from drfh.model.jobs import Workload
from drfh.policies import Policy
from drfh.simulation.parallel import SimulationRun, simulate_many
from drfh.simulation.result import Result

__all__ = [
    "BEST_FIT",
    "BLOCKED",
    "FIRST_FIT",
    "OTHERS",
    "Evidence",
    "RunKey",
    "dedicated_clouds",
    "dedicated_workload",
    "round_interval",
    "run_count",
    "simulate_runs",
    "slots_name",
]


BEST_FIT = "best-fit-drfh"
FIRST_FIT = "first-fit-drfh"
BLOCKED = ("skip", "strict")
#: Policies that the paper does not have.
OTHERS = (
    "drfh+cosine",
    "drfh+hilbert",
    "drfh+alignment",
    "tsf+best-fit",
    "mesos",
    "fifo",
)

_INDEX = "index.json"


class RunKey(NamedTuple):
    """Policy, seed and clouds of one run."""

    policy: str
    """Full name of the policy."""
    seed: int
    """Draw of the servers."""
    dedicated: bool = False
    """Whether every user has servers of its own."""

    @property
    def name(self) -> str:
        """The name of its folder.

        Examples
        --------
        >>> RunKey("slots:14", 0).name
        'slots-14-seed-0'
        """
        name = f"{'dedicated-' if self.dedicated else ''}{self.policy}-seed-{self.seed}"
        return re.sub(r"[^\w.+=-]", "-", name)


def slots_name(number: int, count: str = "min", oversize: str = "ceil") -> str:
    """Return the name of a policy of slots.

    Examples
    --------
    >>> slots_name(14), slots_name(14, "cpu", "reject")
    ('slots:14', 'slots:14:cpu:reject')
    """
    usual = (count, oversize) == ("min", "ceil")
    return f"slots:{number}" if usual else f"slots:{number}:{count}:{oversize}"


@dataclass(frozen=True, eq=False)
class Evidence:
    """All runs of a reproduction.

    Attributes
    ----------
    runs : mapping
        :class:`RunKey` → result.
    jobs : polars.DataFrame
        ``job``, ``at_start``: whether tasks of it were there when the window began.
    users : polars.DataFrame
        ``seed``, ``user``, ``tasks``, ``weight``, ``servers`` of its dedicated cloud, and
        ``largest_task``: the dominant share that its largest task has of the largest server.
    seeds, slots, count_rules, oversize : tuple
        What was varied.
    """

    runs: Mapping[RunKey, Result]
    jobs: pl.DataFrame
    users: pl.DataFrame
    seeds: tuple[int, ...]
    slots: tuple[int, ...]
    count_rules: tuple[str, ...]
    oversize: tuple[str, ...]

    def run(self, policy: str, seed: int, blocked: str = "skip") -> Result:
        """Return a run in the shared cloud."""
        name = policy if blocked == "skip" else Policy.parse(f"{policy}+{blocked}").name
        return self.runs[RunKey(name, seed)]

    def best_slots(self, seed: int) -> str:
        """Return the policy of slots with the highest CPU and memory utilisation together.

        As in the paper, by number alone; ties go to fewer slots.
        """
        return self._best[seed]

    @cached_property
    def _best(self) -> dict[int, str]:
        def overall(name: str, seed: int) -> float:
            return float(sum(self.run(name, seed).numbers["utilisation"].values()))

        names = [slots_name(number) for number in sorted(self.slots)]
        return {seed: max(names, key=lambda n: overall(n, seed)) for seed in self.seeds}

    def main_policies(self, seed: int) -> tuple[str, str, str]:
        """Return the three that the paper compares."""
        return BEST_FIT, FIRST_FIT, self.best_slots(seed)

    def write(self, folder: Path) -> None:
        """Write the runs into folders of their own, and what is known beside them."""
        folder.mkdir(exist_ok=True)
        for key, result in self.runs.items():
            if not (folder / key.name).is_dir():  # else its process has written it
                (folder / key.name).mkdir()
                result.write(folder / key.name)
        index = {
            "runs": [key._asdict() for key in self.runs],
            "seeds": self.seeds,
            "slots": self.slots,
            "count_rules": self.count_rules,
            "oversize": self.oversize,
        }
        self.jobs.write_parquet(folder / "jobs.parquet")
        self.users.write_parquet(folder / "users.parquet")
        (folder / _INDEX).write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Evidence:
        """Read what :meth:`write` wrote."""
        if not (folder / _INDEX).is_file():
            rule = f"must hold the runs of a reproduction ({_INDEX} is missing)"
            raise InputError("the directory", rule, str(folder))
        index: dict[str, Any] = json.loads(read_text(str(folder / _INDEX)))
        keys = [RunKey(**fields) for fields in index["runs"]]
        return cls(
            {key: Result.load(folder / key.name) for key in keys},
            pl.read_parquet(folder / "jobs.parquet"),
            pl.read_parquet(folder / "users.parquet"),
            tuple(index["seeds"]),
            tuple(index["slots"]),
            tuple(index["count_rules"]),
            tuple(index["oversize"]),
        )


Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]

_ROUND_OFF = 1e-12

#: Called with the name of a run that goes on, and the number of runs done.
RunProgress = Callable[[str, float], None]


def round_interval(window: float, samples: int) -> float:
    """Return a round number of seconds that gives about so many samples.

    Examples
    --------
    >>> round_interval(70_156, 240), round_interval(86_400, 240), round_interval(3_600, 240)
    (300.0, 500.0, 20.0)
    """
    seconds = window / samples
    ten = 10.0 ** math.floor(math.log10(seconds))
    return float(f"{next(s for s in (1, 2, 3, 5, 10) if s * ten >= 0.97 * seconds) * ten:.0e}")


def simulate_runs(
    setup: Setup,
    inputs: Inputs,
    *,
    processes: int = 1,
    folder: Path | None = None,
    progress: RunProgress | None = None,
) -> Evidence:
    """Simulate everything that the tables rest on.

    Slots come first: their best number decides which of them the others are compared with.

    Parameters
    ----------
    setup, inputs
        The choices, and what follows from them.
    processes
        How many run at a time.
    folder
        Where the runs are to be written, if anywhere.
    progress
        See :data:`RunProgress`.
    """
    interval = round_interval(inputs.window, setup.sample_count)
    common = {"until": inputs.window, "interval": interval, "source": inputs.trace.source}
    first = list(_slots(setup, interval))
    executor = _RunExecutor(inputs, common, processes, folder, progress)
    executor.simulate(first)
    evidence = Evidence(
        executor.results,
        inputs.jobs,
        _user_table(inputs, setup.draws),
        setup.draws,
        setup.slots,
        setup.count_rules,
        setup.oversize,
    )
    second = [
        asked
        for seed in setup.draws
        for asked in _others(seed, evidence.best_slots(seed), interval)
    ]
    executor.simulate(second)
    return evidence


def run_count(setup: Setup) -> int:
    """Return how many runs there will be.

    Examples
    --------
    >>> run_count(Setup(seeds=1)), run_count(Setup(seeds=1, full=True))
    (33, 53)
    """
    return len(_slots(setup, 1.0)) + len(setup.draws) * len(_others(0, "slots:1", 1.0))


def _slots(setup: Setup, interval: float) -> list[tuple[RunKey, dict[str, Any]]]:
    """Return the runs of Table II. Only a few samples: their utilisation is integrated exactly."""
    few = {"interval": interval * max(setup.sample_count // 20, 1)}
    return [
        (RunKey(slots_name(number, count, oversize), seed), few)
        for seed in setup.draws
        for count in setup.count_rules
        for oversize in setup.oversize
        for number in setup.slots
    ]


def _others(seed: int, slots: str, interval: float) -> list[tuple[RunKey, dict[str, Any]]]:
    """Return the other runs of a draw; slots at their best number again, now with samples."""
    strict = [Policy.parse(f"{p}+strict").name for p in (BEST_FIT, FIRST_FIT, slots)]
    # An exact allocation at each sample takes longer than all else: fewer of them where no
    # figure shows every sample. The long runs come first, so that no process ends up alone.
    few = {"fair": True, "interval": 2 * interval}
    return [
        (RunKey(BEST_FIT, seed, dedicated=True), {}),
        *((RunKey(policy, seed), {"fair": True}) for policy in (BEST_FIT, FIRST_FIT, slots)),
        *((RunKey(policy, seed), few) for policy in OTHERS),
        *((RunKey(policy, seed), {}) for policy in strict),
    ]


class _RunExecutor:
    """Simulates runs, keeps their results and reports the progress of all."""

    def __init__(
        self,
        inputs: Inputs,
        common: Mapping[str, Any],
        processes: int,
        folder: Path | None,
        progress: RunProgress | None,
    ) -> None:
        self.results: dict[RunKey, Result] = {}
        self._ground, self._common = inputs, common
        self._processes, self._folder = processes, folder
        self._progress, self._done = progress, 0

    def simulate(self, asked: Sequence[tuple[RunKey, dict[str, Any]]]) -> None:
        inputs = self._ground
        runs = []
        for key, options in asked:
            cluster = inputs.cluster(key.seed)
            own = dedicated_workload(inputs.workload, cluster, key.seed) if key.dedicated else None
            place = None
            if self._folder is not None:
                place = self._folder / key.name
                place.mkdir(parents=True, exist_ok=True)
            runs.append(
                SimulationRun(key.name, key.policy, key.seed, place, cluster, own, {**options})
            )
        part = [0.0] * len(runs)

        def report(position: int, news: Any) -> None:
            part[position] = news.time / news.until
            assert self._progress is not None
            self._progress(runs[position].name, self._done + sum(part))

        results = simulate_many(
            inputs.cluster(asked[0][0].seed),
            inputs.workload,
            runs,
            processes=self._processes,
            progress=report if self._progress is not None else None,
            **self._common,
        )
        self._done += len(runs)
        self.results.update(zip([key for key, _ in asked], results, strict=True))


def dedicated_clouds(weight: Floats, servers: int, seed: int) -> list[Ints]:
    """Return the positions of the servers of each user: a random partition by weight.

    The servers are shuffled; user i takes the positions from ⌊cum_{i−1}⌋ to ⌊cum_i⌋ of the
    shuffled order, cum in steps of servers · w_i / Σw. Each cloud keeps the pool's order.

    Examples
    --------
    >>> [len(cloud) for cloud in dedicated_clouds(np.ones(3), 5, seed=0)]
    [1, 2, 2]
    """
    order = np.random.default_rng(seed).permutation(servers)
    edges = np.cumsum(weight) * (servers / weight.sum())
    cuts = np.floor(edges * (1 + _ROUND_OFF)).astype(np.int64)[:-1]
    return [np.sort(part) for part in np.split(order, cuts)]


def dedicated_workload(workload: Workload, cluster: Cluster, seed: int) -> Workload:
    """Return the jobs with every user restricted to its own servers, all in one workload.

    Users with disjoint servers meet only in the order of turns, which cannot matter: a turn of
    one changes nothing for another. So one run is all dedicated clouds at once. It must be one
    that skips a blocked user; alone, a user that is skipped and one that stops are the same.
    A user without a server is left with no task at all.
    """
    weight = np.array([user.weight for user in workload.users])
    names = _server_names(cluster)
    clouds = dedicated_clouds(weight, cluster.size, seed)
    rich = np.array([len(cloud) > 0 for cloud in clouds])
    kept = _without(workload, rich)
    terms = [tuple(names[i] for i in cloud.tolist()) for cloud in clouds]
    # Nobody asks where the tasks of a user without tasks may run.
    return with_users(kept, [term or (names[0],) for term in terms])


def _server_names(cluster: Cluster) -> list[str]:
    return [
        cluster.server_name(group, index)
        for group, count in enumerate(cluster.counts.tolist())
        for index in range(count)
    ]


def _without(workload: Workload, kept_user: NDArray[np.bool_]) -> Workload:
    """Return the jobs of the users that are kept; the others are there without jobs."""
    keep = kept_user[workload.batch_user]
    if keep.all():
        return workload
    jobs, job = np.unique(workload.batch_job[keep], return_inverse=True)
    return Workload.from_arrays(
        workload.users,
        workload.resources,
        workload.demand,
        user=workload.batch_user[keep],
        arrival=workload.batch_arrival[keep],
        shape=workload.batch_shape[keep],
        duration=workload.duration[np.repeat(keep, workload.batch_count)],
        count=workload.batch_count[keep],
        job=job.reshape(-1),
        job_names=[workload.job_names[j] for j in jobs.tolist()],
        restrictions=workload.restrictions,
        restriction=workload.restriction,
    )


def _user_table(inputs: Inputs, seeds: tuple[int, ...]) -> pl.DataFrame:
    """Return a row for each seed and user: tasks, weight, dedicated servers, largest task."""
    workload = inputs.workload
    count = len(workload.users)
    weight = np.array([user.weight for user in workload.users])
    tasks = np.bincount(workload.batch_user, workload.batch_count, minlength=count)
    parts = []
    for seed in seeds:
        cluster = inputs.cluster(seed)
        most = dict(zip(cluster.resources, cluster.capacity.max(axis=0).tolist(), strict=True))
        size = np.array([most[name] for name in workload.resources])
        part = (workload.demand / size).max(axis=1)
        largest = np.zeros(count)
        np.maximum.at(largest, workload.batch_user, part[workload.batch_shape])
        clouds = dedicated_clouds(weight, cluster.size, seed)
        parts.append(
            pl.DataFrame(
                {
                    "seed": np.full(count, seed, dtype=np.int64),
                    "user": pl.Series([user.name for user in workload.users], dtype=pl.String),
                    "tasks": tasks.astype(np.int64),
                    "weight": weight,
                    "servers": np.array([len(cloud) for cloud in clouds], dtype=np.int64),
                    "largest_task": largest,
                }
            )
        )
    return pl.concat(parts)
