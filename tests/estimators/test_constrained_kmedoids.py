"""The estimator of k-medoids: scikit-learn's contract, distances of all kinds, new rows."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.metrics import pairwise_distances
from sklearn.utils.estimator_checks import estimator_checks_generator

from dualclust import ConstrainedKMeans, ConstrainedKMedoids
from dualclust.algos.core.errors import InfeasibleBoundsError, InvalidTypeError, InvalidValueError
from tests.judge_medoid_files import haversine

NOT_CLAIMED = {
    0: {"check_array_api_input"},
    # Sizes count samples, so two equal rows are not one of weight 2.
    1: {"check_array_api_input", "check_sample_weight_equivalence_on_dense_data"},
    # scikit-learn makes no matrix of distances of what the second clusters, and wants words of its
    # own from the third.
    2: {"check_array_api_input", "check_clustering", "check_positive_only_tag_during_fit"},
}
CHECKS = [
    pytest.param(estimator, check, id=f"{i}-{check.func.__name__}")
    for i, one in enumerate(
        (
            ConstrainedKMedoids(n_clusters=3, random_state=0),
            ConstrainedKMedoids(n_clusters=2, lower=0.5, gap=0.01, random_state=0),
            ConstrainedKMedoids(n_clusters=2, metric="precomputed", random_state=0),
        )
    )
    for estimator, check in estimator_checks_generator(one)
    if check.func.__name__ not in NOT_CLAIMED[i]
]
RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(80, 3)) + 4.0 * RNG.integers(0, 3, size=(80, 1))
NEW = RNG.normal(size=(40, 3)) + 4.0 * RNG.integers(0, 3, size=(40, 1))
SIZES = {"lower": 0.8, "upper": 1.2, "random_state": 0}


@pytest.mark.parametrize(("estimator", "check"), CHECKS)
def test_scikit_learn_contract(estimator, check) -> None:
    check(estimator)


def manhattan(rows, centers):
    return abs(rows[:, None] - centers).sum(axis=-1)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("metric", "same"),
    [
        ("euclidean", "euclidean"),
        (manhattan, "manhattan"),
        (partial(pairwise_distances, metric="cosine"), "cosine"),
    ],
)
def test_a_matrix_a_name_and_a_function_are_one(metric, same, weighted) -> None:
    """Of the same distances come the same medoids, labels, prices and labels of new rows."""
    weights = RNG.uniform(0.5, 2.0, size=80) if weighted else None
    ours = ConstrainedKMedoids(4, metric=metric, **SIZES).fit(ROWS, sample_weight=weights)
    matrix = pairwise_distances(ROWS, metric=same)
    model = ConstrainedKMedoids(4, metric="precomputed", **SIZES)
    model.fit((matrix + matrix.T) / 2, sample_weight=weights)
    np.testing.assert_array_equal(ours.medoid_indices_, model.medoid_indices_)
    np.testing.assert_array_equal(ours.labels_, model.labels_)
    np.testing.assert_array_equal(ours.cluster_centers_, ROWS[ours.medoid_indices_])
    assert model.cluster_centers_ is None
    assert ours.gap_ == model.gap_ == 0.0
    own = matrix[np.arange(80), model.medoid_indices_[model.labels_]]
    assert model.inertia_ == pytest.approx((own if weights is None else own * weights).sum())
    assert ours.counts_.min() >= 16
    assert ours.counts_.max() <= 24
    new = pairwise_distances(NEW, ROWS, metric=same)
    np.testing.assert_allclose(ours.transform(NEW), model.transform(new), atol=1e-7)
    for bounded in (False, True):
        found = model.predict(new, bounded=bounded)
        np.testing.assert_array_equal(found, ours.predict(NEW, bounded=bounded))
    assert np.bincount(found, minlength=4).min() >= 8
    assert np.bincount(found, minlength=4).max() <= 12
    same_labels = model.predict(matrix, sample_weight=weights) == model.labels_
    assert same_labels.sum() > 80 - 4  # rows of equal choices at these prices are fewer than k


def test_without_bounds_new_rows_go_to_the_nearest_medoid() -> None:
    model = ConstrainedKMedoids(5, random_state=0).fit(ROWS)
    np.testing.assert_array_equal(model.predict(NEW), model.transform(NEW).argmin(axis=1))
    np.testing.assert_array_equal(model.predict(ROWS), model.labels_)


def test_several_starts_are_never_worse() -> None:
    one = ConstrainedKMedoids(6, random_state=0).fit(ROWS)
    ten = ConstrainedKMedoids(6, n_init=10, random_state=0).fit(ROWS)
    assert ten.inertia_ <= one.inertia_
    again = ConstrainedKMedoids(6, init=ten.medoid_indices_).fit(ROWS)
    np.testing.assert_array_equal(again.labels_, ten.labels_)
    assert again.n_iter_ == 0


def test_places_beside_the_date_line_and_the_pole() -> None:
    """Clusters go over the line and around the pole, as the distances of the globe do."""
    rng = np.random.default_rng(1)
    fiji = np.stack([rng.uniform(-18, -16, 30), (rng.uniform(177, 183, 30) + 180) % 360 - 180])
    pole = np.stack([rng.uniform(86, 90, 30), rng.uniform(-180, 180, 30)])
    places = np.concatenate([fiji, pole], axis=1).T
    model = ConstrainedKMedoids(2, metric="haversine", lower=1.0, random_state=0).fit(places)
    assert len(set(model.labels_[:30])) == len(set(model.labels_[30:])) == 1
    matrix = haversine(places)
    own = matrix[np.arange(60), model.medoid_indices_[model.labels_]]
    assert model.inertia_ == pytest.approx(own.sum(), rel=1e-12)
    same = ConstrainedKMedoids(2, metric="precomputed", lower=1.0, random_state=0).fit(matrix)
    np.testing.assert_array_equal(same.labels_, model.labels_)
    many = ConstrainedKMedoids(8, metric="haversine", random_state=0).fit(places)
    nearest = matrix[:, many.medoid_indices_].argmin(axis=1)
    np.testing.assert_array_equal(many.predict(places), nearest)


def test_fixed_rows_and_forbidden_pairs() -> None:
    fixed = np.full(80, -1)
    fixed[:6] = [2, 2, 2, 0, 0, 1]
    pairs = [[10, 0], [10, 1]]
    model = ConstrainedKMedoids(3, **SIZES).fit(ROWS, fixed=fixed, forbidden=pairs)
    np.testing.assert_array_equal(model.labels_[:6], fixed[:6])
    assert model.labels_[10] == 2
    with pytest.raises(InfeasibleBoundsError):
        ConstrainedKMedoids(3, max_count=40).fit(ROWS, fixed=np.zeros(80, int))


def test_tensors_stay_tensors() -> None:
    torch = pytest.importorskip("torch")
    rows = torch.from_numpy(ROWS)
    model = ConstrainedKMedoids(4, metric=torch.cdist, **SIZES).fit(rows)
    plain = ConstrainedKMedoids(4, **SIZES).fit(ROWS)
    assert isinstance(model.predict(torch.from_numpy(NEW)), torch.Tensor)
    np.testing.assert_array_equal(model.labels_.numpy(), plain.labels_)
    matrix = ConstrainedKMedoids(4, metric="precomputed", **SIZES).fit(torch.cdist(rows, rows))
    np.testing.assert_array_equal(matrix.labels_.numpy(), plain.labels_)


@pytest.mark.parametrize(
    ("options", "rows", "text"),
    [
        ({"metric": "precomputed"}, ROWS, r"X must be a square matrix .* got shape \(80, 3\)"),
        ({"metric": "precomputed"}, np.eye(4), "X must be 0 on its diagonal, got 1"),
        ({"metric": "precomputed"}, -np.eye(4), r"X must lie in \[0, 1e\+100\], got -1 in row 0"),
        ({"metric": "precomputed"}, 1.0 - np.tri(4), "X must be symmetric"),
        ({"metric": "haversine"}, ROWS, "must have two columns, latitude and longitude"),
        ({"metric": "haversine"}, [[91.0, 0.0], [0.0, 0.0]], "latitudes from -90 to 90"),
        ({"metric": "manhattan"}, ROWS, "metric must be one of 'euclidean', 'haversine', 'preco"),
        ({"metric": lambda x, y: 1.0}, ROWS, r"array of shape \(64, 64\) for 64 and 64 rows"),
        ({"init": "build"}, ROWS, "init must be one of 'k-medoids"),
        ({"init": [0, 80]}, ROWS, r"medoids must lie in \[0, 80\)"),
        ({"init": [0, 1, 2]}, ROWS, r"medoids must have shape \(2,\)"),
        ({"n_init": 0}, ROWS, "n_init must be at least 1"),
    ],
)
def test_mistakes_are_named(options, rows, text) -> None:
    with pytest.raises(InvalidValueError, match=text):
        ConstrainedKMedoids(2, **options).fit(rows)


@pytest.mark.parametrize("metric", ["haversine", "precomputed", manhattan])
def test_k_means_names_the_estimator_that_takes_a_metric(metric) -> None:
    with pytest.raises(InvalidValueError, match="To fix this, use ConstrainedKMedoids, which take"):
        ConstrainedKMeans(2, metric=metric).fit(ROWS)


def test_new_rows_of_another_kind_are_refused() -> None:
    matrix = pairwise_distances(ROWS)
    model = ConstrainedKMedoids(2, metric="precomputed", random_state=0).fit(matrix)
    with pytest.raises(ValueError, match="X has 79 features, but ConstrainedKMedoids is expecting"):
        model.predict(matrix[:5, :79])
    with pytest.raises(InvalidValueError, match=r"X must lie in \[0, 1e\+100\], got -1 in row 3"):
        model.predict(np.where(np.arange(80)[:, None] == 3, -1.0, matrix))
    with pytest.raises(ValueError, match="NaN"):
        model.predict(np.full((2, 80), np.nan))
    with pytest.raises(InvalidTypeError, match="X must be dense here, got a sparse matrix"):
        model.fit(csr_array(matrix))
