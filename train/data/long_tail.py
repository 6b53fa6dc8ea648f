"""Subsets of a data set: long-tailed by class, and limited in number.

The long tail is that of CIFAR-LT [1]: the classes keep exponentially fewer samples, from the first
to the last in the order of their labels.

References
----------
.. [1] Y. Cui, M. Jia, T.-Y. Lin, Y. Song, S. Belongie. Class-balanced loss based on effective
       number of samples. CVPR 2019.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ...algos.core.errors import UsageError
from ..state.seeding import generator

__all__ = ["profile", "subset"]


def profile(counts: Sequence[int], imbalance: float) -> list[int]:
    """Sizes of the classes of a long-tailed subset.

    Class k of K keeps ``n * imbalance ** (-k / (K - 1))`` samples, rounded down and at least one,
    where n is the largest class; no more than it has.

    Parameters
    ----------
    counts : ints. Samples of each class.
    imbalance : float, 1 or more. Size of the first class over that of the last.

    Examples
    --------
    >>> profile([5000] * 10, 100)
    [5000, 2997, 1796, 1077, 645, 387, 232, 139, 83, 50]
    """
    largest, last = max(counts), max(1, len(counts) - 1)
    # A tenth of a thousandth, so that 50 as 5000 / 100 does not become 49 by rounding.
    wanted = [int(largest * imbalance ** (-k / last) + 1e-4) for k in range(len(counts))]
    return [min(count, max(1, size)) for count, size in zip(counts, wanted, strict=True)]


def subset(n: int, labels: Tensor | None, *, imbalance: float, limit: int, seed: int) -> Tensor:
    """Positions of the samples to keep, in ascending order.

    Parameters
    ----------
    n : int. Samples there are.
    labels : (n,) int64 tensor or None. Classes from 0; needed where `imbalance` is above 1.
    imbalance : float, 1 or more. See `profile`; 1 keeps all.
    limit : int, 0 or more. Of those, keep this many at random; 0 keeps all.
    seed : int. The run's seed.

    Raises
    ------
    UsageError
        If a long tail is asked for of samples without a class.
    """
    kept = torch.arange(n)
    if imbalance > 1:
        if labels is None or bool((labels < 0).any()):
            msg = (
                f"data.imbalance={imbalance} needs the class of every sample, and the source does "
                f"not have it. To fix: add labels, or set data.imbalance=1"
            )
            raise UsageError(msg)
        labels = labels.cpu()
        sizes = profile(torch.bincount(labels).tolist(), imbalance)
        order = torch.randperm(n, generator=generator(seed, "long tail"))
        mixed = labels[order]
        parts = [order[mixed == k][:size] for k, size in enumerate(sizes)]
        kept = torch.cat(parts).sort().values
    if 0 < limit < len(kept):
        chosen = torch.randperm(len(kept), generator=generator(seed, "limit"))[:limit]
        kept = kept[chosen.sort().values]
    return kept
