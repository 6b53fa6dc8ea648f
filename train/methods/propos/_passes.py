"""Pass a batch through ProPos's networks: over which images batch normalization takes means.

Without care, batch normalization tells the networks which images they share a batch with, and a
method without negative pairs may learn that instead of the images (MoCo; ProPos, section 5.1). Two
ways out:

- `WholeBatch`: one mean over the batch of all ranks, view by view. The same for any number of ranks
  by construction.
- `SubBatches`: statistics of g sub-batches. The online network takes them as the batch comes, the
  target network from a random order of the whole batch, so that an image meets others in each:
  MoCo's shuffling. A sub-batch is never split between ranks, so that g, and not the number of
  ranks, says what is computed; for the target network the ranks exchange images.

In both, the statistics are of each view by itself, or with ``joint`` of all views together: a batch
of b images then is one of v b rows, whose sub-batches hold all views of their images, and for the
target network any rows.

Both return features of the whole batch on every rank, as `Method.encode` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import torch
from torch import Tensor, nn

from ....algos.core.errors import UsageError
from ....algos.core.random import normal_noise
from ....common.ranks import ALONE, Ranks
from ...networks.network import Network, in_groups, run_views
from ...networks.normalization import BatchNorm, synchronize

__all__ = ["Passes", "SubBatches", "WholeBatch", "in_sub_batches"]


class Passes(Protocol):
    """Passes of a batch through the three networks; `total` is its length over all ranks."""

    def online(self, network: Network, views: Sequence[Tensor], total: int) -> Tensor:
        """Projector's output (v, total, d) of views (this rank's part), with gradients."""

    def target(self, network: Network, views: Sequence[Tensor], total: int, step: Tensor) -> Tensor:
        """Projector's output (v, total, d) of the target network, at the step of this number."""

    def predict(self, network: Network, rows: Tensor) -> Tensor:
        """Predictor's output for rows (v, total, d) of the whole batch."""

    def after_step(self, networks: Sequence[Network]) -> None:
        """Bring the running statistics of all ranks together, where they are apart."""


class WholeBatch:
    """Statistics of the whole batch. `ranks` are the processes that share it."""

    def __init__(self, ranks: Ranks, *, joint: bool = False) -> None:
        self.ranks, self.joint = ranks, joint

    def online(self, network: Network, views: Sequence[Tensor], total: int) -> Tensor:
        """See `Passes`."""
        return self.ranks.gather(self._run(network, network, views), total, dim=1)

    def target(self, network: Network, views: Sequence[Tensor], total: int, step: Tensor) -> Tensor:
        """See `Passes`."""
        return self.online(network, views, total)

    def predict(self, network: Network, rows: Tensor) -> Tensor:
        """See `Passes`."""
        return self._run(network, network.predict, rows.unbind())

    def after_step(self, networks: Sequence[Network]) -> None:
        """See `Passes`."""

    def _run(
        self, network: Network, function: Callable[[Tensor], Tensor], views: Sequence[Tensor]
    ) -> Tensor:
        if not self.joint:
            return run_views(network, function, views)
        rows = function(torch.cat(tuple(views)))
        return rows.reshape(len(views), -1, *rows.shape[1:])


class SubBatches:
    """Statistics of `count` sub-batches, in another order for the target network.

    Parameters
    ----------
    ranks : Ranks. The processes that share each batch.
    networks : the online and the target network; their statistics are taken rank by rank from here
        on.
    count : int. Sub-batches of a batch.
    batch_size : int. Images of every batch: there is no shorter last one.
    key : int in [0, 2**64). Seed of the orders.
    joint : bool. Whether a sub-batch is one of all views together.

    Raises
    ------
    UsageError
        If the sub-batches do not share a batch evenly, or the ranks the sub-batches; if a
        sub-batch has fewer than two images; if a network has PyTorch's own batch normalization.
    """

    def __init__(
        self,
        ranks: Ranks,
        networks: Sequence[Network],
        *,
        count: int,
        batch_size: int,
        key: int,
        joint: bool = False,
    ) -> None:
        if batch_size % count or batch_size < 2 * count:
            fits = max(2, batch_size // count) * count
            msg = (
                f"batch_size must be a multiple of propos.sub_batches={count}, two images or more "
                f"in each, got {batch_size}. To fix this, set batch_size={fits}"
            )
            raise UsageError(msg)
        if count % ranks.world_size:
            msg = (
                f"propos.sub_batches must be a multiple of the number of ranks, "
                f"{ranks.world_size}, so that none is split between two, got {count}. To fix "
                f"this, set propos.sub_batches={ranks.world_size}, or propos.batch_norm='global'"
            )
            raise UsageError(msg)
        foreign = nn.modules.batchnorm._BatchNorm
        for network in networks:
            if any(isinstance(layer, foreign) for layer in network.modules()):
                msg = (
                    "propos.batch_norm='shuffled' needs dualclust.train.networks.BatchNorm, and "
                    "the network has PyTorch's own. To fix this, replace it, or set "
                    "propos.batch_norm='global'"
                )
                raise UsageError(msg)
            synchronize(network, ALONE)
        self.ranks, self.count, self.key, self.joint = ranks, count, key, joint

    def online(self, network: Network, views: Sequence[Tensor], total: int) -> Tensor:
        """See `Passes`."""
        return self.ranks.gather(self._own(network, torch.stack(tuple(views))), total, dim=1)

    def target(self, network: Network, views: Sequence[Tensor], total: int, step: Tensor) -> Tensor:
        """See `Passes`. The order is a function of the key and the number of the step."""
        images = self.ranks.gather(torch.stack(tuple(views)), total, dim=1)
        v = len(images)
        if self.joint:  # any rows of all views share a sub-batch
            images, total = images.flatten(0, 1)[None], v * total
        noise = normal_noise((total,), key=self.key, stream=step, xp=torch, device=step.device)
        order = torch.argsort(noise)
        own = images[:, order[slice(*self.ranks.shard(total))]]
        count = self.count // self.ranks.world_size
        rows = self.ranks.gather(in_sub_batches(network, network, own, count), total, dim=1)
        rows = rows[:, torch.argsort(order)]
        return rows.reshape(v, -1, *rows.shape[2:]) if self.joint else rows

    def predict(self, network: Network, rows: Tensor) -> Tensor:
        """See `Passes`."""
        return in_sub_batches(network, network.predict, rows, self.count, joint=self.joint)

    def after_step(self, networks: Sequence[Network]) -> None:
        """See `Passes`. Running statistics are linear in those of the batches: their mean is due.

        The sub-batches of one process are rows of the same tensors, whose mean is taken where they
        merge_groups; so it is the same number for any number of ranks.
        """
        if self.ranks.world_size == 1:
            return
        tables = [
            table
            for network in networks
            for layer in network.modules()
            if isinstance(layer, BatchNorm)
            for table in (layer.group_mean, layer.group_var)
        ]
        self.ranks.sum_(tables)
        torch._foreach_div_(tables, self.ranks.world_size)

    def _own(self, network: Network, views: Tensor) -> Tensor:
        count = self.count // self.ranks.world_size
        return in_sub_batches(network, network, views, count, joint=self.joint)


def in_sub_batches(
    network: Network,
    function: Callable[[Tensor], Tensor],
    views: Tensor,
    count: int,
    *,
    joint: bool = False,
) -> Tensor:
    """Run a function of a network on views with the statistics of sub-batches, in one pass.

    Parameters
    ----------
    network : Network. The module that `function` runs.
    function : callable. Maps a batch of images to a batch of rows.
    views : (v, m, ...) tensor. Sub-batch j is rows ``j * m / count`` to ``(j + 1) * m / count``.
    count : int. Sub-batches; divides m.
    joint : bool. Whether the views of a sub-batch share their statistics.

    Returns
    -------
    (v, m, d) tensor

    Notes
    -----
    A pass moves the running statistics as far as v passes over whole batches would, whatever the
    number of sub-batches; with `joint`, as far as one pass.
    """
    v, m = views.shape[:2]
    if joint:
        parts = views.reshape(v, count, m // count, *views.shape[2:]).movedim(1, 0)
        together = in_sub_batches(network, function, parts.flatten(0, 2)[None], count)
        apart = together.reshape(count, v, m // count, *together.shape[2:])
        return apart.movedim(0, 1).flatten(1, 2)
    rows = views.reshape(v * count, m // count, *views.shape[2:])
    with _momentum(network, 1 / count):
        out = in_groups(network, function, rows.unbind())
    return out.reshape(v, m, *out.shape[2:])


@contextmanager
def _momentum(network: nn.Module, share: float) -> Iterator[None]:
    """Let each group of a pass count as the `share` of a pass in the running statistics."""
    layers = [layer for layer in network.modules() if isinstance(layer, BatchNorm)]
    before = [layer.momentum for layer in layers]
    for layer in layers:
        layer.momentum = 1.0 - (1.0 - layer.momentum) ** share
    try:
        yield
    finally:
        for layer, old in zip(layers, before, strict=True):
            layer.momentum = old
