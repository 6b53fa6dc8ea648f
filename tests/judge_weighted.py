"""Judges labels of rows with sizes; see `tests.judge`.

`judge_weighted`
    Counts, loads and overload are those of the labels; each load is inside its bounds, or off by
    one row at most; the status says which. With prices p of a unit of load,
    ``D = sum_i max_k (s_ik + w_i p_k) - sum_k (L_k p_k^+ - U_k p_k^-)`` bounds what labels with
    loads inside are worth: the bound that is stated is D, to rounding, or a smaller one that the
    caller knows. Bounds are what those of the other clusters leave, and no row is in a cluster that
    does not hold it. Objective and gap are those of the labels and the bound.
`judge_no_shares`
    A linear program of shares of rows has no solution, or a row is larger than all clusters.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.judge import EPS, require
from tests.weighted_problems import Weighted, best_weighted

LOADS = 2.0**-40


def judge_weighted(
    scores: Any, bounds: Any, found: Any, *, best: float | None = None, doubt: float = 0.0
) -> None:
    """Judge the labels and figures of `assign_weighted`; `best` is known of whole rows inside."""
    scores, w = np.asarray(scores, np.float64), np.asarray(bounds.sizes, np.float64)
    (n, k), y = scores.shape, np.asarray(found.labels)
    low, high = np.asarray(bounds.lower), np.asarray(bounds.upper)
    total = math.fsum(w)
    loads = np.asarray([math.fsum(w[y == j]) for j in range(k)])
    slack = 2.0 * LOADS * total
    require(np.array_equal(found.counts, np.bincount(y, minlength=k)), "counts", found.counts)
    require((abs(found.loads - loads) <= 4 * EPS * total).all(), "loads", found.loads, loads)
    over = np.where(loads > high, loads - high, np.where(loads < low, loads - low, 0.0))
    require((abs(found.overload - over) <= slack).all(), "overload", found.overload, over)
    largest = max(w, default=0.0)
    require((abs(over) <= largest * (1 + 1e-6)).all(), "off by one row", over, largest)
    is_inside = not np.asarray(found.overload).any()
    require((found.status == "inside") == is_inside, "status", found.status)
    require(is_inside == bool((abs(over) <= slack).all()), "inside", over)
    require(0 <= found.n_shared <= k - 1, "rows that are shared", found.n_shared)
    own = scores[np.arange(n), y].astype(np.longdouble)
    require(np.isfinite(own).all(), "no label is on a forbidden pair")
    value, size = float(own.sum()), float(abs(own).sum())
    if n and w.min() == largest > 0.0:  # then whole rows decide
        low = largest * np.ceil(low / largest - 1e-9)
        high = largest * np.floor(high / largest + 1e-9)
    high = np.minimum(high, total)
    least = np.maximum(low, total - (high.sum() - high))
    most = np.minimum(high, total - (low.sum() - low))
    p = np.asarray(found.prices, np.longdouble)
    priced = np.where(w[:, None] <= most + slack, scores, -np.inf) + w[:, None] * p
    paid = np.where(p > 0, p * least, p * most)
    dual = float(priced.max(axis=1).sum() - paid.sum())
    terms = float(abs(paid).sum() + (w[:, None] * abs(p)).max(axis=1).sum())
    rounding = 130 * float(EPS) * (size + abs(dual)) + 4 * k * LOADS * terms + 2 * doubt + 1e-300
    require(abs(found.objective - value) <= rounding, "objective", found.objective, value)
    if best is None:
        stated = max(dual, value) if is_inside else dual
        require(abs(found.upper_bound - stated) <= rounding, "D", found.upper_bound, dual)
    else:
        require(best - 1e-7 <= found.upper_bound <= dual + rounding, "bound", found.upper_bound)
    lacks = max(found.upper_bound - found.objective, 0.0)
    whole = max(size, abs(found.upper_bound))
    require(abs(found.gap * whole - lacks) <= 2 * rounding, "gap", found.gap, lacks)
    require(found.gap > 0 or lacks <= 2 * rounding, "gap of 0", found.gap, lacks)


def judge_no_shares(scores: Any, bounds: Any) -> None:
    """Judge the claim that no shares of rows have loads inside."""
    unit = float(np.max(bounds.sizes, initial=0.0)) or 1.0  # HiGHS takes 1e-7 for nothing
    sizes, *sides = (np.asarray(v, np.float64) / unit for v in bounds)
    problem = Weighted(np.asarray(scores, np.float64), sizes, *sides)
    require(best_weighted(problem, whole=True) is None, "no labels are inside")
