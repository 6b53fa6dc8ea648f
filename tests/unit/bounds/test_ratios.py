"""Numbers of the caller as exact fractions and whole numbers."""

import sys
from fractions import Fraction

import numpy as np
import pytest

from dualclust.algos.bounds import _ratios as ratios
from dualclust.algos.core.errors import InvalidTypeError, InvalidValueError
from tests.refusals import is_refusal, message_of


def test_a_simple_fraction_has_a_denominator_of_a_million_at_most():
    for q in (3, 997, 999_983, 10**6):
        assert ratios.simplest(1 / q) == Fraction(1, q)
    assert ratios.simplest(1 / 1_000_003) == Fraction(1 / 1_000_003) != Fraction(1, 1_000_003)


def test_a_ratio_above_k_means_k_for_upper_bounds_alone():
    assert ratios.ratios_of("upper", [2.5, 3.0, 3.5], 3) == [Fraction(5, 2), 3, 3]
    assert ratios.ratios_of("upper", float("inf"), 2) == [2, 2]
    assert ratios.ratios_of("lower", [2.5, 3.0, 3.5], 3) == [Fraction(5, 2), 3, Fraction(7, 2)]


def test_whole_numbers_of_a_scalar_array_or_one_for_each_cluster(xp):
    assert ratios.counts_of("min_count", xp.asarray(5), 3) == [5, 5, 5]
    assert ratios.counts_of("min_count", xp.asarray([5, 0]), 2) == [5, 0]
    assert ratios.counts_of("min_count", (5, 0), 2) == [5, 0]
    text = message_of(InvalidTypeError, ratios.counts_of, "min_count", xp.asarray(2.5), 3)
    assert is_refusal(text, "min_count must be an int, got 2.5 (float)")


def test_negative_integers_are_integers():
    assert ratios.integers_of("x", [-3, 0, -sys.maxsize]) == [-3, 0, -sys.maxsize]
    assert ratios.integers_of("x", (np.int64(4),)) == [4]
    with pytest.raises(InvalidValueError, match=r"x\[0\] must be at least -"):
        ratios.integers_of("x", [-sys.maxsize - 1])


@pytest.mark.parametrize(
    ("rounding", "up", "expected"),
    [
        ("inward", True, [-2, 2, 3]),
        ("inward", False, [-3, 2, 2]),
        ("outward", True, [-3, 2, 2]),
        ("outward", False, [-2, 2, 3]),
        ("nearest", True, [-2, 2, 2]),
        ("nearest", False, [-2, 2, 2]),
    ],
)
def test_rounding_of_each_side(rounding, up, expected):
    values = [Fraction(-7, 3), Fraction(2), Fraction(5, 2)]  # a half goes to the even number
    assert [ratios.rounded(v, rounding, up=up) for v in values] == expected
