"""What needs only the number of rows to be refused is refused before a row is unpacked."""

from __future__ import annotations

import numpy as np
import pytest

from dualclust.cli.main import main

N, D = 300, 16
X = np.random.default_rng(0).normal(size=(N, D)).astype(np.float32)


def npz(path) -> None:
    np.savez_compressed(path, X=X)


def parquet(path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    columns = {f"x{j}": X[:, j] for j in range(D)}
    parquet.write_table(pa.table(columns), path, compression="gzip", use_dictionary=False)


def hdf5(path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        file.create_dataset("X", data=X, chunks=(64, D), compression="gzip")


FILES = {"X.npz": npz, "X.parquet": parquet, "X.h5": hdf5}
CALLS = {
    "-k 301": "-k must be at most the number of rows, got 301 for the 300 rows",
    "-k 3 --min-count 200": "--min-count 200 asks for 600 rows in 3 clusters",
    "-k 7 --lower 1 --upper 1 --rounding inward": "leave out --rounding",
    "-k 3 --bounds bounds.csv": "the 300 rows of the file",
    "-k 3 --weights w.npy": "one real number for each of the 300 rows",
    "-k 3 --seeds w.npy": "300",
    "-k 3 --init c.npy": "a file of 3 rows of 16 numbers",
    "--k-range 2:151": "--k-range must end at half the number of rows",
    "-k 301 --dry-run": "-k must be at most the number of rows",
}


@pytest.fixture(params=FILES)
def damaged(request, tmp_path, monkeypatch):
    """A file with a sound header whose rows cannot be unpacked, and files about other rows."""
    monkeypatch.chdir(tmp_path)
    FILES[request.param](tmp_path / request.param)
    path = tmp_path / request.param
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 64] = bytes(64)
    path.write_bytes(content)
    np.save("w.npy", np.arange(8))
    np.save("c.npy", X[:3, :4])
    lines = "".join(f"{i},150,200\n" for i in range(3))
    (tmp_path / "bounds.csv").write_text(f"cluster,min_count,max_count\n{lines}")
    return request.param


@pytest.mark.parametrize("call", CALLS)
def test_a_number_of_rows_is_known_by_the_header(damaged, capsys, call) -> None:
    assert main(["cluster", damaged, *call.split()]) in (2, 65)
    error = capsys.readouterr().err
    assert CALLS[call] in error
    assert "damaged" not in error


def test_damage_is_told_where_the_number_suits(damaged, capsys) -> None:
    assert main(["cluster", damaged, "-k", "3"]) == 65
    assert damaged in capsys.readouterr().err
