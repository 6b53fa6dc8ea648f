r"""Whether labels and prices prove each other best, worked out from the scores alone.

Labels inside the bounds are worth at most ``D(pi)`` for any prices pi (R6), so that labels and
prices of equal value prove both. `gap_by_hand` forms both sides in NumPy and believes nothing that
a solver says of itself; `unsound_candidates` asks of truncated candidates whether what they prove
is true of problems small enough to try all labels. A solver takes one path for few scores and
another one for many: `full_problem` and `reduced_problem` are of one kind each.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linprog

from ...algos import bounds, offline
from ...algos.offline import (
    _candidates as candidates,
)
from ...algos.offline import (
    _reduced as reduced,
)
from ...algos.offline import (
    assignment,
)
from ...algos.scores import sources
from . import online_runs
from .online_runs import Floats, Ints

__all__ = [
    "Problem",
    "full_problem",
    "gap_by_hand",
    "held_prices",
    "linear_program",
    "reduced_problem",
    "unsound_candidates",
]


class Problem(NamedTuple):
    """Scores (n, k), multiples of 1/16 or minus infinity, and bounds that some labels satisfy."""

    scores: Floats
    limits: bounds.SizeBounds


def gap_by_hand(scores: Floats, limits: bounds.SizeBounds, found: Any) -> float:
    """Return the worst of ``D - value``, and of what an `OfflineAssignment` says wrongly."""
    n, k = scores.shape
    labels, prices = np.asarray(found.labels), np.asarray(found.prices)
    counts = np.bincount(labels, minlength=k)
    low, high = np.asarray(limits.lower), np.asarray(limits.upper)
    value = float(scores[np.arange(n), labels].sum())
    dual = float((scores + prices).max(axis=1).sum())
    dual -= float(np.maximum(prices, 0.0) @ low - np.maximum(-prices, 0.0) @ high)
    return max(
        float(np.maximum(low - counts, counts - high).max()),
        float(np.abs(counts - found.counts).max()) + abs(int(found.violation)),
        abs(float(found.objective) - value),
        abs(float(found.upper_bound) - dual),
        dual - value,
        0.0 if found.status == "optimal" and found.gap == 0.0 else 1.0,
    )


def linear_program(scores: Floats, lower: Floats | Ints) -> tuple[float, Floats]:
    """Return the optimum of CoKe's Eq. 6 over mu in [0, 1], (n, k), by HiGHS: value and mu."""
    n, k = scores.shape
    found = linprog(
        -scores.ravel(),
        A_ub=-np.tile(np.eye(k), (1, n)),
        b_ub=-np.asarray(lower, dtype=float),
        A_eq=np.kron(np.eye(n), np.ones((1, k))),
        b_eq=np.ones(n),
        bounds=(0, None),
        method="highs-ds",
    )
    return float(-found.fun), np.asarray(found.x).reshape(n, k)


def full_problem(rng: np.random.Generator, n: int, k: int) -> Problem:
    """Return a small problem in which all clusters are candidates and bounds differ."""
    sizes = rng.multinomial(n, rng.dirichlet(np.full(k, 2.0)))
    low = np.maximum(sizes - rng.integers(0, 3, size=k), 0)
    high = sizes + rng.integers(0, 3, size=k)
    scores = online_runs.dyadic_scores(rng, (n, k))
    return Problem(scores, bounds.SizeBounds.from_counts(low.tolist(), high.tolist(), n_samples=n))


def reduced_problem(seed: int, n: int, k: int) -> Problem:
    """Return a problem with so many scores that the solver fixes most samples."""
    if n * k <= offline.DEFAULT_OPTIONS.full_entries:
        msg = f"{n} x {k} scores would all be candidates"
        raise AssertionError(msg)
    rng = np.random.default_rng(seed)
    scores = online_runs.dyadic_scores(rng, (n, k), 2**10) + np.linspace(16.0, 0.0, k)
    labels = rng.integers(0, k, size=n)
    forbidden = rng.integers(0, k, size=n)
    scores[np.arange(n), forbidden] = np.where(forbidden == labels, 0.0, -np.inf)
    sizes = np.bincount(labels, minlength=k)  # of labels that are allowed
    low, high = sizes - np.arange(k) * 8, sizes + np.arange(k)[::-1] * 4
    limits = bounds.SizeBounds.from_counts(np.maximum(low, 0).tolist(), high.tolist(), n_samples=n)
    return Problem(scores, limits)


def unsound_candidates(seed: int, count: int) -> tuple[float, int, int]:
    """Return by how much two candidates a row promise too little; rows truncated, problems solved.

    Every third region lies around prices that have nothing to do with the problem: its candidates
    miss clusters, and may allow no labels. The others hold the best prices and allow some.
    """
    rng, worst, n_truncated, n_solved = np.random.default_rng(seed), 0.0, 0, 0
    for trial in range(count):
        n, k = int(rng.integers(4, 7)), int(rng.integers(3, 5))
        scores, limits = full_problem(rng, n, k)
        low, high = np.asarray(limits.lower), np.asarray(limits.upper)
        best, _ = online_runs.best_by_trial(scores[None], low, high)
        if trial % 3:
            radius = rng.integers(1, 33, size=k) / 16.0
            middle = assignment.assign_exact(scores, limits).prices
            middle = middle + radius * rng.integers(-3, 4, size=k) / 4.0
        else:
            radius = rng.integers(1, 17, size=k) / 16.0
            middle = online_runs.dyadic_scores(rng, (k,), 16)
        region = candidates.TrustRegion(middle, radius)
        source = sources.score_source(scores)
        kept = candidates.collect_candidates(source, middle - radius, middle + radius, width=2)
        n_truncated += int(np.isfinite(kept.truncation).sum())
        solution = reduced.solve_reduced(kept, limits, region, 1e-3, max_truncation=1e300)
        found, bound = solution.assignment, solution.bound
        worst = max(worst, float(best[0]) - bound)
        if found is not None:
            n_solved += 1
            worst = max(worst, float(best[0]) - found.upper_bound, _off(scores, limits, found))
    return worst, n_truncated, n_solved


def held_prices() -> float:
    """Return by how much candidates promise too little where prices leave their region.

    Cluster b wants a sample. The candidates can only pass one on from a to c and one from c to b,
    for 0.875, at prices beyond the region; the sample that a region of 0.25 fixes in a would do it
    for 0.53125. What is proven must be proven by prices in the region, where that sample is fixed.
    """
    k, a, b, c = 100, 97, 98, 99  # so many clusters that two prices at an edge are tolerated
    scores = np.full((k, k), -9.0)
    scores[np.arange(a), np.arange(a)] = 9.0
    scores[a, [a, b]], scores[b, [a, c]], scores[c, [c, b]] = (
        [0.53125, 0.0],
        [0.4375, 0.0],
        [0.4375, 0.0],
    )
    lower = (np.arange(k) > a).astype(np.int64)
    limits = bounds.SizeBounds.from_counts(lower.tolist(), n_samples=k)
    region = candidates.TrustRegion(np.zeros(k), np.full(k, 0.25))
    source = sources.score_source(scores)
    kept = candidates.collect_candidates(source, -region.radius, region.radius, width=2)
    found = reduced.solve_reduced(kept, limits, region, 1e-3, max_truncation=1e300).assignment
    if found is None:
        return float("inf")
    return max(9.0 * a + 0.875 - found.upper_bound, _off(scores, limits, found))


def _off(scores: Floats, limits: bounds.SizeBounds, found: Any) -> float:
    """Return how far a recomputed number is from the printed one, beyond half of its last digit."""
    labels: Ints = np.asarray(found.labels)
    counts = np.bincount(labels, minlength=scores.shape[1])
    outside = np.maximum(limits.lower - counts, counts - limits.upper).max()
    value = float(scores[np.arange(len(scores)), labels].sum())
    told = np.abs(counts - np.asarray(found.counts)).max() + abs(found.violation)
    return max(float(outside), float(told), abs(float(found.objective) - value))
