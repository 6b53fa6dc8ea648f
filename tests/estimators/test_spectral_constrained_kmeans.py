"""Spectral clustering with bounds: scikit-learn's contract, its certificate, and other rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.utils.estimator_checks import estimator_checks_generator

from dualclust import ConstrainedKMeans, SpectralConstrainedKMeans
from dualclust.algos.clustering.metrics import clustering_scores
from dualclust.algos.core.errors import InfeasibleBoundsError, InvalidValueError

CHECKS = [
    pytest.param(estimator, check, id=check.func.__name__)
    for estimator, check in estimator_checks_generator(
        SpectralConstrainedKMeans(n_clusters=3, random_state=0)
    )
    if check.func.__name__ != "check_array_api_input"
]


@pytest.fixture(scope="module")
def digits() -> np.ndarray:
    return load_digits().data


@pytest.mark.parametrize(("estimator", "check"), CHECKS)
def test_scikit_learn_contract(estimator, check) -> None:
    check(clone(estimator))


def test_neighbors_find_the_digits_that_means_do_not(digits) -> None:
    classes = load_digits().target
    model = SpectralConstrainedKMeans(10, random_state=0).fit(digits)
    found = clustering_scores(classes, model.labels_).acc
    means = ConstrainedKMeans(10, n_init=10, random_state=0).fit(digits)
    assert found > clustering_scores(classes, means.labels_).acc + 0.04
    assert model.counts_.min() >= 53  # 0.3 and 2.5 of the mean size, 179.7
    assert model.counts_.max() <= 450
    assert model.gap_ <= 1e-4


def test_predict_repeats_the_labels_and_places_other_rows(digits) -> None:
    model = SpectralConstrainedKMeans(10, lower=0.9, upper=1.1, random_state=0).fit(digits[:1500])
    assert (model.counts_ >= 135).all()
    assert (model.predict(digits[:1500]) == model.labels_).mean() > 0.99
    classes = load_digits().target[1500:]
    assert clustering_scores(classes, model.predict(digits[1500:])).acc > 0.8
    bounded = np.bincount(model.predict(digits[1500:], bounded=True), minlength=10)
    assert bounded.min() >= 26
    assert bounded.max() <= 33
    assert model.transform(digits[1500:]).shape == (297, 10)


def test_a_graph_of_fewer_rows_places_the_rest(digits) -> None:
    whole = SpectralConstrainedKMeans(10, random_state=0).fit(digits)
    part = SpectralConstrainedKMeans(10, max_graph=600, random_state=0).fit(digits)
    assert part.graph_.rows.shape == (600, 64)
    assert clustering_scores(whole.labels_, part.labels_).nmi > 0.75


def test_tensors_come_back_as_tensors(digits) -> None:
    rows = torch.asarray(digits[:300])
    model = SpectralConstrainedKMeans(4, random_state=0).fit(rows)
    expected = SpectralConstrainedKMeans(4, random_state=0).fit(digits[:300])
    assert isinstance(model.labels_, torch.Tensor)
    assert clustering_scores(expected.labels_, model.labels_.numpy()).acc > 0.98
    assert isinstance(model.predict(rows[:5]), torch.Tensor)


def test_known_rows_stay_where_they_are(digits) -> None:
    fixed = np.full(200, -1)
    fixed[:7] = 2
    model = SpectralConstrainedKMeans(4, random_state=0).fit(digits[:200], fixed=fixed)
    assert (model.labels_[:7] == 2).all()


def test_more_parts_than_coordinates_are_told() -> None:
    rng = np.random.default_rng(0)
    rows = np.repeat(10 * rng.normal(size=(6, 5)), 20, axis=0) + 1e-3 * rng.normal(size=(120, 5))
    with pytest.warns(UserWarning, match="6 parts without an edge between them, and 3 coord"):
        SpectralConstrainedKMeans(3, n_neighbors=4, random_state=0).fit(rows)


def test_bounds_that_no_labels_keep_are_refused(digits) -> None:
    model = SpectralConstrainedKMeans(3, lower=None, min_count=200, random_state=0)
    with pytest.raises(InfeasibleBoundsError):
        model.fit(digits[:300])
    with pytest.raises(InvalidValueError, match="n_neighbors must be at least 1"):
        SpectralConstrainedKMeans(3, n_neighbors=0).fit(digits[:300])
