"""What readers do at their edges: files that are nearly of another kind, and what messages name."""

from __future__ import annotations

import gzip
import io
import zipfile

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
import torch

from dualclust.algos.core.errors import InvalidValueError, UsageError
from dualclust.common.formats import Selection, open_rows
from dualclust.common.formats.checks import listed
from dualclust.common.formats.plain import PlainRows
from dualclust.common.formats.rows import common_dtype
from dualclust.common.formats.unpacked import opened
from dualclust.common.formats.words import LINES

X = np.arange(12, dtype=np.float32).reshape(4, 3)


def test_a_tensor_of_a_big_endian_machine_is_refused(tmp_path) -> None:
    """Its numbers would be read in place, the wrong way round."""
    written, path = io.BytesIO(), tmp_path / "X.pt"
    torch.save(torch.from_numpy(X), written)
    with zipfile.ZipFile(written) as old, zipfile.ZipFile(path, "w") as new:
        for info in old.infolist():
            is_order = info.filename.endswith("/byteorder")
            new.writestr(info, b"big" if is_order else old.read(info))
    with pytest.raises(InvalidValueError, match="was written on a big-endian machine"):
        open_rows(path)


@pytest.mark.parametrize("suffix", [".fbin", ".fvecs"])
@pytest.mark.parametrize("option", [{"array": "a"}, {"columns": ("a",)}, {"id": "a"}])
def test_a_file_of_vectors_takes_no_options_of_others(tmp_path, suffix, option) -> None:
    path = tmp_path / f"X{suffix}"
    shape = np.asarray([*X.shape], np.uint32)
    rows = np.concatenate([np.full((4, 1), 3, np.int32), X.view(np.int32)], axis=1)
    path.write_bytes(rows.tobytes() if suffix == ".fvecs" else shape.tobytes() + X.tobytes())
    np.testing.assert_array_equal(open_rows(path).rows(0, 4), X)
    with pytest.raises(UsageError, match=f"--{next(iter(option))} is for "):
        open_rows(path, Selection(**option))


@pytest.mark.parametrize(("name", "pattern"), [("a.csv.gz", "*.csv.gz"), ("a.b.csv", "*.csv")])
def test_a_folder_of_two_kinds_names_the_pattern_of_the_larger_one(tmp_path, name, pattern) -> None:
    """The pattern that is named finds its files."""
    text = b"a,b\n" + b"".join(b"%d,%d\n" % (i * i % 97, i % 89 * i) for i in range(500))
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    np.save(tmp_path / "b.npy", X[:1])
    with pytest.raises(InvalidValueError, match="has files of 2 kinds") as raised:
        open_rows(tmp_path)
    assert f"'{tmp_path}/{pattern}'" in str(raised.value)
    assert open_rows(tmp_path / pattern).n_samples == 500


def test_a_group_with_a_shape_is_no_sparse_matrix(tmp_path) -> None:
    with h5py.File(tmp_path / "X.h5", "w") as file:
        group = file.create_group("all")
        group["shape"], group["data"], group["X"] = np.asarray([4, 3]), np.ones(5), X
    found = open_rows(tmp_path / "X.h5", Selection(array="all/X"))
    np.testing.assert_array_equal(found.rows(0, 4), X)
    found = open_rows(tmp_path / "X.h5")  # the only table
    np.testing.assert_array_equal(found.rows(0, 4), X)


def test_rows_of_hdf5_that_lie_one_after_the_other_are_read_in_place(tmp_path) -> None:
    with h5py.File(tmp_path / "X.h5", "w") as file:
        file["X"] = X
    assert isinstance(open_rows(tmp_path / "X.h5"), PlainRows)


def test_the_first_list_that_is_there_says_how_long_lists_are(tmp_path) -> None:
    lists = pa.array([None, None, *X.tolist()], pa.list_(pa.float32()))
    parquet.write_table(pa.table({"emb": lists}), tmp_path / "X.parquet")
    with pytest.raises(InvalidValueError, match="missing value"):
        open_rows(tmp_path / "X.parquet")
    found = open_rows(tmp_path / "X.parquet", Selection(drop=True)).rows(0, 6)
    np.testing.assert_array_equal(found[2:], X)
    assert np.isnan(found[:2]).all()


def test_columns_of_more_than_a_million_rows_come_back_whole(tmp_path) -> None:
    n = 2**20 + 3
    x = np.asfortranarray(np.stack([np.arange(n) % 7, np.arange(n) % 3], axis=1), np.int8)
    np.savez_compressed(tmp_path / "X.npz", x=x)
    found = open_rows(tmp_path / "X.npz")
    np.testing.assert_array_equal(found.rows(n - 9, n), x[-9:])


def test_of_a_benchmark_the_vectors_to_search_are_clustered(tmp_path) -> None:
    others = {name: X[:2] for name in ("test", "neighbors", "distances")}
    np.savez(tmp_path / "X.npz", train=X, **others)
    assert open_rows(tmp_path / "X.npz").n_samples == 4


def test_a_packed_file_is_closed(tmp_path) -> None:
    path = tmp_path / "X.csv.gz"
    path.write_bytes(gzip.compress(b"a\n1\n"))
    with opened(path) as file:
        assert file.read() == b"a\n1\n"
    assert file.closed


def test_of_many_names_eight_are_listed() -> None:
    assert listed("abcdefgh") == "'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'"
    assert listed("abcdefghij") == "'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h' and 2 more"


def test_a_line_of_words_far_down_is_named_by_its_number(tmp_path) -> None:
    lines = [f"w{i} {i % 7} {i % 5}" for i in range(LINES + 50)]
    lines[LINES + 9] = "short 1"
    (tmp_path / "X.txt").write_text("\n".join(lines) + "\n")
    with pytest.raises(InvalidValueError, match=f"in line {LINES + 10}, and 2 in the first"):
        open_rows(tmp_path / "X.txt")


def test_an_archive_of_arrays_and_others_is_no_npz(tmp_path) -> None:
    with zipfile.ZipFile(tmp_path / "X.npz", "w") as archive:
        archive.writestr("readme.txt", "hello")
        archive.writestr("x.npy", b"")
    with pytest.raises(InvalidValueError, match="is a zip archive of other files than arrays"):
        open_rows(tmp_path / "X.npz")


@pytest.mark.parametrize("damaged", [1, 2, 3])
def test_each_of_a_few_records_says_its_length(tmp_path, damaged) -> None:
    rows = np.concatenate([np.full((4, 1), 3, np.int32), X.view(np.int32)], axis=1)
    rows[damaged, 0] = 4
    (tmp_path / "X.fvecs").write_bytes(rows.tobytes())
    with pytest.raises(InvalidValueError, match="is not built so"):
        open_rows(tmp_path / "X.fvecs")


def test_columns_of_one_narrow_type_keep_it() -> None:
    half, single = np.dtype(np.float16), np.dtype(np.float32)
    assert common_dtype([half, half]) == half
    assert common_dtype([half, single]) == single
