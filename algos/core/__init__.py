"""The basis of every group: checks, errors, projections, random numbers, exact sums.

Functions take and return arrays of any library. Errors name the argument, the value, the rule and
the fix. Sums are integers, so they do not depend on the order of the rows.
"""

from .conjugate_gradients import (
    conjugate_gradients,
)
from .directions import (
    Directions,
    unit_directions,
)
from .errors import (
    CheckpointError,
    DeviceMismatchError,
    DivergedError,
    DualclustError,
    InfeasibleBoundsError,
    InvalidTypeError,
    InvalidValueError,
    MissingExtraError,
    MissingFileError,
    OutputError,
    UsageError,
)
from .projections import (
    project_capped,
    project_l1_ball,
    project_simplex,
    project_sphere,
)
from .random import (
    normal_noise,
    random_signs,
    uniforms,
)
from .segments import (
    segment_counts,
    segment_sum,
)
from .workers import (
    map_in_order,
    map_parts,
    row_parts,
    workers,
)

__all__ = [
    "CheckpointError",
    "DeviceMismatchError",
    "Directions",
    "DivergedError",
    "DualclustError",
    "InfeasibleBoundsError",
    "InvalidTypeError",
    "InvalidValueError",
    "MissingExtraError",
    "MissingFileError",
    "OutputError",
    "UsageError",
    "conjugate_gradients",
    "map_in_order",
    "map_parts",
    "normal_noise",
    "project_capped",
    "project_l1_ball",
    "project_simplex",
    "project_sphere",
    "random_signs",
    "row_parts",
    "segment_counts",
    "segment_sum",
    "uniforms",
    "unit_directions",
    "workers",
]
