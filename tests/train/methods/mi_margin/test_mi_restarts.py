"""A cluster that the objective has lost comes back, and only where the settings ask for it."""

import pytest
import torch
from torch import nn

from dualclust.algos.clustering.restarts import Split
from dualclust.train.loop import Run
from dualclust.train.methods.mi_margin._restarts import APART, split_clusters
from tests.train.methods.mi_margin.test_mi_margin_runs import tiny
from tests.train.runs import write_images

LOST = 3


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return write_images(tmp_path_factory.mktemp("data") / "images.npz")


def draws():
    return torch.Generator().manual_seed(0)


@torch.no_grad()
def test_two_halves_add_up_to_what_was_there():
    head = nn.Linear(6, 4).double()
    before = nn.Linear(6, 4).double()
    before.load_state_dict(head.state_dict())
    split_clusters(head, [Split(2, 1)], draws())
    delta = (head.weight[1] - head.weight[2]) / 2
    assert delta.norm() == pytest.approx(APART * before.weight[1].norm().item())
    assert torch.equal(head.weight[[0, 3]], before.weight[[0, 3]])
    assert torch.equal(head.bias[[0, 3]], before.bias[[0, 3]])
    # On the plane between the halves, both predict half; the old cluster 2 is gone.
    x = torch.randn(50, 6, dtype=torch.float64, generator=draws())
    x -= (x @ delta)[:, None] * delta / (delta @ delta)
    old, new = before(x), head(x)
    torch.testing.assert_close(torch.logsumexp(new[:, 1:3], 1), old[:, 1])
    torch.testing.assert_close(new[:, 1], new[:, 2])


@torch.no_grad()
def test_directions_are_drawn_in_double_precision_whatever_the_network():
    """So that a run in single precision is split along the same planes."""
    head = nn.Linear(20, 4)  # below 16 both precisions draw the same
    direction = torch.randn(20, generator=draws(), dtype=torch.float64)
    moved = APART * head.weight[1].norm() * (direction / direction.norm()).float()
    expected = torch.stack([head.weight[1] + moved, head.weight[1] - moved])
    split_clusters(head, [Split(2, 1)], draws())
    torch.testing.assert_close(head.weight[[1, 2]], expected)
    assert head.weight.dtype == torch.float32


def test_splits_come_one_after_the_other():
    head = nn.Linear(6, 4).double()
    one = nn.Linear(6, 4).double()
    one.load_state_dict(head.state_dict())
    split_clusters(head, [Split(2, 1), Split(3, 1)], draws())
    generator = draws()
    split_clusters(one, [Split(2, 1)], generator)
    split_clusters(one, [Split(3, 1)], generator)
    assert torch.equal(head.weight, one.weight)
    assert torch.equal(head.bias, one.bias)


def lose(run):
    """Push the predictions of a cluster to 0 for every image, as a bad start does."""
    with torch.no_grad():
        run.method.head.weight[LOST] = 0.0
        run.method.head.bias[LOST] = -60.0


def least(run, epochs):
    lose(run)
    records = [run.run_epoch() for _ in range(epochs)]
    return float(run.method.mass.min() / run.method.mass.mean()), records


def test_a_lost_cluster_comes_back(source):
    share, records = least(Run(tiny(source, "mi_margin.restart=0.1"), "cpu"), 2)
    assert records[0]["restarted"] == 0
    assert records[1]["restarted"] >= 1
    assert share > 0.1


def test_without_the_setting_it_stays_lost(source):
    """Its gradient is proportional to its prediction."""
    run = Run(tiny(source, "mi_margin.restart=0"), "cpu")
    _, records = least(run, 2)
    assert "restarted" not in records[1]
    with torch.no_grad():
        predictions = run.loader.apply_to_all(run.method.features)
    assert float(predictions[:, LOST].max()) < 1e-12


def test_the_first_epoch_restarts_nothing(source):
    run = Run(tiny(source, "mi_margin.restart=0.5"), "cpu")
    weight = run.method.head.weight.detach().clone()
    run.method.begin_epoch(0)
    assert torch.equal(run.method.head.weight, weight)
