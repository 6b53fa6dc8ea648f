"""Engines of `shortest_moves` against its text, on exact arithmetic: labels, prices and moves."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dualclust.algos.transport import shortest_moves
from tests.backends.rows import row_id, rows_of
from tests.compare import to_numpy
from tests.problems import dyadic_streams

ROWS = rows_of("shortest_moves")
each_row = pytest.mark.parametrize("row", ROWS, ids=row_id)


def assert_conforms(row, scores, prices, lower, upper):
    labels = (scores + prices).argmax(axis=1)
    given_arrays = (scores, labels, prices)
    before = [array.copy() for array in given_arrays]
    expected = shortest_moves.reference(*given_arrays, lower=lower, upper=upper)
    asarray = (lambda a: a) if row.library == "numpy" else row.arrays().asarray
    found = row.engine()(*map(asarray, given_arrays), lower=asarray(lower), upper=asarray(upper))
    for a, b in zip(found[:2], expected[:2], strict=True):
        np.testing.assert_array_equal(to_numpy(a), b, strict=True)
    assert found[2] == expected[2]
    for array, copy in zip(given_arrays, before, strict=True):
        np.testing.assert_array_equal(array, copy)


@each_row
@given(stream=dyadic_streams(), seed=st.integers(0, 2**32))
@settings(max_examples=100)
def test_an_engine_gives_the_bits_of_the_reference(row, stream, seed):
    n, k = stream.scores.shape
    rng = np.random.default_rng(seed)
    for prices in (np.zeros(k), rng.integers(-16, 17, size=k) / 16.0):
        for dtype in (np.float32, np.float64):
            scores = stream.scores.astype(dtype)
            assert_conforms(row, scores, prices, stream.lower, stream.upper)
    assert n > 0


@each_row
@pytest.mark.parametrize("k", [1, 3, 17, 65])
@pytest.mark.parametrize("slack", [0, 1])
def test_many_clusters_and_few_samples(row, k, slack):
    rng = np.random.default_rng(k)
    scores = rng.integers(-16, 17, size=(12, k)) / 16.0
    scores[:, 0] += 1.0
    sizes = np.bincount(rng.integers(0, k, size=12), minlength=k)
    assert_conforms(row, scores, np.zeros(k), np.maximum(sizes - slack, 0), sizes + slack)


def test_any_layout_of_numpy_scores():
    (row,) = (row for row in ROWS if row.library == "numpy")
    rng = np.random.default_rng(0)
    scores = rng.integers(-16, 17, size=(16, 4)) / 16.0
    sizes = np.asarray([4, 4, 4, 4])
    for layout in (
        np.asfortranarray(scores),
        scores[::-1, ::-1],
        scores[::2].repeat(2, axis=0)[::1],
        np.broadcast_to(scores[:1], scores.shape),
        scores.astype(">f8"),
    ):
        assert_conforms(row, layout, np.zeros(4), sizes, sizes)
