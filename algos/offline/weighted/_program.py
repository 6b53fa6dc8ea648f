r"""The linear program of loads on few pairs, by HiGHS, and its rounding.

Program: ``max sum_ij c_ij x_ij - sum_k price_k N_k`` with ``sum_j x_ij = 1``, ``x >= 0`` and loads
``N_k = base_k + sum_i w_i x_ik + a_k - b_k`` between their bounds. What a cluster lacks (a) or has
too much of (b) is paid for, so that there is always a solution, and its dual prices stay in a box.

Corners: with ``z_ik = w_i x_ik`` this is a transport from rows to clusters. The pairs with x > 0
of a corner have no circle, so that at most k - 1 rows are shared out among clusters.

Rounding (Shmoys and Tardos 1993): in each cluster the shares of rows, largest size first, fill
*slots* of one row each. Rows and slots are a bipartite graph in which the shares are a fractional
matching, so that there is a whole one worth at least as much, with a row in each full slot. A
cluster gains at most the size of its first slot, and loses at most as much: each other slot has a
row no larger than any in the slot before.

==============  ===================  ======  ====================================================
symbol          here                 shape   meaning
==============  ===================  ======  ====================================================
:math:`c_{ij}`  ``gains``            (p,)    of each pair of a row and a cluster, at most 0
:math:`w_i`     ``sizes``            (p,)    of the row of each pair
:math:`x_{ij}`  ``shares``           (p,)    of the row in the cluster
==============  ===================  ======  ====================================================
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ...core.errors import InvalidValueError

__all__ = ["Corner", "Program", "Shared", "corner_of", "rounded"]

TOLERANCE = 1e-7
"""Of HiGHS: a share below is none, and loads may miss so much of the largest size."""

FULL = 1e-6
"""What shares of some rows may add up to less than one."""


class Program(NamedTuple):
    """Pairs in the order of their rows, and what all clusters need; lists of numbers.

    Attributes
    ----------
    rows, clusters : list of int, of p pairs
        Rows are counted from 0 on.
    gains, sizes : list of float, of p pairs
    prices : list of k floats
    low, high : list of k floats
        Smallest and largest load that these rows may add.
    less, more : list of k floats
        What a unit costs that a cluster lacks, and that it has too much.
    """

    rows: list[int]
    clusters: list[int]
    gains: list[float]
    sizes: list[float]
    prices: list[float]
    low: list[float]
    high: list[float]
    less: list[float]
    more: list[float]


class Corner(NamedTuple):
    """Shares of the pairs, what prices change, and whether loads lack or have too much."""

    shares: list[float]
    changes: list[float]
    is_stuck: bool


class Shared(NamedTuple):
    """A row that is shared out: its size, and its clusters with their shares and scores."""

    row: int
    size: float
    clusters: list[int]
    shares: list[float]
    values: list[float]


def corner_of(program: Program) -> Corner:
    """Solve the program by the dual simplex method, which ends at a corner."""
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    rows, clusters, gains, sizes, prices, low, high, less, more = program
    k, p = len(low), len(rows)
    m = rows[-1] + 1 if rows else 0
    unit = max(map(abs, gains), default=0.0) or 1.0
    mass = max(sizes, default=0.0) or 1.0
    rate = mass / unit
    pairs, each = list(range(p)), list(range(k))
    entries = [1.0] * p + [size / mass for size in sizes] + [-1.0] * k + [1.0] * k + [-1.0] * k
    lines = rows + [m + j for j in clusters] + 3 * [m + j for j in each]
    columns = pairs + pairs + [p + i * k + j for i in range(3) for j in each]
    matrix = coo_array((entries, (lines, columns))).tocsr()
    of_loads = [(a / mass, b / mass) for a, b in zip(low, high, strict=True)]
    for presolve in (True, False):  # which HiGHS has ended with an error of its own
        found = linprog(
            [-gain / unit for gain in gains] + [rate * c for c in prices + less + more],
            A_eq=matrix,
            b_eq=[1.0] * m + [0.0] * k,
            bounds=[(0.0, None)] * p + of_loads + [(0.0, None)] * (2 * k),
            method="highs-ds",
            options={"presolve": presolve},
        )
        if found.status == 0:
            break
    else:
        msg = (
            "scores must be of fewer orders of magnitude, weights included: HiGHS ends with an "
            f"error ({found.message}). To fix this, set small weights to 0"
        )
        raise InvalidValueError(msg)
    x = found.x.tolist()
    return Corner(
        shares=x[:p],
        changes=[y / rate for y in found.eqlin.marginals.tolist()[m:]],
        is_stuck=max(x[p + k :]) > 10.0 * TOLERANCE,
    )


def rounded(shared: list[Shared]) -> list[int]:
    """Return a cluster for each shared row: worth as much, every load off by one row at most."""
    from scipy.optimize import linear_sum_assignment

    if not shared:
        return []
    of_cluster: dict[int, list[tuple[float, int, float, float]]] = {}
    unit = 0.0
    for i, row in enumerate(shared):
        best = max(row.values)
        unit = max(unit, best - min(row.values))
        for j, share, value in zip(row.clusters, row.shares, row.values, strict=True):
            of_cluster.setdefault(j, []).append((-row.size, i, share, best - value))
    n, of_slots, columns = len(shared), list[int](), list[list[float]]()
    for j, parts in of_cluster.items():
        total = math.fsum(share for _, _, share, _ in parts)
        n_full = math.floor(total + FULL)
        n_slots = n_full + (total - n_full > FULL)
        # Full slots have a row before all else: none costs as much as one that stays empty.
        slots = [[math.inf] * n for _ in range(n_slots)]
        begun = 0.0
        for _, i, share, loss in sorted(parts):
            ended = begun + share
            for slot in range(math.floor(begun + FULL / 10.0), min(math.ceil(ended), n_slots)):
                slots[slot][i] = loss / (unit or 1.0) - (n + 1.0) * (slot < n_full)
            begun = ended
        of_slots.extend([j] * n_slots)
        columns.extend(slots)
    chosen = [-1] * n
    for slot, i in zip(*linear_sum_assignment(columns), strict=True):
        chosen[i] = of_slots[slot]
    return chosen
