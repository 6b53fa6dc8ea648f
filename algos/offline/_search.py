"""A problem, what passes over its scores have found so far, and what the next one is to do."""

from __future__ import annotations

import math
from typing import NamedTuple

import array_api_compat as compat

from ..bounds.sizes import SizeBounds, price_of_bounds
from ..core.errors import InfeasibleBoundsError, InvalidValueError
from ..core.reads import entries
from ..core.types import Array
from ..scores.deadline import Deadline, is_over
from ..scores.nearest import best_clusters
from ..scores.sources import ScoreSource, times_power_of_two
from ._candidates import TrustRegion, collect_candidates
from ._few_clusters import solve_few
from ._options import SolverOptions
from ._proof import OfflineAssignment
from ._reduced import ReducedSolution, are_few
from ._ties import (
    expected_tied_share,
    region_of_distinct_rows,
    wanted_width,
    without_prices,
)
from ._trust_region import initial_region

__all__ = [
    "FROM_PASS",
    "Problem",
    "Search",
    "best_of",
    "extrapolated",
    "first_region",
    "reach_in_unit",
    "started",
    "without_passes",
]

LEAST_REACH, MOST_REACH = 2.0**-500, 2.0**100
"""A reach in the unit of the source is so large, so that sums with scores of float32 are finite."""


REPEATS, FROM_PASS = (0.0, 1.0, 3.0, 7.0, 15.0), 4
"""How often the last step of the prices is tried again, and passes before the first time: many
searches end in fewer (benchmarks/results/ablation.md)."""

WORTH = 1e-9
"""Share of the dual value that other prices must be better by: more than its rounding."""


class Problem(NamedTuple):
    """What is to be solved; scores and prices are in the unit of the source.

    Attributes
    ----------
    source : ScoreSource
    bounds : SizeBounds
        Of all rows of all ranks.
    tol : float
        Relative gap to prove; 0 for the optimum.
    options : SolverOptions
    reach : (k,) float64 array, or None
        About how far the best prices can be from those given; None where that is not known.
    deadline : Deadline or None
        When to end with the labels that there are.
    """

    source: ScoreSource
    bounds: SizeBounds
    tol: float
    options: SolverOptions
    reach: Array | None = None
    deadline: Deadline | None = None

    def is_over(self) -> bool:
        """Whether the time is up, the same on all ranks, which call this together."""
        return is_over(self.deadline, self.source.group, like=self.bounds.lower)

    @property
    def is_exact(self) -> bool:
        """Whether the optimum is asked for, whatever memory it takes."""
        return self.tol == 0.0

    @property
    def is_cut(self) -> bool:
        """Whether memory cuts the trust region from the start."""
        n, options = self.source.group.n_total, self.options
        return not self.is_exact and n * options.pass_width > options.max_entries

    @property
    def n_scores(self) -> int:
        """Scores of all ranks."""
        return self.source.group.n_total * self.source.n_clusters


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
    last_proving : (k,) float64 array, or None
        Prices inside the region of the last pass; None after steps were repeated.
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
    last_proving: Array | None = None

    def judged(self, solution: ReducedSolution) -> Search:
        """Keep the best labels, and the prices that prove most."""
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
    source, bounds, tol, options = problem[:4]
    free = without_prices(source, bounds, tol, options) if prices is None else None
    if free is None and are_few(source.group.n_total, source.n_clusters, options, bounds.lower):
        return solve_few(source, bounds, prices, tol, options)
    return free


def started(problem: Problem, prices: Array | None) -> Search:
    """Line 4: the first region, and whether it has to shrink before the first pass."""
    source, bounds, _, options, reach, _ = problem
    if prices is None and (known := region_of_distinct_rows(source, bounds)) is not None:
        region = known
    elif prices is None or reach is None:
        region = first_region(problem, prices)
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


def extrapolated(
    source: ScoreSource, bounds: SizeBounds, before: Array, prices: Array
) -> Array | None:
    """Repeat the last step of the prices as often as it lowers the dual value, or return None.

    A small region that follows prices over a long way moves them by its radius in each pass, often
    in the same direction. The dual value ``D(pi) = sum_i max_k (s_ik + pi_k) + price of bounds`` is
    convex along it: one pass adds it up for some multiples of the step.

    Examples
    --------
    Five of six rows may stay. The other cluster has to rise by 1, and has risen by 1/8 so far.

    >>> import numpy as np
    >>> from dualclust.algos.scores.sources import score_source
    >>> source = score_source(np.asarray([[1.0, 0.0]] * 6))
    >>> bounds = SizeBounds.from_counts([5, 1], n_samples=6)
    >>> extrapolated(source, bounds, np.asarray([0.0, 0.0]), np.asarray([0.0, 0.125]))
    array([0., 1.])
    """
    xp = compat.array_namespace(prices)
    tried = [prices + repeats * (prices - before) for repeats in REPEATS]

    def worth(start: int, stop: int) -> Array:
        scores = source.block(start, stop)
        best = [best_clusters(scores, some)[1] for some in tried]
        return xp.stack([xp.sum(xp.astype(b, xp.float64)) for b in best])[None, :]

    parts = xp.concat(list(source.map_blocks(worth, like=before, at_least_one=True)))
    sums = entries("sums", xp.reshape(source.group.gather(parts), (-1,)))
    duals = [
        math.fsum(sums[i :: len(tried)]) + price_of_bounds(some, bounds)
        for i, some in enumerate(tried)
    ]
    least = min(range(len(tried)), key=duals.__getitem__)
    return tried[least] if duals[least] < duals[0] - WORTH * abs(duals[0]) else None


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


def first_region(problem: Problem, prices: Array | None) -> TrustRegion:
    """Return `initial_region`, whose errors then name rows of the data, not of a sample of them."""
    source, bounds, _, options = problem[:4]
    try:
        return initial_region(source, bounds, prices, options, is_over=problem.is_over)
    except (InvalidValueError, InfeasibleBoundsError):
        zeros = compat.array_namespace(bounds.lower).zeros_like(bounds.lower_share)
        collect_candidates(source, zeros, zeros, width=2)  # raises for the first such row
        raise
