"""Rows that are not plain numbers in their file: a batch of memory, a copy that leaves nothing."""

from __future__ import annotations

import os
import tracemalloc

import numpy as np
import pytest

from dualclust.algos.core.errors import OutputError
from dualclust.common import ranks
from dualclust.common.formats import copies, open_rows
from dualclust.common.formats.plain import PlainRows
from tests.cluster.written_formats import (
    N,
    X,
    columns_table,
    npz,
    write_parquet,
)


@pytest.mark.parametrize("name", ["npz", "parquet", "csv", "h5", "feather"])
def test_memory_is_a_batch(tmp_path, name) -> None:
    n, d = 200_000, 32  # 25.6 MB
    x = np.broadcast_to(np.arange(1, d + 1, dtype=np.float32), (n, d))
    path = tmp_path / f"X.{name}"
    if name == "npz":
        np.savez_compressed(path, np.random.default_rng(0).normal(size=(n, d)).astype(np.float32))
    elif name == "parquet":
        write_parquet(path, columns_table(x), row_group_size=20_000)
    elif name == "feather":
        pytest.importorskip("pyarrow.feather").write_feather(columns_table(x), path)
    elif name == "csv":
        pytest.importorskip("pyarrow")
        path.write_text("a,b\n" + "1.5,2.5\n" * 3 * n)
    else:
        h5py = pytest.importorskip("h5py")
        with h5py.File(path, "w") as file:
            file.create_dataset("x", data=x, chunks=(1000, d), compression="gzip")
    tracemalloc.start()
    try:
        rows = open_rows(path)
        for start in range(0, rows.n_samples, 8192):
            rows.rows(start, min(rows.n_samples, start + 8192))
        rows.take(np.arange(0, n, 1000))
        assert tracemalloc.get_traced_memory()[1] < 16e6
    finally:
        tracemalloc.stop()


def test_a_copy_leaves_nothing(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    npz(tmp_path / "X.npz", np.savez_compressed)
    rows = open_rows(tmp_path / "X.npz")
    assert isinstance(rows, PlainRows)
    assert list((tmp_path / "tmp").iterdir()) == []
    np.testing.assert_array_equal(rows.rows(0, N), X)


@pytest.fixture
def three_ranks(tmp_path, monkeypatch):
    """The environment of a rank among three of this machine, and a place for their copies."""
    if not hasattr(os, "O_NOFOLLOW"):
        pytest.skip("files cannot be locked safely here, so each rank makes its own copy")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    run = {"WORLD_SIZE": "3", "RANK": "0", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "3"}
    for name, value in {**run, "MASTER_ADDR": "here", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("other", ["time", "size", "run"])
def test_a_copy_that_a_killed_run_left_is_not_taken(
    tmp_path, three_ranks, monkeypatch, other
) -> None:
    """It has the name of the file, its shape and its port."""
    path = tmp_path / "X.npz"
    npz(path, np.savez_compressed)
    killed = open_rows(path)  # held, as by a process whose end removes nothing
    [left] = tmp_path.glob("dualclust-*.rows")
    state = path.stat()
    if other == "run":
        monkeypatch.setattr(ranks, "_token", "another")
    else:
        npz(path, np.savez_compressed, -X if other == "time" else 0 * X)
        same_size = path.stat().st_size == state.st_size
        assert same_size == (other == "time")  # signs alone pack as well
        os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns + same_size))
    with np.load(path) as archive:
        written = archive["X"]
    found = open_rows(path)
    assert len(list(tmp_path.glob("dualclust-*.rows"))) == 2
    assert left.exists()
    np.testing.assert_array_equal(found.rows(0, N), written)
    np.testing.assert_array_equal(killed.rows(0, N), X)


def test_ranks_of_a_machine_share_a_copy(tmp_path, three_ranks, monkeypatch) -> None:
    npz(tmp_path / "X.npz", np.savez_compressed)
    before = sorted(tmp_path.iterdir())
    opened = [open_rows(tmp_path / "X.npz") for _ in range(2)]
    assert len(list(tmp_path.glob("dualclust-*.rows"))) == 1
    opened.append(open_rows(tmp_path / "X.npz"))
    assert sorted(tmp_path.iterdir()) == before  # the last one has opened it
    for rows in opened:
        np.testing.assert_array_equal(rows.rows(0, N), X)
    lost = open_rows(tmp_path / "X.npz")
    del lost  # a rank that ends before the others have come
    assert sorted(tmp_path.iterdir()) == before


def test_no_space_for_the_copy(tmp_path, monkeypatch) -> None:
    npz(tmp_path / "X.npz", np.savez_compressed)
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr(copies.shutil, "disk_usage", lambda path: usage)
    with pytest.raises(OutputError, match=r"temporary copy .* 6.4e-06 GB, and 1e-06 GB are free"):
        open_rows(tmp_path / "X.npz")
    monkeypatch.undo()

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(copies, "_lay_down", full)
    with pytest.raises(OutputError, match=r"writing it failed: No space left on device\. To fix"):
        open_rows(tmp_path / "X.npz")
