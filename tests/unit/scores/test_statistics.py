"""What a few rows say about all scores: ids from all over, ranges, and the unit."""

import math

import numpy as np
import pytest

from dualclust.algos.scores.statistics import median, score_range, strided_ids
from tests.compare import to_numpy


@pytest.mark.parametrize("n", [1, 2, 7, 8, 100, 1024])
def test_strided_ids_visit_every_row_once(xp, n):
    ids = to_numpy(strided_ids(n, n, xp.asarray([0.0])))
    assert sorted(ids.tolist()) == list(range(n))
    part = to_numpy(strided_ids(n, (n + 1) // 2, xp.asarray([0.0])))
    np.testing.assert_array_equal(part, ids[: len(part)])


def test_neighbors_in_the_order_lie_far_apart(xp):
    ids = to_numpy(strided_ids(100_000, 500, xp.asarray([0.0])))
    assert np.diff(np.sort(ids)).max() <= 400  # 500 rows from all over 100,000


def test_the_range_of_scores_ignores_rows_that_are_far_out(xp):
    scores = np.asarray([[0.0, 1.0], [0.0, 2.0], [0.0, 1e30], [1.0, -math.inf]])
    assert score_range(xp.asarray(scores)) == 2.0
    assert score_range(xp.asarray(np.ones((3, 2)))) == 1.0
    assert median(xp.asarray(np.zeros(0))) == 0.0
