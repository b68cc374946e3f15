"""The command line: ``drfh VERB``, one module a verb."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from drfh.cli import (
    allocate,
    audit,
    compare,
    explore,
    report,
    reproduce,
    scenario,
    simulate,
    slurm,
    tour,
    trace,
)
from drfh.cli.errors import CLOSED_PIPE, INTERRUPTED, exit_code, print_error

__all__ = ["app", "main"]

# Importing this module must stay cheap: a verb imports what it needs when it runs.
VERBS: dict[str, typer.Typer | Callable[..., None]] = {
    "allocate": allocate.allocate,
    "audit": audit.audit,
    "compare": compare.compare,
    "explore": explore.explore,
    "report": report.report,
    "reproduce": reproduce.reproduce,
    "scenario": scenario.app,
    "simulate": simulate.simulate,
    "slurm": slurm.app,
    "tour": tour.tour,
    "trace": trace.app,
}

app = typer.Typer(
    help="Fair sharing of mixed clusters: exact DRFH allocations, with a proof.",
    epilog="Start with: drfh tour",
    context_settings={"help_option_names": ["-h", "--help"]},
    add_completion=False,
)
for _name, _verb in VERBS.items():
    if isinstance(_verb, typer.Typer):
        app.add_typer(_verb, name=_name)
    else:
        app.command(_name)(_verb)


def _version(asked: bool) -> None:
    if asked:
        from drfh import __version__

        typer.echo(f"drfh {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Fair sharing of mixed clusters: exact DRFH allocations, with a proof."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    0: done. 1: drfh failed. 2: the input or the usage is wrong. 3: a required property fails. 130:
    interrupted. 141: nobody reads its output any more.

    Parameters
    ----------
    arguments
        Words after ``drfh``, by default those of the process.

    Examples
    --------
    >>> main(["--version"])
    drfh 0.1.0
    0
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")  # a terminal that cannot show ≥ shows ? instead of failing
    code = _run(given)
    try:
        if sys.stdout is not None:  # it is, when the shell closed it
            sys.stdout.flush()
    except OSError as error:
        # Nobody reads on, or the disk is full. What is left in the buffer must not fail once more
        # when Python exits.
        _drop_output()
        if code == 0 and isinstance(error, BrokenPipeError):
            return CLOSED_PIPE
        if code == 0:
            return print_error(f"cannot write the output: {error.strerror or error}")
    return code


def _run(arguments: list[str]) -> int:
    command = typer.main.get_command(app)
    try:
        code = command.main(arguments or ["--help"], prog_name="drfh", standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        return print_error("interrupted", INTERRUPTED)
    except SystemExit as leaving:  # the way out of typer and rich when a pipe is closed
        if isinstance(leaving.__context__, BrokenPipeError):
            return CLOSED_PIPE
        return leaving.code if isinstance(leaving.code, int) else 1
    except Exception as error:
        return exit_code(error)
    if code == INTERRUPTED:  # typer catches an interrupt before we do, and prints nothing
        return print_error("interrupted", INTERRUPTED)
    # Verbs return nothing; a number is the code of a typer.Exit.
    return code if isinstance(code, int) else 0


def _drop_output() -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
