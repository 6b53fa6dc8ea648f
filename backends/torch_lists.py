"""Kernels on lists of candidates in plain PyTorch; the rows of the table use them on CUDA."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from . import torch_cpu
from .torch_engine import _in_blocks, _joined

__all__ = ["augmenting_paths", "regrets", "split_rows"]


def augmenting_paths(
    values: Tensor,
    clusters: Tensor,
    prices: Tensor,
    *,
    lower: Tensor,
    upper: Tensor,
    window: float,
    parents: Tensor | None = None,
    is_over: Callable[[], bool] | None = None,
) -> tuple[Tensor, Tensor, int, int, bool]:
    """See `dualclust.algos.offline._augmenting_paths.augmenting_paths`; paths run on the host.

    Only the rows that may move go there, and slots of as many come back: the others are counted,
    and their counts taken off the bounds. Slots, prices, moves and paths are those of all rows. All
    rows go where there is no window, or a tree, whose inner nodes report the counts below them.
    """
    options: dict[str, Any] = {"window": window, "parents": parents, "is_over": is_over}
    if parents is not None or window == math.inf or not len(values):
        options |= {"lower": lower, "upper": upper}
        return torch_cpu.augmenting_paths(values, clusters, prices, **options)
    columns = zip(*_best_slots(values, clusters, prices), strict=True)
    slots, leads, own = (_joined(list(column)) for column in columns)
    (moving,) = torch.nonzero(leads <= window, as_tuple=True)
    fixed = (leads > window).to(torch.int64)
    counts = torch.zeros_like(lower).index_add_(0, own, fixed)
    found, moved, n_moved, n_paths, is_stuck = torch_cpu.augmenting_paths(
        *_lists_on_host(values[moving], clusters[moving]),
        prices,
        lower=lower - counts,
        upper=upper - counts,
        **options,
    )
    found, moved = found.to(slots.device), moved.to(slots.device)
    return slots.index_copy(0, moving, found), moved, n_moved, n_paths, is_stuck


def _lists_on_host(values: Tensor, clusters: Tensor) -> tuple[Tensor, Tensor]:
    """Scores and clusters of rows on the host: only the candidates that there are go there."""
    listed = clusters >= 0
    (places,) = torch.nonzero(listed.reshape(-1), as_tuple=True)
    given = [array.reshape(-1)[places] for array in (values, clusters)]
    given = [*given, listed.sum(dim=1, dtype=torch.int32)]
    together = torch.cat([array.view(torch.uint8) for array in given]).cpu()  # one copy
    parts = torch.split(together, [array.nbytes for array in given])
    scores, names, sizes = (p.view(a.dtype) for p, a in zip(parts, given, strict=True))
    is_listed = torch.arange(clusters.shape[1]) < sizes[:, None]
    whole = torch.full(values.shape, -math.inf, dtype=values.dtype)
    none = torch.full(clusters.shape, -1, dtype=clusters.dtype)
    return whole.masked_scatter_(is_listed, scores), none.masked_scatter_(is_listed, names)


def _best_slots(
    values: Tensor, clusters: Tensor, prices: Tensor
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Of each row the place of its best candidate, by how much it leads, and its cluster."""
    for scores, places in _in_blocks(values, clusters):
        priced = scores.to(torch.float64)
        priced = priced - priced[:, :1] + prices[places]
        best, slot = priced.max(dim=1, keepdim=True)
        second = priced.scatter_(1, slot, -math.inf).amax(dim=1, keepdim=True)
        yield slot[:, 0], (best - second)[:, 0], places.gather(1, slot)[:, 0]


def regrets(values: Tensor, clusters: Tensor, prices: Tensor, slots: Tensor) -> Tensor:
    """See `dualclust.algos.offline._proof.regrets`. Reads nothing."""
    found, rows = [], 0
    for scores, places in _in_blocks(values, clusters, 4 * values.shape[1]):
        both = torch.stack([scores.to(torch.float64), prices[places]])
        place, rows = slots[rows : rows + len(places), None], rows + len(places)
        own = both.gather(2, place.expand(2, -1, 1))
        (gain, more), errors = _differences(both, own)
        total, error = _differences(gain, -more)
        lost = total + (error + (errors[0] + errors[1]))
        found.append(lost.masked_fill_(clusters[rows - len(places) : rows] < 0, 0.0).amax(dim=1))
    return _joined(found)


def _differences(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """``a - b`` and its error, as in `dualclust.algos.core.error_free.two_sum`."""
    total = a - b
    of_b = total - a
    return total, (a - (total - of_b)) - (b + of_b)


def split_rows(
    clusters: Tensor,
    values: Tensor,
    n_candidates: Tensor,
    truncation: Tensor,
    *,
    n_clusters: int,
    largest: float,
    limit: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, int]:
    """See `dualclust.algos.offline._free_rows.split_rows`. Reads once."""
    labels, is_free, is_fixed = clusters[:, 0], n_candidates > 1, n_candidates == 1
    counts = torch.zeros(n_clusters, dtype=torch.int64, device=values.device)
    counts.index_add_(0, labels.clamp(min=0).to(torch.int64), is_fixed.to(torch.int64))
    first = values[:, 0].masked_fill(~is_fixed, 0.0).to(torch.float64)
    sums = torch.stack([first.sum(), first.abs().sum()])
    n_free, bad = 0, -1
    if len(values):
        sizes = values.abs()
        sizes.masked_fill_(sizes == math.inf, 0.0)
        sizes[:, 1:].masked_fill_(is_fixed[:, None], 0.0)
        facts = is_free.sum(), n_candidates.amin(), n_candidates.argmin(), sizes.amax()
        known = torch.stack([fact.to(torch.float64) for fact in facts]).tolist()
        n_free = int(known[0])
        if known[1] == 0.0:
            bad = int(known[2])
        elif not known[3] <= limit:
            bad = 0
    free = is_free.to(torch.int8).argsort(descending=True, stable=True)[:n_free]
    clusters, values, truncation = clusters[free], values[free], truncation[free]
    if largest:
        raised = truncation + torch.finfo(values.dtype).eps * (truncation.abs() + largest)
        truncation = torch.where(truncation > -math.inf, raised, truncation)
    return labels, is_free, clusters, values, truncation, counts[None, :], sums[None, :], bad
