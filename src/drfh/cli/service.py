"""Options and output of verbs that run as a service: logging, start messages."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from copy import copy
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from drfh.cli.render.console import json_output
from drfh.errors import UnknownNameError
from drfh.formatting import escaped, format_time, json_text

if TYPE_CHECKING:
    import logging

__all__ = ["LogFormatOption", "LogLevelOption", "Printer", "check_log_options", "service_logging"]

_LEVELS = ("debug", "info", "warning", "error")
_FORMATS = ("text", "json")
_PANEL = "Log"
_TEXT, _DATE = "%(asctime)s %(levelname)s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S%z"

LogLevelOption = Annotated[
    str,
    typer.Option(
        "--log-level",
        metavar="|".join(_LEVELS),
        envvar="DRFH_LOG_LEVEL",
        rich_help_panel=_PANEL,
        help="Least level of the log on standard error.",
    ),
]
LogFormatOption = Annotated[
    str,
    typer.Option(
        "--log-format",
        metavar="|".join(_FORMATS),
        envvar="DRFH_LOG_FORMAT",
        rich_help_panel=_PANEL,
        help="Lines of text, or one JSON object a line.",
    ),
]


def check_log_options(level: str, log_format: str) -> None:
    """Raise unless there are such a level and such a format.

    Examples
    --------
    >>> check_log_options("loud", "text")
    Traceback (most recent call last):
    drfh.errors.UnknownNameError: --log-level must be one of debug, error, info, warning, got 'loud'
    """
    if level not in _LEVELS:
        raise UnknownNameError("--log-level", level, _LEVELS)
    if log_format not in _FORMATS:
        raise UnknownNameError("--log-format", log_format, _FORMATS)


@contextmanager
def service_logging(level: str = "info", log_format: str = "text") -> Iterator[None]:
    """Write the log of drfh to standard error inside the block.

    Parameters
    ----------
    level
        ``debug``, ``info``, ``warning`` or ``error``.
    log_format
        ``text`` (date, level, logger, message; values in quotes where needed) or ``json`` (one
        object a line: ``time``, ``level``, ``logger``, ``message``, the fields of the message).
    """
    import logging

    check_log_options(level, log_format)
    handler = logging.StreamHandler()
    handler.setFormatter(_formatter(log_format))
    logger = logging.getLogger("drfh")
    before = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(level.upper())
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.level, logger.propagate = before


def quoted_value(value: Any) -> Any:
    """Return a value of a log as logfmt has it: text in quotes if it could be misread.

    Examples
    --------
    >>> print(quoted_value("not enough memory"), quoted_value("n0"), quoted_value(3))
    "not enough memory" n0 3
    """
    if isinstance(value, int | float):
        return value
    text = str(value)
    plain = text.isprintable() and not set(text) & set(' ="')
    return text if text and plain else json_text(text)


def _formatter(log_format: str) -> logging.Formatter:
    import logging  # not with the module: every verb would pay for it

    class LogfmtFormatter(logging.Formatter):
        """Formats a record as a line, with quoted values of the mapping that was logged."""

        def format(self, record: logging.LogRecord) -> str:
            fields = record.args
            if isinstance(fields, Mapping):
                record = copy(record)
                record.args = {name: quoted_value(value) for name, value in fields.items()}
            return super().format(record)

    class JsonFormatter(logging.Formatter):
        """Formats a record as a JSON object, with the mapping that was logged as fields."""

        def format(self, record: logging.LogRecord) -> str:
            line: dict[str, Any] = dict(record.args) if isinstance(record.args, Mapping) else {}
            line["time"] = datetime.fromtimestamp(record.created).astimezone().isoformat()
            line["level"], line["logger"] = record.levelname.lower(), record.name
            line["message"] = record.getMessage()
            if record.exc_info:
                line["exception"] = self.formatException(record.exc_info)
            return json.dumps(line, default=str)

    return JsonFormatter() if log_format == "json" else LogfmtFormatter(_TEXT, _DATE)


class Printer:
    """Prints start messages of a service to standard output, as text or JSON lines.

    Errors of the output are ignored: the service must go on without a reader.
    """

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json

    def __call__(self, text: str, **facts: Any) -> None:
        """Print a message; `facts` are what it says for programs, in JSON only."""
        if self.as_json:
            self.print_json({"time": time.time(), "says": text, **facts})
        else:
            self._print(f"{format_time(time.time())} {text}")

    def print_json(self, data: Mapping[str, Any]) -> None:
        """Print an object in a line."""
        self._print(json_output(data, in_a_line=True))

    def _print(self, line: str) -> None:
        with suppress(OSError, ValueError):  # ValueError: of a file that was closed
            typer.echo(escaped(line))
