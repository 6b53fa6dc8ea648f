"""Small problems of rows with sizes, and their optima by HiGHS: of shares, and of whole rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import eye_array, kron, vstack

__all__ = ["Weighted", "best_weighted", "weighted_problem"]


class Weighted(NamedTuple):
    """Scores (n, k), size of each row, and bounds on the loads of clusters."""

    scores: NDArray[np.float64]
    sizes: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]


def weighted_problem(seed: int) -> Weighted:
    """Draw a problem around the loads of some labels; forbidden pairs may leave none inside."""
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(1, 14)), int(rng.integers(1, 5))
    scores = rng.integers(-8, 9, (n, k)) / 8.0 if seed % 2 else rng.normal(size=(n, k))
    if seed % 5 == 0:
        scores[rng.random((n, k)) < 0.2] = -np.inf
    sizes = rng.integers(0, 9, n).astype(float) if seed % 3 else rng.lognormal(0.0, 1.5, n)
    loads = np.bincount(rng.integers(0, k, n), sizes, minlength=k)
    slack = rng.uniform(0.0, 0.4) * sizes.mean()
    lower = np.maximum(loads - slack * rng.random(k), 0.0)
    return Weighted(scores, sizes, lower, loads + slack * rng.random(k))


def best_weighted(problem: Weighted, *, whole: bool) -> float | None:
    """Return the largest value of rows, or of shares of rows, with loads inside; None if none are.

    No row is shared with a cluster that would not hold it whole.
    """
    scores, sizes, lower, upper = problem
    n, k = scores.shape
    allowed = np.isfinite(scores) & (sizes[:, None] <= upper * (1 + 1e-12))
    lines = [kron(eye_array(n), np.ones((1, k))), kron(sizes[None, :], eye_array(k))]
    ones = np.ones(n)
    found = milp(
        -np.where(allowed, scores, 0.0).ravel(),
        constraints=LinearConstraint(
            vstack(lines), np.concatenate([ones, lower]), np.concatenate([ones, upper])
        ),
        bounds=Bounds(0, allowed.ravel().astype(float)),
        integrality=np.full(n * k, int(whole)),
        options={"mip_rel_gap": 0.0},
    )
    assert found.status in (0, 2), found.message
    return None if found.status == 2 else -float(found.fun)
