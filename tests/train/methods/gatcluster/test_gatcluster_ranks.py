"""Large batches of GATCluster that ranks share are those of one process, with steps between."""

import copy
import threading

import pytest
import torch

from dualclust.train.methods.base import Batch
from dualclust.train.methods.gatcluster.method import GATCluster
from dualclust.train.networks.normalization import synchronize
from tests.thread_ranks import on_threads
from tests.train.methods.gatcluster.test_gatcluster import RATE, M, draw_images, make

BUILDING = threading.Lock()  # of branches, which draw from the one generator of the process


def trained(template, ranks):
    """Losses of a large batch, with a step after each; labels and weights at the end."""
    network = copy.deepcopy(template.network)
    network.predictor = None
    with BUILDING:
        method = GATCluster(template.config, network, template.n_samples, ranks)
    method.load_state_dict(template.state_dict())
    synchronize(network, ranks)
    plain, views = (images[:M] for images in draw_images())
    part = slice(*ranks.shard(M))
    losses = []
    batch = Batch(torch.arange(M), (plain[part], views[part]))
    for loss in method.losses(batch):
        method.network.zero_grad()
        loss.backward()
        ranks.sum_([p.grad for p in method.network.parameters()])
        with torch.no_grad():
            for p in method.network.parameters():
                p -= RATE * p.grad
        losses.append(loss.detach())
    return losses, method.state_dict()


@pytest.mark.parametrize("drop", ["true", "false"])
def test_two_ranks_are_one_process(drop):
    template = make(f"gatcluster.drop_remainder={drop}", "gatcluster.floor=1e-3")
    (one,) = on_threads(1, lambda ranks: trained(template, ranks))
    assert len(one[0]) == (4 if drop == "true" else 6)
    for found in on_threads(2, lambda ranks: trained(template, ranks)):
        torch.testing.assert_close(found, one, rtol=1e-7, atol=1e-10)


def test_a_state_goes_over_to_another_run():
    """All of it, branches and labels; a state that lacks something is refused."""
    method, other = make(), make("seed=1")
    plain, views = (images[:M] for images in draw_images())
    next(method.losses(Batch(torch.arange(M), (plain, views))))
    state = copy.deepcopy(method.state_dict())
    assert state["labels"].any()
    other.load_state_dict(copy.deepcopy(state))
    torch.testing.assert_close(other.state_dict(), state, rtol=0, atol=0)
    del state["network"]["predictor.window_layer.weight"]
    with pytest.raises(RuntimeError, match=r"predictor\.window_layer\.weight"):
        other.load_state_dict(state)


def test_corners_are_of_the_kind_of_the_features():
    for dtype in (torch.float32, torch.float64):
        corners = make().target_centers(torch.zeros(1, 3, dtype=dtype))
        assert corners.dtype == dtype
        assert torch.equal(corners, torch.eye(3, dtype=dtype))
