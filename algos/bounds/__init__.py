"""Bounds on cluster sizes, and whether any labels satisfy them.

`SizeBounds` holds the lower and the upper size of each cluster, from counts, from shares of n / k
or for a stream. If some pairs are forbidden, a maximum flow finds labels, or a proof in whole
numbers that none exist, which anyone can check; `infeasibility` says it in words.
"""

from .farkas import (
    FarkasVector,
    verify_infeasibility,
)
from .forbidden_pairs import (
    Feasibility,
    check_feasible,
    feasibility,
)
from .groups import (
    GroupBounds,
    check_counts_exist,
)
from .infeasibility import (
    check_ratios,
    check_sums,
    explain,
    infeasible,
)
from .loads import (
    LOAD_ROUNDING,
    LoadBounds,
    loads_of,
)
from .sizes import (
    ROUNDING,
    SizeBounds,
    check_bounds,
    implied_bounds,
    price_of_bounds,
)

__all__ = [
    "LOAD_ROUNDING",
    "ROUNDING",
    "FarkasVector",
    "Feasibility",
    "GroupBounds",
    "LoadBounds",
    "SizeBounds",
    "check_bounds",
    "check_counts_exist",
    "check_feasible",
    "check_ratios",
    "check_sums",
    "explain",
    "feasibility",
    "implied_bounds",
    "infeasible",
    "loads_of",
    "price_of_bounds",
    "verify_infeasibility",
]
