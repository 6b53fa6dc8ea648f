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
samples of a, and the extra node stands for the bounds. Lowering prices by what the distances lack
of the longest keeps all arcs nonnegative (successive shortest paths), so the labels stay optimal
for their counts, and end optimal. The better the prices at the start, the fewer and the shorter the
chains: a search ends at the first cluster with room.

Samples that are alike, such as equal rows, move together, as many as the chain can take.

=====================  ============  =======  ====================================================
paper                  here          shape    meaning
=====================  ============  =======  ====================================================
:math:`s_{i,k}`        ``values``    (m, w)   scores of the listed clusters (`shortlists`)
:math:`\mu_i`          ``slots``     (m,)     place of the label in its list
:math:`\rho - \rho'`   ``prices``    (k,)     pi, in units of score, float64
=====================  ============  =======  ====================================================
"""

from __future__ import annotations

import math

import array_api_compat as compat

from ...backends import kernel
from ..bounds.sizes import entries
from ..core.types import Array

__all__ = ["shortest_moves"]

_Lists = list[list[tuple[int, float]]]


@kernel
def shortest_moves(
    values: Array,
    clusters: Array,
    prices: Array,
    *,
    lower: Array,
    upper: Array,
    window: float,
) -> tuple[Array, Array, int, bool]:
    """Move samples along shortest chains until the counts obey the bounds and the prices.

    Arguments are assumed checked: lists as `shortlists` gives them, each with one cluster at least
    and a good one first, because scores are counted from it; and bounds on the counts of the listed
    samples alone (they may be negative). Only samples whose best cluster leads by at most `window`
    move.

    Returns the slots, prices for which they are best (of the samples inside the window), the number
    of samples moved, and whether a chain found no way: then lists or window are too short.
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
    pi = [float(p) for p in entries("prices", prices)]
    low = [int(v) for v in entries("lower", lower)]
    high = [int(v) for v in entries("upper", upper)]
    chains = _Chains(rows, pi, low, high, window)
    moves, stuck = chains.run()
    return (
        xp.asarray(chains.slots, dtype=xp.int64, device=device),
        xp.asarray(chains.pi, dtype=xp.float64, device=device),
        moves,
        stuck,
    )


class _Chains:
    """The state of the reference text, in plain Python."""

    def __init__(
        self, rows: _Lists, pi: list[float], low: list[int], high: list[int], window: float
    ) -> None:
        self.rows, self.pi, self.low, self.high = rows, pi, low, high
        counts = [0] * len(pi)
        self.slots = [0] * len(rows)
        margins = []
        for i, row in enumerate(rows):
            priced = [s + pi[a] for a, s in row]
            self.slots[i] = priced.index(max(priced))
            best, second = sorted([*priced, -math.inf])[:-3:-1]
            margins.append(best - second)
            if best != second:
                counts[row[self.slots[i]][0]] += 1
        for i, row in enumerate(rows):
            if margins[i] == 0.0:  # ties go where most room is
                self.slots[i] = self._roomiest(row, counts)
                counts[row[self.slots[i]][0]] += 1
        self.members: list[list[int]] = [[] for _ in pi]
        for i, row in enumerate(rows):
            if margins[i] <= window:
                self.members[row[self.slots[i]][0]].append(i)
        # What complementary slackness asks each cluster to report to the bounds (node k), and
        # which nodes have more than they report.
        self.reported = [
            low[a] if p > 0 else high[a] if p < 0 else min(max(counts[a], low[a]), high[a])
            for a, p in enumerate(pi)
        ]
        self.excess = [n - r for n, r in zip(counts, self.reported, strict=True)]
        self.excess.append(-sum(self.excess))

    def run(self) -> tuple[int, bool]:
        """Empty every node that has too many, the bounds first."""
        k, moves = len(self.pi), 0
        for source in (k, *range(k)):
            while self.excess[source] > 0:
                end, dist, parent, via = self._shortest_way(source)
                if end is None:
                    return moves, True
                path, v = [], end
                while v != source:
                    path.append((parent[v], v))
                    v = parent[v]
                units = min(self.excess[source], -self.excess[end])
                for u, v in path:
                    units = min(units, self._room(u, v, via[v]))
                for u, v in path:
                    moves += self._move(u, v, via[v], units)
                self.excess[source] -= units
                self.excess[end] += units
                far = dist[end]
                rise = far - min(dist[k], far)
                if rise > 0.0:
                    self.pi = [p + rise for p in self.pi]
                self.pi = [p - (far - min(d, far)) for p, d in zip(self.pi, dist, strict=False)]
                for u, v in path:
                    if u == k:
                        self.pi[v] = min(self.pi[v], 0.0)
                    elif v == k:
                        self.pi[u] = max(self.pi[u], 0.0)
        return moves, False

    def _roomiest(self, row: list[tuple[int, float]], counts: list[int]) -> int:
        best = max(s + self.pi[a] for a, s in row)
        room = [
            (self.low if self.pi[a] > 0 else self.high)[a] - counts[a]
            if s + self.pi[a] == best
            else -math.inf
            for a, s in row
        ]
        return room.index(max(room))

    def _loss(self, i: int, v: int) -> float:
        """What sample i loses by leaving its cluster for v; infinite where v is not listed."""
        own, score = self.rows[i][self.slots[i]]
        for b, s in self.rows[i]:
            if b == v:
                return (score + self.pi[own]) - (s + self.pi[v])
        return math.inf

    def _shortest_way(self, source: int) -> tuple[int | None, list[float], list[int], list[int]]:
        """Dijkstra to the nearest node with a deficit."""
        k = len(self.pi)
        dist, parent, via = [math.inf] * (k + 1), [-1] * (k + 1), [-1] * (k + 1)
        dist[source] = 0.0
        nodes = set(range(k + 1))

        def reach(v: int, length: float, u: int, i: int) -> None:
            # Rounding can leave an arc a few ulp below 0.
            if v in nodes and dist[u] + max(length, 0.0) < dist[v]:
                dist[v], parent[v], via[v] = dist[u] + max(length, 0.0), u, i

        while True:
            u = min(nodes, key=lambda v: (dist[v], v))
            if dist[u] == math.inf:
                return None, dist, parent, via
            if self.excess[u] < 0:
                return u, dist, parent, via
            nodes.remove(u)
            if u == k:
                for v in range(k):
                    if self.reported[v] > self.low[v]:
                        reach(v, -self.pi[v], u, -1)
                continue
            if self.reported[u] < self.high[u]:
                reach(k, self.pi[u], u, -1)
            for i in self.members[u]:
                for v, _ in self.rows[i]:
                    reach(v, self._loss(i, v), u, i)

    def _room(self, u: int, v: int, i: int) -> int:
        """How many units the arc from u to v takes at its price."""
        k = len(self.pi)
        if u == k:
            return self.reported[v] - self.low[v]
        if v == k:
            return self.high[u] - self.reported[u]
        loss = self._loss(i, v)
        return sum(self._loss(h, v) == loss for h in self.members[u])

    def _move(self, u: int, v: int, i: int, units: int) -> int:
        """Send units along the arc; returns how many samples moved."""
        k = len(self.pi)
        if u == k:
            self.reported[v] -= units
            return 0
        if v == k:
            self.reported[u] += units
            return 0
        loss = self._loss(i, v)
        alike = [h for h in self.members[u] if self._loss(h, v) == loss][:units]
        for h in alike:
            self.slots[h] = [b for b, _ in self.rows[h]].index(v)
            self.members[u].remove(h)
            self.members[v].append(h)
        return units
