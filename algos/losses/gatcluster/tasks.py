r"""GATCluster's tasks: targets that balance the clusters, and the four losses that learn them.

Targets, from the label features l of the unchanged images of a large batch (no gradient):

``t_ih = (l_ih / z_h) / sum_h' (l_ih' / z_h')``,      ``z_h = sum_i l_ih``               (Eq. 5)
``t^a_ih = (l_ih^2 / z_h) / sum_h' (l_ih'^2 / z_h')``                                     (Eq. 11)

Losses, on transformed images, l from the label branch and l^a from the attention branch:

``L_T = -l_i . t_i``                                     transformation invariance        (Eq. 4)
``L_R``                                                  pairs, `relations`               (Eq. 7)
``L_E = sum_h p_h log p_h``,  ``p = mean_i l_i``         entropy, of both branches        (Eq. 8)
``L_A = 1/k sum_h -t^a log l^a - (1 - t^a) log(1 - l^a)``  soft attention                 (Eq. 10)

``L = L_R + a_1 L_T + a_2 L_A + a_3 (L_E(l) + L_E(l^a))``                                 (Eq. 12)

Eq. 3 swaps the last two weights; Eq. 12 is what was run, with (5, 5, 3).

==========================  ==========================  =======  ================================
paper                       here                        shape    meaning
==========================  ==========================  =======  ================================
:math:`l_i`, :math:`l_i^a`  ``softmax(logits)``         (n, k)   label features of a branch
:math:`z_h`                 log-sum-exp over samples    (k,)     mass of a cluster, in samples
:math:`\hat l_i`            `balanced_targets`          (n, k)   sharpness 1
:math:`\hat l_i^a`          `balanced_targets`          (n, k)   sharpness 2
EPS of the code             ``empty``                   ()       mass at which a cluster is empty
==========================  ==========================  =======  ================================

All take the scores *before* the softmax and work with logarithms, so that an empty cluster
(p_h = 0) and a certain one (l = 1) have finite values and the right gradients. Log-probabilities
end at -1e30, which no finite sum of them leaves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import array_api_compat as compat

from ...core.checks import check_interval, check_real, check_shape
from ...core.errors import InvalidValueError
from ...core.types import Array, Namespace
from ..cross_entropy import log_softmax
from .relations import relation_loss

__all__ = [
    "PUBLISHED_WEIGHTS",
    "GATClusterLoss",
    "LossWeights",
    "attention_loss",
    "balanced_targets",
    "entropy_loss",
    "gatcluster_loss",
    "transformation_loss",
]

_LOWEST = -1e30  # float32 still holds 1e8 times as much


@dataclass(frozen=True, slots=True)
class LossWeights:
    """Weights of Eq. 12, each in [0, inf): alpha_1, alpha_2, alpha_3 in this order.

    The last is that of L_R, 1 as printed, and 0 in the ablation without separability.

    Claims: docs/claims.md#G11.
    """

    transformation: float = 5.0
    attention: float = 5.0
    entropy: float = 3.0
    relation: float = 1.0

    def __post_init__(self) -> None:
        for name in ("transformation", "attention", "entropy", "relation"):
            check_interval(name, getattr(self, name), 0.0, math.inf)

    def of(
        self, relation: Array, transformation: Array, attention: Array, entropy: Array
    ) -> GATClusterLoss:
        """Return the total of Eq. 12, with its parts."""
        total = (
            self.relation * relation
            + self.transformation * transformation
            + self.attention * attention
            + self.entropy * entropy
        )
        return GATClusterLoss(total, relation, transformation, attention, entropy)


PUBLISHED_WEIGHTS = LossWeights()
"""The weights of Eq. 12 as published."""


class GATClusterLoss(NamedTuple):
    """The total of Eq. 12 and its unweighted parts, each (); entropy is that of both branches."""

    total: Array
    relation: Array
    transformation: Array
    attention: Array
    entropy: Array


def balanced_targets(
    logits: Array,
    *,
    sharpness: float | tuple[float, ...] = 1.0,
    empty: float = 1e-5,
    eps: float = 0.0,
) -> Array:
    """Targets in which a crowded cluster counts less: ``l^s / z``, rows scaled to sum 1.

    Parameters
    ----------
    logits : (..., n, k) real array
        Label branch on the unchanged images of the large batch, before the softmax. Any finite
        values; pass them detached, no gradient belongs into a target.
    sharpness : float > 0, or tuple of such
        s: 1 for Eq. 5, 2 for Eq. 11. A tuple gives targets of each, along a new first axis.
    empty : float in (0, 1]
        A cluster whose mass z is below this many samples is divided by it instead: its targets
        fade with z, to 0 for an empty cluster, where the paper has 0 / 0.
    eps : float in [0, 1]
        Added to each mass and to the sum of each row, in place of `empty`: 1e-5 in the released
        code. A row then sums to ``w / (w + eps)`` with ``w = sum_h l^s / z``, about k / n: .999
        for n = 1,000 and k = 10.

    Returns
    -------
    (..., n, k) array, or (s, ..., n, k)
        Rows on the simplex, or with `eps` just inside; at least float32.

    Raises
    ------
    InvalidValueError
        If there is no sample, no cluster, or an option is outside its range.

    Notes
    -----
    Cost O(n k). All n samples at once: targets of parts of a batch differ, label features may be
    computed in parts (claim G12). Two statements about these targets do not hold. They do not
    prevent empty clusters: one-hot rows are their own targets (claim G6). Eq. 11 need not be more
    confident than l: (.6, .4) with masses (9, 1) becomes (.2, .8) (claim G10).
    Source: GATCluster Eq. 5 and 11.
    Claims: docs/claims.md#G6, #G10, #G12.

    Examples
    --------
    >>> import numpy as np
    >>> l = np.asarray([[0.8, 0.2], [0.6, 0.4]])  # masses 1.4 and 0.6
    >>> balanced_targets(np.log(l)).round(3), balanced_targets(np.log(l), sharpness=2.0).round(3)
    (array([[0.632, 0.368],
           [0.391, 0.609]]), array([[0.873, 0.127],
           [0.491, 0.509]]))
    """
    xp = _check_logits(logits)
    powers = sharpness if isinstance(sharpness, tuple) else (sharpness,)
    for power in powers:
        check_interval("sharpness", power, 0.0, math.inf, open_low=True)
    check_interval("empty", empty, 0.0, 1.0, open_low=True)
    check_interval("eps", eps, 0.0, 1.0)
    log_l = _log_labels(logits)
    sharp = xp.stack([power * log_l for power in powers])
    if eps > 0:
        shares = xp.exp(sharp) / (xp.sum(xp.exp(log_l), axis=-2, keepdims=True) + eps)
        found = shares / (xp.sum(shares, axis=-1, keepdims=True) + eps)
    else:
        log_z = xp.clip(_log_sum_exp(log_l, axis=-2), min=math.log(empty))
        found = xp.exp(log_softmax(sharp - log_z))
    return found if isinstance(sharpness, tuple) else found[0, ...]


def transformation_loss(logits: Array, targets: Array) -> Array:
    """Transformation invariance, ``-l . t`` per sample (Eq. 4).

    Parameters
    ----------
    logits : (..., n, k) real array
        Label branch on the transformed images.
    targets : (..., n, k) real array
        `balanced_targets` of the same images before the transformation.

    Returns
    -------
    (..., n) array
        In [-1, 0]; -1 where both are the same one-hot vector (claim G5).

    Notes
    -----
    Linear in l: its optimum is one-hot at the largest target whatever the others are, so that the
    softness of a target only scales the gradient.
    Claims: docs/claims.md#G5.

    Examples
    --------
    >>> import numpy as np
    >>> transformation_loss(np.asarray([[0.0, 0.0]]), np.asarray([[1.0, 0.0]]))
    array([-0.5])
    """
    _check_logits(logits)
    check_shape("targets", targets, tuple(logits.shape))
    return _transformation(_log_labels(logits), targets)


def entropy_loss(logits: Array) -> Array:
    """Negative entropy of the mean label feature, ``sum_h p_h log p_h`` in nats (Eq. 8).

    Parameters
    ----------
    logits : (..., n, k) real array
        Either branch; any part of the batch.

    Returns
    -------
    (...) array
        In [-log k, 0]; least where p is uniform, p_h = 1/k (the paper's 1/m is a slip, claim G8).

    Notes
    -----
    With ``log p_h = log sum_i l_ih - log n`` by log-sum-exp, an empty cluster adds 0 and its
    logits keep their gradient ``l_ih (log p_h + ...)``, where the released code's overwriting of
    p_h < EPS removes it. The optimum does not exclude collapse: l_i = 1/k for all i attains it.
    Claims: docs/claims.md#G8.

    Examples
    --------
    >>> import numpy as np
    >>> entropy_loss(np.asarray([[0.0, 0.0], [0.0, 0.0]])).round(4)
    np.float64(-0.6931)
    """
    _check_logits(logits)
    return _entropy(_log_labels(logits))


def attention_loss(logits: Array, targets: Array) -> Array:
    """Soft attention: mean binary cross-entropy of the labels with their targets (Eq. 10).

    Parameters
    ----------
    logits : (..., n, k) real array
        Attention branch on the transformed images.
    targets : (..., n, k) real array
        `balanced_targets` with sharpness 2, from the *label* branch.

    Returns
    -------
    (..., n) array
        In nats, >= 0. A single cluster (k = 1) costs 0.

    Notes
    -----
    ``log(1 - l_h)`` is the log-sum-exp of the other labels where l_h is the largest, and
    ``log1p(-l_h)`` elsewhere, where l_h is at most 1/2: no clamp at -100 is needed, and the
    gradient of a label that is certain and wrong does not vanish.

    Examples
    --------
    >>> import numpy as np
    >>> attention_loss(np.asarray([[0.0, 0.0]]), np.asarray([[1.0, 0.0]])).round(4)
    array([0.6931])
    >>> attention_loss(np.asarray([[1000.0, 0.0]]), np.asarray([[0.0, 1.0]]))
    array([1000.])
    """
    _check_logits(logits)
    check_shape("targets", targets, tuple(logits.shape))
    return _attention(_log_labels(logits), targets)


def gatcluster_loss(
    logits: Array,
    attention_logits: Array,
    labels: Array,
    targets: Array,
    attention_targets: Array,
    *,
    weights: LossWeights = PUBLISHED_WEIGHTS,
    floor: float = 1e-5,
) -> GATClusterLoss:
    """Everything that a mini-batch of GATCluster learns from (Eq. 12).

    Parameters
    ----------
    logits, attention_logits : (n, k) real arrays
        Both branches on the transformed images, before the softmax.
    labels : (n,) integer array
        k-means on the attention targets of the large batch (`relations.usable_labels`).
    targets, attention_targets : (n, k) real arrays
        `balanced_targets` of the large batch with sharpness 1 and 2: the rows of this mini-batch.
    weights : LossWeights
    floor : float in [1e-12, 1/2)
        Of `relation_loss`.

    Returns
    -------
    GATClusterLoss
        Means over pairs (relation), samples (transformation), samples and clusters (attention).

    Notes
    -----
    Cost O(n^2 k); nothing is read back to the host. Source: GATCluster Eq. 12 and the released
    code's reductions; claim G11 on the weights.
    Claims: docs/claims.md#G11.
    """
    xp = _check_logits(logits)
    for name, array in (
        ("attention_logits", attention_logits),
        ("targets", targets),
        ("attention_targets", attention_targets),
    ):
        check_shape(name, array, tuple(logits.shape))
    log_l = _log_labels(xp.stack([logits, attention_logits]))
    relation = relation_loss(logits, labels, floor=floor)
    transformation = xp.mean(_transformation(log_l[0, ...], targets))
    attention = xp.mean(_attention(log_l[1, ...], attention_targets))
    return weights.of(relation, transformation, attention, xp.sum(_entropy(log_l)))


def _transformation(log_l: Array, targets: Array) -> Array:
    xp = compat.array_namespace(log_l)
    return -xp.sum(xp.exp(log_l) * targets, axis=-1)


def _entropy(log_l: Array) -> Array:
    xp = compat.array_namespace(log_l)
    log_p = _log_sum_exp(log_l, axis=-2) - math.log(log_l.shape[-2])
    return xp.sum(xp.exp(log_p) * log_p, axis=(-2, -1))


def _attention(log_l: Array, targets: Array) -> Array:
    xp = compat.array_namespace(log_l)
    costs = targets * log_l + (1.0 - targets) * _log_complement(log_l)
    return -xp.sum(costs, axis=-1) / log_l.shape[-1]


def _check_logits(logits: Array) -> Namespace:
    xp = check_real("logits", logits)
    if logits.ndim < 2 or logits.shape[-2] == 0 or logits.shape[-1] == 0:
        msg = (
            f"logits must have shape (..., n, k) with at least one sample and one cluster, "
            f"got {tuple(logits.shape)}"
            ". To fix this, pass at least one"
        )
        raise InvalidValueError(msg)
    return xp


def _log_labels(logits: Array) -> Array:
    """``log l`` in at least float32, finite: differences of huge logits overflow to -inf."""
    xp = compat.array_namespace(logits)
    return xp.clip(log_softmax(logits), min=_LOWEST)


def _log_sum_exp(log_l: Array, axis: int) -> Array:
    """``log sum exp`` along an axis, which is kept."""
    xp = compat.array_namespace(log_l)
    top = xp.max(log_l, axis=axis, keepdims=True)
    return top + xp.log(xp.sum(xp.exp(log_l - top), axis=axis, keepdims=True))


def _log_complement(log_l: Array) -> Array:
    """``log(1 - l)`` from log l without cancellation; 0 for a single cluster."""
    xp = compat.array_namespace(log_l)
    k = log_l.shape[-1]
    if k == 1:
        return xp.zeros_like(log_l)
    clusters = xp.arange(k, dtype=xp.int64, device=compat.device(log_l))
    top = clusters == xp.argmax(log_l, axis=-1, keepdims=True)
    # log1p sees no 1, neither as a value nor in the gradient of the branch not taken.
    small = xp.where(top, xp.zeros_like(log_l), xp.exp(log_l))
    others = xp.where(top, xp.full_like(log_l, _LOWEST), log_l)
    return xp.where(top, _log_sum_exp(others, axis=-1), xp.log1p(-small))
