r"""GATCluster's losses to the digit of the released code; `gatcluster.tasks` has the printed ones.

The released code works with probabilities where `gatcluster` works with logarithms, and keeps them
away from 0 in three ways that differ from the printed equations (EPS = 1e-5):

==================  ==============================================================================
term                as released
==================  ==============================================================================
L_R, pairs          ``d = <u_i, u_j>`` with ``u = l / (||l|| + EPS)``, clamped to [0, 1]; binary
                    cross-entropy whose logarithms end at -100. The worst pair costs
                    ``-log(1 - d)`` with ``d = (||l|| / (||l|| + EPS))^2``: 10.8 for equal one-hot
                    rows, 9.7 for uniform ones of k = 10, where the norm is 0.32
L_E, entropy        a mean below EPS is overwritten by EPS: an empty cluster has no gradient
L_A, attention      logarithms end at -100
==================  ==============================================================================

They are the same functions wherever no entry is near 0 or 1, up to the EPS in the cosine. What is
lost is the gradient of what is certain and wrong, and of a dead cluster. For comparison with
published runs; use `gatcluster.gatcluster_loss` otherwise.
"""

from __future__ import annotations

import math

import array_api_compat as compat

from ...core.checks import check_integral, check_real, check_same_place, check_shape
from ...core.types import Array
from ..cross_entropy import log_softmax
from .tasks import PUBLISHED_WEIGHTS, GATClusterLoss, LossWeights, transformation_loss

__all__ = ["EPS", "released_gatcluster_loss", "released_pair_cap"]

EPS = 1e-5
"""What the released code adds to norms and sums."""

_LEAST_LOG = -100.0


def released_pair_cap(norm: float) -> float:
    """Most that a pair of equal rows that are not related can cost, in nats.

    Parameters
    ----------
    norm : float in (0, 1]. Euclidean norm of the rows: 1 for one-hot ones, ``k^-1/2`` for uniform.

    Examples
    --------
    >>> round(released_pair_cap(1.0), 2), round(released_pair_cap(10**-0.5), 2)
    (10.82, 9.67)
    """
    ratio = norm / (norm + EPS)
    return -math.log1p(-(ratio * ratio))


def released_gatcluster_loss(
    logits: Array,
    attention_logits: Array,
    labels: Array,
    targets: Array,
    attention_targets: Array,
    *,
    weights: LossWeights = PUBLISHED_WEIGHTS,
) -> GATClusterLoss:
    """Eq. 12 as the released code computes it.

    Parameters and result are those of `gatcluster.gatcluster_loss`, without its `floor`.

    Notes
    -----
    Cost O(n^2 k); nothing is read back to the host. Gradients are those of the formulas above; at
    probabilities of exactly 0 or 1 PyTorch's own cross-entropy has another one.

    Examples
    --------
    >>> import numpy as np
    >>> x, t = np.zeros((2, 2)), np.full((2, 2), 0.5)
    >>> found = released_gatcluster_loss(x, x, np.asarray([0, 0]), t, t)
    >>> found.entropy.round(4), found.attention.round(4)
    (np.float64(-1.3863), np.float64(0.6931))
    """
    xp = check_real("logits", logits)
    check_real("attention_logits", attention_logits)
    n, k = check_shape("logits", logits, ("n", "k"))
    check_integral("labels", labels)
    check_shape("labels", labels, (n,))
    for name, array in (
        ("attention_logits", attention_logits),
        ("targets", targets),
        ("attention_targets", attention_targets),
    ):
        check_shape(name, array, (n, k))
        check_same_place(logits=logits, labels=labels, **{name: array})
    label, attended = (xp.exp(log_softmax(x)) for x in (logits, attention_logits))
    relation = _pairs(label, labels)
    transformation = xp.mean(transformation_loss(logits, targets))
    attention = xp.mean(_binary_cross_entropy(attended, attention_targets))
    entropy = _entropy(label) + _entropy(attended)
    return weights.of(relation, transformation, attention, entropy)


def _pairs(label: Array, labels: Array) -> Array:
    """Mean over the unordered pairs, i = j among them."""
    xp = compat.array_namespace(label)
    n = label.shape[0]
    unit = label / (xp.sqrt(xp.sum(label * label, axis=1, keepdims=True)) + EPS)
    # Without a clamp: no entry is negative, and EPS keeps every row shorter than 1.
    cosines = unit @ xp.matrix_transpose(unit)
    related = xp.astype(labels[:, None] == labels[None, :], cosines.dtype)
    costs = _binary_cross_entropy(cosines, related)
    rows = xp.arange(n, device=compat.device(label))
    lower = xp.where(rows[:, None] >= rows[None, :], costs, xp.zeros_like(costs))
    return xp.sum(lower) / (n * (n + 1) // 2)


def _binary_cross_entropy(p: Array, target: Array) -> Array:
    return -(target * _log(p) + (1.0 - target) * _log(1.0 - p))


def _log(p: Array) -> Array:
    """Logarithm that ends at -100, where it has no gradient."""
    xp = compat.array_namespace(p)
    # No 0 goes into the logarithm, whose gradient there would be infinity times 0.
    there = p > math.exp(_LEAST_LOG)
    found = xp.log(xp.where(there, p, xp.ones_like(p)))
    return xp.where(there, found, xp.full_like(p, _LEAST_LOG))


def _entropy(label: Array) -> Array:
    """``sum_h p_h log p_h`` of the mean, whose small entries are overwritten."""
    xp = compat.array_namespace(label)
    p = xp.mean(label, axis=0)
    p = xp.where(p < EPS, xp.full_like(p, EPS), p)
    return xp.sum(p * xp.log(p))
