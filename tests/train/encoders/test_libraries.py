"""Encoders by their names, of timm and transformers; and encoders that go on learning."""

import json
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import nn

from dualclust.algos.core.errors import (
    CheckpointError,
    MissingExtraError,
    MissingFileError,
    UsageError,
)
from dualclust.cli import train as train_commands
from dualclust.cli.main import main
from dualclust.common.ranks import ALONE
from dualclust.train.config.encoder import EncoderConfig
from dualclust.train.config.run import AugmentConfig, NetworkConfig, load_config
from dualclust.train.data.look import Look
from dualclust.train.loop import Run, resume, train
from dualclust.train.loop.encoder import with_encoder_rate
from dualclust.train.methods.base import METHODS, ParameterGroup
from dualclust.train.models import load_model
from dualclust.train.networks import build_network
from dualclust.train.networks.libraries import LIBRARIES, rows_of
from dualclust.train.networks.pretrained import open_encoder
from dualclust.train.own_data import Machine, Wanted, choose_settings
from tests.thread_ranks import on_threads
from tests.train.encoders import stand_ins
from tests.train.encoders.heads import frozen
from tests.train.encoders.stand_ins import Edges, Tiny
from tests.train.models.test_model_files import rewritten
from tests.train.runs import Interrupted, interrupt_after, tiny

TINY = "network.name=timm/tiny"
TWO = ("epochs=2", "heads.clusters=[10]", "evaluation.views=0", "optim.frozen_epochs=0")
QUICK = ("epochs=1", "optim.warmup_epochs=0", "heads.clusters=[10]", "evaluation.views=0")


@pytest.fixture
def timm(monkeypatch):
    """The stand-in, as if it were installed."""
    for name, module in stand_ins.timm().items():
        monkeypatch.setitem(sys.modules, name, module)


def of_pixels(images, module):
    """What an encoder of the stand-in makes of gray images: all by hand."""
    pixels = torch.from_numpy(np.load(images)["images"])[:, None].float() / 255
    mean, std = torch.tensor([0.5, 0.4, 0.3]), torch.tensor([0.2, 0.2, 0.25])
    with torch.no_grad():
        return module((pixels - mean[:, None, None]) / std[:, None, None])


def test_an_encoder_gets_the_pixels_it_was_trained_on(timm, images, cache):
    run = Run(frozen(images, TINY), "cpu")
    made = Tiny(0)
    made.load_state_dict(run.loader.frozen.encoder.module.state_dict())
    assert float(made.stem.weight.detach().min()) == pytest.approx(0.1)  # it had learned
    torch.testing.assert_close(run.loader.data.rows, of_pixels(images, made), rtol=0, atol=1e-5)


def test_images_of_another_size_are_resized(timm):
    encoder = open_encoder(NetworkConfig(name="timm/tiny"), None)
    assert encoder(torch.full((2, 3, 20, 30), 0.5)).shape == (2, 64)
    flat = encoder(torch.full((1, 1, 16, 16), 0.5))
    torch.testing.assert_close(flat, encoder(torch.full((1, 3, 8, 8), 0.5)))


def test_a_run_its_model_and_its_way_on(timm, images, cache, tmp_path, monkeypatch):
    result = train(frozen(images, TINY, *QUICK), tmp_path / "run")
    config = load_config(result.folder / "config.toml")
    assert (config.network.name, len(config.encoder.digest)) == ("timm/tiny", 64)
    x = np.load(images)["images"]
    model = load_model(result.folder)
    np.testing.assert_allclose(model.embed(x), result.prediction.features, rtol=0, atol=1e-5)
    assert resume(result.folder).metrics == result.metrics
    for name in stand_ins.timm():
        monkeypatch.setitem(sys.modules, name, None)
    words = r"needs timm, which .* pip install 'dualclust\[timm\]', or pass a module"
    with pytest.raises(MissingExtraError, match=words):
        load_model(result.folder)
    with pytest.raises(MissingExtraError, match=words):
        resume(result.folder)
    passed = load_model(result.folder, network=Tiny(0))
    for key, value in (("size", [10**6, 10**6]), ("size", []), ("mean", []), ("std", [1.0])):

        def change(model, tensors, key=key, value=value):
            model["encoder"][key] = value

        path = tmp_path / "m.safetensors"
        path.write_bytes(rewritten((result.folder / "model.safetensors").read_bytes(), change))
        with pytest.raises(CheckpointError):
            load_model(path, network=Tiny(0))
    assert np.array_equal(passed.embed(x), model.embed(x))
    with pytest.raises(CheckpointError, match="does not fit the module"):
        load_model(result.folder, network=nn.Sequential(nn.Conv2d(3, 4, 8), nn.Flatten()))


def test_weights_on_this_machine_are_taken(timm, tmp_path):
    state = Tiny(7).state_dict()  # with a classifier, as files of weights have one
    path = tmp_path / "tiny.safetensors"
    safetensors.torch.save_file(state, path)
    named = NetworkConfig(name="timm/tiny")
    found = open_encoder(named, EncoderConfig(weights=str(path)))
    assert torch.equal(found.module.stem.weight, state["stem.weight"])
    del state["stem.bias"]
    safetensors.torch.save_file(state, path)
    with pytest.raises(UsageError, match=r"stem\.bias has no such tensor there"):
        open_encoder(named, EncoderConfig(weights=str(path)))
    with pytest.raises(MissingFileError, match=r"look at encoder\.weights"):
        open_encoder(named, EncoderConfig(weights=str(tmp_path / "no.safetensors")))
    # Whatever its name is: random parameters in its place would be an encoder of noise.
    (tmp_path / "tiny.pth").write_bytes(b"no safetensors")
    with pytest.raises(UsageError, match=r"must be a file of \.safetensors"):
        open_encoder(named, EncoderConfig(weights=str(tmp_path / "tiny.pth")))
    with pytest.raises(MissingFileError, match=r"look at encoder\.weights"):
        open_encoder(named, EncoderConfig(weights=str(tmp_path)))


def test_a_place_in_a_file_is_not_looked_up(timm):
    with pytest.raises(UsageError, match="no name of timm's own"):
        LIBRARIES["timm"].rebuild("hf-hub:somebody/model", "")


@pytest.mark.parametrize(
    "said",
    [
        {"model_type": "timm_backbone", "backbone": "resnet18"},
        {"model_type": "detr", "use_pretrained_backbone": True},
        {"model_type": "x", "backbone_config": [{"model_type": "timm_wrapper"}]},
        {"model_type": "x", "inner": {"model_args": {"checkpoint_path": "/etc/passwd"}}},
    ],
)
def test_a_description_that_names_other_places_is_not_built(said, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", SimpleNamespace())
    with pytest.raises(UsageError, match="which another library would look up"):
        LIBRARIES["hf"].rebuild("somebody/model", json.dumps(said))


def test_defaults_that_name_no_place_are_built(monkeypatch):
    built = []
    auto = SimpleNamespace(
        AutoConfig=SimpleNamespace(for_model=lambda **said: said),
        AutoModel=SimpleNamespace(from_config=lambda config, **_: built.append(config)),
    )
    monkeypatch.setitem(sys.modules, "transformers", auto)
    said = {"model_type": "detr", "backbone": None, "use_timm_backbone": False}
    LIBRARIES["hf"].rebuild("somebody/model", json.dumps(said))
    assert built == [said]


def test_random_parameters_follow_the_seed(timm):
    named, options = NetworkConfig(name="timm/tiny"), EncoderConfig(weights="random")
    a, b, c = (open_encoder(named, options, seed=seed).module.stem.weight for seed in (0, 0, 1))
    assert torch.equal(a, b)
    assert not torch.equal(a, c)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (("network.name=timm/large",), "timm cannot build the encoder 'large': .*Unknown model"),
        ((TINY, "data.normalization=none"), "normalizes images itself"),
        (("network.name=timm/",), "'timm/' is unknown"),
    ],
)
def test_mistakes_are_named(timm, images, cache, tmp_path, changes, words):
    config = frozen(images, "encoder.frozen=false", *changes)
    with pytest.raises(UsageError, match=words):
        train(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_embeddings_are_no_images(timm, tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(40, 5)))
    with pytest.raises(UsageError, match="takes images, and the samples are embeddings"):
        Run(frozen(tmp_path / "x.npy", TINY), "cpu")


def test_an_encoder_that_learns_has_a_rate_and_a_mode_of_its_own(images, tmp_path):
    changes = ("encoder.rate=0.1", "encoder.mode=eval", "optim.frozen_epochs=0", *QUICK)
    run = Run(tiny(images, *changes), "cpu", Edges())
    inside = {id(p) for p in run.method.network.encoder.parameters()}
    slow, rest = run.optimizer.param_groups[:2]
    assert {id(p) for p in slow["params"]} == inside
    assert not inside & {id(p) for p in rest["params"]}
    assert (slow["scale"], rest["scale"]) == (0.1, 1.0)
    run.init()
    before = {k: v.clone() for k, v in run.method.network.encoder.state_dict().items()}
    run.run_epoch()
    after = run.method.network.encoder.state_dict()
    assert not torch.equal(before["layers.0.weight"], after["layers.0.weight"])
    assert torch.equal(before["layers.1.running_mean"], after["layers.1.running_mean"])


def test_groups_are_split_where_the_encoder_ends():
    network = build_network(NetworkConfig(width=2), (1, 8, 8))
    inside, outside = list(network.encoder.parameters()), list(network.projector.parameters())
    groups = [ParameterGroup([*inside, *outside], scale=2.0), ParameterGroup(outside[:1], lr=0.5)]
    found = list(with_encoder_rate(groups, network, EncoderConfig(rate=0.5)))
    assert [(group.scale, group.lr, len(group.params)) for group in found] == [
        (1.0, None, len(inside)),
        (2.0, None, len(outside)),
        (1.0, 0.5, 1),
    ]
    for options in (None, EncoderConfig(), EncoderConfig(rate=0.5, frozen=True)):
        assert list(with_encoder_rate(groups, network, options)) == groups


@pytest.mark.parametrize("learns", [False, True])
def test_the_command_asks_for_an_encoder(timm, cache, monkeypatch, capsys, learns):
    asked = []

    def stop(config, *_, **__):
        asked.append(config)
        msg = "far enough"
        raise UsageError(msg)

    monkeypatch.setattr(train_commands, "train", stop)
    words = ["train", "secu", "--data", "digits", "-k", "10", "--encoder", "timm/tiny"]
    assert main([*words, *["--fine-tune"] * learns]) == 2
    said = capsys.readouterr().err
    assert 'network.name = "timm/tiny"  ' in said
    told = "encoder.rate = 0.1" if learns else "features are computed once; --fine-tune: it learns"
    assert told in said
    [config] = asked
    assert (config.network.name, config.encoder.frozen) == ("timm/tiny", not learns)
    assert config.data.standardize != learns
    views = replace(config.augment, noise=0.0, mask=0.0)
    assert (views == AugmentConfig()) != learns
    if learns:
        assert (config.encoder.rate, config.encoder.mode) == (0.1, "eval")
    Run(replace(config, data=replace(config.data, limit=200)), "cpu")


@pytest.mark.parametrize("method", ["secu", "coke", "propos", "gatcluster", "mi_margin"])
def test_each_method_gets_settings_that_fit_an_encoder(method):
    wanted = Wanted("timm/tiny", 8)
    look = Look("files", 500, 3, 180, 135, varied=True)
    found = choose_settings(look, method, "photos", Machine(2), clusters=10, encoder=wanted)
    config = found.config
    assert config.data.size == 8
    assert config.encoder.frozen
    names = [choice.settings.partition(" = ")[0] for choice in found.choices]
    assert len(names) == len(set(names))
    view = "augment.noise" if method in ("gatcluster", "mi_margin") else "second.neighbors"
    assert {"network.name", "data.size", "encoder.frozen", view} <= set(names)
    heads = build_network(replace(config.network, name="none"), (64,), seed=0)
    METHODS[method](config, heads, 500)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--encoder", "resnet18"], "--encoder must be timm/NAME or hf/NAME"),
        (["--encoder", "timm"], "--encoder must be timm/NAME or hf/NAME"),
        (["--encoder", "hf/"], "--encoder must be timm/NAME or hf/NAME"),
        (["--weights", "x"], "--weights is about an encoder"),
        (["--fine-tune"], "--fine-tune is about an encoder"),
        (["--encoder", "timm/tiny", "--time", "1m"], "--encoder names one that has learned"),
    ],
)
def test_flags_that_do_not_go_together(words, said, capsys):
    assert main(["train", "secu", "--data", "digits", "-k", "10", *words]) == 2
    assert said in capsys.readouterr().err


class Tokens(nn.Module):
    """A model of transformers returns an object with the tokens, or the map, of its last layer."""

    def __init__(self, shape, named=""):
        super().__init__()
        self.config, self.shape = None, shape
        if named:
            self.register_parameter(named, nn.Parameter(torch.zeros(1)))

    def forward(self, pixel_values):
        size = torch.Size((len(pixel_values), *self.shape))
        last = torch.arange(float(size.numel())).reshape(size)
        return type("Output", (), {"last_hidden_state": last})


def test_the_features_of_a_transformer_are_its_class_token_or_a_mean():
    x = torch.zeros(2, 3, 4, 4)
    tokens = torch.arange(2 * 5 * 3.0).reshape(2, 5, 3)
    assert torch.equal(rows_of(Tokens((5, 3), "cls_token"), x), tokens[:, 0])
    assert torch.equal(rows_of(Tokens((5, 3)), x), tokens.mean(1))
    assert torch.equal(rows_of(Tokens((3, 2, 2)), x), torch.arange(24.0).reshape(2, 3, 4).mean(2))


def test_a_model_of_transformers(tmp_path, images, cache):
    """The real library, with a model of two layers that is written here."""
    transformers = pytest.importorskip("transformers")
    folder = tmp_path / "dino"
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.Dinov2Config(image_size=8, patch_size=4, mlp_ratio=1, **sizes)
    model = transformers.AutoModel.from_config(config)
    model.save_pretrained(folder)
    said = {"crop_size": {"height": 8, "width": 8}, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    (folder / "preprocessor_config.json").write_text(json.dumps(said))
    named = ("network.name=hf/facebook/dinov2-tiny", f"encoder.weights={folder}")
    result = train(frozen(images, *named, *QUICK), tmp_path / "run")
    pixels = torch.from_numpy(np.load(images)["images"])[:, None].float() / 255
    with torch.no_grad():
        out = model.eval()(pixel_values=(pixels.expand(-1, 3, -1, -1) - 0.5) / 0.5)
    [path] = cache.iterdir()
    rows = safetensors.torch.load_file(path)["features"]
    torch.testing.assert_close(rows, out.last_hidden_state[:, 0], rtol=0, atol=1e-4)
    (folder / "config.json").rename(folder / "moved.json")  # the model says what to build
    assert str(tmp_path) not in load_model(result.folder).spec.encoder.architecture
    embedded = load_model(result.folder).embed(np.load(images)["images"])
    np.testing.assert_allclose(embedded, result.prediction.features, rtol=0, atol=1e-4)


def test_an_encoder_of_a_library_learns_and_goes_on(timm, images, tmp_path, monkeypatch):
    """A checkpoint has its parameters: `resume` asks for none, and ends where the run would."""
    config = tiny(images, "network.name=timm/tiny", "encoder.rate=0.5", *TWO)
    with pytest.raises(Interrupted):
        train(config, tmp_path / "run", progress=interrupt_after(1))
    whole = train(config, tmp_path / "whole")
    asked, create = [], sys.modules["timm"].create_model

    def create_model(name, **options):
        asked.append(options["pretrained"])
        return create(name, **options)

    monkeypatch.setattr(sys.modules["timm"], "create_model", create_model)
    resume(tmp_path / "run")
    assert asked == [False]
    models = [(tmp_path / run / "model.safetensors").read_bytes() for run in ("run", "whole")]
    assert models[0] == models[1]
    embedded = load_model(whole.folder).embed(np.load(images)["images"])
    np.testing.assert_allclose(embedded, whole.prediction.features, rtol=0, atol=1e-5)


def test_ranks_compute_the_features_together(images, cache):
    made = [Edges(), Edges()]  # not in the threads, which share the random numbers they begin at

    def begin(ranks):
        encoder = made[ranks.rank]
        before = encoder.samples
        run = Run(frozen(images), "cpu", encoder, ranks)
        return run.loader.data.rows, encoder.samples - before

    alone, _ = begin(ALONE)
    for path in cache.iterdir():
        path.unlink()
    (first, one), (second, other) = on_threads(2, begin)
    assert one + other == 2 * 2 + 120  # each asks for the length of a row
    assert torch.equal(first, second)
    torch.testing.assert_close(first, alone, rtol=0, atol=1e-5)
    assert len(list(cache.iterdir())) == 1
