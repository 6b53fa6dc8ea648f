"""Vectors of k prices on the host, beside lists of candidates that stay on a device.

A Newton step does some eighty operations on vectors of k prices. On a device each costs its launch,
twenty microseconds, and computes next to nothing. On the host they cost a tenth of it: one copy
brings value, counts and spread there, and one takes back what a linear system needs.
"""

from __future__ import annotations

from typing import Any

import array_api_compat as compat

from ...backends import kernel, placement, select
from ..core.reads import on_host
from ..core.types import Array

__all__ = ["beside", "eliminate", "is_dense", "near_host"]

DENSE, DEVICE_DENSE = 96, 1024
"""Unknowns up to which elimination is faster; more of them on a device, where each product is a
dozen launches, and a matrix of them takes 8 MiB."""

VECTORS = "fixed_counts", "lower", "upper", "low", "high"


def near_host(problem: Any) -> Any:
    """Return a `SmoothedDual` with vectors on the host, if an engine sums its lists on a device."""
    lists = problem.values
    if on_host(lists) or problem.tree is not None or select("soft_counts", lists) is None:
        return problem
    xp = compat.array_namespace(lists)
    vectors = compat.to_device(xp.stack([getattr(problem, name) for name in VECTORS]), "cpu")
    return problem._replace(**{name: vectors[i, :] for i, name in enumerate(VECTORS)})


def beside(like: Array, *arrays: Array) -> tuple[Array, ...]:
    """Return arrays where another is; if they have to go there, in one copy: of one shape then."""
    if placement(like) == placement(arrays[0]):
        return arrays
    if len(arrays) == 1:
        return (compat.to_device(arrays[0], compat.device(like)),)
    moved = compat.to_device(compat.array_namespace(*arrays).stack(arrays), compat.device(like))
    return tuple(moved[i, ...] for i in range(len(arrays)))


def is_dense(k: int, *, like: Array) -> bool:
    """Tell whether a system of k unknowns is better solved by elimination, where `like` is.

    Examples
    --------
    >>> import numpy as np
    >>> is_dense(96, like=np.zeros(1)), is_dense(97, like=np.zeros(1))
    (True, False)
    """
    return k <= (DENSE if on_host(like) else DEVICE_DENSE)


@kernel
def eliminate(matrix: Array, free: Array, diagonal: Array, rhs: Array) -> Array:
    """Solve ``(matrix on the free clusters + diag(diagonal)) x = rhs``; free is 0 or 1.

    Of a (k, k) matrix and vectors (k,), the last one also in the rows of an (r, k) array.
    """
    xp, k = compat.array_namespace(matrix), matrix.shape[0]
    eye = xp.eye(k, dtype=xp.float64, device=compat.device(matrix))
    system = matrix * free[:, None] * free[None, :] + eye * diagonal
    return xp.linalg.solve(system, rhs[..., None])[..., 0]
