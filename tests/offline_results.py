"""What an offline result states about itself, recomputed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.online.certificates import dual_value, violation
from tests.compare import to_numpy

__all__ = ["check"]


def check(found: Any, scores: Any, bounds: SizeBounds, weights: Any = None) -> float:
    """Check labels, counts, value and bound by the scores; return what the prices prove."""
    s, labels, sizes = (to_numpy(a) for a in (scores, found.labels, found.counts))
    s = s.astype(np.float64) * (1.0 if weights is None else weights[:, None])
    n, k = s.shape
    assert labels.shape == (n,)
    assert labels.dtype == np.int64
    np.testing.assert_array_equal(np.bincount(labels, minlength=k), sizes)
    assert violation(found.counts, bounds) == found.violation == 0
    scale = n * np.abs(s[np.isfinite(s)]).max() + 1e-300
    assert found.objective == pytest.approx(s[np.arange(n), labels].sum(), abs=1e-12 * scale)
    # No prices can prove more than the value of some labels, and these prove the bound stated.
    prices = to_numpy(found.prices)
    best = dual_value(s, prices, SizeBounds.from_counts(bounds.lower, bounds.upper, n_samples=n))
    slack = 1e-12 * (scale + n * np.abs(prices).sum())
    assert best >= found.objective - slack
    assert found.upper_bound >= found.objective - slack
    if found.status == "optimal":
        assert best == pytest.approx(found.objective, abs=slack)
    return best
