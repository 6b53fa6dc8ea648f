r"""CoKe's discrimination phase: features learn the labels and centers of the epoch before.

With unit features x, the centers c of epoch t - 1 and a temperature lambda, one cross-entropy

``l(x) = - sum_k target_k log( exp(x . c_k / lambda) / sum_j exp(x . c_j / lambda) )``

serves three kinds of target:

===========================================  =============================  =====================
target                                       equation                       here
===========================================  =============================  =====================
``onehot(y)``                                Eq. 14                         `label_loss`
mean of labels, smoothed                     section 3.4, appendix B.2.2    `smoothed_labels`
``alpha onehot(y) + (1 - alpha) p(other)``   section 3.4, Algorithm 2       `two_view_targets`,
                                                                            `two_view_loss`
===========================================  =============================  =====================

For a target that is at hand the loss is `losses.soft_cross_entropy` (section 3.4, with
`centers.running_average` for the moving averages of labels and of centers).

=========================  =================  ==============  ====================================
paper                      here               shape           meaning
=========================  =================  ==============  ====================================
:math:`x_i^\top c_k`       ``scores``         (..., b, k)     similarity to the *stored* centers
:math:`\tilde y_i`         ``labels``         (..., b)        labels of epoch t - 1, int64
:math:`\lambda`            ``temperature``    ()              0.1 for one view, 0.05 for two
:math:`\alpha`             ``alpha``          ()              weight of the stored label, 0.2
:math:`\tilde\mu_{i,k}`    ``weights``        (..., b, k)     averaged labels, mostly zeros
=========================  =================  ==============  ====================================

Both labels and centers have to be those of the last epoch: with current labels nothing is learned
(0.4 % against 64.5 %, Table 2). A head with a predictor takes ``beta l_pred + (1 - beta) l_proj``
of two such losses, beta = 0.5 (appendix B.2.4). Algorithm 2 names Eqs. 13, 11 and 14 for the
updates of labels, centers and duals; they are Eqs. 10 (17 for two views), 13 and 11 (claim C25).

Claims: docs/claims.md#C25.
"""

from __future__ import annotations

import array_api_compat as compat

from ..core.checks import check_integral, check_interval, check_real, check_shape
from ..core.errors import InvalidValueError
from ..core.precision import at_least_float32
from ..core.types import Array
from .cross_entropy import log_softmax, soft_cross_entropy
from .secu import mixed_targets

__all__ = ["label_loss", "smoothed_labels", "two_view_loss", "two_view_targets"]


def label_loss(scores: Array, labels: Array, *, temperature: float) -> Array:
    """CoKe's loss of one view: the cross-entropy of the stored label, in nats.

    Parameters
    ----------
    scores : (..., b, k) real array
        Half precision is computed and returned in float32.
    labels : (..., b) integer array
        In [0, k); not checked, which would read values back.
    temperature : float > 0

    Returns
    -------
    (..., b) array

    Notes
    -----
    Source: Eq. 14; also claim S3a: for unit features and centers it equals the same loss of the
    scores ``-||x - c_k||^2 / 2``, and off the sphere it does not.
    Claims: docs/claims.md#S3a, #C24.

    Examples
    --------
    >>> import numpy as np
    >>> s = np.asarray([[1.0, 0.0]])
    >>> label_loss(s, np.asarray([0]), temperature=0.1).round(7)
    array([4.54e-05])
    """
    xp = check_real("scores", scores)
    check_integral("labels", labels)
    check_shape("labels", labels, tuple(scores.shape[:-1]))
    log_p = log_softmax(scores, temperature=temperature)
    own = xp.astype(labels, xp.int64)[..., None]
    return -xp.take_along_axis(log_p, own, axis=-1)[..., 0]


def smoothed_labels(weights: Array, *, temperature: float = 0.5) -> Array:
    """Distributions over the few clusters that an averaged label names: softmax of its support.

    ``exp(mu_k / lambda') / Z`` where ``mu_k > 0``, and 0 elsewhere.

    Parameters
    ----------
    weights : (..., k) real array
        Averages of one-hot labels; zero, or less, is outside the support. Half precision is
        computed and returned in float32.
    temperature : float > 0
        lambda' of the paper, 0.5 as published.

    Returns
    -------
    (..., k) array
        Rows sum to 1, up to rounding; a row without support is 0.

    Notes
    -----
    Source: appendix B.2.2, claim C24. With lambda' = 0.5 the largest ratio of two entries is
    ``exp(2) = 7.4``: the support counts more than the weights.
    Claims: docs/claims.md#C24.

    Examples
    --------
    >>> import numpy as np
    >>> smoothed_labels(np.asarray([0.75, 0.25, 0.0])).round(4)
    array([0.7311, 0.2689, 0.    ])
    """
    check_real("weights", weights)
    w = at_least_float32(weights)
    xp = compat.array_namespace(w)
    support = w > 0
    zero = xp.zeros_like(w)
    lowest = zero - float(xp.finfo(w.dtype).max)
    log_p = log_softmax(xp.where(support, w, lowest), temperature=temperature)
    p = xp.where(support, xp.exp(log_p), zero)
    total = xp.sum(p, axis=-1, keepdims=True)
    return p / xp.where(total > 0, total, xp.ones_like(total))


def two_view_targets(
    labels: Array, reference_scores: Array, *, temperature: float, alpha: float
) -> Array:
    """Targets of two views of the same images: the stored label mixed with the *other* view.

    Parameters
    ----------
    labels : (..., b) integer array
        Labels of the previous epoch, one for both views.
    reference_scores : (2, ..., b, k) real array
        Detached: no gradient belongs into a target.
    temperature : float > 0
    alpha : float in [0, 1]
        0.2 as published.

    Returns
    -------
    (2, ..., b, k) array
        Row j is the target of view j; rows sum to 1.

    Raises
    ------
    InvalidValueError
        If there are not two views, or a number is outside its range.

    Notes
    -----
    Source: section 3.4 ("Two Views") and Algorithm 2; claim C24.
    Claims: docs/claims.md#C24.

    Examples
    --------
    >>> import numpy as np
    >>> s = np.asarray([[[9.0, 0.0]], [[0.0, 9.0]]])
    >>> two_view_targets(np.asarray([0]), s, temperature=0.1, alpha=0.25)[:, 0].round(4)
    array([[0.25, 0.75],
           [1.  , 0.  ]])
    """
    xp = check_real("reference_scores", reference_scores)
    shape = tuple(reference_scores.shape)
    if len(shape) < 3 or shape[0] != 2:
        msg = (
            f"reference_scores must have shape (2, ..., b, k), two views, got {shape}"
            ". To fix this, stack the scores of both views along a new first axis"
        )
        raise InvalidValueError(msg)
    check_shape("labels", labels, shape[1:-1])
    check_interval("alpha", alpha, 0.0, 1.0)
    other = xp.flip(reference_scores, axis=0)
    return mixed_targets(labels[None, ...], other, temperature=temperature, tau=alpha)


def two_view_loss(
    scores: Array, frozen_scores: Array, labels: Array, *, temperature: float, alpha: float
) -> Array:
    """CoKe's loss of two views, per image, in nats: the mean of both cross-entropies.

    Parameters
    ----------
    scores : (2, ..., b, k) real array
    frozen_scores : (2, ..., b, k) real array
        The same values, detached. With a predictor, those of the projector for both losses.
    labels : (..., b) integer array
        Labels of the previous epoch.
    temperature : float > 0
        0.05 as published.
    alpha : float in [0, 1]
        0.2 as published.

    Returns
    -------
    (..., b) array

    Notes
    -----
    Source: Algorithm 2; claim C24. As printed there it is NaN where a probability underflows, and
    its targets are live: a second gradient pulls each view toward the likeliest cluster of the
    other, because the loss is linear in its target.
    Claims: docs/claims.md#C24.

    Examples
    --------
    >>> import numpy as np
    >>> s = np.zeros((2, 1, 4))
    >>> two_view_loss(s, s, np.asarray([3]), temperature=0.05, alpha=0.2).round(4)
    array([1.3863])
    """
    xp = check_real("scores", scores)
    check_real("frozen_scores", frozen_scores)
    check_shape("frozen_scores", frozen_scores, tuple(scores.shape))
    targets = two_view_targets(labels, frozen_scores, temperature=temperature, alpha=alpha)
    return 0.5 * xp.sum(soft_cross_entropy(scores, targets, temperature=temperature), axis=0)
