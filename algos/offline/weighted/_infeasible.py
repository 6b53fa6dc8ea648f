"""Why no shares of rows have loads inside: clusters that need more than may join them, or less.

Rows that may join the same clusters are one. The program that buys as little load as possible has
prices of 0 and one unit at a corner (its matrix is that of a network), and the clusters of such a
price are the cut of Hoffman's theorem: what they need, or hold, is compared with the sizes of the
rows, added up exactly.
"""

from __future__ import annotations

import math

import array_api_compat as compat

from ...bounds.loads import LOAD_ROUNDING
from ...core.errors import InfeasibleBoundsError
from ...core.reads import entries
from ...core.types import Array
from ...scores.sources import ScoreSource
from ...scores.statistics import allowed_pairs
from ._program import Program, corner_of

__all__ = ["check_shares_exist"]


def check_shares_exist(source: ScoreSource, sizes: Array, lower: Array, upper: Array) -> None:
    """Raise if no shares of rows have loads inside, naming clusters and parts of the total size."""
    xp, k = compat.array_namespace(sizes), source.n_clusters
    allowed = xp.reshape(xp.astype(allowed_pairs(source), xp.int64), (-1,))
    flat, each = entries("allowed", allowed), entries("sizes", sizes)
    groups: dict[tuple[int, ...], list[float]] = {}
    for i, size in enumerate(each):
        groups.setdefault(tuple(flat[i * k : (i + 1) * k]), []).append(size)
    patterns = {pattern: math.fsum(part) for pattern, part in groups.items()}
    pairs = [
        (i, j, size)
        for i, (pattern, size) in enumerate(patterns.items())
        for j in range(k)
        if pattern[j]
    ]
    if not pairs:
        return
    rows, clusters, masses = (list(column) for column in zip(*pairs, strict=True))
    low, high = entries("lower", lower), entries("upper", upper)
    none, one = [0.0] * k, [1.0] * k
    gains = [0.0] * len(pairs)
    found = corner_of(Program(rows, clusters, gains, masses, none, low, high, one, one))
    total = math.fsum(each)
    for sign, side in ((1.0, low), (-1.0, high)):
        names = [j for j in range(k) if sign * found.changes[j] > 0.5]
        bound = math.fsum(side[j] for j in names)
        # Who may join any of them, or may join no other.
        may = (
            [any(p[j] for j in names) for p in patterns]
            if sign > 0.0
            else [not any(p[j] for j in range(k) if j not in names) for p in patterns]
        )
        load = math.fsum(size for size, ok in zip(patterns.values(), may, strict=True) if ok)
        if sign * (bound - load) > LOAD_ROUNDING * total:
            _raise(names, bound / total, load / total, is_lower=sign > 0.0)


def _raise(names: list[int], bound: float, load: float, *, is_lower: bool) -> None:
    words = [str(j) for j in names[:10]] + ([f"{len(names) - 10} more"] if len(names) > 10 else [])
    several = len(words) > 1
    clusters = f"clusters {', '.join(words[:-1])} and {words[-1]}" if several else words[0]
    clusters = clusters if several else f"cluster {clusters}"
    if is_lower:
        need = "need" if several else "needs"
        what = f"{clusters} {need} at least {bound:.4%} of all sizes, but only {load:.4%} may join"
    else:
        hold = "hold" if several else "holds"
        what = f"{load:.4%} of all sizes may join only {clusters}, which {hold} {bound:.4%}"
    msg = f"no labels have loads inside the bounds: {what}. To fix this, widen them or allow pairs"
    raise InfeasibleBoundsError(msg, clusters=tuple(names), excess=1)
