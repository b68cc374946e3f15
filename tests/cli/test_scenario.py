"""The command line around scenarios: what it prints, and that every failure is one line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import drfh
from drfh.cli import main
from drfh.cli import scenario as verb
from drfh.errors import SolverError
from drfh.files.scenario_file import load_scenario, scenario_schema, shipped_scenarios, shipped_text

SOURCE = Path(drfh.__file__).parents[1]
HEAVY = ("numpy", "polars", "altair", "pydantic", "numba", "highspy", "yaml")


def run(
    *words: str, stdout: int = subprocess.PIPE, **extra: str
) -> subprocess.CompletedProcess[str]:
    python = {"PYTHONPATH": str(SOURCE), "PYTHONUTF8": "1", "PYTHONUNBUFFERED": ""}
    environment = {**os.environ, **python, **extra}
    return subprocess.run(
        [sys.executable, "-m", "drfh", *words],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env=environment,
        timeout=60,
        check=False,
    )


def complaint(capsys: pytest.CaptureFixture[str], code: int, *words: str) -> str:
    """Run in this process; return the one line on stderr."""
    assert main(words) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("drfh: ")
    assert err.count("\n") == 1
    return err.removeprefix("drfh: ").rstrip("\n")


def test_help_imports_nothing_heavy() -> None:
    code = f"import sys, drfh.cli; sys.exit(str([m for m in {HEAVY} if m in sys.modules]))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert done.stderr.strip() == "[]"
    help_ = run("--help")
    assert help_.returncode == 0
    assert "scenario" in help_.stdout


def test_no_words_show_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "Usage: drfh" in capsys.readouterr().out
    assert main(["scenario"]) == 2
    assert "Usage: drfh scenario" in capsys.readouterr().out


@pytest.mark.parametrize("word", ["check", "list", "show", "schema"])
def test_every_verb_has_an_example(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scenario", word, "--help"]) == 0
    text = capsys.readouterr().out
    assert f"Example: drfh scenario {word}" in text
    assert "--json" in text


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"drfh {drfh.__version__}\n"


# --- the verbs ----------------------------------------------------------------------------------


def test_check_says_what_is_in_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scenario", "check", "gpu-cluster"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert lines[:3] == [
        "A research cluster with GPUs",
        "70 servers in 5 groups: cpu 5312, memory 39.5Ti, gpu 144",
        "6 users, mechanism drfh",
    ]
    assert "training cpu 8, memory 96Gi, gpu 1 3 no end gpu=a100|h100" in lines
    assert lines[-1] == "OK"


def test_check_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scenario", "check", "paper-two-servers", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "version": 1,
        "file": "paper-two-servers",
        "title": "Two servers, two users",
        "servers": 2,
        "groups": 2,
        "resources": {"cpu": 14, "memory": 14},
        "users": ["ann", "bob"],
        "mechanism": "drfh",
        "warnings": [],
    }


def test_check_warns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(
        "cluster: [{resources: {cpu: 8, memory: 64Gi}}]\n"
        "users: [{name: '[red]ann[/red]', demand: {cpu: 1, memory: 4}}]\n"
    )
    assert main(["scenario", "check", str(path)]) == 0
    out = capsys.readouterr().out
    assert "[red]ann[/red]" in out  # a name is not markup
    warning = "memory 4 is 4 bytes where servers have 64Gi; did you mean 4Gi?"
    assert f"warning: users[0] ([red]ann[/red]): {warning}\n" in out
    assert out.endswith("OK, with 1 warning\n")
    assert main(["scenario", "check", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["warnings"] == [
        f"users[0] ([red]ann[/red]): {warning}"
    ]


def test_check_of_many_users_is_short(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.yaml"
    users = "".join(f"- {{name: u{i}, demand: {{cpu: 9}}}}\n" for i in range(50))
    path.write_text(f"cluster: [{{resources: {{cpu: 8}}}}]\nusers:\n{users}")
    assert main(["scenario", "check", str(path)]) == 0
    out = capsys.readouterr().out
    assert "and 30 more users" in out
    assert "and 30 more warnings" in out


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scenario", "list"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in shipped_scenarios())
    assert main(["scenario", "list", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == {"version": 1, "scenarios": shipped_scenarios()}


@pytest.mark.parametrize("name", shipped_scenarios())
def test_show(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scenario", "show", name]) == 0
    assert capsys.readouterr().out == shipped_text(name)
    assert main(["scenario", "show", name, "--json"]) == 0
    (tmp_path / "a.json").write_text(capsys.readouterr().out)
    assert load_scenario(tmp_path / "a.json") == load_scenario(name)


def test_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scenario", "schema"]) == 0
    assert json.loads(capsys.readouterr().out) == scenario_schema()


# --- every failure is one line ------------------------------------------------------------------


def test_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert complaint(capsys, 2, "scenarios").startswith("No such command 'scenarios'")
    line = complaint(capsys, 2, "scenario", "check", "--jsno", "x")
    assert line.startswith("No such option: --jsno")
    assert line.endswith("(see drfh scenario check --help)")
    assert complaint(capsys, 2, "scenario", "check").startswith("Missing argument")
    line = complaint(capsys, 2, "scenario", "show", "paper-dynamo")
    assert line.startswith("scenario must be one of claim-a-zero-demands, ")
    assert line.endswith("(did you mean paper-dynamic?), got 'paper-dynamo'")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cluster: [{resources: {cpu: 1}}]\nusers:\n- name: a\n  demand: {cpu: 1}\n  wight: 1\n",
         "a.yaml, line 5: users[0].wight is not a known key (did you mean weight?)"),
        ("cluster: [{resources: {cpu: 1}}]\nusers:\n- name: a\n  demand: {gpu: 1}\n",
         "a.yaml, line 4: users[0].demand.gpu must be a resource that some server has "
         "(these are cpu), got 1.0"),
        ("\t", "a.yaml: the file must not be empty"),
        ("[" * 10_000, "a.yaml, line 1: the file must be nested at most 20 deep"),
    ],
)  # fmt: skip
def test_bad_files(
    text: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.yaml").write_text(text)
    assert complaint(capsys, 2, "scenario", "check", "a.yaml") == message
    assert complaint(capsys, 2, "scenario", "check", "a.yaml", "--json") == message


def test_bad_files_as_a_process(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nope"):
        done = run("scenario", "check", str(path))
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"drfh: {path}: the file must ")
        assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (SolverError("no proof\nfound"), 1, "no proof found"),
        (
            RuntimeError("two\nlines"),
            1,
            "internal error: RuntimeError: two lines; "
            "run again with DRFH_DEBUG=1 for the traceback",
        ),
        (
            RecursionError(),
            1,
            "internal error: RecursionError; run again with DRFH_DEBUG=1 for the traceback",
        ),
        (OSError(28, "No space left on device", "x"), 1, "No space left on device: x"),
    ],
)
def test_failures_of_ours(
    error: Exception,
    code: int,
    line: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.delenv("DRFH_DEBUG", raising=False)
    monkeypatch.setattr(verb, "print_json", fail)
    assert complaint(capsys, code, "scenario", "list", "--json") == line
    if "internal" in line:
        monkeypatch.setenv("DRFH_DEBUG", "1")
        assert main(["scenario", "list", "--json"]) == 1
        assert "Traceback" in capsys.readouterr().err


def test_interrupted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(verb, "print_json", interrupt)
    assert main(["scenario", "list", "--json"]) == 130
    assert capsys.readouterr().out == ""


def test_a_reader_that_leaves_early_is_no_error() -> None:
    read, write = os.pipe()
    os.close(read)
    for words in (["scenario", "schema"], ["--version"]):  # more and less than one buffer
        done = run(*words, stdout=write)
        assert done.stderr == ""
        assert done.returncode == 141
    os.close(write)


def test_output_that_fails_at_the_very_end() -> None:
    # print leaves its text in the buffer, where only the last flush meets the closed pipe.
    code = (
        "import sys, drfh.cli as c, drfh.cli.scenario as s; s._print_json = lambda d: print('x');"
        "sys.exit(c.main(['scenario', 'schema']))"
    )
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-c", code],
        stdout=write,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONUNBUFFERED": ""},
        check=False,
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk() -> None:
    with open("/dev/full", "wb") as full:
        for words in (["scenario", "schema"], ["--version"]):
            done = run(*words, stdout=full.fileno())
            assert done.returncode == 1
            assert "No space left on device" in done.stderr
            assert done.stderr.count("\n") == 1


def test_a_terminal_that_cannot_show_a_character(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    text = "title: a ≥ b\ncluster: [{resources: {cpu: 1}}]\nusers: [{name: ä, demand: {cpu: 1}}]\n"
    path.write_text(text, encoding="utf-8")
    done = run("scenario", "check", str(path), PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("a ? b\n")
