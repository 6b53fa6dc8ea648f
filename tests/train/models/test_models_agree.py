"""A run, its model, and every program written from it say the same of the same samples."""

import json
import sys
from copy import deepcopy

import numpy as np
import pytest
import torch
from torch import nn

from dualclust.algos.core.errors import MissingExtraError, UsageError
from dualclust.train.config.run import load_config
from dualclust.train.loop import Run, train
from dualclust.train.loop.evaluation import evaluate_method
from dualclust.train.loop.metrics import agreement
from dualclust.train.methods import METHODS
from dualclust.train.models import export_bytes, load_model, program_bytes
from dualclust.train.models.classifier import Classifier
from dualclust.train.models.exports import DESCRIPTION
from dualclust.train.state.checkpoint import latest_checkpoint
from dualclust.train.state.packing import unpack
from tests.train.runs import tiny
from tests.train.trained import CASES

EVERY = list(CASES)
CLOSE = {"rtol": 0, "atol": 1e-5}


def run_of(folder):
    """The run itself, from its checkpoint: what the model is compared with."""
    run = Run(load_config(folder / "config.toml"), "cpu")
    checkpoint = latest_checkpoint(folder)
    run.load_state_dict(unpack(checkpoint.tensors, checkpoint.metadata["state"]))
    return run


def scores_of(run, centers):
    """Scores of all samples by the method's own functions, in evaluation mode."""
    run.method.network.eval()
    rows = run.loader.apply_to_all(run.method.features)
    features = run.method.normalize_rows(rows)
    return rows.numpy(), run.method.scores(features, centers).detach().numpy()


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16, torch.float64])
def test_rows_in_half_precision_are_compared_with_centers_in_full(kind):
    centers = torch.tensor([[0.6, 0.8], [0.0, 1.0]], dtype=max(kind, torch.float32, key=wide))
    classifier = Classifier(nn.Linear(2, 2), "directions", centers, torch.zeros(2), torch.ones(2))
    scores, features = classifier.read(torch.tensor([[0.0, 4.0], [-2.0, 0.0]], dtype=kind))
    assert scores.dtype == features.dtype == centers.dtype
    assert features.tolist() == [[0.0, 1.0], [-1.0, 0.0]]
    expected = torch.tensor([[0.8, 1.0], [-0.6, 0.0]], dtype=centers.dtype)
    torch.testing.assert_close(scores, expected)


def wide(kind):
    return kind.itemsize


def test_a_model_goes_to_a_device_with_its_network_and_centers(finished):
    model = deepcopy(finished("secu")[2])
    assert model.to("meta") is model
    tensors = [*model.classifier.parameters(), *model.classifier.buffers()]
    assert {tensor.device.type for tensor in tensors} == {"meta"}


@pytest.mark.parametrize("case", EVERY)
def test_the_model_is_the_run(finished, case):
    result, _, model = found = finished(case)
    rows, scores = scores_of(run_of(result.folder), result.prediction.centers)
    np.testing.assert_allclose(model.scores(found.samples), scores, **CLOSE)
    np.testing.assert_allclose(model.embed(found.samples), rows, **CLOSE)
    # Labels equal the run's own evaluation: argmax, evaluation mode, plain images.
    np.testing.assert_array_equal(model.predict(found.samples), result.prediction.nearest.numpy())
    # With prices they are those inside the bounds, but where two clusters are as good.
    bounded, clear = result.prediction.assignment.labels.numpy(), result.prediction.margins.numpy()
    priced = model.predict(found.samples, priced=True)
    assert ((priced == bounded) | (clear < 1e-4)).all()
    assert (clear > 1e-4).mean() > 0.8
    np.testing.assert_array_equal(model.counts, np.bincount(bounded, minlength=10))
    assert model.lower.min() == result.lower
    assert model.upper.max() == result.upper


@pytest.mark.parametrize("case", EVERY)
def test_probability_margin_and_runner_up(finished, case):
    found = finished(case)
    model, x = found.model, found.samples
    chances, scores = model.predict_proba(x), model.scores(x).astype(np.float64)
    np.testing.assert_allclose(chances.sum(1), 1.0, rtol=0, atol=1e-5)
    told = model.label(x)
    order = np.sort(scores, axis=1)
    np.testing.assert_allclose(told.margin, order[:, -1] - order[:, -2], rtol=0, atol=1e-12)
    line = np.arange(len(x))
    np.testing.assert_allclose(told.probability, chances[line, told.labels], rtol=0, atol=1e-5)
    np.testing.assert_allclose(scores[line, told.runner_up], order[:, -2], rtol=0, atol=1e-12)
    assert (told.labels != told.runner_up).all()
    assert (chances.argmax(1) == told.labels).all()


def test_probabilities_are_those_of_the_loss(finished):
    learned_by = {
        "secu": lambda config: config.loss.temperature,
        "coke": lambda config: config.loss.temperature,
        "propos": lambda config: config.propos.temperature,
    }
    for case, temperature in learned_by.items():
        found = finished(case)
        learned = temperature(load_config(found.result.folder / "config.toml"))
        scores = torch.from_numpy(found.model.scores(found.samples))
        np.testing.assert_allclose(
            found.model.predict_proba(found.samples),
            torch.softmax(scores / learned, 1).numpy(),
            **CLOSE,
        )


@pytest.mark.parametrize("case", EVERY)
def test_a_program_says_the_same(finished, case, tmp_path):
    found = finished(case)
    path = tmp_path / "m.pt2"
    path.write_bytes(program_bytes(found.model, "torch.export"))
    extra = {DESCRIPTION: ""}
    program = torch.export.load(path, extra_files=extra).module()
    x = torch.from_numpy(found.samples)
    scores, features = found.model.scores(x), found.model.embed(x)
    for n in (1, 2, len(x)):  # any length of a batch
        with torch.no_grad():
            theirs = program(x[:n])
        np.testing.assert_allclose(theirs[0].numpy(), scores[:n], **CLOSE)
        np.testing.assert_allclose(theirs[1].numpy(), features[:n], **CLOSE)
    said = json.loads(extra[DESCRIPTION])
    assert said["method"] == case.partition(" ")[0]
    np.testing.assert_array_equal(said["prices"], found.model.prices)
    np.testing.assert_array_equal(said["lower"], found.model.lower)


@pytest.mark.parametrize("case", ["secu", "gatcluster", "mi_margin", "coke rows"])
def test_an_onnx_program_says_the_same(finished, case):
    pytest.importorskip("onnx", reason="needs onnx, to write the program")
    pytest.importorskip("onnxscript", reason="needs onnxscript, to write the program")
    runtime = pytest.importorskip("onnxruntime", reason="needs onnxruntime, to run the program")
    found = finished(case)
    session = runtime.InferenceSession(program_bytes(found.model, "onnx"))
    x = found.samples
    scores, features = found.model.scores(x), found.model.embed(x)
    for n in (1, 2, len(x)):
        theirs = session.run(["scores", "features"], {"samples": x[:n]})
        np.testing.assert_allclose(theirs[0], scores[:n], **CLOSE)
        np.testing.assert_allclose(theirs[1], features[:n], **CLOSE)
    said = json.loads(session.get_modelmeta().custom_metadata_map["dualclust"])
    assert said["n_clusters"] == 10


def test_onnx_is_an_extra(finished, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingExtraError, match=r"needs onnx\. .*dualclust\[onnx\]"):
        program_bytes(finished("secu").model, "onnx")
    with pytest.raises(UsageError, match=r"'torch\.export', 'onnx', got 'tflite'"):
        program_bytes(finished("secu").model, "tflite")


@pytest.mark.parametrize("case", EVERY)
def test_an_export_is_read_back_the_same(finished, case, tmp_path):
    found = finished(case)
    path = tmp_path / "m.safetensors"
    path.write_bytes(export_bytes(found.result.folder))
    again = load_model(path)
    assert again.spec == found.model.spec
    np.testing.assert_array_equal(again.scores(found.samples), found.model.scores(found.samples))
    for name in ("prices", "lower", "upper", "counts", "centers"):
        np.testing.assert_array_equal(getattr(again, name), getattr(found.model, name))
    assert export_bytes(path) == path.read_bytes()


@pytest.mark.parametrize("case", ["secu", "gatcluster", "mi_margin rows"])
def test_results_do_not_depend_on_the_batch(finished, case):
    found = finished(case)
    model, x = found.model, found.samples
    whole = model.label(x, batch_size=len(x))
    for size in (1, 7, 64):
        part = model.label(x, batch_size=size)
        np.testing.assert_array_equal(part.labels, whole.labels)
        np.testing.assert_array_equal(part.runner_up, whole.runner_up)
        np.testing.assert_allclose(part.margin, whole.margin, **CLOSE)
    # Nor on the company of other samples.
    np.testing.assert_allclose(model.scores(x[::-1])[::-1], model.scores(x), **CLOSE)
    assert model.predict(x[:0]).shape == (0,)
    assert model.embed(x[:0]).shape[0] == 0


def test_the_encoder_is_what_figures_of_transfer_use(finished):
    found = finished("secu")
    run = run_of(found.result.folder)
    run.method.network.eval()
    rows = run.loader.apply_to_all(run.method.network.encoder)
    np.testing.assert_allclose(found.model.embed(found.samples, layer="encoder"), rows, **CLOSE)
    with pytest.raises(UsageError, match="'features', 'encoder', got 'last'"):
        found.model.embed(found.samples, layer="last")


def test_figures_by_argmax_are_those_of_the_model(finished):
    """What is printed first is what the model does."""
    found = finished("secu")
    last = found.result.metrics[-1]
    labels = torch.from_numpy(found.model.predict(found.samples))
    assert last["argmax_acc"] == agreement(labels, found.data.labels).acc
    sizes = torch.bincount(labels, minlength=10)
    assert (last["argmax_size_min"], last["argmax_size_max"]) == (sizes.min(), sizes.max())
    run = run_of(found.result.folder)
    figures = evaluate_method(run.method, run.loader)
    assert figures["argmax_acc"] == last["argmax_acc"]


def test_a_run_in_float64_stays_in_float64(images, tmp_path):
    config = tiny(images, "epochs=1", "optim.warmup_epochs=0", "execution.precision=float64",
                  "assignment.rounding=outward", "evaluation.views=0")  # fmt: skip
    result = train(config, tmp_path / "run")
    model = load_model(tmp_path / "run")
    x = np.load(images)["images"]
    assert model.scores(x).dtype == np.float64
    np.testing.assert_allclose(model.embed(x), result.prediction.features, rtol=0, atol=1e-12)


def test_a_method_with_features_of_its_own_must_say_so(images, tmp_path, monkeypatch):
    plain = METHODS["secu"].features
    monkeypatch.setattr(METHODS["secu"], "features", lambda self, x: plain(self, x).flip(1))
    config = tiny(images, "epochs=1", "optim.warmup_epochs=0", "assignment.rounding=outward")
    with pytest.raises(UsageError, match=r"features or scores of its own.*SeCu\.readout"):
        train(config, tmp_path / "run")
