"""The kernel `augmenting_paths`, compiled by numba: exact repair of an assignment, on one core.

The steps are those of the reference text, with the same numbers. Beside it: the samples of each
cluster are a doubly linked list, so that moving one takes constant time; a search touches only the
nodes on its way, and only these are reset after it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["augmenting_paths"]

FloatArray = NDArray[np.floating[Any]]
Doubles = NDArray[np.float64]
Clusters = NDArray[np.int32]
IntArray = NDArray[np.int64]


class _Problem(NamedTuple):
    """Candidates and bounds; nothing of it changes."""

    values: FloatArray
    clusters: Clusters
    lower: IntArray
    upper: IntArray


class _State(NamedTuple):
    """Labels, prices, and what each node reports and has more than that; node k is the bounds."""

    slots: IntArray
    prices: Doubles
    reported: IntArray
    excess: IntArray


class _Members(NamedTuple):
    """The samples of each cluster that may move: a doubly linked list in order of arrival."""

    head: IntArray
    tail: IntArray
    before: NDArray[np.int32]
    after: NDArray[np.int32]


class _Tree(NamedTuple):
    """Shortest paths from one node; `touched` names the nodes with a finite distance."""

    dist: Doubles
    parent: IntArray
    via: IntArray
    done: NDArray[np.bool_]
    touched: IntArray


@njit(cache=True, nogil=True)
def _best_slots(values, clusters, prices, slots, leads, counts):
    """Step 1: label every row by its best candidate; count those that do not tie."""
    for i in range(values.shape[0]):
        best, second, slot = -np.inf, -np.inf, 0
        base = np.float64(values[i, 0])
        for j in range(values.shape[1]):
            a = clusters[i, j]
            if a < 0:
                break
            priced = (np.float64(values[i, j]) - base) + prices[a]
            if priced > best:
                best, second, slot = priced, best, j
            elif priced > second:
                second = priced
        slots[i] = slot
        leads[i] = best - second
        if best != second:
            counts[clusters[i, slot]] += 1


@njit(cache=True, nogil=True)
def _break_ties(problem, prices, slots, leads, counts):
    """Step 1: rows that tie go where the residual capacity is largest."""
    values, clusters = problem.values, problem.clusters
    for i in range(values.shape[0]):
        if leads[i] != 0.0:
            continue
        base = np.float64(values[i, 0])
        best = (np.float64(values[i, slots[i]]) - base) + prices[clusters[i, slots[i]]]
        most = np.int64(-(2**62))
        for j in range(values.shape[1]):
            a = clusters[i, j]
            if a < 0:
                break
            if (np.float64(values[i, j]) - base) + prices[a] == best:
                full = problem.lower[a] if prices[a] > 0.0 else problem.upper[a]
                if full - counts[a] > most:
                    most = full - counts[a]
                    slots[i] = j
        counts[clusters[i, slots[i]]] += 1


@njit(cache=True, nogil=True)
def _append(members, a, i):
    """Append sample `i` to those of cluster `a`."""
    members.before[i], members.after[i] = members.tail[a], -1
    if members.tail[a] >= 0:
        members.after[members.tail[a]] = i
    else:
        members.head[a] = i
    members.tail[a] = i


@njit(cache=True, nogil=True)
def _remove(members, a, i):
    """Take sample `i` out of those of cluster `a`."""
    before, after = members.before[i], members.after[i]
    if before >= 0:
        members.after[before] = after
    else:
        members.head[a] = after
    if after >= 0:
        members.before[after] = before
    else:
        members.tail[a] = before


@njit(cache=True, nogil=True)
def _report(problem, state, counts):
    """Step 2: what complementary slackness asks each cluster to report, and the excesses."""
    k = state.prices.shape[0]
    for a in range(k):
        if state.prices[a] > 0.0:
            state.reported[a] = problem.lower[a]
        elif state.prices[a] < 0.0:
            state.reported[a] = problem.upper[a]
        else:
            state.reported[a] = min(max(counts[a], problem.lower[a]), problem.upper[a])
        state.excess[a] = counts[a] - state.reported[a]
        state.excess[k] -= state.excess[a]


@njit(cache=True, nogil=True)
def _slot_of(clusters, i, a):
    for j in range(clusters.shape[1]):
        if clusters[i, j] == a:
            return j
    return -1


@njit(cache=True, nogil=True)
def _reduced_cost(problem, state, i, j):
    """What sample `i` loses by leaving its cluster for the one in slot `j`."""
    values, clusters, slot = problem.values, problem.clusters, state.slots[i]
    base = np.float64(values[i, 0])
    label = (np.float64(values[i, slot]) - base) + state.prices[clusters[i, slot]]
    return label - ((np.float64(values[i, j]) - base) + state.prices[clusters[i, j]])


@njit(cache=True, nogil=True)
def _nearest(tree, n_touched):
    """The nearest node that is not done, the smaller one of two; or -1."""
    u = -1
    for t in range(n_touched):
        v = tree.touched[t]
        if tree.done[v]:
            continue
        if u < 0 or tree.dist[v] < tree.dist[u] or (tree.dist[v] == tree.dist[u] and v < u):
            u = v
    return u


@njit(cache=True, nogil=True)
def _reach(tree, v, length, u, i, n_touched):
    """Enter a path to node `v` if it is the shortest so far; returns the nodes touched."""
    if length < tree.dist[v]:
        if tree.dist[v] == np.inf:
            tree.touched[n_touched] = v
            n_touched += 1
        tree.dist[v], tree.parent[v], tree.via[v] = length, u, i
    return n_touched


@njit(cache=True, nogil=True)
def _reach_from_members(problem, state, members, tree, u, limit, n_touched):
    """Follow the arcs of the samples of `u`; returns the length of the shortest path to an end."""
    values, clusters, prices = problem.values, problem.clusters, state.prices
    i = members.head[u]
    while i >= 0:
        base = np.float64(values[i, 0])
        label = (np.float64(values[i, state.slots[i]]) - base) + prices[u]
        for j in range(values.shape[1]):
            v = clusters[i, j]
            if v < 0:
                break
            if tree.done[v]:
                continue
            # Rounding can leave a reduced cost a few ulp below 0; Dijkstra needs it at 0.
            cost = label - ((np.float64(values[i, j]) - base) + prices[v])
            length = tree.dist[u] + max(cost, 0.0)
            if length > limit:
                continue
            n_touched = _reach(tree, v, length, u, i, n_touched)
            if state.excess[v] < 0:
                limit = length
        i = members.after[i]
    return limit, n_touched


@njit(cache=True, nogil=True)
def _search(source, problem, state, members, tree):
    """Step 3: Dijkstra's algorithm to the nearest node with a deficit; returns it, or -1."""
    k = state.prices.shape[0]
    tree.dist[source] = 0.0
    tree.touched[0] = source
    n_touched = 1
    limit = np.inf  # no path to a deficit is longer than one that is known
    while True:
        u = _nearest(tree, n_touched)
        if u < 0 or state.excess[u] < 0:
            return u, n_touched
        tree.done[u] = True
        if u == k:
            for v in range(k):
                if not tree.done[v] and state.reported[v] > problem.lower[v]:
                    length = tree.dist[u] + max(-state.prices[v], 0.0)
                    n_touched = _reach(tree, v, length, u, -1, n_touched)
            continue
        if not tree.done[k] and state.reported[u] < problem.upper[u]:
            length = tree.dist[u] + max(state.prices[u], 0.0)
            n_touched = _reach(tree, k, length, u, -1, n_touched)
        limit, n_touched = _reach_from_members(problem, state, members, tree, u, limit, n_touched)


@njit(cache=True, nogil=True)
def _n_alike(problem, state, members, u, v, i, most):
    """How many samples of cluster `u` lose by going to `v` just what sample `i` does."""
    cost = _reduced_cost(problem, state, i, _slot_of(problem.clusters, i, v))
    n_alike = 0
    h = members.head[u]
    while h >= 0 and n_alike < most:
        j = _slot_of(problem.clusters, h, v)
        if j >= 0 and _reduced_cost(problem, state, h, j) == cost:
            n_alike += 1
        h = members.after[h]
    return n_alike


@njit(cache=True, nogil=True)
def _residual_capacity(source, end, problem, state, members, tree):
    """Step 4: how many units the path from `source` to `end` takes at its reduced costs."""
    k = state.prices.shape[0]
    units = min(state.excess[source], -state.excess[end])
    v = end
    while v != source and units > 1:
        u = tree.parent[v]
        if u == k:
            units = min(units, state.reported[v] - problem.lower[v])
        elif v == k:
            units = min(units, problem.upper[u] - state.reported[u])
        else:
            units = min(units, _n_alike(problem, state, members, u, v, tree.via[v], units))
        v = u
    return units


@njit(cache=True, nogil=True)
def _move(problem, state, members, u, v, i, units):
    """Move `units` samples like `i` from cluster `u` to `v`, in the order of the list."""
    cost = _reduced_cost(problem, state, i, _slot_of(problem.clusters, i, v))
    h = members.head[u]
    while units > 0:
        following = members.after[h]
        j = _slot_of(problem.clusters, h, v)
        if j >= 0 and _reduced_cost(problem, state, h, j) == cost:
            state.slots[h] = j
            _remove(members, u, h)
            _append(members, v, h)
            units -= 1
        h = following


@njit(cache=True, nogil=True)
def _augment(source, end, problem, state, members, tree):
    """Step 4: send what the path can take; returns how many samples moved."""
    k = state.prices.shape[0]
    units = _residual_capacity(source, end, problem, state, members, tree)
    moves = 0
    v = end
    while v != source:
        u = tree.parent[v]
        if u == k:
            state.reported[v] -= units
        elif v == k:
            state.reported[u] += units
        else:
            moves += units
            _move(problem, state, members, u, v, tree.via[v], units)
        v = u
    state.excess[source] -= units
    state.excess[end] += units
    return moves


@njit(cache=True, nogil=True)
def _update(source, end, state, tree, n_touched):
    """Step 5: new prices, at which the arcs of the path cost nothing."""
    prices = state.prices
    k = prices.shape[0]
    # Distances are the new prices, up to a constant that leaves what was not reached.
    far = tree.dist[end]
    rise = far - min(tree.dist[k], far)
    if rise > 0.0:
        for a in range(k):
            prices[a] += rise
    for t in range(n_touched):
        a = tree.touched[t]
        if a < k:
            prices[a] -= far - min(tree.dist[a], far)
    v = end
    while v != source:  # rounding must not leave the wrong sign
        u = tree.parent[v]
        if u == k:
            prices[v] = min(prices[v], 0.0)
        elif v == k:
            prices[u] = max(prices[u], 0.0)
        v = u


@njit(cache=True, nogil=True)
def _reset(tree, n_touched):
    """Forget the paths of a search."""
    for t in range(n_touched):
        a = tree.touched[t]
        tree.dist[a], tree.parent[a], tree.via[a], tree.done[a] = np.inf, -1, -1, False


@njit(cache=True, nogil=True)
def _augmenting_paths(values, clusters, prices, lower, upper, window, slots):
    m, k = values.shape[0], prices.shape[0]
    problem = _Problem(values, clusters, lower, upper)
    counts, leads = np.zeros(k, dtype=np.int64), np.empty(m)
    _best_slots(values, clusters, prices, slots, leads, counts)  # step 1
    _break_ties(problem, prices, slots, leads, counts)
    members = _Members(
        np.full(k, -1, dtype=np.int64),
        np.full(k, -1, dtype=np.int64),
        np.full(m, -1, dtype=np.int32),
        np.full(m, -1, dtype=np.int32),
    )
    for i in range(m):
        if leads[i] <= window:
            _append(members, clusters[i, slots[i]], i)
    state = _State(slots, prices, np.empty(k, dtype=np.int64), np.zeros(k + 1, dtype=np.int64))
    _report(problem, state, counts)  # step 2
    tree = _Tree(
        np.full(k + 1, np.inf),
        np.full(k + 1, -1, dtype=np.int64),
        np.full(k + 1, -1, dtype=np.int64),
        np.zeros(k + 1, dtype=np.bool_),
        np.empty(k + 1, dtype=np.int64),
    )
    moves = 0
    for node in range(k + 1):
        source = (node + k) % (k + 1)  # the bounds first
        while state.excess[source] > 0:  # step 6: repeat
            end, n_touched = _search(source, problem, state, members, tree)  # step 3
            if end < 0:
                return moves, True
            moves += _augment(source, end, problem, state, members, tree)  # step 4
            _update(source, end, state, tree, n_touched)  # step 5
            _reset(tree, n_touched)
    return moves, False


def augmenting_paths(
    values: FloatArray,
    clusters: Clusters,
    prices: Doubles,
    *,
    lower: IntArray,
    upper: IntArray,
    window: float,
) -> tuple[IntArray, Doubles, int, bool]:
    """See `dualclust.algos.offline._augmenting_paths.augmenting_paths`."""
    slots, prices = np.zeros(values.shape[0], dtype=np.int64), prices.copy()
    moves, is_stuck = _augmenting_paths(
        values, clusters, prices, lower, upper, float(window), slots
    )
    return slots, prices, int(moves), bool(is_stuck)
