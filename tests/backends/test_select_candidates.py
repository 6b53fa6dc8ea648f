"""Engines of `select_candidates` against its text: the same candidates and order, to the bit."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dualclust.algos.offline._candidates import select_candidates
from tests.backends.rows import row_id, rows_of
from tests.compare import to_numpy
from tests.examples import examples

ROWS = rows_of("select_candidates")
each_row = pytest.mark.parametrize("row", ROWS, ids=row_id)


def assert_conforms(row, scores, low, high, width):
    expected = select_candidates.reference(scores, low, high, width=width)
    asarray = (lambda a: a) if row.library == "numpy" else row.arrays().asarray
    found = row.engine()(asarray(scores), asarray(low), asarray(high), width=width)
    usable = expected[2] > 0  # a row that cannot be used has none
    np.testing.assert_array_equal(to_numpy(found[2]), expected[2], strict=True)
    for a, b in zip(found, expected, strict=True):
        assert to_numpy(a).dtype == b.dtype
        np.testing.assert_array_equal(to_numpy(a)[usable], b[usable])


def rows_at_the_threshold(dtype, offset):
    """Yield rows with a second cluster a few units in the last place from being too far behind."""
    eps, rng = np.finfo(dtype).eps, np.random.default_rng(0)
    for _ in range(40):
        low, width = rng.normal(size=2), rng.exponential(size=2)
        high = low + width
        first = offset + rng.normal()
        size = abs(first + low[0]) + np.abs(np.stack([low, high])).max()
        edge = first + low[0] - high[1] - rng.choice([0.0, 8.0]) * eps * size
        step = eps * max(abs(edge), size) / 4.0
        scores = np.empty((64, 2), dtype)
        scores[:, 0] = first
        scores[:, 1] = edge + step * np.arange(-32, 32)
        yield scores, low, high


@each_row
@given(data=st.data(), n=st.integers(1, 6), k=st.integers(1, 9), width=st.integers(2, 10))
@examples(150)
def test_an_engine_gives_the_candidates_of_the_reference(row, data, n, k, width):
    dtype = data.draw(st.sampled_from([np.float32, np.float64]))
    entries = st.integers(-16, 16).map(lambda v: v / 16.0) | st.sampled_from(
        [-math.inf, math.inf, math.nan]
    )
    scores = data.draw(arrays(dtype, (n, k), elements=entries))
    middle = data.draw(arrays(np.int64, k, elements=st.integers(-16, 16))) / 16.0
    radius = data.draw(arrays(np.int64, k, elements=st.integers(0, 8))) / 16.0
    with np.errstate(invalid="ignore"):
        assert_conforms(row, scores, middle - radius, middle + radius, width)


@each_row
@pytest.mark.parametrize("k", [1, 63, 64, 65, 128, 200])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_any_number_of_clusters(row, k, dtype):
    rng = np.random.default_rng(k)
    scores = rng.normal(size=(50, k)).astype(dtype)
    scores[::3] = np.round(scores[::3])
    prices, radius = rng.normal(size=k), rng.exponential(size=k)
    for width in (2, 5, k):
        assert_conforms(row, scores, prices - radius, prices + radius, max(width, 2))


def test_any_layout_of_numpy_scores():
    (row,) = (row for row in ROWS if row.library == "numpy")
    scores = np.random.default_rng(0).normal(size=(20, 9))
    low, high = np.full(9, -0.25), np.full(9, 0.25)
    for layout in (np.asfortranarray(scores), scores[::-1, ::-1], scores.astype(">f8")):
        assert_conforms(row, layout, low, high, 4)


@each_row
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("offset", [0.0, 1000.0, -1000.0])
def test_clusters_within_rounding_of_the_threshold_are_candidates(row, dtype, offset):
    both = 0
    for scores, low, high in rows_at_the_threshold(dtype, offset):
        assert_conforms(row, scores, low, high, 2)
        found = select_candidates.reference(scores, low, high, width=2)[2]
        both += int((found == 2).sum())
    assert 0.2 < both / (40 * 64) < 0.9
