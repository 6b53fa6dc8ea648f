"""The kernel `augmenting_paths`, compiled by numba: exact repair of an assignment, on one core.

The steps are those of the reference text, with the same numbers. Beside it: a search touches only
the nodes on its way, of which a heap knows the nearest (`numba_shortest_paths`), and it leaves out
what is farther away than a deficit that it knows. The samples that may go from one cluster to
another are a heap as well (`numba_path_heaps`), whose root is the one that loses least. A search
looks at roots, not at samples, so that even prices that are far off cost no more than a short walk
on the clusters for each sample to be moved.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from . import numba_path_heaps as h
from . import numba_shortest_paths as t
from .numba_compilation import ENTRY

__all__ = ["augmenting_paths"]

LEAST, MOST = int(np.iinfo(np.int64).min), int(np.iinfo(np.int64).max)

PATHS_AT_ONCE = 32
"""As in the reference text."""

FloatArray = NDArray[np.floating[Any]]
Doubles = NDArray[np.float64]
Clusters = NDArray[np.int32]
IntArray = NDArray[np.int64]


class _Problem(NamedTuple):
    """Candidates, bounds, and the tree of these; nothing of it changes.

    The children of node u are ``children[first[u] : first[u + 1]]``; the last node is the root.
    """

    values: FloatArray
    clusters: Clusters
    lower: IntArray
    upper: IntArray
    parents: IntArray
    children: IntArray
    first: IntArray


class _State(NamedTuple):
    """Labels, prices, and what each node reports and has more than that."""

    slots: IntArray
    prices: Doubles
    reported: IntArray
    excess: IntArray


@h.inner
def _best_slots(values, clusters, prices, slots, leads, counts):
    """Step 1: label every row by its best candidate; count those that do not tie."""
    for i in range(values.shape[0]):
        best = second = -np.inf
        base = np.float64(values[i, 0])
        for j in range(values.shape[1]):
            a = clusters[i, j]
            if a < 0:
                break
            priced = (np.float64(values[i, j]) - base) + prices[a]
            if priced > best:
                best, second, slots[i] = priced, best, j
            elif priced > second:
                second = priced
        leads[i] = best - second
        if best != second:
            counts[clusters[i, slots[i]]] += 1


@h.inner
def _break_ties(problem, prices, slots, leads, counts):
    """Step 1: rows that tie go where the residual capacity is largest."""
    values, clusters, lower, upper = problem.values, problem.clusters, problem.lower, problem.upper
    for i in range(values.shape[0]):
        if leads[i] != 0.0:
            continue
        base = np.float64(values[i, 0])
        best = (np.float64(values[i, slots[i]]) - base) + prices[clusters[i, slots[i]]]
        most = np.int64(LEAST)
        for j in range(values.shape[1]):
            a = clusters[i, j]
            if a < 0:
                break
            if (np.float64(values[i, j]) - base) + prices[a] == best:
                full = lower[a] if prices[a] > prices[problem.parents[a]] else upper[a]
                if full - counts[a] > most:
                    most = full - counts[a]
                    slots[i] = j
        counts[clusters[i, slots[i]]] += 1


@h.inner
def _report(problem, state, counts):
    """Step 2: what complementary slackness asks each node to report, and the excesses."""
    prices, excess = state.prices, state.excess
    root = len(prices) - 1
    for a in range(len(counts)):
        excess[a] = counts[a]
        excess[root] -= counts[a]
    for v in range(root):  # children come before their parents
        u = problem.parents[v]
        if prices[v] > prices[u]:
            state.reported[v] = problem.lower[v]
        elif prices[v] < prices[u]:
            state.reported[v] = problem.upper[v]
        else:
            state.reported[v] = min(max(excess[v], problem.lower[v]), problem.upper[v])
        excess[v] -= state.reported[v]
        excess[u] += state.reported[v]


@h.inner
def _reach_from_roots(problem, state, heaps, tree, u, limit):
    """Follow the arcs of the samples of `u`; returns the limit, as `_reach` does."""
    prices, links = state.prices, heaps.links
    if not h.is_filled(heaps, u):
        h.fill(heaps, problem.values, problem.clusters, state.slots, u)
    x = np.int64(heaps.of_cluster[u, h.FIRST])
    while x >= 0:
        v = np.int64(links[x, h.TO])
        if not tree.is_done[v]:
            cost = heaps.loss[x] + (prices[u] - prices[v])
            # Rounding can leave a reduced cost a few ulp below 0; Dijkstra needs it at 0.
            length = tree.dist[u] + max(cost, 0.0)
            limit = _reach(state, tree, v, length, u, x, limit)
        x = np.int64(links[x, h.AFTER])
    return limit


@h.inner
def _reach(state, tree, v, length, u, x, limit):
    """Enter a path to `v` that is within the limit; returns the limit, which a deficit lowers."""
    if length > limit:
        return limit
    t.reach(tree, v, length, u, x)
    return length if state.excess[v] < 0 else limit


@h.inner
def _search(source, problem, state, heaps, tree):
    """Step 3: Dijkstra's algorithm to the nearest node with a deficit; returns it, or -1."""
    root, no_sample = len(state.prices) - 1, np.int64(h.NONE)
    limit = np.inf  # no path to a deficit is longer than one that is known
    t.reach(tree, source, 0.0, np.int64(-1), no_sample)
    while True:
        u = t.nearest(tree)
        if u < 0 or state.excess[u] < 0:
            return u
        price = state.prices[u]
        for c in range(problem.first[u], problem.first[u + 1]):
            v = problem.children[c]
            if not tree.is_done[v] and state.reported[v] > problem.lower[v]:
                length = tree.dist[u] + max(price - state.prices[v], 0.0)
                limit = _reach(state, tree, v, length, u, no_sample, limit)
        if u < root:
            v = problem.parents[u]
            if not tree.is_done[v] and state.reported[u] < problem.upper[u]:
                length = tree.dist[u] + max(price - state.prices[v], 0.0)
                limit = _reach(state, tree, v, length, u, no_sample, limit)
            limit = _reach_from_roots(problem, state, heaps, tree, u, limit)


@h.inner
def _n_alike(heaps, root, most):
    """How many samples of a heap lose just what that of its root does; at most `most`."""
    links, stack, loss = heaps.links, heaps.of_sample, heaps.loss
    stack[0, h.STACK] = root
    n_alike, n_stacked = 0, 1
    while n_stacked > 0 and n_alike < most:
        n_stacked -= 1
        n_alike += 1
        x = np.int64(links[stack[n_stacked, h.STACK], h.CHILD])
        while x >= 0:
            if loss[x] == loss[root]:
                stack[n_stacked, h.STACK] = x
                n_stacked += 1
            x = np.int64(links[x, h.AFTER])
    return n_alike


@h.inner
def _is_child(problem, v, u):
    """Whether `u` is the parent of `v`, of two nodes of which one is the other's."""
    return v < len(problem.parents) and problem.parents[v] == u


@h.inner
def _residual_capacity(source, end, problem, state, heaps, tree):
    """Step 4: how many units the path from `source` to `end` takes at its reduced costs."""
    units = min(state.excess[source], -state.excess[end])
    v = end
    while v != source:
        u = tree.nodes[v, t.PARENT]
        if tree.nodes[v, t.VIA] < 0:
            if _is_child(problem, v, u):
                units = min(units, state.reported[v] - problem.lower[v])
            else:
                units = min(units, problem.upper[u] - state.reported[u])
        v = u
    most = 1
    while most < units:  # by doubling: no arc is asked for many more than the path takes
        most = min(2 * most, units)
        found, v = most, end
        while v != source:
            if tree.nodes[v, t.VIA] >= 0:
                found = min(found, _n_alike(heaps, tree.nodes[v, t.VIA], found))
            v = tree.nodes[v, t.PARENT]
        if found < most:
            return found
    return units


@h.inner
def _move(problem, state, heaps, u, v, units):
    """Move `units` samples from cluster `u` to `v`, those that lose least."""
    values, clusters, width = problem.values, problem.clusters, problem.clusters.shape[1]
    is_filled = h.is_filled(heaps, v)
    if is_filled:
        h.name_roots(heaps, v, np.int64(1))
    for _ in range(units):
        x = np.int64(heaps.of_cluster[u, h.FIRST])
        while heaps.links[x, h.TO] != v:
            x = np.int64(heaps.links[x, h.AFTER])
        j, slot = x // width, x % width
        i = heaps.of_sample[j, h.ROW]
        h.take_out(heaps, clusters, u, j, state.slots[i])
        state.slots[i] = slot
        if is_filled:
            h.put_in(heaps, values, clusters, v, j, slot)
        else:
            h.join(heaps, v, j)
    if is_filled:
        h.name_roots(heaps, v, np.int64(0))


@h.inner
def _augment(source, end, problem, state, heaps, tree):
    """Step 4: send what the path can take; returns how many samples moved."""
    units = _residual_capacity(source, end, problem, state, heaps, tree)
    moves = 0
    v = end
    while v != source:
        u = tree.nodes[v, t.PARENT]
        if tree.nodes[v, t.VIA] >= 0:
            moves += units
            _move(problem, state, heaps, u, v, units)
        elif _is_child(problem, v, u):
            state.reported[v] -= units
        else:
            state.reported[u] += units
        v = u
    state.excess[source] -= units
    state.excess[end] += units
    return moves


@h.inner
def _update(source, end, problem, state, tree):
    """Step 5: new prices, at which the arcs of the path cost nothing."""
    prices = state.prices
    root = len(prices) - 1
    # Distances are the new prices, up to a constant that leaves what was not reached.
    far = tree.dist[end]
    rise = far - min(tree.dist[root], far)
    if rise > 0.0:
        for a in range(root):
            prices[a] += rise
    for i in range(tree.counts[t.N_TOUCHED]):
        a = tree.nodes[i, t.TOUCHED]
        if a < root:
            prices[a] -= far - min(tree.dist[a], far)
    v = end
    while v != source:  # rounding must not leave the wrong sign
        u = tree.nodes[v, t.PARENT]
        if tree.nodes[v, t.VIA] < 0:
            if _is_child(problem, v, u):
                prices[v] = min(prices[v], prices[u])
            else:
                prices[u] = max(prices[u], prices[v])
        v = u


@njit(**ENTRY)
def _begin(problem, state, leads, counts):
    """Steps 1 and 2; writes by how much the label of each row leads."""
    slots, prices = state.slots, state.prices
    _best_slots(problem.values, problem.clusters, prices, slots, leads, counts)  # step 1
    _break_ties(problem, prices, slots, leads, counts)
    _report(problem, state, counts)  # step 2


@njit(**ENTRY)
def _join_all(problem, state, heaps):
    """Let the samples of the heaps be of the clusters of their labels."""
    for j in range(heaps.of_sample.shape[0]):
        i = heaps.of_sample[j, h.ROW]
        h.join(heaps, np.int64(problem.clusters[i, state.slots[i]]), j)


@njit(**ENTRY)
def _augment_all(problem, state, heaps, tree, most):
    """Steps 3 to 6, up to `most` paths: samples moved, paths, and whether a search found none."""
    n_moved = n_paths = 0
    n_nodes = len(state.prices)
    for node in range(n_nodes):
        source = (node + n_nodes - 1) % n_nodes  # the root first
        while state.excess[source] > 0:  # step 6: repeat
            if n_paths == most:
                return n_moved, n_paths, False
            end = _search(source, problem, state, heaps, tree)  # step 3
            if end < 0:
                return n_moved, n_paths, True
            n_moved += _augment(source, end, problem, state, heaps, tree)  # step 4
            n_paths += 1
            _update(source, end, problem, state, tree)  # step 5
            t.forget(tree)
    return n_moved, n_paths, False


def augmenting_paths(
    values: FloatArray,
    clusters: Clusters,
    prices: Doubles,
    *,
    lower: IntArray,
    upper: IntArray,
    window: float,
    parents: IntArray | None = None,
    is_over: Callable[[], bool] | None = None,
) -> tuple[IntArray, Doubles, int, int, bool]:
    """See `dualclust.algos.offline._augmenting_paths.augmenting_paths`."""
    m, root = len(values), len(prices)
    parents = np.full(root, root, dtype=np.int64) if parents is None else parents
    children = np.argsort(parents, kind="stable")
    first = np.searchsorted(parents[children], np.arange(root + 2))
    slots, leads, counts = np.zeros(m, dtype=np.int64), np.empty(m), np.zeros(root, dtype=np.int64)
    problem = _Problem(values, clusters, lower, upper, parents, children, first)
    nodes = np.empty(root, dtype=np.int64), np.zeros(root + 1, dtype=np.int64)
    state = _State(slots, np.append(prices, 0.0), *nodes)
    _begin(problem, state, leads, counts)
    heaps = h.empty_heaps(np.flatnonzero(leads <= window), values.shape[1], root)
    _join_all(problem, state, heaps)
    tree, most = t.empty_tree(root + 1), MOST if is_over is None else PATHS_AT_ONCE
    n_moved = n_paths = 0
    while True:
        moved, paths, is_stuck = _augment_all(problem, state, heaps, tree, np.int64(most))
        n_moved, n_paths = n_moved + moved, n_paths + paths
        if is_stuck or paths < most:
            break
        if is_over is not None and is_over():
            is_stuck = True
            break
    return slots, state.prices[:-1], n_moved, n_paths, is_stuck
