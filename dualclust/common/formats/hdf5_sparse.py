"""Sparse matrices in HDF5 files: groups of AnnData, 10x Genomics and MATLAB (-v7.3)."""

from __future__ import annotations

from typing import Any

from .sparse import Entries, along

__all__ = ["entries_of", "is_sparse", "shape_of"]

FORMS = ("encoding-type", "h5sparse_format")
"""Attributes in which AnnData keeps the form, now and before version 0.8."""

SHAPES = ("shape", "h5sparse_shape")


def is_sparse(item: Any) -> bool:
    """Return whether a group of an HDF5 file is a sparse matrix."""
    if hasattr(item, "dtype"):
        return False
    keys = set(item.keys())
    if keys >= {"data", "ir", "jc"}:
        return "MATLAB_sparse" in item.attrs
    return keys >= {"data", "indices", "indptr"} and ("shape" in keys or bool(_form(item)))


def shape_of(group: Any) -> tuple[int, int]:
    """Return the numbers of samples and of numbers a sample."""
    if "MATLAB_sparse" in group.attrs:
        return int(group.attrs["MATLAB_sparse"]), len(group["jc"]) - 1
    given = next((group.attrs[name] for name in SHAPES if name in group.attrs), None)
    # 10x Genomics has a column for each cell, and cells are the samples.
    first, second = group["shape"][:][::-1] if given is None else given
    return int(first), int(second)


def entries_of(group: Any) -> Entries:
    """Read all entries."""
    if "MATLAB_sparse" in group.attrs:
        return Entries(group["ir"][:], along(group["jc"][:]), group["data"][:])
    lines, others = along(group["indptr"][:]), group["indices"][:]
    rows, columns = (others, lines) if "csc" in _form(group) else (lines, others)
    return Entries(rows, columns, group["data"][:])


def _form(group: Any) -> str:
    found = next((group.attrs[name] for name in FORMS if name in group.attrs), "")
    text = found.decode() if isinstance(found, bytes) else str(found)
    return text if text.startswith(("csr", "csc")) else ""
