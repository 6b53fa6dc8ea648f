r"""Entropy clustering through pseudo-labels: what the network learns from them.

Mutual information ties each sample's certainty to the shares of all. The MI + margin paper splits
the two by pseudo-labels y, one point of the simplex per sample, with the posteriors
``sigma_i = softmax(v f_i / T)`` fixed (supplement, Lemma B.1):

``E(y) = -(beta / M) sum_ik sigma_ik log y_ik - lambda sum_k u_k log( mean_i y_ik )``

is convex in y; `pseudo_labels.pseudo_label_energy` computes it and `pseudo_labels` minimizes it.
Its first term is a *reverse* cross-entropy, in which the prediction weighs the logarithm of the
label; its second is, up to the entropy of u, the *forward* divergence ``KL(u || mean y)``, which no
empty cluster survives. The network then takes a step on ``mean_i H(sigma_i, y_i) + gamma ||v||^2``
with y fixed (Algorithm 1). A uniform label teaches it nothing, whereas the usual ``H(y_i,
sigma_i)`` would drive its prediction to uniform.

=======================  ===================  =============  ======================================
paper                    here                 shape          meaning
=======================  ===================  =============  ======================================
:math:`\sigma_i^k`       softmax of `scores`  (..., b, k)    posterior of cluster k
:math:`y_i^k`            ``pseudo_labels``    (..., b, k)    rows on the simplex
:math:`u_k`              ``prior``            (k,)           shares wanted; uniform by default
:math:`\beta`            ``beta``             ()             weight of the reverse cross-entropy
:math:`\lambda`          ``fairness_weight``  ()             per sample; 100 as published
:math:`\gamma`           ``margin_weight``    ()             weight of the margin
:math:`M`                b                                   samples of the batch
=======================  ===================  =============  ======================================

Everything is computed in at least float32, in nats. The logarithm of a label or of a share is taken
at no less than the smallest normal number of the dtype (`precision.finite_log`), so that a zero
there costs 87 nats in float32 and 708 in float64, not infinity, and has no gradient.
"""

from __future__ import annotations

import array_api_compat as compat

from ...core.checks import check_real, check_shape
from ...core.precision import at_least_float32, finite_log
from ...core.types import Array
from ..cross_entropy import log_softmax
from .mutual import check_batch, log_prior, margin_term

__all__ = [
    "pseudo_label_divergence",
    "pseudo_label_loss",
    "reverse_cross_entropy",
]


def reverse_cross_entropy(
    scores: Array, pseudo_labels: Array, *, temperature: float = 1.0
) -> Array:
    """Cross-entropy ``H(sigma, y) = -sum_k sigma_k log y_k`` of each sample, in nats.

    Parameters
    ----------
    scores : (..., b, k) real array
    pseudo_labels : (..., b, k) real array
        Rows on the simplex. Detach them for the step of the network.
    temperature : float > 0

    Returns
    -------
    (..., b) array

    Notes
    -----
    Source: first term of Lemma B.1 and Algorithm 1; claim M1. With ``a = -log y`` its gradient in
    the scores is ``sigma (a - sum_k sigma_k a_k) / T``: zero for a uniform y.
    Claims: docs/claims.md#M1.

    Examples
    --------
    >>> import numpy as np
    >>> y = np.asarray([[0.5, 0.5]])
    >>> reverse_cross_entropy(np.asarray([[99.0, 0.0]]), y).round(4)
    array([0.6931])
    """
    xp = check_real("scores", scores)
    check_real("pseudo_labels", pseudo_labels)
    check_shape("pseudo_labels", pseudo_labels, tuple(scores.shape))
    p = xp.exp(log_softmax(scores, temperature=temperature))
    return -xp.sum(p * finite_log(pseudo_labels), axis=-1)


def pseudo_label_divergence(pseudo_labels: Array, prior: Array | None = None) -> Array:
    """Forward divergence ``KL(u || mean_i y_i)``: infinitely much against an empty cluster.

    Parameters
    ----------
    pseudo_labels : (..., b, k) real array
        Rows on the simplex, b >= 1. Half precision is computed and returned in float32.
    prior : (k,) real array, optional
        Shares wanted; uniform without it.

    Returns
    -------
    (...) array
        Nonnegative up to rounding, in nats. Finite by the floor of the logarithm.

    Notes
    -----
    Source: second term of Lemma B.1, less the entropy of u; claims M1 and M4 (zeros). Cost O(b k).
    Claims: docs/claims.md#M1, #M4.

    Examples
    --------
    >>> import numpy as np
    >>> pseudo_label_divergence(np.asarray([[1.0, 0.0], [0.5, 0.5]])).round(4)
    np.float64(0.1438)
    """
    log_mean = _log_mean_label(pseudo_labels)
    xp = compat.array_namespace(log_mean)
    log_u = log_prior(prior, log_mean)
    return xp.sum(xp.exp(log_u) * (log_u - log_mean), axis=-1)


def pseudo_label_loss(
    scores: Array,
    pseudo_labels: Array,
    weights: Array,
    *,
    margin_weight: float,
    temperature: float = 1.0,
) -> Array:
    """Loss of the network for fixed pseudo-labels, ``mean_i H(sigma_i, y_i) + gamma ||v||^2``.

    Parameters
    ----------
    scores : (..., b, k) real array
        b >= 1.
    pseudo_labels : (..., b, k) real array
        Rows on the simplex, detached.
    weights : (..., d, k) real array
        v, as in `margin_term`.
    margin_weight : float in [0, 1e30]
    temperature : float > 0

    Returns
    -------
    (...) array

    Notes
    -----
    Source: Algorithm 1, claim M3. Fairness reaches the network through y only. Cost O(b k + d k).
    Claims: docs/claims.md#M3.

    Examples
    --------
    >>> import numpy as np
    >>> y = np.asarray([[0.5, 0.5]])
    >>> pseudo_label_loss(np.zeros((1, 2)), y, np.eye(2), margin_weight=0.5).round(4)
    np.float64(1.6931)
    """
    reverse = reverse_cross_entropy(scores, pseudo_labels, temperature=temperature)
    check_batch("scores", scores)
    mean = compat.array_namespace(reverse).mean(reverse, axis=-1)
    return mean + margin_term(weights, margin_weight=margin_weight)


def _log_mean_label(pseudo_labels: Array) -> Array:
    xp = check_real("pseudo_labels", pseudo_labels)
    check_batch("pseudo_labels", pseudo_labels)
    return finite_log(xp.mean(at_least_float32(pseudo_labels), axis=-2))
