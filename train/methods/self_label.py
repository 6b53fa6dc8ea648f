r"""Self-labeling: a trained network learns on strong views the labels that weak ones are sure of.

The last stage of SCAN and of SeCu (SeCu supplement, section 3.1). It starts from a finished run:

1. *fixed labels*: for some epochs every image has the label that the finished run gives it, the
   best one inside the bounds;
2. *confident labels*: then the label is ``argmax p(weak view)``, and an image counts where the
   largest probability is above a threshold.

The loss is the mean cross-entropy of the strong views of the images that count, with
``p = softmax(x . w / lambda)`` over the unit centers of the target head, which go on learning with
the network. Weights of 0 and 1 mark the images that count: nothing is selected, and no value is
read back.

============================  ====================  =========  ==================================
paper                         here                  shape      meaning
============================  ====================  =========  ==================================
weak, strong augmentation     ``views``             two        ``augment`` and ``second``
fixed pseudo label            ``fixed``             (1, n)     of the finished run
pseudo label                  ``labels``            (1, n)     learned last
threshold                     ``confidence``        ()         0.9
:math:`w_j`                   ``centers``           (k, d)     of the target head
============================  ====================  =========  ==================================
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...algos.core.errors import UsageError
from ...algos.losses.cross_entropy import log_softmax, soft_cross_entropy
from ...algos.losses.secu import mixed_targets
from ...common.ranks import ALONE, Ranks
from ..config.methods.self_label import SelfLabelOptions
from ..config.run import RunConfig
from ..networks.network import Network
from ._init_from import centers_of, load_network, read_finished_run
from .base import ApplyToAll, Method, ParameterGroup, evaluating, register_method

__all__ = ["SelfLabel"]


@register_method("self_label")
class SelfLabel(Method):
    """State of a run of self-labeling, and its step. The parameters are those of `Method`.

    Attributes
    ----------
    counted : () float64 tensor. Images that counted in this epoch.
    """

    views = ("first", "second")  # weak, strong
    capturable = True

    @classmethod
    def check(cls, config: RunConfig, n_samples: int | None = None) -> None:
        """Refuse several heads."""
        if len(config.heads.clusters) != 1:
            msg = (
                f"self-labeling has one head, got heads.clusters={list(config.heads.clusters)}. "
                f"To fix this, set heads.clusters=[{config.heads.target}]"
            )
            raise UsageError(msg)
        super().check(config, n_samples)

    def __init__(
        self, config: RunConfig, network: Network, n_samples: int, ranks: Ranks = ALONE
    ) -> None:
        super().__init__(config, network, n_samples, ranks)
        self.options = config.options(SelfLabelOptions)
        shape = config.heads.target, network.out_dim
        self.centers = nn.Parameter(torch.zeros(shape, dtype=self.dtype, device=self.device))
        self.fixed = torch.zeros_like(self.labels)
        self.counted = torch.zeros((), dtype=torch.float64, device=self.device)

    def parameter_groups(self) -> list[ParameterGroup]:
        """Parameters of the network, and the centers, all by one schedule."""
        network = ParameterGroup(list(self.network.parameters()))
        return [network, ParameterGroup([self.centers], local=False)]

    def start(self, apply_to_all: ApplyToAll) -> None:
        """Take over the network, the target head and its labels from ``self_label.init_from``."""
        run = read_finished_run(self.options.init_from, "self_label.init_from", methods=("secu",))
        load_network(run, self.network)
        with torch.no_grad():
            self.centers.copy_(centers_of(run, self.config.heads.target))
        with evaluating(self.network):
            found = self.predict(apply_to_all(self.features))
        self.fixed[self.target] = found.assignment.labels
        self.labels[self.target] = found.assignment.labels

    def begin_epoch(self, epoch: int, apply_to_all: ApplyToAll | None = None) -> None:
        """Set the number of images that count back to 0."""
        super().begin_epoch(epoch, apply_to_all)
        self.counted.zero_()

    def epoch_state(self) -> dict[str, Any]:
        """Return the statistics of the views, and the number of images that have counted."""
        return {**super().epoch_state(), "counted": self.counted}

    def resume_epoch(self, epoch: int, state: dict[str, Any]) -> None:
        """Go on within an epoch."""
        super().resume_epoch(epoch, state)
        self.counted.copy_(state["counted"])

    def step(self, ids: Tensor, views: tuple[Tensor, ...]) -> Tensor:
        """Loss of one batch, a scalar tensor to call ``backward`` on; the labels move on.

        Parameters
        ----------
        ids : (b,) int64 tensor. Which images these are.
        views : the weak and the strong view, (b, c, h, w) tensors each.
        """
        weak, strong = views
        y = self.fixed[self.target, ids]
        weight = torch.ones(len(ids), dtype=self.dtype, device=self.device)
        if self.epoch >= self.options.fixed_epochs:
            with torch.no_grad():
                sure, y = log_softmax(
                    self._scores(weak, len(ids)), temperature=self.config.loss.temperature
                ).max(1)
                weight = (sure.exp() > self.options.confidence).to(self.dtype)
            self.labels[self.target, ids] = y
        self.counted += weight.sum()
        loss = _cross_entropy(
            self._scores(strong, len(ids)), y, temperature=self.config.loss.temperature
        )
        total: Tensor = (weight * loss).sum() / weight.sum().clamp(min=1.0)
        return total

    def _scores(self, view: Tensor, total: int) -> Tensor:
        (rows,) = self.encode([view], total).unbind()
        return rows @ F.normalize(self.centers, dim=1).T

    def report(self) -> dict[str, float]:
        """Share of the images that counted."""
        return {"confident": float(self.counted) / self.n_samples}

    def target_centers(self, features: Tensor) -> Tensor:
        """Unit centers, (k, d)."""
        return F.normalize(self.centers.detach(), dim=1)

    def state_dict(self) -> dict[str, Any]:
        """All that the next epoch depends on, as a nested state of tensors."""
        return {
            "network": dict(self.network.state_dict()),
            "centers": self.centers.detach(),
            "labels": self.labels,
            "fixed": self.fixed,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over a saved state; every tensor must be there and fit."""
        self.network.load_state_dict(state["network"])
        with torch.no_grad():
            self.centers.copy_(state["centers"])
        self.labels.copy_(state["labels"])
        self.fixed.copy_(state["fixed"])


def _cross_entropy(scores: Tensor, labels: Tensor, *, temperature: float) -> Tensor:
    one_hot = mixed_targets(labels, scores.detach(), temperature=temperature, tau=1.0)
    loss: Tensor = soft_cross_entropy(scores, one_hot, temperature=temperature)
    return loss
