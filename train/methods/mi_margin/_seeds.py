"""Weak supervision: the few true labels that a run asks for, and the loss on them.

The supplement (section E.4) keeps a share of the labels of each class and adds a cross-entropy on
them. It is the one place where true labels enter training, and only by ``mi_margin.supervised``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ....algos.core.errors import UsageError
from ....algos.losses.cross_entropy import soft_cross_entropy

__all__ = ["draw_seeds", "seed_loss"]


def draw_seeds(
    labels: Tensor, share: float, *, n_clusters: int, generator: torch.Generator
) -> Tensor:
    """Keep the labels of some samples of each class, and forget the others.

    Parameters
    ----------
    labels : (n,) int64 tensor. Classes, from 0.
    share : float in (0, 1]. Of each class: the nearest whole number, and at least one.
    n_clusters : int. A class is the cluster of its number.
    generator : torch.Generator. On the CPU.

    Returns
    -------
    (n,) int64 tensor, on the device of `labels`. The class of a seed, -1 elsewhere.

    Raises
    ------
    UsageError
        If there are more classes than clusters.
    """
    classes = labels.cpu()
    n_classes = int(classes.max()) + 1
    if n_classes > n_clusters:
        msg = (
            f"weak supervision needs a cluster for each class: heads.clusters=[{n_clusters}], and "
            f"the data has {n_classes} classes. To fix: set heads.clusters=[{n_classes}]"
        )
        raise UsageError(msg)
    seeds = torch.full_like(classes, -1)
    for c in range(n_classes):
        members = torch.nonzero(classes == c)[:, 0]
        order = torch.randperm(len(members), generator=generator)
        kept = members[order[: max(1, round(share * len(members)))]]
        seeds[kept] = c
    return seeds.to(labels.device)


def seed_loss(scores: Tensor, seeds: Tensor) -> Tensor:
    """Mean cross-entropy of the seeds of a batch, in nats; 0 for a batch without any.

    The number of operations does not depend on how many seeds there are.

    Parameters
    ----------
    scores : (b, k) tensor. Log-probabilities up to a constant for each row.
    seeds : (b,) int64 tensor. Class, or -1 for a sample whose class is not given.

    Examples
    --------
    >>> seed_loss(torch.zeros(2, 2), torch.tensor([1, -1]))
    tensor(0.6931)
    """
    given = (seeds >= 0).to(scores.dtype)
    # Not F.one_hot, which looks at the values. A sample without a class has a row of zeros.
    clusters = torch.arange(scores.shape[1], device=scores.device)
    wanted = (seeds[:, None] == clusters).to(scores.dtype)
    rows = soft_cross_entropy(scores, wanted, temperature=1.0)
    mean: Tensor = rows.sum() / given.sum().clamp(min=1.0)
    return mean
