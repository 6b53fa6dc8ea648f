"""Small problems with bounds on groups in clusters, and their optima by HiGHS as whole programs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import eye_array, kron, vstack

__all__ = ["Grouped", "best_grouped", "grouped_problem"]


class Grouped(NamedTuple):
    """Scores (n, k), group of each row, and bounds on clusters, and on groups in clusters."""

    scores: NDArray[np.float64]
    groups: NDArray[np.int64]
    lower: NDArray[np.int64]
    upper: NDArray[np.int64]
    group_lower: NDArray[np.int64]
    group_upper: NDArray[np.int64]


def grouped_problem(seed: int) -> Grouped:
    """Draw a problem around the counts of some labels: every third may have no labels inside."""
    rng = np.random.default_rng(seed)
    n, k, most = int(rng.integers(1, 14)), int(rng.integers(1, 5)), int(rng.integers(0, 4))
    scores = rng.integers(-8, 9, (n, k)) / 8.0 if seed % 2 else rng.normal(size=(n, k))
    if seed % 5 == 0:
        scores[rng.random((n, k)) < 0.2] = -np.inf
    groups = rng.integers(-1, most, n) if most else np.full(n, -1)
    n_groups, labels = int(groups.max()) + 1, rng.integers(0, k, n)
    sizes = np.bincount(labels, minlength=k)
    cells = np.zeros((n_groups, k), np.int64)
    np.add.at(cells, (groups[groups >= 0], labels[groups >= 0]), 1)
    lower = np.maximum(sizes - rng.integers(0, 3, k), 0)
    upper = np.minimum(sizes + rng.integers(0, 3, k), n)
    least = np.maximum(cells - rng.integers(0, 2, cells.shape), 0)
    largest = cells + rng.integers(0, 2, cells.shape)
    if seed % 3 == 0:
        least = np.minimum(least + rng.integers(0, 2, cells.shape), largest)
    return Grouped(scores, groups.astype(np.int64), lower, upper, least, largest)


def best_grouped(problem: Grouped) -> float | None:
    """Return the largest value of labels inside all bounds, or None where there are none."""
    scores, groups, *bounds = problem
    (n, k), allowed = scores.shape, np.isfinite(scores)
    lines = [kron(eye_array(n), np.ones((1, k))), kron(np.ones((1, n)), eye_array(k))]
    for g in range(len(problem.group_lower)):
        lines.append(kron((groups == g).astype(float)[None, :], eye_array(k)))
    lower, upper, least, largest = bounds
    found = milp(
        -np.where(allowed, scores, 0.0).ravel(),
        constraints=LinearConstraint(
            vstack(lines),
            np.concatenate([np.ones(n), lower, least.ravel()]),
            np.concatenate([np.ones(n), upper, largest.ravel()]),
        ),
        bounds=Bounds(0, allowed.ravel().astype(float)),
        integrality=np.ones(n * k),
    )
    assert found.status in (0, 2), found.message
    return None if found.status == 2 else -float(found.fun)
