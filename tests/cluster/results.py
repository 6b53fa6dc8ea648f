"""Results of a clustering for tests of what is written about them."""

from __future__ import annotations

import argparse

import numpy as np

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.offline.assignment import assign_source
from dualclust.algos.scores.sources import feature_source, product_source
from dualclust.cluster.output import Clusters, result_of
from tests.problems import unit_rows


def result(k, n, lower=0.7, upper=1.3, metric="cosine", d=6, weights=None, counts=None):
    """A source of n rows, the best labels inside bounds for k given centers, and result.json."""
    rng = np.random.default_rng(0)
    centers = unit_rows(rng.normal(size=(k, d)))
    x = unit_rows(centers[rng.integers(k, size=n) ** 2 // k] + 0.3 * rng.normal(size=(n, d)))
    bounds = SizeBounds.from_ratios(k, n_samples=n, lower=lower, upper=upper)
    if counts is not None:
        bounds = SizeBounds.from_counts(*counts, n_samples=n)
    offsets = None if metric == "cosine" else -0.5 * (centers**2).sum(axis=1)
    scores = product_source(feature_source(x), centers, offsets=offsets, weights=weights)
    found = assign_source(scores, bounds)
    whole = Clusters(
        found.labels,
        centers,
        found.counts,
        bounds.lower,
        bounds.upper,
        found.prices,
        found.objective,
        found.upper_bound,
        found.gap,
        3,
        True,
    )
    squared = None
    if metric == "euclidean":
        w = 1.0 if weights is None else weights
        squared = float((w * ((x - centers[found.labels]) ** 2).sum(axis=1)).sum())
    options = argparse.Namespace(metric=metric, lower=lower, upper=upper, seed=0)
    weight = n if weights is None else float(weights.sum())
    return feature_source(x), whole, result_of(whole, options, weight=weight, squared=squared)
