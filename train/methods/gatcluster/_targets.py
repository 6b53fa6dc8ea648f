"""What GATCluster learns a large batch by: targets, and which images belong together.

Everything comes from the label branch on the unchanged images, once for each large batch.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ....algos.losses.gatcluster.grouping import grouped_labels
from ....algos.losses.gatcluster.relations import usable_labels
from ....algos.losses.gatcluster.tasks import balanced_targets
from ...config.methods.gatcluster import GatclusterOptions

__all__ = ["Targets", "large_batch_targets", "related"]


class Targets(NamedTuple):
    """Targets of a large batch of M images.

    Attributes
    ----------
    labels : (M, k) tensor. Of the label branch, Eq. 5.
    attention : (M, k) tensor. Of the attention branch, Eq. 11: sharper.
    relation : (M,) int64 tensor. Images with one number belong together, Eq. 6.
    """

    labels: Tensor
    attention: Tensor
    relation: Tensor

    def take(self, rows: Tensor) -> Targets:
        """Return the targets of some images."""
        return Targets(*(part[rows] for part in self))


@torch.no_grad()
def large_batch_targets(
    logits: Tensor, options: GatclusterOptions, uniforms: Tensor, *, may_read: bool
) -> Targets:
    """Compute the targets of a large batch.

    Parameters
    ----------
    logits : (M, k) tensor. Label branch on the unchanged images, before the softmax.
    options : GatclusterOptions
    uniforms : (n_init, k, candidates) float64 tensor. Draws of the starts of k-means.
    may_read : bool. As of `Method`.
    """
    plain, sharp = balanced_targets(logits, sharpness=(1.0, 2.0), eps=options.target_eps)
    return Targets(plain, sharp, related(sharp, options, uniforms, may_read=may_read))


@torch.no_grad()
def related(
    sharp: Tensor, options: GatclusterOptions, uniforms: Tensor, *, may_read: bool
) -> Tensor:
    """Number the images by k-means on their sharp targets; every image alone if it degenerates.

    The host computes it, in as many rounds as k-means needs. Where values may not be read, the
    device does, in all rounds, idle once no label moves: the same labels.

    Parameters
    ----------
    sharp : (M, k) tensor. Eq. 11.
    options : GatclusterOptions
    uniforms : (n_init, k, candidates) float64 tensor. Where k-means is computed.
    may_read : bool. As of `Method`.

    Returns
    -------
    relation : (M,) int64 tensor.

    Notes
    -----
    Cost O(n_init M k^2) per iteration of Lloyd. The code clusters the target of Eq. 11 too, where
    the paper says "predicted label features".
    """
    rows = sharp.cpu() if may_read else sharp
    labels = grouped_labels(rows, uniforms, read_back=may_read)
    relation: Tensor = usable_labels(labels, sharp.shape[1], min_share=options.min_share)
    return relation.to(sharp.device)
