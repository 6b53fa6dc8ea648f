"""k-means of rows with sizes."""

import numpy as np
import pytest

from dualclust.algos.bounds import LoadBounds
from dualclust.algos.clustering import weighted_kmeans
from dualclust.algos.core.errors import InvalidTypeError, InvalidValueError
from dualclust.algos.scores.sources import feature_source
from tests.compare import to_numpy
from tests.judge_weighted import judge_weighted


def rows(seed=0, n=200):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2)) + 3.0 * rng.integers(0, 2, (n, 1))
    return x, rng.integers(1, 9, n)


def scores_of(x, centers):
    return x @ centers.T - 0.5 * (centers**2).sum(axis=1)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_labels_are_those_of_the_centers_and_inside(metric, xp):
    x, sizes = rows()
    if metric == "cosine":
        x = x / np.linalg.norm(x, axis=1, keepdims=True)
    bounds = LoadBounds.from_ratios(xp.asarray(sizes), 4, lower=0.8, upper=1.2)
    found = weighted_kmeans(xp.asarray(x), bounds, xp.asarray(x[:4]), metric=metric)
    plain = LoadBounds.from_ratios(sizes, 4, lower=0.8, upper=1.2)
    assignment = found.assignment._replace(
        **{
            name: to_numpy(getattr(found.assignment, name))
            for name in ("labels", "counts", "loads", "overload", "prices")
        }
    )
    centers = to_numpy(found.centers)
    scores = x @ centers.T if metric == "cosine" else scores_of(x, centers)
    if metric == "cosine":  # scores of other metrics count from another origin
        judge_weighted(scores, plain, assignment, doubt=1e-9)
    assert assignment.status == "inside"
    assert assignment.gap < 0.05
    assert found.n_iter >= 1


def test_better_than_where_it_began():
    x, sizes = rows(1)
    bounds = LoadBounds.from_ratios(sizes, 4, lower=0.8, upper=1.2)
    begun = weighted_kmeans(x, bounds, x[:4], metric="euclidean", max_iter=0)
    assert (begun.n_iter, begun.converged) == (0, False)
    np.testing.assert_array_equal(begun.centers, x[:4])
    found = weighted_kmeans(feature_source(x), bounds, x[:4], metric="euclidean")
    assert found.converged
    assert found.assignment.objective > begun.assignment.objective


TAKE_TURNS = (
    ([[0, 1], [3, 0], [2, 1], [1, 3], [0, 3], [2, 0]], [1, 0, 3], [5, 2, 3, 4, 1, 2]),
    (
        [[0, 1], [2, 3], [0, 0], [0, 3], [3, 3], [0, 0], [3, 2], [0, 2]],
        [6, 3, 1],
        [1, 4, 2, 1, 3, 2, 1, 3],
    ),
)


@pytest.mark.parametrize(("x", "first", "sizes"), TAKE_TURNS)
def test_labels_that_take_turns_end_the_search_at_the_best(x, first, sizes):
    x = np.asarray(x, dtype=float)
    bounds = LoadBounds.from_ratios(np.asarray(sizes), 3, lower=0.8, upper=1.2)

    def found(max_iter):
        how = {"metric": "euclidean", "tol": 0.0, "max_iter": max_iter}
        return weighted_kmeans(x, bounds, x[first], **how)

    ended = found(100)
    assert ended.converged
    assert ended.n_iter <= 15
    inside = [other for other in map(found, range(16)) if other.assignment.status == "inside"]
    best = max(other.assignment.objective for other in inside)
    assert ended.assignment.status == "inside"
    np.testing.assert_allclose(ended.assignment.objective, best, rtol=1e-12)


def test_what_is_refused():
    x, sizes = rows()
    bounds = LoadBounds.from_ratios(sizes, 4)
    source = feature_source(x)
    several = source._replace(group=source.group._replace(gather=lambda array: array))
    for call, error, words in (
        (lambda: weighted_kmeans(x, sizes, x[:4]), InvalidTypeError, "bounds"),
        (lambda: weighted_kmeans(x, bounds, x[:4], metric="l1"), InvalidValueError, "metric"),
        (
            lambda: weighted_kmeans(several, bounds, x[:4], metric="euclidean"),
            InvalidValueError,
            "one rank",
        ),
    ):
        with pytest.raises(error, match=words):
            call()
