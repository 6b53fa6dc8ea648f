"""The smoothed dual: its gradient, its limit, and prices that solve it."""

from importlib import import_module
from itertools import pairwise

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.core.workers import workers
from dualclust.algos.offline import _smoothed_dual
from dualclust.algos.offline._candidates import all_candidates
from dualclust.algos.offline._smoothed_dual import (
    FAR,
    Fractional,
    SmoothedDual,
    _joined,
    evaluate,
    refine_prices,
)
from dualclust.algos.offline._trust_region import price_errors
from dualclust.algos.online.certificates import dual_value
from dualclust.algos.scores.sources import score_source
from dualclust.backends import engine, numba_smoothed_dual
from tests.compare import to_numpy
from tests.libraries import LIBRARIES
from tests.problems import mixture_scores

core_workers = import_module("dualclust.algos.core.workers")  # not its function


def problem(xp, scores, lower, upper, radius=np.inf):
    n, k = scores.shape
    clusters = np.tile(np.arange(k, dtype=np.int32), (n, 1))
    box = np.full(k, radius)
    parts = (scores, clusters, np.zeros(k), lower * np.ones(k), upper * np.ones(k), -box, box)
    return SmoothedDual(*(xp.asarray(part) for part in parts))


def test_samples_are_summed_in_parts(xp, rng):
    """The same sums as those of a few rows at a time, each of which is a part of its own."""
    scores, prices = rng.normal(size=(40_000, 4)), xp.asarray(rng.normal(size=4))

    def sums(rows):
        point = evaluate(problem(xp, rows, 0.0, 0.0), prices, 0.3)
        return [to_numpy(a) for a in (point.value, point.counts, point.spread)]

    whole = sums(scores)
    apart = [sums(rows) for rows in np.split(scores, 8)]
    for found, parts in zip(whole, zip(*apart, strict=True), strict=True):
        np.testing.assert_allclose(found, np.sum(parts, axis=0), rtol=1e-9)


def test_short_parts_are_joined(xp):
    """Until they have the 2^16 entries of a part, in their order."""
    n = 95_000
    rows = xp.asarray(np.arange(2.0 * n).reshape(n, 2))
    names = xp.asarray(np.arange(2 * n, dtype=np.int32).reshape(n, 2) % 5)
    cuts = [0, 20_000, 32_768, 32_768, 60_000, 61_000, 65_535, n]
    parts = [Fractional(rows[a:b, :], names[a:b, :]) for a, b in pairwise(cuts)]
    joined = _joined(parts)
    assert [part.probabilities.shape[0] for part in joined] == [32_768, n - 32_768]
    for column, whole in zip(zip(*joined, strict=True), (rows, names), strict=True):
        together = np.concatenate([to_numpy(a) for a in column])
        np.testing.assert_array_equal(together, to_numpy(whole), strict=True)


def test_no_samples_are_one_part(xp):
    made = problem(xp, np.zeros((0, 4)), 0.0, 0.0)
    point = evaluate(made, xp.asarray(np.zeros(4)), 0.3)
    assert [tuple(a.shape) for part in point.fractional for a in part] == [(0, 4)] * 2
    assert to_numpy(point.counts).tolist() == [0.0] * 4


@pytest.mark.parametrize("threads", [2, 4, 16])
def test_no_thread_changes_a_bit(rng, threads):
    scores, prices = rng.normal(size=(60_000, 4)), rng.normal(size=4)
    made = problem(LIBRARIES[0], scores, 12_000.0, 18_000.0)
    expected = evaluate(made, prices, 0.3)
    with workers(threads):
        point = evaluate(made, prices, 0.3)
    assert point.value == expected.value
    for one, other in zip(point[1:5], expected[1:5], strict=True):
        assert one.tobytes() == other.tobytes()


def test_the_smoothed_dual_tends_to_the_dual_from_above(rng):
    scores, prices = rng.normal(size=(30, 4)), rng.normal(size=4)
    bounds = SizeBounds.from_ratios(4, n_samples=30, lower=0.8, upper=1.2)
    made = problem(LIBRARIES[0], scores, bounds.lower, bounds.upper)
    limit = (scores + prices).max(axis=1).sum() - (bounds.lower * prices).sum()
    limit -= to_numpy(made.values)[:, 0].sum()  # from which scores are counted
    limit += ((bounds.upper - bounds.lower) * np.maximum(-prices, 0)).sum()
    values = [evaluate(made, prices, t).value for t in (1.0, 0.1, 1e-3)]
    assert values[0] > values[1] > values[2] >= limit
    assert values[2] == pytest.approx(limit, abs=0.2)
    limit += to_numpy(made.values)[:, 0].sum()
    assert limit >= dual_value(scores, prices, bounds) - 1e-12  # which knows implied bounds


@pytest.mark.parametrize("k", [6, 300])
def test_refined_prices_give_counts_near_the_bounds(xp, k):
    n = 8 * k
    scores = mixture_scores(n, k)
    made = problem(xp, scores, 0.9 * n / k, 1.1 * n / k)
    zeros = xp.asarray(np.zeros(k))
    found = refine_prices(made, zeros, start=0.1, fractional=k)
    counts = np.bincount((scores + to_numpy(found.prices)).argmax(axis=1), minlength=k)
    outside = np.maximum(counts - 1.1 * n / k, 0.9 * n / k - counts).clip(0).sum()
    assert outside <= 2.0 * k  # fractional samples
    before = np.bincount(scores.argmax(axis=1), minlength=k)
    assert outside < np.maximum(before - 1.1 * n / k, 0.9 * n / k - before).clip(0).sum() / 2


def test_prices_stay_in_their_region(xp):
    scores = mixture_scores(200, 5)
    made = problem(xp, scores, 40.0, 40.0, radius=1e-3)
    found = refine_prices(made, xp.asarray(np.full(5, 7.0)), start=0.1, fractional=2.5)
    assert np.abs(to_numpy(found.prices)).max() <= 1e-3


def test_samples_that_tie_do_not_cool_for_ever():
    scores = np.repeat(np.asarray([[1.0, 0.0], [0.5, 0.0]]), 100, axis=0)
    made = problem(LIBRARIES[0], scores, 70.0, 130.0)
    found = refine_prices(made, np.zeros(2), start=0.5, fractional=2.0)
    assert found.temperature > 1e-6


def test_errors_of_a_sample_are_those_of_other_samples():
    """Prices of many samples scatter by about what one sample says of itself."""
    k, n = 5, 2000
    prices, stated = [], []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        scores = rng.normal(size=(n, k)) * 0.3 + np.linspace(0, 0.5, k)
        made = problem(LIBRARIES[0], scores, n / k, n / k, radius=5.0)
        found = refine_prices(made, np.zeros(k), start=0.1, fractional=100.0)
        prices.append(found.prices - found.prices.mean())
        stated.append(price_errors(made, found, 0.0).mean())
    scatter = np.std(prices, axis=0).mean()
    assert 0.4 * scatter <= np.mean(stated) <= 3.0 * scatter
    assert price_errors(made, found, 1.0).max() == 0.0


def tall_problem(xp, seed, n=60_000, k=5, slack=0.1):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(n, k)) - np.linspace(0.0, 1.0, k)
    even = np.full(k, n / k)
    limit = np.full(k, 9.0)
    made = all_candidates(score_source(xp.asarray(scores)), like=xp.asarray(np.zeros(k)))
    made = made.smoothed_dual(xp.asarray((1.0 - slack) * even), xp.asarray((1.0 + slack) * even))
    return made._replace(low=xp.asarray(-limit), high=xp.asarray(limit))


def test_engines_find_the_prices_of_the_text():
    for seed in range(2):
        made = tall_problem(LIBRARIES[0], seed)
        found = refine_prices(made, np.zeros(5), start=0.5, fractional=150.0)
        with engine("reference"):
            whole = refine_prices(made, np.zeros(5), start=0.5, fractional=150.0)
        assert found.temperature == whole.temperature
        # As near as descents end: a small part of the temperature.
        moved = np.abs(to_numpy(found.prices) - to_numpy(whole.prices))
        assert moved.max() < 0.5 * whole.temperature


def test_engines_have_the_numbers_of_the_text():
    assert (numba_smoothed_dual.FAR, numba_smoothed_dual.INSIDE) == (FAR, _smoothed_dual.INSIDE)
    torch_engine = pytest.importorskip("dualclust.backends.torch_engine")
    assert torch_engine.INSIDE == _smoothed_dual.INSIDE
