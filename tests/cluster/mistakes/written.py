"""How a damaged or mistaken file is written, and what is to be said of it."""

from __future__ import annotations

import functools
import gzip
import io
import json
import os
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

X = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)


class Case(NamedTuple):
    """What is written into the folder, the arguments of the command, and what it says."""

    write: Callable[[Path], Any]
    arguments: str
    message: str
    code: int = 65


# How each is written; a folder in, files in it out ----------------------------------------------


def npy(array, name="X.npy"):
    return lambda folder: np.save(folder / name, array, allow_pickle=True)


def content(value, name="X.npy"):
    return lambda folder: (folder / name).write_bytes(value)


def whole(array=X):
    """The bytes of an .npy file."""
    import io

    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


class Trap:
    """Leaves a folder behind when it is unpickled."""

    def __reduce__(self):
        return (os.mkdir, ("unpickled",))


def changed(row, column, value, array=X):
    array = np.array(array)
    array[row, column] = value
    return array


def npz(name="X.npz", packed=False, **arrays):
    save = np.savez_compressed if packed else np.savez
    return lambda folder: save(folder / name, **arrays)


def cut(write, name, share):
    """Write a file and keep the first part of it."""

    def both(folder):
        write(folder)
        data = (folder / name).read_bytes()
        (folder / name).write_bytes(data[: int(share * len(data))])

    return both


def spoiled(write, name, place):
    """Write a file and change some bytes of it."""

    def both(folder):
        write(folder)
        data = bytearray((folder / name).read_bytes())
        at = int(place * len(data))
        data[at : at + 8] = b"\xff\x00\xff\x00\xff\x00\xff\x00"
        (folder / name).write_bytes(data)

    return both


@functools.cache  # several tests write it
def packed_zeros():
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("x.npy", "w", force_zip64=True) as file:
            file.write(whole(np.zeros((1, 8)))[:128].replace(b"(1, 8)", b"(5000000, 8)")[:128])
            for _ in range(320):
                file.write(bytes(10**6))
    return packed.getvalue()


def bomb(folder):
    """An entry of 320 MB of zeros."""
    (folder / "X.npz").write_bytes(packed_zeros())


@functools.cache
def packed_lines():
    return gzip.compress(b"a,b\n" + b"1,1\n" * 18_000_000, 9)


def text_bomb(folder):
    """18 million equal lines."""
    (folder / "X.csv.gz").write_bytes(packed_lines())


def lying(folder):
    """An entry whose header promises more rows than there are."""
    with zipfile.ZipFile(folder / "X.npz", "w") as archive:
        archive.writestr("x.npy", whole().replace(b"(40, 3), }  ", b"(4000, 3), }"))


def locked(folder):
    """An entry that says that it is encrypted."""
    npz(x=X)(folder)
    data = bytearray((folder / "X.npz").read_bytes())
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(mark) + place] |= 1
    (folder / "X.npz").write_bytes(data)


def parquet(name="X.parquet", **columns):
    def write(folder):
        pa = pytest.importorskip("pyarrow")
        import pyarrow.parquet as pq

        pq.write_table(pa.table(columns), folder / name)

    return write


def lists(rows, dtype="float32", size=-1):
    """A column of lists; made when it is written, because pyarrow may be missing."""

    def write(folder):
        pa = pytest.importorskip("pyarrow")
        import pyarrow.parquet as pq

        column = pa.array(rows, type=pa.list_(pa.type_for_alias(dtype), size))
        pq.write_table(pa.table({"emb": column, "n": range(len(rows))}), folder / "X.parquet")

    return write


def feather(name="X.feather"):
    def write(folder):
        pa = pytest.importorskip("pyarrow")
        import pyarrow.feather as pf

        pf.write_feather(pa.table({f"x{j}": X[:, j] for j in range(3)}), folder / name)

    return write


def text(value, name="X.csv"):
    def write(folder):
        pytest.importorskip("pyarrow")
        (folder / name).write_text(value)

    return write


def hdf5(**sets):
    def write(folder):
        h5py = pytest.importorskip("h5py")
        with h5py.File(folder / "X.h5", "w") as file:
            for name, value in sets.items():
                file[name] = value

    return write


def tensors(make, **options):
    def write(folder):
        torch = pytest.importorskip("torch")
        torch.save(make(torch), folder / "X.pt", **options)

    return write


def safetensors(header, numbers=b"", length=None):
    data = header if isinstance(header, bytes) else json.dumps(header).encode()
    return content(
        struct.pack("<Q", len(data) if length is None else length) + data + numbers,
        "X.safetensors",
    )


def entry(shape, dtype="F32", end=None):
    return {"dtype": dtype, "shape": shape, "data_offsets": [0, end or 4 * int(np.prod(shape))]}


def shards(**arrays):
    def write(folder):
        (folder / "in").mkdir()
        for name, array in arrays.items():
            np.save(folder / "in" / f"{name}.npy", array)

    return write


def two_kinds(folder):
    shards(a=X, b=X)(folder)
    (folder / "in" / "notes.txt").write_text("mine")


OBJECTS = np.array([[1, Trap()]], dtype=object)
PICKLE = pickle.dumps([Trap()])


def packed_hdf5(folder):
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "X.h5", "w") as file:
        file.create_dataset(
            "a",
            data=np.random.default_rng(0).normal(size=(999, 3)),
            chunks=(999, 3),
            compression="gzip",
        )
