"""k-means whose search is cut short at any look gives up nothing that an update has found.

Sizes have little slack, so that labels of online passes are worth less than those of an update.
"""

import numpy as np
import pytest

from benchmarks.families import heavy_tails
from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.clustering.constrained import constrained_kmeans
from dualclust.algos.scores.deadline import Deadline

N, K = 6_000, 50


@pytest.fixture(scope="module")
def rows():
    return heavy_tails(N, 70, 0).astype(np.float64)


def cut_at(rows, looks):
    """What a run has found whose deadline is looked at so many times, and the states before."""
    seen, left = [], [looks]

    def asked():
        left[0] -= 1
        return left[0] < 0

    found = constrained_kmeans(
        rows,
        SizeBounds.from_ratios(K, n_samples=N, lower=0.98, upper=1.02),
        rows[:K],
        metric="euclidean",
        progress=lambda state, _: seen.append(state),
        time_limit=Deadline(asked=asked),
    )
    assert 117 <= found.counts.min() <= found.counts.max() <= 123
    return found, seen, looks - left[0]


def test_labels_are_worth_what_the_last_update_has_found(rows):
    whole, _, n_looks = cut_at(rows, 10**9)
    assert whole.converged
    values = []
    for looks in range(3, n_looks, 3):
        found, seen, _ = cut_at(rows, looks)
        if seen:
            assert np.array_equal(found.centers, seen[-1].centers)
            assert found.objective >= max(s.objective for s in seen) * (1.0 - 1e-9)
        values.append(found.objective)
    assert len(values) > 10
    assert values[-1] > values[0]
