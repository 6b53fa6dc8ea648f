"""Labels for all samples at once: inside the bounds, with a proven gap, or optimal.

`assign_offline` learns prices on samples, keeps the clusters that can still be best (candidates),
and solves on these; `assign_exact` adds augmenting paths until the optimum is proven. Both read the
scores from a source, a block at a time. `SolverOptions` holds what a
user may want to change of the memory and time that they take.
"""

from ._options import DEFAULT_OPTIONS, SolverOptions
from ._special_cases import bounds_may_be_inactive
from .assignment import OfflineAssignment, assign_exact, assign_offline, assign_source

__all__ = [
    "DEFAULT_OPTIONS",
    "OfflineAssignment",
    "SolverOptions",
    "assign_exact",
    "assign_offline",
    "assign_source",
    "bounds_may_be_inactive",
]
