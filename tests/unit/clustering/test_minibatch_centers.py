"""Centers of a mini-batch: means of all samples so far, and clusters that never got one."""

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.clustering.minibatch import (
    _add,
    _relocate_empty,
    init_minibatch,
    minibatch_step,
)
from tests.compare import to_numpy
from tests.libraries import ONE_EACH

RNG = np.random.default_rng(0)
# Eighths and powers of two: each sum is exact.
X = RNG.integers(-40, 40, size=(9, 2)) / 8.0
Y = np.asarray([0, 2, 2, 4, 0, 2, 4, 4, 4])
W = np.asarray([1.0, 2.0, 4.0, 0.0, 0.5, 2.0, 0.0, 0.0, 0.0])


@pytest.mark.parametrize("weights", [None, W])
def test_means_and_weights_after_a_batch(xp, weights):
    """``m + (sum w (x - m)) / W`` and ``W = before + sum w``, one sample at a time."""
    means, before = RNG.normal(size=(5, 2)), np.asarray([3.0, 1.0, 0.0, 0.0, 2.5])
    own = None if weights is None else xp.asarray(weights)
    found, weight = _add(xp.asarray(X), xp.asarray(Y), own, xp.asarray(means), xp.asarray(before))
    expected, total = means.copy(), before.copy()
    for row, y, w in zip(X, Y, np.ones(9) if weights is None else weights, strict=True):
        total[y] += w
        expected[y] += (row - expected[y]) * w / total[y]
    np.testing.assert_array_equal(to_numpy(weight), total)
    np.testing.assert_allclose(to_numpy(found), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(to_numpy(found)[[1, 3]], means[[1, 3]])


def test_the_first_samples_replace_a_center_however_far(xp):
    """A mean of 1e300 that has no samples leaves no trace, not even NaN."""
    means = xp.asarray(np.asarray([[1e308, -1e308], [1.0, 1.0]]))
    rows, labels = xp.asarray(X[:2]), xp.asarray([0, 0])
    found, _ = _add(rows, labels, None, means, xp.asarray([0.0, 4.0]))
    assert to_numpy(found).tolist() == [X[:2].mean(axis=0).tolist(), [1.0, 1.0]]


@pytest.mark.parametrize("weights", [None, [1.0, 1.0, 9.0, 1.0, 0.0, 1.0]])
def test_idle_means_move_to_the_farthest_rows(xp, weights):
    """Squared distances to the own center: 16, 18, 2, 0, 25, 18."""
    rows = np.asarray([[4.0, 0.0], [3.0, 3.0], [1.0, 1.0], [7.0, 2.0], [7.0, 7.0], [-3.0, 3.0]])
    labels = np.asarray([1, 1, 1, 3, 3, 1])
    means = np.asarray([[50.0, 9.0], [0.0, 0.0], [60.0, 9.0], [7.0, 2.0], [70.0, 9.0]])
    idle = np.asarray([True, False, True, False, True])
    own = None if weights is None else xp.asarray(weights)
    arrays = [xp.asarray(a) for a in (rows, labels)], [xp.asarray(a) for a in (means, idle)]
    expected = means.copy()
    # With weights: 16, 18, 18, 0, 0, 18, of which the first three in order.
    expected[[0, 2, 4]] = rows[[4, 1, 5]] if weights is None else rows[[1, 2, 5]]
    found = _relocate_empty(*arrays[0], own, *arrays[1], False)
    np.testing.assert_array_equal(to_numpy(found), expected)
    none = xp.asarray(np.zeros(5, bool))
    given = xp.asarray(means)
    assert _relocate_empty(*arrays[0], own, given, none, False) is given


def test_on_the_sphere_distances_are_to_the_direction_of_the_mean(xp):
    rows = xp.asarray([[0.0, 1.0], [1.0, 0.0], [0.6, 0.8]])
    means = xp.asarray([[0.25, 0.0], [0.0, -1.0]])
    found = _relocate_empty(
        rows, xp.asarray([0, 0, 0]), None, means, xp.asarray([False, True]), True
    )
    assert to_numpy(found).tolist() == [[0.25, 0.0], [0.0, 1.0]]


def test_more_idle_clusters_than_rows_off_their_center(xp):
    """Rows at their own center are no place to go to, and a batch may be smaller than that."""
    means = xp.asarray([[1.0], [70.0], [80.0], [90.0]])
    idle, labels = xp.asarray([False, True, True, True]), xp.asarray([0, 0])
    found = _relocate_empty(xp.asarray([[1.0], [5.0]]), labels, None, means, idle, False)
    assert to_numpy(found)[:, 0].tolist() == [1.0, 5.0, 80.0, 90.0]


def test_of_many_equally_far_rows_the_first_are_taken(xp):
    rows = xp.asarray(np.where(np.arange(200) % 3 == 2, 2.0, -2.0)[:, None])
    means = xp.asarray([[0.0], [9.0], [9.0], [9.0]])
    labels, idle = xp.asarray(np.zeros(200, np.int64)), xp.asarray([False, True, True, True])
    found = _relocate_empty(rows, labels, None, means, idle, False)
    assert to_numpy(found)[1:, 0].tolist() == [-2.0, -2.0, 2.0]


def test_a_cluster_that_has_had_samples_stays(xp):
    """It is idle only while nothing was ever in it, and while something may be."""
    bounds = SizeBounds.for_stream(
        3, lower=[0.0, 0.0, 0.0], upper=[3.0, 3.0, 0.0], xp=xp.namespace, device=xp.device
    )
    state = init_minibatch(xp.asarray([[0.0], [10.0], [99.0]]), bounds)
    _, state = minibatch_step(
        xp.asarray([[-1.0], [1.0], [11.0]]), state, bounds, metric="euclidean"
    )
    before = to_numpy(state.centers)[:, 0].tolist()
    assert before == [0.0, 11.0, 99.0]
    _, state = minibatch_step(xp.asarray([[-2.0], [2.0]]), state, bounds, metric="euclidean")
    assert to_numpy(state.centers)[:, 0].tolist() == [0.0, 11.0, 99.0]


def test_a_batch_without_weight_moves_prices_alone():
    numpy = ONE_EACH[0]
    bounds = SizeBounds.for_stream(2, lower=0.8, xp=numpy.namespace)
    state = init_minibatch(np.asarray([[0.0], [10.0]]), bounds)
    labels, after = minibatch_step(
        np.asarray([[1.0], [2.0]]), state, bounds, metric="euclidean", weights=np.zeros(2)
    )
    assert labels.tolist() == [0, 0]
    assert after.centers is state.centers
    assert after.weight is state.weight
    assert after.assignment.counts.tolist() == [2, 0]
    assert after.steps is not None
