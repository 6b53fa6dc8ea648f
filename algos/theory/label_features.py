r"""The Label Feature Theorem as a check of its hypotheses and conclusions.

GATCluster minimizes over label features l_i, for given relations r (Eq. 2),

``E = sum_ij L(r_ij, cos(l_i, l_j)) - sum_i l_i . l_i``   s.t.  ``l_i`` on the simplex,  ``p_h > 0``

with L the cross-entropy and ``p = mean_i l_i``. ``E >= -N`` always holds, since L >= 0 and
``l . l <= 1``, with equality only for one-hot rows. The repaired theorem (claim G1) is true:

``E = -N``  **iff**  r is an equivalence relation with exactly k classes, and l is one of the k!
ways to give each class its own one-hot vector.

The published statement omits the condition on r. Without it

===================  ==============================================================================
r                    the optimum of Eq. 2
===================  ==============================================================================
not an equivalence   above -N, and says nothing about r
c > k classes        above -N: k + 1 orthogonal nonnegative vectors do not fit into R^k
c < k classes        not attained: p_h > 0 is an open condition, E comes arbitrarily near to -N
estimated from l     r = 1 everywhere is consistent with itself: collapse is a fixed point (G2)
===================  ==============================================================================

=========================  =====================  =========  ======================================
paper                      here                   shape      meaning
=========================  =====================  =========  ======================================
:math:`l_i`                ``features``           (n, k)     rows on the simplex
:math:`r_{ij}`             ``relations``          (n, n)     0 and 1, or bool
:math:`|\{l_i\}|`          ``n_distinct``         int        number of different rows
:math:`v_i` (A1)           `polygon_map`          (n, 2)     a picture of l
=========================  =====================  =========  ======================================

`equivalence` checks the condition on r alone. The checks read values back to the host: they are for
tests and reports, not for training steps.

Claims: docs/claims.md#G1, #G2.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import array_api_compat as compat

from ..core.checks import check_finite, check_interval, check_real, check_same_place, check_shape
from ..core.errors import InvalidValueError
from ..core.precision import at_least_float32
from ..core.projections import project_sphere
from ..core.types import Array
from .equivalence import RelationReport, as_relation, check_relations

__all__ = [
    "LabelFeatureReport",
    "check_label_features",
    "label_feature_value",
    "polygon_map",
]


_BLOCK_ENTRIES = 2**22  # 32 MiB of float64 at a time


class LabelFeatureReport(NamedTuple):
    """The hypotheses and conclusions of the theorem for given label features and relations.

    Attributes
    ----------
    relations : RelationReport
    simplex, nonempty : bool
        The constraints of Eq. 2 on the features.
    value : float
        E of Eq. 2; inf where a cross-entropy is infinite.
    lower_bound : float
        -N: no feasible value is lower.
    attained : bool
        Every cross-entropy and every ``1 - l . l`` is 0 within the tolerance: the value is -N. With
        features that satisfy the constraints, this is possible only if nothing is broken.
    one_hot, separated : bool
        Conclusions: all rows are one-hot; ``l_i = l_j`` iff ``r_ij = 1``.
    n_distinct : int
        Number of different rows; the conclusion is k.
    broken : tuple of str
        Hypotheses that fail, those on r first.
    """

    relations: RelationReport
    simplex: bool
    nonempty: bool
    value: float
    lower_bound: float
    attained: bool
    one_hot: bool
    separated: bool
    n_distinct: int
    broken: tuple[str, ...]

    @property
    def hypotheses_hold(self) -> bool:
        """Tell whether the constraints of Eq. 2 hold and r has exactly k classes."""
        return not self.broken


def label_feature_value(features: Array, relations: Array) -> float:
    """Return the value of Eq. 2, ``sum_ij L(r_ij, cos(l_i, l_j)) - sum_i l_i . l_i``, as printed.

    Parameters
    ----------
    features : (n, k) real array
        Nonnegative, no zero rows.
    relations : (n, n) array of 0 and 1, or bool

    Returns
    -------
    float
        In nats, over ordered pairs; inf if a pair is certain and wrong; ``0 log 0 = 0``.

    Notes
    -----
    Cost O(n^2 k), in float64 and in blocks of rows. Cosines within 1e-12 of 1 count as 1. Training
    uses `relations.relation_loss`, which is finite. Source: GATCluster Eq. 2.
    Claims: docs/claims.md#G1, #G2, #G3.

    Examples
    --------
    >>> import numpy as np
    >>> label_feature_value(np.eye(2), np.eye(2)), label_feature_value(np.eye(2), np.ones((2, 2)))
    (-2.0, inf)
    """
    x, r = _check_pair(features, relations)
    return _value(x, _pairs(x, r, 0.0)[0])


def check_label_features(
    features: Array, relations: Array, *, tol: float = 1e-9
) -> LabelFeatureReport:
    """Check label features and relations by the repaired Label Feature Theorem.

    Parameters
    ----------
    features : (n, k) real array, finite
    relations : (n, n) array of 0 and 1, or bool
    tol : float in [0, 0.1]
        Entries that differ by at most `tol` are equal, for the simplex and for one-hot rows.

    Returns
    -------
    LabelFeatureReport
        If ``hypotheses_hold`` and ``attained``, the conclusions hold: features are one-hot, equal
        where related and different where not, with k different rows.

    Raises
    ------
    InvalidValueError
        If shapes do not fit, an entry of r is neither 0 nor 1, or a feature is not finite.

    Notes
    -----
    Cost O(n^2 k) in float64, in blocks of rows. Source: GATCluster section 3.1 and Appendix C;
    claims G1 to G4.
    Claims: docs/claims.md#G1, #G2, #G3, #G4.

    Examples
    --------
    >>> import numpy as np
    >>> r = np.eye(3)[[0, 1, 1, 2]] @ np.eye(3)[[0, 1, 1, 2]].T  # three classes, four samples
    >>> good = check_label_features(np.eye(3)[[2, 0, 0, 1]], r)
    >>> good.attained, good.value, good.one_hot, good.separated, good.n_distinct
    (True, -4.0, True, True, 3)
    >>> check_label_features(np.eye(2)[[0, 1, 1, 0]], r).broken[0]
    'r has 3 classes, more than k = 2: so many orthogonal nonnegative vectors do not exist in R^2'
    """
    x, r = _check_pair(features, relations)
    check_interval("tol", tol, 0.0, 0.1)
    xp, (n, k) = compat.array_namespace(x), x.shape
    report = check_relations(relations, k)
    broken = list(report.broken)
    sums = xp.sum(x, axis=1)
    outside = xp.maximum(xp.abs(sums - 1.0), xp.clip(-xp.min(x, axis=1), min=0.0))
    simplex = bool(xp.all(outside <= tol))
    if not simplex:
        i = int(xp.argmax(outside))
        broken.append(
            f"row {i} is not on the simplex: it sums to {float(sums[i]):g}, "
            f"with least entry {float(xp.min(x[i, :])):g}"
        )
    mass = xp.sum(x, axis=0)
    nonempty = bool(xp.all(mass > n * tol))
    if not nonempty:
        broken.append(f"cluster {int(xp.argmin(mass))} is empty: p_h = 0")
    cost, agree, separated, n_distinct = _pairs(x, r, tol)
    one_hot = bool(xp.all(xp.abs(xp.max(x, axis=1) - 1.0) <= tol)) and simplex
    return LabelFeatureReport(
        relations=report,
        simplex=simplex,
        nonempty=nonempty,
        value=_value(x, cost),
        lower_bound=-float(n),
        attained=agree and one_hot,
        one_hot=one_hot,
        separated=separated,
        n_distinct=n_distinct,
        broken=tuple(broken),
    )


def polygon_map(features: Array) -> Array:
    """Map label features to a plane: one-hot vectors become the corners of a regular k-gon (A1).

    Parameters
    ----------
    features : (..., k) real array
        Rows on the simplex; they map to points inside the polygon.

    Returns
    -------
    (..., 2) array
        ``(sum_h l_h sin(2 pi h / k), sum_h l_h cos(2 pi h / k))``, h = 1, ..., k; at least float32.

    Notes
    -----
    The map is affine, so mixtures lie between corners. For k >= 4 it is not injective: both pairs
    of opposite corners of a square have the same middle. Source: GATCluster Appendix A, claim G19.
    Claims: docs/claims.md#G19.

    Examples
    --------
    >>> import numpy as np
    >>> polygon_map(np.eye(4)).round(3) + 0.0
    array([[ 1.,  0.],
           [ 0., -1.],
           [-1.,  0.],
           [ 0.,  1.]])
    """
    features = at_least_float32(features)
    xp = compat.array_namespace(features)
    if features.ndim == 0 or features.shape[-1] == 0:
        msg = (
            f"features must have shape (..., k) with k >= 1, got {tuple(features.shape)}"
            ". To fix this, pass a number for each of one cluster or more"
        )
        raise InvalidValueError(msg)
    k = features.shape[-1]
    h = xp.arange(1, k + 1, dtype=features.dtype, device=compat.device(features))
    angle = (2.0 * math.pi / k) * h
    return xp.stack(
        [xp.sum(features * xp.sin(angle), axis=-1), xp.sum(features * xp.cos(angle), axis=-1)],
        axis=-1,
    )


def _pairs(x: Array, r: Array, tol: float) -> tuple[float, bool, bool, int]:
    """Compare all pairs with r: cross-entropy, agreement of cosines, of equality, distinct rows.

    Cosines are compared with 0 and 1 by the features' tolerance: rows of the simplex that differ by
    t in every entry have ``1 - cos <= k t``.
    """
    xp, (n, k) = compat.array_namespace(x), x.shape
    y = project_sphere(x)
    cost, agree, separated, n_distinct = 0.0, True, True, 0
    rows = max(1, _BLOCK_ENTRIES // (n * k))
    columns = xp.arange(n, dtype=xp.int64, device=compat.device(x))
    for i in range(0, n, rows):
        end = min(i + rows, n)
        d = y[i:end, :] @ xp.matrix_transpose(y)
        d = xp.where(xp.abs(d - 1.0) <= 1e-12, xp.ones_like(d), d)
        q = xp.where(r[i:end, :], d, 1.0 - d)
        finite = q > 0
        logs = xp.log(xp.where(finite, q, xp.ones_like(q)))
        cost = cost - float(xp.sum(logs)) if bool(xp.all(finite)) else math.inf
        agree = agree and bool(xp.all(q >= 1.0 - k * tol - 1e-12))
        gaps = xp.max(xp.abs(x[i:end, None, :] - x[None, :, :]), axis=2)
        equal = gaps <= tol
        separated = separated and bool(xp.all(equal == r[i:end, :]))
        earlier = equal & (columns < columns[i:end, None])
        n_distinct += int(xp.sum(xp.astype(~xp.any(earlier, axis=1), xp.int64)))
    return cost, agree, separated, n_distinct


def _value(x: Array, cost: float) -> float:
    """Return E of Eq. 2 from its first sum; inf if the first sum is inf."""
    return cost - float(compat.array_namespace(x).sum(x * x)) if cost < math.inf else cost


def _check_pair(features: Array, relations: Array) -> tuple[Array, Array]:
    """Check and return features in float64 and relations as bool."""
    xp = check_real("features", features)
    check_same_place(features=features, relations=relations)
    n, k = check_shape("features", features, ("n", "k"))
    if n == 0 or k == 0:
        msg = (
            f"features must have at least one row and one column, got shape {(n, k)}"
            ". To fix this, pass at least one"
        )
        raise InvalidValueError(msg)
    check_finite("features", features)
    check_shape("relations", relations, (n, n))
    return xp.astype(features, xp.float64), as_relation(relations)
