"""Figures of runs, comparisons and audits: from Python, and as files for papers."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any

import pytest

import drfh
from drfh.report import name_runs, save_figures
from drfh.report.charts.runs import RUN_FIGURES, run_plot
from drfh.report.figures import column_figure

DAY = drfh.load_scenario("gpu-day")


@pytest.fixture(scope="module")
def results() -> list[drfh.Result]:
    return [drfh.simulate(DAY, policy=policy, fair=True) for policy in ("best-fit-drfh", "fifo")]


@pytest.mark.parametrize("figure", RUN_FIGURES)
def test_a_result_draws_every_figure(figure: str, results: list[drfh.Result]) -> None:
    first, second = results
    chart: Any = first.plot(figure, beside=[second])
    assert chart.title.text == run_plot(name_runs(results), figure).title
    drawn = str(chart.to_dict())
    assert "fifo" in drawn
    assert "fifo" not in str(first.plot(figure).to_dict())


def test_a_figure_without_data_is_refused() -> None:
    result = drfh.simulate(DAY)
    with pytest.raises(drfh.InputError, match=r"figure must be of a run that measured it"):
        result.plot("fair")
    with pytest.raises(drfh.UnknownNameError, match="did you mean shares"):
        result.plot("share")


def test_a_comparison_and_a_report_draw_themselves() -> None:
    scenario = drfh.load_scenario("gpu-cluster")
    comparison = drfh.compare(scenario, mechanisms=["drfh", "drf"])
    users: Any = comparison.plot()
    assert set(users.data["mechanism"]) == {"drfh", "drf"}
    promises: Any = comparison.plot("promises")
    assert promises.title == scenario.title
    report = drfh.audit(scenario, mechanism="drf", properties=["fair", "pareto"])
    failures: Any = report.plot()
    assert failures.data["property"].to_list() == list(report.failed)
    fair: Any = report.plot("fair")
    assert set(fair.data["user"]) == {user.name for user in scenario.users}
    for subject in (comparison, report):
        with pytest.raises(drfh.UnknownNameError, match="figure must be one of"):
            subject.plot("nothing")


def png_size(data: bytes) -> tuple[int, int]:
    width, height = struct.unpack(">II", data[16:24])
    return width, height


@pytest.mark.parametrize("figure", ["utilisation", "longest-waiting"])
def test_figures_are_one_column_wide(figure: str, results: list[drfh.Result]) -> None:
    plot = run_plot(name_runs(results), figure)
    files = column_figure(plot, [".svg", ".pdf", ".png"])
    svg = files[".svg"].decode()
    assert '<svg xmlns="http://www.w3.org/2000/svg"' in svg
    found = re.search(r' width="252pt" height="([\d.]+)pt" viewBox="0 0 (\d+) (\d+)"', svg)
    assert found, svg[:200]
    height, units_wide, units_high = map(float, found.groups())
    assert abs(units_wide - 400) <= 4  # so that text of 12 units has 7.6 points
    assert height == pytest.approx(252 * units_high / units_wide, rel=1e-4)
    box = re.search(rb"/MediaBox ?\[0 0 ([\d.]+) ([\d.]+)\]", files[".pdf"])
    assert box, "a PDF has a size"
    assert float(box[1]) == 252
    assert float(box[2]) == pytest.approx(height, abs=1)
    assert png_size(files[".png"])[0] == 1050  # 3.5 inches, 300 dots each
    assert plot.title not in svg  # the paper has a caption


def test_panels_share_one_legend(results: list[drfh.Result]) -> None:
    plot = run_plot(name_runs(results), "utilisation")
    assert len(plot.panels) == 3
    svg = column_figure(plot, [".svg"])[".svg"].decode()
    assert svg.count(">best-fit-drfh<") == 1


def test_figures_are_saved_as_asked(tmp_path: Path, results: list[drfh.Result]) -> None:
    folder = tmp_path / "paper" / "figures"
    folder.mkdir(parents=True)
    (folder / "mine.tex").write_text("kept")
    (folder / "shares.pdf").write_text("old")
    written = save_figures(name_runs(results), folder, ["pdf"])
    assert {path.stem for path in written} == set(RUN_FIGURES)
    assert {path.name for path in folder.iterdir()} == {"mine.tex"} | {p.name for p in written}
    assert (folder / "shares.pdf").read_bytes().startswith(b"%PDF")
    with pytest.raises(drfh.InputError, match="formats must be one of"):
        save_figures(name_runs(results), folder, ["jpg"])
    with pytest.raises(drfh.InputError, match="formats must be some of"):
        save_figures(name_runs(results), folder, [])


def test_shares_of_an_allocation_are_all_within_the_figure() -> None:
    allocation = drfh.allocate(drfh.load_scenario("gpu-cluster"))
    chart: Any = allocation.plot("shares")
    assert dict(chart.data.select("user", "share").rows()) == allocation.shares
    plain = chart.properties(width=252).to_dict()
    assert plain["width"] == 252
    domain = plain["layer"][0]["encoding"]["x"]["scale"]["domain"]
    assert domain[1] > max(allocation.shares.values())
    with pytest.raises(drfh.InputError, match=r"did you mean shares\?"):
        allocation.plot("share")
