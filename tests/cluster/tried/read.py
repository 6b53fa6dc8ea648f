"""A file as another program writes it, and what of it is to be read."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

X = np.random.default_rng(1).normal(size=(40, 3)).astype(np.float32)
TEXT = [[f"{value:.9g}" for value in row] for row in X.tolist()]
"""The numbers as text that gives them back."""

BITS = X > 0


class Read(NamedTuple):
    """A file that is read."""

    by: str
    """The program."""

    write: Callable[[Path], Any]
    """A folder in, the file in it out."""

    call: str
    """Arguments of the command, from the file on."""

    says: str = ""
    """What the screen says behind the shape."""

    want: Any = X
    left_out: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()


def file(name: str, content: str | bytes, *, packed: bool = False) -> Callable[[Path], Any]:
    """Write bytes or text."""
    data = content if isinstance(content, bytes) else content.encode()
    return lambda folder: (folder / name).write_bytes(gzip.compress(data) if packed else data)


def lines(mark: str = ",", rows: list[list[str]] = TEXT, end: str = "") -> str:
    """Lines of fields, with the same end."""
    return "".join(f"{mark.join(row)}{end}\n" for row in rows)


def hdf5(name: str, fill: Callable[[Any], Any], **options: Any) -> Callable[[Path], Any]:
    """Write an HDF5 file."""

    def write(folder: Path) -> None:
        h5py = pytest.importorskip("h5py")
        with h5py.File(folder / name, "w", **options) as file:
            fill(file)

    return write


def table(name: str, columns: Callable[[Any], dict[str, Any]], **options: Any) -> Any:
    """Write a Parquet file, or an Arrow one by its name; `columns` gets pyarrow."""

    def write(folder: Path) -> None:
        pa = pytest.importorskip("pyarrow")
        from pyarrow import feather, parquet

        made = pa.table(columns(pa))
        if name.endswith(".parquet"):
            parquet.write_table(made, folder / name, **options)
        elif name.endswith(".arrows"):
            with (
                pa.OSFile(str(folder / name), "wb") as out,
                pa.ipc.new_stream(out, made.schema) as w,
            ):
                w.write_table(made)
        else:
            feather.write_feather(made, folder / name, **options)

    return write
