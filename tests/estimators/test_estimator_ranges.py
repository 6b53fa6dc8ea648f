"""Parameters, rows and weights that are wrong are refused by every method that reads them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from dualclust import ConstrainedKMeans
from dualclust.algos.core.errors import DualclustError

N, K = 12, 3
X = np.random.default_rng(0).normal(size=(N, 2))
WRONG = {
    "n_clusters": (0, -1, 1.5),
    "metric": ("manhattan", ""),
    "n_init": (0, 1.5),
    "max_iter": (-1, 0.5),
    "tol": (-0.1, 1.1, math.nan),
    "gap": (-0.1, 1.1, math.nan),
    "rounding": ("up", ""),
    "n_jobs": (0, 1.5),
    "init": ("first", np.full((K, 2), math.nan), X[: K - 1], 3),
    "lower": (-0.1, 1.1, math.nan),
    "upper": (0.9, math.nan),
}
CASES = [
    pytest.param(name, value, id=f"{name}-{i}")
    for name, values in WRONG.items()
    for i, value in enumerate(values)
]


@pytest.mark.parametrize(("name", "value"), CASES)
@pytest.mark.parametrize("method", ["fit", "fit_predict", "fit_transform", "partial_fit"])
def test_a_parameter_out_of_its_range_is_refused(method, name, value) -> None:
    right = {"n_clusters": K, "random_state": 0}
    getattr(ConstrainedKMeans(**right), method)(X)
    with pytest.raises(DualclustError, match=name):
        getattr(ConstrainedKMeans(**right | {name: value}), method)(X)


def changed(value, shape=(N, 2)):
    array = np.ones(shape)
    array[-1] = value
    return array


ROWS = {
    "NaN": changed(math.nan),
    "infinity": changed(math.inf),
    "one axis": X[:, 0],
    "no rows": X[:0],
}
WEIGHTS = {
    "below 0": changed(-1.0, (N,)),
    "NaN": changed(math.nan, (N,)),
    "infinity": changed(math.inf, (N,)),
    "too few": np.ones(N - 1),
    "two axes": np.ones((N, 1)),
}
READ = ("fit", "partial_fit", "predict", "transform", "score")


def fitted():
    return ConstrainedKMeans(K, lower=0.5, random_state=0).fit(X)


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("method", READ)
def test_rows_that_are_none_are_refused(method, rows) -> None:
    model = fitted()
    getattr(model, method)(X)
    with pytest.raises(ValueError, match=r"NaN|infinity|2D array|minimum of 1"):  # scikit-learn's
        getattr(model, method)(ROWS[rows])


@pytest.mark.parametrize("method", ["predict", "transform", "score", "partial_fit"])
def test_rows_of_other_columns_are_refused(method) -> None:
    with pytest.raises(ValueError, match="X has 1 features, but ConstrainedKMeans is exp"):
        getattr(fitted(), method)(X[:, :1])


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("method", ["fit", "partial_fit", "predict", "score"])
def test_weights_that_are_none_are_refused(method, weights) -> None:
    model = fitted()
    getattr(model, method)(X, sample_weight=np.ones(N))
    with pytest.raises(DualclustError, match="sample_weight"):
        getattr(model, method)(X, sample_weight=WEIGHTS[weights])


@pytest.mark.parametrize("method", ["predict", "transform", "score"])
def test_what_was_not_fitted_answers_nothing(method) -> None:
    with pytest.raises(NotFittedError):
        getattr(ConstrainedKMeans(K), method)(X)


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_fewer_rows_than_clusters_are_refused(method) -> None:
    with pytest.raises(DualclustError, match="n_samples=2 should be >= n_clusters=3"):
        getattr(ConstrainedKMeans(K), method)(X[:2])
