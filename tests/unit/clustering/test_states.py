"""States that k-means goes on from, and where it has converged: at the means of its labels."""

from __future__ import annotations

import math

import array_api_strict
import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.clustering.constrained import KMeansState, constrained_kmeans, kmeans
from dualclust.algos.core.errors import (
    DeviceMismatchError,
    InvalidTypeError,
    InvalidValueError,
)

N, K, D = 9, 3, 2
X = np.random.default_rng(0).normal(size=(N, D))
STATE = KMeansState(X[:K], np.zeros(K), 1, np.arange(N) % K, 0.5, drifts=np.ones(K), changed=0.5)


def resumed(function, state):
    """Go on from a state through a public function."""
    if function is kmeans:
        return kmeans(X, X[:K], metric="euclidean", max_iter=2, state=state)
    bounds = SizeBounds.from_counts([2] * K, [5] * K, n_samples=N)
    return constrained_kmeans(X, bounds, X[:K], metric="euclidean", max_iter=2, state=state)


def changed(array, value, place=-1):
    array = array.copy()
    array[(place,) * array.ndim] = value
    return array


FOREIGN = array_api_strict.asarray
# What is put in, the error, and what it names.
WRONG = {
    "a label of k": ({"labels": changed(STATE.labels, K)}, "labels must lie in [0, 3)"),
    "a label of -1": ({"labels": changed(STATE.labels, -1, 0)}, "labels must lie in [0, 3)"),
    "a label too few": ({"labels": STATE.labels[:-1]}, "labels must have shape (9,)"),
    "labels that are no integers": ({"labels": STATE.labels * 1.0}, "labels must have an integer"),
    "centers of other clusters": ({"centers": X[:2]}, "centers must have shape (3, 2)"),
    "a center of NaN": ({"centers": changed(X[:K], math.nan)}, "centers must be finite"),
    "a price of NaN": ({"prices": changed(STATE.prices, math.nan)}, "prices must be finite"),
    "prices of other clusters": ({"prices": np.zeros(2)}, "prices must have shape (3,)"),
    "drifts of other clusters": ({"drifts": np.ones(4)}, "drifts must have shape (3,)"),
    "a drift of infinity": ({"drifts": changed(STATE.drifts, math.inf)}, "drifts must be finite"),
    "a drift below 0": ({"drifts": changed(STATE.drifts, -1.0)}, "drifts must lie in"),
    "a number of updates below 0": ({"n_iter": -1}, "n_iter must be at least 0"),
    "half an update": ({"n_iter": 0.5}, "n_iter must be"),
    "more labels changed than there are": ({"changed": 1.5}, "changed must lie in"),
    "a share of NaN": ({"changed": math.nan}, "changed must lie in"),
    "a gap below 0": ({"gap": -0.5}, "gap must lie in"),
    "a gap of NaN": ({"gap": math.nan}, "gap must lie in"),
    "foreign centers": ({"centers": FOREIGN(X[:K])}, "centers must be of the same array library"),
    "foreign prices": ({"prices": FOREIGN(STATE.prices)}, "prices must be of the same array libr"),
    "foreign labels": ({"labels": FOREIGN(STATE.labels)}, "labels must be of the same array libr"),
    "foreign drifts": ({"drifts": FOREIGN(STATE.drifts)}, "drifts must be of the same array libr"),
}


@pytest.mark.parametrize("function", [kmeans, constrained_kmeans])
@pytest.mark.parametrize("name", WRONG)
def test_a_state_that_does_not_fit_is_refused(function, name):
    resumed(function, STATE)  # the one that is changed fits
    replaced, words = WRONG[name]
    errors = (InvalidValueError, InvalidTypeError, DeviceMismatchError)
    with pytest.raises(errors) as error:
        resumed(function, STATE._replace(**replaced))
    assert words in str(error.value).removeprefix("state.")


@pytest.mark.parametrize("function", [kmeans, constrained_kmeans])
@pytest.mark.parametrize("state", [(1, 2), STATE._asdict(), object()])
def test_what_is_no_state_is_refused(function, state):
    with pytest.raises(InvalidTypeError, match="state must be a KMeansState"):
        resumed(function, state)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_a_run_that_converged_has_the_means_of_its_labels(seed, metric):
    """Also where no label changed after a step beyond the means."""
    rng = np.random.default_rng(seed)
    n, k = 7000, 10
    x = rng.normal(size=(k, 3))[rng.integers(0, k, n)] + 0.1 * rng.normal(size=(n, 3))
    if metric == "cosine":
        x /= np.linalg.norm(x, axis=1, keepdims=True)
    bounds, states = SizeBounds.from_ratios(k, n_samples=n, lower=0.8, upper=1.2), []
    found = constrained_kmeans(
        x, bounds, x[:k], metric=metric, tol=0.0, progress=lambda state, _: states.append(state)
    )
    assert found.converged
    assert any(not state.converged and state.changed == 0.0 for state in states)
    means = np.stack([x[found.labels == j].mean(axis=0) for j in range(k)])
    if metric == "cosine":
        means /= np.linalg.norm(means, axis=1, keepdims=True)
    np.testing.assert_allclose(found.centers, means, rtol=0.0, atol=1e-9)
    np.testing.assert_array_equal(found.counts, np.bincount(found.labels, minlength=k))
