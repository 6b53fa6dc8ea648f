r"""k-means of rows that have sizes: each cluster holds a load between its bounds.

Problem: find labels and centers that maximize ``sum_i s_{i, y_i}`` with the scores of `constrained`
and ``L_k <= N_k <= U_k``, where ``N_k`` is the sum of the sizes of the rows (`bounds.loads`).

Method: labels of `offline.weighted` for fixed centers, from the prices of the iteration before, and
centers that are directions or means of their rows (CoKe Eq. 12). Labels are rounded, not optimal,
so that an iteration may lose a little; the best one so far is kept, those with loads inside first.

==============  ============  =======  ===========================================
paper           here          shape    meaning
==============  ============  =======  ===========================================
:math:`x_i`     ``features``  (n, d)   unit vectors, or points
:math:`c_k`     ``centers``   (k, d)   unit vectors, or points
==============  ============  =======  ===========================================
"""

from __future__ import annotations

from ..bounds.loads import LoadBounds
from ..core.checks import check_kind, check_same_place
from ..core.types import Array
from ..offline.weighted.assignment import WeightedAssignment, assign_weighted
from ..scores.deadline import Deadline
from ..scores.sources import FeatureSource, ScoreSource
from ._alternating import BoundedKMeansResult, alternated, checked

__all__ = ["weighted_kmeans"]


def weighted_kmeans(
    features: Array | FeatureSource,
    bounds: LoadBounds,
    centers: Array,
    *,
    metric: str = "cosine",
    max_iter: int = 100,
    tol: float = 1e-3,
    time_limit: float | Deadline | None = None,
) -> BoundedKMeansResult[WeightedAssignment]:
    """Cluster features so that the sum of sizes in each cluster keeps its bounds: capacities.

    Parameters
    ----------
    features : (n, d) real array, or FeatureSource of one rank
        Finite; unit rows for "cosine".
    bounds : LoadBounds
        Sizes of the same rows, which count in the bounds; each row counts once in its center.
    centers : (k, d) real array
        Rows to start from, such as those of `start_centers` or of `constrained_kmeans`.
    metric : {"cosine", "euclidean"}
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
        As `assign_weighted` and `constrained_kmeans`.

    Notes
    -----
    Guarantee: that of `assign_weighted` for the labels and centers that are returned. Loads inside
    come before loads that are not, then the larger objective counts. A cluster without rows keeps
    its center. Cost: that of `assign_weighted` an iteration.

    Examples
    --------
    The stops on the left ask for more than a truck carries, so that one goes to the other.

    >>> import numpy as np
    >>> x = np.asarray([[0.0], [1.0], [2.0], [9.0], [10.0]])
    >>> carried = LoadBounds.from_loads(np.asarray([4, 4, 4, 2, 3]), 2, upper=9)
    >>> found = weighted_kmeans(x, carried, x[1::3], metric="euclidean")
    >>> found.assignment.labels, found.assignment.loads, found.assignment.status
    (array([0, 0, 1, 1, 1]), array([8., 9.]), 'inside')
    """
    check_kind("bounds", bounds, LoadBounds, "build it by LoadBounds.from_loads or .from_ratios")
    frame, centers = checked(features, centers, metric, max_iter, tol, None)
    check_same_place(centers=centers, bounds=bounds.lower)

    def labels(source: ScoreSource, before: WeightedAssignment | None) -> WeightedAssignment:
        return assign_weighted(source, bounds, prices=None if before is None else before.prices)

    return alternated(frame, centers, labels, max_iter, tol, time_limit)
