"""Compiled hot loops on flat arrays.

Every kernel is one plain Python function on NumPy arrays. That function is the definition: it
runs as it is for small sizes, so that a small command never imports numba, and
:func:`fast` hands out its compiled twin (the same source, through numba, with strict floating
point) where the work is worth the import.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar, cast

__all__ = ["compiled", "expect", "fast", "warm"]

Kernel = TypeVar("Kernel", bound=Callable[..., Any])

# Inner-loop steps (about a microsecond each in plain Python) above which importing numba and
# loading the cached machine code (0.3 to 1 s) pays for itself.
WORTH_COMPILING = 500_000
_plain_steps = 0.0  # made in plain Python so far, by this process


def fast(plain: Kernel, *, steps: float) -> Kernel:
    """Return the twin of `plain` that answers sooner: itself, or compiled.

    Parameters
    ----------
    plain
        A kernel.
    steps
        Roughly how many inner-loop steps the call will make.

    Examples
    --------
    >>> from drfh.kernels.fill import assign_two_resources
    >>> callable(fast(assign_two_resources, steps=100))
    True
    """
    if "numba" not in sys.modules:
        # A process that has spent that much in plain Python will go on, and should not wait longer.
        global _plain_steps
        _plain_steps += steps
        if _plain_steps < WORTH_COMPILING:
            return plain
    return compiled(plain)


def warm() -> None:
    """Use compiled kernels from now on, for a process that solves again and again.

    Otherwise a process loads them once it has spent about half a second without them.

    Examples
    --------
    >>> warm()
    """
    expect(WORTH_COMPILING)


def expect(steps: float) -> None:
    """Say that so many steps are ahead in many calls: load numba now if that pays.

    Examples
    --------
    >>> expect(1000)
    """
    if steps >= WORTH_COMPILING and "numba" not in sys.modules:
        import numba  # noqa: F401  (its presence is what selects the compiled twins)


@cache
def _compile(plain: Callable[..., Any]) -> Callable[..., Any]:
    from drfh.kernels.machine_code import kernel  # loads numba

    return kernel(plain)


def compiled(plain: Kernel) -> Kernel:
    """Return the machine-code twin of `plain`, kept on disk between runs.

    Examples
    --------
    >>> from drfh.kernels.fill import assign_two_resources
    >>> compiled(assign_two_resources).py_func is assign_two_resources
    True
    """
    return cast("Kernel", _compile(plain))
