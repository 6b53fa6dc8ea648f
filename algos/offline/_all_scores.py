r"""Every cluster a candidate: small problems, few clusters, and the optimum as a last resort.

Problem: with all n k scores as candidates nothing is left out, so the prices that paths leave prove
the optimum. Two ways lead there:

*In full* (`solve_in_time`): Newton's method and paths (`_reduced`) at a gap of 0, from prices given
and from 0. It finds the optimum, and with it the errors: no labels inside the bounds exist, or
float64 is too short.

*Few clusters* (`solve_few`). With ten clusters and ten thousand rows one product takes a
millisecond, and the fixed work of samples, trust regions and Newton's method ten times that. But a
graph of ten clusters is so small that shortest paths cost next to nothing, even where prices are
far off:

1. *Multiply* once, and keep all scores (`scores.statistics.kept_in_memory`).
2. *Learn* prices by online passes over some of the rows, unless there are prices; and repair what
   is far off: paths from there would be long, and rounded like the numbers on their way.
3. *Repair* the labels of these prices along augmenting paths. Only rows whose best cluster leads by
   less than a window may move; it grows until it does not matter.
4. *Prove* by the prices of the paths.

Forbidden pairs and scores out of range are left to the passes, which raise the errors.
Where paths have no engine, their text in Python is slower than the passes (`_reduced.is_small`).

=====================  =============  =======  ===================================================
symbol                 here           shape    meaning
=====================  =============  =======  ===================================================
:math:`s_{i,k}`        ``scores``     (n, k)   of all ranks: each of them solves the whole problem
:math:`\rho - \rho'`   ``prices``     (k,)     in units of score, float64
=====================  =============  =======  ===================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NoReturn

import array_api_compat as compat

from ..bounds.forbidden_pairs import check_feasible
from ..bounds.sizes import SizeBounds
from ..core.error_free import sum_of_differences
from ..core.errors import InvalidValueError
from ..core.types import Array
from ..scores.nearest import best_clusters
from ..scores.sources import Group, ScoreSource, score_source
from ..scores.statistics import allowed_pairs, check_range, score_range, strided_ids
from ._candidates import Candidates, TrustRegion, all_candidates
from ._online_prices import learn_prices
from ._options import DEFAULT_OPTIONS, SolverOptions
from ._proof import OfflineAssignment, best_of
from ._reduced import labels_by_paths, solve_reduced
from ._region_from_rows import optimal_shift, repair_prices
from ._smoothed_dual import RefinedPrices

__all__ = [
    "losses",
    "raise_no_labels",
    "raise_without_labels",
    "solve_few",
    "solve_in_time",
]

TEMPERATURE = 1.0 / 32.0
"""Error of the prices of few clusters, in ranges of scores."""

LEARNED_PART = 8
"""What part of all rows prices are learned on, at most."""


def losses(scores: Array, added: Array, labels: Array) -> tuple[Array, Array]:
    """Return what each row loses by its label where prices are added, and its own score.

    Scores are (m, k), and so is what is added; labels (m,). Both results are (m,) float64.

    Examples
    --------
    >>> import numpy as np
    >>> losses(np.asarray([[5.0, 4.0]]), np.asarray([[0.0, 3.0]]), np.asarray([0]))
    (array([2.]), array([5.]))
    """
    xp = compat.array_namespace(added)
    scores = xp.astype(scores, added.dtype)
    best = xp.argmax(scores + added, axis=1)
    (top, most), (own, paid) = (
        [xp.take_along_axis(part, place[:, None], axis=1)[:, 0] for part in (scores, added)]
        for place in (best, labels)
    )
    return xp.clip(sum_of_differences(top, own, most, paid), min=0.0), own


def solve_in_time(
    source: ScoreSource,
    bounds: SizeBounds,
    prices: Array | None,
    options: SolverOptions,
    is_over: Callable[[], bool],
    tol: float = 0.0,
) -> OfflineAssignment | None:
    """Return labels from all scores that prove the gap, unless the time is up before.

    Prices that leave a larger one are dropped: their rounding may hide what scores differ by. None
    where no labels were found.
    """
    xp, n = compat.array_namespace(bounds.lower), source.group.n_total
    candidates = all_candidates(source, like=bounds.lower)
    zero = xp.zeros(bounds.lower.shape, dtype=xp.float64, device=compat.device(bounds.lower))
    radius = xp.full_like(zero, 2.0 * score_range(candidates.values))
    starts, best = [zero], None
    if prices is not None and n:
        rows = source.take(strided_ids(n, min(n, options.typical_rows), prices))
        starts = [repair_prices(rows, optimal_shift(prices, bounds), bounds), zero]
    for start in starts:
        region = TrustRegion(start, radius)
        found = solve_reduced(candidates, bounds, region, tol, is_over=is_over, options=options)
        best = best_of(best, found.assignment)
        if best is not None and best.gap <= tol:
            break
    return None if best is None else best._replace(phase="all scores")


def solve_few(
    source: ScoreSource,
    bounds: SizeBounds,
    prices: Array | None,
    tol: float,
    options: SolverOptions = DEFAULT_OPTIONS,
    *,
    is_over: Callable[[], bool] = lambda: False,
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
    is_over : callable, optional
        Asked between paths: whether the time is up.

    Returns
    -------
    OfflineAssignment or None
        None for forbidden pairs, where the time is up, and wherever the paths find no proof.

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
    n_rows = min(options.typical_rows, scores.shape[0])
    rows = xp.take(scores, strided_ids(group.n_total, n_rows, bounds.lower), axis=0)
    if prices is None:  # step 2: learn
        m = min(options.min_sample_rows, max(1, group.n_total // LEARNED_PART))
        sample = xp.take(scores, strided_ids(group.n_total, m, bounds.lower), axis=0)
        prices = learn_prices(score_source(sample), bounds, options)
    prices = repair_prices(rows, optimal_shift(prices, bounds), bounds)
    candidates = _all_finite(scores, group, like=bounds.lower)
    start = RefinedPrices(prices, TEMPERATURE * score_range(rows))
    size = float(xp.sum(xp.abs(xp.astype(candidates.values[:, 0], xp.float64))))
    # Steps 3 and 4: repair and prove.
    assignment, _ = labels_by_paths(candidates, bounds, start, tol, size, options, is_over=is_over)
    if assignment is None or assignment.gap > tol:
        return None
    return assignment._replace(phase="few clusters")


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


def raise_no_labels(n_scores: int, options: SolverOptions) -> NoReturn:
    """Say that forbidden pairs leave no labels, or none that this much memory has found.

    Raises
    ------
    InvalidValueError
        Always, and on all ranks alike.
    """
    msg = (
        f"scores must leave labels that can be found within the memory of the options: forbidden "
        f"pairs let neither candidates nor online passes end inside the bounds, and {n_scores} "
        f"scores are more than options.last_entries={options.last_entries}, up to which all of "
        f"them are kept. To fix this, forbid fewer pairs, widen the bounds, or ask for the optimum "
        f"(tol=0), which keeps about {16 * n_scores / 2**30:.2g} GiB of candidates"
    )
    raise InvalidValueError(msg)


def raise_without_labels(source: ScoreSource, bounds: SizeBounds) -> NoReturn:
    """Say why all scores led to no labels: none exist, with the proof, or float64 is too short.

    Raises
    ------
    InfeasibleBoundsError, InvalidValueError
        One of them, on all ranks alike.
    """
    check_feasible(allowed_pairs(source), bounds.lower, bounds.upper)
    msg = (
        "scores differ too much for float64: no labels were found, although some are inside"
        ". To fix this, scale the scores down, or clip the smallest"
    )
    raise InvalidValueError(msg)
