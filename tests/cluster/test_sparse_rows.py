"""Sparse matrices with wide rows or wrong entries, and folders with folders beside their files."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sparse

from dualclust.algos.core.errors import InvalidValueError
from dualclust.common.formats import open_rows
from dualclust.common.formats.rows import BATCH_BYTES


def test_a_row_wider_than_a_batch_is_read_alone(tmp_path) -> None:
    d = BATCH_BYTES // 8 + 9
    rows, columns = [0, 0, 1, 2, 2], [0, d - 1, 7, 7, d - 2]
    x = sparse.csr_array((np.arange(1.0, 6.0), (rows, columns)), shape=(3, d))
    sparse.save_npz(tmp_path / "X.npz", x)
    found = open_rows(tmp_path / "X.npz")
    assert (found.n_samples, found.n_features) == (3, d)
    np.testing.assert_array_equal(found.rows(0, 3), x.toarray())


@pytest.mark.parametrize("columns", [[-1, 2], [2, -1], [3, 2]])
def test_an_entry_outside_of_the_columns_is_refused(tmp_path, columns) -> None:
    """A negative one would count from the end."""
    np.savez(
        tmp_path / "X.npz",
        format=np.bytes_("csr"),
        shape=np.asarray([2, 3]),
        indptr=np.asarray([0, 1, 2]),
        indices=np.asarray(columns),
        data=np.ones(2),
    )
    rows = open_rows(tmp_path / "X.npz")
    with pytest.raises(InvalidValueError, match="has entries of no row or column"):
        rows.rows(0, 2)


def test_files_of_a_folder_are_read_whatever_folders_lie_beside_them(tmp_path) -> None:
    for place in (tmp_path / "X", tmp_path / "X" / "older"):
        place.mkdir()
        np.save(place / "part-0.npy", np.ones((2, 3), np.float32))
    assert open_rows(tmp_path / "X").n_samples == 2
