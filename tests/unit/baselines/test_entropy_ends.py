"""SeCu's entropy rule where it ends: blocks of rows, passes, ranges, and what does not fit."""

import math

import numpy as np
import pytest
import torch

from dualclust.algos.baselines import entropy
from dualclust.algos.baselines.entropy import (
    EntropyRule,
    assign_entropy,
    entropy_prices,
    entropy_step,
    entropy_upper_bound,
    published_rule,
)
from dualclust.algos.core.errors import DeviceMismatchError, InvalidTypeError, InvalidValueError
from tests.compare import to_numpy


def test_blocks_of_rows_change_no_label(xp, rng, monkeypatch):
    scores, previous = xp.asarray(rng.normal(size=(23, 3))), xp.asarray(rng.integers(-1, 3, 23))
    rule = EntropyRule(4.0, 23, 5)
    whole = assign_entropy(scores, rule, previous=previous)
    monkeypatch.setattr(entropy, "ROWS", 7)
    parts = assign_entropy(scores, rule, previous=previous)
    for name in ("labels", "counts", "prices"):
        found, want = (to_numpy(getattr(r, name)) for r in (parts, whole))
        np.testing.assert_array_equal(found, want)
    assert parts.upper_bound == pytest.approx(whole.upper_bound, rel=1e-14)


@pytest.mark.parametrize("weight", [0.0, 3.0])
def test_the_upper_bound_is_its_formula(weight, rng):
    """``sum_i max_j (s_ij + pi_j) + alpha log sum_j exp(-N pi_j / alpha)``, whatever the prices."""
    n = entropy.ROWS + 11  # two blocks
    scores, prices = rng.normal(size=(n, 3)), np.asarray([0.4, -0.3, 0.9])
    found = entropy_upper_bound(scores, prices, EntropyRule(weight, n))
    value = (scores + prices).max(axis=1).sum()
    if weight:
        value += n * 0.3 + weight * math.log(np.exp(-n * (prices + 0.3) / weight).sum())
    else:
        value += n * 0.3  # the largest of -N pi
    assert found == pytest.approx(value, rel=1e-13)
    for level in (1e3, -1e3):  # a constant added to all prices changes nothing
        moved = entropy_upper_bound(scores, prices + level, EntropyRule(weight, n))
        assert moved == pytest.approx(found, rel=1e-11)


def test_the_upper_bound_of_a_weight_near_0_does_not_overflow():
    found = entropy_upper_bound(np.zeros((1, 2)), np.asarray([0.0, 1e10]), EntropyRule(1e-300, 1))
    assert found == 1e10


def test_a_pass_that_changes_nothing_is_the_last():
    scores = np.asarray([[1.0, 0.0]] * 3 + [[0.0, 1.0]] * 2)
    found = assign_entropy(scores, EntropyRule(0.0, 5, 2), n_passes=9)
    assert found.moved == 0
    once = assign_entropy(scores, EntropyRule(0.0, 5, 2), n_passes=1)
    assert once.moved == 5
    part = assign_entropy(
        scores, EntropyRule(0.0, 5), n_passes=1, previous=np.asarray([0, 0, 1, 1, -1])
    )
    assert part.moved == 2
    assert part.counts.tolist() == [3, 2]


def test_the_ends_of_the_weights_belong_to_them():
    for weight in (0.0, 1e300):
        assert EntropyRule(weight, 1).weight == weight
    with pytest.raises(InvalidValueError, match=r"weight must lie in \[0, 1e\+300\]"):
        EntropyRule(math.nextafter(1e300, math.inf), 1)
    assert entropy_prices(np.asarray([0, 1]), EntropyRule(1.0, 1)).tolist()[0] == 0.0


def test_what_does_not_fit_is_named():
    scores, previous, counts = np.zeros((2, 3)), np.asarray([0, -1]), np.asarray([1, 0, 0])
    rule = EntropyRule(1.0, 2)
    entropy_step(scores, previous, counts, rule)
    cases = [
        (InvalidValueError, r"scores must have shape \(b, k\)", (scores[0], previous, counts)),
        (InvalidTypeError, "scores", (scores.astype(int), previous, counts)),
        (InvalidValueError, r"previous must have shape \(2,\)", (scores, previous[:1], counts)),
        (InvalidValueError, r"counts must have shape \(3,\)", (scores, previous, counts[:2])),
        (DeviceMismatchError, "previous", (scores, torch.asarray(previous), counts)),
        (DeviceMismatchError, "counts", (scores, previous, torch.asarray(counts))),
    ]
    for error, text, arguments in cases:
        with pytest.raises(error, match=text):
            entropy_step(*arguments, rule)
    prices = np.zeros(3)
    cases = [
        (InvalidTypeError, "scores", (scores.astype(int), prices)),
        (InvalidValueError, r"scores must have shape \(2, k\)", (np.zeros((3, 3)), prices)),
        (InvalidValueError, r"prices must have shape \(3,\)", (scores, prices[:2])),
        (DeviceMismatchError, "prices", (scores, torch.asarray(prices))),
    ]
    for error, text, arguments in cases:
        with pytest.raises(error, match=text):
            entropy_upper_bound(*arguments, rule)
    with pytest.raises(DeviceMismatchError, match="previous"):
        assign_entropy(scores, rule, previous=torch.asarray(previous))


def test_one_cluster_and_one_sample():
    one = assign_entropy(np.zeros((3, 1)), EntropyRule(1.0, 3))
    assert (one.labels.tolist(), one.objective, one.moved) == ([0, 0, 0], 0.0, 0)
    assert published_rule(1).weight == 0.12
