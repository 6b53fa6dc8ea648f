r"""The linear program of loads on few pairs, its rounding, and the whole program, all by HiGHS.

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
from typing import Any, NamedTuple

from ...core.errors import InvalidValueError

__all__ = ["Corner", "Program", "Shared", "best_whole", "corner_of", "rounded"]

TOLERANCE = 1e-7
"""Of HiGHS: a share below is none, and loads may miss so much of the largest size."""

FULL = 1e-6
"""What shares of some rows may add up to less than one."""

RANGE = 2.0**10
"""Range of the scores that the whole program sees: its gap of 1e-6 is then 1e-9 of them."""


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
    matrix = coo_array((entries, (lines, columns)), shape=(m + k, p + 3 * k)).tocsr()
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
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    if not shared:
        return []
    of_cluster: dict[int, list[tuple[float, int, float]]] = {}
    for i, row in enumerate(shared):
        for j, share in zip(row.clusters, row.shares, strict=True):
            of_cluster.setdefault(j, []).append((-row.size, i, share))
    edges, of_slots, least = list[tuple[int, int]](), list[int](), list[float]()
    for j, parts in of_cluster.items():
        first, total = len(of_slots), math.fsum(share for _, _, share in parts)
        n_full = math.floor(total + FULL)
        n_slots = n_full + (total - n_full > FULL)
        of_slots.extend([j] * n_slots)
        least.extend([1.0] * n_full + [0.0] * (n_slots - n_full))
        begun = 0.0
        for _, i, share in sorted(parts):
            ended = begun + share
            for slot in range(math.floor(begun + FULL / 10.0), min(math.ceil(ended), n_slots)):
                if min(ended, slot + 1.0) - max(begun, float(slot)) > 0.0:
                    edges.append((i, first + slot))
            begun = ended
    n, worth = len(shared), [dict(zip(row.clusters, row.values, strict=True)) for row in shared]
    loss = [max(worth[i].values()) - worth[i][of_slots[slot]] for i, slot in edges]
    unit, ones = max(loss) or 1.0, [1.0] * len(edges)
    places = list(range(len(edges)))
    in_rows = coo_array((ones, ([i for i, _ in edges], places)), shape=(n, len(edges)))
    in_slots = coo_array((ones, ([s for _, s in edges], places)), shape=(len(least), len(edges)))
    full = [s for s, need in enumerate(least) if need]
    open_slots = [s for s, need in enumerate(least) if not need]
    in_slots = in_slots.tocsr()
    options: dict[str, Any] = {}
    if open_slots:
        options = {"A_ub": in_slots[open_slots], "b_ub": [1.0] * len(open_slots)}
    from scipy.sparse import vstack

    found = linprog(
        [one / unit for one in loss],
        A_eq=vstack([in_rows.tocsr(), in_slots[full]]),
        b_eq=[1.0] * (n + len(full)),
        method="highs-ds",
        **options,
    )
    if found.status != 0:
        msg = f"HiGHS found no matching where shares are one: {found.message}"
        raise RuntimeError(msg)
    chosen = [-1] * n
    for (i, slot), z in zip(edges, found.x.tolist(), strict=True):
        if z > 0.5:
            chosen[i] = of_slots[slot]
    return chosen


def best_whole(
    values: list[list[float]],
    sizes: list[float],
    bounds: tuple[list[float], list[float]],
    seconds: float,
) -> tuple[list[int] | None, float | None]:
    """Return labels wholly inside by branch and bound, or None, and what none is worth more than.

    `values` is minus infinity where a pair is forbidden. The bound is None where no labels exist.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import coo_array

    n, k = len(values), len(values[0])
    best = [max(row) for row in values]
    loss = [
        [b - v if v > -math.inf else 0.0 for v in row] for row, b in zip(values, best, strict=True)
    ]
    unit = (max(map(max, loss)) or 1.0) / RANGE
    mass = max(sizes) or 1.0
    pairs = list(range(n * k))
    by_row = coo_array(([1.0] * (n * k), ([p // k for p in pairs], pairs)), shape=(n, n * k))
    entries = [sizes[p // k] / mass for p in pairs]
    by_cluster = coo_array((entries, ([p % k for p in pairs], pairs)), shape=(k, n * k))
    low, high = ([bound / mass for bound in side] for side in bounds)
    found = milp(
        [one / unit for row in loss for one in row],
        constraints=[
            LinearConstraint(by_row.tocsr(), 1.0, 1.0),
            LinearConstraint(by_cluster.tocsr(), low, high),
        ],
        bounds=Bounds(0.0, [float(v > -math.inf) for row in values for v in row]),
        integrality=[1] * (n * k),
        options={"time_limit": seconds, "mip_rel_gap": 0.0},
    )
    if found.status == 2:
        return None, None
    most = math.fsum(best)
    lost = found.mip_dual_bound if found.mip_dual_bound is not None else 0.0
    bound = most - unit * (lost - 1e-5)
    if found.x is None:
        return None, bound
    x = found.x.tolist()
    return [max(range(k), key=x[i * k : (i + 1) * k].__getitem__) for i in range(n)], bound
