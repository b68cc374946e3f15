"""The documentation is true: every example in it runs and prints what the page shows.

How a page is run, top to bottom, in one temporary folder and one Python namespace:

- ``python`` blocks are executed; with ``>>>`` they are doctests.
- ``console`` blocks: lines that start with ``$ `` run in bash, the lines below are their output.
  The exit code is 0, or the one in a trailing ``# exit 2``. A line ``...`` stands for any lines.
  At a line ``^C`` the command is interrupted, once it has printed what stands above.
- ``yaml`` and ``json`` blocks with ``title="NAME"`` are written to that file, for later blocks.
- A page that says ``<!-- run with: slurm -->`` is run with a real Slurm cluster beside it.
- ``kubectl get nodes,pods -A -o json`` is a stand-in that prints a small cluster.
- ``bash`` blocks are not run, so only ``make``, ``git clone`` and ``cd`` may stand there.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import json
import os
import pkgutil
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

import drfh
from drfh.files.scenario_file import scenario_schema
from drfh.files.validation import GroupModel, ScenarioModel, UserModel
from tests.engines.slurm.cluster import slurm_cluster

ROOT = Path(__file__).parents[1]
SOURCE = Path(drfh.__file__).parents[1]
RUN = [
    ROOT / "README.md",
    ROOT / "DESCRIPTION.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
# Pages that take long, for make test-slow; README and the tour do too, but everybody reads them.
LONG = {f"docs/{page}.md" for page in ("audit", "claims", "compare", "files", "kinds", "report",
                                       "simulate", "slurm", "snapshots", "traces")}  # fmt: skip
LINKED = [*RUN, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
ABOUT_THE_CODE = ("CONTRIBUTING.md", "docs/design.md")  # here, names with a slash are folders of it
INVENTED = {  # what a reader is to write, what a plan said, and what users have
    "src/drfh/mechanisms/my_rule.py",
    "audit/",
    "big/3",
}
SUFFIXES = (".py", ".js", ".css")
SNAPSHOT = ROOT / "tests/data/kubernetes-cluster.json"
LANGUAGES = {"python", "console", "bash", "yaml", "json", "text", "bibtex"}

_WITH_SLURM = "<!-- run with: slurm -->"
_INTERRUPT = "^C"
_LONGEST = 60.0  # seconds
_FENCE = re.compile(r"```(\w*)([^\n`]*)")
_EXIT = re.compile(r"#\s*exit (\d+)\s*$")
_TIME = re.compile(
    r"\d[\d,]*\.\d+ m?s\b|(?<=\"seconds\": )[\d.e-]+|(?<=  )\d+\.\d{3}(?=\s*$)", re.MULTILINE
)
_PORT = re.compile(r"(http://127\.0\.0\.1:)\d+")
_SMALL = re.compile(r"-?\b\d\.\d+e[+-]\d\d\b")
_LONG = re.compile(r"\b\d+\.\d{10,}(?:e[+-]?\d+)?\b")
_NOT_RUN = re.compile(r"((make( [a-z-]+)*|git clone \S+( \S+)?|cd \S+)?( *#.*)?)")
_SPAN = re.compile(r"`([^`\n]+)`")
_PATH = re.compile(r"[\w.*-]+(?:/[\w.*-]+)*/?")
_MODULE = re.compile(r"(?<![\w.*=/])drfh(?:\.[A-Za-z_]\w*)+(?!\.?\w)")
_LINK = re.compile(r"""\]\(([^)\s]+)(?: "[^"]*")?\)|(?:src|srcset|href)="([^"]+)\"""")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, what follows it, its text and the line it starts on."""

    language: str
    options: str
    text: str
    line: int


def blocks(text: str) -> Iterator[Block]:
    """Yield the fenced blocks of a page."""
    opened: re.Match[str] | None = None
    start, content = 0, list[str]()
    for number, line in enumerate(text.splitlines(), start=1):
        if opened is None:
            assert not line[:1].isspace() or not line.strip().startswith("```"), (
                f"line {number}: fences start in the first column"
            )
            if line.startswith("```"):
                opened = _FENCE.fullmatch(line)
                assert opened is not None, f"line {number}: {line}"
                start, content = number, []
        elif line == "```":
            yield Block(opened[1], opened[2].strip(), "\n".join(content) + "\n", start)
            opened = None
        else:
            content.append(line)
    assert opened is None, f"line {start}: the block never ends"


def outside_blocks(text: str) -> str:
    """Return a page without fenced blocks."""
    kept, inside = [], False
    for line in text.splitlines():
        if line.startswith("```"):
            inside = not inside
        elif not inside:
            kept.append(line)
    return "\n".join(kept)


def normal(text: str) -> list[str]:
    """Return lines without what differs from run to run: times, round-off, free ports.

    Blanks at line ends and all but one of several empty lines go too.
    """

    def tiny(found: re.Match[str]) -> str:
        return "TINY" if abs(float(found[0])) <= 1e-8 else found[0]

    text = _PORT.sub(r"\1PORT", text)
    text = _TIME.sub("TIME", text)
    text = _LONG.sub(lambda found: f"{float(found[0]):.9g}", text)
    text = _SMALL.sub(tiny, text)
    lines = [line.rstrip() for line in text.splitlines()]
    return [line for before, line in zip(["", *lines], lines, strict=False) if line or before]


def matches(shown: list[str], real: list[str]) -> bool:
    """Return whether the lines agree; ``...`` stands for any lines."""
    if not shown:
        return not real
    if shown[0].strip() == "...":
        return any(matches(shown[1:], real[start:]) for start in range(len(real) + 1))
    return bool(real) and shown[0] == real[0] and matches(shown[1:], real[1:])


def strip_blank(lines: list[str]) -> list[str]:
    """Return lines without blank ones at both ends."""
    while lines and not lines[0]:
        lines = lines[1:]
    while lines and not lines[-1]:
        lines = lines[:-1]
    return lines


def shell(folder: Path) -> dict[str, str]:
    """Return an environment with ``drfh``, the package under test, and a stand-in for kubectl."""
    commands = folder / ".commands"
    commands.mkdir()
    scripts = {
        "drfh": f'exec "{sys.executable}" -m drfh "$@"',
        "kubectl": f'[ "$*" = "get nodes,pods -A -o json" ] && exec cat "{SNAPSHOT}"',
    }
    for command, line in scripts.items():
        script = commands / command
        script.write_text(f"#!/bin/sh\n{line}\n")
        script.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{commands}{os.pathsep}{os.environ.get('PATH', '')}",
        "PYTHONPATH": str(SOURCE),
        "PYTHONUTF8": "1",
        "LC_ALL": "C.UTF-8",
        "NO_COLOR": "1",
    }
    for name in ("COLUMNS", "LINES", "DRFH_DEBUG", "FORCE_COLOR"):
        environment.pop(name, None)
    return environment


def run_commands(block: Block, environment: dict[str, str], folder: Path) -> None:
    """Run the commands of a console block and compare what they print."""
    steps: list[tuple[str, list[str]]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            steps.append((line[2:], []))
        else:
            assert steps or not line.strip(), f"output before any command: {line}"
            if steps:
                steps[-1][1].append(line)
    assert steps, "a console block has at least one command"
    for command, output in steps:
        code, printed = run_command(command, output, environment, folder)
        found = _EXIT.search(command)
        assert code == (int(found[1]) if found else 0), f"{command}\n{printed}"
        shown = strip_blank(normal("\n".join(output)))
        real = strip_blank(normal(printed))
        assert matches(shown, real), (
            f"$ {command}\nthe page shows\n{chr(10).join(shown)}\nbut it prints\n{printed}"
        )


def run_command(
    command: str, shown: list[str], environment: dict[str, str], folder: Path
) -> tuple[int, str]:
    """Return how a command ends and what it prints, interrupted where a page shows ``^C``."""
    with subprocess.Popen(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        encoding="utf-8",
        start_new_session=True,
    ) as process:
        late = threading.Timer(_LONGEST, os.killpg, (process.pid, signal.SIGKILL))
        late.start()
        assert process.stdout is not None
        try:
            printed = ""
            if _INTERRUPT in shown:
                for _ in range(shown.index(_INTERRUPT)):
                    printed += process.stdout.readline()
                os.killpg(process.pid, signal.SIGINT)
                printed += f"{_INTERRUPT}\n"
            printed += process.stdout.read()
            return process.wait(), printed
        finally:
            late.cancel()


def run_python(block: Block, names: dict[str, Any], page: str) -> None:
    """Execute a block, or test it if it is a session."""
    if ">>>" not in block.text:
        source = "\n" * block.line + block.text  # so that a traceback names the line of the page
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(source, page, "exec"), names)
        return
    test = doctest.DocTestParser().get_doctest(block.text, names, page, page, block.line)
    test.globs = names  # the parser takes a copy, and blocks of a page share names
    runner = doctest.DocTestRunner(
        optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE, verbose=False
    )
    report = io.StringIO()
    runner.run(test, out=report.write, clear_globs=False)
    assert not report.getvalue(), report.getvalue()


def run_page(text: str, page: str, folder: Path) -> None:
    """Run every block of a page."""
    environment = shell(folder)
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(text):
        assert block.language in LANGUAGES, f"{page}, line {block.line}: {block.language!r}"
        title = re.search(r'title="([\w.-]+)"', block.options)
        try:
            if block.language == "console":
                run_commands(block, environment, folder)
            elif block.language == "python":
                run_python(block, names, page)
            elif block.language == "bash":
                for line in block.text.splitlines():
                    assert _NOT_RUN.fullmatch(line), f"never run: {line}"
            elif title:
                (folder / title[1]).write_text(block.text, encoding="utf-8")
        except Exception as error:
            raise AssertionError(f"{page}, line {block.line}: {error}") from error


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def with_marks(path: Path) -> Any:
    return pytest.param(path, marks=pytest.mark.slow) if name(path) in LONG else path


@pytest.mark.parametrize("path", [with_marks(path) for path in RUN], ids=name)
def test_page_is_true(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = path.read_text(encoding="utf-8")
    with slurm_cluster() if _WITH_SLURM in text else contextlib.nullcontext() as sandbox:
        if sandbox is not None:
            monkeypatch.setenv("SLURM_CONF", sandbox.environment["SLURM_CONF"])
            monkeypatch.setenv("PATH", sandbox.environment["PATH"])
        run_page(text, name(path), tmp_path)


def test_readme_is_short_and_begins_with_what_to_run() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 150
    first_screen = "\n".join(lines[:40])
    for shown in ("**You operate", "**You do research", "**You write a scheduler",
                  "\n$ kubectl get nodes,pods -A -o json | drfh audit -\n", " --add ",
                  "\nmake run ", "\n<picture>\n"):  # fmt: skip
        assert shown in first_screen
    assert max(len(line) for line in lines if "<img" not in line) <= 140


@pytest.mark.parametrize("path", LINKED, ids=name)
def test_links_lead_somewhere(path: Path) -> None:
    prose = _SPAN.sub("", outside_blocks(path.read_text(encoding="utf-8")))
    for found in _LINK.finditer(prose):
        target = found[1] or found[2]
        if re.match(r"[a-z]+:", target) or target.startswith("#"):
            continue
        assert (path.parent / target.partition("#")[0]).exists(), f"{name(path)}: {target}"


def unknown_names(text: str, about_the_code: bool = False) -> list[str]:
    """Return the paths and modules in code spans of a page that do not exist.

    A path is one of this repository, or one of the package from any of its folders on.
    """
    return [
        span for span in _SPAN.findall(outside_blocks(text)) if not _exists(span, about_the_code)
    ]


def _exists(span: str, about_the_code: bool) -> bool:
    for found in _MODULE.finditer(span):
        if not found[0].endswith((".json", ".log", ".yaml")) and not _resolves(found[0]):
            return False
    if span in INVENTED or not _PATH.fullmatch(span):
        return True
    if span.startswith(("src/", "tests/", "docs/", "benchmarks/", "tools/")):
        return any(ROOT.glob(span.rstrip("/")))
    if span.endswith(SUFFIXES) or (about_the_code and "/" in span):
        return any((SOURCE / "drfh").rglob(span.rstrip("/")))
    return True


def _resolves(dotted: str) -> bool:
    try:
        pkgutil.resolve_name(dotted)
    except (ImportError, AttributeError):
        return False
    return True


@pytest.mark.parametrize("path", LINKED, ids=name)
def test_paths_and_modules_exist(path: Path) -> None:
    assert unknown_names(path.read_text(encoding="utf-8"), name(path) in ABOUT_THE_CODE) == []


@pytest.mark.parametrize(
    "span",
    ["src/drfh/nowhere.py", "src/drfh/nowhere/", "tests/test_nothing.py", "tests/test_no*.py",
     "web/nowhere.py", "nowhere.py", "drfh.nowhere", "python -m drfh.nowhere",
     "drfh.allocate.nowhere(cluster)", "scheduler/core/"],
)  # fmt: skip
def test_an_unknown_name_is_found(span: str) -> None:
    assert unknown_names(f"See `drfh.allocate` and `{span}`.\n", True) == [span]


def test_known_names_pass() -> None:
    names = ("src/drfh/errors.py", "tests/", "tests/test_l*.py", "web/server/auth.py", "errors.py",
             "solvers/", "drfh.allocate(cluster)", "drfh.testing.check_policy", "x.drfh.yaml",
             "runs/day", "a/3")  # fmt: skip
    assert unknown_names(" ".join(f"`{span}`" for span in names)) == []


def test_files_page_names_every_key() -> None:
    page = (ROOT / "docs" / "files.md").read_text(encoding="utf-8")
    for model in (ScenarioModel, GroupModel, UserModel):
        for key in model.model_fields:
            assert f"| `{key}` |" in page, key


@pytest.mark.parametrize("path", RUN, ids=name)
def test_scenarios_on_pages_follow_the_schema(path: Path) -> None:
    for block in blocks(path.read_text(encoding="utf-8")):
        if block.language in ("yaml", "json") and 'title="' in block.options:
            jsonschema.validate(yaml.safe_load(block.text), scenario_schema())


def test_schema_is_what_the_command_prints() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "drfh", "scenario", "schema"],
        env={**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONUTF8": "1"},
        stdout=subprocess.PIPE,
        check=True,
    )
    assert json.loads(done.stdout) == scenario_schema()


# The checks above can fail: each of these pages is wrong in one way.
WRONG = {
    "output": "```console\n$ echo 1\n2\n```\n",
    "missing output": "```console\n$ echo 1\n```\n",
    "too much output": "```console\n$ true\n1\n```\n",
    "exit code": "```console\n$ exit 3\n```\n",
    "wrong exit code": "```console\n$ exit 3  # exit 2\n```\n",
    "interrupted": "```console\n$ echo 1; sleep 50\n2\n^C\n```\n",
    "not interrupted": "```console\n$ echo 1\n1\n^C\n2\n```\n",
    "after dots": "```console\n$ echo 1; echo 2\n...\n3\n```\n",
    "session": "```python\n>>> 1 + 1\n3\n```\n",
    "statement": "```python\nassert False\n```\n",
    "not run": "```bash\nrm -rf build\n```\n",
    "language": "```perl\n1\n```\n",
    "open": "```console\n$ true\n",
    "kubectl": "```console\n$ kubectl get pods -o json\n```\n",
    "indented": "  ```console\n  $ true\n  ```\n",
}


@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG.keys())
def test_a_wrong_page_fails(text: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        run_page(text, "wrong.md", tmp_path)


def test_a_right_page_passes(tmp_path: Path) -> None:
    page = (
        '```yaml title="a.yaml"\nx: 1\n```\n'
        "```python\ny = 1\n```\n"
        "```python\n>>> y + 1\n2\n>>> z = y\n```\n"
        "```python\nassert z == y\n```\n"
        "```console\n$ cat a.yaml; echo 0.9 ms; echo gap 3.3e-16; exit 2  # exit 2\n"
        "x: 1\n123.4 ms\ngap 0.0e+00\n"
        "$ seq 5\n1\n...\n5\n"
        "$ trap 'echo bye; exit 0' INT; echo 1; while sleep 0.1; do true; done\n1\n^C\nbye\n```\n"
        "```bash\nmake run\n```\n"
    )
    run_page(page, "right.md", tmp_path)
