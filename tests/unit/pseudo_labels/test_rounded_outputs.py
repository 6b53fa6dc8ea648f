"""Outputs that rounding has left outside [0, 1] count as the nearest probability."""

from __future__ import annotations

import numpy as np
import pytest

from dualclust.algos.pseudo_labels.solver import pseudo_labels


@pytest.mark.parametrize("row", [[0.5, 0.5, -1e-6, 0.0], [1.0 + 1e-6, -1e-6, 0.0, 0.0]])
def test_labels_are_those_of_the_nearest_probabilities(row: list[float]) -> None:
    sigma = np.random.default_rng(7).dirichlet(np.full(4, 0.3), size=30)
    rounded, clipped = sigma.copy(), sigma.copy()
    rounded[3], clipped[3] = row, np.clip(row, 0.0, 1.0)
    found, expected = (pseudo_labels(s, fairness_weight=1.0) for s in (rounded, clipped))
    np.testing.assert_array_equal(found.labels, expected.labels)
    assert found.gap == expected.gap
    assert found.objective == expected.objective
