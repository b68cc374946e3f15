"""``drfh allocate`` and ``drfh tour`` as a user runs them."""

from __future__ import annotations

import csv
import io
import json
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
    assert "optimal, relative gap" in out


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


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--add", "10x"], "--add must look like '10x cpu=8,memory=512Gi'"),
        (["--add", "x cpu=4"], "--add must look like '10x cpu=8,memory=512Gi'"),
        (["--whole-tasks", "--verify"], "verify needs divisible tasks"),
        (["--add", "cpu=x"], "--add cpu must be a finite number"),
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
        (["--json", "--csv"], "--json must not be used together with --csv"),
        (["--save", "a.txt"], "--save must end in one of .json, .csv, .parquet"),
        (["--plot", "a.gif"], "--plot must end in one of .html, .svg, .png, .pdf"),
        (["--save", "no/such/a.json"], "path must be writable"),
        (["--mechanism", "drhf"], "mechanism must be one of drf, drfh, per-server-drf"),
        (["--method", "magic"], "method must be one of auto, closed-form, interior-point"),
        (["--method", "closed-form"], "method closed-form needs at most two demanded resources"),
        (
            ["--mechanism", "per-server-drf", "--method", "simplex"],
            "parameter of per-server-drf must be left out",
        ),
        (["--mechanism", "per-server-drf", "--verify"], "verify needs a mechanism with a"),
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
    assert "ok   relative gap" in out
    code, out, _ = run(capsys, "allocate", team, "--whole-tasks")
    assert code == 0
    assert "against divisible tasks" in out
    data = json.loads(run(capsys, "allocate", team, "--whole-tasks", "--json")[1])
    assert 0 <= data["loss"] <= 1
    assert data["divisible"]["certificate"]["closed"]


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
        "DRF, each server",
        "gpu",
        "checked from scratch: ok",
    ):
        assert expected in out
    assert "NOT proven" not in out
    data = json.loads(run(capsys, "tour", "--json")[1])
    assert all(answer["certificate"]["closed"] for answer in data.values())


def test_an_open_certificate_is_said_loudly(
    team: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from drfh.certificate import Certificate

    monkeypatch.setattr(Certificate, "closed", property(lambda self: False))
    _, out, _ = run(capsys, "allocate", team)
    assert "NOT proven optimal" in out


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "mechanism: nope",
            "team.yaml: mechanism must be one of drf, drfh, per-server-drf, got 'nope'",
        ),
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
