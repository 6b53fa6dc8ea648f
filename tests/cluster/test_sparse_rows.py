"""Sparse matrices whose rows are wider than a batch."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sparse

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
