"""Take pictures of the explorer, from the real page in a real browser: ``make pictures``.

With a directory (``python docs/explore_pictures.py DIR``) they are put there, wide and narrow.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

IMAGES = Path(__file__).parent / "images"
HEIGHT = 860
WIDE, NARROW = 1200, 390
LOOKS = ("light", "dark")
# Long enough for what is drawn after the last answer.
SETTLED = 700


@contextmanager
def explorer(*words: str) -> Iterator[str]:
    """Serve the explorer and yield its address."""
    command = [sys.executable, "-m", "drfh", "explore", "--no-open", "--json", "--port", "0"]
    with subprocess.Popen([*command, *words], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["url"]
        finally:
            process.terminate()


def simulated(folder: Path) -> Path:
    """Return a directory with runs of three policies."""
    command = [sys.executable, "-m", "drfh", "simulate", "paper-dynamic", "-o", "paper-dynamic"]
    command += ["--policy", "best-fit-drfh,first-fit-drfh,slots:14"]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return folder / "paper-dynamic"


def part(page: Any, name: str) -> Any:
    """Return the element that tests and this script know by this name."""
    return page.locator(f"[data-testid={name}]").first


def shares(page: Any) -> None:
    """Show Google's cluster, as it is shared."""


def compare(page: Any) -> None:
    """Wait for all mechanisms."""
    page.wait_for_timeout(2_000)


def card(page: Any) -> None:
    """Open the counterexample to truthfulness."""
    button = part(page, "see-truthful")
    button.wait_for(timeout=60_000)
    button.click()


def what_if(page: Any) -> None:
    """Buy a hundred servers, and let a user lie."""
    part(page, "form-count").fill("100")
    part(page, "form-servers-1").fill("2")
    part(page, "add-these").click()
    part(page, "back-to-1").wait_for()
    part(page, "form-user-0").fill("0.3")
    part(page, "claim").click()
    part(page, "back-to-2").wait_for()


def play(page: Any) -> None:
    """Play two policies in step, and stop at the busiest moment."""
    part(page, "play-beside").click()
    page.get_by_role("option").filter(has_text="slots:14").click()
    part(page, "play-start").click()
    part(page, "play-busiest").wait_for(timeout=120_000)
    part(page, "play-busiest").click()
    page.wait_for_timeout(SETTLED)
    part(page, "play-workload").evaluate("field => field.scrollIntoView()")


def runs(page: Any) -> None:
    """Wait for the figures of a run, and go to the first."""
    first = page.locator(".run-page figure.plot").first
    first.wait_for(timeout=60_000)
    first.locator("svg").first.wait_for(timeout=60_000)
    first.evaluate("figure => figure.scrollIntoView({block: 'center'})")
    page.wait_for_timeout(SETTLED)


#: Name of the picture: the address, and what is done there.
SCENES: dict[str, tuple[str, Callable[[Any], None]]] = {
    "shares": ("?open=google-2011", shares),
    "compare": ("?panel=compare", compare),
    "card": ("?open=nsdi11-single-server&m=nash&panel=card", card),
    "whatif": ("?open=google-2011&panel=whatif", what_if),
    "play": ("?open=google-2011&panel=play", play),
    "runs": ("?panel=runs", runs),
}


def take(browser: Any, url: str, name: str, look: str, width: int, file: Path) -> None:
    """Take one picture."""
    query, act = SCENES[name]
    context = browser.new_context(
        viewport={"width": width, "height": HEIGHT}, color_scheme=look, reduced_motion="reduce"
    )
    page = context.new_page()
    page.goto(f"{url}{query}")
    part(page, "solved").wait_for()
    page.wait_for_timeout(SETTLED)
    act(page)
    page.wait_for_timeout(SETTLED)
    page.mouse.move(0, 0)
    page.screenshot(path=file)
    context.close()


def main(folder: Path | None, only: list[str]) -> None:
    """Take all pictures; those of the documentation are wide."""
    from playwright.sync_api import sync_playwright

    widths = (WIDE,) if folder is None else (WIDE, NARROW)
    with (
        tempfile.TemporaryDirectory(prefix="drfh-") as place,
        explorer("--run", str(simulated(Path(place)))) as url,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        for name in only or SCENES:
            for look in LOOKS:
                for width in widths:
                    stem = f"explore-{name}-{look}" + "-narrow" * (width == NARROW)
                    file = (folder or IMAGES) / f"{stem}.png"
                    take(browser, url, name, look, width, file)
                    print(file)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None, sys.argv[2:])
