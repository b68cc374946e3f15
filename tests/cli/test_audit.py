"""``drfh audit`` and ``drfh compare`` the way a user runs them."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
from pathlib import Path

import pytest

from drfh.auditor import PROPERTIES
from drfh.cli import main
from drfh.errors import InputError
from drfh.files.atomic import check_writable
from drfh.files.scenario_file import load_scenario
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
    skipped = "About your cluster, not applicable here: promise-kept, envy-free-1, bbf, "
    assert f"{skipped}envy-free-literal (--show tells why)\n" in out
    assert out.index("About your cluster") < out.index("feasible") < out.index("About the rule")
    assert out.index("About the rule") < out.index("truthful") < out.index("--show dedicated")
    assert "nobody loses when servers are added" in out
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
    words = (
        "audit",
        "nsdi11-single-server",
        "--mechanism",
        "nash",
        "--show",
        "truth",
        "--tries",
        "500",
    )
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
    assert "About the rule, not applicable without --mechanism: population-monotone, " in out
    code, out, _ = run(capsys, "audit", "paper-two-servers", "--observed", table, "--show", "truth")
    assert "needs a mechanism: one allocation cannot show it" in out


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
    again = shlex.split(out.splitlines()[-1].partition("drfh ")[2])
    assert again[:2] == ["audit", str(saved)]
    assert again[-1] == str(tmp_path / "case.observed.csv")
    assert table.read_text().startswith("user,group,tasks\nann,high-memory,1\n")  # left alone
    code, out, _ = run(capsys, *again)
    assert code == 0
    assert "90.0 % from fair" in out


def test_properties_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "audit", "--list")
    assert code == 0
    assert all(name in out for name in PROPERTIES)
    code, out, _ = run(capsys, "audit", "--list", "--json")
    assert set(json.loads(out)["properties"]) == set(PROPERTIES)
    for verb in ("audit", "compare"):
        code, out, err = run(capsys, verb)
        assert (code, out) == (2, "")
        assert err == f"drfh: FILE must be given, or --trace (see drfh {verb} --help)\n"


def test_mechanisms_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "compare", "--list")
    assert code == 0
    assert all(name in out for name in MECHANISMS)
    code, out, _ = run(capsys, "compare", "--list", "--json")
    assert set(json.loads(out)["mechanisms"]) == {*MECHANISMS, "whole-tasks"}


def test_compare_leads_with_the_promise(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "compare", "paper-two-servers")
    assert (code, err) == (0, "")
    first = (
        "drf adds the servers up as if they were one: ann is promised 11.67 tasks and 10 can be "
        "placed (14.3 % missing); 2 of 2 users miss something\n"
    )
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


def test_compare_names_the_worst_hit(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    # Small servers cannot hold what the pool promises to large; that is little of all tasks.
    file = tmp_path / "a.yaml"
    file.write_text(
        "cluster:\n- {name: a, resources: {cpu: 2, memory: 12}}\n"
        "- {name: b, resources: {cpu: 12, memory: 2}}\n- {name: c, resources: {cpu: 50}}\n"
        "users:\n- {name: large, demand: {cpu: 1, memory: 1}}\n"
        "- {name: small, demand: {cpu: 0.01}}\n"
    )
    code, out, _ = run(capsys, "compare", file, "--mechanisms", "drf,pooled:tsf,drfh")
    assert code == 0
    line = next(line for line in out.splitlines() if line.startswith("drf adds"))
    assert "large is promised 11.49 tasks and 4 can be placed (65.2 % missing)" in line
    assert line.endswith("1 of 2 users misses something")
    missing = out[out.index("missing  ") : out.index("pooled:tsf")]
    assert "large" in missing
    assert "small" not in missing
    assert "pooled:tsf, pooled too: large misses 65.2 %; 1 of 2 users misses something" in out


def test_compare_is_brief_when_promises_are_kept(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "compare", "google-2011", "--mechanisms", "drfh,drf,utilitarian")
    assert code == 0
    words = "drf adds the servers up as if they were one: all that it promises can be placed here"
    assert words in out
    assert "promised" not in out
    assert "same tasks as drfh: drf\n" in out
    assert "162,914" in out
    assert "e+0" not in out


def test_compare_says_who_gets_what(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("compare", "gpu-cluster", "--mechanisms", "drfh,per-server-drf,tsf")
    code, out, _ = run(capsys, *words)
    assert code == 0
    lines = [line.split() for line in out.splitlines()]
    head = next(line for line in lines if line[:2] == ["mechanism", "training"])
    assert head[2:6] == ["share", "inference", "share", "robotics"]
    row = next(line for line in lines if line[:1] == ["tsf"])
    assert row[1:8] == ["▼", "63", "43.8", "%", "54", "37.5", "%"]
    assert row[-7:] == ["5,982", "92.0", "%", "79.2", "%", "100.0", "%"]
    assert "▼ furthest below its tasks with drfh" in out


def many_users(folder: Path) -> Path:
    users = "".join(
        f"- {{name: team-number-{i}, demand: {{cpu: {1 + i % 3}, memory: {1 + i % 5}}}}}\n"
        for i in range(20)
    )
    file = folder / "many.yaml"
    file.write_text(
        f"cluster:\n- {{count: 30, resources: {{cpu: 16, memory: 32}}}}\nusers:\n{users}"
    )
    return file


def test_compare_with_many_users(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ("compare", many_users(tmp_path), "--mechanisms", "drfh,utilitarian")
    code, out, _ = run(capsys, *words)
    assert code == 0
    assert "Share of each user" in out
    assert "median" in out
    assert re.search(r"utilitarian .* team-number-\d+: 0 of [\d.]+ ", out)
    assert "--all shows all 20 users" in out
    assert "team-number-19" not in out
    code, out, _ = run(capsys, *words, "--all")
    assert code == 0
    assert "Tasks of each user" in out
    assert all(f"team-number-{i} " in out for i in range(20))


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("everyone", [False, True])
def test_words_are_whole_in_narrow_terminals(
    width: int, everyone: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from rich.console import Console

    from drfh.auditor.comparison import compare
    from drfh.cli.render import comparison as compare_text

    names = ["drfh", "drf", "per-server-drf", "max-min:memory", "sequential-min-max", "utilitarian"]
    properties = ["envy-free", "pareto", "sharing-incentive", "dedicated-cloud", "bottleneck-share"]
    for scenario in (load_scenario("gpu-cluster"), load_scenario(str(many_users(tmp_path)))):
        result = compare(scenario, mechanisms=names, properties=properties)
        text = io.StringIO()
        terminal = Console(
            file=text, width=width, force_terminal=True, color_system=None, markup=False,
            highlight=False, soft_wrap=True,
        )  # fmt: skip
        monkeypatch.setattr(compare_text, "console", lambda terminal=terminal: terminal)
        compare_text.print_comparison(result, everyone=everyone)
        out = text.getvalue()
        assert max(len(line) for line in out.splitlines()) <= width
        assert "…" not in out.replace("… and ", "")
        heads = {line.split()[0] for line in out.splitlines() if line.strip()}
        words = set(re.split(r"\s+", out))
        assert set(names) <= heads
        assert {part for name in properties for part in name.split("-")} <= {
            part for word in words for part in word.split("-")
        }
        if everyone or len(scenario.users) <= 12:
            assert {user.name for user in scenario.users} <= words


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--mechanisms", "nope"], "mechanism must be one of"),
        (["--mechanisms", ","], "--mechanisms must name at least one mechanism"),
        (["--mechanisms", "cmmf"], "cmmf needs users that demand one resource"),
        (["--properties", "nope"], "--properties must be one of"),
        (["--json", "--csv"], "--json must not be used together with --csv"),
        (["--html", "x.txt"], "--html must end in .html"),
        (["--html", "/no-such-folder/x.html"], "--html must be in a folder that exists"),
    ],
)
def test_mistakes_of_compare(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "compare", "paper-two-servers", *words)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_a_page_without_a_place_is_refused_before_the_work(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("the work began")

    monkeypatch.setattr("drfh.auditor.comparison.compare", never)
    (tmp_path / "folder.html").mkdir()
    (tmp_path / "file").touch()
    for path in ("no/x.html", "folder.html", "file/x.html", f"{'x' * 300}.html"):
        code, out, err = run(
            capsys, "compare", "paper-two-servers", "--html", tmp_path / path, "--json"
        )
        assert (code, out) == (2, "")
        assert err.startswith("drfh: --html must be ")
        assert err.count("\n") == 1
    monkeypatch.setattr("os.access", lambda *_: False)  # root may write anywhere
    with pytest.raises(InputError, match="--save must be in a folder that can be written to"):
        check_writable(tmp_path / "x.yaml", "--save")
    monkeypatch.undo()
    check_writable(tmp_path / "x.yaml", "--save")
    check_writable(tmp_path / "file", "--save")
    assert not (tmp_path / "x.yaml").exists()


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
