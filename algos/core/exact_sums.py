r"""Sums of real rows in 64-bit integers: the same bits for any order, and accurate for any spread.

Problem: floating-point sums depend on the order of the additions. Integers of one unit lose entries
that are small compared with the largest: next to a row at 10^12, rows of size 1 would keep 3 bits.
A long accumulator (Kulisch and Miranker, 1986) of a few words avoids both. An entry is split, each
step without rounding, into *limbs*, integers on finer and finer grids,

``x / unit = a_1 2^-b + a_2 2^-2b + ... + a_L 2^-Lb + rest``,   ``|rest| <= 2^(-Lb - 1)``,

and each limb is summed separately. With ``n 2^(b+1) <= 2^62`` nothing overflows; sums are exact,
associative, and merge by addition. A mean is the long division of the sums by the count, rounded
once: the mean of equal rows is that row.

==============  ==============  =======  =======================================================
symbol          here            shape    meaning
==============  ==============  =======  =======================================================
\-              ``grid.unit``   ()       power of two, at least half the largest entry
b, L            ``grid``        ()       bits of a limb, and limbs of an entry
:math:`a_l`     ``sums``        (k, Ld)  int64, the columns of limb 1, then those of limb 2, ...
==============  ==============  =======  =======================================================
"""

from __future__ import annotations

import math
import sys
from typing import NamedTuple

import array_api_compat as compat

from ...backends import kernel
from .errors import InvalidValueError
from .reads import on_host
from .segments import segment_sum
from .types import Array

__all__ = [
    "FRACTION_BITS",
    "LIMIT",
    "UNIT_GRID",
    "Grid",
    "add_limbs",
    "add_rows",
    "check_entries",
    "grid_of",
    "largest_entry",
    "means_of_sums",
    "split",
    "sum_rows",
    "sums_to_floats",
]

FRACTION_BITS = 36
"""Unit features are rounded to multiples of 2^-36 = 1.5e-11, far below the 6e-8 of float32. An
entry is at most 1, so 2^27 = 134 million samples of one cluster fit into 63 bits."""

LIMIT = 1.0 + 1e-3  # largest entry of unit rows, with slack for normalization in half precision

MOST_BITS = 50
"""Most bits of a limb: products with 2^b round to integers exactly below 2^52."""

FINEST = 80
"""Bits below the unit that a grid resolves. For up to 10^8 rows, this is finer than the rounding
that scikit-learn's shift by the mean leaves, 2^-53 of the mean."""

CHUNK_ENTRIES, DEVICE_CHUNK_ENTRIES = 2**16, 2**24
"""Entries converted at once. On a CPU, temporaries of 512 KiB take half the time of larger ones,
which the operating system allocates and frees each time."""


class Grid(NamedTuple):
    """The grid of rounded entries: multiples of ``unit 2^(-bits depth)``, in `depth` limbs."""

    unit: float
    bits: int
    depth: int


UNIT_GRID = Grid(1.0, FRACTION_BITS, 1)
"""Grid of unit rows: one limb, since all rows have the same length."""


def grid_of(largest: float, n: int, *, finest: int = FINEST) -> Grid:
    """Return the grid for sums of up to n entries of at most `largest`.

    Parameters
    ----------
    largest : float >= 0
    n : int >= 1
    finest : int
        Number of bits below the unit to resolve.

    Examples
    --------
    >>> grid_of(3.0, 1000)
    Grid(unit=4.0, bits=50, depth=2)
    >>> grid_of(3.0, 10**7)
    Grid(unit=4.0, bits=37, depth=3)
    """
    bits = min(MOST_BITS, 61 - int(n).bit_length())
    # The largest power of two is below the largest float; a limb has a spare bit for this.
    exponent = min(max(math.frexp(largest)[1], -900), 1023)
    return Grid(math.ldexp(1.0, exponent), bits, -(-finest // bits))


def split(values: Array, grid: Grid) -> Array:
    """Split entries of at most twice the unit into limbs, (n, depth d) int64."""
    xp = compat.array_namespace(values)
    scale = math.ldexp(1.0, grid.bits)
    rest, parts = xp.astype(values, xp.float64) * (scale / grid.unit), []
    for j in range(grid.depth):
        limb = xp.round(rest)
        parts.append(xp.astype(limb, xp.int64))
        if j + 1 < grid.depth:
            rest = (rest - limb) * scale  # exact: both are multiples of one small unit
    return parts[0] if len(parts) == 1 else xp.concat(parts, axis=1)


def sum_rows(
    values: Array, labels: Array, grid: Grid, *, n_clusters: int, check: bool = True
) -> Array:
    """Return integer sums of the rows of each cluster.

    Parameters
    ----------
    values : (n, d) real array
        Entries of at most the unit of the grid.
    labels : (n,) int64 array
        In [0, k), assumed.
    grid : Grid
    n_clusters : int
        k.
    check : bool
        Whether to look for entries beyond the unit, which is a read; see `check_entries`.

    Returns
    -------
    (k, depth d) int64 array

    Raises
    ------
    InvalidValueError
        For an entry beyond the unit, or NaN.

    Notes
    -----
    Exact and associative: any split and order of the rows gives the same integers. Cost O(n d) per
    limb.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.asarray([[1e15], [1.0], [-1e15]])
    >>> grid = grid_of(1e15, 3)
    >>> sums = sum_rows(x, np.asarray([0, 0, 0]), grid, n_clusters=1)
    >>> sums_to_floats(sums, grid)
    array([[1.]])
    """
    xp, (_, d) = compat.array_namespace(values), values.shape
    zero = xp.zeros((n_clusters, grid.depth * d), dtype=xp.int64, device=compat.device(values))
    return add_rows(zero, values, labels, grid, check=check)


def add_rows(sums: Array, values: Array, labels: Array, grid: Grid, *, check: bool = True) -> Array:
    """Add rows to the sums of their clusters; `sums` is used up, since an engine writes into it.

    Parameters
    ----------
    sums : (k, depth d) int64 array
        Of `sum_rows`, or zeros.
    values, labels, grid, check
        As in `sum_rows`.

    Returns
    -------
    (k, depth d) int64 array

    Raises
    ------
    InvalidValueError
        As `sum_rows`, before anything is added.

    Examples
    --------
    >>> import numpy as np
    >>> sums = np.zeros((2, 1), dtype=np.int64)
    >>> sums = add_rows(sums, np.asarray([[0.5]]), np.asarray([1]), UNIT_GRID)
    >>> sums_to_floats(sums, UNIT_GRID)
    array([[0. ],
           [0.5]])
    """
    if check and values.shape[0]:
        check_entries(largest_entry(values), grid)
    return add_limbs(values, labels, sums, unit=grid.unit, bits=grid.bits, depth=grid.depth)


@kernel
def add_limbs(
    values: Array, labels: Array, sums: Array, *, unit: float, bits: int, depth: int
) -> Array:
    """Add the limbs of rows to the sums of their clusters; an engine may write into `sums`.

    Parameters and result as in `add_rows`, with the fields of the grid as numbers.
    """
    grid, (n, d) = Grid(unit, bits, depth), values.shape
    entries = CHUNK_ENTRIES if on_host(values) else DEVICE_CHUNK_ENTRIES
    rows = max(1, entries // max(1, d * depth))
    for i in range(0, n, rows):
        last = min(i + rows, n)
        limbs = split(values[i:last, :], grid)
        sums = sums + segment_sum(limbs, labels[i:last], n_segments=sums.shape[0])
    return sums


def largest_entry(values: Array) -> Array:
    """Return the largest absolute value of an array with entries, without axes; NaN for a NaN."""
    xp = compat.array_namespace(values)
    return xp.maximum(xp.max(values), -xp.min(values))


def check_entries(largest: Array | float, grid: Grid) -> None:
    """Raise for a `largest_entry` beyond the unit of the grid, or NaN: one read.

    Rows that come in many blocks from a device are summed without a check, and checked once.
    """
    spherical = grid == UNIT_GRID
    most = LIMIT if spherical else min(grid.unit * 2.0, sys.float_info.max)
    if not bool(largest <= most):  # a NaN fails the comparison
        raise InvalidValueError(_outside(spherical, grid.unit))


def sums_to_floats(sums: Array, grid: Grid) -> Array:
    """Convert sums to (k, d) float64, rounded to about its precision."""
    xp = compat.array_namespace(sums)
    d = sums.shape[1] // grid.depth
    total = xp.zeros_like(sums[:, :d], dtype=xp.float64)
    for j in reversed(range(grid.depth)):  # the small ones first
        limb = xp.astype(sums[:, j * d : (j + 1) * d], xp.float64)
        total = total + limb * math.ldexp(1.0, -grid.bits * (j + 1))
    return total * grid.unit


def means_of_sums(sums: Array, counts: Array, grid: Grid) -> Array:
    """Divide sums by counts, in integers until the last rounding; 0 where a count is 0.

    Parameters
    ----------
    sums : (k, depth d) int64 array
        From `sum_rows`.
    counts : (k,) int64 array
        Number of rows in each sum.
    grid : Grid

    Returns
    -------
    (k, d) float64 array

    Notes
    -----
    Claims: docs/claims.md#C2.

    Examples
    --------
    >>> import numpy as np
    >>> x, grid = np.full((3, 1), 0.1), grid_of(0.1, 3)
    >>> sums = sum_rows(x, np.asarray([0, 0, 0]), grid, n_clusters=1)
    >>> float(means_of_sums(sums, np.asarray([3]), grid)[0, 0])
    0.1
    """
    xp = compat.array_namespace(sums)
    d, by = sums.shape[1] // grid.depth, xp.clip(counts, min=1)[:, None]
    carry, parts = xp.zeros_like(sums[:, :d]), []
    for j in range(grid.depth):
        limb = sums[:, j * d : (j + 1) * d] + carry * 2**grid.bits
        quotient = limb // by
        carry = limb - quotient * by
        parts.append(xp.astype(quotient, xp.float64) * math.ldexp(1.0, -grid.bits * (j + 1)))
    last = math.ldexp(1.0, -grid.bits * grid.depth)
    mean = xp.astype(carry, xp.float64) / xp.astype(by, xp.float64) * last
    for part in reversed(parts):  # the small ones first
        mean = mean + part
    return mean * grid.unit


def _outside(spherical: bool, unit: float) -> str:
    if spherical:
        return (
            "features must have entries in [-1, 1], got one outside or NaN. "
            "To fix this, normalize the rows with dualclust.algos.core.project_sphere"
        )
    return (
        f"features must have the entries of the pass before, of at most {unit:g}, got one outside "
        f"or NaN. To fix this, hand out the same rows each time"
    )
