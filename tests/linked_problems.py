"""Small problems with pairs of rows that must, or must not, be together, and all their labels."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Linked", "among_many", "best_linked", "linked_problem"]


class Linked(NamedTuple):
    """Scores (n, k), pairs (a, 2) and (b, 2), and bounds on sizes."""

    scores: NDArray[np.float64]
    must: NDArray[np.int64]
    cannot: NDArray[np.int64]
    lower: NDArray[np.int64]
    upper: NDArray[np.int64]


def linked_problem(seed: int) -> Linked:
    """Draw a problem of pairs of any kind, every third of families, in wide or tight sizes."""
    rng = np.random.default_rng(seed)
    k = int(rng.integers(1, 4))
    n = int(rng.integers(2, 9 if k == 3 else 11))
    scores = rng.integers(-8, 9, (n, k)) / 8.0 if seed % 2 else rng.normal(size=(n, k))
    if seed % 5 == 0:
        scores[rng.random((n, k)) < 0.15] = -np.inf
    a, b = (int(v) for v in rng.integers(0, 4, 2))
    must, cannot = (np.sort(rng.choice(n, 2, replace=False)) for _ in range(2))
    must = np.stack([must] + [rng.choice(n, 2, replace=False) for _ in range(a)])[1:]
    cannot = np.stack([cannot] + [rng.choice(n, 2, replace=False) for _ in range(b)])[1:]
    if seed % 3 == 0:  # families apart
        order, step = rng.permutation(n), int(rng.integers(2, k + 2))
        families = [order[i : i + step] for i in range(0, n - step, step)]
        pairs = [(f[i], f[j]) for f in families for i in range(len(f)) for j in range(i)]
        cannot = np.asarray(pairs, np.int64).reshape(-1, 2)
    sizes = np.bincount(rng.integers(0, k, n), minlength=k)
    slack = rng.integers(0, 3, (2, k))
    lower, upper = np.maximum(sizes - slack[0], 0), np.minimum(sizes + slack[1], n)
    return Linked(scores, must.astype(np.int64), cannot.astype(np.int64), lower, upper)


def among_many(problem: Linked) -> Linked:
    """Add rows that may join one cluster each, so many that no integer program is tried."""
    k = problem.scores.shape[1]
    own = np.arange(2**13 // k + 1) % k
    scores = np.where(own[:, None] == np.arange(k), 0.0, -np.inf)
    counts = np.bincount(own, minlength=k)
    return problem._replace(
        scores=np.concatenate([problem.scores, scores]),
        lower=problem.lower + counts,
        upper=problem.upper + counts,
    )


def best_linked(problem: Linked) -> float | None:
    """Try all labels; None where none are inside."""
    n, k = problem.scores.shape
    best = -np.inf
    for labels in product(range(k), repeat=n):
        y = np.asarray(labels)
        counts = np.bincount(y, minlength=k)
        if ((counts < problem.lower) | (counts > problem.upper)).any():
            continue
        if (y[problem.must[:, 0]] != y[problem.must[:, 1]]).any():
            continue
        if (y[problem.cannot[:, 0]] == y[problem.cannot[:, 1]]).any():
            continue
        best = max(best, problem.scores[np.arange(n), y].sum())
    return None if best == -np.inf else float(best)
