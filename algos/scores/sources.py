r"""Sources of scores: a matrix, or features and centers, multiplied a block at a time.

The solvers never ask for all n k scores. They ask for

* *blocks*: consecutive rows, in one order, whose edges do not depend on the ranks (`blocks`);
* *some rows*, by id: the sample on which prices are learned.

A *group* says which rows of the whole problem belong to this rank, and joins the arrays of all
ranks; `alone` is the group of a single rank. Ranks send only integers, or floats in the order of
the rows, so that sums do not depend on the world size.

===================  ===============  ==============  ===========================================
symbol               here             shape           meaning
===================  ===============  ==============  ===========================================
:math:`s_{i,k}`      ``block(a, b)``  (b - a, k)      scores of rows a to b of this rank
:math:`x_i`          ``rows(a, b)``   (b - a, d)      features
:math:`c_k`          ``centers``      (k, d)
:math:`w_i`          ``weights``      (n,)            factor of each row's scores
===================  ===============  ==============  ===========================================
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

import array_api_compat as compat

from ..core.checks import check_bits, check_real, check_same_place, check_shape
from ..core.errors import InvalidValueError
from ..core.precision import at_least_float32, times_power_of_two
from ..core.reads import detached, on_host, read
from ..core.types import Array
from .blocks import MOST_ROWS, block_rows, map_blocks, row_blocks

__all__ = [
    "FeatureSource",
    "Group",
    "ScoreSource",
    "alone",
    "check_weights",
    "feature_source",
    "largest_score",
    "product_source",
    "score_source",
    "subsample",
]

R = TypeVar("R")


class Group(NamedTuple):
    """The rows of this rank among all rows.

    Attributes
    ----------
    first_row : int
        First row of this rank; a multiple of `blocks.MOST_ROWS`, so no block lies on two ranks.
    n_local : int
        Rows of this rank.
    n_total : int
        Rows of all ranks.
    gather : callable
        Joins the arrays of all ranks along the first axis, in the order of the ranks. All ranks
        call it, with arrays that differ only in length.
    """

    first_row: int
    n_local: int
    n_total: int
    gather: Callable[[Array], Array]

    @property
    def is_alone(self) -> bool:
        """Whether there is a single rank; one of several may have all rows, and others none."""
        return self.gather is _itself

    def own(self, values: Array) -> Array:
        """Return the part of this rank of one value for each row of all ranks."""
        return values[self.first_row : self.first_row + self.n_local]


def alone(n: int) -> Group:
    """Return the group of a single rank that has all rows."""
    return Group(first_row=0, n_local=n, n_total=n, gather=_itself)


def _itself(array: Array) -> Array:
    return array


def _multiply(rows: Array, columns: Array) -> Array:
    """Multiply by the library's own product."""
    product: Array = compat.array_namespace(rows).matmul(rows, columns)
    return product


class FeatureSource(NamedTuple):
    """Features of this rank, read by blocks or by ids.

    Attributes
    ----------
    n_features : int
    rows : callable
        ``rows(a, b)``: rows a to b of this rank, (b - a, d), float32 or float64. Inside
        `core.workers.workers`, several threads call it at once.
    take : callable
        ``take(ids)``: rows by their (m,) int64 ids among those of *all* ranks, in any order;
        every rank calls it with the same ids and gets all these rows.
    group : Group
    multiply : callable
        ``multiply(rows, columns)``: the product of (m, d) rows and (d, k) columns. A caller can
        replace it by a product that does not depend on the number of threads.
    largest : float, optional
        No entry of a row is larger in size: then products need no look at the rows.
    """

    n_features: int
    rows: Callable[[int, int], Array]
    take: Callable[[Array], Array]
    group: Group
    multiply: Callable[[Array, Array], Array] = _multiply
    largest: float | None = None

    @property
    def is_plain(self) -> bool:
        """Whether products are those of the library."""
        return self.multiply is _multiply


class Products(NamedTuple):
    """Blocks of scores that are finite products: `nearest` may read these instead of the scores.

    They are the ``block`` of a source, so that a source with other blocks has none.
    """

    features: FeatureSource
    centers: Array
    offsets: Array | None

    def __call__(self, start: int, stop: int) -> Array:
        """Multiply consecutive rows of this rank."""
        return self.of_rows(self.features.rows(start, stop))

    def of_rows(self, rows: Array) -> Array:
        """Multiply rows, (m, d)."""
        product = self.features.multiply(rows, self.centers.T)
        return product if self.offsets is None else product + self.offsets


class ScoreSource(NamedTuple):
    """Scores of this rank, by blocks or by ids, finite or minus infinity (a forbidden pair).

    Attributes
    ----------
    n_clusters : int
    block : callable
        ``block(a, b)``: scores of rows a to b of this rank, (b - a, k), float32 or float64. Inside
        `core.workers.workers`, several threads call it at once, unless `in_turn`.
    take : callable
        ``take(ids)``: as in `FeatureSource`.
    group : Group
    exponent : int
        True scores are ``2**exponent`` times these; 0 unless weights or `in_range` need it.
    in_turn : bool
        Whether all ranks call `block` together: then one thread does, block after block.
    """

    n_clusters: int
    block: Callable[[int, int], Array]
    take: Callable[[Array], Array]
    group: Group
    exponent: int = 0
    in_turn: bool = False

    def map_blocks(
        self,
        function: Callable[[int, int], R],
        *,
        like: Array,
        at_least_one: bool = False,
        within: tuple[int, int] | None = None,
    ) -> Iterator[R]:
        """Yield ``function(start, stop)`` of all blocks, or of those `within` rows, in order."""
        first, last = (0, self.group.n_local) if within is None else within
        return map_blocks(
            lambda start, stop: function(first + start, first + stop),
            last - first,
            block_rows(self.n_clusters, like=like, is_alone=self.group.is_alone),
            like=None if self.in_turn else like,
            at_least_one=at_least_one,
        )


def score_source(scores: Array, weights: Array | None = None) -> ScoreSource:
    """Return scores that are in memory as a source.

    Parameters
    ----------
    scores : (n, k) real array
        Half precision is computed in float32.
    weights : (n,) real array, optional
        Finite, at least 0, not all 0; each row is multiplied by its weight, in float64.

    Raises
    ------
    InvalidTypeError
        For scores wider than float64, which would have to be rounded.
    InvalidValueError
        For weights out of range.
    """
    xp = check_real("scores", scores)
    check_bits("scores", scores)
    n, k = check_shape("scores", scores, ("n", "k"))
    check_same_place(scores=scores, weights=weights)
    scores = detached(scores)
    plain = ScoreSource(
        n_clusters=k,
        block=lambda start, stop: at_least_float32(scores[start:stop, :]),
        take=lambda ids: at_least_float32(xp.take(scores, ids, axis=0)),
        group=alone(n),
    )
    if weights is None:
        return plain
    factors, exponent = _normalized(check_weights("weights", weights, n))
    # A product keeps its digits if neither factor is near the limits of the range.
    sizes = plain.map_blocks(lambda a, b: largest_score(plain.block(a, b)), like=scores)
    unit = math.frexp(max(sizes, default=0.0))[1]

    def weighted(part: Array, weights: Array) -> Array:
        return _weighted(times_power_of_two(xp.astype(part, xp.float64), -unit), weights)

    return plain._replace(
        block=lambda start, stop: weighted(plain.block(start, stop), factors[start:stop]),
        take=lambda ids: weighted(plain.take(ids), xp.take(factors, ids)),
        exponent=exponent + unit,
    )


def feature_source(features: Array) -> FeatureSource:
    """Return features that are in memory as a source.

    Examples
    --------
    >>> import numpy as np
    >>> feature_source(np.eye(3)).rows(1, 3)
    array([[0., 1., 0.],
           [0., 0., 1.]])
    """
    xp = check_real("features", features)
    check_bits("features", features)
    n, d = check_shape("features", features, ("n", "d"))
    largest = None
    if n and d and not on_host(features):  # one read now, where each block would be one
        parts = [_largest_size(features[a:b, :]) for a, b in row_blocks(n, MOST_ROWS)]
        largest = float(detached(xp.max(xp.stack(parts))))
    return FeatureSource(
        n_features=d,
        rows=lambda start, stop: at_least_float32(features[start:stop, :]),
        take=lambda ids: at_least_float32(xp.take(features, ids, axis=0)),
        group=alone(n),
        largest=largest,
    )


def product_source(
    features: FeatureSource,
    centers: Array,
    *,
    offsets: Array | None = None,
    weights: Array | None = None,
) -> ScoreSource:
    """Return scores ``w_i (x_i . c_k + offset_k)``, multiplied a block at a time, as a source.

    Parameters
    ----------
    features : FeatureSource
    centers : (k, d) array
        Of the dtype of the rows.
    offsets : (k,) array, optional
        ``-||c_k||^2 / 2`` makes the largest score the smallest squared distance.
    weights : (n,) real array, optional
        Weights of all rows of all ranks; finite, at least 0, not all 0. Applied in float64.

    Raises
    ------
    InvalidValueError
        For weights out of range; when a block is read, for products that overflow.

    Notes
    -----
    Memory: one block of `block_rows` rows. Source: CoKe Eq. 6 with the scores of Eq. 3.
    """
    xp = compat.array_namespace(centers)
    k, _ = check_shape("centers", centers, ("k", features.n_features))
    group, exponent = features.group, 0
    if weights is not None:
        check_same_place(centers=centers, weights=weights)
        weights, exponent = _normalized(check_weights("weights", weights, group.n_total))
    # No score is larger than a row's largest entry times this length, plus the largest offset.
    length, added = 0.0, 0.0
    if k:
        length, added = read(
            xp.max(xp.sum(xp.abs(xp.astype(centers, xp.float64)), axis=1)),
            0.0 if offsets is None else _largest_size(offsets),
        )
    limit = 0.5 * float(xp.finfo(centers.dtype).max)
    is_small = features.largest is not None and features.largest * length + added <= limit
    own = None if weights is None else group.own(weights)
    products = Products(features, centers, offsets)

    def scores(rows: Array, factors: Array | None) -> Array:
        product = products.of_rows(rows)
        is_narrow = k <= features.n_features  # a look at products costs less than one at rows
        if not is_small and (is_narrow or largest_score(rows) * length + added > limit):
            _check_products(product, rows, centers)
        return product if factors is None else _weighted(product, factors)

    def block(start: int, stop: int) -> Array:
        return scores(features.rows(start, stop), None if own is None else own[start:stop])

    def take(ids: Array) -> Array:
        return scores(features.take(ids), None if weights is None else xp.take(weights, ids))

    plain: Any = products if own is None and is_small else block
    return ScoreSource(k, plain, take, group, exponent)


def subsample(source: ScoreSource, ids: Array) -> ScoreSource:
    """Return some rows of all ranks as a separate problem, which every rank holds."""
    return ScoreSource(
        n_clusters=source.n_clusters,
        block=lambda start, stop: source.take(ids[start:stop]),
        take=lambda inner: source.take(compat.array_namespace(ids).take(ids, inner)),
        group=alone(int(ids.shape[0])),
        exponent=source.exponent,
        in_turn=source.in_turn or not source.group.is_alone,
    )


def check_weights(name: str, weights: Array, n: int) -> Array:
    """Return weights as float64 if they are n finite numbers of at least 0, not all of them 0."""
    xp = check_real(name, weights)
    check_shape(name, weights, (n,))
    weights = xp.astype(detached(weights), xp.float64)
    low, high = read(xp.min(weights), xp.max(weights)) if n else (1.0, 1.0)
    if n and not (low >= 0.0 and 0.0 < high * n < math.inf):
        large = "divide the weights by their largest, as their sum overflows"
        fix = large if math.isfinite(high) else "drop or impute the entries that are not finite"
        fix = "leave the weights out" if high == 0.0 else fix
        fix = "drop the rows of a weight below 0, or set it to 0" if low < 0.0 else fix
        rule = f"{name} must be finite, at least 0 and not all 0"
        msg = f"{rule}, got values from {low:g} to {high:g}. To fix this, {fix}"
        raise InvalidValueError(msg)
    return weights


def largest_score(scores: Array) -> float:
    """Return the largest finite absolute value of an array; 0 if there is none."""
    xp = compat.array_namespace(scores)
    if math.prod(scores.shape) == 0:
        return 0.0
    if on_host(scores):  # faster, unless an entry is infinite
        high, low = float(xp.max(scores)), float(xp.min(scores))
        if math.isfinite(high) and math.isfinite(low):
            return max(high, -low)
    return float(_largest_size(scores))


def _largest_size(values: Array) -> Array:
    """Return the largest finite absolute value, without axes; of at least one entry."""
    xp = compat.array_namespace(values)
    sizes = xp.abs(values)
    return xp.max(xp.where(xp.isfinite(sizes), sizes, xp.zeros_like(sizes)))


def _normalized(weights: Array) -> tuple[Array, int]:
    """Scale the largest weight into [1/2, 1); return weights and the power of two's exponent."""
    exponent = math.frexp(largest_score(weights))[1]
    return times_power_of_two(weights, -exponent), exponent


def _weighted(scores: Array, weights: Array) -> Array:
    """Multiply scores by their row's weight in float64; forbidden pairs stay so at weight 0."""
    xp = compat.array_namespace(scores)
    scores = xp.astype(scores, xp.float64)
    finite = xp.isfinite(scores)
    factors = xp.where(finite, scores, xp.zeros_like(scores))
    return xp.where(finite, factors * weights[:, None], scores)


def _check_products(products: Array, *factors: Array) -> None:
    xp = compat.array_namespace(products)
    if bool(xp.any(xp.isinf(products))) and all(bool(xp.all(xp.isfinite(f))) for f in factors):
        msg = (
            f"features must have finite products with the centers, got one that overflows "
            f"{products.dtype}. To fix this, scale features and centers down, or use float64"
        )
        raise InvalidValueError(msg)
