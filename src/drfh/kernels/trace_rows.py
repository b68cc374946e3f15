"""Parser of the rows of Google's trace from bytes.

A short cut: :func:`drfh.traces.google2011.task_events.plain_part` defines what comes out. What
is unusual in any way is not read here; the kernel says so, and the twin reads it.

Most rows end like an earlier row of the same job: user, class, priority, requests. Such an ending
is read once and kept as a *form*; the next row of the job is compared with it, eight bytes at a
time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from drfh.kernels import machine_code

__all__ = ["ROWS_AT_LEAST", "move_jobs", "move_users", "read_rows"]

Ints = NDArray[np.int64]
Small = NDArray[np.int32]
Tiny = NDArray[np.int8]
Bytes = NDArray[np.uint8]
Floats = NDArray[np.float64]

Function = TypeVar("Function", bound=Callable[..., Any])


def _kernel(function: Function) -> Function:
    """Compile when it is first called, to run beside other threads, and keep the machine code."""
    return machine_code.kernel(function, nogil=True)


def _inline(function: Function) -> Function:
    """Compile as a part of what calls it."""
    return machine_code.kernel(function, nogil=True, forceinline=True)


#: No row in order has fewer bytes: 12 commas, an end of line, and five fields.
ROWS_AT_LEAST = 18

# What `read_rows` returns, if not all is done: what it needs more room for, or that it gives up.
DONE, MORE_JOBS, MORE_FORMS, MORE_TEXT, MORE_USERS, ODD = range(6)

# Numbers kept from call to call, in `kept`: where it is, how many there are, and so on.
(
    POSITION, SUBMITS, ROWS, FIRST, LAST, JOBS, FORMS, TEXT, USERS, JOB, JOB_SLOT, KINDS,
) = range(12)  # fmt: skip
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
_WHOLE_TENS = 10 ** np.arange(9)

# For eight bytes at once.
_NONE, _TEN = np.uint64(0), np.uint64(10)
_BYTE, _TWO_BYTES, _FOUR_BYTES = np.uint64(8), np.uint64(16), np.uint64(32)
_ZEROS = np.uint64(0x3030303030303030)
_BEYOND_NINE = np.uint64(0x7676767676767676)  # takes a byte above 9 to its highest bit
_HIGH_BITS = np.uint64(0x8080808080808080)
_FOURTH = np.uint64(0x000000FF000000FF)
_MILLION_HUNDRED = np.uint64((1_000_000 << 32) + 100)
_TEN_THOUSAND_ONE = np.uint64((10_000 << 32) + 1)


@intrinsic  # type: ignore[untyped-decorator]
def _address(context: Any, array: Any) -> Any:
    """Return where an array begins. Helpers take addresses: to hand an array over is slow."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        found = target.make_array(signature.args[0])(target, builder, arguments[0])
        return builder.ptrtoint(found.data, target.get_value_type(types.int64))

    return types.int64(array), generate


def _load(kind: Any) -> Any:
    """Return a function that reads a number of some type from an address."""

    def load(context: Any, at: Any) -> Any:
        def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = target.get_value_type(kind).as_pointer()
            return builder.load(builder.inttoptr(arguments[0], pointer), align=1)

        return kind(types.int64), generate

    return intrinsic(load)


_byte, _word = _load(types.uint8), _load(types.uint64)


@intrinsic  # type: ignore[untyped-decorator]
def _low_zeros(context: Any, value: Any) -> Any:
    """Count the zero bits below the lowest one bit."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], target.get_constant(types.boolean, False))

    return types.int64(types.uint64), generate


@_inline
def _slot(value: int, mask: int) -> int:
    """Return where a number belongs in a table."""
    mixed = value * _MIX
    return (mixed ^ (mixed >> 32)) & mask


@_inline
def _equal(one: int, other: int, length: int) -> bool:
    """Compare eight bytes or more."""
    last = length - 8
    offset = 0
    while offset < last:
        if _word(one + offset) != _word(other + offset):
            return False
        offset += 8
    return bool(_word(one + last) == _word(other + last))


@_inline
def _eight(digits: np.uint64) -> int:
    """Return the number that eight digits make, one a byte, the first in the lowest."""
    pairs = digits * _TEN + (digits >> _BYTE)
    evens = (pairs & _FOURTH) * _MILLION_HUNDRED
    odds = ((pairs >> _TWO_BYTES) & _FOURTH) * _TEN_THOUSAND_ONE
    return np.int64((evens + odds) >> _FOUR_BYTES)  # type: ignore[return-value]


@_inline
def _whole(at: int, limit: int) -> tuple[int, int]:
    """Return a whole number and where it ends; MISSING if there is no digit, or too many.

    What is not a digit comes before `limit`, the end of the bytes.
    """
    value = 0
    end = at
    if at + 24 <= limit:
        # Eight digits at a time: their number differs from row to row, and a loop would stumble
        # over that.
        for _ in range(3):
            digits = _word(end) ^ _ZEROS
            other = ((digits + _BEYOND_NINE) | digits) & _HIGH_BITS
            if other != _NONE:
                count = _low_zeros(other) >> 3
                if count:
                    value = value * _WHOLE_TENS[count] + _eight(digits << np.uint64(64 - 8 * count))
                    end += count
                break
            value = value * 100_000_000 + _eight(digits)
            end += 8
    else:
        while True:
            digit = int(_byte(end)) - 48
            if digit < 0 or digit > 9:
                break
            value = value * 10 + digit
            end += 1
    if end == at or end > at + _MOST_DIGITS:
        return MISSING, end
    return value, end


@_kernel
def _tiny(at: int, limit: int) -> tuple[int, int]:
    """Return a whole number of 8 bits or MISSING, and where it ends; -2 if it is something else."""
    if _byte(at) == _COMMA or _byte(at) == _NEWLINE:
        return MISSING, at
    value, end = _whole(at, limit)
    if value > 127 or value < 0:
        return -2, end
    return value, end


@_kernel
def _amount(at: int, limit: int) -> tuple[float, int]:
    """Return a number ≥ 0 (NaN: no field) and where it ends; -1 if it may not come out exact.

    Mantissa and power of ten are both exact here, so one operation rounds correctly.
    """
    value, end = _whole(at, limit)
    if value < 0:
        return (np.nan if end == at else -1.0), end
    power = 0
    if _byte(end) == _POINT:
        first = end + 1
        end = first
        while True:
            digit = int(_byte(end)) - 48
            if digit < 0 or digit > 9:
                break
            value = value * 10 + digit
            end += 1
        if end == first or end > at + _MOST_DIGITS:
            return -1.0, end
        power = first - end
    if _byte(end) == 101 or _byte(end) == 69:  # e, E
        end += 1
        sign = 1
        if _byte(end) == 45:  # -
            sign = -1
            end += 1
        elif _byte(end) == 43:  # +
            end += 1
        first = end
        exponent, end = _whole(first, limit)
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
    at: int,
    limit: int,
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
    while _byte(end) > 32 and _byte(end) < 127 and _byte(end) != _COMMA and _byte(end) != _QUOTE:
        hashed = hashed * 31 + _byte(end)
        end += 1
    user_length = end - at
    if user_length == 0 or _byte(end) != _COMMA:
        return ODD
    scheduling_class, end = _tiny(end + 1, limit)
    if scheduling_class == -2 or _byte(end) != _COMMA:
        return ODD
    priority, end = _tiny(end + 1, limit)
    if priority == -2 or _byte(end) != _COMMA:
        return ODD
    number = kept[FORMS]
    for column in range(3):
        value, end = _amount(end + 1, limit)
        if value < 0 or _byte(end) != _COMMA:
            return ODD
        request[number, column] = value
    different, end = _tiny(end + 1, limit)
    if different == -2 or _byte(end) != _NEWLINE:
        return ODD
    length = end + 1 - at
    start = kept[TEXT]
    if start + length > len(text):
        return MORE_TEXT
    for offset in range(length):
        text[start + offset] = _byte(at + offset)
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
        Filled with the rows; there is room for all that `data` can have.
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
    base = _address(data)
    limit, stop = base + len(data), base + end
    at, before = base + kept[POSITION], kept[LAST]
    submits, rows = kept[SUBMITS], kept[ROWS]
    last_job, slot = kept[JOB], kept[JOB_SLOT]
    job_mask = len(job_table) - 1
    answer = DONE
    while at < stop:
        when, cursor = _whole(at, limit)
        if when < before or _byte(cursor) != _COMMA:  # time runs backwards, or is none
            return ODD
        missing, cursor = _tiny(cursor + 1, limit)
        if missing == -2 or _byte(cursor) != _COMMA:
            return ODD
        job, cursor = _whole(cursor + 1, limit)
        if job < 0 or job > _LARGEST_JOB or _byte(cursor) != _COMMA:
            return ODD
        index, cursor = _whole(cursor + 1, limit)
        if index < 0 or index > _LARGEST_INDEX or _byte(cursor) != _COMMA:
            return ODD
        first = cursor + 1
        machine, cursor = _whole(first, limit)
        if (machine < 0 and cursor > first) or _byte(cursor) != _COMMA:
            return ODD
        kind = int(_byte(cursor + 1)) - 48
        if kind < 0 or kind > 8 or _byte(cursor + 2) != _COMMA:
            return ODD
        rest = cursor + 3
        if job != last_job:
            slot = _slot(job, job_mask)
            while job_table[slot] >= 0 and job_table[slot] != job:
                slot = (slot + 1) & job_mask
            if job_table[slot] < 0:
                if 2 * kept[JOBS] >= len(job_table):
                    answer = MORE_JOBS
                    break
                answer = _new_form(rest, limit, kept, text, form, request, user_table)
                if answer != DONE:
                    break
                job_table[slot] = job
                job_form[slot] = kept[FORMS] - 1
                kept[JOBS] += 1
            last_job = job
        known = job_form[slot]
        length = form[known, LENGTH]
        if rest + length > stop or not _equal(rest, _address(text) + form[known, AT], length):
            answer = _new_form(rest, limit, kept, text, form, request, user_table)
            if answer != DONE:
                break
            known = kept[FORMS] - 1
            job_form[slot] = known
            length = form[known, LENGTH]
        at = rest + length
        before = when
        if rows == 0:
            kept[FIRST] = when
        task[rows] = (job << _INDEX_BITS) + index
        time[rows] = when
        event[rows] = kind
        rows += 1
        kept[KINDS + kind] += 1
        if kind == 0:
            submit_form[submits] = known
            submits += 1
    kept[POSITION], kept[LAST] = at - base, before
    kept[SUBMITS], kept[ROWS] = submits, rows
    kept[JOB], kept[JOB_SLOT] = last_job, slot
    return answer


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
