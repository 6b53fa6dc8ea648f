"""Rows that may stay out: against all choices, and at prices of staying out."""

from itertools import combinations

import numpy as np
import pytest

from dualclust.algos.core.errors import InfeasibleBoundsError, InvalidTypeError, InvalidValueError
from dualclust.algos.offline.grouped import assign_partial
from dualclust.algos.scores.sources import score_source
from tests.problems import best_value


def best_of_all(scores, outside, max_out, lower, upper):
    """Try each set of rows that stay out."""
    n, k = scores.shape
    values = [-np.inf]
    for m in range(max_out + 1):
        for out in combinations(range(n), m):
            kept = np.delete(scores, out, axis=0)
            if lower * k <= n - m <= upper * k:
                sides = np.full(k, lower), np.full(k, upper)
                values.append(best_value(kept, *sides) + outside[list(out)].sum())
    return max(values)


@pytest.mark.parametrize("seed", range(12))
def test_values_are_the_best_of_all_choices(seed):
    rng = np.random.default_rng(seed)
    scores, outside = rng.normal(size=(6, 2)), rng.normal(size=6) * (seed % 2)
    lower, upper = (1, 3) if seed % 3 else (0, 2)
    found = assign_partial(
        scores,
        max_out=3,
        out_score=outside if seed % 2 else 0.0,
        min_count=lower,
        max_count=upper,
    )
    assert found.objective == pytest.approx(best_of_all(scores, outside, 3, lower, upper))
    assert found.status == "optimal"
    assert found.labels.min() >= -1


def test_at_a_price_each_row_stays_out_or_not_on_its_own():
    scores = np.asarray([[-1.0], [-4.0], [-2.5], [-9.0]])
    found = assign_partial(scores, max_out=4, out_score=-3.0)
    assert found.labels.tolist() == [0, -1, 0, -1]
    assert found.out_price == 0.0
    only_one = assign_partial(scores, max_out=1, out_score=-3.0)
    assert only_one.labels.tolist() == [0, 0, 0, -1]
    assert -6.0 <= only_one.out_price <= -1.0


def test_a_source_and_a_gap_on_many_rows():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(40_000, 12)).astype(np.float32)
    whole = assign_partial(scores, max_out=400, out_score=3.0, min_count=3000)
    assert whole.n_out == 400
    assert whole.status == "optimal"
    near = assign_partial(
        score_source(scores), max_out=400, out_score=3.0, min_count=3000, tol=1e-3
    )
    assert near.gap <= 1e-3
    assert near.objective <= whole.upper_bound


@pytest.mark.parametrize("price", [-2.0, -5.0])
def test_prices_are_where_the_search_begins(price):
    """All from -6 to -1 are best ones here: the result is near the one that is given."""
    scores = np.asarray([[-1.0], [-4.0], [-2.5], [-9.0]])
    found = assign_partial(scores, max_out=1, out_score=-3.0, prices=(np.zeros(1), price))
    assert found.labels.tolist() == [0, 0, 0, -1]
    assert abs(found.out_price - price) < 0.5


def test_what_is_refused():
    scores = np.zeros((4, 2))
    with pytest.raises(InvalidValueError, match="max_out must be at most the 4 rows, got 5"):
        assign_partial(scores, max_out=5)
    with pytest.raises(InvalidValueError, match="out_score"):
        assign_partial(scores, max_out=1, out_score=np.inf)
    with pytest.raises(InfeasibleBoundsError):
        assign_partial(scores, max_out=1, max_count=1)
    for prices, words in (
        (3, "prices must be a pair"),
        ((np.zeros(2),), "prices must be a pair"),
        ((np.zeros(3), 0.0), "prices"),
        ((np.zeros(2), np.inf), "prices"),
    ):
        with pytest.raises((InvalidTypeError, InvalidValueError), match=words):
            assign_partial(scores, max_out=1, prices=prices)
    with pytest.raises(InvalidTypeError, match="out_score"):
        assign_partial(scores, max_out=1, out_score=True)
    with pytest.raises(InvalidValueError, match="unit"):
        assign_partial(score_source(scores, np.full(4, 3.0)), max_out=1)


def test_the_worst_of_more_than_a_million_rows_stay_out():
    n, n_out = 2**20 + 2**13 + 5, 1_000
    worth = np.random.default_rng(3).permutation(n)
    found = assign_partial(worth[:, None].astype(np.float64), max_out=n_out, out_score=float(n))
    np.testing.assert_array_equal(found.labels, np.where(worth < n_out, -1, 0))
    assert found.status == "optimal"
