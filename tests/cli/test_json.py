"""Every ``--json`` has a version and follows its documented schema."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import typer

from drfh.cli import app, main
from drfh.files.output_schema import OUTPUTS, RECORDS, output_schema
from drfh.files.scenario_file import load_scenario, scenario_schema
from tests.support.outputs import check_output, closed

DATA = Path(__file__).parents[1] / "data"
Run = Callable[..., str]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: object) -> str:
        code = main([str(argument) for argument in (*arguments, "--json")])
        out, err = capsys.readouterr()
        assert code == 0, err
        return out

    return call


@pytest.mark.parametrize(
    "arguments",
    [
        ("paper-two-servers", "--add", "1x cpu=8,memory=8"),
        ("paper-two-servers", "--placement", "--expand"),
        ("claim-h-whole-tasks",),
        ("three-resources", "--mechanism", "drf"),
        ("gpu-cluster", "--mechanism", "nash"),
        ("gpu-cluster", "--mechanism", "ps-dsf"),
        ("tree-of-users",),
        ("--trace", f"kubernetes:{DATA / 'kubernetes-cluster.json'}"),
    ],
)
def test_allocate(run: Run, arguments: tuple[str, ...]) -> None:
    assert check_output("allocate", run("allocate", *arguments))["users"]


def test_allocate_with_kinds_and_warnings(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        "cluster:\n- {name: node, resources: {cpu: 8, memory: 64Gi}}\nusers:\n- name: ml\n"
        "  kinds:\n  - {name: web, demand: {cpu: 1, memory: 4}}\n"
        "  - {name: etl, demand: {cpu: 2, memory: 4Gi}, tasks: 1}\n"
    )
    data = check_output("allocate", run("allocate", file))
    assert [kind["kind"] for kind in data["users"][0]["kinds"]] == ["web", "etl"]
    assert data["warnings"]


def test_saved_json_is_what_is_printed(run: Run, tmp_path: Path) -> None:
    printed = json.loads(run("allocate", "paper-two-servers", "--save", tmp_path / "a.json"))
    saved = check_output("allocate", (tmp_path / "a.json").read_text())
    assert saved == printed


def test_compare_and_audit(run: Run) -> None:
    check_output("compare", run("compare", "paper-two-servers", "--mechanisms", "drfh,drf,tsf"))
    check_output("compare-list", run("compare", "--list"))
    some = ("--only", "fair,envy,resource,truthful", "--tries", 40)
    check_output("audit", run("audit", "paper-two-servers", *some))
    shown = run("audit", "paper-two-servers", "--show", "resource-monotone", *some)
    assert "scenario" in check_output("audit-show", shown)["counterexample"]
    check_output("audit-list", run("audit", "--list"))
    snapshot = f"kubernetes:{DATA / 'kubernetes-cluster.json'}"
    observed = check_output("audit", run("audit", "--trace", snapshot, "--only", "fair,feasible"))
    assert observed["trace"]["format"] == "kubernetes"
    assert {sentence["about"] for sentence in observed["answer"]["sentences"]} >= {"fair", "waste"}
    edited = run("audit", "--trace", snapshot, "--only", "feasible", "--add", "2x gpu-1")
    assert check_output("audit", edited)["answer_before"] == observed["answer"]


def test_a_mechanism_without_an_answer(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from drfh.auditor import comparison

    def broken(*_: Any) -> Any:
        raise ValueError("no answer")

    monkeypatch.setattr(comparison, "_answer", broken)
    data = check_output("compare", run("compare", "paper-two-servers"))
    assert data["mechanisms"][0]["why_not"] == "ValueError: no answer"


def test_simulate_and_report(run: Run, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    both = ("--policy", "best-fit-drfh,fifo", "--fair")
    figures = ("--figures", tmp_path / "figures", "--figure-format", "svg")
    data = check_output("simulate", run("simulate", "gpu-day", *both, "-o", runs))
    assert data["runs"][0]["fair"]["mean_distance"] >= 0
    data = check_output("simulate", run("simulate", "gpu-day", *figures))
    assert data["figures"]
    assert data["runs"][0]["directory"] is None
    check_output("simulate-list", run("simulate", "--list"))
    data = check_output("report", run("report", runs, "-o", tmp_path / "page.html", *figures))
    assert data["runs"] == ["best-fit-drfh", "fifo"]
    assert all(Path(file).is_file() for file in data["figures"])


def test_scenario(run: Run, tmp_path: Path) -> None:
    check_output("scenario-check", run("scenario", "check", "gpu-day"))
    check_output("scenario-check", run("scenario", "check", "paper-two-servers"))
    check_output("scenario-list", run("scenario", "list"))


def test_a_shown_scenario_is_a_scenario_file(run: Run, tmp_path: Path) -> None:
    shown = run("scenario", "show", "gpu-day")
    assert next(iter(json.loads(shown))) == "version"
    jsonschema.validate(json.loads(shown), scenario_schema())
    file = tmp_path / "day.json"
    file.write_text(shown)
    assert load_scenario(file) == load_scenario("gpu-day")
    file.write_text(shown.replace('"version": 1', '"version": 2'))
    assert main(["scenario", "check", str(file)]) == 2


def test_trace(run: Run, tmp_path: Path) -> None:
    made = tmp_path / "made"
    small = ("--users", 10, "--hours", 1, "--servers", 5)
    check_output("trace-generate", run("trace", "generate", "google-like", *small, "-o", made))
    check_output("trace-info", run("trace", "info", made))
    check_output("trace-info", run("trace", "info", DATA / "kubernetes-cluster.json"))
    check_output("trace-convert", run("trace", "convert", made, tmp_path / "again"))
    check_output("trace-compare", run("trace", "compare", made, made))
    check_output("trace-compare", run("trace", "compare", made, made, "--policy", "fifo"))
    check_output("trace-formats", run("trace", "formats"))


def test_tour(run: Run) -> None:
    assert check_output("tour", run("tour"))["simulations"]


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_explore(run: Run, monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    pytest.importorskip("nicegui", reason="needs the extra [web]: pip install 'drfh[web]'")
    from drfh.web.server import app as server

    class Quick:
        """A server that starts and ends at once."""

        def __init__(self, address: Any, listener: Any, *_: Any, on_start: Any, **__: Any) -> None:
            listener.close()
            self.run = on_start

    monkeypatch.setattr(server, "PageServer", Quick)
    options = ("--no-open", "--port", 0, "--host", host)
    assert ("token" in check_output("explore", run("explore", *options))) == (host == "0.0.0.0")


@pytest.mark.parametrize("name", OUTPUTS)
def test_schemas_are_schemas_and_printed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    jsonschema.Draft202012Validator.check_schema(output_schema(name))
    assert main(["scenario", "schema", name]) == 0
    assert json.loads(capsys.readouterr().out) == output_schema(name)


def test_every_record_is_used() -> None:
    used = {record for name in OUTPUTS for record in output_schema(name).get("$defs", {})}
    assert used == set(RECORDS)


def test_an_unknown_schema_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scenario", "schema", "alocate"]) == 2
    assert "did you mean allocate?" in capsys.readouterr().err


def test_a_field_without_a_description_is_found() -> None:
    data = {"version": 1, "page": "a.html", "runs": [], "surprise": 1}
    jsonschema.validate(data, output_schema("report"))  # for others it may have more
    with pytest.raises(jsonschema.ValidationError, match="surprise"):
        jsonschema.validate(data, closed(output_schema("report")))


def test_every_command_with_json_has_a_schema() -> None:
    found = set()

    def visit(command: Any, name: str) -> None:
        for child, entry in getattr(command, "commands", {}).items():
            visit(entry, f"{name}-{child}".lstrip("-"))
        if any("--json" in option.opts for option in command.params):
            found.add(name)

    visit(typer.main.get_command(app), "")
    # These two print a scenario file and a schema, which have one themselves.
    assert found - set(OUTPUTS) == {"scenario-show", "scenario-schema"}
