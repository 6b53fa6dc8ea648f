r"""Objective and duality gap of the pseudo-labels of MI + margin; the problem is `pseudo_labels`'s.

*Certificate.* For any labels y, prices p >= 0 and multipliers nu_i >= max p, with
``r = y (nu - p) / (beta sigma)`` and ``rho_k = p_k mean_i y_ik / (lambda u_k)``,

``E(y) - min E <= (beta / M) sum sigma (r - 1 - ln r) + lambda sum_k u_k (rho_k - 1 - ln rho_k)
+ (1 / M) sum_i nu_i (1 - sum_k y_ik)``

where a vanishing target contributes its product, ``y (nu - p) / M`` or ``p_k mean_i y_ik``. The
right-hand side is the duality gap, written as terms that are nonnegative on the simplex: nothing
cancels.

=====================  ===================  =======  ===============================================
paper, or derivation   here                 shape    meaning
=====================  ===================  =======  ===============================================
:math:`\sigma_i^k`     ``sigma``            (m, k)   network outputs, rows on the simplex
:math:`y_i^k`          ``labels``           (m, k)   soft pseudo-labels, rows on the simplex
:math:`\beta`          ``beta``             ()       weight of the cross-entropy
:math:`\lambda`        ``fairness_weight``  ()       weight of the fairness, per sample
:math:`u_k`            ``prior``            (k,)     shares wanted; uniform by default
:math:`p_k`            ``prices``           (k,)     dual, in nats
:math:`\nu_i-\max p`   ``slack``            (m,)     dual, in nats
=====================  ===================  =======  ===============================================

No value is read back.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import array_api_compat as compat

from ..core.checks import check_interval, check_real, check_same_place, check_shape
from ..core.errors import InvalidValueError
from ..core.types import Array, Namespace

__all__ = [
    "LabelDuals",
    "check_problem",
    "detached",
    "floor_outputs",
    "label_gap",
    "pseudo_label_energy",
]

BLOCK = 2**17  # entries: a float64 temporary of 1 MiB
LARGEST = 1e100


class LabelDuals(NamedTuple):
    """Dual variables, which prove the gap of any labels: ``prices`` (k,) and ``slack`` (m,)."""

    prices: Array
    slack: Array


def pseudo_label_energy(
    sigma: Array,
    labels: Array,
    *,
    fairness_weight: float,
    beta: float = 1.0,
    prior: Array | None = None,
) -> Array:
    """E(y) of Lemma B.1 in nats, with ``0 ln 0 = 0``; inf where mass is missing.

    Differentiable in sigma, with gradient ``-(beta / M) ln y``: the loss of the network step.

    Parameters
    ----------
    sigma, labels : (m, k) real array
    fairness_weight, beta : float >= 0
    prior : (k,) real array, optional

    Returns
    -------
    0-d float64 array

    Notes
    -----
    Claims: docs/claims.md#M1, #M3.

    Examples
    --------
    >>> import numpy as np
    >>> y = np.asarray([[0.5, 0.5]])
    >>> float(pseudo_label_energy(np.asarray([[1.0, 0.0]]), y, fairness_weight=1.0).round(6))
    1.386294
    """
    xp, shares = check_problem(sigma, fairness_weight, beta, prior, labels)
    m, k = sigma.shape
    mass, entropy = xp.zeros_like(shares), xp.sum(xp.zeros_like(shares))
    for rows in _blocks(m, k):
        y = xp.astype(labels[rows, :], xp.float64)
        target = beta / m * _clipped(sigma[rows, :])
        mass = mass + xp.sum(y, axis=0)
        entropy = entropy - xp.sum(target * _log(y, target))
    wanted = fairness_weight * shares
    return entropy - xp.sum(wanted * _log(mass / m, wanted))


def label_gap(
    sigma: Array,
    labels: Array,
    *,
    fairness_weight: float,
    beta: float = 1.0,
    prior: Array | None = None,
    duals: LabelDuals | None = None,
) -> Array:
    """Bound on ``E(y) - min E`` of any labels, from any dual variables, without solving anything.

    Parameters
    ----------
    sigma, labels : (m, k) real array
    fairness_weight, beta : float >= 0
    prior : (k,) real array, optional
    duals : LabelDuals, optional
        By default ``p_k = lambda u_k / mean_i y_ik`` and
        ``nu_i = max(beta + p . y_i, max_k (p_k + beta sigma_ik))``.

    Returns
    -------
    0-d float64 array, in nats
        inf where the objective is.

    Notes
    -----
    Cost O(m k). Equal to the objective minus the dual function, without their cancellation, also
    for labels whose rows do not sum to 1. Source: weak duality for Lemma B.1.

    Examples
    --------
    >>> import numpy as np
    >>> sigma = np.asarray([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4]])
    >>> float(label_gap(sigma, sigma, fairness_weight=1.0).round(4))  # 0.0853 above the minimum
    0.2757
    """
    xp, shares = check_problem(sigma, fairness_weight, beta, prior, labels)
    m, k = sigma.shape
    mean = xp.zeros_like(shares)
    for rows in _blocks(m, k):
        mean = mean + xp.sum(xp.astype(labels[rows, :], xp.float64), axis=0) / m
    wanted = fairness_weight * shares
    if duals is None:
        prices = wanted / xp.clip(mean, min=1.0 / LARGEST)  # wanted is at most LARGEST**2
    else:
        check_same_place(sigma=sigma, prices=duals.prices, slack=duals.slack)
        check_shape("duals.prices", duals.prices, (k,))
        check_shape("duals.slack", duals.slack, (m,))
        prices = xp.clip(duals.prices, min=0.0)
    top = xp.max(prices)
    drops = top - prices
    total = xp.sum(_divergence(prices * mean, wanted))
    for rows in _blocks(m, k):
        y, a = xp.astype(labels[rows, :], xp.float64), beta * _clipped(sigma[rows, :])
        if duals is None:
            slack = xp.sum(a, axis=1) - xp.sum(drops * y, axis=1)
            slack = xp.maximum(slack, xp.max(a - drops, axis=1))
        else:
            slack = xp.clip(duals.slack[rows], min=0.0)
        terms = _divergence(y * (slack[:, None] + drops), a)
        total = total + xp.sum(terms) / m
        total = total + xp.sum((slack + top) * (1.0 - xp.sum(y, axis=1))) / m
    return total


def floor_outputs(sigma: Array, *, epsilon: float = 1e-6, prior: Array | None = None) -> Array:
    """Outputs without zeros, ``(1 - epsilon) sigma + epsilon prior``: labels are then unique.

    Parameters
    ----------
    sigma : (m, k) real array
    epsilon : float in [0, 1]
        1e-6 moves the minimum of E by about 3e-7 beta, and bounds ``-ln y`` by about 17.
    prior : (k,) real array, optional
        On the simplex; 1 / k by default.

    Returns
    -------
    (m, k) float64 array

    Notes
    -----
    With the labels of the floored problem, ``E - min E`` of the exact one is at most about
    ``beta epsilon (1 + ln(1 / epsilon))``, whatever the weight of the fairness.
    Claims: docs/claims.md#M4.

    Examples
    --------
    >>> import numpy as np
    >>> floor_outputs(np.asarray([[1.0, 0.0]]), epsilon=0.5)
    array([[0.75, 0.25]])
    """
    xp, shares = check_problem(sigma, 0.0, 0.0, prior)
    check_interval("epsilon", epsilon, 0.0, 1.0)
    return (1.0 - epsilon) * xp.astype(sigma, xp.float64) + epsilon * shares


def check_problem(
    sigma: Array,
    fairness_weight: float,
    beta: float,
    prior: Array | None,
    labels: Array | None = None,
) -> tuple[Namespace, Array]:
    """Return the namespace, and the prior as float64; raise where an argument breaks a rule."""
    xp = check_real("sigma", sigma)
    m, k = check_shape("sigma", sigma, ("m", "k"))
    if m == 0 or k == 0:
        msg = (
            f"sigma must have at least one row and one column, got shape {(m, k)}"
            ". To fix this, pass at least one"
        )
        raise InvalidValueError(msg)
    check_interval("fairness_weight", fairness_weight, 0.0, LARGEST)
    check_interval("beta", beta, 0.0, LARGEST)
    if labels is not None:
        check_real("labels", labels)
        check_shape("labels", labels, (m, k))
        check_same_place(sigma=sigma, labels=labels)
    if prior is None:
        return xp, xp.full((k,), 1.0 / k, dtype=xp.float64, device=compat.device(sigma))
    check_real("prior", prior)
    check_shape("prior", prior, (k,))
    check_same_place(sigma=sigma, prior=prior)
    return xp, xp.clip(xp.astype(detached(prior), xp.float64), min=0.0, max=LARGEST)


def _divergence(product: Array, target: Array) -> Array:
    """``a (r - 1 - ln r)`` for ``r = product / a``; the product itself where a is 0."""
    xp = compat.array_namespace(product)
    error = product - target
    # Where r overflows, the clips round the value up.
    ratio = xp.clip(error, max=1e150) / xp.clip(target, min=1e-150)
    log = xp.log1p(xp.clip(ratio, min=-0.5, max=1e300))
    small = xp.log(xp.clip(product, min=1e-300)) - xp.log(xp.clip(target, min=1e-300))
    log = xp.where(ratio < -0.5, small, log)
    value = error - target * log
    return xp.where((product <= 0) & (target > 0), xp.full_like(value, math.inf), value)


def _log(y: Array, needed: Array) -> Array:
    """``ln y``; at y = 0, minus infinity where it is needed and 0 where it is not."""
    xp = compat.array_namespace(y)
    absent = xp.where(needed > 0, xp.full_like(y, -math.inf), xp.zeros_like(y))
    return xp.where(y > 0, xp.log(xp.clip(y, min=1e-307)), absent)


def _clipped(sigma: Array) -> Array:
    xp = compat.array_namespace(sigma)
    return xp.clip(xp.astype(sigma, xp.float64), min=0.0, max=1.0)


def _blocks(m: int, k: int) -> Iterator[slice]:
    rows = max(1, BLOCK // k)
    for i in range(0, m, rows):
        yield slice(i, min(i + rows, m))


def detached(array: Array) -> Array:
    """Without its graph, in a library that has one: no gradient belongs into a pseudo-label."""
    return array.detach() if hasattr(array, "detach") else array
