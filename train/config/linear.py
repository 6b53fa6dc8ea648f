"""How a linear classifier is trained on frozen features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ...algos.core.errors import UsageError
from .augment import AugmentConfig
from .constraints import Count, NonNegative, Positive, Share
from .schema import Checked, Rule

__all__ = ["LinearConfig"]


@dataclass(frozen=True, slots=True)
class LinearConfig(Checked):
    """Linear evaluation as on ImageNet (`loop.linear_probe`); defaults are those of CoKe's script.

    Attributes
    ----------
    epochs : int, 1 or more. Passes over the training images.
    batch_size : int, 1 or more. Images in one step.
    lr : float > 0. Rate of the first epoch; ``lr (1 + cos(pi e / epochs)) / 2`` in epoch e.
    momentum : float in [0, 1). Momentum of SGD.
    weight_decay : float >= 0. Weight decay of the classifier.
    crop : (float, float), 0 < low <= high <= 1. Share of the area that a view of training shows.
    flip : bool. Whether views are mirrored with probability one half.
    """

    epochs: Count = 90
    batch_size: Annotated[int, Rule("an integer, 1 or more", lambda x: x >= 1)] = 1024
    lr: Positive = 0.3
    momentum: Share = 0.9
    weight_decay: NonNegative = 1e-6
    crop: tuple[Positive, Positive] = (0.08, 1.0)
    flip: bool = True

    def __post_init__(self) -> None:
        Checked.__post_init__(self)
        try:
            self.view()
        except UsageError as error:
            msg = f"linear.{error}"
            raise UsageError(msg) from None

    def view(self) -> AugmentConfig:
        """Augmentation of the training images."""
        return AugmentConfig(crop=self.crop, flip=self.flip)
