"""Which runs there are, each once, and how they are carried out."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from drfh.experiments.beyond import OTHERS
from drfh.experiments.evidence import BEST_FIT, FIRST_FIT, Evidence, Key, slots_name
from drfh.experiments.setup import Ground, Setup
from drfh.experiments.sharing import dedicated_workload, user_facts
from drfh.policies import Policy
from drfh.simulation.parallel import SimulationRun, simulate_many
from drfh.simulation.result import Result

__all__ = ["gather_evidence", "round_interval", "run_count"]

#: Called with the run that goes on, and how many runs are done.
Told = Callable[[str, float], None]


def round_interval(window: float, samples: int) -> float:
    """Return a round number of seconds that gives about so many samples.

    Examples
    --------
    >>> round_interval(70_156, 240), round_interval(86_400, 240), round_interval(3_600, 240)
    (300.0, 500.0, 20.0)
    """
    wanted = window / samples
    ten = 10.0 ** math.floor(math.log10(wanted))
    return float(f"{next(s for s in (1, 2, 3, 5, 10) if s * ten >= 0.97 * wanted) * ten:.0e}")


def gather_evidence(
    setup: Setup,
    ground: Ground,
    *,
    processes: int = 1,
    folder: Path | None = None,
    progress: Told | None = None,
) -> Evidence:
    """Simulate everything that the tables rest on.

    Slots come first: their best number decides which of them the others are compared with.

    Parameters
    ----------
    setup, ground
        The choices, and what follows from them.
    processes
        How many run at a time.
    folder
        Where the runs are to be written, if anywhere.
    progress
        See :data:`Told`.
    """
    interval = round_interval(ground.window, setup.sample_count)
    common = {"until": ground.window, "interval": interval, "source": ground.trace.source}
    first = list(_slots(setup, interval))
    office = _Office(ground, common, processes, folder, progress)
    office.carry_out(first)
    evidence = Evidence(
        office.results,
        ground.jobs,
        user_facts(ground, setup.draws),
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
    office.carry_out(second)
    return evidence


def run_count(setup: Setup) -> int:
    """Return how many runs there will be.

    Examples
    --------
    >>> run_count(Setup(seeds=1)), run_count(Setup(seeds=1, full=True))
    (33, 53)
    """
    return len(_slots(setup, 1.0)) + len(setup.draws) * len(_others(0, "slots:1", 1.0))


def _slots(setup: Setup, interval: float) -> list[tuple[Key, dict[str, Any]]]:
    """Return the runs of Table II. Only a few samples: their utilisation is integrated exactly."""
    few = {"interval": interval * max(setup.sample_count // 20, 1)}
    return [
        (Key(slots_name(number, count, oversize), seed), few)
        for seed in setup.draws
        for count in setup.count_rules
        for oversize in setup.oversize
        for number in setup.slots
    ]


def _others(seed: int, slots: str, interval: float) -> list[tuple[Key, dict[str, Any]]]:
    """Return the other runs of a draw; slots at their best number again, now with samples."""
    strict = [Policy.parse(f"{p}+strict").name for p in (BEST_FIT, FIRST_FIT, slots)]
    # An exact allocation at each sample takes longer than all else: fewer of them where no
    # figure shows every sample. The long runs come first, so that no process ends up alone.
    few = {"fair": True, "interval": 2 * interval}
    return [
        (Key(BEST_FIT, seed, dedicated=True), {}),
        *((Key(policy, seed), {"fair": True}) for policy in (BEST_FIT, FIRST_FIT, slots)),
        *((Key(policy, seed), few) for policy in OTHERS),
        *((Key(policy, seed), {}) for policy in strict),
    ]


class _Office:
    """Carries out runs, keeps their results, and says how far all of them are."""

    def __init__(
        self,
        ground: Ground,
        common: Mapping[str, Any],
        processes: int,
        folder: Path | None,
        progress: Told | None,
    ) -> None:
        self.results: dict[Key, Result] = {}
        self._ground, self._common = ground, common
        self._processes, self._folder = processes, folder
        self._progress, self._done = progress, 0

    def carry_out(self, asked: Sequence[tuple[Key, dict[str, Any]]]) -> None:
        ground = self._ground
        runs = []
        for key, options in asked:
            cluster = ground.cluster(key.seed)
            own = dedicated_workload(ground.workload, cluster, key.seed) if key.dedicated else None
            place = None
            if self._folder is not None:
                place = self._folder / key.name
                place.mkdir(parents=True, exist_ok=True)
            runs.append(
                SimulationRun(key.name, key.policy, key.seed, place, cluster, own, {**options})
            )
        part = [0.0] * len(runs)

        def tell(position: int, news: Any) -> None:
            part[position] = news.time / news.until
            assert self._progress is not None
            self._progress(runs[position].name, self._done + sum(part))

        results = simulate_many(
            ground.cluster(asked[0][0].seed),
            ground.workload,
            runs,
            processes=self._processes,
            progress=tell if self._progress is not None else None,
            **self._common,
        )
        self._done += len(runs)
        self.results.update(zip([key for key, _ in asked], results, strict=True))
