"""Labels in a loop of one's own: those of the library, and inside bounds on skewed scores."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from dualclust.algos.baselines.sinkhorn_transport import SinkhornOptions, sinkhorn, soft_plan
from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.core.errors import (
    DeviceMismatchError,
    InfeasibleBoundsError,
    InvalidTypeError,
    InvalidValueError,
)
from dualclust.algos.online.assignment import assign, init_state
from dualclust.algos.online.duals import DualRule, Duals, assign_batch, init_duals
from dualclust.algos.online.step_sizes import StepRule, measured_steps, published_steps
from dualclust.torch import PricedLabels, SizePrices


def batches(n_batches=60, b=50, k=8, *, skew=1.5, seed=0, dtype=torch.float32):
    """Scores whose column means fall by `skew` from the first cluster to the last."""
    draws = torch.Generator().manual_seed(seed)
    rows = torch.rand(n_batches, b, k, generator=draws, dtype=torch.float64)
    return (rows + torch.linspace(skew, 0.0, k, dtype=torch.float64)).to(dtype)


def sizes(labels, k=8):
    return torch.bincount(labels.reshape(-1), minlength=k)


def test_skewed_scores_collapse_without_prices_and_not_with_them():
    stream = batches(300)
    plain = sizes(stream.argmax(dim=-1))
    assert plain[-1] == 0
    assert plain.max() > 2.5 * plain.sum() / 8
    label = PricedLabels(8, lower=0.9, upper=1.1)
    late = sizes(torch.stack([label(batch) for batch in stream])[200:]).double()
    share = late / late.sum() * 8
    assert share.min() > 0.85
    assert share.max() < 1.15


@pytest.mark.parametrize(
    ("lower", "upper"), [(0.9, math.inf), (0.0, 1.2), (0.8, 1.25), (1.0, 1.0), ([0.5] * 8, 2.0)]
)
def test_labels_and_prices_are_those_of_assign_batch(lower, upper):
    bounds = SizeBounds.for_stream(8, lower=lower, upper=upper, xp=torch)
    steps = measured_steps(bounds, n_samples=8000)
    assert steps.chunk_size >= 5
    label = PricedLabels(8, lower=lower, upper=upper)
    duals = init_duals((8,), xp=torch)
    for batch in batches(20, min(steps.chunk_size, 50)):
        wanted, duals = assign_batch(batch, duals, DualRule.of(bounds, steps))
        assert torch.equal(label(batch), wanted)
        assert all(torch.equal(a, b) for a, b in zip(label.duals, duals, strict=True))


def test_labels_are_those_of_assign_on_a_stream():
    bounds = SizeBounds.for_stream(8, lower=0.9, upper=1.1)
    steps = StepRule(0.01, chunk_size=25)
    label, state = PricedLabels(8, lower=0.9, upper=1.1, steps=steps), init_state(bounds)
    for batch in batches(30, 25):
        wanted, state = assign(batch.numpy(), bounds, state, steps=steps)
        np.testing.assert_array_equal(label(batch).numpy(), wanted)
    np.testing.assert_array_equal(label.counts.numpy(), state.counts)
    np.testing.assert_array_equal(label.price_upper.numpy(), state.duals.upper)


def test_a_batch_longer_than_a_chunk_takes_the_step_of_one():
    steps = StepRule(0.01, chunk_size=20)
    label = PricedLabels(8, steps=steps)
    bounds = SizeBounds.for_stream(8, xp=torch)
    duals = init_duals((8,), xp=torch)
    slower = DualRule.of(bounds, StepRule(0.01 * (20 / 50), chunk_size=50))
    for batch in batches(20, 50):
        wanted, duals = assign_batch(batch, duals, slower)
        assert torch.equal(label(batch), wanted)
        assert torch.equal(label.price_lower, duals.lower)


def test_a_published_step_is_divided_by_the_batch():
    label, bounds = PricedLabels(8, steps=published_steps("secu-cifar")), SizeBounds.for_stream
    rule = DualRule.of(bounds(8, xp=torch), published_steps("secu-cifar"))
    duals = init_duals((8,), xp=torch)
    for batch in [*batches(5, 128), *batches(1, 30)]:
        wanted, duals = assign_batch(batch, duals, rule)
        assert torch.equal(label(batch), wanted)
        assert torch.equal(label.price_lower, duals.lower)


def test_soft_labels_are_sinkhorns_plan_at_the_prices_before_the_batch():
    label = PricedLabels(8, upper=1.1, epsilon=0.05)
    for batch in batches(30):
        before = label.prices.clone()
        soft = label(batch)
        assert soft.dtype == torch.float32
        assert torch.equal(soft, soft_plan(batch, before, epsilon=0.05))
        torch.testing.assert_close(soft.sum(dim=1), torch.ones(50))
    hard = PricedLabels(8, upper=1.1)
    for batch in batches(30):
        hard(batch)
    assert torch.equal(hard.prices, label.prices)


def test_prices_of_a_repeated_batch_are_near_those_of_sinkhorn():
    batch = batches(1, 400)[0]
    label = PricedLabels(8, lower=1.0, upper=1.0)
    for _ in range(300):
        label(batch)
    found = sinkhorn(batch.double(), options=SinkhornOptions(epsilon=0.005))
    ours, theirs = (p - p.mean() for p in (label.prices, found.prices))
    assert (ours - theirs).abs().max() < 0.03
    assert sizes(found.labels).max() <= 60
    assert sizes(label.eval()(batch)).max() <= 60


def test_leading_axes_and_padding():
    whole, parts = PricedLabels(8), PricedLabels(8)
    for batch in batches(10, 48):
        shaped = parts(batch.reshape(6, 8, 8))
        assert shaped.shape == (6, 8)
        assert torch.equal(whole(batch), shaped.reshape(-1))
    padded = PricedLabels(8)
    weights = torch.arange(60) < 48
    for batch in batches(10, 48):
        rows = torch.cat([batch, torch.full((12, 8), 3.0)])
        padded(rows, weights)
    assert torch.equal(padded.prices, whole.prices)
    assert torch.equal(padded.counts, whole.counts)
    twice, pairs = PricedLabels(8), PricedLabels(8)
    twice(batch, torch.full((48,), 2))
    pairs(torch.cat([batch, batch]))
    assert torch.equal(twice.prices, pairs.prices)


def test_eval_mode_freezes_prices_and_counts():
    label = PricedLabels(8, upper=1.1)
    for batch in batches(20):
        label(batch)
    kept = {name: value.clone() for name, value in label.state_dict().items()}
    label.eval()
    for batch in batches(5, seed=1):
        assert torch.equal(label(batch), (batch.double() + label.prices).argmax(dim=1))
    assert all(torch.equal(value, kept[name]) for name, value in label.state_dict().items())
    label.train()(batch)
    assert not torch.equal(label.price_lower, kept["price_lower"])


def test_no_gradient_passes():
    scores = batches(1)[0].requires_grad_()
    for epsilon in (None, 0.1):
        label = PricedLabels(8, epsilon=epsilon)
        assert not label(scores).requires_grad
        assert list(label.parameters()) == []
    assert scores.grad is None


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("epsilon", [None, 0.05])
def test_any_precision_is_computed_in_float64(dtype, epsilon):
    narrow, wide = (PricedLabels(8, upper=1.1, epsilon=epsilon) for _ in range(2))
    for batch in batches(20, dtype=dtype):
        with torch.autocast("cpu", torch.bfloat16):
            found = narrow(batch)
        assert found.dtype == {None: torch.int64}.get(
            epsilon, torch.promote_types(dtype, torch.float32)
        )
        torch.testing.assert_close(found, wide(batch.double()).to(found.dtype))
    assert torch.equal(narrow.prices, wide.prices)


def test_scores_of_autocast_are_labeled():
    label, layer = PricedLabels(8, epsilon=0.05), torch.nn.Linear(16, 8)
    with torch.autocast("cpu", torch.bfloat16):
        scores = layer(torch.randn(32, 16))
        assert scores.dtype == torch.bfloat16
        soft = label(scores)
    torch.testing.assert_close(soft.sum(dim=1), torch.ones(32))


def test_a_row_with_nan_moves_no_price():
    clean, with_nan, weighted = (PricedLabels(8) for _ in range(3))
    for batch in batches(5):
        clean(batch)
        rows = torch.cat([batch, batch[:3]])
        rows[50:, 2] = math.nan
        labels = with_nan(rows)
        assert labels[50:].tolist() == [2, 2, 2]
        weighted(rows, torch.ones(53, dtype=torch.int64))
    for other in (with_nan, weighted):
        assert torch.equal(clean.prices, other.prices)
        assert torch.equal(clean.counts, other.counts)
    soft = PricedLabels(8, epsilon=0.1)(rows)
    assert soft[:50].isfinite().all()
    assert soft[50:].isnan().all()


def test_minus_infinity_forbids_a_pair():
    label = PricedLabels(3, lower=1.0, epsilon=0.1)
    scores = torch.zeros(30, 3)
    scores[:, 0] = -math.inf
    for _ in range(50):
        soft = label(scores)
        assert (soft[:, 0] == 0).all()
    assert label.counts[0] == 0
    assert label.prices.isfinite().all()


@pytest.mark.parametrize("epsilon", [None, 0.1])
def test_an_empty_batch_moves_nothing(epsilon):
    label = PricedLabels(3, epsilon=epsilon)
    label(torch.rand(9, 3))
    before = label.prices.clone()
    found = label(torch.zeros(0, 3, dtype=torch.bfloat16))
    assert found.shape == ((0,) if epsilon is None else (0, 3))
    label(torch.rand(4, 3), torch.zeros(4, dtype=torch.bool))  # padding alone
    assert torch.equal(before, label.prices)


def test_prices_move_on_request_where_passes_are_repeated():
    automatic, asked = PricedLabels(8), PricedLabels(8, automatic=False)
    for first, second in batches(20, 48).split(2):
        before = asked.prices.clone()
        labels = torch.stack([asked(first), asked(second)])
        assert torch.equal(asked.prices, before)
        asked.move_prices()
        assert torch.equal(automatic(torch.cat([first, second])), labels.reshape(-1))
        assert torch.equal(automatic.prices, asked.prices)
    assert torch.equal(automatic.counts, asked.counts)


def test_the_violation_is_that_of_the_worst_cluster():
    prices = SizePrices(4, lower=0.5, upper=1.5)
    assert prices.violation() == 0.0
    prices.count(torch.tensor([0] * 5 + [1] + [2] * 2))
    assert prices.counts.tolist() == [5, 1, 2, 0]
    assert prices.violation() == 2.0  # 5 of at most 3
    prices.reset_counts()
    assert prices.violation() == 0.0


def test_each_wrong_argument_is_named():
    label = PricedLabels(3)
    with pytest.raises(InvalidValueError, match=r"scores must have shape \(..., 3\), got \(5, 4\)"):
        label(torch.zeros(5, 4))
    with pytest.raises(InvalidValueError, match=r"got \(3,\)"):
        label(torch.zeros(3))
    with pytest.raises(InvalidTypeError, match="scores must have a real floating dtype"):
        label(torch.zeros(5, 3, dtype=torch.int64))
    with pytest.raises(InvalidValueError, match=r"weights must have shape \(5,\), got \(4,\)"):
        label(torch.zeros(5, 3), torch.ones(4, dtype=torch.int64))
    with pytest.raises(InvalidTypeError, match="weights must be boolean or integers"):
        label(torch.zeros(5, 3), torch.ones(5))
    with pytest.raises(InvalidTypeError, match="'meta'"):
        label(torch.zeros(5, 3, device="meta"))
    with pytest.raises(DeviceMismatchError, match="same array library"):
        label(torch.zeros(5, 3), np.ones(5, dtype=np.int64))
    assert label.counts.sum() == 0


def test_each_wrong_option_is_named():
    with pytest.raises(InvalidValueError, match="n_clusters must be at least 1"):
        PricedLabels(0)
    with pytest.raises(InfeasibleBoundsError, match="lower <= upper"):
        PricedLabels(3, lower=1.2)
    with pytest.raises(InvalidValueError, match="epsilon must lie in"):
        PricedLabels(3, epsilon=0.0)
    with pytest.raises(InvalidValueError, match="scale must lie in"):
        PricedLabels(3, scale=-1.0)
    with pytest.raises(InvalidValueError, match="scale and steps both set the step"):
        PricedLabels(3, scale=2.0, steps=StepRule(0.1))
    with pytest.raises(InvalidTypeError, match="steps must be a StepRule"):
        PricedLabels(3, steps=0.1)


def test_the_scale_of_scores_does_not_matter():
    small, large = PricedLabels(8), PricedLabels(8, scale=16.0)
    for batch in batches(30, dtype=torch.float64):
        assert torch.equal(small(batch), large(batch * 16.0))
    assert torch.equal(small.prices * 16.0, large.prices)


def test_the_prices_are_duals_of_the_library():
    label = PricedLabels(8, upper=1.1)
    assert isinstance(label.duals, Duals)
    assert "n_clusters=8" in repr(label)
    assert "epsilon=None" in repr(label)


def test_scores_of_another_scale_are_told_once():
    label = PricedLabels(8, upper=1.1)
    with pytest.warns(UserWarning, match="outside of twice them") as told:
        [label(100.0 * scores) for scores in batches(128 * 4, 64)]
    assert len(told) == 1


def test_sizes_near_their_bounds_are_no_reason_to_warn():
    label = PricedLabels(8, upper=1.1)  # a warning is an error
    for scores in batches(128 * 4, 64):
        label(scores)


def test_prices_that_never_move_are_told():
    label = PricedLabels(8, automatic=False)
    with pytest.warns(UserWarning, match=r"call move_prices\(\) after"):
        [label(scores) for scores in batches(256, 8)]
    moved = PricedLabels(8, automatic=False)
    for scores in batches(300, 8):
        moved(scores)
        moved.move_prices()


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_a_row_without_a_finite_best_is_not_counted(value):
    label = PricedLabels(8)
    rows = torch.rand(6, 8)
    rows[2] = value
    label(rows)
    assert label.counts.sum() == 5
