"""Rows that have sizes: what rounding a linear program keeps, and what its dual value proves (R9).

Problem: labels that maximize ``sum_i s_{i, y_i}`` with loads ``L_k <= N_k <= U_k``, where N_k is
the sum of the sizes w_i of the rows in cluster k.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from scipy.optimize import linprog

from ...algos.bounds import loads
from ...algos.offline.weighted import assignment
from ..references.online_runs import Floats
from ..registry.claims import Status, claim

__all__: list[str] = []


def _best_of_all(scores: Floats, sizes: Floats, lower: Floats, upper: Floats) -> float:
    """Return the largest value of all k^n labels with loads inside; minus infinity without any."""
    n, k = scores.shape
    best = -math.inf
    for labels in itertools.product(range(k), repeat=n):
        held = np.bincount(labels, sizes, minlength=k)
        if (lower <= held).all() and (held <= upper).all():
            best = max(best, float(scores[np.arange(n), list(labels)].sum()))
    return best


def _best_of_shares(scores: Floats, sizes: Floats, lower: Floats, upper: Floats) -> float:
    """Return the value of the linear program, in which no cluster has a share of what is too large.

    What a cluster holds at most is also what the lower bounds of the others leave it.
    """
    (n, k), most = scores.shape, np.minimum(upper, sizes.sum() - (lower.sum() - lower))
    held = np.kron(sizes, np.eye(k))
    found = linprog(
        -scores.ravel(),
        A_ub=np.concatenate([held, -held]),
        b_ub=np.concatenate([upper, -lower]),
        A_eq=np.kron(np.eye(n), np.ones(k)),
        b_eq=np.ones(n),
        bounds=[(0.0, float(w <= u)) for w in sizes for u in most],
    )
    return -float(found.fun) if found.status == 0 else math.nan


@claim(
    id="R9",
    paper="dualclust",
    place="Rows with sizes",
    statement="Labels of a rounded corner are worth at least the linear program; each load is off"
    " by no more than the largest size; at most k - 1 rows are shared; and no labels with loads"
    " inside are worth more than the bound, before and after a repair.",
    hypotheses="Shares of rows with loads inside exist, and sizes differ.",
    status=Status.HOLDS,
    derivation="""
    *Corner.* With ``z_ik = w_i x_ik`` the program is a transport; the pairs with x > 0 of a corner
    have no circle. R shared rows have at least 2 R pairs, and a forest on R + k nodes at most
    R + k - 1: so R <= k - 1.

    *Rounding* (Shmoys and Tardos 1993). In each cluster the shares, largest size first, fill slots
    of one row. Rows and slots are a bipartite graph, in which x is a fractional matching with full
    slots full; its polytope has whole corners, so that a whole one is worth as much. A row in slot
    j + 1 is no larger than any that has a share of slot j. So the load is at most that of the
    shares plus the first slot's row, and, as all but the last slot are full, at least that of the
    shares minus what the first slot held.

    *Bound.* D(p) = sum_i max_k (s_ik + w_i p_k) - sum_k (L_k p_k^+ - U_k p_k^-), as R6 with loads
    in the place of counts.
    """,
    tolerance=1e-6,
    covers=("offline.weighted.assignment.assign_weighted",),
)
def rows_with_sizes() -> float:
    """Return the worst excess on small problems of whole sizes, against all labels."""
    rng, worst = np.random.default_rng(9), 0.0
    for _ in range(60):
        n, k = int(rng.integers(3, 8)), int(rng.integers(2, 4))
        scores, sizes = rng.normal(size=(n, k)), rng.integers(1, 9, n).astype(float)
        sizes[0] = sizes[1] + 1.0
        held = np.bincount(rng.integers(0, k, n), sizes, minlength=k)
        slack = rng.integers(0, 3, k).astype(float)
        lower, upper = np.maximum(held - slack, 0.0), held + slack
        whole = _best_of_all(scores, sizes, lower, upper)
        shares = _best_of_shares(scores, sizes, lower, upper)
        bounds = loads.LoadBounds.from_loads(sizes, k, lower=lower, upper=upper)
        for repair in (False, True):
            found = assignment.assign_weighted(scores, bounds, repair=repair)
            value = float(scores[np.arange(n), found.labels].sum())
            off = np.bincount(found.labels, sizes, minlength=k)
            off = np.maximum(np.maximum(off - upper, lower - off), 0.0)
            worst = max(worst, whole - found.upper_bound, float(off.max() - sizes.max()))
            worst = max(worst, found.n_shared - (k - 1.0), found.upper_bound - shares)
            if not repair:
                worst = max(worst, shares - value)
            elif found.status == "inside":
                worst = max(worst, float(off.max()), value - whole)
    return worst
