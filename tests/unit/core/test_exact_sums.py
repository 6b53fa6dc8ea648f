"""Sums in integers against rational arithmetic, and k-means where some rows are far out."""

from fractions import Fraction

import numpy as np
import pytest
from sklearn.cluster import KMeans

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.clustering.constrained import constrained_kmeans, kmeans
from dualclust.algos.clustering.minibatch import init_minibatch, minibatch_step
from dualclust.algos.core import exact_sums
from dualclust.algos.core.errors import InvalidValueError
from dualclust.algos.core.exact_sums import (
    UNIT_GRID,
    Grid,
    check_entries,
    grid_of,
    largest_entry,
    means_of_sums,
    split,
    sum_rows,
    sums_to_floats,
)
from dualclust.algos.scores.sources import FeatureSource, alone
from dualclust.backends import engine
from tests.compare import assert_equal, to_numpy


def spread_out(n=200, d=3, seed=0):
    """Entries of all sizes from 1e-12 to 1e12, of both signs."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-12, 12, size=(n, d))


def exact_means(x, labels, k):
    return [
        [
            sum((Fraction(float(v)) for v in x[labels == j, c]), Fraction(0)) / (labels == j).sum()
            for c in range(x.shape[1])
        ]
        for j in range(k)
    ]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_means_are_the_rational_ones_rounded_once(xp, dtype):
    x, labels = spread_out().astype(dtype), np.arange(200) % 5
    x[labels == 4] *= np.asarray(1e-9, dtype)
    grid = grid_of(float(np.abs(x).max()), 200)
    sums = sum_rows(xp.asarray(x), xp.asarray(labels), grid, n_clusters=5)
    means = to_numpy(means_of_sums(sums, xp.asarray(np.full(5, 40)), grid))
    # The grid's last place, and one rounding of a sum of its limbs.
    finest = Fraction(grid.unit) / 2 ** (grid.bits * grid.depth)
    for found, exact in zip(means.ravel(), np.ravel(exact_means(x, labels, 5)), strict=True):
        assert abs(Fraction(float(found)) - exact) <= finest + abs(exact) / 2**52
    totals = to_numpy(sums_to_floats(sums, grid))
    np.testing.assert_allclose(totals / 40, means, rtol=1e-15, atol=float(finest))


def test_any_split_and_order_give_the_same_integers(xp):
    x, labels = spread_out(), np.random.default_rng(1).integers(0, 4, size=200)
    grid = grid_of(float(np.abs(x).max()), 200)
    whole = sum_rows(xp.asarray(x), xp.asarray(labels), grid, n_clusters=4)
    order = np.random.default_rng(2).permutation(200)
    parts = [
        sum_rows(xp.asarray(x[rows]), xp.asarray(labels[rows]), grid, n_clusters=4)
        for rows in np.split(order, [3, 90, 91])
    ]
    assert_equal(parts[3] + parts[1] + parts[0] + parts[2], whole)


@pytest.mark.parametrize("value", [0.1, 1 / 3, -7.0e-5, 1e12 + 0.1, 1e-290, 1.7e308, 5e-324])
@pytest.mark.parametrize("n", [1, 3, 7, 1000])
def test_the_mean_of_equal_rows_is_that_row(value, n):
    x, one = np.full((n, 1), value), np.zeros(n, np.int64)
    grid = grid_of(abs(value), n)
    mean = means_of_sums(sum_rows(x, one, grid, n_clusters=1), np.asarray([n]), grid)
    # Grids end at 2^-900 of a unit; `kmeans` refuses what has no squares long before.
    assert mean[0, 0] == (value if abs(value) > 1e-250 else pytest.approx(value, abs=1e-280))


def test_limbs_add_up_to_the_entry():
    x = np.asarray([[np.pi, -np.e], [1e-9, -1e-17]])
    grid = grid_of(4.0, 10)
    limbs = split(x, grid)
    assert limbs.shape == (2, 2 * grid.depth)
    for i, j in np.ndindex(2, 2):
        parts = [
            Fraction(int(limbs[i, j + 2 * level]), 2 ** (grid.bits * (level + 1)))
            for level in range(grid.depth)
        ]
        assert abs(sum(parts) * Fraction(grid.unit) - Fraction(x[i, j])) <= Fraction(1, 2**80)


@pytest.mark.parametrize("n", [1, 10**3, 2**21 - 1, 2**21, 10**8, 10**12])
def test_no_sum_of_n_entries_overflows_and_grids_stay_fine(n):
    grid = grid_of(1.0, n)
    assert n * 2 ** (grid.bits + 1) <= 2**62
    assert grid.bits <= 50
    assert grid.bits * grid.depth >= 80
    # What the shift by the mean costs scikit-learn: 2^-53 of a mean of 1 / n.
    assert n > 10**8 or grid.bits * grid.depth + 1 >= 53 + n.bit_length() - 1


def test_the_fullest_sum_there_is():
    """The largest entry in every row, as many rows as a grid of few bits allows."""
    grid, n = Grid(1.0, 50, 2), 2**11 - 1
    sums = sum_rows(np.full((n, 1), -1.0), np.zeros(n, np.int64), grid, n_clusters=1)
    assert means_of_sums(sums, np.asarray([n]), grid)[0, 0] == -1.0


@pytest.mark.parametrize("value", [np.nan, np.inf, 9.0])
def test_rows_that_changed_between_two_passes_are_refused(value):
    x = np.asarray([[1.0], [value]])
    with pytest.raises(InvalidValueError, match="the pass before, of at most 2, got one outside"):
        sum_rows(x, np.zeros(2, np.int64), grid_of(1.0, 2), n_clusters=1)
    with pytest.raises(InvalidValueError, match=r"entries in \[-1, 1\]"):
        sum_rows(x, np.zeros(2, np.int64), UNIT_GRID, n_clusters=1)


# k-means with rows far out -------------------------------------------------------------------


def with_outliers(far, seed=0):
    """50 normal rows and one at `far`; the mean of the 50."""
    x = np.concatenate([np.random.default_rng(seed).normal(size=(50, 2)), [[far, far]]])
    labels = np.arange(51) // 50
    return x, np.asarray(exact_means(x, labels, 2), dtype=np.float64)


def started(x):
    """Centers from which one update labels the far row for itself."""
    return np.stack([x[0], x[50]])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("far", [1e6, 1e12, 1e15, 1e40, 1e140])
def test_a_row_far_out_leaves_the_other_center_its_digits(xp, far, weighted):
    x, means = with_outliers(far)
    ones = xp.asarray(np.ones(51)) if weighted else None
    start = xp.asarray(started(x))
    found = kmeans(xp.asarray(x), start, metric="euclidean", max_iter=1, weights=ones)
    assert to_numpy(found.counts).tolist() == [50, 1]
    # The grid's last place, and a rounding of each product with a weight.
    digits = 2.0**-119 if weighted else 2.0**-80
    np.testing.assert_allclose(to_numpy(found.centers), means, rtol=1e-13, atol=4 * far * digits)
    assert far > 1e20 or np.abs(to_numpy(found.centers) - means)[0].max() < 1e-8


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("far", [1e12, 1e15])
def test_centers_are_at_least_as_good_as_those_of_scikit_learn(dtype, far):
    x, _ = with_outliers(far)
    x = x.astype(dtype)
    means = np.asarray(exact_means(x, np.arange(51) // 50, 2), dtype=np.float64)
    theirs = KMeans(2, init=started(x), n_init=1, max_iter=1).fit(x).cluster_centers_
    bounds = SizeBounds.from_counts([1, 1], [50, 50], n_samples=51)
    ours = constrained_kmeans(x, bounds, started(x), metric="euclidean", max_iter=1)
    assert ours.assignment.counts.tolist() == [50, 1]
    errors = [np.abs(c.astype(np.float64) - means)[0].max() for c in (ours.centers, theirs)]
    assert errors[0] <= min(errors[1], 4 * np.finfo(dtype).eps)


def test_ranks_add_the_same_integers_beside_a_row_far_out():
    """Two sources of 8192 rows and 1000 more, whose sums are gathered, give the bits of one."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(9192, 2)) * 10.0 ** rng.integers(-3, 9, size=(9192, 1))
    x[17] = 1e14
    start = x[[5, 17, 9000]]
    whole = kmeans(x, start, metric="euclidean", max_iter=2)
    read = FeatureSource(2, lambda a, b: x[a:b].copy(), lambda ids: x[ids], alone(9192))
    again = kmeans(read, start, metric="euclidean", max_iter=2)
    assert whole.centers.tobytes() == again.centers.tobytes()


def test_a_mini_batch_keeps_the_digits_of_a_light_row():
    """Two rows of one cluster each, one of weight 1e-12 and at 1e-6 of the other's distance."""
    x, weights = np.asarray([[1e6, 0.0], [1.0, 1.0]]), np.asarray([1.0, 1e-12])
    state = init_minibatch(x + 0.25, SizeBounds.for_stream(2, lower=0.0))
    _, state = minibatch_step(
        x, state, SizeBounds.for_stream(2), metric="euclidean", weights=weights
    )
    np.testing.assert_allclose(state.means, x, rtol=1e-9)


# Grids and limbs, number by number ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("largest", "n", "options", "grid"),
    [
        (3.0, 1000, {}, (4.0, 50, 2)),
        (4.0, 2**11 - 1, {}, (8.0, 50, 2)),
        (3.0, 2**11, {}, (4.0, 49, 2)),
        (0.5, 2**21 - 1, {}, (1.0, 40, 2)),
        (0.5, 2**21, {}, (1.0, 39, 3)),
        (1.0, 2**59, {}, (2.0, 1, 80)),
        (1.0, 1, {"finest": 100}, (2.0, 50, 2)),
        (1.0, 1, {"finest": 101}, (2.0, 50, 3)),
        (0.0, 1, {}, (1.0, 50, 2)),
        (2.0**-901, 1, {}, (2.0**-900, 50, 2)),
        (2.0**-950, 1, {}, (2.0**-900, 50, 2)),
        (2.0**-900, 1, {}, (2.0**-899, 50, 2)),
        (2.0**1022, 1, {}, (2.0**1023, 50, 2)),
        (1.7e308, 1, {}, (2.0**1023, 50, 2)),
    ],
)
def test_grids_by_hand(largest, n, options, grid):
    assert tuple(grid_of(largest, n, **options)) == grid


def test_unit_rows_have_36_bits():
    assert tuple(UNIT_GRID) == (1.0, 36, 1)


@pytest.mark.parametrize(
    ("grid", "most", "beyond"),
    [
        (UNIT_GRID, 1.0009, 1.0011),
        (Grid(2.0, 50, 2), 4.0, 4.0000001),
        (Grid(2.0**1023, 50, 2), 1.7976931348623157e308, np.inf),
    ],
)
def test_the_largest_entry_of_a_grid(xp, grid, most, beyond):
    for sign in (1.0, -1.0):
        check_entries(largest_entry(xp.asarray([[0.0, sign * most], [0.5, 0.0]])), grid)
        with pytest.raises(InvalidValueError):
            check_entries(largest_entry(xp.asarray([[0.0, sign * beyond], [0.5, 0.0]])), grid)


def test_a_cluster_without_rows_has_a_mean_of_0(xp):
    grid = grid_of(3.0, 2)
    sums = sum_rows(xp.asarray([[3.0], [1.0]]), xp.asarray([1, 1]), grid, n_clusters=3)
    means = means_of_sums(sums, xp.asarray([0, 2, 0]), grid)
    assert_equal(means, xp.asarray([[0.0], [2.0], [0.0]]))


@pytest.mark.parametrize("shape", [(9, 2**13), (3, 2**16)])
def test_rows_are_split_in_chunks_of_half_a_megabyte(shape):
    """2^16 entries of all limbs at a time on a host, of which each row counts as one at least."""
    grid = Grid(1.0, 40, 2)
    x = np.broadcast_to(np.asarray([[0.5]]), shape)
    labels = np.arange(shape[0]) % 2
    with engine("reference"):
        sums = sum_rows(x, labels, grid, n_clusters=2)
        np.testing.assert_array_equal(sums[:, 0], np.bincount(labels) * 2**39)
        none = sum_rows(x[:, :0], labels, grid, n_clusters=2, check=False)
        assert none.shape == (2, 0)
    assert exact_sums.CHUNK_ENTRIES * 8 == 512 * 2**10
    assert exact_sums.DEVICE_CHUNK_ENTRIES * 8 == 128 * 2**20
