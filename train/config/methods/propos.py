"""Settings of ProPos, and of BYOL, which is ProPos with ``psl_weight = 0`` and ``sigma = 0``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ..constraints import Cardinal, Count, Fraction, NonNegative, Positive, one_of
from ..schema import Checked
from ._registry import register_options

__all__ = ["ProposOptions"]


@register_options("propos")
@dataclass(frozen=True, slots=True)
class ProposOptions(Checked):
    """Settings of ProPos besides those that all methods share; defaults are as published.

    Scattering and noise begin when the learning rate is warm: after ``optim.frozen_epochs`` and
    ``optim.warmup_epochs``, as published.

    Attributes
    ----------
    psl : str. The prototype scattering loss: ``"mixed-view"`` (the released code, and so the
        published numbers; without what it adds for empty clusters), ``"released"`` (with it),
        ``"same-view"`` (Eq. 4 as printed), ``"cross-view"`` (Eq. 28), or ``"uniformity"`` (the
        second term of Eq. 5 alone, table 6).
    psl_weight : float >= 0. Weight of it, on the scale of one process: the gathering of the
        released code divides its gradient by the number of GPUs, so that 0.1 on four of them is
        0.025 here.
    temperature : float > 0. Divides the cosines of the prototypes.
    sigma : float >= 0. Standard deviation of the noise on the features that are aligned, Eq. 9.
    noise : ``"raw"`` (on the projector's output as it is, as released) or ``"sphere"`` (on unit
        features, as printed).
    reassign : int >= 1. Epochs between two clusterings of all images; the first is before the
        first epoch.
    n_init : int >= 1. Starts of k-means, of which the best is kept.
    kmeans_iterations : int >= 1. Most iterations of one start.
    kmeans_tolerance : float in [0, 1]. It stops once at most this share of the labels changed.
    queue : int >= 0. Features of the target network that are remembered for the prototypes; each
        step adds two for every image. 0: none.
    ema : float in [0, 1]. Momentum of the target network, Eq. 11.
    ema_after : ``"optimizer"`` or ``"loss"``. When the target network moves in a step: after the
        optimizer, so that it holds the parameters that the next step begins with (BYOL; the second
        version of the released code); or before it, one step behind (the first version).
    ema_schedule : ``"constant"``, or ``"cosine"`` from `ema` at the first step to 1 at the last.
    predictor_scale : float > 0. Factor on the learning rate of the predictor.
    resample : bool. Whether an epoch draws images with replacement so that all clusters come
        equally often, instead of each image once.
    batch_norm : ``"global"`` (statistics of the whole batch, over all ranks) or ``"shuffled"``
        (statistics of sub-batches, which the target network sees in another order).
    view_norm : ``"each"`` or ``"joint"``. Whether these statistics are of each view by itself (the
        first version of the released code), or of both views of a batch or sub-batch together (the
        second, of CIFAR-20 and ImageNet-Dogs).
    sub_batches : int >= 1. Sub-batches of a batch under ``"shuffled"``: as many as the published
        runs had GPUs.
    """

    psl: Annotated[
        str, one_of("mixed-view", "released", "same-view", "cross-view", "uniformity")
    ] = "mixed-view"
    psl_weight: NonNegative = 0.1
    temperature: Positive = 0.5
    sigma: NonNegative = 1e-3
    noise: Annotated[str, one_of("raw", "sphere")] = "raw"
    reassign: Count = 1
    n_init: Count = 10
    kmeans_iterations: Count = 300
    kmeans_tolerance: Fraction = 1e-4
    queue: Cardinal = 0
    ema: Fraction = 0.996
    ema_after: Annotated[str, one_of("optimizer", "loss")] = "optimizer"
    ema_schedule: Annotated[str, one_of("constant", "cosine")] = "constant"
    predictor_scale: Positive = 10.0
    resample: bool = False
    batch_norm: Annotated[str, one_of("global", "shuffled")] = "global"
    view_norm: Annotated[str, one_of("each", "joint")] = "each"
    sub_batches: Count = 4
