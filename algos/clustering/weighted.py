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

from typing import NamedTuple

import array_api_compat as compat

from ..bounds.loads import LoadBounds
from ..core.checks import check_kind, check_same_place
from ..core.errors import InvalidValueError
from ..core.types import Array
from ..offline.weighted.assignment import WeightedAssignment, assign_weighted
from ..scores.sources import FeatureSource
from ._cluster_sums import best_centers, gathered_sums
from ._frame import Frame, frame_of, scores_of
from .lloyd import check_arguments, share_changed

__all__ = ["WeightedKMeansResult", "weighted_kmeans"]

PATIENCE = 5
"""Iterations without a better one that end the search: labels of rounding may take turns."""


class WeightedKMeansResult(NamedTuple):
    """Result of `weighted_kmeans`.

    Attributes
    ----------
    centers : (k, d) array
    assignment : WeightedAssignment
        Labels for these centers, loads, and their certificate.
    n_iter : int
        Updates of the centers.
    converged : bool
        Whether labels stayed, up to the share `tol`, or got no better any more.
    """

    centers: Array
    assignment: WeightedAssignment
    n_iter: int
    converged: bool


def weighted_kmeans(
    features: Array | FeatureSource,
    bounds: LoadBounds,
    centers: Array,
    *,
    metric: str = "cosine",
    max_iter: int = 100,
    tol: float = 1e-3,
) -> WeightedKMeansResult:
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

    Returns
    -------
    WeightedKMeansResult

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
    like = check_arguments(features, centers, metric, max_iter, tol, "keep", None)
    if isinstance(features, FeatureSource) and not features.group.is_alone:
        msg = "features must be of one rank, got those of several. To fix this, gather them first"
        raise InvalidValueError(msg)
    frame = frame_of(features, metric, None)
    centers = compat.array_namespace(like).astype(centers, like.dtype)
    check_same_place(centers=centers, bounds=bounds.lower)
    k = centers.shape[0]
    found = _labels(frame, centers, bounds, None)
    best, best_at, last, n_iter, converged = found, centers, 0, 0, False
    while n_iter < max_iter and not converged:
        sums = gathered_sums(frame, found.labels, k)
        centers = best_centers(frame, sums, centers)
        after = _labels(frame, centers, bounds, found.prices)
        n_iter += 1
        if _rank(after) > _rank(best):
            best, best_at, last = after, centers, n_iter
        changed = share_changed(frame.source.group, after.labels, found.labels)
        found, converged = after, changed <= tol or n_iter - last >= PATIENCE
    unit = frame.score_unit
    best = best._replace(
        prices=best.prices * unit,
        objective=best.objective * unit,
        upper_bound=best.upper_bound * unit,
        rounding=best.rounding * unit,
    )
    return WeightedKMeansResult(best_at, best, n_iter, converged)


def _labels(
    frame: Frame, centers: Array, bounds: LoadBounds, prices: Array | None
) -> WeightedAssignment:
    return assign_weighted(scores_of(frame, frame.inside(centers)), bounds, prices=prices)


def _rank(found: WeightedAssignment) -> tuple[bool, float]:
    """Loads inside before others, then the larger objective."""
    return found.status == "inside", found.objective
