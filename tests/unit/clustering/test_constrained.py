"""Iterations of constrained k-means start where the last one ended, and read the scores once."""

import numpy as np
import pytest

import dualclust as dc
from dualclust.algos.clustering import _labels
from dualclust.algos.clustering.constrained import constrained_kmeans
from dualclust.algos.clustering.lloyd import kmeans
from dualclust.algos.core.errors import InvalidValueError
from tests.passes import counted_passes
from tests.problems import unit_rows
from tests.programs import program


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e300])
def test_the_root_mean_square_neither_overflows_nor_vanishes(xp, scale):
    values = xp.asarray(scale * np.asarray([3.0, -4.0, 0.0, 0.0]))
    assert float(_labels._root_mean_square(values)) / scale == pytest.approx(2.5, rel=1e-12)


def test_the_root_mean_square_of_prices_that_stay_is_0(xp):
    assert _labels._root_mean_square(xp.asarray(np.zeros(3))) == 0.0


def test_most_iterations_read_the_scores_once():
    """The region around the last prices is neither too small nor so large that rows overflow it."""
    x = program("kmeans").data(6_000, 60, 8, "float64")
    bounds = dc.SizeBounds.from_ratios(60, n_samples=6_000, lower=0.9, upper=1.1)
    with counted_passes() as count:
        found = constrained_kmeans(x, bounds, x[:60], metric="euclidean", max_iter=12, tol=0.0)
    assert found.n_iter == 12
    assert count["_candidates.row_blocks"] <= 64  # with samples; four a solve, two of them of lists


# What it says -----------------------------------------------------------------------------------


def problem(n=60, k=2, seed=0):
    x = np.random.default_rng(seed).normal(size=(n, 3))
    return x, dc.SizeBounds.from_ratios(k, n_samples=n, lower=0.9, upper=1.1)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.unjudged(reason="its answer is made by hand")
def test_without_bounds_everything_goes_to_k_means(metric):
    x, _ = problem()
    x = x if metric == "euclidean" else unit_rows(x)
    states = ([], [])
    options = {"metric": metric, "max_iter": 7, "tol": 0.01, "empty": "keep"}
    options["weights"] = np.linspace(0.5, 1.5, 60) if metric == "euclidean" else None
    bounds = dc.SizeBounds.from_counts([0, 0], [60, 60], n_samples=60)
    found, plain = (
        run(x, *given, x[:2], **options, progress=lambda state, _, told=told: told.append(state))
        for run, given, told in zip(
            (constrained_kmeans, kmeans), ((bounds,), ()), states, strict=True
        )
    )
    np.testing.assert_array_equal(found.labels, plain.labels)
    np.testing.assert_array_equal(found.counts, plain.counts)
    np.testing.assert_array_equal(found.centers, plain.centers)
    assert (found.n_iter, found.converged) == (plain.n_iter, plain.converged)
    assert (found.objective, found.gap) == (plain.objective, 0.0)
    assert [state.changed for state in states[0]] == [state.changed for state in states[1]] != []
    first = states[0][0]
    resumed = constrained_kmeans(x, bounds, x[:2], **options, state=first)
    np.testing.assert_array_equal(resumed.centers, plain.centers)


def test_the_gap_is_a_share(monkeypatch):
    x, bounds = problem()
    for gap in (0.0, 1.0):
        assert constrained_kmeans(x, bounds, x[:2], metric="euclidean", gap=gap).gap <= gap
    for gap in (-0.01, 1.01):
        with pytest.raises(InvalidValueError, match=r"^gap must lie in \[0, 1\]"):
            constrained_kmeans(x, bounds, x[:2], metric="euclidean", gap=gap)


def test_as_many_labels_as_the_tolerance_may_change_in_the_end():
    x, bounds = problem()
    states = []
    options = {"metric": "euclidean", "progress": lambda state, _: states.append(state)}
    constrained_kmeans(x, bounds, x[:2], tol=0.0, **options)
    shares = [state.changed for state in states]
    assert shares[0] > 0.0 == shares[-1]
    states.clear()
    last = constrained_kmeans(x, bounds, x[:2], tol=shares[0], **options)
    assert (last.converged, last.n_iter, len(states)) == (True, 1, 1)
    assert states[0].changed == shares[0]
    assert states[0].n_iter == 1
    assert states[0].objective == pytest.approx(last.objective, rel=1e-2)
    np.testing.assert_array_equal(states[0].centers, last.centers)


@pytest.mark.parametrize(
    ("prices", "words"),
    [
        ([0.0], r"prices must have shape \(2,\)"),
        ([0.0, np.nan], "prices must be finite"),
        ([0.0, 1.0, 2.0], r"prices must have shape \(2,\)"),
    ],
)
def test_prices_that_do_not_fit_are_named(prices, words):
    x, bounds = problem()
    with pytest.raises(InvalidValueError, match=words):
        constrained_kmeans(x, bounds, x[:2], metric="euclidean", prices=np.asarray(prices))


def test_bounds_and_prices_of_another_library_are_named():
    x, bounds = problem()
    other = pytest.importorskip("array_api_strict").zeros(2)
    with pytest.raises(InvalidValueError, match="prices must be of the same array library as"):
        constrained_kmeans(x, bounds, x[:2], metric="euclidean", prices=other)
