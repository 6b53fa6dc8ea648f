r"""Starting centers of k-means: rows spread out over the data, the same on every library.

Problem: k-means ends in the local optimum to which its start leads. *k-means++* (Arthur and
Vassilvitskii, SODA 2007) draws one row after the other with probability

``p_i ~ w_i min_j ||x_i - c_j||^2``

and is within a factor ``8 (log k + 2)`` of the best objective in expectation. On unit rows the
squared distance is ``2 (1 - x_i . c_j)``. *Greedy* k-means++, which the same paper proposes in its
conclusion, draws l candidates for each row and takes the one that leaves the smallest sum of
squared distances: within ``O(l^3 log^3 k)`` in expectation (Grunau et al., SODA 2023), and better
than plain k-means++ in practice. scikit-learn and the released k-means of ProPos take
``l = 2 + floor(ln k)``.

The random numbers are those of `core.random.uniforms`: a function of the seed and the index, the
same on every array library and device; no global state is read or changed.

===============  ============  =======  ========================================================
symbol           here          shape    meaning
===============  ============  =======  ========================================================
:math:`x_i`      ``features``  (n, d)   rows to draw from
:math:`w_i`      ``weights``   (n,)     optional
:math:`u_j`      ``uniforms``  (k, l)   in [0, 1), l candidates for each center
:math:`c_j`      ``centers``   (k, d)   rows drawn
===============  ============  =======  ========================================================
"""

from __future__ import annotations

import math

import array_api_compat as compat

from ..core.checks import (
    check_choice,
    check_count,
    check_finite,
    check_kind,
    check_real,
    check_same_place,
    check_shape,
)
from ..core.errors import InvalidValueError
from ..core.projections import project_sphere
from ..core.random import uniforms
from ..core.reads import on_host
from ..core.types import Array, Namespace
from ..scores.blocks import map_blocks
from ..scores.sources import FeatureSource, check_weights
from ..scores.statistics import strided_ids

__all__ = [
    "METRICS",
    "greedy_candidates",
    "kmeans_plus_plus",
    "power_of_two",
    "sample_rows",
    "start_centers",
]

METRICS = ("cosine", "euclidean")
"""How rows are compared with centers: by direction, or by squared distance."""

CHUNK_ENTRIES, DEVICE_CHUNK_ENTRIES = 2**16, 2**24
SAMPLE_PER_CLUSTER, FEWEST_SAMPLED = 32, 2**12

TIE = 2.0**-30
"""Candidates whose sums differ by less than this share of all squared lengths tie; the first wins.
The sums come from products of matrices, with errors of 2^-50 that depend on the BLAS."""

NEAR = 2.0**-20
"""Squared distances below this share of the squared lengths are computed from differences: those of
products then have 30 bits at least."""


def greedy_candidates(n_clusters: int) -> int:
    """Return the number of candidates per center of greedy k-means++, ``2 + floor(ln k)``.

    Examples
    --------
    >>> [greedy_candidates(k) for k in (1, 2, 3, 10, 1000)]
    [2, 2, 3, 4, 8]
    """
    return 2 + math.floor(math.log(check_count("n_clusters", n_clusters, 1)))


def kmeans_plus_plus(
    features: Array,
    uniforms: Array,
    weights: Array | None = None,
    *,
    given: Array | None = None,
    n_drawn: int | None = None,
) -> Array:
    """Draw spread-out starting centers: rows with probability proportional to squared distance.

    The first row is drawn in proportion to the weights; each further one in proportion to weight
    times squared distance to the nearest center so far (on the sphere, twice one minus the cosine).

    Parameters
    ----------
    features : (n, d) real array
    uniforms : (k,) or (k, l) float64 array
        Independent draws from [0, 1), one per center, or one per candidate: the only randomness,
        so that equal draws give equal centers on every library. Of l candidates for a center, the
        function takes the one that leaves the smallest weighted sum of squared distances; ties go
        to the first. The first center is its first candidate.
    weights : (n,) real array, optional
        At least 0, not all 0; a row of weight 0 is never drawn.
    given : (m, d) real array, optional
        Centers that are there already, in the dtype of the features: k rows far from them are
        drawn, the first one in proportion to weight times squared distance as well.
    n_drawn : int, optional
        Rows that take part, spread evenly over all, at least k; by default 32 for each center and
        at least 4096, or all rows if there are not more.

    Returns
    -------
    centers : (k, d) array
        Rows of `features`.

    Raises
    ------
    InvalidValueError
        For fewer rows than centers, weights that do not fit, or NaN or infinity.

    Notes
    -----
    Cost O(m k l d) for m rows that take part, in chunks of rows, which the threads of `workers`
    share out; nothing is read back from a device between two centers. Once all rows coincide with
    centers, the remaining rows are drawn like the first. Candidates need a float64 copy of the
    rows. All rows take part where fewer than k of those would have a weight. What a sample costs
    in inertia is measured (benchmarks/results/kmeans.md).

    Examples
    --------
    >>> import numpy as np
    >>> x = np.asarray([[0.0, 0.0], [0.0, 0.0], [3.0, 4.0]])
    >>> kmeans_plus_plus(x, np.asarray([0.1, 0.1]))
    array([[0., 0.],
           [3., 4.]])
    """
    xp = check_real("features", features)
    n, d = check_shape("features", features, ("n", "d"))
    check_count("number of columns of features", d, 1)
    check_real("uniforms", uniforms)
    check_same_place(features=features, uniforms=uniforms, weights=weights, given=given)
    if uniforms.ndim == 1:
        uniforms = uniforms[:, None]
    k, tries = check_shape("uniforms", uniforms, ("k", "l"))
    check_finite("features", features)
    there = _checked_given(given, features)
    if tries < 1 or not bool(xp.all((uniforms >= 0) & (uniforms < 1))):
        msg = (
            "uniforms must lie in [0, 1), at least one for each center, got none, or one that is "
            "outside or NaN. To fix this, draw them by dualclust.algos.core.uniforms"
        )
        raise InvalidValueError(msg)
    if n < max(k, 1) or k < 1:
        msg = (
            f"features must have at least one row per center, got {n} rows for k={k}"
            ". To fix this, ask for fewer centers"
        )
        raise InvalidValueError(msg)
    if weights is None:
        weights = xp.ones((n,), dtype=xp.float64, device=compat.device(features))
    weights = check_weights("weights", weights, n)
    features, weights = _taking_part(features, weights, k, n_drawn)
    # If squares would overflow or vanish, take half the distance in units of the largest entry.
    unit = power_of_two(float(xp.max(xp.abs(features))), xp.float64, xp)
    inverse = 1.0 if 1e-100 < unit < 1e100 else 0.5 / unit
    trials = _Trials(features, weights, inverse) if tries > 1 else None
    drawn, nearest, chosen = weights, xp.full_like(weights, math.inf), []
    n_given = there.shape[0]
    for j in range(n_given):
        apart = weights * _squared_distances(features, there[j : j + 1, :], inverse)
        nearest = xp.minimum(nearest, apart)
        drawn = xp.where(xp.any(nearest > 0), nearest, weights)
    for j in range(k):
        apart = None
        running = xp.cumulative_sum(drawn)
        total = running[-1:]
        own = uniforms[j, :] if j or n_given else uniforms[0, :1]
        # The second index is the last row that can be drawn, in case the product rounds up.
        place = xp.searchsorted(running, own * total, side="right")
        place = xp.minimum(place, xp.searchsorted(running, total, side="left"))
        if trials is not None and (j or n_given):
            place, apart = trials.best(nearest, place)
        row = xp.take(features, place, axis=0)
        if apart is None:
            apart = _squared_distances(features, row, inverse)
        nearest = xp.minimum(nearest, weights * apart)
        drawn = xp.where(xp.any(nearest > 0), nearest, weights)
        chosen.append(row)
    return xp.concat(chosen)


def _checked_given(given: Array | None, features: Array) -> Array:
    """Return the centers that are there already; none are no rows."""
    if given is None:
        return features[:0, :]
    check_real("given", given)
    check_shape("given", given, ("m", features.shape[1]))
    check_finite("given", given)
    return given


def _taking_part(
    features: Array, weights: Array, k: int, n_drawn: int | None
) -> tuple[Array, Array]:
    """Return the rows that centers are drawn from, and their weights."""
    n = features.shape[0]
    m = sample_rows(n, k) if n_drawn is None else min(n, check_count("n_drawn", n_drawn, k))
    if m == n:
        return features, weights
    xp, ids = compat.array_namespace(features), strided_ids(n, m, features)
    own = xp.take(weights, ids)
    if int(xp.sum(xp.astype(own > 0, xp.int64))) < k:
        return features, weights
    return xp.take(features, ids, axis=0), own


class _Trials:
    """Choice of the candidate that leaves the smallest sum of squared distances."""

    def __init__(self, features: Array, weights: Array, inverse: float) -> None:
        xp = compat.array_namespace(features)
        self.features, self.inverse = features, inverse
        rows = xp.astype(features, xp.float64) * inverse
        # Relative to their mean, where products lose the fewest digits.
        self.rows = rows - xp.sum(rows / rows.shape[0], axis=0)
        self.squares, self.weights = xp.vecdot(self.rows, self.rows), weights
        self.tie = TIE * xp.sum(weights * (self.squares + xp.max(self.squares)))

    def best(self, nearest: Array, place: Array) -> tuple[Array, Array]:
        """Return the index of the best candidate, (1,), among the rows `place`.

        And the squared distances of all rows to it, (n,), exactly 0 if equal.

        Parameters
        ----------
        nearest : (n,) float64 array
            Weighted squared distances to the centers so far.
        place : (l,) int64 array
        """
        xp = compat.array_namespace(nearest)
        products = xp.matmul(xp.take(self.rows, place, axis=0), self.rows.T)
        apart = self.squares - 2.0 * products + xp.take(self.squares, place)[:, None]
        left = xp.sum(xp.minimum(nearest, self.weights * apart), axis=1)
        good = xp.astype(left <= xp.min(left) + self.tie, xp.int8)
        first = xp.reshape(xp.argmax(good), (1,))
        chosen = xp.take(place, first)
        return chosen, self._exact(xp.take(apart, first, axis=0)[0, :], chosen)

    def _exact(self, apart: Array, chosen: Array) -> Array:
        """Replace distances that are short beside the rows, and so have lost digits."""
        xp = compat.array_namespace(apart)
        row = xp.take(self.features, chosen, axis=0)
        short = apart <= NEAR * (self.squares + xp.take(self.squares, chosen))
        return _squared_distances(self.features, row, self.inverse, (apart, short))


def start_centers(
    source: FeatureSource,
    n_clusters: int,
    *,
    seed: int,
    metric: str,
    weights: Array | None = None,
    candidates: int | None = None,
    given: Array | None = None,
) -> Array:
    """Run greedy k-means++ on a sample of a source's rows; every rank gets the same centers.

    Parameters
    ----------
    source : FeatureSource
        At least one row per center.
    n_clusters : int >= 1
    seed : int in [0, 2^64)
        Determines the draws, and where the sample begins.
    metric : {"cosine", "euclidean"}
        "cosine" first scales the rows to unit length.
    weights : (n,) real array, optional
        Weights of all rows of all ranks.
    candidates : int >= 1, optional
        Number of candidates for each center; `greedy_candidates` of k by default. 1 gives plain
        k-means++.
    given : (m, d) array, optional
        As in `kmeans_plus_plus`.

    Returns
    -------
    centers : (k, d) array

    Notes
    -----
    Memory: the sample in float64, 32 rows per cluster and at least 4096, taken in steps of the
    golden ratio through all rows. Cost O(32 k^2 d) for each candidate.

    Examples
    --------
    >>> import numpy as np
    >>> from dualclust.algos.scores.sources import feature_source
    >>> source = feature_source(np.asarray([[0.0], [0.0], [7.0]]))
    >>> sorted(start_centers(source, 2, seed=3, metric="euclidean")[:, 0].tolist())
    [0.0, 7.0]
    """
    k = check_count("n_clusters", n_clusters, 1)
    check_kind("source", source, FeatureSource, "pass feature_source(features)")
    check_choice("metric", metric, METRICS)
    n = source.group.n_total
    if n < k:
        msg = (
            f"features must have at least one row per center, got {n} rows for k={k}"
            ". To fix this, ask for fewer centers"
        )
        raise InvalidValueError(msg)
    like = source.rows(0, 0)
    xp, device = compat.array_namespace(like), compat.device(like)
    tries = greedy_candidates(k) if candidates is None else check_count("candidates", candidates, 1)
    draws = uniforms(seed, k * tries + 1, xp=xp, device=device)
    if weights is not None:
        check_same_place(features=like, weights=weights)
        weights = check_weights("weights", weights, n)
    m = sample_rows(n, k)
    ids = (strided_ids(n, m, like) + int(float(draws[-1]) * n)) % n
    sample = source.take(ids)
    if metric == "cosine":
        sample = project_sphere(sample)
    own = None if weights is None else xp.take(weights, ids)
    if own is not None and not bool(xp.any(own > 0)):  # the sample has no weight
        own = None
    return kmeans_plus_plus(sample, xp.reshape(draws[:-1], (k, tries)), own, given=given)


def sample_rows(n: int, n_clusters: int) -> int:
    """Return how many of n rows k-means++ looks at.

    Examples
    --------
    >>> sample_rows(10**6, 10), sample_rows(10**6, 1000), sample_rows(500, 10)
    (4096, 32000, 500)
    """
    return min(n, max(FEWEST_SAMPLED, SAMPLE_PER_CLUSTER * n_clusters))


def power_of_two(largest: float, dtype: object, xp: Namespace) -> float:
    """Return the smallest power of two above a number; dividing by it loses no digit. 1 for 0.

    Examples
    --------
    >>> import numpy as np
    >>> [power_of_two(number, np.float32, np) for number in (3.0, 4.0, 0.0)]
    [4.0, 8.0, 1.0]
    """
    # Not so small that its inverse overflows. The exponent of 0 is 0.
    least = math.frexp(64.0 * float(xp.finfo(dtype).smallest_normal))[1]
    return math.ldexp(1.0, min(max(math.frexp(largest)[1], least), 1023))


def _squared_distances(
    features: Array, row: Array, inverse: float, known: tuple[Array, Array] | None = None
) -> Array:
    """Return squared distances to one row times ``inverse^2``, (n,) float64; exactly 0 if equal.

    `known` are such distances, and which of them are not to be relied on.
    """
    xp = compat.array_namespace(features)
    n, d = features.shape
    reads = on_host(features)  # on a device, nothing is read back
    rows = max(1, (CHUNK_ENTRIES if reads else DEVICE_CHUNK_ENTRIES) // max(d, 1))
    row = xp.astype(row, xp.float64) * inverse

    def of_chunk(first: int, last: int) -> Array:
        if known is not None and reads and not bool(xp.any(known[1][first:last])):
            return known[0][first:last]
        chunk = xp.astype(features[first:last, :], xp.float64)
        apart = (chunk if inverse == 1.0 else chunk * inverse) - row
        exact = xp.vecdot(apart, apart)
        return xp.where(known[1][first:last], exact, known[0][first:last]) if known else exact

    return xp.concat(list(map_blocks(of_chunk, n, rows, like=features)))
