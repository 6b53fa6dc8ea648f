"""Labels inside bounds on groups of rows in clusters, and labels of which some rows are left out.

`assign_grouped` finds the best labels inside the bounds of `bounds.groups`, and `assign_partial`
those of which at most some rows stay out of all clusters, each with its proof.
"""

from .assignment import GroupedAssignment, assign_grouped
from .left_out import PartialAssignment, assign_partial

__all__ = ["GroupedAssignment", "PartialAssignment", "assign_grouped", "assign_partial"]
