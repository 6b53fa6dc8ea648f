"""Sparse matrices of .npz and HDF5 files: laid out as plain rows where these are not too many.

Clustering reads every number of a row in each pass, zeros too. A sparse matrix of many columns is
therefore refused, with what helps anyway: fewer numbers a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .checks import check_numbers, check_shape, refuse
from .rows import BATCH_BYTES, Ids, Part, Stream, computed_dtype

__all__ = ["FEW_BYTES", "Entries", "along", "sparse_stream"]

FEW_BYTES = 2**28
"""Most bytes of the rows of a sparse matrix, zeros included."""


class Entries(NamedTuple):
    """Entries of a sparse matrix; those of one place add up.

    Attributes
    ----------
    rows, columns : (m,) integer arrays
    values : (m,) array
    """

    rows: NDArray[Any]
    columns: NDArray[Any]
    values: NDArray[Any]


def along(edges: NDArray[Any]) -> NDArray[np.int64]:
    """Return the row of each entry, for rows that follow each other (``indptr``).

    Examples
    --------
    >>> along(np.asarray([0, 2, 2, 3]))
    array([0, 0, 2])
    """
    ends = np.asarray(edges, np.int64)
    return np.repeat(np.arange(len(ends) - 1), ends[1:] - ends[:-1])


def sparse_stream(
    name: str,
    shape: tuple[int, ...],
    stored: np.dtype[Any],
    read: Callable[[], Entries],
    *,
    ids: Ids | None,
    part: Part,
) -> Stream:
    """Return the rows of a sparse matrix, with their zeros.

    Parameters
    ----------
    name : str
    shape : tuple of int
    stored : dtype
        Of the entries.
    read : callable
        Returns the entries; damaged ones may raise a ValueError or IndexError.
    ids, part
        As of `Stream`.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        For other entries than real numbers, and for too many numbers.
    """
    check_numbers(name, stored)
    check_shape(name, shape)
    n, d = shape
    dtype = computed_dtype(stored)
    whole = n * d * dtype.itemsize
    if whole > FEW_BYTES:
        found = f"is a sparse matrix of {n} rows of {d} numbers, {whole / 1e9:.3g} GB with zeros"
        most = f"{FEW_BYTES / 1e9:.2g} GB of a sparse matrix"
        rule = f"Here zeros are read, too: at most {most}, but for k-means of 'dualclust cluster'"
        fix = "give fewer numbers a row: sklearn.decomposition.TruncatedSVD(100).fit_transform(x)"
        refuse(name, found, rule, fix)

    def batches() -> Iterator[NDArray[Any]]:
        rule = "Each entry of a sparse matrix lies in one of its rows and columns"
        try:
            found = read()
            order = np.argsort(found.rows, kind="stable")
            rows, columns = (np.asarray(x, np.int64)[order] for x in found[:2])
            values = found.values[order]
            if len(rows) and (min(rows[0], columns.min()) < 0 or rows[-1] >= n):
                raise IndexError
            step = max(1, BATCH_BYTES // (d * dtype.itemsize))
            for start in range(0, n, step):
                block = np.zeros((min(step, n - start), d), dtype)
                some = slice(*np.searchsorted(rows, [start, start + len(block)]))
                np.add.at(block, (rows[some] - start, columns[some]), values[some])
                yield block
        except (IndexError, ValueError):
            refuse(name, "has entries of no row or column", rule, "write or copy it again")

    return Stream(name, n, d, dtype, batches, ids, part)
