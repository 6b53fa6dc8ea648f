"""Kernels on lists of candidates in plain PyTorch; the rows of the table use them on CUDA."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from . import torch_cpu, torch_engine
from .torch_engine import _in_blocks, _joined

__all__ = ["augmenting_paths", "candidates_of_blocks", "regrets", "split_rows"]

GROUPS = 4
"""Groups of clusters for each key that is kept: of keys in any order, a seventh more than needed
are then not below the bound of `_possible`."""

Lists = tuple[Tensor, Tensor, Tensor, Tensor]
Pairs = tuple[Tensor, Tensor, Tensor, int]
"""Rows, clusters and scores, and of how many rows."""


class _Box:
    """A trust region in the precision of the scores, cut so that sums with it stay finite."""

    def __init__(self, low: Tensor, high: Tensor, dtype: torch.dtype) -> None:
        most, self.slack = torch.finfo(dtype).max / 4.0, 8.0 * torch.finfo(dtype).eps
        self.ends = torch.stack([low, high]).clamp_(-most, most).to(dtype)
        self.largest = self.ends.abs().amax()
        # How far a candidate can be behind the largest key of its row, with rounding.
        reach = (self.ends[1] - self.ends[0]).amax()
        self.reach = torch.add(reach, self.largest, alpha=8.0 * self.slack)


def candidates_of_blocks(
    low: Tensor, high: Tensor, blocks: Iterable[Tensor], *, width: int
) -> Lists:
    """See `dualclust.algos.offline._candidates.candidates_of_blocks`. Reads once a block.

    A block costs a dozen operations on its scores. They find the pairs of a row and a cluster that
    can be a candidate; what follows goes over these pairs alone, of several blocks at once.
    """
    found, waiting, box = list[Lists](), list[Pairs](), None
    n_rows, n_pairs, of_block, most = 0, 0, 0, _most_pairs()
    for scores in blocks:
        box, of_block = box or _Box(low, high, scores.dtype), of_block or len(scores)
        for rows, columns, values, n in _possible(scores, box, width):
            waiting.append((rows.add_(n_rows) if n_rows else rows, columns, values, n))
            n_rows, n_pairs = n_rows + n, n_pairs + len(rows)
            if n_pairs > most:
                found.append(_in_order(waiting, n_rows, box, width, of_block))
                waiting, n_pairs = [], 0
    if waiting and box is not None:
        found.append(_in_order(waiting, n_rows, box, width, of_block))
    clusters, values, n_candidates, truncation = (
        _joined(list(column)) for column in zip(*found, strict=True)
    )
    return clusters, values, n_candidates, truncation


def _most_pairs() -> int:
    """How many pairs are put in order at a time, at about 100 bytes each."""
    return torch_engine.BLOCK_ENTRIES // 4


def _possible(scores: Tensor, box: _Box, width: int) -> Iterator[Pairs]:
    """Pairs of which some are the first ``width + 1`` candidates of each row.

    Their key is within reach of the row's largest, and not below ``width + 1`` other keys: where
    the largest keys of so many groups of clusters reach a value, so do as many keys. A row whose
    largest entry is NaN or infinity has no pair.
    """
    n, k = scores.shape
    key, n_groups, others = scores + box.ends[1], GROUPS * (width + 1), None
    if k < 2 * n_groups:
        top = key.amax(dim=1)
    else:
        size, rest = divmod(k, n_groups)
        groups = key[:, : k - rest].view(n, n_groups, size).amax(dim=2)
        if rest:
            torch.maximum(groups[:, :rest], key[:, k - rest :], out=groups[:, :rest])
        largest = groups.topk(width + 1, dim=1).values
        top, others = largest[:, 0], largest[:, width]
    threshold = torch.add(top, top.abs(), alpha=-2.0 * box.slack) - box.reach
    if others is not None:
        threshold = torch.maximum(threshold, others)
    key = key >= threshold[:, None]
    pairs = key.nonzero()
    if len(pairs) <= _most_pairs() or n == 1:
        rows, columns = pairs.unbind(1)
        yield rows, columns, scores[rows, columns], n
        return
    del key, pairs
    for half in torch.tensor_split(scores, 2):  # many ties
        yield from _possible(half, box, width)


def _in_order(parts: list[Pairs], stop: int, box: _Box, width: int, of_block: int) -> Lists:
    """The candidates among these pairs, the largest first; their rows are the last before `stop`.

    Row i of a block breaks its ties from cluster i on.
    """
    k, n = box.ends.shape[1], sum(part[-1] for part in parts)
    rows, columns, values = (_joined(list(part)) for part in [*zip(*parts, strict=True)][:3])
    if n and not len(rows):  # one that is none, so that there is something to take
        rows, columns, values = rows.new_zeros(1), rows.new_zeros(1), values.new_zeros(1) - math.inf
    row_of_block = rows % of_block if stop > of_block else rows
    is_later = row_of_block % k > columns
    rows = rows - (stop - n) if stop > n else rows
    low, key = values + box.ends[:, columns]
    best = values.new_full((n,), -math.inf).scatter_reduce_(0, rows, low, "amax")
    threshold = torch.add(best, best.abs() + box.largest, alpha=-box.slack)
    key.masked_fill_(key < threshold[rows], -math.inf)
    # Stable sorts, the last one by what comes first.
    order = is_later.to(torch.int8).sort(stable=True).indices
    order = order[key[order].sort(stable=True, descending=True).indices]
    order = order[rows[order].sort(stable=True).indices]
    edges = torch.searchsorted(rows, torch.arange(n + 1, device=rows.device))
    places = edges[:-1, None] + torch.arange(min(width + 1, k), device=rows.device)
    is_none = places >= edges[1:, None]
    pairs = order[places.clamp_(max=len(rows) - 1)]
    kept = key[pairs].masked_fill_(is_none, -math.inf)
    is_none = kept == -math.inf
    n_candidates = (~is_none).sum(dim=1)
    pairs, is_none = pairs[:, :width], is_none[:, :width]
    clusters = columns[pairs].to(torch.int32).masked_fill_(is_none, -1)
    values = values[pairs].masked_fill_(is_none, -math.inf)
    if width < k:
        truncation = kept[:, width].to(torch.float64)
    else:
        truncation = torch.full((n,), -math.inf, dtype=torch.float64, device=rows.device)
    return clusters, values, n_candidates, truncation


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
        facts = is_free.sum(), *n_candidates.min(dim=0), sizes.amax()
        known = torch.stack([*facts, sums[0]]).tolist()  # all in float64, as the sums are
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
