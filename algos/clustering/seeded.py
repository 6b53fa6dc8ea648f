r"""Starting centers where the cluster of some rows is known: their means, then k-means++.

Seeded k-means (Basu, Banerjee and Mooney, ICML 2002): cluster k begins at the mean of the rows that
are known to be of it, or at their direction. Clusters without such a row begin at rows drawn by
greedy k-means++, which keeps away from the means as it does from rows drawn before.

=====================  =============  =======  ====================================================
symbol                 here           shape    meaning
=====================  =============  =======  ====================================================
:math:`f_i`            ``fixed``      (n,)     cluster of row i, of all rows of all ranks; -1: free
:math:`w_i`            ``weights``    (n,)     optional
:math:`c_k`            ``centers``    (k, d)   mean of ``f_i = k``, or a row
=====================  =============  =======  ====================================================
"""

from __future__ import annotations

import itertools

import array_api_compat as compat

from ..core.checks import check_choice, check_count, check_kind, check_same_place
from ..core.reads import entries, read
from ..core.types import Array
from ..scores.sources import FeatureSource
from ._cluster_sums import best_centers, gathered_sums
from ._frame import frame_of
from ._restrictions import check_fixed
from .start import METRICS, start_centers

__all__ = ["fixed_means", "seeded_centers"]


def seeded_centers(
    source: FeatureSource,
    n_clusters: int,
    *,
    fixed: Array | None,
    seed: int,
    metric: str,
    weights: Array | None = None,
    candidates: int | None = None,
) -> Array:
    """Start clusters with fixed rows at the mean of these, the others by greedy k-means++.

    Parameters
    ----------
    source : FeatureSource
        Of at least one row per cluster; unit rows for "cosine".
    n_clusters : int >= 1
    fixed : (n,) int64 array, or None
        The cluster of each row of all ranks that is known, and -1 for a free row.
    seed, metric, weights, candidates
        As in `start_centers`, which this is without fixed rows.

    Returns
    -------
    centers : (k, d) array
        The same on every rank. A cluster whose fixed rows have weight 0, or cancel on the sphere,
        starts like one without fixed rows.

    Raises
    ------
    InvalidValueError, InvalidTypeError, DeviceMismatchError
        As `constrained_kmeans` for `fixed`, and as `start_centers`.

    Notes
    -----
    Cost: two passes over the rows ("euclidean": three), and that of `start_centers`.

    Examples
    --------
    >>> import numpy as np
    >>> from dualclust.algos.scores.sources import feature_source
    >>> x = np.asarray([[0.0], [1.0], [9.0], [9.0]])
    >>> known = np.asarray([-1, -1, 1, 1])
    >>> seeded_centers(feature_source(x), 2, fixed=known, seed=0, metric="euclidean")[1]
    array([9.])
    """
    k = check_count("n_clusters", n_clusters, 1)
    if fixed is None:
        return start_centers(
            source, k, seed=seed, metric=metric, weights=weights, candidates=candidates
        )
    means, known = fixed_means(source, k, fixed=fixed, metric=metric, weights=weights)
    xp, device = compat.array_namespace(means), compat.device(means)
    is_known = entries("known", xp.astype(known, xp.int64))
    with_rows = [j for j in range(k) if is_known[j]]
    if len(with_rows) == k:
        return means
    given = xp.take(means, xp.asarray(with_rows, dtype=xp.int64, device=device), axis=0)
    drawn = start_centers(
        source,
        k - len(with_rows),
        seed=seed,
        metric=metric,
        weights=_of_free_rows(fixed, weights),
        candidates=candidates,
        given=given,
    )
    left = itertools.count(k)
    index = [j if is_known[j] else next(left) for j in range(k)]
    index = xp.asarray(index, dtype=xp.int64, device=device)
    return xp.take(xp.concat([means, drawn]), index, axis=0)


def fixed_means(
    source: FeatureSource,
    n_clusters: int,
    *,
    fixed: Array,
    metric: str,
    weights: Array | None = None,
) -> tuple[Array, Array]:
    """Return the means, or directions, of the rows fixed in each cluster, and which have one.

    Parameters
    ----------
    source, n_clusters, fixed, metric, weights
        As in `seeded_centers`.

    Returns
    -------
    means : (k, d) array
        0 where there is none.
    known : (k,) bool array
        Whether a cluster has fixed rows of positive weight which, on the sphere, do not cancel.
    """
    check_kind("source", source, FeatureSource, "pass feature_source(features)")
    check_choice("metric", metric, METRICS)
    like = source.rows(0, 0)
    check_same_place(features=like, fixed=fixed)  # `frame_of` looks at the weights
    group, k = source.group, n_clusters
    fixed = check_fixed("fixed", fixed, group.n_total, k)
    frame = frame_of(source, metric, weights)
    xp = compat.array_namespace(fixed)
    counted = fixed if frame.weights is None else xp.where(frame.weights > 0.0, fixed, -1)
    # Free rows are added up, too, as a cluster beyond the last one.
    labels = xp.where(counted < 0, xp.full_like(fixed, k), counted)
    sums = gathered_sums(frame, group.own(labels), k + 1)
    zero = xp.zeros((k + 1, source.n_features), dtype=like.dtype, device=compat.device(like))
    means = best_centers(frame, sums, zero)[:k, :]
    known = sums.counts[:k] > 0
    return means, known & xp.any(means != 0, axis=1) if frame.spherical else known


def _of_free_rows(fixed: Array, weights: Array | None) -> Array | None:
    """Return weights that are 0 for fixed rows, which no other cluster can have as its center."""
    xp = compat.array_namespace(fixed)
    free = xp.astype(fixed < 0, xp.float64)
    free = free if weights is None else free * xp.astype(weights, xp.float64)
    (some,) = read(xp.any(free > 0.0))
    return free if some else weights
