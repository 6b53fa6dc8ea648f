"""A radius around the prices given saves work, and costs no label where it is wrong."""

from dataclasses import replace

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.core.errors import InvalidValueError
from dualclust.algos.offline import DEFAULT_OPTIONS
from dualclust.algos.offline._special_cases import bounds_may_be_inactive
from dualclust.algos.offline.assignment import (
    assign_exact,
    assign_offline,
    assign_source,
)
from dualclust.algos.scores.sources import score_source
from dualclust.algos.scores.statistics import strided_ids

PASSES = replace(DEFAULT_OPTIONS, few_clusters=0)


@pytest.mark.parametrize("reach", [1e-300, 4e-9, 4e-3, 4.0, 1e300])
@pytest.mark.parametrize(
    ("dtype", "unit"),
    [(np.float32, 1.0), (np.float32, 1e-30), (np.float64, 2.0**400), (np.float64, 1e-200)],
)
def test_no_radius_is_wrong(rng, reach, dtype, unit):
    """Right, too small, too large, and such that no score can be added to it, or it to none."""
    n, k = 9_000, 12
    scores = (unit * rng.normal(size=(n, k))).astype(dtype)
    bounds = SizeBounds.from_ratios(k, n_samples=n, lower=0.9, upper=1.1)
    best = assign_exact(scores, bounds, options=PASSES)
    near = best.prices + rng.normal(size=k) * 1e-3 * unit
    radius = np.full(k, reach if reach in (1e-300, 1e300) else reach * unit)
    found = assign_offline(
        scores, bounds, prices=near, price_radius=radius, tol=0.0, options=PASSES
    )
    assert (found.gap, found.violation) == (0.0, 0)
    assert abs(found.objective - best.objective) <= found.rounding + best.rounding


def test_prices_beyond_their_radius_are_found_all_the_same(rng):
    """As where online passes are the last resort: the passes from samples prove more."""
    n, k = 3_000, 30
    scores = rng.normal(size=(n, k))
    bounds = SizeBounds.from_ratios(k, n_samples=n, lower=0.9, upper=1.1)
    far = assign_exact(scores, bounds).prices
    far[3] += 1.0
    small = replace(DEFAULT_OPTIONS, last_entries=1_000, max_entries=11 * n)
    for radius in (
        None,
        np.full(k, 1e-3),
        np.full(k, 1e-2),
        np.where(np.arange(k) == 3, 1.5, 1e-3),
    ):
        found = assign_offline(
            scores, bounds, prices=far, price_radius=radius, tol=1e-3, options=small
        )
        assert found.gap <= 1e-3


def counting(scores):
    """A source, and how many rows are read at a time."""
    source, read = score_source(scores), []
    return source._replace(
        block=lambda a, b: read.append(b - a) or source.block(a, b),
        take=lambda ids: read.append(len(ids)) or source.take(ids),
    ), read


@pytest.mark.unjudged(reason="it counts the rows that are read")
def test_who_has_prices_pays_for_no_pass_without_them(rng):
    """Though few rows say that bounds do not bind: cluster 0 is more wanted by all others."""
    n, k = 20_000, 4
    scores = rng.normal(size=(n, k))
    few = strided_ids(n, DEFAULT_OPTIONS.typical_rows, np.zeros(1))
    scores[np.setdiff1d(np.arange(n), few), 0] += 0.5
    bounds = SizeBounds.from_ratios(k, n_samples=n, lower=0.8, upper=1.2)
    assert bounds_may_be_inactive(score_source(scores), bounds)
    prices = assign_exact(scores, bounds, options=PASSES).prices
    source, read = counting(scores)
    given = {"prices": prices, "price_radius": np.full(k, 1e-2), "options": PASSES}
    assert assign_source(source, bounds, **given).gap <= 1e-4
    assert sum(read) < 1.2 * n


@pytest.mark.unjudged(reason="it counts the rows that are read")
def test_each_price_has_a_radius_of_its_own(rng):
    """One that is far off costs no further pass if that is known, and few candidates."""
    n, k = 20_000, 16
    scores = rng.normal(size=(n, k))
    bounds = SizeBounds.from_ratios(k, n_samples=n, lower=0.9, upper=1.1)
    far = assign_exact(scores, bounds, options=PASSES).prices
    far[3] -= 0.5
    counted, read = counting(scores)
    own = np.where(np.arange(k) == 3, 0.6, 1e-2)
    n_read = []
    for radius in (own, np.full(k, 1e-2)):
        read.clear()
        found = assign_source(counted, bounds, prices=far, price_radius=radius, options=PASSES)
        assert found.gap <= 1e-4
        n_read.append(sum(read))
    assert n_read[0] < 1.2 * n < n_read[1]


def test_a_radius_that_says_nothing_is_refused(xp, rng):
    scores, zeros = xp.asarray(rng.normal(size=(6, 2))), np.zeros(2)
    bounds = SizeBounds.from_ratios(2, n_samples=6, **xp.place)
    for prices, radius, words in (
        (None, zeros + 1.0, "come with prices, got no prices. To fix this, leave it out"),
        (zeros, zeros[:1] + 1.0, r"price_radius must have shape \(2,\)"),
        (zeros, np.asarray([1.0, np.nan]), "price_radius must be finite"),
        (
            zeros,
            np.asarray([1.0, 0.0]),
            "price_radius must be above 0 for each cluster, and come with prices, got 0. To fix",
        ),
        (zeros, np.asarray([-0.5, 1.0]), "and come with prices, got -0.5"),
    ):
        given = {"prices": None if prices is None else xp.asarray(prices)}
        for solve in (assign_offline, assign_exact):
            with pytest.raises(InvalidValueError, match=words):
                solve(scores, bounds, price_radius=xp.asarray(radius), **given)
