"""Rows of weights far apart: each cluster has the mean of its own rows."""

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.clustering.constrained import constrained_kmeans
from dualclust.algos.clustering.lloyd import kmeans
from dualclust.algos.clustering.minibatch import init_minibatch, minibatch_step
from dualclust.algos.core.errors import InvalidValueError
from tests.compare import to_numpy


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
@pytest.mark.parametrize("heavy", [1e30, 1e100, 1e288])
def test_light_rows_keep_their_mean_beside_heavy_ones(xp, metric, heavy):
    """Sums of both in one unit of 120 bits were 0 for the light ones."""
    rows = np.asarray([[0.6, 0.8], [0.8, 0.6], [-0.6, -0.8], [-1.0, 0.0]])
    weights = np.asarray([1.0, 3.0, heavy, 3.0 * heavy])
    bounds = xp.freeze(
        SizeBounds.from_counts([2, 2], [2, 2], n_samples=4, xp=xp.namespace, device=xp.device)
    )
    start, options = xp.asarray(rows[[0, 2]]), {"metric": metric, "weights": xp.asarray(weights)}
    held = constrained_kmeans(xp.asarray(rows), bounds, start, **options)
    free = kmeans(xp.asarray(rows), start, **options)
    expected = np.asarray([rows[:2].T @ [0.25, 0.75], rows[2:].T @ [0.25, 0.75]])
    if metric == "cosine":
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    for found in (held, free):
        assert found.converged
        np.testing.assert_allclose(to_numpy(found.centers), expected, rtol=1e-14)


def test_weights_too_far_apart_are_refused():
    rows = np.asarray([[0.6, 0.8], [0.8, 0.6]])
    start, least = rows[:1], 2.0**-960
    kmeans(rows, start, weights=np.asarray([0.5, least]))
    kmeans(rows, start, weights=np.asarray([0.5, 0.0]))
    for light in (np.nextafter(least, 0.0), 5e-324):
        weights = np.asarray([0.5, light])
        with pytest.raises(InvalidValueError, match=r"weights must be 0, or at least 1e-289 of"):
            kmeans(rows, start, weights=weights)
    weights[weights < least] = 0.0  # as the error says
    kmeans(rows, start, weights=weights)


def test_a_batch_keeps_the_mean_of_its_light_rows():
    rows, bounds = np.asarray([[0.0], [1.0], [9.0], [10.0]]), SizeBounds.for_stream(2)
    weights = np.asarray([1e-200, 3e-200, 1.0, 3.0])
    state = init_minibatch(np.asarray([[0.0], [10.0]]), bounds)
    _, state = minibatch_step(rows, state, bounds, metric="euclidean", weights=weights)
    np.testing.assert_allclose(state.means[:, 0], [0.75, 9.75], rtol=1e-14)
    with pytest.raises(InvalidValueError, match="set weights below"):
        minibatch_step(rows, state, bounds, metric="euclidean", weights=weights**1.5)
