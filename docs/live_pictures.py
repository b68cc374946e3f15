"""Take pictures of the live view, from a real Slurm in a real browser: ``make pictures``.

With a directory (``python docs/live_pictures.py DIR``) they are put there, wide and narrow.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from drfh.engines.slurm.demo import Demo, DemoSample, open_directory
from drfh.engines.slurm.sandbox import missing

IMAGES = Path(__file__).parent / "images"
NODES, SECONDS = 48, 80.0
# When three users share the cluster, and the fair level has moved twice.
MOMENT = 0.62
HEIGHT = 900
WIDE, NARROW = 1200, 390
SETTLED = 2_500


def take(browser: Any, url: str, look: str, width: int, file: Path) -> None:
    """Take one picture."""
    context = browser.new_context(
        viewport={"width": width, "height": HEIGHT}, color_scheme=look, reduced_motion="reduce"
    )
    page = context.new_page()
    page.goto(url)
    page.locator("canvas").first.wait_for()
    page.wait_for_timeout(SETTLED)
    page.screenshot(path=file, full_page=True)
    context.close()
    print(file)


def main(folder: Path | None) -> None:
    """Run the demo, and take all pictures at one moment."""
    from playwright.sync_api import sync_playwright

    reason = missing()
    if reason is not None:
        print(f"no pictures of the live view: a Slurm cluster on this machine {reason}")
        return
    with (
        tempfile.TemporaryDirectory(
            prefix="drfh-", dir=open_directory(), ignore_cleanup_errors=True
        ) as place,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        demo = Demo(Path(place), NODES, SECONDS, web_port=0)

        def show(moment: DemoSample) -> None:
            if moment.seconds < MOMENT * SECONDS:
                return
            for look in ("light", "dark"):
                take(browser, demo.live_view, look, WIDE, (folder or IMAGES) / f"live-{look}.png")
                if folder is not None:
                    take(browser, demo.live_view, look, NARROW, folder / f"live-{look}-narrow.png")
            demo.stop()

        with demo:
            demo.run(show)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
