"""Streams and training with bounds on groups: batches in any order, states that are stored."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from dualclust.algos.bounds import GroupBounds, SizeBounds
from dualclust.algos.online import assign_grouped_stream, init_grouped_state, size_certificate
from dualclust.algos.online.step_sizes import StepRule
from dualclust.torch import PricedLabels
from tests.compare import assert_equal

torch = pytest.importorskip("torch")

K = 3
SHORT = settings(max_examples=25, stateful_step_count=15)
LONG = settings(max_examples=500, stateful_step_count=40)


def ways_to_end(totals, bounds, groups):
    """All counts (m, G + 1, k) of so many samples of each group that are inside all bounds."""
    of_groups = [
        [c for c in product(range(total + 1), repeat=K) if sum(c) == total] for total in totals
    ]
    cells = np.asarray(list(product(*of_groups)))
    sizes, of_bounds = cells.sum(axis=1), cells[:, :-1]
    is_inside = ((bounds.lower <= sizes) & (sizes <= bounds.upper)).all(axis=1)
    is_inside &= ((groups.lower <= of_bounds) & (of_bounds <= groups.upper)).all(axis=(1, 2))
    return cells[is_inside]


def shares(groups, totals, n, steps):
    """Bounds as parts of each group, and the step of each group, as `online.grouped` says."""
    n_g = np.asarray(totals, float)[:, None]
    step = steps.step_size * np.minimum(n / n_g, max(1.0, steps.chunk_size / K))
    return groups.lower / n_g, groups.upper / n_g, step


def moved(below, above, taken, low, high, step):
    """Prices of both sides after so many samples of each group in each cluster."""
    m = taken.sum(axis=1, keepdims=True)
    return (
        np.maximum(0.0, below - step * (taken - m * low)),
        np.maximum(0.0, above + step * (taken - m * high)),
    )


class GroupedStream(RuleBasedStateMachine):
    """A stream with groups, in any order and batches, refuses only what cannot end inside."""

    OF_ROWS = np.asarray([0] * 6 + [1] * 5 + [-1] * 3)
    BOUNDS = SizeBounds.from_counts([4] * K, [5, 5, 6], n_samples=len(OF_ROWS))
    GROUPS = GroupBounds.from_counts(OF_ROWS, K, lower=[1, 1], upper=[3, 2])
    WAYS = ways_to_end([6, 5, 3], BOUNDS, GROUPS)
    STEPS = StepRule(0.25, 2)
    LOW, HIGH, STEP = shares(GROUPS, [6, 5], 14, STEPS)

    def __init__(self):
        super().__init__()
        self.state, self.left = init_grouped_state(self.BOUNDS, self.GROUPS), self.OF_ROWS.tolist()

    def labels_of(self, scores, state, of_rows):
        return assign_grouped_stream(
            scores, self.BOUNDS, self.GROUPS, state, of_rows=of_rows, steps=self.STEPS
        )

    @precondition(lambda self: self.left)
    @rule(seed=st.integers(0, 99), pairs=st.integers(0, 3))
    def more(self, seed, pairs):
        rng, n = np.random.default_rng(seed), min(2 * pairs, len(self.left))
        order = rng.permutation(len(self.left))
        of_rows, self.left = np.split(np.asarray(self.left)[order], [n])
        self.left, scores = self.left.tolist(), rng.integers(-8, 8, (n, K)) / 8.0
        scores += np.arange(K) == seed % K  # which all of these rows want
        labels, whole = self.labels_of(scores, self.state, of_rows)
        for first in range(0, n, 2):
            part = slice(first, min(first + 2, n))
            self.one_chunk(scores[part], of_rows[part], labels[part])
        for ours, theirs in zip(whole.prices, self.state.prices, strict=True):
            assert_equal(ours, theirs)
        assert_equal(whole.group_counts, self.state.group_counts)

    def one_chunk(self, scores, of_rows, labels):
        """Rows join the best of the clusters that leave a way to end inside."""
        counts, (p, q) = self.state.group_counts.copy(), self.state.prices
        for row, g, label in zip(scores, of_rows, labels, strict=True):
            priced = row + p + (q[g] if g >= 0 else 0.0)
            leaves = [(counts + one <= self.WAYS).all(axis=(1, 2)).any() for one in self.cells(g)]
            assert label == np.argmax(np.where(leaves, priced, -np.inf))
            counts[g, label] += 1
        taken = counts - self.state.group_counts
        below, above = moved(*self.state.group_duals, taken[:-1], self.LOW, self.HIGH, self.STEP)
        again, self.state = self.labels_of(scores, self.state, of_rows)
        assert_equal(again, labels)
        assert_equal(self.state.group_counts, counts)
        np.testing.assert_allclose(self.state.group_duals.lower, below, atol=1e-12)
        np.testing.assert_allclose(self.state.group_duals.upper, above, atol=1e-12)

    @staticmethod
    def cells(g):
        one = np.zeros((K, 3, K), np.int64)
        one[np.arange(K), g, np.arange(K)] = 1
        return one

    @rule()
    def stored(self):
        """The state of arrays and numbers comes back from their bytes."""
        lower, upper = (np.frombuffer(a.tobytes()).reshape(2, K) for a in self.state.group_duals)
        duals = self.state.group_duals._replace(lower=lower, upper=upper)
        plan = np.frombuffer(self.state.plan.tobytes(), np.int64).reshape(3, K)
        self.state = self.state._replace(group_duals=duals, plan=plan)

    @precondition(lambda self: not self.left)
    @rule()
    def again(self):
        prices = self.state.prices
        self.state = init_grouped_state(self.BOUNDS, self.GROUPS, prices=prices)
        self.left = self.OF_ROWS.tolist()

    @invariant()
    def can_end_inside(self):
        counts, plan = self.state.group_counts, self.state.plan
        assert (plan == self.WAYS).all(axis=(1, 2)).any()
        assert (counts <= plan).all()
        assert self.left or (counts == plan).all()
        left = Counter(self.left)
        assert counts.sum(axis=1).tolist() == [6 - left[0], 5 - left[1], 3 - left[-1]]
        if self.state.clusters.seen:
            proven = size_certificate(self.state.clusters, self.BOUNDS)
            sizes = counts.sum(axis=0)
            assert ((proven.at_least <= sizes) & (sizes <= proven.at_most)).all()


class Training(RuleBasedStateMachine):
    """Labels of batches in training move prices by the shares of each group, in eval none."""

    STEPS = StepRule(2.0**-4, 8)
    OF_ROWS = np.asarray([0] * 12 + [1] * 3 + [-1] * 5)
    FAIR = GroupBounds.from_shares(OF_ROWS, K, lower=0.5, upper=1.25)

    def __init__(self):
        super().__init__()
        self.label = self.made()
        low, high, step = shares(self.FAIR, [12, 3], 20, self.STEPS)
        self.low = np.concatenate([low, np.full((1, K), 0.9 / K)])  # of all rows at last
        self.high = np.concatenate([high, np.full((1, K), 1.1 / K)])
        self.step = np.concatenate([step, [[self.STEPS.step_size]]])
        self.below, self.above = np.zeros((2, 3, K))
        self.counts, self.waiting = np.zeros((2, 3, K))

    def made(self, automatic=True):
        options = {"groups": self.FAIR, "steps": self.STEPS, "automatic": automatic}
        return PricedLabels(K, lower=0.9, upper=1.1, **options)

    @rule(seed=st.integers(0, 99), n=st.integers(1, 8), is_training=st.booleans())
    def batch(self, seed, n, is_training):
        rng = np.random.default_rng(seed)
        scores, groups, is_row = (
            rng.normal(size=(n, K)),
            rng.integers(-1, 2, n),
            rng.random(n) < 0.8,
        )
        prices = self.below - self.above
        own = np.where(groups[:, None] >= 0, prices[groups], 0.0)
        wanted = np.argmax(scores + prices[-1] + own, axis=1)
        rows = [torch.from_numpy(part) for part in (scores, is_row, groups)]
        found = self.label.train(is_training)(*rows[:2], groups=rows[2])
        assert_equal(found.numpy(), wanted)
        if is_training:
            for g, label, ok in zip(groups, wanted, is_row, strict=True):
                self.waiting[[g, -1] if g >= 0 else [-1], label] += ok
            if self.label.automatic:
                self.move()

    @rule()
    def moved_on_request(self):
        """What was counted since moves the prices once."""
        self.label.move_prices()
        self.move()

    def move(self):
        sides = self.low, self.high, self.step
        self.below, self.above = moved(self.below, self.above, self.waiting, *sides)
        self.counts, self.waiting = self.counts + self.waiting, np.zeros((3, K))

    @rule(automatic=st.booleans())
    def resumed(self, automatic):
        """Prices are moved before: a state has none that are to come."""
        self.moved_on_request()
        state, self.label = self.label.state_dict(), self.made(automatic)
        self.label.load_state_dict(state)

    @rule()
    def counted_anew(self):
        self.moved_on_request()
        self.label.reset_counts()
        self.counts = np.zeros((3, K))

    @invariant()
    def is_as_written(self):
        for name, mine in (("price_lower", self.below), ("price_upper", self.above)):
            of_groups, of_all = getattr(self.label, f"group_{name}"), getattr(self.label, name)
            np.testing.assert_allclose(of_groups.numpy(), mine[:-1], atol=1e-12)
            np.testing.assert_allclose(of_all.numpy(), mine[-1], atol=1e-12)
        if self.label.automatic:
            assert_equal(self.label.group_counts.numpy(), self.counts[:-1].astype(np.int64))
            assert_equal(self.label.counts.numpy(), self.counts[-1].astype(np.int64))


@pytest.mark.parametrize("machine", [GroupedStream, Training])
@pytest.mark.parametrize(
    "within", [SHORT, pytest.param(LONG, marks=pytest.mark.slow)], ids=["short", "long"]
)
def test_batches_in_any_order(machine, within):
    run_state_machine_as_test(machine, settings=within)
