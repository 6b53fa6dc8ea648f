"""Kernels in plain PyTorch, for any device; the rows of the table use them on CUDA."""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["assign_stream", "curvature", "curvature_product", "segment_sum", "soft_counts"]


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
    the rows after it are labeled again. This is the sequential answer, at one host synchronization
    per event and chunk. There are at most 2 k + 1 events in a pass.
    """
    n, k = scores.shape
    device = scores.device
    counts = counts.clone()
    labels = torch.empty(n, dtype=torch.int64, device=device)
    completing = remaining >= 0 and int((lower - counts).clamp(min=0).sum()) >= remaining
    for start in range(0, n, chunk_size):
        stop = min(start + chunk_size, n)
        chunk = scores[start:stop]
        finite = torch.isfinite(chunk).all(dim=1)
        if not bool(finite.all()):
            return labels, rho, rho_up, counts, start + int((~finite).nonzero()[0, 0])
        before = counts.clone()
        i = start
        while i < stop:
            # A cluster closes when it reaches its upper bound; while completing, its lower bound.
            full_at = torch.minimum(lower, upper) if completing else upper
            price = torch.where(counts >= full_at, -math.inf, rho - rho_up)
            y = (scores[i:stop].to(torch.float64) + price).argmax(dim=1)
            sizes = counts[y] + _rank_in_segment(y) + 1  # of the chosen cluster, row included
            events = sizes >= full_at[y]
            if remaining >= 0 and not completing:
                shortage = (lower - counts).clamp(min=0).sum() - (sizes <= lower[y]).cumsum(0)
                left = remaining - torch.arange(1, y.shape[0] + 1, device=device)
                trigger = shortage >= left
                events = events | trigger
            # argmax of a boolean column is its first True; without one the whole rest is kept.
            first = torch.where(events.any(), events.to(torch.int8).argmax(), y.shape[0] - 1)
            if remaining >= 0 and not completing:
                keep, begins = torch.stack([first, trigger[first].to(torch.int64)]).tolist()
                completing = bool(begins)
            else:
                keep = int(first)
            kept = y[: keep + 1]
            labels[i : i + keep + 1] = kept
            counts += torch.bincount(kept, minlength=k)
            i += keep + 1
            remaining = remaining - keep - 1 if remaining >= 0 else remaining
        m, chosen = stop - start, counts - before
        rho = rho + step_size * (m * lower_share - chosen)
        if not free_sign:
            rho = rho.clamp(min=0)
            rho_up = (rho_up + step_size * (chosen - m * upper_share)).clamp(min=0)
    return labels, rho, rho_up, counts, -1


def _rank_in_segment(labels: Tensor) -> Tensor:
    """For each row, how many earlier rows carry the same label."""
    order = torch.argsort(labels, stable=True)
    grouped = labels[order]
    position = torch.arange(labels.shape[0], device=labels.device)
    rank = torch.empty_like(labels)
    rank[order] = position - torch.searchsorted(grouped, grouped)
    return rank


def segment_sum(values: Tensor, segments: Tensor, *, n_segments: int) -> Tensor:
    """See `dualclust.algos.core.segments.segment_sum`. Integers: the order of additions is free."""
    sums = torch.zeros((n_segments, values.shape[1]), dtype=torch.int64, device=values.device)
    return sums.index_add_(0, segments, values)


def soft_counts(
    values: Tensor, clusters: Tensor, prices: Tensor, *, temperature: float
) -> tuple[float, Tensor, Tensor, Tensor]:
    """See `dualclust.algos.offline._smoothed_dual.soft_counts`."""
    places = clusters.clamp(min=0).to(torch.int64)
    away = values.to(torch.float64)
    priced = (away - away[:, :1] + prices[places]) / temperature
    value = temperature * float(torch.logsumexp(priced, dim=1).sum())
    p = torch.softmax(priced, dim=1)
    flat = places.reshape(-1)
    counts, spread = (
        torch.zeros_like(prices).index_add_(0, flat, part.reshape(-1)) for part in (p, p * (1 - p))
    )
    return value, counts, spread, p.to(values.dtype)


def curvature(probabilities: Tensor, clusters: Tensor, *, n_clusters: int) -> Tensor:
    """See `dualclust.algos.offline._smoothed_dual.curvature`."""
    p, places = probabilities.to(torch.float64), clusters.clamp(min=0).to(torch.int64)
    pairs = places[:, :, None] * n_clusters + places[:, None, :]
    products = -p[:, :, None] * p[:, None, :]
    matrix = torch.zeros(n_clusters * n_clusters, dtype=torch.float64, device=p.device)
    matrix.index_add_(0, pairs.reshape(-1), products.reshape(-1))
    matrix.index_add_(0, (places * (n_clusters + 1)).reshape(-1), p.reshape(-1))
    return matrix.reshape(n_clusters, n_clusters)


def curvature_product(probabilities: Tensor, clusters: Tensor, direction: Tensor) -> Tensor:
    """See `dualclust.algos.offline._smoothed_dual.curvature_product`."""
    p, places = probabilities.to(torch.float64), clusters.clamp(min=0).to(torch.int64)
    v = direction[places]
    part = p * (v - (p * v).sum(dim=1, keepdim=True))
    return torch.zeros_like(direction).index_add_(0, places.reshape(-1), part.reshape(-1))
