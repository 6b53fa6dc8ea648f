"""Averaged labels of a few clusters against dense averages, and their loss against the dense."""

import numpy as np
import pytest

from dualclust.algos.clustering.centers import running_average
from dualclust.algos.core.errors import InvalidValueError
from dualclust.algos.losses.coke import smoothed_labels
from dualclust.algos.losses.cross_entropy import soft_cross_entropy
from dualclust.algos.losses.sparse_labels import (
    SparseLabels,
    average_label,
    first_label,
    sparse_label_loss,
)
from tests.compare import assert_close, to_numpy

HEADS, N, K, SLOTS = 2, 12, 6, 4


def empty(xp, slots=SLOTS, dtype="float64"):
    return SparseLabels(
        xp.asarray(np.zeros((HEADS, N, slots)), dtype="int32"),
        xp.asarray(np.zeros((HEADS, N, slots)), dtype=dtype),
    )


def dense(average):
    """The (h, n, k) weights that the slots name."""
    clusters, weights = to_numpy(average.clusters), to_numpy(average.weights)
    out = np.zeros((*weights.shape[:-1], K))
    for at in np.ndindex(weights.shape):
        out[(*at[:-1], clusters[at])] += weights[at]
    return out


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_few_labels_are_averaged_as_they_are(xp, rng, dtype):
    """Of four labels none has to go: section 3.4 itself, from the label before as the start."""
    labels = rng.integers(0, K, size=(5, HEADS, N))
    average = first_label(xp.asarray(labels[0]), empty(xp, dtype=dtype))
    expected = np.eye(K)[labels[0]]
    np.testing.assert_array_equal(dense(average), expected)
    for count in range(1, 5):
        average = average_label(average, xp.asarray(labels[count]), count)
        expected = running_average(expected, np.eye(K)[labels[count]], count)
        np.testing.assert_allclose(dense(average), expected, atol=1e-6 if dtype == "float32" else 0)
    assert average.weights.dtype == empty(xp, dtype=dtype).weights.dtype


@pytest.mark.parametrize("slots", [1, 2, 3])
def test_the_smallest_weight_makes_room_and_the_rest_adds_up(xp, rng, slots):
    average = empty(xp, slots)
    lost = 0
    for count in range(1, 9):
        before, y = dense(average), rng.integers(0, K, size=(HEADS, N))
        average = average_label(average, xp.asarray(y), count)
        after = dense(average)
        np.testing.assert_allclose(after.sum(-1), 1.0, rtol=1e-12)
        assert ((after > 0).sum(-1) <= slots).all()
        for at in np.ndindex(y.shape):
            assert after[at][y[at]] >= 1 / count - 1e-12
            gone = np.flatnonzero((before[at] > 0) & (after[at] == 0)) if count > 1 else []
            assert len(gone) <= 1
            for cluster in gone:
                lost += 1
                assert before[at][cluster] == before[at][before[at] > 0].min()
    assert lost > 5


def test_the_loss_is_that_of_the_dense_target(xp, rng):
    average = empty(xp)
    for count in range(1, 7):
        average = average_label(average, xp.asarray(rng.integers(0, K, size=(HEADS, N))), count)
    scores = xp.asarray(rng.normal(size=(HEADS, N, K)))
    target = smoothed_labels(xp.asarray(dense(average)), temperature=0.5)
    assert_close(
        sparse_label_loss(scores, average, temperature=0.1),
        soft_cross_entropy(scores, target, temperature=0.1),
        rtol=1e-12,
    )


def test_shapes_and_counts_that_do_not_fit_are_refused(xp):
    average = empty(xp)
    with pytest.raises(InvalidValueError, match=r"labels must have shape \(2, 12\)"):
        average_label(average, xp.asarray(np.zeros((HEADS, 3), dtype=np.int64)), 1)
    with pytest.raises(InvalidValueError, match="count must be"):
        average_label(average, xp.asarray(np.zeros((HEADS, N), dtype=np.int64)), 0)
    with pytest.raises(InvalidValueError, match="weights must have shape"):
        sparse_label_loss(xp.asarray(np.zeros((HEADS, 3, K))), average, temperature=0.1)
