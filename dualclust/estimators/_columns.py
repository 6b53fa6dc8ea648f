"""Rows that come as a column of lists, and matrices that are sparse."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.sparse import issparse

from ..algos.core.errors import InvalidTypeError, InvalidValueError

__all__ = ["dense_rows"]

Array = Any


def dense_rows(X: Any) -> Any:
    """Return `X`, with one column of lists of numbers as the matrix of these rows.

    Such a column is what pandas and polars make of embeddings in Parquet: a Series, or a table that
    has only this column, whose entries are lists or arrays of one length.

    Raises
    ------
    InvalidTypeError
        If `X` is sparse, or a table in which a column of lists stands beside others.
    InvalidValueError
        If lists are missing or differ in length.
    """
    if issparse(X):
        _refuse_sparse(X)
    if not hasattr(X, "to_numpy"):
        return X
    names = list(getattr(X, "columns", ()))
    if len(names) > 1:
        _refuse_mixed(X, names)
        return X
    values = (X[names[0]] if names else X).to_numpy()
    if values.ndim == 2:  # polars: arrays whose type says their length
        return values
    return _stacked(values) if _holds_lists(values) else X


def _is_list(entry: Any) -> bool:
    return isinstance(entry, list | tuple | np.ndarray)


def _holds_lists(values: Array) -> bool:
    return values.ndim > 1 or (values.dtype == object and len(values) > 0 and _is_list(values[0]))


def _stacked(entries: Array) -> Array:
    """Return lists of one length as rows of float32 or float64."""
    length = len(entries[0])
    for i, entry in enumerate(entries):
        found = f"a list of {len(entry)}" if _is_list(entry) else repr(entry)
        if not _is_list(entry) or len(entry) != length:
            msg = (
                f"X must hold a list of {length} numbers in each row, as in row 0, got {found} in "
                f"row {i}. To fix this, drop or fill that row"
            )
            raise InvalidValueError(msg)
    try:
        rows = np.stack([np.asarray(entry) for entry in entries])
        return rows if rows.dtype == np.float32 else rows.astype(np.float64)
    except (TypeError, ValueError) as error:
        msg = f"X must hold lists of numbers: {error}. To fix this, convert the entries"
        raise InvalidTypeError(msg) from error


def _refuse_mixed(X: Any, names: list[Any]) -> None:
    """Name the column of lists in a table of several columns."""
    for name in names:
        if _holds_lists(X[name][:1].to_numpy()):
            msg = (
                f"X must be one column of lists, or columns of numbers, got {len(names)} columns, "
                f"of which {name!r} holds lists. To fix this, pass X[{name!r}]"
            )
            raise InvalidTypeError(msg)


def _refuse_sparse(X: Any) -> None:
    n, d = X.shape
    size = math.prod(X.shape) * X.dtype.itemsize / 1e6
    msg = (
        f"X must be dense here, got a sparse matrix of shape {(n, d)}, which ConstrainedKMeans.fit "
        f"and predict take as it is. To fix this, pass X.toarray(), "
        f"which takes {size:,.0f} MB, or fewer columns: "
        f"sklearn.decomposition.TruncatedSVD(100).fit_transform(X)"
    )
    raise InvalidTypeError(msg)
