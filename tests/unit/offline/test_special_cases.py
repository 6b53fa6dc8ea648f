"""Best clusters without prices: where they can be inside the bounds, and whether they prove it."""

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.offline import DEFAULT_OPTIONS, SolverOptions, _special_cases
from dualclust.algos.offline._candidates import TooManyCandidatesError, collect_candidates
from dualclust.algos.offline._special_cases import bounds_may_be_inactive, labels_without_prices
from dualclust.algos.scores.sources import score_source
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
        bounds = SizeBounds.from_counts(lower, upper, n_samples=6, **library.place)
        assert bounds_may_be_inactive(source, bounds) is expected
        found = labels_without_prices(source, bounds, 0.0, DEFAULT_OPTIONS)
        assert (found is not None) is expected
        if found is not None:
            assert (found.objective, found.gap, found.violation) == (11.0, 0.0, 0)
            assert found.phase == "ties"


def test_a_few_rows_stand_for_all():
    """Two of six rows: a share of a third of them may be as much as all of it."""
    source = score_source(SCORES[:, :2])
    options = SolverOptions(typical_rows=2)
    rows = source.take(np.asarray([0, 5]))  # those of `strided_ids`
    assert rows.argmax(axis=1).tolist() == [0, 0]
    for lower, upper, expected in (
        ([6, 0], [6, 6], True),
        ([5, 1], [6, 6], False),
        ([0, 0], [6, 6], True),
        ([0, 0], [5, 6], False),
    ):
        bounds = SizeBounds.from_counts(lower, upper, n_samples=6)
        assert bounds_may_be_inactive(source, bounds, options=options) is expected


def test_labels_that_prove_too_little_are_none(monkeypatch):
    source = score_source(SCORES)
    bounds = SizeBounds.from_counts([0] * 3, n_samples=6)
    real = _special_cases.proven

    def worse(*args):
        found, rest = real(*args)
        return found._replace(gap=0.25), rest

    monkeypatch.setattr(_special_cases, "proven", worse)
    assert labels_without_prices(source, bounds, 0.25, DEFAULT_OPTIONS) is not None
    assert labels_without_prices(source, bounds, 0.2, DEFAULT_OPTIONS) is None


def test_more_ties_than_memory_holds_are_none(monkeypatch):
    source = score_source(np.zeros((6, 3)))
    bounds = SizeBounds.from_counts([2] * 3, n_samples=6)
    enough = SolverOptions(max_entries=18)
    found = labels_without_prices(source, bounds, 0.0, enough)
    assert found is not None
    assert found.counts.tolist() == [2, 2, 2]
    more = score_source(np.zeros((6, 40)))  # some of these are enough
    free, some = SizeBounds.from_counts([0] * 40, n_samples=6), SolverOptions(max_entries=6 * 16)
    assert labels_without_prices(more, free, 0.0, some) is not None
    few = SolverOptions(max_entries=17)
    assert labels_without_prices(source, bounds, 0.0, few) is None
    with pytest.raises(TooManyCandidatesError):
        collect_candidates(source, np.zeros(3), np.zeros(3), width=3, max_entries=17)
