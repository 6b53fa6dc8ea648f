"""Parts of ProPos by themselves: when it begins, how long it is, and what a pass shares."""

import pytest
import torch
from torch import nn

from dualclust.algos.core.errors import UsageError
from dualclust.common.ranks import ALONE
from dualclust.train.config.methods.propos import ProposOptions
from dualclust.train.config.run import RunConfig, override
from dualclust.train.methods.propos._networks import PREDICTOR_STD, target_of
from dualclust.train.methods.propos._passes import SubBatches, WholeBatch, in_sub_batches
from dualclust.train.methods.propos.method import _batches_per_epoch
from dualclust.train.networks.normalization import BatchNorm
from dualclust.train.state.seeding import permutation
from tests.train.methods.propos.test_propos import N, make
from tests.train.methods.propos.test_propos_passes import network


@pytest.mark.parametrize(("frozen", "warmup"), [(0, 0), (0, 2), (2, 0), (2, 3)])
def test_the_gate_opens_after_frozen_epochs_and_warm_up(frozen, warmup):
    method = make("epochs=9", f"optim.frozen_epochs={frozen}", f"optim.warmup_epochs={warmup}")
    assert float(method.gate) == float(frozen + warmup == 0)
    for epoch in range(7):
        method.begin_epoch(epoch)
        assert float(method.gate) == float(epoch >= frozen + warmup)


@pytest.mark.parametrize(
    ("n", "size", "each", "shuffled"),
    [(10, 4, 3, 2), (8, 4, 2, 2), (9, 4, 3, 2), (3, 2, 1, 1), (4, 2, 2, 2), (2, 5, 1, 0)],
)
def test_batches_of_an_epoch(n, size, each, shuffled):
    """None has fewer than two images; where statistics are shuffled, all are whole."""
    config = override(RunConfig(method="propos"), [f"batch_size={size}"])
    assert _batches_per_epoch(config, n, ProposOptions()) == each
    assert _batches_per_epoch(config, n, ProposOptions(batch_norm="shuffled")) == shuffled


def test_the_images_of_one_batch_are_enough():
    method = make("propos.batch_norm=shuffled", f"batch_size={N}", "propos.sub_batches=2")
    assert method.total_steps == method.config.epochs
    with pytest.raises(UsageError, match=f"{N} images make none of {N + 2}"):
        make("propos.batch_norm=shuffled", f"batch_size={N + 2}", "propos.sub_batches=2")


def test_shuffled_batches_are_of_the_order_of_the_seed_and_the_epoch():
    method = make("propos.batch_norm=shuffled", "propos.sub_batches=2", "batch_size=8", "seed=7")
    for epoch in (1, 2):
        order = permutation(N, 7, epoch)[: N - N % 8]
        assert torch.equal(method.order(epoch), order)


def test_the_target_of_a_compiled_network_is_compiled():
    net = network()
    assert target_of(net)._compiled_call_impl is None
    net.compile_with("eager")
    assert target_of(net)._compiled_call_impl is not None


@pytest.mark.parametrize(
    ("count", "size", "fits"),
    [(4, 8, True), (4, 4, False), (4, 10, False), (4, 6, False), (1, 2, True)],
)
def test_sub_batches_have_two_images_or_more(count, size, fits):
    net = nn.Sequential(BatchNorm(2))
    if fits:
        assert SubBatches(ALONE, [net], count=count, batch_size=size, key=0).count == count
        return
    with pytest.raises(UsageError, match=rf"sub_batches={count}, two .*, got {size}\. To fix"):
        SubBatches(ALONE, [net], count=count, batch_size=size, key=0)


def test_views_have_statistics_of_their_own_by_default():
    views = torch.randn(2, 6, 1, 8, 8, dtype=torch.float64)
    views[1] += 3
    net = network()
    apart = torch.stack([net(view) for view in views])
    torch.testing.assert_close(WholeBatch(ALONE).online(net, tuple(views), 6), apart)
    torch.testing.assert_close(in_sub_batches(net, net, views, 1), apart)
    passes = SubBatches(ALONE, [net], count=1, batch_size=6, key=0)
    torch.testing.assert_close(passes.online(net, tuple(views), 6), apart)
    together = net(views.flatten(0, 1)).unflatten(0, (2, 6))
    assert not torch.allclose(together, apart)
    for joint in (
        WholeBatch(ALONE, joint=True).online(net, tuple(views), 6),
        in_sub_batches(net, net, views, 1, joint=True),
    ):
        torch.testing.assert_close(joint, together)


def test_a_single_view_is_joint_with_none():
    views = torch.randn(1, 6, 1, 8, 8, dtype=torch.float64)
    net = network()
    plain = in_sub_batches(net, net, views, 3)
    torch.testing.assert_close(in_sub_batches(net, net, views, 3, joint=True), plain)


def test_weights_of_the_predictor_start_at_a_hundredth():
    assert PREDICTOR_STD == 0.01
