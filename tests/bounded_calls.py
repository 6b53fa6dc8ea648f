"""Calls of functions with bounds on groups, loads and links that work, for `tests/bad_inputs`."""

from __future__ import annotations

from typing import Any

import numpy as np

from dualclust.algos.bounds import GroupBounds, LoadBounds
from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.clustering import (
    grouped_kmeans,
    linked_kmeans,
    trimmed_kmeans,
    weighted_kmeans,
)
from dualclust.algos.offline.grouped import assign_grouped, assign_linked, assign_partial
from dualclust.algos.offline.weighted import assign_weighted

__all__ = ["BOUNDED_CALLS", "RIGHT_THERE"]

N, K = 12, 3
RNG = np.random.default_rng(0)
SCORES, X, C = (RNG.normal(size=shape) for shape in ((N, K), (N, 2), (K, 2)))
IN_GROUPS, SIZES = np.arange(N) % 2, np.arange(1.0, N + 1.0)
BOUNDS = SizeBounds.from_ratios(K, n_samples=N, lower=0.5, upper=2.0)
GROUPS = GroupBounds.from_shares(IN_GROUPS, K, lower=0.5, upper=2.0)
LOADS = LoadBounds.from_ratios(SIZES, K, lower=0.5, upper=2.0)
PAIRS = {"must_link": np.asarray([[0, 1]]), "cannot_link": np.asarray([[2, 3]])}
ZERO = np.zeros(K)
SOLVED = {"scores": SCORES, "bounds": BOUNDS, "weights": np.ones(N)}
ROWS = {"features": X, "centers": C, "metric": "euclidean"}
ROWS |= {"max_iter": 1, "tol": 0.0, "time_limit": 9.0}

BOUNDED_CALLS: dict[str, tuple[Any, dict[str, Any]]] = {
    "assign_grouped": (
        assign_grouped,
        SOLVED | {"groups": GROUPS, "prices": (ZERO, np.zeros((2, K)))},
    ),
    "assign_partial": (
        assign_partial,
        {"scores": SCORES, "max_out": 2, "out_score": -1.0, "min_count": 1, "max_count": 9}
        | {"prices": (ZERO, 0.0), "tol": 0.0},
    ),
    "assign_linked": (assign_linked, SOLVED | PAIRS | {"prices": ZERO, "tol": 0.0}),
    "assign_weighted": (
        assign_weighted,
        SOLVED | {"bounds": LOADS, "prices": ZERO, "repair": True}
        | {"exact": False, "time_limit": 9.0},
    ),
    "grouped_kmeans": (
        grouped_kmeans,
        ROWS | {"bounds": BOUNDS, "groups": GROUPS, "weights": np.ones(N)}
        | {"fixed": np.full(N, -1), "forbidden": np.asarray([[0, 0]])},
    ),
    "trimmed_kmeans": (
        trimmed_kmeans,
        ROWS | {"max_out": 2, "distance": 0.5, "min_count": 1, "max_count": 9},
    ),
    "linked_kmeans": (
        linked_kmeans,
        ROWS | PAIRS | {"bounds": BOUNDS, "weights": np.ones(N), "gap": 0.0},
    ),
    "weighted_kmeans": (weighted_kmeans, ROWS | {"bounds": LOADS}),
    "GroupBounds.from_counts": (
        GroupBounds.from_counts,
        {"groups": IN_GROUPS, "n_clusters": K, "lower": np.ones((2, K), int)}
        | {"upper": np.full((2, K), 4)},
    ),
    "GroupBounds.from_shares": (
        GroupBounds.from_shares,
        {"groups": IN_GROUPS, "n_clusters": K, "lower": 0.5, "upper": 2.0},
    ),
    "GroupBounds.at_most_one": (
        GroupBounds.at_most_one,
        {"groups": np.arange(N) // 2, "n_clusters": K},
    ),
    "GroupBounds.at_least_one": (
        GroupBounds.at_least_one,
        {"groups": IN_GROUPS, "n_clusters": K},
    ),
    "LoadBounds.from_loads": (
        LoadBounds.from_loads,
        {"sizes": SIZES, "n_clusters": K, "lower": 5.0, "upper": 90.0},
    ),
    "LoadBounds.from_ratios": (
        LoadBounds.from_ratios,
        {"sizes": SIZES, "n_clusters": K, "lower": 0.5, "upper": 2.0},
    ),
}  # fmt: skip

LISTS = "one entry", "too long", "no entry"
OF_ARGUMENTS = {
    "scores": ("minus infinite",), "prices": ("as integers",), "time_limit": ("a number", "half"),
    "max_out": ("a number",), "min_count": ("a number",), "max_count": ("None",),
    "out_score": ("a number", "negative", "huge negative", "half"), "fixed": ("None",),
    "distance": ("a number", "half"), "must_link": ("None", *LISTS),
    "cannot_link": ("None", *LISTS), "forbidden": ("None", *LISTS), "upper": ("infinite",),
    "groups": LISTS, "sizes": ("no row", "no column", "one row", "one column", "as integers"),
}  # fmt: skip
RIGHT_THERE = (
    {
        (call, argument, how)
        for call in BOUNDED_CALLS
        for argument, ways in OF_ARGUMENTS.items()
        for how in ways
    }
    - {("GroupBounds.from_counts", "groups", how) for how in ("one entry", "no entry")}
    - {("LoadBounds.from_loads", "sizes", how) for how in ("no row", "no column", "one row")}
    - {("LoadBounds.from_loads", "sizes", "one column")}
)
RIGHT_THERE |= {(call, "time_limit", "None") for call in BOUNDED_CALLS if "kmeans" in call}
RIGHT_THERE |= {("GroupBounds.from_counts", "upper", "huge")}
"""Function, argument and value that no rule forbids."""
