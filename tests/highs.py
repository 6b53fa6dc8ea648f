"""The assignment problem as a linear program, solved by HiGHS: the reference of values and prices.

Of n samples with weights w, labels spread over k clusters maximize the sum of ``scores * plan``
over plans (n, k) >= 0 whose rows add up to w and whose columns lie in [lower, upper]. The program
is totally unimodular: with whole weights its value is that of the best labels.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linprog
from scipy.sparse import csr_array, vstack

__all__ = ["Optimum", "best_plan", "is_feasible"]

Floats = NDArray[np.float64]


class Optimum(NamedTuple):
    """What HiGHS proves of one problem."""

    value: float
    sizes: Floats  # (k,)
    prices: (
        Floats  # (k,) marginal value of a bound: above 0 at a lower one, below 0 at an upper one
    )


def best_plan(
    scores: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    allowed: ArrayLike | None = None,
) -> Optimum | None:
    """Return the optimum, or None where no plan keeps the bounds.

    `weights` (n,) are 1 unless given; `allowed` (n, k) says which samples may join which clusters.
    """
    scores = np.asarray(scores, dtype=np.float64)
    n, k = scores.shape
    entries = np.arange(n * k)
    one_label = csr_array((np.ones(n * k), (entries // k, entries)), shape=(n, n * k))
    sizes = csr_array((np.ones(n * k), (entries % k, entries)), shape=(k, n * k))
    largest = np.full(n * k, np.inf) if allowed is None else np.where(allowed, np.inf, 0.0).ravel()
    solved = linprog(
        -scores.ravel(),
        A_eq=one_label,
        b_eq=np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64),
        A_ub=vstack([sizes, -sizes]),
        b_ub=np.concatenate([np.asarray(upper), -np.asarray(lower)]),
        bounds=np.stack([np.zeros(n * k), largest], axis=1),
        method="highs-ds",
    )
    assert solved.status in (0, 2), solved.message  # solved, infeasible
    if solved.status == 2:
        return None
    penalty, bonus = np.split(-solved.ineqlin.marginals, 2)
    return Optimum(float(-solved.fun), sizes @ solved.x, bonus - penalty)


def is_feasible(
    allowed: ArrayLike, lower: ArrayLike, upper: ArrayLike, *, weights: ArrayLike | None = None
) -> bool:
    """Whether some plan keeps the bounds and joins allowed pairs only."""
    nothing = np.zeros(np.shape(allowed))
    return best_plan(nothing, lower, upper, weights=weights, allowed=allowed) is not None
