"""One shift for the prices of a group, against the dual value at all of its corners."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualclust.algos.offline._shared_shift import best_shift
from tests.examples import examples


def dual(shift, leads, prices, lower, upper):
    moved = prices + shift
    paid = np.clip(moved, 0, None) @ lower - np.clip(-moved, 0, None) @ upper
    return np.maximum(leads, shift).sum() - paid


@given(
    seed=st.integers(0, 2**32),
    m=st.integers(1, 12),
    b=st.integers(1, 4),
    whole=st.booleans(),
)
@examples(200)
def test_no_other_shift_is_better_and_none_as_good_is_smaller(seed, m, b, whole):
    rng = np.random.default_rng(seed)
    leads, prices = rng.normal(size=m), rng.normal(size=b)
    if whole:  # ties
        leads, prices = np.round(leads), np.round(prices)
    lower = rng.integers(0, 3, size=b).astype(float)
    upper = lower + rng.integers(0, 3, size=b)
    found = best_shift(leads, prices, lower, upper)
    if m < lower.sum():
        assert found == 0.0  # the value falls for ever
        return
    value = dual(found, leads, prices, lower, upper)
    corners = np.concatenate([leads, -prices, [0.0]])
    least = min(dual(c, leads, prices, lower, upper) for c in corners)
    assert value == pytest.approx(least, abs=1e-12)
    if found:  # slopes are whole numbers, so that a little nearer to 0 it is worse by as much
        nearer = dual(found * (1.0 - 1e-3), leads, prices, lower, upper)
        assert nearer >= value + 0.5e-3 * abs(found)


def test_a_full_group_gives_up_the_rows_that_gain_least(xp):
    """Bounds of 2 for five rows: the third one leaves at -0.3, and the second would at -0.4."""
    leads = xp.asarray(np.asarray([-0.5, -0.1, -0.4, -0.2, -0.3]))
    prices, lower = xp.asarray(np.asarray([-1.0])), xp.asarray(np.asarray([0]))
    upper = xp.asarray(np.asarray([2]))
    assert best_shift(leads, prices, lower, upper) == -0.3
    # An empty one takes two; between its corners 0 is as good as they are.
    far = xp.asarray(np.asarray([0.25, 1.0, 0.5]))
    assert best_shift(far, xp.asarray(np.asarray([9.0])), upper, upper) == 0.5
    both = xp.asarray(np.asarray([-0.25, 1.0]))
    one = xp.asarray(np.asarray([1]))
    assert best_shift(both, xp.asarray(np.asarray([9.0])), one, one) == 0.0


def test_rows_that_cannot_leave_or_are_too_few_leave_the_prices():
    one, two = np.ones(1), np.asarray([2])
    leads = np.asarray([-math.inf, -math.inf, -math.inf, -0.5])
    assert best_shift(leads, -one, 0 * two, two) == 0.0
    assert best_shift(np.asarray([-1.0]), one, two, two) == 0.0
    assert best_shift(np.zeros(0), one, two, two) == 0.0
    leads[2] = -0.75
    assert best_shift(leads, -2.0 * one, 0 * two, two) == -0.75  # two stay, and the third can leave
    assert best_shift(leads, -2.0 * one, 0 * two, 0 * two) == 0.0
