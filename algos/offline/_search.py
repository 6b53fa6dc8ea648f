"""What the passes of the offline solver have found so far, and what the next one is to do."""

from __future__ import annotations

from typing import NamedTuple

from ..core.types import Array
from ._candidates import TrustRegion
from ._proof import OfflineAssignment
from ._reduced import ReducedSolution

__all__ = ["Search", "best_of"]


class Search(NamedTuple):
    """What the passes know so far, and what the next one is to do.

    Attributes
    ----------
    region : TrustRegion
        Where the next pass looks for candidates.
    width : int
        Candidates of a row in it.
    is_limited : bool
        Whether memory limits candidates.
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
    online_prices : (k,) float64 array, or None
        Where the last online passes began.
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
    online_prices: Array | None = None

    def judged(self, solution: ReducedSolution) -> Search:
        """Keep the best labels, and the prices that prove most (step 4)."""
        assignment, prices, bound = solution
        search = self._replace(prices=prices, best=best_of(self.best, assignment))
        if bound < search.least_bound:
            search = search._replace(least_bound=bound, best_prices=prices)
        return search


def best_of(*found: OfflineAssignment | None) -> OfflineAssignment | None:
    """Return the labels of the smallest gap, the first of equals; None if there are none."""
    return min((one for one in found if one is not None), key=lambda one: one.gap, default=None)
