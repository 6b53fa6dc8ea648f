"""Which batches can be cut into sub-batches: evenly, two images in each; and what ranks share."""

import pytest
import torch
from torch import nn

from dualclust.algos.core.errors import UsageError
from dualclust.common.ranks import ALONE
from dualclust.train.methods.propos._passes import SubBatches
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
