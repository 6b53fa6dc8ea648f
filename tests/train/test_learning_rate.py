import numpy as np
import pytest

from dualclust.train.config import OptimConfig
from dualclust.train.optim import learning_rate


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
