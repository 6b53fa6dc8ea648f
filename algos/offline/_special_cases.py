"""Problems whose structure tells the labels or the prices: inactive bounds, and repeated rows.

Where bounds are inactive, the best cluster of each row is optimal, if ties are broken the right
way: augmenting paths at prices of 0 choose among the clusters that tie (`labels_without_prices`). A
few rows tell whether that can be so (`bounds_may_be_inactive`).

Where few rows are distinct, each ties between the clusters that share it out, and samples say
little about these ties (`region_of_distinct_rows`). But the problem is small: of m distinct rows,
row i of which occurs c_i times,

maximize ``sum_ik s_ik x_ik``  subject to  ``sum_k x_ik = c_i``,  ``l_k <= sum_i x_ik <= u_k``.

HiGHS solves it; its marginals are the prices, which labels of all rows then prove. Rows are told
apart by a key, a weighted sum of their scores. Should rows of one key differ, then the prices are a
poor start, and nothing else.
"""

from __future__ import annotations

from functools import reduce
from operator import add

import array_api_compat as compat

from ..bounds.sizes import SizeBounds
from ..core.random import uniforms
from ..core.reads import entries
from ..core.types import Array
from ..scores.sources import ScoreSource
from ..scores.statistics import map_taken, score_range, strided_ids
from ._augmenting_paths import augmenting_paths
from ._candidates import Candidates, TooManyCandidatesError, TrustRegion, collect_candidates
from ._options import DEFAULT_OPTIONS, SolverOptions
from ._proof import OfflineAssignment, proven
from ._region_from_rows import LEAST_RADIUS

__all__ = ["bounds_may_be_inactive", "labels_without_prices", "region_of_distinct_rows"]

FEW_ROWS, REPEATS = 2**8, 4
"""Rows that are asked whether rows repeat, and how often each of these has to, in the mean."""

DISTINCT_ENTRIES = 2**16
"""Scores of all distinct rows at most: HiGHS takes a tenth of a second for a third of them."""

KEY = 0x64697374
"""Seed of the weights of a key."""


def labels_without_prices(
    source: ScoreSource, bounds: SizeBounds, tol: float, options: SolverOptions
) -> OfflineAssignment | None:
    """Return the best labels of all if they, with ties broken the right way, prove the gap."""
    if not bounds_may_be_inactive(source, bounds, options=options):
        return None
    xp = compat.array_namespace(bounds.lower)
    zero = xp.zeros(bounds.lower.shape, dtype=xp.float64, device=compat.device(bounds.lower))
    width, most = options.pass_width, options.max_entries
    try:
        candidates = collect_candidates(source, zero, zero, width=width, max_entries=most)
    except TooManyCandidatesError:
        return None
    assignment = _by_ties(candidates, bounds, options)
    return assignment if assignment is not None and assignment.gap <= tol else None


def bounds_may_be_inactive(
    source: ScoreSource, bounds: SizeBounds, *, options: SolverOptions = DEFAULT_OPTIONS
) -> bool:
    """Tell from a few rows whether best clusters can be inside the bounds without prices.

    Parameters
    ----------
    source : ScoreSource
    bounds : SizeBounds of a known number of samples
    options : SolverOptions

    Returns
    -------
    bool
        True wherever bounds cannot bind.

    Examples
    --------
    >>> import numpy as np
    >>> from dualclust.algos.bounds.sizes import SizeBounds
    >>> from dualclust.algos.scores.sources import score_source
    >>> source = score_source(np.asarray([[1.0, 1.0], [1.0, 0.0]]))
    >>> bounds = [SizeBounds.from_counts(lower, n_samples=2) for lower in ([1, 1], [0, 2])]
    >>> [bounds_may_be_inactive(source, b) for b in bounds]  # a row that ties may go to either
    [True, False]
    """
    xp, n = compat.array_namespace(bounds.lower), source.group.n_total
    m = min(n, options.typical_rows)

    def counts(rows: Array) -> tuple[Array, Array]:
        best = xp.astype(rows == xp.max(rows, axis=1, keepdims=True), xp.int64)
        is_only = xp.where(xp.sum(best, axis=1, keepdims=True) == 1, best, xp.zeros_like(best))
        return xp.sum(best, axis=0), xp.sum(is_only, axis=0)

    parts = map_taken(counts, source, strided_ids(n, m, bounds.lower))
    at_most, at_least = (reduce(add, column) for column in zip(*parts, strict=True))
    return bool(xp.all((at_most * n >= bounds.lower * m) & (at_least * n <= bounds.upper * m)))


def _by_ties(
    candidates: Candidates, bounds: SizeBounds, options: SolverOptions
) -> OfflineAssignment | None:
    """Return labels for prices of 0, from the clusters that tie there, or None if none fit."""
    zero = compat.array_namespace(bounds.lower).zeros_like(candidates.low)
    slots, *_, is_stuck = augmenting_paths(
        candidates.values,
        candidates.clusters,
        zero,
        lower=bounds.lower - candidates.fixed_counts,
        upper=bounds.upper - candidates.fixed_counts,
        window=0.0,
    )
    if is_stuck:
        return None
    return proven(candidates, slots, zero, bounds, 0.0, options)[0]._replace(phase="ties")


def region_of_distinct_rows(source: ScoreSource, bounds: SizeBounds) -> TrustRegion | None:
    """Return a small region around the best prices, if few rows of one rank are distinct.

    Parameters
    ----------
    source : ScoreSource
    bounds : SizeBounds of a known number of samples

    Returns
    -------
    TrustRegion or None
        None where rows forbid a pair, as well.

    Notes
    -----
    Cost: O(n k) for the keys, if a few rows repeat; else O(1).

    Examples
    --------
    >>> import numpy as np
    >>> from dualclust.algos.scores.sources import score_source
    >>> source = score_source(np.asarray([[1.0, 0.0]] * 8 + [[0.0, 0.25]] * 8))
    >>> bounds = SizeBounds.from_counts([6, 6], [10, 10], n_samples=16)
    >>> region_of_distinct_rows(source, bounds).center
    array([0., 0.])
    """
    xp, n, k = compat.array_namespace(bounds.lower), source.group.n_total, source.n_clusters
    if not source.group.is_alone:
        return None
    device = compat.device(bounds.lower)
    weights = uniforms(KEY, k, xp=xp, device=device)

    def keys(rows: Array) -> Array:
        return xp.sum(xp.astype(rows, xp.float64) * weights, axis=1)

    few = min(n, FEW_ROWS)
    ids, _ = _distinct(keys(source.take(strided_ids(n, few, weights))))
    if ids.shape[0] * REPEATS > few:
        return None
    blocks = source.map_blocks(lambda a, b: keys(source.block(a, b)), like=weights)
    ids, repeats = _distinct(xp.concat(list(blocks)))
    if ids.shape[0] * k > DISTINCT_ENTRIES:
        return None
    scores = xp.astype(source.take(ids), xp.float64)
    if not bool(xp.all(xp.isfinite(scores))):
        return None
    found = _marginals(scores, repeats, bounds)
    if found is None:
        return None
    prices = xp.asarray(found, dtype=xp.float64, device=device)
    return TrustRegion(prices, xp.full_like(prices, LEAST_RADIUS * score_range(scores)))


def _distinct(keys: Array) -> tuple[Array, Array]:
    """The first row of each key in ascending order, and how many there are, (m,) int64 each."""
    xp = compat.array_namespace(keys)
    order = xp.argsort(keys, stable=True)
    rising = xp.take(keys, order)
    is_new = xp.concat([xp.ones_like(order[:1]), xp.astype(rising[1:] != rising[:-1], xp.int64)])
    first = xp.argsort(is_new, descending=True, stable=True)[: int(xp.sum(is_new))]
    after = xp.concat([first[1:], xp.full_like(first[:1], keys.shape[0])])
    return xp.take(order, first), after - first


def _marginals(scores: Array, repeats: Array, bounds: SizeBounds) -> list[float] | None:
    """Prices by the linear program; None if HiGHS finds none."""
    from scipy import sparse
    from scipy.optimize import linprog

    m, k = scores.shape
    flat = compat.array_namespace(scores).reshape(-scores, (-1,))
    of_rows = sparse.kron(sparse.eye_array(m), [[1.0] * k])
    of_clusters = sparse.kron([[1.0] * m], sparse.eye_array(k))
    lower, upper = (entries("bounds", v) for v in (bounds.lower, bounds.upper))
    found = linprog(
        entries("scores", flat),
        A_ub=sparse.vstack([of_clusters, -of_clusters], format="csr"),
        b_ub=[*upper, *(-v for v in lower)],
        A_eq=of_rows.tocsr(),
        b_eq=entries("repeats", repeats),
        method="highs-ds",
    )
    if found.status != 0:
        return None
    full, empty = found.ineqlin.marginals[:k], found.ineqlin.marginals[k:]
    return [float(a - b) for a, b in zip(full, empty, strict=True)]
