"""Averaged labels and losses of labels where a formula is at its edge, and what does not fit."""

import numpy as np
import pytest

from dualclust.algos.core.errors import InvalidTypeError, InvalidValueError
from dualclust.algos.losses.coke import two_view_targets
from dualclust.algos.losses.cross_entropy import log_softmax
from dualclust.algos.losses.secu import center_loss, mixed_targets
from dualclust.algos.losses.sparse_labels import SparseLabels, average_label, sparse_label_loss
from tests.compare import to_numpy


def test_a_label_that_has_a_slot_keeps_it(xp):
    """Also where there are free slots, and where one of weight 0 has the same number."""
    average = SparseLabels(
        xp.asarray([[4, 7, 7, 0]], "int32"), xp.asarray([[0.5, 0.25, 0.0, 0.25]])
    )
    found = average_label(average, xp.asarray([7]), count=5)
    assert to_numpy(found.clusters).tolist() == [[4, 7, 7, 0]]
    np.testing.assert_allclose(to_numpy(found.weights), [[0.4, 0.4, 0.0, 0.2]], rtol=1e-15)
    fresh = average_label(average, xp.asarray([5]), count=5)
    assert to_numpy(fresh.clusters).tolist() == [[4, 7, 5, 0]]
    np.testing.assert_allclose(to_numpy(fresh.weights), [[0.4, 0.2, 0.2, 0.2]], rtol=1e-15)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_differences_over_the_whole_range_count_at_a_high_temperature(xp, dtype):
    largest = float(np.finfo(dtype).max)
    found = to_numpy(log_softmax(xp.asarray([largest, -largest], dtype), temperature=1e3))
    np.testing.assert_allclose(found, [0.0, -largest / 500.0], rtol=1e-6)


def test_what_does_not_fit_is_named():
    clusters, weights = np.zeros((3, 2), dtype=int), np.ones((3, 2))
    labels, scores = np.zeros(3, dtype=int), np.zeros((3, 5))
    few = SparseLabels(clusters[:, :1], weights)
    for call in (
        lambda: average_label(few, labels, 2),
        lambda: sparse_label_loss(scores, few, temperature=0.1),
    ):
        with pytest.raises(InvalidValueError, match=r"clusters must have shape \(3, 2\)"):
            call()
    with pytest.raises(InvalidTypeError, match="weights must have a real floating dtype"):
        average_label(SparseLabels(clusters, clusters), labels, 2)
    with pytest.raises(InvalidTypeError, match="scores must have a real floating dtype"):
        sparse_label_loss(clusters, SparseLabels(clusters, weights), temperature=0.1)
    with pytest.raises(InvalidTypeError, match="frozen_scores must have a real floating dtype"):
        center_loss(scores, scores.astype(int), labels, temperature=0.1)
    for shape in ((2, 5), (3, 3, 5)):  # no axis of samples, three views
        with pytest.raises(InvalidValueError, match="two views"):
            two_view_targets(labels, np.zeros(shape), temperature=0.1, alpha=0.2)
    for tau in (0.0, 1.0):
        assert mixed_targets(labels, scores, temperature=1.0, tau=tau).shape == (3, 5)
