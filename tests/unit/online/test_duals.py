"""The dual step of one batch: for each head, with padding, and next to a stream."""

import numpy as np
import pytest
import torch

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.core.errors import InvalidValueError
from dualclust.algos.online.assignment import assign, relaxed
from dualclust.algos.online.duals import DualRule, Duals, assign_batch, init_duals
from dualclust.algos.online.step_sizes import StepRule, measured_steps
from tests.compare import assert_close, assert_equal, to_numpy


def secu_batch(scores, rho, rho_up, low, high, h, chunk, *, free_sign=False):
    """The SeCu supplement's formulas, one sample and one cluster at a time, for one head."""
    b, k = scores.shape
    labels, rho, rho_up = [], list(rho), list(rho_up)
    for first in range(0, b, chunk):
        batch, sizes = scores[first : first + chunk].tolist(), [0] * k
        for row in batch:
            best = 0
            for j in range(1, k):
                if row[j] + (rho[j] - rho_up[j]) > row[best] + (rho[best] - rho_up[best]):
                    best = j
            sizes[best] += 1
            labels.append(best)
        m = len(batch)
        for j in range(k):
            rho[j] -= h * (sizes[j] - m * low[j])
            if not free_sign:
                rho[j] = max(0.0, rho[j])
                rho_up[j] = max(0.0, rho_up[j] + h * (sizes[j] - m * high[j]))
    return labels, rho, rho_up


def call(xp, scores, duals=None, *, share=0.5, top=1.5, step=0.125, chunk=4, **options):
    *heads, _, k = scores.shape
    start = np.zeros((*heads, k)) if duals is None else duals
    shares = np.broadcast_to(np.asarray(share) / k, start.shape)
    tops = np.broadcast_to(np.asarray(top) / k, start.shape)
    if np.ndim(step):
        step = xp.asarray(step)
    return assign_batch(
        xp.asarray(scores),
        Duals(xp.asarray(start), xp.asarray(np.zeros_like(start))),
        DualRule(
            lower_share=xp.asarray(shares),
            upper_share=xp.asarray(tops),
            step_size=step,
            chunk_size=chunk,
            **options,
        ),
    )


@pytest.mark.parametrize("chunk", [1, 4, 5, 12, 100])
@pytest.mark.parametrize("free_sign", [False, True])
@pytest.mark.parametrize("heads", [(), (3,), (2, 3)])
def test_labels_and_duals_are_those_of_the_formulas_for_each_head(xp, rng, chunk, free_sign, heads):
    scores = rng.integers(-16, 17, size=(*heads, 12, 4)) / 16.0
    start = rng.integers(0, 9, size=(*heads, 4)) / 16.0
    labels, duals = call(xp, scores, start, chunk=chunk, free_sign=free_sign)
    assert_equal(labels, xp.asarray(to_numpy(labels), "int64"))
    for head in np.ndindex(*heads):
        expected, rho, rho_up = secu_batch(
            scores[head],
            start[head],
            np.zeros(4),
            [0.125] * 4,
            [0.375] * 4,
            0.125,
            chunk,
            free_sign=free_sign,
        )
        assert to_numpy(labels)[head].tolist() == expected
        assert to_numpy(duals.lower)[head].tolist() == rho
        assert to_numpy(duals.upper)[head].tolist() == rho_up


def test_each_head_has_its_own_step(xp, rng):
    scores = np.stack([rng.integers(-16, 17, size=(12, 4)) / 16.0] * 2)
    labels, duals = call(xp, scores, step=np.asarray([[0.5], [0.03125]]))
    for head, step in enumerate((0.5, 0.03125)):
        alone, alone_duals = call(xp, scores[head], step=step)
        assert_equal(labels[head, :], alone)
        assert_equal(duals.lower[head, :], alone_duals.lower)
        assert_equal(duals.upper[head, :], alone_duals.upper)


@pytest.mark.parametrize("chunk", [1, 3, 12])
def test_padded_clusters_are_never_chosen_and_change_nothing(xp, rng, chunk):
    scores = rng.integers(-16, 17, size=(12, 3)) / 16.0
    padded = np.concatenate([scores, np.full((12, 2), -np.inf)], axis=1)
    share = np.asarray([0.75] * 3 + [0.0] * 2) / 3 * 5
    labels, duals = call(xp, padded, share=share, top=5.0, chunk=chunk)
    alone, alone_duals = call(xp, scores, share=0.75, top=3.0, chunk=chunk)
    assert_equal(labels, alone)
    assert_equal(duals.lower[:3], alone_duals.lower)
    assert_equal(duals.lower[3:], xp.asarray([0.0, 0.0]))
    assert_equal(duals.upper[3:], xp.asarray([0.0, 0.0]))


@pytest.mark.parametrize("chunk", [1, 4, 16])
@pytest.mark.parametrize("free_sign", [False, True])
def test_a_batch_is_a_stream_without_caps(xp, rng, chunk, free_sign):
    scores = rng.integers(-16, 17, size=(16, 4)) / 16.0
    lower = 1.0 if free_sign else 0.5
    bounds = SizeBounds.for_stream(4, lower=lower, upper=1.5, xp=xp.namespace, device=xp.device)
    one = assign(xp.asarray(scores), bounds, steps=StepRule(0.125, chunk, free_sign))
    labels, duals = call(xp, scores, share=lower, chunk=chunk, free_sign=free_sign)
    assert_equal(labels, one.labels)
    assert_equal(duals.lower, one.state.duals.lower)
    assert_equal(duals.upper, one.state.duals.upper)


def test_ties_go_to_the_lowest_index(xp):
    labels, _ = call(xp, np.zeros((2, 6, 70)), chunk=6)
    assert_equal(labels, xp.asarray(np.zeros((2, 6), np.int64)))


def test_an_empty_batch_changes_nothing(xp):
    start = np.asarray([[0.5, 0.0]] * 3)
    labels, duals = call(xp, np.zeros((3, 0, 2)), start)
    assert_equal(labels, xp.asarray(np.zeros((3, 0), np.int64)))
    assert_equal(duals.lower, xp.asarray(start))


def test_narrow_scores_meet_the_prices_in_float64(xp):
    names = xp.namespace
    for dtype in {names.float32, getattr(names, "float16", names.float32)}:  # not in the standard
        zero = xp.asarray([0.0, 0.0])
        labels, duals = assign_batch(
            names.astype(xp.asarray([[1.0, 1.0]]), dtype),
            Duals(xp.asarray([0.0, 2.0**-40]), zero),
            DualRule(lower_share=zero, upper_share=zero + 1.0, step_size=0.5, chunk_size=1),
        )
        assert to_numpy(labels).tolist() == [1]
        assert_equal(duals.upper, zero)


def test_no_gradient_reaches_the_prices():
    scores = torch.randn(8, 4, generator=torch.Generator().manual_seed(0)).requires_grad_()
    share = torch.full((4,), 0.125, dtype=torch.float64)
    labels, duals = assign_batch(
        scores,
        init_duals((4,), xp=torch),
        DualRule(lower_share=share, upper_share=share + 0.5, step_size=0.125, chunk_size=4),
    )
    assert not labels.requires_grad
    assert not duals.lower.requires_grad
    assert not duals.upper.requires_grad


def test_prices_of_half_the_scores_scale_with_them(xp, rng):
    scores = rng.integers(-16, 17, size=(16, 4)) / 16.0
    labels, duals = call(xp, scores)
    half_labels, half_duals = call(xp, scores / 2.0, step=0.0625)
    assert_equal(labels, half_labels)
    assert_close(half_duals.lower * 2.0, duals.lower, rtol=0.0)


RULES = {
    "measured": lambda bounds: measured_steps(bounds),
    "mean over chunks": lambda bounds: StepRule(0.7, chunk_size=16, mean_over_chunk=True),
    "l1 ball": lambda bounds: StepRule(0.05, chunk_size=1, l1_radius=0.2),
    "free sign": lambda bounds: StepRule(0.03, chunk_size=8, free_sign=True),
}


@pytest.mark.parametrize("name", RULES)
def test_a_batch_is_a_stream_where_nothing_is_enforced(rng, name):
    """Of every rule that `assign` takes, `assign_batch` does the same."""
    bounds = relaxed(SizeBounds.from_ratios(5, n_samples=70, lower=0.9, upper=1.2))
    steps, scores = RULES[name](bounds), rng.normal(size=(70, 5))
    labels, state = assign(scores, bounds, steps=steps)
    found, duals = assign_batch(scores, init_duals((5,), xp=np), DualRule.of(bounds, steps))
    assert_equal(found, labels)
    for price, wanted in zip(duals, state.duals, strict=True):
        assert_close(price, wanted)
    assert float(duals.lower.max()) > 0


def test_heads_of_different_sizes_share_a_rule(rng):
    """Each head's labels and prices are those that it has alone; padding gets nothing."""
    bounds = [SizeBounds.from_ratios(k, n_samples=60, lower=0.9, upper=1.1) for k in (3, 5)]
    steps = [StepRule(0.02, chunk_size=7), StepRule(0.05, chunk_size=10)]
    rule = DualRule.of_heads(bounds, steps)
    assert rule.chunk_size == 7
    scores = rng.normal(size=(2, 60, 5))
    scores[0, :, 3:] = -1e4
    labels, duals = assign_batch(scores, init_duals((2, 5), xp=np), rule)
    for head, (b, s) in enumerate(zip(bounds, steps, strict=True)):
        alone = DualRule.of(b, s)._replace(chunk_size=7)
        k = b.n_clusters
        found, prices = assign_batch(scores[head, :, :k], init_duals((k,), xp=np), alone)
        assert_equal(labels[head], found)
        assert_close(duals.lower[head, :k], prices.lower)
        assert_close(duals.upper[head, :k], prices.upper)
    assert not duals.lower[0, 3:].any()


def test_heads_that_disagree_are_refused():
    bounds = [SizeBounds.from_ratios(3, n_samples=60)] * 2
    with pytest.raises(InvalidValueError, match="one rule for each head, got 1 for 2"):
        DualRule.of_heads(bounds, [StepRule(0.1)])
    with pytest.raises(InvalidValueError, match="agree but for step_size and chunk_size"):
        DualRule.of_heads(bounds, [StepRule(0.1), StepRule(0.1, free_sign=True)])
    free = DualRule.of(bounds[0], StepRule(0.1))._replace(free_sign=True, l1_radius=1.0)
    with pytest.raises(InvalidValueError, match="l1_radius must be inf when free_sign"):
        assign_batch(np.zeros((2, 3)), init_duals((3,), xp=np), free)
