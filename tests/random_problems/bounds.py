"""Random forbidden pairs: labels inside the bounds, or a proof that there are none."""

from __future__ import annotations

import numpy as np

from dualclust.algos.bounds import FarkasVector, SizeBounds, feasibility, verify_infeasibility
from dualclust.algos.core.errors import InfeasibleBoundsError
from tests.highs import is_feasible

__all__ = ["random_bounds"]


def random_bounds(rng: np.random.Generator) -> str:
    """Bounds and allowed pairs, of which HiGHS says whether labels exist."""
    n, k = int(rng.integers(1, 20)), int(rng.integers(1, 9))
    allowed = rng.random((n, k)) < rng.uniform(0.1, 1.0)
    top = int(rng.choice([1, 3, n + 2, 2**40]))
    lower = rng.integers(0, int(rng.choice([1, 2, n // k + 2])), k)
    upper = lower + rng.integers(0, top + 1, k)
    counted(rng, n, lower, upper)
    weights = None if rng.random() < 0.7 else rng.integers(0, 4, n)
    found = feasibility(allowed, lower, upper, weights=weights)
    assert found.feasible == is_feasible(allowed, lower, upper, weights=weights)
    if found.vector is not None:
        proves(allowed, lower, upper, weights, found.vector)
        return "infeasible"
    assert found.counts is not None
    counts = np.asarray(found.counts)
    assert ((lower <= counts) & (counts <= upper)).all()
    assert counts.sum() == (n if weights is None else weights.sum())
    if found.labels is not None:
        assert allowed[np.arange(n), found.labels].all()
        assert np.array_equal(np.bincount(found.labels, minlength=k), counts)
    return "feasible"


def proves(
    allowed: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    weights: np.ndarray | None,
    vector: FarkasVector,
) -> None:
    """The vector contradicts the bounds, in Python's integers; a changed one does not."""
    each = [1] * len(allowed) if weights is None else weights.tolist()
    rows = allowed.tolist()
    assert verify_infeasibility(lower.tolist(), upper.tolist(), rows, vector, weights=each)
    if vector.sample is not None:
        assert not allowed[vector.sample].any()
        assert each[vector.sample] > 0
        return
    p, q = vector.lower, vector.upper
    needs = sum(a * int(b) for a, b in zip(p, lower, strict=True))
    needs -= sum(a * int(b) for a, b in zip(q, upper, strict=True))
    most = 0
    for weight, row in zip(each, rows, strict=True):
        worth = [a - b for a, b, ok in zip(p, q, row, strict=True) if ok]
        most += weight * max(worth) if weight else 0
    assert needs > most
    wrong = vector._replace(required=vector.required + 1)
    assert not verify_infeasibility(lower.tolist(), upper.tolist(), rows, wrong, weights=each)


def counted(rng: np.random.Generator, n: int, lower: np.ndarray, upper: np.ndarray) -> None:
    """Where no pair is forbidden, the sums alone decide."""
    fits = lower.sum() <= n <= upper.sum()
    try:
        bounds = SizeBounds.from_counts(lower, upper, n_samples=n)
    except InfeasibleBoundsError as error:
        vector = error.vector
    else:
        assert fits
        assert np.array_equal(bounds.lower, lower)
        return
    assert not fits
    assert verify_infeasibility(lower.tolist(), upper.tolist(), n, vector)
