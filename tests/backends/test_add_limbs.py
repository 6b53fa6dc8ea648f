"""Engines of `add_limbs` against its text: integers, so equality is all there is."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dualclust.algos.core.exact_sums import UNIT_GRID, add_limbs, grid_of
from tests.backends.rows import row_id, rows_of
from tests.compare import to_numpy
from tests.examples import examples

ROWS = rows_of("add_limbs")
each_row = pytest.mark.parametrize("row", ROWS, ids=row_id)


def assert_conforms(row, values, labels, sums, grid):
    options = {"unit": grid.unit, "bits": grid.bits, "depth": grid.depth}
    expected = add_limbs.reference(values, labels, sums.copy(), **options)
    asarray = (lambda a: a) if row.library == "numpy" else row.arrays().asarray
    found = row.engine()(asarray(values), asarray(labels), asarray(sums.copy()), **options)
    np.testing.assert_array_equal(to_numpy(found), expected, strict=True)


@each_row
@given(data=st.data(), n=st.integers(0, 12), d=st.integers(1, 5), k=st.integers(1, 4))
@examples(150)
def test_an_engine_gives_the_sums_of_the_reference(row, data, n, d, k):
    dtype = data.draw(st.sampled_from([np.float32, np.float64]))
    size = data.draw(st.sampled_from([1e-30, 1.0, 3e8, 1e30]))
    width = np.dtype(dtype).itemsize * 8
    values = data.draw(arrays(dtype, (n, d), elements=st.floats(-1, 1, width=width)))
    values = (values * dtype(size)).astype(dtype)
    labels = data.draw(arrays(np.int64, n, elements=st.integers(0, k - 1)))
    finest = data.draw(st.sampled_from([40, 80, 120]))
    grid = grid_of(float(np.abs(values).max(initial=0)), 10 ** data.draw(st.integers(0, 9)))
    grid = grid._replace(depth=-(-finest // grid.bits))
    sums = np.arange(k * d * grid.depth, dtype=np.int64).reshape(k, -1)
    assert_conforms(row, values, labels, sums, grid)


@each_row
@pytest.mark.parametrize("bits", [36, 50])
def test_halves_go_to_the_even_integer_and_the_largest_entry_fits(row, bits):
    grid, half = UNIT_GRID._replace(bits=bits), math.ldexp(1.0, -bits - 1)
    ties = np.asarray([[1.0, 3.0, 5.0, -1.0, -3.0, -0.0]]).T * half
    top = np.asarray([[2.0, -2.0, 2.0 - 2.0**-52, 1.0, half * 0.999, -half * 1.001]]).T
    for values in (ties, top):
        assert_conforms(row, values, np.arange(6) % 5, np.zeros((5, 1), np.int64), grid)


@each_row
def test_any_layout(row):
    rng = np.random.default_rng(0)
    values, labels = rng.uniform(-1, 1, size=(40, 6)), rng.integers(0, 5, size=80)
    grid = grid_of(1.0, 40)
    for layout in (
        np.asfortranarray(values),
        values[::-1, ::-1],
        values[:, ::2],
        np.broadcast_to(values[:1], values.shape),
        values.astype(">f8"),
        values.astype(np.float16),
    ):
        sums = np.zeros((5, layout.shape[1] * grid.depth), dtype=np.int64)
        assert_conforms(row, layout, labels[::2], sums, grid)
