"""Settings of CoKe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ....algos.core.errors import UsageError
from ..constraints import Cardinal, Count, Fraction, Positive, one_of
from ..schema import Checked
from ._registry import register_options

__all__ = ["CokeOptions"]


@register_options("coke")
@dataclass(frozen=True, slots=True)
class CokeOptions(Checked):
    """Settings of CoKe besides those that all methods share.

    The weight alpha of the stored label is ``loss.tau``, the epochs of the initial pass are
    ``optim.frozen_epochs``, and the predictor is there where ``network.predictor`` is above 0.

    Attributes
    ----------
    views : ``"one"``, ``"two"`` or ``"multi"``. Views of an image in a step: one; two, drawn by
        ``augment`` and ``second``; or these two and small crops, drawn by ``small``.
    small_crops : int, 1 or more. How many, with ``"multi"``.
    beta : float in [0, 1]. Weight of the predictor's loss; 1 - beta is that of the projector's.
        Without a predictor the loss is the projector's.
    crop_weight : float in [0, 1]. Weight of the loss of the small crops; 1 - crop_weight is that of
        the two large views.
    centers : ``"batch"`` or ``"epoch"``. When the centers that labels are taken by move: after each
        batch, to the mean of the epoch so far; or once, at the end of an epoch.
    center_rule : ``"exact"`` or ``"released"``. How a running center is made: the direction of the
        sum of what its cluster got (Eq. 13), whatever the batches, and averages over epochs as
        they are; or brought to unit length at each batch, and averages too
        (`algos.clustering.centers.renormalized_centers`).
    second_stage : int, 0 or more. First epoch, counted from 0, of the second stage, in which
        centers move once an epoch; 0: there is none.
    average : bool. Whether the second stage averages labels and centers over its epochs; of one
        view, as published.
    slots : int, 1 or more. Clusters that an averaged label keeps.
    smoothing : float > 0. Temperature of the softmax over an averaged label.
    """

    views: Annotated[str, one_of("one", "two", "multi")] = "two"
    small_crops: Count = 6
    beta: Fraction = 0.5
    crop_weight: Fraction = 0.5
    centers: Annotated[str, one_of("batch", "epoch")] = "batch"
    center_rule: Annotated[str, one_of("exact", "released")] = "exact"
    second_stage: Cardinal = 0
    average: bool = True
    slots: Count = 5
    smoothing: Positive = 0.5

    def __post_init__(self) -> None:
        Checked.__post_init__(self)
        if self.second_stage and self.average and self.views != "one":
            msg = (
                f"average must be false with views={self.views!r}: averaged labels are of one "
                f"view. To fix: set coke.average=false, coke.views='one' or coke.second_stage=0"
            )
            raise UsageError(msg)
