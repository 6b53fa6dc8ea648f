"""The best labels of a few rows, or blocks of rows, with sizes: an integer program, by HiGHS."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["OFF", "Whole", "best_whole"]

RANGE = 2.0**20
"""Largest loss that HiGHS sees: it ends within 1e-6 of the best, and takes 1e-7 for nothing."""

OFF = 2.0**-39
"""What its answer may lack, of the largest loss."""


class Whole(NamedTuple):
    """The best labels that were found, or None, and a bound.

    Attributes
    ----------
    labels : list of int, or None
    bound : float, or None
        No labels are worth more. None: the search has shown that there are none.
    is_best : bool
        Whether the search has ended: the labels lack no more than `OFF`.
    """

    labels: list[int] | None
    bound: float | None
    is_best: bool


def best_whole(
    values: list[list[float]],
    sizes: Sequence[float],
    lower: Sequence[float],
    upper: Sequence[float],
    *,
    apart: Sequence[tuple[int, int]] = (),
    seconds: float = 60.0,
) -> Whole:
    """Return labels whose loads are between bounds, by branch and bound.

    Parameters
    ----------
    values : n lists of k floats
        What a row is worth in a cluster; minus infinity forbids it.
    sizes : n numbers
    lower, upper : k numbers
        Bounds on the sum of the sizes in each cluster.
    apart : pairs of rows
        That have different clusters.
    seconds : float
        After which the search ends.

    Examples
    --------
    >>> values = [[3.0, 0.0], [2.0, 1.0], [0.0, 0.0]]
    >>> best_whole(values, [2, 1, 1], [2, 2], [2, 2], apart=[(0, 1)]).labels
    [0, 1, 1]
    """
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import coo_array

    n, k = len(values), len(lower)
    best = [max(row) for row in values]
    flat = [(v, b) for row, b in zip(values, best, strict=True) for v in row]
    loss = [b - v if v > -math.inf else 0.0 for v, b in flat]
    unit, mass = (max(loss) or 1.0) / RANGE, max(sizes) or 1.0
    # Lines: each row has one cluster, each cluster its load, each pair at most one in each.
    of_pairs = [(n + k + p * k, i) for p, pair in enumerate(apart) for i in pair]
    terms = [(i, i * k + j, 1.0) for i in range(n) for j in range(k)]
    terms += [(n + j, i * k + j, w / mass) for i, w in enumerate(sizes) for j in range(k)]
    terms += [(first + j, i * k + j, 1.0) for first, i in of_pairs for j in range(k)]
    lines, columns, entries = zip(*terms, strict=True)
    m = len(apart) * k
    matrix = coo_array((entries, (lines, columns))).tocsr()
    low, high = ([1.0] * n + [bound / mass for bound in side] for side in (lower, upper))
    found = milp(
        [one / unit for one in loss],
        constraints=LinearConstraint(matrix, low + [0.0] * m, high + [1.0] * m),
        bounds=Bounds(0.0, [float(v > -math.inf) for v, _ in flat]),
        integrality=[1] * (n * k),
        options={"time_limit": seconds, "mip_rel_gap": 0.0},
    )
    if found.status == 2:
        return Whole(None, None, True)
    lost = found.mip_dual_bound if found.mip_dual_bound is not None else 0.0
    bound = math.fsum(best) - unit * (lost - 1e-5)
    if found.x is None:
        return Whole(None, bound, False)
    return Whole(found.x.reshape(n, k).argmax(axis=1).tolist(), bound, found.status == 0)
