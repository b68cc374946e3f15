"""Output of verbs that run as a service: logs as text and JSON, start messages."""

from __future__ import annotations

import json
import logging
from datetime import datetime

import pytest

from drfh.cli.service import Printer, check_log_options, service_logging
from drfh.errors import UnknownNameError

log = logging.getLogger("drfh.engines.example")


def test_text_has_date_level_logger_and_message(capsys: pytest.CaptureFixture[str]) -> None:
    with service_logging():
        log.debug("not shown")
        log.warning("cycle aborted error=%(error)s", {"error": "no answer"})
    out, err = capsys.readouterr()
    assert out == ""
    date, level, name, message = err.rstrip("\n").split(" ", 3)
    assert abs(datetime.now().astimezone() - datetime.fromisoformat(date)).total_seconds() < 60
    assert (level, name) == ("WARNING", "drfh.engines.example:")
    assert message == 'cycle aborted error="no answer"'


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("not enough memory", '"not enough memory"'),
        ("n0", "n0"),
        ("biology:22,physics:56", "biology:22,physics:56"),
        ("", '""'),
        ("a=b", '"a=b"'),
        ('say "no"', r'"say \"no\""'),
        ("two\nlines", r'"two\nlines"'),
        (ValueError("no answer in 60 s"), '"no answer in 60 s"'),
        (3, "3"),
    ],
)
def test_values_are_quoted_where_they_could_be_misread(
    value: object, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with service_logging():
        log.info("job recalled job=%(job)d reason=%(reason)s", {"job": 7, "reason": value})
    [line] = capsys.readouterr().err.splitlines()
    assert line.partition(": ")[2] == f"job recalled job=7 reason={text}"


def test_json_is_an_object_a_line_with_the_fields(capsys: pytest.CaptureFixture[str]) -> None:
    with service_logging("debug", "json"):
        log.info("jobs placed count=%(count)d", {"count": 7, "error": ValueError("as text")})
        log.debug("plain %s", "two\nlines")
        try:
            raise ZeroDivisionError
        except ZeroDivisionError:
            log.exception("failed")
    first, second, third = map(json.loads, capsys.readouterr().err.splitlines())
    assert datetime.fromisoformat(first.pop("time")).tzinfo is not None
    assert first == {
        "level": "info",
        "logger": "drfh.engines.example",
        "message": "jobs placed count=7",
        "count": 7,
        "error": "as text",
    }
    assert (second["level"], second["message"]) == ("debug", "plain two\nlines")
    assert "ZeroDivisionError" in third["exception"]


@pytest.mark.parametrize(
    ("level", "shown"), [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)]
)
def test_levels(level: str, shown: int, capsys: pytest.CaptureFixture[str]) -> None:
    with service_logging(level):
        for number in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR):
            log.log(number, "something happened")
    assert len(capsys.readouterr().err.splitlines()) == shown


def test_logging_is_as_before_after_the_block(capsys: pytest.CaptureFixture[str]) -> None:
    top = logging.getLogger("drfh")
    before = top.level, top.propagate, list(top.handlers)
    with service_logging("debug"), service_logging("error"):
        pass
    assert (top.level, top.propagate, list(top.handlers)) == before
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("level", "log_format"), [("loud", "text"), ("info", "xml"), ("INFO", "text")]
)
def test_levels_and_formats_that_there_are_not(level: str, log_format: str) -> None:
    with pytest.raises(UnknownNameError):
        check_log_options(level, log_format)


def test_start_messages(capsys: pytest.CaptureFixture[str]) -> None:
    Printer(as_json=False)("metrics: http://127.0.0.1:1/metrics", metrics="not shown")
    Printer(as_json=True)("live view: here", live_view="here")
    text, line = capsys.readouterr().out.splitlines()
    assert text[8:] == " metrics: http://127.0.0.1:1/metrics"
    found = json.loads(line)
    assert found.pop("time") > 0
    assert found == {"version": 1, "says": "live view: here", "live_view": "here"}
