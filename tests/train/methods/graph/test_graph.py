"""A graph of neighbors as a method: its labels, its model, and a run that is resumed."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

import dualclust
from dualclust import SpectralConstrainedKMeans
from dualclust.algos.clustering.metrics import clustering_scores
from dualclust.algos.core.errors import UsageError
from dualclust.common.ranks import Ranks
from dualclust.train.config.run import RunConfig, override
from dualclust.train.loop import train
from dualclust.train.loop.train_and_resume import resume, write_page
from dualclust.train.methods import METHODS
from dualclust.train.networks.network import build_network

EMBEDDINGS = ["epochs=1", "network.name=none", "network.layers=0", "threads=1"]
EMBEDDINGS += ["heads.clusters=[10]", "assignment.lower=0.3", "assignment.upper=2.5"]
EMBEDDINGS += ["assignment.rounding=outward", "optim.frozen_epochs=0", "evaluation.views=0"]


def settings(path: Path, *changes: str) -> RunConfig:
    return override(RunConfig(method="graph"), [*EMBEDDINGS, f"data.source={path}", *changes])


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("graph") / "X.npy"
    np.save(path, load_digits().data[:700].astype(np.float32))
    return path


@pytest.fixture(scope="module")
def run(rows: Path) -> Path:
    folder = rows.parent / "run"
    train(settings(rows), folder)
    return folder


def labels_of(folder: Path) -> np.ndarray:
    with (folder / "assignments.csv").open() as file:
        return np.asarray([int(row["cluster"]) for row in csv.DictReader(file)])


def test_the_labels_are_those_of_the_estimator_on_the_same_rows(rows: Path, run: Path) -> None:
    ours = labels_of(run)
    model = SpectralConstrainedKMeans(10, random_state=0).fit(np.load(rows))
    assert clustering_scores(model.labels_, ours).acc > 0.95
    assert np.bincount(ours, minlength=10).min() >= 21
    assert clustering_scores(load_digits().target[:700], ours).acc > 0.75


def test_the_model_repeats_the_labels_and_places_other_rows(rows: Path, run: Path) -> None:
    model = dualclust.load(run)
    again = model.predict(np.load(rows), priced=True)
    assert (again == labels_of(run)).mean() > 0.99
    other = load_digits().data[700:].astype(np.float32)
    found = model.predict(other)
    assert clustering_scores(load_digits().target[700:], found).acc > 0.7
    assert model.embed(other[:5]).shape == (5, 10)
    np.testing.assert_allclose(np.linalg.norm(model.embed(other[:5]), axis=1), 1.0, rtol=1e-5)
    np.testing.assert_allclose(model.predict_proba(other[:5]).sum(axis=1), 1.0, rtol=1e-5)


def test_a_finished_run_writes_the_same_results_again(run: Path) -> None:
    before = labels_of(run), (run / "model.safetensors").read_bytes()
    resume(run)
    write_page(run)
    assert (labels_of(run) == before[0]).all()
    assert (run / "model.safetensors").read_bytes() == before[1]


def test_of_many_samples_a_part_makes_the_graph(rows: Path, run: Path, tmp_path: Path) -> None:
    found = train(settings(rows, "graph.most=300"), tmp_path / "run")
    assert found.prediction.features.shape == (700, 10)
    assert dualclust.load(tmp_path / "run").classifier.network.predictor.rows.shape == (300, 64)
    assert clustering_scores(labels_of(run), labels_of(tmp_path / "run")).nmi > 0.7


def test_the_metrics_tell_the_loss_and_the_parts(rows: Path, run: Path) -> None:
    found = resume(run)
    (record,) = found.metrics
    cosines = (found.prediction.features * found.prediction.centers[labels_of(run)]).sum(1)
    assert record["loss"] == pytest.approx(1.0 - float(cosines.mean()), abs=2e-4)
    assert record["parts"] >= 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("epochs=2", "epochs must be 1"),
        ("network.layers=1", "network.layers must be 0"),
        ("heads.clusters=[10, 20]", "heads.clusters must be"),
    ],
)
def test_settings_of_a_network_that_learns_are_refused(rows: Path, tmp_path, change, message):
    with pytest.raises(UsageError, match=message):
        train(settings(rows, change), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_too_few_samples_are_refused(rows: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no coordinates for 10 clusters"):
        train(settings(rows, "graph.most=10"), tmp_path / "run")


def test_the_nearest_samples_are_those_of_all_pairs(rows: Path) -> None:
    config = settings(rows)
    x = torch.from_numpy(np.load(rows)[:90])
    method = METHODS["graph"](config, build_network(config.network, (64,)), 90)
    method.fit(lambda function: function(x))
    near, cosines = method.alike()
    unit = torch.nn.functional.normalize(x - x.mean(0), dim=1)
    all_pairs = unit @ unit.T - 3.0 * torch.eye(90)
    torch.testing.assert_close(cosines, all_pairs.amax(1), atol=1e-5, rtol=0)
    assert (near == all_pairs.argmax(1)).float().mean() > 0.99


def test_a_graph_of_a_part_knows_no_nearest_samples(rows: Path) -> None:
    config = settings(rows, "graph.most=50")
    x = torch.from_numpy(np.load(rows)[:90])
    method = METHODS["graph"](config, build_network(config.network, (64,)), 90)
    method.fit(lambda function: function(x))
    assert method.alike() is None


def test_equal_samples_raise_an_alarm(tmp_path: Path, run: Path) -> None:
    np.save(tmp_path / "same.npy", np.ones((60, 8), np.float32))
    found = train(settings(tmp_path / "same.npy"), tmp_path / "run")
    assert set(found.metrics[-1]["alarms"]) == {"constant features"}
    assert "alarms" not in resume(run).metrics[-1]


def test_it_is_made_by_one_process() -> None:
    config = settings(Path("X.npy"))
    network = build_network(config.network, (8,))
    ranks = Ranks(rank=0, world_size=2)
    with pytest.raises(UsageError, match="one process, got 2 ranks"):
        METHODS["graph"](config, network, 100, ranks)
    assert METHODS["graph"](config, network, 100).parameter_groups() == []


def test_a_batch_is_placed_as_all_are(rows: Path, run: Path) -> None:
    classifier = dualclust.load(run).classifier
    x = torch.from_numpy(np.load(rows))
    together, alone = classifier(x[:64])[0], classifier(x[10:11])[0]
    torch.testing.assert_close(alone[0], together[10], rtol=1e-3, atol=1e-3)
