r"""k-means whose clusters keep their sizes between bounds, on the sphere or in Euclidean space.

Problem: for features ``x_i`` find labels and centers that

maximize ``sum_i s_{i, y_i}``   subject to   ``l_k <= n_k <= u_k``               (CoKe Eq. 3 and 6)

with ``s_ik = x_i . c_k`` for unit features and unit centers ("cosine"), or, for squared distance
("euclidean"), ``s_ik = x_i . c_k - ||c_k||^2 / 2`` with the mean of all features as the origin; the
objective is then half of what the squared distances to the centers leave of those to the mean.

Method: alternation. Labels for fixed centers by the online assignment, in one pass over the samples
with the prices of the pass before (`offline.learn_prices`); centers for fixed labels as directions
of sums (CoKe Eq. 12), or as means. Bounds are enforced at the end, for the final centers. Each pass
needs one block of scores at a time, never all n k, unless the final labels are to be exact.

==============  ============  =======  =====================================
paper           here          shape    meaning
==============  ============  =======  =====================================
:math:`x_i`     ``features``  (n, d)   unit vectors, or points
:math:`c_k`     ``centers``   (k, d)   unit vectors, or points
:math:`\mu_i`   ``labels``    (n,)     cluster of each sample
==============  ============  =======  =====================================
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import array_api_compat as compat

from ._typing import Array
from .assignment import init_state
from .bounds import SizeBounds
from .centers import CenterSums, add_to_sums, init_sums, mean_centers, mean_points
from .checks import (
    check_choice,
    check_count,
    check_finite,
    check_interval,
    check_real,
    check_same_place,
    check_shape,
)
from .errors import InvalidValueError
from .metrics import churn
from .offline import BLOCK_ENTRIES, OfflineAssignment, finish, learn_prices
from .transport import assign_exact

__all__ = ["KMeansResult", "constrained_kmeans", "kmeans_plus_plus"]

MIN_PASSES = 8  # that learn prices, whatever the number of center updates


class KMeansResult(NamedTuple):
    """Result of `constrained_kmeans`.

    Attributes
    ----------
    centers : (k, d) array
        Unit rows, or means.
    assignment : OfflineAssignment
        Labels of all samples for these centers, sizes, and what certifies them.
    n_iter : int
        Passes with a center update.
    converged : bool
        Whether the last update changed at most the share `tolerance` of the labels.
    """

    centers: Array
    assignment: OfflineAssignment
    n_iter: int
    converged: bool


def constrained_kmeans(
    features: Array,
    bounds: SizeBounds,
    centers: Array,
    *,
    metric: str = "cosine",
    n_iter: int = 20,
    tolerance: float = 1e-3,
    exact: bool = False,
    progress: Callable[[int, float], None] | None = None,
) -> KMeansResult:
    """Cluster features so that every cluster size lies between its bounds.

    Parameters
    ----------
    features : (n, d) real array
        Finite, float32 or float64; unit rows for "cosine"; n = ``bounds.n_samples``.
    bounds : SizeBounds
        On the library and device of `features`.
    centers : (k, d) array
        Rows to start from, of the dtype of `features`, unit rows for "cosine"; see
        `kmeans_plus_plus`.
    metric : {"cosine", "euclidean"}
    n_iter : int
        Most center updates, >= 0; 0 only assigns to the centers given.
    tolerance : float in [0, 1]
        Stop once at most this share of the labels changed.
    exact : bool
        Whether the final labels are the best ones for the final centers (`transport`), which holds
        all n k scores and takes longer, or near-optimal ones (`offline`).
    progress : callable, optional
        Called as ``progress(pass, churn)`` after each pass.

    Returns
    -------
    KMeansResult

    Raises
    ------
    InvalidValueError, InvalidTypeError, DeviceMismatchError
        As `assign` and `add_to_sums` do.

    Notes
    -----
    Guarantee: ``lower <= counts <= upper``, for any data and order of rows.
    Cost: O(n k d) per pass; memory O(n + k d) beyond the features, and a copy of them for
    "euclidean", and n k scores where `exact`.
    Source: CoKe Eq. 3, 6, 10 to 13, made batch by repeated passes with warm duals.

    Examples
    --------
    >>> import numpy as np
    >>> from dualclust.algos.bounds import from_ratios
    >>> x = np.asarray([[1.0, 0.0], [0.8, 0.6], [0.6, 0.8], [0.0, 1.0]])
    >>> result = constrained_kmeans(x, from_ratios(2, n_samples=4, lower=1.0), x[:2])
    >>> result.assignment.state.counts
    array([2, 2])
    """
    check_real("features", features)
    _, d = check_shape("features", features, (bounds.n_samples or "n", "d"))
    check_shape("centers", centers, (bounds.n_clusters, d))
    check_same_place(features=features, centers=centers, bounds=bounds.lower)
    check_finite("features", features)
    check_choice("metric", metric, ("cosine", "euclidean"))
    check_count("n_iter", n_iter, 0)
    check_interval("tolerance", tolerance, 0.0, 1.0)
    if bounds.n_samples is None:
        msg = "bounds must be of a known number of samples, got those of a stream"
        raise InvalidValueError(msg)

    xp = compat.array_namespace(features)

    euclidean = metric == "euclidean"
    origin = xp.mean(features, axis=0) if euclidean else xp.zeros_like(centers[0, :])
    if euclidean:  # far from the origin, scores would lose their digits
        features, centers = features - origin, centers - origin
    # Sums of entries in [-1, 1] are exact; on the sphere they are that already.
    unit = (float(xp.max(xp.abs(features))) or 1.0) if euclidean else 1.0

    def scores_of(rows: Array) -> Array:
        product = xp.matmul(rows, centers.T)
        return product - 0.5 * xp.sum(centers * centers, axis=1) if euclidean else product

    def score_rows(ids: Array) -> Array:
        return scores_of(xp.take(features, ids, axis=0))

    labels, state = learn_prices(score_rows, bounds, init_state(bounds), epoch=0)
    converged, done = False, 0
    while done < n_iter and not converged:
        sums = _sums(features, labels, centers, unit)
        centers = (
            mean_points(sums, centers, scale=unit) if euclidean else mean_centers(sums, centers)
        )
        previous, done = labels, done + 1
        labels, state = learn_prices(score_rows, bounds, state, epoch=done)
        changed = churn(labels, previous)
        converged = changed <= tolerance
        if progress is not None:
            progress(done, changed)
    for epoch in range(done + 1, max(done + 2, MIN_PASSES)):
        _, state = learn_prices(score_rows, bounds, state, epoch=epoch)
    if exact:
        prices = state.duals.lower - state.duals.upper
        found = assign_exact(scores_of(features), bounds, prices=prices)
    else:
        found = finish(score_rows, bounds, state)
    return KMeansResult(centers + origin, found, done, converged)


def kmeans_plus_plus(features: Array, uniforms: Array) -> Array:
    """Spread-out starting centers: rows drawn with probability proportional to squared distance.

    The first is drawn uniformly; each further one with probability proportional to the squared
    distance to the nearest center so far (on the sphere, twice one minus the cosine).

    Parameters
    ----------
    features : (n, d) real array
    uniforms : (k,) float64 array
        Independent draws from [0, 1), one per center: the only randomness, so that equal draws
        give equal centers on every library.

    Returns
    -------
    centers : (k, d) array
        Rows of `features`.

    Raises
    ------
    InvalidValueError
        If there are fewer rows than centers.

    Notes
    -----
    Cost O(n k d). Where all rows coincide with a center, the remaining draws are uniform.
    """
    xp = check_real("features", features)
    n, _ = check_shape("features", features, ("n", "d"))
    (k,) = check_shape("uniforms", uniforms, ("k",))
    check_same_place(features=features, uniforms=uniforms)
    check_finite("features", features)
    if not bool(xp.all((uniforms >= 0) & (uniforms < 1))):
        msg = "uniforms must lie in [0, 1), got one outside or NaN"
        raise InvalidValueError(msg)
    if n < k:
        msg = f"features must have at least one row per center, got {n} rows for k={k}"
        raise InvalidValueError(msg)
    weight = xp.ones((n,), dtype=xp.float64, device=compat.device(features))
    nearest = math.inf * weight
    chosen = []
    for j in range(k):
        running = xp.cumulative_sum(weight)
        target = uniforms[j : j + 1] * running[-1]
        i = min(int(xp.searchsorted(running, target, side="right")[0]), n - 1)
        chosen.append(features[i, :])
        offset = xp.astype(features - features[i, :], xp.float64)
        nearest = xp.minimum(nearest, xp.sum(offset * offset, axis=1))
        weight = xp.where(xp.any(nearest > 0), nearest, xp.ones_like(nearest))
    return xp.stack(chosen)


def _sums(features: Array, labels: Array, centers: Array, unit: float) -> CenterSums:
    xp = compat.array_namespace(features)
    sums = init_sums(*centers.shape, xp=xp, device=compat.device(features))
    n, d = features.shape
    rows = max(1, BLOCK_ENTRIES // d)
    for i in range(0, n, rows):
        last = min(i + rows, n)
        block = features[i:last, :] if unit == 1.0 else features[i:last, :] / unit
        sums = add_to_sums(sums, block, labels[i:last])
    return sums
