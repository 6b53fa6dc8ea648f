"""Kernels in plain PyTorch, for any device; the rows of the table use them on CUDA."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

__all__ = [
    "assign_stream",
    "best_clusters",
    "curvature",
    "curvature_product",
    "largest_scores",
    "segment_sum",
    "select_candidates",
    "soft_counts",
]

INSIDE = 1.0 + 2.0**-14  # as in `dualclust.algos.offline._smoothed_dual`

BLOCK_ENTRIES = 2**24
"""Entries converted to float64 at a time: 128 MiB."""


class _Pass(NamedTuple):
    """What a pass of the online assignment does not change; `n` counts the rows of this call."""

    lower: Tensor
    upper: Tensor
    remaining: int
    n: int

    def full_at(self, counts: Tensor, done: Tensor | int) -> tuple[Tensor, Tensor | None]:
        """At which count a cluster is full after `done` rows, and whether completion has begun."""
        if self.remaining < 0:
            return self.upper, None
        completing = _owed(self.lower, counts) >= self.remaining - done
        return torch.where(
            completing, torch.minimum(self.lower, self.upper), self.upper
        ), completing

    def safe(self, counts: Tensor, done: Tensor | int) -> Tensor:
        """How many rows can come next before a price can change by an event, whatever they are."""
        full_at, completing = self.full_at(counts, done)
        room = torch.where(counts < full_at, full_at - counts, self.n).min()
        if completing is None:
            return room
        left = self.remaining - done - _owed(self.lower, counts)
        return torch.where(completing, room, torch.minimum(room, left))


def _owed(lower: Tensor, counts: Tensor) -> Tensor:
    """How many samples the clusters still lack."""
    return (lower - counts).clamp(min=0).sum()


def assign_stream(
    scores: Tensor,
    rho: Tensor,
    rho_up: Tensor,
    counts: Tensor,
    *,
    lower_share: Tensor,
    upper_share: Tensor,
    lower: Tensor,
    upper: Tensor,
    step_size: float,
    chunk_size: int,
    remaining: int,
    free_sign: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, int]:
    """See `dualclust.algos.online.assignment.assign_stream`.

    Inside a chunk prices change only at an *event*: a cluster becomes full, or completion begins.
    So the whole rest of a chunk is labeled at once, the rows up to the first event are kept, and
    the rows after it are labeled again. This is the sequential answer.

    The host reads three numbers at a time: where the event was, how many rows can follow before
    the next one is possible (each adds 1 to one count), and the first row that is not finite. A
    chunk inside these rows needs no read. So a call has at most 2 reads, one more for each chunk
    after the first in which an event is possible, and one for each event, of which there are
    2 k + 1 at most.
    """
    n, device = scores.shape[0], scores.device
    facts = _Pass(lower, upper, remaining, n)
    labels = torch.empty(n, dtype=torch.int64, device=device)
    bad = torch.full((), n, device=device)  # first row that is not finite
    safe = 0  # until the host has read how many rows can come next; see _Pass.safe
    is_checked = True  # whether the host has seen `bad` for all rows so far
    for start in range(0, n, chunk_size):
        stop = min(start + chunk_size, n)
        before, i, is_checked = counts, start, False
        bad = torch.minimum(bad, _first_not_finite(scores[start:stop], start, n))
        while i < stop:
            full_at, completing = facts.full_at(counts, i)
            price = torch.where(counts >= full_at, -math.inf, rho - rho_up)
            y = _best(scores[i:stop], price)
            labels[i:stop] = y
            if stop - i <= safe:
                counts = counts.index_add(dim=0, index=y, source=torch.ones_like(y))
                safe, i = safe - (stop - i), stop
                continue
            first = _first_event(y, counts, full_at, completing, facts, i)
            row = torch.arange(stop - i, device=device)
            counts = counts.index_add(dim=0, index=y, source=(row <= first).to(torch.int64))
            seen = torch.stack([first, facts.safe(counts, i + first + 1), bad]).tolist()
            i, safe, is_checked = i + seen[0] + 1, seen[1], True
            if seen[2] < n:
                return labels, rho, rho_up, counts, seen[2]
        m, chosen = stop - start, counts - before
        rho = rho + step_size * (m * lower_share - chosen)
        if not free_sign:
            rho = rho.clamp(min=0)
            rho_up = (rho_up + step_size * (chosen - m * upper_share)).clamp(min=0)
    bad_row = n if is_checked else int(bad)
    return labels, rho, rho_up, counts, bad_row if bad_row < n else -1


def _first_event(
    y: Tensor,
    counts: Tensor,
    full_at: Tensor,
    completing: Tensor | None,
    facts: _Pass,
    done: int,
) -> Tensor:
    """Which row with these labels fills a cluster or lets completion begin; the last if none."""
    sizes = counts[y] + _rank_in_segment(y) + 1  # of the chosen cluster, row included
    events = sizes >= full_at[y]
    if completing is not None:
        owed = _owed(facts.lower, counts) - (sizes <= facts.lower[y]).cumsum(dim=0)
        left = facts.remaining - done - torch.arange(1, y.numel() + 1, device=y.device)
        events = events | ((owed >= left) & ~completing)
    events[-1] = True
    return events.to(torch.int8).argmax()  # of a boolean column: its first True


def _best(scores: Tensor, price: Tensor) -> Tensor:
    """Best cluster of each row, in blocks of rows: float64 copies stay small."""
    parts = [(part.to(torch.float64) + price).argmax(dim=1) for part in _row_blocks(scores)]
    return _joined(parts)


def _first_not_finite(scores: Tensor, start: int, otherwise: int) -> Tensor:
    """The first row with NaN or an infinity, counted from `start`; `otherwise` if there is none."""
    wrong = _joined([~torch.isfinite(part).all(dim=1) for part in _row_blocks(scores)])
    row = start + torch.arange(wrong.numel(), device=scores.device)
    return torch.where(wrong, row, otherwise).min()


def _row_blocks(scores: Tensor) -> tuple[Tensor, ...]:
    """Blocks of rows of at most `BLOCK_ENTRIES` scores each."""
    return torch.split(scores, max(1, BLOCK_ENTRIES // scores.shape[1]))


def _joined(parts: list[Tensor]) -> Tensor:
    """Blocks of rows as one array; a single block is not copied."""
    first, *others = parts
    return torch.cat(parts) if others else first


def _rank_in_segment(labels: Tensor) -> Tensor:
    """For each row, how many earlier rows carry the same label."""
    order = torch.argsort(labels, stable=True)
    grouped = labels[order]
    position = torch.arange(labels.numel(), device=labels.device)
    rank = torch.empty_like(labels)
    rank[order] = position - torch.searchsorted(grouped, grouped)
    return rank


def best_clusters(scores: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor]:
    """See `dualclust.algos.scores.nearest.best_clusters`. Reads nothing.

    The sums of a block of rows are all that is ever in memory beside the scores.
    """
    found = [(part + offsets).max(dim=1) for part in _row_blocks(scores)]  # the first of equal ones
    return _joined([one.indices for one in found]), _joined([one.values for one in found])


def segment_sum(values: Tensor, segments: Tensor, *, n_segments: int) -> Tensor:
    """See `dualclust.algos.core.segments.segment_sum`. Integers: the order of additions is free."""
    sums = torch.zeros((n_segments, values.shape[1]), dtype=torch.int64, device=values.device)
    return sums.index_add_(0, segments, values)


def shift_table(
    table: Tensor, columns: Tensor | None, rows: Tensor | None, *, epsilon: float = 1.0
) -> Tensor:
    """See `dualclust.algos.batches._tables.shift_table`. In place, which skips new pages."""
    if columns is not None:
        table.add_(columns)
    if rows is not None:
        table.sub_(rows)
    return table if epsilon == 1.0 else table.div_(epsilon)


def weight_table(table: Tensor, columns: Tensor, rows: Tensor) -> Tensor:
    """See `dualclust.algos.batches._tables.weight_table`. In place, which skips new pages."""
    return table.mul_(columns).div_(rows)


def select_candidates(
    scores: Tensor, low: Tensor, high: Tensor, *, width: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """See `dualclust.algos.offline._candidates.select_candidates`. Reads nothing.

    Needs about five arrays of the shape of `scores`, so callers hand it a block of rows at a time.
    """
    n, k = scores.shape
    largest = torch.maximum(low.abs(), high.abs()).max().to(scores.dtype)
    best = (scores + low.to(scores.dtype)).amax(dim=1)
    usable = torch.isfinite(best)  # NaN and infinity are the largest entries of their rows
    threshold = best - (8.0 * torch.finfo(scores.dtype).eps) * (best.abs() + largest)
    key = scores + high.to(scores.dtype)
    selected = (key >= threshold[:, None]) & usable[:, None]
    key = torch.where(selected, key, -math.inf)
    order = _falling(key, min(width + 1, k))
    kept = order[:, :width]
    is_candidate = selected.gather(1, kept)
    clusters = torch.where(is_candidate, kept, -1).to(torch.int32)
    values = torch.where(is_candidate, scores.gather(1, kept), -math.inf)
    truncation = torch.full((n,), -math.inf, dtype=torch.float64, device=scores.device)
    if width < k:
        truncation = key.gather(1, order[:, width:]).squeeze(1).to(torch.float64)
    return clusters, values, selected.sum(dim=1), truncation


def _falling(key: Tensor, m: int) -> Tensor:
    """The clusters of the m largest keys of each row; row i breaks its ties from cluster i on."""
    n, k = key.shape
    row = torch.arange(n, device=key.device)[:, None]
    cluster = torch.arange(k, device=key.device)
    if key.dtype == torch.float32:
        # Whole numbers in the order of the keys, and below them the order of the ties.
        bits = (key + 0.0).view(torch.int32).to(torch.int64)
        bits = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
        place = (cluster - row) % k
        packed = (bits << 32) | (k - 1 - place)
        found = packed.topk(m, dim=1).values
        return (k - 1 - (found & 0xFFFFFFFF) + row) % k
    rotated = (row + cluster) % k
    order = key.gather(1, rotated).sort(dim=1, descending=True, stable=True).indices
    return rotated.gather(1, order[:, :m])


def soft_counts(
    values: Tensor, clusters: Tensor, prices: Tensor, *, temperature: float
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """See `dualclust.algos.offline._smoothed_dual.soft_counts`. Reads nothing."""
    kept: list[Tensor] = []
    value, counts, spread = prices.new_zeros(()), torch.zeros_like(prices), torch.zeros_like(prices)
    for scores, places in _in_blocks(values, clusters):
        away = scores.to(torch.float64)
        priced = (away - away[:, :1] + prices[places]) / temperature
        value = value + temperature * torch.logsumexp(priced, dim=1).sum()
        p, flat = torch.softmax(priced, dim=1), places.reshape(-1)
        counts.index_add_(dim=0, index=flat, source=p.reshape(-1))
        spread.index_add_(dim=0, index=flat, source=(p * (1 - p)).reshape(-1))
        p = p * (p.amax(dim=1, keepdim=True) * INSIDE < 1.0)
        kept.append(p.to(values.dtype))
    return value, counts, spread, _joined(kept), clusters


def curvature(probabilities: Tensor, clusters: Tensor, *, n_clusters: int) -> Tensor:
    """See `dualclust.algos.offline._smoothed_dual.curvature`. Reads nothing."""
    matrix = torch.zeros((n_clusters, n_clusters), dtype=torch.float64, device=probabilities.device)
    diagonal = matrix.new_zeros((n_clusters,))
    for given, places in _in_blocks(probabilities, clusters, max(n_clusters, clusters.shape[1])):
        p = given.to(torch.float64)
        dense = torch.zeros((p.shape[0], n_clusters), dtype=torch.float64, device=p.device)
        dense.scatter_add_(1, places, p)
        diagonal = diagonal + dense.sum(dim=0)
        matrix = matrix - dense.T @ dense
    return matrix + torch.diag(diagonal)


def curvature_product(probabilities: Tensor, clusters: Tensor, direction: Tensor) -> Tensor:
    """See `dualclust.algos.offline._smoothed_dual.curvature_product`. Reads nothing."""
    product = torch.zeros_like(direction)
    for given, places in _in_blocks(probabilities, clusters):
        p, v = given.to(torch.float64), direction[places]
        part = p * (v - (p * v).sum(dim=1, keepdim=True))
        product.index_add_(dim=0, index=places.reshape(-1), source=part.reshape(-1))
    return product


def largest_scores(scores: Tensor, n_kept: int) -> tuple[Tensor, Tensor]:
    """See `dualclust.algos.scores.largest.largest_scores`. Reads nothing."""
    found = torch.topk(scores, n_kept, dim=1)
    return found.values, found.indices


def _in_blocks(
    values: Tensor, clusters: Tensor, width: int | None = None
) -> Iterator[tuple[Tensor, Tensor]]:
    """Blocks of rows, with places for their clusters: what is made of them in float64 is small."""
    rows = max(1, BLOCK_ENTRIES // max(width or clusters.shape[1], 1))
    for part, names in zip(torch.split(values, rows), torch.split(clusters, rows), strict=True):
        yield part, names.clamp(min=0).to(torch.int64)
