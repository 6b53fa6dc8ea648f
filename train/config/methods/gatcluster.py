"""Settings of GATCluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ..constraints import Cardinal, Count, Fraction, NonNegative, one_of
from ..schema import Checked, Rule
from ._registry import register_options

__all__ = ["GatclusterOptions"]


@register_options("gatcluster")
@dataclass(frozen=True, slots=True)
class GatclusterOptions(Checked):
    """Settings of GATCluster besides those that all methods share.

    The large batch of M images is ``batch_size``; ``heads.clusters`` holds one number, k. Defaults
    are those of the released code where it and the paper differ.

    Attributes
    ----------
    relation : float >= 0. Weight of the loss of pairs, L_R: 1 in Eq. 12.
    transformation : float >= 0. Weight of the loss of transformation invariance, L_T: alpha_1.
    attention : float >= 0. Weight of the loss of attention, L_A: alpha_2 of Eq. 12, as the code
        pairs them; Eq. 3 swaps it with the next.
    entropy : float >= 0. Weight of the loss of entropy, L_E: alpha_3 of Eq. 12.
    sub_batch : int, 2 or more. m2, images of one optimizer step.
    repeats : int, 1 or more. Passes over the same views and targets of a large batch; the paper's
        Algorithm 1 has one, the code eight.
    drop_remainder : bool. Parts of exactly `sub_batch` images, and the rest of each pass unused, as
        the code does; otherwise parts of lengths that differ by at most one, and no image unused.
    chunk : int, 1 or more. m1, images in one pass when targets are computed: memory, not results.
    n_init : int, 1 or more. Starts of the k-means that makes the relations.
    min_share : float in [0, 1]. The guard: where the smallest cluster has fewer than this share of
        M / k images, every image is related to itself alone (in the code, not in the paper).
    floor : float in [1e-12, 0.5). Least agreement of a pair inside the logarithm of L_R.
    alpha : float in [1e-6, 1e6]. Width factor of the window (Eq. 9): 0.1 is what the code computes
        (Mean columns of the tables), 0.05 what the paper prints.
    losses : ``"exact"`` or ``"released"``. Losses by logarithms, or by probabilities that are kept
        away from 0 as in the released code (`algos.losses.gatcluster.released`); `floor` is for the
        first.
    target_eps : float in [0, 1]. Added to the masses and row sums of the targets of Eq. 5 and 11;
        1e-5 in the released code, whose rows then do not quite add up to 1.
    window : ``"isotropic"`` (mean and one variance, the paper's), ``"full"`` (two variances and a
        correlation) or ``"released"`` (of the paper's three numbers the released code reads the
        first and the last as the mean, and the last as the variance too).
    min_variance : float in [1e-6, 1). Least variance of a window, on a map of side 1.
    window_conv : bool. A 1 × 1 convolution before the layer that finds the window: the code has it
        for STL-10, and not for ImageNet-10.
    label_channels : int, 0 or more. Channels of the label branch's 1 × 1 convolution: 0 stands for
        k, as in the code; table S7 prints 64.
    label_relu : bool. ReLU after that convolution: in table S7, and in the code for ImageNet-10.
    head_layers : int, 1 or more. Linear layers of both heads: 2 in the code, 3 in tables S7 and S8.
    """

    relation: NonNegative = 1.0
    transformation: NonNegative = 5.0
    attention: NonNegative = 5.0
    entropy: NonNegative = 3.0
    sub_batch: Annotated[int, Rule("an integer, 2 or more", lambda x: x >= 2)] = 32
    repeats: Count = 8
    drop_remainder: bool = False
    chunk: Count = 200
    n_init: Count = 20
    min_share: Fraction = 0.1
    floor: Annotated[float, Rule("in [1e-12, 0.5)", lambda x: 1e-12 <= x < 0.5)] = 1e-5
    alpha: Annotated[float, Rule("between 1e-6 and 1e6", lambda x: 1e-6 <= x <= 1e6)] = 0.1
    losses: Annotated[str, one_of("exact", "released")] = "exact"
    target_eps: Fraction = 0.0
    window: Annotated[str, one_of("isotropic", "full", "released")] = "isotropic"
    min_variance: Annotated[float, Rule("in [1e-6, 1)", lambda x: 1e-6 <= x < 1)] = 1e-4
    window_conv: bool = True
    label_channels: Cardinal = 0
    label_relu: bool = False
    head_layers: Count = 2
