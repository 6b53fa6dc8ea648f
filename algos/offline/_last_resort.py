"""What the offline solver does where passes have not proven the gap, and without any labels.

Labels of online passes take the memory of one block. All scores as candidates find the optimum, up
to `last_entries` (`SolverOptions`), and with them the errors: no labels inside the bounds exist, or
float64 is too short.
"""

from __future__ import annotations

from typing import NoReturn

import array_api_compat as compat

from ..bounds.forbidden_pairs import check_feasible
from ..bounds.sizes import SizeBounds
from ..core.errors import InvalidValueError
from ..core.types import Array
from ..scores.sources import ScoreSource
from ..scores.statistics import allowed_pairs, score_range, strided_ids
from ._candidates import TrustRegion, all_candidates
from ._online_passes import assign_in_passes
from ._options import SolverOptions
from ._proof import OfflineAssignment
from ._reduced import solve_reduced
from ._region_from_rows import brought_near, shifted_together
from ._search import Problem, Search, best_of

__all__ = ["last_resort", "raise_no_labels", "raise_without_labels", "solve_in_full"]


def last_resort(problem: Problem, search: Search) -> OfflineAssignment:
    """Return the best labels so far, those of online passes, or the optimum from all scores.

    With a time limit, or once somebody has asked for the end, all scores are the last resort only
    where nothing else has led to labels: paths through them may take hundreds of passes, and do not
    look at the clock.
    """
    source, bounds, _, options = problem[:4]
    n_scores, online, deadline = problem.n_scores, search.online, problem.deadline
    is_timed = deadline is not None and (deadline.is_timed or problem.is_over())
    if problem.is_exact and not is_timed:
        return solve_in_full(problem, search.prices)
    if search.best is None or (n_scores <= options.retry_entries and not problem.is_over()):
        online = best_of(online, assign_in_passes(source, bounds, search.best_prices, options))
    found, is_last = best_of(search.best, online), n_scores > options.last_entries
    is_enough = is_last or (search.best is not None and n_scores > options.retry_entries)
    if found is not None and (is_enough or is_timed or found.gap <= problem.tol):
        return found
    if is_last and not problem.is_exact:
        raise_no_labels(n_scores, options)
    return solve_in_full(problem, search.prices)


def solve_in_full(problem: Problem, prices: Array | None) -> OfflineAssignment:
    """Return the optimum from all scores: for few, or where nothing else has helped.

    Prices that leave a gap are dropped: their rounding may hide what scores differ by.
    """
    source, bounds, _, options = problem[:4]
    xp = compat.array_namespace(bounds.lower)
    candidates = all_candidates(source, like=bounds.lower)
    zero = xp.zeros(bounds.lower.shape, dtype=xp.float64, device=compat.device(bounds.lower))
    radius = xp.full_like(zero, 2.0 * score_range(candidates.values))
    starts, found = [zero], None
    if prices is not None and (n := source.group.n_total):
        rows = source.take(strided_ids(n, min(n, options.range_rows), prices))
        starts = [brought_near(rows, shifted_together(prices, bounds), bounds), zero]
    for start in starts:
        region = TrustRegion(start, radius)
        last = solve_reduced(candidates, bounds, region, 0.0, options=options).assignment
        found = last if found is None or (last is not None and last.gap < found.gap) else found
        if found is not None and found.gap == 0.0:
            break
    if found is None:
        raise_without_labels(source, bounds)
    return found._replace(phase="all scores")


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
