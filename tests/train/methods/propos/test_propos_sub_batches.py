"""Which batches can be cut into sub-batches: evenly, two images in each; and what ranks share."""

import pytest
import torch
from torch import nn

from dualclust.algos.core.errors import UsageError
from dualclust.common.ranks import ALONE
from dualclust.train.config.run import RunConfig, override
from dualclust.train.methods.propos._passes import SubBatches
from dualclust.train.networks.network import build_network
from dualclust.train.networks.normalization import BatchNorm, groups
from tests.thread_ranks import on_threads


@pytest.mark.parametrize(("count", "batch_size"), [(1, 2), (4, 8), (3, 12)])
def test_two_images_in_each_are_enough(count, batch_size):
    passes = SubBatches(ALONE, [], count=count, batch_size=batch_size, key=0)
    assert (passes.count, passes.key) == (count, 0)


@pytest.mark.parametrize(("count", "batch_size"), [(1, 1), (4, 4), (4, 10), (5, 12)])
def test_one_image_or_a_rest_is_refused(count, batch_size):
    with pytest.raises(UsageError, match=rf"propos\.sub_batches={count}, .* got {batch_size}\."):
        SubBatches(ALONE, [], count=count, batch_size=batch_size, key=0)


@pytest.mark.parametrize("world", [1, 2, 3])
def test_after_a_step_running_statistics_are_the_mean_over_ranks(world):
    def work(ranks):
        networks = [nn.Sequential(BatchNorm(2)).double() for _ in range(2)]
        passes = SubBatches(ranks, networks, count=6, batch_size=24, key=0)
        found = []
        for j, network in enumerate(networks):
            with groups(network, 2):
                rows = torch.arange(8.0).view(4, 2).double().square()
                network((ranks.rank + 1) * (j + 1) * rows)
            found += [network[0].group_mean, network[0].group_var]
        before = [table.clone() for table in found]
        passes.after_step(networks)
        return before, found

    every = on_threads(world, work)
    for i in range(4):
        mean = sum(before[i] for before, _ in every) / world
        assert world == 1 or not torch.allclose(every[0][0][i], mean)
        for _, after in every:
            torch.testing.assert_close(after[i], mean)


def test_one_process_has_no_statistics_to_share():
    networks = [nn.Sequential(nn.Linear(2, 2))]
    passes = SubBatches(ALONE, networks, count=2, batch_size=4, key=0)
    passes.after_step(networks)  # a mean over no tables would be an error


@pytest.mark.parametrize(
    ("count", "batch_size", "fits"), [(1, 1, 2), (4, 4, 8), (4, 10, 8), (5, 12, 10), (4, 15, 12)]
)
def test_the_size_that_an_error_names_is_the_nearest_that_fits_below(count, batch_size, fits):
    with pytest.raises(UsageError, match=rf"To fix this, set batch_size={fits}$"):
        SubBatches(ALONE, [], count=count, batch_size=batch_size, key=0)
    assert SubBatches(ALONE, [], count=count, batch_size=fits, key=0).count == count


def test_joint_sub_batches_of_the_online_network_and_its_predictor_hold_both_views():
    """Rows of each sub-batch have mean 0 over both views together, not over each by itself."""
    config = override(RunConfig(method="propos"), ["network.layers=0"])
    network = build_network(config.network, (3,), encoder=BatchNorm(3))
    network.predictor = BatchNorm(3)
    network.double().train()
    views = torch.randn(2, 8, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    views[1] += 2.0
    for joint in (False, True):
        passes = SubBatches(ALONE, [network], count=2, batch_size=8, key=0, joint=joint)
        for found in (passes.online(network, views.unbind(), 8), passes.predict(network, views)):
            means = found.unflatten(1, (2, 4)).mean(2)  # (view, sub-batch, feature)
            zero = torch.zeros_like(means)
            torch.testing.assert_close(means.mean(0), zero[0], rtol=0, atol=1e-12)
            assert torch.allclose(means, zero, rtol=0, atol=1e-12) != joint
