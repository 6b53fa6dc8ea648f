r"""k-means with bounds on groups in clusters, with rows that stay out, or with linked rows.

Problem: find labels and centers that maximize ``sum_i s_{i, y_i}`` with the scores of `constrained`
inside the bounds of `offline.grouped`:

* `grouped_kmeans`: groups of rows in each cluster are bounded beside the sizes of clusters;
* `trimmed_kmeans`: at most r rows stay out, with the label -1 and without a center. A row out
  counts as if it stood at its center, or at a given distance from it;
* `linked_kmeans`: pairs of rows are together, or apart. Labels are not always the best there are:
  the best of the iterations are kept.

Rows may have weights, known clusters (`fixed`) and `forbidden` ones beside groups, as in
`constrained`.

Method: exact labels for fixed centers, at the prices of the iteration before (`offline.grouped`),
then centers that are directions or means of their rows (CoKe Eq. 12). Neither step lowers the
objective, so that it rises until the labels stay.

==============  ============  =======  ===========================================
paper           here          shape    meaning
==============  ============  =======  ===========================================
:math:`x_i`     ``features``  (n, d)   unit vectors, or points
:math:`c_k`     ``centers``   (k, d)   unit vectors, or points
:math:`\mu_i`   ``labels``    (n,)     cluster of each sample; -1: none
==============  ============  =======  ===========================================
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import array_api_compat as compat

from ..bounds.groups import GroupBounds
from ..bounds.sizes import SizeBounds, check_bounds
from ..core.checks import check_interval
from ..core.types import Array
from ..offline.grouped.assignment import GroupedAssignment, assign_grouped
from ..offline.grouped.left_out import PartialAssignment, assign_partial
from ..offline.grouped.linked import LinkedAssignment, assign_linked
from ..scores.deadline import Deadline
from ..scores.sources import FeatureSource, ScoreSource
from ._alternating import BoundedKMeansResult, alternated, checked
from ._frame import Frame, map_rows
from ._restrictions import restrictions_of

__all__ = [
    "grouped_kmeans",
    "linked_kmeans",
    "trimmed_kmeans",
]


def grouped_kmeans(
    features: Array | FeatureSource,
    bounds: SizeBounds,
    groups: GroupBounds,
    centers: Array,
    *,
    metric: str = "cosine",
    weights: Array | None = None,
    fixed: Array | None = None,
    forbidden: Array | None = None,
    max_iter: int = 100,
    tol: float = 1e-3,
    time_limit: float | Deadline | None = None,
) -> BoundedKMeansResult[GroupedAssignment]:
    """Cluster features so that clusters, and groups in them, keep their bounds: fair clusters.

    Parameters
    ----------
    features : (n, d) real array, or FeatureSource of one rank
        Finite; unit rows for "cosine".
    bounds : SizeBounds
    groups : GroupBounds
        Of the same rows and clusters.
    centers : (k, d) real array
        Rows to start from, such as those of `start_centers` or of `constrained_kmeans`.
    metric : {"cosine", "euclidean"}
    weights : (n,) real array, optional
        At least 0, of the objective and the means; sizes count rows.
    fixed : (n,) int64 array, optional
    forbidden : (m, 2) int64 array, optional
        The cluster of each row that is known, else -1, and pairs of a row and a cluster that it
        must not join.
    max_iter : int >= 0
        Most updates of the centers.
    tol : float in [0, 1]
        Stop once an update changed at most this share of the labels.
    time_limit : float or Deadline, optional
        Seconds after which no further update begins.

    Returns
    -------
    BoundedKMeansResult

    Raises
    ------
    InfeasibleBoundsError, InvalidValueError, InvalidTypeError, DeviceMismatchError
        As `assign_grouped` and `constrained_kmeans`.

    Notes
    -----
    Guarantee: all bounds hold, labels are optimal for the centers, and the objective never falls.
    A cluster without rows keeps its center. Cost: that of `assign_grouped` an iteration.

    Examples
    --------
    Each cluster gets as many of one group as of the other.

    >>> import numpy as np
    >>> x = np.asarray([[0.0], [1.0], [2.0], [9.0], [10.0], [11.0]])
    >>> fair = GroupBounds.from_shares(np.asarray([0, 1, 0, 1, 0, 1]), 2, lower=0.7, upper=1.3)
    >>> sizes = SizeBounds.from_ratios(2, n_samples=6, lower=1.0, upper=1.0)
    >>> found = grouped_kmeans(x, sizes, fair, x[1::3], metric="euclidean")
    >>> found.assignment.labels, found.assignment.group_counts.tolist()
    (array([0, 0, 0, 1, 1, 1]), [[2, 1], [1, 2]])
    """
    check_bounds(bounds)
    restrictions = None
    if fixed is not None or forbidden is not None:
        restrictions = restrictions_of(fixed, forbidden, bounds)

    def labels(source: ScoreSource, before: GroupedAssignment | None) -> GroupedAssignment:
        source = source if restrictions is None else restrictions.of_scores(source)
        prices = None if before is None else (before.prices, before.group_prices)
        return assign_grouped(source, bounds, groups, prices=prices)

    frame, centers = checked(features, centers, metric, max_iter, tol, bounds, weights)
    return alternated(frame, centers, labels, max_iter, tol, time_limit)


def trimmed_kmeans(
    features: Array | FeatureSource,
    centers: Array,
    *,
    max_out: int,
    distance: float = 0.0,
    min_count: int | Sequence[int] = 0,
    max_count: int | Sequence[int] | None = None,
    metric: str = "cosine",
    max_iter: int = 100,
    tol: float = 1e-3,
    time_limit: float | Deadline | None = None,
) -> BoundedKMeansResult[PartialAssignment]:
    """Cluster features of which at most some stay out: outliers move no center.

    Parameters
    ----------
    features, centers, metric, max_iter, tol, time_limit
        As in `grouped_kmeans`.
    max_out : int in [0, n]
        Most rows that stay out.
    distance : float >= 0
        A row stays out only if it is farther than that from its center, beyond what sizes ask for;
        0 leaves out as many as may be. On the sphere, the length of the chord.
    min_count, max_count : int, or sequence of k ints
        Bounds on the sizes of clusters, of the rows that are in.

    Returns
    -------
    BoundedKMeansResult

    Raises
    ------
    InfeasibleBoundsError, InvalidValueError, InvalidTypeError, DeviceMismatchError
        As `assign_partial` and `constrained_kmeans`.

    Notes
    -----
    Guarantee: sizes are inside their bounds, labels are optimal for the centers, and the objective
    never falls. Without bounds on sizes this is k-means-- (Chawla and Gionis, SDM 2013).

    Examples
    --------
    >>> import numpy as np
    >>> x = np.asarray([[0.0], [1.0], [9.0], [10.0], [500.0]])
    >>> found = trimmed_kmeans(x, x[1:3], max_out=1, metric="euclidean")
    >>> found.assignment.labels, found.centers[:, 0]
    (array([ 0,  0,  1,  1, -1]), array([0.5, 9.5]))
    """
    check_interval("distance", distance, 0.0, math.inf)
    frame, centers = checked(features, centers, metric, max_iter, tol, None)
    outside = _outside(frame, distance)

    def labels(source: ScoreSource, before: PartialAssignment | None) -> PartialAssignment:
        prices = None if before is None else (before.prices, before.out_price)
        return assign_partial(
            source,
            max_out=max_out,
            out_score=outside,
            min_count=min_count,
            max_count=max_count,
            prices=prices,
        )

    return alternated(frame, centers, labels, max_iter, tol, time_limit)


def linked_kmeans(
    features: Array | FeatureSource,
    bounds: SizeBounds,
    centers: Array,
    *,
    must_link: Array | None = None,
    cannot_link: Array | None = None,
    metric: str = "cosine",
    weights: Array | None = None,
    max_iter: int = 100,
    tol: float = 1e-3,
    gap: float = 1e-4,
    time_limit: float | Deadline | None = None,
) -> BoundedKMeansResult[LinkedAssignment]:
    """Cluster features so that pairs of rows are together, or apart, and sizes in their bounds.

    Parameters
    ----------
    features, bounds, centers, metric, weights, max_iter, tol, time_limit
        As in `grouped_kmeans`.
    must_link, cannot_link : (a, 2) and (b, 2) integer arrays, optional
        Pairs of rows, as in `assign_linked`.
    gap : float in [0, 1]
        Relative gap that ends the search for the labels of an iteration.

    Returns
    -------
    BoundedKMeansResult

    Raises
    ------
    InfeasibleBoundsError, InvalidValueError, InvalidTypeError, DeviceMismatchError
        As `assign_linked` and `constrained_kmeans`.

    Notes
    -----
    Guarantee: links and sizes hold, the labels have a proven gap for their centers, and the
    objective never falls. Cost: that of `assign_linked` an iteration.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.asarray([[0.0], [1.0], [2.0], [9.0], [10.0], [11.0]])
    >>> sizes = SizeBounds.from_counts([2, 2], n_samples=6)
    >>> pairs = {"must_link": np.asarray([[0, 1]]), "cannot_link": np.asarray([[4, 5], [1, 2]])}
    >>> linked_kmeans(x, sizes, x[1::3], **pairs, metric="euclidean").assignment.labels
    array([0, 0, 1, 1, 0, 1])
    """
    check_bounds(bounds)

    def labels(source: ScoreSource, before: LinkedAssignment | None) -> LinkedAssignment:
        return assign_linked(
            source,
            bounds,
            must_link=must_link,
            cannot_link=cannot_link,
            prices=None if before is None else before.prices,
            tol=gap,
        )

    frame, centers = checked(features, centers, metric, max_iter, tol, bounds, weights)
    return alternated(frame, centers, labels, max_iter, tol, time_limit)


def _outside(frame: Frame, distance: float) -> Array:
    """Score of each row at this distance from a center, in the frame."""
    xp = compat.array_namespace(frame.origin)
    cost = 0.5 * (distance / frame.unit) ** 2

    def of_block(rows: Array, start: int, stop: int) -> Array:
        at_center = 0.5 * xp.sum(frame.block(rows, start, stop) ** 2, axis=1)
        return (xp.ones_like(at_center) if frame.spherical else at_center) - cost

    return xp.concat(list(map_rows(of_block, frame.raw)))
