r"""SeCu's two losses, each as one function beside its equation.

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

Values on any array library; gradients where the scores are torch tensors that ask for them. A
padded cluster has a score of -1e4: far enough to have probability 0, finite so that 0 times its
log-probability is 0. Everything is computed in at least float32, by log-sum-exp, with no operation
that PyTorch's autocast lowers.
"""

from __future__ import annotations

import math

import array_api_compat as compat

from ..core.checks import check_interval, check_real, check_shape
from ..core.errors import InvalidValueError
from ..core.precision import at_least_float32
from ..core.types import Array

__all__ = ["center_loss", "log_softmax", "mixed_targets", "soft_cross_entropy"]


def log_softmax(scores: Array, *, temperature: float = 1.0) -> Array:
    """Log-probabilities ``s / lambda - log sum_k exp(s_k / lambda)`` over the last axis.

    Parameters
    ----------
    scores : (..., k) real array
        Half precision is computed and returned in float32.
    temperature : float > 0
        Within the range of the dtype computed in.

    Returns
    -------
    (..., k) array

    Raises
    ------
    InvalidValueError
        If the temperature is not positive, or too small or too large for the dtype.

    Notes
    -----
    Source: SeCu supplement, Eq. 3; claim S3b. Cost O(k) per row.

    Finite for any finite scores: log-probabilities stop at a quarter of the dtype's lowest number
    (with gradient 0 there), so that ``p log p`` is 0 where p underflows and a sum of
    log-probabilities with weights on the simplex cannot overflow. The largest score is subtracted
    *before* the division by the temperature, which saves the digits of ``s / lambda``.
    Claims: docs/claims.md#S3b, #P14, #P18.

    Examples
    --------
    >>> import numpy as np
    >>> log_softmax(np.asarray([1000.0, 0.0]), temperature=0.5)
    array([    0., -2000.])
    """
    check_real("scores", scores)
    check_interval("temperature", temperature, 0.0, math.inf, open_low=True)
    scores = at_least_float32(scores)
    xp = compat.array_namespace(scores)
    info = xp.finfo(scores.dtype)
    low, high = 4.0 * float(info.smallest_normal), float(info.max)
    if not low <= temperature <= high:
        msg = (
            f"temperature must lie in [{low:g}, {high:g}], the range of {scores.dtype}, "
            f"got {temperature!r}. To fix this, scale scores and temperature together"
        )
        raise InvalidValueError(msg)
    # Of quarters, every difference is finite. One tensor serves both max and clip, and is all that
    # PyTorch keeps of them for the gradient.
    quarter = 0.25 * scores
    top = xp.max(quarter, axis=-1, keepdims=True)
    reach = high * min(0.0625 * temperature, 0.5)
    logits = (xp.clip(quarter, min=top - reach) - top) / (0.25 * temperature)
    return logits - xp.log(xp.sum(xp.exp(logits), axis=-1, keepdims=True))


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


def soft_cross_entropy(scores: Array, targets: Array, *, temperature: float) -> Array:
    """Cross-entropy of each row, ``-sum_k t_k log softmax_k(s / lambda)``, in nats.

    Parameters
    ----------
    scores : (..., b, k) real array
    targets : (..., b, k) real array
        Rows on the simplex.
    temperature : float > 0

    Returns
    -------
    (..., b) array

    Notes
    -----
    Source: the soft-label loss of CoKe, section 3.4; claim C24. Its gradient in s is
    ``(p - t) / lambda``. Cost O(k) per row.
    Claims: docs/claims.md#C24.

    Examples
    --------
    >>> import numpy as np
    >>> s = np.asarray([[0.0, 0.0]])
    >>> soft_cross_entropy(s, np.asarray([[0.5, 0.5]]), temperature=1.0).round(4)
    array([0.6931])
    """
    xp = check_real("scores", scores)
    check_shape("targets", targets, tuple(scores.shape))
    targets = at_least_float32(targets)
    return -xp.sum(targets * log_softmax(scores, temperature=temperature), axis=-1)


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
    xp = compat.array_namespace(like)
    clusters = xp.arange(like.shape[-1], dtype=labels.dtype, device=compat.device(like))
    return xp.astype(labels[..., None] == clusters, like.dtype)
