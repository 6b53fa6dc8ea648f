"""Labels of few blocks of rows as an integer program, by HiGHS."""

from __future__ import annotations

import math

from ...core.errors import InfeasibleBoundsError

__all__ = ["OFF", "best_of_blocks"]

SECONDS = 60.0

RANGE = 2.0**20
"""Largest value that HiGHS sees: it ends within 1e-6 of the best, and takes 1e-7 for nothing."""

OFF = 2.0**-40
"""What its answer may lack, of the largest value and for each block."""


def best_of_blocks(
    values: list[list[float]],
    sizes: list[int],
    apart: list[tuple[int, int]],
    lower: list[int],
    upper: list[int],
) -> list[int] | None:
    """Return the best cluster of each block, to `OFF`, or None where time is up.

    Parameters
    ----------
    values : C lists of k floats
        What a block is worth in a cluster; minus infinity forbids it.
    sizes : C ints
    apart : list of pairs of blocks
        That have different clusters.
    lower, upper : k ints
        Bounds on the sum of the sizes in each cluster.

    Raises
    ------
    InfeasibleBoundsError
        If there are none, which the search of HiGHS has shown.

    Examples
    --------
    >>> best_of_blocks([[3.0, 0.0], [2.0, 1.0], [0.0, 0.0]], [2, 1, 1], [(0, 1)], [2, 2], [2, 2])
    [0, 1, 1]
    """
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import coo_array

    c, k = len(values), len(lower)
    # Lines: each block has one cluster, each cluster its size, each pair at most one in each.
    ones = [(b, b * k + j, 1) for b in range(c) for j in range(k)]
    ones += [(c + j, b * k + j, m) for b, m in enumerate(sizes) for j in range(k)]
    for place, pair in enumerate(apart):
        first = c + k + place * k
        ones += [(first + j, b * k + j, 1) for b in pair for j in range(k)]
    n_pairs = len(apart) * k
    rows, columns, entries = zip(*ones, strict=True)
    matrix = coo_array((entries, (rows, columns)), shape=(c + k + n_pairs, c * k)).tocsr()
    low = [1.0] * c + [float(v) for v in lower] + [0.0] * n_pairs
    high = [1.0] * c + [float(v) for v in upper] + [1.0] * n_pairs
    flat = [value for row in values for value in row]
    largest = max((abs(v) for v in flat if math.isfinite(v)), default=0.0) or 1.0
    found = milp(
        [-(v / largest) * RANGE if math.isfinite(v) else 0.0 for v in flat],
        constraints=LinearConstraint(matrix, low, high),
        bounds=Bounds([0.0] * len(flat), [float(math.isfinite(v)) for v in flat]),
        integrality=[1] * len(flat),
        options={"mip_rel_gap": 0.0, "time_limit": SECONDS},
    )
    if found.status == 2:
        msg = "no labels keep the links and the bounds on sizes, as a search of all has shown"
        msg = f"{msg}. To fix this, leave out pairs, or widen the bounds"
        raise InfeasibleBoundsError(msg, clusters=tuple(range(k)), excess=1)
    if found.status != 0:
        return None
    return [max(range(k), key=lambda j: found.x[b * k + j]) for b in range(c)]
