"""The text of `best_products`: what the kernels in Triton are compared with, and who takes it."""

import numpy as np
import pytest

from dualclust.algos.scores.nearest import best_products, nearest_without_scores
from dualclust.algos.scores.sources import feature_source, product_source, score_source
from tests.compare import to_numpy


@pytest.mark.parametrize("levels", [1, 10**6])
def test_labels_and_values_are_those_of_exact_products(xp, levels):
    rng = np.random.default_rng(0)
    x, c = (rng.integers(-levels, levels + 1, size=(n, 5)) for n in (40, 12))
    offsets = rng.integers(-levels, levels + 1, size=12)
    offsets[3] = -(2**60)  # never the best
    exact = x @ c.T + offsets  # int64
    given = [xp.asarray(a.astype(np.float32)) for a in (x, c)]
    labels, values = best_products(*given, xp.asarray(offsets.astype(np.float64)))
    np.testing.assert_array_equal(to_numpy(labels), exact.argmax(axis=1), strict=True)
    np.testing.assert_array_equal(to_numpy(values), exact.max(axis=1).astype(float), strict=True)


def test_nobody_takes_it_where_no_engine_has_it(xp):
    x, c = (xp.asarray(np.ones((n, 3), dtype=np.float32)) for n in (5, 2))
    features = feature_source(x)._replace(largest=1.0)
    assert product_source(features, c).factors is not None
    assert nearest_without_scores(product_source(features, c), None) is None
    assert nearest_without_scores(score_source(x @ c.T), None) is None
