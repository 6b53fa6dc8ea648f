"""A network of the user's own: the settings name it, and what reads the run asks for it."""

import shutil

import numpy as np
import pytest
import torch
from torch import nn

from dualclust.algos.core.errors import CheckpointError, MissingFileError, UsageError
from dualclust.cli.main import main
from dualclust.train.config.run import load_config, override
from dualclust.train.loop import resume, train, write_page
from dualclust.train.models import export_bytes, load_model, program_bytes
from tests.train.models.test_model_files import rewritten
from tests.train.runs import Interrupted, interrupt_after, listing, tiny

STARTS = ("starts.count=2", "starts.epochs=1")
SHORT = ("epochs=2", "heads.clusters=[10]", "evaluation.views=0", "assignment.rounding=outward")


class Mine(nn.Module):
    """An encoder with PyTorch's own batch normalization."""

    def __init__(self, width=8):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.layers = nn.Sequential(
                nn.Conv2d(1, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(), nn.Flatten()
            )

    def forward(self, images):
        return self.layers(images)


class Untraceable(Mine):
    """A network that looks at its numbers."""

    def forward(self, images):
        return self.layers(images) * (2.0 if float(images.sum()) > 0 else 1.0)


@pytest.fixture(scope="module")
def own(images, tmp_path_factory):
    folder = tmp_path_factory.mktemp("own") / "run"
    return train(tiny(images, *SHORT), folder, network=Mine())


def test_the_settings_say_what_network_it_was(own):
    name = load_config(own.folder / "config.toml").network.name
    assert name.startswith("own:")
    assert name.endswith(".Mine")


def test_resume_wants_the_same_module(images, tmp_path, capsys):
    folder = tmp_path / "run"
    with pytest.raises(Interrupted):
        train(tiny(images, *SHORT), folder, network=Mine(), progress=interrupt_after(1))
    with pytest.raises(UsageError, match=r"own:.*Mine.* pass it .*resume\(folder, network="):
        resume(folder)
    assert main(["resume", str(folder)]) == 2
    said = capsys.readouterr().err
    assert "a module of your own" in said
    assert said.count("\n") == 1
    with pytest.raises(CheckpointError) as found:
        resume(folder, network=Mine(width=4))
    said = str(found.value)
    assert "network.encoder.layers.0.bias has (8,) there, (4,) here" in said
    assert "Mine)" in said
    whole = train(tiny(images, *SHORT), tmp_path / "whole", network=Mine())
    again = resume(folder, network=Mine())
    assert torch.equal(again.prediction.features, whole.prediction.features)
    assert (folder / "model.safetensors").read_bytes() == (
        tmp_path / "whole" / "model.safetensors"
    ).read_bytes()


class Other(Mine):
    """The same layers under another name: the settings name another class."""


@pytest.mark.parametrize("entry", [resume, write_page])
def test_entries_refuse_a_module_that_is_not_the_runs(own, finished, entry):
    built_in = finished("secu").result.folder
    for folder, module, words in (
        (own.folder, Other(), r"started with the network .*Mine, and .*Other was passed"),
        (built_in, Mine(), r"has network\.name='.*', and a module of your own was passed, .*Mine"),
    ):
        before = listing(folder)
        with pytest.raises(UsageError, match=words):
            entry(folder, network=module)
        assert listing(folder) == before


def test_a_start_refuses_a_module_of_another_class(own, tmp_path):
    settings = load_config(own.folder / "config.toml")
    with pytest.raises(UsageError, match=r"started with the network .*Mine, and .*Other was"):
        train(settings, tmp_path / "run", network=Other())
    assert listing(tmp_path) == {}


def test_a_model_wants_the_module(own, images):
    with pytest.raises(UsageError, match=r"module of its author's own.*network=Mine\(\.\.\.\)"):
        load_model(own.folder)
    model = load_model(own.folder, network=Mine())
    x = np.load(images)["images"]
    np.testing.assert_allclose(model.embed(x), own.prediction.features, rtol=0, atol=1e-5)
    with pytest.raises(
        CheckpointError, match=r"does not fit the module: .*layers\.0\.bias of shape \(4,"
    ):
        load_model(own.folder, network=Mine(width=4))
    assert "Mine" in repr(model)


@pytest.mark.parametrize(
    ("table", "key", "value", "words"),
    [
        ("network", "layers", 10**12, "has 1000000000000 layers, and the file holds"),
        ("network", "hidden", 10**12, "the network needs projector"),
        ("network", "hidden", 10**18, "no network has the sizes|the network needs projector"),
        ("network", "predictor", 10**12, "the network needs predictor"),
        ("network", "out_dim", 10**12, "the network needs projector"),
        ("input", "shape", [1, 10**9, 10**9], "more than 134217728 numbers"),
        ("input", "shape", [1, 9, 9], r"projector\.0\.weight"),
        ("input", "shape", [10**9], "mean must have shape"),
    ],
)
def test_sizes_beside_a_module_are_not_believed(own, tmp_path, table, key, value, words):
    """No memory is taken for what the file does not hold."""

    def change(model, tensors):
        model[table][key] = value

    path = tmp_path / "m.safetensors"
    path.write_bytes(rewritten((own.folder / "model.safetensors").read_bytes(), change))
    with pytest.raises(CheckpointError, match=words):
        load_model(path, network=Mine())


def test_a_module_may_keep_infinities_and_no_nan(own, tmp_path):
    class Masked(Mine):
        def __init__(self):
            super().__init__()
            self.register_buffer("mask", torch.full((2,), -torch.inf))

    for value, refused in ((-torch.inf, False), (torch.nan, True)):

        def mask(model, tensors, value=value):
            tensors["network.encoder.mask"] = torch.full((2,), value)

        path = tmp_path / "m.safetensors"
        path.write_bytes(rewritten((own.folder / "model.safetensors").read_bytes(), mask))
        if refused:
            with pytest.raises(CheckpointError, match=r"encoder\.mask must be finite"):
                load_model(path, network=Masked())
        else:
            assert load_model(path, network=Masked()).n_clusters == 10


def test_a_model_that_needs_no_module_refuses_one(finished):
    with pytest.raises(UsageError, match="needs no module of one's own"):
        load_model(finished("secu").result.folder, network=Mine())


def test_exports_of_a_module(own, images, tmp_path):
    assert export_bytes(own.folder) == (own.folder / "model.safetensors").read_bytes()
    with pytest.raises(UsageError, match="module of its author's own"):
        export_bytes(own.folder, to="torch.export")
    path = tmp_path / "m.pt2"
    path.write_bytes(export_bytes(own.folder, to="torch.export", network=Mine()))
    x = torch.from_numpy(np.load(images)["images"])[:, None]
    with torch.no_grad():
        _, features = torch.export.load(path).module()(x)
    np.testing.assert_allclose(features, own.prediction.features, rtol=0, atol=1e-5)
    model = load_model(own.folder, network=Untraceable())
    with pytest.raises(UsageError, match=r"Mine cannot be written for torch\.export.*safetensors"):
        program_bytes(model, "torch.export")


def test_a_run_goes_on_from_another_folder(images, tmp_path, monkeypatch):
    """Its settings name the data by an absolute path, whatever it was started with."""
    home = tmp_path / "home"
    home.mkdir()
    shutil.copy(images, home / "flat.npz")
    monkeypatch.chdir(home)
    with pytest.raises(Interrupted):
        train(tiny("flat.npz", *SHORT), "run", progress=interrupt_after(1))
    monkeypatch.chdir(tmp_path)
    assert load_config("home/run/config.toml").data.source == str(home / "flat.npz")
    result = resume("home/run")
    assert len(result.metrics) == 2
    (home / "flat.npz").rename(home / "moved.npz")
    with pytest.raises(MissingFileError, match="no data at"):
        resume("home/run")


def test_a_stage_starts_from_another_folder(finished, images, tmp_path, monkeypatch):
    first = finished("secu").result.folder
    monkeypatch.chdir(first.parent)
    config = override(load_config(first / "config.toml"), [f"secu.init_from={first.name}", *STARTS])
    with pytest.raises(Interrupted):
        train(config, tmp_path / "run", progress=interrupt_after(1))
    monkeypatch.chdir(tmp_path)
    assert len(resume(tmp_path / "run").metrics) == 2
