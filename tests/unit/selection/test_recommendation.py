"""Which k and bounds are recommended, for figures made up so that the answer is known."""

import math

import numpy as np
import pytest

from dualclust.algos.core.errors import InvalidValueError
from dualclust.algos.core.random import normal_noise
from dualclust.algos.selection import (
    recommend_bounds,
    recommend_k,
    reference_rows,
    shares_text,
)
from tests.compare import assert_same_kind, to_numpy
from tests.libraries import ONE_EACH
from tests.problems import unit_rows


def test_the_clearest_of_the_stable_ones():
    found = recommend_k(
        [2, 3, 4, 5], [0.9, 0.6, 0.7, 0.9], [0.4] * 4, [0.7, 0.9, 0.85, 0.3], [0.0] * 4
    )
    assert (found.n_clusters, found.best) == (4, 4)
    assert found.reason == (
        "k = 4 stands out: labels from two halves of the sample agree by 0.850 (adjusted Rand "
        "index), and the silhouette is 0.700, and that of data without clusters 0.400"
    )


@pytest.mark.parametrize(
    ("silhouette", "stability", "best", "why"),
    [
        ([0.45, 0.49], [1.0, 1.0], 6, "and not 0.1 above that of data without clusters, 0.400"),
        ([0.8, 0.9], [0.74, 0.7], 6, "and 0.75 is asked"),
        ([0.8, 0.9], [0.7, 0.5], 3, "and 0.75 is asked"),
        ([0.1, 0.2], [-0.1, 0.0], 6, "and not 0.1 above that of data without clusters, 0.400"),
        ([0.1, 0.2], [-0.1, -0.9], 3, "and not 0.1 above that of data without clusters, 0.400"),
        ([0.9, 0.8], [-0.2, -0.1], 6, "and 0.75 is asked"),
    ],
)
def test_nothing_stands_out(silhouette, stability, best, why):
    found = recommend_k([3, 6], silhouette, [0.4, 0.4], stability, [0.0, 0.0])
    assert found.n_clusters is None
    assert found.best == best
    assert found.reason.startswith(f"no k stands out: at k = {best}, the best here,")
    assert found.reason.endswith(why)


def test_the_end_of_a_range_is_said():
    first = recommend_k([5, 6, 7], [0.9, 0.6, 0.5], [0.3] * 3, [1.0, 0.8, 0.8], [0.0] * 3)
    last = recommend_k([5, 6, 7], [0.5, 0.6, 0.9], [0.3] * 3, [0.8, 0.8, 1.0], [0.0] * 3)
    assert first.reason.endswith("as this is the end of the range, try smaller k too")
    assert last.reason.endswith("as this is the end of the range, try larger k too")
    two = [
        recommend_k([3, 4], s, [0.3] * 2, [1.0] * 2, [0.0] * 2) for s in ([0.9, 0.5], [0.5, 0.9])
    ]
    assert two[0].reason.endswith("try smaller k too")
    assert two[1].reason.endswith("try larger k too")
    for ks in ([2, 3], [4]):  # nothing below two clusters, and no range
        n = len(ks)
        found = recommend_k(ks, [0.9, 0.5][:n], [0.3] * n, [1.0] * n, [0.0] * n)
        assert "range" not in found.reason


def test_ties_go_to_the_smallest_k():
    assert recommend_k([4, 8], [0.8, 0.8], [0.4, 0.4], [0.9, 0.9], [0.0, 0.0]).n_clusters == 4


def test_what_is_better_only_within_the_error_is_not_better():
    figures = ([2, 4, 8], [0.8, 0.8, 0.82], [0.4] * 3, [0.7, 0.9, 0.9])
    assert recommend_k(*figures, [0.1, 0.0, 0.0]).n_clusters == 8
    found = recommend_k(*figures, [0.1, 0.03, 0.03])
    assert found.n_clusters == 4  # and not 2, which is not stable
    assert found.reason.endswith("k = 8 is better only within the standard error")


def test_the_error_is_that_of_the_merit_on_both_sides():
    """Of two k whose silhouettes are 0.5 above: stability and its error count by half."""
    figures = ([4, 8], [0.5, 0.5], [0.0, 0.0], [0.75, 0.875])
    assert recommend_k(*figures, [0.0625, 0.0625]).n_clusters == 4  # just within both errors
    for errors in ([0.05, 0.05], [0.0, 0.0625], [0.0625, 0.0]):
        assert recommend_k(*figures, errors).n_clusters == 8
    for errors in ([0.0, 0.125], [0.125, 0.0]):
        assert recommend_k(*figures, errors).n_clusters == 4


def test_what_is_asked_is_enough():
    assert recommend_k([3], [0.1], [0.0], [0.75], [0.0]).n_clusters == 3
    short = recommend_k([3], [0.1], [0.0], [0.7499], [0.0])
    assert short.reason.endswith("agree by 0.750 (adjusted Rand index), and 0.75 is asked")
    vague = recommend_k([3], [0.0999], [0.0], [0.75], [0.0])
    assert vague.reason.endswith("and not 0.1 above that of data without clusters, 0.000")


def test_of_bounds_as_wide_the_higher_are_tighter():
    shares = [(0.25, 1.25), (0.5, 1.5), (0.0, 1.0)]
    assert recommend_bounds(shares, [0.0, 0.0, 0.0]).shares == (0.5, 1.5)
    assert recommend_bounds(shares, [0.0, 0.1, 0.0]).shares == (0.25, 1.25)
    open_ended = [(0.0, math.inf), (0.5, math.inf), (0.25, math.inf)]
    assert recommend_bounds(open_ended, [0.0, 0.0, 0.0]).shares == (0.5, math.inf)


def test_the_tightest_bounds_that_cost_little():
    shares = [(0.9, 1.1), (0.0, 2.0), (0.5, 2.0)]
    assert recommend_bounds(shares, [0.08, 0.0, 0.02]).shares == (0.5, 2.0)
    found = recommend_bounds(shares, [0.019, 0.0, 0.0])
    assert found.shares == (0.9, 1.1)
    assert found.reason == "sizes of 0.9 to 1.1 times n/k lose 1.9 % of the objective"
    none = recommend_bounds(shares, [0.3, 0.021, 0.1])
    assert none.shares is None
    assert none.reason == (
        "no bounds are recommended: the cheapest, 0 to 2 times n/k, lose 2.1 % of the objective, "
        "more than 2 %"
    )
    assert recommend_bounds([], []) == (None, "")


def test_of_two_bounds_the_narrower_are_tighter_and_the_reason_says_what_the_others_lose():
    """The narrower ones are below the others: the width decides, and not the smallest size."""
    shares = [(0.5, 2.0), (0.25, 1.25)]
    found = recommend_bounds(shares, [0.0, 0.015625])
    assert found.shares == (0.25, 1.25)
    assert found.reason == "sizes of 0.25 to 1.25 times n/k lose 1.6 % of the objective"
    found = recommend_bounds(shares, [0.0, 0.5])
    assert found.shares == (0.5, 2.0)
    assert found.reason == (
        "sizes of 0.5 to 2 times n/k lose 0.0 % of the objective, and all tighter ones of those "
        "tried more than 2 %"
    )


def test_bounds_in_words():
    assert shares_text((0.0, math.inf)) == "any size"
    assert shares_text((0.5, math.inf)) == "at least 0.5 times n/k"


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_reference_rows_have_the_mean_and_the_spread_of_the_sample(xp, metric):
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(2000, 3)) * [3.0, 1.0, 0.1] + [5.0, 0.0, 1.0]).astype(np.float32)
    x = unit_rows(x).astype(np.float32) if metric == "cosine" else x
    rows = xp.asarray(x)
    found = reference_rows(rows, metric=metric, seed=1)
    assert_same_kind(found, rows)
    drawn = to_numpy(found).astype(np.float64)
    if metric == "cosine":
        np.testing.assert_allclose(np.linalg.norm(drawn, axis=1), 1.0, atol=1e-6)
    np.testing.assert_allclose(drawn.mean(axis=0), x.mean(axis=0), atol=0.2)
    if metric == "euclidean":
        np.testing.assert_allclose(np.cov(drawn.T), np.cov(x.T), atol=0.5)


def test_reference_rows_of_few_rows_and_of_equal_ones():
    equal = np.ones((4, 3))
    assert reference_rows(equal, metric="euclidean", seed=0) is equal
    few = np.random.default_rng(0).normal(size=(5, 40))
    assert np.isfinite(reference_rows(few, metric="euclidean", seed=0)).all()


@pytest.mark.parametrize("library", ONE_EACH, ids=lambda row: row.name)
def test_reference_rows_by_their_definition(library):
    """x = m + L z; the last column is constant, so that only the jitter spreads it."""
    x = np.random.default_rng(0).normal(size=(40, 3)) * [3.0, 1.0, 0.0] + [5.0, -2.0, 7.0]
    x[:, 1] += 0.5 * x[:, 0]
    rows = library.asarray(x)
    found = to_numpy(reference_rows(rows, metric="euclidean", seed=4))
    apart = x - x.mean(axis=0)
    covariance = apart.T @ apart / 40 + 1e-8 * (apart**2).mean() * np.eye(3)
    noise = to_numpy(normal_noise((40, 3), key=4, xp=library.namespace, device=library.device))
    expected = x.mean(axis=0) + noise @ np.linalg.cholesky(covariance).T
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    np.testing.assert_allclose(found[:, 2] - 7.0, (expected - 7.0)[:, 2], rtol=3e-10)
    on_sphere = to_numpy(reference_rows(rows, metric="cosine", seed=4))
    lengths = np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(on_sphere, expected / lengths, rtol=1e-9)


@pytest.mark.parametrize("name", ["silhouette", "reference", "stability", "stability_error"])
@pytest.mark.parametrize("n", [1, 3])
def test_each_k_has_one_figure_of_each_kind(name, n):
    names = ("silhouette", "reference", "stability", "stability_error")
    figures = {key: [0.5, 0.5] for key in names} | {name: [0.5] * n}
    says = f"{name} must have one figure for each of the 2 ks, got {n}. To fix this, give as many"
    with pytest.raises(InvalidValueError, match=says):
        recommend_k([2, 3], **figures)


def test_no_k_and_prices_of_other_bounds_are_refused():
    with pytest.raises(InvalidValueError, match="ks must not be empty"):
        recommend_k([], [], [], [], [])
    with pytest.raises(InvalidValueError, match="price must have one figure for each of the 1"):
        recommend_bounds([(0.5, 2.0)], [0.1, 0.2])
    with pytest.raises(InvalidValueError, match="shares must not be empty"):
        recommend_bounds([], [0.1])
