"""Labels of rows that have sizes: each cluster holds a load between its bounds.

`assign_weighted` rounds the linear program, with its proof, and seeks loads wholly inside.
"""

from .assignment import WeightedAssignment, assign_weighted

__all__ = ["WeightedAssignment", "assign_weighted"]
