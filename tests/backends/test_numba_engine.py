"""The kernels of the online pass and of exact sums as Python, with any start and layout."""

import math
from itertools import product

import numpy as np
import pytest

from dualclust.algos.core.exact_sums import UNIT_GRID, add_limbs, grid_of
from dualclust.algos.core.segments import segment_sum
from dualclust.algos.online.assignment import assign_stream
from dualclust.algos.scores.nearest import best_clusters
from dualclust.backends import engine
from tests.backends.interpreted import ending
from tests.backends.test_assign_stream import LAYOUTS, problem

CASES = ("none", "caps", "completion", "both", "no slack", "free sign", "unknown")


@pytest.fixture
def kernels():
    with ending("numba_engine") as module:
        yield module


def assert_stream_conforms(kernels, arrays, options):
    before = [array.copy() for array in arrays]
    expected = assign_stream.reference(*arrays, **options)
    with np.errstate(all="ignore"):
        found = kernels.assign_stream(*arrays, **options)
    assert found[4] == expected[4]
    if found[4] < 0:
        for a, b in zip(found[:4], expected[:4], strict=True):
            np.testing.assert_array_equal(a, b, strict=True)
    for array, copy in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_streams(kernels):
    for case, (k, chunk), seed in product(CASES, [(3, 1), (3, 4), (5, 16)], range(3)):
        arrays, options = problem(k, case, seed=seed, n=16)
        scores = arrays[0].astype((np.float32, np.float64)[seed % 2])
        assert_stream_conforms(kernels, (scores, *arrays[1:]), options | {"chunk_size": chunk})
    arrays, options = problem(3, "both")
    assert_stream_conforms(kernels, (arrays[0][:0], *arrays[1:]), options | {"chunk_size": 4})


def test_streams_of_many_clusters(kernels):
    for k in (64, 65, 130):
        for case in ("both", "unknown"):
            arrays, options = problem(k, case, n=4)
            assert_stream_conforms(kernels, arrays, options | {"chunk_size": 3})


def test_a_stream_that_goes_on(kernels):
    """Clusters that hold more than their lower bound owe nothing, whatever others lack."""
    for seed in range(12):
        rng, n, k = np.random.default_rng(seed), 9, 4
        counts, more = rng.integers(0, 4, k), np.bincount(rng.integers(0, k, n), minlength=k)
        (scores, rho, rho_up, _), options = problem(k, "none", seed=seed, n=n)
        slack = rng.integers(0, 2, k)
        lower = np.where(slack > 0, np.maximum(counts - 1, 0), counts + more)
        upper = np.maximum(counts + more + slack, lower)
        options |= {"lower": lower, "upper": upper, "chunk_size": 1 + seed % 4, "remaining": n}
        assert_stream_conforms(kernels, (scores, rho, rho_up, counts), options)


def test_completion_begins_before_the_first_row_if_all_are_owed(kernels):
    """All rows want a cluster that is owed none; with one row more, the first may go there."""
    arrays, options = problem(3, "none", n=4)
    scores = np.tile([9.0, 1.0, 0.0], (4, 1))
    bounds = {"lower": np.asarray([0, 2, 2]), "upper": np.asarray([9, 9, 9]), "chunk_size": 4}
    for remaining, labels in ((4, [1, 1, 2, 2]), (5, [0, 1, 1, 2])):
        given = options | bounds | {"remaining": remaining, "step_size": 0.0}
        assert_stream_conforms(kernels, (scores, *arrays[1:]), given)
        assert kernels.assign_stream(scores, *arrays[1:], **given)[0].tolist() == labels


def test_the_first_row_that_is_not_finite(kernels):
    for bad, i, k in product((math.nan, math.inf, -math.inf), (0, 3, 4, 7), (1, 3, 65)):
        arrays, options = problem(k, "caps", n=8)
        arrays[0][i, k // 2] = arrays[0][-1, 0] = bad
        assert_stream_conforms(kernels, arrays, options | {"chunk_size": 4})


def test_layouts_of_scores(kernels):
    for name in LAYOUTS:
        arrays, options = problem(3, "both", n=8)
        scores = LAYOUTS[name](arrays[0])
        assert_stream_conforms(kernels, (scores, *arrays[1:]), options | {"chunk_size": 3})


def test_lanes_and_prices_begin_lines_of_the_cache_side_by_side(kernels):
    kept = []  # so that the next ones lie elsewhere
    for k in (1, 7, 64, 100, 1001):
        lanes, price = kernels._work_arrays(k)
        kept.append(lanes)
        assert (lanes.shape, price.shape) == ((kernels.LANES,), (k,))
        assert lanes.dtype == price.dtype == np.float64
        addresses = [a.__array_interface__["data"][0] for a in (lanes, price)]
        assert [address % 64 for address in addresses] == [0, 0]
        assert addresses[1] - addresses[0] == lanes.nbytes


def test_a_zero_ties_with_a_negative_zero(kernels):
    """Their bits are in order, their values are not: the lowest cluster takes the row."""
    for (first, second), k in product(product((0.0, -0.0), repeat=2), (4, 70)):
        scores = np.full((1, k), -1.0)
        scores[0, 1], scores[0, k - 1] = first, second
        labels, values = kernels.best_clusters(scores, np.full(k, -0.0))
        assert (labels[0], values[0]) == (1, 0.0)


@pytest.mark.parametrize("k", [3, 64, 70])
def test_a_row_that_breaks_the_rule_still_gets_a_cluster(kernels, k):
    """A label of k would be read and written beyond the arrays by whoever uses it."""
    for bad in (math.nan, -math.nan):
        scores = np.full((2, k), bad)
        scores[1, : k // 2] = 0.0
        with np.errstate(all="ignore"):
            labels, _ = kernels.best_clusters(scores, np.zeros(k))
        assert ((labels >= 0) & (labels < k)).all()


@pytest.mark.parametrize("kind", ["f4", "f8"])
def test_the_largest_value_leaves_all_as_they_were(kernels, kind):
    for values in ([1.0, 3.0, -2.0], [-1.0, -3.0], [5.0]):
        some = np.asarray(values, dtype=kind)
        assert kernels.largest(some, some.view(f"i{kind[1]}")) == max(values)
        assert some.tolist() == values


def test_best_clusters(kernels):
    for k, seed in product((1, 7, 64, 65, 130, 200), range(4)):
        rng, dtype = np.random.default_rng(seed), ("f4", "f8", ">f4", "f8")[seed]
        scores = rng.integers(-2, 2, size=(3 + seed, k)) / 4.0
        scores[:, 1:] = np.where(rng.random((3 + seed, k - 1)) < 0.2, -np.inf, scores[:, 1:])
        scores = np.asfortranarray(scores.astype(dtype))
        offsets = (rng.integers(-3, 3, size=k) / 4.0).astype(dtype)
        native = scores.dtype.newbyteorder("=")
        labels, values = kernels.best_clusters(scores, offsets)
        expected = best_clusters.reference(scores.astype(native), offsets.astype(native))
        np.testing.assert_array_equal(labels, expected[0], strict=True)
        np.testing.assert_array_equal(values, expected[1], strict=True)


def test_segment_sums(kernels):
    values = np.arange(-9, 15).reshape(8, 3) * 2**55
    segments = np.asarray([0, 3, 3, 0, 1, 3, 1, 0])
    expected = segment_sum.reference(values, segments, n_segments=5)
    np.testing.assert_array_equal(
        kernels.segment_sum(values, segments, n_segments=5), expected, strict=True
    )


def assert_limbs_conform(kernels, values, labels, sums, grid):
    options = {"unit": grid.unit, "bits": grid.bits, "depth": grid.depth}
    with engine("reference"):
        expected = add_limbs.reference(values, labels, sums.copy(), **options)
    found = kernels.add_limbs(values, labels, sums, **options)
    assert found is sums
    np.testing.assert_array_equal(found, expected, strict=True)


def test_limbs(kernels):
    kinds = ("f4", "f8", ">f8", "f2", "i4")
    for kind, depth, size in product(kinds, (1, 2, 4), (1.0, 30.0)):
        rng = np.random.default_rng(depth)
        values = np.asfortranarray((rng.uniform(-1, 1, size=(3, 20)) * size).astype(kind))
        grid = grid_of(size, 40)._replace(depth=depth)
        sums = np.arange(4 * 20 * depth, dtype=np.int64).reshape(4, -1)
        assert_limbs_conform(kernels, values, np.asarray([2, 0, 2]), sums, grid)


def test_halves_go_to_the_even_integer(kernels):
    grid, half = UNIT_GRID._replace(bits=36), math.ldexp(1.0, -37)
    values = np.asarray([[1.0, 3.0, 5.0, -1.0, -3.0, 4.0 / half]]).T * half
    assert_limbs_conform(kernels, values, np.arange(6) % 5, np.zeros((5, 1), np.int64), grid)
