"""Numbers and names as the auditor writes them."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["amount_text", "listed", "number", "percent", "tasks_text"]

_NAMED = 3


def number(value: float) -> str:
    """Return a number with four digits, or all of a large one.

    Examples
    --------
    >>> number(10.0), number(20 / 11), number(12583.4)
    ('10', '1.818', '12,583')
    """
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def amount_text(value: float) -> str:
    """Return an amount of a resource with four digits: bytes, and what is as large, in Mi, Gi, Ti.

    Examples
    --------
    >>> amount_text(14.0), amount_text(1.02 * 2**37)
    ('14', '130.6Gi')
    """
    for suffix, size in (("Pi", 2.0**50), ("Ti", 2.0**40), ("Gi", 2.0**30), ("Mi", 2.0**20)):
        if value >= size:
            return f"{value / size:,.4g}{suffix}"
    return number(value)


def percent(part: float) -> str:
    """Return a part as percent.

    Examples
    --------
    >>> percent(0.31), percent(1e-5)
    ('31.0 %', '0.001 %')
    """
    return f"{100 * part:.1f} %" if part >= 0.001 or part == 0 else f"{100 * part:.1g} %"


def listed(names: Sequence[str]) -> str:
    """Return names in words, the first few of many.

    Examples
    --------
    >>> listed(["a"]), listed(["a", "b"]), listed(list("abcdef"))
    ('a', 'a and b', 'a, b, c and 3 more')
    """
    shown = list(names[:_NAMED])
    if len(names) > _NAMED:
        shown.append(f"{len(names) - _NAMED} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def tasks_text(count: float) -> str:
    """Return a number of tasks in words.

    Examples
    --------
    >>> tasks_text(1.0), tasks_text(0.5)
    ('1 task', '0.5 tasks')
    """
    return f"{number(count)} task{'' if count == 1 else 's'}"
