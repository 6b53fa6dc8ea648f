"""Bounds, starts, threads, fixed rows and forbidden pairs of the estimators."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from dualclust import ConstrainedKMeans
from dualclust.algos.core.errors import InfeasibleBoundsError, InvalidTypeError, InvalidValueError


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
    model = ConstrainedKMeans(3, lower=0.91, rounding=rounding, random_state=0)
    with pytest.warns(ConvergenceWarning, match="distinct clusters"):  # two of the equal rows
        model.fit(rows)
    assert model.counts_.min() == least


def test_without_bounds_labels_are_those_of_k_means(digits) -> None:
    model = ConstrainedKMeans(10, random_state=0).fit(digits)
    assert (model.gap_, model.prices_.any()) == (0.0, False)
    bounded = ConstrainedKMeans(10, lower=0.5, random_state=0).fit(digits)
    assert bounded.counts_.min() >= 89 > model.counts_.min()


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
