"""Bounds of which each side is a share or a count: `SizeBounds.of`, and those of a stream."""

import math

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.core.errors import InfeasibleBoundsError, InvalidTypeError, InvalidValueError
from tests.compare import assert_equal
from tests.refusals import is_refusal, message_of
from tests.unit.bounds.test_sizes import sizes


def test_each_side_is_a_share_or_a_count(xp):
    place = {"xp": xp.namespace, "device": xp.device}
    one = SizeBounds.of(4, n_samples=18, lower=1, max_count=6, **place)
    assert sizes(one) == ([4] * 4, [6] * 4)
    assert_equal(one.lower_share, xp.asarray([0.25] * 4))
    assert_equal(one.upper_share, xp.asarray([6 / 18] * 4))
    counts = xp.asarray([5, 0, 1, 0], "int32")
    other = SizeBounds.of(4, n_samples=18, min_count=counts, upper=[1.5, 1.5, 1, 1], **place)
    assert sizes(other) == ([5, 0, 1, 0], [7, 7, 5, 5])
    assert_equal(other.lower_share, xp.asarray([5 / 18, 0.0, 1 / 18, 0.0]))
    assert sizes(SizeBounds.of(4, n_samples=18, min_count=xp.asarray(2), **place))[0] == [2] * 4


def test_one_is_a_share_whether_it_is_whole_or_not():
    for one in (1, 1.0, np.int64(1), np.float32(1)):
        assert sizes(SizeBounds.of(4, n_samples=40, lower=one))[0] == [10] * 4


def test_without_bounds_all_sizes_are_inside(xp):
    place = {"xp": xp.namespace, "device": xp.device}
    assert SizeBounds.of(3, n_samples=7, **place).is_free
    assert SizeBounds.of(3, n_samples=7, min_count=0, max_count=700, **place).is_free
    assert not SizeBounds.of(3, n_samples=7, max_count=6, **place).is_free
    assert not SizeBounds.of(3, n_samples=7, min_count=[0, 0, 1], **place).is_free
    assert not SizeBounds.of(3, n_samples=7, max_count=[7, 7, 6], **place).is_free
    assert SizeBounds.for_stream(3, lower=0.0, **place).is_free


def test_counts_and_rounding_of_shares_are_those_of_the_other_constructors():
    for rounding in ("inward", "outward", "nearest"):
        share = {"lower": 0.89, "upper": 1.1, "rounding": rounding}
        for a, b in zip(
            SizeBounds.of(3, n_samples=100, **share)[:4],
            SizeBounds.from_ratios(3, n_samples=100, **share)[:4],
            strict=True,
        ):
            assert_equal(a, b)
    by_count = SizeBounds.of(2, n_samples=9, min_count=[1, 2], max_count=[5, 900])
    for a, b in zip(
        by_count[:4], SizeBounds.from_counts([1, 2], [5, 900], n_samples=9)[:4], strict=True
    ):
        assert_equal(a, b)


@pytest.mark.parametrize(
    ("error", "options", "text"),
    [
        (
            InvalidValueError,
            {"lower": 0.9, "min_count": 5},
            "lower and min_count both bound the smallest size, got 0.9 and 5. "
            "To fix this, give one of them",
        ),
        (
            InvalidValueError,
            {"upper": 1.1, "max_count": [5, 5, 5]},
            "upper and max_count both bound the largest size, got 1.1 and [5, 5, 5]. "
            "To fix this, give one of them",
        ),
        (InvalidTypeError, {"min_count": 0.9}, "min_count must be an int, got 0.9 (float)"),
        (InvalidTypeError, {"max_count": True}, "max_count must be an int, got True (bool)"),
        (InvalidTypeError, {"max_count": "5"}, "max_count must be numbers, got '5' (str)"),
        (InvalidValueError, {"min_count": -1}, "min_count must be at least 0, got -1"),
        (InvalidValueError, {"min_count": [0, 0, -2]}, "min_count[2] must be at least 0, got -2"),
        (
            InvalidValueError,
            {"max_count": [4, 5]},
            "max_count must be one number or one per cluster (k=3), got 2",
        ),
        (
            InfeasibleBoundsError,
            {"min_count": 4},
            "lower bounds add up to 12 samples, 3 more than n_samples=9. To fix this, lower them",
        ),
        (
            InfeasibleBoundsError,
            {"lower": 0.9, "max_count": [1, 9, 9]},
            "lower bound 2 exceeds upper bound 1 for cluster 0, in samples. "
            "To fix this, widen the bounds",
        ),
    ],
)
def test_wrong_shares_and_counts_are_named(error, options, text):
    assert is_refusal(message_of(error, SizeBounds.of, 3, n_samples=9, **options), text)


@pytest.mark.parametrize(
    ("lower", "upper"), [([1.5, 0.5], 1.0), (1.1, math.inf), (0.0, 0.9), ([2.0, 0.5], math.inf)]
)
def test_an_infeasible_stream_is_refused(lower, upper):
    with pytest.raises(InfeasibleBoundsError, match="lower <= upper and sum") as caught:
        SizeBounds.for_stream(2, lower=lower, upper=upper)
    assert caught.value.clusters
    assert caught.value.excess > 0
