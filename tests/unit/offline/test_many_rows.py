"""More than a million rows, of which each counts: labels, sizes and values."""

from __future__ import annotations

import numpy as np

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.offline._free_rows import split_rows
from dualclust.algos.offline.assignment import assign_exact

N = 2**20 + 2**15 + 3_001  # blocks of rows begin and end beyond 2^20


def test_the_best_rows_of_more_than_a_million_are_chosen() -> None:
    """Cluster 0 gets the rows whose score is largest there; all are worth 0 in cluster 1."""
    worth = np.random.default_rng(41).permutation(N).astype(np.float64)
    scores = np.stack([worth, np.zeros(N)], axis=1)
    first = N // 3
    bounds = SizeBounds.from_counts([first, N - first], [first, N - first], n_samples=N)
    found = assign_exact(scores, bounds)

    np.testing.assert_array_equal(found.labels, np.where(worth >= N - first, 0, 1))
    assert found.counts.tolist() == [first, N - first]
    objective = float(np.sum(worth[worth >= N - first]))  # whole numbers below 2^53: exact
    assert found.objective == objective
    assert found.status == "optimal"
    assert found.gap == 0.0
    assert found.upper_bound == objective


def test_the_text_keeps_the_lists_of_more_than_a_million() -> None:
    """The last five rows are fixed, each in a cluster of its own."""
    first = np.arange(N, dtype=np.int32)
    clusters, two = np.stack([first, (first + 1) % N], axis=1), np.full(N, 2)
    two[-5:] = 1
    values, lost = np.zeros((N, 2)), np.arange(N, dtype=np.float64)
    sizes = {"n_clusters": N, "largest": 0.0, "limit": 1.0}
    found = split_rows.reference(clusters, values, two, lost, **sizes)
    np.testing.assert_allclose(found[4], lost[:-5], rtol=1e-12)
    assert np.flatnonzero(found[5]).tolist() == list(range(N - 5, N))
