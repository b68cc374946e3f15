"""Replay of a journal: by the same scheduler, and simulated under other policies."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from drfh.cli.render.console import print_json
from drfh.errors import InputError

if TYPE_CHECKING:
    from drfh.simulation.parallel import SimulationRun

__all__ = ["replay_journal"]

_NOT_THE_SAME = 3  # as where a required property fails


def replay_journal(
    log: Path,
    policies: Sequence[str] = (),
    *,
    drain: bool = False,
    output: Path | None = None,
    force: bool = False,
    everyone: bool = False,
    as_json: bool = False,
) -> None:
    """Replay a journal with the same scheduler, and simulate it under other policies.

    Parameters
    ----------
    log
        The journal, plain or packed.
    policies
        Names, several in one with commas.
    drain
        Go on when the journal ends, until nothing more happens.
    output
        Write run directories here.
    force
        Replace run directories that are there.
    everyone
        Show every user, however many.
    """
    from drfh.cli.simulate import check_runs, run_directories, simulate_runs
    from drfh.engines.journal.reader import read_journal
    from drfh.engines.journal.replay import replay
    from drfh.engines.journal.whatif import comparison, horizon_of
    from drfh.engines.journal.workload import workload_of

    journal = read_journal(log)
    runs = _runs(journal.headers[-1].policy, journal.headers[-1].seed, policies)
    targets = run_directories(runs, output, force)
    replayed = replay(journal)
    workload = workload_of(journal)
    options: dict[str, Any] = {
        "until": horizon_of(workload, drain=drain or None),
        "interval": None,
        "fair": False,
        "log": True,
        "source": str(log),
    }
    check_runs(workload.cluster, workload.workload, runs, options)
    results = simulate_runs(
        workload.cluster, workload.workload, runs, options, None, targets, force, output
    )
    table = comparison(workload, [run.name for run in runs], results)
    if as_json:
        places = [None, *(str(target) for target in targets)] if targets else []
        for number, row in enumerate(table["runs"]):
            row["directory"] = places[number] if places else None
        header = journal.headers[-1]
        about = {
            "path": journal.path,
            "engine": header.engine,
            "policy": header.policy,
            "seed": header.seed,
            "controls": header.controls,
            "looks": journal.entries,
            "restarts": len(journal.headers) - 1,
            "seconds": journal.horizon,
        }
        remarks = list(workload.remarks)
        print_json({"journal": about, "replay": replayed.to_dict(), **table, "remarks": remarks})
    else:
        from drfh.cli.cluster.render import print_replay
        from drfh.cli.render.console import print_line

        print_replay(journal, replayed, workload, table, everyone=everyone)
        if output is not None:
            print_line(f"saved: {output}")
    if not replayed.same:
        raise typer.Exit(_NOT_THE_SAME)


def _runs(recorded: str, seed: int, given: Sequence[str]) -> list[SimulationRun]:
    """Return the runs: the policy of the journal first, then those that are asked for, once."""
    from drfh.policies import Policy
    from drfh.simulation.parallel import SimulationRun

    listed = [name.strip() for names in given for name in names.split(",")]
    if not all(listed):
        raise InputError("--policy", "must name at least one policy", ",".join(given))
    names = dict.fromkeys(Policy.parse(name).name for name in (recorded, *listed))
    return [SimulationRun(name, name, seed) for name in names]
