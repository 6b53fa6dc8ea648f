r"""Conjugate gradients, for linear systems of the Newton solvers too large for elimination.

Problem: solve ``A x = b`` for a symmetric positive definite A that is given by its products alone.
With a preconditioner M, here the diagonal of A or the identity, and from ``x = 0, r = b``
(Hestenes and Stiefel, 1952; Golub and Van Loan, Algorithm 11.5.1):

1. ``z = M^-1 r``, ``rho = r . z``; stop once ``rho <= tol^2 rho_0``
2. ``p = z + (rho / rho_before) p``
3. ``q = A p``, ``alpha = rho / (p . q)``
4. ``x += alpha p``, ``r -= alpha q``

======  ==============  =======  =====================================
symbol  here            shape    meaning
======  ==============  =======  =====================================
A       ``product``     (k, k)   as a function ``v -> A v``
b       ``right``       (k,)     right-hand side
M       ``diagonal``    (k,)     of A; None for the identity
r       ``residual``    (k,)     ``b - A x``
p       ``direction``   (k,)     conjugate to all directions before it
======  ==============  =======  =====================================
"""

from __future__ import annotations

from collections.abc import Callable

import array_api_compat as compat

from .types import Array

__all__ = ["conjugate_gradients"]


def conjugate_gradients(
    product: Callable[[Array], Array],
    right: Array,
    *,
    diagonal: Array | None = None,
    tol: float,
    max_iter: int,
    read_back: bool = True,
) -> Array:
    """Solve ``A x = right`` for a symmetric positive definite A, given by its products.

    Parameters
    ----------
    product : callable
        Maps a (k,) array v to ``A v``.
    right : (k,) float64 array
    diagonal : (k,) float64 array, optional
        Diagonal of A, positive: the preconditioner. Without it A should have a diagonal near 1.
    tol : float >= 0
        Stop once the residual, in the norm of ``M^-1``, is at most `tol` times the first one.
    max_iter : int
        Most products.
    read_back : bool
        Whether to stop early, which reads back one number from the device per product. If not, all
        `max_iter` products are computed, and nothing is read back.

    Returns
    -------
    (k,) float64 array

    Notes
    -----
    Arguments are assumed checked. Cost: a product and O(k) per iteration; in exact arithmetic k
    iterations give the solution. If rounding leaves a direction without positive curvature, x does
    not move along it, and with `read_back` the iteration ends.

    Examples
    --------
    >>> import numpy as np
    >>> a = np.asarray([[4.0, 1.0], [1.0, 3.0]])
    >>> right = np.asarray([1.0, 2.0])
    >>> conjugate_gradients(lambda v: a @ v, right, tol=1e-12, max_iter=9).round(6)
    array([0.090909, 0.636364])
    """
    xp = compat.array_namespace(right)
    x, residual = xp.zeros_like(right), right
    z = residual if diagonal is None else residual / diagonal
    direction, rho = z, xp.sum(residual * z)
    goal, one = tol**2 * rho, xp.ones_like(rho)
    finished = rho <= goal
    for _ in range(max_iter):
        if read_back and bool(finished):  # step 1
            break
        image = product(direction)  # step 3
        curvature = xp.sum(direction * image)
        bent = curvature > 0
        alpha = xp.where(bent, rho, xp.zeros_like(rho)) / xp.where(bent, curvature, one)
        x, residual = x + alpha * direction, residual - alpha * image  # step 4
        z = residual if diagonal is None else residual / diagonal  # step 1
        before, rho = rho, xp.sum(residual * z)
        finished = (rho <= goal) | ~bent
        direction = z + rho / xp.where(before > 0, before, one) * direction  # step 2
    return x
