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

With bounds on groups of rows (`bounds.groups`), a row of group g has ``pi_k + q_gk`` in the place
of ``pi_k``, and ``q_gk`` moves as in `online.grouped`.

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

from ..algos.bounds.groups import GroupBounds, check_counts_exist
from ..algos.bounds.sizes import SizeBounds
from ..algos.core.checks import (
    check_integral,
    check_interval,
    check_kind,
    check_same_place,
    check_shape,
)
from ..algos.core.errors import InvalidValueError
from ..algos.online.grouped import group_rule
from ..algos.online.step_sizes import StepRule
from ..common.devices import kind_of
from .operations import is_traced, moved_prices
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
    groups : GroupBounds, optional
        Bounds on groups of rows in clusters, from the groups of a data set: shares of each group
        are kept near them, as those of all rows are near `lower` and `upper`. It says as well
        which part of the rows each group is.
    lower, upper, scale, steps, automatic, process_group, device
        As in `SizePrices`. With `groups`, steps without `l1_radius` and `mean_over_chunk`.

    Attributes
    ----------
    group_price_lower, group_price_upper : (G, k) float64 buffers, in units of score
    group_lower_share, group_upper_share : (G, k) float64 buffers
        Shares of the rows of each group.
    group_counts : (G, k) int64 buffer
        Labels of each group since `reset_counts`. All of these with `groups` alone.

    Raises
    ------
    InfeasibleBoundsError
        Also if no counts of the data set are inside all bounds; the error names groups and
        clusters that prove it.

    Notes
    -----
    ``forward(scores, weights=None, groups=None)`` takes scores (..., k) of any real dtype, also
    under autocast (they are computed in float64), and returns (...,) int64 labels, ties to the
    lowest index, or (..., k) soft labels whose rows sum to 1, of the dtype of the scores but at
    least float32. No gradient passes. `weights` (...,), boolean or integer, says how often a row
    counts: 0 for padding. `groups` (...,), integer, is needed with bounds on groups and refused
    without: the group of each row, -1 for none. On the CPU a group that is not there is refused, on
    a device PyTorch's own assertion ends. Minus infinity forbids a pair. A row with NaN is not
    refused, which would take a read: it moves no price, its hard label is its first NaN, and its
    soft label is NaN.

    Guarantee: that of `SizePrices`, and with `groups` the same for each group, as for a stream of
    its own. It is for the hard labels; columns of soft labels add up to about the same sizes, the
    nearer the smaller epsilon is. Cost O(b k); no read of a value, about thirty operations on the
    device, and one all-reduce of k + 1 integers if there are several ranks; with G groups, twice
    as many operations, and G k integers more. The ranks' labels and prices are those of one
    process with the whole batch, to the bit.
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

    Fair labels: half of each group in each cluster, though each group has its favorite.

    >>> import numpy as np
    >>> from dualclust.algos.bounds.groups import GroupBounds
    >>> of_rows = torch.tensor([0, 0, 1, 1])
    >>> fair = GroupBounds.from_shares(of_rows, 2, lower=1.0, upper=1.0)
    >>> label = PricedLabels(2, groups=fair, steps=StepRule(0.0625, chunk_size=4))
    >>> scores = torch.tensor([[0.3, 0.2], [0.3, 0.0], [0.0, 0.3], [0.2, 0.3]])
    >>> _ = [label(scores, groups=of_rows) for _ in range(41)]
    >>> label.group_counts
    tensor([[42, 40],
            [40, 42]])
    """

    group_price_lower: Tensor
    group_price_upper: Tensor
    group_lower_share: Tensor
    group_upper_share: Tensor
    group_counts: Tensor
    _group_ratios: Tensor

    def __init__(
        self,
        n_clusters: int,
        *,
        epsilon: float | None = None,
        groups: GroupBounds | None = None,
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
        self.n_groups: int | None = None
        if groups is not None:
            self._add_groups(groups, lower, upper, device)

    @torch.no_grad()
    def forward(
        self, scores: Tensor, weights: Tensor | None = None, groups: Tensor | None = None
    ) -> Tensor:
        """Label a batch, then move the prices; the class says what goes in and comes out."""
        counted = self._checked(scores, weights)
        self._check_groups(scores, groups)
        priced = scores.to(torch.float64) + self.prices
        if groups is not None:
            q = self.group_price_lower - self.group_price_upper
            priced = priced + torch.cat([q, torch.zeros_like(q[:1])])[groups.to(torch.int64)]
        labels = torch.argmax(priced, dim=-1)
        self.count(labels, counted, groups)
        if self.epsilon is None:
            return labels
        below = (priced - priced.amax(dim=-1, keepdim=True)) / self.epsilon
        return torch.softmax(below, dim=-1).to(torch.promote_types(scores.dtype, torch.float32))

    def reset_counts(self) -> None:
        """Count from 0 again, for an epoch or a page of a log; prices stay."""
        super().reset_counts()
        if self.n_groups is not None:
            self.group_counts.zero_()

    def extra_repr(self) -> str:
        """Options of `print(model)`."""
        return f"{super().extra_repr()}, epsilon={self.epsilon}"

    def _add_groups(self, groups: GroupBounds, lower: Any, upper: Any, device: Any) -> None:
        """Check bounds on groups, and make their buffers."""
        fix = "build it by GroupBounds.from_counts or .from_shares"
        check_kind("groups", groups, GroupBounds, fix)
        k, steps = self.n_clusters, self.steps
        self.n_groups = groups.n_groups
        check_shape("groups.lower", groups.lower, (groups.n_groups, k))
        if steps.mean_over_chunk or not math.isinf(steps.l1_radius):
            msg = (
                f"steps must have l1_radius=inf and mean_over_chunk=False with groups, got {steps}"
                ". To fix this, leave steps out"
            )
            raise InvalidValueError(msg)
        n = groups.groups.shape[0]
        check_counts_exist(SizeBounds.from_ratios(k, n_samples=n, lower=lower, upper=upper), groups)
        rule = group_rule(groups, StepRule(1.0, steps.chunk_size))
        shares = {"group_lower_share": rule.lower_share, "group_upper_share": rule.upper_share}
        for name, share in shares.items():
            self.register_buffer(name, torch.asarray(share).to(device, copy=True))
        ratios = torch.asarray(rule.step_size).to(device, copy=True)
        self.register_buffer("_group_ratios", ratios, persistent=False)
        zeros = torch.zeros_like(self.group_lower_share)
        self.register_buffer("group_price_lower", zeros)
        self.register_buffer("group_price_upper", zeros.clone())
        self.register_buffer("group_counts", zeros.to(torch.int64))
        self._pending = torch.cat([self._pending, self.group_counts.reshape(-1)])

    def _check_groups(self, scores: Tensor, groups: Tensor | None) -> None:
        """Check the groups of the rows; values are read where that costs nothing."""
        if (groups is None) != (self.n_groups is None):
            msg = (
                "groups must be given: the module has bounds on groups"
                if groups is None
                else "groups must be None: the module has no bounds on groups"
            )
            fix = "pass the group of each row" if groups is None else "make it with groups="
            msg = f"{msg}. To fix this, {fix}"
            raise InvalidValueError(msg)
        if groups is None or torch.compiler.is_compiling():
            return
        check_integral("groups", groups)
        check_shape("groups", groups, tuple(scores.shape[:-1]))
        check_same_place(scores=scores, groups=groups)
        if is_traced() or not (groups.numel() and kind_of(groups.device).reads_are_free):
            return
        least, most, n_groups = int(groups.min()), int(groups.max()), self.group_counts.shape[0]
        if least < -1 or most >= n_groups:
            msg = (
                f"groups must lie in [-1, {n_groups}), got values from {least} to {most}"
                ". To fix this, number the groups as in the bounds"
            )
            raise InvalidValueError(msg)

    def _count_cells(self, labels: Tensor, times: Tensor, groups: Tensor | None) -> list[Tensor]:
        if groups is None:
            return []
        g, k = self.group_counts.shape
        ids = groups.reshape(-1).to(torch.int64)
        cells = torch.where(ids < 0, g, ids) * k + labels
        counts = torch.zeros((g + 1) * k, dtype=torch.int64, device=labels.device)
        return [counts.index_add(0, cells, times)[: g * k]]

    def _step_groups(self, pending: Tensor, n: Tensor) -> None:
        if self.n_groups is None:
            return
        counts = pending[self.n_clusters + 1 :].reshape(self.group_counts.shape)
        m = counts.sum(dim=1, keepdim=True).to(torch.float64)
        lower, upper = moved_prices(
            self.group_price_lower,
            self.group_price_upper,
            m * self.group_lower_share,
            m * self.group_upper_share,
            self._step_size(n) * self._group_ratios,
            counts,
            False,
            math.inf,
        )
        self.group_price_lower.copy_(lower)
        self.group_price_upper.copy_(upper)
        self.group_counts += counts
