"""ProPos's step against a transcription of its released code, by the options that ask for it."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from dualclust.algos.losses.propos.prototypes import Prototypes
from dualclust.algos.losses.propos.scattering import psl_mixed_view, psl_released
from dualclust.common.ranks import ALONE
from dualclust.train.loop.optim import build_optimizer
from dualclust.train.methods.propos._passes import SubBatches, WholeBatch, in_sub_batches
from dualclust.train.networks.normalization import BatchNorm, merge_groups
from tests.train.methods.propos.test_propos import (
    DECAY,
    LR,
    MOMENTUM,
    D,
    K,
    N,
    P,
    close,
    make,
    noise_of,
    take_step,
    views_of,
)
from tests.train.methods.propos.test_propos_passes import network
from tests.train.released_propos import Released

CASES = {
    "version 1": (1, ["propos.ema_after=loss"]),
    "version 1, cosine average": (1, ["propos.ema_after=loss", "propos.ema_schedule=cosine"]),
    "version 2": (2, ["propos.view_norm=joint"]),
}


def compare(version, changes, rng):
    """Two epochs of two steps: warm-up, then all of the loss; one batch has an empty cluster."""
    encoder = nn.Sequential(nn.Linear(P, D), BatchNorm(D))
    method = make("propos.psl=released", *changes, encoder=encoder)
    theta = {n: p.detach().numpy().copy() for n, p in method.online_network.named_parameters()}
    labels = method.labels[0].numpy()
    other = Released(theta, labels, K, method.options, method.total_steps, version=version)
    optimizer = build_optimizer(method.config.optim, method.parameter_groups())
    for epoch in (0, 1):
        method.begin_epoch(epoch)
        for ids in np.split(np.arange(N), 2):
            views, noise = views_of(rng, ids), noise_of(method)
            if version == 2 and other.iteration:  # it moves its target now, and we have
                for name, p in method.target_network.named_parameters():
                    m = method.options.ema
                    close(p, m * other.average[name] + (1 - m) * other.p[name], 1e-9)
            loss = take_step(method, optimizer, ids, views)
            expected, grads = other.step(
                ids, views, noise, warm=epoch == 1, lr=LR, momentum=MOMENTUM, decay=DECAY
            )
            assert loss == pytest.approx(expected, rel=1e-9)
            for key, p in method.online_network.named_parameters():
                close(p.grad, grads[key], 1e-9)
                close(p, other.p[key], 1e-9)
            if version == 1:
                for key, p in method.target_network.named_parameters():
                    close(p, other.average[key], 1e-9)


@pytest.mark.parametrize(("version", "changes"), CASES.values(), ids=CASES)
def test_steps_are_those_of_the_released_code(version, changes, rng):
    """Loss, gradients, both networks, to rounding."""
    compare(version, changes, rng)


@pytest.mark.parametrize(
    ("version", "changes"),
    [
        (1, []),  # the target moves after the optimizer
        (1, ["propos.ema_after=loss", "propos.view_norm=joint"]),
        (2, []),  # statistics by view
        (2, ["propos.view_norm=joint", "propos.psl=mixed-view"]),  # nothing for empty clusters
    ],
)
def test_each_option_is_seen(version, changes, rng):
    with pytest.raises(AssertionError):
        compare(version, changes, rng)


# The two parts by themselves --------------------------------------------------------------------


def test_empty_clusters_keep_their_place_in_the_released_loss(rng):
    """Each adds e^-10 to every denominator, and nothing else."""
    online, target = (rng.normal(size=(9, 6)) for _ in range(2))
    online, target = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (online, target))
    valid = np.arange(9) % 3 > 0
    mu, mu_target = Prototypes(online, valid), Prototypes(target, valid)
    tau, losses = 0.08, []
    for c in np.flatnonzero(valid):
        own = online[c] @ target[c] / tau
        others = [online[c] @ online[j] / tau for j in np.flatnonzero(valid) if j != c]
        losses.append(np.log(np.exp([own, *others]).sum() + 3 * np.exp(-10.0)) - own)
    found = psl_released(mu, mu_target, temperature=tau)
    assert float(found) == pytest.approx(np.mean(losses), rel=1e-12)
    assert float(found) > float(psl_mixed_view(mu, mu_target, temperature=tau))
    full = Prototypes(online, np.ones(9, dtype=bool)), Prototypes(target, np.ones(9, dtype=bool))
    assert psl_released(*full, temperature=tau) == psl_mixed_view(*full, temperature=tau)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_joint_sub_batches_hold_both_views_of_their_images(count):
    net = network()
    plain, views = copy.deepcopy(net), torch.randn(2, 12, 1, 8, 8, dtype=torch.float64)
    found = in_sub_batches(net, net, views, count, joint=True)
    size, means = 12 // count, []
    for j in range(count):
        rows = slice(j * size, (j + 1) * size)
        expected = plain(views[:, rows].flatten(0, 1)).unflatten(0, (2, size))
        torch.testing.assert_close(found[:, rows], expected)
        means.append(plain.encoder[0](views[:, rows].flatten(0, 1)).mean((0, 2, 3)))
    merge_groups(net)
    layer = next(layer for layer in net.modules() if isinstance(layer, BatchNorm))
    # One pass, not two: running statistics move by a tenth.
    torch.testing.assert_close(layer.running_mean, 0.1 * torch.stack(means).mean(0))


def test_joint_statistics_of_the_whole_batch():
    net, views = network(), torch.randn(2, 6, 1, 8, 8, dtype=torch.float64)
    found = WholeBatch(ALONE, joint=True).online(net, views.unbind(), 6)
    torch.testing.assert_close(found, net(views.flatten(0, 1)).unflatten(0, (2, 6)))
    assert not torch.allclose(found, WholeBatch(ALONE).online(net, views.unbind(), 6))


def test_the_target_shuffles_rows_of_both_views():
    """Sub-batches of any rows; features come back in the order of the views."""
    net = network()
    passes = SubBatches(ALONE, [net], count=2, batch_size=12, key=3, joint=True)
    views = torch.randn(2, 12, 1, 8, 8, dtype=torch.float64)
    seen = []
    hook = net.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    found = passes.target(net, views.unbind(), 12, torch.tensor(5))
    hook.remove()
    # Image i of sub-batch j is row i * 2 + j of the pass.
    parts = seen[0].unflatten(0, (12, 2)).movedim(1, 0)
    rows = views.flatten(0, 1)
    at = [[int((rows == x).flatten(1).all(1).nonzero()) for x in part] for part in parts]
    assert sorted(at[0] + at[1]) == list(range(24)) != at[0] + at[1]
    assert any(i < 12 for i in at[0])
    assert any(i >= 12 for i in at[0])
    for part in at:
        torch.testing.assert_close(found.flatten(0, 1)[part], net(rows[part]))
