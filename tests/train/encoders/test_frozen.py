"""A frozen encoder: its features are computed once, and the run is one on embeddings."""

import numpy as np
import pytest
import safetensors.torch
import torch

from dualclust.algos.core.errors import (
    CheckpointError,
    InvalidValueError,
    MissingFileError,
    OutputError,
    UsageError,
)
from dualclust.train.config.run import NetworkConfig, load_config
from dualclust.train.data import features
from dualclust.train.data.samples import load_source
from dualclust.train.loop import Run, RunWarning, resume, train
from dualclust.train.models import load_model
from dualclust.train.networks import build_network
from tests.train.encoders.heads import frozen, heads
from tests.train.encoders.stand_ins import Edges
from tests.train.runs import Interrupted, interrupt_after, without_time


class Other(Edges):
    """The same parameters under another name."""


def rows_in(cache):
    [path] = cache.glob("*.safetensors")
    return safetensors.torch.load_file(path)["features"]


def begin(config, encoder=None):
    """The features that a run learns from, without a step of it."""
    return Run(config, "cpu", encoder).loader.data.rows


@pytest.fixture(scope="module")
def run(images, tmp_path_factory):
    """A finished run with a frozen encoder, the encoder, and the folder of its features."""
    home = tmp_path_factory.mktemp("frozen")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DUALCLUST_CACHE", str(home / "cache"))
        encoder = Edges()
        yield train(frozen(images), home / "run", network=encoder), encoder, home / "cache/features"


def test_heads_alone_equal_a_run_on_the_features(run, images, tmp_path):
    result, encoder, cache = run
    rows = safetensors.torch.load_file(min(cache.iterdir()))["features"]
    data = load_source(images)
    with torch.no_grad():
        expected = encoder.eval()(data.take(data.ids))
    torch.testing.assert_close(rows, expected, rtol=0, atol=1e-5)
    np.save(tmp_path / "x.npy", rows.numpy())
    np.save(tmp_path / "x_labels.npy", np.load(images)["labels"])
    plain = train(heads(tmp_path / "x.npy", "network.name=none"), tmp_path / "plain")
    with pytest.raises(UsageError, match=r"network\.name='none', and a module of your own"):
        resume(plain.folder, network=Edges())
    assert torch.equal(plain.prediction.features, result.prediction.features)
    assert torch.equal(plain.prediction.assignment.labels, result.prediction.assignment.labels)
    assert without_time(plain.metrics) == without_time(result.metrics)


def test_a_frozen_encoder_stays_as_it_was(run):
    _, encoder, _ = run
    fresh = Edges().state_dict()
    assert all(torch.equal(fresh[k], v) for k, v in encoder.state_dict().items())


def test_features_are_computed_once(images, cache):
    first, second = Edges(), Edges()
    computed = begin(frozen(images), first)
    read = begin(frozen(images), second)
    assert torch.equal(computed, read)
    # Two to ask for the length of a row; then all samples, or some that are compared.
    assert (first.samples, second.samples) == (2 + 120, 2 + 8)
    assert len(list(cache.iterdir())) == 1


def test_held_out_features_have_the_scale_of_those_of_training(images, cache, tmp_path):
    content, parts = np.load(images), {"train": slice(0, 80), "test": slice(80, 120)}
    arrays = {f"{p}_{n}": content[n][cut] for p, cut in parts.items() for n in content}
    np.savez(tmp_path / "x.npz", **arrays)
    loader = Run(frozen(tmp_path / "x.npz", "data.test=test"), "cpu", Edges()).loader
    pictures, held_out = (load_source(tmp_path / "x.npz", split=split) for split in parts)
    held_out = held_out._replace(mean=pictures.mean, std=pictures.std)
    with torch.no_grad():
        rows, others = (Edges().eval()(data.take(data.ids)) for data in (pictures, held_out))
    std = rows.std(0, correction=0)
    scaled = (others - rows.mean(0)) / torch.where(std > 0, std, 1.0)
    torch.testing.assert_close(loader.test.take(held_out.ids), scaled, rtol=1e-4, atol=1e-4)
    assert loader.test.labels.tolist() == held_out.labels.tolist()
    assert not isinstance(loader.test, type(held_out))


def test_features_of_another_encoder_or_other_data_are_not_taken(images, cache, tmp_path):
    rows = begin(frozen(images), Edges())
    assert not torch.equal(begin(frozen(images), Edges(seed=1)), rows)
    assert len(list(cache.iterdir())) == 2
    content = dict(np.load(images))
    # Two change places: mean and deviation stay, and none of those that are computed anew differs.
    content["images"] = content["images"][[*range(7), 8, 7, *range(9, 120)]]
    np.savez(tmp_path / "changed.npz", **content)
    encoder = Edges()
    begin(frozen(tmp_path / "changed.npz"), encoder)
    assert encoder.samples == 2 + 120
    assert len(list(cache.iterdir())) == 3


def test_code_that_has_changed_is_noticed(images, cache, monkeypatch):
    before = begin(frozen(images), Edges())

    def doubled(self, images):
        return 2.0 * self.layers(images)

    monkeypatch.setattr(Edges, "forward", doubled)
    with pytest.warns(RunWarning, match=r"not what the frozen encoder computes now.*anew"):
        after = begin(frozen(images), Edges())
    torch.testing.assert_close(after, 2.0 * before, rtol=1e-5, atol=1e-5)
    assert torch.equal(rows_in(cache), after)


@pytest.mark.parametrize("how", ["a number", "the header", "cut", "empty"])
def test_damaged_features_are_computed_anew(images, cache, how):
    rows = begin(frozen(images), Edges())
    [path] = cache.iterdir()
    whole = path.read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    flip = {"a number": len(whole) - 3, "the header": header // 2}.get(how)
    content = {"cut": whole[:-4], "empty": b""}.get(how, whole)
    if flip is not None:
        content = whole[:flip] + bytes([whole[flip] ^ 1]) + whole[flip + 1 :]
    path.write_bytes(content)
    encoder = Edges()
    assert torch.equal(begin(frozen(images), encoder), rows)
    assert encoder.samples == 2 + 120
    assert path.read_bytes() == whole


def test_the_header_says_what_the_features_are_of(run):
    result, _, cache = run
    path = min(cache.iterdir(), key=lambda path: path.stat().st_mtime_ns)
    with safetensors.safe_open(path, "pt") as file:
        made_of = file.metadata()["made_of"]
    digest = load_config(result.folder / "config.toml").encoder.digest
    assert f"stand_ins.Edges, {digest}" in made_of
    assert "(1, 8, 8)" in made_of


def test_resume_wants_the_same_module(run, images, tmp_path):
    folder, whole = tmp_path / "run", run[0]
    with pytest.raises(Interrupted):
        train(frozen(images), folder, network=Edges(), progress=interrupt_after(1))
    with pytest.raises(UsageError, match=r"own:.*Edges.* pass it .*resume\(folder, network="):
        resume(folder)
    with pytest.raises(UsageError, match=r"started with the network .*Edges, and .*Other was"):
        resume(folder, network=Other())
    with pytest.raises(CheckpointError, match=r"other weights .* SHA-256 is .* encoder\.digest"):
        resume(folder, network=Edges(seed=1))
    again = resume(folder, network=Edges())
    assert torch.equal(again.prediction.features, whole.prediction.features)
    model = "model.safetensors"
    assert (folder / model).read_bytes() == (whole.folder / model).read_bytes()


def test_settings_of_a_run_begin_only_what_they_name(run, tmp_path):
    config = load_config(run[0].folder / "config.toml")
    assert config.network.name.endswith("stand_ins.Edges")
    with pytest.raises(CheckpointError, match="other weights than the run was started with"):
        train(config, tmp_path / "a", network=Edges(seed=1))
    with pytest.raises(UsageError, match="pass a module of that class"):
        train(config, tmp_path / "a", network=Other())
    assert not (tmp_path / "a").exists()


def test_a_model_goes_from_pixels_to_labels(run, images):
    result, _, _ = run
    x = np.load(images)["images"]
    model = load_model(result.folder, network=Edges(seed=5))  # its parameters are overwritten
    np.testing.assert_allclose(model.embed(x), result.prediction.features, rtol=0, atol=1e-5)
    assert np.array_equal(model.predict(x), result.prediction.nearest)
    assert model.spec.input.shape == (1, 8, 8)
    with pytest.raises(UsageError, match=r"module of its author's own.*network=Edges"):
        load_model(result.folder)
    with pytest.raises(CheckpointError, match="does not fit the module"):
        load_model(result.folder, network=Edges(width=4))


def test_pictures_are_shown_though_features_are_learned_from(run):
    folder = run[0].folder
    assert (folder / "gallery.png").is_file()
    assert "typical" in (folder / "report.html").read_text(encoding="utf-8")


def test_weights_of_a_network_of_ours_come_from_a_file(images, cache, tmp_path):
    """Its features are kept in half precision here."""
    encoder = build_network(NetworkConfig(width=2), (1, 8, 8), seed=9).encoder.eval()
    file = tmp_path / "encoder.safetensors"
    weights = {name: tensor.clone() for name, tensor in encoder.state_dict().items()}
    safetensors.torch.save_file({**weights, "fc.weight": torch.zeros(2, 2)}, file)
    changes = ("encoder.features=float16", "epochs=1", "optim.warmup_epochs=0")
    config = frozen(images, f"encoder.weights={file}", *changes)
    result = train(config, tmp_path / "run")
    data = load_source(images)
    with torch.no_grad():
        expected = encoder(data.take(data.ids))
    assert rows_in(cache).dtype == torch.float16
    torch.testing.assert_close(rows_in(cache).float(), expected, rtol=1e-3, atol=1e-3)
    file.unlink()
    embedded = load_model(result.folder).embed(np.load(images)["images"])
    np.testing.assert_allclose(embedded, result.prediction.features, rtol=0, atol=1e-2)
    with pytest.raises(MissingFileError, match="no weights at"):
        begin(config)
    del weights["0.weight"]
    safetensors.torch.save_file(weights, file)
    with pytest.raises(UsageError, match=r"0\.weight has no such tensor there"):
        begin(config)
    file.write_bytes(b"PK")
    with pytest.raises(UsageError, match=r"must be a file of \.safetensors"):
        begin(config)


@pytest.mark.parametrize(
    ("changes", "network", "words"),
    [
        ((), False, "starts from random numbers"),
        (("encoder.weights=random",), False, "starts from random numbers"),
        (("encoder.weights=w.safetensors",), True, "load the weights into the module"),
        (("network.layers=0",), True, "nothing to learn"),
    ],
)
def test_settings_that_make_no_sense_are_refused(images, cache, tmp_path, changes, network, words):
    with pytest.raises(UsageError, match=words):
        train(frozen(images, *changes), tmp_path / "run", network=Edges() if network else None)


def test_features_that_are_no_numbers_are_refused(images, cache):
    encoder = Edges()
    with torch.no_grad():
        encoder.layers[0].bias[0] = torch.inf
    with pytest.raises(InvalidValueError, match="NaN or infinity of sample 0"):
        begin(frozen(images), encoder)
    large = Edges()
    with torch.no_grad():
        large.layers[0].weight.mul_(1e6)
    with pytest.raises(InvalidValueError, match="too large for float16"):
        begin(frozen(images, "encoder.features=float16"), large)


def test_room_is_looked_for_before_the_work(images, cache, monkeypatch):
    encoder = Edges()
    monkeypatch.setattr(features.shutil, "disk_usage", lambda _: type("U", (), {"free": 100}))
    with pytest.raises(OutputError, match=r"features .* take 0\.0 GB.*DUALCLUST_CACHE"):
        begin(frozen(images), encoder)
    assert encoder.samples == 2  # to ask for the length of a row
