"""Values of cells: read from text, and shown as text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from drfh.errors import InputError
from drfh.files.scenario_file import read_restriction
from drfh.formatting import format_quantity, plural
from drfh.model.resources import FrozenMap, parse_quantity
from drfh.model.users import Term, parse_restriction, shown_restriction

__all__ = [
    "CellValue",
    "amounts_text",
    "frozen",
    "is_in_bytes",
    "labels_text",
    "plain",
    "read_amount",
    "read_amounts",
    "read_count",
    "read_labels",
    "read_name",
    "read_servers",
    "read_tasks",
    "read_weight",
    "servers_text",
    "shown_amount",
    "shown_number",
    "shown_servers",
    "shown_value",
    "tasks_text",
]


#: What a cell may hold: text as typed or a number; for servers and labels also lists and mappings.
CellValue: TypeAlias = Any

#: The longest text of one cell, and how deep lists and mappings go: servers have three levels.
LONGEST = 1_000
_DEEPEST = 4
_WHOLE = re.compile(r"\s*\d{1,16}\s*", re.ASCII)
_CONTROL = re.compile("[\\x00-\\x1f\\x7f-\\x9f]")
_HALF = re.compile("[\ud800-\udfff]")  # half a character cannot be sent
_NO_END = frozenset({"", "∞", "inf", "no end", "endless"})
_EVERYWHERE = frozenset({"", "all", "everywhere"})
_WITH_BYTES = re.compile(r"(?:[kKMGTPE]i?[bB]?|[bB])\s*")
_BYTES = re.compile("mem|ram|stor|disk|ssd|hdd|nvme|scratch|swap|cache|volume|byte|hugepages", re.I)
_COUNTED = re.compile("[cgt]pu|fpga|core|slot|licen|node|pod|port", re.I)
_MANY = 1e6  # amounts from here on are taken for bytes
_DECIMAL = (("E", 1e18), ("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6))
_SERVERS_RULE = "must be servers such as 'big', 'big or small/0' or 'zone=a|b', or 'all'"
_LABELS_RULE = "must be labels such as 'zone=a, disk=ssd'"


def frozen(value: Any, field: str, depth: int = _DEEPEST) -> CellValue:
    """Return a value of a cell as an immutable one.

    Examples
    --------
    >>> frozen(["big", {"zone": ["a", "b"]}], "servers")
    ('big', {'zone': ('a', 'b')})
    """
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    if isinstance(value, str):
        return _sendable(value, field)
    if depth and isinstance(value, list | tuple):
        return tuple(frozen(entry, field, depth - 1) for entry in value)
    if depth and isinstance(value, Mapping):
        return FrozenMap(
            {_sendable(k, field): frozen(v, field, depth - 1) for k, v in value.items()}
        )
    raise InputError(field, "must be text, a number, a list or a mapping", value)


def plain(value: CellValue) -> Any:
    """Return a frozen value as JSON has it.

    Examples
    --------
    >>> plain(frozen(["big", {"zone": ["a"]}], "servers"))
    ['big', {'zone': ['a']}]
    """
    if isinstance(value, Mapping):
        return {key: plain(entry) for key, entry in value.items()}
    return [plain(entry) for entry in value] if isinstance(value, tuple) else value


def _sendable(value: Any, field: str) -> str:
    if not isinstance(value, str):
        raise InputError(field, "must be text", value)
    if len(value) > LONGEST:
        raise InputError(field, f"must have at most {LONGEST:,} characters", value)
    if _HALF.search(value):
        raise InputError(field, "must have whole characters only", value)
    return value


def read_name(value: CellValue, field: str) -> str:
    """Read a name: spaces around it do not count.

    Examples
    --------
    >>> read_name(" ann ", "name")
    'ann'
    """
    text = _sendable(value, field).strip()
    if not text:
        raise InputError(field, "must not be empty", value)
    if _CONTROL.search(text):
        raise InputError(field, "must have no control characters", value)
    return text


def is_in_bytes(resource: str, amounts: Iterable[float] = ()) -> bool:
    """Return whether a resource may have units of bytes, by its name and its amounts.

    Examples
    --------
    >>> is_in_bytes("gpu-memory"), is_in_bytes("gpu"), is_in_bytes("x", [4]), is_in_bytes("x")
    (True, False, False, True)
    """
    most = max(amounts, default=0.0)
    new = most == 0 and not _COUNTED.search(resource)
    return most >= _MANY or new or bool(_BYTES.search(resource))


def read_amount(
    value: CellValue, resource: str, in_bytes: Callable[[str], bool] = is_in_bytes
) -> float:
    """Read an amount of a resource; an empty cell is 0.

    Examples
    --------
    >>> read_amount("500m", "cpu"), read_amount("", "gpu")
    (0.5, 0.0)
    >>> read_amount("16 GB", "cpu")
    Traceback (most recent call last):
    drfh.errors.InputError: cpu must be a number, such as 4, 0.5 or 500m: it is not in bytes, \
got '16 GB'
    """
    amount = parse_quantity(0 if _empty(value) else value, resource)
    if isinstance(value, str) and _WITH_BYTES.search(value) and not in_bytes(resource):
        rule = "must be a number, such as 4, 0.5 or 500m: it is not in bytes"
        raise InputError(resource, rule, value)
    return amount


def _read_number(value: CellValue, field: str, rule: str) -> float:
    number = parse_quantity(value, field, rule)
    if isinstance(value, str) and value.strip()[-1].isalpha():
        raise InputError(field, "must be a number without a unit, such as 1 or 2.5", value)
    return number


def read_amounts(
    value: CellValue, field: str, in_bytes: Callable[[str], bool] = is_in_bytes
) -> dict[str, float]:
    """Read amounts by resource.

    Examples
    --------
    >>> read_amounts({"cpu": "500m", "memory": "1Gi"}, "demand")
    {'cpu': 0.5, 'memory': 1073741824.0}
    """
    if not isinstance(value, Mapping):
        raise InputError(field, "must map resource names to amounts, such as {'cpu': 4}", value)
    return {read_name(r, field): read_amount(amount, r, in_bytes) for r, amount in value.items()}


def read_weight(value: CellValue, field: str) -> float:
    """Read a weight.

    Examples
    --------
    >>> read_weight("2.5", "weight")
    2.5
    """
    rule = "must be a number > 0, such as 1 or 2.5"
    weight = _read_number(value, field, rule)
    if weight <= 0:
        raise InputError(field, rule, value)
    return weight


def read_count(value: CellValue, field: str) -> int:
    """Read a number of servers.

    Examples
    --------
    >>> read_count(" 12 ", "count"), read_count(12.0, "count")
    (12, 12)
    """
    rule = "must be a whole number ≥ 1"
    if isinstance(value, str):
        number = int(value) if _WHOLE.fullmatch(value) else 0
    else:
        amount = parse_quantity(value, field, rule)
        number = int(amount) if amount.is_integer() else 0
    if not 1 <= number < 2**53:
        raise InputError(field, rule, value)
    return number


def read_tasks(value: CellValue, field: str) -> float | None:
    """Read a number of tasks; None for no end.

    Examples
    --------
    >>> read_tasks("100", "tasks"), read_tasks("", "tasks")
    (100.0, None)
    """
    if value is None or (isinstance(value, str) and value.strip().lower() in _NO_END):
        return None
    rule = "must be a number ≥ 0, such as 100 (empty for no end)"
    return _read_number(value, field, rule)


def read_labels(value: CellValue, field: str) -> dict[str, str]:
    """Read labels of servers.

    Examples
    --------
    >>> read_labels("zone=a, disk=ssd", "labels")
    {'zone': 'a', 'disk': 'ssd'}
    """
    if isinstance(value, Mapping):
        if not all(isinstance(entry, str) for entry in value.values()):
            raise InputError(field, _LABELS_RULE, dict(value))
        return dict(value)
    if _empty(value):
        return {}
    labels: dict[str, str] = {}
    for part in _sendable(value, field).split(","):
        key, equals, label = (word.strip() for word in part.partition("="))
        if not (equals and key and label) or key in labels:
            raise InputError(field, _LABELS_RULE, value)
        labels[key] = label
    return labels


def read_servers(
    value: CellValue, field: str, known: Callable[[str], bool] = lambda name: False
) -> tuple[Term, ...] | None:
    """Read a restriction such as ``big or small/0`` or ``zone=a|b``.

    Parameters
    ----------
    value
        As typed; or a list or mapping, as a scenario file has it.
    field
        What to call it in an error.
    known
        Whether a whole text is the name of a server: names may have commas.

    Examples
    --------
    >>> read_servers("big or small/0", "servers"), read_servers("zone=a|b, disk=ssd", "servers")
    (('big', 'small/0'), ({'zone': ('a', 'b'), 'disk': ('ssd',)},))
    >>> read_servers("all", "servers") is None
    True
    """
    if not isinstance(value, str):
        try:
            listed = read_restriction(plain(value))
            return None if listed is None else parse_restriction(listed)
        except InputError as error:
            raise InputError(field, error.rule, error.value) from None
    text = _sendable(value, field).strip()
    if known(text):
        return (text,)
    if text.lower() in _EVERYWHERE:
        return None
    terms: list[Term] = []
    for part in re.split(r"\s+or\s+", text):
        terms += [part] if known(part) else _terms(part, field, value)
    return parse_restriction(terms)


def _terms(text: str, field: str, value: CellValue) -> list[Term]:
    """Read names, or labels that must all hold."""
    parts = [part.strip() for part in text.split(",")]
    if all(parts) and not any("=" in part for part in parts):
        return list(parts)
    labels: dict[str, list[str]] = {}
    for part in parts:
        key, equals, choices = (side.strip() for side in part.partition("="))
        listed = [choice.strip() for choice in choices.split("|")]
        if not (equals and key and all(listed)) or key in labels:
            raise InputError(field, _SERVERS_RULE, value)
        labels[key] = listed
    return [labels]


def _empty(value: CellValue) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def shown_servers(restriction: Any) -> str:
    """Return a restriction as :func:`read_servers` reads it.

    Examples
    --------
    >>> shown_servers(("big", {"zone": ("a", "b")})), shown_servers(None)
    ('big or zone=a|b', '')
    """
    return "" if restriction is None else shown_restriction(restriction)


def shown_amount(amount: float) -> str:
    """Return an amount as it was typed: with a binary unit or, where that is odd, a decimal one.

    Examples
    --------
    >>> [shown_amount(parse_quantity(text)) for text in ("64Gi", "16 GB", "0.5", "1500M")]
    ['64Gi', '16G', '0.5', '1.5G']
    """
    text = format_quantity(amount)
    if amount >= _MANY and (text[-1].isdigit() or parse_quantity(text) != amount):
        for name, size in _DECIMAL:
            if amount >= size and amount / size * 100 % 1 == 0:
                return f"{amount / size:.15g}{name}"
    return text


def shown_number(number: float) -> str:
    """Return a weight or a number of tasks: it has no unit.

    Examples
    --------
    >>> shown_number(2.0**20), shown_number(0.5)
    ('1048576', '0.5')
    """
    return f"{number:.15g}"


def shown_value(value: CellValue) -> str:
    """Return a typed value as text.

    Examples
    --------
    >>> shown_value(" 16Gi "), shown_value(2.0), shown_value(None)
    ('16Gi', '2', '')
    """
    if isinstance(value, int | float):
        return shown_amount(float(value)) if abs(value) < 1e300 else str(value)[:20]
    return "" if value is None else str(value).strip()


def amounts_text(amounts: Any) -> str:
    """Return amounts by resource as text.

    Examples
    --------
    >>> amounts_text({"cpu": 0.5, "memory": "2Gi"})
    'cpu 0.5, memory 2Gi'
    """
    if not isinstance(amounts, Mapping):
        return shown_value(amounts)
    return ", ".join(f"{r} {shown_value(a) or '0'}" for r, a in amounts.items()) or "nothing"


def tasks_text(value: CellValue) -> str:
    """Return a number of tasks as text.

    Examples
    --------
    >>> tasks_text("100"), tasks_text("")
    ('100 tasks', 'no end')
    """
    try:
        tasks = read_tasks(value, "tasks")
    except InputError:
        return f"{shown_value(value)} tasks"
    return "no end" if tasks is None else f"{shown_number(tasks)} {plural(tasks, 'task')}"


def servers_text(value: CellValue) -> str:
    """Return a restriction as text.

    Examples
    --------
    >>> servers_text(["big", {"zone": "a"}]), servers_text("")
    ('big or zone=a', 'all')
    """
    try:
        return shown_servers(read_servers(value, "servers")) or "all"
    except InputError:
        return shown_value(value)


def labels_text(labels: CellValue) -> str:
    """Return labels as text.

    Examples
    --------
    >>> labels_text({"zone": "a", "disk": "ssd"})
    'zone=a, disk=ssd'
    """
    if not isinstance(labels, Mapping):
        return shown_value(labels)
    return ", ".join(f"{key}={label}" for key, label in labels.items())
