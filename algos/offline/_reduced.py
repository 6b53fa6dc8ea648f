r"""Labels from the candidates of one pass over the scores, and what they prove about all of it.

Problem: `_candidates` has fixed the rows whose best cluster is the same for all prices of a trust
region and kept a few candidates of the others. Find the best labels inside the bounds,

maximize ``sum_i s_{i, y_i}``   subject to   ``l_k <= n_k <= u_k``,

if every free row takes a candidate, and an upper bound on what any labels are worth.

1. *Prices*: Newton's method on the smoothed dual, inside the trust region (`_smoothed_dual`).
2. *Bound*: for prices inside, a row is worth at most the better of its best candidate and of what
   truncation has left out.
3. *Give up* early, without labels, if truncated clusters can be worth too much, if more than
   ``edge_share`` of the prices are clamped by the region, or if clusters of clamped prices miss
   their bounds by more than ``max_stranded`` rows per cluster.
4. *Labels* along augmenting paths (`_augmenting_paths`) of the rows whose best cluster leads by
   little; the window of these rows grows until it does not matter.
5. *Proof*: objective and upper bound of these labels (`_proof`).

=====================  ===============  =======  =================================================
paper                  here             shape    meaning
=====================  ===============  =======  =================================================
:math:`\rho - \rho'`   ``prices``       (k,)     in units of score, float64
:math:`y_i`            ``labels``       (n,)     of this rank's rows
:math:`D(\pi)`         ``upper_bound``  ()       no labels inside the bounds are worth more
=====================  ===============  =======  =================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import array_api_compat as compat

from ...backends import select
from ..bounds.sizes import SizeBounds, price_of_bounds
from ..core.reads import read, unread
from ..core.types import Array
from ..core.workers import map_in_order
from ..scores.sources import largest_score
from ._augmenting_paths import augmenting_paths
from ._candidates import Candidates, TrustRegion, row_slices
from ._options import DEFAULT_OPTIONS, SolverOptions
from ._proof import OfflineAssignment, proven, regrets, rounding_of
from ._smoothed_dual import (
    LEAST_TEMPERATURE,
    RefinedPrices,
    SmoothedDual,
    refine_prices,
    soft_counts,
)

__all__ = ["ReducedSolution", "is_small", "labels_by_paths", "solve_reduced"]


TEMPERATURE = 0.03125
"""First temperature in a pass, in mean radii, from 0.01 to 0.12: below, crowded rows in little
memory take six times as long, above, mixtures 1.5 times."""

PATH_ROWS = 3000.0
"""Fractional rows of all clusters at which augmenting paths begin: of more, one more temperature of
Newton's method takes less time. From 1,000 to 10,000 little changes (docs/decisions/0066)."""

WINDOW, WINDOW_GROWTH, MAX_WINDOWS = 4.0, 8.0, 4
"""First lead up to which rows may move along a path, in temperatures; the next ones over the one
before; and how many there are before every row may move."""

ROUGH = 1e-2
"""Relative gap from which on labels are returned with their gap rather than none, two windows are
enough, since larger ones may take hundreds of times as long, and one online pass is tried: its
labels lack .001 to .005."""

FEW_GROWTH = 4
"""How many times `full_entries` scores of few clusters may be, if paths are compiled: above,
Newton's method on candidates is faster than a path for each row that online passes misplace."""


class ReducedSolution(NamedTuple):
    """Labels, if candidates allow any that prove enough; prices; and what others prove.

    Attributes
    ----------
    assignment : OfflineAssignment or None
    prices : (k,) float64 array
        Those that paths have left: through few candidates they may leave the region by far, which
        tells how large the next one has to be.
    bound : float
        What labels can be worth at most.
    bound_prices : (k,) float64 array
        The prices that prove it, inside the region.
    is_stuck : bool
        Whether paths found no labels: these candidates allow none, nor would fewer; or the time
        was up, or at a gap of `ROUGH` two windows of rows were too few.
    n_values : int
        Scores that Newton's method has read, each as often as it did.
    """

    assignment: OfflineAssignment | None
    prices: Array
    bound: float
    bound_prices: Array
    is_stuck: bool
    n_values: int = 0


def solve_reduced(
    candidates: Candidates,
    bounds: SizeBounds,
    region: TrustRegion,
    tol: float,
    *,
    max_truncation: float | None = None,
    is_over: Callable[[], bool] = lambda: False,
    options: SolverOptions = DEFAULT_OPTIONS,
) -> ReducedSolution:
    """Solve the problem that is left: Newton's method, then paths in windows that grow.

    Parameters
    ----------
    candidates : Candidates
        Of `region`.
    bounds : SizeBounds
        Of all rows.
    region : TrustRegion
    tol : float
        Relative gap at which larger windows are not tried.
    max_truncation : float, optional
        Relative worth of truncated clusters above which no labels are sought, `tol` by default.
    is_over : callable, optional
        Whether the time is up: then no labels are sought, or not any longer.
    options : SolverOptions

    Returns
    -------
    ReducedSolution
        ``assignment`` is None where paths failed, or step 3 gave up; ``bound`` is what labels can
        be worth at most by the prices of step 1.

    Notes
    -----
    Claims: docs/claims.md#C4, #R6.
    """
    max_truncation = tol if max_truncation is None else max_truncation
    xp = compat.array_namespace(region.center)
    problem = candidates.smoothed_dual(bounds.lower, bounds.upper)
    # Step 1: prices.
    start = max(float(xp.mean(region.radius)) * TEMPERATURE, LEAST_TEMPERATURE)
    refined = refine_prices(
        problem, region.center, start=start, fractional=PATH_ROWS, is_over=is_over
    )
    prices, n_values = refined.prices, refined.n_points * math.prod(problem.values.shape)
    # Step 2: bound.
    truncated, worth, size, fixed = _worth(candidates, prices, options)
    bound = worth + truncated + price_of_bounds(prices, bounds) + fixed
    # Step 3: give up.
    is_worthless = truncated > max_truncation * size or is_over()
    if is_worthless or _is_held_back(candidates, problem, refined, options):
        return ReducedSolution(None, prices, bound, prices, False, n_values)
    # Steps 4 and 5: labels and proof.
    assignment, moved = labels_by_paths(
        candidates, bounds, refined, tol, size, options, is_over=is_over
    )
    return ReducedSolution(assignment, moved, bound, prices, assignment is None, n_values)


def is_small(n: int, k: int, options: SolverOptions, like: Array) -> bool:
    """Tell whether clusters and rows are few enough for paths, on the library of `like`.

    Examples
    --------
    >>> import numpy as np
    >>> from dualclust.backends import engine
    >>> with engine("reference"):
    ...     found = is_small(10_000, 10, DEFAULT_OPTIONS, np.zeros(1))
    >>> found, is_small(10_000, 10, DEFAULT_OPTIONS, np.zeros(1))
    (False, True)
    """
    # Without an engine, as many as are solved in full anyway.
    most = FEW_GROWTH if select("augmenting_paths", like) else 1
    return k <= options.few_clusters and n * k <= most * options.full_entries


def labels_by_paths(
    candidates: Candidates,
    bounds: SizeBounds,
    refined: RefinedPrices,
    tol: float,
    size: float,
    options: SolverOptions,
    *,
    is_over: Callable[[], bool] = lambda: False,
) -> tuple[OfflineAssignment | None, Array]:
    """Steps 4 and 5: labels, with the prices that the paths have left; None where paths fail."""
    xp, assignment = compat.array_namespace(bounds.lower), None
    lower, upper = bounds.lower - candidates.fixed_counts, bounds.upper - candidates.fixed_counts
    prices, window = refined.prices, WINDOW * refined.temperature
    # No candidate is further behind than this: a larger window would change nothing.
    largest = 2.0 * float(xp.max(candidates.high - candidates.low))
    if tol >= ROUGH and math.isfinite(largest):
        largest = window
    for attempt in range(MAX_WINDOWS + 1):
        slots, moved, _, _, is_stuck = augmenting_paths(
            candidates.values,
            candidates.clusters,
            prices,
            lower=lower,
            upper=upper,
            window=window if attempt < MAX_WINDOWS else math.inf,
            is_over=is_over,
        )
        if is_stuck and (window > largest or is_over()):
            break
        window *= WINDOW_GROWTH
        if is_stuck:
            continue
        # Prices that went up and down again are off by the rounding of the largest on the way.
        scale = largest_score(xp.concat([prices, moved]))
        prices = xp.where(xp.abs(moved) <= rounding_of(scale), xp.zeros_like(moved), moved)
        assignment, misplaced = proven(
            candidates, slots, prices, bounds, scale, options, or_zero=True
        )
        if misplaced <= tol / 8.0 * max(size, abs(assignment.upper_bound)):
            break
    return assignment, prices


def _is_held_back(
    candidates: Candidates, problem: SmoothedDual, refined: RefinedPrices, options: SolverOptions
) -> bool:
    """Step 3: whether the region clamps prices that have to go elsewhere.

    The rows by which clusters then miss their bounds are stranded: each costs a long augmenting
    path.
    """
    xp, prices = compat.array_namespace(refined.prices), refined.prices
    (k,) = prices.shape
    clamped = candidates.clamped(prices)
    n_clamped = int(xp.sum(xp.astype(clamped, xp.int64)))
    if n_clamped == 0 or n_clamped > options.edge_share * k:
        return n_clamped > 0
    _, counts, *_ = soft_counts(
        problem.values, problem.clusters, prices, temperature=refined.temperature
    )
    aim = xp.where(prices > 0.0, problem.lower, problem.upper)
    missing = xp.abs(counts + problem.fixed_counts - aim)
    stranded = float(xp.sum(xp.where(clamped, missing, xp.zeros_like(missing))))
    return bool(stranded > options.max_stranded * k)


def _worth(candidates: Candidates, prices: Array, options: SolverOptions) -> list[float]:
    """Step 2: by how much truncated clusters can be worth more than the best candidates.

    Also what the best candidates are worth, about how large the objective is, and what the prices
    add to the fixed rows.
    """
    xp = compat.array_namespace(prices)

    def of_part(rows: slice) -> list[Array | float]:
        first = xp.astype(candidates.values[rows, 0], xp.float64)
        lists = candidates.values[rows, :], candidates.clusters[rows, :]
        price = xp.take(prices, xp.astype(lists[1][:, 0], xp.int64))
        place = xp.zeros(price.shape, dtype=xp.int64, device=compat.device(price))
        best = price + regrets(*lists, prices, place)
        beyond = xp.clip(candidates.truncation[rows] - first - best, min=0.0)
        return [unread(xp.sum(terms)) for terms in (beyond, first + best, xp.abs(first))]

    truncated, worth, size = 0.0, candidates.fixed_value, candidates.fixed_size
    for part in map_in_order(of_part, row_slices(candidates, options), like=prices):
        truncated, worth, size = truncated + part[0], worth + part[1], size + part[2]
    fixed = xp.sum(xp.astype(candidates.fixed_counts, xp.float64) * prices)
    return read(truncated, worth, size, fixed)
