"""The y-update at its largest sizes: a million rows, ten thousand classes."""

import numpy as np
import pytest

from dualclust.algos.pseudo_labels.solver import pseudo_labels


def softmax(rng, m, k, scale):
    logits = scale * rng.normal(size=(m, k)) + rng.normal(size=k)
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


@pytest.mark.slow
@pytest.mark.parametrize(("m", "k"), [(1_000_000, 10), (200, 10_000)])
@pytest.mark.parametrize("scale", [1.0, 8.0])
def test_large_problems_are_solved_to_their_gap(m, k, scale):
    sigma = softmax(np.random.default_rng(0), m, k, scale)
    found = pseudo_labels(sigma, fairness_weight=10.0, tol=1e-8)
    assert float(found.gap) <= 1e-8
    y = found.labels
    assert y.shape == (m, k)
    assert np.isfinite(y).all()
    assert (y >= 0).all()
    np.testing.assert_allclose(y.sum(axis=1), 1.0, atol=1e-9)
