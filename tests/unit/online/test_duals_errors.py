"""What the dual step of a batch refuses; rules of heads; means over chunks of any length."""

import numpy as np
import pytest
import torch

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.core.errors import DeviceMismatchError, InvalidTypeError, InvalidValueError
from dualclust.algos.online.duals import DualRule, Duals, assign_batch, init_duals, update_duals
from dualclust.algos.online.step_sizes import StepRule
from tests.compare import assert_equal
from tests.refusals import assert_refused, is_refusal, message_of


def rule_of(xp, **changes):
    share = xp.asarray([0.25, 0.25])
    return DualRule(share, share + 0.5, 0.5, chunk_size=4)._replace(**changes)


@pytest.mark.parametrize(("n", "h"), [(0, 0.5), (1, 0.5), (2, 0.25), (4, 0.125)])
def test_a_mean_divides_the_step_by_the_samples_of_the_chunk(xp, n, h):
    zero = xp.asarray([0.0, 0.0])
    sizes = xp.asarray([0, n])
    found = update_duals(Duals(zero, zero), sizes, n, rule_of(xp, mean_over_chunk=True))
    assert_equal(found.lower, xp.asarray([h * n * 0.25, 0.0]))
    assert_equal(found.upper, xp.asarray([0.0, h * n * 0.25]))


def test_a_rule_of_heads_has_padded_rows(xp):
    place = {"xp": xp.namespace, "device": xp.device}
    bounds = [
        SizeBounds.for_stream(2, lower=0.5, upper=1.5, **place),
        SizeBounds.for_stream(4, lower=1.0, upper=2.0, **place),
    ]
    steps = [StepRule(0.5, 7, l1_radius=3.0), StepRule(0.25, 9, l1_radius=3.0)]
    rule = DualRule.of_heads(bounds, steps)
    assert_equal(rule.lower_share, xp.asarray([[0.25, 0.25, 0.0, 0.0], [0.25] * 4]))
    assert_equal(rule.upper_share, xp.asarray([[0.75, 0.75, 1.0, 1.0], [0.5] * 4]))
    assert_equal(rule.step_size, xp.asarray([[0.5], [0.25]]))
    assert rule[3:] == (7, False, False, 3.0)
    one = DualRule.of(bounds[1], StepRule(0.5, 3, mean_over_chunk=True, l1_radius=2.0))
    assert one[2:] == (0.5, 3, False, True, 2.0)
    assert DualRule.of_heads(bounds[:1], [StepRule(0.5, free_sign=True)])[3:5] == (1, True)
    for wrong in (
        StepRule(0.5, l1_radius=2.0),
        StepRule(0.5, l1_radius=3.0, mean_over_chunk=True),
    ):
        with pytest.raises(InvalidValueError, match="agree but for step_size and chunk_size"):
            DualRule.of_heads(bounds, [steps[0], wrong])
    with pytest.raises(InvalidValueError, match="one rule for each head, got 0 for 0"):
        DualRule.of_heads([], [])


TUPLE = ". To fix this, pass (k,) for k clusters"


@pytest.mark.parametrize(
    ("shape", "error", "text"),
    [
        ([3], InvalidTypeError, "shape must be a tuple of ints, got [3] (list)" + TUPLE),
        (3, InvalidTypeError, "shape must be a tuple of ints, got 3 (int)" + TUPLE),
        ((2, -1), InvalidValueError, "shape must be at least 0, got -1"),
        ((2, 1.5), InvalidTypeError, "shape must be an int, got 1.5 (float)"),
    ],
)
def test_shapes_of_duals_that_are_refused(xp, shape, error, text):
    assert is_refusal(message_of(error, init_duals, shape, xp=xp.namespace), text)
    assert init_duals((2, 0), xp=xp.namespace).lower.shape == (2, 0)


def test_wrong_duals_and_rules_are_named(xp):
    duals = init_duals((2,), xp=xp.namespace, device=xp.device)
    scores, whole = xp.asarray(np.zeros((4, 2))), xp.asarray([1, 0])
    for error, words, *call in (
        (InvalidTypeError, "duals must be a Duals, got", tuple(duals), rule_of(xp)),
        (InvalidTypeError, "rule must be a DualRule, got", duals, StepRule(0.5)),
        (InvalidTypeError, "rule.lower_share must", duals, rule_of(xp, lower_share=whole)),
        (InvalidTypeError, "rule.upper_share must", duals, rule_of(xp, upper_share=whole)),
        (InvalidTypeError, "rule.step_size must", duals, rule_of(xp, step_size=whole)),
        (InvalidValueError, "rule.step_size must lie in", duals, rule_of(xp, step_size=-0.5)),
    ):
        assert_refused(error, words, assign_batch, scores, *call)
        assert_refused(error, words, update_duals, call[0], whole, 1, call[1])
    for error, words, sizes, n in (
        (InvalidTypeError, "sizes must have an integer dtype", xp.asarray([1.0, 0.0]), 1),
        (InvalidValueError, "n_samples must be at least 0, got -1", whole, -1),
        (InvalidTypeError, "n_samples must be an int", whole, 1.0),
    ):
        assert_refused(error, words, update_duals, duals, sizes, n, rule_of(xp))
    for wrong in (scores[0, :], scores[0, 0]):
        text = message_of(InvalidValueError, assign_batch, wrong, duals, rule_of(xp))
        assert text == (
            f"scores must have shape (b, 2), as duals of shape (2,) say, got "
            f"{tuple(wrong.shape)}. To fix this, give both the same heads and clusters"
        )
    others = xp.asarray(np.zeros((4, 3))), xp.asarray(np.zeros((2, 4, 2)))
    for wrong in others:
        assert_refused(
            InvalidValueError, "as duals of shape", assign_batch, wrong, duals, rule_of(xp)
        )
    for wrong in (whole[:1], xp.asarray([[1, 0]])):
        words = r"sizes must have shape \(2,\)"
        assert_refused(InvalidValueError, words, update_duals, duals, wrong, 1, rule_of(xp))
    text = message_of(InvalidValueError, assign_batch, scores, duals, rule_of(xp, chunk_size=0))
    assert is_refusal(text, "rule.chunk_size must be at least 1, got 0")


def test_duals_and_rules_of_two_libraries_are_refused():
    duals = init_duals((2,), xp=np)
    rule = DualRule.of(SizeBounds.for_stream(2, lower=0.5), StepRule(0.5))
    there = torch.tensor([0.25, 0.25], dtype=torch.float64)
    for name in ("lower_share", "upper_share", "step_size"):
        with pytest.raises(DeviceMismatchError, match=name):
            assign_batch(np.zeros((4, 2)), duals, rule._replace(**{name: there}))
    with pytest.raises(DeviceMismatchError, match="scores"):
        assign_batch(torch.zeros((4, 2)), duals, rule)
    with pytest.raises(DeviceMismatchError, match="sizes"):
        update_duals(duals, torch.tensor([1, 0]), 1, rule)
