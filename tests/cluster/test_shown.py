"""`--show`: values from columns of every kind of file, from lines, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dualclust.algos.core.errors import DualclustError, InvalidValueError, UsageError
from dualclust.cluster.shown import open_shown, values_of
from dualclust.cluster.values_of_rows import column_of
from dualclust.common.formats import Selection, open_rows

N = 50
X = np.random.default_rng(0).normal(size=(N, 3))
CAPTIONS = [f"caption {i}" for i in range(N)]
ROWS = np.asarray([0, 7, 49])


def write(path: Path) -> Path:
    if path.suffix == ".npz":
        np.savez(path, X=X, caption=np.array(CAPTIONS), key=np.arange(N))
    elif path.suffix == ".h5":
        h5py = pytest.importorskip("h5py")
        with h5py.File(path, "w") as file:
            file["X"], file["key"] = X, np.arange(N)
            file["caption"] = CAPTIONS
    else:
        pa = pytest.importorskip("pyarrow")
        from pyarrow import csv, feather, parquet

        columns = {f"x{j}": X[:, j] for j in range(3)}
        table = pa.table({**columns, "key": [f"k{i}" for i in range(N)], "caption": CAPTIONS})
        writers = {
            ".parquet": lambda: parquet.write_table(table, path, row_group_size=20),
            ".feather": lambda: feather.write_feather(table, path),
            ".csv": lambda: csv.write_csv(table, path),
        }
        writers[path.suffix]()
    return path


@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".csv", ".npz", ".h5"])
@pytest.mark.parametrize("key", [None, "key"])
def test_a_column_is_shown_and_not_clustered(tmp_path, suffix, key) -> None:
    path = write(tmp_path / f"X{suffix}")
    array = "X" if suffix in (".npz", ".h5") else ""
    columns = ("x*",) if key is None and not array else ()
    selection = Selection(array, columns, key, besides=("caption",))
    assert open_rows(path, selection).n_features == 3
    column = open_shown("caption", path, selection, N)
    assert (column.name, column.folder) == ("caption", tmp_path)
    assert values_of(column.values, ROWS) == {i: CAPTIONS[i] for i in ROWS.tolist()}


def test_shards_are_one_column(tmp_path) -> None:
    pytest.importorskip("pyarrow")
    for i in range(2):
        write(tmp_path / f"part-{i}.parquet")
    selection = Selection(columns=("x*",), besides=("caption",))
    column = open_shown("caption", tmp_path, selection, 2 * N)
    assert column.folder == tmp_path
    rows = np.asarray([49, 50, 99])
    assert values_of(column.values, rows) == {49: "caption 49", 50: "caption 0", 99: "caption 49"}


def test_lines_of_a_file(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text").write_bytes("ä\r\n\nlast\xff".encode("latin-1") + b"\n")
    column = open_shown("text", tmp_path / "X.npy", Selection(), 3)
    assert column_of("text") is None
    assert column.folder == tmp_path
    assert values_of(column.values, np.arange(3)) == {0: "\ufffd", 1: "", 2: "last\ufffd"}
    with pytest.raises(InvalidValueError, match="text has 3 lines, and the input has 4 rows"):
        open_shown("text", tmp_path / "X.npy", Selection(), 4)


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".npz", ".npy"])
def test_what_is_neither_a_file_nor_a_column(tmp_path, suffix) -> None:
    path = tmp_path / f"X{suffix}"
    if suffix == ".npy":
        np.save(path, X)
    else:
        write(path)
    selection = Selection("X" if suffix == ".npz" else "", besides=("nothing",))
    with pytest.raises(DualclustError, match="--show nothing is no file") as error:
        open_shown("nothing", path, selection, N)
    assert "--id" not in str(error.value)
    assert isinstance(error.value, UsageError if suffix == ".npy" else InvalidValueError)


def test_a_column_that_ends_early() -> None:
    with pytest.raises(InvalidValueError, match="row 5 has no value: the input has 3"):
        values_of(lambda: iter([np.arange(3)]), np.asarray([1, 5]))
