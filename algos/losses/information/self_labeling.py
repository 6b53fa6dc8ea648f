r"""Self-labeling (SeLa): one objective for the network and, as a transport, for balanced labels.

With ``p_i = softmax(s_i / T)`` and labels q_i on the simplex, the cross-entropy

``E(p, q) = -(1 / n) sum_ik q_ik log p_ik``

is minimized over the network for fixed q, and over q for fixed p under the shares
``mean_i q_i = c``; without them it is least at one cluster for all. With ``Q = q / n`` and
``P = p / n`` the second problem is an optimal transport, ``E(p, q) + log n = <Q, -log P>``,
smoothed to

``min_Q  <Q, -log P> + (1 / lambda) KL(Q || r c^T)   over   Q 1 = r,  Q^T 1 = c,  Q >= 0``

with r = 1/n (Asano, Rupprecht and Vedaldi 2020, section 3: a baseline of the MI + margin paper,
Table 2). Its solution has the form ``Q_ik = a_i P_ik^lambda b_k``, and as lambda grows it tends to
labels.

=====================  ==================  ===========  ==========================================
paper                  here                shape        meaning
=====================  ==================  ===========  ==========================================
:math:`\log p`         softmax of scores   (..., n, k)
:math:`q`              ``targets``         (..., n, k)  rows sum to 1
:math:`Q`              ``plan``            (..., n, k)  q / n: everything sums to 1
:math:`c`              ``shares``          (k,)         sizes wanted; uniform by default
:math:`\lambda`        ``sharpness``       ()           inverse of the smoothing; inf is none
=====================  ==================  ===========  ==========================================
"""

from __future__ import annotations

import math

import array_api_compat as compat

from ...core.checks import check_interval, check_real, check_shape
from ...core.precision import LARGEST_WEIGHT, at_least_float32, finite_log
from ...core.types import Array
from ..cross_entropy import log_softmax, soft_cross_entropy
from .mutual import check_batch, log_prior

__all__ = ["self_labeling_loss", "transport_objective"]


def self_labeling_loss(scores: Array, targets: Array, *, temperature: float = 1.0) -> Array:
    """Mean cross-entropy ``E(p, q)`` of predictions against labels on the simplex, in nats.

    Parameters
    ----------
    scores : (..., n, k) real array
        n >= 1. Half precision is computed and returned in float32.
    targets : (..., n, k) real array
        q: n times the transport plan, or one-hot labels. Detach them.
    temperature : float > 0

    Returns
    -------
    (...) array

    Notes
    -----
    Source: Asano et al. 2020, section 3; claim M9 compares its results with those of MI + margin.
    Cost O(n k).
    Claims: docs/claims.md#M9.

    Examples
    --------
    >>> import numpy as np
    >>> q = np.asarray([[1.0, 0.0], [0.0, 1.0]])
    >>> self_labeling_loss(np.zeros((2, 2)), q).round(4)
    np.float64(0.6931)
    """
    check_real("scores", scores)
    check_batch("scores", scores)
    rows = soft_cross_entropy(scores, targets, temperature=temperature)
    # Divided before the sum, which the largest finite scores would overflow.
    return compat.array_namespace(rows).sum(rows / rows.shape[-1], axis=-1)


def transport_objective(
    scores: Array,
    plan: Array,
    shares: Array | None = None,
    *,
    sharpness: float,
    temperature: float = 1.0,
) -> Array:
    """Value of a transport plan: ``<Q, -log P> + (1 / lambda) KL(Q || r c^T)``, in nats.

    Parameters
    ----------
    scores : (..., n, k) real array
    plan : (..., n, k) real array
        Q: nonnegative, sums to 1.
    shares : (k,) real array, optional
        c, on the simplex; uniform without it.
    sharpness : float in [1e-30, 1e30], or math.inf
        lambda; 25 as published, and math.inf leaves the linear part.
    temperature : float > 0

    Returns
    -------
    (...) array

    Notes
    -----
    Source: Asano et al. 2020, section 3; a baseline of claim M9. The value at any plan with the
    right row and column sums is an upper bound on the optimum. Row sums are taken as 1/n, and are
    not checked. Cost O(n k).
    Claims: docs/claims.md#M9.

    Examples
    --------
    >>> import numpy as np
    >>> plan = np.asarray([[0.5, 0.0], [0.0, 0.5]])
    >>> transport_objective(np.zeros((2, 2)), plan, sharpness=25.0).round(4)
    np.float64(1.414)
    """
    check_real("scores", scores)
    check_real("plan", plan)
    check_batch("scores", scores)
    check_shape("plan", plan, tuple(scores.shape))
    if sharpness != math.inf:
        check_interval("sharpness", sharpness, 1.0 / LARGEST_WEIGHT, LARGEST_WEIGHT)
    log_p = log_softmax(scores, temperature=temperature)
    xp = compat.array_namespace(log_p)
    q = at_least_float32(plan)
    log_n = math.log(scores.shape[-2])
    cost = log_n * xp.sum(q, axis=(-2, -1)) - xp.sum(q * log_p, axis=(-2, -1))
    log_rc = log_prior(shares, log_p, "shares") - log_n
    return cost + xp.sum(q * (finite_log(q) - log_rc), axis=(-2, -1)) / sharpness
