r"""A Newton step for one hardness-weighted center, over the unit ball.

Let ``f(w) = sum_i log(1 + exp(z_i))`` with ``z_i = log A_i - x_i . w / lambda``, the loss of
`hardness_weighted`, and ``q_i = 1 / (1 + exp(-z_i))``. Then

``grad f = -(1 / lambda) sum_i q_i x_i``,  ``H = (1 / lambda^2) sum_i q_i (1 - q_i) x_i x_i^T``.

The step minimizes the model ``grad f . (v - w) + (v - w)^T H (v - w) / 2`` over ``||v|| <= 1``. Its
minimizer is ``v = (H + mu I)^{-1} (H w - grad f)``: with mu = 0 if that lies inside the ball, else
with the mu > 0 of ``||v|| = 1``. A Frank-Wolfe step is the same without H.
"""

from __future__ import annotations

import array_api_compat as compat

from ..core.types import Array

__all__ = ["newton_center"]

SECULAR_STEPS = 20
"""Newton steps for mu; where we measured, 12 end at the last bit."""

RANK = 1e-14
"""Least curvature, of the largest: what is below is rounding."""


def newton_center(w: Array, x: Array, log_a: Array, lam: float) -> Array:
    """Return the minimizer over the unit ball of the model of f at w.

    Parameters
    ----------
    w : (d,) float64 array
        In the unit ball.
    x : (m, d) float64 array
        The rows of the cluster, at least one.
    log_a : (m,) float64 array
        ``log A_i``; minus infinity is allowed, not for all rows.
    lam : float > 0

    Returns
    -------
    (d,) float64 array
        In the unit ball. The model there is at most its value at w, up to rounding.

    Notes
    -----
    Cost: O(m d r + r^3) with r = min(m, d); memory O(m r + d r). The equation ``||v(mu)|| = 1`` is
    solved as ``1 / ||v(mu)|| = 1``, concave in mu, by Newton's method from the left, whose iterates
    rise to the root (More and Sorensen 1983, section 3).
    """
    xp = compat.array_namespace(x)
    if x.shape[0] < x.shape[1]:  # the minimizer of least norm is a combination of the rows
        basis, _ = xp.linalg.qr(x.T)
        return basis @ newton_center(basis.T @ w, x @ basis, log_a, lam)
    z = log_a - x @ w / lam
    e = xp.exp(-xp.abs(z))
    hard = xp.where(z >= 0, 1.0 / (1.0 + e), e / (1.0 + e))  # q
    curved = (e / (1.0 + e) / (1.0 + e))[:, None] * x  # q (1 - q) x
    # Gradient and Hessian times lambda^2, which keeps mu and v as they are up to that factor.
    values, vectors = xp.linalg.eigh(x.T @ curved)
    along = vectors.T @ (curved.T @ (x @ w) + lam * (x.T @ hard))
    top = values[-1]
    values = xp.clip(values, min=0.0) + RANK * xp.abs(top)
    mu = xp.clip(xp.linalg.vector_norm(along) - top, min=0.0)  # at most the root
    for _ in range(SECULAR_STEPS):
        v = along / (values + mu)
        norm = xp.linalg.vector_norm(v)
        rise = (norm - 1.0) * norm * norm / xp.sum(v * v / (values + mu))
        mu = mu + xp.clip(rise, min=0.0)
    v = along / (values + mu)
    return vectors @ (v / xp.clip(xp.linalg.vector_norm(v), min=1.0))
