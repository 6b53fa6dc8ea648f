r"""Assignment with all samples at hand: labels inside the bounds, and a proof of how good they are.

Problem (CoKe Eq. 6 with both bounds), for scores in memory or multiplied a block at a time:

maximize ``sum_i s_{i, y_i}``   subject to   ``l_k <= n_k <= u_k``.

The method is Algorithm 1 of docs/math/assignment.md, whose lines the comments name:

* lines 1 to 3: small problems, labels that need no price, few clusters (`_last_resort`, `_ties`,
  `_few_clusters`);
* line 4: prices learned on samples, and how far they can be off (`_trust_region`);
* lines 5 to 14: candidates of a pass over all rows (`_candidates`), Newton's method, paths and the
  proof on these (`_reduced`), and the next region, until the gap is proven;
* lines 15 and 16: labels of online passes, or the optimum from all scores (`_last_resort`).

=====================  ===============  =======  =================================================
paper                  here             shape    meaning
=====================  ===============  =======  =================================================
:math:`s_{i,k}`        ``scores``       (n, k)   or a `ScoreSource`; minus infinity forbids a pair
:math:`\rho - \rho'`   ``prices``       (k,)     in units of score, float64
:math:`D(\pi)`         ``upper_bound``  ()       no labels inside the bounds are worth more
=====================  ===============  =======  =================================================
"""

from __future__ import annotations

from dataclasses import replace

import array_api_compat as compat

from ..bounds.sizes import SizeBounds, check_bounds
from ..core.checks import (
    check_interval,
    check_per_cluster,
    check_real,
    check_same_place,
    check_shape,
)
from ..core.errors import InvalidValueError
from ..core.types import Array
from ..scores.deadline import Deadline, deadline_of
from ..scores.sources import ScoreSource, score_source
from ..scores.statistics import (
    ScoresOutOfRangeError,
    in_range,
    kept_in_memory,
    rescaled,
    strided_ids,
)
from ._candidates import (
    TooManyCandidatesError,
    TrustRegion,
    collect_candidates,
    next_region,
)
from ._last_resort import last_resort, solve_in_full
from ._options import DEFAULT_OPTIONS, SolverOptions
from ._proof import OfflineAssignment, in_unit
from ._reduced import are_few, solve_reduced
from ._region_from_rows import usable_prices, within_memory
from ._search import (
    FROM_PASS,
    Problem,
    Search,
    best_of,
    extrapolated,
    reach_in_unit,
    started,
    without_passes,
)
from ._ties import tied_share

__all__ = ["OfflineAssignment", "assign_exact", "assign_offline", "assign_source"]

PATIENCE = 8
"""Passes that have to lower the least bound by half of the tolerance, where no other end is left
than their labels or those of online passes."""


def assign_offline(
    scores: Array,
    bounds: SizeBounds,
    *,
    prices: Array | None = None,
    reach: Array | None = None,
    weights: Array | None = None,
    tol: float = 1e-4,
    time_limit: float | Deadline | None = None,
    options: SolverOptions = DEFAULT_OPTIONS,
) -> OfflineAssignment:
    """Label a matrix of scores, every cluster size inside its bounds, to a proven gap.

    Parameters
    ----------
    scores : (n, k) real array
        Finite, or minus infinity where a sample must not go; n = ``bounds.n_samples``. Half
        precision is computed in float32.
    bounds : SizeBounds
        On the library and device of `scores`.
    prices : (k,) float64 array, optional
        Where to start, such as those of a similar problem. Any numbers do: prices so large that
        scores vanish beside them are dropped, as if none were given.
    reach : (k,) float64 array, optional
        About how far the best prices can be from these, in units of score, above 0. It saves the
        samples on which that is learned; too small a reach costs passes, too large candidates.
    weights : (n,) real array, optional
        At least 0: the objective is ``sum_i w_i s_{i, y_i}``. Sizes count samples, whatever their
        weight.
    tol : float in [0, 1]
        Relative gap to prove; 0 for the optimum.
    time_limit : float >= 0, or Deadline, optional
        Seconds after which the search ends with the best labels so far and the gap that is proven;
        where there are none yet, two online passes find some. It is looked at between steps: one
        that has begun, such as a pass or a temperature of Newton's method, comes to its end.
    options : SolverOptions
        How much time and memory the proof may take; the defaults suit all problems we know.

    Returns
    -------
    OfflineAssignment

    Raises
    ------
    InfeasibleBoundsError
        If forbidden pairs leave no labels inside the bounds; with the clusters that prove it.
    InvalidValueError, InvalidTypeError, DeviceMismatchError
        For NaN, plus infinity, and shapes, dtypes or places that do not fit.

    Notes
    -----
    Guarantee: ``lower <= counts <= upper``; the gap is proven, by weak duality.
    Cost: O(n k) for one pass or a few, and O(n) memory beside the scores, if they are not few.
    Source: CoKe Eq. 6; the method is ours (docs/decisions/0009-candidates.md).

    Examples
    --------
    Cluster 0 may keep two of three; the one that loses least by moving is the last.

    >>> import numpy as np
    >>> from dualclust.algos.bounds.sizes import SizeBounds
    >>> scores = np.asarray([[0.9, 0.1], [0.8, 0.1], [0.6, 0.5]])
    >>> found = assign_offline(scores, SizeBounds.from_counts([1, 1], n_samples=3))
    >>> found.labels, round(found.objective, 3), found.status
    (array([0, 0, 1]), 2.2, 'optimal')
    """
    check_bounds(bounds)
    check_real("scores", scores)
    check_shape("scores", scores, (bounds.n_samples or "n", bounds.n_clusters))
    check_same_place(scores=scores, bounds=bounds.lower, prices=prices, reach=reach)
    source = score_source(scores, weights)
    return assign_source(
        source, bounds, prices=prices, reach=reach, tol=tol, time_limit=time_limit, options=options
    )


def assign_exact(
    scores: Array,
    bounds: SizeBounds,
    *,
    prices: Array | None = None,
    reach: Array | None = None,
    weights: Array | None = None,
    time_limit: float | Deadline | None = None,
    options: SolverOptions = DEFAULT_OPTIONS,
) -> OfflineAssignment:
    """Find the best labels of all that keep every cluster size inside its bounds.

    As `assign_offline` with a tolerance of 0: the upper bound equals the objective to rounding,
    which is the proof, unless a time limit ends the search. Where several optima exist, which one
    is found is not specified.

    Notes
    -----
    Claims: docs/claims.md#S12, #C3, #C4, #C13, #C30.

    Examples
    --------
    >>> import numpy as np
    >>> from dualclust.algos.bounds.sizes import SizeBounds
    >>> scores = np.asarray([[0.9, 0.1, 0.0], [0.8, 0.7, 0.0], [0.7, 0.6, 0.5]])
    >>> found = assign_exact(scores, SizeBounds.from_counts([1, 1, 1], n_samples=3))
    >>> found.labels, round(found.objective, 3), round(found.upper_bound, 3)
    (array([0, 1, 2]), 2.1, 2.1)
    """
    return assign_offline(
        scores,
        bounds,
        prices=prices,
        reach=reach,
        weights=weights,
        tol=0.0,
        time_limit=time_limit,
        options=options,
    )


def assign_source(
    source: ScoreSource,
    bounds: SizeBounds,
    *,
    prices: Array | None = None,
    reach: Array | None = None,
    tol: float = 1e-4,
    time_limit: float | Deadline | None = None,
    options: SolverOptions = DEFAULT_OPTIONS,
) -> OfflineAssignment:
    """Label the rows of any source of scores, also of rows that are shared out over ranks.

    Parameters
    ----------
    source : ScoreSource
        Of a matrix, or of features and centers (`scores.sources`).
    bounds : SizeBounds
        Of all rows of all ranks.
    prices, reach, tol, time_limit, options
        As in `assign_offline`.

    Returns
    -------
    OfflineAssignment
        Labels of this rank's rows; everything else is of all rows, and the same on all ranks,
        however many there are.

    Notes
    -----
    Memory: small problems and few clusters keep all n k scores (262,144 by default) several times,
    on every rank. Else one block of scores, 8 bytes a label, and candidates of the free rows: at
    most ``options.max_entries``, or ``options.entries_per_row`` of each row where that is more, up
    to ``options.last_entries``, unless `tol` is 0; of 8 bytes each, twice. Where they do not prove
    the gap, the best labels found are returned, with their gap; where they allow none, those of
    online passes, in which ranks take turns. If forbidden pairs leave none there either, all scores
    become candidates, up to ``options.last_entries``; beyond, `InvalidValueError` says so.
    """
    check_bounds(bounds)
    n, k = source.group.n_total, source.n_clusters
    if bounds.n_samples is None:
        msg = "bounds must be of a known number of samples, got those of a stream"
        msg += ". To fix this, give n_samples to the bounds"
        raise InvalidValueError(msg)
    if bounds.n_samples != n:
        msg = (
            f"bounds must be of the {n} rows of the source, got those of {bounds.n_samples} "
            f"samples. To fix this, make them with n_samples={n}"
        )
        raise InvalidValueError(msg)
    check_shape("bounds.lower", bounds.lower, (k,))
    check_interval("tol", tol, 0.0, 1.0)
    deadline = deadline_of(time_limit)
    check_same_place(bounds=bounds.lower, prices=prices, reach=reach)
    prices = check_per_cluster("prices", prices, k)
    reach = check_per_cluster("reach", reach, k)
    if reach is not None:
        least = float(compat.array_namespace(reach).min(reach))
        if prices is None or least <= 0.0:
            got = "no prices" if prices is None else f"{least:g}"
            msg = (
                f"reach must be above 0 for each cluster, and come with prices, got {got}"
                ". To fix this, leave it out where nothing is known"
            )
            raise InvalidValueError(msg)
    if options.entries_per_row * n > options.max_entries:
        options = replace(options, max_entries=options.entries_of(n))
    coarsest = source.exponent
    if n:
        if are_few(n, k, options, bounds.lower):
            source = kept_in_memory(source, like=bounds.lower)
        source = in_range(source, strided_ids(n, min(n, options.unit_rows), bounds.lower))
    problem = Problem(source, bounds, tol, options, reach, deadline)
    try:
        result = _solved(problem, prices)
    except ScoresOutOfRangeError:  # a row that the sample did not have
        source = rescaled(source)
        result = _solved(problem._replace(source=source), prices)
    return in_unit(result, source.exponent, coarsest)


def _solved(
    problem: Problem, prices: Array | None, known: OfflineAssignment | None = None
) -> OfflineAssignment:
    """Solve in the unit of the source; labels may be `known` already."""
    source, options, reach = problem.source, problem.options, problem.reach
    given, prices = prices, None if prices is None else usable_prices(source, prices)
    if reach is not None:
        reach = None if prices is None else reach_in_unit(reach, source.exponent)
        problem = problem._replace(reach=reach)
    if problem.n_scores <= options.full_entries:
        return solve_in_full(problem, prices)  # line 1
    if (easy := without_passes(problem, prices)) is not None:  # lines 2 and 3
        return easy
    search = started(problem, prices)._replace(online=known)  # line 4
    return _by_passes(problem, search, given)


def _by_passes(problem: Problem, search: Search, given: Array | None) -> OfflineAssignment:
    """Lines 5 to 16, after prices were learned; those `given` are in the caller's unit."""
    source, _, tol, options, reach, _ = problem
    may_end_full = problem.is_exact or problem.n_scores <= options.last_entries
    least: list[float] = []
    for n_passes in range(options.max_passes):
        if search.is_limited:
            # Line 6.
            region, width = within_memory(source, search.region, search.width, options)
            search = search._replace(region=region, width=width)
        if problem.is_over():
            return last_resort(problem, search)
        search = _after_pass(problem, search, n_passes)  # lines 7 to 13
        if search.best is not None and search.best.gap <= tol:
            return search.best
        if search.is_tied and (may_end_full or reach is not None):
            break
        least.append(search.least_bound)
        if not may_end_full and n_passes >= PATIENCE:
            fall = least[n_passes - PATIENCE] - least[n_passes]
            if not fall > 0.5 * tol * abs(least[n_passes]):  # most rows tie
                break
    if reach is not None:  # prices were farther off than that, or not nearly so far
        known = best_of(search.best, search.online)
        return _solved(problem._replace(reach=None), given, known)
    return last_resort(problem, search)  # lines 15 and 16


def _after_pass(problem: Problem, search: Search, n_passes: int) -> Search:
    """Lines 7 to 13: one pass over all scores, and what it adds to the search."""
    source, bounds, tol, options = problem[:4]
    (center, radius), n = search.region, source.group.n_total
    xp = compat.array_namespace(center)
    most, region = None if problem.is_exact else options.max_entries, search.region
    try:
        candidates = collect_candidates(  # line 7
            source, center - radius, center + radius, width=search.width, max_entries=most
        )
    except TooManyCandidatesError:
        return search._replace(region=TrustRegion(center, radius / 2.0), is_limited=True)
    tied = tied_share(candidates, n)
    if tied > options.often_tied_share and problem.reach is not None:
        return search._replace(is_tied=True)  # a region not from samples may just be too large
    is_wide = (  # lists that are twice as long would leave most out as well
        not search.is_limited
        and tied > options.often_tied_share
        and 4 * search.width <= source.n_clusters
    )
    if tied > options.tied_share:  # nothing would be learned
        return search._replace(
            width=2 * search.width,
            is_limited=search.is_limited or is_wide,
            is_tied=n_passes > 0 and not is_wide,
        )
    rough = options.rough_gap if n_passes >= options.rough_after and most is not None else tol
    solution = solve_reduced(  # lines 8 to 11
        candidates,
        bounds,
        region,
        tol,
        max_truncation=max(tol, rough),
        is_over=problem.is_over,
        options=options,
    )
    judged = search.judged(solution)
    if judged.best is not None and judged.best.gap <= tol:
        return judged
    if n_passes > 0 and tied > options.often_tied_share and 4 * search.width > source.n_clusters:
        return judged._replace(is_tied=True)
    prices, width, is_limited = solution.prices, search.width, search.is_limited
    if tied > 0.0 and not is_limited:
        width *= 2
        grows = is_wide and bool(xp.any(candidates.at_edge(prices)))
        is_limited = grows or (most is not None and n * width > most)
    is_limited = is_limited or (n_passes > 0 and solution.assignment is None)
    # Line 12.
    region = next_region(region, prices, is_moving=is_limited, by_steps=is_limited, options=options)
    before, last = search.last_proving, solution.proving
    # Line 13.
    if n_passes >= FROM_PASS and bool(xp.any(candidates.at_edge(last))):
        del candidates  # as much memory as the next ones take
        farther = None if before is None else extrapolated(source, bounds, before, last)
        if farther is not None:
            region, last = TrustRegion(farther, region.radius), None
    return judged._replace(region=region, width=width, is_limited=is_limited, last_proving=last)
