"""What `assign_grouped_stream` states of every order, against the counts that can still end."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...algos import bounds as size_bounds
from ...algos.online import grouped
from ...algos.online.step_sizes import StepRule
from ..registry.claims import Status, claim

__all__: list[str] = []

Ints = NDArray[np.int64]


def _can_end(counts: Ints, totals: Ints, low: Any, high: Any, least: Ints, most: Ints) -> bool:
    """Whether counts can grow to the totals of groups inside all bounds, by a linear program."""
    from scipy.optimize import linprog

    g, k = counts.shape
    of_groups, of_clusters = np.kron(np.eye(g), np.ones(k)), np.kron(np.ones(g), np.eye(k))
    found = linprog(
        np.zeros(g * k),
        A_ub=np.concatenate([of_clusters, -of_clusters]),
        b_ub=np.concatenate([high, -low]),
        A_eq=of_groups,
        b_eq=totals,
        bounds=np.stack([np.maximum(counts, least).ravel(), most.ravel()], axis=1),
    )
    return bool(found.status == 0)


@claim(
    id="L4",
    paper="dualclust",
    place="Groups in streams",
    statement="Labels of `assign_grouped_stream` end inside all bounds, for any scores and any"
    " order of a stream whose groups' totals are known. Each is the best, at its prices, of the"
    " clusters from which some labels of the rest end inside. Without the totals no online rule"
    " does.",
    hypotheses="Finite scores, and bounds around the counts of some labels.",
    status=Status.HOLDS,
    derivation="""
    *The rule.* A plan x, whole counts of groups in clusters inside all bounds, with the right
    totals and x >= n, is there at the start. A row of group g that joins a cluster with x_gk > n_gk
    keeps it one, and some cluster has that, since group g has rows left. If x_gk = n_gk, let x' be
    a plan with x'_gk > n_gk: x' - x is a circulation of the network of groups, clusters and the
    root, a sum of circles of residual arcs, one of which takes the arc from g to k. That circle
    alone leads from x to a plan with x_gk > n_gk, so that a search in the residual network finds
    one if there is one.

    *The counterexample.* Two clusters of one row each. Rows of group 1 may join the first alone,
    those of group 2 the second alone, those of group 0 either. The first row is of group 0: if one
    of group 1 follows it must be in the second cluster, if one of group 2 in the first.
    """,
    tolerance=0.0,
    covers=("online.grouped.assign_grouped_stream",),
)
def streams_end_inside() -> float:
    """Return how many labels are wrong, by what a linear program says of each choice."""
    wrong = 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        n, k, g = 9, 3, 2
        of_rows, some = rng.integers(-1, g, n), rng.integers(0, k, n)
        cells = np.zeros((g + 1, k), np.int64)
        np.add.at(cells, (of_rows, some), 1)
        sizes, totals = cells.sum(axis=0), cells.sum(axis=1)
        below, above = rng.integers(0, 2, (2, k))
        low, high = np.maximum(sizes - below, 0), sizes + above
        least, most = np.zeros_like(cells), np.broadcast_to(totals[:, None], cells.shape).copy()
        least[:g] = np.maximum(cells[:g] - rng.integers(0, 2, (g, k)), 0)
        most[:g] = cells[:g] + rng.integers(0, 2, (g, k))
        bounds = size_bounds.SizeBounds.from_counts(low, high, n_samples=n)
        groups = size_bounds.GroupBounds(of_rows, least[:g], np.minimum(most, totals[:, None])[:g])
        order, scores = rng.permutation(n), rng.normal(size=(n, k))
        state, counts = grouped.init_grouped_state(bounds, groups), np.zeros_like(cells)
        for row, of_row in zip(scores, of_rows[order], strict=True):
            may = np.zeros(k, np.bool_)
            for j in range(k):
                then = counts.copy()
                then[of_row, j] += 1
                may[j] = _can_end(then, totals, low, high, least, most)
            p, q = state.prices
            priced = row + (np.concatenate([q, np.zeros((1, k))])[of_row] + p)
            best = int(np.argmax(np.where(may, priced, -np.inf)))
            labels, state = grouped.assign_grouped_stream(
                row[None], bounds, groups, state, of_rows=of_row[None], steps=StepRule(0.25)
            )
            wrong += int(labels[0] != best)
            counts[of_row, labels[0]] += 1
        outside = (counts < least) | (counts > most)
        sizes = counts.sum(axis=0)
        wrong += int(outside.sum()) + int(((sizes < low) | (sizes > high)).sum())
    return float(wrong + _first_labels_agree())


def _first_labels_agree() -> bool:
    """Whether one first label serves both streams of the counterexample."""
    low, most = np.ones(2, np.int64), np.asarray([[1, 1], [1, 0], [0, 1]])
    open_to = [
        {
            y
            for y in range(2)
            if _can_end(
                np.asarray([[y == 0, y == 1], [0, 0], [0, 0]], np.int64),
                np.asarray([1, second == 1, second == 2], np.int64),
                low,
                low,
                np.zeros((3, 2), np.int64),
                most * np.asarray([[1], [second == 1], [second == 2]]),
            )
        }
        for second in (1, 2)
    ]
    return bool(open_to[0] & open_to[1]) or set() in open_to
