"""The text of `best_products`: what the kernels in Triton are compared with, and who takes it."""

import numpy as np
import pytest

from dualclust.algos.bounds.loads import LoadBounds
from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.clustering._restrictions import restrictions_of
from dualclust.algos.offline.grouped._links import links_of
from dualclust.algos.offline.grouped._relaxation import merged
from dualclust.algos.offline.weighted._problem import problem_of
from dualclust.algos.scores.nearest import best_products, nearest_without_scores
from dualclust.algos.scores.sources import Products, feature_source, product_source, score_source
from dualclust.algos.scores.statistics import kept_in_memory, rescaled
from dualclust.cluster.distances import nearest_centers
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
    assert isinstance(product_source(features, c).block, Products)
    assert nearest_without_scores(product_source(features, c), None) is None
    assert nearest_without_scores(score_source(x @ c.T), None) is None


BOUNDS = SizeBounds.from_counts([0] * 3, [40] * 3, n_samples=40)
MADE_ANEW = {
    "other blocks": lambda source: source._replace(block=lambda a, b: -source.block(a, b)),
    "kept in memory": lambda source: kept_in_memory(source, like=np.zeros(1)),
    "in another unit": rescaled,
    "fixed rows": restrictions_of(np.arange(40) % 3, None, BOUNDS).of_scores,
    "forbidden pairs": restrictions_of(
        None, np.asarray([[i, i % 3] for i in range(40)]), BOUNDS
    ).of_scores,
    "linked rows": lambda source: merged(
        source, BOUNDS, links_of([(i, i + 1) for i in range(30)], [], 3)
    ).of_means(),
    "rows too large": lambda source: (
        problem_of(
            source,
            LoadBounds.from_loads(np.arange(40.0), 3, upper=np.asarray([10.0, 20.0, 800.0])),
        )[0].source
    ),
}


@pytest.mark.parametrize("name", MADE_ANEW)
def test_scores_made_anew_are_no_products(name):
    """An engine would multiply the features again, and find other scores."""
    rng = np.random.default_rng(5)
    x, c = (rng.normal(size=(n, 4)).astype(np.float32) for n in (40, 3))
    source = product_source(feature_source(x)._replace(largest=8.0), c)
    assert isinstance(source.block, Products)
    anew = MADE_ANEW[name](source)
    assert not isinstance(anew.block, Products)
    labels, unchanged = (made.block(0, 40).argmax(axis=1) for made in (anew, source))
    np.testing.assert_array_equal(nearest_centers(anew), labels)
    assert (labels == unchanged).all() == (name in ("kept in memory", "in another unit"))
