"""``drfh allocate`` and ``drfh tour`` as a user runs them."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import polars
import pytest

from drfh.cli import main

TEAM = """
cluster:
  - {name: big, count: 3, resources: {cpu: 8, memory: 64Gi}}
  - {name: gpu, resources: {cpu: 16, memory: 64Gi, gpu: 4}, labels: {kind: gpu}}
users:
  - {name: ann, demand: {cpu: 1, memory: 2Gi}}
  - {name: bob, demand: {cpu: 2, memory: 1Gi, gpu: 1}, weight: 2}
  - {name: "c:d", demand: {cpu: 1, memory: 8Gi}, tasks: 4}
"""


@pytest.fixture
def team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "team.yaml").write_text(TEAM)
    return "team.yaml"


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(words)
    out, err = capsys.readouterr()
    return code, out, err


def test_text(team: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "allocate", team)
    assert (code, err) == (0, "")
    assert "4 servers in 2 groups: cpu 40, memory 256Gi, gpu 4" in out
    assert "Why not more" in out
    assert "c:d: has all of its 4 tasks" in out
    assert out.rstrip().endswith(": proven optimal")
    assert "relative gap" not in out
    assert "largest in" in out


def test_json_and_csv_agree(team: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "allocate", team, "--json")
    data = json.loads(out)
    assert data["certificate"]["closed"] is True
    assert data["certificate"]["gap"] <= 1e-8
    _, out, _ = run(capsys, "allocate", team, "--csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [row["user"] for row in rows] == ["ann", "bob", "c:d"]
    assert [float(row["tasks"]) for row in rows] == [u["tasks"] for u in data["users"]]
    assert rows[0]["limit"] == ""


def test_placement(team: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "allocate", team, "--placement", "--expand", "--csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert {row["server"] for row in rows} <= {"big/0", "big/1", "big/2", "gpu"}
    code, out, _ = run(capsys, "allocate", team, "--placement")
    assert code == 0
    assert "big" in out


def test_what_if(team: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(
        capsys, "allocate", team, "--add", "2x cpu=8,memory=64Gi,gpu=1,kind:gpu", "--remove",
        "big:1", "--weight", "ann=3", "--demand", "bob:cpu=4,memory=2Gi", "--demand", "c:d:cpu=2",
    )  # fmt: skip
    assert (code, err) == (0, "")
    assert "before: 4 servers in 2 groups" in out
    assert "after:  5 servers in 3 groups" in out
    assert "change" in out
    _, out, _ = run(capsys, "allocate", team, "--weight", "ann=3", "--json")
    data = json.loads(out)
    assert data["before"]["users"][0]["weight"] == 1
    assert data["users"][0]["weight"] == 3
    assert data["users"][0]["tasks"] > data["before"]["users"][0]["tasks"]


def test_a_resource_that_only_the_change_brings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.yaml").write_text(
        "cluster: [{name: n, resources: {cpu: 4}}]\nusers: [{name: u, demand: {gpu: 1}}]\n"
    )
    code, _, err = run(capsys, "allocate", "a.yaml")
    assert code == 2
    assert err.startswith("drfh: a.yaml, line 2: ")
    code, _, err = run(capsys, "allocate", "a.yaml", "--add", "cpu=1,gpu=1")
    assert code == 2  # before the change there is nothing to compare with
    assert "\n" not in err.rstrip("\n")


def test_servers_that_go_leave_the_restrictions_that_name_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s.yaml").write_text(
        "cluster:\n- {name: a, resources: {cpu: 4}}\n"
        "- {name: b, count: 3, resources: {cpu: 2}}\n"
        "users:\n- {name: u, demand: {cpu: 1}, servers: [a, b]}\n"
        "- {name: v, demand: {cpu: 1}, servers: [b/0, b/2]}\n"
    )
    code, out, err = run(capsys, "allocate", "s.yaml", "--remove", "b:1", "--json")
    assert (code, err) == (0, "")
    assert [user["tasks"] for user in json.loads(out)["users"]] == [6.0, 2.0]
    code, out, err = run(capsys, "allocate", "s.yaml", "--remove", "b")
    assert (code, out) == (2, "")
    assert "--remove b: servers must not take the last server that v may use" in err
    Path("s.yaml").write_text(Path("s.yaml").read_text().replace(", servers: [b/0, b/2]", ""))
    code, out, err = run(capsys, "allocate", "s.yaml", "--remove", "b", "--json")
    assert (code, err) == (0, "")
    assert [user["tasks"] for user in json.loads(out)["users"]] == [2.0, 2.0]
    _, _, err = run(capsys, "allocate", "s.yaml", "--remove", "a", "--remove", "b")
    assert "--remove b: servers must stay: there are no other servers" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--add", "10x"], "--add must look like '10x cpu=8,memory=512Gi'"),
        (["--add", "x cpu=4"], "--add must look like '10x cpu=8,memory=512Gi'"),
        (["--whole-tasks", "--verify"], "verify needs divisible tasks"),
        (["--filling", "best"], "--filling must be used together with --whole-tasks"),
        (["--seconds", "1"], "--seconds must be used together with --whole-tasks"),
        (["--whole-tasks", "--filling", "worst"], "--filling must be one of best, paper"),
        (["--whole-tasks", "--seconds", "-1"], "--seconds must be a finite number ≥ 0"),
        (["--whole-tasks", "--seed", "-1"], "--seed must be an integer ≥ 0"),
        (["--add", "cpu=x"], "--add cpu must be an amount (a label is cpu:x)"),
        (["--add", "3x huge"], "--add must be one of big, gpu"),
        (["--weight", "ann=-1"], "--weight ann must be a number > 0"),
        (["--add", "0x cpu=1"], "--add: count must be a whole number ≥ 1, got 0"),
        (["--add", "cpu=1,cpu=2"], "--add must name cpu once"),
        (["--add", "cpu=0"], "--add: resources must have at least one amount > 0"),
        (["--remove", "bigg"], "--remove must be one of big, gpu (did you mean big?)"),
        (["--remove", "big:4"], "--remove big: count must be between 1 and 3 (big), got 4"),
        (["--remove", "big:x"], "--remove must look like NAME or NAME:COUNT"),
        (["--weight", "ann"], "--weight must look like ann=2"),
        (["--weight", "anne=2"], "--weight must be one of ann, bob, c:d (did you mean ann?)"),
        (["--weight", "ann=0"], "--weight ann: weight must be > 0"),
        (["--demand", "bob"], "--demand must look like bob:cpu=4,memory=2Gi"),
        (["--demand", "bob:cpu"], "--demand must look like bob:cpu=4,memory=2Gi"),
        (["--demand", "bobb:cpu=1"], "--demand must be one of ann, bob, c:d (did you mean bob?)"),
        (["--demand", "ann:cpu=0,memory=0"], "--demand ann: demand must have at least one amount"),
        (["--demand", "ann:tpu=1"], "demand.tpu of ann must be a resource that some server has"),
        (["--tasks", "ann"], "--tasks must look like ann=100"),
        (["--tasks", "anne=3"], "--tasks must be one of ann, bob, c:d (did you mean ann?)"),
        (["--tasks", "ann=-3"], "--tasks ann: tasks must be a number ≥ 0"),
        (["--json", "--csv"], "--json must not be used together with --csv"),
        (["--save", "a.txt"], "--save must end in one of .json, .csv, .parquet"),
        (["--plot", "a.gif"], "--plot must end in one of .html, .svg, .png, .pdf"),
        (["--save", "no/such/a.json"], "path must be writable"),
        (["--mechanism", "drhf"], "mechanism must be one of asset-fairness,"),
        (["--method", "magic"], "method must be one of auto, closed-form, interior-point"),
        (["--method", "closed-form"], "method closed-form needs at most two demanded resources"),
        (
            ["--mechanism", "per-server-drf", "--method", "simplex"],
            "parameter of per-server-drf must be left out",
        ),
        (["--explain", "eve"], "user must be one of ann, bob, c:d"),
        (["--nonsense"], "No such option: --nonsense"),
    ],
)
def test_mistakes_are_one_line(
    team: str, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "allocate", team, *words)
    assert (code, out) == (2, "")
    assert err.startswith(f"drfh: {message}")
    assert err.count("\n") == 1


def test_without_a_certificate_the_placement_is_verified(
    team: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, "allocate", team, "--mechanism", "per-server-drf", "--verify")
    assert code == 0
    assert "ok   server over capacity" in out
    assert "gap" not in out
    assert "proven" not in out


def test_files(team: str, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a.json", "a.csv", "a.parquet", "a.html", "a.svg", "a.png", "a.pdf"):
        option = "--save" if name.endswith(("json", "csv", "parquet")) else "--plot"
        assert run(capsys, "allocate", team, option, name)[0] == 0
        assert Path(name).stat().st_size > 100
    assert polars.read_parquet("a.parquet").equals(polars.read_csv("a.csv")) or (
        polars.read_parquet("a.parquet")["tasks"].to_list()
        == polars.read_csv("a.csv")["tasks"].to_list()
    )
    assert json.loads(Path("a.json").read_text())["mechanism"] == "drfh"
    assert Path("a.png").read_bytes().startswith(b"\x89PNG")
    assert Path("a.pdf").read_bytes().startswith(b"%PDF")
    assert "<svg" in Path("a.svg").read_text()


def test_explain_verify_and_whole_tasks(team: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "allocate", team, "--explain", "ann")
    assert out.startswith("ann stops at ")
    code, out, _ = run(capsys, "allocate", team, "--verify")
    assert code == 0
    assert ": proven optimal\nfound by simplex in 2 rounds, relative gap" in out
    assert "ok   relative gap" in out
    code, out, err = run(capsys, "allocate", team, "--verify", "--json")
    assert json.loads(out)["method"] == "simplex"
    assert err.startswith("found by simplex in 2 rounds, relative gap")
    code, out, _ = run(capsys, "allocate", team, "--whole-tasks")
    assert code == 0
    assert "against divisible tasks" in out
    data = json.loads(run(capsys, "allocate", team, "--whole-tasks", "--json")[1])
    assert 0 <= data["loss"] <= 1
    assert data["divisible"]["certificate"]["closed"]
    assert data["filling"] == "best"
    assert data["method"] in out
    words = ("--filling", "paper", "--json")
    data = json.loads(run(capsys, "allocate", team, "--whole-tasks", *words)[1])
    assert (data["filling"], data["method"]) == ("paper", "best-fit filling")


def test_many_users_are_summed_up(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    users = "\n".join(f"  - {{name: u{i}, demand: {{cpu: 1}}}}" for i in range(60))
    file = tmp_path / "many.yaml"
    file.write_text(f"cluster: [{{name: n, resources: {{cpu: 4}}}}]\nusers:\n{users}\n")
    _, out, _ = run(capsys, "allocate", str(file))
    assert "… and 36 users more" in out
    assert run(capsys, "allocate", str(file), "--all")[1].count(" cpu") >= 60


def test_tour(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "tour")
    assert (code, err) == (0, "")
    for expected in (
        "12,583 servers in 10 groups",
        "per-server DRF",
        "gpu",
        "checked from scratch: ok",
        "Users, with their dominant share over time",
    ):
        assert expected in out
    assert "NOT proven" not in out
    data = json.loads(run(capsys, "tour", "--json")[1])
    assert data["simulations"]["paper-dynamic"]["tasks"]["completed"] == 10_350
    assert len(data["allocations"]) == 3
    assert all(answer["certificate"]["closed"] for answer in data["allocations"].values())


def test_an_open_certificate_is_said_loudly(
    team: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from drfh.allocation.proofs.certificate import Certificate

    monkeypatch.setattr(Certificate, "closed", property(lambda self: False))
    _, out, _ = run(capsys, "allocate", team)
    assert re.search(r": NOT proven optimal: relative gap \S+ is above 1e-08$", out.rstrip())


@pytest.mark.parametrize(
    ("mechanism", "end"),
    [
        ("drf", ": proven optimal placement of the promise"),
        ("per-server-drf", ": proven bottleneck for every user on every server"),
        ("sequential-min-max", " ms"),
    ],
)
def test_each_mechanism_says_what_is_proven(
    mechanism: str, end: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = run(capsys, "allocate", "paper-two-servers", "--mechanism", mechanism)
    assert out.rstrip().endswith(end)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("mechanism: nope", "team.yaml: mechanism must be one of asset-fairness,"),
        ("parameters: {metod: simplex}", "team.yaml: parameter of drfh must be one of method"),
        ("parameters: {progress: 5}", "team.yaml: parameter of drfh must be one of method"),
        ("parameters: {whole_tasks: 5}", "team.yaml: parameters.whole_tasks must be true or false"),
        ("parameters: {method: 3}", "method must be one of auto, closed-form"),
    ],
)
def test_mechanisms_and_parameters_of_a_file(
    team: str, line: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(team).write_text(f"{TEAM}\n{line}\n")
    verbs = ["allocate"] if "method: 3" in line else ["allocate", "scenario check"]
    for verb in verbs:
        code, out, err = run(capsys, *verb.split(), team)
        assert (code, out) == (2, "")
        assert err.startswith(f"drfh: {message}")


def test_a_file_can_ask_for_whole_tasks(team: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path(team).write_text(f"{TEAM}\nparameters: {{whole_tasks: true}}\n")
    assert "against divisible tasks" in run(capsys, "allocate", team)[1]


def test_explanations_before_and_after(team: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "allocate", team, "--explain", "ann", "--weight", "ann=3")
    assert [line.partition(":")[0] for line in out.splitlines()] == ["before", "after"]


def test_more_of_a_group_and_other_tasks(team: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "allocate", team, "--add", "7x big", "--tasks", "c:d=", "--json")
    data = json.loads(out)
    assert [(g["group"], g["servers"]) for g in data["groups"]] == [("big", 10), ("gpu", 1)]
    assert data["users"][2]["limit"] is None
    assert data["before"]["users"][2]["limit"] == 4


def test_odd_units_are_a_warning_beside_the_answer(
    team: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "allocate", team, "--demand", "ann:memory=4")
    assert code == 0
    assert "change" in out
    assert err.startswith("warning: ")
    assert "did you mean 4Gi?" in err
    data = json.loads(run(capsys, "allocate", team, "--demand", "ann:memory=4", "--json")[1])
    assert len(data["warnings"]) == 1


def test_an_open_certificate_is_said_beside_csv_and_on_the_page(
    team: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from drfh.allocation.proofs.certificate import Certificate

    monkeypatch.setattr(Certificate, "closed", property(lambda self: False))
    for words in (["--csv"], ["--explain", "ann"], ["--placement"]):
        code, _, err = run(capsys, "allocate", team, *words)
        assert code == 0
        assert "NOT proven optimal" in err
    run(capsys, "allocate", team, "--plot", "a.html")
    assert "NOT proven optimal" in Path("a.html").read_text()


@pytest.mark.parametrize(("width", "tables"), [(50, 3), (80, 2), (100, 1), (200, 1)])
def test_no_name_or_number_is_cut_in_a_narrow_terminal(
    width: int,
    tables: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    resources = ["cpu", "memory", "gpu", "disk", "network", "licences"]
    amounts = ", ".join(f"{r}: {i + 3}" for i, r in enumerate(resources))
    groups = "\n".join(
        f"  - {{name: rack-{i}-of-many, resources: {{{amounts}}}}}" for i in range(3)
    )
    (tmp_path / "wide.yaml").write_text(
        f"cluster:\n{groups}\nusers: [{{name: u, demand: {{{amounts}}}}}]\n"
    )
    monkeypatch.setattr("drfh.cli.render.console._PIPE_WIDTH", width)
    monkeypatch.setenv("COLUMNS", str(width))
    code, out, _ = run(capsys, "allocate", str(tmp_path / "wide.yaml"))
    assert code == 0
    assert "…" not in out
    for name in resources:
        assert name in out
    assert out.count("rack-2-of-many  ") == tables  # as many resources side by side as fit
    assert all(len(line) <= width for line in out.splitlines() if "rack-" in line and "%" in line)


def test_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Pipe:
        buffer = io.BytesIO(TEAM.encode())

    monkeypatch.setattr("sys.stdin", Pipe())
    assert json.loads(run(capsys, "allocate", "-", "--json")[1])["servers"] == 4


def test_the_exported_certificate_can_be_checked_by_anybody(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Recompute every bound from the JSON and the file alone, by the formula in the docs."""
    file = tmp_path / "pinned.yaml"
    file.write_text(
        """
cluster:
  - {name: a, count: 6, resources: {cpu: 4, memory: 8, gpu: 1}}
  - {name: b, count: 2, resources: {cpu: 16, memory: 4}}
users:
  - {name: pinned, demand: {cpu: 1, memory: 1}, servers: a/0}
  - {name: some, demand: {cpu: 1, gpu: 1}, servers: [a/1, a/2]}
  - {name: free, demand: {cpu: 2, memory: 1}}
"""
    )
    data = json.loads(run(capsys, "allocate", str(file), "--json")[1])
    servers = {f"a/{i}": {"cpu": 4, "memory": 8, "gpu": 1} for i in range(6)}
    servers |= {f"b/{i}": {"cpu": 16, "memory": 4} for i in range(2)}
    total = {r: sum(s.get(r, 0) for s in servers.values()) for r in ("cpu", "memory", "gpu")}
    users = {
        "pinned": ({"cpu": 1, "memory": 1}, ["a/0"]),
        "some": ({"cpu": 1, "gpu": 1}, ["a/1", "a/2"]),
        "free": ({"cpu": 2, "memory": 1}, list(servers)),
    }
    share = {u["user"]: u["share"] for u in data["users"]}
    held: set[str] = set()
    for stage in data["certificate"]["rounds"]:
        price = {}
        for label, prices in stage["prices"].items():
            group, _, inside = label.partition("/")
            first, _, last = inside.partition("-")
            for name in servers:
                index = int(name.partition("/")[2])
                whole = not inside or int(first) <= index <= int(last or first)
                if name.startswith(f"{group}/") and whole:
                    price[name] = prices
        worth = sum(
            price.get(name, {}).get(r, 0) * amount / total[r]
            for name, has in servers.items()
            for r, amount in has.items()
        )
        unit = {}
        for user, (need, allowed) in users.items():
            top = max(a / total[r] for r, a in need.items())
            unit[user] = min(
                sum(price.get(name, {}).get(r, 0) * a / total[r] / top for r, a in need.items())
                for name in allowed
                if all(servers[name].get(r, 0) > 0 for r in need)
            )
        spent = sum(unit[user] * share[user] for user in held)
        bound = (worth - spent) / sum(unit[u] for u in users if u not in held)
        assert bound == pytest.approx(stage["bound"], rel=1e-9)
        assert min(share[user] for user in stage["users"]) == pytest.approx(bound, rel=1e-8)
        held |= set(stage["users"])
    assert held == set(users)
