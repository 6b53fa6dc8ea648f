"""Judges labels inside bounds on groups, or of which rows stay out; see `tests.judge`.

`judge_grouped`
    Counts are those of the labels, inside all bounds. With prices ``p_k`` of clusters and ``q_gk``
    of groups in them, ``D = O + lost`` bounds what any labels inside are worth, where ``lost`` is
    ``sum_i max_k (s_ik + p_k + q_gk) - (s_iy + p_y + q_gy)`` and what each price pays for a bound
    that is not met. Objective, bound and gap are those of O and D, to rounding, which is what two
    sums of the absolute scores of the labels can be off by.
`judge_counts`
    Counts of groups in clusters are inside all bounds, and of all samples.
`judge_grouped_stream`
    The counts of a stream are those before and those of its labels.
`judge_no_counts`
    A linear program on the counts of groups in clusters has no solution.
`judge_linked`
    Sizes are inside, pairs are kept, and of a few rows no labels that do both exceed the bound.
`judge_partial`
    One cluster more, of the scores of rows that stay out: then `judge_assignment`.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.optimize import linprog

from tests.judge import EPS, judge_assignment, require


def judge_grouped(scores: Any, bounds: Any, groups: Any, found: Any, *, doubt: float = 0.0) -> None:
    """Judge the labels, counts, prices and figures of `assign_grouped`."""
    scores = np.asarray(scores, np.float64)
    (n, k), y, g = scores.shape, np.asarray(found.labels), np.asarray(groups.groups)
    counts = np.bincount(y, minlength=k)
    cells = np.zeros((len(groups.lower), k), np.int64)
    np.add.at(cells, (g[g >= 0], y[g >= 0]), 1)
    require(np.array_equal(found.counts, counts), "counts", found.counts, counts)
    require(np.array_equal(found.group_counts, cells), "counts of groups", found.group_counts)
    for count, low, high in (
        (counts, bounds.lower, bounds.upper),
        (cells, groups.lower, groups.upper),
    ):
        require(((low <= count) & (count <= high)).all(), "inside the bounds", count, low, high)
    require(np.isfinite(scores[np.arange(n), y]).all(), "no label is on a forbidden pair")
    p, q = (np.asarray(part, np.longdouble) for part in (found.prices, found.group_prices))
    own = p + np.concatenate([q, np.zeros((1, k), np.longdouble)])[g]  # -1 is the last row
    priced = np.where(np.isfinite(scores), scores, -np.inf) + own
    lost = float((priced.max(axis=1) - priced[np.arange(n), y]).sum())
    for price, count, low, high in (
        (p, counts, bounds.lower, bounds.upper),
        (q, cells, groups.lower, groups.upper),
    ):
        missed = np.where(price > 0, count - low, high - count)
        lost += float((abs(price) * np.where(price == 0, 0, missed)).sum())
    value = float(scores[np.arange(n), y].astype(np.longdouble).sum())
    size = float(abs(scores[np.arange(n), y]).astype(np.longdouble).sum())
    rounding = 130 * float(EPS) * (size + abs(found.upper_bound)) + 2 * doubt + 1e-300
    require(abs(found.objective - value) <= rounding, "objective", found.objective, value)
    of_two_sums = 128 * float(EPS) * size
    off = 1e-9 * of_two_sums + 128 * float(EPS) * doubt + 1e-300
    require(abs(found.rounding - of_two_sums) <= off, "rounding", found.rounding, of_two_sums)
    require(found.upper_bound >= found.objective, "bound", found.upper_bound, found.objective)
    # The library has sums of both prices; what it returns is rounded to parts of them.
    split = 2 * float(EPS) * n * float(abs(p).max() + abs(q).max(initial=0.0))
    dual = found.upper_bound + rounding + split
    require(value + lost <= dual, "D", value + lost, found.upper_bound)
    stated = Fraction(found.gap) * Fraction(max(size, abs(found.upper_bound)))
    gap = float(stated) - (found.upper_bound - found.objective)
    require(found.gap >= 0 and abs(gap) <= rounding, "gap", found.gap, gap)
    require((found.status == "optimal") == (found.gap == 0), "status", found.status)


MOST_LABELS = 2**13
"""Ways to label all rows up to which each is tried."""


def judge_linked(
    scores: Any, bounds: Any, must: Any, cannot: Any, found: Any, *, doubt: float = 0.0
) -> None:
    """Judge the labels and figures of `assign_linked`."""
    scores, y = np.asarray(scores, np.float64), np.asarray(found.labels)
    n, k = scores.shape
    must, cannot = (
        np.zeros((0, 2), int) if pairs is None else np.asarray(pairs) for pairs in (must, cannot)
    )

    def value(labels: Any) -> float:
        counts = np.bincount(labels, minlength=k)
        is_inside = ((bounds.lower <= counts) & (counts <= bounds.upper)).all()
        is_kept = (labels[must[:, 0]] == labels[must[:, 1]]).all()
        is_kept &= (labels[cannot[:, 0]] != labels[cannot[:, 1]]).all()
        return float(scores[np.arange(n), labels].sum()) if is_inside and is_kept else -np.inf

    own, size = value(y), float(abs(scores[np.arange(n), y]).sum())
    rounding = 130 * float(EPS) * (size + abs(found.upper_bound)) + 2 * doubt + 1e-300
    require(np.isfinite(own), "sizes and pairs are kept, and no pair is forbidden", own)
    require(np.array_equal(found.counts, np.bincount(y, minlength=k)), "counts", found.counts)
    require(abs(found.objective - own) <= rounding, "objective", found.objective, own)
    of_two_sums = 128 * float(EPS) * size
    off = 1e-9 * of_two_sums + 128 * float(EPS) * doubt + 1e-300
    largest = n * float(abs(np.where(np.isfinite(scores), scores, 0.0)).max(initial=0.0))
    program = 2.0**-40 * n * largest * (found.gap == 0)  # of HiGHS, for each block
    require(found.rounding >= of_two_sums - off, "rounding", found.rounding, of_two_sums)
    require(found.rounding <= of_two_sums + off + program, "rounding", found.rounding)
    require(found.upper_bound >= found.objective, "bound", found.upper_bound, found.objective)
    stated = found.gap * max(size, abs(found.upper_bound))
    gap = stated - (found.upper_bound - found.objective)
    require(found.gap >= 0 and abs(gap) <= rounding, "gap", found.gap, gap)
    require((found.status == "optimal") == (found.gap == 0), "status", found.status)
    if k**n <= MOST_LABELS:
        best = max(value(np.asarray(labels)) for labels in product(range(k), repeat=n))
        slack = rounding + found.rounding
        require(best <= found.upper_bound + slack, "no labels exceed", best, found.upper_bound)


def judge_counts(bounds: Any, groups: Any, counts: Any) -> None:
    """Judge counts of groups in clusters, the last row of the samples of no group."""
    counts, of_rows = np.asarray(counts), np.asarray(groups.groups)
    totals = np.bincount(np.where(of_rows < 0, len(counts) - 1, of_rows), minlength=len(counts))
    require(np.array_equal(counts.sum(axis=1), totals), "totals of groups", counts, totals)
    require((counts >= 0).all(), "counts are of samples", counts)
    for count, low, high in (
        (counts.sum(axis=0), bounds.lower, bounds.upper),
        (counts[:-1], groups.lower, groups.upper),
    ):
        require(((low <= count) & (count <= high)).all(), "inside the bounds", count, low, high)


def judge_grouped_stream(groups: Any, before: Any, of_rows: Any, found: Any) -> None:
    """Judge the labels and the counts of one call of `assign_grouped_stream`."""
    labels, after = np.asarray(found.labels), found.state
    counts = np.zeros_like(after.group_counts) if before is None else before.group_counts.copy()
    first = 0 if before is None else before.clusters.seen
    of_rows = groups.groups[first : first + len(labels)] if of_rows is None else of_rows
    np.add.at(counts, (np.asarray(of_rows), labels), 1)  # -1 is the last row
    require(np.array_equal(after.group_counts, counts), "counts of a stream", counts)
    require(np.array_equal(after.clusters.counts, counts.sum(axis=0)), "counts of clusters")
    require(after.clusters.seen == counts.sum(), "seen", after.clusters.seen, counts.sum())


def judge_no_counts(bounds: Any, groups: Any) -> None:
    """Judge the claim that no counts are inside the bounds: neither are fractions of samples."""
    g, (n_groups, k) = np.asarray(groups.groups), groups.lower.shape
    sizes = np.bincount(g + 1, minlength=n_groups + 1)
    low = np.concatenate([np.zeros((1, k)), groups.lower]).ravel()
    high = np.concatenate([np.full((1, k), sizes[0]), groups.upper]).ravel()
    of_clusters = np.tile(np.eye(k), n_groups + 1)
    found = linprog(
        np.zeros(low.size),
        A_ub=np.concatenate([of_clusters, -of_clusters]),
        b_ub=np.concatenate([bounds.upper, -np.asarray(bounds.lower)]),
        A_eq=np.kron(np.eye(n_groups + 1), np.ones(k)),
        b_eq=sizes,
        bounds=np.stack([low, high], axis=1),
    )
    require(found.status == 2, "no counts are inside", found.status)


def judge_partial(
    scores: Any, outside: Any, lower: Any, upper: Any, max_out: int, found: Any, doubt: float = 0.0
) -> None:
    """Judge labels of which some are -1."""
    scores = np.asarray(scores, np.float64)
    n, k = scores.shape
    wider = np.concatenate([scores, np.broadcast_to(outside, (n,))[:, None]], axis=1)
    labels = np.asarray(found.labels)
    require(((labels >= -1) & (labels < k)).all(), "labels", labels)
    require(found.n_out == (labels < 0).sum(), "rows that stay out", found.n_out)
    is_free = found.gap > 0 or np.sum(upper) < n
    require(found.out_price <= 0 or is_free, "the price of staying out", found.out_price)
    whole = SimpleNamespace(
        labels=np.where(labels < 0, k, labels),
        counts=np.append(found.counts, found.n_out),
        prices=np.append(found.prices, found.out_price),
        violation=0,
        status=found.status,
        **{f: getattr(found, f) for f in ("objective", "upper_bound", "rounding", "gap")},
    )
    low, high = np.append(lower, 0), np.append(upper, max_out)
    judge_assignment(wider, None, low, high, whole, doubt=doubt)
