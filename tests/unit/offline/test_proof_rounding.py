"""What rounding explains of a loss: truncated clusters, prices that pay, terms that overflow."""

from __future__ import annotations

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.offline import SolverOptions
from dualclust.algos.offline._candidates import all_candidates
from dualclust.algos.offline._proof import proven
from dualclust.algos.scores.sources import score_source
from dualclust.algos.scores.statistics import ScoresOutOfRangeError

ROUNDING = 2.0**-46
"""What sums of terms of 1 can be off by."""


@pytest.mark.parametrize("scale", [0.0, 1.0, 1e17])
def test_rounding_of_prices_explains_what_a_truncated_cluster_seems_to_be_worth(
    scale: float,
) -> None:
    """As much as the scale of the prices, and no more than the label, which is worth 1."""
    kept = all_candidates(score_source(np.asarray([[1.0, 0.0]])), like=np.zeros(2))
    bounds = SizeBounds.from_counts([0, 0], n_samples=1)
    for beyond in (0.75 * ROUNDING, 1.5 * ROUNDING):
        cut = kept._replace(truncation=np.asarray([1.0 + beyond]))
        slots = np.zeros(1, np.int64)
        found, misplaced = proven(cut, slots, np.zeros(2), bounds, scale, SolverOptions())
        is_lost = beyond > ROUNDING or scale == 0.0
        assert found.upper_bound == 1.0 + beyond * is_lost
        assert (found.status == "optimal") != is_lost
        assert misplaced == 0.0  # beside the candidates the label is the best


@pytest.mark.parametrize(("scale", "size"), [(1.0, 1.0), (0.25, 0.25), (1e17, 4.0)])
def test_what_prices_pay_is_explained_by_their_scale_and_no_more_than_the_labels(
    scale: float, size: float
) -> None:
    """Four rows of score 1 in two clusters that might have one row less: both prices pay."""
    kept = all_candidates(score_source(np.ones((4, 2))), like=np.zeros(2))
    bounds = SizeBounds.from_counts([1, 1], [3, 3], n_samples=4)
    for paid, is_lost in ((0.75, False), (1.5, True)):
        lost = paid * size * ROUNDING
        prices = np.full(2, 0.5 * lost)
        slots = np.asarray([0, 0, 1, 1])
        found, _ = proven(kept, slots, prices, bounds, scale, SolverOptions())
        assert found.gap == (pytest.approx(lost / 4.0, rel=1e-6) if is_lost else 0.0)
        assert found.upper_bound == 4.0 + lost * is_lost


def test_sizes_that_overflow_need_another_unit_where_the_objective_does_not() -> None:
    """Scores of both signs cancel; their absolute values do not."""
    kept = all_candidates(score_source(np.zeros((4, 2))), like=np.zeros(2))
    signs = np.asarray([[1.0], [-1.0], [1.0], [-1.0]])
    kept = kept._replace(values=signs * np.full((4, 2), 1.5 * 2.0**1022))
    bounds = SizeBounds.from_counts([0, 0], n_samples=4)
    with np.errstate(over="ignore"), pytest.raises(ScoresOutOfRangeError):
        proven(kept, np.zeros(4, np.int64), np.zeros(2), bounds, 0.0, SolverOptions())
