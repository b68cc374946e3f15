"""The linear system of a Newton step: a block for each server, a diagonal for the users.

What is left after eliminating the one or the other is dense, in the users or in the servers,
whichever are fewer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from drfh.problem import Floats

__all__ = ["Solve", "arrow"]

#: From the right-hand sides of servers (r × l) and users (c) to their unknowns.
Solve: TypeAlias = Callable[[Floats, Floats], tuple[Floats, Floats]]


def arrow(matrix: Floats, cross: Floats, diagonal: Floats) -> Solve:
    """Return a function that solves [[matrix, -cross], [-cross', diagonal]] for right-hand sides.

    Parameters
    ----------
    matrix : array, r × r × l
    cross : array, r × c × l
    diagonal : array, c
    """
    m, n, k = cross.shape
    blocks = matrix.transpose(2, 0, 1)
    if n <= k * m:
        size = 1 / np.sqrt(np.diagonal(blocks, axis1=1, axis2=2))
        root = _inverse_root(blocks * size[:, :, None] * size[:, None, :]) * size[:, None, :]
        side = (root @ cross.transpose(2, 0, 1)).reshape(k * m, n)
        scale = 1 / np.sqrt(diagonal)
        scaled = side * scale
        dense = _inverse_root(np.eye(n) - scaled.T @ scaled) * scale

        def users_last(right_p: Floats, right_u: Floats) -> tuple[Floats, Floats]:
            half = (root @ right_p.T[:, :, None]).reshape(k * m)
            mu = dense.T @ (dense @ (right_u + side.T @ half))
            back = (half + side @ mu).reshape(k, 1, m)
            return (back @ root)[:, 0, :].T, mu

        return users_last
    side = cross.transpose(2, 0, 1).reshape(k * m, n)
    schur = -(side / diagonal) @ side.T
    number = np.arange(k)
    schur.reshape(k, m, k, m)[number, :, number, :] += blocks
    scale = 1 / np.sqrt(np.diagonal(blocks, axis1=1, axis2=2).reshape(k * m))
    dense = _inverse_root(schur * scale[:, None] * scale) * scale

    def servers_last(right_p: Floats, right_u: Floats) -> tuple[Floats, Floats]:
        p = dense.T @ (dense @ (right_p.T.reshape(k * m) + side @ (right_u / diagonal)))
        return p.reshape(k, m).T, (right_u + side.T @ p) / diagonal

    return servers_last


def _inverse_root(matrix: Floats) -> Floats:
    """Return the inverse of the Cholesky factor; diagonals were about 1, lift them if need be."""
    for lift in (0.0, 1e-15, 1e-14, 1e-13, 1e-11, 1e-9):
        try:
            lifted = matrix + lift * np.eye(matrix.shape[-1]) if lift else matrix
            return np.asarray(np.linalg.inv(np.linalg.cholesky(lifted)), dtype=np.float64)
        except np.linalg.LinAlgError:
            pass
    raise np.linalg.LinAlgError
