"""Where memory is short: a region as small as its candidates have to be few, or an error."""

import numpy as np
import pytest

from dualclust.algos.core.errors import InvalidValueError
from dualclust.algos.offline import SolverOptions, _memory
from dualclust.algos.offline._candidates import TrustRegion
from dualclust.algos.offline._memory import raise_no_labels, within_memory
from dualclust.algos.offline._trust_region import RegionLimit
from dualclust.algos.scores.sources import score_source

OPTIONS = SolverOptions(max_entries=40, min_radius_share=0.25, memory_rows=6)
REGION = TrustRegion(np.asarray([1.0, 2.0, 3.0]), np.asarray([8.0, 2.0, 4.0]))  # 4 in the middle


@pytest.mark.parametrize(("limit", "share"), [(1.5, 0.375), (3.0, 0.75), (4.0, 1.0), (9.0, 1.0)])
def test_the_region_shrinks_to_what_fits(monkeypatch, limit, share):
    seen = []

    def fitting(rows, prices, **options):
        seen.append((rows.shape, prices, options))
        return RegionLimit(limit, 7)

    monkeypatch.setattr(_memory, "largest_radius", fitting)
    found, width = within_memory(score_source(np.zeros((10, 3))), REGION, 5, OPTIONS)
    [(shape, prices, options)] = seen
    assert shape == (6, 3)
    assert prices is REGION.center
    assert options == {"n_rows": 10, "max_entries": 40, "wanted": 4.0, "options": OPTIONS}
    assert width == 7
    assert found.center is REGION.center
    np.testing.assert_array_equal(found.radius, share * REGION.radius)


@pytest.mark.parametrize("limit", [0.0, 1.0])
@pytest.mark.parametrize(("width", "wider"), [(1, 2), (2, 4), (3, 3)])
def test_rows_get_more_candidates_where_no_region_is_worth_it(monkeypatch, limit, width, wider):
    """A radius of a quarter of the one wanted, or less: ten rows of four fit, and none of six."""
    monkeypatch.setattr(_memory, "largest_radius", lambda *a, **o: RegionLimit(limit, 7))
    found = within_memory(score_source(np.zeros((10, 3))), REGION, width, OPTIONS)
    assert found == (REGION, wider)


def test_all_rows_are_looked_at_where_they_are_few(monkeypatch):
    shapes = []

    def fitting(rows, prices, **options):
        shapes.append(rows.shape)
        return RegionLimit(9.0, 7)

    monkeypatch.setattr(_memory, "largest_radius", fitting)
    within_memory(score_source(np.zeros((4, 3))), REGION, 5, OPTIONS)
    assert shapes == [(4, 3)]


def test_the_error_names_what_all_scores_would_take():
    with pytest.raises(InvalidValueError, match=r"268435456 scores are more than .*about 4 GiB"):
        raise_no_labels(2**28, SolverOptions())
