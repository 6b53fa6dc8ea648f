"""k-means on sparse rows, as of TF-IDF: products with dense centers, and no row with its zeros.

Scores are those of `algos.clustering.constrained`: ``x . c`` of unit rows ("cosine"), or with m the
mean of all rows ``x . (c - m) - m . (c - m) - ||c - m||^2 / 2`` ("euclidean"), where the rows enter
by a product alone. Centers are sums of the rows of a cluster, the product of a sparse n x k matrix
of labels with the rows. Memory is that of the rows' entries, of k x d centers, and of one block of
scores: O(nnz + k d).

Centers start from a sample of 32 rows for each cluster, drawn by greedy k-means++ as of dense rows.
Frames, exact sums, steps beyond the means and iterations on a sample are not there: sums are of
float64, in the order of the rows.
"""

from __future__ import annotations

import math
from typing import Any

import array_api_compat.numpy as xp
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ..algos.bounds.sizes import SizeBounds
from ..algos.clustering.choices import restricted_scores
from ..algos.clustering.constrained import ConstrainedKMeansResult
from ..algos.clustering.dissimilarities import Dissimilarities
from ..algos.clustering.medoids import start_medoids
from ..algos.core.errors import InvalidValueError
from ..algos.core.projections import project_sphere
from ..algos.offline.assignment import OfflineAssignment, assign_source
from ..algos.scores.blocks import block_rows, row_blocks
from ..algos.scores.deadline import Deadline, deadline_of
from ..algos.scores.sources import FeatureSource, ScoreSource, alone, product_source
from ..algos.scores.statistics import strided_ids

__all__ = [
    "SparseRows",
    "sparse_half_squared",
    "sparse_inertia",
    "sparse_kmeans",
    "sparse_means",
    "sparse_scores",
    "sparse_source",
    "sparse_start",
]

NEAR = 1e-3
"""Gap to prove while centers move."""

NOISE = 1e-12
"""Of squared lengths: rows nearer to their centers are at them."""

ROWS_PER_CLUSTER, FEWEST_ROWS = 32, 2**12
"""Sample of the start, as of dense rows."""

LARGEST = {4: 1e15, 8: 1e100}
"""Largest entry by the bytes of its type, and the inverse of the smallest: squares stay normal."""

Array = Any


class SparseRows:
    """CSR rows that say by what library and in what dtype they are computed.

    Parameters
    ----------
    matrix : sparse matrix or array, (n, d)
        Of float32 or float64, finite. Entries of one place are added up, in a copy.

    Attributes
    ----------
    matrix : (n, d) csr_array
    shape, dtype, device
        Of the rows.
    largest : float
        Absolute value of an entry.
    squares : (n,) float64 array
        Squared lengths.
    """

    device = "cpu"

    def __init__(self, matrix: Any) -> None:
        matrix = csr_array(matrix)
        if not matrix.has_canonical_format:
            matrix = matrix.copy()
            matrix.sum_duplicates()
        self.matrix, self.shape, self.dtype = matrix, matrix.shape, matrix.dtype
        self.largest, self.squares = _checked_size("X", matrix.data), _squares(matrix)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """Return the namespace of what is computed with the rows."""
        return xp


def _checked_size(name: str, values: NDArray[Any]) -> float:
    """Return the largest absolute value; raise if squares would overflow or vanish."""
    largest = float(np.abs(values).max(initial=0.0))
    most = LARGEST[values.dtype.itemsize]
    if largest and not 1.0 / most <= largest <= most:
        msg = (
            f"{name} must have a largest entry from {1.0 / most:g} to {most:g} where rows are "
            f"sparse, got {largest:g}. To fix this, divide all rows by their scale"
        )
        raise InvalidValueError(msg)
    return largest


def sparse_source(rows: SparseRows, metric: str) -> FeatureSource:
    """Return the rows as a source of CSR blocks; for "cosine", scaled to unit length.

    Examples
    --------
    >>> source = sparse_source(SparseRows(csr_array([[0.0, 2.0], [0.0, 0.0]])), "cosine")
    >>> source.multiply(source.rows(0, 2), np.eye(2))
    array([[0., 1.],
           [0., 0.]])
    """
    matrix, largest = rows.matrix, rows.largest
    if metric == "cosine":
        lengths = np.sqrt(rows.squares)
        inverse = 1.0 / np.where(lengths > 0.0, lengths, 1.0)
        scaled = matrix.data * np.repeat(inverse, np.diff(matrix.indptr))
        parts = scaled.astype(matrix.dtype), matrix.indices, matrix.indptr
        matrix, largest = csr_array(parts, shape=matrix.shape), 2.0
    return FeatureSource(
        n_features=matrix.shape[1],
        rows=lambda start, stop: matrix[start:stop],
        take=lambda ids: matrix[ids],
        group=alone(matrix.shape[0]),
        multiply=lambda block, columns: block @ columns,
        largest=largest,
    )


def sparse_scores(
    source: FeatureSource,
    centers: Array,
    *,
    origin: Array | None = None,
    weights: Array | None = None,
) -> ScoreSource:
    """Return the scores of sparse rows: of squared distances around an origin, or of directions.

    Parameters
    ----------
    source : FeatureSource
        Of `sparse_source`.
    centers : (k, d) array
    origin : (d,) array, optional
        None for "cosine".
    weights : (n,) float64 array, optional
    """
    _checked_size("centers", centers)
    offsets = None
    if origin is not None:
        centers = centers - origin
        offsets = -(centers @ origin) - 0.5 * np.vecdot(centers, centers)
    # Stored by columns, the centers need no copy in each product.
    return product_source(source, np.asfortranarray(centers), offsets=offsets, weights=weights)


def sparse_half_squared(block: Any, centers: Array, *, spherical: bool = False) -> Array:
    """Return half the squared distances of sparse rows to centers, (b, k) float64, at least 0.

    On the sphere ``1 - cos``. Off by up to 1e-15 of the squared lengths.
    """
    wide = np.asfortranarray(centers, dtype=np.float64)
    product = block @ wide.T
    if spherical:
        return np.clip(1.0 - product, 0.0, None)
    own = 0.5 * (_squares(block)[:, None] + np.vecdot(wide, wide))
    return np.clip(own - product, 0.0, None)


def sparse_inertia(
    source: FeatureSource, labels: Array, centers: Array, weights: Array | None = None
) -> float:
    """Return the weighted sum of squared distances of sparse rows to their centers."""
    own = _own_half(source, labels, centers)
    return 2.0 * math.fsum((own if weights is None else own * weights).tolist())


def _own_half(source: FeatureSource, labels: Array, centers: Array) -> Array:
    """Return half the squared distance of each row to its own center, (n,) float64."""
    parts = [np.zeros(0)]
    for start, stop in row_blocks(len(labels), block_rows(len(centers))):
        half = sparse_half_squared(source.rows(start, stop), centers)
        parts.append(np.take_along_axis(half, labels[start:stop, None], axis=1)[:, 0])
    return np.concatenate(parts)


def sparse_means(
    source: FeatureSource, labels: Array, previous: Array, metric: str, weights: Array | None = None
) -> Array:
    """Return means of the rows of each cluster, or directions of their sums, (k, d).

    Parameters
    ----------
    source : FeatureSource
    labels : (n,) int64 array
        -1 for rows that count nowhere.
    previous : (k, d) array
        Centers of clusters without weight, and on the sphere of those whose rows cancel.
    metric : {"cosine", "euclidean"}
    weights : (n,) float64 array, optional
    """
    ids = np.flatnonzero(labels >= 0)
    counted = np.ones(len(labels)) if weights is None else weights
    place = (labels[ids], ids)
    member = csr_array((counted[ids], place), shape=(len(previous), len(labels)))
    sums = (member @ source.rows(0, len(labels))).toarray()
    weight = np.asarray(member.sum(axis=1))
    if metric == "cosine":
        centers = project_sphere(sums, previous.astype(np.float64))
    else:
        centers = sums / np.where(weight > 0.0, weight, 1.0)[:, None]
        centers = np.where(weight[:, None] > 0.0, centers, previous)
    return centers.astype(previous.dtype)


def sparse_start(
    source: FeatureSource,
    n_clusters: int,
    *,
    seed: int,
    weights: Array | None = None,
    fixed: Array | None = None,
) -> Array:
    """Draw rows far from each other by greedy k-means++ on a sample, (k, d) array with zeros.

    Parameters
    ----------
    source : FeatureSource
    n_clusters : int
    seed : int
    weights : (n,) float64 array, optional
    fixed : (n,) int64 array, optional
        Clusters with such rows in the sample start at the most central one of these.
    """
    n = source.group.n_total
    ids = strided_ids(n, min(n, max(FEWEST_ROWS, ROWS_PER_CLUSTER * n_clusters)), np.zeros(1))
    ids = (ids + seed) % n
    sample, own = source.take(ids), None if weights is None else weights[ids]
    squares = _squares(sample)

    def between(i: Array, j: Array) -> Array:
        products = (sample[i] @ sample[j].T).toarray().astype(np.float64)
        return np.clip(squares[i][:, None] + squares[j] - 2.0 * products, 0.0, None)

    pairs = Dissimilarities(len(ids), between, squares[:0])
    own = None if own is None or not own.any() else own
    known = None if fixed is None else fixed[ids]
    drawn = start_medoids(pairs, n_clusters, seed=seed, weights=own, fixed=known)
    return sample[drawn].toarray()


def sparse_kmeans(
    source: FeatureSource,
    bounds: SizeBounds,
    centers: Array,
    *,
    metric: str,
    weights: Array | None = None,
    fixed: Array | None = None,
    forbidden: Array | None = None,
    prices: Array | None = None,
    max_iter: int = 100,
    tol: float = 1e-3,
    gap: float = 1e-4,
    time_limit: float | Deadline | None = None,
) -> ConstrainedKMeansResult:
    """Run `constrained_kmeans` on sparse rows: the arguments and results are the same.

    The center of a cluster without rows moves to the row that is farthest from its own. Labels of
    all but the last iteration prove a gap of 0.001 where less is asked for. Cost of an iteration:
    O(nnz k) for a pass over the scores.

    Examples
    --------
    >>> x = csr_array([[0.0, 1.0], [0.0, 2.0], [3.0, 0.0], [9.0, 0.0]])
    >>> bounds = SizeBounds.from_ratios(2, n_samples=4, lower=1.0)
    >>> source = sparse_source(SparseRows(x), "euclidean")
    >>> found = sparse_kmeans(source, bounds, x[[0, 3]].toarray(), metric="euclidean")
    >>> found.centers, found.labels
    (array([[0. , 1.5],
           [6. , 0. ]]), array([0, 0, 1, 1]))
    """
    origin, deadline = None, deadline_of(time_limit)
    if metric == "euclidean":
        every = np.zeros(source.group.n_total, np.int64)
        origin = sparse_means(source, every, np.zeros_like(centers[:1]), metric)[0]

    def labeled(centers: Array, prices: Array | None, least: float) -> OfflineAssignment:
        scores = sparse_scores(source, centers, origin=origin, weights=weights)
        scores = restricted_scores(scores, bounds, fixed=fixed, forbidden=forbidden)
        if prices is not None and not prices.any():
            prices = None  # then best clusters are looked at first, which may be free of bounds
        return assign_source(scores, bounds, prices=prices, tol=least, time_limit=deadline)

    rough = max(gap, NEAR)
    found, n_iter, converged = labeled(centers, prices, rough), 0, False
    while n_iter < max_iter and not converged and not (deadline and deadline.is_late()):
        centers = sparse_means(source, found.labels, centers, metric, weights)
        empty = np.flatnonzero((found.counts == 0) & (bounds.upper > 0))
        if len(empty):
            centers = _relocated(source, found.labels, centers, empty, weights)
        before, known = found.labels, prices is not None or n_iter  # mere rows have other prices
        found, n_iter = labeled(centers, found.prices if known else None, rough), n_iter + 1
        converged = float((found.labels != before).mean()) <= tol
    if found.gap > gap and not (deadline and deadline.is_late()):
        found = labeled(centers, found.prices, gap)
    return ConstrainedKMeansResult(centers, found, n_iter, converged)


def _relocated(
    source: FeatureSource,
    labels: Array,
    centers: Array,
    empty: Array,
    weights: Array | None,
) -> Array:
    """Move the centers of empty clusters to the rows that are farthest from their own."""
    far = _own_half(source, labels, centers)
    far = far if weights is None else far * weights
    ids = np.argsort(-far, stable=True)[: len(empty)]
    rows, moved = source.take(ids), centers.copy()
    is_off = far[ids] > NOISE * _squares(rows)
    moved[empty[is_off]] = rows[np.flatnonzero(is_off)].toarray()
    return moved


def _squares(matrix: Any) -> Array:
    """Return the squared lengths of rows, (n,) float64."""
    return np.asarray(matrix.astype(np.float64).power(2).sum(axis=1))
