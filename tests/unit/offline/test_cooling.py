"""Lower temperatures look at fewer rows, and find what all rows would."""

import numpy as np
import pytest

from dualclust.algos.offline import _smoothed_dual
from dualclust.algos.offline._candidates import all_candidates
from dualclust.algos.offline._cooling import _is_held, _narrowed, refine_prices
from dualclust.algos.offline._smoothed_dual import FAR, soft_counts
from dualclust.algos.scores.sources import score_source
from dualclust.backends import engine, numba_smoothed_dual
from tests.compare import to_numpy
from tests.libraries import LIBRARIES

NUMPY = LIBRARIES[0]


def problem_of(xp, seed, n=60_000, k=5, slack=0.1):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(n, k)) - np.linspace(0.0, 1.0, k)
    even = np.full(k, n / k)
    limit = np.full(k, 9.0)
    made = all_candidates(score_source(xp.asarray(scores)), like=xp.asarray(np.zeros(k)))
    made = made.problem(xp.asarray((1.0 - slack) * even), xp.asarray((1.0 + slack) * even))
    return made._replace(low=xp.asarray(-limit), high=xp.asarray(limit))


def test_prices_are_those_of_all_rows():
    """The reference text narrows nothing."""
    for seed in range(2):
        made = problem_of(NUMPY, seed)
        found = refine_prices(made, np.zeros(5), start=0.5, border=30.0)
        with engine("reference"):
            whole = refine_prices(made, np.zeros(5), start=0.5, border=30.0)
        assert found.temperature == whole.temperature
        # As near as descents end: a small part of the temperature.
        moved = np.abs(to_numpy(found.prices) - to_numpy(whole.prices))
        assert moved.max() < 0.5 * whole.temperature


def test_no_row_is_lost_and_none_has_weight_elsewhere():
    """For any prices within reach: the same counts, and a value that differs by a constant."""
    made = problem_of(NUMPY, 0)
    rng, T = np.random.default_rng(1), 0.008
    prices = np.asarray([0.3, 0.0, -0.1, 0.2, 0.5])
    near = _narrowed(made, made, prices, T)
    fixed, m = to_numpy(near.fixed_counts), near.values.shape[0]
    assert 0 < m < 30_000
    assert fixed.sum() + m == 60_000
    apart = []
    for _ in range(5):
        moved = prices + rng.uniform(-16.0, 16.0, size=5) * T
        all_rows, those_near = (
            soft_counts(p.values, p.clusters, moved, temperature=T) for p in (made, near)
        )
        counts = [to_numpy(found[1]) for found in (all_rows, those_near)]
        np.testing.assert_allclose(counts[1] + fixed, counts[0], atol=60_000 * np.exp(-FAR))
        # Maxima are counted from a row's first candidate, whichever that is.
        apart.append(float(all_rows[0]) - float(those_near[0]) - fixed @ to_numpy(moved))
    np.testing.assert_allclose(apart, apart[0], atol=1e-6)


def test_narrowing_again_is_narrowing_from_the_start():
    made = problem_of(NUMPY, 2, n=150_000)
    T, prices = 0.008, np.zeros(5)
    near = _narrowed(made, made, prices, T)
    moved = prices + 16.0 * T * np.asarray([1.0, -1.0, 0.0, 1.0, -1.0])
    again, at_once = (_narrowed(p, made, moved, T / 4.0) for p in (near, made))
    assert again.values.shape[0] < near.values.shape[0] < 150_000
    np.testing.assert_array_equal(to_numpy(again.values), to_numpy(at_once.values))
    np.testing.assert_array_equal(to_numpy(again.clusters), to_numpy(at_once.clusters))
    np.testing.assert_array_equal(to_numpy(again.fixed_counts), to_numpy(at_once.fixed_counts))


def test_the_box_is_what_is_in_reach_of_it():
    made = problem_of(NUMPY, 0)
    prices = np.asarray([8.9, -8.9, 0.0, 1.0, 2.0])
    near = _narrowed(made, made, prices, 0.01)
    np.testing.assert_allclose(near.low, np.maximum(prices - 0.16, -9.0))
    np.testing.assert_allclose(near.high, np.minimum(prices + 0.16, 9.0))
    np.testing.assert_array_equal((near.lower, near.upper), (made.lower, made.upper))
    held = prices + np.asarray([0.1, -0.1, 0.0, 0.0, 0.0])  # ends of the box, not of a reach
    assert not _is_held(near, made, held)
    for step in (-0.16, 0.16):
        assert _is_held(near, made, np.asarray([8.9, -8.9, 0.0, 1.0 + step, 2.0]))
    assert not _is_held(made, made, np.full(5, 9.0))


def test_few_candidates_are_left_as_they_are():
    made = problem_of(NUMPY, 0)
    for n, is_narrowed in ((2**18 // 5, False), (2**18 // 5 + 1, True)):
        own = problem_of(NUMPY, 0, n=n)
        assert (_narrowed(own, own, np.zeros(5), 0.01) is not own) == is_narrowed
    assert _narrowed(made, made, np.zeros(5), 1.0) is made  # more than half of the rows would stay
    with engine("reference"):
        assert _narrowed(made, made, np.zeros(5), 0.01) is made


def test_engines_have_the_numbers_of_the_text():
    assert (numba_smoothed_dual.FAR, numba_smoothed_dual.INSIDE) == (FAR, _smoothed_dual.INSIDE)
    torch_engine = pytest.importorskip("dualclust.backends.torch_engine")
    assert torch_engine.INSIDE == _smoothed_dual.INSIDE
