"""Settings of SeCu."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ..constraints import NonNegative, one_of
from ..schema import Checked
from ._registry import register_options

__all__ = ["SecuOptions"]


@register_options("secu")
@dataclass(frozen=True, slots=True)
class SecuOptions(Checked):
    """Settings of SeCu besides those that all methods share.

    Attributes
    ----------
    constraint : ``"size"`` or ``"entropy"``. What keeps the clusters of training apart: the bounds
        of ``[assignment]`` by their prices, or the entropy of the counts. The bounds hold for
        prediction either way: ``lower = 0.0, upper = inf`` switches them off.
    alpha : float, 0 or more. Weight of the entropy for one image, in units of score: the papers'
        alpha over the number of images, 6,000 / 50,000 on CIFAR-10.
    first_pass : ``"exact"`` or ``"published"``. What the first epoch charges under ``"entropy"``;
        see `algos.baselines.entropy`.
    centers : ``"learned"`` or ``"certified"``. How centers move: ``"learned"``, by the optimizer as
        published; or ``"certified"``: once an epoch, each head's centers are solved for the labels
        of the epoch before, the weights of SeCu's theorem included, with a proof of how good they
        are (`algos.clustering.hardness_weighted`), which holds an (n, k) table of float64.
    center_ramp : bool. Let the rate of the learned centers rise from 0 to ``optim.center_lr`` along
        half a cosine, as on ImageNet under ``"entropy"``.
    init_from : str. Folder of a finished run of SeCu to start from: the network, and the centers of
        all heads whose number of clusters it has; empty: from scratch.
    """

    constraint: Annotated[str, one_of("size", "entropy")] = "size"
    alpha: NonNegative = 0.12
    first_pass: Annotated[str, one_of("exact", "published")] = "exact"
    centers: Annotated[str, one_of("learned", "certified")] = "learned"
    center_ramp: bool = False
    init_from: str = ""
