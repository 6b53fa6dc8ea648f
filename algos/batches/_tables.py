"""Passes over a table of n k numbers; an engine may write into it, which saves most of its time.

A new array of 49 MB takes ten times a pass over one that is there, and a step has many passes. So
the table that is passed is used up: callers own it, and go on with what is returned.
"""

from __future__ import annotations

from ...backends import kernel
from ..core.types import Array

__all__ = ["shift_table", "weight_table"]


@kernel
def shift_table(
    table: Array, columns: Array | None, rows: Array | None, *, epsilon: float = 1.0
) -> Array:
    """Return ``(table + columns - rows) / epsilon``, all of one dtype; `table` is used up.

    Parameters
    ----------
    table : (n, k) array
    columns : (k,) array, or None for zeros
    rows : (n, 1) array, or None for zeros
    epsilon : float > 0

    Returns
    -------
    (n, k) array
    """
    if columns is not None:
        table = table + columns
    if rows is not None:
        table = table - rows
    return table if epsilon == 1.0 else table / epsilon


@kernel
def weight_table(table: Array, columns: Array, rows: Array) -> Array:
    """Return ``table * columns / rows``, all of one dtype; `table` is used up.

    Parameters
    ----------
    table : (n, k) array
    columns : (k,) array
    rows : (n, 1) array

    Returns
    -------
    (n, k) array
    """
    return table * columns / rows
