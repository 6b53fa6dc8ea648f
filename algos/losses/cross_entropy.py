r"""Softmax cross-entropy at a temperature, in logarithms: what every loss here is made of.

With scores s of k clusters and a temperature lambda,

``log p_k = s_k / lambda - log sum_j exp(s_j / lambda)``   (`log_softmax`)

``H(t, p) = -sum_k t_k log p_k``   (`soft_cross_entropy`)

for targets t on the simplex. The gradient of H in s is ``(p - t) / lambda``.

=========================  =================  ===========  =======================================
paper                      here               shape        meaning
=========================  =================  ===========  =======================================
:math:`x_i^\top w_j`       ``scores``         (..., k)     similarity, any leading axes
:math:`\lambda`            ``temperature``    ()           in units of similarity
=========================  =================  ===========  =======================================

Everything is computed in at least float32, by log-sum-exp, with no operation that PyTorch's
autocast lowers. A padded cluster has a score of -1e4: far enough to have probability 0, finite so
that 0 times its log-probability is 0.
"""

from __future__ import annotations

import math

import array_api_compat as compat

from ..core.checks import check_interval, check_real, check_shape
from ..core.errors import InvalidValueError
from ..core.precision import at_least_float32
from ..core.types import Array

__all__ = ["log_softmax", "soft_cross_entropy"]


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
    scores = at_least_float32(scores)
    check_interval("temperature", temperature, 0.0, math.inf, open_low=True)
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
    check_real("targets", targets)
    check_shape("targets", targets, tuple(scores.shape))
    return -xp.sum(targets * log_softmax(scores, temperature=temperature), axis=-1)
