"""Arrays of strangers: .npy files that lie in each field of their header, and archives."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from dualclust.cluster.model import read_model
from dualclust.common.formats import open_rows
from dualclust.train.data.samples import load_source
from tests.bad_inputs.judge import Bad

__all__ = ["array_cases", "embeddings", "npy", "samples"]

X = np.arange(24, dtype=np.float32).reshape(8, 3)
GOOD = "{'descr': '<f4', 'fortran_order': False, 'shape': (8, 3), }"

SHAPES = (
    "(8, -3)", "(-8, -3)", "(8.0, 3)", "(1e999, 3)", "(True, 3)", "'83'", "8", "(8, '3')", "None",
    "(2**70, 3)", "(99999999999999999999999, 3)", "(4294967296, 4294967296)", "(8, 3, 0)", "()",
    "(9, 3)", "(0, 3)", "(8, 0)", "[[8], 3]", "{8: 3}", "(8, 3j)", "(b'8', 3)", "(8, None)",
    "(" * 90 + ")" * 90, "(" + "1," * 5000 + ")",
)  # fmt: skip
TYPES = (
    "'|O'", "'<c8'", "'|b1'", "'<M8[s]'", "'<U9'", "'|V4'", "'<f3'", "'x'", "''", "5", "None",
    "[('a', '<f4')]", "[('a', '|O')]", "('<f4', (3,))", "('<f4', (99999999999,))", "[[]]",
    "'<f99999999999999999999'", "{'a': 1}", "[(1, '<f4')]", "'<f4,<f4'", "b'<f4'", "['<f4']",
    "'<U99999999999'", "'<f4\\x00'",
)  # fmt: skip
TEXTS = (
    "", "{", "{}", "[]", "None", "{'descr': '<f4'}", GOOD + ", 1", GOOD.replace("8", "os.x"),
    "[" * 5000, "-" * 9000 + "1", "{'a': " * 900, "(" * 60000, "\ud800", "9" * 6000,
    GOOD.replace("False", "f()"), GOOD.replace("'shape'", "'Shape'"), "1 if 1 else 2", "\0" * 99,
)  # fmt: skip


def npy(text: str, values: bytes = X.tobytes(), *, version: int = 1, length: int | None = None):
    """The bytes of an .npy file with this header."""
    head = text.encode("utf-8", "surrogatepass")
    code = "<H" if version == 1 else "<I"
    size = len(head) if length is None else length
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack(code, size % 2**16) + head + values


def embeddings(path: Path) -> Any:
    """Read all rows of a file as the command does."""
    rows = open_rows(path)
    return rows.rows(0, rows.n_samples)


def samples(path: Path) -> Any:
    """Read all samples of a source as training does."""
    return load_source(path, size=8)


def archive(*entries: tuple[str, bytes], packed: bool = False) -> bytes:
    """The bytes of a zip archive."""
    file, method = io.BytesIO(), zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED
    with zipfile.ZipFile(file, "w", method) as found:
        for name, content in entries:
            found.writestr(name, content)
    return file.getvalue()


def whole(array: Any) -> bytes:
    """The bytes of an .npy file of an array."""
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def changed(content: bytes, old: bytes, new: bytes) -> bytes:
    """Content in which something stands in the place of something."""
    assert old in content
    return content.replace(old, new)


def headers() -> Iterator[tuple[str, bytes]]:
    """Files that lie in one field of their header."""
    for i, shape in enumerate(SHAPES):
        yield f"shape-{i}", npy(GOOD.replace("(8, 3)", shape))
    for i, kind in enumerate(TYPES):
        yield f"dtype-{i}", npy(GOOD.replace("'<f4'", kind))
    for i, text in enumerate(TEXTS):
        yield f"text-{i}", npy(text, version=2 if len(text) > 9999 else 1)
    for version in (0, 4, 255):
        yield f"version-{version}", npy(GOOD, version=version)
    for length in (0, 1, len(GOOD) - 1, len(GOOD) + 40, 2**15):
        yield f"length-{length}", npy(GOOD, length=length)
    content = npy(GOOD)
    for end in (0, 6, 7, 8, 9, 10, 30, len(content) - 96, len(content) - 1):
        yield f"cut-{end}", content[:end]


def archives() -> Iterator[tuple[str, bytes]]:
    """Archives with one entry that lies, and archives that lie themselves."""
    for name, content in headers():
        if not name.startswith("text"):
            yield f"entry-{name}", archive(("x.npy", content))
    good = npy(GOOD)
    zeros = npy(GOOD.replace("(8, 3)", "(5700000, 3)"), bytes(68_400_000))
    yield "bomb", archive(("x.npy", zeros), packed=True)
    yield "twice", archive(("a.npy", good), ("b.npy", good)).replace(b"b.npy", b"a.npy")
    many = [(f"{i}.npy", b"") for i in range(2**14 + 1)]
    yield "many", archive(*many)
    yield "nested", archive(("x.npy", archive(("x.npy", good))))
    yield "longer", archive(("x.npy", good + b"1"))
    stored, packed = archive(("x.npy", good)), archive(("x.npy", good), packed=True)
    for place in (0, 26, 28):  # magic and lengths of the header in front of the entry
        local = bytearray(stored)
        local[place : place + 2] = b"\xff\xff"
        yield f"local-{place}", bytes(local)
    start = stored.index(b"PK\x01\x02")
    for place in (0, 8, 10, 20, 24, 42):  # the same, and sizes, in the list at the end
        entry = bytearray(stored)
        entry[start + place : start + place + 2] = b"\xff\xfe"
        yield f"listed-{place}", bytes(entry)
    for place in (12, 16):  # length and place of the list
        end = bytearray(stored)
        at = stored.index(b"PK\x05\x06") + place
        end[at : at + 2] = b"\xff\xff"
        yield f"end-{place}", bytes(end)
    yield "spoiled", packed[:60] + b"\xff" * 9 + packed[69:]
    for end in (4, 30, len(stored) // 2, len(stored) - 1):
        yield f"cut-{end}", stored[:end]


def array_cases() -> Iterator[Bad]:
    """All of them, as embeddings and as samples; the latter may be floats of any shape."""
    for name, content in headers():
        yield of_file(f"npy-{name}", "X.npy", content, embeddings)
        yield of_file(f"samples-npy-{name}", "X.npy", content, samples)
    for name, content in archives():
        yield of_file(f"npz-{name}", "X.npz", content, embeddings)
        yield of_file(f"samples-npz-{name}", "X.npz", content, samples)
    yield from models()


def models() -> Iterator[Bad]:
    """Archives of a clustering: each array of another type, shape or value."""
    arrays: dict[str, Any] = {"format": np.int64(1), "metric": np.str_("cosine")}
    arrays |= {"n_samples": np.int64(8), "centers": np.eye(2, dtype=np.float32)}
    arrays |= {"prices": np.zeros(2), "counts": np.asarray([4, 4])}
    arrays |= {"lower": np.asarray([0, 0]), "upper": np.asarray([8, 8])}
    wrong = {
        "nan": np.full((2, 2), np.nan), "text": np.str_("x"), "empty": np.zeros((0, 0)),
        "long": np.zeros(5), "object": np.asarray([None]), "huge": np.full(2, 2**63, np.uint64),
        "negative": np.asarray([-1, -1]), "complex": np.zeros(2, complex), "none": None,
    }  # fmt: skip
    for name in arrays:
        for how, value in wrong.items():
            own = {key: array for key, array in arrays.items() if key != name}
            own |= {} if value is None else {name: value}
            content = archive(*((f"{key}.npy", whole(array)) for key, array in own.items()))
            yield of_file(f"model-{name}-{how}", "model.npz", content, read_model)


def of_file(name: str, file: str, content: bytes, call: Callable[[Path], Any]) -> Bad:
    """A bad input that is one file."""

    def write(folder: Path) -> None:
        (folder / file).write_bytes(content)

    return Bad(name, lambda folder: call(folder / file), file, write)
