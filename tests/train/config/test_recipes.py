"""Every built-in recipe loads, and its network fits the images it is for."""

import re
from importlib.resources import files
from types import SimpleNamespace

import pytest
import torch

from dualclust.algos.core.errors import UsageError
from dualclust.cli import train
from dualclust.cli.main import TRAIN_METHODS
from dualclust.cli.train import read_recipe
from dualclust.train.config.run import RunConfig
from dualclust.train.methods import METHODS
from dualclust.train.networks.network import build_network

NAMES = sorted(
    recipe.name.removesuffix(".toml")
    for recipe in files("dualclust.train.recipes").iterdir()
    if recipe.name.endswith(".toml")
)
# Shape of an image of each data set, as the papers use it.
SHAPES = {
    "digits": (1, 8, 8),
    "mnist": (1, 28, 28),
    "cifar10": (3, 32, 32),
    "cifar100": (3, 32, 32),
    "stl10": (3, 96, 96),
    "tinyimagenet": (3, 64, 64),
    "imagenet10": (3, 96, 96),
    "imagenetdogs": (3, 96, 96),
    "imagenet": (3, 224, 224),
}
# Names that a method's variant has in the papers' tables.
VARIANTS = {"byol": "propos", "imsat": "mi_margin", "iic": "mi_margin", "sela": "mi_margin"}


def test_there_are_recipes():
    assert "secu_digits" in NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_loads_and_says_whose_it_is(name):
    config = read_recipe(name)
    methods = [*METHODS, *VARIANTS]
    prefix = max((m for m in methods if name.startswith(f"{m}_")), key=len, default=None)
    assert prefix is not None, f"{name} must start with one of {methods}"
    if config.method == "self_label":
        # The last stage of a method, which starts from a run of it.
        assert "selflabel" in name
    else:
        assert VARIANTS.get(prefix, prefix) == config.method


def shape_of(name, config):
    """Shape of the samples of a recipe: by its data set, and the size it sets."""
    parts = [part for part in re.split("_", name) if part in SHAPES]
    assert len(parts) == 1, f"{name} must name one of {', '.join(SHAPES)}"
    channels, *sides = SHAPES[parts[0]]
    return (channels, *([config.data.size] * 2 if config.data.size else sides))


@pytest.mark.parametrize("name", NAMES)
def test_the_network_of_a_recipe_fits_its_images(name):
    config = read_recipe(name)
    shape = shape_of(name, config)
    with torch.device("meta"):
        network = build_network(config.network, shape)
        for options in (config.augment, config.second, config.small):
            if options is not None:
                side = options.size or shape[1]
                view = torch.empty(2, shape[0], side, options.size or shape[2])
                assert network(view).shape == (2, network.out_dim)


def test_the_command_knows_every_method():
    assert sorted(TRAIN_METHODS) == sorted(METHODS)


@pytest.mark.parametrize("method", [m for m in TRAIN_METHODS if f"{m}_digits" in NAMES])
def test_each_method_has_a_recipe_for_the_digits(method, monkeypatch):
    asked = []

    def stop(config, *_, **__):
        asked.append(config)
        msg = "far enough"
        raise UsageError(msg)

    monkeypatch.setattr(train, "train", stop)
    options = SimpleNamespace(
        command="train",
        method=method,
        recipe=None,
        data="digits",
        set=[],
        clusters=None,
        time=None,
        encoder=None,
        weights=None,
        fine_tune=False,
        classes=False,
        bad=None,
        seed=None,
        log=[],
        device="cpu",
        timeout=600.0,
        out=None,
    )
    with pytest.raises(UsageError, match="far enough"):
        train.run(options)
    assert isinstance(asked[0], RunConfig)
    assert asked[0] == read_recipe(f"{method}_digits")


def test_the_five_methods_have_one():
    assert {f"{m}_digits" for m in TRAIN_METHODS if m != "self_label"} <= set(NAMES)
