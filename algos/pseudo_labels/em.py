r"""The published EM for the pseudo-labels of MI + margin, to compare the Newton solver with.

Supplement, Algorithm 1, with c = lambda N u:

``S_i^k = y_i^k / sum_j y_j^k``,   ``y_i^k <- (sigma_i^k + c_k S_i^k) / (1 + sum_l c_l S_i^l)``

It majorizes ``-ln sum_j y_j^k`` by Jensen's inequality, so that no step raises the energy. Three
things are not printed:

* N is M / beta, the size of the batch for beta = 1; any other N solves another lambda.
* ``y_ik = 0`` stays 0, and a column of zeros is 0 / 0. Started at ``y = sigma`` as printed, outputs
  with zeros end in NaN or on a wrong face. Here the start is ``(1 - eps) sigma + eps u``.
* The rate is ``1 - min_ik (nu_i - p_k) / nu_i`` or worse: for sharp sigma the iteration stalls.

=====================  ===================  =======  ===============================================
paper                  here                 shape    meaning
=====================  ===================  =======  ===============================================
:math:`\sigma_i^k`     ``sigma``            (m, k)   network outputs, rows on the simplex
:math:`y_i^k`          ``labels``           (m, k)   soft pseudo-labels
:math:`\lambda`        ``fairness_weight``  ()       weight of the fairness, per sample
:math:`N`              m / ``beta``         ()       see above
:math:`u^k`            ``prior``            (k,)     wanted shares of the clusters
=====================  ===================  =======  ===============================================
"""

from __future__ import annotations

import array_api_compat as compat

from ..core.checks import check_count, check_interval
from ..core.types import Array
from .energy import LARGEST, check_problem, detached, floor_outputs

__all__ = ["em_labels", "em_step"]

TINY = 1e-300  # labels that would underflow stay here, where they can still grow


def em_labels(
    sigma: Array,
    *,
    fairness_weight: float,
    beta: float = 1.0,
    prior: Array | None = None,
    n_iter: int = 100,
    epsilon: float = 1e-6,
) -> Array:
    """Pseudo-labels after a number of EM steps; `label_gap` says how far they are from optimal.

    Parameters
    ----------
    sigma : (m, k) real array
        Entries are read clipped to [0, 1].
    fairness_weight : float >= 0
        lambda.
    beta : float > 0
    prior : (k,) real array, optional
        1 / k by default.
    n_iter : int
        The supplement gives no number and no criterion.
    epsilon : float in [0, 1]
        Part of the prior in the start; 0 starts as printed, and gives NaN where a cluster has no
        output.

    Returns
    -------
    (m, k) float64 array

    Notes
    -----
    Cost O(m k) per step; about ``(1 + lambda / beta) ln(1 / accuracy)`` steps for soft outputs.
    Source: supplement, Algorithm 1 (M3, M4).
    Claims: docs/claims.md#M3, #M4.

    Examples
    --------
    >>> import numpy as np
    >>> sigma = np.asarray([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4]])
    >>> em_labels(sigma, fairness_weight=1.0).round(3)
    array([[0.805, 0.195],
           [0.665, 0.335],
           [0.45 , 0.55 ]])
    """
    check_problem(sigma, fairness_weight, beta, prior)
    check_count("n_iter", n_iter, 0)
    xp = compat.array_namespace(sigma)
    sigma = xp.clip(xp.astype(detached(sigma), xp.float64), min=0.0, max=1.0)
    least = TINY if epsilon > 0 else 0.0
    labels = xp.clip(floor_outputs(sigma, epsilon=epsilon, prior=prior), min=least)
    for _ in range(n_iter):
        labels = em_step(sigma, labels, fairness_weight=fairness_weight, beta=beta, prior=prior)
        labels = xp.clip(labels, min=least)
    return labels


def em_step(
    sigma: Array,
    labels: Array,
    *,
    fairness_weight: float,
    beta: float = 1.0,
    prior: Array | None = None,
) -> Array:
    """One step of Algorithm 1, whatever it gives: NaN where a wanted cluster has no mass.

    Parameters
    ----------
    sigma, labels : (m, k) real array
    fairness_weight : float >= 0
    beta : float > 0
    prior : (k,) real array, optional

    Returns
    -------
    (m, k) float64 array
        Rows on the simplex, if those of sigma are.

    Notes
    -----
    Claims: docs/claims.md#M3.
    """
    xp, shares = check_problem(sigma, fairness_weight, beta, prior, labels)
    check_interval("beta", beta, 0.0, LARGEST, open_low=True)
    sigma, y = xp.astype(sigma, xp.float64), xp.astype(labels, xp.float64)
    mass = xp.where(shares > 0, xp.sum(y, axis=0), xp.ones_like(shares))
    # Both sides of the fraction times beta: lambda / beta overflows where beta is small.
    pull = fairness_weight * sigma.shape[0] * shares * (y / mass)
    return (beta * sigma + pull) / (beta + xp.sum(pull, axis=1, keepdims=True))
