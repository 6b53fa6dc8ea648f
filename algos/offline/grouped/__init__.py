"""Labels inside bounds on groups in clusters, with rows left out, or with rows in linked pairs.

`assign_grouped` finds the best labels inside the bounds of `bounds.groups`, `assign_partial` those
of which at most some rows stay out of all clusters, and `assign_linked` good ones that keep pairs
of rows together, or apart; each with its proof.
"""

from .assignment import GroupedAssignment, assign_grouped
from .left_out import PartialAssignment, assign_partial
from .linked import LinkedAssignment, assign_linked

__all__ = [
    "GroupedAssignment",
    "LinkedAssignment",
    "PartialAssignment",
    "assign_grouped",
    "assign_linked",
    "assign_partial",
]
