"""Sums without an error, against exact fractions, on every library."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualclust.algos.core.error_free import sum_of_differences, sum_rounded_up, two_sum
from tests.compare import to_numpy
from tests.examples import examples

finite = st.floats(-1e300, 1e300)


def test_a_sum_and_its_error_are_exact_on_each_library(xp):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 400)) * 10.0 ** rng.integers(-200, 200, (2, 400))
    total, error = (to_numpy(v) for v in two_sum(xp.asarray(a), xp.asarray(b)))
    np.testing.assert_array_equal(total, a + b)
    for i in range(400):
        assert Fraction(total[i]) + Fraction(error[i]) == Fraction(a[i]) + Fraction(b[i])
    assert np.any(error != 0.0)


@given(a=finite, b=finite)
@examples(200)
def test_a_sum_and_its_error_are_exact_for_any_numbers(a, b):
    total, error = (float(v[0]) for v in two_sum(np.asarray([a]), np.asarray([b])))
    assert Fraction(total) + Fraction(error) == Fraction(a) + Fraction(b)


@pytest.mark.parametrize("scale", [0.0, 1.0, 1e8, 1e16, 1e150])
def test_differences_of_scores_and_prices_are_rounded_once(xp, scale):
    """The four terms cancel down to a few units in the last place of the smallest of them."""
    rng = np.random.default_rng(1)
    score, own = rng.normal(size=(2, 300))
    price = scale + rng.normal(size=300)
    own_price = price + (score - own)  # rounded
    given = (xp.asarray(v) for v in (score, own, price, own_price))
    found = to_numpy(sum_of_differences(*given))
    for i in range(300):
        exact = Fraction(score[i]) - Fraction(own[i]) + Fraction(price[i]) - Fraction(own_price[i])
        assert found[i] == float(exact)


@given(st.lists(finite, max_size=12))
@examples(200)
def test_a_sum_that_is_rounded_up_is_the_least_float_above(terms):
    found, exact = sum_rounded_up(terms), sum(map(Fraction, terms), Fraction(0))
    if math.isinf(found):
        assert exact > Fraction(1e307)
        return
    assert Fraction(found) >= exact
    assert Fraction(math.nextafter(found, -math.inf)) < exact


def test_a_sum_beyond_float64_is_infinite():
    assert sum_rounded_up([1.5e308, 1.5e308]) == math.inf
    assert sum_rounded_up([1.5e308, 1.5e308, -1.5e308]) in (1.5e308, math.inf)
    assert sum_rounded_up([]) == 0.0
