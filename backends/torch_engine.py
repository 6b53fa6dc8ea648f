"""Kernels in plain PyTorch, for any device; the rows of the table use them on CUDA."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

__all__ = [
    "assign_stream",
    "best_clusters",
    "curvature",
    "curvature_product",
    "eliminate",
    "largest_scores",
    "segment_sum",
    "soft_counts",
]

INSIDE = 1.0 + 2.0**-14  # as in `dualclust.algos.offline._smoothed_dual`

BLOCK_ENTRIES = 2**26
"""Entries converted to float64 at a time: 512 MiB, a block of scores (`algos.scores.blocks`)."""


class _Caps:
    """At which counts clusters are full: on the device, and on the host, which has read the counts.

    `left` is the number of samples that the pass has left.
    """

    def __init__(self, lower: Tensor, upper: Tensor, known: Tensor, left: int) -> None:
        self.lower, self.full_at, self.left = lower, upper, left
        self.host_lower, self.host_full_at, self.counts = torch.split(known, len(lower))
        self.is_completing = left < 0  # or never: a pass of unknown length
        self._complete_if_due()

    def safe(self) -> int:
        """How many rows can come next before one meets a full cluster, or completion begins."""
        room = self.host_full_at - self.counts
        least = int(room.masked_fill(room <= 0, torch.iinfo(torch.int64).max).min())
        return least if self.is_completing else min(least, self._slack(self.counts, self.left))

    @property
    def some_full(self) -> bool:
        """Whether a cluster is full, and is so while rows are safe."""
        return bool((self.counts >= self.host_full_at).any())

    def take(self, labels: Tensor, counts: Tensor) -> int:
        """Count rows with these labels, up to that with which completion begins; return how many.

        `counts`, on the host, are those with all of them.
        """
        kept = len(labels)
        if not self.is_completing and self._slack(counts, self.left - kept) < 0:
            y = labels.cpu()
            before = counts - torch.bincount(y, minlength=len(counts))
            is_owed = before[y] + _rank_in_segment(y) < self.host_lower[y]
            spent = torch.cat([torch.zeros_like(y[:1]), (~is_owed).cumsum(dim=0)])
            kept = int((spent >= self._slack(before, self.left)).to(torch.int8).argmax())
            counts = before + torch.bincount(y[:kept], minlength=len(counts))
        self.counts, self.left = counts, self.left - kept
        self._complete_if_due()
        return kept

    def _slack(self, counts: Tensor, left: int) -> int:
        """How many of the samples that are left are not owed to any cluster."""
        return left - int((self.host_lower - counts).clamp(min=0).sum())

    def _complete_if_due(self) -> None:
        if not self.is_completing and self._slack(self.counts, self.left) <= 0:
            self.is_completing = True
            self.full_at = torch.minimum(self.lower, self.full_at)
            self.host_full_at = torch.minimum(self.host_lower, self.host_full_at)


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

    Inside a chunk prices stay, and rows choose one after the other among the clusters with room.
    That is deferred acceptance where every cluster prefers earlier rows (Gale and Shapley, 1962):
    all rows propose at once, each cluster rejects those beyond its room, and these propose again,
    until none is rejected (`_deferred_acceptance`). Where completion begins, the rows up to there
    stay as they are, and the others choose again.

    The host reads once at the beginning, and in each chunk in which a cluster can become full or
    completion begin: once, and again for each doubling of the rounds; and once at the completion.
    """
    n, device = scores.shape[0], scores.device
    labels = [torch.empty(0, dtype=torch.int64, device=device)]
    if not n:
        return labels[0], rho, rho_up, counts, -1
    known = torch.cat([_first_not_finite(scores), lower, upper, counts]).cpu()
    if (bad := int(known[0])) < n:
        return labels[0], rho, rho_up, counts, bad
    caps, rounds = _Caps(lower, upper, known[1:], remaining), 1
    safe = caps.safe()
    # The second with its sign turned: a price is the sum of both, and one step moves both.
    duals, shares = torch.stack([rho, -rho_up]), torch.stack([lower_share, upper_share])
    quota, length = chunk_size * shares, chunk_size
    least, most = torch.full_like(duals, -math.inf), torch.full_like(duals, math.inf)
    least[0], most[1] = 0.0, 0.0
    ones = torch.ones(min(n, chunk_size), dtype=torch.int64, device=device)
    for start in range(0, n, chunk_size):
        stop = min(start + chunk_size, n)
        before, price, i = counts, duals.sum(dim=0), start
        while i < stop:
            part, kept = scores[i:stop], stop - i
            if kept <= safe:
                offered = price
                if caps.some_full:
                    offered = price.masked_fill(counts >= caps.full_at, -math.inf)
                y = _best(part, offered)
                after, safe, caps.left = None, safe - kept, caps.left - kept
            else:
                room = caps.full_at - counts
                y, after, known, rounds = _deferred_acceptance(part, price, room, counts, rounds)
                kept = caps.take(y, known)
                safe = caps.safe()
            y = y[:kept]
            labels.append(y)
            if after is None or kept < stop - i:
                after = counts.index_add(dim=0, index=y, source=ones[:kept])
            counts, i = after, i + kept
        if stop - start < length:
            quota, length = (stop - start) * shares, stop - start
        move = step_size * (quota - (counts - before))
        if free_sign:
            duals = torch.stack([duals[0] + move[0], duals[1]])
        else:
            duals = torch.clamp(duals + move, least, most)
    return torch.cat(labels), duals[0], 0.0 - duals[1], counts, -1


def _deferred_acceptance(
    scores: Tensor, price: Tensor, room: Tensor, counts: Tensor, rounds: int
) -> tuple[Tensor, Tensor, Tensor, int]:
    """Labels of rows that choose in order among the clusters with room, by rounds of proposals.

    A cluster that rejects a row has as many earlier ones, and rejects all later ones: `limits` are
    the first such rows. Returns the labels; the counts with them, on the device and on the host;
    and how many rounds to begin with next time. The host reads after as many rounds as the last
    chunk needed, and then after twice as many.
    """
    m, done, device = scores.shape[0], 0, scores.device
    row, names = (torch.arange(size, device=device) for size in (m, len(room) + 1))
    limits = (room > 0) * m
    while True:
        is_first, done, more = done == 0, max(rounds, 2 * done), max(rounds - done, done)
        for _ in range(more):
            earlier = limits
            y = _best(scores, price, row, limits)
            grouped, order = y.sort(stable=True)
            edges = torch.searchsorted(grouped, names)
            beyond = edges[:-1] + room
            first = order[beyond.clamp(0, m - 1)].masked_fill_(beyond >= edges[1:], m)
            limits = torch.minimum(limits, first)
        after = counts.index_add(dim=0, index=y, source=torch.ones_like(y))
        known = torch.cat([after, (limits < earlier).any().reshape(1)]).cpu()
        if not known[-1]:
            return y, after, known[:-1], max(done - is_first, 1)


def _best(
    scores: Tensor, price: Tensor, row: Tensor | None = None, limits: Tensor | None = None
) -> Tensor:
    """Best cluster of each row, in blocks of rows: float64 copies stay small.

    With limits, of the clusters whose limit is a later row.
    """
    parts, first = [], 0
    for part in _row_blocks(scores):
        priced, last = part + price, first + len(part)  # float64
        if row is not None and limits is not None:
            priced.masked_fill_(row[first:last, None] >= limits, -math.inf)
        parts.append(priced.argmax(dim=1))
        first = last
    return _joined(parts)


def _first_not_finite(scores: Tensor) -> Tensor:
    """The first row with NaN or an infinity, (1,); the number of rows if there is none."""
    ends = [part.aminmax(dim=1) for part in _row_blocks(scores)]  # NaN where there is one
    size = torch.maximum(_joined([end.max for end in ends]), -_joined([end.min for end in ends]))
    row = torch.arange(len(size), device=scores.device)
    return row.masked_fill_(size < math.inf, len(size)).amin(dim=0, keepdim=True)


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


def soft_counts(
    values: Tensor, clusters: Tensor, prices: Tensor, *, temperature: float
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """See `dualclust.algos.offline._smoothed_dual.soft_counts`. Prices may be on the host.

    Then value, counts and spread go there, in one copy. Reads how many rows are fractional: the
    others have no curvature, and are most.
    """
    home, prices, k = prices.device, prices.to(values.device), len(prices)
    shares, names = list[Tensor](), list[Tensor]()
    sums = torch.zeros(2 * k + 1, dtype=torch.float64, device=values.device)
    counts, spread, value = torch.split(sums, [k, k, 1])
    for scores, places in _in_blocks(values, clusters):
        away = scores.to(torch.float64)
        priced = (away - away[:, :1] + prices[places]) / temperature
        p, flat = torch.softmax(priced, dim=1), places.reshape(-1)
        most = p.amax(dim=1, keepdim=True)
        value.add_((priced.amax(dim=1, keepdim=True) - most.log()).sum(), alpha=temperature)
        counts.index_add_(dim=0, index=flat, source=p.reshape(-1))
        spread.index_add_(dim=0, index=flat, source=(p * (1 - p)).reshape(-1))
        (rows,) = torch.nonzero(most[:, 0] < 1.0 / INSIDE, as_tuple=True)
        shares.append(p[rows])
        names.append(places[rows])
    counts, spread, value = torch.split(sums.to(home), [k, k, 1])
    return value[0], counts, spread, _joined(shares), _joined(names)


def curvature(probabilities: Tensor, clusters: Tensor, *, n_clusters: int) -> Tensor:
    """See `dualclust.algos.offline._smoothed_dual.curvature`. Reads nothing."""
    matrix = torch.zeros((n_clusters, n_clusters), dtype=torch.float64, device=clusters.device)
    for given, places in _in_blocks(probabilities, clusters, max(n_clusters, clusters.shape[1])):
        p = given.to(torch.float64)
        dense = p.new_zeros((p.shape[0], n_clusters)).scatter_add_(1, places, p)
        matrix.diagonal().add_(dense.sum(dim=0))
        matrix.addmm_(dense.T, dense, alpha=-1)
    return matrix


def curvature_product(probabilities: Tensor, clusters: Tensor, direction: Tensor) -> Tensor:
    """See `dualclust.algos.offline._smoothed_dual.curvature_product`. Reads nothing."""
    product = torch.zeros_like(direction)
    for given, places in _in_blocks(probabilities, clusters):
        p, v = given.to(torch.float64), direction[places]
        part = p * (v - (p * v).sum(dim=1, keepdim=True))
        product.index_add_(dim=0, index=places.reshape(-1), source=part.reshape(-1))
    return product


def eliminate(matrix: Tensor, free: Tensor, diagonal: Tensor, rhs: Tensor) -> Tensor:
    """See `dualclust.algos.offline._near_host.eliminate`. Vectors may be on the host.

    Then they come in one copy, and one takes the solution back; nothing else is read, not even
    whether the matrix is singular: `diagonal` sees to it that it is not.
    """
    vectors = torch.cat([free[None, :], diagonal[None, :], rhs.reshape(-1, len(free))])
    vectors = vectors.to(matrix.device)
    system = matrix * vectors[0] * vectors[0][:, None]
    system.diagonal().add_(vectors[1])
    found: Tensor = torch.linalg.solve_ex(system, vectors[2:].T).result
    return found.T.to(rhs.device).reshape(rhs.shape)


def largest_scores(scores: Tensor, n_kept: int) -> tuple[Tensor, Tensor]:
    """See `dualclust.algos.scores.largest.largest_scores`. Reads nothing."""
    found = torch.topk(scores, n_kept, dim=1)
    return found.values, found.indices


def _in_blocks(
    values: Tensor, clusters: Tensor, width: int | None = None
) -> Iterator[tuple[Tensor, Tensor]]:
    """Blocks of rows, with places for their clusters: what is made of them in float64 is small.

    Clusters of int64 are places.
    """
    rows = max(1, BLOCK_ENTRIES // max(width or clusters.shape[1], 1))
    for part, names in zip(torch.split(values, rows), torch.split(clusters, rows), strict=True):
        yield part, names if names.dtype == torch.int64 else names.clamp(min=0).to(torch.int64)
