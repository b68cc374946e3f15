"""``drfh simulate``: jobs over time, under one policy or several."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from drfh.cli.errors import named_as_options
from drfh.cli.input import (
    OUTPUT_PANEL,
    AllUsersOption,
    FigureFormatOption,
    FiguresOption,
    ForceOption,
    JsonOutputOption,
    check_figures,
    read_input,
)
from drfh.cli.render.console import console, print_json, print_line
from drfh.cli.whatif import Edits, WeightOption, WeightsOption
from drfh.errors import InputError

if TYPE_CHECKING:
    import polars

    from drfh.model.cluster import Cluster
    from drfh.model.jobs import Workload
    from drfh.simulation.parallel import OnProgress, SimulationRun
    from drfh.simulation.result import Result

__all__ = ["check_runs", "run_directories", "simulate", "simulate_runs"]

_OPTIONS = ("until", "interval", "cut")
_TRACE = "Trace"
_MOST_SEEDS = 1_000
# About a second of work, as long as a process needs to start: a microsecond a task, and what a
# policy without an index reads.
_SMALL_WORK = 1_000_000
_SERVERS_A_TASK = 200


def simulate(
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE", help="A YAML or JSON file with jobs, or a shipped scenario."
        ),
    ] = None,
    trace: Annotated[
        str | None,
        typer.Option(
            metavar="SOURCE", rich_help_panel=_TRACE, help="A trace instead: FORMAT:PATH or PATH."
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            rich_help_panel=_TRACE,
            help="An option of the format, such as hours=4 (see drfh trace formats).",
        ),
    ] = None,
    strict: Annotated[
        bool,
        typer.Option("--strict", rich_help_panel=_TRACE, help="Stop at the first broken row."),
    ] = False,
    drain: Annotated[
        bool,
        typer.Option(
            "--drain",
            rich_help_panel=_TRACE,
            help="Go on when the trace ends, until nothing more happens.",
        ),
    ] = False,
    weight: WeightOption = None,
    weights: WeightsOption = None,
    policy: Annotated[
        str,
        typer.Option(metavar="A,B", help="Simulate these; slots:14, drfh+cosine+strict too."),
    ] = "best-fit-drfh",
    until: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Stop then; by default when nothing more happens."),
    ] = None,
    cut: Annotated[
        bool, typer.Option("--cut", help="Leave out jobs that arrive after --until.")
    ] = False,
    seed: Annotated[
        int, typer.Option(metavar="N", help="Start of the draws of policies that draw.")
    ] = 0,
    seeds: Annotated[
        int | None, typer.Option(metavar="N", help="Simulate with so many seeds, from --seed on.")
    ] = None,
    fair: Annotated[
        bool,
        typer.Option("--fair", help="Solve the exact allocation at each sample: how far from it?"),
    ] = False,
    interval: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Between samples; by default for about 200."),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(metavar="N", help="Processes at a time; by default one for each processor."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            rich_help_panel=OUTPUT_PANEL,
            help="Write a run directory; with several runs, one in DIR for each.",
        ),
    ] = None,
    force: ForceOption = False,
    log: Annotated[
        bool,
        typer.Option(
            "--log", rich_help_panel=OUTPUT_PANEL, help="Write all tasks to tasks.parquet."
        ),
    ] = False,
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=OUTPUT_PANEL,
            help="Write one offline page with figures.",
        ),
    ] = None,
    figures: FiguresOption = None,
    figure_format: FigureFormatOption = None,
    everyone: AllUsersOption = False,
    as_json: JsonOutputOption = False,
    listed: Annotated[
        bool,
        typer.Option("--list", rich_help_panel=OUTPUT_PANEL, help="Name the policies and stop."),
    ] = False,
) -> None:
    """Simulate the jobs of a scenario or a trace, and see who waits and how full it is.

    Tasks end, servers come and go, tasks arrive, the policy places what it
    can: on a virtual clock, the same every time.

    Try:

      drfh simulate gpu-day --fair

      drfh simulate gpu-day --policy best-fit-drfh,slots:4,fifo -o runs

      drfh simulate gpu-day --policy best-fit-drfh,fifo --report page.html

      drfh simulate gpu-day --policy best-fit-drfh,fifo --figures figures

      drfh simulate paper-dynamic --until 1000 --interval 10 --json

      drfh simulate --trace google-2011:clusterdata --set servers=2000
    """  # fmt: skip
    from drfh.cli.render import simulation as text

    if listed:
        text.print_policies(as_json=as_json)
        return
    if log and output is None:
        raise InputError("--log", "must be used together with --output")
    if cut and until is None:
        raise InputError("--cut", "must be used together with --until")
    if jobs is not None and jobs < 1:
        raise InputError("--jobs", "must be a whole number ≥ 1", jobs)
    if seeds is not None and not 1 <= seeds <= _MOST_SEEDS:
        raise InputError("--seeds", f"must be a whole number from 1 to {_MOST_SEEDS:,}", seeds)
    if report is not None:
        from drfh.report.pages.runs import check_report, name_runs, save_runs

        check_report(report, "--report")
    formats = check_figures(figures, figure_format)
    runs = _runs(policy, seed, seeds)
    targets = run_directories(runs, output, force)
    given = read_input(
        file,
        trace,
        verb="simulate",
        settings=settings,
        strict=strict,
        edits=Edits(weight=weight, weights=weights),
        of_trace={"--drain": drain},
    )
    cluster, workload = given.cluster, given.workload
    details = None if given.trace is None else given.trace.details
    if details is not None and not {"num_gpu", "gpu_milli"} <= set(details.columns):
        details = None
    if until is None and not drain and given.trace is not None:
        until = given.trace.window
    if cut and until is not None:
        if details is not None:
            details = details.filter(workload.batch_arrival <= until)
        workload = workload.until(until)
    # The log alone tells which device a part of a GPU would be on.
    log = log or details is not None
    options: dict[str, Any] = {"until": until, "interval": interval, "fair": fair, "log": log}
    options["source"] = given.source
    check_runs(cluster, workload, runs, options)
    given.print_account(over_time=True)
    results = simulate_runs(cluster, workload, runs, options, jobs, targets, force, output)
    names = [run.name for run in runs]
    if report is not None:
        save_runs(name_runs(results, names), report, given.title)
    drawn: list[Path] = []
    if figures is not None:
        from drfh.report import name_runs, save_figures

        drawn = save_figures(name_runs(results, names), figures, formats)
    devices = [_devices(result, cluster, workload, details) for result in results]
    if as_json:
        places: list[str | None] = [str(target) for target in targets]
        places = places or [None] * len(results)
        rows = [
            {"run": name, **result.summary(), **facts, "directory": place}
            for name, result, facts, place in zip(names, results, devices, places, strict=True)
        ]
        data = {"title": given.title, **given.to_dict(over_time=True), "runs": rows}
        print_json({**data, "figures": list(map(str, drawn))} if drawn else data)
        return
    text.print_runs(given.title, cluster, workload, names, results, everyone=everyone)
    text.print_devices(names, devices)
    if seeds is not None and len(runs) < seeds * len({run.policy for run in runs}):
        print_line("a policy that draws nothing is the same for all seeds: it ran once")
    for saved in (output, report, figures):
        if saved is not None:
            print_line(f"saved: {saved}")


def _devices(
    result: Result, cluster: Cluster, workload: Workload, details: polars.DataFrame | None
) -> dict[str, Any]:
    """Return how tasks would have found single GPUs; nothing if they do not ask for parts."""
    if details is None:
        return {}
    from drfh.simulation.devices import replay_devices

    return {"devices": replay_devices(result, cluster, workload, details).to_dict()}


def _runs(policies: str, seed: int, seeds: int | None) -> list[SimulationRun]:
    """Return the runs that are asked for, each with a name of its own that a folder can have."""
    from drfh.policies import Policy
    from drfh.simulation.parallel import SimulationRun

    names = [name.strip() for name in policies.split(",") if name.strip()]
    if not names:
        raise InputError("--policy", "must name at least one policy", policies)
    if not 0 <= seed < 2**62:
        raise InputError("--seed", f"must be a whole number from 0 to {2**62 - 1}", seed)
    runs: list[SimulationRun] = []
    for name in names:
        policy = Policy.parse(name)
        if any(run.policy == policy.name for run in runs):
            raise InputError("--policy", "must name each policy once", name)
        count = seeds if seeds is not None and policy.choice == "random" else 1
        for own in range(seed, seed + count):
            name = policy.name if seeds is None else f"{policy.name}-{own}"
            runs.append(SimulationRun(name, policy.name, own))
    return runs


def run_directories(runs: list[SimulationRun], output: Path | None, force: bool) -> list[Path]:
    """Return the run directories; raise now if one could not be written later."""
    from drfh.files.atomic import check_directory
    from drfh.simulation.result import RUN_FILE

    if output is None:
        if force:
            raise InputError("--force", "must be used together with --output")
        return []
    if len(runs) == 1:
        targets = [output]
    else:
        if (output / RUN_FILE).exists():
            rule = f"must be a directory for several runs, not a run directory ({RUN_FILE})"
            raise InputError("--output", rule, str(output))
        if output.exists() and not output.is_dir():
            raise InputError("--output", "must be a directory or a new one", str(output))
        targets = [output / re.sub(r"[^\w.+=-]", "-", run.name) for run in runs]
    for target in targets:
        with named_as_options(*_OPTIONS):
            check_directory(target, RUN_FILE, force=force, field="--output")
    return targets


def check_runs(
    cluster: Cluster, workload: Workload, runs: list[SimulationRun], options: dict[str, Any]
) -> None:
    """Raise in this process, before any other is started, if a run could not begin."""
    from drfh.policies import find_policy
    from drfh.scheduler.rules import Rules
    from drfh.simulation.plan import make_plan, units_of
    from drfh.simulation.run import check_length, check_simulation

    until, interval = options["until"], options["interval"]
    with named_as_options(*_OPTIONS):
        check_simulation(cluster, workload, until, runs[0].seed, interval)
        units = units_of(cluster, workload.events)
        if until is None and interval is not None:
            check_length(make_plan(cluster, workload, units)[0], interval)
    for run in runs:
        Rules(find_policy(run.policy), units.resources, units.sizes)


def simulate_runs(
    cluster: Cluster,
    workload: Workload,
    runs: list[SimulationRun],
    options: dict[str, Any],
    jobs: int | None,
    targets: list[Path],
    force: bool,
    output: Path | None,
) -> list[Result]:
    """Simulate, and put the run directories in their places when all runs are done."""
    from contextlib import ExitStack

    from drfh.files.atomic import whole_directory
    from drfh.simulation.parallel import simulate_many
    from drfh.simulation.result import RUN_FILE

    processes = jobs or min(len(runs), os.cpu_count() or 1)
    work = len(runs) * workload.task_count * (1 + cluster.size / _SERVERS_A_TASK)
    if jobs is None and work < _SMALL_WORK:
        processes = 1
    with named_as_options(*_OPTIONS, output=output), ExitStack() as stack:
        drafts = [
            stack.enter_context(whole_directory(target, RUN_FILE, force=force))
            for target in targets
        ]
        if drafts:
            runs = [replace(r, folder=d) for r, d in zip(runs, drafts, strict=True)]
        with _progress(runs) as on_progress:
            return simulate_many(
                cluster, workload, runs, processes=processes, progress=on_progress, **options
            )


@contextmanager
def _progress(runs: list[SimulationRun]) -> Iterator[OnProgress | None]:
    """Show a bar for each run on a terminal: simulated time, tasks and their rate."""
    out = console(stderr=True)
    if not out.is_terminal:
        yield None
        return
    import time

    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from drfh.formatting import format_duration

    columns = TextColumn("{task.description:20}"), BarColumn(), TextColumn("{task.fields[how]}")
    with Progress(*columns, TimeElapsedColumn(), console=out, transient=True) as shown:
        rows: dict[int, tuple[Any, float]] = {}

        def update(position: int, progress: Any) -> None:
            if position not in rows:
                name = runs[position].name
                rows[position] = shown.add_task(name, total=None, how=""), time.monotonic()
            row, started = rows[position]
            passed = max(time.monotonic() - started, 1e-3)
            done, total = progress.done, progress.tasks
            how = f"at {format_duration(progress.time)}, {done:,} tasks, {done / passed:,.0f}/s"
            if progress.until is not None:
                done, total = progress.time, progress.until
            shown.update(row, completed=done, total=total, how=how)

        yield update
