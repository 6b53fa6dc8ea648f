"""Rows with sizes in units of the parts of the plain solver."""

import numpy as np

from dualclust.algos.bounds import LoadBounds
from dualclust.algos.offline.weighted._problem import in_size, problem_of
from dualclust.algos.scores.sources import score_source


def test_sizes_divide_unless_they_are_a_small_part_of_the_mean():
    sizes = np.ones(5_000)
    sizes[:2] = 0.0, 2.0
    scores = np.full((5_000, 2), 6.0)
    problem, unit = problem_of(score_source(scores), LoadBounds.from_loads(sizes, 2, upper=4e3))
    divided = 6.0 / in_size(problem, None).block(0, 5_000)[:, 0]
    np.testing.assert_allclose(unit * divided[1:], sizes[1:], rtol=1e-12)
    np.testing.assert_allclose(unit * divided[0], 2.0**-10 * sizes.mean(), rtol=1e-12)


def test_of_more_than_a_million_rows_the_largest_are_kept_out_of_small_clusters():
    n = 2**20 + 8
    sizes = np.ones(n)
    sizes[-2] = 3.0
    bounds = LoadBounds.from_loads(sizes, 2, upper=np.asarray([2.0, 2.0 * n]))
    source = problem_of(score_source(np.zeros((n, 2), np.float32)), bounds)[0].source
    wanted = [[0.0, 0.0], [0.0, 0.0], [-np.inf, 0.0], [0.0, 0.0]]
    assert source.block(n - 4, n).tolist() == wanted
    assert source.take(np.arange(n - 4, n)).tolist() == wanted
