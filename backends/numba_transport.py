"""The kernel `shortest_moves`, compiled by numba: exact repair of an assignment, on one core."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["shortest_moves"]

FloatArray = NDArray[np.floating[Any]]
IntArray = NDArray[np.int64]


@njit(cache=True, nogil=True)
def _scan(scores, labels, a, columns, cost, who):
    """Cheapest member of cluster `a` to move to each of `columns`; the lowest index on ties."""
    for b in columns:
        cost[a, b] = np.inf
        who[a, b] = -1
    for i in range(labels.shape[0]):
        if labels[i] == a:
            own = np.float64(scores[i, a])
            for b in columns:
                loss = own - np.float64(scores[i, b])
                if loss < cost[a, b]:
                    cost[a, b] = loss
                    who[a, b] = i


@njit(cache=True, nogil=True)
def _dijkstra(cost, prices, reported, lower, upper, excess, dist, parent):
    """Shortest way from any node with excess to the nearest deficit; node k is the sink."""
    k = prices.shape[0]
    done = np.zeros(k + 1, dtype=np.bool_)
    for v in range(k + 1):
        dist[v] = 0.0 if excess[v] > 0 else np.inf
        parent[v] = -1
    while True:
        u = -1
        for v in range(k + 1):
            if not done[v] and dist[v] < np.inf and (u < 0 or dist[v] < dist[u]):
                u = v
        if u < 0:
            return -1
        if excess[u] < 0:
            return u
        done[u] = True
        for v in range(k + 1):
            if done[v]:
                continue
            if u == k:
                length = -prices[v] if reported[v] > lower[v] else np.inf
            elif v == k:
                length = prices[u] if reported[u] < upper[u] else np.inf
            else:
                length = cost[u, v] + prices[u] - prices[v]
            # Rounding can leave a reduced cost a few ulp below 0; Dijkstra needs it at 0.
            reach = dist[u] + max(length, 0.0)
            if reach < dist[v]:
                dist[v] = reach
                parent[v] = u


@njit(cache=True, nogil=True)
def _shortest_moves(scores, labels, prices, lower, upper):
    n, k = scores.shape
    counts = np.zeros(k, dtype=np.int64)
    for i in range(n):
        counts[labels[i]] += 1
    cost = np.full((k, k), np.inf)
    who = np.full((k, k), -1, dtype=np.int64)
    for i in range(n):
        a = labels[i]
        own = np.float64(scores[i, a])
        for b in range(k):
            loss = own - np.float64(scores[i, b])
            if loss < cost[a, b]:
                cost[a, b] = loss
                who[a, b] = i
    # What complementary slackness asks each cluster to report, and who has more or fewer.
    reported = np.empty(k, dtype=np.int64)
    excess = np.zeros(k + 1, dtype=np.int64)
    for a in range(k):
        if prices[a] > 0.0:
            reported[a] = lower[a]
        elif prices[a] < 0.0:
            reported[a] = upper[a]
        else:
            reported[a] = min(max(counts[a], lower[a]), upper[a])
        excess[a] = counts[a] - reported[a]
        excess[k] -= excess[a]
    dist = np.empty(k + 1)
    parent = np.empty(k + 1, dtype=np.int64)
    stale = np.empty(k, dtype=np.int64)
    moves = 0
    while True:
        end = _dijkstra(cost, prices, reported, lower, upper, excess, dist, parent)
        if end < 0:
            return moves
        far = dist[end]
        for a in range(k):
            prices[a] += min(dist[a], far) - min(dist[k], far)
        excess[end] += 1
        v = end
        while parent[v] >= 0:
            u = parent[v]
            if u == k:
                reported[v] -= 1
                prices[v] = min(prices[v], 0.0)
            elif v == k:
                reported[u] += 1
                prices[u] = max(prices[u], 0.0)
            else:
                i = who[u, v]
                labels[i] = v
                moves += 1
                own = np.float64(scores[i, v])
                for b in range(k):
                    loss = own - np.float64(scores[i, b])
                    if loss < cost[v, b] or (loss == cost[v, b] and i < who[v, b]):
                        cost[v, b] = loss
                        who[v, b] = i
                found = 0
                for b in range(k):
                    if who[u, b] == i:
                        stale[found] = b
                        found += 1
                _scan(scores, labels, u, stale[:found], cost, who)
            v = u
        excess[v] -= 1


def shortest_moves(
    scores: FloatArray, labels: IntArray, prices: FloatArray, *, lower: IntArray, upper: IntArray
) -> tuple[IntArray, FloatArray, int]:
    """See `dualclust.algos.transport.shortest_moves`."""
    native = scores.dtype.newbyteorder("=")
    if scores.dtype != native:
        scores = np.ascontiguousarray(scores, dtype=native)
    labels, prices = labels.copy(), prices.copy()
    moves = _shortest_moves(scores, labels, prices, lower, upper)
    return labels, prices, int(moves)
