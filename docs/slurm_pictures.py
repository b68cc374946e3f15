"""Draw `drfh slurm status` as it looks on a terminal, from a real Slurm: ``make pictures``."""

from __future__ import annotations

import io
import re
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme

from drfh.cli.cluster.render import write_status
from drfh.engines.cache import SchedulerCache
from drfh.engines.engine import ControllerFacts
from drfh.engines.slurm.client import Slurm
from drfh.engines.slurm.config import SlurmConfig
from drfh.engines.slurm.controller import SlurmController
from drfh.engines.slurm.sandbox import Sandbox, SandboxNode, missing
from drfh.engines.slurm.submit_plugin import plugin_source
from drfh.engines.status import Status, status_of

IMAGES = Path(__file__).parent / "images"
WIDTH = 84
SHAPES: list[tuple[int, int, dict[str, int]]] = [
    (4, 16384, {}), (8, 8192, {}), (16, 4096, {}), (8, 16384, {"accel": 2}),
]  # fmt: skip
WORK = [  # account, jobs, CPUs, MiB, more
    ("physics", 70, 1, 2048, []),
    ("biology", 90, 2, 512, []),
    ("vision", 12, 2, 4096, ["--gres=accel:1"]),
    ("arts", 9, 4, 1024, []),
]
# Background, ink, and the sixteen colours, of which the status uses few.
_SOFT = [(90, 100, 117), (205, 49, 49), (32, 128, 70), (160, 100, 0), (38, 96, 164),
         (140, 60, 140), (0, 120, 130), (110, 118, 130)]  # fmt: skip
_BRIGHT = [(150, 160, 175), (255, 110, 103), (95, 200, 130), (240, 180, 70), (110, 165, 235),
           (210, 140, 210), (80, 200, 205), (230, 233, 239)]  # fmt: skip
THEMES = {
    "light": TerminalTheme((255, 255, 255), (28, 35, 48), _SOFT, _SOFT),
    "dark": TerminalTheme((13, 17, 23), (230, 233, 239), _BRIGHT, _BRIGHT),
}


def cluster_status() -> Status:
    """Fill a real cluster, drain a node, and return what there is to see."""
    nodes = [SandboxNode(f"n{i:02}", *SHAPES[i % 4]) for i in range(48)]
    with (
        tempfile.TemporaryDirectory(prefix="drfh-", ignore_cleanup_errors=True) as place,
        Sandbox(Path(place), nodes, plugin_source=plugin_source()) as sandbox,
    ):
        sandbox.run("scontrol", "update", "NodeName=n17", "State=DRAIN", "Reason=fan")
        for account, jobs, cpus, memory, more in WORK:
            array = f"--array=0-{jobs - 1}"
            sandbox.submit("sleep 600", array, *more, account=account, cpus=cpus, memory=memory)
        config = SlurmConfig(user_by="account", weights={"physics": 2.0})
        controller = SlurmController(
            Slurm(sandbox.environment), config, SchedulerCache(), batch=10_000
        )
        for _ in range(4):
            done = controller.cycle()
            time.sleep(1.0)
        return status_of(done.cluster)


def draw(status: Status, look: str) -> str:
    """Return the status as SVG; the reader's own fonts are used, and nothing is fetched.

    Parameters
    ----------
    status
        What there is to see.
    look
        ``light`` or ``dark``.
    """
    out = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True,
                  color_system="standard", markup=False, highlight=False)  # fmt: skip
    write_status(out, status, controller=ControllerFacts(True, {}))
    picture = out.export_svg(title="drfh slurm status", theme=THEMES[look], unique_id=look)
    picture = re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)
    return re.sub(r"<!--.*?-->\s*", "", picture.replace("Fira Code", "DejaVu Sans Mono"))


def main() -> None:
    """Draw both pictures, where there is a Slurm."""
    reason = missing()
    if reason is not None:
        print(f"the picture of a Slurm cluster {reason}")
        return
    status = cluster_status()
    for look in THEMES:
        path = IMAGES / f"slurm-status-{look}.svg"
        path.write_text(draw(status, look), encoding="utf-8")
        print(path.name)


if __name__ == "__main__":
    main()
