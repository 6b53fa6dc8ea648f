r"""TEMI: a head on frozen features that begins at a graph of neighbors and learns from its pairs.

The one epoch is `fit`. A pair is a sample and one of its nearest neighbors by the cosine; a head
learns to give both the same cluster (`algos.losses.temi`), its marginals a moving average over
batches, as in the paper. Two things differ from it. Heads from random weights end in different
optima, .57 to .70 of accuracy on one set, and neither their losses nor a consensus tells the good
ones; so one head begins at the means of the labels that a graph of neighbors has found, the best of
many starts: with few, one seed in six begins at another optimum, and ends at another. And size
bounds hold for the labels of the run: in every batch they lose accuracy in place of the marginals,
and gain none beside them (benchmarks/results/photographs.md). The marginals draw sizes together:
of classes of different sizes the graph itself is better.

=====================  ===============  ========  ================================================
paper                  here             shape     meaning
=====================  ===============  ========  ================================================
:math:`g(x)`           ``features``     (d,)      of the encoder, standardized, at unit length
:math:`h`              ``centers``      (k, d)    weights of the head, at unit length
:math:`\tau`           ``temperature``  ()        of student and teacher
=====================  ===============  ========  ================================================
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from ...algos.clustering.neighbor_graph import nearest_rows, neighbor_coordinates, neighbor_graph
from ...algos.core.errors import UsageError
from ...algos.losses.cross_entropy import log_softmax
from ...algos.losses.temi import self_distillation_loss
from ...algos.scores.sources import feature_source
from ...common.ranks import ALONE, Ranks
from ..config.methods.temi import TemiOptions
from ..config.run import RunConfig
from ..networks.network import Network
from ..state.seeding import generator
from ._one_fit import OneFit
from .base import ApplyToAll, register_method

__all__ = ["Temi"]

WARMUP, START = 100, 0.4
"""Steps in which the rate rises, and the length of weights at the start: about that of released
ones, since lengths do not matter but to the pace at which directions move."""

MARGINALS = 0.9
"""How much of the marginals of the clusters stays in a step, as released."""


@register_method("temi")
class Temi(OneFit):
    """State of TEMI. The parameters are those of `Method`.

    Attributes
    ----------
    centers : (k, d) tensor. Unit rows.
    moved : () float64 tensor. Share of the samples whose label is no longer that of the graph,
        before any bounds.
    """

    why = "TEMI learns a head on features that stay, for one number of clusters"
    figure = "moved"

    @classmethod
    def check(cls, config: RunConfig, n_samples: int | None = None) -> None:
        """Refuse settings of a network that learns, several numbers of clusters, few samples."""
        if n_samples is not None and n_samples < 2 * config.heads.target:
            msg = (
                f"TEMI needs twice as many samples as clusters at least, got {n_samples} "
                f"for {config.heads.target}. To fix this, ask for fewer clusters"
            )
            raise UsageError(msg)
        super().check(config, n_samples)

    def __init__(
        self, config: RunConfig, network: Network, n_samples: int, ranks: Ranks = ALONE
    ) -> None:
        super().__init__(config, network, n_samples, ranks)
        self.options = config.options(TemiOptions)
        shape = config.heads.target, network.out_dim
        self.centers = torch.zeros(shape, dtype=self.dtype, device=self.device)
        self.moved = torch.zeros((), dtype=torch.float64)

    def fit(self, apply_to_all: ApplyToAll) -> float:
        """Find the graph's labels, and let a head that begins at their means learn on.

        Parameters
        ----------
        apply_to_all : as of `Method`.
        """
        options, k = self.options, self.config.heads.target
        with torch.no_grad():
            rows = apply_to_all(self.features)
            source = feature_source(rows)
            graph = neighbor_graph(source, k, n_neighbors=options.graph_neighbors)
            places = feature_source(neighbor_coordinates(graph, source))
            begun = self.best_of_starts(places, options.n_init).assignment.labels
            start = F.normalize(F.one_hot(begun, k).to(rows.dtype).T @ rows, dim=1)
            near = nearest_rows(rows, min(options.neighbors, self.n_samples - 1))
        head, loss = self._learn(rows, near, START * start, generator(self.config.seed, "temi"))
        self.centers.copy_(F.normalize(head, dim=1))
        labels = (rows @ self.centers.T).argmax(dim=1)
        self.moved.copy_((labels != begun).to(torch.float64).mean())
        self.labels[self.target] = labels
        return loss

    def _learn(
        self, rows: Tensor, near: Tensor, start: Tensor, draws: torch.Generator
    ) -> tuple[Tensor, float]:
        """Return the teacher's weights after all steps, and the student's last loss."""
        options, n, (k, _) = self.options, len(rows), start.shape
        student = start.clone().requires_grad_()
        teacher = start.clone()
        marginals = torch.full((1, k), 1.0 / k, dtype=rows.dtype, device=rows.device)
        optimizer = torch.optim.AdamW([student], lr=options.lr, weight_decay=1e-4)
        b, at = min(self.config.batch_size, n), {"temperature": self.temperature}
        last = 0.0
        for step in range(options.steps):
            ids, which = (
                torch.randint(high, (b,), generator=draws).to(rows.device)
                for high in (n, near.shape[1])
            )
            pairs = torch.stack([rows[ids], rows[near[ids, which]]])
            with torch.no_grad():
                targets = log_softmax(pairs @ F.normalize(teacher, dim=1).T, **at)
                marginals.lerp_(targets.exp().mean(dim=(0, 1)), 1.0 - MARGINALS)
            found = log_softmax(pairs @ F.normalize(student, dim=1).T, **at)
            losses = self_distillation_loss(
                found[:, None], targets[:, None], marginals, beta=options.beta
            )
            loss = losses.mean()
            falling = 0.5 + 0.5 * math.cos(math.pi * step / options.steps)
            optimizer.param_groups[0]["lr"] = options.lr * min(1.0, (step + 1) / WARMUP) * falling
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            # A mean of the first steps, and a moving average later.
            stays = min(options.momentum, (step + 1) / (step + 10))
            teacher.lerp_(student.detach(), 1.0 - stays)
            last = loss.item() if step + 1 == options.steps else last
        return teacher, last
