"""What a dry run says of time: samples that grow, and a line through their times."""

from __future__ import annotations

import itertools

import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.clustering.constrained import constrained_kmeans
from dualclust.algos.scores.blocks import block_rows
from dualclust.algos.scores.sources import feature_source
from dualclust.cluster.choice_forecast import choice_forecast
from dualclust.cluster.forecast import forecast

OPTIONS = {"metric": "euclidean", "max_iter": 100, "tol": 1e-3, "gap": 1e-4, "empty": "relocate"}


def rows_of(rng, n, k):
    return rng.normal(size=(n, 4)) + 2.0 * rng.normal(size=(k, 4))[rng.integers(k, size=n)]


def told(x, k, clock):
    bounds = SizeBounds.from_ratios(k, n_samples=len(x), lower=0.9, upper=1.1)
    return forecast(feature_source(x), bounds, lambda: x[:k], weights=None, clock=clock, **OPTIONS)


def test_few_rows_are_clustered_as_they_are(rng):
    x, k = rows_of(rng, 3_000, 5), 5
    bounds = SizeBounds.from_ratios(k, n_samples=len(x), lower=0.9, upper=1.1)
    found = told(x, k, itertools.count().__next__)
    whole = constrained_kmeans(x, bounds, x[:k], **OPTIONS)
    assert (found.rows, found.updates) == (3_000, whole.n_iter)
    # Each stretch takes a second of this clock: the start, a block for each pass, the run.
    assert found.seconds == 1.0 + (whole.n_iter + 4) + 1.0


@pytest.mark.parametrize(("seconds", "rows"), [(0.0, 16_384), (9.0, 4_096)])
def test_samples_grow_while_they_cost_little(rng, seconds, rows):
    """A clock by which every stretch takes the same: the line is flat, but for its least slope."""
    x, k = rows_of(rng, 40_000, 100), 100
    now = itertools.count()
    found = told(x, k, lambda: seconds * next(now))
    assert found.rows == rows
    blocks = 40_000 / block_rows(k)
    reading = seconds * blocks * (found.updates + 4)
    run = seconds * (1.0 + (40_000 - rows) / rows)
    assert found.seconds == pytest.approx(seconds + reading + run)


def test_the_time_of_a_range_grows_with_its_ks(rng):
    source = feature_source(rows_of(rng, 2_000, 3))
    options = {"metric": "euclidean", "seed": 0, "n_drawn": None, "n_init": 1, "n_splits": 2}

    def seconds(ks):
        return choice_forecast(source, ks, [], clock=itertools.count().__next__, **options)

    # One block, read twice, and a second for the largest k; the others take their share.
    assert seconds([3]) == 2.0 + 1.0
    assert seconds([2, 4]) == 2.0 + 6 / 4
    assert seconds([2, 3, 7]) == 2.0 + 12 / 7
