"""Running centers: exact sums, directions of means, and what the state refuses."""

import numpy as np
import pytest

from dualclust.algos.clustering.centers import (
    add_to_sums,
    init_sums,
    mean_centers,
    merge_sums,
    running_average,
    sum_batch,
)
from dualclust.algos.core.errors import DeviceMismatchError, InvalidTypeError, InvalidValueError
from dualclust.algos.core.exact_sums import FRACTION_BITS
from tests.compare import assert_close, assert_equal, to_numpy
from tests.problems import unit_rows
from tests.refusals import is_refusal, message_of

X = unit_rows(np.random.default_rng(0).normal(size=(12, 3)))
Y = np.asarray([0, 1, 2, 3, 3, 2, 1, 0, 0, 0, 2, 1])
UNIT = 2**FRACTION_BITS


def empty(xp, k=4, d=3):
    return xp.freeze(init_sums(k, d, xp=xp.namespace, device=xp.device))


def test_sums_start_at_zero(xp):
    state = empty(xp)
    assert_equal(state.sums, xp.asarray(np.zeros((4, 3), np.int64)))
    assert_equal(state.counts, xp.asarray(np.zeros(4, np.int64)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_are_integers_of_rounded_features(xp, dtype):
    x = xp.asarray([[1.0, -0.5, 2.0**-37], [0.25, 1.0, 2.0**-36]], dtype)
    state = add_to_sums(empty(xp, 2), x, xp.asarray([1, 1]))
    assert_equal(state.sums, xp.asarray([[0, 0, 0], [5 * UNIT // 4, UNIT // 2, 1]]))
    assert_equal(state.counts, xp.asarray([0, 2]))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_features_are_rounded_to_the_nearest_integer(xp, dtype):
    """Truncation would pull every center to the origin."""
    near = xp.asarray([[0.75, -0.75, 1.25], [-1.25, 2.5, 3.5]], dtype) * 2.0**-FRACTION_BITS
    expected = np.asarray([[1, -1, 1], [-1, 2, 4]])  # halves to the even one
    state = add_to_sums(empty(xp, 2), near, xp.asarray([0, 1]))
    assert_equal(state.sums, xp.asarray(expected))
    batch = sum_batch(near, xp.asarray([0, 1]), n_clusters=2)
    assert_equal(batch.sums, xp.asarray(expected))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_labels_of_any_integer_dtype(xp, dtype):
    state = add_to_sums(empty(xp), xp.asarray(X), xp.asarray(Y, dtype))
    expected = add_to_sums(empty(xp), xp.asarray(X), xp.asarray(Y))
    assert_equal(state.sums, expected.sums)
    assert_equal(state.counts, expected.counts)


def test_merging_adds_both_sets_of_samples(xp):
    parts = [
        add_to_sums(empty(xp), xp.asarray(X[i:j]), xp.asarray(Y[i:j])) for i, j in ((0, 5), (5, 12))
    ]
    whole = add_to_sums(empty(xp), xp.asarray(X), xp.asarray(Y))
    for merged in (merge_sums(*parts), merge_sums(*parts[::-1])):
        assert_equal(merged.sums, whole.sums)
        assert_equal(merged.counts, whole.counts)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_centers_are_directions_of_means_in_the_dtype_of_the_previous_ones(xp, dtype):
    state = add_to_sums(empty(xp, 2, 2), xp.asarray([[1.0, 0.0], [0.0, 1.0]]), xp.asarray([0, 0]))
    previous = xp.asarray([[0.0, 1.0], [-0.6, 0.8]], dtype)
    half = 0.5**0.5
    assert_close(mean_centers(state, previous), xp.asarray([[half, half], [-0.6, 0.8]], dtype))


def test_an_empty_cluster_and_features_that_cancel_keep_their_center(xp, rng):
    state = add_to_sums(empty(xp, 3), xp.asarray([X[0], -X[0], X[1]]), xp.asarray([1, 1, 2]))
    previous = xp.asarray(unit_rows(rng.normal(size=(3, 3))))
    centers = mean_centers(state, previous)
    assert_equal(centers[:2, :], previous[:2, :])
    assert_close(centers[2, :], xp.asarray(X[1]), rtol=1e-10, atol=1e-10)
    assert to_numpy(state.counts).tolist() == [0, 2, 1]


def test_the_state_given_is_not_changed(xp):
    state = xp.freeze(add_to_sums(empty(xp), xp.asarray(X), xp.asarray(Y)))
    before = to_numpy(state.sums), to_numpy(state.counts)
    add_to_sums(state, xp.asarray(X), xp.asarray(Y))
    merge_sums(state, state)
    mean_centers(state, xp.asarray(np.eye(4, 3)))
    np.testing.assert_array_equal(before[0], to_numpy(state.sums))
    np.testing.assert_array_equal(before[1], to_numpy(state.counts))


@pytest.mark.parametrize("value", [1.01, -2.0, 1e300, np.inf, -np.inf, np.nan])
def test_entries_that_no_unit_vector_has_are_refused(xp, value):
    x = X.copy()
    x[7, 1] = value
    text = message_of(InvalidValueError, add_to_sums, empty(xp), xp.asarray(x), xp.asarray(Y))
    assert text == (
        "features must have entries in [-1, 1], got one outside or NaN. "
        "To fix this, normalize the rows with dualclust.algos.core.project_sphere"
    )


@pytest.mark.parametrize(
    ("x", "y", "text"),
    [
        (X[:, :2], Y, "features must have shape (n, 3), got (12, 2)"),
        (X[0], Y[:3], "features must have shape (n, 3), got (3,)"),
        (X, Y[:5], "labels must have shape (12,), got (5,)"),
        (X, Y + 4, "labels must lie in [0, 4), got values from 4 to 7"),
        (X, Y - 4, "labels must lie in [0, 4), got values from -4 to -1"),
    ],
)
def test_other_shapes_and_labels_are_refused(xp, x, y, text):
    told = message_of(InvalidValueError, add_to_sums, empty(xp), xp.asarray(x), xp.asarray(y))
    assert is_refusal(told, text)


def test_other_types_and_places_are_refused(xp):
    integers = xp.asarray(np.ones((2, 3), np.int64))
    message_of(InvalidTypeError, add_to_sums, empty(xp), integers, xp.asarray([0, 1]))
    message_of(InvalidTypeError, add_to_sums, empty(xp), xp.asarray(X[:2]), xp.asarray([0.0, 1.0]))
    if not xp.name.startswith("numpy"):
        message_of(DeviceMismatchError, add_to_sums, empty(xp), X, Y)
        with pytest.raises(DeviceMismatchError):
            mean_centers(empty(xp), np.eye(4, 3))
    with pytest.raises(InvalidValueError, match=r"previous must have shape \(4, 3\)"):
        mean_centers(empty(xp), xp.asarray(np.eye(3)))


def test_no_sample_changes_nothing(xp):
    state = add_to_sums(empty(xp), xp.asarray(X[:0]), xp.asarray(Y[:0]))
    assert_equal(state.counts, empty(xp).counts)


@pytest.mark.parametrize(("k", "d"), [(0, 3), (4, 0)])
def test_sums_need_a_cluster_and_a_feature(xp, k, d):
    with pytest.raises(InvalidValueError, match="must be at least 1, got 0"):
        init_sums(k, d, xp=xp.namespace)


def test_the_running_average_is_the_mean_of_all_values(xp, rng):
    values = rng.normal(size=(5, 2, 3))
    average = xp.asarray(np.full((2, 3), np.nan))  # ignored at the first value
    for i, value in enumerate(values):
        average = running_average(average, xp.asarray(value), i + 1)
        assert_close(average, xp.asarray(values[: i + 1].mean(axis=0)), rtol=1e-12, atol=1e-15)
    with pytest.raises(InvalidValueError, match="count must be at least 1, got 0"):
        running_average(average, average, 0)
