"""k-means++ on many rows draws from some of them, spread evenly."""

import numpy as np
import pytest

from dualclust.algos.clustering.start import kmeans_plus_plus, start_centers
from dualclust.algos.core.errors import InvalidValueError
from dualclust.algos.scores.sources import FeatureSource, alone
from tests.compare import assert_equal


def test_of_many_rows_some_take_part():
    """As many as `start_centers` reads; all where they are asked for, or where weights need it."""
    x = np.random.default_rng(0).normal(size=(20_000, 2))
    draws = np.random.default_rng(1).random((4, 3))
    found = kmeans_plus_plus(x, draws)
    whole = kmeans_plus_plus(x, draws, n_drawn=20_000)
    assert not np.array_equal(found, whole)
    ids = [int(np.flatnonzero((x == row).all(axis=1))[0]) for row in found]
    asked = []
    source = FeatureSource(2, lambda a, b: x[a:b], lambda i: asked.append(i) or x[i], alone(20_000))
    start_centers(source, 4, seed=0, metric="euclidean")
    (read,) = asked
    assert len(read) == 4096
    assert set(ids) <= set((read - read[0]) % 20_000)  # the same steps, from the first row
    few = kmeans_plus_plus(x[:4096], draws)
    np.testing.assert_array_equal(kmeans_plus_plus(x[:4096], draws, n_drawn=9_999), few)
    weights = np.zeros(20_000)
    weights[[7, 31, 12_345, 19_999]] = 1.0
    drawn = kmeans_plus_plus(x, draws, weights)
    assert_equal(np.sort(drawn, axis=0), np.sort(x[weights > 0], axis=0))
    with pytest.raises(InvalidValueError, match="n_drawn must be at least 4"):
        kmeans_plus_plus(x, draws, n_drawn=3)
