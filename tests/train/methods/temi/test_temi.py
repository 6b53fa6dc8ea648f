"""TEMI as a method: its steps against a transcription, its labels and model, what it refuses."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest
import torch

import dualclust
from dualclust.algos.clustering.metrics import clustering_scores
from dualclust.algos.core.errors import UsageError
from dualclust.common.ranks import Ranks
from dualclust.train.config.run import RunConfig, override
from dualclust.train.loop import train
from dualclust.train.loop.train_and_resume import resume
from dualclust.train.methods import METHODS
from dualclust.train.networks.network import build_network
from dualclust.train.state.seeding import generator

EMBEDDINGS = ["epochs=1", "network.name=none", "network.layers=0", "threads=1", "batch_size=64"]
EMBEDDINGS += ["heads.clusters=[4]", "heads.target=4", "assignment.lower=0.3"]
EMBEDDINGS += ["assignment.upper=2.5", "assignment.rounding=outward", "optim.frozen_epochs=0"]
EMBEDDINGS += ["evaluation.views=0", "loss.temperature=0.1", "data.standardize=true"]
EMBEDDINGS += ["temi.steps=60", "temi.neighbors=10", "temi.n_init=3"]
MEMBER = np.repeat(np.arange(4), [40, 50, 60, 70])


def settings(path: Path, *changes: str) -> RunConfig:
    return override(RunConfig(method="temi"), [*EMBEDDINGS, f"data.source={path}", *changes])


def method_of(n: int, d: int, *changes: str):
    config = settings(Path("X.npy"), *changes)
    return METHODS["temi"](config, build_network(config.network, (d,)), n)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("temi") / "X.npy"
    x = rng.normal(size=(4, 8))[MEMBER] + 0.4 * rng.normal(size=(len(MEMBER), 8))
    np.save(path, x.astype(np.float32))
    return path


@pytest.fixture(scope="module")
def run(rows: Path) -> Path:
    train(settings(rows), rows.parent / "run")
    return rows.parent / "run"


def labels_of(folder: Path) -> np.ndarray:
    with (folder / "assignments.csv").open() as file:
        return np.asarray([int(row["cluster"]) for row in csv.DictReader(file)])


def released(rows, near, start, draws, steps, b, tau=0.1, beta=0.6, lr=0.01, momentum=0.996):
    """The released loop for one head: softmax, teacher and marginals as moving averages."""
    unit = torch.nn.functional.normalize
    student = start.clone().requires_grad_()
    teacher, marginal = start.clone(), torch.full((4,), 0.25, dtype=torch.float64)
    optimizer = torch.optim.AdamW([student], lr=lr, weight_decay=1e-4)
    for step in range(steps):
        i = torch.randint(len(rows), (b,), generator=draws)
        j = near[i, torch.randint(near.shape[1], (b,), generator=draws)]
        q = {
            (who, which): (rows[ids] @ unit(weights, dim=1).T / tau).softmax(1)
            for who, weights in (("s", student), ("t", teacher))
            for which, ids in (("x", i), ("y", j))
        }
        marginal = 0.9 * marginal + 0.1 * torch.cat([q["t", "x"], q["t", "y"]]).mean(0)
        weight = (q["t", "x"] * q["t", "y"]).sum(1)
        loss = 0.0
        for one, other in (("x", "y"), ("y", "x")):
            product = (q["s", one] * q["t", other]) ** beta / marginal
            loss = loss - 0.5 * (weight * product.sum(1).log()).mean()
        rate = lr * min(1.0, (step + 1) / 100) * (1 + math.cos(math.pi * step / steps)) / 2
        optimizer.param_groups[0]["lr"] = rate
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        m = min(momentum, (step + 1) / (step + 10))
        teacher = m * teacher + (1 - m) * student.detach()
    return teacher, loss.item()


def test_the_steps_are_the_released_ones() -> None:
    rng = np.random.default_rng(3)
    rows = torch.nn.functional.normalize(torch.from_numpy(rng.normal(size=(30, 6))), dim=1)
    near = torch.from_numpy(rng.integers(30, size=(30, 5)))
    start = torch.from_numpy(rng.normal(size=(4, 6)))
    method = method_of(30, 6, "temi.steps=7", "batch_size=16")
    ours, loss = method._learn(rows, near, start, generator(0, "x"))
    theirs, last = released(rows, near, start, generator(0, "x"), 7, 16)
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11)
    assert loss == pytest.approx(last, rel=1e-9)


def test_it_finds_clusters_and_keeps_their_bounds(run: Path) -> None:
    found = labels_of(run)
    assert clustering_scores(MEMBER, found).acc > 0.97
    assert np.bincount(found, minlength=4).min() >= 16


def test_the_model_repeats_the_labels(rows: Path, run: Path) -> None:
    model = dualclust.load(run)
    assert (model.predict(np.load(rows), priced=True) == labels_of(run)).all()
    assert model.embed(np.load(rows)[:5]).shape == (5, 8)


def test_a_finished_run_writes_the_same_results_again(run: Path) -> None:
    before = labels_of(run), (run / "model.safetensors").read_bytes()
    found = resume(run)
    assert (labels_of(run) == before[0]).all()
    assert (run / "model.safetensors").read_bytes() == before[1]
    assert 0.0 <= found.metrics[0]["moved"] < 0.1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("epochs=2", "epochs must be 1"),
        ("network.layers=1", "network.layers must be 0"),
        ("heads.clusters=[4, 8]", "heads.clusters must be"),
        ("temi.beta=0.0", "beta must be above 0"),
    ],
)
def test_settings_of_a_network_that_learns_are_refused(rows: Path, tmp_path, change, message):
    with pytest.raises(UsageError, match=message):
        train(settings(rows, change), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_too_few_samples_and_several_ranks_are_refused() -> None:
    with pytest.raises(UsageError, match="needs twice as many"):
        method_of(7, 8)
    config = settings(Path("X.npy"))
    network = build_network(config.network, (8,))
    with pytest.raises(UsageError, match="one process, got 2 ranks"):
        METHODS["temi"](config, network, 100, Ranks(rank=0, world_size=2))
    assert METHODS["temi"](config, network, 100).parameter_groups() == []
