r"""The gradient through a soft plan: implicit differentiation of prices at the optimum.

The plan of `soft` is ``P_i = softmax((s_i + pi) / epsilon)``, whose prices depend on all scores. A
row's derivative is the symmetric map

``A_i(x) = P_i * (x - P_i . x) / epsilon``,   ``dP_i = A_i(ds_i + dpi)``.

Prices that are not 0 hold the size of their cluster, ``sum_i w_i dP_ij = 0``, and the others do not
move while bounds do not bind. So ``H dpi = -sum_i w_i A_i(ds_i)`` on the clusters that are held,
with ``H = sum_i w_i A_i``. For a loss with gradient G in P the chain rule gives, with ``H lambda =
sum_i A_i(G_i)`` on these clusters and lambda 0 on the others,

``dL / ds_i = A_i(G_i - w_i lambda)``.

Where all clusters are held, H is singular along a common shift. With the sizes d of the plan,
``H + d d^T / sum_j d_j`` is not, and has the same solution with ``d . lambda = 0``: the entries of
the right-hand side sum to 0.

==================  ============  =======  ====================================
symbol              here          shape    meaning
==================  ============  =======  ====================================
P                   ``plan``      (n, k)   of `balance_soft`
G                   ``gradient``  (n, k)   of the loss in the plan
:math:`\lambda`     \-            (k,)     multipliers of the sizes that are held
==================  ============  =======  ====================================
"""

from __future__ import annotations

import array_api_compat as compat

from ..core.checks import check_count, check_interval, check_real, check_same_place, check_shape
from ..core.conjugate_gradients import conjugate_gradients
from ..core.types import Array
from ._scaling import Ranks

__all__ = ["plan_gradient"]

TINY = 1e-300  # keeps the preconditioner of an empty cluster above 0


def plan_gradient(
    plan: Array,
    gradient: Array,
    held: Array,
    *,
    epsilon: float,
    weights: Array | None = None,
    tol: float = 0.0,
    max_iter: int = 20,
    ranks: Ranks | None = None,
) -> Array:
    """Return the gradient in the scores, from that in the plan of a batch.

    Parameters
    ----------
    plan : (n, k) real array
        Of `balance_soft`, near the optimum: for a plan that is not, the gradient is that of the
        plan whose sizes stay what they are. Rows with NaN get a gradient of 0.
    gradient : (n, k) array
        Of the loss, in the plan.
    held : (k,) boolean array
        Clusters whose size stays at a bound: those with a price, or with equal bounds.
    epsilon : float
        Of the plan.
    weights : (n,) array, optional
        As in `balance_soft`.
    tol : float >= 0
        Of conjugate gradients. If above 0, they read one number for each step.
    max_iter : int >= 1
        Steps of conjugate gradients at most; all of them where `tol` is 0. k are exact but for
        rounding.
    ranks : Ranks, optional
        Sums k numbers for each step.

    Returns
    -------
    (n, k) array, of the dtype of the plan

    Notes
    -----
    Cost: two products of the plan with a vector for each step.

    Examples
    --------
    With equal bounds, a common bonus of one cluster moves its price alone, and no label.

    >>> import numpy as np
    >>> plan = np.asarray([[0.7, 0.3], [0.3, 0.7]])
    >>> bonus = np.asarray([[1.0, 0.0], [1.0, 0.0]])
    >>> held = np.asarray([True, True])
    >>> g = plan_gradient(plan, np.asarray([[1.0, 0.0], [0.0, 0.0]]), held, epsilon=0.1)
    >>> bool(abs((g * bonus).sum()) < 1e-12), g.round(3)
    (True, array([[ 1.05, -1.05],
           [-1.05,  1.05]]))
    """
    xp, (n, k) = check_real("plan", plan), check_shape("plan", plan, ("n", "k"))
    check_shape("gradient", gradient, (n, k))
    check_shape("held", held, (k,))
    check_same_place(plan=plan, gradient=gradient, held=held, weights=weights)
    check_interval("epsilon", epsilon, 0.0, 1e30, open_low=True)
    check_count("max_iter", max_iter, 1)
    known = (plan == plan) & (gradient == gradient)
    p, g = xp.where(known, plan, 0.0), xp.where(known, gradient, 0.0)
    w = xp.ones((n,), dtype=p.dtype, device=compat.device(p))
    if weights is not None:
        check_shape("weights", weights, (n,))
        w = xp.astype(weights, p.dtype)
    mask = xp.astype(held, xp.float64)

    def through(x: Array) -> Array:
        """A_i(x_i) of all rows."""
        return p * (x - xp.sum(p * x, axis=1, keepdims=True)) / epsilon

    def added(rows: Array) -> Array:
        total = xp.astype(rows, xp.float64)
        return mask * (total if ranks is None else ranks.total(total))

    wp = p * w[:, None]
    diagonal = added(xp.sum(wp, axis=0))
    shared = xp.astype(xp.all(held), xp.float64) / (xp.sum(diagonal) + TINY)

    def product(v: Array) -> Array:
        v = xp.astype(mask * v, p.dtype)
        inner = xp.matmul(p, v)
        shift = shared * diagonal * xp.sum(diagonal * v)
        return (diagonal * v - added(xp.matmul(wp.T, inner)) + shift) / epsilon

    multipliers = conjugate_gradients(
        product,
        added(xp.sum(through(g), axis=0)),
        diagonal=diagonal / epsilon + (1.0 - mask) + TINY,
        tol=tol,
        max_iter=max_iter,
        read_back=tol > 0.0,
    )
    return through(g - w[:, None] * xp.astype(mask * multipliers, p.dtype))
