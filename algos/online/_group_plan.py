r"""Counts that a stream with groups can still end with, and which cluster its next row may join.

Of a pass the samples of each group are known, ``n_g``. A *plan* is one way to end it: whole
numbers ``x_gk``, at least the counts ``n_gk`` so far, inside all bounds, with ``sum_k x_gk = n_g``.
A row of group g may join cluster k if and only if some plan has ``x_gk > n_gk``. One plan is enough
to tell: where it has not, another one has if and only if ``x_gk < U_gk`` and the residual network
of this one has a path from cluster k to group g (docs/math/completion.md). A unit along that path,
and on from group g to cluster k, changes the plan.

=====================  ========================  ===============================
arc                    there while               a unit along it plans
=====================  ========================  ===============================
group h to cluster b   ``x_hb < U_hb``           one more of h in b
cluster a to group h   ``x_ha > n_ha, L_ha``     one less of h in a
cluster a to the root  ``sum_h x_ha < u_a``      a larger by one
root to cluster b      ``sum_h x_hb > l_b``      b smaller by one
=====================  ========================  ===============================
"""

from __future__ import annotations

from collections.abc import Iterator

import array_api_compat as compat

from ..bounds.groups import GroupBounds
from ..bounds.sizes import SizeBounds
from ..core.reads import entries
from ..core.types import Array

__all__ = ["GroupPlan"]


class GroupPlan:
    """Counts of groups in clusters, and a plan that they can end with; changed in place.

    Nodes are the k clusters, the root k, and group h as k + 1 + h.

    Parameters
    ----------
    counts, plan : (G + 1, k) int64 arrays
        The last row is of the samples of no group, which is a group without bounds.
    bounds : SizeBounds
    groups : GroupBounds
    """

    def __init__(self, counts: Array, plan: Array, bounds: SizeBounds, groups: GroupBounds) -> None:
        self.like, self.root = plan, bounds.n_clusters
        self.sizes = entries("sizes", groups.sizes)
        self.counts: list[list[int]] = self._rows(counts)
        self.planned: list[list[int]] = self._rows(plan)
        self.lower = [*self._rows(groups.lower), [0] * self.root]
        self.upper = [*self._rows(groups.upper), [self.sizes[-1]] * self.root]
        self.low, self.high = entries("lower", bounds.lower), entries("upper", bounds.upper)
        self.totals: list[int] = [sum(column) for column in zip(*self.planned, strict=True)]
        self.movable: list[set[int]] = [set() for _ in range(self.root)]
        for g in range(len(self.sizes)):
            for k in range(self.root):
                self._note(g, k)

    @property
    def plan(self) -> Array:
        """The plan as an array, (G + 1, k) int64."""
        xp, flat = compat.array_namespace(self.like), [x for row in self.planned for x in row]
        found = xp.asarray(flat, dtype=xp.int64, device=compat.device(self.like))
        return xp.reshape(found, self.like.shape)

    def is_inside(self) -> bool:
        """Whether the plan is one: inside all bounds, and of all samples."""
        tables = zip(self.counts, self.planned, self.lower, self.upper, strict=True)
        cells = (cell for rows in tables for cell in zip(*rows, strict=True))
        return (
            all(max(n, a) <= x <= b for n, x, a, b in cells)
            and all(a <= x <= b for a, x, b in zip(self.low, self.totals, self.high, strict=True))
            and [sum(row) for row in self.planned] == self.sizes
        )

    def labels(self, priced: Array, of_rows: Array) -> Array:
        """Put rows, one after the other, into the best cluster that each may join.

        Parameters
        ----------
        priced : (m, k) float64 array
        of_rows : (m,) int64 array
            Group of each row, G for none.
        """
        xp, k = compat.array_namespace(priced), self.root
        labels, table = entries("labels", xp.argmax(priced, axis=1)), None
        for i, g in enumerate(entries("of_rows", of_rows)):
            dead: set[int] = set()
            if self._take(g, labels[i], dead):
                continue
            if table is None:  # most blocks need none
                table = entries("priced", xp.reshape(priced, (-1,)))
            row = table[i * k : (i + 1) * k]
            order = sorted(range(k), key=row.__getitem__, reverse=True)
            labels[i] = next(j for j in order if self._take(g, j, dead))
        return xp.asarray(labels, dtype=xp.int64, device=compat.device(priced))

    def _rows(self, table: Array) -> list[list[int]]:
        xp, k = compat.array_namespace(table), self.root
        flat = entries("table", xp.reshape(table, (-1,)))
        return [flat[first : first + k] for first in range(0, len(flat), k)]

    def _take(self, g: int, k: int, dead: set[int]) -> bool:
        """Put a row of group g into cluster k, if it may join.

        `dead` are nodes from which no path leads to group g, which grow while one row is placed.
        """
        if self.planned[g][k] == self.counts[g][k] and not self._replan(g, k, dead):
            return False
        self.counts[g][k] += 1
        self._note(g, k)
        return True

    def _note(self, g: int, k: int) -> None:
        """Note whether the plan may have one less of group g in cluster k."""
        if self.planned[g][k] > max(self.counts[g][k], self.lower[g][k]):
            self.movable[k].add(g)
        else:
            self.movable[k].discard(g)

    def _replan(self, g: int, k: int, dead: set[int]) -> bool:
        """Plan one more of group g in cluster k by a shortest path, if there is one."""
        if self.planned[g][k] == self.upper[g][k] or k in dead:
            return False
        before, queue = {k: -1}, [k]
        for a in queue:
            for b in self._successors(a):
                if b in before or b in dead:
                    continue
                before[b] = a
                queue.append(b)
                if b < self.root and g in self.movable[b]:
                    self._send(g, k, b, before)
                    return True
        dead.update(queue)
        return False

    def _successors(self, v: int) -> Iterator[int]:
        """Nodes to which the residual network has an arc from v."""
        root = self.root
        if v > root:
            planned, upper = self.planned[v - root - 1], self.upper[v - root - 1]
            yield from (b for b in range(root) if planned[b] < upper[b])
        elif v == root:
            yield from (b for b in range(root) if self.totals[b] > self.low[b])
        else:
            if self.totals[v] < self.high[v]:
                yield root
            yield from (root + 1 + h for h in self.movable[v])

    def _send(self, g: int, k: int, end: int, before: dict[int, int]) -> None:
        """Plan one of group g in cluster k that was planned in `end`, and what this moves."""
        self._plan(g, end, -1)
        while end != k:
            above = before[end]
            if above > self.root:  # a group, which goes from one cluster to another
                self._plan(above - self.root - 1, end, 1)
                end = before[above]
                self._plan(above - self.root - 1, end, -1)
            else:
                end = above
        self._plan(g, k, 1)

    def _plan(self, g: int, k: int, units: int) -> None:
        self.planned[g][k] += units
        self.totals[k] += units
        self._note(g, k)
