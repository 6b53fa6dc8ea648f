"""What `assign_grouped` and `assign_linked` state of their labels and bounds, on small problems."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...algos import bounds as size_bounds
from ...algos.core.errors import InfeasibleBoundsError, InvalidValueError
from ...algos.offline import grouped
from ..registry.claims import Status, claim

__all__: list[str] = []

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ROWS, CLUSTERS = 8, 3
"""Of the problems of pairs, all of whose labels are tried."""

FORCED = 2**13 // CLUSTERS + 1
"""Further rows, of one cluster each: too many for the integer program that would close gaps."""


@claim(
    id="L1",
    paper="dualclust",
    place="Groups",
    statement="Labels of `assign_grouped` are inside all bounds, and D(p, q) at its prices is their"
    " value: no labels inside are worth more.",
    hypotheses="Finite scores, and bounds around the counts of some labels.",
    status=Status.HOLDS,
    derivation="Bounded sets are those of a laminar family: the constraints are those of a flow in"
    " a tree, totally unimodular, so that the linear program has an integral optimum and D its"
    " value. Weak duality for any prices: add p_k + q_gk to the scores of a row and pay for both.",
    tolerance=1e-9,
    covers=("offline.grouped.assignment.assign_grouped",),
)
def grouped_labels_meet_their_dual() -> float:
    """Return the worst of what is outside, and of D minus the value."""
    worst = 0.0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        n, k, g = 40, 4, 3
        scores, groups, some = (
            rng.normal(size=(n, k)),
            rng.integers(-1, g, n),
            rng.integers(0, k, n),
        )
        groups[:g] = np.arange(g)
        low, high = _around(np.bincount(some, minlength=k), rng)
        cells = np.zeros((g, k), np.int64)
        np.add.at(cells, (groups[groups >= 0], some[groups >= 0]), 1)
        least, most = _around(cells, rng)
        most = most if seed % 2 else np.full_like(most, n)  # bounds on one side, or on both
        found = grouped.assign_grouped(
            scores,
            size_bounds.SizeBounds.from_counts(low, high, n_samples=n),
            size_bounds.GroupBounds.from_counts(groups, k, lower=least, upper=most),
        )
        y = found.labels
        counts = np.bincount(y, minlength=k)
        inside = np.zeros((g, k), np.int64)
        np.add.at(inside, (groups[groups >= 0], y[groups >= 0]), 1)
        outside = [low - counts, counts - high, (least - inside).ravel(), (inside - most).ravel()]
        p, q = found.prices, found.group_prices
        own = p + np.concatenate([q, np.zeros((1, k))])[groups]
        dual = (scores + own).max(axis=1).sum()
        dual += sum(
            (b * np.clip(-price, 0, None) - a * np.clip(price, 0, None)).sum()
            for price, a, b in ((p, low, high), (q, least, most))
        )
        value = scores[np.arange(n), y].sum()
        claimed = abs(found.objective - value), abs(found.upper_bound - value)
        worst = max(worst, *(float(part.max()) for part in outside), float(dual - value), *claimed)
    return worst


def _around(counts: Ints, rng: np.random.Generator, least: int = 0) -> tuple[Ints, Ints]:
    """Return bounds that these counts keep, with some room on either side."""
    below, above = rng.integers(least, least + 2, (2, *counts.shape))
    return np.maximum(counts - below, 0), counts + above


class _Pairs(NamedTuple):
    """A problem of pairs among forced rows, and the values of all its labels that keep them."""

    scores: Floats
    must: Ints
    cannot: Ints
    low: Ints
    high: Ints
    best: float

    def solved(self) -> Any:
        own = np.arange(FORCED) % CLUSTERS
        more = np.where(own[:, None] == np.arange(CLUSTERS), 0.0, -np.inf)
        counts = np.bincount(own)
        scores = np.concatenate([self.scores, more])
        sizes = size_bounds.SizeBounds.from_counts(
            self.low + counts, self.high + counts, n_samples=len(scores)
        )
        links = {"must_link": self.must, "cannot_link": self.cannot}
        return grouped.assign_linked(scores, sizes, **links, tol=0.0)


def _problems(*, apart: bool) -> Iterator[_Pairs]:
    """Yield problems that have labels; of pairs together alone, or of pairs apart as well."""
    every = np.asarray(list(product(range(CLUSTERS), repeat=ROWS)))
    counts = np.stack([(every == j).sum(axis=1) for j in range(CLUSTERS)], axis=1)
    for seed in range(24):
        rng = np.random.default_rng(seed)
        scores, order = rng.normal(size=(ROWS, CLUSTERS)), rng.permutation(ROWS)
        must = order[:4].reshape(2, 2) if seed % 2 else order[[0, 1, 1, 2]].reshape(2, 2)
        cannot = order[[0, 4, 4, 5, 5, 6]].reshape(3, 2)[: 3 * apart]
        kept = (every[:, must[:, 0]] == every[:, must[:, 1]]).all(axis=1)
        kept &= (every[:, cannot[:, 0]] != every[:, cannot[:, 1]]).all(axis=1)
        low, high = _around(counts[rng.choice(np.flatnonzero(kept))], rng, least=1)
        kept &= ((low <= counts) & (counts <= high)).all(axis=1)
        values = scores[np.arange(ROWS), every].sum(axis=1)
        yield _Pairs(scores, must, cannot, low, high, float(values[kept].max()))


@claim(
    id="L2",
    paper="dualclust",
    place="Pairs",
    statement="Where rows must be together, the plain program in which each row of a block has the"
    " mean of its scores is the linear relaxation of the program of merged rows: `upper_bound` of"
    " `assign_linked` is the value of that relaxation.",
    hypotheses="Pairs that must link, finite scores, labels inside the bounds.",
    status=Status.HOLDS,
    derivation="Let x_ck be the share of block c in cluster k. Rows of c that share it out in any"
    " way have the same value m_c s_ck x_ck and count m_c x_ck; the other way round, each row gets"
    " x_ck. So both programs have the same values, and the plain one has integral corners.",
    tolerance=1e-9,
    covers=("offline.grouped.linked.assign_linked",),
)
def means_are_the_relaxation() -> float:
    """Return the worst difference to HiGHS's value of the program of merged rows."""
    from scipy.optimize import linprog

    worst = 0.0
    for problem in _problems(apart=False):
        block = np.arange(ROWS)
        for i, j in problem.must:
            block[block == block[j]] = block[i]
        names = np.unique(block)
        merged = np.stack([problem.scores[block == c].sum(axis=0) for c in names])
        sizes = np.asarray([(block == c).sum() for c in names])
        of_clusters = np.kron(sizes, np.eye(CLUSTERS))
        found = linprog(
            -merged.ravel(),
            A_ub=np.concatenate([of_clusters, -of_clusters]),
            b_ub=np.concatenate([problem.high, -problem.low]),
            A_eq=np.kron(np.eye(len(names)), np.ones(CLUSTERS)),
            b_eq=np.ones(len(names)),
        )
        own = problem.solved()
        worst = max(worst, abs(own.upper_bound + found.fun), own.objective - problem.best)
    return worst


@claim(
    id="L3",
    paper="dualclust",
    place="Pairs",
    statement="Labels of `assign_linked` keep pairs and sizes, and none that do are worth more than"
    " its `upper_bound`.",
    hypotheses="Any pairs, finite scores, labels inside the bounds, and a search that finds some,"
    " as it does in 20 of 24.",
    status=Status.HOLDS,
    derivation="Of a clique of blocks that must be apart, a cluster has one, so at most the rows of"
    " the largest. Dropping all other pairs apart, and letting blocks be parted (L2), leaves a"
    " program with bounds on groups (L1), whose value is no smaller.",
    tolerance=1e-9,
    covers=("offline.grouped.linked.assign_linked",),
)
def bounds_of_pairs_hold() -> float:
    """Return the worst of what is broken, and of the best of all labels beyond the bound."""
    worst, n_found = 0.0, 0
    for problem in _problems(apart=True):
        try:
            found = problem.solved()
        except InvalidValueError as error:  # nothing was found: then nothing may be claimed
            worst = max(worst, float(isinstance(error, InfeasibleBoundsError)))
            continue
        n_found += 1
        y = found.labels[:ROWS]
        counts = np.bincount(y, minlength=CLUSTERS)
        broken = (y[problem.must[:, 0]] != y[problem.must[:, 1]]).sum()
        broken += (y[problem.cannot[:, 0]] == y[problem.cannot[:, 1]]).sum()
        outside = max(int((problem.low - counts).max()), int((counts - problem.high).max()))
        value = float(problem.scores[np.arange(ROWS), y].sum())
        bounds = problem.best - found.upper_bound, value - problem.best
        worst = max(worst, float(broken), float(outside), abs(value - found.objective), *bounds)
    return worst if n_found >= 20 else 1.0
