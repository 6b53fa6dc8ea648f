"""Bounds on cluster sizes, and whether any labels satisfy them.

`SizeBounds` holds the lower and the upper size of each cluster, from counts, from shares of n / k
or for a stream. If some pairs are forbidden, a maximum flow finds labels, or a proof in whole
numbers that none exist, which anyone can check. Messages about sums of bounds are in `sizes`, those
about forbidden pairs in `forbidden_pairs` and `farkas.explain`.
"""

from .farkas import (
    FarkasVector,
    explain,
    verify_infeasibility,
)
from .forbidden_pairs import (
    Feasibility,
    check_feasible,
    feasibility,
    infeasible,
)
from .sizes import (
    ROUNDING,
    SizeBounds,
    check_bounds,
    entries,
    relaxed,
)

__all__ = [
    "ROUNDING",
    "FarkasVector",
    "Feasibility",
    "SizeBounds",
    "check_bounds",
    "check_feasible",
    "entries",
    "explain",
    "feasibility",
    "infeasible",
    "relaxed",
    "verify_infeasibility",
]
