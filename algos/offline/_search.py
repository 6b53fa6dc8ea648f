"""What the passes of the offline solver have found so far, and what the next one is to do."""

from __future__ import annotations

import math
from typing import NamedTuple

import array_api_compat as compat

from ..bounds.sizes import SizeBounds
from ..core.errors import InfeasibleBoundsError, InvalidValueError
from ..core.types import Array
from ..scores.sources import ScoreSource, times_power_of_two
from ._candidates import TrustRegion, collect_candidates
from ._few_clusters import solve_few
from ._options import SolverOptions
from ._proof import OfflineAssignment, Problem
from ._reduced import ReducedSolution, are_few
from ._ties import (
    expected_tied_share,
    region_of_distinct_rows,
    wanted_width,
    without_prices,
)
from ._trust_region import initial_region

__all__ = ["Search", "best_of", "first_region", "reach_in_unit", "started", "without_passes"]

LEAST_REACH, MOST_REACH = 2.0**-500, 2.0**100
"""A reach in the unit of the source is so large, so that sums with scores of float32 are finite."""


class Search(NamedTuple):
    """What the passes know so far, and what the next one is to do.

    Attributes
    ----------
    region : TrustRegion
        Where the next pass looks for candidates.
    width : int
        Candidates of a row in it.
    is_limited : bool
        Whether the next region shrinks until it cuts few lists, and memory holds them.
    prices : (k,) float64 array, or None
        Of the last pass, or as given.
    best : OfflineAssignment or None
        The best labels from candidates.
    least_bound : float
        The least upper bound that a pass has proven.
    best_prices : (k,) float64 array
        The prices that prove it.
    is_tied : bool
        Whether further passes would learn nothing, because most rows tie.
    online : OfflineAssignment or None
        The best labels of online passes, or of a search before this one.
    """

    region: TrustRegion
    width: int
    is_limited: bool
    prices: Array | None
    best: OfflineAssignment | None
    least_bound: float
    best_prices: Array
    is_tied: bool = False
    online: OfflineAssignment | None = None

    def judged(self, solution: ReducedSolution) -> Search:
        """Keep the best labels, and the prices that prove most (step 4)."""
        assignment, prices, bound, proving = solution
        search = self._replace(prices=prices, best=best_of(self.best, assignment))
        if bound < search.least_bound:
            search = search._replace(least_bound=bound, best_prices=proving)
        return search


def best_of(*found: OfflineAssignment | None) -> OfflineAssignment | None:
    """Return the labels of the smallest gap, the first of equals; None if there are none."""
    return min((one for one in found if one is not None), key=lambda one: one.gap, default=None)


def without_passes(problem: Problem, prices: Array | None) -> OfflineAssignment | None:
    """Labels that need no prices, or those of few clusters, if they prove the gap."""
    source, bounds, tol, options, _ = problem
    free = without_prices(source, bounds, tol, options) if prices is None else None
    if free is None and are_few(source.group.n_total, source.n_clusters, options, bounds.lower):
        return solve_few(source, bounds, prices, tol, options)
    return free


def started(problem: Problem, prices: Array | None) -> Search:
    """Step 1: the first region, and whether it has to shrink before the first pass."""
    source, bounds, _, options, reach = problem
    if prices is None and (known := region_of_distinct_rows(source, bounds)) is not None:
        region = known
    elif prices is None or reach is None:
        region = first_region(source, bounds, prices, options)
    else:
        region = TrustRegion(prices, reach)
    is_large = source.group.n_total > options.large_pass_rows
    width = options.large_pass_width if is_large else options.pass_width
    if reach is not None:  # else lists that are too short are doubled
        width = wanted_width(source, region, width, options=options)
    is_limited = problem.is_cut
    if not is_limited and reach is None and 4 * width <= source.n_clusters:
        tied = expected_tied_share(source, region, width, options=options)
        is_limited = tied > options.mostly_tied_share  # the pass would tell nearly nothing
    return Search(
        region=region,
        width=width,
        is_limited=is_limited,
        prices=prices,
        best=None,
        least_bound=math.inf,
        best_prices=region.center,
    )


def reach_in_unit(reach: Array, exponent: int) -> Array:
    """Return a reach in the unit of the source, neither too small for float64 nor too large.

    Examples
    --------
    >>> import numpy as np
    >>> reach_in_unit(np.asarray([2.0**900, 2.0**-800]), -700) == [MOST_REACH, 2.0**-100]
    array([ True,  True])
    """
    xp = compat.array_namespace(reach)
    most = math.ldexp(MOST_REACH, min(exponent, 900))  # what is larger would overflow
    reach = times_power_of_two(xp.clip(reach, max=most), -exponent)
    return xp.clip(reach, min=LEAST_REACH, max=MOST_REACH)


def first_region(
    source: ScoreSource, bounds: SizeBounds, prices: Array | None, options: SolverOptions
) -> TrustRegion:
    """Return `initial_region`, whose errors then name rows of the data, not of a sample of them."""
    try:
        return initial_region(source, bounds, prices, options)
    except (InvalidValueError, InfeasibleBoundsError):
        zeros = compat.array_namespace(bounds.lower).zeros_like(bounds.lower_share)
        collect_candidates(source, zeros, zeros, width=2)  # raises for the first such row
        raise
