"""An epoch or a pass costs what the first did, and counters and prices hold for ever."""

from __future__ import annotations

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.clustering.centers import CenterSums, merge_sums
from dualclust.algos.online.assignment import AssignmentState, assign, init_state
from dualclust.algos.online.certificates import size_certificate
from dualclust.algos.online.duals import DualRule, Duals
from dualclust.algos.online.step_sizes import StepRule
from dualclust.proofs.theorem_r.regret import (
    largest_price,
    largest_price_two_sided,
    reach_of,
    sum_of_prices,
)
from tests.faults.long_runs import cycle_of, epochs, passes

FAR = 2**31 - 7
UPDATES = 10**9


@pytest.mark.parametrize("every", [15, pytest.param(3_333, marks=pytest.mark.slow)])
def test_an_epoch_costs_what_the_epochs_before_it_did(tmp_path, every) -> None:
    begun, middle, last = found = epochs(tmp_path, 3 * every, every=every)
    assert (last.operations, last.files) == (middle.operations, middle.files)
    assert last.objects < middle.objects + every // 10 + 14  # not one for each epoch
    # Of what is written, only the lines of the metrics are more; a number may have a digit more.
    own = [e.written - e.lines for e in found]
    assert max(own) - min(own) <= 64
    assert last.lines < 4 * begun.lines
    print(*found, sep="\n")  # time and memory, which the machine shares, are shown


@pytest.mark.parametrize(
    ("n_passes", "n_batches"), [(12, 5), pytest.param(1_000, 1_000, marks=pytest.mark.slow)]
)
def test_a_pass_leaves_nothing_behind(n_passes, n_batches) -> None:
    state, objects = passes(n_passes, n_batches)
    assert objects[-1] < objects[0] + 10
    assert state.seen == 8 * n_batches
    assert state.counts.shape == (5,)


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_counters_beyond_two_to_the_31(library) -> None:
    xp = pytest.importorskip("array_api_compat." + library)
    k, scores = 3, np.random.default_rng(0).normal(size=(40, 3))
    bounds = SizeBounds.for_stream(k, lower=0.5, upper=1.5, xp=xp)
    steps = StepRule(0.01, chunk_size=4)
    fresh = init_state(bounds)
    late = fresh._replace(counts=fresh.counts + FAR, seen=k * FAR, step_size=steps.step_size)
    ours = [assign(xp.asarray(scores), bounds, state, steps=steps) for state in (fresh, late)]
    assert ours[0].labels.tolist() == ours[1].labels.tolist()
    assert [c - FAR for c in ours[1].state.counts.tolist()] == ours[0].state.counts.tolist()
    assert min(ours[1].state.counts.tolist()) > FAR
    assert ours[1].state.seen == k * FAR + 40 > 2**32


def test_sums_of_centers_beyond_two_to_the_31() -> None:
    late = CenterSums(np.full((2, 3), 2**40), np.asarray([FAR, FAR]))
    more = CenterSums(np.full((2, 3), 5), np.asarray([100, 200]))
    found = merge_sums(late, more)
    assert found.counts.tolist() == [FAR + 100, FAR + 200]
    assert found.sums.tolist() == [[2**40 + 5] * 3] * 2


@pytest.mark.parametrize("two_sided", [False, True])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_prices_after_a_thousand_million_updates(seed, two_sided) -> None:
    """Theorem R at every update up to the last, and its certificate at the last, exactly."""
    rng = np.random.default_rng(seed)
    k, batch, h = 4, 8, 2.0**-6
    # One cluster is better than all others for most rows, as in a collapse.
    scores = rng.integers(0, 9, size=(8, batch, k)) / 8.0 + np.asarray([0.5, 0, 0, 0])
    low = np.asarray([0.125, 0.25, 0.125, 0.25])
    high = np.asarray([0.375, 0.5, 0.25, 0.5]) if two_sided else np.ones(k)
    found = cycle_of(scores, DualRule(low, high, step_size=h, chunk_size=batch))
    reach, eta = reach_of(scores), h * batch
    if two_sided:
        assert max(found.lower.max(), found.upper.max()) <= largest_price_two_sided(k, reach, eta)
    else:
        assert found.lower.sum(axis=1).max() <= sum_of_prices(k, reach, eta)
        assert found.lower.max() <= largest_price(k, reach, eta)
        assert found.lower.max() > 0.25  # it had to raise some
    place, counts = found.place(UPDATES - 1), found.counts_after(UPDATES)
    seen = UPDATES * batch
    assert sum(counts) == seen > 2**32
    duals = Duals(found.lower[place], found.upper[place])
    # R1 without rounding: what a cluster lacks is paid for by its price.
    assert all(seen * s - c <= p / h for s, c, p in zip(low, counts, duals.lower, strict=True))
    assert all(c - seen * s <= p / h for s, c, p in zip(high, counts, duals.upper, strict=True))
    zeros = Duals(np.zeros(k), np.zeros(k))
    state = AssignmentState(duals, zeros, np.asarray(counts, dtype=np.int64), seen, h, False)
    bounds = SizeBounds.for_stream(k, lower=low * k, upper=high * k)
    certificate = size_certificate(state, bounds)
    assert (certificate.at_least <= state.counts).all()
    assert (certificate.at_most >= state.counts).all()


def test_the_cycle_is_the_run_itself() -> None:
    """Counts and prices that are looked up are those of updates that were taken."""
    rng = np.random.default_rng(7)
    scores = rng.integers(0, 5, size=(4, 2, 3)) / 4.0
    rule = DualRule(np.asarray([0.25, 0.5, 0.125]), np.ones(3), step_size=0.125, chunk_size=2)
    short = cycle_of(scores, rule)
    n = 3 * len(short.lower)
    duals, counts = Duals(np.zeros(3), np.zeros(3)), np.zeros(3, dtype=np.int64)
    from dualclust.algos.online.duals import assign_batch

    for update in range(n):
        labels, duals = assign_batch(scores[update % 4], duals, rule)
        counts = counts + np.bincount(labels, minlength=3)
        assert (duals.lower == short.lower[short.place(update)]).all()
    assert short.counts_after(n) == counts.tolist()
