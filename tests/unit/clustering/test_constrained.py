"""Iterations of constrained k-means start where the last one ended, and read the scores once."""

from collections import Counter

import numpy as np
import pytest

import dualclust as dc
import dualclust.algos.offline.assignment as solver
from dualclust.algos.clustering import _labels
from dualclust.algos.clustering.constrained import constrained_kmeans
from tests.programs import program


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e300])
def test_the_root_mean_square_neither_overflows_nor_vanishes(xp, scale):
    values = xp.asarray(scale * np.asarray([3.0, -4.0, 0.0, 0.0]))
    np.testing.assert_allclose(_labels._root_mean_square(values) / scale, 2.5, rtol=1e-12)


def test_the_root_mean_square_of_prices_that_stay_is_0(xp):
    assert _labels._root_mean_square(xp.asarray(np.zeros(3))) == 0.0


def passes_an_iteration(monkeypatch, reach):
    """Times that candidates are looked for among all scores, or rows are labeled online."""
    counts = Counter()

    def counted(module, name):
        plain = getattr(module, name)

        def call(*args, **options):
            counts[name] += 1
            return plain(*args, **options)

        monkeypatch.setattr(module, name, call)

    x = program("kmeans").data(6_000, 60, 8, "float64")
    bounds = dc.SizeBounds.from_ratios(60, n_samples=6_000, lower=0.9, upper=1.1)
    with monkeypatch.context() as monkeypatch:
        counted(solver, "collect_candidates")
        counted(solver, "assign_in_passes")
        counted(_labels, "assign_source")
        monkeypatch.setattr(_labels, "REACH", reach)
        found = constrained_kmeans(x, bounds, x[:60], metric="euclidean", max_iter=12, tol=0.0)
    assert found.n_iter == 12
    return (counts["collect_candidates"] + counts["assign_in_passes"]) / counts["assign_source"]


def test_most_iterations_read_the_scores_once(monkeypatch):
    """The region around the last prices is neither too small nor so large that rows overflow it."""
    assert passes_an_iteration(monkeypatch, _labels.REACH) < 1.4


@pytest.mark.parametrize("reach", [0.2, 500.0])
def test_another_reach_reads_them_more_often(monkeypatch, reach):
    assert passes_an_iteration(monkeypatch, reach) > 1.5
