"""The samples that may go from one cluster to another, as pairing heaps: for `augmenting_paths`.

Node ``t * width + j`` is the candidate in slot j of the t-th sample that may move. It is in the
heap from that sample's cluster to the candidate, ordered by what the sample loses by going there,
before prices, then by its row. So the root of a heap is the sample that a path from one cluster to
the other takes; prices change no order.

Children of a node, and roots of a cluster, are doubly linked lists: a node is taken out of the
middle of a heap in constant time, plus linking its children. Samples of a cluster that no search
has visited are in a plain list.

Arrays are few and have columns, because each array in the arguments of a compiled function is seven
numbers to the compiler.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .numba_compilation import INNER

__all__ = [
    "Heaps",
    "empty_heaps",
    "fill",
    "inner",
    "is_filled",
    "join",
    "name_roots",
    "put_in",
    "take_out",
]

Integers = NDArray[np.signedinteger[Any]]

CHILD, AFTER, BEFORE, TO = 0, 1, 2, 3
"""Columns of ``links``: first child, next in the list, the one before, or a child's parent; and the
cluster of the candidate, which a search reads more often than anything else."""

FIRST, ROOT_TO, WAITING = 0, 1, 2
"""Columns of ``of_cluster``: a root, scratch (see `name_roots`), and a sample not in heaps yet."""

ROW, FOLLOWING, STACK = 0, 1, 2
"""Columns of ``of_sample``: its row, the next that waits, and scratch."""

NONE = -1

# Numbers in calls of inner functions are written as np.int64(0): for a literal numba would compile
# them once more.

inner = njit(**INNER, forceinline=True, error_model="numpy")
"""Marks functions that only compiled ones call."""


class Heaps(NamedTuple):
    """All heaps; `loss` (n_nodes,) is what the sample of a node loses, before prices."""

    links: Integers  # (n_nodes, 4)
    loss: NDArray[np.float64]
    of_cluster: Integers  # (k, 3)
    of_sample: Integers  # (n, 3)


def empty_heaps(rows: NDArray[np.int64], width: int, k: int) -> Heaps:
    """Return heaps of some rows, with nothing in them."""
    n, n_nodes = rows.size, rows.size * width
    kind = _integers(int(np.max(rows, initial=n_nodes)))
    of_sample = np.empty((n, 3), dtype=kind)
    of_sample[:, ROW] = rows
    return Heaps(
        np.empty((n_nodes, 4), dtype=kind),
        np.empty(n_nodes),
        np.full((k, 3), NONE, dtype=kind),
        of_sample,
    )


def _integers(largest: int) -> type[np.signedinteger[Any]]:
    """Half the memory, unless rows or nodes are more than that can count."""
    return np.int32 if largest < 2**31 else np.int64


@inner
def _is_before(heaps, x, y):
    """Whether node `x` has the smaller loss, or as small a one and the smaller row."""
    loss = heaps.loss
    return loss[x] < loss[y] or (loss[x] == loss[y] and x < y)  # nodes are in the order of rows


@inner
def _hang(links, x, y):
    """Make `y` the first child of `x`."""
    child = links[x, CHILD]
    links[x, CHILD], links[y, BEFORE], links[y, AFTER] = y, x, child
    if child >= 0:
        links[child, BEFORE] = y


@inner
def _replace(heaps, u, x, y):
    """Put node `y`, or none, where `x` is: among the roots of cluster `u`, or below a node."""
    links = heaps.links
    before, after = links[x, BEFORE], links[x, AFTER]
    following, preceding = after, before
    if y >= 0:
        links[y, BEFORE], links[y, AFTER] = before, after
        following = preceding = y
    if before < 0:
        heaps.of_cluster[u, FIRST] = following
    elif links[before, CHILD] == x:
        links[before, CHILD] = following
    else:
        links[before, AFTER] = following
    if after >= 0:
        links[after, BEFORE] = preceding


@inner
def _children_linked(heaps, x):
    """Link the children of `x` into one tree: in pairs from the left, these from the right."""
    links, root = heaps.links, np.int64(NONE)
    y = np.int64(links[x, CHILD])
    while y >= 0:  # pairs are kept in a list that is linked by AFTER
        z, following = np.int64(links[y, AFTER]), np.int64(NONE)
        if z >= 0:
            following = np.int64(links[z, AFTER])
            if _is_before(heaps, z, y):
                y, z = z, y
            _hang(links, y, z)
        links[y, AFTER], root = root, y
        y = following
    if root < 0:
        return root
    y = np.int64(links[root, AFTER])
    while y >= 0:
        following = np.int64(links[y, AFTER])
        if _is_before(heaps, y, root):
            root, y = y, root
        _hang(links, root, y)
        y = following
    return root


@inner
def take_out(heaps, clusters, u, t, slot):
    """Take the t-th sample out of the heaps from cluster `u`, which it is in by its `slot`."""
    width, i = clusters.shape[1], heaps.of_sample[t, ROW]
    for j in range(width):
        if clusters[i, j] < 0:
            break
        if j != slot:
            x = t * width + j
            _replace(heaps, u, x, _children_linked(heaps, x))


@inner
def put_in(heaps, values, clusters, u, t, slot):
    """Put the t-th sample into the heaps from cluster `u`, whose roots `ROOT_TO` names."""
    width, i, links, ends = (
        clusters.shape[1],
        heaps.of_sample[t, ROW],
        heaps.links,
        heaps.of_cluster,
    )
    base = np.float64(values[i, 0])
    label = np.float64(values[i, slot]) - base
    for j in range(width):
        v = clusters[i, j]
        if v < 0:
            break
        if j == slot:
            continue
        x, root = t * width + j, np.int64(ends[v, ROOT_TO])
        heaps.loss[x] = label - (np.float64(values[i, j]) - base)
        links[x, CHILD] = links[x, BEFORE] = links[x, AFTER] = NONE
        links[x, TO] = v
        if root < 0:
            first = ends[u, FIRST]
            links[x, AFTER], ends[u, FIRST], ends[v, ROOT_TO] = first, x, x
            if first >= 0:
                links[first, BEFORE] = x
        elif _is_before(heaps, x, root):
            _replace(heaps, u, root, x)
            _hang(links, x, root)
            ends[v, ROOT_TO] = x
        else:
            _hang(links, root, x)


@inner
def name_roots(heaps, u, is_named):
    """Enter the roots of cluster `u` into the column `ROOT_TO`, or clear it (`is_named` 0)."""
    x = np.int64(heaps.of_cluster[u, FIRST])
    while x >= 0:
        heaps.of_cluster[heaps.links[x, TO], ROOT_TO] = x if is_named else NONE
        x = np.int64(heaps.links[x, AFTER])


@inner
def join(heaps, u, t):
    """Let the t-th sample wait, for cluster `u` to be visited."""
    heaps.of_sample[t, FOLLOWING] = heaps.of_cluster[u, WAITING]
    heaps.of_cluster[u, WAITING] = t


@inner
def is_filled(heaps, u):
    """Whether the samples of cluster `u` are in its heaps: none waits."""
    return heaps.of_cluster[u, WAITING] == NONE


@inner
def fill(heaps, values, clusters, slots, u):
    """Put the samples of cluster `u` into its heaps, once a search comes by."""
    t = np.int64(heaps.of_cluster[u, WAITING])
    while t >= 0:
        put_in(heaps, values, clusters, u, t, slots[heaps.of_sample[t, ROW]])
        t = np.int64(heaps.of_sample[t, FOLLOWING])
    name_roots(heaps, u, np.int64(0))
    heaps.of_cluster[u, WAITING] = NONE
