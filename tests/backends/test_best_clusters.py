"""Engines of `best_clusters` against its text: one addition and a comparison, so equal bits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualclust.algos.scores.nearest import best_clusters
from tests.backends.rows import row_id, rows_of
from tests.compare import to_numpy
from tests.examples import examples

ROWS = rows_of("best_clusters")
each_row = pytest.mark.parametrize("row", ROWS, ids=row_id)


def assert_conforms(row, scores, offsets):
    expected = best_clusters.reference(scores, offsets)
    asarray = (lambda a: a) if row.library == "numpy" else row.arrays().asarray
    found = row.engine()(asarray(scores), asarray(offsets))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(to_numpy(one), other, strict=True)


@each_row
@given(
    seed=st.integers(0, 2**32),
    n=st.integers(0, 9),
    k=st.sampled_from([1, 2, 7, 63, 64, 65, 127, 128, 200]),
    dtype=st.sampled_from(["float32", "float64"]),
    wide=st.booleans(),
    levels=st.sampled_from([2, 5, 10**6]),
    left_out=st.booleans(),
)
@examples(200)
def test_an_engine_finds_the_first_of_the_best(row, seed, n, k, dtype, wide, levels, left_out):
    rng = np.random.default_rng(seed)
    scores = rng.integers(-levels, levels, size=(n, k)).astype(dtype)  # few levels: many ties
    scores = np.where(rng.random((n, k)) < 0.1, -np.inf, scores / 4).astype(dtype)
    scores[:, rng.integers(k)] = -levels  # no row without a cluster
    offsets = rng.integers(-3, 3, size=k) / 4
    if wide:  # what float32 would round away decides
        offsets = offsets + rng.integers(-3, 3, size=k) * 2.0**-40
    if left_out:
        offsets = np.where(rng.random(k) < 0.5, -np.inf, offsets)
    assert_conforms(row, scores, offsets.astype("float64" if wide else dtype))


@each_row
def test_any_layout(row):
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(30, 140))
    layouts = [np.asfortranarray(scores), scores[::-1, ::2]]
    layouts += [scores.astype(">f4")] if row.library == "numpy" else []
    for layout in layouts:
        offsets = np.linspace(0, 1, layout.shape[1]).astype(layout.dtype)
        assert_conforms(row, layout, offsets)
