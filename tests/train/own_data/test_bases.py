"""Which recipe settings for data of one's own begin at, and what an encoder changes of them."""

from dataclasses import replace

import pytest

from dualclust.cli.train import read_recipe
from dualclust.train.config.encoder import EncoderConfig
from dualclust.train.data.look import Look
from dualclust.train.own_data import Machine, choose_settings
from dualclust.train.own_data.bases import base_of, kind_of_data, papers_views
from dualclust.train.own_data.encoders import Wanted, put_encoder


def images(channels, width, height, kind="images"):
    return Look(kind, 900, channels, width, height)


@pytest.mark.parametrize(
    ("look", "kind"),
    [
        (images(1, 40, 90), "strokes"),
        (images(1, 90, 40), "strokes"),
        (images(1, 41, 41), "photographs"),
        (images(3, 40, 40), "photographs"),
        (images(3, 90, 90, "files"), "photographs"),
        (Look("embeddings", 900, dim=8), "embeddings"),
    ],
)
def test_small_gray_images_are_strokes(look, kind):
    assert kind_of_data(look) == kind


@pytest.mark.parametrize("card", [False, True])
@pytest.mark.parametrize(
    ("look", "recipe", "samples"),
    [
        (images(1, 12, 30), "digits", 1797),
        (images(1, 13, 13), "mnist", 10_000),
        (images(3, 12, 12), "cifar10", 50_000),
        (images(1, 50, 50), "cifar10", 50_000),
        (Look("embeddings", 900, dim=8), "mnist", 10_000),
    ],
)
def test_the_recipe_is_that_of_the_kind_and_on_a_card_the_papers(look, recipe, samples, card):
    if recipe == "cifar10" and not card:
        recipe, samples = "mnist", 10_000
    for method in ("secu", "gatcluster"):
        found = base_of(look, method, card=card)
        assert found == (read_recipe(f"{method}_{recipe}"), samples)


def test_views_of_a_paper_are_those_of_its_recipe():
    for method in ("secu", "coke"):
        recipe = read_recipe(f"{method}_cifar10")
        assert papers_views(method) == {"augment": recipe.augment, "second": recipe.second}


@pytest.mark.parametrize("kind", ["images", "files"])
@pytest.mark.parametrize("method", ["secu", "gatcluster", "mi_margin"])
def test_a_frozen_encoder_stands_in_the_place_of_the_hidden_layer(method, kind):
    config = read_recipe(f"{method}_mnist")
    wanted = Wanted("timm/tiny", 32, weights="w")
    found, told = put_encoder(config, images(3, 90, 90, kind), wanted)
    layers = config.network.layers if method == "secu" else 1
    network = replace(
        config.network,
        name="timm/tiny",
        width=0,
        layers=layers,
        last_norm=method == "gatcluster",
    )
    size = 32 if kind == "files" else config.data.size
    data = replace(config.data, size=size)
    encoder = EncoderConfig(weights="w", frozen=True)
    assert found == replace(config, network=network, data=data, encoder=encoder)
    settings = ['network.name = "timm/tiny"', "data.size = 32", "encoder.frozen = true"]
    assert [setting for setting, _ in told] == [
        setting for setting in settings if kind == "files" or "size" not in setting
    ]
    assert all(reason for _, reason in told)


def test_an_encoder_that_learns_keeps_what_follows_it():
    config = read_recipe("mi_margin_mnist")
    wanted = Wanted("hf/x/y", 32, frozen=False, weights="w")
    found, told = put_encoder(config, images(3, 90, 90), wanted)
    network = replace(config.network, name="hf/x/y", width=0)
    encoder = EncoderConfig(weights="w", rate=0.1, mode="eval")
    assert found == replace(config, network=network, encoder=encoder)
    assert [setting for setting, _ in told] == [
        'network.name = "hf/x/y"',
        "encoder.rate = 0.1",
        'encoder.mode = "eval"',
    ]


@pytest.mark.parametrize(("dim", "width"), [(8, 64), (64, 64), (384, 384), (512, 512), (1000, 512)])
def test_the_hidden_layer_is_as_wide_as_embeddings_within_bounds(dim, width):
    look = Look("embeddings", 5000, dim=dim)
    for method, wanted in (("gatcluster", width), ("mi_margin", width), ("secu", 0)):
        found = choose_settings(look, method, "x", Machine(2), clusters=10)
        assert found.config.network.width == wanted
