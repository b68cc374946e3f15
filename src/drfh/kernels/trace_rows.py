"""Rows of Google's trace, straight from the bytes.

A short cut: :func:`drfh.traces.google_rows.plain_part` is the twin that defines what comes out.
What is unusual in any way is not read here; the kernel says so, and the twin reads it.

Most rows end like an earlier row of the same job: user, class, priority, requests. Such an ending
is read once and kept as a *form*; the next row of the job is compared with it, eight bytes at a
time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit, types
from numba.extending import intrinsic
from numpy.typing import NDArray

__all__ = ["ROWS_AT_LEAST", "move_jobs", "move_users", "read_rows"]

Ints = NDArray[np.int64]
Small = NDArray[np.int32]
Tiny = NDArray[np.int8]
Bytes = NDArray[np.uint8]
Floats = NDArray[np.float64]

Function = TypeVar("Function", bound=Callable[..., Any])


def _kernel(function: Function) -> Function:
    """Compile when it is first called, to run beside other threads, and keep the machine code."""
    return cast("Function", njit(cache=True, nogil=True)(function))


#: No row in order has fewer bytes: 12 commas, an end of line, and five fields.
ROWS_AT_LEAST = 18

# What `read_rows` returns, if not all is done: what it needs more room for, or that it gives up.
DONE, MORE_JOBS, MORE_FORMS, MORE_TEXT, MORE_USERS, ODD = range(6)

# Numbers kept from call to call, in `kept`: where it is, how many there are, and so on.
(
    POSITION, STEPS, SUBMITS, ROWS, FIRST, LAST, JOBS, FORMS, TEXT, USERS, JOB, JOB_SLOT, KINDS,
) = range(13)  # fmt: skip
KEPT = KINDS + 9

# Columns of a form's whole numbers.
AT, LENGTH, USER_LENGTH, USER, CLASS, PRIORITY, DIFFERENT = range(7)
FORM_COLUMNS = 7
MISSING = -1  # an empty field; no number in order is negative

_COMMA, _POINT, _NEWLINE, _QUOTE = 44, 46, 10, 34
_MOST_DIGITS = 18  # no overflow
_MIX = -7046029254386353131
_LARGEST_JOB, _LARGEST_INDEX, _INDEX_BITS = 2**39 - 1, 2**23 - 1, 23
_EXACT = 2**53
_TENS = 10.0 ** np.arange(23)


@intrinsic  # type: ignore[untyped-decorator]
def _word(context: Any, data: Any, at: Any) -> Any:
    """Read eight bytes of an array as one number, wherever they begin."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = target.make_array(signature.args[0])(target, builder, arguments[0])
        integer = target.get_value_type(types.int64)
        pointer = builder.bitcast(builder.gep(array.data, [arguments[1]]), integer.as_pointer())
        return builder.load(pointer, align=1)

    return types.int64(data, types.int64), generate


@_kernel
def _slot(value: int, mask: int) -> int:
    """Return where a number belongs in a table."""
    mixed = value * _MIX
    return (mixed ^ (mixed >> 32)) & mask


@_kernel
def _equal(one: Bytes, at: int, other: Bytes, there: int, length: int) -> bool:
    """Compare eight bytes or more."""
    last = length - 8
    offset = 0
    while offset < last:
        if _word(one, at + offset) != _word(other, there + offset):
            return False
        offset += 8
    return bool(_word(one, at + last) == _word(other, there + last))


@_kernel
def _whole(data: Bytes, at: int) -> tuple[int, int]:
    """Return a whole number and where it ends; MISSING if there is no digit, or too many."""
    value = 0
    end = at
    while True:
        digit = int(data[end]) - 48
        if digit < 0 or digit > 9:
            break
        value = value * 10 + digit
        end += 1
    if end == at or end > at + _MOST_DIGITS:
        return MISSING, end
    return value, end


@_kernel
def _tiny(data: Bytes, at: int) -> tuple[int, int]:
    """Return a whole number of 8 bits or MISSING, and where it ends; -2 if it is something else."""
    value, end = _whole(data, at)
    if value > 127 or (value < 0 and end > at):
        return -2, end
    return value, end


@_kernel
def _amount(data: Bytes, at: int) -> tuple[float, int]:
    """Return a number ≥ 0 (NaN: no field) and where it ends; -1 if it may not come out exact.

    Mantissa and power of ten are both exact here, so one operation rounds correctly.
    """
    value, end = _whole(data, at)
    if value < 0:
        return (np.nan if end == at else -1.0), end
    power = 0
    if data[end] == _POINT:
        first = end + 1
        end = first
        while True:
            digit = int(data[end]) - 48
            if digit < 0 or digit > 9:
                break
            value = value * 10 + digit
            end += 1
        if end == first or end > at + _MOST_DIGITS:
            return -1.0, end
        power = first - end
    if data[end] == 101 or data[end] == 69:  # e, E
        end += 1
        sign = 1
        if data[end] == 45:  # -
            sign = -1
            end += 1
        elif data[end] == 43:  # +
            end += 1
        first = end
        exponent, end = _whole(data, first)
        if exponent < 0 or end > first + 3:
            return -1.0, end
        power += sign * exponent
    if value >= _EXACT or power > 22 or power < -22:
        return -1.0, end
    if power < 0:
        return value / _TENS[-power], end
    return value * _TENS[power], end


@_kernel
def _new_form(
    data: Bytes,
    at: int,
    kept: Ints,
    text: Bytes,
    form: Ints,
    request: Floats,
    user_table: Small,
) -> int:
    """Read the end of a row, from the user on, as a new form."""
    if kept[FORMS] == len(form):
        return MORE_FORMS
    if 2 * kept[USERS] >= len(user_table):
        return MORE_USERS
    hashed = 0
    end = at
    while data[end] > 32 and data[end] < 127 and data[end] != _COMMA and data[end] != _QUOTE:
        hashed = hashed * 31 + data[end]
        end += 1
    user_length = end - at
    if user_length == 0 or data[end] != _COMMA:
        return ODD
    scheduling_class, end = _tiny(data, end + 1)
    if scheduling_class == -2 or data[end] != _COMMA:
        return ODD
    priority, end = _tiny(data, end + 1)
    if priority == -2 or data[end] != _COMMA:
        return ODD
    number = kept[FORMS]
    for column in range(3):
        value, end = _amount(data, end + 1)
        if value < 0 or data[end] != _COMMA:
            return ODD
        request[number, column] = value
    different, end = _tiny(data, end + 1)
    if different == -2 or data[end] != _NEWLINE:
        return ODD
    length = end + 1 - at
    start = kept[TEXT]
    if start + length > len(text):
        return MORE_TEXT
    text[start : start + length] = data[at : at + length]
    mask = len(user_table) - 1
    slot = _slot(hashed, mask)
    while True:
        known = user_table[slot]
        if known < 0:
            user_table[slot] = number
            user = kept[USERS]
            kept[USERS] += 1
            break
        if form[known, USER_LENGTH] == user_length:
            other = form[known, AT]
            same = True
            for offset in range(user_length):
                if text[other + offset] != text[start + offset]:
                    same = False
                    break
            if same:
                user = form[known, USER]
                break
        slot = (slot + 1) & mask
    form[number, AT] = start
    form[number, LENGTH] = length
    form[number, USER_LENGTH] = user_length
    form[number, USER] = user
    form[number, CLASS] = scheduling_class
    form[number, PRIORITY] = priority
    form[number, DIFFERENT] = different
    kept[TEXT] = start + length
    kept[FORMS] = number + 1
    return DONE


@_kernel
def read_rows(
    data: Bytes,
    end: int,
    kept: Ints,
    task: Ints,
    time: Ints,
    event: Tiny,
    submit_form: Small,
    job_table: Ints,
    job_form: Small,
    text: Bytes,
    form: Ints,
    request: Floats,
    user_table: Small,
) -> int:
    """Read rows from ``kept[POSITION]`` up to `end`, which is behind an end of line.

    Parameters
    ----------
    data
        Bytes of a part.
    end
        Where to stop.
    kept
        Numbers from call to call. POSITION is the row to go on with.
    task, time, event
        Filled with SUBMIT, SCHEDULE and end events; there is room for all rows that `data` can
        have.
    submit_form
        Filled with the form of each SUBMIT row.
    job_table, job_form
        Open-addressing table of jobs (-1: free), and the last form of each.
    text, form, request
        The forms: their bytes, their whole numbers, and CPU, memory and disk (NaN: no field).
    user_table
        Open-addressing table of users, each as the first form that has it (-1: free).

    Returns
    -------
    int
        DONE; or what there must be more room for; or ODD if the plain twin must read this part.
    """
    at = kept[POSITION]
    before = kept[LAST]
    job_mask = len(job_table) - 1
    while at < end:
        kept[POSITION] = at
        when, cursor = _whole(data, at)
        if when < before or data[cursor] != _COMMA:  # time runs backwards, or is none
            return ODD
        missing, cursor = _tiny(data, cursor + 1)
        if missing == -2 or data[cursor] != _COMMA:
            return ODD
        job, cursor = _whole(data, cursor + 1)
        if job < 0 or job > _LARGEST_JOB or data[cursor] != _COMMA:
            return ODD
        index, cursor = _whole(data, cursor + 1)
        if index < 0 or index > _LARGEST_INDEX or data[cursor] != _COMMA:
            return ODD
        first = cursor + 1
        machine, cursor = _whole(data, first)
        if (machine < 0 and cursor > first) or data[cursor] != _COMMA:
            return ODD
        kind, cursor = _whole(data, cursor + 1)
        if kind < 0 or kind > 8 or data[cursor] != _COMMA:
            return ODD
        rest = cursor + 1
        slot = kept[JOB_SLOT]
        if job != kept[JOB]:
            slot = _slot(job, job_mask)
            while job_table[slot] >= 0 and job_table[slot] != job:
                slot = (slot + 1) & job_mask
            if job_table[slot] < 0:
                if 2 * kept[JOBS] >= len(job_table):
                    return MORE_JOBS
                answer = _new_form(data, rest, kept, text, form, request, user_table)
                if answer != DONE:
                    return answer
                job_table[slot] = job
                job_form[slot] = kept[FORMS] - 1
                kept[JOBS] += 1
            kept[JOB] = job
            kept[JOB_SLOT] = slot
        known = job_form[slot]
        length = form[known, LENGTH]
        if rest + length > end or not _equal(data, rest, text, form[known, AT], length):
            answer = _new_form(data, rest, kept, text, form, request, user_table)
            if answer != DONE:
                return answer
            known = kept[FORMS] - 1
            job_form[slot] = known
            length = form[known, LENGTH]
        at = rest + length
        before = when
        kept[LAST] = when
        if kept[ROWS] == 0:
            kept[FIRST] = when
        kept[ROWS] += 1
        kept[KINDS + kind] += 1
        if kind == 0:
            submit_form[kept[SUBMITS]] = known
            kept[SUBMITS] += 1
        if kind <= 6:
            step = kept[STEPS]
            task[step] = (job << _INDEX_BITS) + index
            time[step] = when
            event[step] = kind
            kept[STEPS] = step + 1
    kept[POSITION] = at
    return DONE


@_kernel
def move_jobs(table: Ints, form: Small, to: Ints, to_form: Small) -> None:
    """Fill a larger table (all -1) with the jobs of another one."""
    mask = len(to) - 1
    for place in range(len(table)):
        if table[place] >= 0:
            slot = _slot(table[place], mask)
            while to[slot] >= 0:
                slot = (slot + 1) & mask
            to[slot] = table[place]
            to_form[slot] = form[place]


@_kernel
def move_users(table: Small, to: Small, text: Bytes, form: Ints) -> None:
    """Fill a larger table (all -1) with the users of another one."""
    mask = len(to) - 1
    for known in table:
        if known >= 0:
            hashed = 0
            for at in range(form[known, AT], form[known, AT] + form[known, USER_LENGTH]):
                hashed = hashed * 31 + text[at]
            slot = _slot(hashed, mask)
            while to[slot] >= 0:
                slot = (slot + 1) & mask
            to[slot] = known
