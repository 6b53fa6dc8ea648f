"""Restart a lost cluster of a softmax classifier as half of another."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import nn

from ....algos.clustering.restarts import Split

__all__ = ["APART", "split_clusters"]

APART = 0.5
"""How far the two halves are moved apart, in lengths of the weights that they share."""


@torch.no_grad()
def split_clusters(head: nn.Linear, splits: Sequence[Split], draws: torch.Generator) -> None:
    """Split clusters in two, in place: each half predicts half of what the cluster predicted.

    With weights ``v +- delta`` and the bias ``b - ln 2``, the two halves of a sample in the plane
    ``delta . f = 0`` add up to what was there; which side of that plane a sample is on decides
    which half is the larger, and the loss then moves the plane.

    Parameters
    ----------
    head : nn.Linear. With a bias; the rows of its weight are the clusters.
    splits : sequence of Split. Applied one after the other.
    draws : torch.Generator, on the CPU. Of the directions.
    """
    for cluster, source in splits:
        weight, bias = head.weight, head.bias
        direction = torch.randn(weight.shape[1], generator=draws, dtype=torch.float64)
        direction = (direction / direction.norm()).to(weight)
        moved = APART * weight[source].norm() * direction
        weight[cluster] = weight[source] - moved
        weight[source] += moved
        bias[source] -= math.log(2.0)
        bias[cluster] = bias[source]
