r"""CoKe: online constrained k-means, and features that learn its last result.

One step on a batch of b images, all heads side by side, each with its own number of clusters:

1. *loss* of each view for the labels and centers of epoch t - 1 (Eq. 14, section 3.4);
2. *labels of now* ``y = argmax_k mean_v(x_v) . c_k + rho_k`` for the running centers of epoch t
   (Eqs. 10, 17), then dual steps (Eq. 18);
3. *running centers*: the direction of the sum of what each cluster got in epoch t (Eq. 13).

Epoch 0 does 2 and 3 alone and gives no gradient. A second stage moves the centers once an epoch
(Eq. 12) and averages labels and centers over its epochs (section 3.4, appendix B.2.2).

==========================  ================  ===============  ====================================
paper                       here              shape            meaning
==========================  ================  ===============  ====================================
:math:`c_k^{t-1}`           ``past``          (h, kmax, d)     centers of the loss; averaged ones in
                                                               the second stage, not of unit length
:math:`C^{t-1}`             ``centers``       (h, kmax, d)     unit centers of the epoch before; the
                                                               running ones, if renormalized
:math:`\sum \mu x`          ``sums``          (h, kmax, d)     exact sums of this epoch, int64
:math:`\tilde y_i^{t-1}`    ``labels``        (h, n)           stored labels, int64
:math:`\hat y_i^{t-1}`      ``averages``      (h, n, s)        averaged labels, of a few clusters
:math:`\rho`                ``heads.duals``   (h, kmax)        prices of the bounds, float64
:math:`\alpha, \lambda`     ``loss``          ()               ``tau`` and ``temperature``
==========================  ================  ===============  ====================================

Not followed, unless ``coke.center_rule`` asks for it, is the released code where it normalizes the
running mean at each batch, which over-weights old samples (`algos.clustering.centers`), and where
it normalizes averaged centers, which the paper leaves as they are. Like it, prices are not
projected onto CoKe's l1 ball (`algos.online.step_sizes`), and a cluster that got nothing in an
epoch of the second stage keeps its averaged center.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from ...algos.clustering.centers import (
    CenterSums,
    mean_centers,
    merge_sums,
    renormalized_centers,
    running_average,
    sum_batch,
)
from ...algos.core.errors import UsageError
from ...algos.losses.coke import label_loss, two_view_targets
from ...algos.losses.cross_entropy import soft_cross_entropy
from ...algos.losses.sparse_labels import (
    SparseLabels,
    average_label,
    first_label,
    sparse_label_loss,
)
from ...common.ranks import ALONE, Ranks
from ..config.methods.coke import CokeOptions
from ..config.run import RunConfig
from ..networks.network import Network, run_views
from ..networks.normalization import full_precision
from ..state.seeding import generator
from ._priced_heads import PricedHeads, kmeans_centers
from .base import ApplyToAll, Method, ParameterGroup, register_method

__all__ = ["CoKe"]

LARGE = {"one": ("first",), "two": ("first", "second"), "multi": ("first", "second")}


@register_method("coke")
class CoKe(Method):
    """State of a run of CoKe, and its step. The parameters are those of `Method`.

    Attributes
    ----------
    averaging : bool. Whether this run has a second stage that averages.
    averages : SparseLabels. (h, n, s) int32 clusters and weights; of no image without `averaging`.

    Raises
    ------
    UsageError
        If there is no initial epoch, the second stage begins after the last one, or small crops
        have no augmentation of their own.
    """

    capturable = True

    @classmethod
    def check(cls, config: RunConfig, n_samples: int | None = None) -> None:
        """Refuse settings that contradict each other."""
        options = config.options(CokeOptions)
        if config.optim.frozen_epochs < 1:
            msg = (
                "optim.frozen_epochs must be 1 or more for coke, got 0: the first labels and "
                "centers are made without learning. To fix: set optim.frozen_epochs=1"
            )
            raise UsageError(msg)
        if options.second_stage >= config.epochs:
            msg = (
                f"coke.second_stage must be below epochs={config.epochs}, got "
                f"{options.second_stage}. To fix: let it begin earlier, or set coke.second_stage=0"
            )
            raise UsageError(msg)
        if options.views == "multi" and config.small is None:
            msg = (
                "coke.views='multi' needs a table [small], which says how the small crops are "
                "drawn. To fix: add it, or set coke.views='two'"
            )
            raise UsageError(msg)
        super().check(config, n_samples)

    def __init__(
        self, config: RunConfig, network: Network, n_samples: int, ranks: Ranks = ALONE
    ) -> None:
        super().__init__(config, network, n_samples, ranks)
        self.options = config.options(CokeOptions)
        self.large = len(LARGE[self.options.views])
        self.views = LARGE[self.options.views]
        if self.options.views == "multi":
            self.views += ("small",) * self.options.small_crops
        self.beta = 0.0 if network.predictor is None else self.options.beta
        self.averaging = self.options.average and self.options.second_stage > 0
        self.renormalize = self.options.center_rule == "released"
        self.heads = PricedHeads(
            self.bounds, config.assignment, dtype=self.dtype, device=self.device
        )
        draws = generator(config.seed, "centers")
        shape = len(self.bounds), self.heads.k_max, network.out_dim
        start = torch.randn(shape, generator=draws).to(self.device, self.dtype)
        self.centers = F.normalize(start, dim=2)
        self.past = self.centers.clone()
        self.sums = CenterSums(
            torch.zeros(shape, dtype=torch.int64, device=self.device),
            torch.zeros(shape[:2], dtype=torch.int64, device=self.device),
        )
        table = len(self.bounds), n_samples if self.averaging else 0, self.options.slots
        self.averages = SparseLabels(
            torch.zeros(table, dtype=torch.int32, device=self.device),
            torch.zeros(table, dtype=self.dtype, device=self.device),
        )

    def parameter_groups(self) -> list[ParameterGroup]:
        """Parameters of the network; centers are means, not learned."""
        return [ParameterGroup(list(self.network.parameters()))]

    def start(self, apply_to_all: ApplyToAll) -> None:
        """Set the centers from the untrained network, as ``heads.init`` asks."""
        if self.config.heads.init == "kmeans":
            features = apply_to_all(self.features, view="first", stream="init")
            for head, bounds in enumerate(self.bounds):
                start = kmeans_centers(features, bounds, self.config.seed, head)
                self.centers[head, : bounds.n_clusters] = start

    @torch.no_grad()
    def begin_epoch(self, epoch: int, apply_to_all: ApplyToAll | None = None) -> None:
        """Close the epoch before: its centers, and in the second stage their average."""
        centers, past = self._closed(epoch)
        super().begin_epoch(epoch, apply_to_all)
        self.centers.copy_(centers)
        self.past.copy_(past)
        for sums in self.sums:
            sums.zero_()
        if self.averaging and epoch == self.options.second_stage:
            first = first_label(self.labels, self.averages)
            self._store(slice(None), first)
        self.heads.begin_epoch(epoch)

    def resume_epoch(self, epoch: int, state: dict[str, Any]) -> None:
        """Go on within an epoch, with its dual steps; sums of centers are in the state."""
        super().resume_epoch(epoch, state)
        self.heads.begin_epoch(epoch)

    def step(self, ids: Tensor, views: tuple[Tensor, ...]) -> Tensor:
        """Compute the loss of one batch; labels, prices and centers move on.

        In an epoch without learning the loss is a number without a gradient, so that the optimizer
        keeps no trace of the epoch either.

        Parameters
        ----------
        ids : (b,) int64 tensor. Which images these are.
        views : (b, c, h, w) tensors, as many as `views` names. Batch statistics are taken per view.

        Returns
        -------
        loss : () tensor to call ``backward`` on.
        """
        if self.epoch >= self.config.optim.frozen_epochs:
            return self._loss(ids, views)
        with torch.no_grad():
            loss = self._loss(ids, views)
        return loss.requires_grad_()

    def _loss(self, ids: Tensor, views: tuple[Tensor, ...]) -> Tensor:
        """Steps 1 to 3 of the module's text, on one batch."""
        temperature, options = self.config.loss.temperature, self.options
        large = self._encode(views[: self.large], len(ids))  # projector's, then predictor's
        drawn = views[self.large :]
        crops = self._encode(drawn, len(ids)) if drawn else []

        # Labels of now, y = argmax_k x . c_k + rho_k (Eqs. 10, 17); dual steps (Eq. 18); centers
        # (Eq. 13). The loss is for the labels of the epoch before.
        y = self._assign(large[0].detach().mean(0))
        labels = self.labels[:, ids] if self.epoch > 0 else y
        self.labels[:, ids] = y
        averages = self._average_labels(ids, y)

        targets = None
        if averages is None and self.large == 2:
            # alpha onehot(y) + (1 - alpha) p of the other view (section 3.4), by the projector's
            # scores, for the predictor too.
            scores, alpha = self._scores(large[0].detach()), self.config.loss.tau
            targets = two_view_targets(labels, scores, temperature=temperature, alpha=alpha)

        total: Tensor = torch.zeros((), dtype=self.dtype, device=self.device)
        for i, weight in enumerate((1.0 - self.beta, self.beta)):  # projector, predictor
            if weight == 0:
                continue
            scores = self._scores(large[i])  # (v, h, b, kmax): x . c^{t-1}
            if averages is not None:  # second stage: averaged labels (appendix B.2.2)
                (only,) = scores.unbind()
                loss = sparse_label_loss(
                    only, averages, temperature=temperature, smoothing=options.smoothing
                ).mean()
            elif targets is None:  # one view: -log p_y (Eq. 14)
                (only,) = scores.unbind()
                loss = label_loss(only, labels, temperature=temperature).mean()
            else:  # two views: cross-entropy with soft labels (section 3.4)
                loss = soft_cross_entropy(scores, targets, temperature=temperature).mean()
                if crops:  # small crops learn alpha onehot(y) + (1 - alpha) mean p
                    small = self._scores(crops[i])
                    both = targets.mean(0).expand(small.shape)
                    cropped = soft_cross_entropy(small, both, temperature=temperature).mean()
                    loss = (1.0 - options.crop_weight) * loss + options.crop_weight * cropped
            total = total + weight * loss
        return total

    def _average_labels(self, ids: Tensor, y: Tensor) -> SparseLabels | None:
        """Averaged labels before this batch, where the second stage has them; they move on."""
        if not (self.averaging and self._second_stage):
            return None
        averages = SparseLabels(*(table[:, ids] for table in self.averages))
        count = self.epoch - self.options.second_stage + 1
        # The first label takes the first slot, as released: ties of weights go by slots.
        first = count == 1
        self._store(ids, first_label(y, averages) if first else average_label(averages, y, count))
        return averages

    @torch.no_grad()
    def _assign(self, x: Tensor) -> Tensor:
        """Label a batch by its mean vectors (1, b, d), to (h, b); prices and sums move on."""
        running = self.options.centers == "batch" and not self._second_stage
        centers = self._running() if running else self.past
        y = self.heads.assign(x @ centers.mT + self.heads.padding)
        (rows,) = x.unbind()
        batch = sum_batch(rows, y, n_clusters=self.heads.k_max)
        if self.renormalize and not self._second_stage:
            self.centers.copy_(renormalized_centers(self.centers, self.sums.counts, batch))
        for sums, new in zip(self.sums, merge_sums(self.sums, batch), strict=True):
            sums.copy_(new)
        return y

    def _running(self) -> Tensor:
        """Unit centers (h, kmax, d) of the first stage, as far as this epoch is."""
        return self.centers if self.renormalize else mean_centers(self.sums, self.centers)

    def _encode(self, views: tuple[Tensor, ...], total: int) -> list[Tensor]:
        """Unit features (v, 1, total, d) of the projector, then of a predictor that counts."""
        rows = self.ranks.gather(run_views(self.network, self._rows, views), total, dim=1)
        return [part[:, None] for part in rows.chunk(2 if self.beta else 1, dim=-1)]

    def _rows(self, images: Tensor) -> Tensor:
        if not self.beta:
            return self.features(images)
        projected = self.network(images)
        both = torch.stack([projected, self.network.predict(projected)], 1)
        return F.normalize(full_precision(both), dim=-1).flatten(1)

    def _scores(self, rows: Tensor) -> Tensor:
        """Similarities (v, h, b, kmax) to the centers of the epoch before."""
        return rows @ self.past.mT + self.heads.padding

    @property
    def _second_stage(self) -> bool:
        return 0 < self.options.second_stage <= self.epoch

    def _store(self, ids: Tensor | slice, averages: SparseLabels) -> None:
        for kept, new in zip(self.averages, averages, strict=True):
            kept[:, ids] = new

    def _closed(self, epoch: int) -> tuple[Tensor, Tensor]:
        """Unit centers at the start of an epoch, and the centers that its loss uses."""
        count = epoch - self.options.second_stage  # epochs of the second stage that are over
        if not self.options.second_stage or count <= 0:
            centers = self._running()
            return centers, centers
        centers = mean_centers(self.sums, self.centers)
        if not self.averaging:
            return centers, centers
        average = running_average(self.past, centers, count)
        if self.renormalize:
            average = F.normalize(average, dim=2)
        # A cluster that got nothing has no center of this epoch to average.
        return centers, torch.where(self.sums.counts[..., None] > 0, average, self.past)

    def training_prices(self) -> Tensor | None:
        """Prices of the target head's clusters now, (k,) float64; of both bounds together."""
        return self.heads.prices(self.target)

    def target_centers(self, features: Tensor) -> Tensor:
        """Unit centers of the target head, (k, d): what the next epoch would learn."""
        k = self.bounds[self.target].n_clusters
        return F.normalize(self._closed(self.epoch + 1)[1][self.target, :k], dim=1)

    def state_dict(self) -> dict[str, Any]:
        """All that the next epoch depends on, as a nested state of tensors."""
        return {
            "epoch": self.epoch,
            "network": dict(self.network.state_dict()),
            "centers": self.centers,
            "past": self.past,
            "sums": self.sums._asdict(),
            "labels": self.labels,
            "averages": self.averages._asdict(),
            "duals": self.heads.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over a saved state; every tensor must be there and fit."""
        self.network.load_state_dict(state["network"])
        self.epoch = int(state["epoch"])
        for name in ("centers", "past", "labels"):
            getattr(self, name).copy_(state[name])
        for name in ("sums", "averages"):
            for field, tensor in getattr(self, name)._asdict().items():
                tensor.copy_(state[name][field])
        self.heads.load_state_dict(state["duals"])
