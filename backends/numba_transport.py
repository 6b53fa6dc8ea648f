"""The kernel `shortest_moves`, compiled by numba: exact repair of an assignment, on one core."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["shortest_moves"]

FloatArray = NDArray[np.floating[Any]]
Doubles = NDArray[np.float64]
Lists = NDArray[np.int32]
IntArray = NDArray[np.int64]


@njit(cache=True, nogil=True)
def _label(values, clusters, prices, lower, upper, slots, margins, counts):
    """Best slot of each row and by how much; rows that tie go where most room is, last."""
    m, width = values.shape
    for i in range(m):
        best, second, slot = -np.inf, -np.inf, 0
        base = np.float64(values[i, 0])
        for j in range(width):
            a = clusters[i, j]
            if a < 0:
                break
            priced = (np.float64(values[i, j]) - base) + prices[a]
            if priced > best:
                best, second, slot = priced, best, j
            elif priced > second:
                second = priced
        slots[i] = slot
        margins[i] = best - second
        if best != second:
            counts[clusters[i, slot]] += 1
    for i in range(m):
        if margins[i] != 0.0:
            continue
        base = np.float64(values[i, 0])
        best = (np.float64(values[i, slots[i]]) - base) + prices[clusters[i, slots[i]]]
        most = np.int64(-(2**62))
        for j in range(width):
            a = clusters[i, j]
            if a < 0:
                break
            if (np.float64(values[i, j]) - base) + prices[a] == best:
                room = (lower[a] if prices[a] > 0.0 else upper[a]) - counts[a]
                if room > most:
                    most = room
                    slots[i] = j
        counts[clusters[i, slots[i]]] += 1


@njit(cache=True, nogil=True)
def _loss(values, clusters, prices, slots, i, j):
    """What sample `i` loses by leaving its cluster for the one in slot `j`."""
    base = np.float64(values[i, 0])
    own = (np.float64(values[i, slots[i]]) - base) + prices[clusters[i, slots[i]]]
    return own - ((np.float64(values[i, j]) - base) + prices[clusters[i, j]])


@njit(cache=True, nogil=True)
def _slot_of(clusters, i, a):
    for j in range(clusters.shape[1]):
        if clusters[i, j] == a:
            return j
    return -1


@njit(cache=True, nogil=True)
def _reach(node, reach, u, i, dist, parent, via, touched, n_touched):
    if reach < dist[node]:
        if dist[node] == np.inf:
            touched[n_touched] = node
            n_touched += 1
        dist[node], parent[node], via[node] = reach, u, i
    return n_touched


@njit(cache=True, nogil=True)
def _shortest_way(
    source, values, clusters, prices, slots, head, after, reported, lower, upper, excess,
    dist, parent, via, done, touched,
):  # fmt: skip
    """Dijkstra to the nearest node with a deficit; node k is the bounds. Returns it, or -1."""
    k = prices.shape[0]
    width = values.shape[1]
    dist[source] = 0.0
    touched[0] = source
    n_touched = 1
    limit = np.inf  # no way to a deficit is longer than one that is known
    while True:
        u = -1
        for t in range(n_touched):
            v = touched[t]
            if not done[v] and (u < 0 or dist[v] < dist[u] or (dist[v] == dist[u] and v < u)):
                u = v
        if u < 0:
            return -1, n_touched
        if excess[u] < 0:
            return u, n_touched
        done[u] = True
        if u == k:
            for v in range(k):
                if not done[v] and reported[v] > lower[v]:
                    reach = dist[u] + max(-prices[v], 0.0)
                    n_touched = _reach(v, reach, u, -1, dist, parent, via, touched, n_touched)
            continue
        if not done[k] and reported[u] < upper[u]:
            reach = dist[u] + max(prices[u], 0.0)
            n_touched = _reach(k, reach, u, -1, dist, parent, via, touched, n_touched)
        i = head[u]
        while i >= 0:
            base = np.float64(values[i, 0])
            own = (np.float64(values[i, slots[i]]) - base) + prices[u]
            for j in range(width):
                v = clusters[i, j]
                if v < 0:
                    break
                if done[v]:
                    continue
                # Rounding can leave a loss a few ulp below 0; Dijkstra needs it at 0.
                loss = own - ((np.float64(values[i, j]) - base) + prices[v])
                reach = dist[u] + max(loss, 0.0)
                if reach > limit:
                    continue
                n_touched = _reach(v, reach, u, i, dist, parent, via, touched, n_touched)
                if excess[v] < 0:
                    limit = reach
            i = after[i]


@njit(cache=True, nogil=True)
def _alike(values, clusters, prices, slots, head, after, u, v, i, most):
    """How many samples of cluster `u` lose by going to `v` just what sample `i` does."""
    loss = _loss(values, clusters, prices, slots, i, _slot_of(clusters, i, v))
    found = 0
    h = head[u]
    while h >= 0 and found < most:
        j = _slot_of(clusters, h, v)
        if j >= 0 and _loss(values, clusters, prices, slots, h, j) == loss:
            found += 1
        h = after[h]
    return found


@njit(cache=True, nogil=True)
def _move(values, clusters, prices, slots, head, tail, before, after, u, v, i, units):
    """Move `units` samples like `i` from cluster `u` to `v`, in the order of the list."""
    loss = _loss(values, clusters, prices, slots, i, _slot_of(clusters, i, v))
    h = head[u]
    while units > 0:
        following = after[h]
        j = _slot_of(clusters, h, v)
        if j >= 0 and _loss(values, clusters, prices, slots, h, j) == loss:
            slots[h] = j
            if before[h] >= 0:
                after[before[h]] = following
            else:
                head[u] = following
            if following >= 0:
                before[following] = before[h]
            else:
                tail[u] = before[h]
            before[h], after[h] = tail[v], -1
            if tail[v] >= 0:
                after[tail[v]] = h
            else:
                head[v] = h
            tail[v] = h
            units -= 1
        h = following


@njit(cache=True, nogil=True)
def _shortest_moves(values, clusters, prices, lower, upper, window, slots):
    m = values.shape[0]
    k = prices.shape[0]
    counts = np.zeros(k, dtype=np.int64)
    margins = np.empty(m)
    _label(values, clusters, prices, lower, upper, slots, margins, counts)
    # The samples that can move, as one list per cluster.
    head, tail = np.full(k, -1, dtype=np.int64), np.full(k, -1, dtype=np.int64)
    before, after = np.full(m, -1, dtype=np.int32), np.full(m, -1, dtype=np.int32)
    for i in range(m):
        if margins[i] <= window:
            a = clusters[i, slots[i]]
            before[i] = tail[a]
            if tail[a] >= 0:
                after[tail[a]] = i
            else:
                head[a] = i
            tail[a] = i
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
    dist, via = np.full(k + 1, np.inf), np.full(k + 1, -1, dtype=np.int64)
    parent, touched = np.full(k + 1, -1, dtype=np.int64), np.empty(k + 1, dtype=np.int64)
    done = np.zeros(k + 1, dtype=np.bool_)
    moves = 0
    for turn in range(k + 1):
        source = (turn + k) % (k + 1)  # the bounds first
        while excess[source] > 0:
            end, n_touched = _shortest_way(
                source, values, clusters, prices, slots, head, after, reported, lower, upper,
                excess, dist, parent, via, done, touched,
            )  # fmt: skip
            if end < 0:
                return moves, True
            units = min(excess[source], -excess[end])
            v = end
            while v != source and units > 1:
                u = parent[v]
                if u == k:
                    units = min(units, reported[v] - lower[v])
                elif v == k:
                    units = min(units, upper[u] - reported[u])
                else:
                    units = min(
                        units,
                        _alike(values, clusters, prices, slots, head, after, u, v, via[v], units),
                    )
                v = u
            v = end
            while v != source:
                u = parent[v]
                if u == k:
                    reported[v] -= units
                elif v == k:
                    reported[u] += units
                else:
                    moves += units
                    _move(
                        values, clusters, prices, slots, head, tail, before, after, u, v, via[v],
                        units,
                    )  # fmt: skip
                v = u
            excess[source] -= units
            excess[end] += units
            # Distances are the new prices, up to a constant that leaves what was not reached.
            far = dist[end]
            rise = far - min(dist[k], far)
            if rise > 0.0:
                for a in range(k):
                    prices[a] += rise
            for t in range(n_touched):
                a = touched[t]
                if a < k:
                    prices[a] -= far - min(dist[a], far)
            v = end
            while v != source:
                u = parent[v]
                if u == k:
                    prices[v] = min(prices[v], 0.0)
                elif v == k:
                    prices[u] = max(prices[u], 0.0)
                v = u
            for t in range(n_touched):
                a = touched[t]
                dist[a], parent[a], via[a], done[a] = np.inf, -1, -1, False
    return moves, False


def shortest_moves(
    values: FloatArray,
    clusters: Lists,
    prices: Doubles,
    *,
    lower: IntArray,
    upper: IntArray,
    window: float,
) -> tuple[IntArray, Doubles, int, bool]:
    """See `dualclust.algos.offline._augmenting_paths.shortest_moves`."""
    slots, prices = np.zeros(values.shape[0], dtype=np.int64), prices.copy()
    moves, stuck = _shortest_moves(values, clusters, prices, lower, upper, float(window), slots)
    return slots, prices, int(moves), bool(stuck)
