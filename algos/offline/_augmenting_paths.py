r"""The batch problem solved exactly: integer labels, optimal prices, and equality of the two.

Problem (CoKe Eq. 6 with both bounds):

maximize ``sum_i s_{i, y_i}``   subject to   ``l_k <= n_k <= u_k``.

It is a transportation problem, so its linear relaxation has an integer optimum, and labels are
optimal if and only if prices exist with

* ``y_i = argmax_k s_ik + pi_k`` for every sample, and
* ``pi_k > 0`` only where ``n_k = l_k``, ``pi_k < 0`` only where ``n_k = u_k``.

Any prices give labels with the first property. Successive shortest paths establish the second, on
a graph of only k + 1 nodes: the clusters, and one node for the bounds. The arc from cluster a to
cluster b stands for the samples of a; its reduced cost is the least that one of them loses by going
to b, ``(s_ia + pi_a) - (s_ib + pi_b) >= 0``. The arcs between a cluster and the bounds cost the
price of the cluster, with either sign.

1. *Label* every sample by its best candidate. Samples that tie go where the residual capacity is
   largest.
2. *Report*: complementary slackness says which count each cluster must have at its price. What it
   has more is its excess, what it lacks its deficit; the node of the bounds balances them.
3. *Search*: Dijkstra's algorithm finds the shortest path from a node with an excess to the nearest
   node with a deficit.
4. *Augment*: send along the path as many units as the residual capacity of its arcs allows.
   Samples that are alike, such as equal rows, move together.
5. *Update* the prices by the distances: a price falls by what its distance lacks of the path's
   length. All reduced costs stay nonnegative, so labels stay optimal for their counts.
6. *Repeat* 3 to 5 until no node has an excess: then both properties hold.

The better the prices at the start, the fewer and the shorter the paths.

*Bounds on sets of clusters.* The sets may be a laminar family: of two that meet, one is part of the
other. Then they are a tree, whose root is the node of the bounds; an inner node is a set, its price
the sum of the prices of all sets that it lies in, and a cluster's price that of all sets it is in.
The arc between a node and its parent costs what the node's price adds. Bounds on groups of samples
are such a family: of each group in each cluster, and of each cluster (`algos.groups`).

=====================  ============  =======  ====================================================
paper                  here          shape    meaning
=====================  ============  =======  ====================================================
:math:`s_{i,k}`        ``values``    (m, w)   scores of the candidates (`_candidates`)
:math:`\mu_i`          ``slots``     (m,)     place of the label among the candidates
:math:`\rho - \rho'`   ``prices``    (k,)     pi, in units of score, float64
=====================  ============  =======  ====================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import array_api_compat as compat

from ...backends import kernel
from ..core.reads import entries
from ..core.types import Array

__all__ = ["augmenting_paths"]

_Rows = list[list[tuple[int, float]]]

PATHS_AT_ONCE = 32
"""Paths between two readings of the clock: a tenth of a second at 500 clusters."""


@kernel
def augmenting_paths(
    values: Array,
    clusters: Array,
    prices: Array,
    *,
    lower: Array,
    upper: Array,
    window: float,
    parents: Array | None = None,
    is_over: Callable[[], bool] | None = None,
) -> tuple[Array, Array, int, int, bool]:
    """Move samples along shortest augmenting paths until counts obey the bounds and the prices.

    Arguments are assumed checked: candidates as `select_candidates` gives them, at least one in
    each row and a good one first, because scores are counted from it; and bounds on the counts of
    these samples alone (they may be negative). Only samples whose best cluster leads by at most
    `window` move. With `parents`, (k,) int64, prices and bounds are those of the nodes of a tree,
    each before its parent; the root is k. Candidates may be any of the nodes.

    Returns the slots, prices for which they are best (of the samples inside the window), the number
    of samples moved and that of the paths, and whether a search found none: then candidates or
    window are too few. Likewise if `is_over` returns true, which is asked after every
    `PATHS_AT_ONCE` paths.
    """
    xp = compat.array_namespace(values)
    device = compat.device(values)
    m, width = values.shape
    names = entries("clusters", xp.reshape(clusters, (-1,)))
    # Counted from the first in each row: differences are what prices are compared with.
    values = xp.astype(values, xp.float64)
    scores = entries("values", xp.reshape(values - values[:, :1], (-1,)))
    rows = [
        [(int(names[e]), scores[e]) for e in range(i * width, (i + 1) * width) if names[e] >= 0]
        for i in range(m)
    ]
    flow = _Flow(
        rows=rows,
        prices=[float(p) for p in entries("prices", prices)],
        low=[int(v) for v in entries("lower", lower)],
        high=[int(v) for v in entries("upper", upper)],
        parents=None if parents is None else [int(u) for u in entries("parents", parents)],
        window=window,
    )
    n_moved, n_paths, is_stuck = flow.run(is_over)
    return (
        xp.asarray(flow.slots, dtype=xp.int64, device=device),
        xp.asarray(flow.prices[:-1], dtype=xp.float64, device=device),
        n_moved,
        n_paths,
        is_stuck,
    )


class _Tree(NamedTuple):
    """Shortest paths from one node: distances, the node before, and the sample on the arc."""

    dist: list[float]
    parent: list[int]
    via: list[int]

    def path_to(self, end: int) -> list[tuple[int, int]]:
        """Return the arcs of the path to a node, the last one first."""
        path, v = [], end
        while self.parent[v] >= 0:
            path.append((self.parent[v], v))
            v = self.parent[v]
        return path


class _Flow:
    """Labels, prices and excesses of the reference text, in plain Python.

    The last node is the root. Each node reports to its parent how many samples it has.
    """

    def __init__(
        self,
        rows: _Rows,
        prices: list[float],
        low: list[int],
        high: list[int],
        parents: list[int] | None,
        window: float,
    ) -> None:
        self.rows, self.low, self.high = rows, low, high
        self.root, self.prices = len(prices), [*prices, 0.0]
        self.parents = [self.root] * self.root if parents is None else parents
        leads, counts = self._label()  # step 1
        self.members: list[list[int]] = [[] for _ in range(self.root)]
        for i, row in enumerate(rows):
            if leads[i] <= window:
                self.members[row[self.slots[i]][0]].append(i)
        # Step 2: report.
        self.reported: list[int] = []
        self.excess = [*counts, -sum(counts)]
        for v, u in enumerate(self.parents):
            price = self.prices[v] - self.prices[u]
            inside = min(max(self.excess[v], low[v]), high[v])
            self.reported.append(low[v] if price > 0 else high[v] if price < 0 else inside)
            self.excess[v] -= self.reported[v]
            self.excess[u] += self.reported[v]

    def run(self, is_over: Callable[[], bool] | None) -> tuple[int, int, bool]:
        """Empty every node that has an excess, the root first."""
        n_moved = n_paths = 0
        for source in (self.root, *range(self.root)):
            while self.excess[source] > 0:  # step 6: repeat
                end, tree = self._search(source)  # step 3
                if end is None:
                    return n_moved, n_paths, True
                n_moved += self._augment(source, end, tree)  # step 4
                n_paths += 1
                self._update(end, tree)  # step 5
                if is_over is not None and n_paths % PATHS_AT_ONCE == 0 and is_over():
                    return n_moved, n_paths, True
        return n_moved, n_paths, False

    def _label(self) -> tuple[list[float], list[int]]:
        """Step 1: label every sample; return by how much its cluster leads, and the counts."""
        counts, leads = [0] * self.root, []
        self.slots: list[int] = []
        for row in self.rows:
            priced = [s + self.prices[a] for a, s in row]
            slot = priced.index(max(priced))
            self.slots.append(slot)
            best, second = sorted([*priced, -math.inf])[:-3:-1]
            leads.append(best - second)
            if best != second:
                counts[row[slot][0]] += 1
        for i, row in enumerate(self.rows):
            if leads[i] == 0.0:
                self.slots[i] = self._least_filled(row, counts)
                counts[row[self.slots[i]][0]] += 1
        return leads, counts

    def _least_filled(self, row: list[tuple[int, float]], counts: list[int]) -> int:
        """Of the candidates that tie for the best, the one with the largest residual capacity."""
        best = max(s + self.prices[a] for a, s in row)
        capacity = [
            (self.low if self._own_price(a) > 0 else self.high)[a] - counts[a]
            if s + self.prices[a] == best
            else -math.inf
            for a, s in row
        ]
        return capacity.index(max(capacity))

    def _own_price(self, v: int) -> float:
        """What a node adds to the price of its parent."""
        return self.prices[v] - self.prices[self.parents[v]]

    def _loss(self, i: int, v: int) -> float:
        """What sample i loses by going to v, before prices; infinite if v is no candidate."""
        _, score = self.rows[i][self.slots[i]]
        return next((score - s for b, s in self.rows[i] if b == v), math.inf)

    def _reduced_cost(self, loss: float, u: int, v: int) -> float:
        """What a sample loses by going from u to v, with prices."""
        return loss + (self.prices[u] - self.prices[v])

    def _search(self, source: int) -> tuple[int | None, _Tree]:
        """Step 3: Dijkstra's algorithm to the nearest node with a deficit, or to None."""
        n_nodes = self.root + 1
        dist, parent, via = [math.inf] * n_nodes, [-1] * n_nodes, [-1] * n_nodes
        dist[source] = 0.0
        tree = _Tree(dist, parent, via)
        unvisited = set(range(n_nodes))
        while True:
            u = min(unvisited, key=lambda v: (dist[v], v))
            if dist[u] == math.inf:
                return None, tree
            if self.excess[u] < 0:
                return u, tree
            unvisited.remove(u)
            for v, cost, i in self._arcs(u):
                # Rounding can leave an arc a few ulp below 0.
                length = dist[u] + max(cost, 0.0)
                if v in unvisited and length < dist[v]:
                    dist[v], parent[v], via[v] = length, u, i

    def _arcs(self, u: int) -> list[tuple[int, float, int]]:
        """The arcs that leave a node: where to, reduced cost, and the sample, or -1."""
        arcs = [
            (v, -self._own_price(v), -1)
            for v, parent in enumerate(self.parents)
            if parent == u and self.reported[v] > self.low[v]
        ]
        if u == self.root:
            return arcs
        if self.reported[u] < self.high[u]:
            arcs.append((self.parents[u], self._own_price(u), -1))
        least: dict[int, tuple[float, int]] = {}  # of equal samples the first
        for i in self.members[u]:
            for v, _ in self.rows[i]:
                least[v] = min(least.get(v, (math.inf, i)), (self._loss(i, v), i))
        arcs += [(v, self._reduced_cost(loss, u, v), i) for v, (loss, i) in least.items()]
        return arcs

    def _augment(self, source: int, end: int, tree: _Tree) -> int:
        """Step 4: send what the path can take; return how many samples moved."""
        path = tree.path_to(end)
        units = min(self.excess[source], -self.excess[end])
        for u, v in path:
            units = min(units, self._residual_capacity(u, v, tree.via[v]))
        moves = sum(self._send(u, v, tree.via[v], units) for u, v in path)
        self.excess[source] -= units
        self.excess[end] += units
        return moves

    def _update(self, end: int, tree: _Tree) -> None:
        """Step 5: new prices, at which the arcs of the path cost nothing."""
        far = tree.dist[end]
        rise = far - min(tree.dist[self.root], far)
        for v in range(self.root):
            self.prices[v] = (self.prices[v] + rise) - (far - min(tree.dist[v], far))
        for u, v in tree.path_to(end):  # rounding must not leave the wrong sign
            if tree.via[v] >= 0:
                continue
            if self._is_child(v, u):
                self.prices[v] = min(self.prices[v], self.prices[u])
            else:
                self.prices[u] = max(self.prices[u], self.prices[v])

    def _is_child(self, v: int, u: int) -> bool:
        """Whether u is the parent of v, of two nodes of which one is the other's."""
        return v < self.root and self.parents[v] == u

    def _residual_capacity(self, u: int, v: int, i: int) -> int:
        """How many units the arc from u to v takes at its reduced cost."""
        if i >= 0:
            return len(self._alike(u, v, i))
        if self._is_child(v, u):
            return self.reported[v] - self.low[v]
        return self.high[u] - self.reported[u]

    def _alike(self, u: int, v: int, i: int) -> list[int]:
        """The samples of u that lose by going to v just what sample i does, in order."""
        loss = self._loss(i, v)
        return [h for h in sorted(self.members[u]) if self._loss(h, v) == loss]

    def _send(self, u: int, v: int, i: int, units: int) -> int:
        """Send units along one arc; return how many samples moved."""
        if i < 0:
            if self._is_child(v, u):
                self.reported[v] -= units
            else:
                self.reported[u] += units
            return 0
        for h in self._alike(u, v, i)[:units]:
            self.slots[h] = [b for b, _ in self.rows[h]].index(v)
            self.members[u].remove(h)
            self.members[v].append(h)
        return units
