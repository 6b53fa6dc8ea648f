"""What optimizers are given: first rates, defaults, kernels; and the edges of schedules."""

import math
from types import SimpleNamespace

import pytest
import torch

from dualclust.train.config.run import OptimConfig
from dualclust.train.loop import optim
from dualclust.train.loop.optim import LARS, build_optimizer, learning_rate, set_rates
from dualclust.train.methods.base import ParameterGroup


def parameter(*shape):
    return torch.nn.Parameter(torch.ones(*shape, dtype=torch.float64))


def rate(at, epochs=10, **options):
    step = {"step": options.pop("step")} if "step" in options else {}
    settings = {"lr": 0.8, "frozen_epochs": 2, "warmup_epochs": 0, **options}
    return learning_rate(OptimConfig(**settings), epochs, at, **step)


def test_edges_of_the_schedule():
    assert rate(1.999) == 0.0
    assert rate(2.0) == 0.8  # no warm-up: at once
    assert rate(2.0, warmup_epochs=4) == 0.0
    assert rate(6.0, warmup_epochs=4) == 0.8
    assert [rate(at, schedule="constant") for at in (0.0, 2.0, 9.9)] == [0.0, 0.8, 0.8]
    assert rate(4.0, schedule="constant", warmup_epochs=4) == 0.4
    # Three of ten epochs of a cosine that is as long as the run.
    halfway = 0.4 * (1.0 + math.cos(0.3 * math.pi))
    assert rate(6.0, cosine_over="epochs", warmup_epochs=1) == pytest.approx(halfway, rel=1e-12)


def test_a_step_is_nothing_unless_it_is_given():
    assert rate(2.0, first_step="shifted", warmup_epochs=4) == 0.0
    assert rate(2.0, first_step="repeated", warmup_epochs=4) == 0.0


def test_a_step_beyond_warm_up_or_end_stays_in_range():
    assert rate(2.0, first_step="repeated", warmup_epochs=2, step=3.0) == 0.8
    assert rate(9.5, first_step="shifted", step=2.0) == 0.0


def test_rates_before_the_first_epoch():
    groups = [
        ParameterGroup([parameter(2)]),
        ParameterGroup([parameter(2)], scale=10.0),
        ParameterGroup([parameter(2)], lr=0.6, stacked=True),
        ParameterGroup([parameter(2)], lr=4.0, ramp=True),
    ]
    optimizer = build_optimizer(OptimConfig(lr=0.2), groups)
    keys = ("lr", "scale", "peak", "stacked")
    assert [tuple(group[key] for key in keys) for group in optimizer.param_groups] == [
        (0.2, 1.0, None, False),
        (2.0, 10.0, None, False),
        (0.6, None, None, True),
        (4.0, None, 4.0, False),
    ]
    set_rates(optimizer, 0.1)  # nothing lies behind
    assert [group["lr"] for group in optimizer.param_groups] == [0.1, 1.0, 0.6, 0.0]


@pytest.mark.parametrize("name", ["sgd", "adam", "adamw"])
def test_one_kernel_takes_the_step_where_every_device_has_it(name, monkeypatch):
    groups = [ParameterGroup([parameter(2)]), ParameterGroup([parameter(3)])]
    options = OptimConfig(name=name)
    assert build_optimizer(options, groups).defaults["fused"] is None  # PyTorch's own choice
    fused = {2: True, 3: False}
    devices = iter((2, 3))
    monkeypatch.setattr(optim, "kind_of", lambda _: SimpleNamespace(fused=fused[next(devices)]))
    assert build_optimizer(options, groups).defaults["fused"] is None
    monkeypatch.setattr(optim, "kind_of", lambda _: SimpleNamespace(fused=True))
    assert build_optimizer(options, groups).defaults["fused"] is True


def test_defaults_of_lars():
    found = LARS([parameter(2)], lr=0.3)
    expected = {"lr": 0.3, "momentum": 0.9, "weight_decay": 0.0, "trust": 1e-3, "stacked": False}
    assert found.defaults.items() >= expected.items()
    assert found.rate_inside is False


def test_lars_passes_over_what_has_no_gradient_and_calls_its_closure():
    moved, still, alone = parameter(3), parameter(3), parameter(2, 2)
    optimizer = LARS([{"params": [alone]}, {"params": [still, moved]}], lr=0.5)

    def closure():
        optimizer.zero_grad()
        loss = moved.sum()
        loss.backward()
        return loss

    assert optimizer.step(closure) == 3.0
    assert moved.tolist() == [0.5] * 3
    assert still.tolist() == [1.0] * 3
    assert alone.tolist() == [[1.0] * 2] * 2
    assert list(optimizer.state) == [moved]
    assert optimizer.step() is None
