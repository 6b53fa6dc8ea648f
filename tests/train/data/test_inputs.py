"""Every method on embeddings, and on a network of the user's own."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from dualclust.algos.core.errors import UsageError
from dualclust.train.config.run import AugmentConfig, override
from dualclust.train.loop import Run, resume, train
from tests.train.runs import tiny_recipe, write_images

METHODS = ["secu", "coke", "propos", "gatcluster", "mi_margin"]
STILL = [
    "epochs=2",
    "batch_size=32",
    "heads.clusters=[10]",
    "assignment.rounding=outward",
    "evaluation.views=0",
]


@pytest.fixture(scope="module")
def embeddings(tmp_path_factory):
    """Unit vectors around ten directions, and their classes."""
    rng = np.random.default_rng(0)
    member = np.arange(97) % 10
    x = rng.normal(size=(10, 16))[member] + 0.3 * rng.normal(size=(97, 16))
    path = tmp_path_factory.mktemp("data") / "X.npy"
    np.save(path, x.astype(np.float32))
    np.save(path.with_name("X_labels.npy"), member)
    return path


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    return write_images(tmp_path_factory.mktemp("data") / "images.npz", n=97)


def settings(method, source, *changes):
    """The recipe of the digits on other data: views that differ by noise alone."""
    config = tiny_recipe(f"{method}_digits", source)
    views = AugmentConfig(noise=0.1)
    second = None if config.second is None else views
    return override(replace(config, augment=views, second=second, small=None), [*STILL, *changes])


def network_of(method):
    """The head behind an encoder of vectors, as each method asks."""
    if method == "mi_margin":
        return ["network.layers=1", "network.out_dim=10"]
    return ["network.layers=2", "network.out_dim=8"]


@pytest.mark.parametrize("encoder", ["none", "mlp"])
@pytest.mark.parametrize("method", METHODS)
def test_embeddings(method, encoder, embeddings, tmp_path):
    config = settings(method, embeddings, f"network.name={encoder}", *network_of(method))
    result = train(config, tmp_path / "run")
    assert len(result.prediction.assignment.labels) == 97
    assert 0.0 < result.metrics[-1]["acc"] <= 1.0
    rows = (tmp_path / "run" / "assignments.csv").read_text().splitlines()
    assert len(rows) == 98
    assert not (tmp_path / "run" / "gallery.png").exists()
    assert (tmp_path / "run" / "sizes.png").exists()


def test_a_network_with_nothing_to_learn_is_refused(embeddings, tmp_path):
    config = settings("secu", embeddings, "network.name=none", "network.layers=0")
    with pytest.raises(UsageError, match=r"nothing to learn.*network\.layers"):
        train(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def own_encoder():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten()
        )


@pytest.mark.parametrize("method", METHODS)
def test_a_network_of_ones_own(method, images, tmp_path):
    config = settings(method, images, *network_of(method))
    encoder = own_encoder()
    before = encoder[0].weight.detach().clone()
    result = train(config, tmp_path / "run", network=encoder)
    assert not torch.equal(before, encoder[0].weight)  # the user's module is the one that learns
    assert 0.0 < result.metrics[-1]["acc"] <= 1.0
    again = resume(tmp_path / "run", network=own_encoder())
    assert torch.equal(again.prediction.assignment.labels, result.prediction.assignment.labels)


def test_a_network_without_rows_is_refused(images):
    config = settings("secu", images)
    with pytest.raises(UsageError, match=r"rows of features \(2, d\).*Flatten"):
        Run(config, "cpu", network=nn.Conv2d(1, 4, 3))
