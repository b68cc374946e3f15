"""Open the live view in a real browser, of a made-up cluster or a real one, and watch it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from tests.support.pages import Tab
from tests.support.paths import ROOT


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return an environment for a process that is no test, with the package under test."""
    kept = {name: value for name, value in (more or os.environ).items()
            if not name.startswith(("PYTEST", "NICEGUI"))}  # fmt: skip
    return {**kept, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}


class View:
    """A live view of a made-up cluster, see ``tests/web/live/server.py``."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self.process = process
        self.url = process.stdout.readline().strip()
        assert self.url.startswith("http://"), self.url

    def tell(self, line: str) -> None:
        """Send a command, and wait until it is done."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"


@contextmanager
def made_up_view(nodes: int, host: str = "127.0.0.1") -> Iterator[View]:
    pytest.importorskip("nicegui", reason="needs nicegui (pip install 'drfh[web]')")
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "tests" / "web" / "live" / "server.py"), str(nodes), host],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:  # closes its pipes, whatever happens
        try:
            yield View(process)
            process.communicate(timeout=60)  # it ends with its input
        finally:
            process.kill()  # nothing, where it has ended
    assert process.returncode == 0


class LiveTab(Tab):
    """A page of the live view."""

    def __init__(self, browser: Any, url: str, scheme: str = "light", width: int = 1400) -> None:
        origins = (url, url.replace("http", "ws", 1))
        super().__init__(browser, origins, scheme=scheme, size=(width, 900))
        self.page.set_default_timeout(60_000)
        self.page.goto(url)
        self.page.wait_for_selector("[data-testid=heat-view][data-drawn]")
        self.page.wait_for_function("document.querySelectorAll('[data-points]').length === 3")
        self.page.evaluate("window.notReloaded = true")

    def text(self, name: str) -> str:
        return str(self.page.inner_text(f"[data-testid={name}]"))

    def heat(self, code: str) -> Any:
        """Return what code says of the heat map, which is `heat` there."""
        found = "getElement(+document.querySelector('.drfh-heat').id.slice(1))"
        return self.page.evaluate(f"(() => {{ const heat = {found}; {code} }})()")

    def settle(self) -> None:
        """Wait until what has changed is drawn."""
        frames = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
        self.page.evaluate(f"() => {frames}")

    def check(self) -> None:
        """Check that it was quiet and alone, is not too wide, and was never loaded again."""
        assert self.page.evaluate("window.notReloaded") is True
        width = self.page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert width[0] <= width[1]
        assert not self.trouble

    def close(self) -> None:
        """Leave it after a last check."""
        self.check()
        self.release()
