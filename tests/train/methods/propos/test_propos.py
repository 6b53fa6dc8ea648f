"""The step of ProPos against its equations in NumPy loops, and what else it promises.

`printed_propos.Printed` is the transcription.
"""

import numpy as np
import pytest
import torch
from torch import nn

from dualclust.algos.core.errors import UsageError
from dualclust.algos.core.random import normal_noise
from dualclust.train.config.run import ExecutionConfig, RunConfig, override
from dualclust.train.loop.execution import Execution
from dualclust.train.loop.optim import build_optimizer
from dualclust.train.methods.base import Batch
from dualclust.train.methods.propos.method import ProPos
from dualclust.train.networks.network import build_network
from dualclust.train.state.seeding import generator
from tests.train.printed_propos import Printed, byol_loss

N, P, D, K, B = 12, 6, 4, 4, 6
LR, MOMENTUM, DECAY = 0.1, 0.9, 1e-2
# Stronger than published, so that each part is seen in the loss.
STRONG = ["propos.psl_weight=0.7", "propos.sigma=0.3", "propos.ema=0.8"]
BASE = [
    f"heads.clusters=[{K}]",
    f"heads.target={K}",
    "assignment.lower=0",
    "assignment.upper=inf",
    "epochs=2",
    f"batch_size={B}",
    "network.layers=0",
    "network.predictor=5",
    f"optim.lr={LR}",
    f"optim.momentum={MOMENTUM}",
    f"optim.weight_decay={DECAY}",
    "optim.frozen_epochs=0",
    "optim.warmup_epochs=1",
]
# Cluster 2 has no image at all; in the first batch of four, cluster 3 has none.
LABELS = torch.tensor([0, 0, 1, 1, 0, 1, 3, 3, 0, 1, 0, 3])


def make(*changes, dtype=torch.float64, encoder=None, n=N):
    """ProPos on vectors of length P, with a linear encoder and no projector."""
    config = override(RunConfig(method="propos"), [*BASE, *STRONG, *changes])
    with torch.random.fork_rng():
        torch.manual_seed(0)
        encoder = encoder or nn.Linear(P, D)
    network = build_network(config.network, (P,), seed=0, encoder=encoder).to(dtype)
    method = ProPos(config, network, n)
    method.labels[0] = LABELS[torch.arange(n) % len(LABELS)]
    draws = torch.Generator().manual_seed(1)
    with torch.no_grad():  # weights of 0.01 would ask for too much of differences
        for layer in method.online_network.predictor:
            for p in layer.parameters():
                p.copy_(0.5 * torch.randn(p.shape, generator=draws, dtype=torch.float64) + 0.5)
    return method


def printed_of(method):
    theta = {
        name: p.detach().double().numpy().copy()
        for name, p in method.online_network.named_parameters()
    }
    return Printed(theta, method.labels[0].numpy(), K, method.options, method.total_steps)


def noise_of(method):
    """The documented stream: named "noise", numbered by the step."""
    key = generator(method.config.seed, "noise").initial_seed()
    drawn = normal_noise((2, B, D), key=key, stream=int(method.steps), xp=torch)
    return drawn.numpy()


def views_of(rng, ids):
    base = np.random.default_rng(5).normal(size=(N, P))[ids]
    return [base + 0.3 * rng.normal(size=base.shape) for _ in (0, 1)]


def take_step(method, optimizer, ids, views):
    execution = Execution(ExecutionConfig(), torch.device("cpu"))
    views = tuple(torch.from_numpy(view).to(method.dtype) for view in views)
    return float(execution.train_step(method, optimizer, Batch(torch.from_numpy(ids), views)))


def close(found, expected, tol):
    """Relative error of a tensor, in its largest entry."""
    gap = np.abs(found.detach().double().numpy() - expected).max()
    assert gap <= tol * max(np.abs(expected).max(), 1e-3)


CASES = {
    "released": [],
    "same view": ["propos.psl=same-view"],
    "cross view": ["propos.psl=cross-view"],
    "uniformity": ["propos.psl=uniformity"],
    "noise on the sphere": ["propos.noise=sphere"],
    "queue": ["propos.queue=15"],
    "cosine average": ["propos.ema_schedule=cosine"],
    "temperature, pace": ["propos.temperature=0.2", "propos.predictor_scale=2.0"],
    "byol": ["propos.psl_weight=0", "propos.sigma=0"],
}


@pytest.mark.parametrize(
    ("name", "dtype", "tol"),
    [(name, torch.float64, 1e-6) for name in CASES] + [("queue", torch.float32, 1e-4)],
)
def test_two_epochs_are_the_printed_equations(name, dtype, tol, rng):
    """Losses, gradients, both networks; the first epoch is warm-up, the second is not."""
    method = make(*CASES[name], dtype=dtype)
    printed = printed_of(method)
    optimizer = build_optimizer(method.config.optim, method.parameter_groups())
    for epoch in (0, 1):
        method.begin_epoch(epoch)
        for ids in np.split(np.arange(N), 2):
            views, noise = views_of(rng, ids), noise_of(method)
            if name == "byol":
                plain = byol_loss(printed.theta, printed.average, views)
            loss = take_step(method, optimizer, ids, views)
            expected, grads = printed.step(
                ids, views, noise, warm=epoch == 1, lr=LR, momentum=MOMENTUM, decay=DECAY
            )
            assert loss == pytest.approx(expected, rel=tol)
            if name == "byol":
                assert loss == pytest.approx(plain, rel=tol)
            for key, p in method.online_network.named_parameters():
                close(p.grad, grads[key], tol)
                close(p, printed.theta[key], tol)
            for key, p in method.target_network.named_parameters():
                close(p, printed.average[key], tol)
    if method.queue is not None:
        rows = np.array([row for row, _ in printed.queue])
        at = np.arange(int(method.queue.pushed) - 15, int(method.queue.pushed)) % 15
        close(method.queue.rows[at], rows, tol)
        assert method.queue.ids[at].tolist() == [i for _, i in printed.queue]


@pytest.mark.parametrize("change", ["propos.psl_weight=0", "propos.sigma=0"])
def test_scattering_and_noise_wait_for_the_warm_up(change, rng):
    ids = np.arange(B)
    views = tuple(map(torch.from_numpy, views_of(rng, ids)))

    def loss(epoch, *changes):
        method = make(*changes)
        method.begin_epoch(epoch)
        return float(method.step(torch.from_numpy(ids), views).detach())

    both_off = loss(0, "propos.psl_weight=0", "propos.sigma=0")
    assert loss(0) == loss(0, change) == both_off
    assert len({loss(1), loss(1, change), both_off}) == 3


def test_the_target_learns_by_the_average_alone(rng):
    """After the optimizer's step; with running statistics of its own."""
    method = make(encoder=nn.Sequential(nn.Linear(P, D), nn.BatchNorm1d(D)))
    optimizer = build_optimizer(method.config.optim, method.parameter_groups())
    trained = {id(p) for group in optimizer.param_groups for p in group["params"]}
    assert trained == {id(p) for p in method.online_network.parameters()}
    method.begin_epoch(1)
    before = {k: v.clone() for k, v in method.target_network.state_dict().items()}
    old = {k: v.clone() for k, v in method.online_network.state_dict().items()}
    take_step(method, optimizer, np.arange(B), views_of(rng, np.arange(B)))
    after, new = method.target_network.state_dict(), method.online_network.state_dict()
    for name, p in method.target_network.named_parameters():
        assert not p.requires_grad
        assert p.grad is None
        moved = 0.8 * before[name] + 0.2 * new[name]
        torch.testing.assert_close(after[name], moved, rtol=1e-12, atol=1e-15)
        assert not torch.allclose(moved, 0.8 * before[name] + 0.2 * old[name], rtol=1e-6)
    mean = "encoder.1.running_mean"
    averaged = 0.8 * before[mean] + 0.2 * new[mean]
    assert not torch.allclose(after[mean], before[mean])
    assert not torch.allclose(after[mean], averaged, rtol=1e-3)


def test_the_momentum_reaches_one_at_the_last_step():
    method = make("propos.ema=0.9", "propos.ema_schedule=cosine")
    found, n_steps = [], int(method.total_steps)
    for _ in range(n_steps):
        method.after_step()
        found.append(float(method.ema_momentum()))
    t = np.arange(1, n_steps + 1) / n_steps
    assert n_steps == 4
    np.testing.assert_allclose(found, 1 - 0.1 * (1 + np.cos(np.pi * t)) / 2, rtol=1e-12)
    assert found[-1] == 1


@pytest.mark.parametrize("labels", [[0] * N, [2] * N, list(range(4)) * 3], ids=str)
def test_empty_clusters_take_no_part(labels, rng):
    """One cluster has nothing to be scattered from: the loss is that without scattering."""
    ids, views = np.arange(B), None
    losses = {}
    for weight in (0.7, 0.0):
        method = make(f"propos.psl_weight={weight}", "propos.queue=20")
        method.labels[0] = torch.tensor(labels)
        method.begin_epoch(1)
        views = views or tuple(map(torch.from_numpy, views_of(rng, ids)))
        loss = method.step(torch.from_numpy(ids), views)
        loss.backward()
        losses[weight] = float(loss.detach())
        assert all(p.grad.isfinite().all() for p in method.online_network.parameters())
    alone = len(set(labels)) == 1
    assert (losses[0.7] == pytest.approx(losses[0.0], abs=1e-12)) == alone


def test_the_queue_bears_the_labels_of_now(rng):
    """Features that were pushed under old labels count for the clusters of the new ones."""
    ids = np.arange(B)
    first, second = (tuple(map(torch.from_numpy, views_of(rng, ids))) for _ in (0, 1))
    losses = []
    for early in ([0, 1, 3, 0, 1, 3], [3, 3, 0, 0, 1, 1]):
        method = make("propos.queue=50", "propos.sigma=0")
        method.begin_epoch(1)
        method.labels[0, :B] = torch.tensor(early)
        method.step(torch.from_numpy(ids), first)
        method.labels[0, :B] = torch.tensor([0, 1, 3, 0, 1, 3])
        losses.append(float(method.step(torch.from_numpy(ids), second).detach()))
        assert int(method.queue.pushed) == 4 * B
        assert (method.queue.ids >= 0).sum() == 4 * B
    assert losses[0] == losses[1]
    without = make("propos.sigma=0")
    without.labels[0, :B] = torch.tensor([0, 1, 3, 0, 1, 3])
    without.begin_epoch(1)
    assert float(without.step(torch.from_numpy(ids), second).detach()) != losses[0]


# The E-step, the order of an epoch, errors ------------------------------------------------------


def test_labels_are_made_every_r_epochs_by_the_target_network(rng):
    method = make("propos.reassign=3", "epochs=8")
    data = torch.from_numpy(rng.normal(size=(N, P)))
    due = []

    def apply_to_all(function, **_):
        due.append(method.epoch)
        assert not method.target_network.training
        assert method.online_network.training
        return function(data)

    for epoch in range(8):
        method.begin_epoch(epoch, apply_to_all)
    assert due == [0, 3, 6]
    assert method.target_network.training
    x = torch.nn.functional.normalize(method.target_network(data).detach(), dim=1)
    labels, centers = method.cluster(x)
    assert torch.equal(method.labels[0], labels)
    assert torch.equal(method.target_centers(x), centers)
    # Every label is the cluster whose center is nearest in angle, and centers are directions.
    assert torch.equal(labels, (x @ centers.T).argmax(dim=1))
    for k in range(K):
        mean = torch.nn.functional.normalize(x[labels == k].sum(0), dim=0)
        torch.testing.assert_close(centers[k], mean)


def test_more_starts_are_never_worse(rng):
    x = torch.nn.functional.normalize(torch.from_numpy(rng.normal(size=(200, 3))), dim=1)
    values = []
    for n in (1, 2, 5, 20):
        labels, centers = make(f"propos.n_init={n}", n=200).cluster(x)
        values.append(float((x * centers[labels]).sum()))
    assert values == sorted(values)
    assert values[-1] > values[0]


def test_bounds_hold_in_the_labels_too(rng):
    x = torch.nn.functional.normalize(torch.from_numpy(rng.normal(size=(200, 3)) + 1), dim=1)
    free, bound = make(n=200), make("assignment.lower=0.9", "assignment.upper=1.1", n=200)
    for method, inside in ((free, False), (bound, True)):
        method.begin_epoch(0, lambda function, **_: x)
        sizes = method.training_sizes()
        assert (45 <= int(sizes.min()) and int(sizes.max()) <= 55) == inside


def test_a_balanced_epoch_draws_every_cluster_equally_often():
    """Chi-square of 100 images' counts; with another seed it would fail once in 10^6 times."""
    from scipy import stats

    method = make("propos.resample=true", n=100)
    method.labels[0] = torch.tensor([0] * 70 + [1] * 24 + [3] * 6)  # cluster 2 is empty
    drawn = torch.cat([method.order(epoch) for epoch in range(300)])
    assert drawn.shape == (30_000,)
    counts = np.bincount(drawn, minlength=100)
    sizes = np.bincount(method.labels[0], minlength=4)[method.labels[0]]
    expected = 30_000 / (3 * sizes)
    limit = stats.chi2.isf(1e-6, df=99)
    assert stats.chisquare(counts, expected).statistic < limit
    assert stats.chisquare(counts, np.full(100, 300)).statistic > limit
    assert torch.equal(method.order(7), method.order(7))
    assert not torch.equal(method.order(7), method.order(8))
    assert make().order(0) is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["heads.clusters=[4, 8]"], "ProPos has one head"),
        (["network.predictor=0"], "needs a predictor"),
        (["propos.batch_norm=shuffled", "batch_size=7", "propos.sub_batches=2"], "a multiple of"),
        (["propos.batch_norm=shuffled", "batch_size=4", "propos.sub_batches=4"], "two images"),
        (["propos.batch_norm=shuffled", "batch_size=16"], "make none of 16"),
    ],
)
def test_what_cannot_be_is_said(changes, message):
    with pytest.raises(UsageError, match=message):
        make(*changes)


def test_the_predictor_starts_small():
    config = override(RunConfig(method="propos"), [*BASE, "network.predictor=400"])
    network = build_network(config.network, (P,), encoder=nn.Linear(P, 200))
    first, last = (ProPos(config, network, N).online_network.predictor[i] for i in (0, 3))
    for layer in (first, last):
        # Standard error of the deviation: 0.01 / sqrt(2 * 80,000); five of them.
        assert float(layer.weight.detach().std()) == pytest.approx(0.01, abs=5 * 2.5e-5)
    assert first.bias is None  # idle before batch normalization
    assert (last.bias == 0).all()
