r"""Few clusters and not too many rows: every cluster is a candidate, and no sample is solved first.

Problem: with ten clusters and ten thousand rows one product takes a millisecond, and the fixed work
of samples, trust regions and Newton's method ten times that. But a graph of ten clusters is so
small that shortest paths cost next to nothing, even where prices are far off. So:

1. *Multiply* once, and keep all scores (`scores.statistics.kept_in_memory`).
2. *Learn* prices by two online passes over some of the rows, unless there are prices; and bring
   near what is far off: paths from there would be long, and rounded like the numbers on their way.
3. *Repair* the labels of these prices along augmenting paths, with all clusters as candidates. Only
   rows whose best cluster leads by less than a window may move; it grows until it does not matter.
4. *Prove*: nothing has been left out, so the prices of the paths prove the optimum.

Forbidden pairs and scores out of range are left to the general text, which has words for them.
Where paths have no engine, their text in Python is slower than the passes (`_reduced.are_few`).

=====================  =============  =======  ===================================================
symbol                 here           shape    meaning
=====================  =============  =======  ===================================================
:math:`s_{i,k}`        ``scores``     (n, k)   of all ranks: each of them solves the whole problem
:math:`\rho - \rho'`   ``prices``     (k,)     in units of score, float64
=====================  =============  =======  ===================================================
"""

from __future__ import annotations

import math
from dataclasses import replace

import array_api_compat as compat

from ..bounds.sizes import SizeBounds
from ..core.types import Array
from ..online.assignment import relaxed
from ..scores.nearest import best_clusters
from ..scores.sources import Group, ScoreSource, score_source
from ..scores.statistics import check_range, score_range, strided_ids
from ._candidates import Candidates
from ._online_passes import learn_prices
from ._options import DEFAULT_OPTIONS, SolverOptions
from ._proof import OfflineAssignment
from ._reduced import labels_by_paths
from ._region_from_rows import brought_near, shifted_together
from ._smoothed_dual import RefinedPrices

__all__ = ["solve_few"]


def solve_few(
    source: ScoreSource,
    bounds: SizeBounds,
    prices: Array | None,
    tol: float,
    options: SolverOptions = DEFAULT_OPTIONS,
) -> OfflineAssignment | None:
    """Return the best labels of all rows, if all scores are finite and in range.

    Parameters
    ----------
    source : ScoreSource
        Of `scores.statistics.kept_in_memory`: all rows are taken from what each rank has gathered.
    bounds : SizeBounds of a known number of samples
    prices : (k,) float64 array, optional
        Where to start, instead of online passes.
    tol : float
        Relative gap at which larger windows are not tried.
    options : SolverOptions

    Returns
    -------
    OfflineAssignment or None
        None for forbidden pairs, and wherever the paths find no proof.

    Notes
    -----
    Cost: O(n k) for everything but the paths, O(k^2) for each row that the prices have misplaced.
    Memory: all n k scores, as candidates, on every rank.

    Examples
    --------
    >>> import numpy as np
    >>> from dualclust.algos.bounds.sizes import SizeBounds
    >>> from dualclust.algos.scores.sources import score_source
    >>> source = score_source(np.asarray([[0.9, 0.1], [0.8, 0.1], [0.6, 0.5]]))
    >>> bounds = SizeBounds.from_counts([1, 1], n_samples=3)
    >>> found = solve_few(source, bounds, None, 0.0)
    >>> found.labels, found.status
    (array([0, 0, 1]), 'optimal')
    """
    xp, group = compat.array_namespace(bounds.lower), source.group
    ids = xp.arange(group.n_total, dtype=xp.int64, device=compat.device(bounds.lower))
    scores = source.take(ids)
    if not bool(xp.all(xp.isfinite(scores))) or not check_range(scores):
        return None
    if prices is None:
        prices = _learned(scores, bounds, options)  # step 2: learn
    else:
        rows = _some(scores, options.few_rows, like=prices)
        prices = brought_near(rows, shifted_together(prices, bounds), bounds)
    candidates = _all_finite(scores, group, like=bounds.lower)
    window = options.few_window * score_range(scores[: min(scores.shape[0], options.few_rows), :])
    start = RefinedPrices(prices, window / options.window)
    size = float(xp.sum(xp.abs(xp.astype(candidates.values[:, 0], xp.float64))))
    # Steps 3 and 4: repair and prove.
    assignment, _ = labels_by_paths(candidates, bounds, start, tol, size, options)
    if assignment is None or assignment.gap > tol:
        return None
    return assignment._replace(phase="few clusters")


def _learned(scores: Array, bounds: SizeBounds, options: SolverOptions) -> Array:
    """Prices by online passes over rows from all over the data, with no cluster thrown far off."""
    xp, n = compat.array_namespace(bounds.lower), scores.shape[0]
    options = replace(options, range_rows=options.few_rows)
    m = min(options.min_sample_rows, max(1, n // options.sample_part))
    rows = _some(scores, m, like=bounds.lower)
    free = relaxed(bounds)._replace(upper=xp.full_like(bounds.upper, m), n_samples=m)
    prices = learn_prices(score_source(rows), free, n_passes=options.few_passes, options=options)
    return brought_near(rows[: min(m, options.few_rows), :], prices, bounds)


def _some(scores: Array, m: int, *, like: Array) -> Array:
    """As many as m rows from all over the data."""
    xp, n = compat.array_namespace(like), scores.shape[0]
    return xp.take(scores, strided_ids(n, min(n, m), like), axis=0)


def _all_finite(scores: Array, group: Group, *, like: Array) -> Candidates:
    """All clusters as candidates of finite rows; the best one changes places with the first.

    `all_candidates` sorts, because forbidden pairs have to come last; here order has no meaning.
    """
    xp, (_, k) = compat.array_namespace(like), scores.shape
    device = compat.device(like)
    best, _ = best_clusters(scores, xp.zeros((k,), dtype=scores.dtype, device=device))
    # Row a of the table has a and 0 exchanged: rows of it are faster to take than to compare.
    names = xp.arange(k, dtype=xp.int64, device=device)
    table = xp.where(names == names[:, None], xp.zeros_like(names), names)
    table = xp.concat([names[:, None], table[:, 1:]], axis=1)
    first = xp.arange(scores.shape[0], dtype=xp.int64, device=device)[:, None] * k
    places = xp.reshape(first + xp.take(table, best, axis=0), (-1,))
    unlimited = xp.full((k,), math.inf, dtype=xp.float64, device=device)
    labels = xp.zeros((group.n_local,), dtype=xp.int32, device=device)
    return Candidates(
        labels=labels,
        is_free=labels == 0,
        first_free=group.first_row,
        clusters=xp.take(xp.astype(table, xp.int32), best, axis=0),
        values=xp.reshape(xp.take(xp.reshape(scores, (-1,)), places), scores.shape),
        truncation=xp.full((scores.shape[0],), -math.inf, dtype=xp.float64, device=device),
        fixed_counts=xp.zeros((k,), dtype=xp.int64, device=device),
        fixed_value=0.0,
        fixed_size=0.0,
        low=-unlimited,
        high=unlimited,
    )
