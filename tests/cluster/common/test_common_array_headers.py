"""Headers of arrays of strangers: each limit on both sides, each figure that they give."""

import ast
import io
import sys
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from dualclust.algos.core.errors import InvalidTypeError, InvalidValueError
from dualclust.cluster.values_of_rows import read_weights
from dualclust.common import array_headers as module
from dualclust.common.array_headers import (
    Header,
    archive_headers,
    check_array_file,
    check_entry,
    content_offset,
    read_header,
)
from dualclust.common.untrusted import SMALL


def stored(array, version=None):
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version)
    return file.getvalue()


def written(text, version=1, length=None):
    """The beginning of an .npy file with this header; `length` is what it says of itself."""
    size = len(text) if length is None else length
    digits = 2 if version == 1 else 4
    return module.MAGIC + bytes([version, 0]) + size.to_bytes(digits, "little") + text


def header_of(content):
    return read_header(io.BytesIO(content), "X.npy")


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)], ids=str)
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(), (7,), (3, 5), (2, 3, 4)], ids=str)
def test_a_header_says_what_numpy_wrote(shape, order, version):
    array = np.zeros(shape, "<f4", order=order)
    content = stored(array, version)
    found = header_of(content)
    assert found[:2] == (array.dtype, shape)
    assert found.by_columns == (order == "F" and len(shape) > 1)
    assert found.n_bytes == len(content)
    assert found.length == len(content) - array.nbytes


def test_numbers_of_python_2_are_read():
    text = b"{'descr': '<f8', 'fortran_order': False, 'shape': (10L, 3L)}"
    assert header_of(written(text)).shape == (10, 3)


RIGHT = b"{'descr': '<f8', 'fortran_order': False, 'shape': %s}"


def axes(count):
    return RIGHT % (b"(" + b"1," * count + b")")


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (written(axes(64)), None),
        (written(axes(65)), "has a damaged .npy header"),
        (written(RIGHT % b"(0,)"), None),
        (written(RIGHT % b"(-1,)"), "has a damaged .npy header"),
        (written(RIGHT % b"(True,)"), "has a damaged .npy header"),
        (written(RIGHT % b"(3,)", version=4), "has a damaged .npy header"),
        (written(RIGHT % b"(3,)", version=0), "has a damaged .npy header"),
        (b"\x92" + stored(np.zeros(2))[1:], "has a damaged .npy header"),
        (written((RIGHT % b"(3,)").ljust(2**16), version=2), None),
        (written((RIGHT % b"(3,)").ljust(2**16 + 1), version=2), "has a damaged .npy header"),
        (written(RIGHT % b"(3,)", length=500), "is cut off within its header"),
        (module.MAGIC + b"\x01", "is cut off within its header"),
        (module.MAGIC + b"\x01\0\x02", "is cut off within its header"),
        (module.MAGIC + b"\x02\0\x02\0\0", "is cut off within its header"),
        (written(RIGHT % "'é'".encode("latin1"), version=3), "has a damaged .npy header"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_limits_of_a_header(content, found):
    if found is None:
        assert header_of(content).length == len(content)
        return
    with pytest.raises(InvalidValueError) as caught:
        header_of(content)
    assert str(caught.value) == (
        f"X.npy {found}. An .npy file begins with a header that gives type and shape. "
        f"To fix this, write or copy it again"
    )


def archive(path, entries, kind=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", kind) as file:
        for name, array in entries.items():
            file.writestr(name, stored(array))
    return path


def test_an_archive_lists_its_headers_and_where_content_begins(tmp_path):
    entries = {"a.npy": np.arange(6).reshape(2, 3), "longer name.npy": np.zeros(4, "<f4")}
    path = archive(tmp_path / "X.npz", entries)
    found = archive_headers(path)
    assert [(key, header.shape) for key, (_, header) in found.items()] == [
        ("a", (2, 3)),
        ("longer name", (4,)),
    ]
    with path.open("rb") as file:
        for info, header in found.values():
            at = content_offset(file, info)
            file.seek(at)
            assert file.read(6) == module.MAGIC
            check_entry("X", info, header)


def test_an_archive_has_so_many_entries_at_most(tmp_path, monkeypatch):
    path = archive(tmp_path / "X.npz", {f"{i}.npy": np.zeros(1) for i in range(3)})
    monkeypatch.setattr(module, "MOST_ENTRIES", 3)
    assert len(archive_headers(path)) == 3
    monkeypatch.setattr(module, "MOST_ENTRIES", 2)
    with pytest.raises(InvalidValueError, match=r"X\.npz has 3 entries\. .* has 2 entries at"):
        archive_headers(path)


def test_content_begins_after_a_long_name_and_what_else_stands_before_it(tmp_path):
    """Each length has two bytes, and here two different ones."""
    info = zipfile.ZipInfo(f"{'n' * 300}.npy")
    info.extra = b"\xfe\xca" + (600).to_bytes(2, "little") + bytes(600)
    path = tmp_path / "X.npz"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("first.npy", stored(np.zeros(3)))
        file.writestr(info, stored(np.arange(4)))
    (found, header) = archive_headers(path)["n" * 300]
    assert found.header_offset > 0
    with path.open("rb") as file:
        at = content_offset(file, found)
    assert path.read_bytes()[at : at + header.n_bytes] == stored(np.arange(4))


def test_entries_of_one_name_are_refused(tmp_path):
    path = archive(tmp_path / "X.npz", {"a.npy": np.ones(2), "a": np.ones(3)})
    with pytest.raises(InvalidValueError) as caught:
        archive_headers(path)
    assert str(caught.value) == (
        f"{path} has several entries of the name 'a'. Entries are told apart by their names. "
        f"To fix this, write the archive again with np.savez"
    )


def test_an_entry_with_a_password_is_refused(tmp_path):
    path = archive(tmp_path / "X.npz", {"a.npy": np.ones(2)})
    content = bytearray(path.read_bytes())
    content[6] |= 1  # the flags, in front of the content and in the list at the end
    content[content.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(content)
    with pytest.raises(InvalidValueError) as caught:
        archive_headers(path)
    assert str(caught.value) == (
        f"{path}:a is locked by a password. Its arrays must be readable without a password. "
        f"To fix this, write the archive again with np.savez"
    )


def entry(size, packed, kind=zipfile.ZIP_STORED):
    info = zipfile.ZipInfo("a.npy")
    info.file_size, info.compress_size, info.compress_type = size, packed, kind
    return info


def test_an_entry_is_as_long_as_its_array_and_packed_in_reason():
    header = Header(np.dtype("<f8"), (100,), False, 128)
    check_entry("X", entry(928, 928), header)
    check_entry("X", entry(928, 100, zipfile.ZIP_DEFLATED), header)
    with pytest.raises(
        InvalidValueError, match=r"^X has a header for 928 bytes in an entry of 927 "
    ):
        check_entry("X", entry(927, 927), header)
    with pytest.raises(InvalidValueError, match=r"^X has 928 bytes, and 900 where it is stored"):
        check_entry("X", entry(928, 900), header)
    size = 128 + 8 * SMALL
    large = Header(np.dtype("<f8"), (SMALL,), False, 128)
    check_entry("X", entry(size, size // 200, zipfile.ZIP_DEFLATED), large)
    with pytest.raises(InvalidValueError, match=f"^X promises {size} bytes packed into 9"):
        check_entry("X", entry(size, 9, zipfile.ZIP_DEFLATED), large)


def test_a_file_that_is_loaded_whole_is_looked_at_first(tmp_path):
    path = tmp_path / "X.npy"
    path.write_bytes(stored(np.arange(4)))
    assert check_array_file(path) == []
    path.write_bytes(stored(np.arange(4)) + b"\0")
    with pytest.raises(InvalidValueError, match=r"X\.npy has 161 bytes under a header for 160"):
        check_array_file(path)
    path = archive(tmp_path / "X.npz", {"b.npy": np.ones(2)})
    assert check_array_file(path) == ["b"]
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("c.npy", stored(np.ones(2)) + b"\0")
    with pytest.raises(
        InvalidValueError, match=r"X\.npz:c has a header for 144 bytes in an .* 145"
    ):
        check_array_file(path)


@pytest.mark.parametrize(
    ("descr", "words"),
    [("|O", "Python objects"), ("[('a', '<f8')]", "records or raw bytes"), ("|V8", "records")],
)
@pytest.mark.parametrize("packed", [False, True])
def test_what_is_no_number_is_refused(tmp_path: Path, descr, words, packed):
    kind = descr if descr.startswith("[") else repr(descr)
    text = f"{{'descr': {kind}, 'fortran_order': False, 'shape': (1,)}}".encode()
    content = written(text) + bytes(8)
    path = tmp_path / ("X.npz" if packed else "X.npy")
    if packed:
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("a.npy", content)
    else:
        path.write_bytes(content)
    with pytest.raises(InvalidTypeError, match=f"{path.name}{':a' * packed} holds {words}"):
        check_array_file(path)


@pytest.mark.skipif(
    sys.version_info >= (3, 12, 2), reason="this Python counts the depth of literals by thread"
)
def test_no_two_threads_parse_headers_at_once(tmp_path, monkeypatch) -> None:
    """Python before 3.11.8 may raise a SystemError then, as one of 23,854 tests once did."""
    path = tmp_path / "x.npy"
    np.save(path, np.arange(6.0))
    inside, most, real = [], [], ast.literal_eval

    def slow(words):
        inside.append(words)
        time.sleep(0.002)
        most.append(len(inside))
        inside.pop()
        return real(words)

    monkeypatch.setattr(ast, "literal_eval", slow)

    def ours(_):
        with path.open("rb") as file:
            return read_header(file, path).shape

    def weights(_):
        return read_weights(path, 6).shape

    with ThreadPoolExecutor(8) as pool:
        found = [pool.submit(work, i) for i in range(8) for work in (ours, weights)]
        assert all(each.result() == (6,) for each in found)
    assert len(most) >= 24  # NumPy's own, too
    assert set(most) == {1}
