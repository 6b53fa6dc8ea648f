"""Settings for data of one's own: valid for any data, told as they are, and the papers' views."""

import tomllib
from dataclasses import replace

import numpy as np
import pytest
import torch

from dualclust.algos.core.errors import UsageError
from dualclust.cli.train import read_recipe
from dualclust.train.config import StartsConfig
from dualclust.train.config.run import RunConfig, dump_config, from_mapping, override
from dualclust.train.data.look import Look
from dualclust.train.methods._head_bounds import head_bounds
from dualclust.train.networks.network import build_network
from dualclust.train.own_data import Chosen, Machine, choose_settings, with_clusters
from dualclust.train.own_data.bases import METHODS
from dualclust.train.own_data.candidates import as_numbers
from dualclust.train.own_data.encoders import Wanted
from dualclust.train.own_data.epochs import lasting
from tests.train.config.test_recipes import NAMES

LOOKS = {
    "few photographs": Look("files", 500, 3, 90, 64, varied=True, folders=3),
    "large photographs": Look("files", 20_000, 3, 4000, 3000, varied=True),
    "gray photographs": Look("files", 3000, 1, 640, 480),
    "images": Look("images", 50_000, 3, 32, 32, classes=True),
    "large images": Look("images", 900, 3, 200, 160),
    "letters": Look("files", 10_000, 1, 40, 28, varied=True),
    "MNIST": Look("images", 10_000, 1, 28, 28),
    "digits": Look("images", 1797, 1, 8, 8),
    "embeddings": Look("embeddings", 5000, dim=384),
    "few embeddings": Look("embeddings", 40, dim=8),
}
MACHINES = {"CPU": Machine(2), "card": Machine(16, card=True)}


def shape_of(look, config):
    """Shape of a sample of a run."""
    if look.kind == "embeddings":
        return (look.dim,)
    sides = [config.data.size] * 2 if config.data.size else [look.height, look.width]
    return (look.channels, *sides)


def choose(name, method="secu", machine="CPU", clusters=10, **options):
    return choose_settings(
        LOOKS[name], method, "photos", MACHINES[machine], clusters=clusters, **options
    )


def value_of(config, setting):
    for part in setting.split("."):
        config = getattr(config, part)
    return list(config) if isinstance(config, tuple) else config


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", LOOKS)
def test_settings_fit_the_data_and_are_what_is_told(name, method, machine):
    look = LOOKS[name]
    chosen = choose(name, method, machine)
    config = chosen.config
    # The run folder's file is all of it.
    assert from_mapping(RunConfig, tomllib.loads(dump_config(config))) == config
    assert (config.method, config.data.source, config.heads.target) == (method, "photos", 10)
    assert config.data.normalization == "own"
    assert (config.data.split, config.data.test) == ("auto", "none")
    with torch.device("meta"):
        network = build_network(config.network, shape_of(look, config))
        assert network(torch.empty(2, *shape_of(look, config))).shape == (2, network.out_dim)
    for k in config.heads.clusters:
        head_bounds(config, k, look.n, torch.device("cpu"))  # refuses what cannot be
    assert 2 <= config.batch_size <= look.n
    for choice in chosen.choices:
        setting, equals, text = choice.settings.partition(" = ")
        if equals:
            assert value_of(config, setting) == tomllib.loads(f"value = {text}")["value"]
        assert choice.reason
    told = chosen.describe(look, MACHINES[machine])
    assert look.describe() in told
    assert f"epochs = {config.epochs}" in told
    assert f"heads.clusters = {list(config.heads.clusters)}" in told
    assert "to change one: --set epochs=" in told
    assert max(map(len, told.splitlines()[1:])) <= 110


@pytest.mark.parametrize("method", METHODS)
def test_photographs_are_seen_as_the_paper_has_it(method):
    paper = read_recipe(f"{method}_cifar10")
    for machine in MACHINES:
        config = choose("large photographs", method, machine).config
        assert (config.augment, config.second) == (paper.augment, paper.second)
        crops = paper.augment.crop != (1.0, 1.0)
        assert config.data.decode == ("copies" if crops else "auto")
    gray = choose("gray photographs", method).config.augment
    assert (gray.jitter[2:], gray.gray) == ((0.0, 0.0), 0.0)
    assert replace(gray, jitter=paper.augment.jitter, gray=paper.augment.gray) == paper.augment
    assert "without colors" in choose("gray photographs", method).describe(
        LOOKS["gray photographs"], Machine(2)
    )


@pytest.mark.parametrize("method", METHODS)
def test_strokes_are_trained_as_by_the_recipes_of_their_size_but_for_rates(method):
    for name, recipe in (("MNIST", "mnist"), ("digits", "digits")):
        config, base = choose(name, method).config, read_recipe(f"{method}_{recipe}")
        same = ["epochs", "batch_size", "network", "augment", "loss", method]
        several = method in ("secu", "coke")
        same += [] if several else ["starts"]
        assert [getattr(config, x) for x in same] == [getattr(base, x) for x in same]
        # Three times those of the recipe; CoKe's centers have none.
        rates = {"secu": {"lr": 1.2, "center_lr": 3.6}, "coke": {"lr": 1.2}}.get(method, {})
        assert config.optim == replace(base.optim, **rates)
        said = choose(name, method).describe(LOOKS[name], Machine(1))
        assert all(f"  optim.{setting} = {rate} " in said for setting, rate in rates.items())
        assert said.count("three times") == len(rates)
        tuned = choose(name, method, encoder=Wanted("timm/x", 28, weights="w", frozen=False))
        assert tuned.config.optim.lr == base.optim.lr
        assert config.data.size == 0
    assert choose("letters", method).config.data.size == 28


@pytest.mark.parametrize("method", ["secu", "coke"])
def test_strokes_begin_with_two_strengths_of_their_views(method):
    for epochs, begun in ((1, 0), (2, 1), (3, 1), (10, 4), (25, 10), (125, 50)):
        chosen = choose("MNIST", method, epochs=epochs)
        starts = chosen.config.starts
        lines = chosen.describe(LOOKS["MNIST"], Machine(1)).splitlines()
        told = [line.split("  ")[1:] for line in lines if line.startswith("  starts")]
        if not begun:
            assert starts is None
            assert told == []
            continue
        assert starts == StartsConfig(count=2, epochs=begun, by="silhouette", views=(1.0, 0.5))
        assert told[0][0] == "starts.views = [1.0, 0.5]"
        assert told[0][-1].startswith(f"{begun} epochs each; the one whose clusters")
        longer = Chosen(lasting(chosen.config, 2 * epochs), chosen.choices)
        assert f"  {2 * begun} epochs each; " in longer.describe(LOOKS["MNIST"], Machine(1))
        assert "starts" not in Chosen(
            override(chosen.config, ["starts.count=1"]), chosen.choices
        ).describe(LOOKS["MNIST"], Machine(1))
    by_loss = choose("MNIST", "gatcluster").describe(LOOKS["MNIST"], Machine(1))
    assert "starts.count = 4" in by_loss
    assert "8 epochs each; the one with the least loss goes on" in by_loss
    for name in ("images", "embeddings", "gray photographs"):
        assert choose(name, method).config.starts is None


def test_a_view_is_at_most_half_a_picture():
    sizes = {}
    for side in (20, 95, 96, 128, 191, 192, 3000):
        look = Look("files", 500, 3, side, 2 * side)
        sizes[side] = [
            choose_settings(look, "secu", "x", machine, clusters=5).config.data.size
            for machine in MACHINES.values()
        ]
    assert sizes == {
        20: [32, 32],
        95: [32, 32],
        96: [48, 48],
        128: [48, 64],
        191: [48, 64],
        192: [48, 96],
        3000: [48, 96],
    }


def test_epochs_by_count_and_as_asked():
    seen = [
        choose_settings(Look("files", n, 3, 99, 99), "secu", "x", Machine(2), clusters=2).config
        for n in (100, 500, 2500, 10_000, 10**6)
    ]
    assert [config.epochs for config in seen] == [200, 200, 100, 25, 10]
    assert [config.optim.warmup_epochs for config in seen] == [24, 24, 12, 3, 1]
    # A recipe that warms up for 10 epochs refuses 6; here the warm-up follows.
    for epochs in (1, 2, 6, 400):
        for method in METHODS:
            for name in ("MNIST", "digits", "few photographs"):
                config = choose(name, method, epochs=epochs).config
                assert config.epochs == epochs
                assert config.optim.warmup_epochs <= epochs
                assert config.optim.frozen_epochs < epochs
                assert config.starts is None or config.starts.epochs < epochs


def test_finer_heads_have_samples_enough():
    assert choose("few photographs").config.heads.clusters == (10, 20, 40)
    assert choose("few photographs", clusters=100).config.heads.clusters == (100,)
    assert choose("images", clusters=3).config.heads.clusters == (3, 6, 12, 24)
    assert choose("images", "propos").config.heads.clusters == (10,)


@pytest.mark.parametrize("method", ["secu", "coke"])
def test_several_numbers_of_clusters_have_a_head_each(method):
    found = choose("few photographs", method, clusters=[5, 20, 10, 5])
    assert found.config.heads.clusters == (5, 10, 20, 40)
    assert found.config.heads.candidates == (5, 10, 20)
    assert found.config.heads.target == 10
    told = dict(choice[:2] for choice in found.choices)
    assert "the one that stands out without labels" in told["heads.candidates = [5, 10, 20]"]
    alone = choose("few photographs", method).config
    assert alone.heads.candidates == ()
    assert replace(found.config, heads=alone.heads) == alone
    again = with_clusters(alone, (20, 5))
    assert again.heads == replace(
        alone.heads, clusters=(5, 20, 40, 80), candidates=(5, 20), target=20
    )
    assert with_clusters(again, 20).heads == replace(alone.heads, clusters=(20, 40, 80), target=20)
    assert with_clusters(again, (20, 5)) == again
    assert with_clusters(found.config, (5, 10, 20)) == found.config  # its target is the middle one
    assert with_clusters(found.config, (10, 40)).heads.clusters == (10, 40, 80)
    assert with_clusters(found.config, 10).heads.clusters == (10, 20)


def test_numbers_of_clusters_may_be_those_of_numpy():
    assert as_numbers(np.int64(5)) == (5,)
    found = as_numbers(np.array([20, 5, 20]))
    assert found == (5, 20)
    assert {type(k) for k in found} == {int}
    for none in ((), [], np.array([], dtype=np.int64)):
        with pytest.raises(UsageError, match=r"name at least one, such as 10"):
            choose("images", clusters=none)


def test_several_numbers_are_refused_where_there_is_one_head():
    for method in ("propos", "gatcluster", "mi_margin"):
        words = rf"{method} has one head .* train secu or coke, .* cluster X\.npy --k-range 5,10"
        with pytest.raises(UsageError, match=words):
            choose("images", method, clusters=(5, 10))
        with pytest.raises(UsageError, match=words):
            with_clusters(choose("images", method).config, (5, 10))
    with pytest.raises(UsageError, match=r"-k must name at most 20 numbers .* got 21"):
        choose("images", clusters=range(2, 23))
    assert choose("images", clusters=range(2, 22)).config.heads.candidates == tuple(range(2, 22))


def test_a_method_that_goes_on_from_a_run_is_refused():
    with pytest.raises(UsageError, match="goes on from a finished run"):
        choose("images", "self_label")


@pytest.mark.parametrize("name", NAMES)
def test_every_recipe_takes_another_number_of_clusters(name):
    base = read_recipe(name)
    config = with_clusters(base, 2 * base.heads.target)
    assert config.heads.target == 2 * base.heads.target
    assert config.heads.clusters == tuple(2 * k for k in base.heads.clusters)
    if base.method == "mi_margin":
        assert config.network.out_dim == config.heads.target
    else:
        assert config.network == base.network
    assert with_clusters(base, base.heads.target) == base
