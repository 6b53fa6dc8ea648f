"""The reference itself: by hand, against all labels, and able to say that something is wrong."""

from __future__ import annotations

import numpy as np
import pytest

from tests import highs
from tests.problems import best_value

SCORES = np.asarray([[3.0, 1.0], [2.0, 1.5], [5.0, 0.0]])


def test_value_sizes_and_prices_by_hand() -> None:
    """One sample must leave cluster 0, and the second one loses least: the bound costs 0.5."""
    found = highs.best_plan(SCORES, [0, 1], [3, 3])
    assert found is not None
    assert found.value == pytest.approx(3.0 + 1.5 + 5.0)
    assert found.sizes == pytest.approx([2.0, 1.0])
    assert found.prices == pytest.approx([0.0, 0.5])
    capped = highs.best_plan(SCORES, [0, 0], [1, 3])
    assert capped is not None
    assert capped.value == pytest.approx(1.0 + 1.5 + 5.0)
    assert -5.0 - 1e-9 <= capped.prices[0] <= -2.0 + 1e-9
    assert capped.prices[1] == 0.0


def test_weights_are_copies_and_forbidden_pairs_stay_empty() -> None:
    weights = [1, 2, 0]
    heavy = highs.best_plan(SCORES, [0, 1], [3, 3], weights=weights)
    copied = highs.best_plan(np.repeat(SCORES, weights, axis=0), [0, 1], [3, 3])
    assert heavy is not None
    assert copied is not None
    assert heavy.value == pytest.approx(copied.value)
    allowed = np.asarray([[True, True], [False, True], [True, False]])
    found = highs.best_plan(SCORES, [0, 0], [3, 3], allowed=allowed)
    assert found is not None
    assert found.value == pytest.approx(3.0 + 1.5 + 5.0)
    assert highs.best_plan(SCORES, [3, 0], [3, 3], allowed=allowed) is None
    assert highs.is_feasible(allowed, [1, 1], [2, 2])
    assert not highs.is_feasible(allowed, [0, 3], [3, 3])
    assert highs.is_feasible(allowed, [0, 3], [3, 3], weights=[1, 2, 0])
    assert not highs.is_feasible(allowed, [1, 1], [1, 1])


def test_it_is_as_good_as_all_labels_and_no_better() -> None:
    """What it says of one problem is wrong of one with other scores or other bounds."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        scores = rng.normal(size=(5, 3))
        sizes = np.bincount(rng.integers(0, 3, 5), minlength=3)
        found = highs.best_plan(scores, sizes, sizes)
        assert found is not None
        assert found.value == pytest.approx(best_value(scores, sizes, sizes))
        assert found.value != pytest.approx(best_value(scores + 0.1, sizes, sizes))
    forced = highs.best_plan(SCORES, [0, 2], [3, 3])
    assert forced is not None
    assert forced.value < best_value(SCORES, np.asarray([0, 0]), np.asarray([3, 3])) - 1.0
    assert not highs.is_feasible(np.zeros((1, 2), bool), [0, 0], [1, 1])


def test_scores_that_are_no_problem_are_refused() -> None:
    for bad in (np.nan, -np.inf):
        with pytest.raises(ValueError, match="must not contain"):
            highs.best_plan(np.full((2, 2), bad), [0, 0], [2, 2])
