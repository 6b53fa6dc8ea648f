r"""Dissimilarities of pairs of rows: of a matrix, on the globe, or of a function, some at a time.

Problem: medoids need :math:`d_{ij} \ge 0` for some rows i and some rows j, never for all pairs at
once: the columns of k medoids, and the pairs inside a cluster (`medoids`). So a problem is a
function of two lists of rows; a matrix that is there already is one such function.

*On the globe.* For unit vectors u, v of two places the angle between them is

``2 atan2(|u - v|, |u + v|)``                                                     (Kahan, 2006)

which keeps its digits for near places as for antipodes, has no seam at the date line and no pole.

=====================  =============  =======  ====================================================
symbol                 here           shape    meaning
=====================  =============  =======  ====================================================
:math:`d_{ij}`         ``between``    (a, b)   of rows i and j, by their ids; at least 0
:math:`R`              ``radius``     ()       of the globe; distances are in its unit
=====================  =============  =======  ====================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import array_api_compat as compat

from ..core.checks import check_count, check_interval, check_real, check_same_place, check_shape
from ..core.errors import InvalidTypeError, InvalidValueError
from ..core.precision import at_least_float32
from ..core.reads import detached, read
from ..core.types import Array
from ..scores.blocks import block_rows, row_blocks
from ..scores.statistics import strided_ids

__all__ = [
    "EARTH_RADIUS",
    "Dissimilarities",
    "great_circle_distances",
    "matrix_dissimilarities",
    "pairwise_dissimilarities",
]

EARTH_RADIUS = 6371.0088
"""Mean radius of the Earth in kilometers: R_1 of IUGG (Moritz, Journal of Geodesy 2000)."""

TRIED_ROWS = 64
"""Rows on which a function is tried before it is used."""

LARGEST = 1e100
"""Largest dissimilarity: sums of weighted ones stay finite."""

RESULT = "the result of metric"
Metric = Callable[[Array, Array], Array]


class Dissimilarities(NamedTuple):
    """Dissimilarities of n rows with each other.

    Attributes
    ----------
    n_samples : int
    between : callable
        ``between(i, j)``: of rows with (a,) int64 ids and rows with (b,) int64 ids, (a, b) array
        of float32 or float64, in [0, 1e100].
    like : (0,) array
        Of the library and device.
    """

    n_samples: int
    between: Callable[[Array, Array], Array]
    like: Array


def matrix_dissimilarities(matrix: Array, *, name: str = "matrix") -> Dissimilarities:
    """Return a matrix of dissimilarities that is in memory, checked.

    Parameters
    ----------
    matrix : (n, n) real array
        In [0, 1e100], symmetric and 0 on its diagonal, the last two up to ``sqrt(eps)`` times
        the largest entry: programs that compute it round.
    name : str
        What messages call it.

    Raises
    ------
    InvalidTypeError, InvalidValueError

    Notes
    -----
    Reads the matrix once; it is not copied.

    Examples
    --------
    >>> import numpy as np
    >>> found = matrix_dissimilarities(np.asarray([[0.0, 3.0], [3.0, 0.0]]))
    >>> found.between(np.asarray([0, 1]), np.asarray([1]))
    array([[3.],
           [0.]])
    """
    xp = check_real(name, matrix)
    n, columns = check_shape(name, matrix, ("n", "n"))
    if n != columns or not n:
        msg = (
            f"{name} must be a square matrix of dissimilarities of at least one row, got shape "
            f"{(n, columns)}. To fix this, pass those of all rows with all rows, or coordinates "
            f"with another metric"
        )
        raise InvalidValueError(msg)
    matrix = detached(matrix)
    edges = list(row_blocks(n, block_rows(n, like=matrix)))
    largest = max(_checked_range(name, matrix[a:b, :], first=a) for a, b in edges)
    ids = xp.arange(n, dtype=xp.int64, device=compat.device(matrix))
    tol = math.sqrt(float(xp.finfo(matrix.dtype).eps)) * largest
    (own,) = read(xp.max(matrix[ids, ids]))
    if own > tol:
        msg = (
            f"{name} must be 0 on its diagonal, got {own:g}: a row is at 0 from itself. To fix "
            f"this, turn similarities into dissimilarities, as 1 - s of cosines"
        )
        raise InvalidValueError(msg)
    for a, b in edges:
        (apart,) = read(xp.max(xp.abs(matrix[a:b, :] - matrix[:, a:b].T)))
        if apart > tol:
            msg = (
                f"{name} must be symmetric, got entries (i, j) and (j, i) that differ by "
                f"{apart:g}. To fix this, take their mean, 0.5 * (x + x.T)"
            )
            raise InvalidValueError(msg)
    return Dissimilarities(
        n, lambda i, j: at_least_float32(matrix[i[:, None], j[None, :]]), matrix[0, :0]
    )


def pairwise_dissimilarities(rows: Array, metric: Metric) -> Dissimilarities:
    """Return dissimilarities that a function computes when they are needed.

    Parameters
    ----------
    rows : (n, d) array
    metric : callable
        ``metric(X, Y)``: those of (a, d) rows with (b, d) rows, (a, b) real array in
        [0, 1e100], symmetric, and 0 of a row with itself. So `great_circle_distances`, and
        ``functools.partial(sklearn.metrics.pairwise_distances, metric="manhattan")``.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        For other results: of 64 rows here, where symmetry and zeros are looked at, and of each
        call later.

    Examples
    --------
    >>> import numpy as np
    >>> found = pairwise_dissimilarities(
    ...     np.asarray([[0.0, 0.0], [3.0, 4.0]]), lambda x, y: abs(x[:, None] - y).sum(axis=-1)
    ... )
    >>> found.between(np.asarray([0]), np.asarray([0, 1]))
    array([[0., 7.]])
    """
    xp = check_real("rows", rows)
    n, _ = check_shape("rows", rows, ("n", "d"))
    check_count("number of rows", n, 1)
    if not callable(metric):
        msg = (
            f"metric must be a function of two arrays of rows, got {type(metric).__name__}. To "
            f"fix this, pass one, as dualclust.algos.clustering.great_circle_distances"
        )
        raise InvalidTypeError(msg)

    def between(i: Array, j: Array) -> Array:
        found = metric(xp.take(rows, i, axis=0), xp.take(rows, j, axis=0))
        return checked_dissimilarities(RESULT, found, i.shape[0], j.shape[0], like=rows)

    ids = strided_ids(n, min(n, TRIED_ROWS), rows)
    matrix_dissimilarities(between(ids, ids), name=RESULT)
    return Dissimilarities(n, between, rows[0, :0])


def columns_of(dissimilarities: Dissimilarities, ids: Array) -> Array:
    """Return those of all rows with some, (n, k) array.

    Called for a block of rows at a time: a function may need more memory than its result.

    Examples
    --------
    >>> import numpy as np
    >>> columns_of(matrix_dissimilarities(1.0 - np.eye(3)), np.asarray([1]))
    array([[1.],
           [0.],
           [1.]])
    """
    xp, device = compat.array_namespace(ids), compat.device(ids)
    edges = row_blocks(dissimilarities.n_samples, block_rows(ids.shape[0], like=ids))
    every = (xp.arange(a, b, dtype=xp.int64, device=device) for a, b in edges)
    return xp.concat([dissimilarities.between(some, ids) for some in every])


def checked_dissimilarities(name: str, found: Array, n: int, k: int, *, like: Array) -> Array:
    """Return what a metric returned for n and k rows, detached, if it may be that.

    Examples
    --------
    >>> import numpy as np
    >>> checked_dissimilarities("x", np.asarray([[-1.0]]), 1, 1, like=np.zeros(1))
    Traceback (most recent call last):
        ...
    dualclust.algos.core.errors.InvalidValueError: x must lie in [0, 1e+100], got -1 in row 0. \
To fix this, turn similarities s into dissimilarities, as 1 - s of cosines
    """
    if not compat.is_array_api_obj(found) or tuple(found.shape) != (n, k):
        got = f"shape {tuple(found.shape)}" if hasattr(found, "shape") else type(found).__name__
        msg = (
            f"{name} must be an array of shape {(n, k)} for {n} and {k} rows, got {got}. To fix "
            f"this, wrap a function of two vectors: functools.partial("
            f"sklearn.metrics.pairwise_distances, metric=f)"
        )
        raise InvalidValueError(msg)
    check_real(name, found)
    check_same_place(rows=like, result=found)
    found = at_least_float32(detached(found))
    if n * k:
        _checked_range(name, found)
    return found


def great_circle_distances(rows: Array, centers: Array, *, radius: float = EARTH_RADIUS) -> Array:
    """Return the lengths of the shortest ways on a globe, of each row to each center.

    Parameters
    ----------
    rows : (n, 2) real array
        Latitude in [-90, 90] and longitude in [-360, 360], in *degrees* (scikit-learn's
        "haversine" takes radians).
    centers : (k, 2) real array
        The same.
    radius : float > 0
        Of the globe; kilometers and the Earth's mean radius by default.

    Returns
    -------
    (n, k) float64 array
        In the unit of `radius`; to about ``1e-15 radius``, a few nanometers on a globe. Exactly 0
        for equal numbers. The Earth is no globe: ways on its ellipsoid differ by up to 0.6 %.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        For a latitude or longitude outside its range.

    Examples
    --------
    From Fiji over the date line to Samoa, and from pole to pole:

    >>> import numpy as np
    >>> places = np.asarray([[-17.7, 178.0], [90.0, 0.0]])
    >>> great_circle_distances(places, np.asarray([[-13.8, -171.8], [-90.0, 77.0]])).round(1)
    array([[ 1174.3,  8039.4],
           [11542. , 20015.1]])
    """
    check_interval("radius", radius, 0.0, math.inf, open_low=True)
    check_same_place(rows=rows, centers=centers)
    apart, together = 0.0, 0.0
    for u, v in zip(_directions("rows", rows), _directions("centers", centers), strict=True):
        apart = apart + (u[:, None] - v[None, :]) ** 2
        together = together + (u[:, None] + v[None, :]) ** 2
    xp = compat.array_namespace(apart)
    found: Array = xp.atan2(xp.sqrt(apart), xp.sqrt(together)) * (2.0 * radius)
    return found


def _directions(name: str, places: Array) -> tuple[Array, Array, Array]:
    """Return the coordinates of places on the unit sphere, (n,) float64 each."""
    xp = check_real(name, places)
    n, columns = check_shape(name, places, ("n", "d"))
    if columns != 2:
        msg = (
            f"{name} must have two columns, latitude and longitude in degrees, got {columns}. To "
            f"fix this, choose these two"
        )
        raise InvalidValueError(msg)
    places = xp.astype(detached(places), xp.float64)
    for column, (what, most) in enumerate((("latitudes", 90.0), ("longitudes", 360.0))):
        (worst,) = read(xp.max(xp.abs(places[:, column]))) if n else (0.0,)
        if not worst <= most:  # a NaN fails the comparison
            msg = (
                f"{name} must have {what} from {-most:g} to {most:g} degrees in column {column}, "
                f"got one of size {worst:g}. To fix this, give degrees, latitude first"
            )
            raise InvalidValueError(msg)
    angles = places * (math.pi / 180.0)
    latitude, longitude = angles[:, 0], angles[:, 1]
    across = xp.cos(latitude)
    return across * xp.cos(longitude), across * xp.sin(longitude), xp.sin(latitude)


def _checked_range(name: str, block: Array, *, first: int = 0) -> float:
    """Return the largest entry; raise for one below 0, NaN and infinity."""
    xp = compat.array_namespace(block)
    low, high = read(xp.min(block), xp.max(block))
    if 0.0 <= low <= high <= LARGEST:
        return high
    row = first + int(
        xp.argmin(xp.astype(xp.all((block >= 0) & (block <= LARGEST), axis=1), xp.int8))
    )
    what, fix = "NaN", "drop or impute such pairs"
    if low <= high:
        what, fix = f"{high:g}", "divide by their scale, and drop or impute an infinity"
    if low < 0.0:
        what, fix = f"{low:g}", "turn similarities s into dissimilarities, as 1 - s of cosines"
    msg = f"{name} must lie in [0, {LARGEST:g}], got {what} in row {row}. To fix this, {fix}"
    raise InvalidValueError(msg)
