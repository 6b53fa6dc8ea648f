"""Files of any kind of content, and what is known of them without decoding."""

import hashlib
import os
import zipfile

import numpy as np
import pytest

from dualclust.algos.core.errors import InvalidTypeError, InvalidValueError
from dualclust.train.data.splits import Copy, File, damaged


def test_bytes_of_a_file_a_piece_of_memory_and_a_copy(tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(b"content")
    assert File("a.png", str(path)).read() == b"content"
    packed = memoryview(np.frombuffer(b"some content", np.uint8))
    found = File("train[1]", packed[5:]).read()
    assert (found, type(found)) == (b"content", bytes)
    pixels = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    assert File("a.png", Copy(pixels, (9, 9))).read() == bytes(range(12))


def test_a_file_is_known_by_its_place_size_and_time_and_bytes_by_themselves(tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(b"content")
    os.utime(path, ns=(5, 1234567891))
    assert File("a.png", str(path)).stamp() == f"{path} 7 1234567891"
    gone = tmp_path / "gone.png"
    gone.symlink_to("nowhere.png")
    assert File("gone.png", str(gone)).stamp() == f"{gone} gone"
    digest = hashlib.sha256(b"content").hexdigest()
    assert File("train[1]", memoryview(b"content")).stamp() == f"train[1] {digest}"
    copy = Copy(np.frombuffer(b"content", np.uint8), (9, 9))
    assert File("b", copy).stamp() == f"b {digest}"


@pytest.mark.parametrize(
    "error",
    [OSError("x"), ValueError("x"), MemoryError("x"), EOFError("x"), zipfile.BadZipFile("x")],
)
def test_what_goes_wrong_while_a_file_is_read_names_it(tmp_path, error):
    words = rf"cannot read {tmp_path}: damaged, or not plain arrays \(x\)\. To fix this, write or"
    with pytest.raises(InvalidValueError, match=words), damaged(tmp_path):
        raise error
    own = InvalidTypeError("of our own")
    with pytest.raises(InvalidTypeError, match=r"^of our own$"), damaged(tmp_path):
        raise own
