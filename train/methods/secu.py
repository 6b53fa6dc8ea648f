r"""SeCu: stable cluster discrimination with constrained labels, for any number of heads.

One step on a batch of b images, two views each, with all heads side by side:

1. *labels of now* ``y = argmax_k mean_t(x_t . w_k) + rho_k - rho'_k`` for the live centers, then
   dual steps (SeCu supplement, section 2); or by the entropy of the counts (`_entropy_heads`);
2. *representation loss*: each view learns the label that the image had in the previous epoch,
   mixed with the other view's probabilities, over the centers of the previous epoch;
3. *center loss*: each center learns from the samples that are its own now;
4. one backward pass for both.

With a predictor (ImageNet), its outputs for the two views are two more terms t of the label and of
both losses; probabilities as targets come from the projector alone. Certified centers are solved
once an epoch in place of step 3.

Heads differ in their number of clusters and share padded tensors (`_priced_heads`). A step does
the same operations whatever the number of heads, and never reads a value back from the device.

==========================  ====================  =================  ==============================
paper                       here                  shape              meaning
==========================  ====================  =================  ==============================
:math:`w_j`                 ``centers``           (h, kmax, d)       learned, normalized in use
:math:`w_j^{t-1}`           ``snapshot``          (h, kmax, d)       unit centers at epoch start
:math:`y_i^{t-1}`           ``labels``            (h, n)             stored labels, int64
:math:`\rho, \rho'`         ``heads.duals``       (h, kmax) each     prices of the bounds, float64
:math:`n_j`                 ``heads.counts``      (h, kmax)          of the entropy, int64
:math:`\lambda, \lambda_w`  ``loss.temperature``  ()                 and ``center_temperature``
:math:`\tau`                ``loss.tau``          ()                 weight of the stored label
==========================  ====================  =================  ==============================
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...algos.clustering.hardness_weighted import CenterStatus, HardnessCenters, hardness_centers
from ...algos.losses.cross_entropy import soft_cross_entropy
from ...algos.losses.secu import center_loss, mixed_targets
from ...common.ranks import ALONE, Ranks
from ..config.methods.secu import SecuOptions
from ..config.run import RunConfig
from ..networks.network import Network, run_views
from ..state.seeding import generator
from ._entropy_heads import EntropyHeads
from ._init_from import centers_of, load_network, read_finished_run
from ._priced_heads import PricedHeads, kmeans_centers
from .base import ApplyToAll, Method, ParameterGroup, evaluating, register_method

__all__ = ["SeCu"]


@register_method("secu")
class SeCu(Method):
    """State of a run of SeCu, and its step. The parameters are those of `Method`.

    Attributes
    ----------
    heads : PricedHeads or EntropyHeads, as ``secu.constraint`` asks.
    centers : (h, kmax, d) tensor. A parameter where they are learned; padded rows are 0.
    certificate : (h, 3) float64 tensor. Of certified centers, for each head: the largest proven gap
        to the best center of a cluster in nats per sample; clusters within the tolerance; clusters
        whose best center is inside the ball, so that none on the sphere is a fixed point.
    """

    capturable = True

    def __init__(
        self, config: RunConfig, network: Network, n_samples: int, ranks: Ranks = ALONE
    ) -> None:
        super().__init__(config, network, n_samples, ranks)
        self.options = config.options(SecuOptions)
        clusters = config.heads.clusters
        place: dict[str, Any] = {"dtype": self.dtype, "device": self.device}
        self.heads: PricedHeads | EntropyHeads
        if self.options.constraint == "entropy":
            self.heads = EntropyHeads(
                clusters,
                n_samples,
                strength=self.options.alpha,
                first_pass=self.options.first_pass,
                **place,
            )
        else:
            self.heads = PricedHeads(self.bounds, config.assignment, **place)
        draws = generator(config.seed, "centers")
        shape = len(clusters), self.heads.k_max, network.out_dim
        start = F.normalize(torch.randn(shape, generator=draws), dim=2).to(**place)
        # Padded rows are 0, so that the norm of a head's centers is that of its clusters.
        start = start * (self.heads.padding.mT == 0)
        self.learned = self.options.centers == "learned"
        self.centers = nn.Parameter(start, requires_grad=self.learned)
        self.snapshot = start.clone()
        self.certificate = torch.zeros(len(clusters), 3, dtype=torch.float64, device=self.device)

    def parameter_groups(self) -> list[ParameterGroup]:
        """Parameters of the network, and learned centers, whose rate is constant or ramps."""
        groups = [ParameterGroup(list(self.network.parameters()))]
        if self.learned:
            lr, ramp = self.config.optim.center_lr, self.options.center_ramp
            centers = ParameterGroup([self.centers], lr=lr, local=False, ramp=ramp, stacked=True)
            groups.append(centers)
        return groups

    # Start --------------------------------------------------------------------------------------

    def start(self, apply_to_all: ApplyToAll) -> None:
        """Take over a finished run, or set the centers as ``heads.init`` asks."""
        heads: Sequence[int] = range(len(self.bounds))
        if self.options.init_from:
            heads = self._take_over()
        if self.config.heads.init == "kmeans" and heads:
            self.init_centers(apply_to_all(self.features, view="first", stream="init"), heads)

    @torch.no_grad()
    def init_centers(self, features: Tensor, heads: Sequence[int] | None = None) -> None:
        """Start heads at constrained k-means of the untrained network's features.

        The published start is random (``heads.init``); on digits both end alike, 0.971 and 0.970.

        Parameters
        ----------
        features : (n, d) tensor. Unit features of one view of every image.
        heads : ints, optional. Which ones; all without it.
        """
        for head in range(len(self.bounds)) if heads is None else heads:
            bounds = self.bounds[head]
            start = kmeans_centers(features, bounds, self.config.seed, head)
            self.centers[head, : bounds.n_clusters] = start

    @torch.no_grad()
    def _take_over(self) -> list[int]:
        """Load the network and known heads of ``secu.init_from``; return the heads it has not."""
        run = read_finished_run(self.options.init_from, "secu.init_from", methods=("secu",))
        load_network(run, self.network)
        for head, k in enumerate(self.config.heads.clusters):
            if k in run.config.heads.clusters:
                self.centers[head, :k] = centers_of(run, k).to(self.centers)
        known = run.config.heads.clusters
        return [head for head, k in enumerate(self.config.heads.clusters) if k not in known]

    # Epochs and steps ---------------------------------------------------------------------------

    def begin_epoch(self, epoch: int, apply_to_all: ApplyToAll | None = None) -> None:
        """Keep the centers of the epoch before, and set this epoch's dual steps (one per head)."""
        super().begin_epoch(epoch, apply_to_all)
        if not self.learned and epoch > 0 and apply_to_all is not None:
            with evaluating(self.network):
                self.solve_centers(apply_to_all(self.features, stream="centers"))
        self.snapshot.copy_(F.normalize(self.centers.detach(), dim=2))
        self.heads.begin_epoch(epoch)

    def epoch_state(self) -> dict[str, Any]:
        """Return the statistics of the views, and the centers of the epoch before."""
        return {**super().epoch_state(), "snapshot": self.snapshot}

    def resume_epoch(self, epoch: int, state: dict[str, Any]) -> None:
        """Go on within an epoch."""
        super().resume_epoch(epoch, state)
        self.snapshot.copy_(state["snapshot"])
        self.heads.begin_epoch(epoch)

    @torch.no_grad()
    def solve_centers(self, features: Tensor) -> None:
        """Set every head's centers to the best ones for the stored labels, and keep the proof.

        Each center is solved with the others as they were, from where it was (SeCu supplement,
        Theorem 1, by `algos.clustering.hardness_weighted`).

        Parameters
        ----------
        features : (n, d) tensor. Unit features of every image.
        """
        for head, k in enumerate(self.config.heads.clusters):
            found = self._solve(features, head)
            self.centers[head, :k] = found.centers
            counts = [
                (found.status == s).sum() for s in (CenterStatus.CERTIFIED, CenterStatus.INTERIOR)
            ]
            self.certificate[head] = torch.stack([found.gap.max(), *counts])

    def _solve(self, features: Tensor, head: int) -> HardnessCenters:
        k = self.bounds[head].n_clusters
        return hardness_centers(
            features,
            self.labels[head],
            self.centers.detach()[head, :k],
            temperature=self.config.loss.center_temperature,
        )

    def terms(self, views: Sequence[Tensor], total: int) -> Tensor:
        """Unit features (t, b, d) of both views, then of their predictions where there are any."""
        if self.network.predictor is None:
            return self.encode(views, total)
        rows = self.ranks.gather(run_views(self.network, self._predicted, views), total, dim=1)
        return rows.movedim(2, 0).flatten(0, 1)

    def _predicted(self, images: Tensor) -> Tensor:
        projected = self.network(images)
        return F.normalize(torch.stack([projected, self.network.predict(projected)], 1), dim=2)

    def step(self, ids: Tensor, views: tuple[Tensor, ...]) -> Tensor:
        """Compute the loss of one batch; labels and prices move on.

        Equations are those of the SeCu supplement.

        Parameters
        ----------
        ids : (b,) int64 tensor. Which images these are.
        views : two (b, c, h, w) tensors. Batch statistics are taken per view.

        Returns
        -------
        loss : () tensor to call ``backward`` on.
        """
        temperature, tau = self.config.loss.temperature, self.config.loss.tau
        x = self.terms(views, len(ids))[:, None]  # (t, 1, b, d): features, predictions
        past = x @ self.snapshot.mT + self.heads.padding  # (t, h, b, kmax): x . w^{t-1}
        scores = past
        if self.learned:  # x . w, with gradients for the centers alone
            scores = x.detach() @ F.normalize(self.centers, dim=2).mT + self.heads.padding

        # 1. Labels of now, y = argmax_k x . w_k + rho_k - rho'_k, then dual steps (section 2).
        old = self.labels[:, ids] if self.epoch > 0 else None
        y = self.heads.assign(scores.detach().mean(0), old)
        self.labels[:, ids] = y

        # 2. Representation: p = softmax(x . w^{t-1} / lambda) of each view (Eq. 3) learns the label
        #    of the epoch before, mixed by tau with the probabilities of the other view.
        label = y if old is None else old
        other = past.detach()[:2].flip(0)
        targets = mixed_targets(label, other, temperature=temperature, tau=tau)
        past = past.reshape(-1, 2, *past.shape[1:])  # predictions learn what their view learns
        loss: Tensor = soft_cross_entropy(
            past, targets.expand_as(past), temperature=temperature
        ).mean()

        # 3. Centers: each learns from the samples that are its own now (section 1.3, Eq. 1).
        if self.learned:
            by_centers = self.config.loss.center_temperature
            loss = loss + center_loss(scores, scores.detach(), y, temperature=by_centers).mean()
        return loss

    def report(self) -> dict[str, float]:
        """Certificate of the target head's centers, where they are solved."""
        if self.learned or self.epoch == 0:
            return {}
        gap, certified, interior = self.certificate[self.target].tolist()
        return {"center_gap": gap, "certified": certified, "interior": interior}

    def training_prices(self) -> Tensor | None:
        """Prices of the target head's clusters now, (k,) float64; of both bounds together."""
        return self.heads.prices(self.target) if isinstance(self.heads, PricedHeads) else None

    def target_centers(self, features: Tensor) -> Tensor:
        """Unit centers of the target head, (k, d)."""
        k = self.bounds[self.target].n_clusters
        return F.normalize(self.centers.detach()[self.target, :k], dim=1)

    # State --------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """All that the next epoch depends on, as a nested state of tensors."""
        return {
            "network": dict(self.network.state_dict()),
            "centers": self.centers.detach(),
            "labels": self.labels,
            "heads": self.heads.state_dict(),
            "certificate": self.certificate,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over a saved state; every tensor must be there and fit."""
        self.network.load_state_dict(state["network"])
        with torch.no_grad():
            self.centers.copy_(state["centers"])
        self.labels.copy_(state["labels"])
        self.heads.load_state_dict(state["heads"])
        self.certificate.copy_(state["certificate"])
