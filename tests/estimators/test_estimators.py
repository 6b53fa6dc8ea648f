"""The estimator keeps scikit-learn's contract and its own: sizes inside their bounds."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

from dualclust import ConstrainedKMeans
from dualclust.algos.core.errors import InfeasibleBoundsError, InvalidValueError

ESTIMATORS = (
    ConstrainedKMeans(n_clusters=3, random_state=0),
    ConstrainedKMeans(n_clusters=3, lower=0.5, random_state=0),
    ConstrainedKMeans(n_clusters=2, upper=1.5, metric="cosine", random_state=0),
    ConstrainedKMeans(n_clusters=2, min_count=1, random_state=0),
)
SLOW = (1, 3)
"""Bounds in other words than those of the third; of the first and the third all checks run."""
# scikit-learn itself skips this one unless SCIPY_ARRAY_API is set.
NOT_CLAIMED = {"check_array_api_input"}
# scikit-learn's own KMeans is expected to fail it, since a start draws other rows. Ours has another
# reason, where there are bounds: sizes count samples, so two equal rows are not one of weight 2.
DECLARED = {
    "check_sample_weight_equivalence_on_dense_data": "as of KMeans; and sizes count samples",
    "check_sample_weight_equivalence_on_sparse_data": "as of KMeans; and sizes count samples",
}
CHECKS = [
    pytest.param(
        estimator,
        check,
        id=f"{i}-{estimator.metric}-{check.func.__name__}",
        marks=[
            *([pytest.mark.slow] if i in SLOW else []),
            *(
                pytest.mark.xfail(reason=reason, strict=True)
                for name, reason in DECLARED.items()
                if name == check.func.__name__
            ),
        ],
    )
    for i, one in enumerate(ESTIMATORS)
    for estimator, check in estimator_checks_generator(one)
    if check.func.__name__ not in NOT_CLAIMED
]


@pytest.mark.parametrize(("estimator", "check"), CHECKS)
def test_scikit_learn_contract(estimator, check) -> None:
    check(estimator)


def test_all_but_the_named_checks_run() -> None:
    offered = {c.func.__name__ for _, c in estimator_checks_generator(ESTIMATORS[0])}
    # Old versions of scikit-learn do not offer what is not claimed.
    assert offered >= set(DECLARED)
    assert len(CHECKS) >= 120


def test_nothing_is_declared_that_k_means_of_scikit_learn_keeps() -> None:
    from sklearn.utils._test_common.instance_generator import PER_ESTIMATOR_XFAIL_CHECKS

    assert set(DECLARED) <= set(PER_ESTIMATOR_XFAIL_CHECKS[KMeans])


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("gap", [0.0, 1e-2])
def test_sizes_are_inside(digits, metric, gap) -> None:
    model = ConstrainedKMeans(
        10, lower=0.95, max_count=200, metric=metric, gap=gap, random_state=0
    ).fit(digits)
    assert (model.counts_ == np.bincount(model.labels_, minlength=10)).all()
    assert model.counts_.min() >= 170  # floor of 0.95 n / k = 170.7, rounded outward
    assert model.counts_.max() <= 200
    assert model.gap_ <= gap


def test_without_bounds_it_is_k_means(digits) -> None:
    ours = ConstrainedKMeans(10, n_init=5, random_state=0).fit(digits)
    theirs = KMeans(10, n_init=5, random_state=0).fit(digits)
    assert ours.inertia_ == pytest.approx(theirs.inertia_, rel=0.02)
    assert ours.score(digits) == pytest.approx(-ours.inertia_, rel=1e-5)
    np.testing.assert_array_equal(ours.predict(digits), ours.labels_)


def test_bounded_prediction_of_new_rows(digits) -> None:
    model = ConstrainedKMeans(10, lower=0.9, upper=1.1, random_state=0).fit(digits[:1000])
    sizes = np.bincount(model.predict(digits[1000:], bounded=True), minlength=10)
    assert sizes.min() >= 71
    assert sizes.max() <= 88
    half = 0.5 * model.transform(digits[1000:]).astype(np.float64) ** 2
    at_prices = (model.prices_ - half).argmax(axis=1)
    assert (model.predict(digits[1000:]) == at_prices).mean() > 0.995  # rounding of float32
    assert (half.argmin(axis=1) != at_prices).any()


def test_far_from_the_origin_nothing_is_lost(digits) -> None:
    near = ConstrainedKMeans(10, lower=0.9, random_state=0).fit(digits)
    far = ConstrainedKMeans(10, lower=0.9, random_state=0).fit(digits + np.float32(1e4))
    assert far.inertia_ == pytest.approx(near.inertia_, rel=1e-3)


def test_in_a_pipeline(digits) -> None:
    pipe = make_pipeline(StandardScaler(), ConstrainedKMeans(10, min_count=100, random_state=0))
    assert np.bincount(pipe.fit_predict(digits)).min() >= 100


def test_misuse_is_refused(digits) -> None:
    with pytest.raises(InfeasibleBoundsError, match="add up to 2000 samples"):
        ConstrainedKMeans(10, min_count=200).fit(digits)
    with pytest.raises(InvalidValueError, match=r"lower must lie in \[0, inf\), got -0\.5"):
        ConstrainedKMeans(10, lower=-0.5).fit(digits)
    with pytest.raises(InvalidValueError, match="metric must be one of"):
        ConstrainedKMeans(10, metric="cos").fit(digits)


@pytest.mark.parametrize("n", [12, 13, 14])
@pytest.mark.parametrize(
    ("sizes", "text"),
    [
        ({"lower": 1.2}, "lower must be at most 1 on average over the clusters, in units of the"),
        ({"upper": 0.8}, "upper must be at least 1 on average over the clusters, in units of the"),
    ],
)
def test_shares_that_no_sizes_have_are_refused_for_any_number_of_rows(digits, n, sizes, text):
    model = ConstrainedKMeans(3, **sizes)
    with pytest.raises(InfeasibleBoundsError, match=text):
        model.fit(digits[:n])
    with pytest.raises(InfeasibleBoundsError, match="use ratios of at most 1 below and at least 1"):
        model.partial_fit(digits[:n])


@pytest.mark.parametrize("shift", [0.0, 1e4])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_a_center_is_at_distance_0_of_itself(metric, dtype, shift) -> None:
    """And rows near a center keep their digits: differences do not cancel."""
    rng = np.random.default_rng(0)
    x = (100.0 * rng.normal(size=(300, 5)) + shift).astype(dtype)
    model = ConstrainedKMeans(4, metric=metric, random_state=0).fit(x)
    centers = model.cluster_centers_
    found = model.transform(centers)
    eps = np.finfo(dtype).eps
    assert np.diag(found).max() <= (0.0 if metric == "euclidean" else 4 * eps**2)
    near = (centers * (1 + 1e-4 * rng.uniform(size=centers.shape))).astype(dtype)
    wide, goal = near.astype(np.float64), centers.astype(np.float64)
    if metric == "euclidean":
        expected = np.linalg.norm(wide - goal, axis=1)
        tolerance = 4 * eps * np.abs(wide).max() / expected.min()
    else:
        unit = wide / np.linalg.norm(wide, axis=1, keepdims=True)
        expected = 0.5 * ((unit - goal / np.linalg.norm(goal, axis=1, keepdims=True)) ** 2).sum(1)
        tolerance = 16 * eps / np.sqrt(expected.min())
    np.testing.assert_allclose(np.diag(model.transform(near)), expected, rtol=tolerance)
    rows = x[:50].astype(np.float64)
    if metric == "euclidean":
        apart = np.linalg.norm(rows[:, None] - goal, axis=2)
        np.testing.assert_allclose(model.transform(x[:50]), apart, rtol=200 * eps)


# Weights -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_weights_move_the_centers_not_the_sizes(digits, metric) -> None:
    weights = np.random.default_rng(0).uniform(0.1, 10.0, size=len(digits))
    options = {"lower": 0.9, "upper": 1.1, "metric": metric, "random_state": 0}
    model = ConstrainedKMeans(10, tol=0.0, **options).fit(digits, sample_weight=weights)
    assert model.counts_.min() >= 161
    assert model.counts_.max() <= 198
    rows = digits if metric == "euclidean" else digits / np.linalg.norm(digits, axis=1)[:, None]
    squared = ((rows - model.cluster_centers_[model.labels_]) ** 2).sum(axis=1)
    assert model.inertia_ == pytest.approx((weights * squared).sum(), rel=1e-5)
    sums = np.zeros((10, 64))
    np.add.at(sums, model.labels_, weights[:, None] * rows)
    if metric == "euclidean":
        want = sums / np.bincount(model.labels_, weights)[:, None]
    else:
        want = sums / np.linalg.norm(sums, axis=1)[:, None]
    np.testing.assert_allclose(model.cluster_centers_, want, atol=0.02 * np.abs(want).max())
    plain = model.score(digits)
    np.testing.assert_allclose(model.score(digits, sample_weight=np.ones(len(digits))), plain)
    assert model.score(digits, sample_weight=weights) > -model.inertia_ * (1 + 1e-6) - 1e-6


def test_rows_of_weight_0_are_placed_and_do_not_count(digits) -> None:
    weights = (np.arange(len(digits)) % 2).astype(float)
    model = ConstrainedKMeans(10, random_state=0).fit(digits, sample_weight=weights)
    assert model.labels_.shape == (len(digits),)
    assert model.score(digits[1::2]) == pytest.approx(
        model.score(digits, sample_weight=weights), rel=1e-6
    )


@pytest.mark.parametrize("weights", [[1.0, -1.0], [1.0, np.nan], [1.0], np.ones((2, 1)), [0, 0]])
def test_weights_that_do_not_fit(weights) -> None:
    with pytest.raises(InvalidValueError, match="sample_weight"):
        ConstrainedKMeans(1).fit(np.eye(2), sample_weight=weights)


# Prices and prediction ---------------------------------------------------------------------------


def test_duals_are_the_two_sides_of_the_prices(digits) -> None:
    model = ConstrainedKMeans(10, lower=0.98, upper=1.02, random_state=0).fit(digits)
    np.testing.assert_array_equal(model.duals_.lower - model.duals_.upper, model.prices_)
    assert (np.minimum(*model.duals_) == 0).all()
    assert (np.maximum(*model.duals_) > 0).any()
    at_lower, at_upper = model.counts_ == 176, model.counts_ == 184
    assert model.duals_.lower[~at_lower].max(initial=0.0) < 1e-9
    assert model.duals_.upper[~at_upper].max(initial=0.0) < 1e-9


def test_bounded_prediction_is_the_best(digits) -> None:
    """No other labels inside the bounds are nearer: compared with a linear program's value."""
    from scipy.optimize import linear_sum_assignment

    model = ConstrainedKMeans(4, lower=1.0, upper=1.0, gap=0.0, random_state=0)
    model.fit(digits[:200])
    few = digits[200:240]
    labels = model.predict(few, bounded=True)
    np.testing.assert_array_equal(np.bincount(labels), 10)
    cost = np.repeat(model.transform(few).astype(np.float64) ** 2, 10, axis=1)
    i, j = linear_sum_assignment(cost)
    ours = (model.transform(few).astype(np.float64) ** 2)[np.arange(40), labels].sum()
    assert ours == pytest.approx(cost[i, j].sum(), rel=1e-6)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_more_starts_are_not_worse(digits, metric) -> None:
    one, many = (
        ConstrainedKMeans(10, lower=0.9, metric=metric, n_init=n, tol=0, random_state=3).fit(
            digits[:400]
        )
        for n in (1, 4)
    )
    assert many.inertia_ <= one.inertia_ * (1 + 1e-4)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("weighted", [False, True])
def test_prediction_of_the_rows_of_a_fit_gives_its_labels_back(digits, metric, weighted) -> None:
    """Up to rows that tie at the prices: with distinct rows and no gap, fewer than clusters."""
    rows = digits.astype(np.float64) + np.random.default_rng(0).normal(size=digits.shape)
    weights = np.random.default_rng(1).uniform(0.1, 10.0, len(rows)) if weighted else None
    options = {"metric": metric, "gap": 0.0, "random_state": 0}
    model = ConstrainedKMeans(10, lower=0.97, upper=1.03, **options).fit(
        rows, sample_weight=weights
    )
    assert model.gap_ == 0.0
    found = model.predict(rows, sample_weight=weights)
    assert (found != model.labels_).sum() < 10
    assert (model.transform(rows).argmin(axis=1) != model.labels_).sum() > 10
    exact = model.predict(rows, bounded=True, sample_weight=weights)
    assert set(np.bincount(exact)) <= set(range(174, 187))
    assert (exact != model.labels_).sum() < 2 * 10
