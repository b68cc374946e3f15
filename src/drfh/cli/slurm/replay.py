"""``drfh slurm replay``: a recorded journal again, with the same brain and under other policies."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from drfh.cli.render.console import print_json
from drfh.errors import InputError

if TYPE_CHECKING:
    from drfh.simulation.parallel import SimulationRun

__all__ = ["replay"]

_OUTPUT = "Output"
_NOT_THE_SAME = 3  # as where a required property fails


def replay(
    log: Annotated[
        Path, typer.Argument(metavar="LOG", help="A journal of drfh slurm, plain or packed (.gz).")
    ],
    policy: Annotated[
        list[str] | None,
        typer.Option(metavar="A,B", help="Simulate these too; slots:14, drfh+cosine+strict too."),
    ] = None,
    drain: Annotated[
        bool,
        typer.Option(
            "--drain",
            help="Go on when the journal ends, until nothing more happens; as it is if all tasks "
            "have ended there.",
        ),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            rich_help_panel=_OUTPUT,
            help="Write a run directory; with several policies, one in DIR for each.",
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force", rich_help_panel=_OUTPUT, help="Replace run directories that are there."
        ),
    ] = False,
    everyone: Annotated[
        bool,
        typer.Option("--all", rich_help_panel=_OUTPUT, help="Show every user, however many."),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", rich_help_panel=_OUTPUT, help="Print JSON.")
    ] = False,
) -> None:
    """Replay a journal: the same brain must decide the same; other policies are simulated.

    Every look is given to a fresh brain, whose placements must be the recorded
    ones: else the exit code is 3. Then the recorded tasks are simulated under
    the policy of the journal and under others, beside what was observed.

    Try:

      drfh slurm replay cluster.journal --policy slots:14 --policy fifo

      drfh slurm replay cluster.journal.gz --policy fifo -o runs

      drfh report runs -o page.html
    """
    from drfh.cli import simulate
    from drfh.engines.journal.reader import read_journal
    from drfh.engines.journal.replay import comparison, horizon_of, replay_same, workload_of

    journal = read_journal(log)
    runs = _runs(journal.headers[-1].policy, journal.headers[-1].seed, policy or [])
    targets = simulate._targets(runs, output, force)
    replayed = replay_same(journal)
    recorded = workload_of(journal)
    options: dict[str, Any] = {
        "until": horizon_of(recorded, drain=drain or None),
        "interval": None,
        "fair": False,
        "log": True,
        "source": str(log),
    }
    simulate._check(recorded.cluster, recorded.workload, runs, options)
    results = simulate._carry_out(
        recorded.cluster, recorded.workload, runs, options, None, targets, force, output
    )
    table = comparison(recorded, [run.name for run in runs], results)
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
            "looks": journal.looks,
            "restarts": len(journal.headers) - 1,
            "seconds": journal.horizon,
        }
        remarks = list(recorded.remarks)
        print_json({"journal": about, "replay": replayed.to_dict(), **table, "remarks": remarks})
    else:
        from drfh.cli.slurm import render as text

        text.print_replay(journal, replayed, recorded, table, everyone=everyone)
        if output is not None:
            text.say(f"saved: {output}")
    if not replayed.same:
        raise typer.Exit(_NOT_THE_SAME)


def _runs(recorded: str, seed: int, given: list[str]) -> list[SimulationRun]:
    """Return the runs: the policy of the journal first, then those that are asked for, once."""
    from drfh.policies import Policy
    from drfh.simulation.parallel import SimulationRun

    words = [word.strip() for listed in given for word in listed.split(",")]
    if not all(words):
        raise InputError("--policy", "must name at least one policy", ",".join(given))
    names = dict.fromkeys(Policy.parse(word).name for word in (recorded, *words))
    return [SimulationRun(name, name, seed) for name in names]
