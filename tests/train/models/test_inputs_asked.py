"""What readers, threads and exporters are asked for by a model, by stand-ins."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from dualclust.algos.core.errors import (
    CheckpointError,
    InvalidTypeError,
    InvalidValueError,
    MissingExtraError,
    UsageError,
)
from dualclust.train.data.picture_files import shrunk
from dualclust.train.data.splits import File, Skipped
from dualclust.train.models import InputSpec, classifier, exports, sources
from dualclust.train.models.arrays import Inputs, of_array
from dualclust.train.models.inputs import inputs_of
from dualclust.train.models.model import Model
from dualclust.train.models.spec import EncoderSpec
from dualclust.train.networks.libraries import Pixels
from tests.train.pictures import encoded, picture

SQUARE = InputSpec((3, 8, 8), "crop")


@pytest.fixture
def photos(tmp_path):
    """Three pictures, of which the second is cut short, and a folder that is empty."""
    for i in range(3):
        content = encoded(picture(12, 9 + i, seed=i), "PNG")
        (tmp_path / f"{i}.png").write_bytes(content[:60] if i == 1 else content)
    return tmp_path


def test_bad_pictures_are_left_out_and_named(photos):
    found = inputs_of(photos, SQUARE, workers=2, bad="skip")
    assert (found.n, found.names) == (2, ("0.png", "2.png"))
    [skipped] = found.skipped
    assert (skipped[0], "cannot decode 1.png" in skipped[1]) == ("1.png", True)
    rows = found.read(0, 2)
    alone = inputs_of([photos / "0.png", photos / "2.png"], SQUARE)
    assert torch.equal(rows, alone.read(0, 2))
    assert torch.equal(found.read(1, 2), rows[1:])
    strict = inputs_of(photos, SQUARE)
    assert (strict.n, strict.names, strict.skipped) == (3, ("0.png", "1.png", "2.png"), ())
    with pytest.raises(InvalidValueError, match=r"cannot decode 1\.png"):
        strict.read(0, 3)
    one = inputs_of(photos / "0.png", SQUARE, workers=1)
    assert torch.equal(one.read(0, 1), rows[:1])


def test_folders_that_cannot_be_opened_are_named_first(photos, monkeypatch):
    read = sources.read_source

    def unread(*given):
        found = read(*given)
        split = found.splits["all"]._replace(unread=(Skipped("x/", "closed"),))
        return found._replace(splits={"all": split})

    monkeypatch.setattr(sources, "read_source", unread)
    found = inputs_of(photos, SQUARE, bad="skip")
    assert [name for name, _ in found.skipped] == ["x/", "1.png"]


def test_a_picture_of_a_set_is_cut_from_a_copy_as_in_training(tmp_path):
    (tmp_path / "a.png").write_bytes(encoded(picture(90, 70, seed=1), "PNG"))
    spec, plain = InputSpec((3, 4, 4), "crop", copy_side=8), InputSpec((3, 4, 4), "crop")
    copy = shrunk(File("a.png", str(tmp_path / "a.png")), 8, channels=3).pixels
    (tmp_path / "copy.png").write_bytes(encoded(copy, "PNG"))
    cut = inputs_of(tmp_path / "a.png", spec).read(0, 1)
    assert torch.equal(cut, inputs_of(tmp_path / "copy.png", plain).read(0, 1))
    assert not torch.equal(cut, inputs_of(tmp_path / "a.png", plain).read(0, 1))


def test_floats_that_torch_has_not_are_refused():
    rows = InputSpec((6,))
    for kind in (np.float16, np.float64):
        assert of_array(np.zeros((2, 6), kind), rows).read(0, 2).shape == (2, 6)
    with pytest.raises(InvalidTypeError, match="embeddings must be floats, got"):
        of_array(np.zeros((2, 6), np.longdouble), rows)


def test_batches_begin_with_one_sample_and_rows_are_counted_over_all():
    samples = of_array(np.arange(10.0).reshape(5, 2), InputSpec((2,)), "x.npy")

    def passes(size, function=lambda batch: batch):
        return list(Model.passes(SimpleNamespace(device="cpu"), samples, size, function))

    assert [part.tolist() for part in passes(3)] == [
        [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]],
        [[6.0, 7.0], [8.0, 9.0]],
    ]
    assert len(passes(1)) == 5
    with pytest.raises(InvalidValueError, match="batch_size must be 1 or more, got 0"):
        passes(0)
    for first in (0, 2, 3, 4):
        with pytest.raises(InvalidValueError, match=rf"infinity of row {first} of x\.npy\. To fix"):
            passes(2, lambda batch, n=first: batch / (batch < 2 * n))
    assert Inputs(2, None, ("a", "b")).where(1) == "b"


@pytest.mark.parametrize(
    ("size", "channels", "refused"),
    [
        ((8, 8), 1, False),
        ((8, 8), 3, False),
        ((8, 8), 2, True),
        ((8, 8), 4, True),
        ((2**13, 2**14), 1, False),
        ((2**13, 2**14 + 1), 1, True),
        ((2**13, 2**13), 3, True),
    ],
)
def test_pixels_of_an_encoder_are_gray_or_colored_and_not_too_many(size, channels, refused):
    said = EncoderSpec(True, size, (0.5,) * channels, (0.25,) * channels, "described")
    spec = SimpleNamespace(network=SimpleNamespace(name="timm/tiny"), encoder=said)
    if refused:
        words = rf"its encoder takes pixels of \({size[0]}, {size[1]}\) in {channels} channels"
        with pytest.raises(CheckpointError, match=words):
            classifier._of_library(spec, {}, torch.nn.Identity())
        return
    found = classifier._of_library(spec, {}, torch.nn.Identity())
    assert found.pixels == Pixels(size, said.mean, said.std)
    assert found.architecture == "described"


@pytest.mark.parametrize(("there", "refused"), [(12, False), (11, True)])
def test_an_encoder_is_built_again_if_the_file_has_as_many_parameters(monkeypatch, there, refused):
    built = []

    def rebuild(name, architecture):
        built.append((name, architecture, torch.empty(0).device.type))
        return torch.nn.Linear(3, 3)

    monkeypatch.setitem(classifier.LIBRARIES, "timm", SimpleNamespace(rebuild=rebuild))
    said = EncoderSpec(False, (8, 8), (0.5,), (0.25,), "described")
    spec = SimpleNamespace(network=SimpleNamespace(name="timm/tiny"), encoder=said)
    tensors = {"network.a": torch.zeros(there - 5), "network.b": torch.zeros(5)}
    tensors["centers"] = torch.zeros(99)  # none of the network's
    if refused:
        with pytest.raises(CheckpointError, match="its encoder has more parameters than the file"):
            classifier._of_library(spec, tensors, None)
    else:
        assert classifier._of_library(spec, tensors, None).module.weight.device.type == "cpu"
    asked = [("tiny", "described", device) for device in ("meta", "cpu")]
    assert built == asked[: 1 if refused else 2]


def test_a_logger_is_quiet_for_a_while():
    logger = exports.logging.getLogger("of this test")
    logger.setLevel(7)
    with exports._quiet("of this test"):
        assert logger.level == exports.logging.ERROR
    assert logger.level == 7


@pytest.mark.parametrize("data", [[], (), ["a.png", 3], [3, Path("a.png")], [b"a.png"]])
def test_a_list_is_of_paths_alone_or_an_array(data):
    with pytest.raises(InvalidTypeError, match=r"images must be uint8 \(0 to 255\), got"):
        inputs_of(data, SQUARE)


@pytest.mark.parametrize(("own", "name"), [("", "mlp"), ("mine.Encoder", "mine.Encoder")])
def test_a_network_that_no_program_holds_is_named(monkeypatch, own, name):
    def fail(*given):
        msg = "  no such step\nand a long trace"
        raise RuntimeError(msg)

    monkeypatch.setitem(exports.PROGRAMS, "other", fail)
    classifier = torch.nn.Linear(1, 1)
    classifier.network = torch.nn.Identity()
    spec = SimpleNamespace(
        input=InputSpec((7,)), own_network=own, network=SimpleNamespace(name="mlp")
    )
    model = SimpleNamespace(classifier=classifier, spec=spec)
    monkeypatch.setattr(exports, "description", lambda model: {})
    with pytest.raises(UsageError) as error:
        exports.program_bytes(model, "other")
    assert str(error.value) == (
        f"the network {name} cannot be written for other: RuntimeError: no such step. To fix "
        f"this, export with --to safetensors, which needs no trace"
    )
    monkeypatch.setitem(exports.PROGRAMS, "other", missing)
    with pytest.raises(MissingExtraError, match=r"^needs more$"):
        exports.program_bytes(model, "other")
    with pytest.raises(UsageError, match=r"^to must be one of 'torch\.export', .*, got 'onx'"):
        exports.program_bytes(model, "onx")


def missing(*given):
    msg = "needs more"
    raise MissingExtraError(msg)
