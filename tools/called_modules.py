"""Count the modules of drfh with a function that everyday jobs call.

Run it from the project's root::

    python tools/called_modules.py            # how many, for each job
    python tools/called_modules.py --list     # and which
    python tools/called_modules.py allocate   # one job only

A profile hook notes every Python function that is called, in all threads; bodies of modules and
classes do not count. Each job runs in a process of its own, so that nothing is imported or cached
before it.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import drfh

PACKAGE = Path(drfh.__file__).parent
PROJECT = Path(__file__).resolve().parents[1]

TABLES = {
    "servers.csv": "name,count,cpu,memory\nbig,2,8,32\nsmall,4,4,8\n",
    "jobs.csv": "job,user,arrival,tasks,duration,cpu,memory\n"
    "a,ann,0,6,60,2,4\nb,bob,10,8,30,1,6\nc,ann,50,2,20,4,2\n",
}


def allocate() -> None:
    """Run ``drfh allocate paper-two-servers``."""
    _command("allocate", "paper-two-servers")


def simulate() -> None:
    """Run ``drfh simulate`` on a small trace of tables."""
    with tempfile.TemporaryDirectory() as directory:
        for name, text in TABLES.items():
            (Path(directory) / name).write_text(text)
        _command("simulate", "--trace", directory)


def slurm_round() -> None:
    """Run one cycle of the Slurm controller on the model of slurmctld."""
    sys.path.insert(0, str(PROJECT))
    from tests.engines.slurm.model import ModelSlurm

    from drfh.engines.cache import SchedulerCache
    from drfh.engines.slurm.config import SlurmConfig
    from drfh.engines.slurm.controller import SlurmController

    slurm = ModelSlurm({"n0": (4, 8000), "n1": (8, 4000)})
    for user in ("ann", "bob", "ann"):
        slurm.submit(user, 1, 1000)
    SlurmController(slurm, SlurmConfig(), SchedulerCache(), clock=lambda: slurm.now).cycle()


def cell_edit() -> None:
    """Change one cell of the explorer, without its page."""
    from drfh import load_scenario
    from drfh.web.session.answers import user_rows
    from drfh.web.session.session import Session
    from drfh.web.session.steps import SetServer
    from drfh.web.session.workbook import Workbook

    class PagelessSession(Session):
        def refresh(self) -> None:
            pass

        def notify(self, text: str, kind: str = "info") -> None:
            pass

        def background(self, *_: Any) -> Callable[[], None]:
            raise AssertionError("a small scenario is solved at once")

    session = PagelessSession(Workbook(load_scenario("paper-two-servers")))
    session.do(SetServer("high-cpu", "count", "3"))
    user_rows(session.answer)


JOBS: dict[str, Callable[[], None]] = {
    "allocate": allocate,
    "simulate": simulate,
    "slurm-round": slurm_round,
    "cell-edit": cell_edit,
}


def _command(*arguments: str) -> None:
    from drfh.cli import main as drfh_main

    sys.argv = ["drfh", *arguments]
    try:
        drfh_main()
    except SystemExit as end:
        if end.code:
            raise


def called_modules(job: Callable[[], None]) -> list[str]:
    """Return the modules, as paths in the package, with a function that a job calls."""
    codes: set[CodeType] = set()

    def hook(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            codes.add(frame.f_code)

    threading.setprofile(hook)
    sys.setprofile(hook)
    try:
        job()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    files = {Path(code.co_filename) for code in codes if code.co_flags & inspect.CO_OPTIMIZED}
    return sorted(str(f.relative_to(PACKAGE)) for f in files if f.is_relative_to(PACKAGE))


def modules_of(name: str) -> list[str]:
    """Return the called modules of a job, counted in a new process."""
    command = [sys.executable, __file__, "--here", name]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{name} failed:\n{done.stderr}")
    return done.stdout.split()


def main() -> None:
    """Print the number of called modules of each job."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("jobs", nargs="*", metavar="JOB", help=f"of {', '.join(JOBS)}; all")
    parser.add_argument("--list", action="store_true", help="print the modules too")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    unknown = set(options.jobs) - set(JOBS)
    if unknown:
        parser.error(f"unknown job: {', '.join(sorted(unknown))}")
    if options.here:
        with contextlib.redirect_stdout(sys.stderr):
            modules = called_modules(JOBS[options.jobs[0]])
        print("\n".join(modules))
        return
    for name in options.jobs or JOBS:
        modules = modules_of(name)
        print(f"{name:12} {len(modules):4}")
        if options.list:
            print("".join(f"    {module}\n" for module in modules), end="")


if __name__ == "__main__":
    main()
