"""What lists prove that have been cut short, against the optimum of the linear program."""

import math

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.offline import assignment
from dualclust.algos.offline._candidates import list_open
from dualclust.algos.offline._reduced import solve_lists
from dualclust.algos.offline._trust_region import PriceBox
from dualclust.algos.offline.assignment import assign_offline
from dualclust.algos.scores.sources import score_source
from tests.reference.test_transport import highs


def problem(seed):
    """Bounds around the sizes of some labels, and a box that hides many clusters."""
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(20, 60)), int(rng.integers(4, 8))
    scores = rng.normal(size=(n, k)) + rng.normal(size=k) * (seed % 3)
    sizes = np.bincount(rng.integers(0, k, n), minlength=k)
    lower, upper = np.maximum(sizes - 1, 0).tolist(), (sizes + 1).tolist()
    box = PriceBox(0.3 * rng.normal(size=k), np.full(k, rng.choice([0.5, 2.0, 8.0])))
    return scores, lower, upper, box


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_labels_are_worth_more_than_lists_prove(dtype):
    """Most of these lists hide clusters that the optimum needs: labels are not optimal."""
    solved = worse = cut = 0
    for seed in range(150):
        scores, lower, upper, box = problem(seed)
        scores = scores.astype(dtype)
        bounds = SizeBounds.from_counts(lower, upper, n_samples=len(scores))
        low, high = box.prices - box.radius, box.prices + box.radius
        listing = list_open(score_source(scores), low, high, width=2)
        found, _, bound = solve_lists(listing, bounds, box, 0.0, hopeless=math.inf)
        best = highs(scores.astype(np.float64), lower, upper)
        slack = 1e-9 * np.abs(scores).sum()
        assert bound >= best - slack, seed
        if found is None:
            continue
        assert found.objective <= best + slack, seed
        assert found.upper_bound >= best - slack, seed
        assert found.gap >= (best - found.objective - slack) / np.abs(scores).max(axis=1).sum()
        solved += 1
        cut += bool((listing.cuts > -math.inf).any())
        if found.objective < best - slack:
            assert found.status == "within gap", seed
            worse += 1
    assert solved >= 30
    assert cut >= 30
    assert worse >= 10


def test_a_gap_above_the_tolerance_is_not_the_end(monkeypatch, rng):
    """Labels that have not proven the tolerance are followed by another pass."""
    monkeypatch.setattr(assignment, "FULL_ENTRIES", 0)
    scores = rng.normal(size=(300, 5)) + rng.normal(size=5)
    bounds = SizeBounds.from_ratios(5, n_samples=300, lower=0.9, upper=1.1)
    gaps, tolerance = iter([5.0, 1.5, 1.0, 0.5]), 1e-4
    real, calls = assignment.solve_lists, []

    def first_worse(*args, **options):
        found, prices, bound = real(*args, **options)
        if found is not None:
            found = found._replace(gap=next(gaps) * tolerance)
            calls.append(found.gap)
        return found, prices, bound

    monkeypatch.setattr(assignment, "solve_lists", first_worse)
    found = assign_offline(scores, bounds, tol=tolerance)
    assert calls == [5.0 * tolerance, 1.5 * tolerance, tolerance]
    assert found.gap == tolerance
