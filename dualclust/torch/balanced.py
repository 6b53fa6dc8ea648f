r"""Labels inside their bounds in every batch, where SwAV, DINO, SeLa and DeepCluster make targets.

==========  ======================================================================================
`kind`      labels of a batch
==========  ======================================================================================
``soft``    ``argmax sum_ij P_ij s_ij + epsilon H(P)``, column sums inside the bounds (`batches`)
``hard``    near ``argmax sum_i s_{i, y_i}``, counts inside the bounds, and nothing is read
``exact``   the optimum of ``hard``, by `assign_exact`, which reads values
==========  ======================================================================================

Sinkhorn's targets, SwAV section 3.1, are ``soft`` with bounds of 1.

======================  ============  =======  ===================================================
paper                   here          shape    meaning
======================  ============  =======  ===================================================
:math:`Z^\top C`        ``scores``    (n, k)   to maximize
:math:`\varepsilon`     ``epsilon``   ()       temperature, in units of score
``epsilon log u``       ``prices``    (k,)     pi, where the next batch begins, in units of score
======================  ============  =======  ===================================================
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from ..algos.batches import BatchCertificate, certify_batch, whole_bounds
from ..algos.core.checks import check_choice, check_count, check_interval
from ..algos.core.errors import InvalidTypeError, InvalidValueError
from .bounded import Bounded
from .operations import attached_plan, exact_labels, hard_labels, ranks_of, soft_labels

__all__ = ["BalancedLabels"]

EPSILON = {"soft": 0.02, "hard": 0.05, "exact": 0.05}  # benchmarks/results/targets.md
HELD = 1e-9  # temperatures; a smaller price counts as 0
GRADIENT_STEPS = 50


class BalancedLabels(Bounded):
    """Labels of a batch whose cluster sizes are inside their bounds in this very batch.

    Call it on the scores of a batch where SwAV, DINO, SeLa or DeepCluster code makes its targets.

    Parameters
    ----------
    n_clusters : int
        k, the number of prototypes.
    kind : {"soft", "hard", "exact"}
        Soft labels whose columns add up to sizes near the bounds, as near as `n_iter` steps come;
        hard labels inside them; or the best of all hard labels inside them.
    lower, upper : float or sequence of k floats
        Smallest and largest size in units of the mean size n / k of a batch; equal columns are
        ``lower=1.0, upper=1.0``. For hard labels they are rounded outward to whole rows.
    epsilon : float in [1e-30, 1e30], optional
        Temperature, in units of score: that of soft labels, 0.02 by default (SwAV has 0.05), or of
        the prices of ``hard``, 0.05 by default.
    n_iter : int >= 1
        Steps over the columns, each with a sum of k numbers over the ranks.
    decay : float in [0, 1]
        A batch begins with `decay` times the prices of the one before it: 0 begins anew.
    differentiable : bool
        Let the gradient pass through soft labels, by implicit differentiation. Targets have none.
    process_group : torch.distributed.ProcessGroup, optional
        Ranks whose batches are one; all ranks by default, where there are several.
    device : torch.device or str, optional

    Attributes
    ----------
    prices : (k,) float64 buffer, in units of score
        Of the last batch in training mode.
    lower_share, upper_share : (k,) float64 buffers

    Raises
    ------
    InfeasibleBoundsError
        If no sizes satisfy the bounds; for ``exact``, also if pairs of minus infinity leave no
        labels inside them.
    InvalidValueError, InvalidTypeError
        For an option out of its range, `differentiable` with hard labels, and weights of hard
        labels that are not boolean.

    Notes
    -----
    ``forward(scores, weights=None, queue=None)`` takes scores (..., k) of any real dtype, also
    under autocast (half precision is computed in float32), whose leading axes are one batch. It
    returns (..., k) soft labels whose rows sum to 1, at least float32, or (...,) int64 labels.
    `weights` (...,), at least 0, says how often a row counts: 0 for padding. `queue` (m, k) are
    scores of further rows, such as those of earlier batches in SwAV: they share the bounds, and
    their labels are not returned. `groups` are refused: bounds for parts of a batch are not here
    yet. Minus infinity forbids a pair. A row with NaN, with plus infinity
    or with nothing but minus infinity does not count; its soft label is NaN, its hard label any
    cluster. In eval mode labels are the same, and nothing is remembered.

    Slack: while an encoder learns, sizes run to their bounds in the first epochs and stay there,
    soft ones as well as hard ones (``docs/guides/in_your_loop.md``). Begin with bounds of 1, or of
    0.9 and 1.1, and widen them only where a measurement gains.

    Guarantee: ``hard`` and ``exact`` labels of rows that count are inside the bounds; for soft ones
    `certificate` says by how much they are not, and what prices prove of any labels.
    Cost: O(n k). On a device, nothing is read; soft labels are about 60 operations at ``n_iter=3``,
    hard ones about 160; ``exact`` reads, and takes seconds beyond a few hundred clusters.
    Ranks: soft labels are those of the whole batch to rounding; ``hard`` ones are inside the bounds
    of the whole batch, and depend on how rows lie on ranks; ``exact`` is for one process.

    Examples
    --------
    All rows prefer cluster 0; each cluster gets half of them, in this batch.

    >>> scores = torch.tensor([[0.3, 0.2], [0.3, 0.0], [0.3, 0.1], [0.4, 0.0]])
    >>> BalancedLabels(2, kind="hard", lower=1.0, upper=1.0)(scores)
    tensor([1, 0, 1, 0])
    >>> label = BalancedLabels(2, lower=1.0, upper=1.0, n_iter=100)
    >>> label(scores).sum(dim=0).round(decimals=3)
    tensor([2., 2.])
    >>> label.certificate(scores, label(scores)).violation < 1e-4
    True
    """

    prices: Tensor

    def __init__(
        self,
        n_clusters: int,
        *,
        kind: str = "soft",
        lower: Any = 0.9,
        upper: Any = math.inf,
        epsilon: float | None = None,
        n_iter: int = 3,
        decay: float = 1.0,
        differentiable: bool = False,
        process_group: Any = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__(
            n_clusters, lower=lower, upper=upper, process_group=process_group, device=device
        )
        check_choice("kind", kind, tuple(EPSILON))
        epsilon = EPSILON[kind] if epsilon is None else epsilon
        check_interval("epsilon", epsilon, 1e-30, 1e30)
        check_interval("decay", decay, 0.0, 1.0)
        check_count("n_iter", n_iter, 1)
        if differentiable and kind != "soft":
            msg = (
                f"differentiable must be False for {kind} labels, which have no gradient. "
                f"To fix this, pass kind='soft'"
            )
            raise InvalidTypeError(msg)
        self.kind, self.epsilon, self.n_iter, self.decay = kind, epsilon, n_iter, decay
        self.differentiable = differentiable
        self.register_buffer("prices", torch.zeros(n_clusters, dtype=torch.float64, device=device))

    def forward(
        self,
        scores: Tensor,
        weights: Tensor | None = None,
        queue: Tensor | None = None,
        groups: None = None,
    ) -> Tensor:
        """Label a batch; the class says what goes in and comes out."""
        if groups is not None:
            msg = (
                "groups must be None: bounds hold for all rows of a batch together. To fix this, "
                "call one BalancedLabels for each group, on the rows of that group"
            )
            raise InvalidValueError(msg)
        rows, counts = self._rows(scores, weights, queue)
        with torch.no_grad():
            start = self.prices if self.decay == 1.0 else self.decay * self.prices
            given = rows.detach(), self.lower_share, self.upper_share, start, counts
            if self.kind == "soft":
                labels, prices = soft_labels(*given, self.epsilon, self.n_iter, self.group)
            elif self.kind == "hard":
                labels, prices = hard_labels(*given, self.epsilon, self.n_iter, self.group)
            else:
                labels, prices = exact_labels(*given, self.group)
            if self.training:
                self.prices.copy_(prices)
        if self.differentiable and rows.requires_grad:
            held = (prices.abs() > HELD * self.epsilon) | (self.lower_share == self.upper_share)
            n_steps = min(self.n_clusters, GRADIENT_STEPS)
            labels = attached_plan(rows, labels, held, counts, self.epsilon, n_steps, self.group)
        if queue is not None:
            labels = labels[: rows.shape[0] - queue.reshape(-1, self.n_clusters).shape[0]]
        return labels.reshape(scores.shape if self.kind == "soft" else scores.shape[:-1])

    @torch.no_grad()
    def certificate(
        self, scores: Tensor, labels: Tensor, weights: Tensor | None = None
    ) -> BatchCertificate:
        """Say how good labels of a batch are, and how far sizes are outside; reads values.

        Parameters
        ----------
        scores, weights
            Of the batch, without a queue. The bound is tight for the last batch in training mode,
            of which the prices are, and holds for any.
        labels : (..., k) or (...,) tensor
            Soft or hard labels of `scores`, from here or from elsewhere.

        Returns
        -------
        BatchCertificate
            Of all rows of all ranks, which must all call. The bounds of hard labels are whole.
        """
        rows, counts = self._rows(scores, weights, None)
        is_soft, ranks = labels.shape == scores.shape, ranks_of(self.group)
        plan = labels.reshape(rows.shape) if is_soft else one_hot(labels, self.n_clusters)
        plan = plan.reshape(rows.shape)
        counted = torch.isfinite(rows.amax(dim=1)).to(torch.float64)
        total = (counted if counts is None else counted * counts).sum()
        total = total if ranks is None else ranks.total(total)
        bounds = self.lower_share * total, self.upper_share * total
        if not is_soft:
            bounds = whole_bounds(self.lower_share, self.upper_share, total)
        return certify_batch(
            rows.detach(),
            plan.detach().to(torch.float64),
            self.prices,
            *bounds,
            epsilon=self.epsilon if is_soft else 0.0,
            weights=counts,
            ranks=ranks,
        )

    def extra_repr(self) -> str:
        """Options of `print(model)`."""
        return (
            f"n_clusters={self.n_clusters}, kind={self.kind!r}, epsilon={self.epsilon}, "
            f"n_iter={self.n_iter}, decay={self.decay}"
        )

    def _rows(
        self, scores: Tensor, weights: Tensor | None, queue: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Check the arguments; return the rows of the batch and the queue, and how they count."""
        self.check_scores(scores, weights)
        rows = scores.reshape(-1, self.n_clusters)
        counts = None if weights is None else weights.reshape(-1)
        if counts is not None and self.kind != "soft" and counts.dtype != torch.bool:
            msg = (
                f"weights must be boolean for {self.kind} labels, got {counts.dtype}: a row is one "
                f"row of a count. To fix this, pass weights > 0"
            )
            raise InvalidTypeError(msg)
        if queue is not None:
            self.check_scores(queue, None)
            further = queue.reshape(-1, self.n_clusters)
            rows = torch.cat([rows, further.to(rows.dtype)])
            if counts is not None:
                counts = torch.cat([counts, counts.new_ones(further.shape[0])])
        return rows, counts
