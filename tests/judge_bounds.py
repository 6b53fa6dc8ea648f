"""Judges dual values, proofs that no labels exist, and streams; see `tests.judge`.

`judge_dual_value`
    The value is at least that D, and above it by 64 roundings of its terms at most.
`judge_value`
    The value is O, to 64 roundings of S.
`judge_comparison`
    Counts and violation are those of the labels; objective and upper bound are O and D.
`judge_entropy`
    ``objective`` is ``O + a H(n / N)``, and ``upper_bound`` is ``sum_i max_k (s_ik + p_k) + a log
    sum_k exp(-N p_k / a)``, to rounding; the first is at most the second.
`judge_infeasible`
    Multipliers are at least 0; ``required`` is ``sum p l - sum q u``, ``available`` is ``sum_i w_i
    max_(k in A_i) p_k - q_k``, and less; or the sample named has no cluster. Clusters and excess
    are theirs.
`judge_stream`
    A call adds its labels to counts and to `seen`; after n samples counts are inside.
`judge_sizes`
    ``at_least <= counts <= at_most``; neither is tighter than the duals' differences prove.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from tests.judge import EPS, implied, numbers, require, total


def judge_dual_value(scores: Any, prices: Any, lower: Any, upper: Any, value: float) -> None:
    """Judge what `dual_value` returns for prices from anywhere."""
    scores, prices = np.asarray(scores, np.float64), np.asarray(prices, np.float64)
    p = numbers(prices, False)
    best = (scores + p).max(axis=1)
    require(value == -np.inf or np.isfinite(best).all(), "a row without a cluster has no value")
    if not np.isfinite(best).all() or value == np.inf:
        return
    pairs = zip(prices, *implied(lower, upper, len(scores)), strict=True)
    bounds = np.array([u if q < 0 else b for q, b, u in pairs], np.longdouble)
    (rows, off), (paid, also) = total(best), total(p * bounds)
    size = (
        total(abs(best))[0] + total(abs(p) * bounds)[0] + total(abs(p[(scores + p).argmax(1)]))[0]
    )
    true = rows - paid
    off += also
    require(Fraction(value) >= true - off, "D is a bound", value, float(true))
    require(Fraction(value) <= true + off + 64 * EPS * size, "D is no larger", value, float(true))


def judge_value(scores: Any, labels: Any, value: float, *, extra: float = 0.0) -> None:
    """Judge the objective of labels from anywhere."""
    own = numbers(np.asarray(scores, np.float64)[np.arange(len(scores)), labels], False)
    (true, off), (size, _) = total(own), total(abs(own))
    off += 64 * EPS * size + Fraction(float(extra))
    require(abs(Fraction(float(value)) - true) <= off, "objective", value, float(true))


def judge_comparison(scores: Any, lower: Any, upper: Any, found: Any) -> None:
    """Judge the record of a method, whose labels may lie outside the bounds."""
    counts = np.bincount(found.labels, minlength=len(lower))
    require(np.array_equal(counts, found.counts), "counts", found.method, found.counts, counts)
    outside = max([0, *(lower - counts), *(counts - upper)])
    require(found.violation == outside, "violation", found.method, found.violation, outside)
    require(outside == 0 or not found.guaranteed, "a promise", found.method)
    judge_value(scores, found.labels, found.objective)
    judge_dual_value(scores, found.prices, lower, upper, found.upper_bound)


def judge_entropy(scores: Any, rule: Any, found: Any) -> None:
    """Judge labels that trade score for even sizes; `rule` has a weight and n_samples."""
    scores, prices = np.asarray(scores, np.longdouble), np.asarray(found.prices, np.longdouble)
    (n, k), a = scores.shape, np.longdouble(rule.weight)
    counts = np.bincount(found.labels, minlength=k)
    require(np.array_equal(counts, found.counts), "counts", found.counts, counts)
    q, own = counts[counts > 0] / np.longdouble(n), scores[np.arange(n), found.labels]
    value, best = own.sum() - a * (q * np.log(q)).sum(), (scores + prices).max(axis=1).sum()
    least = prices.min()
    rest = a * np.log(np.exp(-n * (prices - least) / a).sum()) if a > 0 else 0.0
    bound = best - n * least + rest
    size = np.abs(scores).max(axis=1).sum() + 2 * n * np.abs(prices).max() + a * np.log(k + 1)
    off = 2.0**-44 * size + 1e-320  # subnormal numbers have few digits
    require(abs(found.objective - value) <= off, "J", found.objective, value)
    require(abs(found.upper_bound - bound) <= off, "bound on J", found.upper_bound, bound)
    require(value <= found.upper_bound + off, "J is at most its bound", value, bound)


def judge_infeasible(lower: Any, upper: Any, allowed: Any, error: Any, weights: Any = None) -> None:
    """Judge the proof that an error carries; `allowed` are pairs, or a number of samples."""
    vector, low, high = error.vector, [int(v) for v in lower], [int(v) for v in upper]
    p, q = vector.lower, vector.upper
    require(
        len(p) == len(q) == len(low) and min(*p, *q, 0) == 0, "multipliers are not negative", p, q
    )
    if isinstance(allowed, int):
        allowed, weights = [[True] * len(p)], [allowed]
    rows = np.asarray(allowed, bool).tolist()
    if vector.sample is not None:
        require(not any(rows[vector.sample]), "a sample has no cluster", vector.sample)
        require(error.excess == 1, "excess is 1", error.excess)
        return
    required = sum(a * b for a, b in zip(p, low, strict=True))
    required -= sum(a * b for a, b in zip(q, high, strict=True))
    each = [1] * len(rows) if weights is None else [int(w) for w in weights]
    found = ([a - b for a, b, ok in zip(p, q, row, strict=True) if ok] for row in rows)
    most = [max(each, default=0) for each in found]  # a row of weight 0 needs no cluster
    available = sum(w * v for w, v in zip(each, most, strict=True))
    require(vector.required == required, "required", vector.required, required)
    require(vector.available == available, "available", vector.available, available)
    require(error.excess == required - available > 0, "excess", error.excess, required, available)
    named = {j for j, pair in enumerate(zip(p, q, strict=True)) if any(pair)}
    require(named <= set(error.clusters), "clusters are named", error.clusters, named)


def judge_stream(
    labels: Any, before: Any, after: Any, lower: Any, upper: Any, n: int | None
) -> None:
    """Judge a call of `assign`, with its states; n samples make a pass."""
    old = np.zeros(len(after.counts), int) if before is None else np.asarray(before.counts)
    counts = old + np.bincount(labels, minlength=len(old))
    require(np.array_equal(after.counts, counts), "counts of a stream", after.counts, counts)
    require(after.seen == counts.sum(), "seen", after.seen, counts.sum())
    if n == after.seen:
        require(((lower <= counts) & (counts <= upper)).all(), "a pass ends inside", counts)


def judge_sizes(state: Any, lower_share: Any, upper_share: Any, found: Any) -> None:
    """Judge what the duals prove of the counts: not wrong, and not more than they prove."""
    low, high, counts = (np.asarray(v) for v in (found.at_least, found.at_most, state.counts))
    require(((low <= counts) & (counts <= high)).all(), "counts between", low, counts, high)
    h, m, end, start = Fraction(state.step_size), state.seen, state.duals, state.start
    for j in range(len(counts)):
        up = Fraction(end.lower[j]) - Fraction(start.lower[j])
        down = Fraction(end.upper[j]) - Fraction(start.upper[j])
        least = m * Fraction(lower_share[j]) - up / h
        most = least if state.free_sign else m * Fraction(upper_share[j]) + down / h
        require(low[j] <= max(least, 0) and high[j] >= most, "sizes proven", j, low[j], high[j])
