"""Settings of self-labeling."""

from __future__ import annotations

from dataclasses import dataclass

from ..constraints import Cardinal, Fraction
from ..schema import Checked
from ._registry import register_options

__all__ = ["SelfLabelOptions"]


@register_options("self_label")
@dataclass(frozen=True, slots=True)
class SelfLabelOptions(Checked):
    """Settings of self-labeling besides those that all methods share.

    Attributes
    ----------
    init_from : str. Folder of the finished run to start from.
    fixed_epochs : int, 0 or more. First epochs, in which every image has the label of that run.
    confidence : float in [0, 1]. Afterwards an image counts where the probability of its likeliest
        cluster, as the weak view has it, is above this.
    """

    init_from: str = ""
    fixed_epochs: Cardinal = 10
    confidence: Fraction = 0.9
