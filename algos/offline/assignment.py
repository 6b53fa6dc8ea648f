r"""Assignment with all samples at hand: labels inside the bounds, and a proof of how good they are.

Problem (CoKe Eq. 6 with both bounds), for scores in memory or multiplied a block at a time:

maximize ``sum_i s_{i, y_i}``   subject to   ``l_k <= n_k <= u_k``.

The method is Algorithm 1 of docs/math/assignment.md (`_search`). Its three entry points check the
arguments, and choose the unit of score.

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
from ._options import DEFAULT_OPTIONS, SolverOptions
from ._proof import OfflineAssignment, in_unit
from ._reduced import is_small
from ._search import Problem, solve

__all__ = ["OfflineAssignment", "assign_exact", "assign_offline", "assign_source"]


def assign_offline(
    scores: Array,
    bounds: SizeBounds,
    *,
    prices: Array | None = None,
    price_radius: Array | None = None,
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
    price_radius : (k,) float64 array, optional
        About how far the best prices can be from these, in units of score, above 0. It saves the
        samples on which that is learned; too small a radius costs passes, too large one
        candidates.
    weights : (n,) real array, optional
        At least 0: the objective is ``sum_i w_i s_{i, y_i}``. Sizes count samples, whatever their
        weight; where a sample counts more in the bounds, see `offline.weighted.assign_weighted`.
    tol : float in [0, 1]
        Relative gap to prove; 0 for the optimum.
    time_limit : float >= 0, or Deadline, optional
        Seconds after which the search ends with the best labels so far and the gap that is proven;
        where there are none yet, two online passes find some. The clock is read between steps: one
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
    check_same_place(scores=scores, bounds=bounds.lower)
    source = score_source(scores, weights)
    return assign_source(
        source,
        bounds,
        prices=prices,
        price_radius=price_radius,
        tol=tol,
        time_limit=time_limit,
        options=options,
    )


def assign_exact(
    scores: Array,
    bounds: SizeBounds,
    *,
    prices: Array | None = None,
    price_radius: Array | None = None,
    weights: Array | None = None,
    time_limit: float | Deadline | None = None,
    options: SolverOptions = DEFAULT_OPTIONS,
) -> OfflineAssignment:
    """Find the best labels of all that keep every cluster size inside its bounds.

    As `assign_offline` with a tolerance of 0: the upper bound equals the objective to rounding,
    which is the proof. With a time limit labels may be within a gap, even if time is left: all
    scores are then solved only up to ``options.max_entries``, or where there are no labels.
    Where several optima exist, which one is found is not specified.

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
        price_radius=price_radius,
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
    price_radius: Array | None = None,
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
    prices, price_radius, tol, time_limit, options
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
    the gap, up to ``options.max_entries`` scores are solved in full; of more the best labels found
    are returned, with their gap; where candidates allow none, those of online passes, in which
    ranks take turns. If forbidden pairs leave none there either, all scores become candidates, up
    to ``options.last_entries``; beyond, `InvalidValueError` says so.
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
    check_same_place(bounds=bounds.lower, prices=prices, price_radius=price_radius)
    prices = check_per_cluster("prices", prices, k)
    price_radius = check_per_cluster("price_radius", price_radius, k)
    if price_radius is not None:
        least = float(compat.array_namespace(price_radius).min(price_radius))
        if prices is None or least <= 0.0:
            got = "no prices" if prices is None else f"{least:g}"
            msg = (
                f"price_radius must be above 0 for each cluster, and come with prices, got {got}"
                ". To fix this, leave it out where nothing is known"
            )
            raise InvalidValueError(msg)
    if options.entries_per_row * n > options.max_entries:
        options = replace(options, max_entries=options.entries_of(n))
    coarsest = source.exponent
    if n:
        if is_small(n, k, options, bounds.lower):
            source = kept_in_memory(source, like=bounds.lower)
        source = in_range(source, strided_ids(n, min(n, options.typical_rows), bounds.lower))
    problem = Problem(source, bounds, tol, options, price_radius, deadline)
    try:
        result = solve(problem, prices)
    except ScoresOutOfRangeError:  # a row that the sample did not have
        source = rescaled(source)
        result = solve(problem._replace(source=source), prices)
    return in_unit(result, source.exponent, coarsest)
