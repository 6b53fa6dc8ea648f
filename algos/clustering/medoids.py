r"""k-medoids whose clusters keep their sizes between bounds, for any dissimilarities.

Problem: for dissimilarities ``d_ij >= 0`` of rows with weights ``w_i`` find labels and *medoids*,
rows that stand for their clusters, that

minimize ``sum_i w_i d(i, m_{y_i})``   subject to   ``l_k <= n_k <= u_k``.

Means need coordinates and squared distances; medoids need neither, and a mean of ways to a depot is
in kilometers, not in their squares.

Method: alternation (Maranzana, 1964, for free sizes). For fixed medoids, `offline.assign_source`
finds labels from the prices of the iteration before and proves how far they can be from the best.
For fixed labels, the medoid of a cluster is its row of the smallest sum. A step is taken only if
the sum falls, so the objective never rises, and the end is a fixed point: a local optimum.

*Starts.* k-means++ with ``d`` in the place of the squared distance (Arthur and Vassilvitskii, SODA
2007, section 5), greedy as in `start`: rows drawn with probability ``w_i min_j d(i, m_j)``.

==============  ===================  =======  =================================================
symbol          here                 shape    meaning
==============  ===================  =======  =================================================
:math:`d_ij`    ``dissimilarities``  (n, n)   never all at once
:math:`m_k`     ``medoids``          (k,)     rows, by their ids
:math:`y_i`     ``labels``           (n,)     cluster of each row
:math:`w_i`     ``weights``          (n,)     1 by default; sizes count rows
==============  ===================  =======  =================================================
"""

from __future__ import annotations

from typing import NamedTuple

import array_api_compat as compat

from ..bounds.sizes import SizeBounds, check_bounds
from ..core.checks import (
    check_count,
    check_interval,
    check_kind,
    check_labels,
    check_per_cluster,
    check_same_place,
)
from ..core.errors import InvalidValueError
from ..core.random import uniforms
from ..core.reads import entries, read
from ..core.types import Array
from ..offline.assignment import OfflineAssignment, assign_source
from ..scores.blocks import BLOCK_ENTRIES, FEWEST_ROWS, row_blocks
from ..scores.deadline import Deadline, deadline_of
from ..scores.sources import check_weights, score_source
from ._restrictions import check_fixed
from .choices import restricted_scores
from .dissimilarities import Dissimilarities, columns_of
from .start import greedy_candidates

__all__ = ["MedoidsResult", "constrained_medoids", "start_medoids"]

MAKE = "make it by dualclust.algos.clustering.matrix_dissimilarities(matrix)"


class MedoidsResult(NamedTuple):
    """Result of `constrained_medoids`.

    Attributes
    ----------
    medoids : (k,) int64 array
        The row that stands for each cluster. Bounds, rules, or dissimilarities without a triangle
        inequality may label it otherwise.
    assignment : OfflineAssignment
        Labels for these medoids, sizes, and their certificate; scores are minus dissimilarities.
    n_iter : int
        Updates of the medoids.
    converged : bool
        Whether no row of a cluster is a better medoid, and no labels are better but for the gap.
    """

    medoids: Array
    assignment: OfflineAssignment
    n_iter: int
    converged: bool

    @property
    def labels(self) -> Array:
        """Cluster of each row, (n,) int64."""
        return self.assignment.labels

    @property
    def counts(self) -> Array:
        """Size of each cluster, (k,) int64."""
        return self.assignment.counts

    @property
    def gap(self) -> float:
        """Proven relative gap of the labels for these medoids."""
        return self.assignment.gap

    @property
    def objective(self) -> float:
        """Minus ``sum_i w_i d(i, m_{y_i})``."""
        return self.assignment.objective


def constrained_medoids(
    dissimilarities: Dissimilarities,
    bounds: SizeBounds,
    medoids: Array,
    *,
    weights: Array | None = None,
    fixed: Array | None = None,
    forbidden: Array | None = None,
    prices: Array | None = None,
    max_iter: int = 100,
    gap: float = 0.0,
    time_limit: float | Deadline | None = None,
) -> MedoidsResult:
    """Cluster rows around medoids so that every cluster size lies between its bounds.

    Parameters
    ----------
    dissimilarities : Dissimilarities
        Of n = ``bounds.n_samples`` rows.
    bounds : SizeBounds
        On their library and device.
    medoids : (k,) int64 array
        Rows to start from; see `start_medoids`.
    weights : (n,) real array, optional
        At least 0; they count in medoids and objective. Sizes count rows.
    fixed, forbidden, prices, time_limit
        As in `constrained_kmeans`.
    max_iter : int
        Most updates of the medoids, >= 0; 0 only labels for `medoids`.
    gap : float in [0, 1]
        Relative gap to prove for the labels of each iteration; 0 for the best labels.

    Returns
    -------
    MedoidsResult

    Raises
    ------
    InfeasibleBoundsError
        If fixed rows or forbidden pairs leave no labels inside the bounds.
    InvalidValueError, InvalidTypeError, DeviceMismatchError
        For shapes, values or places that do not fit.

    Notes
    -----
    Guarantee: ``lower <= counts <= upper``, and the objective falls with every update. A cluster
    without rows keeps its medoid. Where a `gap` above 0 leaves labels that are no better than those
    before the update, the best ones are found. Only a local optimum: take several starts.
    Cost of an iteration: n k dissimilarities for the labels, and n_k^2 for the medoid of each
    cluster of n_k rows, n^2 / k in all if sizes are equal. Memory: n k dissimilarities.
    Source: Maranzana, On the location of supply points to minimize transport costs, 1964.

    Examples
    --------
    >>> import numpy as np
    >>> from dualclust.algos.bounds.sizes import SizeBounds
    >>> from dualclust.algos.clustering.dissimilarities import matrix_dissimilarities
    >>> x = np.asarray([0.0, 1.0, 2.0, 3.0, 9.0, 10.0])
    >>> pairs = matrix_dissimilarities(abs(x[:, None] - x))
    >>> bounds = SizeBounds.from_ratios(2, n_samples=6, lower=1.0)
    >>> found = constrained_medoids(pairs, bounds, np.asarray([0, 1]))
    >>> found.medoids, found.labels, found.objective, found.gap
    (array([1, 4]), array([0, 0, 0, 1, 1, 1]), -9.0, 0.0)
    """
    check_kind("dissimilarities", dissimilarities, Dissimilarities, MAKE)
    check_bounds(bounds)
    n, like = dissimilarities.n_samples, dissimilarities.like
    check_same_place(
        dissimilarities=like,
        bounds=bounds.lower,
        medoids=medoids,
        weights=weights,
        prices=prices,
    )
    prices = check_per_cluster("prices", prices, bounds.n_clusters)
    check_labels("medoids", medoids, bounds.n_clusters, n)
    shares = None if weights is None else _shares(weights, n)
    check_count("max_iter", max_iter, 0)
    check_interval("gap", gap, 0.0, 1.0)
    xp, deadline = compat.array_namespace(like), deadline_of(time_limit)
    medoids = xp.astype(medoids, xp.int64)

    def labeled(medoids: Array, prices: Array | None, tol: float) -> OfflineAssignment:
        scores = score_source(-columns_of(dissimilarities, medoids), weights)
        source = restricted_scores(scores, bounds, fixed=fixed, forbidden=forbidden)
        if prices is not None and not read(xp.any(prices != 0.0))[0]:
            prices = None  # then best clusters are looked at first, which may be free of bounds
        return assign_source(source, bounds, prices=prices, tol=tol, time_limit=deadline)

    found, n_iter, converged = labeled(medoids, prices, gap), 0, False
    while n_iter < max_iter and not converged:
        moved = best_medoids(dissimilarities, found.labels, medoids, shares)
        if deadline is not None and deadline.is_late():
            break
        converged = not read(xp.any(moved != medoids))[0]
        if converged:
            break
        better = labeled(moved, found.prices, gap)
        if not better.objective > found.objective and gap > 0.0:
            better = labeled(moved, better.prices, 0.0)
        if not better.objective > found.objective:  # only rounding, or labels that came too late
            converged = deadline is None or not deadline.is_late()
            break
        medoids, found, n_iter = moved, better, n_iter + 1
    return MedoidsResult(medoids, found, n_iter, converged)


def best_medoids(
    dissimilarities: Dissimilarities, labels: Array, medoids: Array, weights: Array | None = None
) -> Array:
    """Return the row of each cluster from which its rows are least far; `medoids` if no better.

    Parameters
    ----------
    dissimilarities : Dissimilarities
    labels : (n,) int64 array
        -1 for rows that count nowhere.
    medoids : (k,) int64 array
        A cluster without rows keeps its medoid, and so does one whose rows are no better.
    weights : (n,) float64 array, optional

    Returns
    -------
    (k,) int64 array

    Examples
    --------
    >>> import numpy as np
    >>> from dualclust.algos.clustering.dissimilarities import matrix_dissimilarities
    >>> x = np.asarray([0.0, 1.0, 5.0])
    >>> best_medoids(matrix_dissimilarities(abs(x[:, None] - x)), np.asarray([0, 0, 0]),
    ...              np.asarray([0]))
    array([1])
    """
    xp, k = compat.array_namespace(labels), medoids.shape[0]
    order = xp.argsort(labels, stable=True)
    clusters = xp.arange(k + 1, dtype=xp.int64, device=compat.device(labels))
    places = xp.searchsorted(xp.take(labels, order), clusters)
    edges, found = entries("places", xp.astype(places, xp.int64)), []
    for j in range(k):
        ids, own = order[edges[j] : edges[j + 1]], medoids[j : j + 1]
        if not ids.shape[0]:
            found.append(own)
            continue
        candidates, total = xp.concat([own, ids]), 0.0
        step = max(FEWEST_ROWS, BLOCK_ENTRIES // candidates.shape[0])
        for a, b in row_blocks(ids.shape[0], step):
            block = xp.astype(dissimilarities.between(ids[a:b], candidates), xp.float64)
            if weights is not None:
                block = block * xp.take(weights, ids[a:b])[:, None]
            total = total + xp.sum(block, axis=0)
        place = xp.reshape(xp.argmin(total), (1,))  # of equal ones the first, the former medoid
        found.append(xp.take(candidates, place))
    return xp.concat(found)


def start_medoids(
    dissimilarities: Dissimilarities,
    n_clusters: int,
    *,
    seed: int,
    weights: Array | None = None,
    fixed: Array | None = None,
) -> Array:
    """Draw rows far from each other as the first medoids: greedy k-means++ of dissimilarities.

    Parameters
    ----------
    dissimilarities : Dissimilarities
        Of at least one row per cluster. Squared distances give k-means++ itself.
    n_clusters : int >= 1
    seed : int in [0, 2^64)
    weights : (n,) real array, optional
        At least 0, not all 0. A row of weight 0 is drawn only if no other is left.
    fixed : (n,) int64 array, optional
        The cluster of each row that is known, and -1 for a free row: such a cluster starts at the
        medoid of these rows.

    Returns
    -------
    (k,) int64 array
        Different rows, also where rows are equal.

    Notes
    -----
    Cost: ``n k (3 + floor(ln k))`` dissimilarities, and n_k^2 for a cluster of n_k fixed rows.

    Examples
    --------
    >>> import numpy as np
    >>> from dualclust.algos.clustering.dissimilarities import matrix_dissimilarities
    >>> x = np.asarray([0.0, 0.0, 7.0])
    >>> 2 in start_medoids(matrix_dissimilarities(abs(x[:, None] - x)), 2, seed=0)
    True
    """
    check_kind("dissimilarities", dissimilarities, Dissimilarities, MAKE)
    k, n = check_count("n_clusters", n_clusters, 1), dissimilarities.n_samples
    if n < k:
        msg = f"n_clusters must be at most the {n} rows, got {k}. To fix this, ask for fewer"
        raise InvalidValueError(msg)
    like, tries = dissimilarities.like, greedy_candidates(k)
    check_same_place(dissimilarities=like, weights=weights, fixed=fixed)
    xp, device = compat.array_namespace(like), compat.device(like)
    every = xp.arange(n, dtype=xp.int64, device=device)
    draws = xp.reshape(uniforms(seed, k * tries, xp=xp, device=device), (k, tries))
    own = xp.ones((n,), dtype=xp.float64, device=device)
    own = own if weights is None else _shares(weights, n)
    known = {} if fixed is None else _fixed_medoids(dissimilarities, fixed, k, own)
    left, nearest, chosen = xp.ones_like(own), own, {}
    for turn, j in enumerate([*known, *(j for j in range(k) if j not in known)]):
        row = known.get(j)
        if row is None:
            chances = next(c for c in (nearest * left, own * left, left) if read(xp.any(c > 0))[0])
            row = _drawn(dissimilarities, draws[j, :], chances, own, nearest if turn else None)
        apart = own * xp.astype(columns_of(dissimilarities, row)[:, 0], xp.float64)
        nearest = xp.minimum(nearest, apart) if turn else apart
        chosen[j], left = row, left * xp.astype(every != row, xp.float64)
    return xp.concat([chosen[j] for j in range(k)])


def _shares(weights: Array, n: int) -> Array:
    """Return weights in units of the largest, checked."""
    weights = check_weights("weights", weights, n)
    return weights / compat.array_namespace(weights).max(weights)


def _drawn(
    dissimilarities: Dissimilarities,
    draws: Array,
    chances: Array,
    weights: Array,
    nearest: Array | None,
) -> Array:
    """Draw rows in proportion to `chances`, and return the one that leaves the smallest sum."""
    xp = compat.array_namespace(chances)
    running = xp.cumulative_sum(chances)
    total = running[-1:]
    place = xp.searchsorted(running, draws * total, side="right")
    # The last row that can be drawn, in case the product rounds up.
    place = xp.minimum(place, xp.searchsorted(running, total, side="left"))
    place = xp.astype(place, xp.int64)
    if nearest is None:
        return place[:1]
    apart = xp.astype(columns_of(dissimilarities, place), xp.float64) * weights[:, None]
    best = xp.argmin(xp.sum(xp.minimum(nearest[:, None], apart), axis=0))
    return xp.take(place, xp.reshape(best, (1,)))


def _fixed_medoids(
    dissimilarities: Dissimilarities, fixed: Array, k: int, weights: Array
) -> dict[int, Array]:
    """Return the medoids of the clusters with fixed rows."""
    fixed = check_fixed("fixed", fixed, dissimilarities.n_samples, k)
    xp = compat.array_namespace(fixed)
    firsts = [xp.argmax(xp.astype(fixed == j, xp.int8)) for j in range(k)]
    medoids = xp.astype(xp.stack(firsts), xp.int64)
    is_known = xp.take(fixed, medoids) == xp.arange(k, dtype=xp.int64, device=compat.device(fixed))
    found = best_medoids(dissimilarities, fixed, medoids, weights)
    flags = entries("is_known", xp.astype(is_known, xp.int64))
    return {j: found[j : j + 1] for j, known in enumerate(flags) if known}
