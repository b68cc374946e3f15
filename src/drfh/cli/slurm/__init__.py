"""``drfh slurm``: DRFH on a real cluster."""

from __future__ import annotations

import typer

from drfh.cli.slurm import demo as slurm_demo
from drfh.cli.slurm import inspect as slurm_inspect
from drfh.cli.slurm import run as slurm_run

__all__ = ["app"]

app = typer.Typer(
    help="DRFH on a real Slurm cluster: place its jobs, look at it, record and replay it.",
    no_args_is_help=True,
)
app.command("run")(slurm_run.run)
app.command("install")(slurm_run.install)
app.command("release-all")(slurm_run.release_all)
app.command("status")(slurm_inspect.status)
app.command("why")(slurm_inspect.why)
app.command("audit")(slurm_inspect.audit)
app.command("record")(slurm_run.record)
app.command("replay")(slurm_inspect.replay)
app.command("demo")(slurm_demo.demo)
