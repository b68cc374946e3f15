"""Errors on the command line: one line on stderr, an exit code, and options by their names."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from drfh.errors import DrfhError, InputError
from drfh.formatting import escaped

__all__ = ["CLOSED_PIPE", "INTERRUPTED", "exit_code", "named_as_options", "print_error"]

#: Exit code of an interrupted command.
INTERRUPTED = 130
#: Exit code of a command whose output nobody reads any more: as if SIGPIPE had ended it.
CLOSED_PIPE = 141


@contextmanager
def named_as_options(*options: str, output: Path | None = None) -> Iterator[None]:
    """Name options, not parameters, in the errors of a block.

    Parameters
    ----------
    options
        Parameters that are options of the same name; ``force`` is always one.
    output
        The directory of ``--output``: errors about its draft name it instead.
    """
    try:
        yield
    except InputError as error:
        from drfh.files.atomic import DirectoryError

        error.renamed({name: f"--{name}" for name in (*options, "force")})
        if isinstance(error, DirectoryError) and output is not None:
            raise InputError("--output", error.rule, str(output), place=error.place) from None
        raise


def exit_code(error: Exception) -> int:
    """Print an error and return the exit code for it."""
    if isinstance(error, DrfhError):
        return print_error(str(error), error.exit_code)
    usage = _usage_error(error)
    if usage is not None:
        return usage
    if os.environ.get("DRFH_DEBUG", "0") not in ("", "0"):
        import traceback

        traceback.print_exc()
    if isinstance(error, OSError) and error.strerror:  # the system's trouble, not a defect
        about = f": {error.filename}" if error.filename else ""
        return print_error(f"{error.strerror}{about}")
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return print_error(f"internal error: {text}; run again with DRFH_DEBUG=1 for the traceback")


def _usage_error(error: Any) -> int | None:
    """Print a mistake in the arguments, which typer raises as an error of its own."""
    # By shape and not by class: newer versions of typer no longer use click's.
    if not (hasattr(error, "format_message") and hasattr(error, "exit_code")):
        return None
    message = str(error.format_message())
    if not message:  # a verb without arguments has shown its help
        return int(error.exit_code)
    context = getattr(error, "ctx", None)
    path = getattr(context, "command_path", None) or "drfh"
    return print_error(f"{message.rstrip('.')} (see {path} --help)", int(error.exit_code))


def print_error(text: str, code: int = 1) -> int:
    """Print one line on stderr, and return the exit code."""
    line = escaped(" ".join(text.split()))
    with suppress(OSError):  # stderr may be closed
        print(f"drfh: {line}", file=sys.stderr, flush=True)
    return code
