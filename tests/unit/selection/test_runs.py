"""Clusterings of a sample and of its halves: starts, bounds, labels, and which centers are kept."""

import math

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import implied_bounds
from dualclust.algos.clustering.constrained import constrained_kmeans
from dualclust.algos.clustering.lloyd import kmeans
from dualclust.algos.clustering.start import start_centers
from dualclust.algos.scores.sources import feature_source
from dualclust.algos.selection._runs import (
    FREE,
    Run,
    bounds_of,
    halves,
    label_rows,
    runs_of,
    stabilities,
)
from dualclust.algos.selection.agreement import adjusted_rand_index
from tests.compare import assert_same_kind, to_numpy
from tests.libraries import ONE_EACH
from tests.problems import unit_rows

each_library = pytest.mark.parametrize("library", ONE_EACH, ids=lambda row: row.name)


def rows_of(metric, n=60, d=3, seed=0):
    x = np.random.default_rng(seed).normal(size=(n, d))
    return unit_rows(x) if metric == "cosine" else x


@each_library
def test_bounds_are_rounded_outward(library):
    like = library.asarray(np.zeros(1))
    found = bounds_of((0.8, 1.3), 3, 10, like)  # of 3.33: 2.67 and 4.33
    assert to_numpy(found.lower).tolist() == [2] * 3
    assert to_numpy(found.upper).tolist() == [5] * 3
    assert found.n_samples == 10
    assert_same_kind(found.lower[:1], library.asarray(np.zeros(1, np.int64)))
    free = implied_bounds(bounds_of(FREE, 3, 10, like))
    assert [to_numpy(b).tolist() for b in free] == [[0] * 3, [10] * 3]


@each_library
@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
@pytest.mark.parametrize("with_prices", [False, True])
def test_labels_and_their_value_by_definition(library, metric, with_prices):
    """In several blocks, of which the last is not full."""
    x, prices = rows_of(metric, 20_000), np.asarray([0.3, -0.2, 0.0, 0.1])
    centers = rows_of(metric, 4, seed=1)
    scores = x @ centers.T
    scores = scores if metric == "cosine" else scores - 0.5 * (centers**2).sum(axis=1)
    scores = scores + prices if with_prices else scores
    given = library.asarray(prices) if with_prices else None
    run = Run(library.asarray(centers), given, None, 0.0, 0.0)
    labels, value = label_rows(library.asarray(x), run, metric=metric)
    np.testing.assert_array_equal(to_numpy(labels), scores.argmax(axis=1))
    assert_same_kind(labels, library.asarray(np.zeros(20_000, np.int64)))
    assert value == pytest.approx(scores.max(axis=1).sum(), rel=1e-12)


def test_prices_are_not_rounded_to_the_dtype_of_the_rows():
    """Scores tie in float32; the prices, whose digits float32 does not hold, decide."""
    x, centers = np.asarray([[1.0, 0.0]], np.float32), np.ones((2, 2), np.float32)
    run = Run(centers, np.asarray([0.0, 1e-12]), None, 0.0, 0.0)
    assert label_rows(x, run, metric="cosine")[0].tolist() == [1]


@each_library
@pytest.mark.parametrize("m", [2, 7, 8])
def test_halves_are_disjoint_and_of_equal_length(library, m):
    like = library.asarray(np.zeros(1))
    one, other = halves(m, 3, like)
    assert one.shape == other.shape == (m // 2,)
    ids = [*to_numpy(one).tolist(), *to_numpy(other).tolist()]
    assert len(set(ids)) == m // 2 * 2
    assert set(ids) <= set(range(m))
    assert_same_kind(one[:1], library.asarray(np.zeros(1, np.int64)))


def test_halves_are_drawn_by_the_seed():
    like = np.zeros(1)
    drawn = [halves(100, seed, like) for seed in (0, 0, 1)]
    assert np.array_equal(drawn[0][0], drawn[1][0])
    assert not np.array_equal(drawn[0][0], drawn[2][0])
    # Not by their place: each half has rows from all over.
    assert all(35 <= half.mean() <= 64 for pair in drawn for half in pair)


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_the_free_run_is_the_best_of_all_starts(metric):
    x = rows_of(metric, 80, 2)
    source = feature_source(x)
    ends = [
        kmeans(x, start_centers(source, 6, seed=s, metric=metric), metric=metric, max_iter=50)
        for s in range(5, 9)
    ]
    values = [end.objective for end in ends]
    assert len({round(v, 6) for v in values}) > 1
    for n_init in (1, 2, 4):
        (found,) = runs_of(x, 6, (FREE,), metric=metric, seed=5, n_init=n_init)
        best = ends[int(np.argmax(values[:n_init]))]
        np.testing.assert_array_equal(found.labels, best.labels)
        assert (found.prices, found.lost, found.gap) == (None, 0.0, 0.0)
    worst, best = ends[int(np.argmin(values))], ends[int(np.argmax(values))]
    start = 5 + int(np.argmin(values))
    for centers, expected in ((best.centers, best), (worst.centers, worst)):
        (found,) = runs_of(x, 6, (FREE,), metric=metric, seed=start, n_init=1, centers=centers)
        np.testing.assert_array_equal(found.labels, expected.labels)


@pytest.mark.parametrize("given", [False, True])
def test_bounds_start_from_the_best_centers_and_may_lead_to_better_ones(given):
    """A bounded run that ends no better changes nothing, one that does is where the next begins."""
    shares, better = ((0.5, 2.0), (0.0, 2.0), (1.0, 1.0)), []
    for seed in range(12):
        x = rows_of("euclidean", 90, 2, seed)
        x[:30] += [6.0, 0.0]  # three groups of equal sizes: bounds lead to them
        x[30:60] += [0.0, 6.0]
        source, options = feature_source(x), {"metric": "euclidean", "tol": 1e-3}

        def lloyd(centers, x=x, options=options):
            return kmeans(x, centers, max_iter=50, **options)

        starts = [start_centers(source, 6, seed=s, metric="euclidean") for s in (seed, seed + 1)]
        free = max((lloyd(centers) for centers in starts), key=lambda end: end.objective)
        centers = x[:6] if given else None
        if given and (other := lloyd(centers)).objective > free.objective:
            free = other
        runs = runs_of(
            x, 6, (FREE, *shares), metric="euclidean", seed=seed, n_init=2, centers=centers
        )
        for pair, run in zip(shares, runs[1:], strict=True):
            bound = constrained_kmeans(x, bounds_of(pair, 6, 90, x), free.centers, **options)
            found = bound.assignment
            np.testing.assert_array_equal(run.centers, bound.centers)
            np.testing.assert_array_equal(run.labels, found.labels)
            np.testing.assert_array_equal(run.prices, found.prices)
            assert (run.lost, run.gap) == (found.upper_bound - found.objective, found.gap)
            better.append(bound.objective > free.objective)
            free = lloyd(bound.centers) if better[-1] else free
        np.testing.assert_array_equal(runs[0].centers, free.centers)
        np.testing.assert_array_equal(runs[0].labels, free.labels)
    assert 0 < sum(better) < len(better)


def test_given_centers_that_are_no_better_change_nothing():
    """The best clusters in another order are worth as much, and their names are not taken."""
    x = np.asarray([[0.0], [1.0], [10.0], [11.0], [20.0], [21.0]])
    options = {"metric": "euclidean", "seed": 2, "n_init": 3}
    (alone,) = runs_of(x, 3, (FREE,), **options)
    assert sorted(alone.centers[:, 0].tolist()) == [0.5, 10.5, 20.5]
    (found,) = runs_of(x, 3, (FREE,), centers=alone.centers[::-1].copy(), **options)
    np.testing.assert_array_equal(found.labels, alone.labels)
    poor = np.asarray([[0.0], [1.0], [15.0]])  # a local optimum
    (found,) = runs_of(x, 3, (FREE,), centers=poor, **options)
    np.testing.assert_array_equal(found.labels, alone.labels)


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_stability_by_its_definition(metric):
    x, k, shares = rows_of(metric, 50, 2), 4, (FREE, (0.9, 1.1))
    splits = [halves(50, seed, x) for seed in (7, 8, 9)]
    options = {"metric": metric, "seed": 1, "n_init": 2}
    found, centers = stabilities(x, k, shares, splits, **options)
    expected, best, kept = [[], []], -math.inf, None
    for split in splits:
        labels = []
        for half in split:
            runs = runs_of(x[half], k, shares, **options)
            labeled = [label_rows(x, run, metric=metric) for run in runs]
            labels.append([own for own, _ in labeled])
            if labeled[0][1] > best:
                best, kept = labeled[0][1], runs[0].centers
        for i in range(2):
            expected[i].append(adjusted_rand_index(labels[0][i], labels[1][i], k))
    assert found == expected
    assert len({*found[0], *found[1]}) > 2
    np.testing.assert_array_equal(centers, kept)
