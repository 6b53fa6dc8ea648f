r"""Coordinates in which k-means computes: around the mean of the features, with entries below 1.

Problem: squared distances of features far from the origin lose their digits, and those of very long
or very short ones overflow or vanish. In a *frame* with origin m, the scores

``s_ik = (x_i - m) . (c_k - m) - ||c_k - m||^2 / 2 = (||x_i - m||^2 - ||x_i - c_k||^2) / 2``

are half the squared distance to m minus that to the center, for any m. With the mean of all
features as m, few digits are lost. A power of two above the largest entry as the unit causes no
rounding. Both come from extremes and exact sums, hence are the same for any world size. On the
sphere the frame is the identity: m = 0 and unit 1. If one row lies far out, even the distances to m
lose the digits of the other rows: sums for the centers therefore use the raw rows (`exact_sums`).

=====================  =============  =========  ===============================================
symbol                 here           shape      meaning
=====================  =============  =========  ===============================================
:math:`m`              ``origin``     (d,)       mean of all features; 0 on the sphere
\-                     ``unit``       ()         power of two above ``|x_i - m|``; 1 on the sphere
:math:`w_i`            ``weights``    (n,)       of all rows of all ranks, or None
=====================  =============  =========  ===============================================
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

import array_api_compat as compat

from ..core.checks import check_real, check_same_place, check_shape
from ..core.errors import InvalidValueError
from ..core.exact_sums import FINEST, LIMIT, UNIT_GRID, Grid, grid_of, means_of_sums, sum_rows
from ..core.reads import entries, on_host, read
from ..core.types import Array
from ..scores.blocks import FEWEST_ROWS, block_rows, map_blocks
from ..scores.sources import (
    FeatureSource,
    ScoreSource,
    check_weights,
    feature_source,
    product_source,
)
from .start import power_of_two

__all__ = [
    "Frame",
    "check_reach",
    "fits_alone",
    "frame_of",
    "map_rows",
    "scores_of",
    "unit_of_weights",
    "weight_extremes",
]

R = TypeVar("R")

CACHED_ENTRIES = 2**18  # 1 MiB of float32

HELD_ENTRIES = 2**23  # 32 MiB of float32: rows up to so many are kept in the frame's coordinates

WEIGHTED = 120  # bits that sums keep below the largest product, at least

SMALLEST = -1015  # exponent of a unit, at least, so that its inverse does not overflow

LIGHTEST = 960  # bits from the largest weight to the smallest: beyond, products are subnormal


class Frame(NamedTuple):
    """Features in coordinates in which every entry lies in [-1, 1].

    Attributes
    ----------
    raw : FeatureSource
        Rows ``x_i``.
    source : FeatureSource
        Rows ``(x_i - origin) / unit``.
    grid : Grid
        Grid of the sums of ``x_i``, or with weights of ``w_i x_i`` and ``w_i``.
    origin : (d,) array
    unit : float
        A power of two. Scores of the frame times ``unit^2`` are those of the features.
    spherical : bool
    weights : (n,) float64 array, or None
        In units of `weight_unit`.
    weight_unit : float
        A power of two above the largest weight.
    held : (n_local, d) array, or None
        Rows of `source`, where they are few: then a pass does not compute them anew.
    """

    raw: FeatureSource
    source: FeatureSource
    grid: Grid
    origin: Array
    unit: float
    spherical: bool
    weights: Array | None
    weight_unit: float
    held: Array | None = None

    @property
    def score_unit(self) -> float:
        """Return one unit of score of the frame, in units of score of the features."""
        return self.unit * self.unit * self.weight_unit

    def inside(self, points: Array) -> Array:
        """Return rows, or centers, in the coordinates of the frame."""
        return points if self.spherical else (points - self.origin) * (1.0 / self.unit)

    def block(self, raw: Array, start: int, stop: int) -> Array:
        """Return this rank's rows `start` to `stop` in the coordinates of the frame."""
        return self.inside(raw) if self.held is None else self.held[start:stop, :]


def frame_of(features: Array | FeatureSource, metric: str, weights: Array | None) -> Frame:
    """Read all rows once: check them and find the frame, the same on all ranks.

    Raises
    ------
    InvalidValueError
        On all ranks, if a row is not finite, cannot be a unit vector ("cosine"), or has squares
        that overflow.
    """
    frame, reach = _frame_and_reach(features, metric, weights)
    _check_span(_has_span(frame), reach)
    return frame


def fits_alone(features: FeatureSource, metric: str, weights: Array | None, centers: Array) -> bool:
    """Tell whether `frame_of` and `check_reach` accept some rows of a problem they accept whole.

    The frame of some rows is smaller: what is near for all rows may be far out of reach of these.
    """
    frame, _ = _frame_and_reach(features, metric, weights)
    largest, most = _largest_and_most(frame, centers)
    return _has_span(frame) and largest <= most


def _frame_and_reach(
    features: Array | FeatureSource, metric: str, weights: Array | None
) -> tuple[Frame, float]:
    """Return the frame, whose unit of score may still be out of range, and half the span."""
    source = features if isinstance(features, FeatureSource) else feature_source(features)
    group, d = source.group, source.n_features
    like = source.rows(0, 0)
    xp, device = check_real("features", like), compat.device(like)
    if group.n_total < 1 or d < 1:
        msg = (
            f"features must have rows and columns, got shape ({group.n_total}, {d})"
            ". To fix this, pass at least one"
        )
        raise InvalidValueError(msg)
    finest, weight_unit = FINEST, 1.0
    if weights is not None:
        check_same_place(features=like, weights=weights)
        weights = check_weights("weights", weights, group.n_total)
        weight_unit, finest = unit_of_weights(*read(*weight_extremes(weights)))
        weights = weights / weight_unit
    low, high = _extremes(source)
    zero = xp.zeros((d,), dtype=like.dtype, device=device)
    if metric == "cosine":
        most, least = read(xp.max(high), xp.min(low))
        worst = max(most, -least)
        if worst > LIMIT:
            msg = (
                f"features must be unit rows for metric='cosine', got an entry of {worst:g}. "
                f"To fix this, normalize the rows with dualclust.algos.core.project_sphere"
            )
            raise InvalidValueError(msg)
        grid = UNIT_GRID if weights is None else grid_of(0.5, group.n_total, finest=finest)
        inside = source._replace(largest=LIMIT)
        return Frame(source, inside, grid, zero, 1.0, True, weights, weight_unit), worst
    reach, most, least = read(xp.max(0.5 * high - 0.5 * low), xp.max(high), xp.min(low))
    _check_span(reach < float(xp.finfo(like.dtype).max) / 64.0, reach)
    largest = max(most, -least)
    grid = grid_of(largest, group.n_total)  # of the mean of all rows, which has no weights
    # The mean is far better than the midrange if a few rows lie far out.
    origin = xp.astype(_mean(source, grid), like.dtype)
    around = xp.astype(origin, xp.float64)
    unit = float(xp.max(xp.maximum(high - around, around - low)))
    unit = power_of_two(unit, like.dtype, xp)
    if weights is not None:
        grid = grid_of(largest, group.n_total, finest=finest)
    inside, held = _shifted(source, origin, unit), None
    if on_host(like) and group.n_local * d <= HELD_ENTRIES:
        parts = map_rows(lambda block, a, b: (block - origin) * (1.0 / unit), source)
        held = xp.concat([like, *parts])
        inside = inside._replace(rows=lambda start, stop: held[start:stop, :])
    return Frame(source, inside, grid, origin, unit, False, weights, weight_unit, held), reach


def weight_extremes(weights: Array) -> tuple[Array, Array]:
    """Return the largest weight, and the smallest one above 0, without axes."""
    xp = compat.array_namespace(weights)
    lightest = xp.min(xp.where(weights > 0, weights, xp.full_like(weights, math.inf)))
    return xp.max(weights), lightest


def unit_of_weights(heaviest: float, lightest: float) -> tuple[float, int]:
    """Return a unit of weights, and how many bits below it sums of weighted rows must keep.

    A cluster may hold the lightest rows alone. So `FINEST` bits are kept below their weight, as
    many as below the largest entry without weights.

    Parameters
    ----------
    heaviest, lightest : float > 0
        Of `weight_extremes`.

    Returns
    -------
    unit : float
        A power of two above the largest weight.
    finest : int

    Raises
    ------
    InvalidValueError
        For weights further apart than 2^960, which is 1e289.
    """
    # As `power_of_two`, of float64.
    unit = math.ldexp(1.0, min(max(math.frexp(heaviest)[1], SMALLEST), 1023))
    least = math.ldexp(unit, -LIGHTEST)
    if lightest < least:
        msg = (
            f"weights must be 0, or at least 1e-289 of the largest, got {lightest:g} beside "
            f"{heaviest:g}: the sum of such rows alone would lose its digits. To fix this, set "
            f"weights below {least:g} to 0"
        )
        raise InvalidValueError(msg)
    span = math.frexp(unit)[1] - math.frexp(lightest)[1]
    return unit, max(WEIGHTED, FINEST + span)


def _has_span(frame: Frame) -> bool:
    """Tell whether scores neither overflow nor vanish."""
    return 1e-300 < frame.score_unit < 1e300


def _mean(source: FeatureSource, grid: Grid) -> Array:
    """Return the mean of all rows of all ranks, (d,) float64."""
    like, group = source.rows(0, 0), source.group
    xp, device = compat.array_namespace(like), compat.device(like)
    sums = xp.zeros((1, grid.depth * source.n_features), dtype=xp.int64, device=device)

    def added(block: Array, start: int, stop: int) -> Array:
        one = xp.zeros((stop - start,), dtype=xp.int64, device=device)
        return sum_rows(block, one, grid, n_clusters=1, check=on_host(block))

    for part in map_rows(added, source):
        sums = sums + part
    sums = xp.sum(group.gather(sums), axis=0, keepdims=True)
    counts = xp.asarray([group.n_total], dtype=xp.int64, device=device)
    return xp.reshape(means_of_sums(sums, counts, grid), (source.n_features,))


def check_reach(frame: Frame, centers: Array) -> None:
    """Raise for finite centers so far from the features that scores could overflow."""
    largest, most = _largest_and_most(frame, centers)
    if largest > most:
        msg = (
            f"centers must be among the features, got an entry of {largest:g}, where scores "
            f"overflow beyond {most:g}. To fix this, start from rows "
            f"(dualclust.algos.clustering.start_centers)"
        )
        raise InvalidValueError(msg)


def _largest_and_most(frame: Frame, centers: Array) -> tuple[float, float]:
    """Return the largest entry of centers, and that beyond which scores could overflow."""
    xp = compat.array_namespace(centers)
    most = math.sqrt(float(xp.finfo(frame.origin.dtype).max)) / 1e4
    origin, largest = read(xp.max(xp.abs(frame.origin)), xp.max(xp.abs(centers)))
    return largest, most * frame.unit + origin


def scores_of(frame: Frame, centers: Array) -> ScoreSource:
    """Return scores for centers that are in the coordinates of the frame."""
    xp = compat.array_namespace(centers)
    offsets = None if frame.spherical else -0.5 * xp.sum(centers * centers, axis=1)
    return product_source(frame.source, centers, offsets=offsets, weights=frame.weights)


def _check_span(fits: bool, reach: float) -> None:
    if not fits:
        msg = (
            f"features must have squared distances that neither overflow nor vanish, also times "
            f"the weights, got entries {2.0 * reach:g} apart. To fix this, divide by their scale"
        )
        raise InvalidValueError(msg)


def map_rows(
    function: Callable[[Array, int, int], R], source: FeatureSource, n_clusters: int = 1
) -> Iterator[R]:
    """Yield ``function(rows, start, stop)`` of this rank's blocks of rows, in order (`blocks`).

    The edges do not depend on the ranks. On a CPU, the results for one block fit into the cache.
    """
    like = source.rows(0, 0)
    rows = block_rows(n_clusters, like=like, is_alone=source.group.is_alone)
    if on_host(like):
        widest = max(n_clusters, source.n_features)
        while rows > FEWEST_ROWS and rows * widest > CACHED_ENTRIES:
            rows //= 2

    def read_and(start: int, stop: int) -> R:
        return function(source.rows(start, stop), start, stop)

    return map_blocks(read_and, source.group.n_local, rows, like=like)


def _shifted(source: FeatureSource, origin: Array, unit: float) -> FeatureSource:
    inverse = 1.0 / unit
    return source._replace(
        rows=lambda start, stop: (source.rows(start, stop) - origin) * inverse,
        take=lambda ids: (source.take(ids) - origin) * inverse,
        largest=2.0,  # 1, and what rounding adds
    )


def _first_not_finite(source: FeatureSource) -> int:
    """Return the first row of this rank that holds a NaN or an infinity; one does."""

    def look(block: Array, start: int, stop: int) -> int | None:
        xp = compat.array_namespace(block)
        rows = xp.all(xp.isfinite(block), axis=1)
        if bool(xp.all(rows)):
            return None
        return start + int(xp.argmin(xp.astype(rows, xp.int8)))

    return next((row for row in map_rows(look, source) if row is not None), 0)


def _extremes(source: FeatureSource) -> tuple[Array, Array]:
    """Return the least and largest entry of each column over all ranks; raise if not finite."""
    like, group = source.rows(0, 0), source.group
    xp, device, d = compat.array_namespace(like), compat.device(like), source.n_features
    low = xp.full((d,), math.inf, dtype=like.dtype, device=device)
    high, bad = -low, []

    def look(block: Array, start: int, stop: int) -> tuple[Array, Array]:
        check_shape("features", block, ("n", d))
        return xp.min(block, axis=0), xp.max(block, axis=0)

    for least, most in map_rows(look, source):  # a NaN stays in both
        low, high = xp.minimum(low, least), xp.maximum(high, most)
    if group.n_local and not bool(xp.all(xp.isfinite(low) & xp.isfinite(high))):
        bad = [group.first_row + _first_not_finite(source)]
    found = entries("rows", group.gather(xp.asarray(bad, dtype=xp.int64, device=device)))
    if found:
        msg = (
            f"features must be finite, got a NaN or an infinity in row {min(found)}. "
            f"To fix this, drop or impute that entry"
        )
        raise InvalidValueError(msg)
    low = xp.min(group.gather(low[None, :]), axis=0)
    high = xp.max(group.gather(high[None, :]), axis=0)
    return xp.astype(low, xp.float64), xp.astype(high, xp.float64)
