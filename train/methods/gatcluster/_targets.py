"""What GATCluster learns a large batch by: targets, and which images belong together.

Everything comes from the label branch on the unchanged images, once for each large batch.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ....algos.clustering.constrained import KMeansResult, best_of, kmeans, kmeans_plus_plus
from ....algos.clustering.start import greedy_candidates
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
    logits: Tensor, options: GatclusterOptions, draws: torch.Generator
) -> Targets:
    """Compute the targets of a large batch.

    Parameters
    ----------
    logits : (M, k) tensor. Label branch on the unchanged images, before the softmax.
    options : GatclusterOptions
    draws : torch.Generator, on the CPU. Of the starts of k-means.
    """
    plain, sharp = (balanced_targets(logits, sharpness=s, eps=options.target_eps) for s in (1, 2))
    return Targets(plain, sharp, related(sharp, options, draws))


@torch.no_grad()
def related(sharp: Tensor, options: GatclusterOptions, draws: torch.Generator) -> Tensor:
    """Number the images by k-means on their sharp targets; every image alone if it degenerates.

    k-means asks the device after every iteration whether labels have moved, and which start was
    the best. These are the only values of a large batch that are read back; the guard is computed
    on the device.

    Parameters
    ----------
    sharp : (M, k) tensor. Eq. 11.
    options : GatclusterOptions
    draws : torch.Generator, on the CPU.

    Returns
    -------
    relation : (M,) int64 tensor.

    Notes
    -----
    Cost O(n_init M k^2) per iteration of Lloyd. The code clusters the target of Eq. 11 too, where
    the paper says "predicted label features".
    """
    k = sharp.shape[1]
    shape = options.n_init, k, greedy_candidates(k)  # as scikit-learn, which the code calls
    uniforms = torch.rand(shape, generator=draws, dtype=torch.float64)
    uniforms = uniforms.to(sharp.device)

    def run(number: int) -> KMeansResult:
        return kmeans(sharp, kmeans_plus_plus(sharp, uniforms[number]), metric="euclidean")

    found = best_of(run, range(options.n_init))
    relation: Tensor = usable_labels(found.labels, k, min_share=options.min_share)
    return relation
