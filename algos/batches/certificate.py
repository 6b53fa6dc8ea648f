r"""How good the labels of a batch are, and how far its sizes are from their bounds.

For any prices, weak duality bounds the value of all labels inside the bounds, at any temperature:

``sum_i w_i (P_i . s_i + epsilon H(P_i))  <=  sum_i w_i v_i - n sum_j (l_j pi_j^+ - u_j pi_j^-)``,
``v_i = epsilon log sum_j exp((s_ij + pi_j) / epsilon)``.

Hard labels are the case of ``epsilon = 0``, where v is a maximum. Labels that are a little outside
of their bounds, as soft ones are before the prices have converged, may exceed the right-hand side.
"""

from __future__ import annotations

from typing import NamedTuple

from ..core.checks import check_interval, check_real, check_same_place, check_shape
from ..core.reads import read
from ..core.types import Array
from ._scaling import LARGEST, Ranks

__all__ = ["BatchCertificate", "certify_batch"]


class BatchCertificate(NamedTuple):
    """What prices prove of the labels of a batch, as numbers of the host.

    Attributes
    ----------
    objective : float
        Value of the labels, with the entropy of soft ones, in units of score.
    upper_bound : float
        No labels inside the bounds are worth more.
    violation : float
        Rows by which the worst cluster is outside of its bounds; 0 if all are inside.
    smallest, largest : float
        Size of the smallest and of the largest cluster, in rows.
    """

    objective: float
    upper_bound: float
    violation: float
    smallest: float
    largest: float


def certify_batch(
    scores: Array,
    plan: Array,
    prices: Array,
    lower: Array,
    upper: Array,
    *,
    epsilon: float = 0.0,
    weights: Array | None = None,
    ranks: Ranks | None = None,
) -> BatchCertificate:
    """Judge soft labels, or hard ones as rows of zeros and a one.

    Parameters
    ----------
    scores : (n, k) real array
    plan : (n, k) array
        Rows sum to 1.
    prices : (k,) float64 array
        Any; those of `balance_soft` or `balance_hard` give a bound that is near.
    lower, upper : (k,) float64 arrays
        Bounds in rows.
    epsilon : float >= 0
        Temperature of the plan; 0 for hard labels.
    weights : (n,) array, optional
        How often a row counts. A row without a finite largest score never does.
    ranks : Ranks, optional
        All ranks get the certificate of the whole batch.

    Returns
    -------
    BatchCertificate

    Notes
    -----
    Computed in float64. Cost: a few passes over the scores; reads one array of numbers.

    Examples
    --------
    >>> import numpy as np
    >>> scores, one = np.asarray([[1.0, 0.0], [1.0, 0.5]]), np.asarray([1.0, 1.0])
    >>> certify_batch(scores, np.eye(2), np.asarray([0.0, 0.5]), one, one)
    BatchCertificate(objective=1.5, upper_bound=1.5, violation=0.0, smallest=1.0, largest=1.0)
    """
    xp, (n, k) = check_real("scores", scores), check_shape("scores", scores, ("n", "k"))
    check_shape("plan", plan, (n, k))
    for name, values in (("prices", prices), ("lower", lower), ("upper", upper)):
        check_shape(name, values, (k,))
    check_interval("epsilon", epsilon, 0.0, LARGEST)
    check_same_place(scores=scores, plan=plan, prices=prices, lower=lower, weights=weights)
    x, p = xp.astype(scores, xp.float64), xp.astype(plan, xp.float64)
    top = xp.max(x, axis=1)
    counted = xp.abs(top) < LARGEST
    w = xp.astype(counted, xp.float64)
    if weights is not None:
        check_shape("weights", weights, (n,))
        w = w * xp.astype(weights, xp.float64)
    x = xp.where(counted[:, None], x, 0.0)
    p = xp.where((w > 0)[:, None], p, 0.0)
    worth = xp.sum(xp.where(p > 0, p * x, 0.0), axis=1)
    values = xp.max(x + prices, axis=1)
    if epsilon > 0.0:
        logs = xp.log(xp.where(p > 0, p, 1.0))
        worth = worth - epsilon * xp.sum(p * logs, axis=1)
        below = (x + prices - values[:, None]) / epsilon
        values = values + epsilon * xp.log(xp.sum(xp.exp(below), axis=1))
    sizes = xp.sum(w[:, None] * p, axis=0)
    sums = xp.concat([xp.stack([xp.sum(w * worth), xp.sum(w * values)]), sizes])
    sums = sums if ranks is None else ranks.total(sums)
    sizes, none = sums[2:], xp.zeros_like(lower)
    bound = xp.sum(upper * xp.maximum(-prices, none) - lower * xp.maximum(prices, none))
    outside = xp.max(xp.maximum(xp.maximum(lower - sizes, sizes - upper), none))
    found = read(sums[0], sums[1] + bound, outside, xp.min(sizes), xp.max(sizes))
    return BatchCertificate(*found)
