"""Mutual information with a margin, its pseudo-label losses, and its peers IIC and SeLa."""

from .joint import (
    information_of_joint,
    joint_distribution,
    joint_information_loss,
)
from .mutual import (
    information_margin_loss,
    margin_term,
    mean_entropy,
    mutual_information,
    prior_divergence,
)
from .pseudo_label import (
    pseudo_label_divergence,
    pseudo_label_loss,
    reverse_cross_entropy,
)
from .self_labeling import (
    self_labeling_loss,
    transport_objective,
)

__all__ = [
    "information_margin_loss",
    "information_of_joint",
    "joint_distribution",
    "joint_information_loss",
    "margin_term",
    "mean_entropy",
    "mutual_information",
    "prior_divergence",
    "pseudo_label_divergence",
    "pseudo_label_loss",
    "reverse_cross_entropy",
    "self_labeling_loss",
    "transport_objective",
]
