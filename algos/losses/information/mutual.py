r"""Mutual information with a margin: sure predictions, fair clusters, a short classifier.

A softmax classifier ``sigma_i = softmax(v f_i / T)`` of features f_i is trained without labels on
(supplement of the MI + margin paper, appendix A, Eq. (a))

``L = mean_i H(sigma_i) - H(mean_i sigma_i) + gamma ||v||^2``,

``L = mean_i H(sigma_i) + KL(mean_i sigma_i || u) + gamma ||v||^2  - log k``   for uniform u.

=============  ==================  ============================================================
term           function            without it
=============  ==================  ============================================================
decisiveness   `mean_entropy`      soft clusters cost nothing
fairness       `prior_divergence`  one cluster takes everything
margin         `margin_term`       scaling v up reaches any decisiveness (claim M5)
=============  ==================  ============================================================

=======================  ===================  =============  ======================================
paper                    here                 shape          meaning
=======================  ===================  =============  ======================================
:math:`\sigma_i^k`       softmax of `scores`  (..., b, k)    posterior of cluster k
:math:`u_k`              ``prior``            (k,)           shares wanted; uniform by default
:math:`v`                ``weights``          (..., d, k)    of the last linear layer, either order
:math:`\gamma`           ``margin_weight``    ()             weight of the margin
:math:`\lambda`          ``fairness_weight``  ()             1 in Eq. (a)
=======================  ===================  =============  ======================================

Everything is computed in at least float32 from log-probabilities, in nats. The same paper's other
half, which solves for the labels that these terms want, is `pseudo_label`.

Claims: docs/claims.md#M5.
"""

from __future__ import annotations

import math

import array_api_compat as compat

from ...core.checks import check_interval, check_real, check_shape
from ...core.errors import InvalidValueError
from ...core.precision import LARGEST_WEIGHT, at_least_float32, finite_log
from ...core.types import Array
from ..cross_entropy import log_softmax

__all__ = [
    "information_margin_loss",
    "margin_term",
    "mean_entropy",
    "mutual_information",
    "prior_divergence",
]


def mean_entropy(scores: Array, *, temperature: float = 1.0) -> Array:
    """Decisiveness: the mean entropy of the predictions, 0 where all are sure.

    Parameters
    ----------
    scores : (..., b, k) real array
        b >= 1. Half precision is computed and returned in float32.
    temperature : float > 0

    Returns
    -------
    (...) array
        In [0, log k], in nats.

    Notes
    -----
    Source: first term of Eq. (a); claim M5. Cost O(b k).
    Claims: docs/claims.md#M5.

    Examples
    --------
    >>> import numpy as np
    >>> mean_entropy(np.asarray([[0.0, 0.0], [99.0, 0.0]])).round(4)
    np.float64(0.3466)
    """
    log_p = _log_posterior(scores, temperature)
    xp = compat.array_namespace(log_p)
    return -xp.mean(xp.sum(xp.exp(log_p) * log_p, axis=-1), axis=-1)


def prior_divergence(
    scores: Array, prior: Array | None = None, *, temperature: float = 1.0
) -> Array:
    """Fairness: ``KL(mean_i sigma_i || u)``, 0 where the predictions use the clusters as wanted.

    Parameters
    ----------
    scores : (..., b, k) real array
    prior : (k,) real array, optional
        Shares wanted, on the simplex; uniform without it.
    temperature : float > 0

    Returns
    -------
    (...) array
        Nonnegative up to rounding, in nats.

    Notes
    -----
    Source: second term of Eq. (a), claim M2: it is ``-H(mean sigma)`` plus a constant only for
    uniform u. The mean is taken by log-sum-exp over the samples, so that a cluster which every
    sample avoids still has a finite logarithm and a gradient. Cost O(b k).
    Claims: docs/claims.md#M2.

    Examples
    --------
    >>> import numpy as np
    >>> prior_divergence(np.asarray([[99.0, 0.0], [99.0, 0.0]])).round(4)
    np.float64(0.6931)
    """
    log_mean = _log_mean(_log_posterior(scores, temperature))
    xp = compat.array_namespace(log_mean)
    log_u = log_prior(prior, log_mean)
    return xp.sum(xp.exp(log_mean) * (log_mean - log_u), axis=-1)


def mutual_information(scores: Array, *, temperature: float = 1.0) -> Array:
    """Information between sample and cluster, ``H(mean_i sigma_i) - mean_i H(sigma_i)``, in nats.

    Parameters
    ----------
    scores : (..., b, k) real array
    temperature : float > 0

    Returns
    -------
    (...) array
        In [0, log k] up to rounding.

    Notes
    -----
    Source: first line of Eq. (a), without the margin and with the other sign; claim
    M2. Cost O(b k).
    Claims: docs/claims.md#M2.

    Examples
    --------
    >>> import numpy as np
    >>> mutual_information(np.asarray([[0.0, 99.0], [99.0, 0.0]])).round(4)
    np.float64(0.6931)
    """
    log_p = _log_posterior(scores, temperature)
    xp = compat.array_namespace(log_p)
    # The same as the mean of KL(sigma_i || mean sigma), in which no two large numbers cancel.
    gap = log_p - _log_mean(log_p)[..., None, :]
    return xp.mean(xp.sum(xp.exp(log_p) * gap, axis=-1), axis=-1)


def margin_term(weights: Array, *, margin_weight: float) -> Array:
    """Squared length of the last layer, ``gamma ||v||^2``: the inverse of the margin.

    Parameters
    ----------
    weights : (..., d, k) real array
        The matrix of the last linear layer, or its transpose; without its bias and without the
        layers before. Half precision is computed and returned in float32.
    margin_weight : float in [0, 1e30]

    Returns
    -------
    (...) array
        Nonnegative; inf where the square overflows.

    Notes
    -----
    Source: third term of Eq. (a), claims M5 and M6: the boundary tends to the one of largest margin
    as gamma tends to 0, for separable data, and is no such thing at a given gamma. An optimizer's
    weight decay is not this term: it reaches all layers, and Adam rescales it.
    Claims: docs/claims.md#M5, #M6.

    Examples
    --------
    >>> import numpy as np
    >>> margin_term(np.asarray([[3.0], [4.0]]), margin_weight=0.01).round(4)
    np.float64(0.25)
    """
    check_real("weights", weights)
    check_interval("margin_weight", margin_weight, 0.0, LARGEST_WEIGHT)
    if weights.ndim < 2:
        msg = (
            f"weights must have shape (..., d, k), got {tuple(weights.shape)}"
            ". To fix this, pass the weights of the classifier, a column for each cluster"
        )
        raise InvalidValueError(msg)
    # Scaled before the square, so that a weight of 0 gives 0 for weights of any size.
    v = math.sqrt(margin_weight) * at_least_float32(weights)
    return compat.array_namespace(v).sum(v * v, axis=(-2, -1))


def information_margin_loss(
    scores: Array,
    weights: Array,
    prior: Array | None = None,
    *,
    margin_weight: float,
    fairness_weight: float = 1.0,
    temperature: float = 1.0,
) -> Array:
    """Mutual information with a margin: sure, fair, and with the smallest classifier.

    Parameters
    ----------
    scores : (..., b, k) real array
        ``v f_i``, with the bias if there is one.
    weights : (..., d, k) real array
        v itself.
    prior : (k,) real array, optional
        Shares wanted; uniform without it.
    margin_weight : float in [0, 1e30]
        gamma.
    fairness_weight : float in [0, 1e30]
        1 in Eq. (a); the experiments use 1.3 for this loss.
    temperature : float > 0

    Returns
    -------
    (...) array
        Nonnegative up to rounding.

    Notes
    -----
    Source: second line of Eq. (a), claims M2, M5 and M6. For a uniform prior and a fairness weight
    of 1 it is ``log k - mutual_information(scores)`` plus the margin term. Cost O(b k + d k).
    Claims: docs/claims.md#M2, #M5, #M6.

    Examples
    --------
    >>> import numpy as np
    >>> s, v = np.asarray([[0.0, 9.0], [9.0, 0.0]]), np.eye(2)
    >>> information_margin_loss(s, v, margin_weight=0.01).round(4)
    np.float64(0.0212)
    """
    check_interval("fairness_weight", fairness_weight, 0.0, LARGEST_WEIGHT)
    fair = fairness_weight * prior_divergence(scores, prior, temperature=temperature)
    sure = mean_entropy(scores, temperature=temperature)
    return sure + fair + margin_term(weights, margin_weight=margin_weight)


def check_batch(name: str, array: Array) -> None:
    """Raise unless `array` has samples and clusters: a mean over no sample is NaN."""
    shape = tuple(array.shape)
    if len(shape) < 2 or 0 in shape[-2:]:
        msg = (
            f"{name} must have shape (..., b, k) with b >= 1 and k >= 1, got {shape}"
            ". To fix this, pass a batch of one sample or more, a row for each"
        )
        raise InvalidValueError(msg)


def log_prior(prior: Array | None, like: Array, name: str = "prior") -> Array:
    """``log u`` in the dtype of `like`, (..., k); uniform where `prior`, called `name`, is None."""
    k = like.shape[-1]
    xp = compat.array_namespace(like)
    if prior is None:
        return xp.full((k,), -math.log(k), dtype=like.dtype, device=compat.device(like))
    check_real(name, prior)
    check_shape(name, prior, (k,))
    return xp.astype(finite_log(prior), like.dtype)


def _log_posterior(scores: Array, temperature: float) -> Array:
    check_real("scores", scores)
    check_batch("scores", scores)
    return log_softmax(scores, temperature=temperature)


def _log_mean(log_p: Array) -> Array:
    """``log( mean_i p_ik )`` over the samples, finite where every p_ik underflows."""
    xp = compat.array_namespace(log_p)
    top = xp.max(log_p, axis=-2, keepdims=True)
    log_mean = xp.log(xp.mean(xp.exp(log_p - top), axis=-2, keepdims=True))
    return (top + log_mean)[..., 0, :]
