r"""SeCu's two losses, each as one function of its equation.

With unit features x, unit centers w and a temperature lambda, ``p = softmax(x . w / lambda)``.

*Representation loss* (`soft_cross_entropy` on `mixed_targets`): the features of a view learn

``target = tau onehot(y_prev) + (1 - tau) p(other view)``

over the centers of the previous epoch; y_prev is the label that the image had then.

*Center loss* (`center_loss`): a center learns from its own samples only,

``l(x, y) = -log( e_y / (e_y + sum_{k != y} sg(e_k)) )``,   ``e_k = exp(x . w_k / lambda)``

with sg the stop-gradient (SeCu supplement, proof of Theorem 1, Eq. 1). Its gradient in w_y is
``-(1 - p_y) x / lambda``: what Eq. 4 weights the samples by.

=========================  =================  ===========  =======================================
paper                      here               shape        meaning
=========================  =================  ===========  =======================================
:math:`x_i^\top w_j`       ``scores``         (..., b, k)  similarity, any leading axes
:math:`y_i`                ``labels``         (..., b)     int64, in [0, k)
:math:`\lambda`            ``temperature``    ()           in units of similarity
:math:`\tau`               ``tau``            ()           weight of the stored label
=========================  =================  ===========  =======================================

Values on any array library; gradients where the scores are torch tensors that ask for them.
"""

from __future__ import annotations

import array_api_compat as compat

from ..core.checks import check_integral, check_interval, check_real, check_shape
from ..core.types import Array
from .cross_entropy import log_softmax

__all__ = ["center_loss", "mixed_targets"]


def mixed_targets(
    labels: Array, reference_scores: Array, *, temperature: float, tau: float
) -> Array:
    """Targets of the representation loss, ``tau onehot(y) + (1 - tau) softmax(s / lambda)``.

    Parameters
    ----------
    labels : (..., b) int64 array
        Labels of the previous epoch.
    reference_scores : (..., b, k) real array
        Scores of the *other* view for the centers of the previous epoch. Detach them: no gradient
        belongs into a target.
    temperature : float > 0
    tau : float in [0, 1]
        0.2 as published; 1 uses the stored label alone.

    Returns
    -------
    (..., b, k) array
        Rows sum to 1.

    Notes
    -----
    Source: SeCu, and CoKe with two views (section 3.4, where tau is called alpha); claim C24.
    Claims: docs/claims.md#C24.
    """
    xp = check_real("reference_scores", reference_scores)
    check_interval("tau", tau, 0.0, 1.0)
    p = xp.exp(log_softmax(reference_scores, temperature=temperature))
    return tau * _one_hot(labels, p) + (1.0 - tau) * p


def center_loss(scores: Array, frozen_scores: Array, labels: Array, *, temperature: float) -> Array:
    """SeCu's loss of the centers, per sample, in nats: only the label's own column has a gradient.

    Parameters
    ----------
    scores : (..., b, k) real array
        x . w_k with detached features and live centers.
    frozen_scores : (..., b, k) real array
        The same values, detached: sg(w_k) of the equation.
    labels : (..., b) int64 array
        Labels of now.
    temperature : float > 0
        lambda_w; 0.05 as published, 1 on STL-10.

    Returns
    -------
    (..., b) array

    Notes
    -----
    Source: SeCu supplement, section 1.3, Eq. 1; claims S3a (on the sphere it is the form in squared
    distances) and S6 (the sum over samples only: section 2 prints a second sum over clusters, which
    multiplies the loss by k).
    Claims: docs/claims.md#S3a, #S6.

    Examples
    --------
    >>> import numpy as np
    >>> s = np.asarray([[0.0, 0.0]])
    >>> center_loss(s, s, np.asarray([1]), temperature=1.0).round(4)
    array([0.6931])
    """
    xp = check_real("scores", scores)
    check_shape("frozen_scores", frozen_scores, tuple(scores.shape))
    check_real("frozen_scores", frozen_scores)
    own = _one_hot(labels, scores)
    log_p = log_softmax(xp.where(own > 0, scores, frozen_scores), temperature=temperature)
    return -xp.sum(xp.where(own > 0, log_p, xp.zeros_like(log_p)), axis=-1)


def _one_hot(labels: Array, like: Array) -> Array:
    check_integral("labels", labels)
    xp = compat.array_namespace(like)
    clusters = xp.arange(like.shape[-1], dtype=labels.dtype, device=compat.device(like))
    return xp.astype(labels[..., None] == clusters, like.dtype)
