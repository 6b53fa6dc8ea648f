"""The sign rule against the printed algorithm, and the bounds that it breaks."""

import numpy as np
import pytest

from dualclust.algos.baselines.sign_rule import SignRule, assign_sign_rule, update_bias
from dualclust.algos.core.errors import InvalidValueError
from tests.compare import assert_close, assert_equal, assert_same_kind, to_numpy
from tests.refusals import assert_refused


def printed(scores, u, batch, passes=1, low=None, high=None):
    """Algorithm 1 sample by sample, the target a whole number or fraction of labels."""
    n, k = scores.shape
    low = [1 / k] * k if low is None else low
    high = low if high is None else high
    bias, labels, signs = [0.0] * k, [], []
    for _ in range(passes):
        labels = []
        for first in range(0, n, batch):
            rows, counts = scores[first : first + batch], [0] * k
            for row in rows:
                y = max(range(k), key=lambda j, row=row: (row[j] + bias[j], -j))
                counts[y] += 1
                labels.append(y)
            m = len(rows)
            sign = [(counts[j] < m * low[j]) - (counts[j] > m * high[j]) for j in range(k)]
            bias = [b + u * s for b, s in zip(bias, sign, strict=True)]
            signs.append(sign)
    return labels, bias, np.asarray(signs)


@pytest.mark.parametrize(("batch", "passes"), [(1, 1), (4, 3), (7, 2), (100, 2)])
def test_equal_to_the_printed_algorithm(xp, rng, batch, passes):
    scores = rng.integers(-16, 17, (32, 4)) / 16.0
    labels, bias, _ = printed(scores, 0.125, batch, passes)
    found = assign_sign_rule(xp.asarray(scores), SignRule(0.125, batch), n_passes=passes)
    assert_equal(found.labels, xp.asarray(np.asarray(labels)))
    assert_equal(found.bias, xp.asarray(np.asarray(bias)))
    assert_equal(found.counts, xp.asarray(np.bincount(labels, minlength=4)))


def test_two_bounds_leave_counts_between_them_alone(xp, rng):
    scores = rng.integers(-16, 17, (40, 3)) / 16.0
    low, high = np.asarray([0.1, 0.25, 0.3]), np.asarray([0.4, 0.5, 0.3])
    labels, bias, _ = printed(scores, 0.25, 8, 2, low.tolist(), high.tolist())
    found = assign_sign_rule(
        xp.asarray(scores),
        SignRule(0.25, 8),
        shares=xp.asarray(low),
        upper_shares=xp.asarray(high),
        n_passes=2,
    )
    assert_equal(found.labels, xp.asarray(np.asarray(labels)))
    assert_equal(found.bias, xp.asarray(np.asarray(bias)))


def test_the_bias_counts_batches_not_errors(rng):
    scores = rng.normal(size=(64, 3))
    _, _, signs = printed(scores, 2.0**-6, 8)
    found = assign_sign_rule(scores, SignRule(2.0**-6, 8))
    assert (found.bias / 2.0**-6).tolist() == signs.sum(axis=0).tolist()


def test_a_count_on_target_does_not_move_the_bias(xp):
    share = xp.asarray(np.full(49, 1 / 49))  # 49 * (1 / 49) is below 1
    counts = xp.asarray(np.ones(49, np.int64))
    bias = update_bias(0 * share, counts, 49, lower_share=share, upper_share=share, step_size=1.0)
    assert_equal(bias, xp.asarray(np.zeros(49)))


def test_any_number_of_heads(xp, rng):
    bias, counts = rng.normal(size=(2, 3)), np.asarray([[4, 0, 2], [2, 2, 2]])
    share = np.full((2, 3), 1 / 3)
    moved = update_bias(
        xp.asarray(bias),
        xp.asarray(counts),
        6,
        lower_share=xp.asarray(share),
        upper_share=xp.asarray(share),
        step_size=0.5,
    )
    assert_close(moved, xp.asarray(bias + 0.5 * np.asarray([[-1, 1, 0], [0, 0, 0]])))


def test_it_is_resumed_from_its_bias(xp, rng):
    scores = xp.asarray(rng.normal(size=(24, 3)))
    whole = assign_sign_rule(scores, SignRule(0.1, 5), n_passes=3)
    part = assign_sign_rule(scores, SignRule(0.1, 5), n_passes=2)
    rest = assign_sign_rule(scores, SignRule(0.1, 5), bias=part.bias)
    assert_equal(rest.labels, whole.labels)
    assert_equal(rest.bias, whole.bias)


def test_without_a_rule_steps_and_batches_are_the_published_ones(xp, rng):
    assert SignRule() == SignRule(step_size=1e-3, batch_size=1024)
    scores = xp.asarray(np.repeat([[0.5, 0.0, 0.25]], 1030, axis=0))
    found = assign_sign_rule(scores)
    assert_close(found.bias, xp.asarray(np.asarray([-2e-3, 2e-3, 2e-3])), rtol=1e-12)
    assert_equal(found.bias, assign_sign_rule(scores, SignRule(1e-3, 1024), n_passes=1).bias)


def test_small_steps_break_bounds_as_measured():
    """Ten clusters, one in sight: 16 batches of a thousandth do not bring the others in."""
    scores = np.zeros((16_384, 10))
    scores[:, 0] = 0.5
    found = assign_sign_rule(scores, SignRule(1e-3, 1024))
    assert found.counts.tolist() == [16_384] + [0] * 9


def test_kinds(xp, rng):
    found = assign_sign_rule(xp.asarray(rng.normal(size=(5, 2)), "float32"))
    assert_same_kind(found.labels, xp.asarray(np.zeros(5, np.int64)))
    assert_same_kind(found.counts, xp.asarray(np.zeros(2, np.int64)))
    assert_same_kind(found.bias, xp.asarray(np.zeros(2)))
    assert to_numpy(assign_sign_rule(xp.asarray(np.zeros((0, 2)))).labels).shape == (0,)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"scores": np.full((2, 2), np.nan)}, "scores must be finite"),
        ({"scores": np.zeros((2, 0))}, "at least one column"),
        ({"scores": np.zeros(2)}, "scores must have shape"),
        ({"shares": np.ones(3)}, "shares must have shape"),
        ({"upper_shares": np.full(2, np.inf)}, "upper_shares must be finite"),
        ({"bias": np.ones(3)}, "bias must have shape"),
        ({"n_passes": 0}, "n_passes must be at least 1"),
    ],
)
def test_refusals_say_what_and_why(change, text):
    assert_refused(
        InvalidValueError, text, assign_sign_rule, **{"scores": np.zeros((2, 2)), **change}
    )


@pytest.mark.parametrize("options", [{"step_size": 0.0}, {"batch_size": 0}])
def test_options_out_of_range_are_refused(options):
    with pytest.raises(InvalidValueError, match=next(iter(options))):
        SignRule(**options)
