"""Whole runs of CoKe: the digits beyond k-means on pixels, and resume to the last bit."""

import pytest

from dualclust.cli.train import read_recipe
from dualclust.train.config.run import override
from dualclust.train.loop import resume, train
from tests.train.runs import Interrupted, assert_same_run, interrupt_after

VARIANTS = {
    "two views": [],
    "averages": ["coke.views=one", "coke.second_stage=2", "coke.slots=2"],
    "multi-crop, predictor": [
        "coke.views=multi",
        "coke.small_crops=2",
        "network.predictor=8",
        "small.crop=[0.3, 0.7]",
    ],
    "centers once an epoch": ["coke.second_stage=1", "coke.average=false", "heads.init=random"],
}
RECIPES = ["imagenet_single", "imagenet_double", "imagenet_multicrop", "cifar10", "cifar100_20"]
EPOCHS = 4


def tiny(source, *changes):
    """The recipe of the digits, cut down."""
    return override(
        read_recipe("coke_digits"),
        [
            f"data.source={source}",
            f"epochs={EPOCHS}",
            "batch_size=64",
            "heads.clusters=[10, 20]",
            "optim.warmup_epochs=1",
            "evaluation.every=2",
            "network.width=2",
            "network.hidden=16",
            "network.out_dim=8",
            *changes,
        ],
    )


@pytest.mark.parametrize("variant", VARIANTS)
def test_interrupted_after_each_epoch_in_turn(source, tmp_path, variant):
    config = tiny(source, *VARIANTS[variant])
    train(config, tmp_path / "straight")
    folder = tmp_path / "run"
    with pytest.raises(Interrupted):
        train(config, folder, progress=interrupt_after(1))
    for epoch in range(2, EPOCHS + 1):
        with pytest.raises(Interrupted):
            resume(folder, progress=interrupt_after(epoch))
    resume(folder)
    assert_same_run(folder, tmp_path / "straight")


@pytest.mark.parametrize("name", [*RECIPES, "mnist", "digits"])
def test_the_recipes_are_those_of_the_method(name):
    config = read_recipe(f"coke_{name}")
    assert config.method == "coke"
    assert config.optim.frozen_epochs == 1
    if name in RECIPES:
        assert config.assignment.steps.startswith("coke-")
        assert config.assignment.upper == float("inf")
