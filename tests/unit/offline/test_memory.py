"""Where memory is short: a region as small as its candidates have to be few, or an error."""

from dataclasses import replace

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.core.errors import InvalidValueError
from dualclust.algos.offline import DEFAULT_OPTIONS, SolverOptions, _memory, assignment
from dualclust.algos.offline._candidates import TrustRegion, collect_candidates
from dualclust.algos.offline._memory import raise_no_labels, within_memory
from dualclust.algos.offline._region_from_rows import RegionLimit
from dualclust.algos.offline._second_look import candidates_in
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
    assert options.pop("shape").tolist() == [2.0, 0.5, 1.0]
    assert options == {
        **{"n_rows": 10, "max_entries": 40, "wanted": 4.0, "options": OPTIONS},
        "deviations": 3.0,
    }
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


@pytest.mark.parametrize(
    ("most", "per_row", "last", "expected"),
    [
        (8, 1.0, 10**9, 5_000),
        (4_999, 1.0, 10**9, 5_000),
        (5_000, 1.0, 10**9, 5_000),
        (8, 2.0, 10**9, 10_000),
        (8, 2.0, 9_999, 9_999),
        (8, 0.0, 10**9, 8),
        (8, 1.0, 7, 8),
    ],
)
def test_more_rows_keep_more_candidates(most, per_row, last, expected, monkeypatch):
    """Five thousand rows may keep as many, however few the options name; no more than the last."""
    asked = []

    def collect(*args, max_entries, **options):
        asked.append(max_entries)
        return candidates_in(*args, max_entries=max_entries, **options)

    monkeypatch.setattr(assignment, "candidates_in", collect)
    n, k = 5_000, 20
    scores = np.random.default_rng(0).normal(size=(n, k))
    bounds = SizeBounds.from_ratios(k, n_samples=n, lower=0.9, upper=1.1)
    options = replace(DEFAULT_OPTIONS, max_entries=most, entries_per_row=per_row, last_entries=last)
    assignment.assign_offline(scores, bounds, options=options)
    assert set(asked) == {expected}


def test_all_rows_are_looked_at_where_they_are_few(monkeypatch):
    shapes = []

    def fitting(rows, prices, **options):
        shapes.append(rows.shape)
        assert options["deviations"] == 0.0  # nothing is left to chance
        return RegionLimit(9.0, 7)

    monkeypatch.setattr(_memory, "largest_radius", fitting)
    within_memory(score_source(np.zeros((4, 3))), REGION, 5, OPTIONS)
    assert shapes == [(4, 3)]


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
    options = SolverOptions(max_entries=most, memory_rows=400)
    n_over, shares = 0, []
    for _ in range(50):
        source = score_source(scores[rng.permutation(n)])
        region, width = within_memory(source, TrustRegion(np.zeros(k), radius), 4, options)
        found = collect_candidates(source, -region.radius, region.radius, width=width)
        shares.append(found.clusters.shape[0] * width / most)
        n_over += shares[-1] > 1.0
    assert n_over <= 1  # of one in seven hundred each; without room, half of them
    assert np.mean(shares) > 0.5


def test_a_radius_of_nothing_has_room(rng):
    scores = rng.normal(size=(50, 6))
    scores[:20, :2] = 0.0  # rows that tie
    source, options = score_source(scores), SolverOptions(max_entries=40)
    for radius in (np.zeros(6), np.asarray([0.0, 0.0, 0.0, 0.0, 0.5, 0.5])):
        region, _ = within_memory(source, TrustRegion(np.zeros(6), radius), 4, options)
        assert np.isfinite(region.radius).all()
        assert (region.radius <= radius).all()
