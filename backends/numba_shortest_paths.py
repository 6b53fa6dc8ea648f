"""Shortest paths from one node, as Dijkstra's algorithm finds them: for `augmenting_paths`.

Nodes that are reached and not done wait in a binary heap, the nearest first, of two the smaller
one. A node whose path becomes shorter moves up in it, so that each is in it once. What a search has
touched, and nothing else, is reset after it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .numba_path_heaps import inner

__all__ = ["Tree", "empty_tree", "forget", "nearest", "reach"]

PARENT, VIA, PLACE, WAITING, TOUCHED = 0, 1, 2, 3, 4
"""Columns of ``nodes``: the node before, the arc from there, the place among those that wait; and
two lists of nodes, those that wait and those with a finite distance."""

N_WAITING, N_TOUCHED = 0, 1
"""Places of ``counts``: how long the two lists are."""

NEW = -1
"""Instead of a place: of nodes that are not reached yet."""


class Tree(NamedTuple):
    """Paths from one node; `dist` is infinite where none is known, final where `is_done`."""

    dist: NDArray[np.float64]  # (n_nodes,)
    waiting: NDArray[np.float64]  # (n_nodes,), of those that wait, in their places
    is_done: NDArray[np.bool_]  # (n_nodes,)
    nodes: NDArray[np.signedinteger[Any]]  # (n_nodes, 5)
    counts: NDArray[np.int64]  # (2,)


def empty_tree(n_nodes: int) -> Tree:
    """Return the paths of a search that has not begun."""
    return Tree(
        np.full(n_nodes, np.inf),
        np.empty(n_nodes),
        np.zeros(n_nodes, dtype=np.bool_),
        np.full((n_nodes, 5), NEW, dtype=np.int64),
        np.zeros(2, dtype=np.int64),
    )


@inner
def _is_nearer(tree, length, v, at):
    """Whether node `v` at distance `length` comes before the node that waits in place `at`."""
    other = tree.waiting[at]
    return length < other or (length == other and v < tree.nodes[at, WAITING])


@inner
def _put(tree, at, length, v):
    """Let node `v` wait in place `at`."""
    tree.waiting[at], tree.nodes[at, WAITING], tree.nodes[v, PLACE] = length, v, at


@inner
def _rise(tree, at, length, v):
    """Let node `v` wait in place `at` or above it: those that are farther move down."""
    while at > 0:
        above = (at - 1) // 2
        if not _is_nearer(tree, length, v, above):
            break
        _put(tree, at, tree.waiting[above], tree.nodes[above, WAITING])
        at = above
    _put(tree, at, length, v)


@inner
def reach(tree, v, length, u, via):
    """Enter a path to node `v`, which is not done, if it is the shortest so far."""
    nodes, counts = tree.nodes, tree.counts
    if not length < tree.dist[v]:
        return
    at = nodes[v, PLACE]
    if at == NEW:
        nodes[counts[N_TOUCHED], TOUCHED] = v
        counts[N_TOUCHED] += 1
        at = counts[N_WAITING]
        counts[N_WAITING] += 1
    tree.dist[v], nodes[v, PARENT], nodes[v, VIA] = length, u, via
    _rise(tree, at, length, v)


@inner
def nearest(tree):
    """Take the nearest node that waits, whose path is then final; -1 if none does."""
    nodes, counts = tree.nodes, tree.counts
    if counts[N_WAITING] == 0:
        return np.int64(-1)
    u = nodes[0, WAITING]
    tree.is_done[u] = True
    counts[N_WAITING] -= 1
    # The gap moves down to the end of the heap, where the last one belongs, or a little above.
    n, at, below = counts[N_WAITING], np.int64(0), np.int64(1)
    while below < n:
        v, length = nodes[below, WAITING], tree.waiting[below]
        if below + 1 < n and not _is_nearer(tree, length, v, below + 1):
            below += 1
            v, length = nodes[below, WAITING], tree.waiting[below]
        _put(tree, at, length, v)
        at, below = below, 2 * below + 1
    _rise(tree, at, tree.waiting[n], nodes[n, WAITING])
    return u


@inner
def forget(tree):
    """Forget the paths of a search; who came before whom is read on a path alone."""
    for t in range(tree.counts[N_TOUCHED]):
        v = tree.nodes[t, TOUCHED]
        tree.dist[v], tree.is_done[v], tree.nodes[v, PLACE] = np.inf, False, NEW
    tree.counts[:] = 0
