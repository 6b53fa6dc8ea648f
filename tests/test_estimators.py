"""The estimator keeps scikit-learn's contract and its own: sizes inside their bounds."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

from dualclust import ConstrainedKMeans
from dualclust.algos.errors import InfeasibleBoundsError, InvalidValueError

ESTIMATORS = (
    ConstrainedKMeans(n_clusters=3, size_min=0.5, random_state=0),
    ConstrainedKMeans(n_clusters=2, size_max=1.5, metric="cosine", random_state=0),
)
# Arrays of NumPy only, so far; scikit-learn itself skips this one unless SCIPY_ARRAY_API is set.
NOT_CLAIMED = {"check_array_api_input"}
CHECKS = [
    pytest.param(estimator, check, id=f"{estimator.metric}-{check.func.__name__}")
    for one in ESTIMATORS
    for estimator, check in estimator_checks_generator(one)
    if check.func.__name__ not in NOT_CLAIMED
]


@pytest.mark.parametrize(("estimator", "check"), CHECKS)
def test_scikit_learn_contract(estimator, check) -> None:
    check(estimator)


def test_all_but_the_named_checks_run() -> None:
    offered = {c.func.__name__ for _, c in estimator_checks_generator(ESTIMATORS[0])}
    assert offered >= NOT_CLAIMED
    assert len(CHECKS) >= 90


@pytest.fixture(scope="module")
def digits():
    return load_digits().data.astype(np.float32)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("exact", [True, False])
def test_sizes_are_inside(digits, metric, exact) -> None:
    model = ConstrainedKMeans(
        10, size_min=0.95, size_max=200, metric=metric, exact=exact, random_state=0
    ).fit(digits)
    assert (model.sizes_ == np.bincount(model.labels_, minlength=10)).all()
    assert model.sizes_.min() >= 170  # floor of 0.95 n / k = 170.7, rounded outward
    assert model.sizes_.max() <= 200
    assert model.gap_ <= (1e-12 if exact else 0.02)


def test_without_bounds_it_is_k_means(digits) -> None:
    ours = ConstrainedKMeans(10, n_init=5, random_state=0).fit(digits)
    theirs = KMeans(10, n_init=5, random_state=0).fit(digits)
    assert ours.inertia_ == pytest.approx(theirs.inertia_, rel=0.02)
    assert ours.score(digits) == pytest.approx(-ours.inertia_, rel=1e-5)
    np.testing.assert_array_equal(ours.predict(digits), ours.labels_)


def test_bounded_prediction_of_new_rows(digits) -> None:
    model = ConstrainedKMeans(10, size_min=0.9, size_max=1.1, random_state=0).fit(digits[:1000])
    sizes = np.bincount(model.predict(digits[1000:], bounded=True), minlength=10)
    assert sizes.min() >= 71
    assert sizes.max() <= 88
    nearest = model.transform(digits[1000:]).argmin(axis=1)
    np.testing.assert_array_equal(model.predict(digits[1000:]), nearest)


def test_far_from_the_origin_nothing_is_lost(digits) -> None:
    near = ConstrainedKMeans(10, size_min=0.9, random_state=0).fit(digits)
    far = ConstrainedKMeans(10, size_min=0.9, random_state=0).fit(digits + np.float32(1e4))
    assert far.inertia_ == pytest.approx(near.inertia_, rel=1e-3)


def test_in_a_pipeline(digits) -> None:
    pipe = make_pipeline(StandardScaler(), ConstrainedKMeans(10, size_min=100, random_state=0))
    assert np.bincount(pipe.fit_predict(digits)).min() >= 100


def test_misuse_is_refused(digits) -> None:
    with pytest.raises(InfeasibleBoundsError, match="add up to 2000 samples"):
        ConstrainedKMeans(10, size_min=200).fit(digits)
    with pytest.raises(InvalidValueError, match=r"size_min must be 0 or more, got -0\.5"):
        ConstrainedKMeans(10, size_min=-0.5).fit(digits)
    with pytest.raises(InvalidValueError, match="metric must be one of"):
        ConstrainedKMeans(10, metric="cos").fit(digits)
