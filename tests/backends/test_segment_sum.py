"""Engines of `segment_sum` against its text: integers, so equality is all there is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dualclust.algos.core.segments import segment_sum
from tests.backends.rows import row_id, rows_of
from tests.compare import to_numpy
from tests.examples import examples

ROWS = rows_of("segment_sum")
each_row = pytest.mark.parametrize("row", ROWS, ids=row_id)


def assert_conforms(row, values, segments, k):
    expected = segment_sum.reference(values, segments, n_segments=k)
    asarray = (lambda a: a) if row.library == "numpy" else row.arrays().asarray
    found = row.engine()(asarray(values), asarray(segments), n_segments=k)
    np.testing.assert_array_equal(to_numpy(found), expected, strict=True)


@each_row
@given(data=st.data(), n=st.integers(0, 20), d=st.integers(0, 4), k=st.integers(1, 6))
@examples(150)
def test_an_engine_gives_the_sums_of_the_reference(row, data, n, d, k):
    bound = 2**63 // (n + 1) - 1
    values = data.draw(arrays(np.int64, (n, d), elements=st.integers(-bound, bound)))
    segments = data.draw(arrays(np.int64, n, elements=st.integers(0, k - 1)))
    assert_conforms(row, values, segments, k)


@each_row
def test_a_running_sum_may_wrap_around_where_no_segment_does(row):
    values = np.full((6, 1), 2**62)
    assert_conforms(row, values, np.arange(6), 7)


@each_row
def test_any_layout(row):
    rng = np.random.default_rng(0)
    values, segments = rng.integers(-99, 99, size=(40, 6)), rng.integers(0, 5, size=80)
    for layout in (
        np.asfortranarray(values),
        values[::-1, ::-1],
        values[:, ::2],
        np.broadcast_to(values[:1], values.shape),
    ):
        assert_conforms(row, layout, segments[::2], 5)
