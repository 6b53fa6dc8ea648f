"""Runs of GATCluster: the digits, resuming, pictures, and what a step asks of the device."""

import json
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from dualclust.cli.train import read_recipe
from dualclust.train.config.run import override
from dualclust.train.loop import resume, train
from dualclust.train.methods.base import Batch
from dualclust.train.methods.gatcluster.method import GATCluster
from tests.train.methods.gatcluster.test_gatcluster import M, draw_images, make
from tests.train.methods.secu.test_secu_operations import Operations
from tests.train.runs import Interrupted, assert_same_run, interrupt_after

RECIPES = {
    "gatcluster_stl10": (1000, "gat-stl", 10),
    "gatcluster_imagenet10": (1000, "gat-imagenet10", 10),
    "gatcluster_imagenetdogs": (1500, "gat-dogs", 15),
    "gatcluster_cifar10": (4000, "gat-cifar", 10),
    "gatcluster_cifar100_20": (6000, "gat-cifar", 20),
    "gatcluster_digits": (600, "gat-digits", 10),
    "gatcluster_mnist": (1000, "gat-mnist", 10),
}


def short(source, *changes):
    """The recipe of the digits, cut down to a second."""
    return override(
        read_recipe("gatcluster_digits"),
        [
            f"data.source={source}",
            "epochs=4",
            "batch_size=90",
            "network.width=2",
            "evaluation.every=2",
            "gatcluster.sub_batch=24",
            "gatcluster.n_init=3",
            *changes,
        ],
    )


@pytest.mark.parametrize("name", RECIPES)
def test_recipes_are_read(name):
    batch_size, network, k = RECIPES[name]
    config = read_recipe(name)
    assert (config.batch_size, config.network.name) == (batch_size, network)
    assert config.heads.clusters == (k,)
    assert config.gatcluster.alpha == 0.1
    assert config.assignment.lower == 0


@pytest.fixture(scope="module")
def straight(source, tmp_path_factory):
    """The folder of a run that nobody interrupted; the tests leave it as it is."""
    return train(short(source), tmp_path_factory.mktemp("straight") / "run").folder


@pytest.mark.parametrize("epoch", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_a_resumed_run_ends_like_one_that_was_not_interrupted(source, straight, tmp_path, epoch):
    folder = tmp_path / "run"
    with pytest.raises(Interrupted):
        train(short(source), folder, progress=interrupt_after(epoch))
    resume(folder)
    assert_same_run(folder, straight)
    assert (folder / "attention.png").read_bytes() == (straight / "attention.png").read_bytes()


def test_a_run_keeps_its_branches_and_its_corners(straight, tmp_path):
    from safetensors.torch import load_file

    folder = shutil.copytree(straight, tmp_path / "run")
    result = resume(folder)
    saved = load_file(folder / "weights.safetensors")
    assert "predictor.window_layer.weight" in saved
    assert np.array_equal(np.load(folder / "centers.npy"), np.eye(10))
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["size_max"] == result.metrics[-1]["size_max"]


def test_an_encoder_without_a_map_has_no_picture(source, tmp_path):
    changes = ["network.name=digits-cnn", "network.width=2", "epochs=1"]
    train(short(source, *changes), tmp_path / "run")
    assert not (tmp_path / "run" / "attention.png").exists()


# What a step asks of the device ------------------------------------------------------------------


def test_a_large_batch_reads_no_value_back():
    method = make()
    method.may_read = False
    plain, views = draw_images()
    losses = method.losses(Batch(torch.arange(M), (plain[:M], views[:M]), method.draws([M])[0]))
    steps = 0
    with Operations() as seen:
        for loss in losses:
            loss.backward()
            steps += 1
    assert steps == 6
    assert method.capturable
    assert seen.waiting == set()


def test_what_a_large_batch_learns_by_does_not_depend_on_reading():
    plain, _ = draw_images()
    found = []
    for may_read in (True, False):
        method = make()
        method.may_read = may_read
        found.append(method.targets(torch.arange(M), plain[:M], method.draws([M])[0][0]))
    for a, b in zip(*found, strict=True):
        assert torch.equal(a, b)


def test_a_step_runs_on_tensors_without_values():
    method = make()
    plain, _ = draw_images()
    targets = method.targets(torch.arange(M), plain[:M], method.draws([M])[0][0])
    method.targets = lambda *_: targets
    with FakeTensorMode(allow_non_fake_inputs=True):
        views = torch.randn(M, 1, 4, 4, dtype=torch.float64)
        loss = next(method.losses(Batch(torch.arange(M), (plain[:M], views))))
    assert loss.shape == ()


def test_a_map_of_one_row_says_nothing_of_where_the_window_lies():
    line = SimpleNamespace(branches=SimpleNamespace(map_shape=(4, 1, 3)))
    assert GATCluster.attended(line, None, None) is None
