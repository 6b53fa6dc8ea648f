r"""Learning from pairs: which samples belong together, and label features that say the same.

With the cluster ``c_i`` of each sample, from k-means on the label features,

``r_ij = 1  if  c_i = c_j or i = j,  else 0``                                  (GATCluster Eq. 6)

``L_R(r, l_i, l_j) = -r log d_ij - (1 - r) log(1 - d_ij)``,   ``d_ij = cos(l_i, l_j)``    (Eq. 7)

As printed, Eq. 7 is NaN at the very optimum of the Label Feature Theorem, where d is 0 and 1, and
infinite for two equal rows that r tells apart. Here the agreement ``q = d`` (r = 1) or ``1 - d``
(r = 0) is drawn into ``[f, 1 - f]`` first,

``L_R = -log( f + (1 - 2 f) q )``,

which is convex in d like the printed loss, at most ``-log f``, and has a slope everywhere: a clamp
would leave the worst pairs without a gradient.

=====================  =================  ========  =============================================
paper                  here               shape     meaning
=====================  =================  ========  =============================================
:math:`l_i`            ``logits``         (n, k)    scores whose softmax is the label feature
:math:`c_i`            ``labels``         (n,)      integer; any numbering
:math:`r_{ij}`         `relation_matrix`  (n, n)    bool, an equivalence relation by construction
:math:`d(l_i, l_j)`    ``y_i . y_j``      ()        y: the label features at unit length
EPS of the code        ``floor``          ()        f; see below
=====================  =================  ========  =============================================

The code adds its EPS of 1e-5 to the norms in a cosine instead, which caps a pair too, at a value
that depends on the rows: 10.8 for equal one-hot ones, the cap of f = 2e-5 here, and 9.67 for
uniform ones of 10 clusters (`released.released_pair_cap`).

Pairs cost n x n. `relation_loss` is for the mini-batches of training (32 as published);
`relation_gradient` gives value and gradient of a large batch in blocks of rows, and
`relation_error` a distance of all pairs from k x k products alone.

Cosines are computed in float64: ``1 - d`` cancels, and mixed precision (autocast) rounds products
of float32 matrices to 8 bits but leaves float64 alone.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import array_api_compat as compat

from ...core.checks import check_count, check_interval, check_real, check_same_place, check_shape
from ...core.errors import InvalidTypeError, InvalidValueError
from ...core.precision import at_least_float32
from ...core.types import Array, Namespace

__all__ = [
    "RelationGradient",
    "relation_error",
    "relation_gradient",
    "relation_loss",
    "relation_matrix",
    "usable_labels",
]


class RelationGradient(NamedTuple):
    """Value of `relation_loss`, (), and its gradient in the logits, (n, k)."""

    value: Array
    gradient: Array


def relation_matrix(labels: Array) -> Array:
    """Which pairs are in one cluster, ``r_ij = [c_i = c_j]`` (Eq. 6).

    Parameters
    ----------
    labels : (..., n) integer array
        Any numbers; leading axes are a batch.

    Returns
    -------
    (..., n, n) bool array
        Reflexive, symmetric and transitive, with as many classes as there are distinct labels.

    Notes
    -----
    Cost O(n^2). Source: GATCluster Eq. 6, claim G7.
    Claims: docs/claims.md#G2, #G3, #G7.

    Examples
    --------
    >>> import numpy as np
    >>> relation_matrix(np.asarray([0, 1, 0])).astype(int)
    array([[1, 0, 1],
           [0, 1, 0],
           [1, 0, 1]])
    """
    _check_integers(labels)
    return labels[..., :, None] == labels[..., None, :]


def usable_labels(labels: Array, n_clusters: int, *, min_share: float = 0.1) -> Array:
    """Labels for Eq. 6, or every sample on its own where the clustering has degenerated.

    Parameters
    ----------
    labels : (n,) integer array
        In [0, n_clusters).
    n_clusters : int >= 1
    min_share : float in [0, 1]
        Smallest cluster that is accepted, as a share of n / n_clusters; at 0 every clustering is.

    Returns
    -------
    (n,) int64 array
        `labels`, or 0, 1, ..., n - 1.

    Notes
    -----
    A guard of the released code that the paper does not name. Relating every sample only to
    itself breaks a hypothesis of the Label Feature Theorem, n > k classes (claim G7): it pushes
    all samples apart for one batch. No value is read back.
    Claims: docs/claims.md#G7.

    Examples
    --------
    >>> import numpy as np
    >>> usable_labels(np.asarray([1, 0, 1]), 2), usable_labels(np.asarray([1, 1, 1]), 2)
    (array([1, 0, 1]), array([0, 1, 2]))
    """
    xp = _check_integers(labels)
    (n,) = check_shape("labels", labels, ("n",))
    k = check_count("n_clusters", n_clusters, 1)
    check_interval("min_share", min_share, 0.0, 1.0)
    labels = xp.astype(labels, xp.int64)
    if n == 0:
        return labels
    clusters = xp.arange(k, dtype=xp.int64, device=compat.device(labels))
    counts = xp.sum(xp.astype(labels[:, None] == clusters, xp.int64), axis=0)
    alone = xp.arange(n, dtype=xp.int64, device=compat.device(labels))
    return xp.where(xp.min(counts) >= math.ceil(min_share * n / k), labels, alone)


def relation_loss(logits: Array, labels: Array, *, floor: float = 1e-5) -> Array:
    """Cross-entropy between cosines of label features and relations, over all pairs of a batch.

    Parameters
    ----------
    logits : (n, k) real array
        Scores before the softmax; log-probabilities are logits too. Any finite values.
    labels : (n,) integer array
        Cluster of each sample.
    floor : float in [1e-12, 1/2)
        f of the module's equation; ``-log f`` is the most that a pair can cost.

    Returns
    -------
    () array
        In nats: the mean over the n (n + 1) / 2 unordered pairs, i = j among them, as the released
        code has it. At least float32.

    Raises
    ------
    InvalidValueError
        If there is no sample, no cluster, or `floor` is outside its range.

    Notes
    -----
    Time and memory O(n^2). A pair i = j has d = 1 and no gradient. Source: GATCluster Eq. 7 with
    the pairs of Eq. 3, claim G1.
    Claims: docs/claims.md#G1.

    Examples
    --------
    >>> import numpy as np
    >>> together = relation_loss(np.zeros((2, 2)), np.asarray([0, 0]), floor=0.25)
    >>> apart = relation_loss(np.zeros((2, 2)), np.asarray([0, 1]), floor=0.25)
    >>> together.round(4), apart.round(4)  # -log .75;  (2 * -log .75 - log .25) / 3
    (np.float64(0.2877), np.float64(0.6539))
    """
    xp = _check_pairs(logits, labels, floor)
    y = _unit_labels(logits)
    costs = -xp.log(_agreement(y, y, labels, labels, floor))
    return xp.astype(_pair_mean(xp.sum(costs), logits.shape[0], floor), _wide(logits))


def relation_gradient(
    logits: Array, labels: Array, *, floor: float = 1e-5, rows: int | None = None
) -> RelationGradient:
    """Value and gradient of `relation_loss` for a large batch, without an n x n array.

    Parameters
    ----------
    logits : (n, k) real array
    labels : (n,) integer array
    floor : float in [1e-12, 1/2)
    rows : int >= 1, optional
        Rows per block; by default blocks of 32 MiB.

    Returns
    -------
    RelationGradient
        Both in at least float32.

    Notes
    -----
    Time O(n^2 k), memory O(rows n + n k), where automatic differentiation would keep every block.
    With ``q'_ij = 1`` or ``-1`` and ``G_i = -sum_j q'_ij y_j / q_ij`` the gradient is

    ``2 (y_i G_i - y_i^2 (y_i . G_i)) / (n (n + 1))``,

    elementwise in the clusters: ``d y_h / d x_g = y_h ([h = g] - y_g^2)``. To train with it, call
    it on ``c = x.detach()`` and minimize ``value + ((x - c) * gradient).sum()``, which has this
    value and this gradient. Source: derivative of GATCluster Eq. 7.

    Examples
    --------
    >>> import numpy as np
    >>> x, c = np.asarray([[1.0, 0.0], [0.0, 0.0]]), np.asarray([0, 1])
    >>> found = relation_gradient(x, c, rows=1)
    >>> found.value.round(3), found.gradient.round(3)
    (np.float64(0.794), array([[-0.491,  0.491],
           [ 0.758, -0.758]]))
    """
    xp = _check_pairs(logits, labels, floor)
    y, n = _unit_labels(logits), logits.shape[0]
    if rows is None:
        rows = max(1, 2**22 // n)
    check_count("rows", rows, 1)
    total: Array = 0.0
    pulls = []
    for i in range(0, n, rows):
        end = min(i + rows, n)
        agreement = _agreement(y[i:end, :], y, labels[i:end], labels, floor)
        total = total - xp.sum(xp.log(agreement))
        inverse = (1.0 - 2.0 * floor) / agreement
        related = labels[i:end, None] == labels[None, :]
        pulls.append(xp.where(related, -inverse, inverse) @ y)
    pull = xp.concat(pulls, axis=0)
    radial = xp.sum(y * pull, axis=1, keepdims=True)
    gradient = (y * pull - y * y * radial) * (2.0 / (n * (n + 1)))
    value = xp.astype(_pair_mean(total, n, floor), _wide(logits))
    return RelationGradient(value, xp.astype(gradient, _wide(logits)))


def relation_error(logits: Array, labels: Array, n_clusters: int) -> Array:
    """How far the cosines are from the relations, ``||R - Y Y'||_F^2 / n^2``, without the pairs.

    Parameters
    ----------
    logits : (n, k) real array
    labels : (n,) integer array
        In [0, n_clusters).
    n_clusters : int >= 1
        Number of different labels; need not be k.

    Returns
    -------
    () array
        Mean square error of a cosine, in [0, 1]; at least float32. 0 exactly where Eq. 7 is at its
        optimum: related rows equal, all others orthogonal.

    Notes
    -----
    With C the one-hot labels, ``R = C C'`` and
    ``||R - Y Y'||^2 = ||C'C||^2 - 2 ||C'Y||^2 + ||Y'Y||^2``: time O(n k^2), memory O(n k). The
    cross-entropy of Eq. 7 itself has no such form. Differentiable; accurate to 1e-15.

    Examples
    --------
    >>> import numpy as np
    >>> relation_error(np.zeros((2, 2)), np.asarray([0, 1]), 2).round(6)  # 2 of 4 cosines are off
    np.float64(0.5)
    """
    xp = _check_pairs(logits, labels, 0.25)
    check_count("n_clusters", n_clusters, 1)
    y, n = _unit_labels(logits), logits.shape[0]
    clusters = xp.arange(n_clusters, dtype=xp.int64, device=compat.device(labels))
    members = xp.astype(xp.astype(labels, xp.int64)[:, None] == clusters, y.dtype)
    counts = xp.sum(members, axis=0)
    cross, gram = xp.matrix_transpose(members) @ y, xp.matrix_transpose(y) @ y
    square = xp.sum(counts * counts) - 2.0 * xp.sum(cross * cross) + xp.sum(gram * gram)
    return xp.astype(xp.clip(square / n**2, min=0.0), _wide(logits))


def _unit_labels(logits: Array) -> Array:
    """Label features at unit length, ``y = softmax(x) / ||softmax(x)||``, in float64.

    The softmax's own sum cancels, and the largest entry before scaling is 1: no length is 0.
    """
    xp = compat.array_namespace(logits)
    x = xp.astype(logits, xp.float64)
    u = xp.exp(x - xp.max(x, axis=1, keepdims=True))
    return u / xp.sqrt(xp.sum(u * u, axis=1, keepdims=True))


def _agreement(y: Array, others: Array, labels: Array, other_labels: Array, floor: float) -> Array:
    """``f + (1 - 2 f) q`` for all pairs of two sets of rows; positive."""
    xp = compat.array_namespace(y)
    # Rounding may put a cosine above 1, by more than the least floor where k is large.
    d = xp.clip(y @ xp.matrix_transpose(others), max=1.0)
    q = xp.where(labels[:, None] == other_labels[None, :], d, 1.0 - d)
    return floor + (1.0 - 2.0 * floor) * q


def _pair_mean(total: Array, n: int, floor: float) -> Array:
    """Mean over unordered pairs from the sum over ordered ones: the diagonal counts once more."""
    return (total - n * math.log1p(-floor)) / (n * (n + 1))


def _wide(logits: Array) -> object:
    """The dtype of results."""
    return at_least_float32(logits[:0, :]).dtype


def _check_integers(labels: Array) -> Namespace:
    check_same_place(labels=labels)
    xp = compat.array_namespace(labels)
    if not xp.isdtype(labels.dtype, "integral"):
        msg = f"labels must have an integer dtype, got {labels.dtype}. To fix this, use int64"
        raise InvalidTypeError(msg)
    return xp


def _check_pairs(logits: Array, labels: Array, floor: float) -> Namespace:
    xp = check_real("logits", logits)
    check_same_place(logits=logits, labels=labels)
    n, k = check_shape("logits", logits, ("n", "k"))
    _check_integers(labels)
    check_shape("labels", labels, (n,))
    if n == 0 or k == 0:
        msg = (
            f"logits must have at least one sample and one cluster, got shape {(n, k)}"
            ". To fix this, pass at least one"
        )
        raise InvalidValueError(msg)
    if check_interval("floor", floor, 1e-12, 0.5) == 0.5:
        msg = (
            "floor must be below 1/2, got 0.5: every pair would cost the same"
            ". To fix this, pass a smaller one"
        )
        raise InvalidValueError(msg)
    return xp
