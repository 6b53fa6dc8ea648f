"""The silhouette by sums is that by pairs, and scikit-learn's."""

import numpy as np
import pytest
from sklearn.metrics import silhouette_score

from dualclust.algos.core.errors import DeviceMismatchError, InvalidTypeError, InvalidValueError
from dualclust.algos.scores.blocks import MOST_ROWS
from dualclust.algos.selection import cosine_silhouette
from tests.libraries import LIBRARIES

NUMPY = LIBRARIES[0]


def instance(seed, n=60, k=4, d=5):
    rng = np.random.default_rng(seed)
    labels = rng.integers(k, size=n)
    labels[:k] = np.arange(k)
    return rng.normal(size=(n, d)) + 2.0 * rng.normal(size=(k, d))[labels], labels


def by_pairs(x, labels):
    """The definition, a sample at a time."""
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    distance, found = 1.0 - unit @ unit.T, []
    for i, label in enumerate(labels):
        own = (labels == label) & (np.arange(len(x)) != i)
        if not own.any():
            found.append(0.0)
            continue
        a = distance[i, own].mean()
        b = min(distance[i, labels == c].mean() for c in set(labels) - {label})
        found.append((b - a) / max(a, b))
    return np.mean(found)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_it_is_that_of_scikit_learn(xp, dtype):
    for seed in range(3):
        x, labels = instance(seed)
        expected = silhouette_score(x, labels, metric="cosine")
        assert by_pairs(x, labels) == pytest.approx(expected, abs=1e-12)
        rows = xp.asarray(x.astype(dtype))
        found = cosine_silhouette(rows, xp.asarray(labels), 4)
        assert found == pytest.approx(expected, abs=1e-12 if dtype == "float64" else 1e-6)


@pytest.mark.parametrize("n", [MOST_ROWS, MOST_ROWS + 1, 2 * MOST_ROWS + 7])
def test_rows_of_several_blocks(n):
    """By sums: the mean distance to a cluster's rows is 1 minus the product with their mean."""
    x, labels = instance(0, n=n)
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    sums = np.stack([unit[labels == j].sum(axis=0) for j in range(4)])
    sizes, own = np.bincount(labels), np.arange(4) == labels[:, None]
    products = unit @ sums.T
    a = 1.0 - (products[own] - 1.0) / (sizes[labels] - 1)
    b = np.where(own, np.inf, 1.0 - products / sizes).min(axis=1)
    expected = ((b - a) / np.maximum(a, b)).mean()
    assert cosine_silhouette(x, labels, 4) == pytest.approx(expected, abs=1e-12)


def test_a_sample_alone_counts_as_0_and_an_empty_cluster_not_at_all(xp):
    x, labels = instance(1)
    labels[labels == 3] = 2
    labels[5] = 3
    expected = silhouette_score(x, labels, metric="cosine")
    for numbers, k in ((labels, 4), (2 * labels + 1, 9)):
        found = cosine_silhouette(xp.asarray(x), xp.asarray(numbers), k)
        assert found == pytest.approx(expected, abs=1e-12)


def test_one_cluster_is_the_worst_of_all(xp):
    x, labels = instance(2)
    assert cosine_silhouette(xp.asarray(x), xp.asarray(0 * labels + 2), 4) == -1.0
    assert cosine_silhouette(xp.asarray(x[:1]), xp.asarray(labels[:1]), 4) == -1.0


def test_only_directions_count(xp):
    x, labels = instance(3)
    expected = by_pairs(x, labels)
    lengths = np.exp2(np.random.default_rng(0).integers(-900, 900, size=(len(x), 1)).astype(float))
    found = cosine_silhouette(xp.asarray(x * lengths), xp.asarray(labels), 4)
    assert found == pytest.approx(expected, abs=1e-12)


def test_rows_that_coincide_and_rows_of_zeros(xp):
    equal = xp.asarray(np.ones((6, 2)))
    halves = xp.asarray(np.asarray([0, 1] * 3))
    assert cosine_silhouette(equal, halves, 2) == pytest.approx(0.0, abs=1e-6)
    apart = xp.asarray(np.asarray([[1.0, 0.0], [-1.0, 0.0]] * 3))
    assert cosine_silhouette(apart, halves, 2) == pytest.approx(1.0, abs=1e-12)
    assert cosine_silhouette(apart, xp.asarray(np.asarray([0, 0, 1, 1, 0, 1])), 2) < 0.2
    zeros = cosine_silhouette(xp.asarray(np.zeros((6, 2))), halves, 2)
    assert zeros == 0.0  # at distance 1 from all, its own cluster's as well


@pytest.mark.parametrize(
    ("changed", "error", "words"),
    [
        ({"features": np.zeros((0, 3)), "labels": np.zeros(0, np.int64)}, InvalidValueError, "one"),
        ({"features": np.zeros(3)}, InvalidValueError, "features"),
        ({"features": np.zeros((3, 2), np.int64)}, InvalidTypeError, "features"),
        ({"features": np.full((3, 2), np.nan)}, InvalidValueError, "features"),
        ({"labels": np.asarray([0, 1, 2])}, InvalidValueError, "labels"),
        ({"labels": np.asarray([0, -1, 1])}, InvalidValueError, "labels"),
        ({"labels": np.asarray([0.0, 1.0, 1.0])}, InvalidTypeError, "labels"),
        ({"labels": np.asarray([0, 1])}, InvalidValueError, "labels"),
        ({"labels": [0, 1, 1]}, InvalidTypeError, "labels"),
        ({"n_clusters": 0}, InvalidValueError, "n_clusters"),
        ({"n_clusters": 2.0}, InvalidTypeError, "n_clusters"),
    ],
)
def test_what_it_refuses(changed, error, words):
    given = {"features": np.eye(3, 2), "labels": np.asarray([0, 1, 1]), "n_clusters": 2}
    assert -1.0 <= cosine_silhouette(**given) <= 1.0
    with pytest.raises(error, match=words):
        cosine_silhouette(**{**given, **changed})


def test_arrays_of_two_libraries_are_refused():
    strict = next(library for library in LIBRARIES if "strict" in library.name)
    with pytest.raises((DeviceMismatchError, InvalidTypeError)):
        cosine_silhouette(np.eye(3, 2), strict.asarray(np.asarray([0, 1, 1])), 2)


@pytest.mark.parametrize("sizes", [(2, 2), (2, 1), (3, 2, 1), (2, 2, 2, 5), (1, 1, 1, 2)])
def test_pairs_and_threes(sizes):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    x = np.random.default_rng(sum(sizes)).normal(size=(len(labels), 3))
    expected = silhouette_score(x, labels, metric="cosine")
    found = cosine_silhouette(x, labels, len(sizes))
    assert found == pytest.approx(expected, abs=1e-12)
