"""One thread for numpy's matrix products, where more would only wait for each other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

__all__ = ["blas_threads", "one_thread"]


@cache
def _libraries() -> Any:
    """Return the libraries of matrix products that are loaded."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


def blas_threads() -> int:
    """Return in how many threads matrix products run.

    Examples
    --------
    >>> blas_threads() >= 1
    True
    """
    return max((library["num_threads"] for library in _libraries().info()), default=1)


@contextmanager
def one_thread() -> Iterator[None]:
    """Let matrix products run in one thread, then in as many as before.

    Those of the interior-point method are many and small: a second thread costs as much processor
    time again and makes nothing faster. Of several solves at once only the first sets the number.

    Examples
    --------
    >>> with one_thread():
    ...     blas_threads()
    1
    """
    with _libraries().limit(limits=1):
        yield
