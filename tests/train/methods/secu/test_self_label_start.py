"""Self-labeling before its first step and after its last: what it takes over, keeps and hands on.

Its steps, and whole runs of it, are in `test_secu_self_label`.
"""

from __future__ import annotations

import copy

import pytest
import torch
from torch.nn import functional as F

from dualclust.train.config.run import override
from dualclust.train.methods._init_from import read_finished_run
from dualclust.train.methods.base import evaluating
from dualclust.train.methods.secu import SeCu
from dualclust.train.methods.self_label import SelfLabel
from dualclust.train.networks.network import build_network
from tests.train.methods.secu.test_secu_self_label import D, K, N, finished, make, stage

__all__ = ["finished"]


def test_a_start_takes_network_centers_and_labels_of_the_run(finished):
    """The labels that the finished run gives plain images, inside the bounds, are fixed."""
    config = stage(finished)
    images = torch.randn(241, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    method = SelfLabel(config, build_network(config.network, (1, 8, 8), seed=99).train(), 241)
    drawn = {("plain", "plain"): images}
    method.start(lambda function, view="plain", stream="plain": function(drawn[view, stream]))
    assert method.network.training
    run = read_finished_run(finished, "key", methods=["secu"])
    for name, tensor in method.network.state_dict().items():
        assert torch.equal(tensor, run.state["network"][name])
    unit = F.normalize(run.state["centers"][0, :10], dim=1)
    torch.testing.assert_close(method.centers.detach(), unit)
    network = build_network(run.config.network, (1, 8, 8))
    theirs = SeCu(run.config, network, 241)
    theirs.load_state_dict(run.state)
    network.eval()
    with torch.no_grad():
        found = theirs.predict(theirs.features(images))
    assert torch.equal(method.fixed[0], found.assignment.labels)
    assert torch.equal(method.labels[0], found.assignment.labels)
    assert method.training_sizes().tolist() == found.assignment.counts.tolist()


def test_network_and_centers_learn_by_one_schedule():
    """Every rank has the gradient of the centers in full: it is not to be summed."""
    method = make()
    network, centers = method.parameter_groups()
    assert network.params == [*method.network.parameters()]
    assert centers.params[0] is method.centers
    assert [(group.lr, group.scale, group.local) for group in (network, centers)] == [
        (None, 1.0, True),
        (None, 1.0, False),
    ]


def test_no_image_is_surer_than_certain():
    """What counts is above the threshold: with a threshold of 1 not even a probability of 1."""
    method = make("self_label.confidence=1.0", "loss.temperature=0.001")
    method.features = lambda views: views
    with torch.no_grad():
        method.centers.copy_(torch.eye(K, D))
    method.begin_epoch(1)
    rows = torch.eye(K, D, dtype=torch.float64)
    loss = method.step(torch.arange(K), (rows, rows))
    assert loss.item() == 0.0
    assert method.report() == {"confident": 0.0}
    assert method.labels[0, :K].tolist() == [0, 1, 2, 3]


def test_state_comes_back_to_the_bit():
    method, other = make(), make("seed=5")
    draws = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for tensor in (*method.network.parameters(), method.centers):
            tensor.normal_(generator=draws)
    method.labels.random_(K, generator=draws)
    method.fixed.random_(K, generator=draws)
    state = copy.deepcopy(method.state_dict())
    other.load_state_dict(state)
    for name in ("centers", "labels", "fixed"):
        assert torch.equal(getattr(other, name), state[name])
    for name, tensor in other.network.state_dict().items():
        assert torch.equal(tensor, state["network"][name])
    assert other.centers.requires_grad
    other.labels += 1  # the state of the one does not change with the other
    assert torch.equal(method.labels, state["labels"])


@pytest.mark.parametrize("name", ["network", "centers", "labels", "fixed"])
def test_a_state_without_a_part_is_refused(name):
    state = make().state_dict()
    del state[name]
    with pytest.raises(KeyError, match=name):
        make().load_state_dict(state)


def test_one_head_is_not_refused_and_its_size_is_that_of_the_target():
    assert make().centers.shape == (K, D)
    assert make().labels.shape == (1, N)
    config = override(make().config, ["heads.clusters=[2]", "heads.target=2"])
    method = SelfLabel(config, build_network(config.network, (1, 8, 8)), N)
    assert method.centers.shape == (2, D)


@pytest.mark.parametrize("training", [False, True])
def test_a_mode_is_put_back_whatever_happens(training):
    network, seen = make().network.train(training), []

    def fail():
        with evaluating(network):
            seen.append((network.training, torch.is_grad_enabled()))
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert seen == [(False, False)]
    assert network.training == training
    assert torch.is_grad_enabled()
