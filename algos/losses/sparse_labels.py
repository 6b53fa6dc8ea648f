r"""Averages of one-hot labels over epochs that name a few clusters each, and their loss.

Problem: from epoch T' on, CoKe learns the mean of an image's labels instead of the last one,

``mu^t = (1 - 1/c) mu^(t-1) + (1/c) onehot(y^t)``,   c = t - T'                      section 3.4

which over an epoch would be n k numbers. The paper keeps five non-zero terms (appendix B.2.2) and
does not say which; as the released code does, a new cluster takes the slot of the smallest weight,
and the weights that stay are scaled to add up to 1 - 1/c again. While an image has had no more
labels than there are slots, this is the mean itself.

=========================  =================  ==============  ====================================
paper                      here               shape           meaning
=========================  =================  ==============  ====================================
k with mu_k > 0            ``clusters``       (..., s)        integers; idle where the weight is 0
:math:`\hat y_{i,k}`       ``weights``        (..., s)        positive ones add up to 1
:math:`t - T'`             ``count``          ()              labels in the average, the new one too
:math:`\lambda'`           ``smoothing``      ()              temperature over the slots, 0.5
=========================  =================  ==============  ====================================
"""

from __future__ import annotations

import math
from typing import NamedTuple

import array_api_compat as compat

from ..core.checks import check_count, check_interval, check_real, check_shape
from ..core.types import Array
from .coke import smoothed_labels
from .cross_entropy import log_softmax

__all__ = ["SparseLabels", "average_label", "first_label", "sparse_label_loss"]


class SparseLabels(NamedTuple):
    """Averaged labels: clusters (..., s) of an integer dtype, weights (..., s) of a real one."""

    clusters: Array
    weights: Array


def first_label(labels: Array, like: SparseLabels) -> SparseLabels:
    """Averages of one label each, with the slots and dtypes of `like`.

    Parameters
    ----------
    labels : (...) integer array
    like : SparseLabels of (..., s) arrays. Its values are not used.

    Examples
    --------
    >>> import numpy as np
    >>> like = SparseLabels(np.zeros((1, 2), dtype=np.int64), np.zeros((1, 2)))
    >>> first_label(np.asarray([3]), like)
    SparseLabels(clusters=array([[3, 3]]), weights=array([[1., 0.]]))
    """
    xp = compat.array_namespace(like.weights)
    slots = xp.arange(like.weights.shape[-1], device=compat.device(like.weights))
    weights = xp.zeros_like(like.weights) + xp.astype(slots == 0, like.weights.dtype)
    clusters = xp.zeros_like(like.clusters) + xp.astype(labels, like.clusters.dtype)[..., None]
    return SparseLabels(clusters, weights)


def average_label(average: SparseLabels, labels: Array, count: int) -> SparseLabels:
    """Take one more label into each average.

    Parameters
    ----------
    average : SparseLabels of (..., s) arrays
        Of ``count - 1`` labels; its weights count for nothing at ``count=1``.
    labels : (...) integer array
    count : int >= 1
        Labels in the average, the new one included.

    Returns
    -------
    SparseLabels
        Weights that add up to 1, up to rounding, of at most s clusters.

    Notes
    -----
    Source: section 3.4 and appendix B.2.2. A tie of the smallest weights goes to the first slot.
    Cost O(s) per label; a fixed number of operations, no value is read back.

    Examples
    --------
    The third label has no slot left: it takes that of the smaller weight.

    >>> import numpy as np
    >>> average = SparseLabels(np.asarray([[4, 7]]), np.asarray([[0.75, 0.25]]))
    >>> average_label(average, np.asarray([2]), count=5)
    SparseLabels(clusters=array([[4, 2]]), weights=array([[0.8, 0.2]]))
    """
    check_count("count", count, 1)
    xp = check_real("weights", average.weights)
    clusters, weights = average
    check_shape("clusters", clusters, tuple(weights.shape))
    check_shape("labels", labels, tuple(weights.shape[:-1]))
    own = xp.astype(labels, clusters.dtype)[..., None]
    known = (clusters == own) & (weights > 0)
    present = xp.any(known, axis=-1, keepdims=True)
    slots = xp.arange(weights.shape[-1], dtype=xp.int64, device=compat.device(weights))
    smallest = slots == xp.argmin(weights, axis=-1, keepdims=True)
    place = (known & present) | (smallest & ~present)
    kept = xp.where(place & ~present, xp.zeros_like(weights), weights)
    total = xp.sum(kept, axis=-1, keepdims=True)
    one = xp.ones_like(total)
    share = (1.0 - 1.0 / count) / xp.where(total > 0, total, one)
    # With one slot, the label that takes it has the whole weight.
    new = xp.astype(place, weights.dtype) * xp.where(total > 0, one / count, one)
    return SparseLabels(xp.where(place, own, clusters), share * kept + new)


def sparse_label_loss(
    scores: Array, target: SparseLabels, *, temperature: float, smoothing: float = 0.5
) -> Array:
    """CoKe's loss of one view for averaged labels, in nats: the softmax over slots is the target.

    ``l = - sum_s q_s log p(clusters_s)`` with ``q = smoothed_labels(weights)`` over the slots in
    use: `losses.soft_cross_entropy` of the dense target, without the zeros.

    Parameters
    ----------
    scores : (..., b, k) real array
        Similarities to the stored centers.
    target : SparseLabels of (..., b, s) arrays
        Clusters in [0, k); not checked, which would read values back.
    temperature : float > 0
    smoothing : float > 0
        lambda' of the paper, 0.5 as published.

    Returns
    -------
    (..., b) array

    Notes
    -----
    Source: section 3.4, the soft-label loss, with appendix B.2.2. Cost O(k + s) per row.

    Examples
    --------
    >>> import numpy as np
    >>> target = SparseLabels(np.asarray([[1, 0]]), np.asarray([[0.75, 0.25]]))
    >>> sparse_label_loss(np.asarray([[0.3, 0.0]]), target, temperature=0.1).round(4)
    array([2.2418])
    """
    xp = check_real("scores", scores)
    slots = int(target.weights.shape[-1])
    check_shape("weights", target.weights, (*scores.shape[:-1], slots))
    check_shape("clusters", target.clusters, (*scores.shape[:-1], slots))
    check_interval("smoothing", smoothing, 0.0, math.inf, open_low=True)
    q = smoothed_labels(target.weights, temperature=smoothing)
    log_p = log_softmax(scores, temperature=temperature)
    named = xp.take_along_axis(log_p, xp.astype(target.clusters, xp.int64), axis=-1)
    return -xp.sum(q * named, axis=-1)
