"""Every number that `cluster` and `assign` print about labels, from rows, labels and prices alone.

The labels are made by hand and are not the best ones, so that value and bound differ.
"""

from __future__ import annotations

import argparse
import itertools
import re

import numpy as np
import pytest

from dualclust.cluster.assign import _result as assigned
from dualclust.cluster.model import Model
from dualclust.cluster.output import Clusters, result_of, text

N, K = 7, 3


class Made:
    """Rows, centers and prices; labels inside the bounds, of which hardly any are the best."""

    def __init__(self, metric, weighted, seed):
        rng = np.random.default_rng(seed)
        self.metric = metric
        self.x, self.centers = rng.normal(size=(N, 2)), rng.normal(size=(K, 2))
        if metric == "cosine":
            self.x /= np.linalg.norm(self.x, axis=1, keepdims=True)
            self.centers /= np.linalg.norm(self.centers, axis=1, keepdims=True)
        self.weights = rng.uniform(0.5, 3.0, N) if weighted else np.ones(N)
        self.labels = rng.permutation(np.r_[np.arange(K), rng.integers(0, K, N - K)])
        self.counts = np.bincount(self.labels, minlength=K)
        self.lower, self.upper = self.counts - 1, self.counts + rng.integers(0, 2, K)
        self.prices = 0.3 * rng.normal(size=K)
        if metric == "cosine":
            self.worth = self.x @ self.centers.T
        else:
            self.worth = -((self.x[:, None] - self.centers) ** 2).sum(axis=2)
        self.worth *= self.weights[:, None]
        # What the solver maximizes: half of that, around the mean of all rows.
        self.scores, self.unit = self.worth, 1.0
        if metric == "euclidean":
            middle = ((self.x - self.x.mean(axis=0)) ** 2).sum(axis=1) * self.weights
            self.scores, self.unit = 0.5 * (self.worth + middle[:, None]), 2.0

    def value(self, labels):
        """Mean similarity, or minus the mean squared distance."""
        return self.worth[np.arange(N), labels].sum() / self.weights.sum()

    def best(self):
        """The best of all labels inside the bounds."""
        every = np.asarray(list(itertools.product(range(K), repeat=N)))
        counts = (every[:, :, None] == np.arange(K)).sum(axis=1)
        inside = ((counts >= self.lower) & (counts <= self.upper)).all(axis=1)
        return max(self.value(labels) for labels in every[inside])

    def bound(self):
        """Weak duality at these prices, in units of what is printed."""
        pi = self.unit * self.prices
        total = (self.worth + pi).max(axis=1).sum()
        total -= np.where(pi > 0.0, pi * self.lower, pi * self.upper).sum()
        return total / self.weights.sum()

    def clusters(self):
        """The result, with its numbers by their definitions."""
        own = self.scores[np.arange(N), self.labels]
        pi = self.prices
        upper = (self.scores + pi).max(axis=1).sum()
        upper -= np.where(pi > 0.0, pi * self.lower, pi * self.upper).sum()
        gap = (upper - own.sum()) / max(np.abs(own).sum(), abs(upper))
        sizes = self.counts, self.lower, self.upper
        return Clusters(self.labels, self.centers, *sizes, pi, own.sum(), upper, gap, 3, False)

    def squared(self):
        """Weighted sum of squared distances; None for cosines."""
        return -self.value(self.labels) * self.weights.sum() if self.unit == 2.0 else None


def printed(made, how):
    """The result of a command, by its names."""
    options = argparse.Namespace(metric=made.metric, lower=None, upper=None, seed=5)
    if how == "cluster":
        weight = made.weights.sum()
        return result_of(made.clusters(), options, weight=weight, squared=made.squared())
    options.bounded, options.prices = True, False
    model = Model(made.centers, made.prices, *(made.counts,) * 3, made.metric, N)
    return assigned(options, model, made.clusters(), made.squared())


@pytest.mark.parametrize(
    ("how", "weighted"), [("cluster", False), ("cluster", True), ("assign", False)]
)
@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_value_bound_and_sizes(metric, how, weighted):
    sign, name = (1.0, "mean_similarity") if metric == "cosine" else (-1.0, "mean_squared_distance")
    apart = 0
    for seed in range(20):
        made = Made(metric, weighted, seed)
        found = printed(made, how)
        value, bound = sign * made.value(made.labels), sign * made.bound()
        bound = max(bound, 0.0) if metric == "euclidean" else bound
        assert found[name] == pytest.approx(value, rel=1e-12)
        assert found[f"{name}_bound"] == pytest.approx(bound, rel=1e-12, abs=1e-13)
        assert sign * found[f"{name}_bound"] >= made.best() - 1e-12
        assert found["relative_gap"] == made.clusters().gap
        assert (found["smallest_cluster"], found["largest_cluster"]) == (
            made.counts.min(),
            made.counts.max(),
        )
        assert (found["min_count"], found["max_count"]) == (made.lower.min(), made.upper.max())
        assert (found["n_samples"], found["n_clusters"], found["violation"]) == (N, K, 0)
        # A bound of half the distance would be passed by the best labels.
        apart += sign * (value + bound) / 2.0 < made.best() - 1e-9
    assert apart > 5


@pytest.mark.parametrize("how", ["cluster", "assign"])
def test_a_violation_is_of_the_worst_cluster(how):
    made = Made("cosine", False, 0)
    made.lower = made.counts + np.asarray([0, 1, -1])
    assert printed(made, how)["violation"] == 1
    made.lower, made.upper = made.counts - 1, made.counts - np.asarray([0, 0, 1])
    assert printed(made, how)["violation"] == 1


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_the_text_has_the_numbers_of_the_file(metric):
    found = printed(Made(metric, False, 1), "cluster")
    name = "mean_similarity" if metric == "cosine" else "mean_squared_distance"
    lines = {line[:20].strip(): line[20:] for line in text(found).splitlines()}
    assert lines.pop("clusters") == f"{K} of {N} samples, 3 passes, stopped at the limit"
    sizes = [
        found[key] for key in ("smallest_cluster", "largest_cluster", "min_count", "max_count")
    ]
    assert [int(number) for number in re.findall(r"\d+", lines.pop("sizes"))] == sizes
    assert lines.pop("violation") == str(found["violation"])
    bound, gap = re.findall(r"(-?[\d.]+(?:e[+-]\d+)?)", lines.pop("certificate"))
    assert float(bound) == pytest.approx(found[f"{name}_bound"], abs=5e-7)
    assert float(gap) == pytest.approx(found["relative_gap"], rel=0.06)
    ((title, shown),) = lines.items()
    assert title.replace("sq. ", "squared ").replace(" ", "_") == name
    assert float(shown) == pytest.approx(found[name], abs=5e-7)
