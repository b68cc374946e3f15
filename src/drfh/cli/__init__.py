"""The command line: ``drfh VERB``. One file per verb; errors become one line here."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Annotated, Any

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
from drfh.errors import DrfhError

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


def _version(wanted: bool) -> None:
    if wanted:
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

    0: done. 1: drfh failed, or nobody reads its output any more. 2: the input or the usage is
    wrong. 3: a required property fails. 130: interrupted.

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
    words = list(sys.argv[1:] if arguments is None else arguments)
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")  # a terminal that cannot show ≥ shows ? instead of failing
    code = _run(words)
    try:
        if sys.stdout is not None:  # it is, when the shell closed it
            sys.stdout.flush()
    except OSError as error:
        # Nobody reads on, or the disk is full. What is left in the buffer must not fail once more
        # when Python exits.
        _drop_output()
        if code == 0 and not isinstance(error, BrokenPipeError):
            _complain(f"cannot write the output: {error.strerror or error}")
        return code or 1
    return code


def _run(words: list[str]) -> int:
    command = typer.main.get_command(app)
    try:
        code = command.main(words or ["--help"], prog_name="drfh", standalone_mode=False)
    except DrfhError as error:
        return _complain(str(error), error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        return _complain("interrupted", 130)
    except SystemExit as leaving:  # typer's own way out when a pipe is closed
        return leaving.code if isinstance(leaving.code, int) else 1
    except Exception as error:
        usage = _usage_error(error)
        if usage is not None:
            return usage
        if os.environ.get("DRFH_DEBUG", "0") not in ("", "0"):
            import traceback

            traceback.print_exc()
        if isinstance(error, OSError) and error.strerror:  # the system's trouble, not a defect
            about = f": {error.filename}" if error.filename else ""
            return _complain(f"{error.strerror}{about}")
        text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        return _complain(f"internal error: {text}; run again with DRFH_DEBUG=1 for the traceback")
    if code == 130:  # typer hears of an interrupt before we do, and says nothing
        return _complain("interrupted", 130)
    # Verbs return nothing; a number is the code of a typer.Exit.
    return code if isinstance(code, int) else 0


def _usage_error(error: Any) -> int | None:
    """Report a mistake in the words of the command, which typer raises as one of its own."""
    # By shape and not by class: newer versions of typer no longer use click's.
    if not (hasattr(error, "format_message") and hasattr(error, "exit_code")):
        return None
    message = str(error.format_message())
    if not message:  # a verb without its words has shown its help
        return int(error.exit_code)
    context = getattr(error, "ctx", None)
    path = getattr(context, "command_path", None) or "drfh"
    return _complain(f"{message.rstrip('.')} (see {path} --help)", int(error.exit_code))


def _complain(text: str, code: int = 1) -> int:
    line = " ".join(text.split())
    with suppress(OSError):  # stderr may be closed
        print(f"drfh: {line}", file=sys.stderr, flush=True)
    return code


def _drop_output() -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
