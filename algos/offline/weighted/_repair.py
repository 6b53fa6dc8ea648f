"""Moves and swaps of some rows that bring loads inside their bounds, at the least loss each.

*Excess* is what a load is outside its bounds. A step moves a row into or out of a cluster that has
some, or swaps two rows, so that the excess of the two clusters falls; of all such steps it loses
least for what the excess falls. Bin packing is NP-hard: the search may end before all is inside.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import array_api_compat as compat

from ...core.reads import entries, read
from ...core.types import Array

__all__ = ["repaired"]

LEAST_FALL = 1e-3
"""Of the excess: a step by which it falls less is none, so that steps come to an end."""

STEPS_PER_CLUSTER = 16
"""Steps of a repair at most: most clusters need one."""

MOST_PAIRS = 2**16
"""Pairs of rows that a search for a swap looks at."""


class _Loads(NamedTuple):
    """Loads of all clusters, or of those of some rows, and their bounds."""

    load: Array
    lower: Array
    upper: Array

    def of(self, clusters: Array) -> _Loads:
        """The same of some clusters, (m,) int64."""
        xp = compat.array_namespace(clusters)
        return _Loads(*(xp.take(part, clusters) for part in self))

    def excess(self, added: Array | float = 0.0) -> Array:
        """How far loads would be outside, of the shape that added loads have with them."""
        xp, load = compat.array_namespace(self.load), self.load + added
        return xp.clip(xp.maximum(self.lower - load, load - self.upper), min=0.0)

    def fall(self, added: Array) -> Array:
        """By how much the excess falls."""
        return self.excess() - self.excess(added)


def repaired(
    scores: Array, sizes: Array, labels: Array, loads: Array, lower: Array, upper: Array
) -> Array | None:
    """Return labels of these rows with all loads inside, or None.

    Parameters
    ----------
    scores : (m, k) float64 array
        Minus infinity where a row must not go.
    sizes, labels : (m,) arrays
    loads, lower, upper : (k,) float64 arrays
        Loads are of all rows, also of those that are not here.

    Examples
    --------
    >>> import numpy as np
    >>> scores, sizes = np.asarray([[1.0, 0.9], [1.0, 0.0]]), np.asarray([2.0, 3.0])
    >>> most = np.asarray([4.0, 4.0])
    >>> repaired(scores, sizes, np.asarray([0, 0]), np.asarray([5.0, 0.0]), 0.0 * most, most)
    array([1, 0])
    """
    xp, (m, k) = compat.array_namespace(scores), scores.shape
    rows, clusters = (xp.arange(n, dtype=xp.int64, device=compat.device(labels)) for n in (m, k))
    for _ in range(STEPS_PER_CLUSTER * k):
        state = _Loads(loads, lower, upper)
        outside = entries("excess", state.excess())
        worst = sorted((c for c in range(k) if outside[c] > 0.0), key=lambda c: -outside[c])
        if not worst:
            return labels
        steps = (_best_step(scores, sizes, labels, state, c, outside[c]) for c in worst)
        step = next((step for step in steps if step), None)
        if step is None:
            return None
        for row, target in step:
            change = xp.astype(clusters == target, xp.float64)
            change = change - xp.astype(clusters == labels[row], xp.float64)
            loads = loads + sizes[row] * change
            labels = xp.where(rows == row, xp.full_like(labels, target), labels)
    return None


def _best_step(
    scores: Array, sizes: Array, labels: Array, loads: _Loads, cluster: int, excess: float
) -> list[tuple[int, int]]:
    """Rows and where they go: a move if there is one, else a swap, else none."""
    xp = compat.array_namespace(scores)
    own = xp.take_along_axis(scores, labels[:, None], axis=1)[:, 0]
    order = xp.argsort(xp.astype(labels != cluster, xp.int8), stable=True)
    n_here = int(xp.sum(xp.astype(labels == cluster, xp.int64)))
    here, others = order[:n_here], order[n_here:]
    this = loads.of(xp.asarray([cluster], dtype=xp.int64, device=compat.device(labels)))

    def size(rows: Array) -> Array:
        return xp.take(sizes, rows)

    def best(loss: Array, fall: Array) -> tuple[int, int] | None:
        """The place of the least loss for what the excess falls."""
        may = (fall >= LEAST_FALL * excess) & xp.isfinite(loss)
        rate = xp.where(may, loss / xp.where(may, fall, xp.ones_like(fall)), math.inf + 0.0 * fall)
        if not math.prod(rate.shape):
            return None
        place = int(xp.argmin(rate))
        (least,) = read(xp.min(rate))
        return divmod(place, rate.shape[1]) if least < math.inf else None

    if float(this.load[0]) > float(this.upper[0]):
        w = size(here)[:, None]
        loss = xp.take(own, here)[:, None] - xp.take(scores, here, axis=0)
        found = best(loss, this.fall(-w) + loads.fall(w))
        if found is not None:  # never its own: loads that grow and fall as much gain nothing
            return [(int(here[found[0]]), found[1])]
    else:
        w = size(others)
        loss = xp.take(own - scores[:, cluster], others)
        fall = this.fall(w) + loads.of(xp.take(labels, others)).fall(-w)
        found = best(loss[:, None], fall[:, None])
        if found is not None:
            return [(int(others[found[0]]), cluster)]
    others = others[: min(MOST_PAIRS // max(n_here, 1), int(others.shape[0]))]
    names = xp.take(labels, others)
    gain = size(others)[None, :] - size(here)[:, None]
    loss = xp.take(own, here)[:, None] + xp.take(own - scores[:, cluster], others)[None, :]
    loss = loss - xp.take(xp.take(scores, here, axis=0), names, axis=1)
    found = best(loss, this.fall(gain) + loads.of(names).fall(-gain))
    if found is None:
        return []
    i, j = found
    return [(int(here[i]), int(names[j])), (int(others[j]), cluster)]
