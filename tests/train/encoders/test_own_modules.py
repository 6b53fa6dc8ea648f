"""Encoders that the command names by a class or a file: what is opened, and what is refused."""

from __future__ import annotations

import importlib.util
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from dualclust.algos.core.errors import MissingExtraError, MissingFileError, UsageError
from dualclust.cli.main import main
from dualclust.train.models.files import load_model
from dualclust.train.networks.own_modules import is_own, open_own
from dualclust.train.networks.pretrained import digest_of
from tests.train.runs import write_images

SOURCE = """
import torch

class Rows(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(64, 12)
        torch.nn.init.constant_(self.layer.weight, 0.0)

    def forward(self, images):
        return self.layer(images.flatten(1))

class NeedsMore(torch.nn.Module):
    def __init__(self, width):
        super().__init__()

def words():
    return "no module"
"""


class Flat(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.layer = torch.nn.Linear(64, 12)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        rows: torch.Tensor = self.layer(images.flatten(1))
        return rows


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "my_rows.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def program(batch: int | None = None) -> torch.export.ExportedProgram:
    images = torch.zeros(batch or 2, 1, 8, 8)
    free = {"images": {0: torch.export.Dim("batch", min=1)}} if batch is None else None
    return torch.export.export(Flat().eval(), (images,), dynamic_shapes=free)


def export(path: Path) -> None:
    torch.export.save(program(), path)


def export_onnx(path: Path, batch: int | None = None, *, beside: bool = False) -> None:
    """Write a file of ONNX, for batches of any size or of one; weights inside, or beside it."""
    pytest.importorskip("onnx", reason="needs onnx, to write the file")
    pytest.importorskip("onnxscript", reason="needs onnxscript, to write the file")
    pytest.importorskip("onnxruntime", reason="needs onnxruntime, to run the file")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the writer, about itself
        written = torch.onnx.export(program(batch), (torch.zeros(batch or 2, 1, 8, 8),))
        assert written is not None
        written.save(path, external_data=beside)


def test_a_class_gets_its_weights(here: Path) -> None:
    save_file({"layer.weight": torch.ones(12, 64), "layer.bias": torch.zeros(12)}, "w.safetensors")
    images = torch.ones(3, 1, 8, 8)
    with torch.no_grad():
        assert float(open_own("my_rows:Rows", "w.safetensors")(images)[0, 0]) == 64.0
        assert float(open_own("my_rows:Rows")(images).std()) > 0.0  # biases, and no weights


def test_files_of_networks_say_what_the_module_says(here: Path) -> None:
    images = torch.randn(5, 1, 8, 8)
    export(here / "net.pt2")
    with warnings.catch_warnings():  # torch calls the format deprecated; users have such files
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.trace(Flat().eval(), torch.zeros(2, 1, 8, 8), check_trace=False).save("net.pt")
    with torch.no_grad():
        expected = Flat()(images)
        for name in ("net.pt2", "net.pt"):
            assert is_own(name)
            module = open_own(name).eval()
            torch.testing.assert_close(module(images), expected)


def test_a_module_that_fails_on_the_pictures_is_refused(here: Path, capsys) -> None:
    np.savez(here / "large.npz", images=np.zeros((120, 9, 9), np.uint8))
    words = ["train", "graph", "--data", "large.npz", "-k", "10", "--encoder", "my_rows:Rows"]
    assert main([*words, "--out", "run"]) == 2
    assert (
        "the encoder my_rows.Rows fails on a batch of shape (2, 1, 9, 9)" in capsys.readouterr().err
    )


def test_the_command_trains_on_features_of_a_module(here: Path, capsys) -> None:
    write_images(here / "images.npz", n=120)
    export(here / "net.pt2")
    words = ["train", "graph", "--data", "images.npz", "-k", "10", "--encoder", "net.pt2"]
    assert main([*words, "--out", "run"]) == 0
    assert "clusters      10 of 120 samples" in capsys.readouterr().out
    assert main([*words, "--out", "other", "--weights", "w.safetensors"]) == 2
    assert "--weights must be left out" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "weights", "error", "message"),
    [
        ("my_rows:Nobody", "", UsageError, "no attribute 'Nobody'"),
        ("no_such_file:Rows", "", UsageError, "No module named"),
        ("my_rows:NeedsMore", "", UsageError, "called without arguments"),
        ("my_rows:words", "", UsageError, "must be a torch.nn.Module, got str"),
        ("my_rows:Rows", "nowhere.safetensors", MissingFileError, "no weights at"),
        ("nowhere.pt", "", MissingFileError, "no encoder at 'nowhere.pt'"),
        ("text.pt", "", UsageError, "cannot read text.pt as a network of TorchScript"),
        ("text.pt2", "", UsageError, "cannot read text.pt2 as a network of torch.export"),
    ],
)
def test_what_is_no_encoder_is_refused(here: Path, name, weights, error, message) -> None:
    for suffix in ("pt", "pt2"):
        (here / f"text.{suffix}").write_text("no network")
    with pytest.raises(error, match=message):
        open_own(name, weights)


@pytest.mark.parametrize("batch", [None, 1, 2, 7])
def test_an_onnx_file_says_what_the_module_says(here: Path, batch: int | None) -> None:
    export_onnx(here / "net.onnx", batch)
    images = torch.randn(5, 1, 8, 8)
    module = open_own("net.onnx").eval()
    assert module.side == 8
    with torch.no_grad():
        torch.testing.assert_close(module(images), Flat()(images))


def test_weights_beside_an_onnx_file_are_found_and_tell_encoders_apart(here: Path) -> None:
    (here / "nets").mkdir()
    export_onnx(here / "nets" / "net.onnx", beside=True)
    images, found = torch.randn(5, 1, 8, 8), open_own("nets/net.onnx")
    with torch.no_grad():
        torch.testing.assert_close(found(images), Flat()(images))
    weights = here / "nets" / "net.onnx.data"
    assert weights.is_file()
    assert digest_of(open_own("nets/net.onnx")) == digest_of(found)
    weights.write_bytes(weights.read_bytes()[::-1])
    assert digest_of(open_own("nets/net.onnx")) != digest_of(found)


def test_an_onnx_file_of_another_input_is_refused(here: Path) -> None:
    onnx = pytest.importorskip("onnx", reason="needs onnx, to write the file")
    pytest.importorskip("onnxruntime", reason="needs onnxruntime, to run the file")
    helper, integers = onnx.helper, onnx.TensorProto.INT64
    ends = [helper.make_tensor_value_info(name, integers, [2, 64]) for name in ("ids", "rows")]
    graph = helper.make_graph(
        [helper.make_node("Identity", ["ids"], ["rows"])], "g", *([e] for e in ends)
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.save(model, here / "words.onnx")
    with pytest.raises(UsageError, match=r"one input, tensor\(float\), got ids: tensor\(int64\)"):
        open_own("words.onnx")


def test_the_command_takes_an_onnx_file(here: Path, capsys) -> None:
    export_onnx(here / "net.onnx", 1)
    write_images(here / "images.npz", n=120)
    np.savez(here / "large.npz", images=np.zeros((120, 9, 9), np.uint8))
    words = ["train", "--data", "images.npz", "-k", "10", "--encoder", "net.onnx"]
    assert main([*words, "--out", "run"]) == 0
    assert "as asked: --encoder net.onnx" in capsys.readouterr().err
    model = load_model(here / "run", network=open_own("net.onnx"))
    images = np.load("images.npz")["images"]
    table = np.loadtxt("run/assignments.csv", delimiter=",", skiprows=1, usecols=1, dtype=int)
    assert np.mean(model.predict(images) == table) > 0.9
    assert main(["train", "secu", *words[1:], "--fine-tune"]) == 2
    assert "--fine-tune: net.onnx has no parameters" in capsys.readouterr().err
    assert main([*words[:2], "large.npz", *words[3:], "--out", "other"]) == 2
    assert "fails on a batch of shape (2, 1, 9, 9)" in capsys.readouterr().err


@pytest.mark.skipif(importlib.util.find_spec("onnxruntime") is not None, reason="it is installed")
def test_onnx_needs_its_runtime(here: Path) -> None:
    np.zeros(1).tofile("net.onnx")
    with pytest.raises(MissingExtraError, match="pip install onnxruntime"):
        open_own("net.onnx")
