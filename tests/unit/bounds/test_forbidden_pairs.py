"""Feasibility with forbidden pairs at its limits: totals, weights, and blocks of rows."""

import numpy as np
import pytest

from dualclust.algos.bounds import forbidden_pairs
from dualclust.algos.bounds.farkas import FarkasVector, verify_infeasibility
from dualclust.algos.bounds.forbidden_pairs import feasibility
from dualclust.algos.core.errors import InvalidValueError
from tests.blocks_read import Watched
from tests.compare import assert_equal, to_numpy

ALL = np.ones((2, 2), bool)


def test_the_largest_total_is_that_of_32_bits():
    most = 2**31 - 1
    assert feasibility(ALL, [0, 0], [most, 0], weights=[most, 0]).counts == (most, 0)
    with pytest.raises(InvalidValueError, match=f"at most {most}, got {most + 1}"):
        feasibility(ALL, [0, 0], [most, most], weights=[most, 1])


@pytest.mark.parametrize("lower", [[2, 0], [1, 1], [0, 2], [0, 0]])
def test_upper_bounds_beyond_32_bits_are_no_bounds(lower):
    found = feasibility(ALL, lower, [10**12, 10**12])
    assert found.feasible
    assert all(a >= b for a, b in zip(found.counts, lower, strict=True))
    assert sum(found.counts) == 2


def test_a_lower_bound_beyond_all_samples_is_proven_with_the_bounds_given():
    lower, upper = [5, 0], [10**12, 10**12]
    vector = feasibility(ALL, lower, upper).vector
    assert verify_infeasibility(lower, upper, ALL, vector)
    assert vector == FarkasVector((1, 0), (0, 0), 5, 2)


def test_labels_are_of_whole_samples_and_counts_of_any_weights(xp):
    allowed = xp.asarray(ALL, bool)
    found = feasibility(allowed, [1, 1], [1, 1], weights=[1, 1])
    assert sorted(to_numpy(found.labels).tolist()) == [0, 1]
    found = feasibility(allowed, [1, 2], [1, 2], weights=[1, 2])
    assert (found.labels, found.counts) == (None, (1, 2))
    none = feasibility(allowed[:0, :], [0, 0], [1, 1])
    assert_equal(none.labels, xp.asarray(np.zeros(0, np.int64)))


def test_scores_of_minus_infinity_are_forbidden_and_nan_is_neither(xp):
    scores = np.asarray([[0.5, -np.inf], [np.inf, -np.inf], [-1.0, 0.0]])
    found = feasibility(xp.asarray(scores), [0, 1], [2, 2])
    assert to_numpy(found.labels).tolist() == [0, 0, 1]
    assert not feasibility(xp.asarray(scores), [0, 2], [2, 2]).feasible
    scores[1, 1] = np.nan
    with pytest.raises(InvalidValueError, match="allowed must not hold NaN"):
        feasibility(xp.asarray(scores), [0, 1], [2, 2])


@pytest.mark.parametrize(
    ("shape", "sizes"), [((2**10 + 1, 2**10), (2**10, 1)), ((2, 2**20 + 1), (1, 1))]
)
def test_a_million_pairs_are_read_at_a_time(shape, sizes):
    Watched.seen = ()
    rows = forbidden_pairs._rows_on_host(np.broadcast_to(np.asarray(True), shape).view(Watched))
    assert sum(1 for _ in rows) == shape[0]
    assert Watched.seen == sizes
