"""A run's results: the files of its folder, its prediction, and that it learns."""

import csv
import json

import numpy as np
import pytest
import safetensors.torch
import torch
from torch.nn import functional as F

from dualclust.train.config.run import load_config
from dualclust.train.data.samples import load_source
from dualclust.train.loop import Run, loader, train
from dualclust.train.loop.metrics import evaluate
from tests.train.conftest import PIXEL
from tests.train.runs import (
    EPOCHS,
    FILES,
    PICTURES,
    N,
    tiny,
)


def test_the_run_folder(source, finished):
    result, _ = finished
    assert {path.name for path in result.folder.iterdir()} == FILES
    assert load_config(result.folder / "config.toml") == tiny(source)
    for name in PICTURES:
        content = (result.folder / name).read_bytes()
        assert content.startswith(PIXEL), name  # tests/train/report and tests/bench see them whole
        assert len(content) > len(PIXEL)
    kept = sorted(path.name for path in (result.folder / "checkpoints").iterdir())
    assert kept == [f"epoch-{epoch:06d}" for epoch in (EPOCHS - 1, EPOCHS)]


def test_metrics_say_the_same_everywhere(finished):
    result, seen = finished
    lines = (result.folder / "metrics.jsonl").read_text().splitlines()
    assert list(map(json.loads, lines)) == result.metrics == seen
    assert [record["epoch"] for record in seen] == list(range(1, EPOCHS + 1))
    for record in seen:
        assert ("acc" in record) == (record["epoch"] in (2, EPOCHS))
        assert record["loss"] > 0
        assert 0 <= record["size_min"] <= N / 10 <= record["size_max"] <= N
        assert 0 <= record["churn"] <= 1
        assert record["seconds"] >= 0


def test_results_agree_with_the_prediction(source, finished):
    result, _ = finished
    found, data = result.prediction.assignment, load_source(source)
    with (result.folder / "assignments.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["id"]) for row in rows] == list(range(N))
    labels = torch.tensor([int(row["cluster"]) for row in rows])
    assert torch.equal(labels, found.labels)
    assert [int(row["class"]) for row in rows] == data.labels.tolist()
    margins = [float(row["margin"]) for row in rows]
    np.testing.assert_allclose(margins, result.prediction.margins.numpy(), atol=6e-7)
    centers = np.load(result.folder / "centers.npy", allow_pickle=False)
    np.testing.assert_array_equal(centers, result.prediction.centers.numpy())
    assert evaluate(labels, data)._asdict().items() <= result.metrics[-1].items()


def test_sizes_are_inside_and_the_value_is_certified(finished):
    result, _ = finished
    found = result.prediction.assignment
    sizes = torch.bincount(found.labels, minlength=10)
    assert (result.lower, result.upper) == (22, 26)  # inward of 0.9 and 1.1 times 24.1
    assert int(sizes.min()) >= 22
    assert int(sizes.max()) <= 26
    assert result.prediction.assignment.violation == 0
    scores = result.prediction.features @ result.prediction.centers.T
    value = float(scores.double()[torch.arange(N), found.labels].sum())
    assert found.objective == pytest.approx(value, rel=1e-9)
    assert found.upper_bound >= found.objective - 1e-9


def test_saved_weights_and_centers_repeat_the_prediction(source, finished):
    """Features of an evaluation pass with the weights of the file, and nothing else of the run."""
    result, _ = finished
    run = Run(tiny(source), "cpu")
    weights = safetensors.torch.load_file(result.folder / "weights.safetensors")
    run.method.network.load_state_dict(weights, strict=True)
    run.method.network.eval()
    views = run.loader.view(torch.arange(N), "predict", 0, 0)
    with torch.no_grad():
        features = F.normalize(run.method.network(views), dim=1)
    torch.testing.assert_close(features, result.prediction.features, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("views", [0, 1, 3])
def test_prediction_averages_views_and_leaves_no_trace(source, views):
    run = Run(tiny(source, f"evaluation.views={views}"), "cpu")
    run.init()
    run.run_epoch()
    before = {k: v.clone() for k, v in run.method.network.state_dict().items()}
    first, second = run.predict(), run.predict()
    assert torch.equal(first.features, second.features)
    assert torch.equal(first.assignment.labels, second.assignment.labels)
    torch.testing.assert_close(first.features.norm(dim=1), torch.ones(N))
    assert run.method.network.training
    for k, v in run.method.network.state_dict().items():
        assert torch.equal(v, before[k])


def test_prediction_does_not_depend_on_its_batches(source):
    run = Run(tiny(source, "evaluation.views=0"), "cpu")
    run.method.network.eval()
    whole, parts = (
        run.loader.apply_to_all(run.method.features, batch_size=size) for size in (N, 48)
    )
    torch.testing.assert_close(parts, whole, rtol=1e-4, atol=1e-5)


def test_an_image_left_alone_in_the_first_pass(source, tmp_path, monkeypatch):
    """As 1025 images would leave one of EVALUATION_BATCH = 1024, without batch statistics."""
    monkeypatch.setattr(loader, "EVALUATION_BATCH", N - 1)
    result = train(tiny(source, "epochs=1", "optim.warmup_epochs=0"), tmp_path / "run")
    labels = result.prediction.assignment.labels
    assert labels.shape == (N,)
    assert result.lower <= int(torch.bincount(labels).min())
    assert int(torch.bincount(labels).max()) <= result.upper
    assert torch.isfinite(result.prediction.features).all()


def test_training_learns_what_is_plain(source, tmp_path):
    """Not a benchmark: noisy copies of ten images, from random centers, are told apart."""
    still = ("rotate=0", "shear=0", "translate=0", "elastic=0", "scale=[1, 1]")
    settings = tiny(
        source,
        "epochs=12",
        "heads.clusters=[10]",
        "heads.init=random",
        "network.width=8",
        "network.hidden=64",
        "network.out_dim=32",
        *(f"augment.{change}" for change in still),
    )
    untrained = Run(settings, "cpu")
    before = evaluate(untrained.predict().assignment.labels, untrained.loader.data)
    result = train(settings, tmp_path / "run")
    assert before.acc < 0.6
    assert result.metrics[-1]["acc"] > 0.85
