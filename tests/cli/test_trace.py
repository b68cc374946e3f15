"""``drfh trace`` the way a user runs it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from drfh import Cluster, Job, Server, Workload
from drfh.cli import main
from drfh.cli.render.trace import print_trace
from drfh.files.reader import Ledger
from drfh.generators import GENERATORS, Generator
from drfh.traces import FORMATS, Trace, read
from drfh.traces.base import Option, TraceReading
from drfh.traces.tables.writer import write
from tests.traces.test_google2011 import files

SERVERS = "name,count,cpu,memory,label.zone\nbig,3,8,64Gi,a\nsmall,20,2,4Gi,\n"
JOBS = """\
user,job,arrival,duration,tasks,cpu,memory
ann,one,0,600,4,2,4Gi
ann,two,1800,1200,10,1,1Gi
bob,three,3600,300,2,0,2Gi
bob,four,4000,inf,1,1,1Gi
"""


@pytest.fixture
def day(tmp_path: Path) -> Path:
    folder = tmp_path / "monday"
    folder.mkdir()
    (folder / "servers.csv").write_text(SERVERS)
    (folder / "jobs.csv").write_text(JOBS)
    return folder


@pytest.fixture
def google(tmp_path: Path) -> Path:
    folder = tmp_path / "google"
    for name, content in files().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    code = main(["trace", *(str(word) for word in words)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def lines(text: str) -> list[str]:
    """Return the lines with single blanks."""
    return [" ".join(line.split()) for line in text.splitlines()]


def test_info(capsys: pytest.CaptureFixture[str], day: Path) -> None:
    code, out, err = run(capsys, "info", day)
    assert (code, err) == (0, "")
    found = lines(out)
    assert found[0] == f"tables: {day}"
    assert found[1].startswith("2 users ask for 17 tasks in 4 jobs: ")
    assert found[1].endswith(" of 23 servers")
    assert "4 tasks at the start; 1 task that never ends" in found[2]
    assert "23 servers of 2 shapes" in found
    assert "20 2 4Gi 87.0 % ████████▊" in found
    assert "3 8 64Gi 13.0 % █▎ zone=a" in found
    assert any(line.startswith("cpu 64 ") for line in found)
    assert any(line.startswith("memory 272Gi ") for line in found)
    assert "duration 5 min 20 min 15.6 min 20 min 20 min 20 min" in found
    assert "job size 1 2 4.25 10 10 10" in found
    assert any(line.startswith("ann 2 14 ") for line in found)
    assert not any("broken" in line for line in found)


def test_info_as_json(capsys: pytest.CaptureFixture[str], day: Path) -> None:
    code, out, err = run(capsys, "info", f"tables:{day}", "--json")
    assert (code, err) == (0, "")
    data = json.loads(out)
    assert (data["users"], data["jobs"], data["tasks"], data["servers"]) == (2, 4, 17, 23)
    assert data["endless_tasks"] == 1
    assert data["shapes"][1]["labels"] == ["zone=a"]
    assert data["options"]["sample"] == 1
    assert data["heaviest_users"][0]["user"] == "ann"
    steps = data["load_over_time"]
    assert len(steps["time"]) == len(steps["load.cpu"]) > 100
    area = sum(
        (end - time) * demand
        for time, end, demand in zip(steps["time"], steps["end"], steps["demand.cpu"], strict=True)
    )
    assert area == pytest.approx(4 * 2 * 600 + 10 * 1200)


def test_options_of_the_format(capsys: pytest.CaptureFixture[str], day: Path) -> None:
    data = json.loads(run(capsys, "info", day, "--hours", 0.5, "--users", "ann", "--json")[1])
    assert (data["users"], data["tasks"]) == (1, 14)
    data = json.loads(run(capsys, "info", day, "--set", "users=bob", "--json")[1])
    assert (data["users"], data["tasks"]) == (1, 3)
    data = json.loads(run(capsys, "info", day, "--start", 1, "--json")[1])
    assert data["tasks"] == 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--hours", "0"], "--hours must be > 0, got 0"),
        (["--sample", "2"], "--sample must be a part of all jobs, > 0 and ≤ 1, got 2.0"),
        (["--users", "eve"], "--users must name users of the trace (2 users), got 'eve'"),
        (["--set", "hours"], "--set must be NAME=VALUE (see drfh trace formats), got 'hours'"),
        (["--set", "hour=2"], "option of tables must be one of"),
        (["--plot", "a.gif"], "--plot must end in one of .html, .svg, .png, .pdf, got 'a.gif'"),
        (["--plot", "none/a.png"], "--plot must be in a folder that exists, got 'none/a.png'"),
        (["--hours", "x"], "--hours"),
    ],
)
def test_wrong_options(
    capsys: pytest.CaptureFixture[str], day: Path, words: list[str], message: str
) -> None:
    code, out, err = run(capsys, "info", day, *words)
    assert (code, out) == (2, "")
    assert err.startswith("drfh: ")
    assert message in err
    assert err.count("\n") == 1


def test_wrong_sources(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(capsys, "info", "nowhere")[2] == (
        "drfh: path must be a file or directory that exists, got 'nowhere'\n"
    )
    assert "(did you mean tables?)" in run(capsys, "info", "table:nowhere")[2]
    assert "must not be an empty directory" in run(capsys, "info", tmp_path)[2]
    (tmp_path / "notes.txt").write_text("nothing")
    assert "known format" in run(capsys, "info", tmp_path)[2]


def test_quirks_are_shown_with_their_place(capsys: pytest.CaptureFixture[str], day: Path) -> None:
    text = JOBS.replace("bob,three,3600,300", "bob,three,soon,300")
    (day / "jobs.csv").write_text(text)
    code, out, err = run(capsys, "info", day)
    assert (code, err) == (0, "")
    assert "1 broken row, left out" in out
    assert "jobs.csv, line 4: arrival" in out
    code, out, err = run(capsys, "info", day, "--strict")
    assert (code, out) == (2, "")
    assert "jobs.csv, line 4: arrival" in err
    assert json.loads(run(capsys, "info", day, "--json")[1])["oddities"][0]["count"] == 1


def test_many_shapes_and_users(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    rows = [f"s{i},{i + 1},{i + 1}" for i in range(14)]
    (folder / "servers.csv").write_text("\n".join(["name,count,cpu", *rows]) + "\n")
    rows = [f"u{i},60,1" for i in range(30)]
    (folder / "jobs.csv").write_text("\n".join(["user,duration,cpu", *rows]) + "\n")
    out = run(capsys, "info", folder)[1]
    assert "… and 4 shapes more, of 10 servers (--all shows them)" in out
    assert "… and 20 users more, with 20 tasks (--all shows them)" in out
    out = run(capsys, "info", folder, "--all")[1]
    assert "more" not in out
    assert "u29" in out


def test_a_trace_of_google(capsys: pytest.CaptureFixture[str], google: Path) -> None:
    code, out, err = run(capsys, "info", google)
    assert (code, err) == (0, "")
    assert out.startswith(f"google-2011: {google}\n")
    assert "preset=backlog_cut" in out
    assert "tasks left out: never ran" in out
    assert "servers: 1 leave" in out


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_convert(
    capsys: pytest.CaptureFixture[str], google: Path, tmp_path: Path, kind: str
) -> None:
    target = tmp_path / "out"
    words = ["convert", google, target, *(["--parquet"] if kind == "parquet" else [])]
    code, out, err = run(capsys, *words)
    assert (code, err) == (0, "")
    assert f"saved: {target} (" in out
    assert (target / f"jobs.{kind}").is_file()
    before, after = read("google-2011", google), read("tables", target)
    assert after.workload == before.workload
    assert after.cluster == before.cluster
    code, out, err = run(capsys, *words)
    assert (code, out) == (2, "")
    assert "DIR must be new (or be replaced with --force)" in err
    code, out, err = run(capsys, *words, "--force", "--json")
    assert (code, err) == (0, "")
    data = json.loads(out)
    assert data["tasks"] == before.workload.task_count
    assert data["directory"] == str(target)
    assert data["files"][f"jobs.{kind}"] == (target / f"jobs.{kind}").stat().st_size


def test_convert_never_replaces_what_is_not_ours(
    capsys: pytest.CaptureFixture[str], google: Path, tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("")
    code, out, err = run(capsys, "convert", google, tmp_path / "mine", "--force")
    assert (code, out) == (2, "")
    assert err.startswith("drfh: DIR must be new, empty, or have a trace.json")


def test_compare(capsys: pytest.CaptureFixture[str], day: Path, tmp_path: Path) -> None:
    other = tmp_path / "tuesday"
    other.mkdir()
    (other / "servers.csv").write_text(SERVERS)
    (other / "jobs.csv").write_text(JOBS.replace("600,4,2", "60,4,2").replace("inf", "10"))
    code, out, err = run(capsys, "compare", day, other, "--policy", "best-fit-drfh")
    assert (code, err) == (0, "")
    found = lines(out)
    assert found[0].startswith("monday: 2 users ask for 17 tasks")
    assert found[1].startswith("tuesday: 2 users ask for 17 tasks")
    # 0 of 16 and 5 of 17 tasks run for at most a minute.
    assert any(line.startswith("duration 29.4 % ███ ") for line in found)
    assert any("cpu of a task 0.0 %" in line for line in found)
    assert "tasks that never end, and are in no duration: 5.9 % | 0.0 %" in found
    assert "How full the servers are under best-fit-drfh" in out
    assert "points" in out


def test_compare_as_json(capsys: pytest.CaptureFixture[str], day: Path) -> None:
    code, out, err = run(capsys, "compare", day, day, "--json", "--policy", "first-fit-drfh")
    assert (code, err) == (0, "")
    data = json.loads(out)
    assert {row["distance"] for row in data["measures"]} == {0}
    assert data["simulated"]["policy"] == "first-fit-drfh"
    assert data["simulated"]["a"] == data["simulated"]["b"]
    assert set(data["simulated"]["points"].values()) == {0}
    assert data["notes"] == []


def test_the_policy_is_checked_before_the_long_work(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, err = run(capsys, "compare", "no", "where", "--policy", "best-fit-drhf")
    assert (code, out) == (2, "")
    assert "did you mean best-fit-drfh?" in err


def test_options_that_only_one_format_has(
    capsys: pytest.CaptureFixture[str], day: Path, google: Path
) -> None:
    words = ["compare", google, day, "--set", "zero_requests=drop", "--hours", "1"]
    code, out, err = run(capsys, *words)
    assert (code, err) == (0, "")
    assert out.count(f"note: zero_requests does not hold for {day}: tables has no such option") == 1
    assert "hours does not hold" not in out
    code, out, err = run(capsys, "compare", google, day, "--set", "colour=red")
    assert (code, out) == (2, "")
    assert "option of google-2011 must be one of" in err


def tiny(values: Mapping[str, Any], ledger: Ledger) -> TraceReading:
    ledger.remark("made up")
    jobs = [Job(f"u{i}", demand={"cpu": 1}, duration=60) for i in range(values["users"])]
    workload = Workload([f"u{i}" for i in range(values["users"])], jobs)
    return TraceReading(Cluster([Server({"cpu": values["size"]})]), workload, pl.DataFrame())


@pytest.fixture
def generator(monkeypatch: pytest.MonkeyPatch) -> None:
    options = (Option("users", "How many.", "whole", 3), Option("size", "Of a server.", "whole", 4))
    monkeypatch.setitem(GENERATORS, "tiny", Generator("A tiny one", tiny, options))


@pytest.mark.usefixtures("generator")
def test_generate(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    target = tmp_path / "made"
    words = ["generate", "tiny", "--users", "5", "--set", "size=9", "-o", target, "--parquet"]
    code, out, err = run(capsys, *words)
    assert (code, err) == (0, "")
    assert "5 users ask for 5 tasks in 5 jobs" in out
    assert "note: made up" in out
    trace = read("tables", target)
    assert len(trace.workload.users) == 5
    assert trace.cluster.totals.tolist() == [9]
    code, out, err = run(capsys, *words)
    assert "--output must be new (or be replaced with --force)" in err
    code, out, err = run(capsys, *words, "--force", "--json")
    assert json.loads(out)["users"] == 5


@pytest.mark.usefixtures("generator")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tinny", "-o", "x"], "NAME must be one of"),
        (["tiny"], "--output must be given"),
        (["tiny", "-o", "x", "--load", "2"], "option of tiny must be one of size, users"),
        (["tiny", "-o", "x", "--users", "-1"], "--users must be a whole number ≥ 0, got -1"),
        (["tiny", "-o", "x", "--set", "size"], "--set must be NAME=VALUE"),
    ],
)
def test_generate_with_wrong_words(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    words: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, "generate", *words)
    assert (code, out) == (2, "")
    assert message in err
    assert not list(tmp_path.iterdir())


def test_formats(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "formats")
    assert (code, err) == (0, "")
    for name in (*FORMATS, *GENERATORS):
        assert name in out
    data = json.loads(run(capsys, "formats", "--json")[1])
    assert set(data["formats"]) == set(FORMATS)
    assert set(data["generators"]) == set(GENERATORS)
    for name, one in data["formats"].items():
        assert [option["name"] for option in one["options"]] == [
            option.name for option in FORMATS[name].options
        ]
    preset = next(o for o in data["formats"]["google-2011"]["options"] if o["name"] == "preset")
    assert preset["default"] in preset["choices"]


def test_one_format(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "formats", "tables")
    assert (code, err) == (0, "")
    assert FORMATS["tables"].title in out
    assert "preset" not in out
    code, out, err = run(capsys, "formats", "tabels")
    assert code == 2
    assert "did you mean tables?" in err


def test_odd_names_are_printed_as_they_are(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    name = "[bold]ann[/] & <b>"
    cluster = Cluster([Server({"tasks": 2, "servers": 3}, name="[red]")])
    jobs = [Job(name, demand={"tasks": 1}, duration=5)]
    trace = Trace("mine", "", cluster, Workload([name], jobs), pl.DataFrame())
    with pytest.raises(ValueError, match="resource"):  # tables have a column of that name
        write(trace, tmp_path / "odd")
    cluster = Cluster([Server({"x y": 2}, name="[red]")])
    jobs = [Job(name, demand={"x y": 1}, duration=5)]
    write(Trace("mine", "", cluster, Workload([name], jobs), pl.DataFrame()), tmp_path / "odd")
    code, out, err = run(capsys, "info", tmp_path / "odd")
    assert (code, err) == (0, "")
    assert name in out
    assert "50 % of the x y of 1 server" in out


def test_a_snapshot(capsys: pytest.CaptureFixture[str]) -> None:
    servers = [Server({"cpu": 4}, name=f"n{i}", labels={"host": f"n{i}"}) for i in range(5)]
    jobs = [Job("ann", demand={"cpu": 1}, duration=math.inf, tasks=15)]
    running = pl.DataFrame({"user": ["ann"], "server": ["n0"], "cpu": [4.0]})
    trace = Trace(
        "kubernetes", "all.json", Cluster(servers), Workload(["ann"], jobs), pl.DataFrame(),
        running=running,
    )  # fmt: skip
    print_trace(trace)
    found = lines(capsys.readouterr().out)
    assert "at one instant" in found
    assert "5 4 100.0 % ██████████ 5 different" in found
    assert "cpu 20 75.0 % ███████▌ 20.0 % ██" in found


@pytest.mark.parametrize("suffix", ["html", "png", "svg", "pdf"])
def test_plots(capsys: pytest.CaptureFixture[str], day: Path, tmp_path: Path, suffix: str) -> None:
    start = {"html": b"<!doctype", "png": b"\x89PNG", "svg": b"<svg", "pdf": b"%PDF"}[suffix]
    picture = tmp_path / f"a.{suffix}"
    for words in (
        ["info", day],
        ["compare", day, day],
        ["convert", day, tmp_path / "tables"],
    ):
        code, out, err = run(capsys, *words, "--plot", picture)
        assert (code, err) == (0, "")
        assert f"saved: {picture}" in out
        assert picture.read_bytes().startswith(start)
        picture.unlink()


def test_the_published_trace_of_google(capsys: pytest.CaptureFixture[str], data: Path) -> None:
    """Every number of the data's README comes out."""
    code, out, err = run(capsys, "info", data / "clusterdata-2011-2", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    counts = found["counts"]
    assert (counts["rows"], counts["users"], counts["jobs"], counts["tasks"]) == (
        2_609_335, 567, 19_146, 614_019,
    )  # fmt: skip
    assert (counts["SUBMIT rows"], counts["SUBMIT rows at time 0"]) == (936_182, 144_339)
    assert (counts["machine rows"], counts["machines"], found["servers"]) == (
        37_780,
        12_583,
        12_477,
    )
    assert [
        (row["capacity.cpu"], row["capacity.memory"], row["servers"]) for row in found["shapes"]
    ] == [
        (0.5, 0.4995, 6672), (0.5, 0.2493, 3835), (0.5, 0.749, 992), (1, 1, 788),
        (0.25, 0.2498, 123), (0.5, 0.1241, 54), (0.5, 0.03085, 5), (0.5, 0.9678, 4),
        (1, 0.5, 3), (0.5, 0.06158, 1),
    ]  # fmt: skip
    assert found["users"] == 565
    assert found["tasks"] == counts["tasks kept"]
    assert 0.8 < found["load"]["cpu"]["mean"] < 1


def test_the_published_trace_of_alibaba(capsys: pytest.CaptureFixture[str], data: Path) -> None:
    code, out, err = run(capsys, "info", data / "alibaba_gpu_v2023_openb", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert (found["servers"], found["labelled_shapes"]) == (1_523, 27)
    assert found["counts"]["pods"] == 8_152
