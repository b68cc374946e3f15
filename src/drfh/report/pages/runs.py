"""Page of runs: figures with their data, and a table that compares them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from drfh.errors import InputError, UnknownNameError
from drfh.files.atomic import check_writable, write_whole, writing_into
from drfh.formatting import format_count, format_duration, format_percent
from drfh.report.charts.runs import MOST_LINES, NamedRun, run_plots, starving
from drfh.report.figures import Plot, column_figure, contents, plot_parts
from drfh.report.html import Cell, Content, Figure, Markup, page_of, table, tag
from drfh.simulation.metrics import spread
from drfh.simulation.result import RUN_FILE, Result, common_jobs

__all__ = [
    "FIGURE_FORMATS",
    "check_formats",
    "check_report",
    "job_scope",
    "load_runs",
    "name_runs",
    "run_metrics",
    "runs_page",
    "runs_parts",
    "save_figures",
    "save_runs",
]

#: What figures for papers can be written as.
FIGURE_FORMATS = ("svg", "pdf", "png")

_MOST_USERS = 20
_SIDE_BY_SIDE = 5


def check_report(path: Path, option: str) -> None:
    """Raise unless a page can be written to a path.

    Examples
    --------
    >>> check_report(Path("page.pdf"), "--output")
    Traceback (most recent call last):
    drfh.errors.InputError: --output must end in .html, got 'page.pdf'
    """
    if path.suffix != ".html":
        raise InputError(option, "must end in .html", str(path))
    check_writable(path, option)


def load_runs(directories: Sequence[str | os.PathLike[str]]) -> list[NamedRun]:
    """Read run directories, and directories that hold them.

    Examples
    --------
    >>> load_runs(["no-such-run"])
    Traceback (most recent call last):
    drfh.errors.InputError: no-such-run: the directory must be one that a simulation wrote \
(run_info.json is missing)
    """
    places: list[Path] = []
    for given in map(Path, directories):
        inside = []
        if given.is_dir() and not (given / RUN_FILE).exists():
            inside = sorted(path.parent for path in given.glob(f"*/{RUN_FILE}"))
        places += inside or [given]
    found: dict[Path, Path] = {place.resolve(): place for place in places}
    results = [Result.load(place) for place in found.values()]
    return name_runs(results, [str(place) for place in found.values()])


def name_runs(results: Sequence[Result], places: Sequence[str] = ()) -> list[NamedRun]:
    """Return runs with unique names: policy, and seed or directory if needed.

    Examples
    --------
    >>> import drfh
    >>> scenario = drfh.load_scenario("gpu-day")
    >>> result = drfh.simulate(scenario.cluster, scenario.workload, policy="fifo")
    >>> [run.name for run in name_runs([result, result], ["a/fifo", "b/fifo"])]
    ['a/fifo', 'b/fifo']
    """
    candidates = [
        [result.policy for result in results],
        [f"{result.policy}, seed {result.seed}" for result in results],
        [Path(place).name for place in places],
        list(places),
        [f"{result.policy} ({i})" for i, result in enumerate(results, start=1)],
    ]
    names = next(found for found in candidates if len(found) == len(results) == len(set(found)))
    return [NamedRun(name, result) for name, result in zip(names, results, strict=True)]


def save_runs(runs: Sequence[NamedRun], path: str | os.PathLike[str], title: str = "") -> None:
    """Write the page of runs, atomically.

    Parameters
    ----------
    runs
        From :func:`load_runs` or :func:`name_runs`.
    path
        An .html file.
    title
        Head of the page, by default what was simulated.

    Examples
    --------
    >>> import tempfile, drfh
    >>> scenario = drfh.load_scenario("gpu-day")
    >>> result = drfh.simulate(scenario.cluster, scenario.workload)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_runs(name_runs([result]), f"{folder}/page.html", "My day")
    ...     "<h1>My day</h1>" in Path(f"{folder}/page.html").read_text()
    True
    """
    write_whole(path, runs_page(runs, title).encode(errors="replace"))


def save_figures(
    runs: Sequence[NamedRun],
    directory: str | os.PathLike[str],
    formats: Sequence[str] = FIGURE_FORMATS,
) -> list[Path]:
    """Write every figure of runs, one paper column (3.5 inches) wide.

    Parameters
    ----------
    runs
        From :func:`load_runs` or :func:`name_runs`.
    directory
        Made if it is not there. Figures of the same name are replaced.
    formats
        Among ``svg``, ``pdf`` and ``png`` (300 dots an inch).

    Returns
    -------
    list of Path
        The files.

    Examples
    --------
    >>> import tempfile, drfh
    >>> result = drfh.simulate(drfh.load_scenario("gpu-day"))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sorted(path.name for path in save_figures(name_runs([result]), folder, ["svg"]))[:2]
    ['longest-waiting.svg', 'ratios.svg']
    """
    suffixes = [f".{name}" for name in check_formats(formats)]
    folder = Path(directory)
    with writing_into(folder):
        folder.mkdir(parents=True, exist_ok=True)
    written = []
    for _, plots in run_plots(runs):
        for plot in plots:
            for suffix, data in column_figure(plot, suffixes).items():
                written.append(folder / f"{plot.name}{suffix}")
                write_whole(written[-1], data)
    return written


def check_formats(formats: Sequence[str], field: str = "formats") -> list[str]:
    """Return the formats of figures, each once; raise for one that is not known.

    Examples
    --------
    >>> check_formats(["pdf", "pdf"])
    ['pdf']
    """
    names = [formats] if isinstance(formats, str) else list(formats)
    for name in names:
        if name not in FIGURE_FORMATS:
            raise UnknownNameError(field, str(name), FIGURE_FORMATS)
    if not names:
        raise InputError(field, f"must be some of {', '.join(FIGURE_FORMATS)}")
    return list(dict.fromkeys(names))


def runs_page(runs: Sequence[NamedRun], title: str = "") -> str:
    """Return the page of runs."""
    return page_of(*runs_parts(runs, title))


def runs_parts(
    runs: Sequence[NamedRun],
    title: str = "",
    sections: Sequence[tuple[str, Sequence[Plot]]] | None = None,
) -> tuple[str, list[str | Figure]]:
    """Return title and parts of the page of runs.

    Parameters
    ----------
    runs, title
        As for :func:`save_runs`.
    sections
        Its figures, if they are there already.

    Examples
    --------
    >>> import drfh
    >>> scenario = drfh.load_scenario("gpu-day")
    >>> result = drfh.simulate(scenario.cluster, scenario.workload)
    >>> runs_parts(name_runs([result]), "My day")[0]
    'My day'
    """
    if not runs:
        raise InputError("runs", "must be at least one")
    sources = list(dict.fromkeys(str(run.result.config["source"]) for run in runs))
    head = title or f"{format_count(len(runs), 'run')} of {_short(sources)}"
    sections = run_plots(runs) if sections is None else sections
    links = [("runs", "The runs")]
    parts: list[str | Figure] = []
    for number, (heading, plots) in enumerate(sections, start=1):
        links.append((f"section-{number}", heading))
        parts.append(Markup(f'<h2 id="section-{number}">{tag("span", heading)}</h2>'))
        for plot in plots:
            parts += plot_parts(plot)
        if any(plot.name == "longest-waiting" for plot in plots):
            parts += _starving_table(runs)
    return (
        head,
        [
            tag("p", f"{headline(runs)}.", "headline"),
            *_notes(runs, sources),
            contents(links),
            Markup('<h2 id="runs">The runs</h2>'),
            _comparison(runs),
            tag(
                "p",
                f"Bold: the best run. Utilisation is over the whole run.{job_scope(runs)}",
                "note",
            ),
            *parts,
            _footer(runs),
        ],
    )


def _short(sources: Sequence[str]) -> str:
    names = [source if len(source) <= 60 else f"…{source[-59:]}" for source in sources[:3]]
    return ", ".join(name or "a workload" for name in names) + (" …" if len(sources) > 3 else "")


def headline(runs: Sequence[NamedRun]) -> str:
    """Return the headline: the runs that complete most and least.

    Examples
    --------
    >>> import drfh
    >>> scenario = drfh.load_scenario("gpu-day")
    >>> result = drfh.simulate(scenario.cluster, scenario.workload)
    >>> headline(name_runs([result]))
    'best-fit-drfh: 432 of 432 tasks completed, a task waits 71 min on average'
    """

    def completed(run: NamedRun) -> str:
        tasks, waits = run.result.numbers["tasks"], run.result.numbers["mean_waiting"]
        end = "" if waits is None else f", a task waits {format_duration(waits)} on average"
        return f"{run.name}: {tasks['completed']:,} of {tasks['submitted']:,} tasks completed{end}"

    if len(runs) == 1:
        return completed(runs[0])

    def rank(run: NamedRun) -> tuple[float, float]:
        numbers = run.result.numbers
        return numbers["completion_ratio"] or 0.0, -(numbers["mean_waiting"] or 0.0)

    best, worst = max(runs, key=rank), min(runs, key=rank)
    return f"Most is done under {completed(best)}; least under {completed(worst)}"


def _notes(runs: Sequence[NamedRun], sources: Sequence[str]) -> list[str]:
    config = runs[0].result.config
    users = {int(run.result.config["users"]) for run in runs}
    facts = f"{format_count(config['servers'], 'server')}, {format_count(config['jobs'], 'job')}, "
    facts += f"{format_count(config['tasks'], 'task')}, {format_count(max(users), 'user')}"
    notes: list[str] = [tag("p", f"{_short(sources)}: {facts}.", "summary")]
    if len(sources) > 1:
        notes.append(
            tag("p", "These runs are not of the same workload: compare with care.", "note")
        )
    if len(runs) > MOST_LINES:
        word = f"Figures show the first {MOST_LINES} of {len(runs)} runs, the table all of them."
        notes.append(tag("p", word, "note"))
    return notes


def run_metrics(runs: Sequence[NamedRun]) -> tuple[list[str], list[list[Cell]]]:
    """Return the metrics of runs: names, and a line of cells for each, the best in bold.

    Examples
    --------
    >>> import drfh
    >>> names, cells = run_metrics(name_runs([drfh.simulate(drfh.load_scenario("gpu-day"))]))
    >>> names[2], cells[2][0].content
    ('jobs done', '100 %')
    """
    numbers = [run.result.numbers for run in runs]
    resources = list(dict.fromkeys(name for n in numbers for name in n["utilisation"]))
    jobs = common_jobs([run.result for run in runs])
    turnaround = [spread(table["turnaround"]) for table in jobs]
    started = [_part(n["tasks"], "started") for n in numbers]
    all_started = all(part in (None, 1.0) for part in started)
    waiting = "mean waiting of a task" if all_started else "mean waiting of a task that started"
    # Heading, value of a run, how it is written, and whether more is better (None: neither).
    columns: list[tuple[str, list[Any], Any, bool | None]] = [
        ("time simulated", [n["horizon"] for n in numbers], format_duration, None),
        ("tasks done", [n["completion_ratio"] for n in numbers], None, True),
        ("jobs done", [_part(n["jobs"], "completed") for n in numbers], None, True),
        ("tasks started", [None if all_started else part for part in started], None, True),
        (waiting, [n["mean_waiting"] for n in numbers], format_duration, False),
        ("median time of a job", [_of(t, "median") for t in turnaround], format_duration, False),
        ("95 % quantile", [_of(t, "p95") for t in turnaround], format_duration, False),
        *((f"{r} used", [n["utilisation"].get(r) for n in numbers], None, True) for r in resources),
        ("Jain's index", [n["jain"] for n in numbers], lambda v: f"{v:.3f}", True),
        ("distance from fair", [_of(n["fair"], "mean_missing") for n in numbers], None, False),
        ("worst-off user lacks", [_of(n["fair"], "mean_distance") for n in numbers], None, False),
        ("tasks put back", [n["tasks"]["evictions"] for n in numbers], lambda v: f"{v:,}", None),
    ]
    columns = [column for column in columns if any(v is not None for v in column[1])]
    if not any(n["tasks"]["evictions"] for n in numbers):
        columns.pop()
    cells = [
        [_shown(value, write, _is_best(values, i, more)) for i, value in enumerate(values)]
        for _, values, write, more in columns
    ]
    return [column[0] for column in columns], cells


def _comparison(runs: Sequence[NamedRun]) -> str:
    """Return a table of metrics by run."""
    heads, cells = run_metrics(runs)
    names = [run.name for run in runs]
    if len(runs) <= _SIDE_BY_SIDE:  # few runs stand side by side, many below each other
        rows: list[list[Content]] = [[head, *line] for head, line in zip(heads, cells, strict=True)]
        return table(["", *names], rows)
    rows = [[name, *(line[i] for line in cells)] for i, name in enumerate(names)]
    return table(["run", *heads], rows)


def job_scope(runs: Sequence[NamedRun]) -> str:
    """Return a sentence: of which jobs the times are, if not of all."""
    jobs = common_jobs([run.result for run in runs])
    if all(len(table) == len(run.result.jobs) for run, table in zip(runs, jobs, strict=True)):
        return ""
    if not all(table["job"].equals(jobs[0]["job"]) for table in jobs[1:]):
        return " Times of jobs are of those that finished in each run: not of the same jobs."
    where = " in all runs" if len(runs) > 1 else ""
    done = f"{len(jobs[0]):,} of {format_count(len(runs[0].result.jobs), 'job')}"
    return f" Times of jobs are of those that finished{where}: {done}."


def _part(counts: Mapping[str, int], what: str) -> float | None:
    return counts[what] / counts["submitted"] if counts["submitted"] else None


def _of(numbers: dict[str, float] | None, name: str) -> float | None:
    return None if numbers is None else numbers[name]


def _is_best(values: Sequence[Any], i: int, more: bool | None) -> bool:
    known = [value for value in values if value is not None]
    if more is None or values[i] is None or len(known) < 2 or max(known) == min(known):
        return False
    return bool(values[i] == (max(known) if more else min(known)))


def _shown(value: Any, write: Any, best: bool) -> Cell:
    bold = " best" if best else ""
    if value is None:
        return Cell("–", "number")
    if write is None:
        return Cell(format_percent(value, trim=True), f"part{bold}", min(max(value, 0.0), 1.0))
    return Cell(write(value), f"number{bold}")


def _starving_table(runs: Sequence[NamedRun]) -> list[str]:
    """Return a table of the users that wait longest, by run."""
    frame = starving(runs)
    users = frame["user"].unique(maintain_order=True)
    found = {(row["run"], row["user"]): row for row in frame.iter_rows(named=True)}
    rows: list[list[Content]] = []
    for user in users.head(_MOST_USERS):
        known = [found.get((run.name, user)) for run in runs[:MOST_LINES]]
        submitted = max(row["submitted"] for row in known if row is not None)
        cells: list[Content] = [Cell(user, "wrap"), submitted]
        for row in known:
            if row is None:
                cells += ["", ""]
                continue
            waits = format_duration(row["mean_waiting"]) if row["started"] else "never started"
            ratio = row["completion_ratio"]
            cells += [Cell(waits, "number"), Cell(format_percent(ratio, trim=True), "part", ratio)]
        rows.append(cells)
    head = ["user", "tasks"]
    for run in runs[:MOST_LINES]:
        head += [f"waits: {run.name}", "done"]
    more = len(users) - len(rows)
    note = (
        f"The {len(rows)} of {format_count(len(users), 'user')} with the longest mean waiting "
        "in any run"
    )
    return [table(head, rows), *([tag("p", f"{note}.", "note")] if more > 0 else [])]


def _footer(runs: Sequence[NamedRun]) -> Markup:
    info = runs[0].result.info
    version = info["versions"]["drfh"]
    return tag("p", f"drfh {version}; the page needs no network.", "note")
