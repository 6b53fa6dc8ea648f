"""Bounds are refused exactly where no assignment satisfies them, and always with a proof."""

import itertools
import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.core.errors import InfeasibleBoundsError
from tests.examples import examples


def some_sizes_fit(lower, upper, n):
    """Try all sizes that add up to n."""
    ranges = [range(max(lo, 0), min(hi, n) + 1) for lo, hi in zip(lower, upper, strict=True)]
    return any(sum(sizes) == n for sizes in itertools.product(*ranges))


def outcome(build):
    """The bounds, or why there are none."""
    try:
        return build(), None
    except InfeasibleBoundsError as error:
        return None, error


def proves_infeasibility(clusters, excess, lower, upper, n):
    """Whether adding up the bounds of these clusters leaves `excess` samples too many or few."""
    if not clusters or excess <= 0 or not set(clusters) <= set(range(len(lower))):
        return False
    crossed = any(lower[i] - upper[i] == excess for i in clusters)
    too_many = sum(lower[i] for i in clusters) - n == excess and min(lower) >= 0
    too_few = n - sum(upper) == excess and set(clusters) == set(range(len(upper)))
    return crossed or too_many or too_few


sizes = st.lists(st.integers(0, 6), min_size=1, max_size=4)


@given(lower=sizes, data=st.data(), n=st.integers(1, 12))
@examples(1000)
def test_counts_are_refused_exactly_where_brute_force_finds_no_sizes(lower, data, n):
    k = len(lower)
    upper = data.draw(st.lists(st.integers(0, 8), min_size=k, max_size=k))
    bounds, error = outcome(lambda: SizeBounds.from_counts(lower, upper, n_samples=n))
    if some_sizes_fit(lower, upper, n):
        assert bounds.lower.tolist() == lower
        assert bounds.upper.tolist() == [min(u, n) for u in upper]
    else:
        assert proves_infeasibility(error.clusters, error.excess, lower, upper, n)


def test_the_verifier_of_proofs_refuses_wrong_ones():
    lower, upper, n = [3, 0, 4], [9, 9, 9], 5
    assert proves_infeasibility((0, 2), 2, lower, upper, n)
    for clusters, excess in (((0, 1), 2), ((0, 2), 1), ((), 2), ((0, 2), 0), ((0, 7), 2)):
        assert not proves_infeasibility(clusters, excess, lower, upper, n)


fractions = st.builds(
    lambda p, q: p / q, st.integers(0, 300), st.sampled_from([1, 2, 3, 7, 10, 100, 997])
)


@given(
    k=st.integers(1, 4),
    n=st.integers(1, 10_000),
    data=st.data(),
    rounding=st.sampled_from(["inward", "outward", "nearest"]),
)
@examples(1000)
def test_ratios_become_the_counts_of_exact_arithmetic(k, n, data, rounding):
    pairs = data.draw(
        st.lists(
            st.tuples(st.integers(0, 300), st.sampled_from([1, 2, 3, 7, 10, 100, 997])),
            min_size=2 * k,
            max_size=2 * k,
        )
    )
    ratios = [Fraction(*pair) for pair in pairs]
    turn = {
        "inward": (math.ceil, math.floor),
        "outward": (math.floor, math.ceil),
        "nearest": (round, round),
    }[rounding]
    low = [turn[0](r * n / k) for r in ratios[:k]]
    high = [min(turn[1](r * n / k), n) for r in ratios[k:]]
    floats = [p / q for p, q in pairs]
    bounds, error = outcome(
        lambda: SizeBounds.from_ratios(
            k, n_samples=n, lower=floats[:k], upper=floats[k:], rounding=rounding
        )
    )
    if error is not None and error.vector is None:  # shares exclude all sizes, but not rounded
        assert rounding != "inward"
        least, most = ratios[:k], ratios[k:]
        crossed = [a > min(b, k) for a, b in zip(least, most, strict=True)]
        assert any(crossed) or sum(least) > k or sum(min(b, k) for b in most) < k
        return
    if error is not None:
        assert proves_infeasibility(error.clusters, error.excess, low, high, n)
        return
    assert sum(ratios[:k]) <= k <= sum(ratios[k:])
    assert (bounds.lower.tolist(), bounds.upper.tolist()) == (low, high)
    assert all(lo <= hi for lo, hi in zip(low, high, strict=True))
    assert sum(low) <= n <= sum(high)
    assert bounds.lower_share.tolist() == [float(r / k) for r in ratios[:k]]
    assert bounds.upper_share.tolist() == [min(float(r / k), 1.0) for r in ratios[k:]]


@given(
    k=st.integers(1, 50),
    n=st.integers(1, 10**9),
    lower=st.floats(0, 1),
    upper=st.floats(1, 1e6),
)
@examples(500)
def test_rounding_outward_is_feasible_whenever_the_ratios_are(k, n, lower, upper):
    bounds = SizeBounds.from_ratios(k, n_samples=n, lower=lower, upper=upper, rounding="outward")
    assert int(bounds.lower.sum()) <= n <= int(bounds.upper.sum())


@given(ratio=st.floats(0, 1), n=st.integers(1, 10**6))
@examples(500)
def test_rounding_moves_a_bound_by_less_than_one_sample(ratio, n):
    inward, outward = (
        SizeBounds.from_ratios(1, n_samples=n, lower=ratio, rounding=rounding).lower.tolist()[0]
        for rounding in ("inward", "outward")
    )
    assert outward <= inward <= outward + 1
    assert abs(inward - ratio * n) < 1 + 1e-9 * n


@given(k=st.integers(1, 5), data=st.data())
@examples(300)
def test_a_stream_is_refused_exactly_where_its_shares_leave_nothing(k, data):
    lists = st.lists(fractions, min_size=k, max_size=k)
    lower, upper = data.draw(lists), data.draw(lists)
    shares = [Fraction(v).limit_denominator(1000) for v in (*lower, *upper)]
    low, high = shares[:k], shares[k:]
    possible = all(a <= b for a, b in zip(low, high, strict=True)) and sum(low) <= k <= sum(high)
    if possible:
        bounds = SizeBounds.for_stream(k, lower=lower, upper=upper)
        assert bounds.total_lower_share <= 1.0 + 1e-12
    else:
        with pytest.raises(InfeasibleBoundsError):
            SizeBounds.for_stream(k, lower=lower, upper=upper)
