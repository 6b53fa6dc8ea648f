"""Online assignment: samples get labels one by one, and dual prices keep the sizes inside bounds.

`assign` labels a stream once; its counts always end inside the bounds. `assign_grouped_stream`
keeps bounds on groups in clusters as well. `update_duals` is their dual step, `measured_steps`
determines how fast prices move, and the certificates state what prices and labels prove.
"""

from .assignment import (
    Assignment,
    AssignmentState,
    assign,
    assign_stream,
    init_state,
    next_pass,
    relaxed,
)
from .certificates import (
    SizeCertificate,
    dual_value,
    margins,
    objective,
    size_certificate,
    violation,
)
from .duals import (
    DualRule,
    Duals,
    assign_batch,
    init_duals,
    update_duals,
)
from .grouped import (
    GroupedLabels,
    GroupedState,
    assign_grouped_stream,
    group_rule,
    init_grouped_state,
)
from .step_sizes import (
    PUBLISHED,
    StepRule,
    measured_steps,
    published_steps,
    theorem_steps,
)

__all__ = [
    "PUBLISHED",
    "Assignment",
    "AssignmentState",
    "DualRule",
    "Duals",
    "GroupedLabels",
    "GroupedState",
    "SizeCertificate",
    "StepRule",
    "assign",
    "assign_batch",
    "assign_grouped_stream",
    "assign_stream",
    "dual_value",
    "group_rule",
    "init_duals",
    "init_grouped_state",
    "init_state",
    "margins",
    "measured_steps",
    "next_pass",
    "objective",
    "published_steps",
    "relaxed",
    "size_certificate",
    "theorem_steps",
    "update_duals",
    "violation",
]
