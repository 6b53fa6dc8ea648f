"""Streams of more than a million samples, and counts beyond 32 bits: no number is cut."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.online.assignment import AssignmentState, assign
from dualclust.algos.online.certificates import (
    dual_value,
    margins,
    objective,
    size_certificate,
    violation,
)
from dualclust.algos.online.duals import Duals
from dualclust.algos.online.step_sizes import StepRule

LONG = 2**20 + 5
"""Samples; more than a million, in several blocks of rows and with a last one that is not full."""


@pytest.fixture(scope="module")
def stream():
    """Few kinds of rows, of which the last ones are another: (scores, how often each comes)."""
    kinds = np.asarray([[0.5, 0.25, 0.0], [0.0, 1.0, 0.5], [0.25, -0.5, 8.0]])
    rows = np.zeros(LONG, np.int64)
    rows[: LONG // 3] = 1
    rows[-3:] = 2
    return kinds, rows, np.bincount(rows)


@pytest.mark.parametrize("prices", [[0.0, 0.0, 0.0], [0.5, -0.25, 1.0]])
def test_the_dual_value_of_a_long_stream(stream, prices):
    kinds, rows, times = stream
    lower, upper = [2, 3, 5], [LONG, 2**19, LONG - 8]
    bounds = SizeBounds.from_counts(lower, upper, n_samples=LONG)
    pi = [Fraction(p) for p in prices]
    expected = sum(
        int(m) * max(Fraction(s) + p for s, p in zip(row, pi, strict=True))
        for m, row in zip(times, kinds, strict=True)
    )
    for p, low, high in zip(pi, lower, upper, strict=True):
        expected -= p * (low if p > 0 else high)
    for dtype in (np.float32, np.float64):
        found = dual_value(kinds.astype(dtype)[rows], np.asarray(prices), bounds)
        assert Fraction(found) == expected


def test_objective_and_margins_of_a_long_stream(stream):
    kinds, rows, times = stream
    labels = rows[::-1].copy()  # those of the last rows are the first
    counted = np.zeros((3, 3), np.int64)
    np.add.at(counted, (rows, labels), 1)
    expected = sum(int(counted[i, j]) * Fraction(kinds[i, j]) for i in range(3) for j in range(3))
    assert Fraction(objective(kinds[rows], labels)) == expected
    found = margins(kinds[rows], np.zeros(3))
    assert found.shape == (LONG,)
    assert [int((found == m).sum()) for m in (0.25, 0.5, 7.75)] == times.tolist()


def far(seen, counts, start, h=0.25):
    """A state after so many samples, whose duals are those of its counts: none was clipped."""
    shares = np.asarray([0.25, 0.75])
    counts = np.asarray(counts, np.int64)
    rise = h * (seen * shares - counts)
    duals = Duals(start + rise, start - rise)
    first = Duals(np.full(2, start), np.full(2, start))
    return shares, AssignmentState(duals, first, counts, seen, h, False)


@pytest.mark.parametrize("seen", [2**20 + 8, 2**33 + 8, 2**40])
def test_what_duals_prove_after_many_samples(seen):
    counts = [seen // 4 + 6, seen - seen // 4 - 6]
    shares, state = far(seen, counts, start=2.0**41)
    bounds = SizeBounds.for_stream(2, lower=(2 * shares).tolist(), upper=(2 * shares).tolist())
    # n_k = m gamma_k - rise of rho_k / h, to the bit: all numbers are multiples of 1/4 below 2^53.
    found = size_certificate(state._replace(free_sign=True), bounds)
    for side, sign in ((found.at_least, -1), (found.at_most, 1)):
        distance = sign * (np.asarray(side) - np.asarray(counts, np.float64))
        assert (distance >= 0.0).all()
        # What rounding explains: four operations a sample, of numbers up to start / h + m.
        most = 4.0 * 2.0**-52 * (seen + 1) * (1.0 + 2.0**43 + seen)
        assert (distance <= 1.0001 * most + 2.0**-10).all()


@pytest.mark.parametrize("seen", [2**20 + 8, 2**31 + 8, 2**33 + 8])
def test_a_stream_goes_on_after_many_samples(seen):
    """Counts and samples go on from where they were, and the completion of a pass is as ever."""
    last, k = 12, 2
    counts = np.asarray([seen - 5, 5], np.int64)
    bounds = SizeBounds.from_counts([0, 5 + last - 2], [seen + last] * 2, n_samples=seen + last)
    scores = np.tile([[1.0, 0.0]], (last, 1))
    start = Duals(np.zeros(k), np.zeros(k))
    state = AssignmentState(start, start, counts, seen, 2.0**-40, False)
    labels, after = assign(scores, bounds, state, steps=StepRule(2.0**-40, 4))
    # Ten samples are owed to the second cluster: all but the first two.
    assert labels.tolist() == [0, 0] + [1] * 10
    assert after.counts.tolist() == [seen - 3, 15]
    assert after.seen == seen + last
    assert after.counts.dtype == np.int64


@pytest.mark.parametrize("many", [2**31, 2**32, 2**53 + 1])
def test_a_violation_of_many_samples_is_counted_to_one(many):
    n = 4 * many
    bounds = SizeBounds.from_counts([many, 0], [2 * many, n], n_samples=n)
    assert violation(np.asarray([many, 3 * many]), bounds) == 0
    assert violation(np.asarray([many - 1, 3 * many + 1]), bounds) == 1
    assert violation(np.asarray([2 * many + 3, 2 * many - 3]), bounds) == 3
    assert violation(np.asarray([n, 0]), bounds) == 2 * many
