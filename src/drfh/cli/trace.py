"""``drfh trace``: look into traces, convert, compare and generate them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from drfh.cli.errors import named_as_options
from drfh.cli.input import OUTPUT_PANEL, JsonOutputOption, open_trace, parse_settings
from drfh.cli.render.console import print_json, progress_bar
from drfh.errors import InputError

if TYPE_CHECKING:
    from drfh.traces import Trace

__all__ = ["app"]

app = typer.Typer(
    help="Real clusters in: look into traces, convert, compare and generate them.",
    no_args_is_help=True,
)

_READING = "Reading"
_CHART_SUFFIXES = (".html", ".svg", ".png", ".pdf")
_FLAGS = ("hours", "start", "users", "sample", "seed", "servers", "load")

_Source = Annotated[
    str,
    typer.Argument(metavar="SOURCE", help="PATH or FORMAT:PATH (drfh trace formats names them)."),
]
_Hours = Annotated[
    float | None,
    typer.Option(metavar="N", rich_help_panel=_READING, help="Read so many hours; else all."),
]
_Start = Annotated[
    float | None,
    typer.Option(metavar="N", rich_help_panel=_READING, help="Leave out so many hours first."),
]
_Users = Annotated[
    str | None,
    typer.Option(
        metavar="N|A,B", rich_help_panel=_READING, help="Keep so many users, or those named."
    ),
]
_Sample = Annotated[
    float | None,
    typer.Option(metavar="PART", rich_help_panel=_READING, help="Keep this part of the jobs."),
]
_Seed = Annotated[
    int | None, typer.Option(metavar="N", rich_help_panel=_READING, help="Start of the draws.")
]
_Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        rich_help_panel=_READING,
        help="Any other option of the format (drfh trace formats lists them).",
    ),
]
_Strict = Annotated[
    bool, typer.Option("--strict", rich_help_panel=_READING, help="Stop at the first broken row.")
]
_Plot = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        rich_help_panel=OUTPUT_PANEL,
        help="Draw to .html (one offline page), .svg, .png or .pdf.",
    ),
]
_All = Annotated[
    bool, typer.Option("--all", rich_help_panel=OUTPUT_PANEL, help="Show every user and shape.")
]
_Parquet = Annotated[
    bool,
    typer.Option(
        "--parquet", rich_help_panel=OUTPUT_PANEL, help="Parquet files (zstd) instead of CSV."
    ),
]
_Force = Annotated[
    bool,
    typer.Option("--force", rich_help_panel=OUTPUT_PANEL, help="Replace tables that are there."),
]


@app.command()
def info(
    source: _Source,
    hours: _Hours = None,
    start: _Start = None,
    users: _Users = None,
    sample: _Sample = None,
    seed: _Seed = None,
    settings: _Settings = None,
    strict: _Strict = False,
    plot: _Plot = None,
    everyone: _All = False,
    as_json: JsonOutputOption = False,
) -> None:
    """Show what is in a trace: counts, servers, load over time, users, quirks.

    Example: drfh trace info google-2011:clusterdata-2011-2 --plot day.html
    """
    from drfh.cli.render import trace as text

    _check_chart(plot)
    with named_as_options(*_FLAGS):
        trace = open_trace(
            source, strict=strict, settings=settings, hours=hours, start=start, users=users,
            sample=sample, seed=seed,
        )  # fmt: skip
    _draw(trace, plot)
    if as_json:
        print_json(text.trace_data(trace, everyone=everyone))
    else:
        text.print_trace(trace, everyone=everyone)
        text.print_saved(plot)


@app.command()
def convert(
    source: _Source,
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A new directory of tables.")],
    hours: _Hours = None,
    start: _Start = None,
    users: _Users = None,
    sample: _Sample = None,
    seed: _Seed = None,
    settings: _Settings = None,
    strict: _Strict = False,
    parquet: _Parquet = False,
    force: _Force = False,
    plot: _Plot = None,
    as_json: JsonOutputOption = False,
) -> None:
    """Write a trace as our own tables: servers, users, jobs and events.

    The directory is written whole or not at all, and reads faster than the trace itself.

    Example: drfh trace convert google-2011:clusterdata-2011-2 day --parquet
    """
    _check_chart(plot)
    _check_directory(directory, force, "DIR")
    with named_as_options(*_FLAGS):
        trace = open_trace(
            source, strict=strict, settings=settings, hours=hours, start=start, users=users,
            sample=sample, seed=seed,
        )  # fmt: skip
    _write(trace, directory, parquet, force, plot, as_json)


@app.command()
def compare(
    first: Annotated[str, typer.Argument(metavar="A", help="PATH or FORMAT:PATH.")],
    second: Annotated[str, typer.Argument(metavar="B", help="PATH or FORMAT:PATH.")],
    policy: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Also simulate both: best-fit-drfh, slots:14, …"),
    ] = None,
    hours: _Hours = None,
    start: _Start = None,
    users: _Users = None,
    sample: _Sample = None,
    seed: _Seed = None,
    settings: _Settings = None,
    strict: _Strict = False,
    plot: _Plot = None,
    as_json: JsonOutputOption = False,
) -> None:
    """Compare two traces: how far apart requests, durations, arrivals and loads are.

    The distance is Kolmogorov and Smirnov's: 0 for the same distribution, 100 % for nothing in
    common. Options for reading hold for both.

    Example: drfh trace compare real made --policy best-fit-drfh --plot both.html
    """
    from drfh.cli.render.trace import print_comparison, print_saved
    from drfh.traces.compare import compare as measure

    _check_chart(plot)
    if policy is not None:
        from drfh.policies import find_policy

        policy = find_policy(policy).name
    given = {"hours": hours, "start": start, "users": users, "sample": sample, "seed": seed}
    with named_as_options(*_FLAGS):
        traces, notes = _open_both((first, second), given, settings or [], strict)
    comparison = measure(*traces)
    simulated = None if policy is None else _simulate_both(traces, policy)
    if plot is not None:
        from drfh.report.pages.trace import save_trace_comparison

        save_trace_comparison(comparison, plot, simulated=simulated)
    if as_json:
        print_json({**comparison.to_dict(), "simulated": simulated, "notes": notes})
    else:
        print_comparison(comparison, simulated, notes)
        print_saved(plot)


@app.command()
def generate(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Such as google-like.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="Write tables to this new directory."),
    ] = None,
    users: Annotated[int | None, typer.Option(metavar="N", help="How many users.")] = None,
    hours: Annotated[float | None, typer.Option(metavar="N", help="How long it is.")] = None,
    servers: Annotated[int | None, typer.Option(metavar="N", help="How many servers.")] = None,
    load: Annotated[
        float | None, typer.Option(metavar="PART", help="Demand over capacity: 1 is just full.")
    ] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Start of the draws.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="Any other option (drfh trace formats lists them)."
        ),
    ] = None,
    parquet: _Parquet = False,
    force: _Force = False,
    plot: _Plot = None,
    as_json: JsonOutputOption = False,
) -> None:
    """Make up a trace, the same for the same options.

    Example: drfh trace generate google-like --users 100 --hours 6 -o made
    """
    from drfh.generators import GENERATORS
    from drfh.generators import generate as make

    if name not in GENERATORS:
        from drfh.errors import UnknownNameError

        raise UnknownNameError("NAME", name, GENERATORS)
    if output is None:
        raise InputError("--output", "must be given: the directory to write to (-o DIR)")
    _check_chart(plot)
    _check_directory(output, force, "--output")
    given: dict[str, Any] = {
        "users": users, "hours": hours, "servers": servers, "load": load, "seed": seed,
    }  # fmt: skip
    options = {key: value for key, value in given.items() if value is not None}
    options |= parse_settings(settings)
    with named_as_options(*_FLAGS):
        trace = make(name, **options)
    _write(trace, output, parquet, force, plot, as_json)


@app.command()
def formats(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Only this format or generator.")
    ] = None,
    as_json: JsonOutputOption = False,
) -> None:
    """List the formats that can be read and the generators, with their options.

    Example: drfh trace formats google-2011
    """
    from drfh.cli.render import trace as text
    from drfh.errors import UnknownNameError
    from drfh.generators import GENERATORS
    from drfh.traces import FORMATS

    known = {**FORMATS, **GENERATORS}
    if name is not None and name not in known:
        raise UnknownNameError("NAME", name, known)
    chosen = [
        {key: value for key, value in registry.items() if name in (None, key)}
        for registry in (FORMATS, GENERATORS)
    ]
    if as_json:
        print_json(text.formats_data(*chosen))
    else:
        text.print_formats(*chosen, whole=name is not None)


def _write(
    trace: Trace, directory: Path, parquet: bool, force: bool, plot: Path | None, as_json: bool
) -> None:
    """Write tables and a chart, and print what was written."""
    from drfh.cli.render import trace as text
    from drfh.traces.tables.writer import write

    with named_as_options(*_FLAGS):
        write(trace, directory, kind="parquet" if parquet else "csv", force=force)
    _draw(trace, plot)
    files = {path.name: path.stat().st_size for path in sorted(directory.iterdir())}
    if as_json:
        print_json({"directory": str(directory), "files": files, **text.trace_data(trace)})
    else:
        text.print_written(trace, directory, files)
        text.print_saved(plot)


def _draw(trace: Trace, plot: Path | None) -> None:
    if plot is not None:
        from drfh.report.pages.trace import save_trace

        save_trace(trace, plot)


def _open_both(
    sources: tuple[str, str], given: dict[str, Any], settings: list[str], strict: bool
) -> tuple[list[Trace], list[str]]:
    """Read both traces with the options that their formats have; one of them must have each."""
    from drfh.traces import FORMATS, recognise
    from drfh.traces.base import split_source

    named = [split_source(source, FORMATS) for source in sources]
    formats_ = [recognise(paths) if format_ is None else format_ for format_, paths in named]
    known = [{option.name for option in FORMATS[format_].options} for format_ in formats_]
    notes: list[str] = []

    def has(position: int, name: str) -> bool:
        if name in known[position] or name not in known[1 - position]:
            return True  # or nobody has it: reading refuses it
        note = f"{name} does not hold for {sources[position]}: {formats_[position]} has no such"
        if f"{note} option" not in notes:
            notes.append(f"{note} option")
        return False

    traces = [
        open_trace(
            source,
            strict=strict,
            settings=[setting for setting in settings if has(i, setting.partition("=")[0].strip())],
            **{n: value for n, value in given.items() if value is None or has(i, n)},
        )
        for i, source in enumerate(sources)
    ]
    return traces, notes


def _simulate_both(traces: list[Trace], policy: str) -> dict[str, Any]:
    """Return how full the servers of both traces are under a policy."""
    from drfh.simulation.run import simulate

    used = []
    for number, trace in enumerate(traces, start=1):
        with progress_bar() as update:

            def on_progress(progress: Any, number: int = number, update: Any = update) -> None:
                if update is not None:
                    update(f"simulating {number} of 2", float(progress.done), progress.tasks)

            result = simulate(
                trace.cluster, trace.workload, policy, until=trace.window, progress=on_progress
            )
        used.append(dict(result.summary()["utilisation"]))
    apart = {
        name: 100 * (used[1][name] - part) for name, part in used[0].items() if name in used[1]
    }
    return {"policy": policy, "a": used[0], "b": used[1], "points": apart}


def _check_chart(path: Path | None) -> None:
    """Raise, before the long work, unless a chart has the right suffix and can be written."""
    from drfh.files.atomic import check_writable

    if path is None:
        return
    if path.suffix not in _CHART_SUFFIXES:
        raise InputError("--plot", f"must end in one of {', '.join(_CHART_SUFFIXES)}", str(path))
    check_writable(path, "--plot")


def _check_directory(directory: Path, force: bool, field: str) -> None:
    from drfh.files.atomic import check_directory
    from drfh.traces.tables import ABOUT

    with named_as_options(*_FLAGS):
        check_directory(directory, ABOUT, force=force, field=field)
