"""Best clusters without prices: where they can be inside the bounds, and whether they prove it."""

import math

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.offline import DEFAULT_OPTIONS, SolverOptions, _ties
from dualclust.algos.offline._candidates import (
    TooManyCandidatesError,
    TrustRegion,
    collect_candidates,
)
from dualclust.algos.offline._ties import (
    expected_tied_share,
    may_be_free,
    tied_share,
    wanted_width,
    without_prices,
)
from dualclust.algos.scores.sources import score_source
from tests.compare import to_numpy
from tests.libraries import ONE_EACH

# Two rows want cluster 0 alone, one cluster 1, three may join 0 or 2.
SCORES = np.asarray([[2.0, 0, 1], [3, 0, 1], [0, 1, 0], [1, 0, 1], [4, -1, 4], [0, -5, 0]])


@pytest.mark.parametrize("library", ONE_EACH, ids=lambda row: row.name)
def test_bounds_that_the_best_clusters_can_meet(library):
    source = score_source(library.asarray(SCORES))
    for lower, upper, expected in (
        ([5, 1, 0], [6, 6, 6], True),  # all that want 0
        ([6, 0, 0], [6, 6, 6], False),
        ([0, 1, 0], [2, 1, 6], True),  # those that want 0 alone
        ([0, 0, 0], [1, 6, 6], False),
        ([0, 0, 3], [6, 6, 6], True),
        ([0, 0, 4], [6, 6, 6], False),
        ([0, 0, 0], [6, 0, 6], False),
        ([0, 2, 0], [6, 6, 6], False),
    ):
        bounds = SizeBounds.from_counts(
            lower, upper, n_samples=6, xp=library.namespace, device=library.device
        )
        assert may_be_free(source, bounds) is expected
        found = without_prices(source, bounds, 0.0, DEFAULT_OPTIONS)
        assert (found is not None) is expected
        if found is not None:
            assert (found.objective, found.gap, found.violation) == (11.0, 0.0, 0)


def test_a_few_rows_stand_for_all():
    """Two of six rows: a share of a third of them may be as much as all of it."""
    source = score_source(SCORES[:, :2])
    options = SolverOptions(range_rows=2)
    rows = source.take(np.asarray([0, 5]))  # those of `strided_ids`
    assert rows.argmax(axis=1).tolist() == [0, 0]
    for lower, upper, expected in (
        ([6, 0], [6, 6], True),
        ([5, 1], [6, 6], False),
        ([0, 0], [6, 6], True),
        ([0, 0], [5, 6], False),
    ):
        bounds = SizeBounds.from_counts(lower, upper, n_samples=6)
        assert may_be_free(source, bounds, options=options) is expected


def test_labels_that_prove_too_little_are_none(monkeypatch):
    source = score_source(SCORES)
    bounds = SizeBounds.from_counts([0] * 3, n_samples=6)
    real = _ties.proven

    def worse(*args):
        found, rest = real(*args)
        return found._replace(gap=0.25), rest

    monkeypatch.setattr(_ties, "proven", worse)
    assert without_prices(source, bounds, 0.25, DEFAULT_OPTIONS) is not None
    assert without_prices(source, bounds, 0.2, DEFAULT_OPTIONS) is None


def test_more_ties_than_memory_holds_are_none(monkeypatch):
    source = score_source(np.zeros((6, 3)))
    bounds = SizeBounds.from_counts([2] * 3, n_samples=6)
    enough = SolverOptions(max_entries=18)
    found = without_prices(source, bounds, 0.0, enough)
    assert found is not None
    assert found.counts.tolist() == [2, 2, 2]
    few = SolverOptions(max_entries=17)
    assert without_prices(source, bounds, 0.0, few) is None
    with pytest.raises(TooManyCandidatesError):
        collect_candidates(source, np.zeros(3), np.zeros(3), width=3, max_entries=17)


def test_the_share_of_rows_that_lost_candidates():
    scores = np.asarray([[0.0, 0.0, 0.0, -9.0], [0.0, 0.0, -9.0, -9.0], [5.0, 0.0, 0.0, 0.0]] * 2)
    zero = np.zeros(4)
    kept = collect_candidates(score_source(scores), zero, zero, width=2)
    assert tied_share(kept, 6) == pytest.approx(2.0 / 6.0)
    assert not math.isnan(tied_share(kept, 6))


def test_some_rows_tell_how_many_a_pass_would_cut(xp):
    """One row in sixteen, from all over the data, or 64, or as many as are allowed."""
    n, k = 1600, 6
    scores = np.zeros((n, k))
    scores[:, 1:] = -1.0
    scores[n // 4 :, 1] = -0.1  # three of four rows have three that fit
    scores[n // 4 :, 2] = -0.3
    prices = xp.asarray(np.zeros(k))
    seen = []

    def taken(ids):
        seen.append(to_numpy(ids))
        return xp.asarray(scores[to_numpy(ids)])

    source = score_source(xp.asarray(scores))._replace(take=taken)
    for radius, width, share in ((0.2, 2, 0.75), (0.2, 3, 0.0), (0.14, 2, 0.0), (0.04, 1, 0.0)):
        region = TrustRegion(prices, prices + radius)
        for rows, expected in ((1024, 100), (24, 24)):
            seen.clear()
            options = SolverOptions(range_rows=rows)
            found = expected_tied_share(source, region, width, options=options)
            assert found == pytest.approx(share, abs=0.26 * share)  # of rows here and there
            assert sum(map(len, seen)) == expected
    tiny = score_source(xp.asarray(scores[:3]))
    region = TrustRegion(prices, prices + 2.0)
    some = score_source(xp.asarray(scores[:200]))  # of 12 too few would say too much
    share = expected_tied_share(some, region, 2, options=DEFAULT_OPTIONS)
    assert share * 64 == round(share * 64)
    assert expected_tied_share(tiny, region, 2, options=DEFAULT_OPTIONS) == 1.0


@pytest.mark.parametrize(
    ("n_long", "width", "options", "expected"),
    [
        (3, 2, {}, 2),  # of 64 rows, lists of three may be cut
        (4, 2, {}, 16),
        (64, 2, {}, 16),  # of nine candidates
        (64, 4, {}, 16),
        (64, 9, {}, 9),
        (64, 2, {"widest_pass": 8}, 8),
        (64, 2, {"widest_pass": 15}, 8),
        (64, 2, {"max_entries": 64 * 4}, 4),
        (64, 2, {"max_entries": 64 * 8 - 1}, 4),
        (64, 16, {"max_entries": 64}, 16),
    ],
)
def test_a_pass_is_as_wide_as_the_lists_of_most_rows(xp, n_long, width, options, expected):
    scores = np.tile(np.linspace(0.0, -1.0, 11), (64, 1))  # each a tenth from the next
    scores[n_long:, 1:] -= 9.0
    region = TrustRegion(xp.asarray(np.zeros(11)), xp.asarray(np.full(11, 0.41)))
    made = SolverOptions(**options)
    found = wanted_width(score_source(xp.asarray(scores)), region, width, options=made)
    assert found == expected


def test_so_few_long_lists_may_be_cut(xp):
    """Of 1,024 rows that are looked at, one in twenty, and no more."""
    for n_long, expected in ((51, 2), (52, 16)):
        scores = np.tile(np.linspace(0.0, -1.0, 11), (1024, 1))
        scores[n_long:, 1:] -= 9.0
        region = TrustRegion(xp.asarray(np.zeros(11)), xp.asarray(np.full(11, 0.41)))
        options = SolverOptions(range_rows=1024)
        source = score_source(xp.asarray(np.tile(scores, (16, 1))))
        assert wanted_width(source, region, 2, options=options) == expected
