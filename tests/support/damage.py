"""Damaged files: what disks, networks, spreadsheets and hurried people do to a trace.

A reader may refuse a damaged file, or count what is broken and go on; it may not do anything else.
Use it so::

    @given(damaged(SMALL_FILE))
    def test_damaged_files(data: bytes) -> None:
        with folder_with({"a.swf": data}) as folder:
            survives(lambda: drfh.traces.read("swf", folder / "a.swf"))
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from hypothesis import strategies as st

from drfh.errors import InputError

Result = TypeVar("Result")

# What a field can turn into. Longer than 131,072 characters is more than Python's csv takes.
STRANGE_FIELDS = [
    b"",
    b" ",
    b"-1",
    b"-0",
    b"0",
    b"1e308",
    b"1e999",
    b"-1e999",
    b"1e-320",
    b"nan",
    b"inf",
    b"9" * 18,
    b"9" * 19,
    b"9" * 400,
    b"-" + b"9" * 19,
    b"0.5",
    b"1,000",
    b"0x10",
    b"1_000",
    b"null",
    b"x" * 200_000,
    "übel\u2028".encode(),
    "\u0665".encode(),  # a digit, but not an ASCII one
    b"\xff\xfe",
    b"\x00",
    b'"',
    b'"a',
    b"a/0",
    b"|",
    b";",
]
#: What is between fields: commas, white space, and what JSON has.
_BETWEEN = re.compile(rb'[,\s:{}\[\]"]+')


def packed(data: bytes) -> bytes:
    """Return `data` as gzip, the same bytes every time."""
    return gzip.compress(data, mtime=0)


@st.composite
def damaged(draw: st.DrawFn, data: bytes, *, most: int = 3) -> bytes:
    """Return `data` with one to `most` small damages or a large one, plain or as gzip.

    The gzip file may be damaged as well.
    """
    # A broken header hides all that comes after it, so most of the time it is spared.
    head, end, body = data.partition(b"\n") if draw(st.sampled_from([1, 1, 1, 0])) else (b"",) * 3
    body = body if head else data
    for _ in range(draw(st.integers(1, most))):
        body = draw(st.sampled_from(_SMALL))(draw, body)
    data = head + end + body
    if draw(st.sampled_from([0] * 7 + [1])):
        data = draw(st.sampled_from(_LARGE))(draw, data)
    pack = draw(st.sampled_from(["plain", "plain", "plain", "gzip", "broken gzip"]))
    if pack == "plain":
        return data
    data = packed(data)
    if pack == "broken gzip":
        data = draw(st.sampled_from([_cut, _flip, _append]))(draw, data)
    return data


@contextmanager
def folder_with(files: Mapping[str, bytes]) -> Iterator[Path]:
    """Yield a directory with these files, by name.

    Hypothesis runs many examples in one call of a test, so `tmp_path` would keep files of others.
    """
    with TemporaryDirectory() as folder:
        for name, data in files.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        yield Path(folder)


def survives(read: Callable[[], Result]) -> Result | None:
    """Return what `read` returns, or None if it refuses with an error of drfh in one line."""
    try:
        return read()
    except InputError as error:
        text = str(error)
        assert "\n" not in text, text
        assert len(text) < 1000, text[:1000]  # a huge field is not shown whole
        return None


def _place(draw: st.DrawFn, data: bytes) -> int:
    return draw(st.integers(0, max(len(data) - 1, 0)))


def _cut(draw: st.DrawFn, data: bytes) -> bytes:
    return data[: _place(draw, data)]


def _flip(draw: st.DrawFn, data: bytes) -> bytes:
    if not data:
        return data
    place, bit = _place(draw, data), draw(st.integers(0, 7))
    return data[:place] + bytes([data[place] ^ (1 << bit)]) + data[place + 1 :]


def _append(draw: st.DrawFn, data: bytes) -> bytes:
    return data + draw(st.binary(min_size=1, max_size=20))


def _insert(draw: st.DrawFn, data: bytes) -> bytes:
    place = _place(draw, data)
    return data[:place] + draw(st.binary(min_size=1, max_size=8)) + data[place:]


def _remove(draw: st.DrawFn, data: bytes) -> bytes:
    place = _place(draw, data)
    return data[:place] + data[place + draw(st.integers(1, 40)) :]


def _fields(data: bytes) -> list[tuple[int, int]]:
    """Return where the fields begin and end."""
    borders = [0]
    for gap in _BETWEEN.finditer(data):
        borders += [gap.start(), gap.end()]
    borders.append(len(data))
    return [(a, b) for a, b in zip(borders[::2], borders[1::2], strict=True) if a < b]


def _strange_field(draw: st.DrawFn, data: bytes) -> bytes:
    fields = _fields(data)
    if not fields:
        return data
    begin, end = draw(st.sampled_from(fields))
    return data[:begin] + draw(st.sampled_from(STRANGE_FIELDS)) + data[end:]


def _swapped_fields(draw: st.DrawFn, data: bytes) -> bytes:
    fields = _fields(data)
    if len(fields) < 2:
        return data
    one = draw(st.integers(0, len(fields) - 2))
    two = draw(st.integers(one + 1, min(one + 30, len(fields) - 1)))
    (a, b), (c, d) = fields[one], fields[two]
    return data[:a] + data[c:d] + data[b:c] + data[a:b] + data[d:]


def _swapped_columns(draw: st.DrawFn, data: bytes) -> bytes:
    """Swap two columns in every line, or drop or double one."""
    mark = b"," if b"," in data else None
    rows = [line.split(mark) for line in data.splitlines()]
    width = max(map(len, rows), default=0)
    if width < 2:
        return data
    one, two = draw(st.integers(0, width - 1)), draw(st.integers(0, width - 1))
    how = draw(st.sampled_from(["swap", "drop", "double"]))
    for row in rows:
        if len(row) <= max(one, two):
            continue
        if how == "swap":
            row[one], row[two] = row[two], row[one]
        elif how == "drop":
            del row[one]
        else:
            row.insert(one, row[two])
    return b"\n".join((mark or b" ").join(row) for row in rows) + b"\n"


def _moved_lines(draw: st.DrawFn, data: bytes) -> bytes:
    """Drop, double or move a line, so that one is missing or time runs backwards."""
    lines = data.splitlines(keepends=True)
    if not lines:
        return data
    line = draw(st.integers(0, len(lines) - 1))
    how = draw(st.sampled_from(["drop", "double", "move"]))
    kept = lines[:line] + lines[line + 1 :] if how != "double" else lines
    if how != "drop":
        kept = list(kept)
        kept.insert(draw(st.integers(0, len(kept))), lines[line])
    return b"".join(kept)


def _other_line_ends(draw: st.DrawFn, data: bytes) -> bytes:
    return data.replace(b"\n", draw(st.sampled_from([b"\r\n", b"\r", b"\n\n", b" \n", b",\n"])))


def _encoded(draw: st.DrawFn, data: bytes) -> bytes:
    """Write the text as other programs do."""
    encoding = draw(st.sampled_from(["utf-8-sig", "utf-16", "utf-16-be", "utf-32"]))
    return data.decode("utf-8", "replace").encode(encoding)


def _separated(draw: st.DrawFn, data: bytes) -> bytes:
    return data.replace(b",", draw(st.sampled_from([b";", b"\t", b", ", b"|"])))


def _nothing(draw: st.DrawFn, data: bytes) -> bytes:
    return draw(st.sampled_from([b"", b"\n", b"\x00" * 64, b"\xef\xbb\xbf", b"{}", b"[]", b"null"]))


_SMALL = [
    _cut,
    _flip,
    _insert,
    _remove,
    _append,
    _strange_field,
    _strange_field,
    _strange_field,
    _swapped_fields,
    _moved_lines,
]
_LARGE = [_swapped_columns, _other_line_ends, _encoded, _separated, _nothing]
