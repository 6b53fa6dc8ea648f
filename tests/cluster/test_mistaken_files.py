"""Sixty files that are damaged, mistaken or of another kind: what is said of each, word for word.

A message names the file, what was found, the rule, and what to do. A file that would have to be
unpickled is refused; the test's pickle would leave a trace if it were loaded.
"""

from __future__ import annotations

import gzip
import json
import os
import pickle
import struct
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from dualclust.cli.main import main
from dualclust.cluster.formats import registry

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


def bomb(folder):
    """An entry of 320 MB of zeros."""
    with zipfile.ZipFile(folder / "X.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("x.npy", "w", force_zip64=True) as file:
            file.write(whole(np.zeros((1, 8)))[:128].replace(b"(1, 8)", b"(5000000, 8)")[:128])
            for _ in range(320):
                file.write(bytes(10**6))


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


CASES = {
    "missing": Case(
        lambda f: None,
        "X.npy",
        "no file at X.npy. To fix this, look at the path, and put a pattern in quotes",
        66,
    ),
    "empty": Case(
        content(b""),
        "X.npy",
        "X.npy is empty (0 bytes). A file whose name ends in .npy must be an .npy file."
        " To fix this, write or copy it again: a full disk leaves such files",
    ),
    "cut-header": Case(
        content(whole()[:40]),
        "X.npy",
        "X.npy is cut off within its header. An .npy file begins with a header that "
        "gives type and shape. To fix this, write or copy it again",
    ),
    "cut-magic": Case(
        content(b"\x93NUMPY"),
        "X.npy",
        "X.npy is cut off within its header. An .npy file begins with a header that "
        "gives type and shape. To fix this, write or copy it again",
    ),
    "cut-numbers": Case(
        content(whole()[:-7]),
        "X.npy",
        "X.npy is cut off: its header promises 608 bytes, and it has 601. A file must "
        "be as long as its header says. To fix this, write or copy it again",
    ),
    "damaged-header": Case(
        content(whole().replace(b"descr", b"dexxr")),
        "X.npy",
        "X.npy has a damaged .npy header. An .npy file begins with a header that gives "
        "type and shape. To fix this, write or copy it again",
    ),
    "code-in-header": Case(
        content(whole().replace(b"'<f4'", b"os.x ")),
        "X.npy",
        "X.npy has a damaged .npy header. An .npy file begins with a header that gives "
        "type and shape. To fix this, write or copy it again",
    ),
    "version-9": Case(
        content(b"\x93NUMPY\x09" + whole()[7:]),
        "X.npy",
        "X.npy has a damaged .npy header. An .npy file begins with a header that gives "
        "type and shape. To fix this, write or copy it again",
    ),
    "negative": Case(
        content(whole().replace(b"(40, 3)", b"(-4, 3)")),
        "X.npy",
        "X.npy has a damaged .npy header. An .npy file begins with a header that gives "
        "type and shape. To fix this, write or copy it again",
    ),
    "objects": Case(
        npy(OBJECTS),
        "X.npy",
        "X.npy holds Python objects, which only a pickle can bring back (object). "
        "Embeddings are real numbers. To fix this, save the numbers as one array: "
        "np.save('X.npy', np.stack(rows).astype(np.float32))",
    ),
    "pickle": Case(
        content(PICKLE),
        "X.npy",
        "X.npy is a Python pickle. A file whose name ends in .npy must be an .npy file."
        " To fix this, load it yourself where you trust it, and save the numbers: "
        "np.save('X.npy', x). A pickle can run any code, so none is loaded here",
    ),
    "pickle-pkl": Case(
        content(PICKLE, "X.pkl"),
        "X.pkl",
        "X.pkl is a Python pickle. These formats are read: .npy, .npz, .parquet, "
        ".arrow, .csv, .tsv, .pt, .safetensors, .h5. To fix this, load it yourself "
        "where you trust it, and save the numbers: np.save('X.npy', x). A pickle can "
        "run any code, so none is loaded here",
    ),
    "complex": Case(
        npy(X.astype(complex)),
        "X.npy",
        "X.npy holds complex numbers (complex128). Embeddings are real numbers. To fix "
        "this, save real and imaginary parts as columns: np.concatenate([x.real, "
        "x.imag], axis=1)",
    ),
    "bool": Case(
        npy(X > 0),
        "X.npy",
        "X.npy holds truth values (bool). Embeddings are real numbers. To fix this, "
        "save them as numbers: x.astype(np.uint8)",
    ),
    "dates": Case(
        npy(np.zeros((9, 2), "M8[s]")),
        "X.npy",
        "X.npy holds dates (datetime64[s]). Embeddings are real numbers. To fix this, "
        "save embeddings instead, or numbers made of the dates",
    ),
    "strings": Case(
        npy(np.array([["a", "b"]])),
        "X.npy",
        "X.npy holds text (<U1). Embeddings are real numbers. To fix this, save "
        "embeddings of the text, or convert digits: x.astype(np.float32)",
    ),
    "records": Case(
        npy(np.zeros(9, [("a", "f4"), ("b", "i4")])),
        "X.npy",
        "X.npy holds records with the fields 'a', 'b'. Embeddings are real numbers. To "
        "fix this, save the fields as columns: "
        "numpy.lib.recfunctions.structured_to_unstructured(x)",
    ),
    "void": Case(
        npy(np.zeros((9, 2), "V2")),
        "X.npy",
        "X.npy holds raw bytes of no type that NumPy knows, as bfloat16 becomes in an "
        ".npy file (|V2). Embeddings are real numbers. To fix this, save them as "
        "numbers: x.astype(np.float32)",
    ),
    "one-axis": Case(
        npy(X[:, 0]),
        "X.npy",
        "X.npy has the shape (40,). Embeddings have the shape (n, d), with at least one"
        " row and one column. To fix this, save it as x.reshape(-1, d), or as x[:, "
        "None] if each row is one number",
    ),
    "three-axes": Case(
        npy(X.reshape(5, 8, 3)),
        "X.npy",
        "X.npy has the shape (5, 8, 3). Embeddings have the shape (n, d), with at least"
        " one row and one column. To fix this, make each sample one row: "
        "x.reshape(len(x), -1), or a mean over an axis",
    ),
    "scalar": Case(
        npy(np.float32(3)),
        "X.npy",
        "X.npy holds a single number. Embeddings have the shape (n, d), with at least "
        "one row and one column. To fix this, save one row for each sample",
    ),
    "no-rows": Case(
        npy(X[:0]),
        "X.npy",
        "X.npy has the shape (0, 3): no rows. Embeddings have the shape (n, d), with at"
        " least one row and one column. To fix this, look at the program that wrote it",
    ),
    "no-columns": Case(
        npy(X[:, :0]),
        "X.npy",
        "X.npy has the shape (40, 0): rows without numbers. Embeddings have the shape "
        "(n, d), with at least one row and one column. To fix this, look at the program"
        " that wrote it",
    ),
    "nan": Case(
        npy(changed([17, 20], 1, np.nan)),
        "X.npy",
        "X.npy holds NaN or infinity in 2 rows, the first of them row 17. Embeddings "
        "are finite numbers. To fix this, drop these rows, or look at the program that "
        "wrote them",
    ),
    "inf": Case(
        npy(changed(9, 1, -np.inf)),
        "X.npy",
        "X.npy holds NaN or infinity in row 9. Embeddings are finite numbers. To fix "
        "this, drop these rows, or look at the program that wrote them",
    ),
    "zeros": Case(
        npy(changed(9, slice(None), 0)),
        "X.npy",
        "X.npy holds only zeros in row 9. A row of zeros has no direction, which "
        "--metric cosine compares. To fix this, drop these rows, or choose --metric "
        "euclidean",
    ),
    "png": Case(
        content(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"),
        "X.npy",
        "X.npy is a PNG picture. A file whose name ends in .npy must be an .npy file. "
        "To fix this, compute embeddings of the pictures first, and give the file that "
        "holds these",
    ),
    "jpeg": Case(
        content(b"\xff\xd8\xff\xe0\0\x10JFIF", "X.jpg"),
        "X.jpg",
        "X.jpg is a JPEG picture. These formats are read: .npy, .npz, .parquet, .arrow,"
        " .csv, .tsv, .pt, .safetensors, .h5. To fix this, compute embeddings of the "
        "pictures first, and give the file that holds these",
    ),
    "gzip": Case(
        content(gzip.compress(b"1,2\n"), "X.csv.gz"),
        "X.csv.gz",
        "X.csv.gz is packed by gzip. These formats are read: .npy, .npz, .parquet, "
        ".arrow, .csv, .tsv, .pt, .safetensors, .h5. To fix this, unpack it (gunzip) "
        "and give what comes out",
    ),
    "zip-of-csv": Case(
        lambda f: zipfile.ZipFile(f / "X.zip", "w").writestr("X.csv", "1,2"),
        "X.zip",
        "X.zip is a zip archive of other files than arrays. These formats are read: "
        ".npy, .npz, .parquet, .arrow, .csv, .tsv, .pt, .safetensors, .h5. To fix this,"
        " unpack it (unzip) and give what comes out",
    ),
    "html": Case(
        content(b"<!DOCTYPE html><html>404"),
        "X.npy",
        "X.npy is a page in HTML. A file whose name ends in .npy must be an .npy file. "
        "To fix this, look at it in a browser: a download that fails often leaves such "
        "a page",
    ),
    "lfs": Case(
        content(b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n"),
        "X.npy",
        "X.npy is a pointer of Git LFS, not the file itself. A file whose name ends in "
        ".npy must be an .npy file. To fix this, fetch the file: git lfs pull",
    ),
    "json": Case(
        content(b"[[1, 2], [3, 4]]", "X.json"),
        "X.json",
        "X.json is JSON. These formats are read: .npy, .npz, .parquet, .arrow, .csv, "
        ".tsv, .pt, .safetensors, .h5. To fix this, write the numbers as .npy, .parquet"
        " or .csv",
    ),
    "text-npy": Case(
        content(b"1.0 2.0\n"),
        "X.npy",
        "X.npy is text. A file whose name ends in .npy must be an .npy file. To fix "
        "this, rename it to X.csv if its columns are divided by commas",
    ),
    "text-txt": Case(
        content(b"1.0 2.0\n", "X.txt"),
        "X.txt",
        "X.txt is text. These formats are read: .npy, .npz, .parquet, .arrow, .csv, "
        ".tsv, .pt, .safetensors, .h5. To fix this, rename it to X.csv if its columns "
        "are divided by commas",
    ),
    "unknown": Case(
        content(X.tobytes(), "X.bin"),
        "X.bin",
        "X.bin is of no format that is known here (it begins with the bytes 6c bf 00 3e"
        " 7f 46 07 be). These formats are read: .npy, .npz, .parquet, .arrow, .csv, "
        ".tsv, .pt, .safetensors, .h5. To fix this, give --dtype and --dim if it holds "
        "raw numbers, or save it as .npy",
    ),
    "npy-as-parquet": Case(
        content(whole(), "X.parquet"),
        "X.parquet",
        "X.parquet is an .npy file, by its first bytes. A file whose name ends in "
        ".parquet must be a Parquet file. To fix this, rename it to X.npy",
    ),
    "npz-as-npy": Case(
        lambda f: (npz(x=X)(f), (f / "X.npz").rename(f / "X.npy")),
        "X.npy",
        "X.npy is an .npz archive, by its first bytes. A file whose name ends in .npy "
        "must be an .npy file. To fix this, rename it to X.npz",
    ),
    "parquet-as-npy": Case(
        parquet("X.npy", a=X[:, 0]),
        "X.npy",
        "X.npy is a Parquet file, by its first bytes. A file whose name ends in .npy "
        "must be an .npy file. To fix this, rename it to X.parquet",
    ),
    "faiss": Case(
        content(b"IxF2\x03\0\0\0\0\0", "X.index"),
        "X.index",
        "X.index is a faiss index. These formats are read: .npy, .npz, .parquet, "
        ".arrow, .csv, .tsv, .pt, .safetensors, .h5. To fix this, save its vectors: "
        "index.reconstruct_n(0, n)",
    ),
    "sqlite": Case(
        content(b"SQLite format 3\0", "X.db"),
        "X.db",
        "X.db is an SQLite database. These formats are read: .npy, .npz, .parquet, "
        ".arrow, .csv, .tsv, .pt, .safetensors, .h5. To fix this, export its numbers as"
        " .npy, .parquet or .csv",
    ),
    "raw-odd": Case(
        content(bytes(1000), "X.bin"),
        "X.bin --dtype float16 --dim 768",
        "X.bin has 1000 bytes, which are 0 whole rows and 1000 bytes more. A row of 768"
        " float16 numbers has 1536 bytes. To fix this, look at --dtype and --dim, or "
        "copy the file again",
    ),
    "raw-no-dim": Case(
        content(bytes(1000), "X.bin"),
        "X.bin --dtype float16",
        "X.bin is read as raw numbers, got no --dim. To fix this, give --dtype and --dim",
        2,
    ),
    "raw-type": Case(
        content(bytes(1000), "X.bin"),
        "X.bin --dtype complex64 --dim 5",
        "--dtype must be a type of real numbers (float16, bfloat16, float32, float64, "
        "int8, uint8, int16, ..., or >f4 for big endian), got 'complex64'",
        2,
    ),
    "raw-npy": Case(
        npy(X),
        "X.npy --dtype float32 --dim 3",
        "X.npy is an .npy file. --dtype and --dim are for files of numbers alone, "
        "without a header. To fix this, leave out --dtype and --dim",
        2,
    ),
    "raw-empty": Case(
        content(b"", "X.bin"),
        "X.bin --dtype float32 --dim 3",
        "X.bin is empty (0 bytes). Embeddings have at least one row. To fix this, look "
        "at the program that wrote it",
    ),
    "npz-two": Case(
        npz(a=X, b=X),
        "X.npz",
        "X.npz holds 2 arrays. Only one can be clustered, and 2 have the shape (n, d): "
        "'a' (float32, 40 x 3); 'b' (float32, 40 x 3). To fix this, name one: X.npz:a, "
        "or --array a",
    ),
    "npz-missing": Case(
        npz(a=X, b=X[:, 0]),
        "X.npz:c",
        "X.npz has no array 'c'. It holds 'a' (float32, 40 x 3); 'b' (float32, 40). To "
        "fix this, name one of these with --array, or as X.npz:a",
    ),
    "npz-none": Case(
        npz(a=X[:, 0], b=X[:, 1]),
        "X.npz",
        "X.npz holds 2 arrays. One of them must have the shape (n, d), and there are "
        "'a' (float32, 40); 'b' (float32, 40). To fix this, look at the program that "
        "wrote it",
    ),
    "npz-empty": Case(
        npz(),
        "X.npz",
        "X.npz is a zip archive without files. A file whose name ends in .npz must be "
        "an .npz archive. To fix this, look at the program that wrote it",
    ),
    "npz-objects": Case(
        npz(a=OBJECTS),
        "X.npz",
        "X.npz:a holds Python objects, which only a pickle can bring back (object). "
        "Embeddings are real numbers. To fix this, save the numbers as one array: "
        "np.save('X.npy', np.stack(rows).astype(np.float32))",
    ),
    "npz-cut": Case(
        cut(npz(a=X), "X.npz", 0.6),
        "X.npz",
        "X.npz is the beginning of a zip archive (.npz, .pt) whose end is missing or "
        "damaged. A file whose name ends in .npz must be an .npz archive. To fix this, "
        "write or copy it again",
    ),
    "npz-spoiled": Case(
        spoiled(npz(a=X, packed=True), "X.npz", 0.5),
        "X.npz",
        "X.npz:a cannot be unpacked (*). An archive must be whole, and packed by a "
        "method that Python reads. To fix this, write or copy the archive again",
    ),
    "npz-lying": Case(
        lying,
        "X.npz",
        "X.npz:x has a header for 48128 bytes in an entry of 608 bytes. An entry of an "
        "archive must be as long as its array. To fix this, write the archive again "
        "with np.savez",
    ),
    "npz-bomb": Case(
        bomb,
        "X.npz",
        "X.npz:x promises 320000128 bytes packed into 311113. Embeddings do not pack "
        "250 times: this may be made to fill the disk. To fix this, unpack it yourself "
        "and give the .npy file",
    ),
    "npz-locked": Case(
        locked,
        "X.npz",
        "X.npz:x is locked by a password. Its arrays must be readable without a "
        "password. To fix this, write the archive again with np.savez",
    ),
    "npz-columns": Case(
        npz(a=X),
        "X.npz --columns a",
        "X.npz is an .npz archive. --columns is for tables: .parquet, .arrow, .feather,"
        " .csv, .tsv. To fix this, leave out --columns",
        2,
    ),
    "npz-ids": Case(
        npz(a=X, i=np.arange(7)),
        "X.npz:a --id i",
        "X.npz:i gives ids of type int64 and shape (7,). Ids are one whole number or "
        "text for each of the 40 rows. To fix this, name another array with --id, or "
        "leave --id out",
    ),
    "npz-no-ids": Case(
        npz(a=X),
        "X.npz:a --id i",
        "X.npz has no array 'i'. It holds 'a' (float32, 40 x 3). To fix this, name one "
        "of these with --id, or leave --id out",
    ),
    "npy-array": Case(
        npy(X),
        "X.npy:a",
        "X.npy is an .npy file, which holds a single array. --array is for files of "
        "several arrays: .npz, .pt, .safetensors, .h5. To fix this, leave out --array "
        "(or the ':NAME' after the file)",
        2,
    ),
    "npy-id": Case(
        npy(X),
        "X.npy --id url",
        "X.npy is an .npy file, which holds a single array. --id is for tables, and for"
        " .npz and .h5 files. To fix this, leave out --id",
        2,
    ),
    "pq-null": Case(
        lists([[1, 2], [3, 4], None, [5, 6]]),
        "X.parquet",
        "X.parquet has a missing value (null) in column 'emb', row 2. Every row must "
        "have all its numbers, and its id where --id asks for one. To fix this, drop "
        "the rows with missing values, or fill them",
    ),
    "pq-null-inside": Case(
        lists([[1, 2], [3, None]]),
        "X.parquet",
        "X.parquet has a missing value (null) in column 'emb', row 1. Every row must "
        "have all its numbers, and its id where --id asks for one. To fix this, drop "
        "the rows with missing values, or fill them",
    ),
    "pq-ragged": Case(
        lists([[1, 2], [3, 4], [5]]),
        "X.parquet",
        "X.parquet has lists of several lengths in column 'emb': 2 numbers in row 0, 1 "
        "in row 2. All rows must have the same length. To fix this, write rows of one "
        "length",
    ),
    "pq-empty-lists": Case(
        lists([[], []]),
        "X.parquet",
        "X.parquet holds lists without numbers. Embeddings have at least one column. To"
        " fix this, look at the program that wrote it",
    ),
    "pq-strings": Case(
        parquet(a=X[:, 0], color=["red"] * 40),
        "X.parquet",
        "X.parquet, column 'color', holds values of type string. A table gives its rows"
        " in one column of lists, or in columns of numbers. To fix this, name the "
        "columns of numbers with --columns, or the column of ids with --id",
    ),
    "pq-list-of-text": Case(
        lists([["a"], ["b"]], "string"),
        "X.parquet",
        "X.parquet, column 'emb', holds values of type string. A table gives its rows "
        "in one column of lists, or in columns of numbers. To fix this, name the "
        "columns of numbers with --columns, or the column of ids with --id",
    ),
    "pq-null-column": Case(
        parquet(a=[1.0, None, 3.0], b=[1.0, 2.0, 3.0]),
        "X.parquet",
        "X.parquet has a missing value (null) in column 'a', row 1. Every row must have"
        " all its numbers, and its id where --id asks for one. To fix this, drop the "
        "rows with missing values, or fill them",
    ),
    "pq-missing-column": Case(
        parquet(a=X[:, 0], b=X[:, 1]),
        "X.parquet --columns emb",
        "X.parquet has no column 'emb'. It has 'a', 'b'. To fix this, name some of "
        "these with --columns; 'x*' names all that begin with x",
    ),
    "pq-missing-id": Case(
        parquet(a=X[:, 0], b=X[:, 1]),
        "X.parquet --id url",
        "X.parquet has no column 'url' for the ids. It has 'a', 'b'. To fix this, name "
        "one of these with --id, or leave --id out",
    ),
    "pq-null-id": Case(
        parquet(a=X[:3, 0], b=X[:3, 1], url=["a", "b", None]),
        "X.parquet --id url",
        "X.parquet has a missing value (null) in column 'url', row 2. Every row must "
        "have all its numbers, and its id where --id asks for one. To fix this, drop "
        "the rows with missing values, or fill them",
    ),
    "pq-bool": Case(
        parquet(a=X[:, 0] > 0, b=X[:, 1]),
        "X.parquet",
        "X.parquet, column 'a', holds truth values (bool). Embeddings are real numbers."
        " To fix this, save them as numbers: x.astype(np.uint8)",
    ),
    "pq-two-lists": Case(
        parquet(a=X.tolist(), b=X.tolist()),
        "X.parquet",
        "X.parquet has 2 columns, 2 of them lists. One column of lists can be "
        "clustered, and it has 'a', 'b'. To fix this, name one: --columns a",
    ),
    "pq-no-rows": Case(
        parquet(a=X[:0, 0]),
        "X.parquet",
        "X.parquet has no rows. Embeddings have at least one row. To fix this, look at "
        "the program that wrote it",
    ),
    "pq-cut": Case(
        cut(parquet(a=X[:, 0]), "X.parquet", 0.7),
        "X.parquet",
        "X.parquet is cut off: it does not end with PAR1. What is in it is listed at "
        "its end. To fix this, write or copy it again",
    ),
    "pq-spoiled": Case(
        spoiled(parquet(a=X[:, 0]), "X.parquet", 0.85),
        "X.parquet",
        "X.parquet cannot be read (*). A table must be whole and not encrypted. To fix "
        "this, write or copy it again",
    ),
    "pq-nan": Case(
        parquet(a=[1.0, float("nan"), 3.0], b=[1.0, 2.0, 3.0]),
        "X.parquet",
        "X.parquet holds NaN or infinity in row 1. Embeddings are finite numbers. To "
        "fix this, drop these rows, or look at the program that wrote them",
    ),
    "pq-array": Case(
        parquet(a=X[:, 0]),
        "X.parquet --array a",
        "X.parquet is a Parquet file. --array is for files of several arrays: .npz, "
        ".pt, .safetensors, .h5. To fix this, leave out --array (or the ':NAME' after "
        "the file)",
        2,
    ),
    "arrow-cut": Case(
        cut(feather(), "X.feather", 0.7),
        "X.feather",
        "X.feather is cut off: it does not end with ARROW1. What is in it is listed at "
        "its end. To fix this, write or copy it again",
    ),
    "arrow-as-parquet": Case(
        feather("X.parquet"),
        "X.parquet",
        "X.parquet is an Arrow file, by its first bytes. A file whose name ends in "
        ".parquet must be a Parquet file. To fix this, rename it to X.arrow",
    ),
    "csv-word": Case(
        text("a,b\n1,2\n3,red\n"),
        "X.csv",
        "X.csv has no number in column 'b', line 3: 'red'. A table in text has a line "
        "of names, and then one number in each column of each line. To fix this, name "
        "the columns of numbers with --columns, or the column of ids with --id",
    ),
    "csv-empty-field": Case(
        text("a,b\n1,2\n3,\n"),
        "X.csv",
        "X.csv has a missing value in column 'b', row 1. Every row must have all its "
        "numbers, and its id where --id asks for one. To fix this, drop the rows with "
        "missing values, or fill them",
    ),
    "csv-fields": Case(
        text("a,b\n1,2\n3\n4,5\n"),
        "X.csv",
        "X.csv has 1 field in line 3, and 2 in the first. All lines must have the same "
        "number of fields. To fix this, write the table again",
    ),
    "csv-long-line": Case(
        text("a,b\n1,2\n1," + 3 * 2**19 * "1" + "\n3,4\n"),
        "X.csv",
        "X.csv has a line of more than 524288 bytes, or a quote without its end. A line must "
        "fit into a block. To fix this, write the rows as .npy or .parquet",
    ),
    "csv-semicolons": Case(
        text("a;b\n1;2\n"),
        "X.csv",
        "X.csv has semicolons in its first line and one column. Columns of a .csv file "
        "are divided by commas. To fix this, write it with commas",
    ),
    "csv-tabs": Case(
        text("a\tb\n1\t2\n"),
        "X.csv",
        "X.csv has tabs in its first line and one column. Columns of a .csv file are "
        "divided by commas. To fix this, rename it to .tsv",
    ),
    "csv-header-only": Case(
        text("a,b\n"),
        "X.csv",
        "X.csv has a line of names and no row. A table in text has a line of names, and"
        " then one number in each column of each line. To fix this, look at the program"
        " that wrote it",
    ),
    "csv-twice": Case(
        text("a,a\n1,2\n"),
        "X.csv",
        "X.csv has several columns of the name 'a'. Columns are told apart by their "
        "names. To fix this, rename them",
    ),
    "csv-pandas": Case(
        text(",a,b\n0,1,2\n1,3,4\n"),
        "X.csv",
        "X.csv has a column without a name, as pandas writes its index. A table in text"
        " has a line of names, and then one number in each column of each line. To fix "
        "this, write it without the index (index=False), or name columns with --columns",
    ),
    "csv-nan": Case(
        text("a,b\n1,2\n3,nan\n4,1\n"),
        "X.csv",
        "X.csv holds NaN or infinity in row 1. Embeddings are finite numbers. To fix "
        "this, drop these rows, or look at the program that wrote them",
    ),
    "csv-latin": Case(
        content("name,a\nJos\xe9,1\n".encode("latin-1"), "X.csv"),
        "X.csv",
        "X.csv is text in another encoding than UTF-8. A file whose name ends in .csv "
        "must be text in UTF-8 with commas. To fix this, save it as UTF-8",
    ),
    "csv-utf16": Case(
        content("a,b\n1,2\n".encode("utf-16"), "X.csv"),
        "X.csv",
        "X.csv is text in UTF-16. A file whose name ends in .csv must be text in UTF-8 "
        "with commas. To fix this, save it as UTF-8",
    ),
    "csv-dtype": Case(
        text("a,b\n1,2\n"),
        "X.csv --dtype int8",
        "--dtype must be float16, float32 or float64 for the text of X.csv, got 'int8'",
        2,
    ),
    "csv-id": Case(
        text("a,b\n1,2\n"),
        "X.csv --id url",
        "X.csv has no column 'url' for the ids. It has 'a', 'b'. To fix this, name one "
        "of these with --id, or leave --id out",
    ),
    "csv-blank": Case(
        text("\n\n"),
        "X.csv",
        "X.csv has no line that is not empty. A table in text has a line of names, and "
        "then one number in each column of each line. To fix this, look at the program "
        "that wrote it",
    ),
    "h5-two": Case(
        hdf5(a=X, b=X),
        "X.h5",
        "X.h5 holds 2 data sets. Only one can be clustered, and 2 have the shape (n, "
        "d): 'a' (float32, 40 x 3); 'b' (float32, 40 x 3). To fix this, name one: "
        "X.h5:a, or --array a",
    ),
    "h5-missing": Case(
        hdf5(a=X),
        "X.h5:c/d",
        "X.h5 has no data set 'c/d'. It holds 'a' (float32, 40 x 3). To fix this, name "
        "one of these with --array, or as X.h5:a",
    ),
    "h5-text": Case(
        hdf5(a=["x", "y"]),
        "X.h5",
        "X.h5:a holds text or lists of several lengths. Embeddings are real numbers, in"
        " rows of one length. To fix this, write a data set of shape (n, d): file['X'] "
        "= np.stack(rows)",
    ),
    "h5-one-axis": Case(
        hdf5(a=X[:, 0]),
        "X.h5",
        "X.h5:a has the shape (40,). Embeddings have the shape (n, d), with at least "
        "one row and one column. To fix this, save it as x.reshape(-1, d), or as x[:, "
        "None] if each row is one number",
    ),
    "h5-cut": Case(
        cut(hdf5(a=X), "X.h5", 0.7),
        "X.h5",
        "X.h5 cannot be read (*). An HDF5 file must be whole, and packed by a filter "
        "that h5py has. To fix this, write or copy it again",
    ),
    "h5-complex": Case(
        hdf5(a=X.astype(complex)),
        "X.h5",
        "X.h5:a holds complex numbers (complex128). Embeddings are real numbers. To fix"
        " this, save real and imaginary parts as columns: np.concatenate([x.real, "
        "x.imag], axis=1)",
    ),
    "h5-records": Case(
        hdf5(a=np.zeros(9, [("a", "f4")])),
        "X.h5",
        "X.h5:a holds records with the fields 'a'. Embeddings are real numbers. To fix "
        "this, save the fields as columns: "
        "numpy.lib.recfunctions.structured_to_unstructured(x)",
    ),
    "h5-spoiled": Case(
        spoiled(packed_hdf5, "X.h5", 0.6),
        "X.h5",
        "X.h5 cannot be read (*). An HDF5 file must be whole, and packed by a filter "
        "that h5py has. To fix this, write or copy it again",
    ),
    "h5-empty": Case(
        hdf5(),
        "X.h5",
        "X.h5 holds no data set. It must hold one data set of shape (n, d). To fix "
        "this, look at the program that wrote it",
    ),
    "pt-object": Case(
        tensors(lambda t: {"x": t.ones(3, 2), "o": Trap()}),
        "X.pt",
        "X.pt holds Python objects other than tensors, which could run code when "
        "loaded. A PyTorch file must hold a tensor, or dictionaries and lists of "
        "tensors. To fix this, save the tensor alone: torch.save({'X': x}, path)",
    ),
    "pt-old": Case(
        tensors(lambda t: t.ones(3, 2), _use_new_zipfile_serialization=False),
        "X.pt",
        "X.pt is a PyTorch file of the form before version 1.6, which is a bare pickle."
        " A file whose name ends in .pt must be a PyTorch file. To fix this, load it "
        "with torch.load(path, weights_only=True) and save it again with torch.save",
    ),
    "pt-two": Case(
        tensors(lambda t: {"a": t.ones(3, 2), "m": {"b": t.ones(3, 2)}}),
        "X.pt",
        "X.pt holds 2 tensors. Only one can be clustered, and 2 have the shape (n, d): "
        "'a' (float32, 3 x 2); 'm.b' (float32, 3 x 2). To fix this, name one: X.pt:a, "
        "or --array a",
    ),
    "pt-none": Case(
        tensors(lambda t: {"a": 3}),
        "X.pt",
        "X.pt holds no tensor. It must hold one tensor of shape (n, d). To fix this, "
        "look at the program that wrote it",
    ),
    "pt-view": Case(
        tensors(lambda t: t.ones(9, 8)[:, ::2]),
        "X.pt",
        "X.pt holds a view of a larger tensor (strides (8, 2)). The rows of a tensor "
        "must lie one after the other. To fix this, save a copy that does: "
        "torch.save(x.contiguous(), path)",
    ),
    "pt-cut": Case(
        cut(tensors(lambda t: t.ones(9, 8)), "X.pt", 0.7),
        "X.pt",
        "X.pt is the beginning of a zip archive (.npz, .pt) whose end is missing or "
        "damaged. A file whose name ends in .pt must be a PyTorch file. To fix this, "
        "write or copy it again",
    ),
    "pt-float8": Case(
        tensors(lambda t: t.ones(9, 8).to(t.float8_e4m3fn)),
        "X.pt",
        "X.pt holds numbers of type float8_e4m3fn. Embeddings are real numbers of a "
        "type that NumPy has, or bfloat16. To fix this, save them as another type: "
        "x.to(torch.float16)",
    ),
    "st-cut": Case(
        safetensors({"x": entry([40, 3])}, X.tobytes()[:-9]),
        "X.safetensors",
        "X.safetensors:x is cut off: its header promises 555 bytes, and it has 546. A "
        "file must be as long as its header says. To fix this, write or copy it again",
    ),
    "st-cut-header": Case(
        safetensors({"x": entry([40, 3])}, length=10**6),
        "X.safetensors",
        "X.safetensors is cut off within its header. It begins with the length of a "
        "header, which names its tensors. To fix this, write or copy the file again",
    ),
    "st-damaged": Case(
        safetensors(b"{x: 3}", X.tobytes()),
        "X.safetensors",
        "X.safetensors has a damaged header. It begins with the length of a header, "
        "which names its tensors. To fix this, write or copy the file again",
    ),
    "st-negative": Case(
        safetensors({"x": entry([-40, -3])}, X.tobytes()),
        "X.safetensors",
        "X.safetensors has a damaged header. It begins with the length of a header, "
        "which names its tensors. To fix this, write or copy the file again",
    ),
    "st-float8": Case(
        safetensors({"x": entry([40, 3], "F8_E4M3")}, X.tobytes()),
        "X.safetensors",
        "X.safetensors:x holds numbers of type F8_E4M3. Embeddings are real numbers of "
        "a type that NumPy has, or bfloat16. To fix this, save them as another type: "
        "x.to(torch.float16)",
    ),
    "st-missing": Case(
        safetensors({"x": entry([40, 3])}, X.tobytes()),
        "X.safetensors:y",
        "X.safetensors has no tensor 'y'. It holds 'x' (F32, 40 x 3). To fix this, name"
        " one of these with --array, or as X.safetensors:x",
    ),
    "sh-widths": Case(
        shards(a=X, b=X[:, :2]),
        "in",
        "in has rows of 3 numbers in in/a.npy, and of 2 in in/b.npy. All shards must "
        "have rows of the same length. To fix this, give the files of one model only",
    ),
    "sh-kinds": Case(
        two_kinds,
        "in",
        "in has files of 2 kinds. Shards are files of one format, and here are 'a.npy',"
        " 'notes.txt'. To fix this, name those you mean by a pattern in quotes: "
        "'in/*.npy'",
    ),
    "sh-none": Case(
        shards(),
        "in",
        "in is a folder without files. Shards are files of one format. To fix this, "
        "look at the path",
        66,
    ),
    "sh-nan": Case(
        shards(a1=X, a2=changed(3, 0, np.nan), a10=X),
        "in",
        "in holds NaN or infinity in row 43 (row 3 of in/a2.npy). Embeddings are finite"
        " numbers. To fix this, drop these rows, or look at the program that wrote them",
    ),
    "sh-glob": Case(
        shards(),
        "in/*.npy",
        "in/*.npy matches no file. Shards are files of one format. To fix this, look at the path",
        66,
    ),
    "sh-zarr": Case(
        lambda f: ((f / "X.zarr").mkdir(), (f / "X.zarr" / "zarr.json").write_text("{}")),
        "X.zarr",
        "X.zarr is a Zarr store, which is not read. These formats are read: .npy, .npz,"
        " .parquet, .arrow, .csv, .tsv, .pt, .safetensors, .h5. To fix this, write it "
        "as .npy, or as HDF5, a block at a time",
    ),
}
"""A star stands for a library's own words, which change with its version."""


@pytest.mark.parametrize("name", CASES)
def test_what_is_said(tmp_path, capsys, monkeypatch, name) -> None:
    case = CASES[name]
    monkeypatch.chdir(tmp_path)
    case.write(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    assert main(["cluster", *case.arguments.split(), "-k", "3"]) == case.code
    out, err = capsys.readouterr()
    assert out == ""
    lead, _, end = f"dualclust: error: {case.message}\n".partition("*")
    if "(*)" in case.message:
        assert err.startswith(lead)
        assert err.endswith(end)
        assert err.count("\n") == 1
    else:
        assert err == f"dualclust: error: {case.message}\n"
    assert sorted(tmp_path.rglob("*")) == before  # no output; no trap has sprung


def test_a_file_that_may_not_be_read(tmp_path, capsys, monkeypatch) -> None:
    path = tmp_path / "X.npy"
    np.save(path, X)

    def refused(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(registry, "kind_of", refused)
    assert main(["cluster", str(path), "-k", "3"]) == 65
    assert capsys.readouterr().err == (
        f"dualclust: error: {path} cannot be opened (Permission denied). The file must be there "
        f"to be read. To fix this, look at who may read it\n"
    )


def test_the_trap_can_spring(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    pickle.loads(PICKLE)
    assert (tmp_path / "unpickled").is_dir()


def test_every_message_names_the_file_and_a_way_out() -> None:
    assert len(CASES) >= 60
    for name, case in CASES.items():
        file = case.arguments.split()[0].partition(":")[0].partition("*")[0].rstrip("/")
        if case.code != 2:  # about an option, not about the file
            assert file in case.message, name
            assert "To fix this, " in case.message, name


@pytest.mark.parametrize(
    ("name", "library", "extra"),
    [
        ("X.parquet", "pyarrow", "parquet"),
        ("X.feather", "pyarrow", "parquet"),
        ("X.csv", "pyarrow", "parquet"),
        ("X.h5", "h5py", "hdf5"),
        ("X.pt", "torch", "train"),
    ],
)
def test_a_missing_library_names_its_extra(
    tmp_path, capsys, monkeypatch, name, library, extra
) -> None:
    starts = {".parquet": b"PAR1", ".feather": b"ARROW1", ".csv": b"a,b\n1,2\n"}
    starts[".h5"] = b"\x89HDF\r\n\x1a\n"
    path = tmp_path / name
    if name == "X.pt":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("X/data.pkl", b"")
    else:
        path.write_bytes(starts[path.suffix])
    for module in [module for module in sys.modules if module.partition(".")[0] == library]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, library, None)
    assert main(["cluster", str(path), "-k", "3"]) == 69
    what = {"X.csv": "a table in text", "X.feather": "an Arrow file", "X.h5": "an HDF5 file"}
    what |= {"X.pt": "a PyTorch file", "X.parquet": "a Parquet file"}
    assert capsys.readouterr().err == (
        f"dualclust: error: {path} is {what[name]}, which needs {library}, and {library} is not "
        f"installed. To fix this: pip install 'dualclust[{extra}]'\n"
    )
