"""Steps of MI + margin whose answer is known without solving, and each baseline's loss by itself.

Where every cluster has the same predictions, in another order of the samples, no price is needed:
the soft labels are the predictions themselves.
"""

import numpy as np
import pytest
import torch

from dualclust.train.config.methods.mi_margin import MiMarginOptions
from dualclust.train.methods.mi_margin._baselines import BASELINES, Outputs
from tests.train import printed_mi_margin as printed
from tests.train.methods.mi_margin.test_mi_margin import K, make

FIRST, OTHER, EXTRA = [0.8, 0.1, 0.1], [0.6, 0.3, 0.1], [0.5, 0.3, 0.2]


def turned(row):
    """Three samples, for each cluster one that has the largest entry."""
    return np.stack([np.roll(row, i) for i in range(K)])


def step(method, *rows):
    method._log_posterior = lambda log_p: log_p
    return method.step(torch.arange(3), tuple(torch.from_numpy(np.log(turned(r))) for r in rows))


SETTINGS = [
    "mi_margin.tol=1e-13",
    "mi_margin.newton_steps=10",
    "mi_margin.balance=5.0",
    "mi_margin.beta=0.7",
    "mi_margin.margin_weight=0.02",
]


@pytest.mark.parametrize("floor", [0.0, 0.03])
@pytest.mark.parametrize("weight", [0.0, 0.4])
def test_a_step_on_even_predictions(weight, floor):
    """Two drawn views whose mean is sigma, and another view that learns the same labels."""
    extra = [f"mi_margin.extra_weight={weight}", f"mi_margin.floor={floor}"]
    method = make(*SETTINGS, *extra, "mi_margin.average=2", n=3)
    views = (FIRST, OTHER, EXTRA) if weight else (FIRST, OTHER)
    loss = step(method, *views)
    sigma = (np.array(FIRST) + OTHER) / 2
    y = (1 - floor) * sigma + floor / K
    expected = 0.7 * -(sigma * np.log(y)).sum() + 0.7 * weight * -(EXTRA * np.log(y)).sum()
    expected += 0.02 * method.head.weight.square().sum().item()
    assert loss.item() == pytest.approx(expected, rel=1e-9)
    assert method.labels[0].tolist() == [0, 1, 2]
    assert method.mass.tolist() == pytest.approx([1.0] * K)


def test_weak_supervision_adds_the_cross_entropy_of_the_seeds():
    changes = "mi_margin.supervised=0.5", "mi_margin.supervised_weight=0.3"
    with_seeds, without = (make(*SETTINGS, *c, "mi_margin.average=1", n=3) for c in (changes, ()))
    with_seeds.seeds.copy_(torch.tensor([1, -1, 2]))
    found = step(with_seeds, FIRST) - step(without, FIRST)
    assert found.item() == pytest.approx(0.3 * -(np.log(0.1) + np.log(0.8)) / 2)


def test_each_baseline_has_its_printed_loss(rng):
    """On predictions in which each cluster has another share."""
    p, q = (printed.softmax(rng.normal([1.0, 0.0, 0.5], size=(7, K))) for _ in range(2))
    sigma, stored = (p + q) / 2, rng.integers(0, K, size=7)
    log_p, log_q, scores = (torch.from_numpy(np.log(rows)) for rows in (p, q, sigma))
    settings = {"fairness_weight": 1.7, "entropy_weight": 1.5, "smoothing": 0.6, "rounds": 80}
    options = MiMarginOptions(**settings)
    soft = printed.split_labels(sigma, 1.7, 0.6)
    expected = {
        "mi_d": printed.loss_of_sigma("mi_d", sigma, None, 1.7),
        "iic": printed.iic_loss(p, q, 1.5),
        "sela": printed.loss_of_sigma("sela", sigma, np.eye(K)[stored], None),
        "mi_adm": printed.loss_of_sigma("mi_adm", sigma, soft, None),
        "seeds": 0.0,
    }
    out = Outputs(scores, torch.stack([log_p, log_q]), torch.from_numpy(stored))
    for name, objective in BASELINES.items():
        found = objective(options, out)
        assert found.loss.dtype == torch.float64
        assert found.loss.item() == pytest.approx(expected[name], rel=1e-6), name
        if name == "mi_adm":
            assert found.labels.tolist() == soft.argmax(1).tolist()
            assert found.error.item() < 1e-8
