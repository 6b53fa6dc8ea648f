"""What the duals prove about the sizes holds in every run, for every prefix, without exception."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.online.assignment import assign, init_state
from dualclust.algos.online.certificates import dual_value, objective, size_certificate, violation
from dualclust.algos.online.duals import Duals
from dualclust.algos.online.step_sizes import StepRule
from tests.compare import to_numpy
from tests.examples import examples
from tests.libraries import LIBRARIES
from tests.problems import best_value, cone_scores, dyadic_streams, float_streams, in_order

NUMPY = LIBRARIES[0]


def prefixes(scores, bounds, rule, xp, state=None):
    """States after each multiple of the chunk size, and at the end."""
    for first in range(0, len(scores), rule.chunk_size):
        part = xp.asarray(scores[first : first + rule.chunk_size])
        state = assign(part, bounds, state, steps=rule).state
        yield state


def exact_sides(state, bounds, h):
    """Both sides of the identity in rational numbers, without any rounding."""
    now, start = ([[Fraction(float(v)) for v in d] for d in duals] for duals in state[:2])
    shares = [[Fraction(float(v)) for v in share] for share in bounds[:2]]
    risen = [
        [(a - b) / Fraction(h) for a, b in zip(*pair, strict=True)]
        for pair in zip(now, start, strict=True)
    ]
    at_least = [state.seen * s - r for s, r in zip(shares[0], risen[0], strict=True)]
    at_most = [state.seen * s + r for s, r in zip(shares[1], risen[1], strict=True)]
    return at_least, at_most


@given(stream=dyadic_streams(), known=st.booleans())
@examples(1000)
def test_the_identity_holds_exactly_on_every_prefix(stream, known):
    k = stream.scores.shape[1]
    k = 1 << (k - 1).bit_length()  # 1 / k must be exact
    scores = np.pad(stream.scores, ((0, 0), (0, k - stream.scores.shape[1])))
    bounds = (
        stream._replace(
            scores=scores,
            lower=np.pad(stream.lower, (0, k - len(stream.lower))),
            upper=np.pad(stream.upper, (0, k - len(stream.upper)), constant_values=len(scores)),
        ).bounds(NUMPY)
        if known
        else SizeBounds.for_stream(k, lower=0.75, upper=1.25)
    )
    for state in prefixes(scores, bounds, stream.rule, NUMPY):
        counts = state.counts.tolist()
        at_least, at_most = exact_sides(state, bounds, stream.rule.step_size)
        told = size_certificate(state, bounds)
        if stream.rule.free_sign:
            assert at_least == counts
            np.testing.assert_allclose(told.at_most, counts, rtol=0, atol=1e-9)
        else:
            assert all(a <= c <= b for a, c, b in zip(at_least, counts, at_most, strict=True))
            loose = [max(float(a), 0.0) for a in at_least]
            np.testing.assert_allclose(told.at_least, loose, rtol=0, atol=1e-9)
            np.testing.assert_allclose(told.at_most, [float(b) for b in at_most], atol=1e-9)
        assert (told.at_least <= state.counts).all()
        assert (state.counts <= told.at_most).all()


@given(stream=float_streams(), start=st.integers(0, 2**32))
@examples(1000)
def test_the_certificate_holds_for_any_floats_from_any_start(stream, start):
    rng, k = np.random.default_rng(start), stream.scores.shape[1]
    bounds = stream.bounds(NUMPY)
    size = 10.0 ** rng.integers(-6, 6) * rng.integers(0, 2)
    duals = Duals(*(size * rng.random(k) for _ in range(2)))
    state = init_state(bounds)._replace(duals=duals, start=duals)
    for now in prefixes(stream.scores, bounds, stream.rule, NUMPY, state):
        told = size_certificate(now, bounds)
        assert (told.at_least <= now.counts).all()
        assert (now.counts <= told.at_most).all()


@given(stream=dyadic_streams())
@examples(40)
def test_the_certificate_holds_on_every_library(xp, stream):
    bounds = stream.bounds(xp)
    for state in prefixes(stream.scores, bounds, stream.rule, xp):
        told = size_certificate(state, bounds)
        counts = to_numpy(state.counts)
        assert (to_numpy(told.at_least) <= counts).all()
        assert (counts <= to_numpy(told.at_most)).all()


@pytest.mark.parametrize("order", ["sorted", "random", "adversarial"])
@pytest.mark.parametrize("chunk", [1, 64])
def test_the_certificate_of_a_long_run_is_tight_and_holds(order, chunk):
    scores = in_order(cone_scores(20_000, 10), order)
    bounds = SizeBounds.for_stream(10, lower=0.9, upper=1.1)
    state = assign(scores, bounds, steps=StepRule(1e-3, chunk)).state
    told = size_certificate(state, bounds)
    assert (told.at_least <= state.counts).all()
    assert (state.counts <= told.at_most).all()
    short = told.at_least < 0.9 * 2000 - 1.0  # the price rose: the identity is nearly an equality
    assert short.any()
    assert (state.counts - told.at_least)[short].min() < 200


@given(stream=dyadic_streams(max_k=4), prices=st.integers(0, 2**32))
@examples(250)
def test_the_dual_value_is_never_below_the_best_assignment(stream, prices):
    n, k = stream.scores.shape
    while k**n > 4096:
        n //= 2
    sizes = np.bincount(stream.scores[:n].argmax(axis=1), minlength=k)
    small = stream._replace(
        scores=stream.scores[:n], lower=np.minimum(stream.lower, sizes), upper=sizes + 1
    )
    bounds = small.bounds(NUMPY)
    best = best_value(small.scores, to_numpy(bounds.lower), to_numpy(bounds.upper))
    labels, state = assign(small.scores, bounds, steps=small.rule)
    learned = state.duals.lower - state.duals.upper
    any_prices = np.random.default_rng(prices).integers(-32, 33, size=k) / 16.0
    for pi in (learned, any_prices, np.zeros(k)):
        assert dual_value(small.scores, pi, bounds) >= best
    assert violation(state.counts, bounds) == 0
    assert objective(small.scores, labels) <= best


@given(stream=dyadic_streams(), shift=st.integers(-64, 64))
@examples(150)
def test_where_sizes_have_no_slack_a_common_shift_of_the_prices_proves_the_same(stream, shift):
    # Sizes that add up to n leave nothing to choose: a bound on the other side is implied.
    n, k = stream.scores.shape
    sizes = np.bincount(stream.scores.argmax(axis=1), minlength=k)
    prices = np.arange(k) / 8.0
    for lower, upper in ((sizes, np.full(k, n)), (np.zeros_like(sizes), sizes), (sizes, sizes)):
        bounds = stream._replace(lower=lower, upper=upper).bounds(NUMPY)
        moved = dual_value(stream.scores, prices + shift / 16.0, bounds)
        assert moved == dual_value(stream.scores, prices, bounds)
