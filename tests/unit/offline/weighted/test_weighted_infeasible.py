"""Why no shares of rows have loads inside: clusters and parts of the sizes that prove it."""

import numpy as np
import pytest

from dualclust.algos.bounds import LoadBounds
from dualclust.algos.core.errors import InfeasibleBoundsError
from dualclust.algos.offline.weighted import assign_weighted
from tests.judge_weighted import judge_no_shares


@pytest.mark.parametrize(
    ("forbid", "low", "high", "clusters", "words"),
    [
        ((slice(30, None), [1, 3]), [0, 1, 0, 1, 0], 9.0, (1, 3), "clusters 1 and 3 need at least"),
        ((slice(None), 2), [0, 0, 0.1, 0, 0], 9.0, (2,), "cluster 2 needs at least 2.0000% of all"),
        ((slice(100, None), [0, 1, 2, 3]), 0.0, [9, 9, 9, 9, 1.5], (4,), "may join only cluster 4"),
    ],
)
def test_shares_of_rows_do_not_fit_forbidden_pairs(forbid, low, high, clusters, words):
    rng, n = np.random.default_rng(0), 60 if clusters == (1, 3) else 300
    scores, sizes = rng.normal(size=(n, 5)), rng.lognormal(0.0, 1.0, n)
    scores[forbid] = -np.inf
    if clusters == (1, 3):
        sizes[:30] = 0.1
    bounds = LoadBounds.from_ratios(sizes, 5, lower=low, upper=high)
    with pytest.raises(InfeasibleBoundsError, match=words) as error:
        assign_weighted(scores, bounds)
    assert error.value.clusters == clusters
    judge_no_shares(scores, bounds)


def test_after_ten_clusters_the_others_are_counted():
    scores, sizes = np.zeros((60, 14)), np.arange(1.0, 61.0)
    scores[6:, :12] = -np.inf
    bounds = LoadBounds.from_ratios(sizes, 14, lower=[0.5] * 12 + [0.0] * 2, upper=14.0)
    with pytest.raises(InfeasibleBoundsError, match="8, 9 and 2 more need at least") as error:
        assign_weighted(scores, bounds)
    assert error.value.clusters == tuple(range(12))
