"""Algorithm 1 of docs/math/assignment.md, line by line, for scores in any unit of their source.

A search repeats passes over all scores. Between them it keeps one record, `Search`: where prices
may be, how many candidates a row keeps, the best labels, and the best bound. Its `Phase` says what
the next pass does. The lines:

* 1 to 3: small problems, labels that need no price, few clusters (`_all_scores`, `_special_cases`);
* 4: prices learned on samples, and how far they can be off (`_trust_region`);
* 5 to 14: candidates of a pass over all rows (`_candidates`), Newton's method, paths and the proof
  on these (`_reduced`), and the next region, until the gap is proven;
* 15 and 16: labels of online passes (`_online_labels`), or the optimum from all scores.
"""

from __future__ import annotations

import math
from enum import Enum, auto
from typing import NamedTuple

import array_api_compat as compat

from ..bounds.sizes import SizeBounds, price_of_bounds
from ..core.errors import InfeasibleBoundsError, InvalidValueError
from ..core.reads import entries
from ..core.types import Array
from ..scores.deadline import Deadline, is_over
from ..scores.nearest import best_clusters
from ..scores.sources import ScoreSource
from ._all_scores import raise_no_labels, raise_without_labels, solve_few, solve_in_time
from ._candidates import TooManyCandidatesError, TrustRegion, collect_candidates, next_region
from ._online_labels import assign_in_passes
from ._online_prices import passes_are_fast
from ._options import SolverOptions
from ._proof import OfflineAssignment, best_of
from ._reduced import ROUGH, ReducedSolution, is_small, solve_reduced
from ._region_from_rows import (
    WIDEST,
    candidate_counts,
    usable_prices,
    usable_radius,
    wide_enough,
    within_memory,
)
from ._special_cases import labels_without_prices, region_of_distinct_rows
from ._trust_region import initial_region

__all__ = ["Phase", "Problem", "Search", "extrapolated", "solve"]

MOSTLY, OFTEN = 0.97, 0.5
"""Shares of the rows with truncated candidates: above the first a search begins with a smaller
region, because the pass would say nearly nothing; above the second a radius that the caller gave is
too large."""

REPEATS, FROM_PASS = (0.0, 1.0, 3.0, 7.0, 15.0), 4
"""How often the last step of the prices is tried again, and passes before the first time: many
searches end in fewer (benchmarks/results/ablation.md)."""

WORTH = 1e-9
"""Share of the dual value that other prices must be better by: more than its rounding."""

AS_LONG = 20
"""Passes end once Newton's method has read so many times all scores: about what line 16 costs (8 to
50 times, docs/decisions/0080-fewer-numbers.md)."""

PATIENCE = 8
"""Passes that must lower the least bound by half of the tolerance, where line 16 is not allowed."""


class Phase(Enum):
    """What a search does next."""

    WIDEN = auto()
    """The width doubles after a pass that truncated a row."""
    FOLLOW = auto()
    """Before each pass the region shrinks until candidates fit, and after it the center moves."""
    END = auto()
    """The gap is proven, or the radius that the caller gave was wrong."""


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
    price_radius : (k,) float64 array, or None
        About how far the best prices can be from those given, in the caller's unit until `solve`
        converts it; None where that is not known.
    deadline : Deadline or None
        When to end with the labels that there are.
    """

    source: ScoreSource
    bounds: SizeBounds
    tol: float
    options: SolverOptions
    price_radius: Array | None = None
    deadline: Deadline | None = None

    def is_over(self) -> bool:
        """Whether the time is up, the same on all ranks, which call this together."""
        return is_over(self.deadline, self.source.group, like=self.bounds.lower)

    @property
    def is_exact(self) -> bool:
        """Whether the optimum is asked for, whatever memory it takes."""
        return self.tol == 0.0

    @property
    def max_entries(self) -> int | None:
        """Candidates of a pass at most; None for no limit."""
        return None if self.is_exact else self.options.max_entries

    @property
    def n_scores(self) -> int:
        """Scores of all ranks."""
        return self.source.group.n_total * self.source.n_clusters


class Search(NamedTuple):
    """What the passes know so far, and what the next one is to do.

    Attributes
    ----------
    region : TrustRegion
        Of the next pass.
    width : int
        Candidates of a row in it.
    phase : Phase
    best_prices : (k,) float64 array
        The prices of the least bound.
    least_bound : float
        The least upper bound that a pass has proven.
    best : OfflineAssignment or None
        The best labels from candidates, or of online passes that prove the gap.
    earlier : OfflineAssignment or None
        The best labels of online passes, and of a search before this one.
    last_prices : (k,) float64 array, or None
        Prices inside the region of the last pass; None after steps were repeated.
    n_values : int
        Scores that Newton's method has read in all passes, each as often as it did.
    """

    region: TrustRegion
    width: int
    phase: Phase
    best_prices: Array
    least_bound: float = math.inf
    best: OfflineAssignment | None = None
    earlier: OfflineAssignment | None = None
    last_prices: Array | None = None
    n_values: int = 0

    def judged(self, solution: ReducedSolution) -> Search:
        """Keep the best labels, and the prices that prove most."""
        best = best_of(self.best, solution.assignment)
        search = self._replace(best=best, n_values=self.n_values + solution.n_values)
        if solution.bound < search.least_bound:
            search = search._replace(least_bound=solution.bound, best_prices=solution.bound_prices)
        return search

    def is_proven(self, tol: float) -> bool:
        """Whether the best labels prove the gap."""
        return self.best is not None and self.best.gap <= tol


def solve(problem: Problem, prices: Array | None) -> OfflineAssignment:
    """Solve in the unit of the source, from prices and a radius in the unit of the caller."""
    source, tol, radius = problem.source, problem.tol, problem.price_radius
    prices = None if prices is None else usable_prices(source, prices)
    if radius is not None:
        radius = None if prices is None else usable_radius(radius, source.exponent)
        problem = problem._replace(price_radius=radius)
    if (found := _without_passes(problem, prices)) is not None:  # lines 1 to 3
        return found
    search = _passes(problem, _started(problem, prices))  # lines 4 to 14
    if radius is not None and not search.is_proven(tol) and not problem.is_over():
        problem = problem._replace(price_radius=None)  # prices were farther off, or much nearer
        known = best_of(search.best, search.earlier)
        begun = _started(problem, prices)._replace(earlier=known, n_values=search.n_values)
        search = _passes(problem, begun)
    if (best := search.best) is not None and best.gap <= tol:
        return best
    return _last_resort(problem, search)  # lines 15 and 16


def _without_passes(problem: Problem, prices: Array | None) -> OfflineAssignment | None:
    """Lines 1 to 3: labels of small problems, or those that need no price, or of few clusters."""
    source, bounds, tol, options = problem[:4]
    if problem.n_scores <= options.full_entries:
        found = solve_in_time(source, bounds, prices, options, problem.is_over)
        if found is not None:
            return found
        if not problem.is_over():
            raise_without_labels(source, bounds)
    free = labels_without_prices(source, bounds, tol, options) if prices is None else None
    if free is None and is_small(source.group.n_total, source.n_clusters, options, bounds.lower):
        return solve_few(source, bounds, prices, tol, options, is_over=problem.is_over)
    return free


def _started(problem: Problem, prices: Array | None) -> Search:
    """Line 4: the first region, and whether it has to shrink before the first pass."""
    source, bounds, _, options, radius, _ = problem
    n, width, region = source.group.n_total, options.pass_width, None
    if prices is None:
        region = region_of_distinct_rows(source, bounds)
    elif radius is not None:
        region = TrustRegion(prices, radius)
    is_limited = problem.max_entries is not None and n * width > problem.max_entries
    if region is not None:  # else rows that have too few candidates keep twice as many
        most = math.inf if radius is None else WIDEST  # a radius may be wrong, a program is not
        counts = candidate_counts(source, region, options)
        width = wide_enough(counts, width, min(options.max_entries // n, most))
    else:
        region = _first_region(problem, prices)
        if not is_limited and 4 * width <= source.n_clusters:
            counts = candidate_counts(source, region, options)
            xp = compat.array_namespace(counts)
            is_limited = float(xp.mean(xp.astype(counts > width, xp.float64))) > MOSTLY
    phase = Phase.FOLLOW if is_limited else Phase.WIDEN
    return Search(region, width, phase, best_prices=region.center)


def _first_region(problem: Problem, prices: Array | None) -> TrustRegion:
    """Return `initial_region`, whose errors then name rows of the data, not of a sample of them."""
    source, bounds, _, options = problem[:4]
    try:
        return initial_region(source, bounds, prices, options, is_over=problem.is_over)
    except (InvalidValueError, InfeasibleBoundsError):
        zeros = compat.array_namespace(bounds.lower).zeros_like(bounds.lower_share)
        collect_candidates(source, zeros, zeros, width=2)  # raises for the first such row
        raise


def _passes(problem: Problem, search: Search) -> Search:
    """Lines 5 to 14."""
    least: list[float] = []
    for n_passes in range(problem.options.max_passes):
        if search.phase is Phase.FOLLOW:  # line 6
            region, width = within_memory(
                problem.source, search.region, search.width, problem.options
            )
            search = search._replace(region=region, width=width)
        if problem.is_over():
            break
        search = _after_pass(problem, search, n_passes)  # lines 7 to 13
        least.append(search.least_bound)
        is_long = _is_stalled(problem, search, least) or _is_as_long(problem, search)
        if is_long or search.phase is Phase.END:
            break
    return search


def _is_stalled(problem: Problem, search: Search, least: list[float]) -> bool:
    """Whether passes no longer lower the bound, where line 16 is not allowed: most rows tie."""
    if problem.n_scores <= _most_scores(problem, search) or len(least) <= PATIENCE:
        return False
    fall = least[-1 - PATIENCE] - least[-1]
    return not fall > 0.5 * problem.tol * abs(least[-1])


def _is_as_long(problem: Problem, search: Search) -> bool:
    """Whether passes have taken as long as all scores will, and these fit into a pass."""
    n = problem.n_scores
    return n <= problem.options.max_entries and search.n_values > AS_LONG * n


def _after_pass(problem: Problem, search: Search, n_passes: int) -> Search:
    """Lines 7 to 13: one pass over all scores, and what it adds to the search."""
    source, bounds, tol, options, price_radius, _ = problem
    try:
        candidates = collect_candidates(  # line 7
            source, *search.region.box, width=search.width, max_entries=problem.max_entries
        )
    except TooManyCandidatesError:
        center, radius = search.region
        return search._replace(region=TrustRegion(center, radius / 2.0), phase=Phase.FOLLOW)
    truncated = candidates.truncated_share(source.group.n_total)
    if truncated > OFTEN and price_radius is not None:
        return search._replace(phase=Phase.END)
    solution = solve_reduced(  # lines 8 to 11
        candidates,
        bounds,
        search.region,
        tol,
        max_truncation=tol if problem.is_exact else max(tol, ROUGH),
        is_over=problem.is_over,
        options=options,
    )
    xp = compat.array_namespace(solution.prices)
    is_clamped = bool(xp.any(candidates.clamped(solution.bound_prices)))
    del candidates  # as much memory as the next ones take
    search = _labeled_online(problem, search.judged(solution), solution.bound_prices)
    if search.is_proven(tol):
        return search._replace(phase=Phase.END)
    search = _next_pass(problem, search, solution, truncated, n_passes)
    last, before = solution.bound_prices, search.last_prices
    if n_passes >= FROM_PASS and is_clamped and before is not None:  # line 13
        farther = extrapolated(source, bounds, before, last)
        if farther is not None:
            region = TrustRegion(farther, search.region.radius)
            return search._replace(region=region, last_prices=None)
    return search._replace(last_prices=last)


def _labeled_online(problem: Problem, search: Search, prices: Array) -> Search:
    """Line 11: where a loose gap is not proven, the labels of one online pass from these prices."""
    source, bounds, tol, options = problem[:4]
    is_worth = tol >= ROUGH and passes_are_fast(prices) and not problem.is_over()
    if search.is_proven(tol) or not is_worth:
        return search
    online = assign_in_passes(source, bounds, prices, options, learns=False)
    if online is None or online.gap > tol:
        return search._replace(earlier=best_of(search.earlier, online))
    return search._replace(best=online)


def _next_pass(
    problem: Problem, search: Search, solution: ReducedSolution, truncated: float, n_passes: int
) -> Search:
    """Line 12: the next region, and how many candidates a row keeps in it."""
    width, phase, most = search.width, search.phase, problem.max_entries
    if truncated > 0.0 and phase is Phase.WIDEN:
        width *= 2
        if most is not None and problem.source.group.n_total * width > most:
            phase = Phase.FOLLOW
    if n_passes > 0 and solution.assignment is None:
        phase = Phase.FOLLOW
    is_moving = phase is Phase.FOLLOW
    is_stuck = is_moving and solution.is_stuck
    region = next_region(search.region, solution.prices, is_moving=is_moving, is_stuck=is_stuck)
    return search._replace(region=region, width=width, phase=phase)


def extrapolated(
    source: ScoreSource, bounds: SizeBounds, before: Array, prices: Array
) -> Array | None:
    """Repeat the last step of the prices as often as it lowers the dual value, or return None.

    A small region that follows prices often moves them in one direction, along which the dual value
    ``D(pi) = sum_i max_k (s_ik + pi_k) + price of bounds`` is convex: one pass adds up several.
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


def _most_scores(problem: Problem, search: Search) -> float:
    """How many scores line 16 may take where there are some labels."""
    if problem.deadline is None or not problem.deadline.is_timed:
        if problem.is_exact:
            return math.inf
        if search.best is None:
            return problem.options.last_entries
    return problem.options.max_entries


def _last_resort(problem: Problem, search: Search) -> OfflineAssignment:
    """Lines 15 and 16: the best labels so far, those of online passes, or the optimum."""
    source, bounds, tol, options = problem[:4]
    most, found = _most_scores(problem, search), best_of(search.best, search.earlier)
    most = 0 if problem.is_over() else most
    may_be_full = problem.n_scores <= most
    if most < math.inf and (search.best is None or may_be_full):
        found = best_of(found, assign_in_passes(source, bounds, search.best_prices, options))
    if found is None:
        if not problem.is_exact and problem.n_scores > options.last_entries:
            raise_no_labels(problem.n_scores, options)
        found = solve_in_time(source, bounds, search.best_prices, options, lambda: False)
        return found or raise_without_labels(source, bounds)
    if found.gap <= tol or not may_be_full:
        return found
    full = solve_in_time(source, bounds, search.best_prices, options, problem.is_over, tol)
    return best_of(found, full) or found
