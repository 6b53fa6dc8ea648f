"""Sums of rows by segment: exact, and free of the order of the rows."""

import numpy as np
import pytest

from dualclust.algos.core.segments import segment_counts, segment_sum
from dualclust.backends import engine
from tests.compare import assert_equal


@pytest.fixture(params=["auto", "reference"])
def mode(request):
    with engine(request.param):
        yield


@pytest.mark.usefixtures("mode")
@pytest.mark.parametrize(
    ("n", "d", "k"), [(0, 2, 3), (1, 1, 1), (50, 3, 7), (5, 2, 100), (9, 0, 2)]
)
def test_rows_are_added_by_segment(xp, rng, n, d, k):
    values = rng.integers(-(2**40), 2**40, size=(n, d))
    segments = rng.integers(0, k, size=n)
    expected = np.zeros((k, d), np.int64)
    np.add.at(expected, segments, values)
    result = segment_sum(xp.asarray(values), xp.asarray(segments), n_segments=k)
    assert_equal(result, xp.asarray(expected))


@pytest.mark.usefixtures("mode")
def test_a_running_sum_may_wrap_around_where_no_segment_does(xp):
    huge = 2**62
    values = xp.asarray([[huge], [huge], [huge - 1], [-1], [5]])
    result = segment_sum(values, xp.asarray([0, 1, 2, 2, 3]), n_segments=4)
    assert_equal(result, xp.asarray([[huge], [huge], [huge - 2], [5]]))


@pytest.mark.usefixtures("mode")
def test_the_order_of_the_rows_is_free(xp, rng):
    values, segments = rng.integers(-9, 9, size=(40, 2)), rng.integers(0, 4, size=40)
    first = segment_sum(xp.asarray(values), xp.asarray(segments), n_segments=4)
    order = rng.permutation(40)
    again = segment_sum(xp.asarray(values[order]), xp.asarray(segments[order]), n_segments=4)
    assert_equal(first, again)


@pytest.mark.usefixtures("mode")
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_segments_are_counted_in_int64(xp, rng, dtype):
    segments = rng.integers(0, 5, size=40).astype(dtype)
    expected = np.bincount(segments, minlength=7)
    assert_equal(segment_counts(xp.asarray(segments), n_segments=7), xp.asarray(expected))
    assert_equal(segment_counts(xp.asarray(segments[:0]), n_segments=2), xp.asarray([0, 0]))
