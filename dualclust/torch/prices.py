r"""Prices of size bounds as a module: buffers that move with every batch, the same on all ranks.

A batch of n labels, ``c_k`` of them k, moves the prices by one step of `online.duals.update_duals`,

``rho_k  <- max(0, rho_k  - h (c_k - n l_k))``                     CoKe Eq. 11 and 18
``rho'_k <- max(0, rho'_k + h (c_k - n u_k))``                     SeCu supplement, section 2

There are no epochs: bounds are shares of a stream (`SizeBounds.for_stream`), and h is the step of
`measured_steps`. That rule asks that a batch move the price of a cluster of mean size by at most
0.02, and `assign_batch` cuts longer batches into chunks. Ranks could do that only with a message
for each chunk. So a batch that is longer than a chunk, counted over all ranks, is labeled as a
whole and takes the step of one chunk: ``h min(1, chunk / n)``. Theorem R holds for that as well
(R2 to R4 with eta, the most that one batch moves a price, which is ``h chunk`` at most).

======================  ========================  =======  =======================================
paper                   here                      shape    meaning
======================  ========================  =======  =======================================
:math:`\rho`            ``price_lower``           (k,)     bonus of a small cluster, float64
:math:`\rho'`           ``price_upper``           (k,)     penalty of a large cluster, float64
:math:`\gamma_k / N`    ``lower_share``           (k,)     smallest share of the labels, float64
:math:`\gamma'_k / N`   ``upper_share``           (k,)     largest share of the labels, float64
:math:`n_k`             ``counts``                (k,)     labels since the last reset, int64
======================  ========================  =======  =======================================
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..algos.core.checks import check_interval, check_kind
from ..algos.core.errors import InvalidTypeError, InvalidValueError
from ..algos.online.assignment import STREAM_SAMPLES_PER_CLUSTER
from ..algos.online.duals import Duals, init_duals
from ..algos.online.step_sizes import StepRule, measured_steps
from ..common.devices import kind_of
from .bounded import Bounded
from .operations import is_traced, moved_prices, ranks_of

__all__ = ["PriceFigures", "SizePrices", "price_figures"]

LOOK_PASSES, LOOK_LABELS = 128, 100  # passes between two looks on the CPU; labels of a cluster
FORGOTTEN = 256  # passes without a step of the prices


class SizePrices(Bounded):
    """Bounds on cluster sizes, and the prices that keep a stream of labels near them.

    The base of `PricedLabels` and `PricedRouter`; a rule of your own that labels by
    ``scores + prices`` calls `count` in its ``forward``.

    Parameters
    ----------
    n_clusters : int
        k >= 1.
    lower, upper : float or sequence of k floats
        Smallest and largest size in units of the mean size n / k, as in `SizeBounds.from_ratios`.
        With ``lower=1, upper=1`` all sizes are equal, as Sinkhorn's targets are.
    scale : float > 0
        Typical difference of one sample's scores between clusters: 1 for cosines and for gates of
        a sigmoid. Prices and steps are proportional to it.
    steps : StepRule, optional
        How prices move, instead of `measured_steps`: `published_steps`, or a step of your own,
        ``StepRule(h, chunk_size=b)`` for batches of up to b labels over all ranks.
    automatic : bool
        Move the prices in each training pass. Otherwise only `move_prices` does, for all labels
        since its last call: with accumulated gradients, and where a pass may be computed twice
        (activation checkpointing), call it once after ``optimizer.step()``.
    process_group : torch.distributed.ProcessGroup, optional
        Ranks that share the prices; all ranks by default, where there are several.
    device : torch.device or str, optional

    Attributes
    ----------
    price_lower, price_upper : (k,) float64 buffers, in units of score
    lower_share, upper_share : (k,) float64 buffers
    counts : (k,) int64 buffer
        Labels of all ranks since `reset_counts`.
    steps : StepRule

    Raises
    ------
    InfeasibleBoundsError
        If no shares satisfy the bounds.
    InvalidValueError, InvalidTypeError
        For an option out of its range, or `scale` together with `steps`.

    Notes
    -----
    Guarantee: at any time ``n_k >= n l_k - rise of rho_k / h``, and alike above (R1), and prices
    stay bounded (R2 to R4, for the best label of each row); no batch is kept inside the bounds by
    itself. Float64 stays float64 under ``.half()`` and ``.to(torch.bfloat16)``; devices without
    float64 are not supported. Claims: docs/claims.md#R1, #R2, #R3, #R4.

    Examples
    --------
    >>> prices = SizePrices(2, lower=1.0, steps=StepRule(0.25, chunk_size=4))
    >>> labels = torch.tensor([0, 0, 0, 1])
    >>> prices.count(labels)
    >>> prices.counts, prices.prices
    (tensor([3, 1]), tensor([0.0000, 0.2500], dtype=torch.float64))
    """

    price_lower: Tensor
    price_upper: Tensor
    counts: Tensor

    def __init__(
        self,
        n_clusters: int,
        *,
        lower: Any = 0.9,
        upper: Any = math.inf,
        scale: float = 1.0,
        steps: StepRule | None = None,
        automatic: bool = True,
        process_group: Any = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__(
            n_clusters, lower=lower, upper=upper, process_group=process_group, device=device
        )
        check_interval("scale", scale, 0.0, math.inf, open_low=True)
        if steps is None:
            n_pass = STREAM_SAMPLES_PER_CLUSTER * n_clusters
            steps = measured_steps(self.bounds, n_samples=n_pass, scale=scale)
        elif scale != 1.0:
            msg = (
                f"scale and steps both set the step, got scale={scale}. "
                f"To fix this, give one of them"
            )
            raise InvalidValueError(msg)
        check_kind("steps", steps, StepRule, "take measured_steps(bounds), or build one")
        self.steps, self.automatic = steps, automatic
        start = init_duals((n_clusters,), xp=torch, device=device)
        self.register_buffer("price_lower", start.lower.clone())
        self.register_buffer("price_upper", start.upper.clone())
        self.register_buffer("counts", torch.zeros(n_clusters, dtype=torch.int64, device=device))
        # Labels of this rank since the last step, and their number. No buffer: it differs between
        # ranks, and DistributedDataParallel would send that of the first rank to all.
        self._pending = torch.zeros(n_clusters + 1, dtype=torch.int64, device=device)
        # What warnings need, on the host but for the counts of the last look.
        self._looked = torch.zeros(n_clusters, dtype=torch.int64, device=device)
        self._n_passes = self._n_outside = self._n_waiting = 0
        self._has_warned = False

    @property
    def duals(self) -> Duals:
        """The prices of both bounds, as `assign_batch` takes them; views, not copies."""
        return Duals(self.price_lower, self.price_upper)

    @property
    def prices(self) -> Tensor:
        """What is added to scores, rho - rho', (k,) float64."""
        return self.price_lower - self.price_upper

    @torch.no_grad()
    def count(
        self, labels: Tensor, weights: Tensor | None = None, groups: Tensor | None = None
    ) -> None:
        """Count the labels of a batch in training mode; the prices move if `automatic`.

        In eval mode nothing happens, so that prices are frozen.

        Parameters
        ----------
        labels : int64 tensor of any shape, in [0, k)
            This rank's part of the batch, which may be empty: all ranks must call.
        weights : boolean or integer tensor of the shape of `labels`, optional
            How often each label counts; 0 for padding.
        groups : integer tensor of the shape of `labels`, optional
            Group of each row, for `PricedLabels` with bounds on groups.
        """
        if not self.training:
            return
        flat = labels.reshape(-1)
        ones = torch.ones_like(flat) if weights is None else weights.reshape(-1).to(torch.int64)
        sizes = torch.zeros_like(self.counts).index_add(0, flat, ones)
        cells = self._count_cells(flat, ones, groups)
        pending = torch.cat([sizes, ones.sum(dim=0, keepdim=True), *cells])
        if self.automatic:
            self._take_step(pending)
        else:
            self._pending += pending
        if not is_traced():
            self._note_pass()

    @torch.no_grad()
    def move_prices(self) -> None:
        """Take one dual step for all labels since the last one: one all-reduce of k + 1 integers.

        All ranks of the group must call it. Without labels no price moves.
        """
        self._take_step(self._pending)
        self._pending.zero_()
        self._n_waiting = 0

    def _take_step(self, pending: Tensor) -> None:
        """Take one dual step for the labels of each cluster, and their number."""
        ranks = ranks_of(self.group)
        pending = pending if ranks is None else ranks.total(pending)
        k = self.n_clusters
        sizes, n = pending[:k], pending[k : k + 1].to(torch.float64)
        # The step of n samples with shares l is that of one sample with shares n l.
        targets = n * self.lower_share, n * self.upper_share
        steps = self.steps
        lower, upper = moved_prices(
            *self.duals, *targets, self._step_size(n), sizes, steps.free_sign, steps.l1_radius
        )
        self.price_lower.copy_(lower)
        self.price_upper.copy_(upper)
        self.counts += sizes
        self._step_groups(pending, n)

    def _count_cells(self, labels: Tensor, times: Tensor, groups: Tensor | None) -> list[Tensor]:
        """Count labels of each group in each cluster, where there are bounds on groups."""
        return []

    def _step_groups(self, pending: Tensor, n: Tensor) -> None:
        """Move the prices of groups by such counts, which are the rest of `pending`."""

    def reset_counts(self) -> None:
        """Count from 0 again, for an epoch or a page of a log; prices stay."""
        self.counts.zero_()
        self._looked.zero_()

    @torch.no_grad()
    def look(self) -> None:
        """Read the counts since the last look, and warn once if prices do not hold the bounds.

        `price_figures` calls it, and on the CPU every 128th pass. A size outside of twice its
        bounds, in two looks in turn with at least 100 labels for each cluster, calls for the
        warning: the first look may see prices that are on their way.
        """
        since = self.counts - self._looked
        n = since.sum().to(torch.float64)
        outside = (since > 2.0 * n * self.upper_share) | (since < 0.5 * n * self.lower_share)
        n_labels, is_outside = torch.stack([n, outside.any().to(torch.float64)]).tolist()
        if n_labels < LOOK_LABELS * self.n_clusters:
            return
        self._looked = self.counts.clone()
        self._n_outside = self._n_outside + 1 if is_outside else 0
        if self._n_outside == 2 and not self._has_warned:
            self._has_warned = True
            msg = (
                f"sizes must stay near their bounds, and some were outside of twice them over the "
                f"last {n_labels:.0f} labels, and before: scores move faster than prices, or "
                f"differ by more than scale says. To fix this, pass scale=, the typical difference "
                f"of one sample's scores, or take BalancedLabels, for an encoder that learns"
            )
            warnings.warn(msg, stacklevel=2)

    def _note_pass(self) -> None:
        """Count a pass on the host: look now and then where that costs nothing, or warn."""
        self._n_passes += 1
        self._n_waiting += 1
        if self.automatic:
            if self._n_passes % LOOK_PASSES == 0 and kind_of(self.counts.device).reads_are_free:
                self.look()
        elif self._n_waiting == FORGOTTEN:
            msg = (
                f"prices must move with automatic=False, and have not for {FORGOTTEN} passes. "
                f"To fix this, call move_prices() after optimizer.step()"
            )
            warnings.warn(msg, stacklevel=4)

    def violation(self) -> Tensor:
        """Labels by which the worst cluster lies outside its shares of `counts`, () float64."""
        c = self.counts.to(torch.float64)
        n = c.sum()
        outside = torch.maximum(n * self.lower_share - c, c - n * self.upper_share)
        return outside.max().clamp(min=0.0)

    def extra_repr(self) -> str:
        """Options of `print(model)`."""
        return f"n_clusters={self.n_clusters}, steps={self.steps}, automatic={self.automatic}"

    def _step_size(self, n: Tensor) -> Tensor:
        """Return the step of n labels, which only the device knows, (1,) float64."""
        steps = self.steps
        # Two tensors are divided: a number by a tensor would be multiplied by its reciprocal.
        if steps.mean_over_chunk:
            return torch.full_like(n, steps.step_size) / n.clamp(min=1.0)
        longest = torch.full_like(n, steps.chunk_size)
        return steps.step_size * (longest / torch.maximum(n, longest))

    def _checked(self, scores: Tensor, weights: Tensor | None) -> Tensor:
        """Check the arguments of ``forward`` without reading a value; return how rows count.

        A row whose largest score is NaN or infinite counts 0 times, so that it moves no price.
        """
        self.check_scores(scores, weights)
        finite = torch.isfinite(scores.detach().amax(dim=-1))
        if weights is None:
            return finite
        if weights.is_floating_point() or weights.is_complex():
            msg = (
                f"weights must be boolean or integers, got {weights.dtype}: they say how often a "
                f"row counts. To fix this, pass weights > 0"
            )
            raise InvalidTypeError(msg)
        return weights * finite

    def _move(self, fn: Callable[[Tensor], Tensor]) -> None:
        self._pending, self._looked = fn(self._pending), fn(self._looked)

    def _load_from_state_dict(self, *arguments: Any) -> None:
        errors, before = arguments[-1], len(arguments[-1])
        super()._load_from_state_dict(*arguments)
        if len(errors) == before:
            self._pending.zero_()
            self._looked.copy_(self.counts)


class PriceFigures(NamedTuple):
    """What a person looks at, as plain numbers of the host.

    Attributes
    ----------
    counts : list of k ints
        Labels since `SizePrices.reset_counts`.
    prices : list of k floats
        In units of score.
    smallest, largest : float
        Size of the smallest and the largest cluster, in units of the mean size; 0 before any label.
    violation : float
        `SizePrices.violation`, in labels.
    """

    counts: list[int]
    prices: list[float]
    smallest: float
    largest: float
    violation: float


def price_figures(model: nn.Module) -> dict[str, PriceFigures]:
    """Read sizes and prices of every `SizePrices` in a model, by its name; one read for each.

    Parameters
    ----------
    model : torch.nn.Module
        The name of a model that is one itself is empty.

    Examples
    --------
    >>> prices = SizePrices(2)
    >>> prices.count(torch.tensor([0, 0, 0, 1]))
    >>> price_figures(prices)[""].largest
    1.5
    """
    found = {}
    for name, part in model.named_modules():
        if isinstance(part, SizePrices):
            part.look()
            parts = part.counts.to(torch.float64), part.prices, part.violation()[None]
            numbers = torch.cat(parts).tolist()
            k = part.n_clusters
            counts, mean = [int(c) for c in numbers[:k]], max(math.fsum(numbers[:k]) / k, 1.0 / k)
            smallest, largest = min(counts) / mean, max(counts) / mean
            found[name] = PriceFigures(counts, numbers[k:-1], smallest, largest, numbers[-1])
    return found
