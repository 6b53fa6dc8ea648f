"""Bounds on groups, loads and pairs, and rows that may stay out, which change at each step.

Machines of a few rows, where all labels can be tried: after each change the problem is solved from
the prices of the one before, and compared with the best of these labels, or their absence.
"""

from __future__ import annotations

from itertools import cycle, product

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from dualclust.algos.bounds import GroupBounds, LoadBounds, SizeBounds
from dualclust.algos.clustering.weighted import weighted_kmeans
from dualclust.algos.core.errors import InfeasibleBoundsError
from dualclust.algos.offline.grouped import assign_grouped, assign_linked, assign_partial
from dualclust.algos.offline.weighted import assign_weighted
from tests.compare import assert_equal

N, K = 6, 3
ALL = np.asarray(list(product(range(K), repeat=N)))
COUNTS = (ALL[:, :, None] == np.arange(K)).sum(axis=1)
ROW, CLUSTER = st.integers(0, N - 1), st.integers(0, K - 1)
SHORT = settings(max_examples=10, stateful_step_count=10)
LONG = settings(max_examples=300, stateful_step_count=30)


def around(rng, counts):
    """Bounds on counts, or on loads, that these keep."""
    less, more = rng.integers(0, 2, (2, *counts.shape))
    return np.maximum(counts - less, 0), counts + more


class Problem(RuleBasedStateMachine):
    """Scores in eighths, whose sums are exact, and bounds on sizes."""

    def __init__(self):
        super().__init__()
        self.scores = (np.arange(N * K).reshape(N, K) * 5 % 8) / 8.0
        self.lower, self.upper = np.full(K, 1), np.full(K, 3)
        self.prices, self.n_drawn = None, 0

    @initialize(seed=st.integers(0, 999))
    def first(self, seed):
        self.another(seed)

    @rule(seed=st.integers(0, 999))
    def another(self, seed):
        """Bounds around the counts of some labels, from prices of before or from none."""
        self.n_drawn += 1
        rng = np.random.default_rng([seed, self.n_drawn])
        if seed % 2:
            self.prices = None
        self.scores, labels = rng.integers(-8, 9, (N, K)) / 8.0, rng.integers(0, K, N)
        if seed % 3 == 1:
            self.scores[rng.random((N, K)) < 0.2] = -np.inf
        self.bound_around(rng, labels)

    def bound_around(self, rng, labels):
        counts = np.bincount(labels, minlength=K)
        self.lower, self.upper = around(rng, counts)

    @rule(row=ROW, values=st.tuples(*[st.integers(-9, 8)] * K))
    def other_scores(self, row, values):
        self.scores[row] = [v / 8.0 if v > -9 else -np.inf for v in values]

    @rule(k=CLUSTER, least=st.integers(0, 3), width=st.integers(0, 3))
    def other_sizes(self, k, least, width):
        self.lower[k], self.upper[k] = least, least + width

    @property
    def sizes(self):
        return SizeBounds.from_counts(self.lower, self.upper, n_samples=N)

    def is_inside(self):
        """Which of all labels have sizes inside, and no forbidden pair."""
        return (
            ((self.lower <= COUNTS) & (COUNTS <= self.upper)).all(axis=1)
            & np.isfinite(self.scores[np.arange(N), ALL]).all(axis=1)
        )  # fmt: skip

    def worth(self):
        return self.scores[np.arange(N), ALL].sum(axis=1)

    def assert_best(self, solve, is_inside, worth=None, labels=ALL):
        """The best of the labels that are inside is found, or an error where there are none."""
        worth = self.worth() if worth is None else worth
        if not is_inside.any():
            with pytest.raises(InfeasibleBoundsError):
                solve()
            return None
        found = solve()
        own = (labels == found.labels).all(axis=1)
        assert is_inside[own].all(), found.labels
        assert found.objective == worth[own] == worth[is_inside].max()
        assert found.status == "optimal"
        assert found.upper_bound >= found.objective
        return found


class Groups(Problem):
    """Rows change their group, and groups their bounds."""

    def __init__(self):
        super().__init__()
        self.of_rows = np.asarray([0, 0, 1, 1, -1, -1])
        self.least, self.most = np.zeros((2, K), np.int64), np.full((2, K), 1)

    def bound_around(self, rng, labels):
        super().bound_around(rng, labels)
        self.of_rows = rng.integers(-1, 2, N)
        cells = [np.bincount(labels[self.of_rows == g], minlength=K) for g in range(2)]
        self.least, self.most = around(rng, np.asarray(cells))
        self.most[rng.random((2, K)) < 0.5] = N

    @rule(row=ROW, group=st.integers(-1, 1))
    def other_group(self, row, group):
        self.of_rows[row] = group

    @rule(group=st.integers(0, 1), k=CLUSTER, least=st.integers(0, 1), width=st.integers(0, 2))
    def other_cell(self, group, k, least, width):
        self.least[group, k], self.most[group, k] = least, least + width

    @invariant()
    def is_the_best(self):
        n_groups, is_inside = int(self.of_rows.max()) + 1, self.is_inside()
        for g in range(n_groups):
            cells = (ALL[:, self.of_rows == g, None] == np.arange(K)).sum(axis=1)
            is_inside &= ((self.least[g] <= cells) & (cells <= self.most[g])).all(axis=1)

        def solve():
            sides = {"lower": self.least[:n_groups], "upper": self.most[:n_groups]}
            groups = GroupBounds.from_counts(self.of_rows, K, **sides)
            fits = self.prices is not None and len(self.prices[1]) == n_groups
            start = self.prices if fits else None
            return assign_grouped(self.scores, self.sizes, groups, prices=start)

        found = self.assert_best(solve, is_inside)
        self.prices = None if found is None else (found.prices, found.group_prices)


class RowsOut(Problem):
    """Rows may stay out, at a score of their own."""

    WITH_OUT = np.asarray(list(product(range(-1, K), repeat=N)))
    IN = (WITH_OUT[:, :, None] == np.arange(K)).sum(axis=1)

    def __init__(self):
        super().__init__()
        self.outside, self.max_out = np.zeros(N), 1

    def bound_around(self, rng, labels):
        self.max_out, self.outside = int(rng.integers(0, 3)), rng.integers(-8, 9, N) / 8.0
        super().bound_around(rng, labels[self.max_out :])

    @rule(row=ROW, value=st.integers(-8, 8))
    def other_score_outside(self, row, value):
        self.outside[row] = value / 8.0

    @rule(most=st.integers(0, N))
    def other_most(self, most):
        self.max_out = most

    @invariant()
    def is_the_best(self):
        wider = np.concatenate([self.scores, self.outside[:, None]], axis=1)  # -1 is the last
        worth = wider[np.arange(N), self.WITH_OUT].sum(axis=1)
        is_inside = ((self.lower <= self.IN) & (self.IN <= self.upper)).all(axis=1)
        is_inside &= (self.IN.sum(axis=1) >= N - self.max_out) & np.isfinite(worth)
        options = {"max_out": self.max_out, "out_score": self.outside.copy()}
        options |= {"min_count": self.lower.tolist(), "max_count": self.upper.tolist()}
        found = self.assert_best(
            lambda: assign_partial(self.scores, **options, prices=self.prices),
            is_inside,
            worth,
            self.WITH_OUT,
        )
        self.prices = None if found is None else (found.prices, found.out_price)


class Links(Problem):
    """Pairs of rows come and go that must, or must not, be together."""

    def __init__(self):
        super().__init__()
        self.must, self.cannot = [], []

    def bound_around(self, rng, labels):
        super().bound_around(rng, labels)
        pairs = rng.integers(0, N, (7, 2)).tolist()
        self.must = [(i, j) for i, j in pairs if labels[i] == labels[j]]
        self.cannot = [(i, j) for i, j in pairs if labels[i] != labels[j]]

    @rule(i=ROW, step=st.integers(1, N - 1))
    def together(self, i, step):
        self.must.append((i, (i + step) % N))

    @rule(i=ROW, step=st.integers(1, N - 1))
    def apart(self, i, step):
        self.cannot.append((i, (i + step) % N))

    @precondition(lambda self: self.must or self.cannot)
    @rule(place=st.integers(0, 99))
    def neither(self, place):
        pairs = self.must if not self.cannot or (self.must and place % 2) else self.cannot
        pairs.pop(place // 2 % len(pairs))

    @invariant()
    def is_the_best(self):
        is_inside = self.is_inside()
        for i, j in self.must:
            is_inside &= ALL[:, i] == ALL[:, j]
        for i, j in self.cannot:
            is_inside &= ALL[:, i] != ALL[:, j]
        names = {"must_link": self.must, "cannot_link": self.cannot}
        links = {name: np.asarray(v, np.int64).reshape(-1, 2) for name, v in names.items()}
        found = self.assert_best(
            lambda: assign_linked(self.scores, self.sizes, **links, prices=self.prices, tol=0.0),
            is_inside,
        )
        self.prices = None if found is None else found.prices


OTHERS = "repaired", "exact"


class Loads(Problem):
    """Rows change their sizes, and clusters what they hold, as numbers of rows of size 1."""

    def __init__(self):
        super().__init__()
        self.demand, self.others = np.asarray([1.0, 2.0, 1.0, 4.0, 0.0, 3.0]), cycle(OTHERS)
        self.upper[:] = 4

    def bound_around(self, rng, labels):
        self.demand = rng.integers(0, 5, N).astype(float)
        self.lower, self.upper = around(rng, np.bincount(labels, self.demand, minlength=K))
        self.upper += 3 * int(rng.random() < 0.3)  # then lower ones are all that binds

    @rule(k=CLUSTER, least=st.integers(0, 6), width=st.integers(0, 4))
    def other_sizes(self, k, least, width):
        self.lower[k], self.upper[k] = least, least + width

    @rule(row=ROW, size=st.integers(0, 4))
    def other_size(self, row, size):
        self.demand[row] = size

    @rule(seed=st.integers(0, 99))
    def of_centers(self, seed):
        """Updates of the centers lead to loads inside, or to more, and never back."""
        x = np.random.default_rng(seed).integers(0, 9, (N, 2)).astype(float)
        try:
            first, last = (
                weighted_kmeans(x, self.bounds, x[:K], metric="euclidean", max_iter=most).assignment
                for most in (0, 4)
            )
        except InfeasibleBoundsError:
            assert not (self.loads_inside()).any()
            return
        assert (last.status, last.status == first.status) != ("inside up to one row", False)
        assert last.status != first.status or last.objective >= first.objective

    @property
    def bounds(self):
        low, high = (side.astype(float).tolist() for side in (self.lower, self.upper))
        return LoadBounds.from_loads(self.demand.copy(), K, lower=low, upper=high)

    def loads(self):
        return ((ALL[:, :, None] == np.arange(K)) * self.demand[:, None]).sum(axis=1)

    def loads_inside(self):
        return ((self.lower <= self.loads()) & (self.loads() <= self.upper)).all(axis=1)

    @invariant()
    def is_as_promised(self):
        worth = self.worth()
        is_inside = self.loads_inside() & np.isfinite(worth)
        best = worth[is_inside].max(initial=-np.inf)
        for mode in ("rounded", next(self.others)):
            options = {"repair": mode != "rounded", "exact": mode == "exact"}
            try:
                found = assign_weighted(self.scores, self.bounds, prices=self.prices, **options)
            except InfeasibleBoundsError:
                assert not is_inside.any()
                self.prices = None
                continue
            self.prices = found.prices
            (own,) = np.flatnonzero((ALL == found.labels).all(axis=1))
            loads = self.loads()[own]
            over = np.maximum(loads - self.upper, 0.0) + np.minimum(loads - self.lower, 0.0)
            assert_equal(found.loads, loads)
            assert_equal(found.overload, over)
            assert (abs(over) < self.demand.max()).all() or not over.any()
            assert found.status == ("inside up to one row" if over.any() else "inside")
            assert found.objective == pytest.approx(worth[own], abs=1e-9)
            assert found.upper_bound >= best - 1e-9
            if mode == "rounded":
                assert found.objective >= found.upper_bound - 1e-6
            if mode == "exact":  # it would have ended, were there no such labels
                assert is_inside[own]
                assert max(best - found.objective, found.upper_bound - best) <= 1e-6


@pytest.mark.parametrize("machine", [Groups, RowsOut, Links, Loads])
@pytest.mark.parametrize(
    "within", [SHORT, pytest.param(LONG, marks=pytest.mark.slow)], ids=["short", "long"]
)
def test_changes_in_any_order(machine, within):
    run_state_machine_as_test(machine, settings=within)
