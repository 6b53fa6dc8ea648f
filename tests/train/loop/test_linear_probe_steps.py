"""What the linear probe gives its optimizer, batch by batch, and one step of it by hand."""

import math

import numpy as np
import pytest
import torch

from dualclust.algos.core.errors import UsageError
from dualclust.train.loop import Run, linear_probe
from dualclust.train.loop.linear_probe import START_STD, linear_accuracy
from dualclust.train.state.seeding import generator
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


def test_what_the_steps_are_given(run, monkeypatch):
    steps = []

    def step(optimizer, rows, weight, bias, classes):
        group = dict(optimizer.param_groups[0])
        assert [id(p) for p in group.pop("params")] == [id(weight), id(bias)]
        kept = {key: group[key] for key in ("lr", "momentum", "weight_decay")}
        steps.append((kept, rows, weight.detach().clone(), bias.detach().clone(), classes))

    monkeypatch.setattr(linear_probe, "_step", step)
    linear_accuracy(run.method, run.loader, run.config.linear)
    assert len(steps) == 2 * 3
    start = START_STD * torch.randn(
        (4, run.method.network.encoder_dim), generator=generator(run.config.seed, "linear")
    )
    classes = run.loader.data.labels
    seen = []
    for i, (kept, rows, weight, bias, of_batch) in enumerate(steps):
        rate = 0.25 * (1 + math.cos(math.pi * (i // 3) / 2))
        assert kept == {"lr": pytest.approx(rate), "momentum": 0.25, "weight_decay": 0.125}
        assert torch.equal(weight, start.to(weight))
        assert bias.tolist() == [0] * 4
        assert rows.shape == (len(of_batch), run.method.network.encoder_dim)
        assert not rows.requires_grad
        seen.append(of_batch)
    epochs = torch.cat(seen[:3]), torch.cat(seen[3:])
    for found in epochs:
        assert torch.equal(found.sort().values, classes.sort().values)
    assert not torch.equal(*epochs)
    assert START_STD == 0.01


def test_the_probe_has_the_precision_of_the_run(run, monkeypatch):
    kinds = set()

    def step(optimizer, rows, weight, bias, classes):
        kinds.update((rows.dtype, weight.dtype, bias.dtype))
        assert weight.requires_grad
        assert bias.requires_grad

    monkeypatch.setattr(linear_probe, "_step", step)
    double = run.changed("execution.precision=float64")
    linear_accuracy(double.method, double.loader, double.config.linear)
    assert kinds == {torch.float64}


def test_images_without_a_class_do_not_count(run, monkeypatch):
    """Weights that always answer 3 are right for the seven of 28 that have a class."""

    def step(optimizer, rows, weight, bias, classes):
        weight.data.zero_()
        bias.data.copy_(torch.arange(4.0))

    monkeypatch.setattr(linear_probe, "_step", step)
    assert linear_accuracy(run.method, run.loader, run.config.linear) == 7 / 28


def test_batches_without_a_class_are_passed_over(run, monkeypatch):
    data, sizes = run.loader.data, []
    labels = torch.full_like(data.labels, -1)
    run.loader.data = data._replace(labels=labels)
    with pytest.raises(UsageError, match=r"evaluation\.probe needs classes of training images"):
        linear_accuracy(run.method, run.loader, run.config.linear)
    labels[17] = 0
    monkeypatch.setattr(linear_probe, "_step", lambda *given: sizes.append(given[-1].tolist()))
    linear_accuracy(run.method, run.loader, run.config.linear)
    assert [sorted(classes) for classes in sizes] == [[-1] * 19 + [0]] * 2  # one batch an epoch


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
