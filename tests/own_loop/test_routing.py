"""Routing by priced scores: the plain rule of the paper with prices, and loads inside bounds."""

from __future__ import annotations

import math

import pytest
import torch

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.core.errors import InfeasibleBoundsError, InvalidValueError
from dualclust.algos.online.duals import DualRule, assign_batch, init_duals, update_duals
from dualclust.algos.online.step_sizes import StepRule, measured_steps
from dualclust.torch import PricedLabels, PricedRouter


def gates(n=200, k=8, *, skew=2.0, seed=0):
    """Gate values of a sigmoid whose experts are not equally liked."""
    draws = torch.Generator().manual_seed(seed)
    logits = torch.randn(n, k, generator=draws, dtype=torch.float64)
    return torch.sigmoid(logits + torch.linspace(skew, -skew, k)).float()


def by_hand(scores, prices, top_k):
    """Experts of each token by a sort in plain Python; ties go to the lowest index."""
    table = (scores.double() + prices).tolist()
    return [sorted(range(len(row)), key=lambda j: (-row[j], j))[:top_k] for row in table]


@pytest.mark.parametrize("top_k", [1, 2, 4])
def test_loads_are_skewed_without_prices_and_inside_bounds_with_them(top_k):
    plain = torch.zeros(8)
    router = PricedRouter(8, top_k=top_k, lower=0.8, upper=1.2)
    for step in range(120):
        if step == 60:
            router.reset_counts()
        scores = gates(seed=step)
        routing = router(scores)
        assert routing.counts.sum() == 200 * top_k
        chosen = scores.topk(top_k, dim=1).indices
        plain += torch.bincount(chosen.reshape(-1), minlength=8)
    share = router.counts / router.counts.sum() * 8
    assert 0.78 < share.min() <= share.max() < 1.22
    assert plain.min() < 0.5 * plain.mean()


@pytest.mark.parametrize("top_k", [1, 3])
def test_experts_prices_and_gates_are_those_of_the_formulas(top_k):
    router = PricedRouter(6, top_k=top_k, lower=0.7, upper=1.3)
    bounds = SizeBounds.for_stream(6, lower=0.7, upper=1.3, xp=torch)
    steps = measured_steps(bounds, n_samples=6000)
    duals, n = init_duals((6,), xp=torch), steps.chunk_size // top_k
    for step in range(15):
        scores = gates(n, 6, seed=step)
        wanted = by_hand(scores, duals.lower - duals.upper, top_k)
        indices, found, counts = router(scores)
        assert indices.tolist() == wanted
        assert torch.equal(counts, torch.bincount(indices.reshape(-1), minlength=6))
        duals = update_duals(duals, counts, n * top_k, DualRule.of(bounds, steps))
        assert all(torch.equal(a, b) for a, b in zip(router.duals, duals, strict=True))
        raw = scores.gather(1, indices)
        torch.testing.assert_close(found, raw / raw.sum(1, keepdim=True) if top_k > 1 else raw)


def test_one_expert_a_token_is_a_label():
    router, label = PricedRouter(8, top_k=1, upper=1.1), PricedLabels(8, upper=1.1)
    for step in range(30):
        assert torch.equal(router(gates(seed=step)).indices[:, 0], label(gates(seed=step)))
    assert torch.equal(router.prices, label.prices)


def test_ties_go_to_the_lowest_index():
    indices = PricedRouter(8, top_k=3)(torch.full((20, 8), 0.5)).indices
    assert indices.tolist() == [[0, 1, 2]] * 20
    draws = torch.Generator().manual_seed(0)
    few = torch.randint(3, (500, 8), generator=draws) / 4  # many ties
    indices = PricedRouter(8, top_k=3)(few).indices
    assert indices.tolist() == by_hand(few, torch.zeros(8), 3)


def test_experts_of_a_token_differ_where_few_are_open():
    scores = gates(4, 8)
    scores[0] = -math.inf
    scores[1, :6] = -math.inf
    scores[2, 4:6] = math.inf
    indices = PricedRouter(8, top_k=4)(scores).indices
    assert all(len(set(row)) == 4 for row in indices.tolist())
    assert indices[0].tolist() == [0, 1, 2, 3]
    assert set(indices[1, :2].tolist()) == {6, 7}
    assert indices[2, :2].tolist() == [4, 5]


def test_gradients_pass_through_gates_and_not_through_prices():
    router = PricedRouter(4, top_k=2)
    for step in range(20):
        router(gates(k=4, seed=step))
    scores = gates(30, 4, seed=99).double().requires_grad_()
    prices = router.prices.clone()
    routing = router(scores)
    weight = torch.arange(60.0, dtype=torch.float64).reshape(30, 2)
    (routing.gates * weight).sum().backward()
    plain = scores.detach().clone().requires_grad_()
    raw = plain.gather(1, torch.tensor(by_hand(plain.detach(), prices, 2)))
    (raw / raw.sum(1, keepdim=True) * weight).sum().backward()
    torch.testing.assert_close(scores.grad, plain.grad)
    assert (scores.grad != 0).sum() == 60
    assert not router.prices.requires_grad


def test_a_single_gate_teaches_the_router():
    scores = gates(10, 4).requires_grad_()
    PricedRouter(4, top_k=1)(scores).gates.sum().backward()
    assert scores.grad.sum() == 10
    normalized = PricedRouter(4, top_k=1, normalize=True)(scores.detach()).gates
    assert torch.equal(normalized, torch.ones(10, 1))


def test_padding_has_no_gate_no_count_and_no_gradient():
    padded, clean = PricedRouter(8), PricedRouter(8)
    for step in range(10):
        scores = gates(60, seed=step)
        wanted = clean(scores)
        rows = torch.cat([scores, torch.full((15, 8), 0.9)]).reshape(5, 15, 8).requires_grad_()
        routing = padded(rows, (torch.arange(75) < 60).reshape(5, 15))
        assert routing.indices.shape == routing.gates.shape == (5, 15, 2)
        assert torch.equal(routing.counts, wanted.counts)
        assert torch.equal(routing.indices.reshape(75, 2)[:60], wanted.indices)
        assert torch.equal(routing.gates.reshape(75, 2)[:60], wanted.gates)
        assert (routing.gates.reshape(75, 2)[60:] == 0).all()
        (routing.gates**2).sum().backward()
        assert (rows.grad.reshape(75, 8)[60:] == 0).all()
    assert torch.equal(padded.prices, clean.prices)


def test_gates_of_zero_are_no_nan():
    scores = torch.zeros(5, 4, requires_grad=True)
    routing = PricedRouter(4)(scores)
    assert torch.equal(routing.gates, torch.zeros(5, 2))
    routing.gates.sum().backward()
    assert scores.grad.isfinite().all()


def test_a_row_with_nan_moves_no_price():
    router = PricedRouter(4)
    scores = gates(6, 4)
    scores[3, 1] = math.nan
    routing = router(scores)
    assert routing.counts.sum() == router.counts.sum() == 2 * 5
    assert router.prices.isfinite().all()
    assert routing.gates[3].isnan().any()


def test_half_precision_gives_gates_of_float32():
    with torch.autocast("cpu", torch.bfloat16):
        routing = PricedRouter(8)(gates().bfloat16())
    assert routing.gates.dtype == torch.float32
    torch.testing.assert_close(routing.gates.sum(1), torch.ones(200))


def test_eval_mode_freezes_prices_and_still_counts_the_batch():
    router = PricedRouter(8)
    for step in range(20):
        router(gates(seed=step))
    before = router.prices.clone()
    routing = router.eval()(gates(seed=50))
    assert routing.counts.sum() == 400
    assert routing.indices.tolist() == by_hand(gates(seed=50), before, 2)
    assert torch.equal(router.prices, before)
    assert router.counts.sum() == 20 * 400


def test_a_pass_computed_again_routes_as_it_did():
    router = PricedRouter(8, automatic=False)
    layer = torch.nn.Linear(16, 8)

    def block(x):
        routing = router(torch.sigmoid(layer(x)))
        return routing.gates * routing.indices  # what an expert's place would do

    for _ in range(3):
        x = torch.randn(40, 16, requires_grad=True)
        again = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)
        again.sum().backward()
        checked, x.grad = x.grad.clone(), None
        block(x).sum().backward()
        torch.testing.assert_close(checked, x.grad)
        router.move_prices()
    assert router.prices.abs().max() > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"top_k": 2, "lower": [2.5, 0.5, 0.5, 0.5]}, "lower the lower bounds"),
        ({"top_k": 3, "lower": 0.0, "upper": [4.0, 0.1, 0.1, 4.0]}, "raise the upper bounds"),
    ],
)
def test_loads_that_no_routing_has_are_refused(options, message):
    with pytest.raises(InfeasibleBoundsError, match=message):
        PricedRouter(4, **options)
    PricedRouter(4, top_k=2, lower=1.0, upper=1.0)
    PricedRouter(4, top_k=4, lower=1.0, upper=1.0)


def test_top_k_is_at_most_the_number_of_experts():
    with pytest.raises(InvalidValueError, match="top_k must be at most n_experts=4, got 5"):
        PricedRouter(4, top_k=5)
    with pytest.raises(InvalidValueError, match="top_k must be at least 1"):
        PricedRouter(4, top_k=0)


def test_bounds_of_each_expert_are_kept():
    lower, upper = [0.2, 1.5, 0.2, 0.2], [0.5, 2.0, 2.0, 2.0]
    router = PricedRouter(4, top_k=1, lower=lower, upper=upper, steps=StepRule(0.002, 200))
    for step in range(300):
        if step == 200:
            router.reset_counts()
        router(gates(k=4, seed=step))
    share = (router.counts / router.counts.sum() * 4).tolist()
    rows = zip(share, lower, upper, strict=True)
    assert all(low - 0.05 < s < high + 0.05 for s, low, high in rows)


def test_the_first_batch_is_greedy():
    scores = gates()
    greedy, _ = assign_batch(
        scores,
        init_duals((8,), xp=torch),
        DualRule.of(SizeBounds.for_stream(8, xp=torch), StepRule(1e-9, chunk_size=200)),
    )
    assert torch.equal(PricedRouter(8).eval()(scores).indices[:, 0], greedy)


@pytest.mark.parametrize("top_k", [1, 2])
def test_a_capacity_holds_in_every_batch_and_second_choices_come_before_drops(top_k):
    router = PricedRouter(8, top_k=top_k, lower=0.0, capacity=1.25)
    loose = PricedRouter(8, top_k=top_k, lower=0.0)
    for step in range(5):
        scores = gates(seed=step)
        found, free = router(scores), loose(scores)
        most = math.ceil(1.25 * 200 * top_k / 8)
        assert free.counts.max() > most >= found.counts.max()
        given = found.indices[found.indices >= 0]
        assert torch.equal(found.counts, given.bincount(minlength=8))
        assert found.counts.sum() == 200 * top_k  # enough seats, and nobody is dropped
        torch.testing.assert_close(router.prices, loose.prices)  # of what was asked for first


def test_what_is_not_given_has_no_gate_and_no_gradient():
    router = PricedRouter(4, top_k=2, lower=0.0, capacity=0.5)
    scores = gates(40, 4).requires_grad_()
    weights = torch.arange(40) < 36
    found = router(scores, weights)
    assert found.counts.max() <= math.ceil(0.5 * 36 * 2 / 4)
    assert (found.indices[36:] == -1).all()
    dropped = found.indices < 0
    assert dropped[:36].sum() == 72 - 36
    assert (found.gates[dropped] == 0).all()
    (found.gates**2).sum().backward()
    assert scores.grad.isfinite().all()
    assert (scores.grad[36:] == 0).all()


def test_a_capacity_is_above_zero():
    with pytest.raises(InvalidValueError, match="capacity must lie in"):
        PricedRouter(4, capacity=0.0)
