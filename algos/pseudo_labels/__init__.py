"""Soft pseudo-labels of MI + margin: a convex problem, solved to a certified duality gap.

`pseudo_labels` is a primal-dual Newton method; `em_labels` is the published iteration, kept to
compare with; `label_gap` proves how good any labels are.
"""

from .em import (
    em_labels,
    em_step,
)
from .solver import (
    LabelDuals,
    PseudoLabels,
    floor_outputs,
    label_gap,
    pseudo_label_energy,
    pseudo_labels,
)

__all__ = [
    "LabelDuals",
    "PseudoLabels",
    "em_labels",
    "em_step",
    "floor_outputs",
    "label_gap",
    "pseudo_label_energy",
    "pseudo_labels",
]
