"""Records as HTML in notebooks and as LaTeX: whole, escaped, and short where there are many."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest

import drfh
from drfh.report.tables import RecordTable, escape_latex

TWO = drfh.load_scenario("paper-two-servers")
DAY = drfh.load_scenario("gpu-day")
HOSTILE = "<script>alert(1)</script> & 50 %_{x}\\#$~^|"


class _Cells(HTMLParser):
    """The cells of tables, row by row, and whether every element is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)
        self.seen.add(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data


def records() -> dict[str, Any]:
    return {
        "allocation": drfh.allocate(TWO),
        "result": drfh.simulate(DAY),
        "comparison": drfh.compare(TWO, mechanisms=["drfh", "drf", "per-server-drf"]),
        "report": drfh.audit(TWO, properties=["fair", "pareto"]),
        "cluster": DAY.cluster,
        "workload": DAY.workload,
    }


FIRST_ROWS = {
    "allocation": ["ann", "1", "10", "71.4 %", "memory"],
    "result": ["time simulated", "24 h"],
    "comparison": ["drfh", "10", "10", "20", "85.7 %", "85.7 %", "0 %", "", "✔", "✔", "✔"],
    "report": ["fair", "holds", "", "everybody has at least its share of the DRFH optimum"],
    "cluster": ["cpu", "4", "32", "128Gi", "0", ""],
    "workload": ["research", "2", "3", "34", "60 min", "11 h"],
}


@pytest.mark.parametrize("name", FIRST_ROWS)
def test_records_show_themselves_in_notebooks(name: str) -> None:
    cells = _Cells(records()[name]._repr_html_())
    assert cells.open == []
    assert not cells.seen & {"script", "link", "img", "iframe"}  # nothing runs, nothing is loaded
    assert cells.rows[1] == FIRST_ROWS[name]
    assert len({len(row) for row in cells.rows}) == 1


def test_names_are_text_in_notebooks_and_latex() -> None:
    cluster = drfh.Cluster([drfh.Server({"cpu": 4}, name=HOSTILE, labels={HOSTILE: HOSTILE})])
    users = [drfh.User(HOSTILE, {"cpu": 1})]
    allocation = drfh.allocate(cluster, users)
    workload = drfh.Workload(users, [drfh.Job(HOSTILE, duration=5)])
    result = drfh.simulate(cluster, workload)
    comparison = drfh.compare(cluster, users, mechanisms=["drfh"])
    report = drfh.audit(cluster, users, properties=["fair"])
    for record in (cluster, workload, allocation, result, comparison, report):
        assert "script" not in _Cells(record._repr_html_()).seen
    for record in (allocation, comparison):
        latex = record.to_latex()
        assert r"\textless{}script\textgreater{}" in latex
        assert r"\& 50\,\%\_\{x\}\textbackslash{}\#\$" in latex


def test_many_rows_are_counted() -> None:
    users = [drfh.User(f"user-{i}", {"cpu": 1}) for i in range(50)]
    allocation = drfh.allocate(drfh.Cluster([drfh.Server({"cpu": 4})]), users)
    html = allocation._repr_html_()
    assert len(_Cells(html).rows) == 21
    assert "and 30 more" in html
    assert allocation.to_latex().count(r"\\") == 51  # LaTeX has them all


@pytest.mark.parametrize("name", ["allocation", "result", "comparison", "report"])
def test_latex_is_a_booktabs_table(name: str) -> None:
    lines = records()[name].to_latex().splitlines()
    columns = re.fullmatch(r"\\begin\{tabular\}\{(.+)\}", lines[0])
    assert columns
    count = len(columns[1].replace(r"p{.5\linewidth}", "p"))
    assert lines[1] == r"\toprule"
    assert lines[3] == r"\midrule"
    assert lines[-2:] == [r"\bottomrule", r"\end{tabular}"]
    for line in [lines[2], *lines[4:-2]]:
        assert line.endswith(r" \\")
        assert len(re.findall(r"(?<!\\)&", line)) == count - 1
    assert not re.search(r"(?<!\\)[%#]", "\n".join(lines))


def test_several_runs_in_one_latex_table_are_of_common_jobs() -> None:
    cluster = drfh.Cluster([drfh.Server({"cpu": 2})])
    jobs = [
        drfh.Job("a", demand={"cpu": 2}, duration=60, tasks=3),
        drfh.Job("b", demand={"cpu": 1}, duration=10, tasks=2),
        drfh.Job("b", demand={"cpu": 1}, duration=500, tasks=9),
    ]
    workload = drfh.Workload(["a", "b"], jobs)
    fair, fifo = (
        drfh.simulate(cluster, workload, policy=policy, until=300)
        for policy in ("best-fit-drfh", "fifo")
    )
    lines = fair.to_latex(beside=[fifo]).splitlines()
    assert lines[0] == "% Times of jobs are of those that finished in all runs: 2 of 3 jobs."
    assert r"metric & best-fit-drfh & fifo \\" in lines
    started = next(line for line in lines if line.startswith("tasks started"))
    assert started == r"tasks started & 50\,\% & 50\,\% \\"
    assert any(line.startswith("mean waiting of a task that started & ") for line in lines)


def test_latex_numbers_are_right_aligned_and_the_best_bold() -> None:
    from drfh.report.html import Cell

    table = RecordTable("", ["a", "b"], [["x", Cell("1", "number best")], ["[y]", 2]])
    lines = table.to_latex().splitlines()
    assert lines[0] == r"\begin{tabular}{lr}"
    assert lines[4:6] == [r"x & \textbf{1} \\", r"{}[y] & 2 \\"]


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("a_b", r"a\_b"),
        ("50 %", r"50\,\%"),
        ("50%", r"50\%"),
        ("a\nb", "a b"),
        ("a---b-c", "a-{}-{}-b-c"),
        ("C:\\{x}", r"C:\textbackslash{}\{x\}"),
        ("~^", r"\textasciitilde{}\textasciicircum{}"),
        ("größer", "größer"),
    ],
)
def test_special_characters_of_latex(text: str, latex: str) -> None:
    assert escape_latex(text) == latex
