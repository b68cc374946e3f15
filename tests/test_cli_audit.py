"""``drfh audit`` and ``drfh compare`` the way a user runs them."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from drfh.auditor import PROPERTIES
from drfh.cli import main
from drfh.files import load_scenario
from drfh.mechanisms import MECHANISMS


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    code = main([str(word) for word in words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_report_card_worst_first(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "audit", "claim-c-skewed-servers")
    assert (code, err) == (0, "")
    assert "drfh, 2 users on 2 servers: 4 of" in out
    assert out.index("dedicated-cloud") < out.index("sharing-incentive") < out.index("✔")
    assert "a has 1.818 tasks and would have 3.5 with its part of every server" in out
    assert "proven: Wang et al. 2014, Prop. 3" in out
    assert "tries (the same search gains" in out
    assert "– bbf: defined for one server" in out
    assert "--show dedicated-cloud shows the counterexample" in out


def test_json_has_every_property(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "audit", "claim-b-user-leaves", "--json")
    data = json.loads(out)
    assert code == 0
    assert {f["property"] for f in data["findings"]} == set(PROPERTIES)
    worst = data["findings"][0]
    assert worst["verdict"] == "fails"
    assert worst["counterexample"]["story"]


def test_show_and_save_and_run_again(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "lie.yaml"
    words = ("audit", "nsdi11-single-server", "--mechanism", "nash", "--show", "truth")
    code, out, err = run(capsys, *words, "--save", path)
    assert (code, err) == (0, "")
    assert "✘ truthful: fails" in out
    assert "tasks then" in out
    assert f"saved; to see it again: drfh allocate {path}" in out
    assert load_scenario(path).mechanism == "nash"
    assert run(capsys, "allocate", path)[0] == 0
    code, out, _ = run(capsys, *words, "--json")
    data = json.loads(out)
    assert data["counterexample"]["scenario"].startswith("title:")


def test_envy_is_short_for_envy_free(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "audit", "claim-h-whole-tasks", "--show", "envy")
    assert code == 0
    assert out.startswith("✘ envy-free: fails\na has 2 tasks and would have 3 with what b holds")
    assert "proven only for divisible tasks" in out


def test_required_properties_guard_a_pipeline(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "audit", "paper-two-servers", "--require", "envy-free,pareto")
    assert (code, err) == (0, "")
    words = ("audit", "paper-two-servers", "--mechanism", "per-server-drf", "--only", "fair")
    code, out, err = run(capsys, *words, "--require", "envy-free,pareto")
    assert code == 3
    assert err == "drfh: required and failing: pareto\n"
    assert "fair" in out
    code, out, _ = run(capsys, *words, "--require", "pareto", "--json")
    assert code == 3
    assert json.loads(out)["findings"]


def test_what_a_scheduler_did(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    table = tmp_path / "running.csv"
    table.write_text("user,server,cpu,memory\nann,high-memory,1.2,6\nbob,high-cpu,8,2\n")
    code, out, err = run(capsys, "audit", "paper-two-servers", "--observed", table)
    assert (code, err) == (0, "")
    assert "observed allocation" in out
    assert "40.0 % from fair: ann has 6 tasks, 10 in the DRFH optimum" in out
    assert "bob cannot use 20.0 % of the memory that it holds" in out
    assert "– truthful: needs a mechanism" in out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("user,server,tasks\nzoe,high-cpu,1\n", "line 2: user must be one of ann, bob"),
        ("user,server,tasks\nann,high-cpu\n", "line 2: row must have 3 fields"),
        ("user,server,tasks\nann,high-cpu,-3\n", "line 2: tasks must be"),
        ("user,server,tasks\nann,high-cpu,many\n", "line 2: tasks must be"),
        ("User,Server,Tasks\nann,high-cpu,1\n", "line 1: user must be among the columns"),
        ("user;server;tasks\nann;high-cpu;1\n", "(found: user;server;tasks)"),
        ("user,server,tasks\nann,high-cpu/3,1\n", "server must be one of high-cpu/0 to high-cpu/0"),
        ("user,server,tasks\n", "table must have a header and at least one row"),
        ("user,server,gpu\nann,high-cpu,1\n", "line 2: column must be one of"),
    ],
)
def test_bad_tables(
    text: str, message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    table = tmp_path / "running.csv"
    table.write_text(text)
    code, out, err = run(capsys, "audit", "paper-two-servers", "--observed", table)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--only", "honest"], "--only must be one of"),
        (["--only", ","], "--only must name at least one property"),
        (["--require", "nice"], "--require must be one of"),
        (["--show", "pareto,fair"], "--show must name one property"),
        (["--save", "x.yaml"], "--save must be used with --show"),
        (["--show", "pareto", "--save", "x.yaml"], "--save needs a counterexample"),
        (["--html", "page.pdf"], "--html must end in .html"),
        (["--mechanism", "nope"], "mechanism must be one of"),
        (["--mechanism", "norm:0"], "norm:P must be a number ≥ 1"),
        (["--mechanism", "norm"], "mechanism must have a value after the colon: norm:P"),
        (["--mechanism", "max-min:gpu"], "max-min:RESOURCE must be one of cpu, memory"),
        (["--mechanism", "cmmf"], "cmmf needs users that demand one resource"),
        (["--mechanism", "tsf", "--whole-tasks"], "whole_tasks must be used with"),
        (["--observed", "nope.csv"], "nope.csv"),
        (["--observed", "x.csv", "--mechanism", "drf"], "--observed must not be used together"),
        (["--observed", "x.csv", "--require", "truthful"], "--require must not ask"),
        (["--tries", "0"], "--tries"),
    ],
)
def test_mistakes_are_one_line(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "audit", "paper-two-servers", *words)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_what_cannot_be_measured_cannot_be_required(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    table = tmp_path / "running.csv"
    table.write_text("user,server,tasks\nann,high-memory,1400\n")
    words = ("audit", "paper-two-servers", "--observed", table, "--only", "pareto")
    code, _, err = run(capsys, *words, "--require", "pareto")
    assert code == 2
    assert "--require must ask for what can be measured here (what is held does not fit" in err
    for name, rule in (("price-of-fairness", "must not ask"), ("bottleneck", "must be one of")):
        code, _, err = run(capsys, "audit", "paper-two-servers", "--require", name)
        assert code == 2
        assert f"--require {rule}" in err


def test_what_was_observed_is_seen_again_with_its_table(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    table, saved = tmp_path / "running.csv", tmp_path / "case.yaml"
    table.write_text("user,group,tasks\nann,high-memory,1\nbob,high-cpu,10\n")
    words = ("audit", "paper-two-servers", "--observed", table, "--show", "fair", "--save", saved)
    code, out, _ = run(capsys, *words)
    assert code == 0
    assert f"drfh audit {saved} --only fair --observed TABLE (it is not in the file)" in out
    code, out, _ = run(capsys, "audit", saved, "--only", "fair", "--observed", table)
    assert "90.0 % from fair" in out


def test_properties_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "audit", "--list")
    assert code == 0
    assert all(name in out for name in PROPERTIES)
    code, out, _ = run(capsys, "audit", "--list", "--json")
    assert set(json.loads(out)) == set(PROPERTIES)
    for verb in ("audit", "compare"):
        code, out, err = run(capsys, verb)
        assert (code, out) == (2, "")
        assert err == f"drfh: FILE must be given (see drfh {verb} --help)\n"


def test_mechanisms_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "compare", "--list")
    assert code == 0
    assert all(name in out for name in MECHANISMS)
    code, out, _ = run(capsys, "compare", "--list", "--json")
    assert set(json.loads(out)) == set(MECHANISMS)


def test_compare_leads_with_the_promise(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "compare", "paper-two-servers")
    assert (code, err) == (0, "")
    first = "drf adds the servers up as if they were one: of 23.3333 promised tasks 14.3 % cannot"
    assert out.index(first) < out.index("mechanism")
    for name in ("ps-dsf", "nash", "utilitarian", "max-min:memory", "whole-tasks"):
        assert name in out
    assert "✘ 40.0 %" in out  # per-server-drf is not Pareto optimal


def test_compare_as_data(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("compare", "paper-two-servers", "--mechanisms", "drfh, drf,norm:2")
    code, out, _ = run(capsys, *words, "--properties", "envy,fair", "--json")
    data = json.loads(out)
    assert code == 0
    assert [row["mechanism"] for row in data["mechanisms"]] == ["drfh", "drf", "norm:2"]
    assert data["properties"] == ["envy-free", "fair"]
    assert data["promises"][0]["gap"] == pytest.approx(1 / 7)
    code, out, _ = run(capsys, *words, "--csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert len(rows) == 6
    assert rows[2]["mechanism"] == "drf"
    assert float(rows[2]["promised"]) == pytest.approx(35 / 3)
    assert rows[0]["promised"] == ""


def test_compare_with_many_users(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(
        capsys, "compare", "claim-d-low-utilisation", "--mechanisms", "drfh,nash,utilitarian"
    )
    assert code == 0
    assert "Share of each user" in out
    assert "median" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--mechanisms", "nope"], "mechanism must be one of"),
        (["--mechanisms", ","], "--mechanisms must name at least one mechanism"),
        (["--mechanisms", "cmmf"], "cmmf needs users that demand one resource"),
        (["--properties", "nope"], "--properties must be one of"),
        (["--json", "--csv"], "--json must not be used together with --csv"),
        (["--html", "x.txt"], "--html must end in .html"),
    ],
)
def test_mistakes_of_compare(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "compare", "paper-two-servers", *words)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_pages_are_written_whole(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for verb, more in (("audit", "--only=fair,envy"), ("compare", "--mechanisms=drfh,drf")):
        page = tmp_path / f"{verb}.html"
        code, _, err = run(capsys, verb, "paper-two-servers", more, "--html", page)
        assert (code, err) == (0, "")
        assert page.read_text().rstrip().endswith("</html>")
        code, _, err = run(
            capsys, verb, "paper-two-servers", more, "--html", tmp_path / "no" / "x.html"
        )
        assert code == 2
        assert err.count("\n") == 1
        assert not (tmp_path / "no").exists()
