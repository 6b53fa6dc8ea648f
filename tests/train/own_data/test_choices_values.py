"""Settings for data of one's own as whole records, and the words that tell them."""

from dataclasses import replace

import pytest

from dualclust.cli.train import read_recipe
from dualclust.train.config.encoder import EncoderConfig
from dualclust.train.config.run import AugmentConfig, DataConfig
from dualclust.train.data.look import Look
from dualclust.train.own_data import Machine, choose_settings
from dualclust.train.own_data.choices import Choice, Chosen
from dualclust.train.own_data.encoders import Wanted
from dualclust.train.own_data.epochs import epochs_by_count, lasting

CPU, CARD = Machine(3), Machine(9, card=True)
# Names and widths of networks for photographs of these sides in an array: on a CPU, on a card.
NETWORKS = {
    "secu": {
        40: ("resnet18-stl", "resnet18-cifar"),
        41: ("resnet18-stl", "resnet18-stl"),
        128: ("resnet18-stl", "resnet18-stl"),
        129: ("resnet18", "resnet18"),
    },
    "gatcluster": {89: ("gat-cifar", "gat-cifar"), 90: ("gat-stl", "gat-stl")},
}


def chosen(look, method, machine=CPU, clusters=10, **more):
    return choose_settings(look, method, "x", machine, clusters=clusters, **more)


def told(found):
    return {c.settings.partition(" = ")[0]: (c.settings, c.reason) for c in found.choices}


def with_length(config, n, batch):
    """A configuration for data of n samples of which the recipe was made for 10,000."""
    epochs = epochs_by_count(config.epochs, n, 10_000, "strokes", card=False)
    return lasting(replace(config, batch_size=batch), epochs)


BATCHES = {  # of 500 embeddings: a seventh is 71, and GATCluster takes them at once
    "secu": 71,
    "coke": 71,
    "propos": 71,
    "gatcluster": 500,
    "mi_margin": 71,
}


@pytest.mark.parametrize("machine", [CPU, CARD])
@pytest.mark.parametrize("method", BATCHES)
def test_settings_for_embeddings(method, machine):
    base = read_recipe(f"{method}_mnist")
    hidden = method in ("gatcluster", "mi_margin")
    network = replace(
        base.network,
        name="mlp" if hidden else "none",
        width=100 if hidden else 0,
        layers={"gatcluster": 0, "mi_margin": 1}.get(method, 2),
        hidden=256,
        out_dim=6 if method == "mi_margin" else base.network.out_dim,
    )
    finer = method in ("secu", "coke")
    paired = finer or method == "propos"
    clusters = (6, 12, 24, 48) if finer else (6,)
    config = replace(
        base,
        data=DataConfig("x", standardize=True, limit=5),
        threads=0 if machine.card else 3,
        network=network,
        augment=AugmentConfig() if paired else AugmentConfig(noise=0.2, mask=0.2),
        second=AugmentConfig(neighbors=10) if paired else None,
        heads=replace(base.heads, clusters=clusters, target=6),
        assignment=replace(base.assignment, lower=0.7, upper=1.5) if finer else base.assignment,
    )
    found = chosen(Look("embeddings", 500, dim=100), method, machine, 6, data={"limit": 5})
    assert found.config == with_length(config, 500, BATCHES[method])
    words = told(found)
    first = "one hidden layer" if hidden else "heads alone: the fast path"
    assert words["network.name"] == (f'network.name = "{network.name}"', first)
    many = "-k; finer heads beside it make a run reliable" if finer else "-k"
    assert words["heads.clusters"] == (f"heads.clusters = {list(clusters)}", many)
    assert words["batch_size"] == (f"batch_size = {BATCHES[method]}", "there are few samples")
    seen = found.config.epochs * 500
    assert words["epochs"][1] == f"by count: {seen:,} samples are seen"


def test_a_paper_with_two_views_gives_embeddings_none_of_them(monkeypatch):
    """The second view of a recipe is of images: embeddings have neighbors, or the first alone."""
    from dualclust.train.own_data import choices

    base = replace(read_recipe("secu_mnist"), second=AugmentConfig(flip=True))
    monkeypatch.setattr(choices, "base_of", lambda *_, **__: (base, 10_000))
    found = chosen(Look("embeddings", 500, dim=9), "secu")
    assert found.config.second == AugmentConfig(neighbors=10)
    assert "second.neighbors" in told(found)
    # Finding them takes the square of their number.
    many = chosen(Look("embeddings", 50_001, dim=9), "secu").config
    assert (many.augment, many.second) == (AugmentConfig(noise=0.2, mask=0.2), None)


@pytest.mark.parametrize(
    ("n", "method", "batch"),
    [
        (40, "secu", 32),  # at least 32
        (223, "secu", 32),
        (231, "secu", 33),
        (900, "secu", 128),  # a seventh is more than the recipe's
        (896, "secu", 128),
        (889, "secu", 127),
        (999, "gatcluster", 999),
        (1000, "gatcluster", 1000),
        (3, "gatcluster", 3),
    ],
)
def test_a_batch_is_at_most_a_seventh_of_the_samples(n, method, batch):
    found = chosen(Look("embeddings", n, dim=8), method, clusters=2)
    assert found.config.batch_size == batch
    recipe = read_recipe(f"{method}_mnist").batch_size
    assert ("batch_size" in told(found)) == (batch != recipe)


@pytest.mark.parametrize(("method", "sides"), NETWORKS.items())
def test_networks_for_photographs(method, sides):
    base = {CPU: read_recipe(f"{method}_mnist"), CARD: read_recipe(f"{method}_cifar10")}
    paper = read_recipe(f"{method}_cifar10")
    crops = method == "secu"
    for side, names in sides.items():
        for machine, name, width in ((CPU, names[0], 16), (CARD, names[1], 64)):
            found = chosen(Look("images", 5000, 3, side + 9, side), method, machine)
            config, recipe = found.config, base[machine]
            assert config.network == replace(recipe.network, name=name, width=width)
            assert config.data == DataConfig("x")
            assert (config.augment, config.second) == (paper.augment, paper.second)
            execution = recipe.execution
            if machine.card:
                last = method != "propos"
                execution = replace(execution, precision="bfloat16", channels_last=last)
            assert config.execution == execution
            words = told(found)
            kind = "residual" if crops else "GATCluster's"
            assert words["network.name"][1] == f"a {kind} network for {side} pixels"
            where = "a CUDA card" if machine.card else "3 CPU cores"
            assert words["network.width"][1] == f"channels of its first stage, for {where}"
            views = "augment.crop, jitter, ..." if crops else "augment.rotate, jitter, ..."
            assert words[views] == (views, "the paper's views of photographs")
            assert ("execution.precision" in words) == machine.card


@pytest.mark.parametrize(
    ("method", "side", "sizes"),
    [
        ("secu", 95, (32, 32)),
        ("secu", 96, (48, 48)),
        ("secu", 127, (48, 48)),
        ("secu", 128, (48, 64)),
        ("gatcluster", 95, (32, 32)),
        ("gatcluster", 96, (32, 96)),
    ],
)
def test_views_of_photographs_in_files(method, side, sizes):
    for machine, size in zip((CPU, CARD), sizes, strict=True):
        found = chosen(Look("files", 5000, 3, side, 2 * side), method, machine)
        crops = method == "secu"
        assert found.config.data == DataConfig("x", size=size, decode="copies" if crops else "auto")
        words = told(found)
        why = "half of that of a picture" if machine.card else "as small as a CPU needs it"
        assert words["data.size"] == (f"data.size = {size}", f"side of a view in pixels: {why}")
        assert ("data.decode" in words) == crops
        assert words["network.name"][1].endswith(f" network for {size} pixels")


def test_gray_photographs_have_views_without_colors():
    for method, views in (("secu", "augment.crop"), ("gatcluster", "augment.rotate")):
        found = chosen(Look("images", 5000, 1, 64, 64), method)
        paper = read_recipe(f"{method}_cifar10")
        for view, own in (
            (paper.augment, found.config.augment),
            (paper.second, found.config.second),
        ):
            expected = view
            if view is not None:
                expected = replace(view, jitter=(*view.jitter[:2], 0.0, 0.0), gray=0.0)
            assert own == expected
        assert told(found)[f"{views}, jitter, ..."][1].endswith("photographs, without colors")


@pytest.mark.parametrize(
    ("side", "size"), [(11, 11), (12, 12), (13, 13), (28, 28), (29, 28), (40, 28)]
)
def test_strokes_in_files_keep_their_size_up_to_28_pixels(side, size):
    found = chosen(Look("files", 5000, 1, side, side + 5), "secu")
    assert found.config.data == DataConfig("x", size=size)
    base = read_recipe("secu_digits" if side <= 12 else "secu_mnist")
    assert found.config.network == base.network
    assert told(found)["data.size"] == (
        f"data.size = {size}",
        "the pictures' own size, at most 28 pixels",
    )


def test_samples_are_enough_for_finer_heads():
    """Eight for each cluster of a finer head."""
    for n, clusters in ((383, (6, 12, 24)), (384, (6, 12, 24, 48)), (95, (6,)), (96, (6, 12))):
        found = chosen(Look("embeddings", n, dim=8), "secu", clusters=6)
        assert found.config.heads.clusters == clusters


def test_a_frozen_encoder_gives_embeddings_and_keeps_what_it_needs():
    look = Look("files", 700, 3, 500, 400, classes=True)
    frozen = chosen(look, "mi_margin", encoder=Wanted("timm/x", 224, weights="w"))
    rows = chosen(Look("embeddings", 700, dim=5), "mi_margin").config
    assert frozen.config == replace(
        rows,
        network=replace(rows.network, name="timm/x", width=0),
        data=replace(rows.data, size=224),
        encoder=EncoderConfig(weights="w", frozen=True),
    )
    words = told(frozen)
    assert words["network.name"][1] == "as asked: --encoder"
    assert words["data.size"][1] == "side of an image, as the encoder was trained"
    assert {"encoder.frozen", "data.standardize", "augment.noise"} <= words.keys()
    learning = told(chosen(look, "secu", encoder=Wanted("timm/x", 224, frozen=False)))
    assert "data.standardize" not in learning
    assert not {"network.width", "data.decode"} & learning.keys()
    assert learning["data.size"][0] == "data.size = 224"


def test_what_is_asked_is_told():
    found = chosen(Look("embeddings", 5000, dim=8), "secu", clusters=(5, 10), epochs=7)
    assert found.config.epochs == 7
    words = told(found)
    assert words["epochs"] == ("epochs = 7", "as asked")
    assert words["heads.candidates"][0] == "heads.candidates = [5, 10]"
    assert words["assignment.lower"] == (
        "assignment.lower = 0.7",
        "in units of n/k: data is seldom balanced, so that clusters may be small",
    )
    assert words["assignment.upper"] == ("assignment.upper = 1.5", "and may be large")
    assert [machine.describe() for machine in (Machine(1), Machine(2), CARD)] == [
        *("1 CPU core", "2 CPU cores", "a CUDA card"),
    ]


@pytest.mark.parametrize(("epochs", "half"), [(1, 1), (2, 1), (3, 1), (4, 2), (9, 4)])
def test_choices_are_told_line_by_line(epochs, half):
    look = Look("embeddings", 5000, dim=8)
    config = replace(read_recipe("secu_mnist"), data=DataConfig("here"))
    config = lasting(config, epochs)
    found = Chosen(config, (Choice("a = 1", "first"), Choice("longer = 2", "second")))
    assert found.describe(look, CPU).splitlines() == [
        f"settings for here: {look.describe()}; 3 CPU cores",
        "  a = 1       first",
        "  longer = 2  second",
        f"to change one: --set epochs={half}; to keep all: dualclust train secu --recipe "
        "RUN/config.toml",
    ]
