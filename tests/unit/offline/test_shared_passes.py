"""Passes that learn prices, whose long chunks threads share out: those of the online assignment."""

import math
import threading

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.core.errors import InfeasibleBoundsError, InvalidValueError
from dualclust.algos.core.workers import workers
from dualclust.algos.offline import SolverOptions, _online_passes
from dualclust.algos.offline._forced_rows import FORBIDDEN
from dualclust.algos.offline._online_passes import learn_prices
from dualclust.algos.offline.assignment import assign_source
from dualclust.algos.online.assignment import assign, init_state, next_pass, relaxed
from dualclust.algos.online.duals import Duals
from dualclust.algos.online.step_sizes import StepRule
from dualclust.algos.scores.sources import score_source
from tests.compare import to_numpy

N, K = 90, 4
GIVEN = np.asarray([0.5, -0.75, 0.0, 0.25])


@pytest.fixture
def small(monkeypatch):
    """Every chunk is shared out; blocks have 32 rows, and parts of them 8."""
    monkeypatch.setattr(_online_passes, "SHARED_ENTRIES", 1)
    monkeypatch.setattr(_online_passes, "block_rows", lambda n_clusters, like: 32)


def loose_bounds(xp, lower=0.8, upper=1.3):
    options = {"xp": xp.namespace, "device": xp.device}
    return relaxed(SizeBounds.from_ratios(K, n_samples=N, lower=lower, upper=upper, **options))


def scores_of(seed):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(N, K)) * 2.0 + np.asarray([0.0, 1.0, 0.0, -1.0])
    scores[3:N:17, 1] = -math.inf
    return scores


def steps_of(chunk_size, free_sign=False):
    def rule(bounds, *, epoch, kappa_floor, scale):
        return StepRule(0.125 / (1 + epoch), chunk_size, free_sign)

    return rule


@pytest.mark.parametrize("chunk_size", [1, 7, 8, 31, 40, 1000])
@pytest.mark.parametrize(("prices", "ratio"), [(None, 0.8), (GIVEN, 0.8), (GIVEN, 1.0)])
def test_prices_are_those_of_the_online_assignment(
    xp, small, chunk_size, prices, ratio, monkeypatch
):
    """In chunks that are counted from the first row, wherever blocks and parts of them end."""
    rule = steps_of(chunk_size, free_sign=ratio == 1.0)
    monkeypatch.setattr(_online_passes, "measured_steps", rule)
    scores, bounds = scores_of(0), loose_bounds(xp, ratio, 1.0 / ratio)
    given = None if prices is None else xp.asarray(prices)
    found = learn_prices(score_source(xp.asarray(scores)), bounds, n_passes=3, prices=given)
    state, finite = init_state(bounds), xp.asarray(np.maximum(scores, FORBIDDEN))
    if prices is not None:
        halves = np.maximum(prices, 0.0), np.maximum(-prices, 0.0)
        state = state._replace(duals=Duals(*map(xp.asarray, halves)))
    for epoch in range(3):
        steps = rule(bounds, epoch=epoch, kappa_floor=0.0, scale=0.0)
        _, state = assign(finite, bounds, next_pass(state), steps=steps)
    expected = to_numpy(state.duals.lower - state.duals.upper)
    np.testing.assert_allclose(to_numpy(found), expected, rtol=1e-12, atol=1e-13)
    assert np.ptp(expected) > 0.1


@pytest.mark.parametrize("in_turn", [False, True])
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_read_every_row_once_a_pass_and_change_no_bit(small, threads, in_turn, monkeypatch):
    monkeypatch.setattr(_online_passes, "measured_steps", steps_of(50))
    source, read = score_source(scores_of(1)), []
    bounds = relaxed(SizeBounds.from_ratios(K, n_samples=N, lower=0.8, upper=1.3))
    expected = learn_prices(source, bounds, n_passes=2)
    meeting, first_two, own = threading.Barrier(2), iter([1, 1]), threading.get_ident()

    def block(start, stop):
        if read and threads > 1 and not in_turn and next(first_two, None):
            meeting.wait(timeout=30.0)  # the second one is another thread's
        read.append((start, stop, threading.get_ident()))
        return source.block(start, stop)

    watched = source._replace(block=block, in_turn=in_turn)
    with workers(threads):
        found = learn_prices(watched, bounds, n_passes=2)
    assert found.tobytes() == expected.tobytes()
    edges = [(0, 8), (8, 16), (16, 24), (24, 32), (32, 40), (40, 48), (48, 50), (50, 56)]
    edges += [(a, min(a + 8, N)) for a in range(56, N, 8)]
    parts = sorted((start, stop) for start, stop, _ in read[1:])
    assert parts == sorted(2 * edges)
    if threads == 1 or in_turn:
        assert {who for *_, who in read} == {own}
        assert [(start, stop) for start, stop, _ in read[1:]] == 2 * edges


@pytest.mark.parametrize("entry", [math.nan, math.inf])
@pytest.mark.parametrize("place", [0, 5])
def test_a_wrong_row_is_named_as_one_of_the_data(small, rng, entry, place):
    """By the look at the candidates that comes next: a pass that is shared out compares only."""
    n, k = 4_000, 6
    scores = rng.normal(size=(n, k))
    sampled = int(round(n * (math.sqrt(5) - 1) / 2) * 1_000 % n)  # near a row of the sample
    scores[sampled : sampled + 9, place] = entry
    bounds = SizeBounds.from_ratios(k, n_samples=n, lower=0.9, upper=1.1)
    options = SolverOptions(full_entries=0, few_clusters=2, min_sample_rows=2_000)
    with pytest.raises(InvalidValueError, match=f"row {sampled}|scores\\[{sampled}"):
        assign_source(score_source(scores), bounds, tol=0.0, options=options)
    scores[sampled : sampled + 9] = -math.inf
    with pytest.raises(InfeasibleBoundsError):
        assign_source(score_source(scores), bounds, tol=0.0, options=options)
