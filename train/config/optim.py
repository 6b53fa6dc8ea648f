"""The optimizer and its learning rate, as a run's settings have them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from .constraints import Cardinal, NonNegative, Positive, Share, one_of
from .schema import Checked

__all__ = ["OptimConfig"]


@dataclass(frozen=True, slots=True)
class OptimConfig(Checked):
    """The optimizer.

    Attributes
    ----------
    name : str. The rule of the step: ``"sgd"``, ``"adam"``, ``"adamw"`` or ``"lars"``.
    lr : float > 0. Peak step size of the network.
    center_lr : float >= 0. Step size of learned centers, constant.
    momentum : float in [0, 1). Momentum of ``"sgd"`` and ``"lars"``; the others do not read it.
    weight_decay : float >= 0. Weight decay; ``"lars"`` leaves biases and normalization out.
    frozen_epochs : int >= 0. First epochs in which the network does not learn.
    warmup_epochs : int >= 0. Epochs of linear warm-up from 0 to `lr`, after the frozen ones.
    schedule : ``"cosine"`` after the warm-up, or ``"constant"``.
    cosine_over : ``"rest"`` or ``"epochs"``. Length of half a cosine: the epochs after the warm-up,
        so that it ends at 0; or all epochs, so that the run stops short of its end, at 0.6 percent
        of `lr` for 50 of 1,000 epochs (ProPos as released).
    first_step : ``"zero"``, ``"repeated"`` or ``"shifted"``. Where step i (from 0) of m steps an
        epoch reads the schedule: at i / m, so that the first step of a warm-up has rate 0; the
        same, but the first step of a warm-up has the rate of the second (SeCu and CoKe as
        released); or at (i + 1) / m (ProPos as released).
    lars_rate : ``"outside"`` or ``"inside"``. Of ``"lars"``: whether the rate multiplies the
        momentum buffer when the step is taken (SeCu and CoKe as released; PyTorch's SGD), or what
        is added to it (You et al.; ProPos as released). Equal while the rate is constant; in a
        warm-up steps with ``"outside"`` are longer, in a decay shorter.
    """

    name: Annotated[str, one_of("sgd", "adam", "adamw", "lars")] = "sgd"
    lr: Positive = 0.1
    center_lr: NonNegative = 0.6
    momentum: Share = 0.9
    weight_decay: NonNegative = 1e-4
    frozen_epochs: Cardinal = 1
    warmup_epochs: Cardinal = 0
    schedule: Annotated[str, one_of("cosine", "constant")] = "cosine"
    cosine_over: Annotated[str, one_of("rest", "epochs")] = "rest"
    first_step: Annotated[str, one_of("zero", "repeated", "shifted")] = "zero"
    lars_rate: Annotated[str, one_of("outside", "inside")] = "outside"
