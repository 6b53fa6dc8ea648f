"""A step of ProPos that ranks share is the step of one process, gradients and statistics too."""

import copy

import pytest
import torch
from torch import nn

from dualclust.train.methods.propos.method import ProPos
from dualclust.train.networks.normalization import BatchNorm, group_statistics, synchronize
from tests.thread_ranks import on_threads
from tests.train.methods.propos.test_propos import LABELS, B, D, N, P, make

CASES = {
    "statistics of all": [],
    "statistics of all, views together": ["propos.view_norm=joint"],
    "sub-batches": ["propos.batch_norm=shuffled", "propos.sub_batches=2"],
    "sub-batches, views together": [
        "propos.batch_norm=shuffled",
        "propos.sub_batches=2",
        "propos.view_norm=joint",
    ],
}


def shared_step(template, views, ranks):
    """Loss, gradients, and both networks' statistics after a step and its optimizer's."""
    network = copy.deepcopy(template.online_network)
    method = ProPos(template.config, network, N, ranks)
    for net in (method.online_network, method.target_network):
        if template.options.batch_norm == "global":
            synchronize(net.encoder, ranks)
        net.load_state_dict(template.online_network.state_dict(), strict=False)
    method.labels[0] = LABELS
    method.begin_epoch(1)
    part = slice(*ranks.shard(B))
    loss = method.step(torch.arange(B), tuple(view[part] for view in views))
    loss.backward()
    method.after_step()
    grads = []
    for group in method.parameter_groups():
        found = [p.grad for p in group.params]
        if group.local:
            ranks.sum_(found)
        grads += found
    statistics = [  # a rank has some of the groups, the mean is that of all
        table.mean(0)
        for net in (method.online_network, method.target_network)
        for tables in group_statistics(net).values()
        for table in tables
    ]
    return loss.detach(), grads, statistics, method.queue


@pytest.mark.parametrize("changes", CASES.values(), ids=CASES)
def test_two_ranks_are_one_process(changes):
    encoder = nn.Sequential(nn.Linear(P, D), BatchNorm(D))
    template = make("propos.queue=15", *changes, encoder=encoder)
    draws = torch.Generator().manual_seed(2)
    views = torch.randn(2, B, P, generator=draws, dtype=torch.float64).unbind()

    (one,) = on_threads(1, lambda ranks: shared_step(template, views, ranks))
    assert len(one[2]) >= 6  # encoder and predictor, encoder of the target
    for found in on_threads(2, lambda ranks: shared_step(template, views, ranks)):
        torch.testing.assert_close(found, one, rtol=1e-9, atol=1e-12)


def test_the_gradients_of_the_predictor_are_whole_on_every_rank():
    """It sees the batch of all ranks: summed over them, they would be too large."""
    encoder, predictor = make().parameter_groups()
    assert encoder.local
    assert not predictor.local
