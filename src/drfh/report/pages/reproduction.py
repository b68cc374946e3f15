"""Page of ``drfh reproduce``: scorecard, figures of the paper, further figures."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import polars as pl

from drfh.files.atomic import write_whole
from drfh.formatting import (
    format_count,
    format_duration,
    format_number,
    format_percent,
    join_names,
)
from drfh.report.charts.reproduction import (
    Tables,
    completion_plot,
    dynamic_plots,
    mean_and_spread,
    one_name_for_slots,
    reduction_plot,
    slots_plot,
    two_servers_plots,
    utilisation_plots,
)
from drfh.report.charts.reproduction_users import (
    fair_plot,
    policies_plot,
    ratios_plot,
    sharing_plots,
    shortened,
)
from drfh.report.figures import Plot, contents, file_chart, plot_parts
from drfh.report.html import (
    MARKS,
    Cell,
    Content,
    Figure,
    Markup,
    details,
    figure_files,
    join,
    page_of,
    table,
    tag,
)

__all__ = [
    "TITLE",
    "Reproduced",
    "choices_table",
    "has_rows",
    "reproduction_page",
    "reproduction_parts",
    "reproduction_plots",
    "save_reproduction",
    "scorecard",
    "source_line",
    "tables_of",
]


_FALLEN = 12


def has_rows(tables: Tables, name: str) -> bool:
    """Return whether a table is there, and not empty.

    Examples
    --------
    >>> has_rows({"audit": pl.DataFrame()}, "audit")
    False
    """
    return name in tables and len(tables[name]) > 0


def tables_of(section: str, tables: Tables) -> list[str]:
    """Return the tables below the figures of a section.

    Examples
    --------
    >>> tables_of("slots", {})
    []
    """
    if section == "slots" and has_rows(tables, "slots"):
        return [_slots_table(tables["slots"])]
    if section == "utilisation" and has_rows(tables, "ahead"):
        return [_ahead_table(tables["ahead"])]
    if section == "sharing" and has_rows(tables, "sharing"):
        return _fallen_table(tables["sharing"])
    if section == "fairness" and has_rows(tables, "audit"):
        return [
            Markup("<h3>The paper's seven properties, audited at a busy moment</h3>"),
            _audit_table(tables["audit"]),
        ]
    return []


def _slots_table(frame: pl.DataFrame) -> Markup:
    """Return Table II: the paper's row on top, ours below, CPU and memory of each number."""
    numbers = frame["slots"].unique().sort().to_list()
    rows: list[list[Content]] = []
    rules = frame.select("source", "count_rule", "oversize").unique(maintain_order=True)
    for source, count, oversize in rules.rows():
        same = pl.col("source") == source
        if source != "paper":
            same &= (pl.col("count_rule") == count) & (pl.col("oversize") == oversize)
        own = frame.filter(same)
        name = "the paper" if source == "paper" else f"{count} count, {oversize}"
        cells: list[Content] = [name]
        for number in numbers:
            of_number = own.filter(pl.col("slots") == number)
            means: list[Any] = [of_number[c].mean() for c in ("cpu", "memory")]
            known = all(mean is not None for mean in means)
            cells.append(
                Cell(" | ".join(f"{100 * m:.1f}" for m in means) if known else "–", "number")
            )
        rows.append(cells)
    head = ["CPU | memory in use, %", *(f"{number} slots" for number in numbers)]
    return table(head, rows)


def _ahead_table(frame: pl.DataFrame) -> Markup:
    """Return a table: part of the time that the first of two is ahead."""
    frame = frame.with_columns(
        one_name_for_slots(frame, "first"), one_name_for_slots(frame, "second")
    )
    keys = ["first", "second", "blocked"]
    resources = frame["resource"].unique(maintain_order=True).to_list()
    rows: list[list[Content]] = []
    for (first, second, blocked), part in frame.group_by(keys, maintain_order=True):
        cells: list[Content] = [f"{first} over {second}", str(blocked)]
        for resource in resources:
            own = part.filter(pl.col("resource") == resource)
            times = own["part_of_time"].to_list()
            mean: Any = own["mean_difference"].mean()
            value: Any = own["part_of_time"].mean()
            cells += [
                Cell(mean_and_spread(times), "part", value),
                Cell(f"{100 * mean:+.2f}" if mean is not None else "–", "number"),
            ]
        rows.append(cells)
    head = ["", "blocked users"]
    for resource in resources:
        head += [f"{resource}: time ahead", "points"]
    note = "For which part of the time more is in use, and by how many points on average."
    return join([table(head, rows), tag("p", note, "note")])


def _fallen_table(frame: pl.DataFrame) -> list[str]:
    """Return the users that lose most by sharing, under the first rule and seed."""
    first = frame.filter(
        (pl.col("seed") == frame["seed"][0]) & (pl.col("blocked") == frame["blocked"][0])
    )
    lost = first.with_columns((pl.col("shared") - pl.col("dedicated")).alias("gain")).filter(
        (pl.col("tasks") > 0) & (pl.col("gain") < -1e-9)
    )
    if not len(lost):
        return [tag("p", "Nobody gets less done in the shared cloud.", "note")]
    worst = lost.sort("gain").head(_FALLEN)
    rows: list[list[Content]] = [
        [
            _short(str(row["user"])),
            row["tasks"],
            row["servers"],
            Cell(format_percent(row["largest_task"], trim=True), "number"),
            Cell(format_percent(row["shared"], trim=True), "part", row["shared"]),
            Cell(format_percent(row["dedicated"], trim=True), "part", row["dedicated"]),
            Cell(f"{100 * row['gain']:+.1f}", "number"),
        ]
        for row in worst.iter_rows(named=True)
    ]
    head = ["user", "tasks", "own servers", "largest task", "done, shared", "done, own", "points"]
    note = (
        f"Who loses most by sharing (blocked users: {frame['blocked'][0]}, seed "
        f"{frame['seed'][0]}): {len(worst)} of {len(lost)}. Largest task: its dominant share of "
        "the largest server."
    )
    return [tag("p", note, "note"), table(head, rows)]


def _short(name: str) -> Cell:
    return Cell(shortened(name), title=name)


def _audit_table(frame: pl.DataFrame) -> Markup:
    rows: list[list[Content]] = []
    for row in frame.iter_rows(named=True):
        sign, kind = MARKS.get(row["verdict"], ("?", "nothing"))
        rows.append(
            [
                Cell(f"{sign} {row['verdict']}", f"mark {kind}"),
                Cell(row["property"], "name"),
                Cell(row["text"] or "", "wrap"),
            ]
        )
    return table(["verdict", "property", "what was found"], rows, "cards")


def choices_table(setup: Mapping[str, Any]) -> Markup:
    """Return a table of all settings.

    Examples
    --------
    >>> print(choices_table({"data": None}).splitlines()[1])
    <tr><td>data</td><td class="wrap">–</td></tr></table></div>
    """
    rows: list[list[Content]] = []
    for name, value in setup.items():
        shown = ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else value
        rows.append([name.replace("_", " "), Cell("–" if shown is None else str(shown), "wrap")])
    return table(["choice", "value"], rows)


# Verdict → sign, word, style.
_VERDICTS = {
    "holds": ("✔", "holds", "yes"),
    "holds if …": ("◐", "holds if …", "partly"),
    "does not hold": ("✘", "does not hold", "no"),
    "not tested": ("–", "not tested", "untested"),
    "generated": ("≈", "generated", "generated"),
}


def scorecard(claims: pl.DataFrame, figures: set[str]) -> list[str]:
    """Return the tally of claims, and a table of them.

    Parameters
    ----------
    claims
        Columns ``figure``, ``claim``, ``paper``, ``ours``, ``low``, ``high``, ``verdict``,
        ``condition``; with ``ours_text``, ``beside`` and ``note`` what is written instead, what
        stands beside it, and why.
    figures
        What is on the page and can be linked to.

    Examples
    --------
    >>> row = {"figure": "Fig. 5", "claim": "it is full", "paper": "98 %", "ours": 0.9}
    >>> claims = pl.DataFrame([row | {"verdict": "holds", "condition": ""}])
    >>> print(scorecard(claims, {"fig-5"})[0])  # doctest: +ELLIPSIS
    <div class="tally"><span class="yes" style="--n: 1" title="holds">✔ 1</span></div>...
    """
    rows: list[list[Content]] = []
    tally = dict.fromkeys(_VERDICTS, 0)
    for claim in claims.iter_rows(named=True):
        verdict = str(claim["verdict"])
        tally[verdict] = tally.get(verdict, 0) + 1
        said = [_unbroken(claim["claim"])]
        if claim.get("note"):
            said.append(details("why", tag("span", _unbroken(claim["note"]), "soft")))
        condition = claim.get("condition") or ""
        rows.append(
            [
                Cell(_verdict(verdict, condition), "wrap"),
                Cell(join(said), "wrap"),
                Cell(_unbroken(_value(claim["paper"])), "wrap"),
                Cell(join([_unbroken(_ours(claim)), *_beside(claim)]), "wrap"),
                Cell(_figure_link(str(claim["figure"]), figures)),
            ]
        )
    head = ["verdict", "claim", "the paper", "ours", "figure"]
    note = (
        "Ours is the mean over the draws of the servers (in Fig. 2 to 4: over the users), with "
        "the least and the most."
    )
    return [
        _tally(tally),
        table(head, rows, "cards labelled scorecard"),
        tag("p", note, "note"),
    ]


def _verdict(verdict: str, condition: str) -> Markup:
    sign, word, kind = _VERDICTS.get(verdict, ("?", verdict, "untested"))
    badge = tag("span", tag("b", sign) + word, f"verdict {kind}")
    return join([badge, *([tag("span", condition, "soft")] if condition else [])])


def _tally(counts: Mapping[str, int]) -> Markup:
    """Return the tally of claims by verdict as a bar; numbers without a verdict have their own."""
    judged = {verdict: count for verdict, count in counts.items() if verdict != "generated"}
    generated = counts.get("generated", 0)
    spans, labels = [], []
    for verdict, count in judged.items():
        sign, word, kind = _VERDICTS.get(verdict, ("?", verdict, "untested"))
        if count:
            span = Markup('<span class="{}" style="--n: {}" title="{}">{} {}</span>')
            spans.append(span.format(kind, count, word, sign, count))
            labels.append(f"{sign} {count} {word}")
    total = format_count(sum(judged.values()), "claim")
    text = f"{total} of the paper's evaluation: {', '.join(labels)}."
    if generated:
        which = format_count(generated, "claim")
        text += f" ≈ {which} about Google's trace: on a generated workload they can neither hold "
        text += "nor fail, and only our numbers are shown."
    return tag("div", join(spans), "tally") + tag("p", text, "summary")


def _value(value: Any) -> str:
    if value is None:
        return "–"
    return format_number(value, 5) if isinstance(value, (int, float)) else str(value)


def _unbroken(text: str) -> str:
    return text.replace(" %", "\u00a0%")


def _beside(claim: Mapping[str, Any]) -> list[Markup]:
    said = claim.get("beside")
    return [Markup("<br>") + tag("span", _unbroken(str(said)), "soft")] if said else []


def _ours(claim: Mapping[str, Any]) -> str:
    if claim.get("ours_text"):
        return str(claim["ours_text"])
    value = _value(claim["ours"])
    low, high = claim.get("low"), claim.get("high")
    if low is None or high is None or low == high:
        return value
    return f"{value} ({_value(low)} to {_value(high)})"


_SETUP = "setup"
# Where the figures that claims name are on the page.
_ANCHORS = {
    "Fig. 1": "fig-2",
    "Fig. 2": "fig-2",
    "Fig. 3": "fig-3",
    "Fig. 4": "fig-4",
    "Fig. 5": "fig-5",
    "Fig. 6a": "fig-6",
    "Fig. 6b": "fig-6",
    "Fig. 7": "fig-7",
    "Fig. 8": "fig-8",
    "Table II": "table-2",
    "Set-up": _SETUP,
}


def _figure_link(figure: str, figures: set[str]) -> str:
    """Return a link to the figure of the paper, if it is on the page.

    Examples
    --------
    >>> print(_figure_link("Fig. 5", {"fig-5"}))
    <a href="#fig-5">Fig. 5</a>
    """
    anchor = _ANCHORS.get(figure, "")
    if anchor in figures or anchor == _SETUP:
        return Markup('<a href="#{}">{}</a>').format(anchor, figure)
    return figure


#: Head of the page.
TITLE = "The paper's evaluation, reproduced"

_SUFFIXES = (".svg", ".png", ".pdf")
_BEST_FIT = "best-fit-drfh"
_LEAD = ("utilisation", "fig-5")  # the section and the figure that stands on top


class Reproduced(Protocol):
    """Protocol of ``drfh.experiments.Reproduction``."""

    @property
    def setup(self) -> Mapping[str, Any]:
        """All settings, as plain data."""

    @property
    def tables(self) -> Tables:
        """Tables by name."""

    @property
    def numbers(self) -> Mapping[str, Any]:
        """Numbers beside the tables, as plain data."""


# Heading, the tables that it needs, and what draws it.
_Draw = Callable[[Tables], list[Plot]]
_SECTIONS: tuple[tuple[str, str, tuple[str, ...], _Draw], ...] = (
    ("two-servers", "Two servers, two users", ("two_servers", "two_servers_use"),
     two_servers_plots),
    ("dynamic", "Three users come and go", ("dynamic",), dynamic_plots),
    ("slots", "Slots: how many?", ("slots",), lambda tables: [slots_plot(tables)]),
    ("utilisation", "How full the servers are", ("utilisation",), utilisation_plots),
    ("completion", "How long jobs take", ("completion",), lambda tables: [completion_plot(tables)]),
    ("reduction", "", ("reduction",), lambda tables: [reduction_plot(tables)]),
    ("ratios", "What users get done", ("ratios",), lambda tables: [ratios_plot(tables)]),
    ("sharing", "Is sharing worth it?", ("sharing",), sharing_plots),
    ("beyond", "Beyond the paper", ("policies",), lambda tables: [policies_plot(tables)]),
    ("fairness", "", ("fair",), lambda tables: [fair_plot(tables)]),
)  # fmt: skip


def save_reproduction(reproduction: Reproduced, folder: str | os.PathLike[str]) -> None:
    """Write ``index.html`` and ``figures/NAME.svg``, ``.png`` and ``.pdf`` into a folder.

    Parameters
    ----------
    reproduction
        From :func:`drfh.experiments.reproduce`, or read from a directory; only its tables and its
        set-up are used.
    folder
        It must be there.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from types import SimpleNamespace
    >>> nothing = SimpleNamespace(setup={"data": None}, tables={}, numbers={})
    >>> with TemporaryDirectory() as folder:
    ...     save_reproduction(nothing, folder)
    ...     sorted(os.listdir(folder))
    ['figures', 'index.html']
    """
    place = Path(folder)
    plots = reproduction_plots(reproduction)
    (place / "figures").mkdir(exist_ok=True)
    for _, found in plots:
        for plot in found:
            for suffix, data in figure_files(file_chart(plot), _SUFFIXES).items():
                write_whole(place / "figures" / f"{plot.name}{suffix}", data)
    page = reproduction_page(reproduction, plots)
    write_whole(place / "index.html", page.encode(errors="replace"))


def reproduction_plots(reproduction: Reproduced) -> list[tuple[str, list[Plot]]]:
    """Return the figures of each section whose tables have rows.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> nothing = SimpleNamespace(setup={"data": None}, tables={}, numbers={})
    >>> any(plots for _, plots in reproduction_plots(nothing))
    False
    """
    tables = reproduction.tables
    return [
        (name, draw(tables) if all(has_rows(tables, need) for need in needs) else [])
        for name, _, needs, draw in _SECTIONS
    ]


def reproduction_page(
    reproduction: Reproduced, plots: Sequence[tuple[str, Sequence[Plot]]] | None = None
) -> str:
    """Return the self-contained page.

    Parameters
    ----------
    reproduction
        What to show.
    plots
        Its figures, if they are there already.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> nothing = SimpleNamespace(setup={"data": None}, tables={}, numbers={})
    >>> "Generated workload, not the real trace" in reproduction_page(nothing)
    True
    """
    return page_of(TITLE, reproduction_parts(reproduction, plots))


def reproduction_parts(
    reproduction: Reproduced, plots: Sequence[tuple[str, Sequence[Plot]]] | None = None
) -> list[str | Figure]:
    """Return the parts of the page below its heading.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> nothing = SimpleNamespace(setup={"data": None}, tables={}, numbers={})
    >>> any("scorecard" in part for part in reproduction_parts(nothing) if isinstance(part, str))
    True
    """
    drawn = dict(reproduction_plots(reproduction) if plots is None else plots)
    tables = reproduction.tables
    links = [("scorecard", "Scorecard")]
    body: list[str | Figure] = []
    lead = [plot for plot in drawn[_LEAD[0]] if plot.name == _LEAD[1]]
    for name, heading, _, _ in _SECTIONS:
        if heading:
            links.append((name, heading))
            body.append(Markup('<h2 id="{}">{}</h2>').format(name, heading))
        for plot in drawn[name]:
            if plot in lead:
                link = Markup('<a href="#{}">{}</a>').format(plot.name, plot.title)
                body.append(tag("p", link + " is at the top of the page.", "note"))
            else:
                body += plot_parts(plot)
        if not drawn[name]:
            body.append(tag("p", "Not in this reproduction.", "note"))
        body += tables_of(name, tables)
    links.append(("setup", "Every choice"))
    return [
        tag("p", source_line(reproduction), "source"),
        *_findings(tables),
        *_summary(reproduction),
        *(part for plot in lead for part in plot_parts(plot)),
        contents(links),
        Markup('<h2 id="scorecard">Scorecard: what the paper says, and what we found</h2>'),
        *_claims(tables, {plot.name for found in drawn.values() for plot in found}),
        *body,
        Markup('<h2 id="setup">Every choice</h2>'),
        choices_table(reproduction.setup),
        tag(
            "p",
            "Beside this page: figures/ (SVG, PNG, PDF), tables/ (CSV, Parquet), runs/ (run "
            "directories, see drfh report) and summary.json. The page needs no network.",
            "note",
        ),
    ]


def _findings(tables: Tables) -> list[str]:
    """Return what was found, in up to three sentences."""
    sentences = [*_how_full(tables), *_how_soon(tables), *_how_fair(tables)]
    return [tag("p", " ".join(sentences), "headline")] if sentences else []


def _means(tables: Tables, column: str) -> dict[str, float]:
    """Return the mean over the seeds by policy: Best-Fit, slots at their best number, and fifo."""
    frame = tables["policies"].with_columns(
        pl.col("policy").str.replace("^slots:.*$", "slots"),
    )
    means = frame.drop_nulls(column).group_by("policy").agg(pl.col(column).mean())
    return {name: value for name, value in means.rows() if name in (_BEST_FIT, "slots", "fifo")}


def _how_full(tables: Tables) -> list[str]:
    if not has_rows(tables, "policies"):
        return []
    cpu, memory = (_means(tables, column) for column in ("cpu", "memory"))
    if not {_BEST_FIT, "slots"} <= cpu.keys() & memory.keys():
        return []

    def used(policy: str) -> str:
        parts = (format_percent(values[policy], 0) for values in (cpu, memory))
        return _unbroken("{} of the CPU and {} of the memory".format(*parts))

    return [f"Best-Fit DRFH keeps {used(_BEST_FIT)} in use, slots at their best {used('slots')}."]


def _how_soon(tables: Tables) -> list[str]:
    said = []
    if has_rows(tables, "completion"):
        reached = tables["completion"].filter(pl.col("fraction") >= 0.5)
        times = dict(
            reached.group_by("policy", maintain_order=True).agg(pl.col("seconds").min()).rows()
        )
        ours = times.pop(_BEST_FIT, None)
        if ours is not None and times:
            theirs = format_duration(next(iter(times.values())))
            said.append(f"the median job takes {format_duration(ours)} instead of {theirs}")
    if has_rows(tables, "sharing"):
        usual = tables["sharing"].filter(pl.col("blocked") == tables["sharing"]["blocked"][0])
        less: Any = (usual["shared"] < usual["dedicated"]).mean()
        said.append(
            f"{_unbroken(format_percent(less or 0.0))} of the users complete fewer tasks than in "
            "a cloud of their own"
        )
    text = ", and ".join(said)
    return [f"{text[:1].upper()}{text[1:]}."] if said else []


def _how_fair(tables: Tables) -> list[str]:
    if not has_rows(tables, "policies") or "mean_missing" not in tables["policies"].columns:
        return []
    names = {_BEST_FIT: "Best-Fit", "slots": "slots", "fifo": "one queue for all"}
    missing = _means(tables, "mean_missing")
    said = [
        f"{_unbroken(format_percent(missing[name]))} {'of the fair shares ' * (not i)}under {word}"
        for i, (name, word) in enumerate(names.items())
        if name in missing
    ]
    return [f"On average {join_names(said)} are not where they belong."] if said else []


def _claims(tables: Tables, figures: set[str]) -> list[str]:
    if has_rows(tables, "claims"):
        return scorecard(tables["claims"], figures)
    return [tag("p", "Not in this reproduction.", "note")]


def source_line(reproduction: Reproduced) -> str:
    """Return the first line: real trace or generated workload.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> source_line(SimpleNamespace(setup={"data": "/data"}, tables={}, numbers={}))
    "Real trace: the jobs and machines of Google's cluster trace of 2011."
    """
    source = reproduction.numbers.get("source", {})
    if source.get("generated", reproduction.setup.get("data") is None):
        return (
            "Generated workload, not the real trace: drawn by the calibrated generator "
            "google-like. Give the trace with --data to see the real one."
        )
    return "Real trace: the jobs and machines of Google's cluster trace of 2011."


def _summary(reproduction: Reproduced) -> list[str]:
    setup, numbers = reproduction.setup, reproduction.numbers
    parts = [
        form.format(known[name])
        for known, name, form in (
            (numbers, "users", "{:,} users"),
            (numbers, "jobs", "{:,} jobs"),
            (numbers, "tasks", "{:,} tasks"),
            (setup, "servers", "on {:,} servers"),
        )
        if known.get(name) is not None
    ]
    if numbers.get("window") is not None:
        parts.append(f"over {format_duration(numbers['window'])}")
    draws = setup.get("draws") or []
    if draws:
        parts.append(f"{format_count(len(draws), 'draw')} of the servers")
    if setup.get("preset"):
        # A generated workload is not read from events: of a preset it has the load.
        generated = numbers.get("source", {}).get("generated")
        made = generated and setup.get("offered_load")
        parts.append(f"a load of {made:g}" if made else f"preset {setup['preset']}")
    if setup.get("quick"):
        parts.append("quick: a first look, not the evaluation")
    return [tag("p", ", ".join(parts) + ".", "summary")] if parts else []
