"""``drfh report`` and ``drfh simulate --report``: words, errors, and the page in a browser."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import drfh
from drfh.cli import main
from drfh.report.charts.runs import NamedRun, run_plots, starving
from drfh.report.pages.runs import headline, name_runs, runs_page
from tests.support.pages import opened

POLICIES = ("best-fit-drfh", "fifo", "slots:4")


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "runs"
    words = ["simulate", "gpu-day", "--policy", ",".join(POLICIES), "--fair", "-o", str(folder)]
    assert main(words) == 0
    return folder


@pytest.fixture(scope="module")
def runs(saved: Path) -> list[NamedRun]:
    return name_runs([drfh.Result.load(path) for path in sorted(saved.iterdir())])


def test_it_says_what_it_wrote(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    assert main(["report", str(saved), "-o", str(page), "--title", "My <b> runs"]) == 0
    assert capsys.readouterr().out == f"saved: {page} ({', '.join(sorted(POLICIES))})\n"
    assert "<h1>My &lt;b&gt; runs</h1>" in page.read_text()
    assert main(["report", str(saved / "fifo"), "-o", str(page), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == {"version": 1, "page": str(page), "runs": ["fifo"]}


@pytest.mark.slow
def test_figures_for_a_paper(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, figures = tmp_path / "page.html", tmp_path / "new" / "figures"
    one = ["report", str(saved), "-o", str(page), "--figures", str(figures)]
    assert main(one) == 0
    assert capsys.readouterr().out.endswith(f"saved: {figures}\n")
    names = {path.name for path in figures.iterdir()}
    assert {"shares.svg", "shares.pdf", "shares.png"} <= names
    assert len(names) % 3 == 0
    assert main([*one, "--figure-format", "pdf, svg"]) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--figure-format", "pdf"], "--figure-format must be used together with --figures"),
        (["--figures", "f", "--figure-format", "jpg"], "--figure-format must be one of pdf, png, "
                                                       "svg, got 'jpg'"),
        (["--figures", "f", "--figure-format", ","], "--figure-format must be some of svg, pdf, "
                                                     "png"),
        (["--figures", __file__], "--figures must be a folder that can be written to, or a new "
                                  f"one, got {__file__!r}"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("verb", ["simulate", "report"])
def test_wrong_figures_are_refused_before_the_work(
    verb: str,
    options: list[str],
    message: str,
    saved: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    subject = "gpu-day" if verb == "simulate" else str(saved)
    assert main([verb, subject, *options]) == 2
    assert capsys.readouterr() == ("", f"drfh: {message}\n")
    assert not list(tmp_path.iterdir())


def test_simulate_writes_the_same_page(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, again = tmp_path / "page.html", tmp_path / "again.html"
    words = ["simulate", "gpu-day", "--policy", "fifo", "--fair", "--report", str(page)]
    assert main(words) == 0
    assert capsys.readouterr().out.endswith(f"saved: {page}\n")
    title = "A day on a small GPU cluster"
    assert main(["report", str(saved / "fifo"), "-o", str(again), "--title", title]) == 0
    assert page.read_text() == again.read_text()


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["report"], "DIR must be given (see drfh report --help)"),
        (["report", "{tmp}"], "the directory must be one that a simulation wrote"),
        (["report", "{tmp}/none"], "the directory must be one that a simulation wrote"),
        (["report", "{runs}", "-o", "{tmp}/page.pdf"], "--output must end in .html"),
        (["report", "{runs}", "-o", "{tmp}/no/p.html"], "--output must be in a folder that exists"),
        (["simulate", "gpu-day", "--report", "page.svg"], "--report must end in .html"),
    ],
)
def test_errors_are_one_line(
    words: list[str],
    error: str,
    saved: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([word.format(tmp=tmp_path, runs=saved) for word in words]) == 2
    captured = capsys.readouterr()
    assert error in captured.err
    assert captured.err.count("\n") == 1
    assert not list(tmp_path.glob("*.html"))


@pytest.mark.parametrize(
    ("scheme", "width"), [("light", 1200), pytest.param("dark", 390, marks=pytest.mark.slow)]
)
def test_the_page(
    browser: Any, saved: Path, runs: list[NamedRun], tmp_path: Path, scheme: str, width: int
) -> None:
    file = tmp_path / "page.html"
    assert main(["report", str(saved), "-o", str(file)]) == 0
    page = opened(browser, file, scheme, width)
    plots = [plot for _, found in run_plots(runs) for plot in found]
    assert [plot.name for plot in plots] == [
        "utilisation", "tasks", "shares", "fair", "turnaround", "waiting", "longest-waiting",
        "ratios",
    ]  # fmt: skip
    figures = page.locator("figure.plot")
    assert figures.count() == len(plots)
    for i, plot in enumerate(plots):
        assert figures.nth(i).locator("svg.marks").count() == len(plot.panels)
        assert figures.nth(i).locator("h3").inner_text() == plot.title
    with page.expect_download() as download:
        page.locator("#ratios a.data").click()
    download.value.save_as(tmp_path / "data.csv")
    assert (tmp_path / "data.csv").read_text() == plots[-1].data.write_csv()
    assert page.inner_text("p.headline") == f"{headline(runs)}."
    page.close()


def test_what_is_drawn_is_what_happened(runs: list[NamedRun]) -> None:
    for run in runs:
        plots = {plot.name: plot for _, found in run_plots([run]) for plot in found}
        result = run.result
        # As many jobs as are complete, of all; and the users' ratios.
        line, done = plots["turnaround"].data, result.jobs["turnaround"].drop_nulls()
        assert line["part"].to_list()[-1] == pytest.approx(len(done) / len(result.jobs))
        assert line["amount"].max() == done.max()
        ratios = plots["ratios"].data
        assert ratios["users"].to_list()[-1] == pytest.approx(1)
        below = ratios.filter(pl.col("ratio") < 1)["users"].to_list()
        lost = result.users.filter(pl.col("completion_ratio") < 1)
        assert (below or [0.0])[-1] == pytest.approx(len(lost) / len(result.users))
        used, samples = plots["utilisation"].data, result.samples
        if run.name == "slots:4":  # a longer run than the others, with more samples
            assert len(samples) > 240 >= len(used)
            assert used["gpu"].mean() == pytest.approx(samples["utilisation.gpu"].mean(), abs=0.01)
            continue
        assert used["gpu"].to_list() == pytest.approx(samples["utilisation.gpu"].to_list())
        drawn = plots["shares"].data.join(result.shares(), on=["user", "time"], suffix="_all")
        assert len(drawn) == len(result.shares())
        assert drawn["share"].to_list() == pytest.approx(drawn["share_all"].to_list())


def test_who_never_starts_comes_first(runs: list[NamedRun]) -> None:
    table = starving(runs)
    assert table["user"][0] == "inference"  # no slot of a fourth of a server holds its tasks
    never = table.filter((pl.col("user") == "inference") & (pl.col("run") == "slots:4"))
    assert never["started"].to_list() == [0]


def test_the_best_run_is_bold(runs: list[NamedRun]) -> None:
    page = runs_page(runs)
    row = re.search(r"<tr><td>mean waiting of a task that started</td>(.*?)</tr>", page)
    assert row is not None
    waits = [run.result.numbers["mean_waiting"] for run in runs]
    cells = re.findall(r'class="number( best)?"', row[1])
    assert [bool(cell) for cell in cells] == [wait == min(waits) for wait in waits]


def test_names_of_runs_differ(runs: list[NamedRun]) -> None:
    result = runs[0].result
    assert [run.name for run in runs] == [run.result.policy for run in runs]
    same = name_runs([result, result])
    assert len({run.name for run in same}) == 2


def test_many_users_and_runs_are_not_heavy() -> None:
    cluster = drfh.Cluster([drfh.Server({"cpu": 8, "memory": 8}, count=40)])
    jobs = [
        drfh.Job(f"user-{i}", demand={"cpu": 1, "memory": 1 + i % 4}, duration=600 + i, tasks=9,
                 arrival=60.0 * (i % 500))
        for i in range(900)
    ]  # fmt: skip
    workload = drfh.Workload([f"user-{i}" for i in range(900)], jobs)
    one = drfh.simulate(cluster, workload, interval=60.0, until=72_000.0)
    page = runs_page([NamedRun(f"run {i}", one) for i in range(9)])
    assert len(page.encode()) < 10_000_000
    assert "the other 894 users together" in page
    assert "the first 8 of 9 runs" in page


def test_times_of_jobs_are_of_the_same_jobs_in_every_column() -> None:
    jobs = [
        drfh.Job("ann", demand={"cpu": 1}, duration=4),
        drfh.Job("bob", demand={"cpu": 1}, duration=2, arrival=1),
        drfh.Job("ann", demand={"cpu": 1}, duration=8, arrival=2),
    ]
    cluster = drfh.Cluster([drfh.Server({"cpu": 1})])
    workload = drfh.Workload([drfh.User("ann", {"cpu": 1}, weight=3), "bob"], jobs)
    results = [drfh.simulate(cluster, workload, p, until=12) for p in ("max-min:cpu", "fifo")]
    assert [r.numbers["turnaround"]["median"] for r in results] == [7.0, 4.5]
    page = runs_page(name_runs(results))
    row = re.search(r"<tr>(?:(?!</tr>).)*median time of a job.*?</tr>", page, re.DOTALL)
    assert row is not None
    assert re.findall(r">([^<>]+ s)<", row[0]) == ["4 s", "4 s"]
    assert "Times of jobs are of those that finished in all runs: 1 of 3 jobs." in page
    one = runs_page(name_runs(results[1:]))
    assert "Times of jobs are of those that finished: 2 of 3 jobs." in one
    other = drfh.simulate(cluster, drfh.Workload(["ann"], jobs[:1]), "fifo")
    assert "not of the same jobs" in runs_page(name_runs([results[0], other]))


def test_a_run_of_nothing_is_a_page_too() -> None:
    cluster = drfh.Cluster([drfh.Server({"cpu": 1})])
    nothing = drfh.simulate(cluster, drfh.Workload(["ann"], []), until=10.0)
    assert "0 of 0 tasks" in runs_page(name_runs([nothing]))
