"""Formats of numbers, quantities, percentages, times, counts and lists."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

__all__ = [
    "MISSING",
    "escaped",
    "format_amount",
    "format_amounts",
    "format_axis_value",
    "format_bytes",
    "format_clock",
    "format_count",
    "format_duration",
    "format_elapsed",
    "format_number",
    "format_percent",
    "format_points",
    "format_quantity",
    "format_rest",
    "format_time",
    "join_names",
    "json_text",
    "plural",
    "short_resource",
    "time_unit",
]

#: Stands for a value that is not known.
MISSING = "–"

_ALL_DIGITS_BELOW = 1e15
_BINARY = (("Ei", 2.0**60), ("Pi", 2.0**50), ("Ti", 2.0**40), ("Gi", 2.0**30), ("Mi", 2.0**20))
# From which duration on, seconds in the unit, its name.
_UNITS = ((2 * 86400, 86400, "d"), (7200, 3600, "h"), (120, 60, "min"), (0, 1, "s"))
_CLOCK = ((86400, "d", "day"), (3600, "h", "hour"), (60, "min", "minute"), (1, "s", "second"))
# The same of a time axis, by its end, and the name in full.
_AXIS_UNITS = (
    (3 * 86400, 86400, "d", "days"), (2 * 3600, 3600, "h", "hours"), (180, 60, "min", "minutes"),
    (0, 1, "s", "seconds"),
)  # fmt: skip
_NOT_PLAIN = re.compile(r"[^ -~]")
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def escaped(text: str) -> str:
    r"""Return a text with all that a terminal would act on, or not show, written out.

    Control characters, ends of lines, marks that turn the direction of writing and characters
    without a width: as in a string of Python.

    Examples
    --------
    >>> print(escaped("ann\n\x1b[2Jbob"), escaped("a\u202eb"), escaped("Zoë"))
    ann\n\x1b[2Jbob a\u202eb Zoë
    """
    if text.isprintable():
        return text
    return _NOT_PLAIN.sub(
        lambda c: c[0] if _is_shown(c[0]) else c[0].encode("unicode_escape").decode(), text
    )


def _is_shown(character: str) -> bool:
    return character.isprintable() or unicodedata.category(character) == "Zs"


def json_text(data: Any, indent: int | None = None) -> str:
    r"""Return data as JSON that a terminal can show: the same data, :func:`escaped`.

    Examples
    --------
    >>> print(json_text({"user": "Zoë\u202e"}))
    {"user": "Zoë\u202e"}
    """
    text = json.dumps(data, indent=indent, ensure_ascii=False, allow_nan=False)
    return _NOT_PLAIN.sub(lambda c: c[0] if _is_kept(c[0]) else json.dumps(c[0])[1:-1], text)


def _is_kept(character: str) -> bool:
    return character == "\n" or _is_shown(character)


def format_number(value: float | None, digits: int = 4, *, zero_below: float = 5e-10) -> str:
    """Return a number with some significant digits.

    Parameters
    ----------
    value
        None gives a dash.
    digits
        Significant digits.
    zero_below
        Smaller values are round-off and written as 0.

    Examples
    --------
    >>> format_number(10.0), format_number(20 / 11), format_number(12583.4), format_number(None)
    ('10', '1.818', '12,583', '–')
    >>> format_number(11.6666666, 5), format_number(1e-14), format_number(1e-14, zero_below=0)
    ('11.667', '0', '1e-14')
    """
    if value is None:
        return MISSING
    if abs(value) < zero_below:
        return "0"
    whole = 10 ** (digits - 1) <= abs(value) < _ALL_DIGITS_BELOW
    return f"{value:,.0f}" if whole else f"{value:,.{digits}g}"


def format_percent(
    part: float | None,
    decimals: int = 1,
    *,
    trim: bool = False,
    signed: bool = False,
    unit: str = " %",
) -> str:
    """Return a part of 1 as percent.

    Parameters
    ----------
    part
        None gives a dash.
    decimals
        Digits after the point.
    trim
        Leave out zeros at the end.
    signed
        Write the plus of a positive part.
    unit
        What stands behind the number.

    Examples
    --------
    >>> format_percent(0.7142), format_percent(0.5), format_percent(1e-5), format_percent(None)
    ('71.4 %', '50.0 %', '0.001 %', '–')
    >>> format_percent(0.5, trim=True), format_percent(0.5, 2), format_percent(0.5, signed=True)
    ('50 %', '50.00 %', '+50.0 %')
    """
    if part is None:
        return MISSING
    sign = "+" if signed else ""
    if abs(part) < 1e-12:  # round-off
        part = 0.0
    if 0 < abs(part) < 10.0 ** -(decimals + 2):
        return f"{100 * part:{sign}.1g}{unit}"
    if trim:
        return f"{round(100 * part, decimals):{sign}g}{unit}"
    return f"{100 * part:{sign}.{decimals}f}{unit}"


def format_points(difference: float | None, *, trim: bool = False, signed: bool = False) -> str:
    """Return a difference of two parts of 1 as percentage points.

    Examples
    --------
    >>> format_points(-0.5), format_points(0.0123, signed=True), format_points(0.5, trim=True)
    ('-50.0 points', '+1.2 points', '50 points')
    """
    return format_percent(difference, trim=trim, signed=signed, unit=" points")


def format_quantity(amount: float) -> str:
    """Return an amount as scenario files write it, bytes with binary suffixes.

    Examples
    --------
    >>> format_quantity(17179869184.0), format_quantity(0.25), format_quantity(1234567.0)
    ('16Gi', '0.25', '1.23457e+06')
    """
    if _is_bytes(amount):
        suffixes = [(name, size) for name, size in _BINARY if amount >= size]
        # The largest one that takes two digits after the point, else as exact as six digits are.
        short = [(name, size) for name, size in suffixes if amount / size * 100 % 1 == 0]
        name, size = (short or suffixes)[0]
        return f"{amount / size:.6g}{name}"
    return f"{amount:.6g}"


def _is_bytes(amount: float) -> bool:
    return amount >= 2**20 and amount % 2**10 == 0


def format_amount(amount: float, *, like: float | None = None) -> str:
    """Return an amount with four digits, bytes with a binary suffix.

    Parameters
    ----------
    amount
        The amount.
    like
        A given amount of the same resource, which tells bytes from other units; by default the
        amount itself, which is bytes from 2²⁰ on.

    Examples
    --------
    >>> format_amount(14.0), format_amount(6603.25), format_amount(1.02 * 2**37)
    ('14', '6,603', '130.6Gi')
    >>> format_amount(3.86905e10, like=2.0**30), format_amount(3e7, like=3.0)
    ('36.03Gi', '30,000,000')
    """
    if like is None or _is_bytes(like):
        for name, size in _BINARY:
            if amount >= size:
                return f"{amount / size:,.4g}{name}"
        if like is not None and amount >= 2**10:
            return f"{amount / 2**10:,.4g}Ki"
    return format_number(amount)


def format_amounts(amounts: Mapping[str, float], *, resource_first: bool = False) -> str:
    """Return the amounts that are not 0 with their resources.

    Examples
    --------
    >>> demand = {"cpu": 2.0, "memory": 2.0**32, "gres/gpu": 1.0, "disk": 0.0}
    >>> format_amounts(demand), format_amounts(demand, resource_first=True)
    ('2 cpu, 4Gi memory, 1 gpu', 'cpu 2, memory 4Gi, gpu 1')
    """
    pairs = [(format_quantity(a), short_resource(r)) for r, a in amounts.items() if a]
    return ", ".join(f"{r} {a}" if resource_first else f"{a} {r}" for a, r in pairs)


def short_resource(resource: str) -> str:
    """Return a resource without Slurm's prefix for generic ones.

    Examples
    --------
    >>> short_resource("gres/gpu")
    'gpu'
    """
    return resource.removeprefix("gres/")


def format_axis_value(value: float) -> str:
    """Return the label of a value at an axis.

    Examples
    --------
    >>> format_axis_value(2.0**34), format_axis_value(2e-5), format_axis_value(5000.0)
    ('16Gi', '2 · 10⁻⁵', '5,000')
    """
    if _is_bytes(value):
        return format_quantity(value)
    if value < 1e-3 or value >= 1e7:
        factor, _, power = f"{value:.0e}".partition("e")
        digits = str(int(power)).translate(_RAISED)
        return f"10{digits}" if factor == "1" else f"{factor} · 10{digits}"
    return format_number(value, 3)


def format_bytes(size: int) -> str:
    """Return the size of a file in kB or MB.

    Examples
    --------
    >>> format_bytes(3_210), format_bytes(12_345_678)
    ('3.2 kB', '12.3 MB')
    """
    return f"{size / 1e6:,.3g} MB" if size >= 1e5 else f"{size / 1e3:.2g} kB"


def format_duration(seconds: float | None) -> str:
    """Return a duration with three digits, in a unit that suits it.

    Examples
    --------
    >>> [format_duration(value) for value in (0, 90, 565, 15264, 86400, 2e8, 0.01234, None)]
    ['0 s', '90 s', '9.42 min', '4.24 h', '24 h', '2,315 d', '0.0123 s', '–']
    """
    if seconds is None:
        return MISSING
    size, unit = next(unit[1:] for unit in _UNITS if abs(seconds) >= unit[0])
    amount = seconds / size
    whole = 99.95 <= amount < _ALL_DIGITS_BELOW
    return f"{amount:,.0f} {unit}" if whole else f"{amount:.3g} {unit}"


def format_clock(seconds: float, *, long: bool = False) -> str:
    """Return a time since the start in at most two units.

    Parameters
    ----------
    seconds
        Milliseconds count below a minute.
    long
        Write the units in full, as for a screen reader.

    Examples
    --------
    >>> format_clock(0), format_clock(12.5), format_clock(200), format_clock(90000)
    ('0 s', '12.5 s', '3 min 20 s', '1 d 1 h')
    >>> format_clock(61, long=True)
    '1 minute 1 second'
    """
    rest = round(seconds, 3) if seconds < 60 else round(seconds)
    parts: list[str] = []
    for size, short, name in _CLOCK:
        number = rest // size if size > 1 else rest
        if number and len(parts) < 2:
            parts.append(f"{number:g} {plural(number, name) if long else short}")
            rest -= number * size
        elif parts:
            break
    return " ".join(parts) or ("0 seconds" if long else "0 s")


def time_unit(end: float, *, short: bool = False) -> tuple[int, str]:
    """Return the unit of a time axis: its seconds and its name.

    Examples
    --------
    >>> time_unit(70_000), time_unit(90), time_unit(600, short=True)
    ((3600, 'hours'), (1, 'seconds'), (60, 'min'))
    """
    _, size, letter, name = next((u for u in _AXIS_UNITS if end >= u[0]), _AXIS_UNITS[-1])
    return size, letter if short else name


def format_elapsed(seconds: float, *, in_milliseconds: bool = False) -> str:
    """Return how long a computation took.

    Parameters
    ----------
    seconds
        Its wall-clock time.
    in_milliseconds
        Always in milliseconds, with one decimal.

    Examples
    --------
    >>> format_elapsed(0.00042), format_elapsed(0.171), format_elapsed(2.53)
    ('0.4 ms', '171 ms', '2.5 s')
    >>> format_elapsed(2.53, in_milliseconds=True)
    '2,530.0 ms'
    """
    if in_milliseconds:
        return f"{1000 * seconds:,.1f} ms"
    if seconds < 1:
        return f"{seconds * 1000:.{1 if seconds < 0.01 else 0}f} ms"
    return f"{seconds:,.1f} s"


def format_time(timestamp: float, *, date: bool = False, seconds: bool = True) -> str:
    """Return the local time of a Unix time, with or without date.

    Examples
    --------
    >>> len(format_time(0.0)), len(format_time(0.0, date=True)), len(format_time(0, seconds=False))
    (8, 19, 5)
    """
    day, clock = "%Y-%m-%d " if date else "", "%H:%M:%S" if seconds else "%H:%M"
    return datetime.fromtimestamp(timestamp).strftime(day + clock)


def format_count(number: float, thing: str, digits: int = 6) -> str:
    """Return a number of things.

    Parameters
    ----------
    number, thing
        How many; what one is called.
    digits
        Significant digits of a number that is not an integer.

    Examples
    --------
    >>> format_count(1, "user"), format_count(12583, "server"), format_count(0.5, "task")
    ('1 user', '12,583 servers', '0.5 tasks')
    """
    written = format_number(number, digits) if isinstance(number, float) else f"{number:,}"
    return f"{written} {plural(number, thing)}"


def plural(number: float, thing: str, things: str = "") -> str:
    """Return the noun, or the verb, for so many things.

    Parameters
    ----------
    number, thing
        How many; the form for one.
    things
        The other form, by default with an s.

    Examples
    --------
    >>> plural(1, "user"), plural(0, "user"), plural(1, "has", "have"), plural(2, "has", "have")
    ('user', 'users', 'has', 'have')
    """
    return thing if number == 1 else things or f"{thing}s"


def format_rest(number: int, thing: str = "", end: str = "more") -> str:
    """Return the line that counts what a list leaves out.

    Parameters
    ----------
    number, thing
        How many; what one is called.
    end
        Stands behind them.

    Examples
    --------
    >>> format_rest(1200), format_rest(1, "user"), format_rest(2, "user", "nearer to fair")
    ('… and 1,200 more', '… and 1 user more', '… and 2 users nearer to fair')
    """
    counted = format_count(number, thing) if thing else f"{number:,}"
    return f"… and {counted} {end}".rstrip()


def join_names(
    names: Iterable[str],
    joint: str = "and",
    *,
    separator: str = ", ",
    most: int | None = None,
    thing: str = "",
) -> str:
    """Return names as one list, the first few of many.

    Parameters
    ----------
    names
        In order.
    joint
        Stands before the last one; with none the separator does.
    separator
        Stands between the others.
    most
        Names that are written out; by default all.
    thing
        What the others are called.

    Examples
    --------
    >>> join_names("a"), join_names("ab"), join_names("abcdef", most=3), join_names("ab", "")
    ('a', 'a and b', 'a, b, c and 3 more', 'a, b')
    >>> join_names("abcd", most=3, thing="other node")
    'a, b, c and 1 other node'
    """
    listed = list(names)
    if most is not None and len(listed) > most:
        rest = len(listed) - most
        others = format_count(rest, thing) if thing else f"{rest:,} more"
        return f"{separator.join(listed[:most])} and {others}"
    if not joint or len(listed) < 2:
        return separator.join(listed)
    return f"{separator.join(listed[:-1])} {joint} {listed[-1]}"
