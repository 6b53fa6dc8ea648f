"""What is assumed of the reach of the prices saves work, and costs no label where it is wrong."""

from dataclasses import replace

import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.offline import DEFAULT_OPTIONS, assignment
from dualclust.algos.offline._held_prices import Blocks
from dualclust.algos.offline.assignment import (
    assign_exact,
    assign_offline,
)


@pytest.mark.parametrize("factor", [1e-6, 1.0, 1e3], ids=["too small", "right", "too large"])
@pytest.mark.parametrize("unit", [1.0, 2.0**400], ids=["one", "huge"])
def test_a_reach_saves_the_samples_and_no_reach_is_wrong(monkeypatch, rng, factor, unit):
    from dualclust.algos.offline import _trust_region

    scores = rng.normal(size=(9_000, 12)) * unit
    bounds = SizeBounds.from_ratios(12, n_samples=9_000, lower=0.9, upper=1.1)
    passes = replace(DEFAULT_OPTIONS, few_growth=0)
    best = assign_exact(scores, bounds, options=passes)
    near = best.prices + rng.normal(size=12) * 1e-3 * unit
    sampled, real = [], _trust_region._rows_of_sample

    def spy(*args):
        sampled.append(args)
        return real(*args)

    monkeypatch.setattr(_trust_region, "_rows_of_sample", spy)
    # Prices of clusters that a region holds back would be found without samples.
    monkeypatch.setattr(assignment, "blocks_of_pass", lambda *given: Blocks([]))
    assign_offline(scores, bounds, prices=near, options=passes)
    assert sampled  # without a reach
    sampled.clear()
    known = replace(passes, price_reach=4e-3 * factor * unit)
    found = assign_offline(scores, bounds, prices=near, tol=0.0, options=known)
    assert bool(sampled) == (factor < 1.0)  # prices that are farther off are learned from samples
    assert found.gap == 0.0
    assert abs(found.objective - best.objective) <= found.rounding + best.rounding


def test_prices_beyond_their_reach_are_found_all_the_same(rng):
    """As where online passes are the last resort: the passes from samples prove more."""
    n, k = 3_000, 30
    scores = rng.normal(size=(n, k))
    bounds = SizeBounds.from_ratios(k, n_samples=n, lower=0.9, upper=1.1)
    far = assign_exact(scores, bounds).prices
    far[3] += 1.0
    small = replace(DEFAULT_OPTIONS, last_entries=1_000, retry_entries=1_000, max_entries=11 * n)
    for reach in (0.0, 1e-3, 1e-2):
        options = replace(small, price_reach=reach)
        found = assign_offline(scores, bounds, prices=far, tol=1e-3, options=options)
        assert found.gap <= 1e-3
