"""The command's checkpoint: bit for bit, all or nothing, and of this run only."""

from __future__ import annotations

import os

import numpy as np
import pytest

from dualclust.algos.core.errors import CheckpointError, MissingFileError, OutputError
from dualclust.cluster.checkpoint import MAGIC, load_state, save_state

RUN = {"input": "abc", "k": 3, "tol": 1e-3, "rows": [5, 2], "weights": None}
ARRAYS = {
    "centers": np.random.default_rng(0).normal(size=(3, 2)).astype(np.float32),
    "prices": np.asarray([0.1, -0.0, np.inf]),
    "labels": np.asarray([2, 0, 1, 1, 0]),
    "n_iter": np.asarray(7),
    "none": np.empty((0, 4)),
    "big-endian": np.asarray([1, 2], dtype=">i4"),
}


@pytest.fixture
def path(tmp_path):
    save_state(tmp_path / "a" / "X.state", RUN, ARRAYS)
    return tmp_path / "a" / "X.state"


def test_what_is_read_is_what_was_saved(path) -> None:
    found = load_state(path, RUN)
    assert list(found) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert found[name].shape == array.shape
        assert found[name].dtype == array.dtype.newbyteorder("=")
        assert found[name].tobytes() == array.astype(array.dtype.newbyteorder("=")).tobytes()
        assert found[name].flags.writeable
    assert [file.name for file in path.parent.iterdir()] == ["X.state"]


def test_equal_states_are_equal_files(path, tmp_path) -> None:
    save_state(tmp_path / "again", dict(reversed(RUN.items())), ARRAYS)
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


def test_a_new_one_replaces_the_old_one(path) -> None:
    save_state(path, RUN, ARRAYS | {"n_iter": np.asarray(8)})
    assert load_state(path, RUN)["n_iter"] == 8
    assert [file.name for file in path.parent.iterdir()] == ["X.state"]


def test_every_damaged_byte_is_found(path) -> None:
    whole = path.read_bytes()
    for place in range(0, len(whole), 3):
        damaged = bytearray(whole)
        damaged[place] ^= 4
        path.write_bytes(damaged)
        with pytest.raises(CheckpointError):
            load_state(path, RUN)


@pytest.mark.parametrize("length", [0, 5, len(MAGIC), len(MAGIC) + 20, -1])
def test_a_file_that_was_cut_off(path, length) -> None:
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(CheckpointError):
        load_state(path, RUN)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"k": 4}, "k: 3 there, 4 here"),
        ({"input": "abd"}, "input: 'abc' there, 'abd' here"),
        ({"rows": [5, 3]}, r"rows: \[5, 2\] there"),
        ({"weights": "abc"}, "weights: None there"),
        ({"more": 1}, "more: None there, 1 here"),
    ],
)
def test_another_run_is_refused(path, change, words) -> None:
    with pytest.raises(CheckpointError, match=words):
        load_state(path, RUN | change)


def test_another_file_is_refused(path) -> None:
    np.save(path.with_suffix(".npy"), np.ones(100))
    with pytest.raises(CheckpointError, match="is not a checkpoint"):
        load_state(path.with_suffix(".npy"), RUN)
    with pytest.raises(MissingFileError, match="no checkpoint at"):
        load_state(path.with_name("gone"), RUN)


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_write_that_fails_leaves_the_old_one(path, monkeypatch, error) -> None:
    before = path.read_bytes()

    def fail(handle):
        raise error

    monkeypatch.setattr(os, "fsync", fail)
    kind = OutputError if isinstance(error, OSError) else KeyboardInterrupt
    with pytest.raises(kind):
        save_state(path, RUN, ARRAYS | {"n_iter": np.asarray(8)})
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == ["X.state"]


def test_a_folder_that_cannot_be_written(path) -> None:
    with pytest.raises(OutputError, match="cannot write into"):
        save_state(path / "deeper", RUN, ARRAYS)
