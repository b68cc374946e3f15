"""The page of a reproduction in a real browser, on made-up tables (Debian's chromium)."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from drfh.cli import main
from drfh.experiments import recompute
from drfh.report.charts.lines import MOST_POINTS, on_grid, spread_table
from drfh.report.figures import file_chart
from drfh.report.html import PALETTE
from drfh.report.pages.reproduction import (
    reproduction_page,
    reproduction_plots,
    save_reproduction,
    source_line,
)
from tests.support.pages import opened

NASTY = ("</script><script>throw 1</script>", "<!--<script>", "a & \"b\" 'c'\nd,e", "=1+1")
POLICIES = ("best-fit-drfh", "first-fit-drfh", "slots:14")
VERDICTS = ("holds", "holds if …", "does not hold", "not tested", "generated")
SCORECARD = [
    ("Fig. 4", "Three users get 26 % each", "26 %", 0.26),
    ("Fig. 5", "Best-Fit is ahead at all times", "100 %", 0.6),
    ("Table II", "14 slots are best", "14", 20.0),
    ("Fig. 8", "2 % of the users lose < by sharing", "2 %", None),
    ("Fig. 7", "Almost all users complete more", "almost all", 0.99),
]


@dataclass(frozen=True)
class MadeUp:
    """A reproduction that nobody computed."""

    setup: dict[str, Any]
    tables: dict[str, pl.DataFrame]
    numbers: dict[str, Any]


def made_up(users: int = 12, samples: int = 30, seeds: int = 2) -> MadeUp:
    """Return tables with the columns of the real ones."""
    rng = np.random.default_rng(1)
    names = [*NASTY, *(f"user-{i}" for i in range(users))][:users]
    draws = range(seeds)
    times = np.linspace(0, 70_156, samples).tolist()
    tables: dict[str, Any] = {}
    kinds = [("per-server-drf", "divisible"), ("drfh", "divisible"), ("drfh", "whole tasks")]
    tables["two_servers"] = [
        {"mechanism": m, "kind": k, "user": u, "tasks": 6.0 + i, "share": 0.4}
        for m, k in kinds
        for i, u in enumerate(("ann", "bob"))
    ]
    tables["two_servers_use"] = [
        {"mechanism": m, "kind": k, "server": s, "resource": r, "used": 0.6}
        for m, k in kinds
        for s in ("high-memory", "high-cpu")
        for r in ("cpu", "memory")
    ]
    tables["dynamic"] = [
        {"time": 5.0 * t, "user": f"user-{u}", "cpu": 0.3, "memory": 0.2, "dominant": 0.3,
         "exact": 0.31, "whole": 0.3 if t else 0.0}
        for t in range(100) for u in (1, 2, 3)
    ]  # fmt: skip
    paper = {"source": "paper", "count_rule": None, "oversize": None, "seed": None}
    tables["slots"] = [
        {**paper, "slots": n, "cpu": 0.4, "memory": 0.2, "completed": None} for n in (10, 14, 20)
    ] + [
        {"source": "ours", "slots": n, "count_rule": c, "oversize": o, "seed": s,
         "cpu": 0.3 + n / 100, "memory": 0.2 + s / 50, "completed": 9}
        for s in draws for c in ("min", "cpu") for o in ("ceil", "reject") for n in (10, 14, 20)
    ]  # fmt: skip
    tables["utilisation"] = [
        {"policy": p, "blocked": b, "seed": s, "time": t, "cpu": rng.random(), "memory": 0.5}
        for s in draws for b in ("skip", "strict") for p in POLICIES for t in times
    ]  # fmt: skip
    tables["ahead"] = [
        {"first": a, "second": b, "blocked": k, "seed": s, "resource": r,
         "part_of_time": 0.6 + s / 10, "part_behind": 0.1, "mean_difference": 0.02}
        for s in draws for k in ("skip", "strict") for a, b in itertools.combinations(POLICIES, 2)
        for r in ("cpu", "memory")
    ]  # fmt: skip
    tables["completion"] = [
        {"policy": p, "seconds": 10.0 * (i + 1) * (1 + (p != POLICIES[0])), "fraction": i / 99}
        for p in (POLICIES[0], POLICIES[2])
        for i in range(100)
    ]
    classes = [("1–50", 1, 50), ("51–100", 51, 100), ("> 1,000", 1001, None)]
    tables["reduction"] = [
        {"job_class": c, "low": low, "high": high, "jobs": 40 if high else 0,
         "mean_of_reductions": 0.2 - s if high else None,
         "reduction_of_means": 0.4 if high else None,
         "median_reduction": 0.1 if high else None, "seed": s, "rival": r}
        for s in draws for r in (POLICIES[2], POLICIES[1]) for c, low, high in classes
    ]  # fmt: skip
    tables["ratios"] = [
        {"user": u, "tasks": 10 ** (i % 5), "best_fit": 1.0 - i % 3 / 4, "slots": i % 4 / 3,
         "seed": s}
        for s in draws for i, u in enumerate(names)
    ]  # fmt: skip
    tables["sharing"] = [
        {"user": u, "tasks": 10 ** (i % 5), "weight": 1.0, "shared": i % 4 / 3,
         "dedicated": i % 3 / 2, "servers": 2, "largest_task": i / len(names), "blocked": b,
         "seed": s}
        for s in draws for b in ("skip", "strict") for i, u in enumerate(names)
    ]  # fmt: skip
    others = (*POLICIES, "drfh+cosine", "fifo")
    tables["policies"] = [
        {"policy": p, "seed": s, "cpu": 0.9, "memory": 0.7, "completed": 500_000,
         "mean_waiting": 90.0, "median_turnaround": 4000.0, "jain": 0.6, "mean_missing": 0.2,
         "mean_distance": 0.7, "mixed_users": 3, "below_fair": 0.1, "wall_seconds": 2.0}
        for s in draws for p in others
    ]  # fmt: skip
    tables["fair"] = [
        {"policy": p, "time": t, "missing": 0.2, "distance": rng.random(), "worst": names[0]}
        for p in others
        for t in times
    ]
    tables["audit"] = [
        {"property": "envy-free", "verdict": "holds", "value": 0.0, "text": "nobody < envies"},
        {"property": "truthful", "verdict": "not found", "value": 0.0, "text": "no lie"},
    ]
    tables["claims"] = [
        {"id": f"c{i}", "figure": figure, "claim": claim, "paper": value, "ours": ours,
         "low": None if ours is None else 0.9 * ours, "high": ours, "verdict": verdict,
         "condition": "skip" if verdict == "holds if …" else "",
         "beside": "ties: 74 % of the users" if figure == "Fig. 7" else ""}
        for i, ((figure, claim, value, ours), verdict) in enumerate(
            zip(SCORECARD, VERDICTS, strict=True)
        )
    ]  # fmt: skip
    return MadeUp(
        {"data": None, "preset": "backlog_cut", "servers": 50, "draws": list(draws)},
        {name: pl.DataFrame(rows, infer_schema_length=None) for name, rows in tables.items()},
        {"users": users, "tasks": 1000, "window": 70_156.0},
    )


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reproduction")
    save_reproduction(made_up(), folder)
    return folder


@pytest.fixture(scope="module")
def light_page(browser: Any, written: Path) -> Iterator[Any]:
    """Return the page in light colours, opened once for the tests that only read it."""
    page = opened(browser, written / "index.html")
    yield page
    page.close()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 390)])
def test_the_page_is_whole_and_quiet(browser: Any, written: Path, scheme: str, width: int) -> None:
    page = opened(browser, written / "index.html", scheme, width)
    plots = [plot for _, found in reproduction_plots(made_up()) for plot in found]
    assert len(plots) == 14
    plots.sort(key=lambda plot: plot.name != "fig-5")  # which leads
    figures = page.locator("figure.plot")
    assert figures.count() == len(plots)
    for i, plot in enumerate(plots):
        figure = figures.nth(i)
        assert figure.get_attribute("id") == plot.name
        assert figure.locator("h3").inner_text() == plot.title
        assert figure.locator("figcaption").inner_text().strip()
        assert figure.locator("svg.marks").count() == len(plot.panels)
        for j in range(len(plot.panels)):  # something is drawn, and not as wide as nothing
            box = figure.locator("svg.marks").nth(j).bounding_box()
            assert box["width"] > 150
            assert box["height"] > 60
            assert figure.locator("svg.marks").nth(j).locator("path, rect, text").count() > 5
    # Ids must differ: a chart would be drawn into the place of another.
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))
    page.close()


@pytest.mark.slow
def test_from_the_command_to_the_browser(
    browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run all of it on a small generated workload, and open what it writes."""
    monkeypatch.delenv("DRFH_DATA", raising=False)
    output = tmp_path / "paper"
    words = ["--quick", "--servers", "10", "--hours", "0.05", "-o", str(output)]
    assert main(["reproduce", *words]) == 0
    page = opened(browser, output / "index.html")
    assert "generated" in page.locator("body").inner_text().lower()[:400]
    assert page.locator("svg.marks").count() > 14
    assert page.locator("text=Best-Fit precisely achieves").count() >= 1
    page.close()
    again = recompute(output)
    for name in ("slots", "utilisation", "ratios", "sharing"):
        assert again[name].equals(pl.read_parquet(output / "tables" / f"{name}.parquet")), name


def test_the_first_line_says_what_it_is(light_page: Any) -> None:
    first = light_page.inner_text("h1 + p")
    assert first.startswith("Generated workload, not the real trace")
    generated = made_up()
    real = replace(generated, setup={**generated.setup, "data": "/data"})
    assert source_line(real).startswith("Real trace")
    assert source_line(replace(real, numbers={"source": {"generated": True}})).startswith(
        "Generated"
    )


def test_the_scorecard(light_page: Any) -> None:
    rows = light_page.locator("table.scorecard tr")
    assert rows.count() == 1 + len(SCORECARD)
    signs = ["✔", "◐", "✘", "–", "≈"]
    for i, (figure, claim, value, _) in enumerate(SCORECARD):
        row = rows.nth(i + 1)
        words = row.inner_text().replace("\u00a0", " ")
        assert words.startswith(signs[i])
        assert VERDICTS[i] in words
        assert claim in words
        assert value in words
        link = row.locator("a")
        assert link.inner_text() == figure
        target = link.get_attribute("href")
        assert light_page.locator(f"figure{target}").count() == 1
    assert "ties: 74 % of the users" in rows.nth(5).inner_text().replace("\u00a0", " ")


def test_generated_numbers_have_a_tally_of_their_own(light_page: Any) -> None:
    """They are no claims that hold or fail, and are not counted with those."""
    bar = light_page.locator(".tally span")
    assert [bar.nth(i).inner_text() for i in range(bar.count())] == ["✔ 1", "◐ 1", "✘ 1", "– 1"]
    words = light_page.inner_text(".tally + p")
    assert words.startswith("4 claims of the paper's evaluation: ✔ 1 holds, ◐ 1 holds if …")
    assert "≈ 1 claim about Google's trace: on a generated workload they can neither hold" in words


def test_what_was_found_comes_first_then_the_utilisation_then_the_scorecard(
    light_page: Any,
) -> None:
    words = light_page.inner_text("p.headline").replace("\u00a0", " ")
    assert words == (
        "Best-Fit DRFH keeps 90 % of the CPU and 70 % of the memory in use, slots at their best "
        "90 % of the CPU and 70 % of the memory. The median job takes 8.5 min instead of 17 "
        "min, and 41.7 % of the users complete fewer tasks than in a cloud of their own. On "
        "average 20.0 % of the fair shares under Best-Fit, 20.0 % under slots and 20.0 % under one "
        "queue for all are not where they belong."
    )
    tops = [
        light_page.locator(place).first.bounding_box()["y"]
        for place in ("p.headline", "#fig-5", "#scorecard", "table.scorecard", "#utilisation")
    ]
    assert tops == sorted(tops)
    assert light_page.locator("figure#fig-5").count() == 1
    assert light_page.locator("h2#utilisation + p a[href='#fig-5']").count() == 1


def test_the_figure_of_fairness_tells_policies_apart() -> None:
    """By the missing share, with the worst-off user named: everybody's worst is about as bad."""
    whole = made_up()
    low = pl.when(pl.col("policy") == "fifo").then(0.8).otherwise(0.1)
    table = whole.tables["fair"].with_columns(low.alias("missing"), pl.lit(0.9).alias("distance"))
    plots = reproduction_plots(replace(whole, tables={**whole.tables, "fair": table}))
    plot = next(plot for _, some in plots for plot in some if plot.name == "fair")
    names = [name for name, _ in plot.panels]
    assert names[0] == "best-fit-drfh: 10 % on average"
    assert names[-1] == "fifo: 80 % on average"
    assert "worst off </script><scri… (lacks 90 % of its own)" in plot.caption
    assert "3 users had tasks that differ" in plot.caption


def test_data_is_one_click_away(light_page: Any, tmp_path: Path) -> None:
    found = {plot.name: plot for _, plots in reproduction_plots(made_up()) for plot in plots}
    links = light_page.locator("a.data")
    assert links.count() == len(found)
    with light_page.expect_download() as download:
        links.first.click()
    first = download.value
    assert first.suggested_filename == "fig-5.csv"  # it leads
    first.save_as(tmp_path / "data.csv")
    assert (tmp_path / "data.csv").read_text() == found["fig-5"].data.write_csv()
    # The others without a click: chromium asks back when ten files come at once.
    read = "async link => [link.download, await (await fetch(link.href)).text()]"
    for i in range(links.count()):
        name, content = links.nth(i).evaluate(read)
        assert content == found.pop(name.removesuffix(".csv")).data.write_csv()
    assert not found


def test_pointing_at_a_line_shows_its_values(light_page: Any) -> None:
    chart = light_page.locator("#fig-5 svg.marks").first
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    light_page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    light_page.mouse.move(box["x"] + box["width"] / 2 + 3, box["y"] + box["height"] / 2)
    light_page.wait_for_selector("#vg-tooltip-element.visible")
    words = light_page.inner_text("#vg-tooltip-element")
    assert all(policy in words for policy in POLICIES)


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_paper(browser: Any, written: Path, scheme: str) -> None:
    page = opened(browser, written / "index.html", scheme)
    page.emulate_media(media="print", color_scheme=scheme)
    ink = page.evaluate("getComputedStyle(document.body).color")
    assert ink == "rgb(0, 0, 0)"
    label = page.locator("#fig-5 svg.marks text").first
    fill = label.evaluate("e => getComputedStyle(e).fill")
    assert sum(map(int, fill.removeprefix("rgb(").removesuffix(")").split(","))) < 200
    assert page.locator("nav").is_hidden()
    assert page.pdf(format="A4").startswith(b"%PDF")
    page.close()


def test_figures_are_files_too(written: Path) -> None:
    plots = [plot for _, found in reproduction_plots(made_up()) for plot in found]
    starts = {".svg": b"<svg", ".png": b"\x89PNG", ".pdf": b"%PDF"}
    for plot in plots:
        for suffix, start in starts.items():
            data = (written / "figures" / f"{plot.name}{suffix}").read_bytes()
            assert data.startswith(start)
        drawn = (written / "figures" / f"{plot.name}.svg").read_text()
        assert plot.title.split(" (")[0].replace("'", "&#39;")[:30] in drawn.replace("’", "'")
    assert len(list((written / "figures").iterdir())) == 3 * len(plots)


def test_a_large_reproduction_is_not_heavy(tmp_path: Path) -> None:
    page = reproduction_page(made_up(users=900, samples=1170, seeds=3))
    assert len(page.encode()) < 10_000_000


def test_missing_tables_leave_a_note() -> None:
    whole = made_up()
    kept = {name: whole.tables[name] for name in ("two_servers", "two_servers_use")}
    page = reproduction_page(replace(whole, tables={**kept, "claims": pl.DataFrame()}))
    assert page.count('<figure class="plot"') == 2
    assert "Not in this reproduction." in page


def test_file_charts_have_no_layer_to_point_at() -> None:
    plots = {plot.name: plot for _, found in reproduction_plots(made_up()) for plot in found}
    spec = file_chart(plots["fig-5"]).to_dict()
    assert "params" not in spec
    assert "near" not in str(spec)


def test_slots_of_several_numbers_have_one_name() -> None:
    whole = made_up()
    table = whole.tables["utilisation"]
    renamed = table.with_columns(
        policy=pl.when((pl.col("seed") == 1) & (pl.col("policy") == "slots:14"))
        .then(pl.lit("slots:12"))
        .otherwise(pl.col("policy"))
    )
    plots = reproduction_plots(replace(whole, tables={**whole.tables, "utilisation": renamed}))
    found = next(plot for _, some in plots for plot in some if plot.name == "fig-5")
    assert [key.name for key in found.keys] == [*POLICIES[:2], "slots:12 or 14"]


def test_lines_are_thinned_and_keep_their_mean() -> None:
    times = np.arange(5000) * 14.0
    values = np.random.default_rng(0).random(5000)
    frame = pl.DataFrame({"run": "a", "time": times, "value": values})
    thin = on_grid(frame, ["run"])
    assert len(thin) <= MOST_POINTS
    assert thin["value"].mean() == pytest.approx(values.mean(), abs=1e-3)
    few = frame.head(50)
    assert on_grid(few, ["run"]).equals(few)


def test_a_line_of_jobs_that_never_end_stays_below() -> None:
    table = spread_table([("a", [3.0, 1.0, 2.0], 4), ("b", [], 4)])
    assert table["run"].to_list() == ["a"] * 3
    assert table["part"].to_list() == [0.25, 0.5, 0.75]


# Machado, Oliveira and Fernandes 2009, severity 1: what who lacks a kind of cone sees, in linear
# RGB.
SIGHTS = {
    "all": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}


def linear(colour: str) -> Any:
    parts = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def lab(rgb: Any) -> Any:
    to_xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    )
    xyz = to_xyz @ np.clip(rgb, 0, 1) / np.array([0.9505, 1, 1.089])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("sight", SIGHTS)
def test_colours_stay_apart(sight: str) -> None:
    seen = [lab(np.array(SIGHTS[sight]) @ linear(colour)) for colour in PALETTE]
    apart = [math.dist(a, b) for a, b in itertools.combinations(seen, 2)]
    assert min(apart) > 17
    first = [math.dist(a, b) for a, b in itertools.combinations(seen[:3], 2)]
    assert min(first) > 23  # most figures have two or three lines


@pytest.mark.parametrize("paper", ["#ffffff", "#14181f"])
def test_colours_are_seen_on_white_and_on_black(paper: str) -> None:
    weights = np.array([0.2126, 0.7152, 0.0722])
    back = float(weights @ linear(paper))
    for colour in PALETTE:
        ink = float(weights @ linear(colour))
        assert (max(ink, back) + 0.05) / (min(ink, back) + 0.05) > 2.5


def test_pages_are_the_same_every_time() -> None:
    random.seed(3)
    assert reproduction_page(made_up()) == reproduction_page(made_up())
