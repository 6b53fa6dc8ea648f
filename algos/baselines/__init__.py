"""Other methods of balanced assignment, compared with ours on the same scores.

They are Sinkhorn's entropic transport, SeCu's entropy variant and the sign rule of expert
balancing. `comparison` runs all methods on the same scores and reports what each proves.
"""

from .comparison import (
    METHODS,
    Comparison,
    Method,
    compare_assignments,
)
from .entropy import (
    PUBLISHED_STRENGTH,
    EntropyAssignment,
    EntropyRule,
    assign_entropy,
    entropy_objective,
    entropy_prices,
    entropy_step,
    entropy_upper_bound,
    published_rule,
)
from .sign_rule import (
    SignAssignment,
    SignRule,
    assign_sign_rule,
    update_bias,
)
from .sinkhorn_transport import (
    SWAV,
    Sinkhorn,
    SinkhornOptions,
    sinkhorn,
    soft_plan,
)

__all__ = [
    "METHODS",
    "PUBLISHED_STRENGTH",
    "SWAV",
    "Comparison",
    "EntropyAssignment",
    "EntropyRule",
    "Method",
    "SignAssignment",
    "SignRule",
    "Sinkhorn",
    "SinkhornOptions",
    "assign_entropy",
    "assign_sign_rule",
    "compare_assignments",
    "entropy_objective",
    "entropy_prices",
    "entropy_step",
    "entropy_upper_bound",
    "published_rule",
    "sinkhorn",
    "soft_plan",
    "update_bias",
]
