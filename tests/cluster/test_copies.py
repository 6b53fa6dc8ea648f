"""Rows that are not plain numbers in their file: a batch of memory, a copy that leaves nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

from dualclust.algos.core.errors import InvalidValueError, OutputError
from dualclust.common import ranks
from dualclust.common.formats import copies, open_rows
from dualclust.common.formats.rows import BATCH_BYTES, Stream
from dualclust.common.formats.shared_copies import remove_leftovers
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
    np.testing.assert_array_equal(rows.rows(0, N), X)
    assert list((tmp_path / "tmp").iterdir()) == []


def copied(path):
    """Open rows and read one, for which all of them are copied."""
    rows = open_rows(path)
    rows.rows(0, 1)
    return rows


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
    killed = copied(path)  # held, as by a process whose end removes nothing
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
    found = copied(path)
    assert len(list(tmp_path.glob("dualclust-*.rows"))) == 2
    assert left.exists()
    np.testing.assert_array_equal(found.rows(0, N), written)
    np.testing.assert_array_equal(killed.rows(0, N), X)


def test_ranks_of_a_machine_share_a_copy(tmp_path, three_ranks, monkeypatch) -> None:
    npz(tmp_path / "X.npz", np.savez_compressed)
    before = sorted(tmp_path.iterdir())
    opened = [copied(tmp_path / "X.npz") for _ in range(2)]
    assert len(list(tmp_path.glob("dualclust-*.rows"))) == 1
    opened.append(copied(tmp_path / "X.npz"))
    assert sorted(tmp_path.iterdir()) == before  # the last one has opened it
    for rows in opened:
        np.testing.assert_array_equal(rows.rows(0, N), X)
    lost = copied(tmp_path / "X.npz")
    del lost  # a rank that ends before the others have come
    assert sorted(tmp_path.iterdir()) == before


def test_no_space_for_the_copy(tmp_path, monkeypatch) -> None:
    npz(tmp_path / "X.npz", np.savez_compressed)
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr(copies.shutil, "disk_usage", lambda path: usage)
    with pytest.raises(OutputError, match=r"temporary copy .* 6.4e-06 GB, and 1e-06 GB are free"):
        open_rows(tmp_path / "X.npz")
    monkeypatch.undo()

    rows = open_rows(tmp_path / "X.npz")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    with pytest.raises(OutputError, match=r"writing it failed: No such file or directory\. To fix"):
        rows.rows(0, 1)


KILLED = """
import os, signal, sys
from pathlib import Path
from dualclust.common.formats import open_rows

rows = open_rows(Path(sys.argv[1]))
os.kill(os.getpid(), signal.SIGKILL) if sys.argv[2] == "before" else rows.rows(0, 1)
print(len(list(Path(sys.argv[3]).glob("dualclust-*.rows"))), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_run_left_goes_with_the_next_copy(tmp_path, three_ranks) -> None:
    path = tmp_path / "X.npz"
    npz(path, np.savez_compressed)
    environment = {**os.environ, "TMPDIR": str(tmp_path), "MASTER_PORT": "2"}
    for when, said in (("before", ""), ("after", "1\n")):
        command = [sys.executable, "-c", KILLED, str(path), when, str(tmp_path)]
        ended = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert (ended.returncode, ended.stdout) == (-signal.SIGKILL, said), ended.stderr
    [left] = tmp_path.glob("dualclust-*.rows")
    half = tmp_path / "dualclust-0123.rows"  # of a run that was killed while it wrote
    half.write_bytes(bytes(5000))
    mine = copied(path)
    there = set(tmp_path.glob("dualclust-*.rows"))
    assert not {left, half} & there
    assert len(there) == 1  # of this process, which is alive
    other = tmp_path / "Y.npz"
    npz(other, np.savez_compressed, -X)
    np.testing.assert_array_equal(copied(other).rows(0, N), -X)
    np.testing.assert_array_equal(mine.rows(0, N), X)
    assert there <= set(tmp_path.glob("dualclust-*.rows"))


def test_a_copy_that_is_being_written_stays(tmp_path) -> None:
    fcntl = pytest.importorskip("fcntl")
    half = tmp_path / "dualclust-0123.rows"
    with half.open("w+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        remove_leftovers(tmp_path)
        assert half.exists()
    remove_leftovers(tmp_path)
    assert not half.exists()


def test_nothing_is_copied_before_a_row_is_read(tmp_path, monkeypatch) -> None:
    """The numbers of the header are there; damage behind it is found when rows are read."""
    path = tmp_path / "X.npz"
    npz(path, np.savez_compressed)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 255
    path.write_bytes(content)
    rows = open_rows(path)
    assert (rows.n_samples, rows.n_features, rows.dtype) == (N, X.shape[1], np.float32)
    with pytest.raises(InvalidValueError):
        rows.take(np.asarray([0]))


def test_a_file_that_promises_other_rows_is_refused() -> None:
    def batches():
        yield np.ones((2, 3), np.float32)

    part = Stream("X", 4, 3, np.dtype(np.float32), batches)
    rows = copies.copy_rows("X", [part], None, files=[])
    with pytest.raises(InvalidValueError, match="X promises 4 rows and holds 2"):
        rows.rows(0, 1)


def test_shards_in_place_are_copied_whole_beside_packed_ones(tmp_path) -> None:
    """More than a batch of rows lies in place, and the next shard has to be unpacked."""
    n = 40_000
    x = np.arange(8.0 * n, dtype=np.float32).reshape(n, 8)
    assert x.nbytes > BATCH_BYTES
    (tmp_path / "X").mkdir()
    np.savez(tmp_path / "X" / "part-0.npz", X=x)
    np.savez_compressed(tmp_path / "X" / "part-1.npz", X=-x[:7])
    rows = open_rows(tmp_path / "X")
    assert rows.n_samples == n + 7
    np.testing.assert_array_equal(rows.rows(0, n + 7), np.concatenate([x, -x[:7]]))
