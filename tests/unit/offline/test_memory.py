"""Where memory is short: a region as small as its candidates have to be few, or an error."""

import numpy as np
import pytest

from dualclust.algos.core.errors import InvalidValueError
from dualclust.algos.offline import SolverOptions
from dualclust.algos.offline._all_scores import raise_no_labels
from dualclust.algos.offline._candidates import TrustRegion, collect_candidates
from dualclust.algos.offline._region_from_rows import within_memory
from dualclust.algos.scores.sources import score_source

OPTIONS = SolverOptions(max_entries=40, typical_rows=6)
REGION = TrustRegion(np.asarray([1.0, 2.0, 3.0]), np.asarray([8.0, 2.0, 4.0]))  # 4 in the middle


def test_the_error_names_what_all_scores_would_take():
    with pytest.raises(InvalidValueError, match=r"268435456 scores are more than .*about 4 GiB"):
        raise_no_labels(2**28, SolverOptions())


@pytest.mark.parametrize("wide", [1.0, 20.0])
def test_what_some_rows_tell_leaves_room_for_the_rest(rng, wide):
    """Of many choices of rows, hardly any leads to a region whose candidates do not fit.

    That is so, too, where the prices of a few clusters are known to less.
    """
    n, k, most = 20_000, 30, 20_000
    scores = rng.normal(size=(n, k))
    radius = np.where(np.arange(k) < 5, wide, 1.0)
    options = SolverOptions(max_entries=most, typical_rows=400)
    n_over, shares = 0, []
    for _ in range(50):
        source = score_source(scores[rng.permutation(n)])
        region, width = within_memory(source, TrustRegion(np.zeros(k), radius), 4, options)
        found = collect_candidates(source, -region.radius, region.radius, width=width)
        shares.append(found.clusters.shape[0] * width / most)
        n_over += shares[-1] > 1.0
    assert n_over <= 1  # of one in seven hundred each; without room, half of them
    assert np.mean(shares) > 0.5


def test_where_all_rows_tie_lists_grow_within_the_memory():
    region, ties = TrustRegion(np.zeros(9), np.ones(9)), score_source(np.zeros((50, 9)))
    for most, width in ((200, 4), (199, 2)):
        found = within_memory(ties, region, 2, SolverOptions(max_entries=most))
        assert (found[0] is region, found[1]) == (True, width)


def test_all_rows_need_no_room_for_others():
    """Of four rows the second cluster is 2, 4, 6 and 8 behind: two of them fit."""
    scores = np.asarray([2.0, 4.0, 6.0, 8.0])[:, None] * [0.0, -1.0, -2.0, -3.0, -20.0]
    region, options = TrustRegion(np.zeros(5), np.full(5, 9.0)), SolverOptions(max_entries=8)
    found, width = within_memory(score_source(scores), region, 4, options)
    assert (found.radius.tolist(), width) == ([3.0] * 5, 4)


def test_a_radius_of_nothing_has_room(rng):
    scores = rng.normal(size=(50, 6))
    scores[:20, :2] = 0.0  # rows that tie
    source, options = score_source(scores), SolverOptions(max_entries=40)
    for radius in (np.zeros(6), np.asarray([0.0, 0.0, 0.0, 0.0, 0.5, 0.5])):
        region, _ = within_memory(source, TrustRegion(np.zeros(6), radius), 4, options)
        assert np.isfinite(region.radius).all()
        assert (region.radius <= radius).all()
