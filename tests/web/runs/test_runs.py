"""The panel "Runs": directories in the folder alone, and their figures in a real browser."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import drfh
from drfh import Cluster, Job, Server, Workload
from drfh.errors import InputError
from drfh.experiments.figures import two_servers_tables
from drfh.experiments.reproduction import Reproduction
from drfh.formatting import format_duration, format_percent
from drfh.simulation.result import Result
from drfh.web.runs import files as run_files
from drfh.web.runs.files import find_run, list_runs, newest
from drfh.web.runs.pages import run_page
from tests.web.conftest import token_of
from tests.web.explorer.site import ExplorerTab, Site, explorer, explorer_tab

LONG = 120_000  # milliseconds: other work may keep the machine busy
AXIS = "svg .role-axis-label text"
NAMES = ["<img src=x onerror=window.hacked=1>", ":onclick", "back\\", 'q" + \\"', "image"]


def hostile() -> Result:
    jobs = [Job(name, demand={"cpu": 1, "<b>": 1}, duration=5, tasks=4) for name in NAMES]
    cluster = Cluster([Server({"cpu": 4, "<b>": 8})])
    return drfh.simulate(cluster, Workload(NAMES, jobs), interval=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with runs, good and bad, beside a run that is outside of it."""
    top = tmp_path_factory.mktemp("runs")
    directory = top / "folder"
    day = drfh.load_scenario("gpu-day")
    for policy in ("best-fit-drfh", "fifo"):
        result = drfh.simulate(day.cluster, day.workload, policy=policy, source="gpu-day")
        (directory / "day").mkdir(parents=True, exist_ok=True)
        result.save(directory / "day" / policy)
    hostile().save(directory / "names")
    hostile().save(top / "secret")
    for name in ("cut", "sneaky", "odd"):
        shutil.copytree(directory / "names", directory / name)
    cut = directory / "cut" / "samples.parquet"
    cut.write_bytes(cut.read_bytes()[:200])
    (directory / "odd" / "summary.json").write_text('{"policy": 3}')
    (directory / "sneaky" / "jobs.parquet").unlink()
    (directory / "sneaky" / "jobs.parquet").symlink_to(top / "secret" / "jobs.parquet")
    (directory / "link").symlink_to(top / "secret")
    tables = dict(zip(("two_servers", "two_servers_use"), two_servers_tables(), strict=True))
    (directory / "paper").mkdir()
    Reproduction({"data": None}, tables, {}, ()).write(directory / "paper")
    return directory


def quiet(text: str, part: float) -> None:
    assert text
    assert 0.0 <= part <= 1.0


# What may be opened.


def test_what_is_in_the_folder_is_offered_and_links_are_not(folder: Path) -> None:
    directories = list_runs(folder)
    assert [directory.name for directory in directories] == [
        ".", "cut", "day", "names", "odd", "paper", "sneaky", "day/best-fit-drfh", "day/fifo"
    ]  # fmt: skip
    by_name = {directory.name: directory for directory in directories}
    assert by_name["day"].label == "day · 2 runs together"
    assert by_name["paper"].label == "paper · reproduction of the paper"
    assert by_name["."].label == "folder · 4 runs together"
    assert newest([by_name[name] for name in (".", "day", "day/fifo")]) == by_name["day"]
    assert list_runs(None) == []


@pytest.mark.parametrize(
    "name", ["../secret", "link", "day/../../secret", "/etc", "", "\0", "x" * 9000, "nothing"]
)
def test_what_is_elsewhere_is_refused(folder: Path, name: str) -> None:
    with pytest.raises(InputError) as error:
        find_run(name, folder)
    assert "\n" not in str(error.value)
    with pytest.raises(InputError):
        find_run(str(folder.parent / "secret"), folder)


def test_the_run_that_was_given_may_be_outside(folder: Path) -> None:
    given = folder.parent / "secret"
    directory = find_run(str(given.resolve()), folder, given)
    assert directory.path == given.resolve()
    assert run_page([directory], quiet).title == "1 run of a workload"


@pytest.mark.parametrize(
    ("name", "text"),
    [("cut", "damaged|readable"), ("odd", "damaged"), ("sneaky", "jobs.parquet is elsewhere")],
)
def test_bad_runs_are_one_line(folder: Path, name: str, text: str) -> None:
    with pytest.raises(InputError, match=text) as error:
        run_page([find_run(name, folder)], quiet)
    assert "\n" not in str(error.value)
    assert name in str(error.value)


def test_names_without_end_are_refused(folder: Path, tmp_path: Path) -> None:
    import polars as pl

    for kind in ("value", "column"):
        run = shutil.copytree(folder / "names", tmp_path / kind)
        jobs = pl.read_parquet(run / "users.parquet")
        text = pl.lit("x" * 1_000_000)
        jobs = jobs.with_columns(text.alias("user") if kind == "value" else text.alias("y" * 2_000))
        jobs.write_parquet(run / "users.parquet", compression="zstd")
        assert (run / "users.parquet").stat().st_size < 20_000
        with pytest.raises(InputError, match=r"names of at most 1,000 bytes \(users.parquet\)"):
            run_page([find_run(kind, tmp_path)], quiet)


def test_patterns_are_no_paths(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "names", tmp_path / "*")
    with pytest.raises(InputError, match="none of"):
        run_page([find_run("*", tmp_path)], quiet)


def test_large_runs_are_refused_before_they_are_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit, text in (("_MAX_VALUES", "10 numbers"), ("_MAX_RUN_BYTES", "at most 0 MB")):
        with monkeypatch.context() as patch:
            patch.setattr(run_files, limit, 10)
            patch.setattr(Result, "load", None)
            with pytest.raises(InputError, match=text):
                run_page([find_run("names", folder)], quiet)


def test_runs_are_compared_and_a_reproduction_is_not(folder: Path) -> None:
    both = run_page([find_run(name, folder) for name in ("day/fifo", "day/best-fit-drfh")], quiet)
    assert both.title == "2 runs of gpu-day"
    assert set(both.figures) >= {"utilisation", "shares", "turnaround", "waiting"}
    paper = run_page([find_run("paper", folder)], quiet)
    assert "two-servers" in json.loads(paper.content)["markup"]
    with pytest.raises(InputError, match="not a reproduction"):
        run_page([find_run(name, folder) for name in ("day", "paper")], quiet)


# In a browser.


@pytest.fixture(scope="module")
def site(folder: Path) -> Iterator[Site]:
    with explorer("--run", folder / "day" / "fifo", "--folder", folder) as running:
        yield running
        assert not any("Traceback" in line for line in running.lines), running.lines


@contextmanager
def opened(
    browser: Any, site: Site, query: str = "?panel=runs", **options: Any
) -> Iterator[ExplorerTab]:
    with explorer_tab(browser, site, query, **options) as page:
        page.page.set_default_timeout(LONG)
        yield page
        assert page.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def numbers(page: ExplorerTab) -> dict[str, list[str]]:
    """Return the first table: what it is, and a number for each run."""
    text = "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
    table = page.part("runs-figures").locator(".table").first
    rows: list[list[str]] = table.locator("tr").evaluate_all(text)
    return {row[0]: row[1:] for row in rows}


def wait_for_numbers(page: ExplorerTab, expected: dict[str, list[str]]) -> None:
    """Wait until the first table shows these: it is drawn after the title."""
    end = time.monotonic() + LONG / 1000
    while not expected.items() <= (found := numbers(page)).items():
        assert time.monotonic() < end, found
        page.page.wait_for_timeout(50)


def expected(*runs: Path) -> dict[str, list[str]]:
    found = [Result.load(run).summary() for run in runs]
    return {
        "": [one["policy"] for one in found],
        "tasks done": [format_percent(one["completion_ratio"], trim=True) for one in found],
        "mean waiting of a task": [format_duration(one["mean_waiting"]) for one in found],
        "gpu used": [format_percent(one["utilisation"]["gpu"], trim=True) for one in found],
    }


def choose(page: ExplorerTab, field: str, label: str) -> None:
    page.part(field).click()
    page.page.get_by_role("option", name=label, exact=True).click()


def marks(page: ExplorerTab, plot: str, kind: str = "mark-line") -> Any:
    figure = page.page.locator(f"figure#{plot}")
    figure.scroll_into_view_if_needed()
    lines = figure.locator(f"svg g.{kind} path")
    lines.first.wait_for(state="attached")
    return lines


@pytest.mark.slow
def test_a_run_its_figures_and_another_one(browser: Any, site: Site, folder: Path) -> None:
    from playwright.sync_api import expect

    with opened(browser, site) as page:
        expect(page.part("runs-title")).to_have_text("1 run of gpu-day", timeout=LONG)
        first = expected(folder / "day" / "fifo")
        wait_for_numbers(page, first)
        expect(marks(page, "utilisation")).to_have_count(3)  # a line for each resource
        choose(page, "runs-others", "day/best-fit-drfh")
        expect(page.part("runs-title")).to_have_text("2 runs of gpu-day", timeout=LONG)
        both = expected(folder / "day" / "fifo", folder / "day" / "best-fit-drfh")
        wait_for_numbers(page, both)
        page.page.keyboard.press("Escape")
        # A legend hides its line, by mouse and by keyboard.
        lines = marks(page, "turnaround")
        expect(lines).to_have_count(2)
        key = page.page.locator("figure#turnaround p.keys").get_by_role("button", name="fifo")
        key.click()
        expect(lines).to_have_count(1)
        key.press("Enter")
        expect(lines).to_have_count(2)
        # A part of the time, in all figures alike; it is still there after a look elsewhere.
        page.part("runs-span").locator(".q-slider__thumb").first.focus()
        for _ in range(3):
            page.page.keyboard.press("Control+ArrowRight")
        for _ in range(2):
            marks(page, "utilisation")
            for plot in ("utilisation", "tasks"):
                labels = page.page.locator(f"figure#{plot} .figure").first.locator(AXIS)
                # Of tasks, the other axis begins with 0.
                start, later = (labels.filter(has_text=re.compile(f"^{n}$")) for n in (0, 20))
                expect(start).to_have_count(int(plot == "tasks"))
                expect(later).to_have_count(1)
            page.part("tab-tables").click()
            expect(page.part("shares-server-table")).to_be_attached(timeout=LONG)
            page.part("tab-runs").click()
        # One figure alone.
        choose(page, "runs-figure", "Dominant shares over time")
        expect(page.page.locator("figure#turnaround")).to_be_hidden()
        assert marks(page, "shares").count() >= 5
        choose(page, "runs-run", "paper · reproduction of the paper")
        expect(page.part("runs-title")).to_contain_text("reproduced", timeout=LONG)
        marks(page, "fig-2", "mark-rect")


def test_paths_outside_and_broken_runs_are_refused(browser: Any, site: Site) -> None:
    from playwright.sync_api import expect

    with opened(browser, site) as page:
        expect(page.part("runs-title")).to_have_text("1 run of gpu-day", timeout=LONG)
        for path, text in (
            ("../secret", "must be a path in the folder of this page"),
            ("link", "must be a path in the folder of this page"),
            ("sneaky", "jobs.parquet is elsewhere"),
            ("cut", "cut.*(damaged|readable)|(damaged|readable).*cut"),
        ):
            page.part("runs-path").fill(path)
            page.part("runs-path").press("Enter")
            expect(page.part("runs-refused")).to_have_text(re.compile(text), timeout=LONG)
            # The last good one stays.
            expect(page.part("runs-title")).to_have_text("1 run of gpu-day")


def test_names_are_never_markup(browser: Any, site: Site) -> None:
    from playwright.sync_api import expect

    size = {"width": 390, "height": 844}
    with opened(browser, site, color_scheme="dark", viewport=size) as page:
        expect(page.part("runs-title")).to_have_text("1 run of gpu-day", timeout=LONG)
        choose(page, "runs-run", "names")
        expect(page.part("runs-title")).to_have_text("1 run of a workload", timeout=LONG)
        expect(marks(page, "shares")).to_have_count(len(NAMES))
        plot = page.page.locator("figure#shares")
        keys = plot.locator("p.keys span").all_text_contents()
        assert sorted(keys) == sorted(NAMES)
        plot.locator("svg.marks").hover(position={"x": 150, "y": 60})
        tip = page.page.locator("#vg-tooltip-element")
        expect(tip).to_be_visible()
        assert set(tip.locator(".key").all_text_contents()) == {"seconds", *NAMES}
        assert not page.page.locator(
            ".run-page img, .run-page b:not(.verdict b), #vg-tooltip-element img"
        ).count()
        assert page.page.evaluate("window.hacked") is None
        # Drawn for the dark, and for a narrow screen.
        text = plot.locator("svg.marks .role-axis-label text").first
        assert text.get_attribute("fill") == "#e6e9ef"
        assert plot.locator("svg.marks").bounding_box()["width"] <= 390
        page.page.evaluate("Quasar.Dark.set(false)")
        expect(text).to_have_attribute("fill", "#1c2330")


def test_without_a_folder_it_says_how(browser: Any, open_site: Site) -> None:
    with opened(browser, open_site, f"?token={token_of(open_site)}&panel=runs") as page:
        assert "drfh simulate" in page.part("runs-how").inner_text()
        assert "drfh explore --run" in page.part("runs-how").inner_text()
        assert not page.part("runs-run").is_visible()
