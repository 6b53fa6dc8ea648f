"""Runs of MI + margin: labels stay out, resume is exact, steps do not wait, digits are learned."""

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from dualclust.algos.core.errors import UsageError
from dualclust.cli.train import read_recipe
from dualclust.train.config.run import RunConfig, override
from dualclust.train.data.samples import load_source
from dualclust.train.loop import Run, loader, resume, train
from dualclust.train.methods.mi_margin.method import MiMargin
from dualclust.train.networks.network import build_network
from tests.train.methods.secu.test_secu_operations import Operations
from tests.train.runs import (
    Interrupted,
    N,
    assert_same_run,
    contents,
    interrupt_after,
    write_images,
)

WEAK = ["mi_margin.supervised=0.1"]


def tiny(source, *changes):
    return override(
        read_recipe("mi_margin_digits"),
        [
            f"data.source={source}",
            "epochs=3",
            "batch_size=64",
            "network.width=2",
            "evaluation.every=2",
            *changes,
        ],
    )


def shuffled(data):
    order = torch.randperm(N, generator=torch.Generator().manual_seed(0))
    return data._replace(labels=data.labels[order])


def patched(monkeypatch, change):
    monkeypatch.setattr(loader, "load_source", lambda *a, **k: change(load_source(*a, **k)))


@pytest.mark.parametrize("changes", [[], WEAK], ids=["off", "on"])
def test_true_labels_reach_training_where_asked_and_nowhere_else(
    source, tmp_path, monkeypatch, changes
):
    train(tiny(source, *changes), tmp_path / "run")
    patched(monkeypatch, shuffled)
    train(tiny(source, *changes), tmp_path / "shuffled")
    a, b = (contents(tmp_path / name) for name in ("run", "shuffled"))
    assert (a["state"] == b["state"]) == (not changes)
    assert any("seeds" in key for key in a["state"]) == bool(changes)


def test_weak_supervision_needs_labels(tmp_path):
    source = write_images(tmp_path / "images.npz", labels=False)
    with pytest.raises(UsageError, match="ask for true labels"):
        train(tiny(source, *WEAK), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_labels_that_nobody_asked_for_are_refused(source):
    run = Run(tiny(source), "cpu")
    assert not run.method.wants_labels
    with pytest.raises(UsageError, match=r"mi_margin\.supervised is 0"):
        run.method.take_labels(run.loader.data.labels)


SELA = ["mi_margin.objective=sela", "mi_margin.extra_weight=0", "mi_margin.head_lr=0.1"]


@pytest.mark.parametrize(
    ("changes", "epoch"),
    [
        pytest.param(WEAK, 1, id="weak-1"),
        pytest.param(SELA, 2, id="sela-2"),
        pytest.param(WEAK, 2, id="weak-2", marks=pytest.mark.slow),
        pytest.param(SELA, 1, id="sela-1", marks=pytest.mark.slow),
    ],
)
def test_resumed_runs_end_alike_to_the_bit(source, tmp_path, changes, epoch):
    settings = tiny(source, *changes)
    train(settings, tmp_path / "straight")
    with pytest.raises(Interrupted):
        train(settings, tmp_path / "run", progress=interrupt_after(epoch))
    resume(tmp_path / "run")
    assert_same_run(tmp_path / "run", tmp_path / "straight")


STEPS = {
    "mi_margin": ["mi_margin.supervised=0.1", "mi_margin.extra_weight=0.5"],
    **{f"{name}": [f"mi_margin.objective={name}"] for name in ("mi_d", "iic", "sela", "mi_adm")},
}


@pytest.mark.parametrize("changes", STEPS.values(), ids=STEPS)
def test_a_captured_step_reads_no_value_back(changes):
    base = ["network.layers=1", "network.out_dim=10", "heads.clusters=[10]", "network.width=2"]
    config = override(RunConfig(method="mi_margin"), [*base, *changes])
    method = MiMargin(config, build_network(config.network, (1, 8, 8)).train(), 50)
    method.may_read = False
    views = tuple(torch.randn(8, 1, 8, 8) for _ in method.views)
    with Operations() as seen:
        method.step(torch.arange(8), views).backward()
    assert method.capturable
    assert seen.waiting == set()
    with FakeTensorMode(allow_non_fake_inputs=True):
        loss = method.step(torch.arange(8), tuple(torch.randn(8, 1, 8, 8) for _ in views))
    assert loss.shape == ()


def test_embeddings_through_a_linear_head(tmp_path):
    """Not a benchmark: two plain groups of points."""
    rng = np.random.default_rng(0)
    member = np.arange(400) % 2
    points = 3.0 * np.eye(2, 6)[member] + 0.3 * rng.normal(size=(400, 6))
    np.save(tmp_path / "points.npy", points.astype(np.float32))
    np.save(tmp_path / "points_labels.npy", member)
    settings = override(
        read_recipe("mi_margin_digits"),
        [
            f"data.source={tmp_path / 'points.npy'}",
            "network.name=none",
            "network.out_dim=2",
            "heads.clusters=[2]",
            "heads.target=2",
            "epochs=30",
            "batch_size=100",
            "optim.lr=1e-3",
            "mi_margin.extra_weight=0",
            *(f"augment.{name}=0" for name in ("rotate", "translate", "shear", "elastic")),
            "augment.contrast=0",
            "augment.scale=[1, 1]",
        ],
    )
    result = train(settings, tmp_path / "run")
    assert result.metrics[-1]["acc"] > 0.95
