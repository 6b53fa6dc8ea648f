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
from dualclust.algos.core.errors import InfeasibleBoundsError, InvalidTypeError, InvalidValueError

ESTIMATORS = (
    ConstrainedKMeans(n_clusters=3, random_state=0),
    ConstrainedKMeans(n_clusters=3, lower=0.5, random_state=0),
    ConstrainedKMeans(n_clusters=2, upper=1.5, metric="cosine", random_state=0),
    ConstrainedKMeans(n_clusters=2, min_count=1, random_state=0),
)
# scikit-learn itself skips this one unless SCIPY_ARRAY_API is set.
NOT_CLAIMED = {"check_array_api_input"}
# scikit-learn's own KMeans is expected to fail it, since a start draws other rows. Ours has another
# reason, where there are bounds: sizes count samples, so two equal rows are not one of weight 2.
DECLARED = {
    "check_sample_weight_equivalence_on_dense_data": "as of KMeans; and sizes count samples"
}
CHECKS = [
    pytest.param(
        estimator,
        check,
        id=f"{i}-{estimator.metric}-{check.func.__name__}",
        marks=[
            pytest.mark.xfail(reason=reason, strict=True)
            for name, reason in DECLARED.items()
            if name == check.func.__name__
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


@pytest.fixture(scope="module")
def digits():
    return load_digits().data.astype(np.float32)


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


# Bounds, starts, threads -------------------------------------------------------------------------


def test_one_is_a_share_whether_it_is_whole_or_not(digits) -> None:
    for one in (1, 1.0):
        model = ConstrainedKMeans(4, lower=one, random_state=0).fit(digits[:100])
        np.testing.assert_array_equal(model.counts_, 25)


def test_each_cluster_has_its_own_bounds(digits) -> None:
    model = ConstrainedKMeans(
        3, min_count=[10, 20, 30], upper=np.asarray([0.5, 1.0, 3.0]), random_state=0
    ).fit(digits[:120])
    assert (model.counts_ >= [10, 20, 30]).all()
    assert (model.counts_ <= [20, 40, 120]).all()
    with pytest.raises(InvalidValueError, match="lower and min_count both bound the smallest"):
        ConstrainedKMeans(3, lower=0.5, min_count=3).fit(digits[:100])


@pytest.mark.parametrize(("rounding", "least"), [("outward", 30), ("inward", 31), ("nearest", 30)])
def test_shares_are_rounded_as_asked(digits, rounding, least) -> None:
    """0.91 of a mean size of 33.3 is 30.3."""
    rows = np.concatenate([digits[:10], np.repeat(digits[10:11] + 100, 90, axis=0)])
    model = ConstrainedKMeans(3, lower=0.91, rounding=rounding, random_state=0).fit(rows)
    assert model.counts_.min() == least


def test_without_bounds_the_solver_is_not_called(digits, monkeypatch) -> None:
    from dualclust.algos.clustering import constrained

    def never(*arguments, **options):
        raise AssertionError

    monkeypatch.setattr(constrained, "assign_source", never)
    model = ConstrainedKMeans(10, random_state=0).fit(digits)
    assert (model.gap_, model.prices_.any()) == (0.0, False)
    with pytest.raises(AssertionError):
        ConstrainedKMeans(10, lower=0.5, random_state=0).fit(digits)


def test_without_bounds_a_weight_of_two_is_two_equal_rows(digits) -> None:
    rows, rng = digits[:300].astype(np.float64), np.random.default_rng(0)
    weights = rng.integers(0, 4, size=len(rows))
    one = ConstrainedKMeans(5, init=rows[:5], tol=0).fit(rows, sample_weight=weights)
    other = ConstrainedKMeans(5, init=rows[:5], tol=0).fit(np.repeat(rows, weights, axis=0))
    np.testing.assert_allclose(one.cluster_centers_, other.cluster_centers_, atol=1e-9)
    assert one.inertia_ == pytest.approx(other.inertia_)
    theirs = KMeans(5, init=rows[:5], n_init=1, tol=0, algorithm="lloyd").fit(
        rows, sample_weight=weights
    )
    assert one.inertia_ == pytest.approx(theirs.inertia_)
    np.testing.assert_array_equal(one.labels_, theirs.labels_)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_every_kind_of_start(digits, metric) -> None:
    seen = []

    def first_rows(x, n_clusters, random_state):
        seen.append(random_state.randint(100))
        return x[:n_clusters]

    options = {"lower": 0.9, "metric": metric, "random_state": 0, "max_iter": 3}
    given = ConstrainedKMeans(10, init=digits[:10], n_init=4, **options).fit(digits)
    called = ConstrainedKMeans(10, init=first_rows, n_init=2, **options).fit(digits)
    listed = ConstrainedKMeans(10, init=digits[:10].tolist(), **options).fit(digits)
    for model in (called, listed):
        np.testing.assert_array_equal(model.labels_, given.labels_)
    assert len(set(seen)) == 2
    one, same, other = (
        ConstrainedKMeans(10, init="random", **{**options, "random_state": seed}).fit(digits)
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one.labels_, same.labels_)
    assert (one.labels_ != other.labels_).any()


def test_random_starts_have_weight(digits) -> None:
    weights = np.zeros(len(digits))
    weights[:12] = 1.0
    model = ConstrainedKMeans(10, init="random", max_iter=0, random_state=0)
    model.fit(digits, sample_weight=weights)
    apart = np.abs(model.cluster_centers_[:, None] - digits[:12]).max(axis=2)
    assert (apart.min(axis=1) == 0).all()


@pytest.mark.parametrize(
    ("init", "error", "text"),
    [
        (
            "kmeans",
            InvalidValueError,
            "init must be one of 'k-means\\+\\+', 'random', got 'kmeans'",
        ),
        (3, InvalidTypeError, "init must be 'k-means"),
        (np.zeros((2, 64)), InvalidValueError, r"init must have shape \(3, 64\), got \(2, 64\)"),
        (np.full((3, 64), np.nan), InvalidValueError, "init must be finite"),
    ],
)
def test_wrong_starts_are_named(digits, init, error, text) -> None:
    with pytest.raises(error, match=text):
        ConstrainedKMeans(3, init=init).fit(digits[:50])


def test_a_warm_start_goes_on(digits) -> None:
    options = {"lower": 0.95, "upper": 1.05, "random_state": 0, "tol": 0.0}
    short = ConstrainedKMeans(10, max_iter=3, warm_start=True, **options).fit(digits)
    first, before = short.cluster_centers_, short.inertia_
    short.fit(digits)
    whole = ConstrainedKMeans(10, max_iter=6, **options).fit(digits)
    assert short.inertia_ < before
    assert short.inertia_ == pytest.approx(whole.inertia_, rel=1e-3)
    cold = ConstrainedKMeans(10, max_iter=3, **options).fit(digits).fit(digits)
    np.testing.assert_array_equal(cold.cluster_centers_, first)
    with pytest.raises(InvalidValueError, match="cluster_centers_ must have shape"):
        short.set_params(n_clusters=9).fit(digits)


@pytest.mark.parametrize("sizes", [{}, {"lower": 0.9, "upper": 1.1}], ids=["free", "bounds"])
def test_threads_change_no_bit(digits, sizes) -> None:
    results = [
        ConstrainedKMeans(10, n_jobs=n, random_state=0, **sizes).fit(digits) for n in (None, 2, -1)
    ]
    for model in results[1:]:
        assert model.cluster_centers_.tobytes() == results[0].cluster_centers_.tobytes()
        assert model.prices_.tobytes() == results[0].prices_.tobytes()
        np.testing.assert_array_equal(model.labels_, results[0].labels_)
    with pytest.raises(InvalidValueError, match="n_jobs must not be 0"):
        ConstrainedKMeans(3, n_jobs=0).fit(digits)


# Fixed rows and forbidden pairs ------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [{}, {"lower": 0.9, "upper": 1.1}], ids=["free", "bounds"])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("init", ["k-means++", "random"])
def test_known_rows_and_forbidden_pairs_are_kept(digits, sizes, metric, init) -> None:
    known = load_digits().target.copy()
    known[100:] = -1
    free = np.arange(100, len(digits))
    pairs = np.stack([free, free % 10], axis=1)
    model = ConstrainedKMeans(10, metric=metric, init=init, random_state=0, **sizes)
    labels = model.fit_predict(digits, fixed=known, forbidden=pairs)
    np.testing.assert_array_equal(labels[:100], known[:100])
    assert (labels[free] != free % 10).all()
    # Seeded by ten rows of each digit, clusters are the digits.
    only_known = ConstrainedKMeans(10, metric=metric, init=init, random_state=0, **sizes)
    labels = only_known.fit(digits, fixed=known.tolist(), forbidden=[]).labels_
    assert (labels == load_digits().target).mean() > 0.7


def test_wrong_rules_are_named(digits) -> None:
    model = ConstrainedKMeans(3, max_count=50, random_state=0)
    rows = digits[:100]
    with pytest.raises(InvalidTypeError, match="fixed must have an integer dtype"):
        model.fit(rows, fixed=np.zeros(100))
    with pytest.raises(InvalidValueError, match=r"fixed must have shape \(100,\)"):
        model.fit(rows, fixed=[0, 1])
    with pytest.raises(InvalidValueError, match="forbidden must hold rows from 0 to 99, got 100"):
        model.fit(rows, forbidden=[[100, 0]])
    with pytest.raises(InfeasibleBoundsError, match="fixed puts 60 rows into cluster 1, which ta"):
        model.fit(rows, fixed=[1] * 60 + [-1] * 40)


# A stream ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_a_stream_comes_near_its_bounds_and_near_a_fit(digits, metric) -> None:
    options = {"lower": 0.9, "upper": 1.1, "metric": metric, "random_state": 0}
    model, rng = ConstrainedKMeans(10, **options), np.random.default_rng(0)
    for _ in range(10):
        order = rng.permutation(len(digits))
        for start in range(0, len(digits), 100):
            batch = digits[order[start : start + 100]]
            model.partial_fit(batch)
            assert model.labels_.shape == (len(batch),)
    assert model.counts_.sum() == 10 * len(digits)
    share = model.counts_ / model.counts_.mean()
    assert share.min() >= 0.85
    assert share.max() <= 1.15
    assert model.n_iter_ == 180
    whole = ConstrainedKMeans(10, **options).fit(digits)
    assert model.score(digits) >= 1.15 * whole.score(digits)


def test_a_stream_goes_on_from_a_fit(digits) -> None:
    model = ConstrainedKMeans(10, lower=0.9, random_state=0).fit(digits[:1000])
    before = model.cluster_centers_
    model.partial_fit(digits[1000:1100])
    assert model.counts_.sum() == 1100
    moved = np.linalg.norm(model.cluster_centers_ - before, axis=1)
    assert 0 < moved.max() < 0.2 * np.linalg.norm(before, axis=1).max()
    again = ConstrainedKMeans(10, lower=0.9, random_state=0).fit(digits[:1000])
    model.fit(digits[:1000])
    np.testing.assert_array_equal(model.cluster_centers_, again.cluster_centers_)
    assert model.partial_fit(digits[1000:1100]).counts_.sum() == 1100


def test_a_stream_has_shares_only(digits) -> None:
    whole = ConstrainedKMeans(10, min_count=5)
    assert not hasattr(whole, "partial_fit")
    assert hasattr(ConstrainedKMeans(10, lower=0.5), "partial_fit")
    with pytest.raises(AttributeError, match="has no attribute 'partial_fit'") as caught:
        whole.partial_fit(digits)
    assert isinstance(caught.value.__cause__, InvalidTypeError)
    assert "min_count must be None for partial_fit, got 5" in str(caught.value.__cause__)
    with pytest.raises(InvalidValueError, match="n_samples=5 should be >= n_clusters=10"):
        ConstrainedKMeans(10).partial_fit(digits[:5])


# Tensors -----------------------------------------------------------------------------------------


def devices():
    torch = pytest.importorskip("torch")
    return ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_tensors_in_tensors_out(digits, metric) -> None:
    torch = pytest.importorskip("torch")
    options = {"lower": 0.9, "upper": 1.1, "metric": metric, "random_state": 0}
    want = ConstrainedKMeans(10, **options).fit(digits)
    for device in devices():
        x = torch.from_numpy(digits).to(device)
        model = ConstrainedKMeans(10, **options).fit(x)
        results = {
            "labels_": model.labels_,
            "predict": model.predict(x),
            "bounded": model.predict(x, bounded=True),
            "fit_predict": ConstrainedKMeans(10, **options).fit_predict(x),
            "transform": model.transform(x),
            "centers": model.cluster_centers_,
            "prices": model.prices_,
        }
        for name, result in results.items():
            assert isinstance(result, torch.Tensor), name
            assert result.device.type == device, name
        assert results["labels_"].dtype == results["predict"].dtype == torch.int64
        assert isinstance(model.score(x), float)
        assert model.inertia_ == pytest.approx(want.inertia_, rel=0.02)
        assert int(model.counts_.min()) >= 161
        # Rows of the other library are taken, too, and answered in kind.
        # At most k - 1 rows tie at the prices, and go as the last bit of a product says.
        assert (model.predict(digits) != results["predict"].cpu().numpy()).sum() < 10
        np.testing.assert_allclose(
            model.transform(digits), results["transform"].cpu().numpy(), rtol=1e-3, atol=1e-3
        )
        back = want.predict(x)
        assert back.device.type == device
        assert (back.cpu().numpy() != want.predict(digits)).sum() < 10


def test_tensors_of_half_precision_and_with_gradients(digits) -> None:
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(digits[:300]).requires_grad_()
    model = ConstrainedKMeans(5, lower=0.9, random_state=0).fit(x)
    assert not model.transform(x).requires_grad
    half = ConstrainedKMeans(5, lower=0.9, random_state=0).fit(x.detach().half())
    np.testing.assert_array_equal(half.labels_.numpy(), model.labels_.numpy())
    stream = ConstrainedKMeans(5, lower=0.9, random_state=0).partial_fit(x)
    assert isinstance(stream.cluster_centers_, torch.Tensor)


def test_tensors_are_checked(digits) -> None:
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(digits)
    model = ConstrainedKMeans(3, random_state=0).fit(x[:50])
    with pytest.raises(InvalidValueError, match="X has 7 features, but ConstrainedKMeans is exp"):
        model.predict(x[:, :7])
    with pytest.raises(InvalidValueError, match="X must be finite"):
        model.predict(x / 0.0)
    with pytest.raises(InvalidValueError, match=r"X must have shape \(n_samples, n_features\)"):
        model.fit(x[0])
    with pytest.raises(InvalidTypeError, match="X must have a real floating dtype"):
        model.fit(x.int())
    with pytest.raises(InvalidValueError, match="at least one row"):
        model.predict(x[:0])
