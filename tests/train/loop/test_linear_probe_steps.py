"""What the linear probe gives its optimizer, batch by batch, and one step of it by hand."""

import numpy as np
import pytest
import torch

from dualclust.algos.core.errors import UsageError
from dualclust.train.loop import Run, linear_probe
from dualclust.train.loop.linear_probe import linear_accuracy
from tests.train.runs import tiny


@pytest.fixture
def run(tmp_path):
    """Seven held-out images have a class that no training image has; two have none."""
    rng = np.random.default_rng(0)
    arrays = {
        "train_images": rng.integers(0, 256, (60, 8, 8), dtype=np.uint8),
        "test_images": rng.integers(0, 256, (30, 8, 8), dtype=np.uint8),
        "train_labels": np.where(np.arange(60) < 4, -1, np.arange(60) % 3),
        "test_labels": np.array([-1] * 2 + [3] * 7 + [0] * 21),
    }
    np.savez(tmp_path / "split.npz", **arrays)
    changes = ["data.test=test", "evaluation.probe=true", "linear.crop=[1.0, 1.0]"]
    changes += ["linear.flip=false", "linear.epochs=2", "linear.batch_size=20", "linear.lr=0.5"]
    changes += ["linear.momentum=0.25", "linear.weight_decay=0.125"]
    run = Run(tiny(tmp_path / "split.npz", *changes), "cpu")
    run.changed = lambda *more: Run(tiny(tmp_path / "split.npz", *changes, *more), "cpu")
    return run


def test_without_classes_there_is_no_figure(run):
    """Of training images, or of held-out ones, or without any of these."""
    data, test = run.loader.data, run.loader.test
    run.loader.test = None
    assert linear_accuracy(run.method, run.loader, run.config.linear) is None
    run.loader.test = test._replace(labels=None)
    assert linear_accuracy(run.method, run.loader, run.config.linear) is None
    run.loader.test, run.loader.data = test, data._replace(labels=None)
    assert linear_accuracy(run.method, run.loader, run.config.linear) is None


def test_the_only_class_is_the_answer_whatever_batches_lack_one(run):
    """Of 28 held-out images with a class 21 have this one; batches without any are passed over."""
    data = run.loader.data
    labels = torch.full_like(data.labels, -1)
    run.loader.data = data._replace(labels=labels)
    with pytest.raises(UsageError, match=r"evaluation\.probe needs classes of training images"):
        linear_accuracy(run.method, run.loader, run.config.linear)
    labels[17] = 0
    for own in (run, run.changed("execution.precision=float64")):
        own.loader.data = own.loader.data._replace(labels=labels)
        assert linear_accuracy(own.method, own.loader, own.config.linear) == 21 / 28


def test_a_step_by_hand():
    rows = torch.tensor([[1.0, 2.0], [3.0, -1.0], [5.0, 5.0]], dtype=torch.float64)
    weight = torch.tensor([[0.1, 0.2], [-0.3, 0.4], [0.0, 0.5]], dtype=torch.float64)
    bias, classes = torch.tensor([0.1, 0.0, -0.2], dtype=torch.float64), torch.tensor([2, 0, -1])
    shares = torch.softmax(rows[:2] @ weight.T + bias, dim=1)
    shares[0, 2] -= 1
    shares[1, 0] -= 1
    expected = weight - 0.5 * shares.T @ rows[:2] / 2, bias - 0.5 * shares.sum(0) / 2
    weight.requires_grad_()
    bias.requires_grad_()
    with torch.no_grad():  # as the probe calls it
        for _ in range(2):
            before = weight.detach().clone(), bias.detach().clone()
            linear_probe._step(torch.optim.SGD([weight, bias], lr=0.5), rows, weight, bias, classes)
            if _ == 0:
                torch.testing.assert_close((weight.detach(), bias.detach()), expected)
                weight.data, bias.data = before  # the gradient of the first step is forgotten
    torch.testing.assert_close((weight.detach(), bias.detach()), expected)
