"""The schedule of the learning rate: its corners, its range, and the released ones."""

import math
from dataclasses import replace

import numpy as np
import pytest

from dualclust.cli.train import read_recipe
from dualclust.train.config.run import OptimConfig
from dualclust.train.loop.optim import learning_rate


def test_rates_of_the_network_at_the_corners():
    options = OptimConfig(lr=0.4, warmup_epochs=10)
    at = {
        0: 0.0,
        0.999: 0.0,  # only the centers learn in the first epoch
        1: 0.0,
        1.5: 0.02,
        6: 0.2,
        11: 0.4,
        35.5: 0.2,  # half of the cosine, between 11 and 60
        60: 0.0,
    }
    for epoch, expected in at.items():
        assert learning_rate(options, 60, epoch) == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize(("epochs", "warmup"), [(1, 0), (1, 1), (2, 1), (5, 5), (7, 0), (60, 10)])
def test_rates_rise_then_fall_and_stay_in_range(epochs, warmup):
    options = OptimConfig(lr=0.3, warmup_epochs=warmup)
    grid = [learning_rate(options, epochs, i / 8) for i in range(8 * epochs + 1)]
    assert all(0.0 <= rate <= 0.3 for rate in grid)
    assert grid[:8] == [0.0] * 8
    peak = int(np.argmax(grid))
    assert np.all(np.diff(grid[: peak + 1]) >= 0)
    assert np.all(np.diff(grid[peak:]) <= 1e-15)
    if epochs > warmup + 1:
        assert max(grid) == pytest.approx(0.3)
        assert grid[-1] == pytest.approx(0.0, abs=1e-15)


def released_secu(lr, epochs, epoch, i, m):
    """Rate of iteration i of m: none, then ten epochs up that never are 0, then half a cosine."""
    done, warm = epoch * m + i, 11 * m
    if epoch == 0:
        return 0.0
    if epoch < 11:
        return lr * max(1, done - m) / (warm - m)
    return lr / 2 * (1 + math.cos(math.pi * (done - warm) / (epochs * m - warm)))


def released_propos(lr, epochs, epoch, i, m):
    """Rate of iteration i of m: counted from 1; half a cosine as long as all epochs."""
    at = (epoch * m + i + 1) / m
    if at < 50:
        return lr * at / 50
    return lr / 2 * (1 + math.cos(math.pi * (at - 50) / epochs))


RELEASED = {
    "secu_cifar10": released_secu,
    "secu_imagenet": released_secu,
    "coke_imagenet_double": released_secu,
    "propos_cifar10": released_propos,
    "propos_imagenetdogs": released_propos,
}


@pytest.mark.parametrize("name", RELEASED)
def test_rates_of_recipes_are_the_released_ones(name):
    config, m = read_recipe(name), 391
    for epoch in [0, 1, 2, 10, 11, 12, 49, 50, 51, 300, config.epochs - 1]:
        for i in (0, 1, 2, 200, 390):
            found = learning_rate(config.optim, config.epochs, epoch + i / m, step=1 / m)
            expected = RELEASED[name](config.optim.lr, config.epochs, epoch, i, m)
            assert found == pytest.approx(expected, rel=1e-9, abs=1e-15), (epoch, i)


def test_the_first_step_of_a_warm_up():
    """SeCu's first rate on CIFAR is 5e-5, where the plain schedule has 0."""
    config, m = read_recipe("secu_cifar10"), 391
    assert config.optim.first_step == "repeated"
    rates = {
        kind: [
            learning_rate(replace(config.optim, first_step=kind), 401, 1 + i / m, step=1 / m)
            for i in range(3)
        ]
        for kind in ("zero", "repeated", "shifted")
    }
    unit = 0.2 / (10 * m)
    assert rates["zero"] == pytest.approx([0, unit, 2 * unit])
    assert rates["repeated"] == pytest.approx([unit, unit, 2 * unit])
    assert rates["shifted"] == pytest.approx([unit, 2 * unit, 3 * unit])
    assert unit == pytest.approx(5e-5, rel=0.03)


def test_a_cosine_over_all_epochs_stops_short_of_its_end():
    config = read_recipe("propos_cifar10")
    assert config.optim.cosine_over == "epochs"
    last = learning_rate(config.optim, 1000, 999.999)
    assert last / config.optim.lr == pytest.approx(0.00616, rel=1e-2)
    assert learning_rate(replace(config.optim, cosine_over="rest"), 1000, 999.999) < 1e-9
