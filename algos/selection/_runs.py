r"""Clusterings of a sample in memory: of all its rows, and of two halves to see what repeats.

Problem: how far may one trust k clusters of a sample? Two disjoint halves of it are independent
samples of the data. Both are clustered, and both clusterings label all rows of the sample by their
centers (and prices). *Stability* is the agreement of these labels, corrected for chance
(`agreement`): 1 where the data decide the clusters, near 0 where the draw does. Several splits give
its standard error.

Stability is a property of labels *and* algorithm: k-means that ends in another optimum on each half
is unstable too. Every run therefore is the best of several starts, and the sample as a whole also
starts from the best centers of a half.

=====================  =============  ========  ===================================================
symbol                 here           shape     meaning
=====================  =============  ========  ===================================================
:math:`x_i`            ``rows``       (m, d)    of the sample; unit rows for "cosine"
\-                     ``shares``     pair      bounds in units of m / k, rounded outward, or None
=====================  =============  ========  ===================================================
"""

from __future__ import annotations

import math
from typing import NamedTuple

import array_api_compat as compat

from ..bounds.sizes import SizeBounds
from ..clustering.constrained import constrained_kmeans
from ..clustering.lloyd import KMeansResult, best_of, kmeans
from ..clustering.start import start_centers
from ..core.random import uniforms
from ..core.reads import read
from ..core.types import Array
from ..scores.blocks import block_rows, row_blocks
from ..scores.nearest import best_clusters
from ..scores.sources import feature_source
from .agreement import adjusted_rand_index

__all__ = ["FREE", "Run", "Shares", "bounds_of", "halves", "label_rows", "runs_of", "stabilities"]

Shares = tuple[float, float]
FREE: Shares = (0.0, math.inf)

MAX_ITER, TOL = 50, 1e-3
"""Where k-means of a sample stops; with bounds after `constrained_kmeans`'s own number of updates.
Its labels differ from those of a later stop by less than those of two halves from each other."""


class Run(NamedTuple):
    """A clustering of a sample.

    Attributes
    ----------
    centers : (k, d) array
    prices : (k,) float64 array, or None without bounds
    labels : (m,) int64 array
    lost : float
        What labels inside the bounds can be worth more, at most, for these centers: proven, in
        units of score. 0 without bounds.
    gap : float
        The same relative to the objective, as in `OfflineAssignment`.
    """

    centers: Array
    prices: Array | None
    labels: Array
    lost: float
    gap: float


def bounds_of(shares: Shares, k: int, n: int, like: Array) -> SizeBounds:
    """Return bounds of n samples and k clusters, on the library and device of an array."""
    return SizeBounds.from_ratios(
        k,
        n_samples=n,
        lower=shares[0],
        upper=shares[1],
        xp=compat.array_namespace(like),
        device=compat.device(like),
    )


def runs_of(
    rows: Array,
    k: int,
    shares: tuple[Shares, ...],
    *,
    metric: str,
    seed: int,
    n_init: int,
    centers: Array | None = None,
) -> list[Run]:
    """Cluster rows without bounds (the best of several starts), then from there with each bounds.

    Parameters
    ----------
    rows : (m, d) array
        At least k.
    k : int >= 1
    shares : tuple of pairs
        `FREE` first.
    metric : {"cosine", "euclidean"}
    seed, n_init : int
        The starts have the seeds ``seed ... seed + n_init - 1``.
    centers : (k, d) array, optional
        One start more.

    Returns
    -------
    list of Run, one for each pair
    """
    source = feature_source(rows)

    def lloyd(centers: Array) -> KMeansResult:
        return kmeans(rows, centers, metric=metric, max_iter=MAX_ITER, tol=TOL)

    def run(start: int) -> KMeansResult:
        return lloyd(start_centers(source, k, seed=start, metric=metric))

    free = best_of(run, range(seed, seed + n_init))
    if centers is not None:
        other = lloyd(centers)
        free = other if other.objective > free.objective else free
    runs = []
    for pair in shares[1:]:
        bounds = bounds_of(pair, k, rows.shape[0], rows)
        bound = constrained_kmeans(rows, bounds, free.centers, metric=metric, tol=TOL)
        found = bound.assignment
        lost = found.upper_bound - found.objective
        runs.append(Run(bound.centers, found.prices, found.labels, lost, found.gap))
        if bound.objective > free.objective:  # bounds have led out of a local optimum
            free = lloyd(bound.centers)
    return [Run(free.centers, None, free.labels, 0.0, 0.0), *runs]


def label_rows(rows: Array, run: Run, *, metric: str) -> tuple[Array, float]:
    """Return the clusters of the largest score plus price, (m,) int64, and the sum of these.

    Ties go to the lowest cluster.
    """
    xp, centers, offsets = compat.array_namespace(rows), run.centers, None
    if metric != "cosine":
        offsets = -0.5 * xp.sum(centers * centers, axis=1)
    parts, values = [], []
    for start, stop in row_blocks(rows.shape[0], block_rows(int(centers.shape[0]), like=centers)):
        scores = xp.matmul(rows[start:stop, :], centers.T)
        scores = scores if offsets is None else scores + offsets
        added = xp.zeros_like(scores[0, :])
        if run.prices is not None:
            scores, added = xp.astype(scores, xp.float64), run.prices
        labels, best = best_clusters(scores, added)
        parts.append(labels)
        values.append(xp.sum(xp.astype(best, xp.float64)))
    return xp.concat(parts), math.fsum(read(*values))


def halves(m: int, seed: int, like: Array) -> tuple[Array, Array]:
    """Return the ids of two disjoint random halves of m rows, of equal length."""
    xp = compat.array_namespace(like)
    order = xp.argsort(uniforms(seed, m, xp=xp, device=compat.device(like)), stable=True)
    order = xp.astype(order, xp.int64)
    return order[: m // 2], order[m // 2 : m // 2 * 2]


def stabilities(
    rows: Array,
    k: int,
    shares: tuple[Shares, ...],
    splits: list[tuple[Array, Array]],
    *,
    metric: str,
    seed: int,
    n_init: int,
) -> tuple[list[list[float]], Array]:
    """Return for each bounds and split how well the clusterings of two halves agree on all rows.

    And the centers without bounds of the half that suit all rows best: a start for these.

    Parameters
    ----------
    rows, k, shares, metric, seed, n_init
        As in `runs_of`.
    splits : list of pairs of (m // 2,) int64 arrays
        `halves`: the same for all k, so that values of different k differ by k alone.

    Notes
    -----
    Cost: ``2 n_init`` runs without bounds for each split, and two for each bounds, of m / 2 rows.
    """
    xp = compat.array_namespace(rows)
    found: list[list[float]] = [[] for _ in shares]
    best, centers = -math.inf, rows[:k, :]
    for split in splits:
        pair = []
        for half in split:
            part = xp.take(rows, half, axis=0)
            runs = runs_of(part, k, shares, metric=metric, seed=seed, n_init=n_init)
            labeled = [label_rows(rows, run, metric=metric) for run in runs]
            pair.append([labels for labels, _ in labeled])
            if labeled[0][1] > best:
                best, centers = labeled[0][1], runs[0].centers
        for values, one, other in zip(found, *pair, strict=True):
            values.append(adjusted_rand_index(one, other, k))
    return found, centers
