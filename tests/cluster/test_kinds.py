"""What a file is by its first bytes, and which array of it is meant by a path or a message."""

from __future__ import annotations

import numpy as np
import pytest

from dualclust.algos.core.errors import InvalidValueError
from dualclust.common.formats import default_folder, file_of, open_rows
from dualclust.common.formats.checks import Array, pick_array
from dualclust.common.formats.kinds import kind_of

NOT_UTF8 = bytes([0xE9])
MARKS = b"\t", b";", b"|", b" "


@pytest.mark.parametrize(
    ("content", "key"),
    [
        (b"a,b\n1," + NOT_UTF8 + b"\n", "latin-1"),
        *((b"a%sb\n1%s" % (mark, mark) + NOT_UTF8 + b"\n", "latin-1") for mark in MARKS),
        (b"a\tb\n1\t\x01" + NOT_UTF8 + b"\n", "unknown"),
        (b"a,b;1," + NOT_UTF8, "unknown"),  # one line
        (b"a,b\n1,\0" + NOT_UTF8 + b"\n", "unknown"),  # no text at all
    ],
)
def test_a_table_in_another_encoding_is_known(tmp_path, content, key) -> None:
    path = tmp_path / "X.csv"
    path.write_bytes(content)
    assert kind_of(path).key == key


def test_an_array_of_a_file_far_down(tmp_path) -> None:
    """Its path is longer than any that a program would hold in a kilobyte."""
    folder = tmp_path
    for _ in range(6):
        folder /= "x" * 200
    folder.mkdir(parents=True)
    path = folder / "X.npz"
    np.savez(path, a=np.ones((2, 3), np.float32), b=np.zeros((4, 3), np.float32))
    assert len(str(path)) > 1200
    place = path.with_name("X.npz:b")
    assert file_of(place) == path
    assert open_rows(place).n_samples == 4
    assert default_folder(place) == path.with_name("X-clusters")


@pytest.mark.parametrize(
    ("whole", "wide", "narrow"), [("int64", "float32", "float16"), ("I64", "F32", "F16")]
)
def test_a_message_names_the_array_that_is_most_likely_meant(whole, wide, narrow) -> None:
    """The largest one of floats, in the names of NumPy and of .safetensors."""
    arrays = {
        "pairs": Array(whole, (1000, 9)),
        "emb": Array(wide, (50, 8)),
        "half": Array(narrow, (50, 4)),
        "mean": Array(wide, (5000,)),
    }
    with pytest.raises(InvalidValueError, match=r"name one: X:emb, or --array emb$"):
        pick_array("X", arrays, "")
    assert pick_array("X", {"pairs": arrays["pairs"], "mean": arrays["mean"]}, "")[0] == "pairs"
