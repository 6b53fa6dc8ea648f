"""Rows whose best clusters tie: labels that need no prices, and how many rows a pass cannot part.

Where bounds do not bind, the best cluster of each row is optimal, if ties are broken the right way.
Where nearly all rows lose candidates to the width of a pass, no larger pass would part them either.
"""

from __future__ import annotations

import array_api_compat as compat

from ..bounds.sizes import SizeBounds
from ..scores.sources import ScoreSource
from ._candidates import Candidates, TooManyCandidatesError, collect_candidates
from ._online_passes import may_be_free
from ._options import SolverOptions
from ._proof import OfflineAssignment
from ._reduced import solve_ties

__all__ = ["tied_share", "without_prices"]


def tied_share(candidates: Candidates, n_rows: int) -> float:
    """Return the share of all rows that have lost a candidate to the width of the pass."""
    xp = compat.array_namespace(candidates.truncation)
    return int(xp.sum(xp.astype(candidates.is_truncated, xp.int64))) / n_rows


def without_prices(
    source: ScoreSource, bounds: SizeBounds, tol: float, options: SolverOptions
) -> OfflineAssignment | None:
    """Return the best labels of all if they, with ties broken the right way, prove the gap."""
    if not may_be_free(source, bounds, options):
        return None
    xp = compat.array_namespace(bounds.lower)
    zero = xp.zeros(bounds.lower.shape, dtype=xp.float64, device=compat.device(bounds.lower))
    width, most = options.pass_width, options.max_entries
    try:
        candidates = collect_candidates(source, zero, zero, width=width, max_entries=most)
    except TooManyCandidatesError:
        return None
    assignment = solve_ties(candidates, bounds, options)
    return assignment if assignment is not None and assignment.gap <= tol else None
