r"""SeCu: stable cluster discrimination with size-constrained labels, for any number of heads.

One step on a batch of b images, two views each, with all heads side by side:

1. *labels of now* ``y = argmax_k mean_v(x_v . w_k) + rho_k - rho'_k`` for the live centers, then
   dual steps (SeCu supplement, section 2);
2. *representation loss*: each view learns the label that the image had in the previous epoch,
   mixed with the other view's probabilities, over the centers of the previous epoch;
3. *center loss*: each center learns from the samples that are its own now;
4. one backward pass for both.

Heads differ in their number of clusters. They share one tensor of shape (heads, clusters, d),
padded to the largest; a padded cluster has a score of `PAD` and a lower bound of 0, so it gets no
label and no probability. A step does the same operations whatever the number of heads, and never
reads a value back from the device.

==========================  ====================  =================  ==============================
paper                       here                  shape              meaning
==========================  ====================  =================  ==============================
:math:`w_j`                 ``centers``           (h, kmax, d)       learned, normalized in use
:math:`w_j^{t-1}`           ``snapshot``          (h, kmax, d)       unit centers at epoch start
:math:`y_i^{t-1}`           ``labels``            (h, n)             stored labels, int64
:math:`\rho, \rho'`         ``duals``             (h, kmax) each     prices of the bounds, float64
:math:`\lambda, \lambda_w`  ``loss.temperature``  ()                 and ``center_temperature``
:math:`\tau`                ``loss.tau``          ()                 weight of the stored label
==========================  ====================  =================  ==============================
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...algos.bounds import from_ratios
from ...algos.certificates import margins
from ...algos.duals import Duals, assign_batch, init_duals
from ...algos.kmeans import constrained_kmeans, kmeans_plus_plus
from ...algos.losses import center_loss, mixed_targets, soft_cross_entropy
from ...algos.offline import OfflineAssignment, assign_exact
from ...algos.segments import segment_sum
from ...algos.steps import measured_steps, published_steps
from ..config import RunConfig
from ..networks import Network
from ..seeding import generator

__all__ = ["Prediction", "SeCu"]

PAD = -1e4
"""Score of a padded cluster: finite, and of probability 0 in float32 at temperatures below 90."""


class Prediction(NamedTuple):
    """Labels of the target head inside their bounds, with what certifies them.

    Attributes
    ----------
    features : (n, d) float32 tensor, unit rows.
    centers : (k, d) float32 tensor, unit rows.
    assignment : OfflineAssignment. Labels, sizes, and the bound on what is possible.
    margins : (n,) float64 tensor. How clear each label is, in units of score.
    """

    features: Tensor
    centers: Tensor
    assignment: OfflineAssignment
    margins: Tensor


class SeCu:
    """State of a run of SeCu, and its step.

    Parameters
    ----------
    config : RunConfig
    network : Network. On the device of the run.
    n_samples : int. Images of one epoch; ids run from 0 to n_samples - 1.

    Raises
    ------
    InfeasibleBoundsError
        If a head's bounds admit no assignment of n_samples images.
    """

    def __init__(self, config: RunConfig, network: Network, n_samples: int) -> None:
        self.config = config
        self.network = network
        device = next(network.parameters()).device
        heads, k_max = len(config.heads.clusters), max(config.heads.clusters)
        self.target = config.heads.clusters.index(config.heads.target)
        self.bounds = [
            from_ratios(
                k,
                n_samples=n_samples,
                lower=config.assignment.lower,
                upper=config.assignment.upper,
                rounding=config.assignment.rounding,
                xp=torch,
                device=device,
            )
            for k in config.heads.clusters
        ]
        draws = generator(config.seed, "centers")
        start = torch.randn(heads, k_max, network.out_dim, generator=draws)
        self.centers = nn.Parameter(F.normalize(start, dim=2).to(device))
        self.snapshot = F.normalize(self.centers.detach(), dim=2)
        self.labels = torch.zeros(heads, n_samples, dtype=torch.int64, device=device)
        self.duals = init_duals((heads, k_max), xp=torch, device=device)
        lengths = torch.tensor(config.heads.clusters)[:, None]
        self.padding = (PAD * (torch.arange(k_max) >= lengths)).float()[:, None, :].to(device)
        self.lower_share = _pad([b.lower_share for b in self.bounds], k_max, 0.0)
        self.upper_share = _pad([b.upper_share for b in self.bounds], k_max, 1.0)
        self.begin_epoch(0)

    def parameter_groups(self) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
        """Parameters of the network, and the centers: they have learning rates of their own."""
        return list(self.network.parameters()), [self.centers]

    @torch.no_grad()
    def init_centers(self, batches: Iterable[Tensor]) -> None:
        """Start every head at constrained k-means of the untrained network's features.

        The published start is random (``heads.init``); on digits both end alike, 0.971 and 0.970.

        Parameters
        ----------
        batches : iterable of (b, c, h, w) tensors
            One view of every image.
        """
        features = torch.cat([self.features(views) for views in batches])
        for head, bounds in enumerate(self.bounds):
            draws = generator(self.config.seed, "kmeans", head)
            uniforms = torch.rand(bounds.n_clusters, generator=draws, dtype=torch.float64)
            start = kmeans_plus_plus(features, uniforms.to(features.device))
            found = constrained_kmeans(features, bounds, start)
            self.centers[head, : bounds.n_clusters] = found.centers

    def begin_epoch(self, epoch: int) -> None:
        """Keep the centers of the epoch before, and set this epoch's dual steps (one per head)."""
        self.epoch = epoch
        self.snapshot = F.normalize(self.centers.detach(), dim=2)
        options = self.config.assignment
        if options.steps == "measured":
            rules = [
                measured_steps(b, kappa=options.kappa, epoch=epoch, kappa_floor=options.kappa_floor)
                for b in self.bounds
            ]
        else:
            rules = [published_steps(options.steps)] * len(self.bounds)
        self.step_size = torch.tensor(
            [[rule.step_size] for rule in rules], dtype=torch.float64, device=self.centers.device
        )
        self.chunk_size = min(rule.chunk_size for rule in rules)
        self.mean_over_batch = rules[0].mean_over_chunk
        # The released code leaves the dual of ratio 1 unclipped, as the measured rule does.
        self.free_sign = all(b.total_lower_share >= 1.0 - 1e-12 for b in self.bounds)

    def features(self, views: Tensor) -> Tensor:
        """Unit features of one batch of one view, (b, d) float32."""
        unit: Tensor = F.normalize(self.network(views).float(), dim=1)
        return unit

    def step(self, ids: Tensor, views: tuple[Tensor, Tensor]) -> Tensor:
        """Loss of one batch, a scalar tensor to call ``backward`` on; labels and duals move on.

        Parameters
        ----------
        ids : (b,) int64 tensor. Which images these are.
        views : two (b, c, h, w) tensors. Batch statistics are taken per view.
        """
        loss = self.config.loss
        x = torch.stack([self.features(view) for view in views])[:, None]  # (2, 1, b, d)
        live = F.normalize(self.centers, dim=2)
        scores = x.detach() @ live.mT + self.padding  # (2, h, b, kmax)

        frozen = scores.detach()
        y, self.duals = assign_batch(
            frozen.mean(0),
            self.duals,
            lower_share=self.lower_share,
            upper_share=self.upper_share,
            step_size=self.step_size / len(ids) if self.mean_over_batch else self.step_size,
            chunk_size=len(ids) if self.mean_over_batch else self.chunk_size,
            free_sign=self.free_sign,
        )
        y_previous = self.labels[:, ids] if self.epoch > 0 else y
        self.labels[:, ids] = y

        past = x @ self.snapshot.mT + self.padding
        targets = mixed_targets(
            y_previous, past.detach().flip(0), temperature=loss.temperature, tau=loss.tau
        )
        representation = soft_cross_entropy(past, targets, temperature=loss.temperature)
        centers = center_loss(scores, frozen, y, temperature=loss.center_temperature)
        total: Tensor = representation.mean() + centers.mean()
        return total

    @torch.no_grad()
    def predict(self, features: Tensor) -> Prediction:
        """Label images by the target head: the best labels that keep every size inside its bounds.

        Parameters
        ----------
        features : (n, d) float32 tensor, unit rows; n as in training.
        """
        bounds = self.bounds[self.target]
        centers = F.normalize(self.centers.detach()[self.target, : bounds.n_clusters], dim=1)
        scores = features @ centers.T
        found = assign_exact(scores, bounds)
        return Prediction(features, centers, found, margins(scores, found.prices))

    def training_sizes(self) -> Tensor:
        """Sizes of the target head's clusters by the labels stored in training, (k,) int64."""
        labels = self.labels[self.target]
        k = self.bounds[self.target].n_clusters
        sizes: Tensor = segment_sum(torch.ones_like(labels)[:, None], labels, n_segments=k)[:, 0]
        return sizes

    def state_dict(self) -> dict[str, Any]:
        """All that the next epoch depends on, as a nested state of tensors."""
        return {
            "network": dict(self.network.state_dict()),
            "centers": self.centers.detach(),
            "labels": self.labels,
            "duals": {"lower": self.duals.lower, "upper": self.duals.upper},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over a saved state; every tensor must be there and fit."""
        device = self.centers.device
        self.network.load_state_dict(state["network"], strict=True)
        with torch.no_grad():
            self.centers.copy_(state["centers"])
        self.labels.copy_(state["labels"])
        lower, upper = state["duals"]["lower"], state["duals"]["upper"]
        self.duals = Duals(lower.to(device), upper.to(device))


def _pad(rows: list[Tensor], length: int, value: float) -> Tensor:
    padded = [F.pad(row, (0, length - len(row)), value=value) for row in rows]
    stacked: Tensor = torch.stack(padded)
    return stacked
