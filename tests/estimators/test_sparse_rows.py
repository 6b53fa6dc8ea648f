"""Sparse rows of `ConstrainedKMeans` give what dense ones give, and are never laid out."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sparse
from sklearn.cluster import KMeans

from dualclust import ConstrainedKMeans
from dualclust.algos.core.errors import InfeasibleBoundsError, InvalidTypeError, InvalidValueError

RNG = np.random.default_rng(0)
N, D, K = 1_500, 40, 8
DENSE = RNG.normal(size=(N, D)) * (RNG.uniform(size=(N, D)) < 0.2)
DENSE += 2.0 * (RNG.uniform(size=(K, D)) < 0.3)[RNG.integers(K, size=N)]
WEIGHTS = RNG.uniform(0.2, 3.0, size=N)
KINDS = [sparse.csr_matrix, sparse.csr_array, sparse.coo_array, sparse.csc_matrix]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("sizes", [{}, {"lower": 0.9, "upper": 1.1}])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_fit_and_predict_are_those_of_dense_rows(metric, sizes, weights, dtype) -> None:
    options = {"metric": metric, "gap": 0.0, "tol": 0.0, "init": DENSE[:K], **sizes}
    rows, dense = sparse.csr_array(DENSE.astype(dtype)), DENSE.astype(dtype)
    ours = ConstrainedKMeans(K, **options).fit(rows, sample_weight=weights)
    theirs = ConstrainedKMeans(K, **options).fit(dense, sample_weight=weights)
    rtol = 1e-9 if dtype == np.float64 else 1e-5
    assert ours.cluster_centers_.dtype == ours.transform(rows).dtype == dtype
    assert ours.gap_ == 0.0
    assert ours.inertia_ == pytest.approx(
        theirs.inertia_, rel=1e-9 if dtype == np.float64 else 2e-3
    )
    if dtype == np.float64:
        np.testing.assert_array_equal(ours.labels_, theirs.labels_)
        np.testing.assert_allclose(ours.cluster_centers_, theirs.cluster_centers_, atol=1e-12)
    assert ours.score(rows) == pytest.approx(ours.score(dense), rel=rtol)
    np.testing.assert_allclose(ours.transform(rows), ours.transform(dense), atol=50 * rtol)
    assert (ours.predict(rows, sample_weight=weights) == ours.labels_).sum() >= N - K
    for bounded in (False, True):
        found = [ours.predict(x[:500], bounded=bounded) for x in (rows, dense)]
        assert (found[0] == found[1]).mean() > 0.99
    if sizes:
        counts = np.bincount(ours.predict(rows[:500], bounded=True), minlength=K)
        assert counts.min() >= 56
        assert counts.max() <= 69


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_starts_are_as_good(metric) -> None:
    """Of drawn rows, beside dense ones and scikit-learn's sparse k-means."""
    rows = sparse.csr_array(DENSE)
    ours, dense = (
        ConstrainedKMeans(K, metric=metric, n_init=5, random_state=0).fit(x) for x in (rows, DENSE)
    )
    assert ours.inertia_ == pytest.approx(dense.inertia_, rel=0.02)
    if metric == "euclidean":
        peer = KMeans(K, n_init=5, random_state=0).fit(rows)
        assert ours.inertia_ <= peer.inertia_ * 1.02
    drawn = ConstrainedKMeans(K, metric=metric, init="random", random_state=0).fit(rows)
    given = ConstrainedKMeans(K, metric=metric, init=lambda X, k, random_state: X[:k].toarray())
    same = ConstrainedKMeans(K, metric=metric, init=DENSE[:K]).fit(rows)
    assert given.fit(rows).inertia_ == same.inertia_
    assert drawn.inertia_ < 1.6 * ours.inertia_


@pytest.mark.parametrize("kind", KINDS)
def test_every_form_and_what_it_may_hold(kind) -> None:
    rows = kind(DENSE)
    before = rows.copy()
    model = ConstrainedKMeans(K, lower=0.9, random_state=0).fit(rows)
    same = ConstrainedKMeans(K, lower=0.9, random_state=0).fit(sparse.csr_array(DENSE))
    np.testing.assert_array_equal(model.labels_, same.labels_)
    assert (abs(rows - before)).sum() == 0.0


def test_entries_of_one_place_add_up() -> None:
    half = sparse.csr_array(DENSE)
    data, columns = np.repeat(half.data / 2, 2), np.repeat(half.indices, 2)
    twice = sparse.csr_array((data, columns, 2 * half.indptr), shape=half.shape)
    twice.has_canonical_format = False
    twice.data.flags.writeable = False
    for metric in ("euclidean", "cosine"):
        options = {"metric": metric, "init": DENSE[:K]}
        found = ConstrainedKMeans(K, **options).fit(twice)
        same = ConstrainedKMeans(K, **options).fit(half)
        assert found.inertia_ == pytest.approx(same.inertia_, rel=1e-12)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_known_rows_and_forbidden_pairs(metric) -> None:
    fixed = np.full(N, -1)
    fixed[:30] = np.arange(30) % 3
    model = ConstrainedKMeans(K, metric=metric, lower=0.9, upper=1.1, random_state=0, max_iter=0)
    rows, pairs = sparse.csr_array(DENSE), [[100, 0], [100, 1]]
    model.fit(rows, fixed=fixed, forbidden=pairs)
    np.testing.assert_array_equal(model.labels_[:30], fixed[:30])
    assert model.labels_[100] > 1
    unit = DENSE / np.linalg.norm(DENSE, axis=1, keepdims=True)
    points = unit if metric == "cosine" else DENSE
    for j in range(3):
        mean = points[fixed == j].mean(axis=0)
        mean = mean / np.linalg.norm(mean) if metric == "cosine" else mean
        np.testing.assert_allclose(model.cluster_centers_[j], mean, atol=1e-12)
    with pytest.raises(InfeasibleBoundsError):
        ConstrainedKMeans(K, max_count=200).fit(rows, fixed=np.zeros(N, int))


def test_rows_of_zeros_and_an_empty_matrix() -> None:
    rows = sparse.csr_array((50, 9))
    with pytest.warns(UserWarning, match="Number of distinct clusters"):
        model = ConstrainedKMeans(2, min_count=20).fit(rows)
    assert model.inertia_ == 0.0
    assert model.counts_.min() >= 20
    directions = ConstrainedKMeans(2, metric="cosine", random_state=0)
    rows = sparse.csr_array(np.concatenate([np.zeros((3, D)), DENSE]))
    np.testing.assert_allclose(directions.fit(rows).transform(rows[:3]), 1.0)


def test_a_further_fit_starts_from_the_last_one() -> None:
    rows = sparse.csr_array(DENSE)
    model = ConstrainedKMeans(K, lower=0.9, warm_start=True, tol=0.0, random_state=0).fit(rows)
    model.fit(rows)
    assert model.n_iter_ <= 1
    limited = ConstrainedKMeans(K, lower=0.9, time_limit=0.0, random_state=0).fit(rows)
    assert limited.counts_.min() >= 168


def test_memory_is_that_of_entries_and_centers() -> None:
    """Zeros would take 0.36 GB of float32; 100 entries a row take 2.4 MB, centers 0.7 MB."""
    n, d, k = 3_000, 30_000, 6
    columns = RNG.integers(0, d, size=(n, 100)).ravel()
    values = RNG.uniform(size=n * 100).astype(np.float32)
    rows = sparse.csr_array((values, columns, np.arange(0, n * 100 + 1, 100)), shape=(n, d))
    rows.sum_duplicates()
    ConstrainedKMeans(2, max_iter=1).fit(sparse.csr_array(DENSE))  # what is compiled or imported
    tracemalloc.start()
    model = ConstrainedKMeans(k, lower=0.5, random_state=0, max_iter=3).fit(rows)
    model.predict(rows)
    model.transform(rows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40e6, peak


def test_what_sparse_rows_do_not_take() -> None:
    rows = sparse.csr_array(DENSE)
    with pytest.raises(InvalidTypeError, match="X must be dense here, got a sparse matrix"):
        ConstrainedKMeans(K).partial_fit(rows)
    with pytest.raises(InvalidValueError, match=r"from 1e-100 to 1e\+100 .* got 1e\+150"):
        ConstrainedKMeans(2).fit(sparse.csr_array([[1e150, 0.0], [0.0, 1.0]]))
    with pytest.raises(InvalidValueError, match=r"from 1e-15 to 1e\+15 .* got 1e-20"):
        ConstrainedKMeans(2).fit(sparse.csr_array(np.float32([[1e-20, 0.0], [0.0, 0.0]])))
    with pytest.raises(InvalidValueError, match=r"centers must have a largest entry"):
        ConstrainedKMeans(2, init=[[1e200] * D] * 2).fit(rows)
    with pytest.raises(ValueError, match="NaN"):
        ConstrainedKMeans(2).fit(sparse.csr_array([[np.nan, 0.0], [0.0, 1.0]]))
    with pytest.raises(ValueError, match="expecting 40 features"):
        ConstrainedKMeans(2).fit(rows).predict(rows[:, :9])
