"""What ProPos does with labels: k-means of all features, and epochs balanced over the clusters."""

from __future__ import annotations

import torch
from torch import Tensor

from ....algos.bounds.sizes import SizeBounds
from ....algos.clustering.constrained import (
    ConstrainedKMeansResult,
    KMeansResult,
    best_of,
    constrained_kmeans,
    kmeans,
)
from ....algos.clustering.start import start_centers
from ....algos.scores.sources import feature_source
from ...config.methods.propos import ProposOptions
from ...state.seeding import generator

__all__ = ["balanced_order", "cluster", "stream_key"]


def stream_key(seed: int, name: str) -> int:
    """Seed below 2^63 of a named stream, for algorithms that draw by counting."""
    return generator(seed, name).initial_seed()


@torch.no_grad()
def cluster(
    features: Tensor, bounds: SizeBounds, options: ProposOptions, *, seed: int
) -> tuple[Tensor, Tensor]:
    """Spherical k-means, the best of ``n_init`` starts: the E-step, and the prediction.

    Parameters
    ----------
    features : (n, d) tensor. Unit rows.
    bounds : SizeBounds. Where they bind, k-means keeps them.
    options : ProposOptions
    seed : int. The run's seed. The starts are the same in every epoch, as in the released code.

    Returns
    -------
    labels : (n,) int64 tensor.
    centers : (k, d) tensor. Unit rows.
    """
    source, k, n = feature_source(features), bounds.n_clusters, len(features)
    bounded = bool((bounds.lower > 0).any() or (bounds.upper < n).any())
    most, tolerance = options.kmeans_iterations, options.kmeans_tolerance

    def run(start: int) -> KMeansResult | ConstrainedKMeansResult:
        centers = start_centers(source, k, seed=start, metric="cosine")
        if bounded:
            return constrained_kmeans(features, bounds, centers, max_iter=most, tol=tolerance)
        return kmeans(features, centers, max_iter=most, tol=tolerance)

    first = stream_key(seed, "kmeans")
    found = best_of(run, range(first, first + options.n_init))
    if isinstance(found, KMeansResult):
        return found.labels, found.centers
    return found.assignment.labels, found.centers


def balanced_order(labels: Tensor, draws: torch.Generator) -> Tensor:
    """As many images as there are, with replacement, each cluster that is there equally likely.

    Image i has the probability ``1 / (n_y k)``, with n_y the size of its cluster and k the number
    of clusters that are not empty (the weights n / n_y of the released code). Drawn on the CPU, so
    that it is the same on every device.

    Parameters
    ----------
    labels : (n,) int64 tensor. Cluster of each image.
    draws : torch.Generator. On the CPU.

    Returns
    -------
    order : (n,) int64 tensor, on the device of `labels`.
    """
    own = labels.cpu()
    sizes = torch.bincount(own)
    running = torch.cumsum(sizes[own].double().reciprocal(), dim=0)
    uniforms = torch.rand(len(own), generator=draws, dtype=torch.float64)
    # A uniform number below 1 times the last sum is below that sum, rounded as well.
    drawn = torch.searchsorted(running, uniforms * running[-1], right=True)
    return drawn.to(labels.device)
