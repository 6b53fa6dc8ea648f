"""States whose hash fits and whose arrays do not: nothing is read that was not saved."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dualclust.algos.core.errors import CheckpointError
from dualclust.cluster.checkpoint import MAGIC, load_state

RUN = {"k": 3}
VALUES = np.asarray([1.5, -2.0]).tobytes()


def write(path: Path, *arrays: tuple[str, list[Any]]) -> Path:
    """Write a state of arrays of these types and shapes, with `VALUES` and their hash."""
    entries = [
        {"name": f"a{i}", "dtype": kind, "shape": shape} for i, (kind, shape) in enumerate(arrays)
    ]
    body = json.dumps({"run": RUN, "arrays": entries}).encode() + b"\n" + VALUES
    path.write_bytes(MAGIC + hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
    return path


def test_what_fits_is_read(tmp_path: Path) -> None:
    found = load_state(write(tmp_path / "a", ("<f8", [1]), ("<f8", []), ("<f8", [0, 4])), RUN)
    assert [array.shape for array in found.values()] == [(1,), (), (0, 4)]
    assert (found["a0"].tolist(), found["a1"].tolist()) == ([1.5], -2.0)


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        # A length of -1 would take what is left, and give it to the next one again.
        ([("<f8", [1]), ("<f8", [-1, 1]), ("<f8", [2])], "shape \\(-1, 1\\)"),
        ([("<f8", [2, True])], "shape \\(2, True\\)"),
        ([("<f8", [2]), ("<f8", [False])], "shape \\(False,\\)"),
        ([("<f8", [2.0])], "shape \\(2.0,\\)"),
        ([("<f8", ["2"])], "shape \\('2',\\)"),
        ([("O", [2])], "type 'O'"),
        ([(">f8", [2])], "type '>f8'"),
        ([("<f16", [1])], "type '<f16'"),
        ([("<f8", [3])], "an array of 24 bytes, and 16 are there"),
        ([("<f8", [1]), ("<f4", [3])], "an array of 12 bytes, and 8 are there"),
        ([("<f8", [2**40, 2**40])], "and 16 are there"),
        ([("<f8", [1]), ("<f4", [1])], "4 bytes too many"),
        ([], "16 bytes too many"),
    ],
)
def test_what_does_not_fit_is_refused(
    tmp_path: Path, arrays: list[tuple[str, list[Any]]], words: str
) -> None:
    with pytest.raises(CheckpointError, match=f"{words}.*start afresh"):
        load_state(write(tmp_path / "a", *arrays), RUN)
