"""Proofs from truncated candidates made by hand, in exact fractions and against all labels."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.offline import SolverOptions
from dualclust.algos.offline._candidates import Candidates
from dualclust.algos.offline._proof import proven
from tests.problems import best_value

OPTIONS = SolverOptions(chunk_rows=2)  # rows in several parts, of which the last is not full


def eighths(rng, most, size=None):
    """Numbers whose sums are exact in float64."""
    return rng.integers(-most, most + 1, size) / 8.0


class Instance:
    """Rows of which some are fixed, some have lost clusters to the width, in any order."""

    def __init__(self, seed, mean=0.0):
        rng = np.random.default_rng(seed)
        self.n, self.k = int(rng.integers(2, 7)), int(rng.integers(3, 5))
        self.scores = mean + eighths(rng, 24, (self.n, self.k))
        middle, radius = eighths(rng, 8, self.k), 0.5
        self.low, self.high = middle - radius, middle + radius
        self.is_free = rng.random(self.n) < 0.8
        self.is_free[rng.integers(self.n)] = True
        self.labels = rng.integers(0, self.k, self.n)
        # A fixed row stays with its label at all prices of the region.
        fixed = np.flatnonzero(~self.is_free)
        self.scores[fixed, self.labels[fixed]] = mean + 8.0
        free = np.flatnonzero(self.is_free)
        kept = np.stack([rng.permutation(self.k)[:2] for _ in free])
        slots = rng.integers(0, 2, len(free))
        self.labels[free] = kept[np.arange(len(free)), slots]
        # The cluster that is left out can be worth its score and the highest price.
        at_most = self.scores[free] + self.high
        np.put_along_axis(at_most, kept, -np.inf, axis=1)
        self.truncation = at_most.max(axis=1)
        self.kept, self.slots, self.free = kept, slots, free
        self.counts = np.bincount(self.labels, minlength=self.k)
        counts = np.roll(self.counts, seed % 4 == 0)  # labels may miss their bounds
        self.lower = np.maximum(counts - rng.integers(0, 2, self.k), 0)
        self.upper = counts + rng.integers(0, 2, self.k)
        # Beyond the region candidates say nothing: the bound is that of prices held inside.
        self.prices = middle + eighths(rng, 4 + 2 * (seed % 3 == 0), self.k)
        self.inside = np.clip(self.prices, self.low, self.high)
        worth = np.take_along_axis(self.scores[free], kept, axis=1) + self.prices[kept]
        self.regret = (worth.max(axis=1) - worth[np.arange(len(free)), slots]).sum()

    def proven(self):
        """What the library proves."""
        own = self.scores[~self.is_free, self.labels[~self.is_free]]
        fixed = np.bincount(self.labels[~self.is_free], minlength=self.k)
        candidates = Candidates(
            labels=self.labels.astype(np.int32),
            is_free=self.is_free,
            first_free=0,
            clusters=self.kept.astype(np.int32),
            values=np.take_along_axis(self.scores[self.free], self.kept, axis=1),
            truncation=self.truncation,
            fixed_counts=fixed,
            fixed_value=float(own.sum()),
            fixed_size=float(np.abs(own).sum()),
            low=self.low,
            high=self.high,
        )
        bounds = SizeBounds.from_counts(self.lower.tolist(), self.upper.tolist(), n_samples=self.n)
        return proven(candidates, self.slots, self.prices, bounds, 0.0, OPTIONS)

    def dual(self):
        """The bound by its definition: each row at its best, less what the bounds pay."""
        pi = [Fraction(p) for p in self.inside]
        total = Fraction(0)
        for i, j in enumerate(self.labels):
            if not self.is_free[i]:
                total += Fraction(self.scores[i, j]) + pi[j]
        for row, i in enumerate(self.free):
            worth = [Fraction(self.scores[i, j]) + pi[j] for j in self.kept[row]]
            total += max(*worth, Fraction(self.truncation[row]))
        for j in range(self.k):  # sizes that the other bounds leave
            low = max(self.lower[j], self.n - self.upper.sum() + self.upper[j])
            high = min(self.upper[j], self.n - self.lower.sum() + self.lower[j])
            total -= pi[j] * int(low if pi[j] > 0 else high)
        return total


@pytest.mark.parametrize("mean", [0.0, 5.0])
def test_bound_and_gap_are_those_of_exact_fractions(mean):
    later = truncated = outside = 0
    for seed in range(300):
        made = Instance(seed, mean)
        (found, misplaced), line = made.proven(), np.arange(made.n)
        own = [Fraction(s) for s in made.scores[line, made.labels]]
        value, bound = sum(own), made.dual()
        slack = Fraction(2) ** -40 * (sum(map(abs, own)) + 1)
        np.testing.assert_array_equal(found.labels, made.labels)
        np.testing.assert_array_equal(found.counts, made.counts)
        np.testing.assert_array_equal(found.prices, made.inside)
        assert found.objective == value
        assert found.rounding == 2.0**-45 * sum(map(abs, own))
        assert misplaced == made.regret  # beside the other candidates, at the prices given
        missed = np.maximum(made.lower - made.counts, made.counts - made.upper).max()
        assert found.violation == max(missed, 0)
        outside += missed > 0
        if missed > 0:
            continue
        assert bound <= Fraction(found.upper_bound) <= bound + slack, seed
        relative = (bound - value) / max(sum(map(abs, own)), abs(bound), Fraction(1, 2**60))
        assert float(relative) * (1 - 1e-12) <= found.gap <= float(relative) + 1e-12, seed
        worth = np.take_along_axis(made.scores[made.free], made.kept, axis=1)
        worth = (worth + made.inside[made.kept]).max(axis=1)
        truncated += bool((made.truncation > worth).any())
        later += bool(((made.truncation > worth) & (made.slots > 0)).any())
    assert truncated > 150
    assert later > 75
    assert outside > 20


def test_no_labels_are_worth_more_than_the_bound():
    worse = 0
    for seed in range(300):
        made = Instance(seed)
        found, _ = made.proven()
        if found.violation:
            continue
        best = best_value(made.scores, made.lower, made.upper)
        size = np.abs(made.scores[np.arange(made.n), made.labels]).sum()
        assert found.upper_bound >= best, seed
        assert found.gap * max(size, abs(found.upper_bound)) >= (best - found.objective) * (
            1 - 1e-12
        ), seed
        assert found.objective == best or found.status == "within gap", seed
        worse += found.objective < best
    assert worse > 100
