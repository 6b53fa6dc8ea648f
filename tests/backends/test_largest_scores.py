"""Engines of `largest_scores` against its text: equal values; of equal scores any column."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualclust.algos.scores.largest import largest_scores
from tests.backends.rows import row_id, rows_of
from tests.compare import to_numpy
from tests.examples import examples

ROWS = rows_of("largest_scores")
each_row = pytest.mark.parametrize("row", ROWS, ids=row_id)


def assert_conforms(row, scores, n_kept):
    expected, _ = largest_scores.reference(scores, n_kept)
    asarray = (lambda a: a) if row.library == "numpy" else row.arrays().asarray
    values, columns = (to_numpy(x) for x in row.engine()(asarray(scores), n_kept))
    np.testing.assert_array_equal(values, expected, strict=True)
    assert columns.dtype == np.int64
    np.testing.assert_array_equal(np.take_along_axis(scores, columns, axis=1), expected)
    assert all(len(set(names)) == n_kept for names in columns.tolist())


@each_row
@given(
    seed=st.integers(0, 2**32),
    n=st.integers(0, 6),
    k=st.sampled_from([1, 2, 7, 64, 200]),
    share=st.floats(0, 1),
    dtype=st.sampled_from(["float32", "float64"]),
    levels=st.sampled_from([2, 5, 10**6]),
)
@examples(100)
def test_an_engine_keeps_the_largest_in_order(row, seed, n, k, share, dtype, levels):
    rng = np.random.default_rng(seed)
    scores = rng.integers(-levels, levels, size=(n, k)).astype(dtype)
    scores[rng.random((n, k)) < 0.1] = -np.inf
    assert_conforms(row, scores, max(1, round(share * k)))


@each_row
def test_any_layout(row):
    scores = np.random.default_rng(0).normal(size=(30, 140))
    for layout in [np.asfortranarray(scores), scores[:, ::2]]:
        assert_conforms(row, layout, 7)
