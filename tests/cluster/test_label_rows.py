"""Labels of new rows for centers that are given: nearest, at prices, inside bounds to a gap."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.offline.assignment import assign_offline
from dualclust.algos.scores.sources import feature_source
from dualclust.cluster.distances import blocks
from dualclust.cluster.labeling import label_rows
from dualclust.cluster.model import Model

N, K = 4_000, 100
MANY = 40_000  # of them, one block is the smaller part


def made(metric: str, n: int = N) -> tuple[np.ndarray, Model, np.ndarray]:
    """Rows, a model, and scores by their definition."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(n, 6))
    centers = x[:K].copy()
    size = np.full(K, n // K)
    model = Model(centers, 0.2 * rng.normal(size=K), size, size - 4, size + 4, metric, n)
    scores = x @ centers.T
    if metric == "euclidean":
        scores -= 0.5 * (centers**2).sum(axis=1)
    return x, model, scores


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
@pytest.mark.parametrize("priced", [False, True])
def test_without_bounds_each_row_has_its_best_cluster(metric: str, priced: bool) -> None:
    x, model, scores = made(metric, MANY)
    assert len(list(blocks(MANY, K, like=x))) > 2
    found = label_rows(feature_source(x), model.centers, model, bounds=None, priced=priced, gap=0.0)
    labels = (scores + model.prices * priced).argmax(axis=1)
    np.testing.assert_array_equal(found.labels, labels)
    assert found.objective == pytest.approx(scores[np.arange(MANY), labels].sum(), rel=1e-12)
    assert (found.bound, found.gap) == (math.inf, math.inf)


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
@pytest.mark.parametrize("gap", [0.0, 0.1])
def test_inside_bounds_labels_are_proven_to_the_gap(metric: str, gap: float) -> None:
    """As tight as asked for, and no tighter: a search ends where it may."""
    x, model, scores = made(metric)
    bounds = SizeBounds.from_counts(model.lower, model.upper, n_samples=N)
    found = label_rows(
        feature_source(x), model.centers, model, bounds=bounds, priced=False, gap=gap
    )
    expected = assign_offline(scores, bounds, prices=model.prices, tol=gap)
    assert found.gap <= gap
    assert found.gap == pytest.approx(expected.gap, rel=1e-6)
    assert found.bound == pytest.approx(expected.upper_bound, rel=1e-12)
    own = scores[np.arange(N), found.labels].sum()
    assert found.objective == pytest.approx(own, rel=1e-12)
    counts = np.bincount(found.labels, minlength=K)
    assert (counts >= model.lower).all()
    assert (counts <= model.upper).all()
