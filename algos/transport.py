r"""The batch problem solved exactly: integer labels, optimal prices, and equality of the two.

Problem (CoKe Eq. 6 with both bounds):

maximize ``sum_i s_{i, y_i}``   subject to   ``l_k <= n_k <= u_k``.

It is a transportation problem, so its linear relaxation has an integer optimum, and labels are
optimal if and only if prices exist with

* ``y_i = argmax_k s_ik + pi_k`` for every sample, and
* ``pi_k > 0`` only where ``n_k = l_k``, ``pi_k < 0`` only where ``n_k = u_k``.

Any prices give labels with the first property. The second is reached by moving samples, one chain
at a time: a cluster that has too many passes a sample to a second one, that one to a third, until a
cluster with room is reached. The chain that loses least is a shortest path on a graph of only k + 1
nodes, where the arc from a to b costs the smallest ``(s_ia + pi_a) - (s_ib + pi_b) >= 0`` over the
samples of a, and the extra node stands for the bounds. Raising prices by the distances keeps all
arcs nonnegative (successive shortest paths), so the labels stay optimal for their counts, and end
optimal. The better the prices at the start, the fewer chains.

=====================  ==========  =======  ======================================================
paper                  here        shape    meaning
=====================  ==========  =======  ======================================================
:math:`s_{i,k}`        ``scores``  (n, k)   any finite score, to maximize
:math:`\mu_i`          ``labels``  (n,)     index of the one-hot assignment
:math:`\rho - \rho'`   ``prices``  (k,)     pi, in units of score, float64
=====================  ==========  =======  ======================================================
"""

from __future__ import annotations

import math

import array_api_compat as compat

from ..backends import kernel
from ._typing import Array
from .assignment import AssignmentState, init_state
from .bounds import SizeBounds
from .certificates import dual_value, objective
from .checks import check_finite, check_real, check_same_place, check_shape
from .duals import Duals
from .errors import InvalidValueError
from .offline import OfflineAssignment, learn_prices, top_two

__all__ = ["EXACT_ENTRIES", "assign_exact", "shortest_moves"]

LEARNING_PASSES = 8

EXACT_ENTRIES = 2**24
"""Scores (n times k) up to which callers ask for exact labels by default: seconds on one core."""


def assign_exact(
    scores: Array, bounds: SizeBounds, *, prices: Array | None = None, scale: float | None = None
) -> OfflineAssignment:
    """Best labels of all that keep every cluster size inside its bounds.

    Parameters
    ----------
    scores : (n, k) real array
        Finite, float32 or wider; n = ``bounds.n_samples``.
    bounds : SizeBounds
        On the library and device of `scores`.
    prices : (k,) float64 array, optional
        Where to start, such as those of a similar problem; learned in a few passes by default.
        They change the time and, up to the rounding of scores plus prices, not the value.
    scale : float > 0, optional
        How far scores of one sample differ between clusters; measured on some rows by default. Used
        where prices are learned; it changes the time, not the value.

    Returns
    -------
    OfflineAssignment
        Its `upper_bound` equals its `objective` to rounding: the labels are optimal, and this is
        the proof. Its state carries no size certificate; the sizes are inside the bounds.

    Raises
    ------
    InvalidValueError, InvalidTypeError, DeviceMismatchError
        As `assign` does, and for prices that are not finite.

    Notes
    -----
    Cost: O(n k), and O(k^2 + n) for each sample that the starting prices misplace. From learned
    prices: about 1 s at (100,000, 100) and 10 s at (100,000, 1,000) on one core.
    Where several optima exist, which one is found is not specified.
    Source: CoKe Eq. 6, and total unimodularity; the chains are ours.

    Examples
    --------
    >>> import numpy as np
    >>> from dualclust.algos.bounds import from_counts
    >>> scores = np.asarray([[0.9, 0.1, 0.0], [0.8, 0.7, 0.0], [0.7, 0.6, 0.5]])
    >>> found = assign_exact(scores, from_counts([1, 1, 1], n_samples=3))
    >>> found.labels, round(found.objective, 3), round(found.upper_bound, 3)
    (array([0, 1, 2]), 2.1, 2.1)
    """
    xp = check_real("scores", scores)
    if bounds.n_samples is None:
        msg = "bounds must be of a known number of samples, got those of a stream"
        raise InvalidValueError(msg)
    check_shape("scores", scores, (bounds.n_samples, bounds.n_clusters))
    check_same_place(scores=scores, bounds=bounds.lower, prices=prices)
    check_finite("scores", scores)
    if prices is None:
        state = init_state(bounds)
        for epoch in range(LEARNING_PASSES):
            _, state = learn_prices(
                lambda ids: xp.take(scores, ids, axis=0), bounds, state, epoch=epoch, scale=scale
            )
        prices = state.duals.lower - state.duals.upper
    check_shape("prices", prices, (bounds.n_clusters,))
    check_finite("prices", prices)
    prices = xp.astype(prices, xp.float64)
    labels = xp.argmax(xp.astype(scores, xp.float64) + prices, axis=1)
    labels, prices, _ = shortest_moves(
        scores, labels, prices, lower=bounds.lower, upper=bounds.upper
    )
    clusters = xp.arange(bounds.n_clusters, dtype=xp.int64, device=compat.device(labels))
    counts = xp.sum(xp.astype(labels[:, None] == clusters, xp.int64), axis=0)
    duals = Duals(xp.clip(prices, min=0.0), xp.clip(-prices, min=0.0))
    best, second = top_two(xp.astype(scores, xp.float64) + prices)
    return OfflineAssignment(
        labels,
        best - second,
        AssignmentState(duals, duals, counts, bounds.n_samples, math.nan, False),
        objective(scores, labels),
        dual_value(scores, prices, bounds),
    )


@kernel
def shortest_moves(
    scores: Array, labels: Array, prices: Array, *, lower: Array, upper: Array
) -> tuple[Array, Array, int]:
    """Move samples along shortest chains until the counts obey the bounds and the prices.

    Arguments are assumed checked, `labels` to be the argmax of scores plus prices, and the bounds
    to be feasible. Returns optimal labels, optimal prices, and the number of samples moved.
    """
    xp = compat.array_namespace(scores)
    device = compat.device(scores)
    s = xp.astype(scores, xp.float64)
    n, k = s.shape
    ids = xp.arange(n, dtype=xp.int64, device=device)
    pi = [float(prices[a]) for a in range(k)]
    low, high = ([int(bound[a]) for a in range(k)] for bound in (lower, upper))
    # What complementary slackness asks each cluster to report to the bounds (node k), and which
    # nodes have more than they report.
    reported, excess = [], [0] * (k + 1)
    for a in range(k):
        count = int(xp.sum(xp.astype(labels == a, xp.int64)))
        free = min(max(count, low[a]), high[a])
        reported.append(low[a] if pi[a] > 0 else high[a] if pi[a] < 0 else free)
        excess[a] = count - reported[a]
        excess[k] -= excess[a]
    moves = 0
    while any(e > 0 for e in excess):
        cost, who = _cheapest_moves(s, labels, ids)
        end, dist, parent = _shortest_way(cost, pi, reported, low, high, excess)
        pi = [p + min(dist[a], dist[end]) - min(dist[k], dist[end]) for a, p in enumerate(pi)]
        excess[end] += 1
        v = end
        while (u := parent[v]) is not None:
            if u == k:
                reported[v] -= 1
            elif v == k:
                reported[u] += 1
            else:
                labels = xp.where(ids == who[u][v], v, labels)
                moves += 1
            v = u
        excess[v] -= 1
    return labels, xp.asarray(pi, dtype=xp.float64, device=device), moves


def _cheapest_moves(
    s: Array, labels: Array, ids: Array
) -> tuple[list[list[float]], list[list[int]]]:
    """Smallest loss of moving one sample from cluster a to b, and that sample, for all a and b."""
    xp = compat.array_namespace(s)
    n, k = s.shape
    cost, who = [], []
    for a in range(k):
        loss = xp.where((labels == a)[:, None], s[:, a : a + 1] - s, math.inf * xp.ones_like(s))
        first = xp.argmin(loss, axis=0)
        cost.append([float(loss[int(first[b]), b]) for b in range(k)] if n else [math.inf] * k)
        who.append([int(first[b]) for b in range(k)] if n else [0] * k)
    return cost, who


def _shortest_way(
    cost: list[list[float]],
    pi: list[float],
    reported: list[int],
    low: list[int],
    high: list[int],
    excess: list[int],
) -> tuple[int, list[float], list[int | None]]:
    """Dijkstra from all nodes with excess to the nearest with a deficit; node k is the bounds."""
    k = len(pi)
    dist = [0.0 if e > 0 else math.inf for e in excess]
    parent: list[int | None] = [None] * (k + 1)
    open_nodes = set(range(k + 1))
    while True:
        u = min(open_nodes, key=lambda v: (dist[v], v))
        if excess[u] < 0:
            return u, dist, parent
        open_nodes.remove(u)
        for v in open_nodes:
            if u == k:
                length = -pi[v] if reported[v] > low[v] else math.inf
            elif v == k:
                length = pi[u] if reported[u] < high[u] else math.inf
            else:
                length = cost[u][v] + pi[u] - pi[v]
            # Rounding can leave an arc a few ulp below 0.
            if dist[u] + max(length, 0.0) < dist[v]:
                dist[v], parent[v] = dist[u] + max(length, 0.0), u
