"""How many candidates rows have in a region, as some of them tell it, and how many a pass keeps."""

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.offline import SolverOptions
from dualclust.algos.offline._candidates import TrustRegion, collect_candidates
from dualclust.algos.offline._region_from_rows import candidate_counts, wide_enough
from dualclust.algos.offline._search import Phase, Problem, _started
from dualclust.algos.scores.sources import score_source
from tests.compare import to_numpy


def test_the_share_of_rows_that_lost_candidates():
    scores = np.asarray([[0.0, 0.0, 0.0, -9.0], [0.0, 0.0, -9.0, -9.0], [5.0, 0.0, 0.0, 0.0]] * 2)
    zero = np.zeros(4)
    kept = collect_candidates(score_source(scores), zero, zero, width=2)
    assert kept.truncated_share(6) == pytest.approx(2.0 / 6.0)


def test_some_rows_tell_how_many_candidates_all_have(xp):
    """One row in sixteen, from all over the data, or 64, or as many as are allowed."""
    n, k = 1600, 6
    scores = np.full((n, k), -1.0)
    scores[:, 0] = 0.0
    scores[n // 4 :, 1] = -0.1  # three of four rows have three that fit
    scores[n // 4 :, 2] = -0.3
    prices = xp.asarray(np.zeros(k))
    source = score_source(xp.asarray(scores))
    for radius, expected in ((0.2, {1: 0.25, 3: 0.75}), (0.14, {1: 0.25, 2: 0.75}), (0.04, {1: 1})):
        region = TrustRegion(prices, prices + radius)
        for rows, n_rows in ((1024, 100), (24, 24)):
            options = SolverOptions(typical_rows=rows)
            found = to_numpy(candidate_counts(source, region, options))
            assert found.tolist() == sorted(found.tolist())
            assert len(found) == n_rows
            shares = {int(c): float(np.mean(found == c)) for c in np.unique(found)}
            assert shares == pytest.approx(expected, abs=0.2)  # of rows here and there
    region = TrustRegion(prices, prices + 2.0)
    for some, n_rows in ((scores[:200], 64), (scores[:3], 3)):  # of 12 too few would say too much
        found = candidate_counts(score_source(xp.asarray(some)), region, SolverOptions())
        assert to_numpy(found).tolist() == [k] * n_rows


@pytest.mark.parametrize(
    ("n_long", "width", "entries", "expected"),
    [
        (3, 2, 2**25, 2),  # of 64 rows, so few may lose candidates
        (4, 2, 2**25, 16),
        (64, 2, 2**25, 16),  # of nine candidates
        (64, 4, 2**25, 16),
        (64, 9, 2**25, 9),
        (64, 2, 64 * 4, 4),
        (64, 2, 64 * 8 - 1, 4),
        (64, 16, 64, 16),
    ],
)
def test_a_pass_keeps_the_candidates_of_most_rows(xp, n_long, width, entries, expected):
    scores = np.tile(np.linspace(0.0, -1.0, 11), (64, 1))  # each a tenth from the next
    scores[n_long:, 1:] -= 9.0
    region = TrustRegion(xp.asarray(np.zeros(11)), xp.asarray(np.full(11, 0.41)))
    options = SolverOptions(max_entries=entries)
    counts = candidate_counts(score_source(xp.asarray(scores)), region, options)
    assert wide_enough(counts, width, entries // 64) == expected


def test_a_first_pass_keeps_64_candidates_of_a_given_radius_and_all_that_tie_of_distinct_rows():
    n, k = 90, 999
    source, bounds = score_source(np.zeros((n, k))), SizeBounds.from_counts([0] * k, n_samples=n)
    radius = np.ones(k)
    problem = Problem(source, bounds, 0.0, SolverOptions(), radius)
    assert _started(problem, np.zeros(k)).width == 64
    found = _started(problem._replace(price_radius=None), None)
    assert (found.width, found.phase) == (1024, Phase.WIDEN)
