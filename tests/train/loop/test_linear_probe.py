"""Linear evaluation on frozen features: its protocol, and what it leaves alone."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from dualclust.algos.core.errors import UsageError
from dualclust.cli.train import read_recipe
from dualclust.train.config.run import LinearConfig, from_mapping, override
from dualclust.train.loop import Run
from dualclust.train.loop.evaluation import evaluate_method
from dualclust.train.loop.linear_probe import _with_classes, linear_accuracy, linear_rate
from tests.second_device import DEVICE, second_device
from tests.train.runs import tiny

PLAIN = ["linear.crop=[1.0, 1.0]", "linear.flip=false"]


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Images of ten plain kinds, split into train and test; some have no class."""
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 256, size=(10, 8, 8))
    arrays = {}
    for name, n in (("train", 150), ("test", 60)):
        member = np.arange(n) % 10
        noisy = np.clip(kinds[member] + 30 * rng.normal(size=(n, 8, 8)), 0, 255)
        labels = np.where(np.arange(n) < 5, -1, member)
        arrays |= {f"{name}_images": noisy.astype(np.uint8), f"{name}_labels": labels}
    path = tmp_path_factory.mktemp("data") / "split.npz"
    np.savez(path, **arrays)
    return path


def settings(source, *changes):
    base = ["data.test=test", "evaluation.probe=true", "linear.epochs=30", "linear.batch_size=25"]
    return tiny(source, *base, "linear.lr=0.5", *changes)


def run_of(source, *changes, device="cpu"):
    run = Run(settings(source, *changes), device)
    run.init()
    return run


def test_it_is_sgd_on_the_features_of_the_plain_images(source):
    """Without crops: a classifier trained here on the same features has nearly that accuracy."""
    run = run_of(source, *PLAIN)
    encoder = run.method.network.encoder.eval()
    with torch.no_grad():
        x, y = (encoder(data.take(data.ids)) for data in (run.loader.data, run.loader.test))
    t, expected = run.loader.data.labels, run.loader.test.labels
    layer = torch.nn.Linear(x.shape[1], 10)
    torch.nn.init.normal_(layer.weight, std=0.01, generator=torch.Generator().manual_seed(0))
    torch.nn.init.zeros_(layer.bias)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.5, momentum=0.9, weight_decay=1e-6)
    for epoch in range(30):
        optimizer.param_groups[0]["lr"] = 0.25 * (1 + math.cos(math.pi * epoch / 30))
        for ids in torch.randperm(150, generator=torch.Generator().manual_seed(epoch)).split(25):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(layer(x[ids]), t[ids], ignore_index=-1)
            loss.backward()
            optimizer.step()
    known = expected >= 0
    right = (layer(y).argmax(1) == expected)[known].double().mean()
    found = linear_accuracy(run.method, run.loader, run.config.linear)
    assert found == pytest.approx(float(right), abs=0.06)
    assert found > 0.8
    # Once more: the same to the bit. The five images without a class are not counted.
    assert linear_accuracy(run.method, run.loader, run.config.linear) == found
    assert found * 55 == pytest.approx(round(found * 55))


def test_the_network_is_left_as_it_was(source, device):
    run = run_of(source, device=device)
    network = run.method.network
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    linear_accuracy(run.method, run.loader, replace(run.config.linear, epochs=2))
    assert network.training
    assert all(torch.equal(before[name], t) for name, t in network.state_dict().items())
    assert all(p.grad is None for p in network.parameters())


def test_it_learns_classes_and_not_chance(source):
    """Held-out classes that are not those of the images are found at chance."""
    run = run_of(source, *PLAIN)
    other = torch.from_numpy(np.random.default_rng(1).permutation(run.loader.test.labels.numpy()))
    run.loader.test = run.loader.test._replace(labels=other)
    assert linear_accuracy(run.method, run.loader, run.config.linear) < 0.35


def test_crops_are_drawn_anew_each_epoch(source, monkeypatch):
    run, seen = run_of(source, "linear.epochs=2", "linear.batch_size=150"), []
    draw = run.loader._draw
    monkeypatch.setattr(run.loader, "_draw", lambda *a: seen.append(draw(*a)) or seen[-1])
    linear_accuracy(run.method, run.loader, run.config.linear)
    crops = seen[:2]
    assert crops[0].shape == (150, 1, 8, 8)
    assert not torch.allclose(crops[0].sum(), crops[1].sum())
    plain = run_of(source, "linear.epochs=1", "linear.batch_size=150", *PLAIN)
    assert plain.config.linear.view().crop == (1.0, 1.0)


def test_rates_are_those_of_the_script():
    """Half a cosine by whole epochs, from the full rate; never 0."""
    options = LinearConfig(epochs=90, lr=0.4)
    assert linear_rate(options, 0) == 0.4
    assert linear_rate(options, 45) == pytest.approx(0.2)
    assert linear_rate(options, 89) == pytest.approx(0.4 * (1 + math.cos(math.pi * 89 / 90)) / 2)


def test_the_figure_of_a_run(source, device):
    fewer = "linear.epochs=8", "linear.batch_size=50", "batch_size=75"
    run = run_of(source, *fewer, device=device)
    run.run_epoch()
    figures = evaluate_method(run.method, run.loader, last=True)
    assert 0.2 < figures["probe"] <= 1.0
    assert "probe" not in evaluate_method(run.method, run.loader)


def test_no_step_of_an_epoch_reads_a_value(source):
    with second_device() as transfers:
        run = run_of(source, "linear.batch_size=50", device=str(DEVICE))
        found = []
        for epochs in (1, 3):
            transfers.clear()
            linear_accuracy(run.method, run.loader, replace(run.config.linear, epochs=epochs))
            found.append(transfers.reads.total())
    assert found[1] - found[0] == 2  # one an epoch, of three steps


def test_a_batch_without_classes_moves_nothing(source):
    """The first five images have none; a batch of them alone is passed over."""
    run = run_of(source)
    classes = run.loader.data.labels
    parts = list(torch.arange(150).split(5))
    assert _with_classes(parts, classes) == [False] + [True] * 29


def test_without_classes_there_is_none(source):
    run = run_of(source)
    run.loader.test = run.loader.test._replace(labels=None)
    assert linear_accuracy(run.method, run.loader, run.config.linear) is None
    assert "probe" not in evaluate_method(run.method, run.loader, last=True)


@pytest.mark.parametrize("change", ["data.test=none", "evaluation.probe=false"])
def test_a_table_that_does_nothing_is_refused(source, change):
    with pytest.raises(UsageError, match=r"the table \[linear\] trains a classifier"):
        settings(source, change)


def test_a_crop_that_cannot_be_is_refused():
    with pytest.raises(UsageError, match=r"linear.crop must be \[low, high\]"):
        LinearConfig(crop=(0.5, 0.2))


@pytest.mark.parametrize(
    ("name", "lr", "batch", "decay"),
    [
        ("coke_imagenet_single", 0.2, 1024, 1e-6),
        ("coke_imagenet_double", 0.3, 1024, 1e-6),
        ("coke_imagenet_multicrop", 0.4, 1024, 1e-6),
        ("propos_imagenet", 1.6, 4096, 0.0),
    ],
)
def test_recipes_have_the_published_protocol(name, lr, batch, decay):
    config = read_recipe(name)
    assert config.evaluation.probe
    assert config.data.test == "test"
    expected = LinearConfig(epochs=90, batch_size=batch, lr=lr, weight_decay=decay)
    assert config.linear == expected
    assert override(config, ["linear.lr=1.0"]).linear.lr == 1.0
    assert from_mapping(LinearConfig, {}) == LinearConfig()
