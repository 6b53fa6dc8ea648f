"""Exact assignment: optimal by its own certificate, on every library, from any prices."""

from __future__ import annotations

import numpy as np
import pytest

from dualclust.algos.bounds import from_counts, from_ratios, stream_bounds
from dualclust.algos.certificates import violation
from dualclust.algos.errors import InvalidValueError
from dualclust.algos.transport import assign_exact
from dualclust.backends import engine
from tests.compare import label_gaps, to_numpy
from tests.libraries import Library


def small(xp: Library, rng: np.random.Generator, n: int = 24, k: int = 4) -> tuple:
    scores = rng.integers(0, 17, size=(n, k)) / 16.0
    bounds = from_ratios(
        k, n_samples=n, lower=0.8, upper=1.2, rounding="outward", xp=xp.namespace, device=xp.device
    )
    return xp.asarray(scores), xp.freeze(bounds)


@pytest.mark.parametrize("mode", ["auto", "reference"])
def test_optimal_labels_prove_themselves(xp: Library, rng: np.random.Generator, mode: str) -> None:
    scores, bounds = small(xp, rng)
    with engine(mode):  # type: ignore[arg-type]
        found = assign_exact(scores, bounds)
    assert violation(found.state.counts, bounds) == 0
    assert found.objective == pytest.approx(found.upper_bound, abs=1e-12)
    prices = found.state.duals.lower - found.state.duals.upper
    assert label_gaps(scores, prices, found.labels).max() <= 1e-12
    counts, pi = to_numpy(found.state.counts), to_numpy(prices)
    assert (counts[pi > 0] == to_numpy(bounds.lower)[pi > 0]).all()
    assert (counts[pi < 0] == to_numpy(bounds.upper)[pi < 0]).all()


@pytest.mark.parametrize("scale", [0.0, 0.1, 10.0])
def test_the_value_does_not_depend_on_the_starting_prices(
    xp: Library, rng: np.random.Generator, scale: float
) -> None:
    scores, bounds = small(xp, rng)
    best = assign_exact(scores, bounds).objective
    start = xp.asarray(scale * rng.normal(size=4))
    assert assign_exact(scores, bounds, prices=start).objective == pytest.approx(best, abs=1e-12)


def test_warm_start_from_its_own_prices_moves_nothing(rng: np.random.Generator) -> None:
    scores = rng.normal(size=(200, 5))
    bounds = from_ratios(5, n_samples=200, lower=0.9, upper=1.1)
    first = assign_exact(scores, bounds)
    prices = first.state.duals.lower - first.state.duals.upper
    again = assign_exact(scores, bounds, prices=prices)
    assert again.objective == pytest.approx(first.objective, abs=1e-12)
    np.testing.assert_allclose(again.state.duals.lower, first.state.duals.lower, atol=1e-12)


def test_no_slack_is_a_permutation(xp: Library, rng: np.random.Generator) -> None:
    scores = xp.asarray(rng.normal(size=(7, 7)))
    bounds = xp.freeze(from_counts([1] * 7, [1] * 7, n_samples=7, xp=xp.namespace))
    labels = to_numpy(assign_exact(scores, bounds).labels)
    assert sorted(labels.tolist()) == list(range(7))


def test_no_bounds_is_argmax(rng: np.random.Generator) -> None:
    scores = rng.normal(size=(50, 6)).astype(np.float32)
    found = assign_exact(scores, from_ratios(6, n_samples=50, lower=0.0))
    np.testing.assert_array_equal(found.labels, scores.argmax(axis=1))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, ">f4"])
def test_layouts_and_dtypes_agree(rng: np.random.Generator, dtype: str) -> None:
    scores = (rng.integers(0, 33, size=(60, 5)) / 32.0).astype(dtype)
    bounds = from_ratios(5, n_samples=60, lower=0.9, upper=1.1)
    plain = assign_exact(np.asarray(scores, dtype=np.float64), bounds).objective
    for view in (scores, np.asfortranarray(scores), np.repeat(scores, 2, axis=0)[::2]):
        assert assign_exact(view, bounds).objective == pytest.approx(plain, abs=1e-12)


def test_ties_everywhere_end(xp: Library) -> None:
    scores = xp.asarray(np.zeros((12, 3)))
    bounds = xp.freeze(from_counts([4, 4, 4], n_samples=12, xp=xp.namespace))
    assert to_numpy(assign_exact(scores, bounds).state.counts).tolist() == [4, 4, 4]


def test_one_sample_and_one_cluster(xp: Library) -> None:
    bounds = xp.freeze(from_counts([1], n_samples=1, xp=xp.namespace))
    found = assign_exact(xp.asarray([[0.5]]), bounds)
    assert to_numpy(found.labels).tolist() == [0]
    assert found.objective == found.upper_bound == 0.5


def test_misuse_is_refused(rng: np.random.Generator) -> None:
    bounds = from_ratios(3, n_samples=5, lower=0.0)
    with pytest.raises(InvalidValueError, match=r"scores must have shape \(5, 3\), got \(4, 3\)"):
        assign_exact(rng.normal(size=(4, 3)), bounds)
    with pytest.raises(InvalidValueError, match="known number of samples"):
        assign_exact(rng.normal(size=(5, 3)), stream_bounds(3))
    with pytest.raises(InvalidValueError, match="prices must be finite"):
        assign_exact(rng.normal(size=(5, 3)), bounds, prices=np.asarray([0.0, np.nan, 0.0]))
    scores = rng.normal(size=(5, 3))
    scores[2, 1] = np.inf
    with pytest.raises(
        InvalidValueError, match=r"scores must be finite, got inf at index \(2, 1\)"
    ):
        assign_exact(scores, bounds)
