"""How a trace is named in one word: ``PATH``, ``FORMAT:PATH``, ``FORMAT:PATH,PATH``."""

from __future__ import annotations

import os
from collections.abc import Collection

from drfh.errors import InputError, UnknownNameError

__all__ = ["split_source"]


def split_source(source: str, formats: Collection[str]) -> tuple[str | None, list[str]]:
    """Return the format (None if it is not said) and the paths.

    A path that exists is taken whole, whatever it contains.

    Parameters
    ----------
    source
        Such as ``google-2011:clusterdata`` or ``slurm:sinfo.json,squeue.json``.
    formats
        The names that there are.

    Examples
    --------
    >>> split_source("slurm:sinfo.json,squeue.json", ["slurm"])
    ('slurm', ['sinfo.json', 'squeue.json'])
    >>> split_source("my-traces/monday", ["slurm"])
    (None, ['my-traces/monday'])
    >>> split_source("slrum:sinfo.json", ["slurm"])
    Traceback (most recent call last):
    drfh.errors.UnknownNameError: format must be one of slurm (did you mean slurm?), got 'slrum'
    """
    if not source:
        raise InputError("trace", "must be FORMAT:PATH or PATH", source)
    if _exists(source):
        return None, [source]
    word, colon, rest = source.partition(":")
    name = None
    if colon and "/" not in word:
        if word not in formats:
            raise UnknownNameError("format", word, formats)
        name, source = word, rest
    paths = [source] if _exists(source) else [path for path in source.split(",") if path]
    if not paths:
        raise InputError("trace", "must name a file or directory after the format", word)
    return name, paths


def _exists(path: str) -> bool:
    try:
        return os.path.exists(path)
    except ValueError:  # a null byte
        return False
