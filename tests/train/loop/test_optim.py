"""Optimizers: LARS against its formula in NumPy, rates of groups, and what PyTorch has itself."""

import math

import numpy as np
import pytest
import torch

from dualclust.train.config.run import OptimConfig
from dualclust.train.loop.optim import LARS, build_optimizer, set_rates
from dualclust.train.methods.base import ParameterGroup


def printed_lars(w, v, g, *, lr, momentum, decay, trust, inside):
    """One step on one tensor; returns the tensor and its momentum."""
    if w.ndim > 1:
        g = g + decay * w
        size, length = math.sqrt((w**2).sum()), math.sqrt((g**2).sum())
        g = g * (trust * size / length if size > 0 and length > 0 else 1.0)
    if inside:
        v = momentum * v + lr * g
        return w - v, v
    v = momentum * v + g
    return w - lr * v, v


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_lars_takes_the_printed_steps(decay, inside, rng, device):
    shapes = [(5, 4), (3, 2, 3, 3), (7,), (6, 2)]
    start = [rng.normal(size=shape) for shape in shapes]
    start[3][:] = 0.0  # a tensor without a norm
    params = [torch.nn.Parameter(torch.tensor(w, device=device)) for w in start]
    options = {"momentum": 0.8, "weight_decay": decay, "trust": 0.01, "rate_inside": inside}
    optimizer = LARS(params, lr=0.7, **options)
    expected, speed = start, [np.zeros(shape) for shape in shapes]
    for step in range(4):
        gradients = [rng.normal(size=shape) for shape in shapes]
        if step == 1:
            gradients[0][:] = 0.0
        for p, g in zip(params, gradients, strict=True):
            p.grad = torch.tensor(g, device=device)
        rate = 0.7 * 0.5**step  # both forms are one while the rate stays
        optimizer.param_groups[0]["lr"] = rate
        optimizer.step()
        rule = {"lr": rate, "momentum": 0.8, "decay": decay, "trust": 0.01, "inside": inside}
        moved = [
            printed_lars(w, v, g, **rule)
            for w, v, g in zip(expected, speed, gradients, strict=True)
        ]
        expected, speed = [w for w, _ in moved], [v for _, v in moved]
        for p, w, g in zip(params, expected, gradients, strict=True):
            np.testing.assert_allclose(p.detach().cpu().numpy(), w, rtol=1e-12, atol=1e-15)
            np.testing.assert_array_equal(p.grad.cpu().numpy(), g)  # the gradient is left alone


def test_stacked_heads_have_norms_of_their_own(rng):
    heads = rng.normal(size=(3, 5, 4)) * np.asarray([1.0, 10.0, 0.1])[:, None, None]
    heads[0, 3:] = 0.0  # padded rows
    gradient = rng.normal(size=heads.shape)
    gradient[0, 3:] = 0.0
    alone = [torch.nn.Parameter(torch.tensor(head)) for head in heads]
    alone[0] = torch.nn.Parameter(torch.tensor(heads[0, :3]))
    together = torch.nn.Parameter(torch.tensor(heads))
    one = LARS(alone, lr=0.5, weight_decay=0.1)
    other = LARS([{"params": [together], "stacked": True}], lr=0.5, weight_decay=0.1)
    for _ in range(3):
        for p, g in zip(alone, gradient, strict=True):
            p.grad = torch.tensor(g[: len(p)])
        together.grad = torch.tensor(gradient)
        one.step()
        other.step()
    for head, p in enumerate(alone):
        torch.testing.assert_close(together[head, : len(p)], p, rtol=1e-12, atol=0)
    assert (together[0, 3:] == 0).all()
    plain = torch.nn.Parameter(torch.tensor(heads))
    plain.grad = torch.tensor(gradient)
    LARS([plain], lr=0.5, weight_decay=0.1).step()
    assert not torch.allclose(plain[1] - torch.tensor(heads[1]), together[1] - alone[1].detach())


def test_a_first_step_moves_centers_by_a_share_of_their_norm(rng):
    """SeCu on ImageNet: rate 4.2 and trust 1e-3 are 0.42 percent, whatever the gradient."""
    centers = torch.nn.Parameter(torch.tensor(rng.normal(size=(1, 20, 8))))
    before = centers.detach().clone()
    centers.grad = torch.tensor(1e-6 * rng.normal(size=(1, 20, 8)))
    group = ParameterGroup([centers], lr=4.2, local=False, stacked=True)
    build_optimizer(OptimConfig(name="lars", lr=1.6, weight_decay=1e-6), [group]).step()
    moved = (centers.detach() - before).norm() / before.norm()
    assert moved.item() == pytest.approx(0.0042, rel=1e-9)


def test_lars_comes_back_from_its_state(rng):
    def make():
        p = torch.nn.Parameter(torch.ones(3, 2, dtype=torch.float64))
        return p, LARS([p], lr=0.5)

    gradients = [torch.tensor(rng.normal(size=(3, 2))) for _ in range(4)]
    whole, optimizer = make()
    for i, g in enumerate(gradients):
        whole.grad = g.clone()
        optimizer.step()
        if i == 1:
            kept, state = whole.detach().clone(), optimizer.state_dict()
            state = {k: v for k, v in state.items()}
            buffers = {k: {n: t.clone() for n, t in v.items()} for k, v in state["state"].items()}
    again, second = make()
    second.load_state_dict({"state": buffers, "param_groups": state["param_groups"]})
    with torch.no_grad():
        again.copy_(kept)
    for g in gradients[2:]:
        again.grad = g.clone()
        second.step()
    assert torch.equal(again, whole)


@pytest.mark.parametrize("tensors", [False, True])
def test_rates_of_groups(tensors):
    params = [torch.nn.Parameter(torch.zeros(2)) for _ in range(4)]
    groups = [
        ParameterGroup([params[0]]),
        ParameterGroup([params[1]], scale=10.0),
        ParameterGroup([params[2]], lr=0.6),
        ParameterGroup([params[3]], lr=4.0, ramp=True),
    ]
    optimizer = build_optimizer(OptimConfig(lr=0.2), groups)
    if tensors:
        for group in optimizer.param_groups:
            group["lr"] = torch.tensor(group["lr"], dtype=torch.float64)
    places = [group["lr"] for group in optimizer.param_groups]
    for rate, done, ramped in [(0.1, 0.0, 0.0), (0.05, 0.5, 2.0), (0.02, 1 / 3, 1.0), (0, 1, 4.0)]:
        set_rates(optimizer, rate, done)
        rates = [float(group["lr"]) for group in optimizer.param_groups]
        assert rates == pytest.approx([rate, 10 * rate, 0.6, ramped], abs=1e-12)
    if tensors:
        assert all(g["lr"] is p for g, p in zip(optimizer.param_groups, places, strict=True))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("sgd", torch.optim.SGD),
        ("adam", torch.optim.Adam),
        ("adamw", torch.optim.AdamW),
        ("lars", LARS),
    ],
)
def test_the_optimizer_is_the_one_that_is_named(name, kind):
    group = ParameterGroup([torch.nn.Parameter(torch.zeros(2, 2))])
    options = OptimConfig(name=name, lr=0.3, momentum=0.7, weight_decay=0.01)
    optimizer = build_optimizer(options, [group])
    assert type(optimizer) is kind
    found = optimizer.param_groups[0]
    assert (found["lr"], found["weight_decay"]) == (0.3, 0.01)
    assert found.get("momentum", 0.7) == 0.7


@pytest.mark.parametrize(("name", "goes_on"), [("outside", False), ("inside", True)])
def test_the_form_of_lars_is_the_one_that_is_named(name, goes_on):
    """A rate that falls to 0 stops the one form; the other goes on with what it has gathered."""
    p = torch.nn.Parameter(torch.ones(3, dtype=torch.float64))
    options = OptimConfig(name="lars", lr=0.5, weight_decay=0.0, lars_rate=name)
    optimizer = build_optimizer(options, [ParameterGroup([p])])
    p.grad = torch.ones_like(p)
    optimizer.step()
    assert p.tolist() == pytest.approx([0.5] * 3)
    set_rates(optimizer, 0.0)
    optimizer.step()
    assert p.tolist() == pytest.approx([0.05 if goes_on else 0.5] * 3)
