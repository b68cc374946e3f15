"""Kernels run where the package cannot be written and there is no home."""

from __future__ import annotations

import os
import resource
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import drfh
from drfh.kernels import machine_code

KERNEL = """
import numpy as np
from drfh.kernels import compiled
from drfh.kernels.fill import assign_two_resources as plain
quick = compiled(plain)
one, none = np.ones(1), np.zeros(4, dtype=np.int64)
quick(one, one, one.copy(), one, one, none, none.copy(), np.zeros(4))
print(sum(quick.stats.cache_hits.values()), sum(quick.stats.cache_misses.values()))
"""
# Enough tasks and servers that the clock is compiled.
SCENARIO = """
cluster: [{name: node, count: 300, resources: {cpu: 8, memory: 16Gi}}]
users: [{name: ann, demand: {cpu: 1, memory: 1Gi}}]
jobs: [{user: ann, demand: {cpu: 1, memory: 1Gi}, tasks: 3000, duration: 60}]
"""
SIMULATE = "import sys; from drfh.cli import main; sys.exit(main(sys.argv[1:]))"
MESSAGE = "compiling kernels"


def bound_by_permissions() -> list[str]:
    """Return what starts a process that cannot write where the bits say so, even as root."""
    if os.geteuid() != 0:
        return []
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        pytest.skip("root can write everywhere, and there is no setpriv")
    return [setpriv, "--bounding-set=-all"]


class Installed:
    """A copy of the package that cannot be written."""

    def __init__(self, folder: Path, *, with_kernels: bool) -> None:
        self.package = folder / "lib" / "drfh"
        left_out = shutil.ignore_patterns("*.pyc", *(() if with_kernels else ("*.nb?",)))
        shutil.copytree(Path(drfh.__file__).parent, self.package, ignore=left_out)
        for path in (self.package, *self.package.rglob("*")):
            path.chmod(0o555 if path.is_dir() else 0o444)
        self.folder = folder
        self.scenario = folder / "team.yaml"
        self.scenario.write_text(SCENARIO)
        self.cache = folder / "cache"
        self.cache.mkdir(mode=0o777)
        self.cache.chmod(0o777)

    def run(
        self, code: str, *words: str, cached: str = "DRFH_CACHE", disk: bool = True
    ) -> subprocess.CompletedProcess[str]:
        def no_disk() -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(self.package.parent),
            "PYTHONDONTWRITEBYTECODE": "1",
            "HOME": str(self.folder / "no-home"),
            cached: str(self.cache),
        }
        limit: Callable[[], None] | None = None if disk else no_disk
        return subprocess.run(
            [*bound_by_permissions(), sys.executable, "-c", code, *words],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=limit,
            cwd="/",
        )

    def simulate(self, **options: Any) -> subprocess.CompletedProcess[str]:
        done = self.run(SIMULATE, "simulate", str(self.scenario), "--json", **options)
        assert done.returncode == 0, done.stderr
        return done

    def kept(self) -> list[Path]:
        return sorted(self.cache.rglob("*.nbc"))

    def writable(self) -> None:
        for path in (self.package, *self.package.rglob("*")):
            if path.is_dir():
                path.chmod(0o755)


@pytest.fixture
def installed(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Installed]:
    copy = Installed(tmp_path, with_kernels=getattr(request, "param", False))
    yield copy
    copy.writable()


@pytest.mark.slow
def test_machine_code_is_kept_in_a_directory_of_the_user(installed: Installed) -> None:
    first = installed.run(KERNEL, cached="TMPDIR")
    assert (first.stdout, first.returncode) == ("0 1\n", 0), first.stderr
    place = installed.cache / f"drfh-{os.geteuid()}"
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    (kept,) = installed.kept()
    assert kept.is_relative_to(place)
    second = installed.run(KERNEL, cached="TMPDIR")
    assert (second.stdout, second.stderr) == ("1 0\n", "")
    kept.write_bytes(b"damaged")
    third = installed.run(KERNEL, cached="TMPDIR")
    assert (third.stdout, third.returncode) == ("0 1\n", 0), third.stderr


def test_compiled_in_memory_where_nothing_can_be_written(installed: Installed) -> None:
    done = installed.run(KERNEL, disk=False)
    assert (done.stdout, done.returncode) == ("0 1\n", 0), done.stderr
    told = [line for line in done.stderr.splitlines() if MESSAGE in line]
    assert len(told) == 1
    assert "in memory" in told[0]
    assert "set DRFH_CACHE" in told[0]
    assert not installed.kept()


def kept_in(monkeypatch: pytest.MonkeyPatch, **variables: Path) -> Path | None:
    """Return where machine code of a package that cannot be written is kept."""
    for name in ("DRFH_CACHE", "XDG_CACHE_HOME", "HOME", "TMPDIR"):
        monkeypatch.setenv(name, str(variables.get(name, "/dev/null/none")))
    monkeypatch.setattr(machine_code, "source_stamp", lambda _: "stamp")
    return machine_code.kept_in.__wrapped__(Path("/dev/null/drfh"))


def test_the_first_directory_that_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = f"drfh-{os.geteuid()}"
    for name, place in (
        ("DRFH_CACHE", own), ("XDG_CACHE_HOME", "drfh"), ("TMPDIR", own),
    ):  # fmt: skip
        base = tmp_path / name
        base.mkdir()
        assert kept_in(monkeypatch, **{name: base}) == base / place / "stamp"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("DRFH_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    found = machine_code.kept_in.__wrapped__(Path("/dev/null/drfh"))
    assert found == tmp_path / ".cache" / "drfh" / "stamp"


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o757])
def test_a_directory_that_others_can_write_is_not_used(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    mode: int,
) -> None:
    place = tmp_path / f"drfh-{os.geteuid()}"
    place.mkdir()
    place.chmod(mode)
    found = kept_in(monkeypatch, DRFH_CACHE=tmp_path, XDG_CACHE_HOME=tmp_path)
    assert found == tmp_path / "drfh" / "stamp"
    assert f"cache not writable DRFH_CACHE={tmp_path}" in caplog.messages


def test_a_link_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / f"drfh-{os.geteuid()}").symlink_to(tmp_path / "elsewhere")
    found = kept_in(monkeypatch, DRFH_CACHE=tmp_path, XDG_CACHE_HOME=tmp_path)
    assert found == tmp_path / "drfh" / "stamp"


@pytest.mark.parametrize("installed", [True], indirect=True)
def test_simulate_uses_what_was_compiled_at_install(installed: Installed) -> None:
    assert installed.simulate(cached="TMPDIR", disk=False).stderr == ""
    assert not installed.kept()


@pytest.mark.slow
def test_simulate_with_nothing_compiled(installed: Installed) -> None:
    assert installed.simulate(cached="TMPDIR").stderr.count(MESSAGE) == 1
    kept = installed.kept()
    assert len(kept) > 20
    assert installed.simulate(cached="TMPDIR").stderr == ""
    assert installed.kept() == kept


@pytest.mark.parametrize("seconds", [0.0, 1000.0])
def test_a_long_compile_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, seconds: float
) -> None:
    monkeypatch.setattr(machine_code, "_NOTICE_SECONDS", seconds)
    monkeypatch.setattr(machine_code._notice, "_said", False)
    monkeypatch.setattr(machine_code._notice, "_spent", 0.0)
    for add in (1, 2):

        def plain(x: int, add: int = add) -> int:
            return x + add

        plain.__module__ = "drfh.kernels.example"
        quick = machine_code.kernel(plain)
        quick._cache._own = None  # type: ignore[attr-defined]
        quick(1)
    told = [record for record in caplog.records if MESSAGE in record.getMessage()]
    assert len(told) == (1 if seconds == 0 else 0)
