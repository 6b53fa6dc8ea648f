r"""The batch problem solved exactly: integer labels, optimal prices, and equality of the two.

Problem (CoKe Eq. 6 with both bounds):

maximize ``sum_i s_{i, y_i}``   subject to   ``l_k <= n_k <= u_k``.

It is a transportation problem, so its linear relaxation has an integer optimum, and labels are
optimal if and only if prices exist with

* ``y_i = argmax_k s_ik + pi_k`` for every sample, and
* ``pi_k > 0`` only where ``n_k = l_k``, ``pi_k < 0`` only where ``n_k = u_k``.

Any prices give labels with the first property. Successive shortest paths reach the second, on a
graph of only k + 1 nodes: the clusters, and one node for the bounds. The arc from cluster a to
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
"""Paths between two looks at whether the time is up: a tenth of a second at 500 clusters."""


@kernel
def augmenting_paths(
    values: Array,
    clusters: Array,
    prices: Array,
    *,
    lower: Array,
    upper: Array,
    window: float,
    is_over: Callable[[], bool] | None = None,
) -> tuple[Array, Array, int, int, bool]:
    """Move samples along shortest augmenting paths until counts obey the bounds and the prices.

    Arguments are assumed checked: candidates as `select_candidates` gives them, at least one in
    each row and a good one first, because scores are counted from it; and bounds on the counts of
    these samples alone (they may be negative). Only samples whose best cluster leads by at most
    `window` move.

    Returns the slots, prices for which they are best (of the samples inside the window), the number
    of samples moved and that of the paths, and whether a search found none: then candidates or
    window are too few. So it is where `is_over` says yes, which is asked after every
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
        window=window,
    )
    n_moved, n_paths, is_stuck = flow.run(is_over)
    return (
        xp.asarray(flow.slots, dtype=xp.int64, device=device),
        xp.asarray(flow.prices, dtype=xp.float64, device=device),
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
    """Labels, prices and excesses of the reference text, in plain Python; node k is the bounds."""

    def __init__(
        self, rows: _Rows, prices: list[float], low: list[int], high: list[int], window: float
    ) -> None:
        self.rows, self.prices, self.low, self.high = rows, prices, low, high
        self.bounds = len(prices)
        leads, counts = self._label()  # step 1
        self.members: list[list[int]] = [[] for _ in prices]
        for i, row in enumerate(rows):
            if leads[i] <= window:
                self.members[row[self.slots[i]][0]].append(i)
        # Step 2: report.
        self.reported = [
            low[a] if p > 0 else high[a] if p < 0 else min(max(counts[a], low[a]), high[a])
            for a, p in enumerate(prices)
        ]
        self.excess = [n - r for n, r in zip(counts, self.reported, strict=True)]
        self.excess.append(-sum(self.excess))

    def run(self, is_over: Callable[[], bool] | None) -> tuple[int, int, bool]:
        """Empty every node that has an excess, the bounds first."""
        n_moved = n_paths = 0
        for source in (self.bounds, *range(self.bounds)):
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
        counts, leads = [0] * self.bounds, []
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
            (self.low if self.prices[a] > 0 else self.high)[a] - counts[a]
            if s + self.prices[a] == best
            else -math.inf
            for a, s in row
        ]
        return capacity.index(max(capacity))

    def _loss(self, i: int, v: int) -> float:
        """What sample i loses by going to v, before prices; infinite if v is no candidate."""
        _, score = self.rows[i][self.slots[i]]
        return next((score - s for b, s in self.rows[i] if b == v), math.inf)

    def _reduced_cost(self, loss: float, u: int, v: int) -> float:
        """What a sample loses by going from u to v, with prices."""
        return loss + (self.prices[u] - self.prices[v])

    def _search(self, source: int) -> tuple[int | None, _Tree]:
        """Step 3: Dijkstra's algorithm to the nearest node with a deficit, or to None."""
        n_nodes = self.bounds + 1
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
        if u == self.bounds:
            nodes = range(self.bounds)
            return [(v, -self.prices[v], -1) for v in nodes if self.reported[v] > self.low[v]]
        arcs = []
        if self.reported[u] < self.high[u]:
            arcs.append((self.bounds, self.prices[u], -1))
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
        rise = far - min(tree.dist[self.bounds], far)
        if rise > 0.0:
            self.prices = [p + rise for p in self.prices]
        self.prices = [
            p - (far - min(d, far)) for p, d in zip(self.prices, tree.dist, strict=False)
        ]
        for u, v in tree.path_to(end):  # rounding must not leave the wrong sign
            if u == self.bounds:
                self.prices[v] = min(self.prices[v], 0.0)
            elif v == self.bounds:
                self.prices[u] = max(self.prices[u], 0.0)

    def _residual_capacity(self, u: int, v: int, i: int) -> int:
        """How many units the arc from u to v takes at its reduced cost."""
        if u == self.bounds:
            return self.reported[v] - self.low[v]
        if v == self.bounds:
            return self.high[u] - self.reported[u]
        return len(self._alike(u, v, i))

    def _alike(self, u: int, v: int, i: int) -> list[int]:
        """The samples of u that lose by going to v just what sample i does, in order."""
        loss = self._loss(i, v)
        return [h for h in sorted(self.members[u]) if self._loss(h, v) == loss]

    def _send(self, u: int, v: int, i: int, units: int) -> int:
        """Send units along one arc; return how many samples moved."""
        if u == self.bounds:
            self.reported[v] -= units
            return 0
        if v == self.bounds:
            self.reported[u] += units
            return 0
        for h in self._alike(u, v, i)[:units]:
            self.slots[h] = [b for b, _ in self.rows[h]].index(v)
            self.members[u].remove(h)
            self.members[v].append(h)
        return units
