r"""Labels of a stream by priced scores.

===========================================================  =====================================
label of sample i                                            source
===========================================================  =====================================
hard: ``y_i = argmax_k s_ik + pi_k``                         CoKe Eq. 10, SeCu supplement section 2
soft: ``q_ik = softmax_k((s_ik + pi_k) / epsilon)``          SwAV section 3.1, SeLa Eq. 7
===========================================================  =====================================

Sinkhorn finds the prices ``pi`` of one batch from nothing, by rounds over its columns, each with
an all-reduce; a few rounds leave sizes outside of their targets, and a batch of fewer samples than
clusters says little about sizes (hence SwAV's queue). Here prices are kept from batch to batch and
move by the counts of the hard labels, so that sizes hold over the stream, in bounds that may be
wide. The soft labels are those of Sinkhorn's plan at these prices.

======================  ==============  ==========  ===============================================
paper                   here            shape       meaning
======================  ==============  ==========  ===============================================
:math:`Z^\top C`        ``scores``      (..., k)    to maximize
:math:`\rho - \rho'`    ``prices``      (k,)        pi, in units of score
:math:`\varepsilon`     ``epsilon``     ()          temperature, in units of score
======================  ==============  ==========  ===============================================
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ..algos.core.checks import check_interval
from ..algos.online.step_sizes import StepRule
from .prices import SizePrices

__all__ = ["PricedLabels"]


class PricedLabels(SizePrices):
    """Labels of a stream of scores that move slowly: sizes stay near their bounds over the stream.

    For frozen features, for heads on them, and for data that come once. Targets of an encoder that
    learns are `BalancedLabels`: prices that remember lag behind scores that move, and sizes swing.
    In training mode each call moves the prices after it has labeled; in eval mode prices are
    frozen.

    Parameters
    ----------
    n_clusters : int
        k, the number of prototypes.
    epsilon : float > 0, optional
        Temperature of soft labels, in units of score (SwAV: 0.05). Hard labels by default.
    lower, upper, scale, steps, automatic, process_group, device
        As in `SizePrices`.

    Notes
    -----
    ``forward(scores, weights=None)`` takes scores (..., k) of any real dtype, also under autocast
    (they are computed in float64), and returns (...,) int64 labels, ties to the lowest index, or
    (..., k) soft labels whose rows sum to 1, of the dtype of the scores but at least float32. No
    gradient passes. `weights` (...,), boolean or integer, says how often a row counts: 0 for
    padding. Minus infinity forbids a pair. A row with NaN is not refused, which would take a read:
    it moves no price, its hard label is its first NaN, and its soft label is NaN.

    Guarantee: that of `SizePrices`. It is for the hard labels; columns of soft labels add up to
    about the same sizes, the nearer the smaller epsilon is. Cost O(b k); no read of a value, about
    thirty operations on the device, and one all-reduce of k + 1 integers if there are several
    ranks. The ranks' labels and prices are those of one process with the whole batch, to the bit.
    Source: CoKe Eq. 10, 11 and 18; SeCu supplement, section 2. Claims: docs/claims.md#R1, #R3.

    Examples
    --------
    All rows prefer cluster 0; prices send half of them away.

    >>> from dualclust.algos.online.step_sizes import StepRule
    >>> label = PricedLabels(2, lower=1.0, upper=1.0, steps=StepRule(0.0625, chunk_size=2))
    >>> scores = torch.tensor([[0.3, 0.2], [0.3, 0.0]])
    >>> [label(scores).tolist() for _ in range(4)]
    [[0, 0], [1, 0], [1, 0], [1, 0]]
    >>> label.eval()(scores)  # prices stay as they are
    tensor([1, 0])
    """

    def __init__(
        self,
        n_clusters: int,
        *,
        epsilon: float | None = None,
        lower: Any = 0.9,
        upper: Any = math.inf,
        scale: float = 1.0,
        steps: StepRule | None = None,
        automatic: bool = True,
        process_group: Any = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__(
            n_clusters,
            lower=lower,
            upper=upper,
            scale=scale,
            steps=steps,
            automatic=automatic,
            process_group=process_group,
            device=device,
        )
        if epsilon is not None:
            check_interval("epsilon", epsilon, 0.0, math.inf, open_low=True)
        self.epsilon = epsilon

    @torch.no_grad()
    def forward(self, scores: Tensor, weights: Tensor | None = None) -> Tensor:
        """Label a batch, then move the prices; the class says what goes in and comes out."""
        counted = self._checked(scores, weights)
        priced = scores.to(torch.float64) + self.prices
        labels = torch.argmax(priced, dim=-1)
        self.count(labels, counted)
        if self.epsilon is None:
            return labels
        below = (priced - priced.amax(dim=-1, keepdim=True)) / self.epsilon
        return torch.softmax(below, dim=-1).to(torch.promote_types(scores.dtype, torch.float32))

    def extra_repr(self) -> str:
        """Options of `print(model)`."""
        return f"{super().extra_repr()}, epsilon={self.epsilon}"
