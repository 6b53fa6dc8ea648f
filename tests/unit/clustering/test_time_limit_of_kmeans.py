"""A time limit ends k-means with the labels of its last iteration, on all ranks together."""

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.clustering.constrained import constrained_kmeans
from dualclust.algos.scores.deadline import Deadline
from dualclust.algos.scores.sources import feature_source
from tests.thread_ranks import groups_on_threads
from tests.unit.offline.test_time_limit import Asked


@pytest.mark.parametrize("looks", [1, 4, 9])
def test_ranks_that_cluster_a_sample_each_by_itself_end_together(looks, rng):
    """The first updates are those of a sample, which every rank computes alone."""
    n, k, edges = 36_000, 8, [0, 16_384, 36_000]
    x = rng.normal(size=(n, 4)) + 2.0 * rng.normal(size=(k, 4))[rng.integers(k, size=n)]
    bounds = SizeBounds.from_ratios(k, n_samples=n, lower=0.9, upper=1.1)

    def run(group):
        first, last = group.first_row, group.first_row + group.n_local
        source = feature_source(x)  # whose rows are taken from wherever they are
        source = source._replace(rows=lambda a, b: x[first:last][a:b], group=group)
        limit = Deadline(looks if first else 1e9, clock=Asked())
        return constrained_kmeans(source, bounds, x[:k], metric="euclidean", time_limit=limit)

    one, other = groups_on_threads(edges, run)
    assert np.array_equal(one.centers, other.centers)
    assert one.gap == other.gap
    counts = np.bincount(np.concatenate([one.labels, other.labels]), minlength=k)
    assert counts.tolist() == one.counts.tolist()
    assert (np.asarray(bounds.lower) <= counts).all()
    assert (counts <= np.asarray(bounds.upper)).all()


@pytest.mark.parametrize("lower", [0.0, 0.9])
def test_k_means_ends_with_the_labels_of_its_last_iteration(lower, rng):
    """With bounds and without: a clock that stops it early, and one that never does."""
    n, k = 6_000, 20
    x = rng.normal(size=(n, 8)) + 3.0 * rng.normal(size=(k, 8))[rng.integers(k, size=n)]
    bounds = SizeBounds.from_ratios(k, n_samples=n, lower=lower, upper=1.1 if lower else np.inf)

    def run(time_limit):
        seen = []
        found = constrained_kmeans(
            x,
            bounds,
            x[:k],
            metric="euclidean",
            progress=lambda state, _: seen.append(state),
            time_limit=time_limit,
        )
        return found, seen

    whole, _ = run(None)
    clock = Asked()
    same, seen = run(Deadline(1e9, clock=clock))
    assert same.labels.tolist() == whole.labels.tolist()
    assert same.n_iter == len(seen) > 3
    for part in (1, int(clock.now) // 3, 2 * int(clock.now) // 3):
        found, seen = run(Deadline(part, clock=Asked()))
        assert found.n_iter == len(seen) < whole.n_iter
        assert not found.converged
        counts = np.bincount(found.labels, minlength=k)
        assert (np.asarray(bounds.lower) <= counts).all()
        assert (counts <= np.asarray(bounds.upper)).all()
        if seen:
            assert np.array_equal(found.centers, seen[-1].centers)
    at_once, seen = run(0.0)
    assert (at_once.n_iter, seen) == (0, [])
