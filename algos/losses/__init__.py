"""What a network learns from labels: the losses of the papers, one function an equation.

`cross_entropy` holds the softmax that all of them use. `secu` and `coke` learn centers and labels;
`propos` scatters prototypes and aligns neighbors; `gatcluster` learns from four tasks;
`information` maximizes mutual information with a margin, with IIC and SeLa beside it; `temi`
distills heads into themselves over pairs of neighbors.
"""

from .coke import (
    label_loss,
    smoothed_labels,
    two_view_loss,
    two_view_targets,
)
from .cross_entropy import (
    log_softmax,
    soft_cross_entropy,
)
from .secu import (
    center_loss,
    mixed_targets,
)
from .sparse_labels import (
    SparseLabels,
    average_label,
    first_label,
    sparse_label_loss,
)
from .temi import (
    self_distillation_loss,
)

__all__ = [
    "SparseLabels",
    "average_label",
    "center_loss",
    "first_label",
    "label_loss",
    "log_softmax",
    "mixed_targets",
    "self_distillation_loss",
    "smoothed_labels",
    "soft_cross_entropy",
    "sparse_label_loss",
    "two_view_loss",
    "two_view_targets",
]
