"""Engines of `shift_table` and `weight_table` against their text: the same bits."""

import numpy as np
import pytest

from dualclust.algos.batches._tables import shift_table, weight_table
from tests.backends.rows import row_id, rows_of
from tests.compare import to_numpy

ROWS_OF = {name: rows_of(name) for name in ("shift_table", "weight_table")}


def parts(dtype):
    rng = np.random.default_rng(0)
    table, columns = rng.normal(size=(9, 5)).astype(dtype), rng.normal(size=5).astype(dtype)
    table[2, 3] = columns[1] = -np.inf
    return table, columns, (1.0 + rng.random((9, 1))).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("row", ROWS_OF["shift_table"], ids=row_id)
def test_a_shifted_table_is_that_of_the_reference(row, dtype):
    table, columns, rows = parts(dtype)
    asarray = row.arrays().asarray
    for given in ((columns, rows), (columns, None), (None, rows)):
        for epsilon in (1.0, 0.05):
            wanted = shift_table.reference(table, *given, epsilon=epsilon)
            there = [None if part is None else asarray(part) for part in given]
            found = row.engine()(asarray(table.copy()), *there, epsilon=epsilon)
            np.testing.assert_array_equal(to_numpy(found), wanted, strict=True)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("row", ROWS_OF["weight_table"], ids=row_id)
def test_a_weighted_table_is_that_of_the_reference(row, dtype):
    table, columns, rows = parts(dtype)
    wanted = weight_table.reference(table, columns, rows)
    asarray = row.arrays().asarray
    found = row.engine()(asarray(table.copy()), asarray(columns), asarray(rows))
    np.testing.assert_array_equal(to_numpy(found), wanted, strict=True)
