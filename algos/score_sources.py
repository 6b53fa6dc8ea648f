r"""Where scores come from: a matrix, or features and centers, multiplied a block at a time.

The solvers never ask for all n k scores. They ask for

* *blocks*: consecutive rows, in one order, with block edges that depend on k alone. A product of
  matrices may change its last bit with its shape, so equal edges are what makes the answer of four
  ranks, or of a file read in pieces, equal to that of one array;
* *some rows*, by id: the sample on which prices are learned.

A *group* says which rows of the whole problem these are and joins the arrays of several ranks;
alone, a group of one. Everything that a rank sends is integers, or floats in the order of the rows,
so that sums do not depend on how many ranks there are.

===================  ===============  ==============  ===========================================
symbol               here             shape           meaning
===================  ===============  ==============  ===========================================
:math:`s_{i,k}`      ``block(a, b)``  (b - a, k)      scores of rows a to b of this rank
:math:`x_i`          ``rows(a, b)``   (b - a, d)      features
:math:`c_k`          ``centers``      (k, d)
:math:`w_i`          ``weights``      (n,)            each row's scores are multiplied by it
===================  ===============  ==============  ===========================================
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import array_api_compat as compat

from ._typing import Array
from .checks import check_real, check_same_place, check_shape
from .errors import InvalidValueError
from .precision import at_least_float32

__all__ = [
    "FeatureSource",
    "Group",
    "ScoreSource",
    "alone",
    "block_rows",
    "check_weights",
    "feature_source",
    "product_source",
    "score_source",
    "subsample",
]

BLOCK_ENTRIES = 2**20
"""Scores in a block: 4 MiB of float32, near what a core keeps in its cache."""

MOST_ROWS, FEWEST_ROWS = 2**13, 2**6


def block_rows(n_clusters: int) -> int:
    """Rows of one block: a power of two, and the same however the rows are shared out.

    Examples
    --------
    >>> block_rows(10), block_rows(1000), block_rows(10**6)
    (8192, 1024, 64)
    """
    rows = MOST_ROWS
    while rows > FEWEST_ROWS and rows * n_clusters > BLOCK_ENTRIES:
        rows //= 2
    return rows


class Group(NamedTuple):
    """The rows of this rank among all rows.

    Attributes
    ----------
    first_row : int
        Of this rank; a multiple of `MOST_ROWS`, so that no block lies on two ranks.
    n_local : int
        Rows of this rank.
    n_total : int
        Rows of all ranks.
    gather : callable
        Joins the arrays of all ranks along the first axis, in the order of the ranks. All ranks
        call it, with arrays that differ in length only.
    """

    first_row: int
    n_local: int
    n_total: int
    gather: Callable[[Array], Array]


def alone(n: int) -> Group:
    """The group of one rank that has all rows."""
    return Group(0, n, n, lambda array: array)


def _multiply(rows: Array, columns: Array) -> Array:
    """The library's own product."""
    product: Array = compat.array_namespace(rows).matmul(rows, columns)
    return product


class FeatureSource(NamedTuple):
    """Features of this rank, read by blocks or by ids.

    Attributes
    ----------
    n_features : int
    rows : callable
        ``rows(a, b)``: rows a to b of this rank, (b - a, d), float32 or float64.
    take : callable
        ``take(ids)``: rows by their (m,) int64 ids among those of *all* ranks, in any order;
        every rank calls it with the same ids and gets all rows.
    group : Group
    multiply : callable
        ``multiply(rows, columns)``: the product of (m, d) rows and (d, k) columns. A caller whose
        products must not depend on the threads of a library brings one that does not.
    """

    n_features: int
    rows: Callable[[int, int], Array]
    take: Callable[[Array], Array]
    group: Group
    multiply: Callable[[Array, Array], Array] = _multiply


class ScoreSource(NamedTuple):
    """Scores of this rank, by blocks or by ids, finite or minus infinity (a forbidden pair).

    Attributes
    ----------
    n_clusters : int
    block : callable
        ``block(a, b)``: scores of rows a to b of this rank, (b - a, k), float32 or float64.
    take : callable
        ``take(ids)``: as in `FeatureSource`.
    group : Group
    """

    n_clusters: int
    block: Callable[[int, int], Array]
    take: Callable[[Array], Array]
    group: Group


def score_source(scores: Array, weights: Array | None = None) -> ScoreSource:
    """Scores that are in memory.

    Parameters
    ----------
    scores : (n, k) real array
        Half precision is computed in float32.
    weights : (n,) float64 array, optional
        Nonnegative; each row is multiplied by its own.
    """
    xp = check_real("scores", scores)
    n, k = check_shape("scores", scores, ("n", "k"))
    check_same_place(scores=scores, weights=weights)

    def block(start: int, stop: int) -> Array:
        part = at_least_float32(scores[start:stop, :])
        return part if weights is None else _weighted(part, weights[start:stop])

    def take(ids: Array) -> Array:
        part = at_least_float32(xp.take(scores, ids, axis=0))
        return part if weights is None else _weighted(part, xp.take(weights, ids))

    return ScoreSource(k, block, take, alone(n))


def feature_source(features: Array) -> FeatureSource:
    """Features that are in memory.

    Examples
    --------
    >>> import numpy as np
    >>> feature_source(np.eye(3)).rows(1, 3)
    array([[0., 1., 0.],
           [0., 0., 1.]])
    """
    xp = check_real("features", features)
    n, d = check_shape("features", features, ("n", "d"))
    return FeatureSource(
        d,
        lambda start, stop: at_least_float32(features[start:stop, :]),
        lambda ids: at_least_float32(xp.take(features, ids, axis=0)),
        alone(n),
    )


def product_source(
    features: FeatureSource,
    centers: Array,
    *,
    offsets: Array | None = None,
    weights: Array | None = None,
) -> ScoreSource:
    """Scores ``w_i (x_i . c_k + offset_k)``, multiplied a block at a time.

    Parameters
    ----------
    features : FeatureSource
    centers : (k, d) array
        Of the dtype of the rows.
    offsets : (k,) array, optional
        ``-||c_k||^2 / 2`` makes the largest score the smallest squared distance.
    weights : (n,) float64 array, optional
        Of all rows of all ranks, nonnegative.

    Notes
    -----
    Memory: one block of `block_rows` rows. Source: CoKe Eq. 6 with the scores of Eq. 3.
    """
    xp = compat.array_namespace(centers)
    k, _ = check_shape("centers", centers, ("k", features.n_features))
    first = features.group.first_row

    def scores(rows: Array, own: Array | None) -> Array:
        product = features.multiply(rows, centers.T)
        product = product if offsets is None else product + offsets
        return product if own is None else _weighted(product, own)

    def block(start: int, stop: int) -> Array:
        own = None if weights is None else weights[first + start : first + stop]
        return scores(features.rows(start, stop), own)

    def take(ids: Array) -> Array:
        return scores(features.take(ids), None if weights is None else xp.take(weights, ids))

    return ScoreSource(k, block, take, features.group)


def subsample(source: ScoreSource, ids: Array) -> ScoreSource:
    """Some rows of all ranks, as a problem of its own that every rank holds."""
    return ScoreSource(
        source.n_clusters,
        lambda start, stop: source.take(ids[start:stop]),
        lambda inner: source.take(compat.array_namespace(ids).take(ids, inner)),
        alone(int(ids.shape[0])),
    )


def check_weights(name: str, weights: Array, n: int) -> Array:
    """Return weights as float64 if they are n finite numbers of at least 0, not all of them 0."""
    xp = check_real(name, weights)
    check_shape(name, weights, (n,))
    weights = xp.astype(weights, xp.float64)
    if n and not (bool(xp.all(weights >= 0.0)) and 0.0 < float(xp.sum(weights)) < float("inf")):
        worst = float(xp.min(weights))
        msg = (
            f"{name} must be finite, at least 0 and not all 0, got values from {worst:g} to "
            f"{float(xp.max(weights)):g}. To fix this, drop the rows of weight 0"
        )
        raise InvalidValueError(msg)
    return weights


def _weighted(scores: Array, weights: Array) -> Array:
    """Scores times their row's weight; a forbidden pair stays one at weight 0."""
    xp = compat.array_namespace(scores)
    product = scores * xp.astype(weights, scores.dtype)[:, None]
    return xp.where(scores == -xp.inf, scores, product)
