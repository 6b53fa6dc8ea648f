"""Passes under other bounds, steps of streams, relaxed bounds, and published steps that end."""

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.core.errors import InvalidValueError
from dualclust.algos.online.assignment import assign, relaxed
from dualclust.algos.online.step_sizes import StepRule, measured_steps
from tests.compare import assert_equal, to_numpy
from tests.refusals import message_of


def counted(xp, lower, upper, n):
    return SizeBounds.from_counts(lower, upper, n_samples=n, xp=xp.namespace, device=xp.device)


def begun(xp, n=4):
    """A pass of six samples without bounds, of which the first `n` went into cluster 0."""
    scores = xp.asarray([[1.0, 0.0]] * n)
    return assign(scores, counted(xp, [0, 0], [6, 6], 6), steps=StepRule(0.125)).state


def test_other_bounds_that_a_pass_can_still_keep_are_taken(xp):
    """Two samples are left, and two are owed: the last that bounds can ask for."""
    bounds = counted(xp, [0, 2], [4, 6], 6)
    labels, state = assign(xp.asarray([[1.0, 0.0]] * 2), bounds, begun(xp), steps=StepRule(0.125))
    assert to_numpy(labels).tolist() == [1, 1]
    assert to_numpy(state.counts).tolist() == [4, 2]


@pytest.mark.parametrize("n_rows", [0, 1])
@pytest.mark.parametrize(
    ("lower", "upper", "over", "owed"), [([0, 3], [4, 6], 0, 3), ([0, 0], [3, 6], 1, 0)]
)
def test_other_bounds_that_a_pass_cannot_keep_are_refused(xp, lower, upper, over, owed, n_rows):
    rows = xp.asarray(np.zeros((n_rows, 2)))
    bounds = counted(xp, lower, upper, 6)
    text = message_of(InvalidValueError, assign, rows, bounds, begun(xp))
    assert text == (
        f"state must come from a pass under the same bounds: its counts exceed the upper bounds "
        f"by {over} and owe {owed} to the lower ones, with 2 samples left. To fix this, keep the "
        f"bounds for a pass, or start one with next_pass(state)"
    )


def test_a_pass_that_has_ended_outside_other_bounds_is_refused(xp):
    bounds, rows = counted(xp, [0, 1], [5, 6], 6), xp.asarray(np.zeros((0, 2)))
    text = message_of(InvalidValueError, assign, rows, bounds, begun(xp, 6))
    assert "by 1 and owe 1 to the lower ones, with 0 samples left" in text


def test_a_stream_has_the_step_of_a_thousand_samples_a_cluster(xp):
    bounds = SizeBounds.for_stream(3, lower=0.5, xp=xp.namespace, device=xp.device)
    state = assign(xp.asarray(np.zeros((2, 3))), bounds).state
    assert state.step_size == measured_steps(bounds, n_samples=3000).step_size
    known = counted(xp, [1, 1], [9, 9], 10)
    state = assign(xp.asarray(np.zeros((2, 2))), known).state
    assert state.step_size == measured_steps(known).step_size


def test_relaxed_bounds_have_the_shares_of_whole_samples(xp):
    bounds = counted(xp, [1, 3], [5, 6], 8)
    found = relaxed(bounds._replace(lower_share=bounds.lower_share * 0.5))
    assert_equal(found.lower_share, xp.asarray([0.125, 0.375]))
    assert_equal(found.upper_share, xp.asarray([0.625, 0.75]))
    assert_equal(found.lower, xp.asarray([0, 0]))
    assert_equal(found.upper, xp.asarray([8, 8]))
    assert found.n_samples == 8
    stream = SizeBounds.for_stream(2, xp=xp.namespace, device=xp.device)
    assert relaxed(stream) is stream


@pytest.mark.parametrize(
    "rule",
    [
        StepRule(0.01, 2, mean_over_chunk=True),
        StepRule(0.01, 3, l1_radius=0.1),
        StepRule(0.01, 1, mean_over_chunk=True),
    ],
)
def test_steps_of_chunks_keep_the_bounds_at_the_end_of_a_pass(xp, rule):
    bounds = counted(xp, [0, 2, 1], [8, 8, 8], 8)
    labels, state = assign(xp.asarray([[1.0, 0.0, -1.0]] * 8), bounds, steps=rule)
    assert to_numpy(labels).tolist() == [0, 0, 0, 0, 0, 1, 1, 2]
    assert (to_numpy(state.counts).tolist(), state.seen) == ([5, 2, 1], 8)
    stream = SizeBounds.for_stream(3, lower=0.5, xp=xp.namespace, device=xp.device)
    labels, state = assign(xp.asarray([[1.0, 0.0, -1.0]] * 8), stream, steps=rule)
    assert to_numpy(labels).tolist() == [0] * 8
