"""``drfh audit``, ``allocate`` and ``compare`` on a snapshot of a live cluster."""

from __future__ import annotations

import gzip
import io
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from drfh.cli import main
from drfh.files.scenario_file import shipped_text
from tests.support.paths import DATA
from tests.support.snapshots import large_snapshot

CLUSTER = DATA / "kubernetes-cluster.json"
SLURM = f"slurm:{DATA / 'slurm-22.05-sinfo.json'},{DATA / 'slurm-22.05-squeue.json'}"
TRAIN = "research/cpu 16, memory 64Gi, nvidia.com/gpu 4"


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    code = main([str(word) for word in words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_audit_of_what_runs_now(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "audit", "--trace", f"kubernetes:{CLUSTER}")
    assert code == 0
    assert "observed allocation, 3 users on 6 servers" in out
    assert "50.0 % from fair: batch has a dominant share of 8.9 %, 17.8 % in the DRFH" in (
        " ".join(out.split())
    )
    assert "✔   feasible" in out
    assert "✔   non-wasteful" in out
    assert "pods that ended, left out: 1" in err
    assert "pods that wait" in err
    assert "that are not in the snapshot" not in err  # a count of 0 is not shown
    assert "note: a snapshot has no run times" in err
    assert "split by kind" not in err


def test_audit_of_a_mechanism_on_the_same_users(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("audit", "--trace", CLUSTER, "--only", "feasible,fair,truthful", "--tries", 50)
    code, out, _ = run(capsys, *words, "--mechanism", "drfh")
    assert code == 0
    assert "drfh, 3 users on 6 servers: 0 of 3 properties fail" in out


KEYS = {"format", "source", "window", "options", "counts", "oddities", "remarks", "nodes"}


def test_json_has_the_account_of_the_reading(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--trace", SLURM, "--set", "user_by=account", "--set", "held=keep", "--json")
    for verb, more in (
        ("audit", ("--only", "feasible")),
        ("allocate", ()),
        ("compare", ("--mechanisms", "drfh")),
        ("simulate", ("--until", "10")),
    ):
        code, out, _ = run(capsys, verb, *words, *more)
        assert code == 0, verb
        account = json.loads(out)["trace"]
        assert account["format"] == "slurm"
        assert account["options"] == {"user_by": "account", "draining": "used", "held": "keep"}
        assert account["counts"]["tasks running"] == 8
        assert account["oddities"] == []
        assert set(account) == KEYS
        assert any("run times" in remark for remark in account["remarks"])
    code, out, _ = run(capsys, "allocate", "paper-two-servers", "--json")
    assert "trace" not in json.loads(out)


def test_split_or_mean(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("audit", "--trace", CLUSTER, "--only", "feasible", "--json")
    users = {}
    for option in ((), ("--split",), ("--no-split",)):
        code, out, err = run(capsys, *words, *option)
        assert code == 0
        users[option] = list(json.loads(out)["tasks"])
    assert [name.partition("/")[0] for name in users[()]] == ["web", *["research"] * 3, "batch"]
    assert len(users["--split",]) == 5  # web and batch have one kind of task each
    assert users["--no-split",] == ["web", "research", "batch"]
    assert "research runs 2 tasks, counted as 0.324" in err


def test_what_if_on_a_live_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(
        capsys, "allocate", "--trace", CLUSTER, "--add", "1x gpu-1", "--tasks", "web=400"
    )
    assert code == 0, err
    assert "web" in out
    code, out, _ = run(capsys, "allocate", "--trace", CLUSTER, "--explain", "batch")
    assert out.strip() == "batch has all of its 4 tasks."


def shares(capsys: pytest.CaptureFixture[str], *words: object) -> dict[str, float]:
    code, out, err = run(capsys, "allocate", "--trace", CLUSTER, "--json", *words)
    assert code == 0, err
    return {user["user"]: user["share"] for user in json.loads(out)["users"]}


def test_weights_of_teams(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """With more web tasks than fit, both teams that may use the general nodes are short."""
    scarce = ("--tasks", "web=400", "--tasks", "batch=400")
    even = shares(capsys, *scarce)
    light = shares(capsys, *scarce, "--weight", "batch=0.25")
    assert light["batch"] < 0.9 * even["batch"]
    assert light["web"] > 1.01 * even["web"]
    listed = tmp_path / "weights.yaml"
    listed.write_text("batch: 0.25\nabsent: 2\n")
    assert shares(capsys, *scarce, "--weights", listed) == light
    assert shares(capsys, *scarce, "--weights", listed, "--weight", "batch=1") == even
    for verb, more in (
        ("allocate", ()),
        ("compare", ("--mechanisms", "drfh")),
        ("audit", ("--only", "fair")),
        ("simulate", ("--until", "10")),
    ):
        words = (verb, "--trace", CLUSTER, "--weights", listed, "--weight", "web=0.5", *more)
        code, out, err = run(capsys, *words)
        assert code == 0, err
        assert "warning: weights of nobody who is here: absent" in err
        code, _, err = run(capsys, verb, "--trace", CLUSTER, "--weight", "wbe=2", *more)
        assert code == 2
        assert "did you mean web?" in err
        if verb == "simulate":
            assert ["web", "0.5"] in [line.split()[:2] for line in out.splitlines()]
    split = ("--split", "--weight", "research=2")
    assert f"research ({TRAIN.partition('/')[2]})" in shares(capsys, *split)


def test_is_it_still_fair_after_buying(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("audit", "--trace", CLUSTER, "--only", "fair,feasible")
    code, out, _ = run(capsys, *words, "--add", "2x gpu-1")
    assert code == 0
    assert "batch has a dominant share of 4.6 %, 9.2 % in the DRFH optimum" in " ".join(out.split())
    assert "what runs now, 3 teams on 8 servers after the edits" in out
    assert "\nBefore the edits: Not fair: 47.5 % of all fair shares is missing, " in out
    assert "3 users on 8 servers" in out
    code, out, _ = run(capsys, *words, "--add", "2x gpu-1", "--json")
    data = json.loads(out)
    assert data["answer_before"]["missing"] == pytest.approx(0.4753, abs=1e-4)
    assert data["answer"]["missing"] != data["answer_before"]["missing"]
    code, out, err = run(capsys, *words, "--remove", "general-2", "--demand", "web:cpu=0.5")
    assert code == 0
    assert "note: what runs on servers that are removed waits again" in err
    assert "3 users on 5 servers" in out
    words = ("compare", "--trace", CLUSTER, "--mechanisms", "drfh,drf")
    code, out, _ = run(capsys, *words, "--remove", "general-2", "--tasks", "web=9")
    assert code == 0
    assert "5 servers in 5 groups" in out
    code, _, err = run(capsys, *words, "--remove", "bigmem-1")
    assert code == 2
    assert "must match at least one server, got example.com/memory-gib>200 and" in err


def test_edits_of_kinds(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("allocate", "--trace", CLUSTER, "--json")
    code, out, _ = run(capsys, *words, "--tasks", f"{TRAIN}=0", "--verify")
    assert code == 0
    research = {u["user"]: u for u in json.loads(out)["users"]}["research"]
    assert research["share"] < 0.6  # it has all the GPUs with that kind
    code, _, err = run(capsys, *words, "--tasks", "research=2")
    assert code == 2
    assert "--tasks must name one kind of tasks of research: research/cpu 8" in err
    assert TRAIN in err
    code, _, err = run(capsys, *words, "--demand", "research/cpu 4, memory 200Gi:cpu=70")
    assert code == 0
    code, _, err = run(capsys, *words, "--demand", "research/cpu 5:cpu=8")
    assert code == 2
    assert "--demand must be one of" in err


def test_what_takes_one_kind_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "allocate", "--trace", CLUSTER, "--mechanism", "tsf")
    assert code == 2
    assert "tsf takes one kind a user" in err
    assert "--no-split takes the mean task, --split each kind as a user" in err
    assert run(capsys, "allocate", "--trace", CLUSTER, "--mechanism", "tsf", "--no-split")[0] == 0
    code, out, _ = run(capsys, "compare", "--trace", CLUSTER)
    assert code == 0
    assert "no answer for several kinds of tasks a user: per-server-drf, " in out


def test_compare(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "compare", "--trace", SLURM, "--mechanisms", "drfh,drf")
    assert code == 0
    assert "tasks running: 8; tasks queued: 5" in err
    assert "drf adds the servers up as if they were one" in out


def test_required_properties(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("audit", "--trace", CLUSTER, "--only", "feasible")
    assert run(capsys, *words, "--require", "feasible")[0] == 0
    assert run(capsys, *words, "--require", "fair")[0] == 3
    code, _, err = run(capsys, *words, "--require", "truthful")
    assert code == 2
    assert "must not ask of an observed allocation" in err


@pytest.mark.parametrize("verb", ["audit", "allocate", "compare"])
def test_mistakes_are_one_line(
    verb: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    idle = json.loads(CLUSTER.read_text())
    idle["items"] = [i for i in idle["items"] if i["spec"].get("nodeName") is None]
    (tmp_path / "idle.json").write_text(json.dumps(idle))
    for words, expected in (
        ((), f"FILE must be given, or --trace (see drfh {verb} --help)"),
        (("gpu-day", "--trace", CLUSTER), "FILE must not be given together with --trace"),
        (("gpu-day", "--set", "held=keep"), "--set must be used with a trace or a snapshot"),
        (("gpu-day", "--strict"), "--strict must be used with a trace or a snapshot"),
        (("gpu-day", "--split"), "--split must be used with a trace or a snapshot"),
        ((DATA / "slurm-22.05-squeue.json",), "nodes must be in the files (sinfo --json"),
        (("--trace", "no-such.json"), "path must be a file or directory that exists"),
        (("--trace", "kubernets:a.json"), "did you mean kubernetes?"),
        (("--trace", CLUSTER, "--set", "sytem=keep"), "did you mean system?"),
        (("--trace", CLUSTER, "--set", "system=all"), "system must be one of drop, keep, reserve"),
        (("--trace", DATA / "vectors.json"), "path must hold a trace in a known format"),
        (("--trace", f"slurm:{CLUSTER}"), "nodes must be in the files"),
    ):
        code, out, err = run(capsys, verb, *words)
        assert (code, out) == (2, ""), words
        assert expected in err, words
        assert err.count("\n") == 1, err
    if verb == "audit":
        code, _, err = run(capsys, verb, "--trace", tmp_path / "idle.json")
        assert code == 2
        assert "--mechanism must be used, as nothing runs in this snapshot" in err


def test_broken_entries_are_told_and_strict_stops(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    broken = json.loads(CLUSTER.read_text())
    broken["items"][-1]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "many"
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps(broken))
    code, _, err = run(capsys, "allocate", "--trace", path)
    assert code == 0
    assert "warning: 1 broken row, left out; the first: " in err
    assert "items[34] (demo/fpga): spec.containers[0].resources.requests.cpu must be" in err
    code, out, err = run(capsys, "allocate", "--trace", path, "--strict")
    assert (code, out) == (2, "")
    assert "got 'many'" in err


SCARCE = ("--tasks", "web=4000", "--tasks", "batch=4000")


def added(capsys: pytest.CaptureFixture[str], source: object, servers: str, *more: str) -> float:
    """Return how full new servers are, in cpu."""
    words = ("allocate", "--trace", source, "--json", "--add", servers, *more)
    code, out, err = run(capsys, *words)
    assert code == 0, err
    groups = {group["group"]: group for group in json.loads(out)["groups"]}
    return float(groups["added-1"]["cpu"])


def test_new_servers_are_admitted_by_the_rules_of_a_snapshot(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One node is tainted: new ones are not, so pods that tolerate nothing may use them."""
    assert added(capsys, CLUSTER, "5x cpu=8,memory=32Gi", *SCARCE) > 0.5
    assert added(capsys, CLUSTER, "5x cpu=8,memory=32Gi,taint:new", *SCARCE) == 0
    tolerated = "5x cpu=8,memory=32Gi,nvidia.com/gpu=4,taint:nvidia.com/gpu=present:NoSchedule"
    assert added(capsys, CLUSTER, tolerated, *SCARCE) > 0
    # Only batch selects the pool, and only web runs anywhere else.
    only_batch = ("--tasks", "batch=4000")
    assert added(capsys, CLUSTER, "5x cpu=8,memory=32Gi", *only_batch) < 0.1
    assert added(capsys, CLUSTER, "5x cpu=8,memory=32Gi,pool:general", *only_batch) > 0.5
    assert added(capsys, CLUSTER, "5x cpu=8,memory=32Gi,like=general-2", *only_batch) > 0.5


def test_new_servers_of_a_slurm_partition(capsys: pytest.CaptureFixture[str]) -> None:
    more = ("--no-split", "--tasks", "cho=100")
    assert added(capsys, SLURM, "5x cpu=8,memory=32Gi", *more) == 0
    code, _, err = run(capsys, "allocate", "--trace", SLURM, "--add", "5x cpu=8,memory=32Gi")
    assert code == 0
    assert "warning: added-1: nobody may use it: --add takes labels" in err
    words = ("allocate", "--trace", SLURM, "--add", "5x cpu=8,memory=32Gi", "--json")
    assert any(
        "nobody may use it" in text for text in json.loads(run(capsys, *words)[1])["warnings"]
    )
    assert added(capsys, SLURM, "5x cpu=32,memory=512Gi,partition/main:yes", *more) > 0.5
    assert added(capsys, SLURM, "5x like=cpu01", "--tasks", "ann/cpu 4, memory 8Gi=99") > 0.5
    code, _, err = run(capsys, "allocate", "--trace", SLURM, "--add", "5x cpu=8,like=cpu99")
    assert code == 2
    assert "--add like must be one of" in err


def test_what_is_a_name_and_no_rule_is_said(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    _, _, err = run(capsys, "allocate", "--trace", SLURM)
    assert "note: tasks that name nodes: 1; names admit no new nodes" in err
    document = json.loads(CLUSTER.read_text())
    general = next(i for i in document["items"] if i["metadata"]["name"] == "general-1")
    general["spec"]["taints"] = [{"key": "late", "effect": "NoSchedule"}]
    path = tmp_path / "late.json"
    path.write_text(json.dumps(document))
    code, _, err = run(capsys, "audit", "--trace", path, "--only", "feasible")
    assert code == 0
    assert "pods that run where their rules would not let them start: " in err


class Input(io.TextIOWrapper):
    """Standard input that holds some bytes."""

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data))


@pytest.mark.parametrize("words", [("-",), ("--trace", "-"), ("--trace", "kubernetes:-")])
def test_a_snapshot_on_standard_input(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for data in (CLUSTER.read_bytes(), gzip.compress(CLUSTER.read_bytes())):
        monkeypatch.setattr("sys.stdin", Input(data))
        code, out, err = run(capsys, "audit", *words, "--only", "fair")
        assert code == 0, err
        assert out.startswith("kubernetes: standard input\nwhat runs now, 3 teams on 6 servers\n")
        assert "\nobserved allocation, 3 users" in out


def test_kubectl_piped_into_audit(tmp_path: Path) -> None:
    """A stand-in for kubectl prints a fixture."""
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(f"#!/bin/sh\ncat {CLUSTER}\n")
    kubectl.chmod(0o755)
    line = f"kubectl get nodes,pods -A -o json | {sys.executable} -m drfh audit - --only fair"
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = subprocess.run(
        line, shell=True, env={**os.environ, "PATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "✘   fair" in done.stdout


def test_every_source_is_known_by_its_content(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    scenario = shipped_text("paper-two-servers")
    slurm = b"".join(path.read_bytes() for path in sorted(DATA.glob("slurm-22.05-s*.json")))
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables/servers.csv").write_text("name,count,cpu\na,2,4\n")
    (tmp_path / "tables/jobs.csv").write_text("user,job,duration,cpu\nann,1,60,2\n")
    named = tmp_path / "cluster.txt"
    named.write_bytes(CLUSTER.read_bytes())
    for data, words, first in (
        (scenario.encode(), ("-",), "Two servers, two users"),
        (scenario.encode(), ("--trace", "-"), "Two servers, two users"),
        (slurm, ("-",), "slurm: standard input"),
        (slurm, ("--trace", "slurm:-"), "slurm: standard input"),
        (b"", (named,), f"kubernetes: {named}"),
        (b"", (f"kubernetes:{named}",), f"kubernetes: {named}"),
        (b"", (tmp_path / "tables",), f"tables: {tmp_path / 'tables'}"),
    ):
        monkeypatch.setattr("sys.stdin", Input(data))
        code, out, err = run(capsys, "allocate", *words)
        assert code == 0, err
        assert out.splitlines()[0] == first
    for wrong, error in (
        (("allocate", "-"), "-: the file must not be empty"),
        (("audit", "-", "--observed", "-"), "--observed must not be standard input too"),
    ):
        monkeypatch.setattr("sys.stdin", Input(b""))
        code, _, err = run(capsys, *wrong)
        assert code == 2
        assert error in err


def test_nodes_of_one_shape_are_one_group(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A cluster of real size: read, allocated and shown in groups."""
    path = tmp_path / "large.json"
    path.write_text(json.dumps(large_snapshot()))
    code, out, _ = run(capsys, "allocate", "--trace", path, "--verify", "--json")
    assert code == 0
    data = json.loads(out)
    assert {group["group"]: group["servers"] for group in data["groups"]} == {
        "general-*": 522,
        "highmem-*": 174,
        "gpu-*": 130,
        "spot-*": 44,
    }
    assert len(data["users"]) == 40
    assert data["certificate"]["closed"]
    assert data["trace"]["nodes"]["spot-*"][:2] == ["spot-0000", "spot-0001"]
    code, out, _ = run(capsys, "allocate", "--trace", path, "--expand", "--csv")
    assert code == 0
    assert "gpu-0007" in out
    assert "*" not in out
    words = ("audit", "--trace", path, "--only", "feasible")
    code, out, err = run(capsys, *words, "--remove", "general-0003", "--remove", "gpu-*:30")
    assert code == 0
    assert "40 users on 839 servers" in out
    assert "✔   feasible" in out
    assert "note: what runs on servers that are removed waits again: " in err


def test_a_counterexample_of_a_snapshot_runs_again(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for source, names in ((CLUSTER, ("envy-free", "fair", "pareto")), (SLURM, ("fair", "pareto"))):
        for name in names:
            saved = tmp_path / f"{name} here.yaml"
            words = ("audit", "--trace", source, "--show", name, "--save", saved)
            code, out, err = run(capsys, *words)
            assert code == 0, err
            found = out.splitlines()[1]
            again = shlex.split(out.splitlines()[-1].partition("again: drfh ")[2])
            code, out, err = run(capsys, *again, "--json")
            assert code == 0, err
            (finding,) = json.loads(out)["findings"]
            assert (finding["property"], finding["text"]) == (name, found)
            assert "rule:" in saved.read_text()
            assert run(capsys, "allocate", saved, "--verify")[0] == 0


def test_the_answer_comes_first(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "audit", CLUSTER, "--only", "fair,truthful")
    assert code == 0
    lines = out.splitlines()
    assert lines[1] == "what runs now, 3 teams on 6 servers"
    head = ["team", "has", "now", "fair", "difference", "largest", "in", "limited", "by"]
    assert next(line.split() for line in lines if line.startswith(" team")) == head
    worst = next(line.split() for line in lines if line.startswith(" research"))
    assert worst == [
        *("research", "52.1", "%", "100.0", "%", "-47.9", "points"),
        *("nvidia.com/gpu", "nvidia.com/gpu", "on", "gpu-1"),
    ]
    order = ("Not fair: 47.5 % of all", "Short: ", "Wasted: ", "Misreporting: ", "What would ")
    places = [out.index(f"\n{start}") for start in order]
    assert places == sorted(places)
    assert places[-1] < out.index("\nobserved allocation, 3 users on 6 servers: 1 of 1 ")
    code, out, _ = run(capsys, "audit", CLUSTER, "--show", "fair")
    assert out.startswith("✘ fair: fails\n")  # no more than what is asked for


def test_the_answer_of_a_large_cluster(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "large.json"
    path.write_text(json.dumps(large_snapshot()))
    code, out, _ = run(capsys, "audit", path, "--only", "feasible")
    assert code == 0
    assert "what runs now, 40 teams on 870 servers" in out
    assert sum(line.startswith(" team-") for line in out.splitlines()) == 12
    assert "… and 28 teams nearer to fair (--json has them)" in out
    assert "nvidia.com/gpu on the 130 gpu-* servers" in out
    code, out, _ = run(capsys, "audit", path, "--only", "feasible", "--json")
    teams = json.loads(out)["answer"]["teams"]
    assert len(teams) == 40
    differences = [team["difference"] for team in teams]
    assert differences == sorted(differences)


def test_a_team_explained(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "audit", CLUSTER, "--explain", "research")
    assert code == 0
    assert out.startswith("research has a share of 52.1 % now, 100.0 % in the fair allocation")
    assert " tasks " in out
    assert "in the fair allocation" in out
    code, out, _ = run(capsys, "audit", CLUSTER, "--explain", "research", "--json")
    team = json.loads(out)
    assert team["team"] == "research"
    assert sum(kind["tasks"] for kind in team["kinds"]) == pytest.approx(team["tasks"])
    code, _, err = run(capsys, "audit", CLUSTER, "--explain", "nobody")
    assert (code, "--explain must be one of batch, research, web" in err) == (2, True)
    code, _, err = run(capsys, "audit", "gpu-cluster", "--explain", "training")
    assert (code, "--explain must be about what runs now" in err) == (2, True)


@pytest.mark.parametrize(("limit", "expected"), [("40%", 3), ("0.4", 3), ("60%", 0)])
def test_a_limit_guards_a_pipeline(
    capsys: pytest.CaptureFixture[str], limit: str, expected: int
) -> None:
    """The worst off has half of its fair share."""
    code, _, _ = run(capsys, "audit", CLUSTER, "--only", "fair", "--require", f"fair={limit}")
    assert code == expected


def test_what_is_odd_about_new_servers(capsys: pytest.CaptureFixture[str]) -> None:
    add = ("--add", "2x cpu=8,mem=32Gi,gpu=1,memory=64")
    for verb in ("allocate", "audit"):
        words = ["--only", "feasible"] if verb == "audit" else []
        code, out, err = run(capsys, verb, CLUSTER, *add, *words, "--json")
        assert code == 0
        for text in (
            "added-1: nobody demands mem (did you mean memory?)",
            "added-1: nobody demands gpu (did you mean nvidia.com/gpu?)",
            "added-1: memory 64 is 64 bytes where servers have ",
        ):
            assert f"warning: {text}" in err
            assert any(text in warning for warning in json.loads(out)["warnings"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--remove", "general-2", "--remove", "general-2"], "--remove must name a node once"),
        (["--remove", "general-2:2"], "--remove must not count general-2, one node of general-*"),
        (["--remove", "gpu-1"], "--remove must leave a server with nvidia.com/gpu, which "),
        (["--add", "2x cpu=8,pool=batch"], "--add pool must be an amount (a label is pool:batch)"),
        (["--add", "2x gpu-9"], "--add must be one of "),
    ],
)
def test_edits_that_mean_something_else(
    capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    code, out, err = run(capsys, "allocate", CLUSTER, *words)
    assert (code, out) == (2, "")
    assert message in err


def test_placement_of_kinds(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "large.json"
    path.write_text(json.dumps(large_snapshot()))
    code, out, _ = run(capsys, "allocate", path, "--placement")
    assert code == 0
    assert next(line.split() for line in out.splitlines() if "user" in line) == [
        "user", "kind", "group", "tasks",
    ]  # fmt: skip


def test_a_page_says_what_was_edited(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    words = ("--only", "fair", "--add", "2x gpu-1", "--html", page)
    assert run(capsys, "audit", CLUSTER, *words)[0] == 0
    text = page.read_text()
    assert "After these edits: --add 2x gpu-1" in text
    assert "Before the edits: Not fair: 47.5 %" in text


def test_a_name_nearly_that_of_a_file_here(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cluster.json").write_text("{}")
    code, _, err = run(capsys, "audit", "cluster.josn")
    assert (code, "did you mean cluster.json?" in err) == (2, True)
