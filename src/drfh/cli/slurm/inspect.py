"""``drfh slurm status``, ``why``, ``audit`` and ``replay``: verbs that change nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from drfh.cli.cluster.replay import replay_journal
from drfh.cli.cluster.status import audit_cluster, print_job_explanation, show_status
from drfh.cli.cluster.web import view_at
from drfh.cli.input import OUTPUT_PANEL, AllUsersOption, ForceOption, JsonOutputOption
from drfh.cli.slurm.options import (
    JsonOption,
    PartitionOption,
    PolicyOption,
    UserByOption,
    WebHostOption,
    WebOption,
    WebPortOption,
    WeightsOption,
    connect,
)

__all__ = ["audit", "replay", "status", "why"]


def status(
    seconds: Annotated[
        float | None,
        typer.Argument(
            metavar="[SECONDS]", help="With --watch or --web: time between two looks; else 2."
        ),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Look again and again, until Ctrl-C.")
    ] = False,
    count: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="With --watch: stop after so many looks."),
    ] = None,
    everyone: Annotated[bool, typer.Option("--all", help="All users, however many.")] = False,
    web: WebOption = False,
    web_port: WebPortOption = None,
    web_host: WebHostOption = None,
    as_json: JsonOption = False,
    policy: PolicyOption = None,
    weights: WeightsOption = None,
    user_by: UserByOption = None,
    partition: PartitionOption = None,
) -> None:
    """Show who has what now and in the fair allocation, and how full the nodes are.

    The fair allocation is the exact DRFH allocation, if tasks were
    divisible, of all who have jobs that run or could run now.

    Try:

      drfh slurm status --watch 5

      drfh slurm status --json

      drfh slurm status --web
    """
    show_status(
        lambda: connect(policy, weights, user_by, partition),
        seconds=seconds,
        watch=watch,
        count=count,
        everyone=everyone,
        web=view_at(web, web_host, web_port),
        as_json=as_json,
    )


def why(
    job: Annotated[str, typer.Argument(metavar="JOB", help="Such as 12, or 12_3 of an array.")],
    as_json: JsonOption = False,
    policy: PolicyOption = None,
    weights: WeightsOption = None,
    user_by: UserByOption = None,
    partition: PartitionOption = None,
) -> None:
    """Say why a job waits: what is missing where, and who goes first.

    Try:

      drfh slurm why 12

      drfh slurm why 12_3
    """
    from drfh.wire.slurm.notation import parse_job_name

    parse_job_name(job)  # what is wrong with it comes before what is wrong with the cluster
    print_job_explanation(connect(policy, weights, user_by, partition), job, as_json=as_json)


def audit(
    only: Annotated[
        str | None, typer.Option(metavar="A,B", help="Measure these properties only.")
    ] = None,
    require: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Exit with code 3 if one of these properties fails."),
    ] = None,
    split: Annotated[
        bool | None,
        typer.Option(
            "--split/--no-split",
            help="Each kind of task by itself, or the mean task of its user; by default by itself "
            "where tasks of a user differ in more than size.",
        ),
    ] = None,
    show: Annotated[
        str | None, typer.Option(metavar="PROPERTY", help="Show the counterexample to one.")
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="With --show: write the counterexample as a scenario file."
        ),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write one offline page with charts.")
    ] = None,
    as_json: JsonOption = False,
    policy: PolicyOption = None,
    weights: WeightsOption = None,
    user_by: UserByOption = None,
    partition: PartitionOption = None,
) -> None:
    """Measure every fairness property of what runs now: a report card, worst first.

    It begins with what everybody has now, what is fair, who is short and
    why. Whole tasks and jobs that end keep a cluster a little away from
    the fair allocation: --show says for whom, and by how much.

    Try:

      drfh slurm audit

      drfh slurm audit --require feasible
    """
    audit_cluster(
        lambda: connect(policy, weights, user_by, partition),
        only=only,
        require=require,
        split=split,
        show=show,
        save=save,
        html=html,
        as_json=as_json,
    )


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
            rich_help_panel=OUTPUT_PANEL,
            help="Write a run directory; with several policies, one in DIR for each.",
        ),
    ] = None,
    force: ForceOption = False,
    everyone: AllUsersOption = False,
    as_json: JsonOutputOption = False,
) -> None:
    """Replay a journal: the same scheduler must decide the same; other policies are simulated.

    Every snapshot is given to a fresh scheduler, whose placements must be the recorded
    ones: else the exit code is 3. Then the recorded tasks are simulated under
    the policy of the journal and under others, beside what was observed.

    Try:

      drfh slurm replay cluster.journal --policy slots:14 --policy fifo

      drfh slurm replay cluster.journal.gz --policy fifo -o runs

      drfh report runs -o page.html
    """
    replay_journal(
        log,
        policy or (),
        drain=drain,
        output=output,
        force=force,
        everyone=everyone,
        as_json=as_json,
    )
