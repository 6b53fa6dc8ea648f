"""What `assign_grouped` refuses, and what it says that additions can be off by."""

import numpy as np
import pytest

from dualclust.algos.bounds import GroupBounds, SizeBounds
from dualclust.algos.core.errors import InfeasibleBoundsError, InvalidTypeError, InvalidValueError
from dualclust.algos.offline.grouped import assign_grouped

GROUPS = np.asarray([0, 1, 1, -1, 1])


def test_arguments_that_do_not_fit():
    bounds = GroupBounds.from_counts(GROUPS, 2)
    scores = np.zeros((5, 2))
    sizes = SizeBounds.from_ratios(2, n_samples=5, lower=0.0)
    with pytest.raises(InvalidTypeError, match="GroupBounds"):
        assign_grouped(scores, sizes, GROUPS)
    with pytest.raises(InvalidValueError, match="of the 5 samples"):
        assign_grouped(scores, SizeBounds.from_ratios(2, n_samples=6, lower=0.0), bounds)
    with pytest.raises(InvalidValueError, match="groups"):
        assign_grouped(scores, sizes, GroupBounds.from_counts(GROUPS[:4], 2))
    prices = np.asarray([np.nan, 0.0]), np.zeros((2, 2))
    with pytest.raises(InvalidValueError, match="must be finite"):
        assign_grouped(scores, sizes, bounds, prices=prices)
    prices = np.zeros(2), np.zeros((2, 1))
    with pytest.raises(InvalidValueError, match=r"prices\[1\] must have shape \(2, 2\)"):
        assign_grouped(scores, sizes, bounds, prices=prices)
    with pytest.raises(InvalidTypeError, match="pair of arrays"):
        assign_grouped(scores, sizes, bounds, prices=np.zeros(3))
    with pytest.raises(InvalidTypeError, match="bounds"):
        assign_grouped(scores, (0, 5), bounds)
    found = assign_grouped(scores, sizes, bounds)
    assert [found._replace(gap=gap).status for gap in (0.0, 1e-9)] == ["optimal", "within gap"]
    scores[3, 1] = np.nan
    with pytest.raises(InvalidValueError, match="row 3"):
        assign_grouped(scores, sizes, bounds)


def test_forbidden_pairs_that_leave_no_labels():
    scores = np.asarray([[0.0, -np.inf], [0.0, -np.inf]])
    sizes = SizeBounds.from_ratios(2, n_samples=2, lower=0.0)
    apart = GroupBounds.at_most_one(np.asarray([0, 0]), 2)
    with pytest.raises(InfeasibleBoundsError, match="forbidden pairs"):
        assign_grouped(scores, sizes, apart)


def test_rounding_is_that_of_two_sums_of_the_scores_of_the_labels():
    scores = np.asarray([[3.0, -np.inf], [-5.0, -np.inf], [-np.inf, 0.25]])
    sizes = SizeBounds.from_ratios(2, n_samples=3, lower=0.0, upper=2.0)
    found = assign_grouped(scores, sizes, GroupBounds.from_counts(np.asarray([0, 0, 1]), 2))
    assert found.rounding == 2.0 * 64.0 * 2.0**-52 * 8.25
