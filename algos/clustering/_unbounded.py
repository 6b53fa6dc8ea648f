"""k-means whose bounds exclude no labels: the nearest centers are the best labels of all.

No prices are needed then, and no solver: labels are optimal for their centers because each row has
its best cluster, and the objective is its own upper bound.
"""

from __future__ import annotations

import array_api_compat as compat

from ..bounds.sizes import SizeBounds
from ..offline.assignment import OfflineAssignment
from .lloyd import KMeansResult

__all__ = ["as_assignment", "is_unbounded"]


def is_unbounded(bounds: SizeBounds) -> bool:
    """Tell whether bounds of a known number of samples allow any labels."""
    xp, n = compat.array_namespace(bounds.lower), bounds.n_samples
    return bool(xp.all((bounds.lower <= 0) & (bounds.upper >= n)))


def as_assignment(found: KMeansResult) -> OfflineAssignment:
    """Return the labels of free k-means with their proof: each row has its best cluster."""
    xp, device = compat.array_namespace(found.labels), compat.device(found.labels)
    return OfflineAssignment(
        labels=found.labels,
        counts=found.counts,
        prices=xp.zeros(found.counts.shape, dtype=xp.float64, device=device),
        objective=found.objective,
        upper_bound=found.objective,
        rounding=found.rounding,
        violation=0,
        gap=0.0,
    )
