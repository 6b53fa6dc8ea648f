r"""GATCluster: label features from four tasks, with Gaussian attention (Niu et al., ECCV 2020).

An outer iteration takes a large batch of M images, unchanged and in one random view each:

1. *targets* from the unchanged images, in evaluation mode and without gradient, in chunks of m1:
   balanced label features (Eq. 5), sharper ones for the attention branch (Eq. 11), and the relation
   of each pair by k-means on the latter (Eq. 6);
2. *training*: ``repeats`` passes in shuffled parts of m2 over the same views and targets, one
   optimizer step on each, by the loss of Eq. 12.

So M decides the statistics and m2 the memory. The label of an image is the largest entry of its
label feature: nothing is left to do after training.

=======================  ======================  ==========  ======================================
paper                    here                    shape       meaning
=======================  ======================  ==========  ======================================
M                        ``batch_size``          ()          images of an outer iteration
:math:`m_1, m_2`         ``chunk``, ``sub_batch``  ()        images of a pass: targets, training
:math:`l, l^a`           ``softmax(logits)``     (b, 2, k)   label and attention branch
:math:`\hat l,\hat l^a`  ``Targets``             (M, k)      of Eq. 5 and Eq. 11
:math:`r_{ij}`           ``Targets.relation``    (M,)        related where equal
:math:`\mu, \delta`      ``Branches.windows``    (b, 2)      of the Gaussian window
=======================  ======================  ==========  ======================================

Where the released code and the paper differ, `config.methods.gatcluster` says which settings follow
which, and `networks.attention_branches` does for the layers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ....algos.clustering.start import greedy_candidates
from ....algos.core.errors import UsageError
from ....algos.core.precision import finite_log
from ....algos.losses.gatcluster.released import released_gatcluster_loss
from ....algos.losses.gatcluster.tasks import LossWeights, gatcluster_loss
from ....common.ranks import ALONE, Ranks
from ...config.methods.gatcluster import GatclusterOptions
from ...config.run import RunConfig
from ...data.pictures import PictureData
from ...data.samples import ImageData
from ...networks.attention_branches import Branches
from ...networks.network import Network
from ...networks.normalization import full_precision, synchronize
from ...report.attention import attended, write_overlays
from ...state.seeding import generator
from ..base import Batch, Method, ParameterGroup, Prediction, evaluating, register_method
from ._targets import Targets, large_batch_targets

__all__ = ["GATCluster"]


@register_method("gatcluster")
class GATCluster(Method):
    """State of a run of GATCluster, and its steps. The parameters are those of `Method`.

    The branches take the place of the network's predictor, so that they are saved, synchronized
    and cast with it.

    Raises
    ------
    UsageError
        If there are several heads, or the network has a projector behind a map, or a predictor.

    Notes
    -----
    Memory: M views, as the network gets them, on every rank. With several ranks they are gathered
    once for each large batch, M c h w values; parts are then shared out like any batch. The random
    order of the parts is that of one process.
    """

    views = ("plain", "first")
    readout = "label-branch"
    capturable = True

    @classmethod
    def check(cls, config: RunConfig, n_samples: int | None = None) -> None:
        """Refuse several heads, and a predictor."""
        if len(config.heads.clusters) != 1:
            msg = (
                f"method='gatcluster' has one head, got "
                f"heads.clusters={list(config.heads.clusters)}. "
                f"To fix: heads.clusters=[{config.heads.target}]"
            )
            raise UsageError(msg)
        if config.network.predictor:
            msg = (
                f"method='gatcluster' puts its branches where a predictor would be, got "
                f"network.predictor={config.network.predictor}. To fix: network.predictor=0"
            )
            raise UsageError(msg)
        super().check(config, n_samples)

    def __init__(
        self, config: RunConfig, network: Network, n_samples: int, ranks: Ranks = ALONE
    ) -> None:
        super().__init__(config, network, n_samples, ranks)
        self.options = config.options(GatclusterOptions)
        shape = _map_shape(config, network)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(generator(config.seed, "branches").initial_seed())
            self.branches = Branches(shape, self.bounds[self.target].n_clusters, self.options)
        network.predictor = self.branches.to(self.device, self.dtype).train(network.training)
        synchronize(self.branches, ranks)
        self.weights = LossWeights(
            transformation=self.options.transformation,
            attention=self.options.attention,
            entropy=self.options.entropy,
            relation=self.options.relation,
        )

    def parameter_groups(self) -> list[ParameterGroup]:
        """Parameters of the encoder and of both branches."""
        return [ParameterGroup(list(self.network.parameters()))]

    def draws(self, lengths: Sequence[int]) -> list[tuple[Tensor, ...]]:
        """Draw for each large batch the starts of its k-means and the order of its passes.

        Both are drawn on the CPU, so that they are the same on every device, by streams that the
        batch's place in the epoch names, and go to the device together: the starts where a step may
        not read, since else the host computes k-means.

        Returns
        -------
        For each batch of M images (n_init, k, candidates) float64 and (repeats, M) int64.
        """
        k, repeats = self.bounds[self.target].n_clusters, self.options.repeats
        shape = (
            self.options.n_init,
            k,
            greedy_candidates(k),
        )  # as scikit-learn, which the code calls
        starts, orders = [], []
        for i, total in enumerate(lengths):
            stream = generator(self.config.seed, "relations", self.epoch, i)
            starts.append(torch.rand(shape, generator=stream, dtype=torch.float64))
            stream = generator(self.config.seed, "passes", self.epoch, i)
            orders += [torch.randperm(total, generator=stream) for _ in range(repeats)]
        uniforms = torch.stack(starts).to("cpu" if self.may_read else self.device)
        rows = torch.split(torch.cat(orders).to(self.device), [repeats * n for n in lengths])
        return [
            (draws, order.view(repeats, -1)) for draws, order in zip(uniforms, rows, strict=True)
        ]

    def losses(self, batch: Batch) -> Iterator[Tensor]:
        """Yield the loss of each part of each pass over a large batch (Algorithm 1).

        A batch without draws of its own has those of the first of an epoch.
        """
        plain, views = batch.views
        total, options = len(batch.ids), self.options
        uniforms, orders = batch.draws or self.draws([total]).pop()
        # 1. Targets, from the unchanged images: Eq. 5, 11 and the relation of Eq. 6.
        targets = self.targets(batch.ids, plain, uniforms)
        views = self.ranks.gather(views, total)
        # 2. Training: passes over the large batch, in parts of m2 images (`rows`).
        for rows in (rows for order in orders for rows in self.parts(order)):
            own = rows[slice(*self.ranks.shard(len(rows)))]
            logits = self.ranks.gather(self.logits(views[own]), len(rows))
            label, attention = logits[:, 0], logits[:, 1]
            part = targets.take(rows)
            # L_R + a_1 L_T + a_2 L_A + a_3 (L_E(l) + L_E(l^a)) (Eq. 12, of Eq. 4, 7, 8 and 10)
            learned = label, attention, part.relation, part.labels, part.attention
            if options.losses == "released":
                found = released_gatcluster_loss(*learned, weights=self.weights)
            else:
                found = gatcluster_loss(*learned, weights=self.weights, floor=options.floor)
            yield found.total

    @torch.no_grad()
    def targets(self, ids: Tensor, plain: Tensor, uniforms: Tensor) -> Targets:
        """Targets of a large batch, by the network as it is; its labels are stored.

        Parameters
        ----------
        ids : (M,) int64 tensor.
        plain : (m, c, h, w) tensor. This rank's unchanged images.
        uniforms : (n_init, k, candidates) float64 tensor. Of `draws`.
        """
        with evaluating(self.network):
            own = [self.logits(part)[:, 0] for part in torch.split(plain, self.options.chunk)]
        logits = self.ranks.gather(torch.cat(own), len(ids))
        self.labels[self.target, ids] = logits.argmax(1)
        return large_batch_targets(logits, self.options, uniforms, may_read=self.may_read)

    def parts(self, order: Tensor) -> tuple[Tensor, ...]:
        """Cut an order into parts of at most, or with `drop_remainder` of exactly, m2 images."""
        total, size = len(order), self.options.sub_batch
        whole = total // size * size
        if self.options.drop_remainder and whole:
            return order[:whole].view(-1, size).unbind(0)
        # Batch normalization needs two images: none of the even parts has fewer.
        count = max(1, min(-(-total // size), total // 2))
        return order.tensor_split(count)

    def logits(self, images: Tensor) -> Tensor:
        """Both branches before the softmax, (b, 2, k): label, attention."""
        return self.network.predict(self.network(images))

    def features(self, images: Tensor) -> Tensor:
        """Label features of one batch of one view, (b, k): rows of the simplex."""
        return torch.softmax(full_precision(self.logits(images)[:, 0]), dim=1)

    def normalize_rows(self, rows: Tensor) -> Tensor:
        """Return the mean of label features over views as it is: a point of the simplex."""
        return rows

    def target_centers(self, features: Tensor) -> Tensor:
        """Corners of the simplex, (k, k): the score of a cluster is its entry (Theorem 1)."""
        k = self.bounds[self.target].n_clusters
        return torch.eye(k, dtype=features.dtype, device=features.device)

    def probe_logits(self, features: Tensor) -> Tensor:
        """Logarithms of some label features."""
        logits: Tensor = finite_log(features)
        return logits

    @torch.no_grad()
    def attended(self, data: ImageData | PictureData, ids: Tensor) -> Any:
        """Images of these ids under their windows; None where the encoder keeps no map."""
        if min(self.branches.map_shape[1:]) < 2:
            return None
        _, under = attended(
            data.images[ids.to(data.images.device)].cpu().numpy(),
            self._windows(data, ids),
            map_size=self.branches.map_shape[1:],
            alpha=self.options.alpha,
            origin=getattr(self.network.encoder, "origin", None),
            spacing=getattr(self.network.encoder, "spacing", None),
        )
        return under

    def _windows(self, data: ImageData | PictureData, ids: Tensor) -> Any:
        images = data.take(ids.to(self.device)).to(self.dtype)
        with evaluating(self.network):
            return self.branches.windows(self.network(images))

    @torch.no_grad()
    def write_pictures(
        self, folder: Path, data: ImageData | PictureData, prediction: Prediction
    ) -> None:
        """Write ``attention.png``: each cluster's surest images under their windows.

        There is none where the encoder keeps no map, or one of a single line or point.
        """
        encoder = self.network.encoder
        if min(self.branches.map_shape[1:]) < 2:
            return

        write_overlays(
            folder / "attention.png",
            data.images,
            prediction.assignment.labels,
            prediction.features.amax(1),
            partial(self._windows, data),
            map_size=self.branches.map_shape[1:],
            alpha=self.options.alpha,
            n_clusters=self.bounds[self.target].n_clusters,
            origin=getattr(encoder, "origin", None),
            spacing=getattr(encoder, "spacing", None),
        )

    def state_dict(self) -> dict[str, Any]:
        """All that the next epoch depends on, as a nested state of tensors."""
        return {"network": dict(self.network.state_dict()), "labels": self.labels}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over a saved state; every tensor must be there and fit."""
        self.network.load_state_dict(state["network"])
        self.labels.copy_(state["labels"])


def _map_shape(config: RunConfig, network: Network) -> tuple[int, int, int]:
    """Shape of the encoder's map; features without positions are a map of one point."""
    shape: tuple[int, int, int] | None = getattr(network.encoder, "map_shape", None)
    if shape is None:
        return network.out_dim, 1, 1
    if config.network.layers:
        msg = (
            f"a projector would mix the points of the map that network.name="
            f"{config.network.name!r} returns, got network.layers={config.network.layers}. "
            f"To fix: network.layers=0"
        )
        raise UsageError(msg)
    return shape
