"""Tables and stores of strangers: text, Parquet, Arrow, HDF5, and PyTorch files."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import torch

from tests.bad_inputs.arrays import archive, embeddings, of_file
from tests.bad_inputs.judge import Bad

__all__ = ["table_cases"]

X = np.arange(24, dtype=np.float32).reshape(8, 3)
TEXTS = {
    "empty": b"", "line": b"\n\n\n", "names": b"a,b\n", "nothing": b",\n,\n", "word": b"a,b\n1,x\n",
    "fields": b"a,b\n1,2\n3\n", "twice": b"a,a\n1,2\n", "missing": b"a,b\n1,\n",
    "nul": b"a\0,b\n1,2", "latin": b"a,b\n\xff,2\n", "quote": b'a,b\n"1,2\n', "nan": b"a,b\nNA,2\n",
    "gzip": b"\x1f\x8b,", "semicolons": b"a;b\n1;2\n", "long": b"a,b\n" + b"1" * 2**19 + b",2\n",
    "utf16": b"\xff\xfea\0",
    "line-without-end": b"a" * 2**20, "many": b"a," * 2**18, "index": b",a\n0,1\n",
    "hex": b"a,b\n0x1,2\n", "comma": b"a,b\n1,5,2\n", "name": b"a\n" + b"x" * 200_000,
    "html": b"<html>", "json": b'{"a": 1}', "object": b"a,b\n[1],2\n",
}  # fmt: skip


def table(**columns: Any) -> pa.Table:
    """A table of these columns."""
    return pa.table(columns)


def arrow(found: Any, *, stream: bool = False, **options: Any) -> bytes:
    """The bytes of an Arrow file or stream."""
    file, write = io.BytesIO(), pa.ipc.new_stream if stream else pa.ipc.new_file
    with write(file, found.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(found)
    return file.getvalue()


def parquet_of(found: Any, **options: Any) -> bytes:
    """The bytes of a Parquet file."""
    file = io.BytesIO()
    parquet.write_table(found, file, **options)
    return file.getvalue()


def columns() -> Iterator[tuple[str, Any]]:
    """Tables that hold no embeddings."""
    yield "null", table(a=[1.0, None], b=[1.0, 2.0])
    yield "text", table(a=["x", "y"])
    yield "bool", table(a=[True, False])
    yield "dates", table(a=np.zeros(2, "M8[s]"))
    yield "lengths", table(a=[[1.0, 2.0], [3.0]])
    yield "null-list", table(a=[[1.0], None])
    yield "null-inside", table(a=[[1.0], [None]])
    yield "empty-lists", table(a=pa.array([[], []], pa.list_(pa.float32())))
    yield "nested", table(a=[[[1.0]], [[2.0]]])
    yield "lists", table(a=[[1.0]], b=[[1.0]])
    yield "struct", table(a=[{"x": 1}])
    yield "map", table(a=pa.array([[("k", 1.0)]], pa.map_(pa.string(), pa.float64())))
    yield "bytes", table(a=[b"1"])
    yield "nothing", pa.table({"a": pa.array([], pa.float64())})
    yield "no-columns", pa.table({})
    yield "twice", pa.Table.from_arrays([pa.array([1.0])] * 2, names=["a", "a"])
    for i, note in enumerate((b"{", b"[1]", b"3", b"[" * 99_999, b'{"index_columns": 3}')):
        yield f"note-{i}", table(a=["x"]).replace_schema_metadata({b"pandas": note})


def damaged(name: str, content: bytes) -> Iterator[tuple[str, bytes]]:
    """The beginning of a file, and a file with holes."""
    for share in (4, 6, 8, 13, len(content) // 2, len(content) - 8, len(content) - 1):
        yield f"{name}-cut-{share}", content[:share]
    for place in (8, 12, len(content) - 8):  # lengths of what stands there
        for number in (2**31 - 1, 2**31, 2**32 - 1):
            there = content[:place] + number.to_bytes(4, "little") + content[place + 4 :]
            yield f"{name}-length-{place}-{number}", there


def hostile_arrow() -> Iterator[tuple[str, bytes]]:
    """Offsets of lists that lead outside, and batches that promise terabytes."""
    offsets = pa.array([0, 3, 6], pa.int32())
    good = arrow(table(a=pa.ListArray.from_arrays(offsets, pa.array(X[:2].ravel()))))
    place = good.index(np.asarray([0, 3, 6], np.int32).tobytes())
    for i, wrong in enumerate(([0, 2**30, 6], [0, 3, 2**30], [-3, 0, 3], [6, 3, 0], [0, -3, 3])):
        own = np.asarray(wrong, np.int32).tobytes()
        yield f"offsets-{i}", good[:place] + own + good[place + 12 :]


def hdf5(write: Callable[[Any], Any]) -> Callable[[Path], Any]:
    """A function that writes an HDF5 file into a folder."""

    def into(folder: Path) -> None:
        with h5py.File(folder / "X.h5", "w") as file:
            write(file)

    return into


def virtual(file: Any) -> None:
    """A data set that is made of one in another file."""
    layout = h5py.VirtualLayout(shape=(8, 3), dtype="f4")
    layout[:] = h5py.VirtualSource("/etc/other.h5", "x", shape=(8, 3))
    file.create_virtual_dataset("x", layout)


def link(file: Any) -> None:
    """A link to a data set of another file."""
    file["x"] = h5py.ExternalLink("/etc/other.h5", "/x")


STORES: dict[str, Callable[[Any], Any]] = {
    "external": lambda f: f.create_dataset("x", (8, 3), "f4", external=[("/etc/passwd", 0, 96)]),
    "beside": lambda f: f.create_dataset("x", (8, 3), "f4", external=[("other.raw", 0, 96)]),
    "virtual": virtual,
    "link": link,
    "bomb": lambda f: f.create_dataset("x", (10**9, 100), "f4", chunks=(1000, 100)),
    "text": lambda f: f.create_dataset("x", data=["a", "b"]),
    "axes": lambda f: f.create_dataset("x", (8,), "f4"),
    "empty": lambda f: f.create_dataset("x", (0, 3), "f4"),
    "null": lambda f: f.create_dataset("x", data=h5py.Empty("f4")),
    "complex": lambda f: f.create_dataset("x", (8, 3), "c8"),
    "lists": lambda f: f.create_dataset("x", (8, 3), h5py.vlen_dtype(np.float32)),
    "reference": lambda f: f.create_dataset("x", (8, 3), h5py.ref_dtype),
    "bool": lambda f: f.create_dataset("x", (8, 3), "?"),
    "record": lambda f: f.create_dataset("x", (8, 3), np.dtype([("a", "f4")])),
    "two": lambda f: (f.create_dataset("x", (8, 3), "f4"), f.create_dataset("y", (8, 3), "f4")),
    "nothing": lambda f: None,
}


class Code:
    """What runs code when it is unpickled."""

    def __reduce__(self):
        return print, ("unpickled",)


def torch_file(content: Any) -> bytes:
    """The bytes of a PyTorch file."""
    file = io.BytesIO()
    torch.save(content, file)
    return file.getvalue()


def torch_files() -> Iterator[tuple[str, bytes]]:
    """PyTorch files that hold no tensor, loops of containers, or code."""
    loop: list[Any] = []
    loop.append(loop)
    yield "loop", torch_file(loop)
    many: list[Any] = []
    for _ in range(60):
        many = [many, many]
    yield "doubled", torch_file(many)
    yield "code", torch_file({"x": Code()})
    for name, value in (("none", None), ("text", "x"), ("number", 3), ("set", {1, 2})):
        yield name, torch_file(value)
    tensors = {
        "sparse": torch.eye(3).to_sparse(), "axis": torch.ones(3), "scalar": torch.tensor(1.0),
        "complex": torch.ones(3, 2, dtype=torch.complex64), "bool": torch.ones(3, 2) > 0,
        "view": torch.ones(9, 8)[:, ::2], "empty": torch.ones(0, 3),
        "stride": torch.ones(3).expand(4, 3),
    }  # fmt: skip
    for name, tensor in tensors.items():
        yield name, torch_file(tensor)
    good = torch_file(torch.ones(8, 3))
    with zipfile.ZipFile(io.BytesIO(good)) as file:
        entries = [(name, file.read(name)) for name in file.namelist()]
    yield "packed", archive(*entries, packed=True)
    yield "order", archive(*entries, ("x/byteorder", bytes(10**6)), packed=True)
    yield "twice", good.replace(b"/version", b"/data.pk")[:-1] + b"\0"
    yield "many", archive(*entries, *((f"x/{i}", b"") for i in range(2**14)))
    own = [(name, content) for name, content in entries if not name.endswith("data/0")]
    yield "numbers", archive(*own)
    short = [(n, c[:40] if n.endswith("data/0") else c) for n, c in entries]
    yield "short", archive(*short)
    for i, pickled in enumerate(
        (b"", b".", b"\x80\x02.", b"\x80\x02K\x01.", b"\x80\x02}(K\x01]u.")
    ):
        yield (
            f"pickle-{i}",
            archive(*((n, pickled if n.endswith("data.pkl") else c) for n, c in entries)),
        )


def table_cases() -> Iterator[Bad]:
    """All of them."""
    for name, content in TEXTS.items():
        yield of_file(f"csv-{name}", "X.csv", content, embeddings)
        yield (
            of_file(f"tsv-{name}", "X.tsv", content.replace(b",", b"\t"), embeddings)
            if (name not in ("semicolons",))
            else of_file("tsv-commas", "X.tsv", b"a,b\n1,2\n", embeddings)
        )
    for name, found in columns():
        yield of_file(f"parquet-{name}", "X.parquet", parquet_of(found), embeddings)
        yield of_file(f"arrow-{name}", "X.arrow", arrow(found), embeddings)
        yield of_file(f"stream-{name}", "X.arrows", arrow(found, stream=True), embeddings)
    for name, content in damaged("parquet", parquet_of(table(a=X[:, 0], b=X[:, 1]))):
        yield of_file(name, "X.parquet", content, embeddings)
    for name, content in hostile_arrow():
        yield of_file(f"arrow-{name}", "X.arrow", content, embeddings)
    same = pa.table({"a": np.zeros(17_000_000, np.float32)})
    yield of_file("parquet-bomb", "X.parquet", parquet_of(same), embeddings)
    for name, fill in STORES.items():
        yield Bad(f"hdf5-{name}", lambda folder: embeddings(folder / "X.h5"), "X.h5", hdf5(fill))
    for name, content in torch_files():
        yield of_file(f"torch-{name}", "X.pt", content, embeddings)
