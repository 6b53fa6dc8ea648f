"""What readers, threads and exporters are asked for by a model, by stand-ins."""

import json
import warnings
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
from dualclust.train.data.splits import Skipped
from dualclust.train.models import InputSpec, classifier, exports, sources
from dualclust.train.models.arrays import Inputs, of_array
from dualclust.train.models.inputs import inputs_of
from dualclust.train.models.model import Model
from dualclust.train.models.spec import EncoderSpec
from dualclust.train.networks.libraries import Pixels
from tests.train.pictures import encoded, picture

SQUARE = InputSpec((3, 8, 8), "crop")


def test_readers_of_paths_get_what_is_asked(monkeypatch):
    asked = []
    for name in ("of_path", "of_files"):
        monkeypatch.setattr(
            sources, name, lambda *given, name=name, **more: asked.append((name, given, more))
        )
    inputs_of("photos", SQUARE)
    inputs_of(Path("photos"), SQUARE, split="test", workers=3, bad="skip")
    inputs_of(["a.png", Path("b.png")], SQUARE, split="test", workers=3, bad="skip")
    inputs_of(("a.png",), SQUARE)
    plain = {"split": "auto", "workers": 0, "bad": "stop"}
    assert asked == [
        ("of_path", ("photos", SQUARE), plain),
        ("of_path", (Path("photos"), SQUARE), {"split": "test", "workers": 3, "bad": "skip"}),
        ("of_files", ([Path("a.png"), Path("b.png")], SQUARE), {"workers": 3}),
        ("of_files", ([Path("a.png")], SQUARE), {"workers": 0}),
    ]


@pytest.fixture
def photos(tmp_path):
    """Three pictures, of which the second is cut short, and a folder that is empty."""
    for i in range(3):
        content = encoded(picture(12, 9 + i, seed=i), "PNG")
        (tmp_path / f"{i}.png").write_bytes(content[:60] if i == 1 else content)
    return tmp_path


def test_bad_pictures_are_left_out_and_named(photos, monkeypatch):
    asked = []
    whole, decoders = sources.sound_files, sources.Decoders
    monkeypatch.setattr(sources, "sound_files", lambda f, n: asked.append(n) or whole(f, n))
    monkeypatch.setattr(sources, "Decoders", lambda n: asked.append(n) or decoders(n))
    found = inputs_of(photos, SQUARE, workers=2, bad="skip")
    assert (found.n, found.names) == (2, ("0.png", "2.png"))
    [skipped] = found.skipped
    assert (skipped[0], "cannot decode 1.png" in skipped[1]) == ("1.png", True)
    rows = found.read(0, 2)
    assert asked == [2, 2]
    alone = inputs_of([photos / "0.png", photos / "2.png"], SQUARE)
    assert torch.equal(rows, alone.read(0, 2))
    assert torch.equal(found.read(1, 2), rows[1:])
    strict = inputs_of(photos, SQUARE)
    assert (strict.n, strict.names, strict.skipped) == (3, ("0.png", "1.png", "2.png"), ())
    with pytest.raises(InvalidValueError, match=r"cannot decode 1\.png"):
        strict.read(0, 3)
    one = inputs_of(photos / "0.png", SQUARE, workers=1)
    assert torch.equal(one.read(0, 1), rows[:1])
    assert asked[-1] == 1


def test_folders_that_cannot_be_opened_are_named_first(photos, monkeypatch):
    read = sources.read_source

    def unread(*given):
        found = read(*given)
        split = found.splits["all"]._replace(unread=(Skipped("x/", "closed"),))
        return found._replace(splits={"all": split})

    monkeypatch.setattr(sources, "read_source", unread)
    found = inputs_of(photos, SQUARE, bad="skip")
    assert [name for name, _ in found.skipped] == ["x/", "1.png"]


def test_a_picture_of_a_set_is_cut_from_a_copy_as_in_training(photos, monkeypatch):
    asked = []
    whole = sources.shrunk
    monkeypatch.setattr(
        sources, "shrunk", lambda f, side, **o: asked.append((side, o)) or whole(f, side, **o)
    )
    spec = InputSpec((3, 4, 4), "crop", copy_side=8)
    inputs_of(photos / "0.png", spec).read(0, 1)
    assert asked == [(8, {"channels": 3})]
    inputs_of(photos / "0.png", InputSpec((3, 4, 4), "crop")).read(0, 1)
    assert len(asked) == 1


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


def test_the_exporter_of_onnx_is_asked_for_names_and_gets_the_description(monkeypatch):
    """By stand-ins: neither onnx nor onnxscript is needed to know what is asked."""
    asked = []
    program = SimpleNamespace(
        model=SimpleNamespace(metadata_props={}),
        model_proto=SimpleNamespace(SerializeToString=lambda: b"a program"),
    )
    monkeypatch.setattr(exports, "import_module", asked.append)
    monkeypatch.setattr(exports, "_traced", lambda *given: given)

    def export(*given, **more):
        asked.append((given, more))
        return program

    monkeypatch.setattr(torch.onnx, "export", export)
    assert exports._onnx("classifier", "example", "text") == b"a program"
    names = {"input_names": ["samples"], "output_names": ["scores", "features"]}
    given = ("classifier", "example"), ("example",)
    assert asked == ["onnx", "onnxscript", (given, {"dynamo": True, "verbose": False, **names})]
    assert program.model.metadata_props == {"dualclust": "text"}


def test_a_program_is_written_of_a_copy_on_the_cpu(monkeypatch):
    """In its own dtype, for two samples; the model is left as it is."""
    asked = []
    monkeypatch.setitem(exports.PROGRAMS, "other", lambda *given: asked.append(given) or b"x")
    monkeypatch.setattr(exports, "description", lambda model: {"b": 1, "a": [2]})
    for shape, image, kind in (((3, 4, 5), True, torch.uint8), ((7,), False, torch.float32)):
        own = torch.nn.Linear(1, 1)
        own.network = torch.nn.Identity()
        own.network.autocast = torch.bfloat16
        spec = SimpleNamespace(input=SimpleNamespace(shape=shape, is_image=image))
        model = SimpleNamespace(classifier=own, spec=spec)
        assert exports.program_bytes(model, "other") == b"x"
        copy, example, text = asked.pop()
        assert copy is not own
        assert (copy.network.autocast, own.network.autocast) == (None, torch.bfloat16)
        assert (example.shape, example.dtype) == ((2, *shape), kind)
        assert text == json.dumps({"a": [2], "b": 1})


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


def test_exporters_may_warn_about_themselves(monkeypatch):
    """Of any number of samples, one at least; their warnings are not the user's."""
    asked = []

    def noisy(*given, **more):
        warnings.warn("of the exporter", UserWarning, stacklevel=2)
        asked.append((given, more))
        return SimpleNamespace(
            model=SimpleNamespace(metadata_props={}),
            model_proto=SimpleNamespace(SerializeToString=lambda: b"a program"),
        )

    monkeypatch.setattr(exports, "import_module", lambda name: None)
    for place, name in ((torch.export, "export"), (torch.export, "save"), (torch.onnx, "export")):
        monkeypatch.setattr(place, name, noisy)
    scores, example = torch.nn.Identity(), torch.zeros(2, 3)
    assert exports._torch_export(scores, example, "text") == b""
    (((named, given), traced), ((_, stream), saved)) = asked
    assert (named.classifier is scores, named.training, given[0] is example) == (True, False, True)
    length = traced["dynamic_shapes"]["samples"]
    assert list(length) == [0]
    assert (length[0].__name__, length[0].min) == ("batch", 1)
    assert (stream.getvalue(), saved) == (b"", {"extra_files": {"dualclust.json": "text"}})
    assert exports._onnx(scores, example, "text") == b"a program"
    assert len(asked) == 4


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
