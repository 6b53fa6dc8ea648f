"""Options at their extremes: labels and proofs as by any others, or an error with the rule."""

import numpy as np

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.offline import SolverOptions, assign_offline
from tests.compare import to_numpy


def counted(xp, counts):
    return SizeBounds.from_counts(
        counts, counts, n_samples=sum(counts), xp=xp.namespace, device=xp.device
    )


def test_a_gap_of_rounding_alone_is_finite(xp):
    # All scores are 0, and so is the bound; what prices add and take away is rounded.
    options = SolverOptions(
        full_entries=0, max_entries=64, entries_per_row=0.0, max_passes=2, min_sample_rows=2
    )
    counts = [1, 4, 2, 1, 2, 1, 1]
    found = assign_offline(
        xp.asarray(np.zeros((12, 7))), counted(xp, counts), tol=1e-9, options=options
    )
    assert np.bincount(to_numpy(found.labels)).tolist() == counts
    assert found.objective == found.upper_bound == 0.0
    assert 0.0 <= found.gap <= 2.0
