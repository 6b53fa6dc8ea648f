"""How a run of ProPos begins and goes on: its predictor, its gate, its epochs and its state."""

import copy

import pytest
import torch
from torch import nn

from dualclust.train.loop.loader import _split
from dualclust.train.methods.propos._networks import init_predictor
from dualclust.train.networks.normalization import BatchNorm, group_statistics
from tests.train.methods.propos.test_propos import LABELS, B, D, N, P, make


def predictor_of(seed):
    layers = nn.Sequential(nn.Linear(4, 30), nn.ReLU(), nn.Linear(30, 4))
    init_predictor(layers, seed)
    return torch.cat([p.detach().flatten() for p in layers.parameters()])


def test_the_first_predictor_is_a_function_of_the_seed_alone():
    """Whatever else the process has drawn; and nothing that it draws later changes."""
    torch.manual_seed(1)
    first = predictor_of(5)
    torch.manual_seed(2)
    before = torch.get_rng_state()
    layer = nn.Linear(4, 4)
    init_predictor(nn.Sequential(), 5)
    torch.set_rng_state(before)
    again = predictor_of(5)
    assert torch.equal(first, again)
    assert not torch.equal(first, predictor_of(6))
    state = torch.get_rng_state()
    init_predictor(layer, 5)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(("frozen", "warmup"), [(0, 0), (0, 1), (1, 0), (1, 2)])
def test_scattering_and_noise_begin_after_frozen_and_warm_up_epochs(frozen, warmup):
    """The gate of the first epoch stands before the epoch begins."""
    method = make(f"optim.frozen_epochs={frozen}", f"optim.warmup_epochs={warmup}", "epochs=5")
    assert float(method.gate) == (frozen + warmup == 0)
    for epoch in range(5):
        method.begin_epoch(epoch)
        assert float(method.gate) == (epoch >= frozen + warmup)


def test_no_label_has_changed_before_the_first_epoch():
    assert make().report() == {"churn": 0.0}


@pytest.mark.parametrize("batch_size", [2, 3, 5, 12, 20])
@pytest.mark.parametrize("n", [1, 4, 5, 7, 13])
def test_the_schedule_counts_the_batches_that_the_loop_makes(n, batch_size):
    changes = [f"batch_size={batch_size}", "heads.clusters=[2]", "heads.target=2", "epochs=3"]
    method = make(*changes, n=n)
    assert method.total_steps == 3 * len(_split(torch.arange(n), batch_size))


def test_as_many_images_as_a_whole_batch_are_enough():
    changes = ["propos.batch_norm=shuffled", "propos.sub_batches=2", f"batch_size={N}"]
    method = make(*changes)
    assert method.total_steps == method.config.epochs
    assert method.order(0).sort().values.tolist() == list(range(N))


def test_an_epoch_starts_from_the_mean_of_the_views_statistics():
    """Each view has its own within an epoch, whether or not a state is saved between two."""
    method = make(encoder=nn.Sequential(nn.Linear(P, D), BatchNorm(D)))
    method.begin_epoch(0)
    views = torch.randn(2, B, P, dtype=torch.float64)
    views[1] += 3.0
    method.step(torch.arange(B), views.unbind())
    networks = method.online_network, method.target_network
    layers = [network.encoder[1] for network in networks]
    means = [layer.group_mean.clone() for layer in layers]
    assert all(len(mean) == 2 and not torch.allclose(*mean) for mean in means)
    method.begin_epoch(1)
    for network, layer, mean in zip(networks, layers, means, strict=True):
        assert group_statistics(network) == {}
        torch.testing.assert_close(layer.running_mean, mean.mean(0))


def test_without_noise_features_are_as_they_are_or_on_the_sphere():
    """Sigma 0: the predictor sees f(x) as the network gives it, or f(x) / ||f(x)||."""
    q = 5.0 * torch.randn(2, B, D, dtype=torch.float64)
    plain = make("propos.sigma=0", "propos.noise=raw")
    unit = q / q.norm(dim=2, keepdim=True)
    assert torch.equal(plain._positive_samples(q, unit), q)
    sphere = make("propos.sigma=0", "propos.noise=sphere")
    assert torch.equal(sphere._positive_samples(q, unit), unit)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_a_loss_is_of_the_kind_of_the_network(dtype):
    method = make("propos.queue=15", dtype=dtype)
    method.begin_epoch(1)
    views = torch.randn(2, B, P, dtype=dtype).unbind()
    loss = method.step(torch.arange(B), views)
    assert loss.dtype == dtype
    assert loss.requires_grad


def test_a_state_goes_over_to_another_run():
    """All of it: networks, labels, steps and queue; a state that lacks something is refused."""
    encoder = nn.Sequential(nn.Linear(P, D), BatchNorm(D))
    method = make("propos.queue=15", encoder=copy.deepcopy(encoder))
    method.begin_epoch(1)
    method.step(torch.arange(B), torch.randn(2, B, P, dtype=torch.float64).unbind())
    with torch.no_grad():
        for network in (method.online_network, method.target_network):
            for p in network.parameters():
                p.normal_()
    method.after_step()
    method.labels[0] = (LABELS + 1) % 4
    state = copy.deepcopy(method.state_dict())
    other = make("propos.queue=15", encoder=copy.deepcopy(encoder))
    other.load_state_dict(copy.deepcopy(state))
    torch.testing.assert_close(other.state_dict(), state, rtol=0, atol=0)
    assert (int(other.steps), int(other.queue.pushed)) == (1, 2 * B)
    assert not torch.equal(*(next(iter(state[key].values())) for key in ("online", "target")))
    for key in ("online", "target"):
        lacking = copy.deepcopy(state)
        del lacking[key]["encoder.0.weight"]
        with pytest.raises(RuntimeError, match=r"encoder\.0\.weight"):
            other.load_state_dict(lacking)


def test_joint_sub_batches_of_one_are_the_whole_batch_together():
    """With one sub-batch, another order changes nothing: both settings are one mean over all."""
    losses = []
    for mode in ("global", "shuffled"):
        for together in ("joint", "each"):
            encoder = nn.Sequential(nn.Linear(P, D), BatchNorm(D))
            nn.init.eye_(encoder[0].weight)
            nn.init.zeros_(encoder[0].bias)
            method = make(
                f"propos.batch_norm={mode}",
                f"propos.view_norm={together}",
                "propos.sub_batches=1",
                encoder=encoder,
            )
            method.begin_epoch(1)
            draws = torch.Generator().manual_seed(4)
            views = torch.randn(2, B, P, generator=draws, dtype=torch.float64)
            views[1] += 1.0
            losses.append(float(method.step(torch.arange(B), views.unbind()).detach()))
    assert losses[2:] == pytest.approx(losses[:2], rel=1e-9)
    assert losses[0] != pytest.approx(losses[1], rel=1e-3)
