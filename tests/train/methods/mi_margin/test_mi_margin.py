"""MI + margin and its baselines against `printed_mi_margin`, and what their step may not do."""

import numpy as np
import pytest
import torch

from dualclust.algos.core.errors import UsageError
from dualclust.train.config.run import RunConfig, override
from dualclust.train.loop.optim import build_optimizer
from dualclust.train.methods.mi_margin import method as mi_margin
from dualclust.train.methods.mi_margin._baselines import split_labels, transport_labels
from dualclust.train.methods.mi_margin._seeds import draw_seeds
from dualclust.train.methods.mi_margin.method import MiMargin
from dualclust.train.networks.network import build_network
from tests.train import printed_mi_margin as printed

D, K, B = 5, 3, 9
LINEAR = (
    "network.name=none",
    "network.layers=1",
    f"network.out_dim={K}",
    f"heads.clusters=[{K}]",
    f"heads.target={K}",
    "assignment.lower=0",
    "assignment.upper=inf",
)


def make(*changes, n=40, dtype=torch.float64):
    config = override(RunConfig(method="mi_margin"), [*LINEAR, *changes])
    network = build_network(config.network, (D,), seed=config.seed).to(dtype)
    return MiMargin(config, network.train(), n)


CASES = {
    "mi_margin": ["mi_margin.balance=10.0", "mi_margin.newton_steps=20"],
    "until solved": ["mi_margin.newton_steps=0", "mi_margin.balance=2.0", "mi_margin.beta=0.7"],
    "one view": ["mi_margin.average=1", "mi_margin.balance=2.0", "mi_margin.floor=0.01"],
    "extra view": ["mi_margin.average=0", "mi_margin.extra_weight=0.4", "mi_margin.balance=2.0"],
    "weak": ["mi_margin.supervised=0.2", "mi_margin.supervised_weight=0.3"],
    "mi_d": ["mi_margin.objective=mi_d"],
    "iic": ["mi_margin.objective=iic"],
    "iic, other weight": ["mi_margin.objective=iic", "mi_margin.entropy_weight=1.5"],
    "sela": ["mi_margin.objective=sela"],
    "mi_adm": ["mi_margin.objective=mi_adm", "mi_margin.smoothing=0.6", "mi_margin.rounds=80"],
    "seeds": ["mi_margin.objective=seeds", "mi_margin.supervised=0.5"],
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("changes", CASES.values(), ids=CASES)
def test_four_steps_are_the_printed_equations(changes, dtype, rng):
    """Loss, labels and the gradients of v and its bias, with a step of the weights in between."""
    accuracy = 1e-6 if dtype == torch.float64 else 1e-4
    method = make("mi_margin.margin_weight=0.02", "mi_margin.tol=1e-12", *changes, dtype=dtype)
    classes = torch.from_numpy(rng.integers(0, K, size=40))
    if method.wants_labels:
        method.take_labels(classes)
    method.labels.copy_(classes)
    head = method.head
    p = printed.Printed(
        method.options, head.weight.detach().double().numpy(), head.bias.detach().double().numpy()
    )
    seeds = np.full(40, -1) if method.seeds is None else method.seeds.numpy()
    gone = 0.0
    for _ in range(4):
        ids = rng.permutation(40)[:B]
        base = 2.0 * rng.normal(size=(B, D))
        x = [base + 0.5 * rng.normal(size=base.shape) for _ in method.views]
        stored = method.labels[0, ids].numpy().copy()
        loss = method.step(torch.from_numpy(ids), tuple(torch.tensor(v, dtype=dtype) for v in x))
        y, expected, dv, dc = p.step(x, stored, seeds[ids])
        assert loss.item() == pytest.approx(expected, rel=accuracy)
        method.network.zero_grad()
        loss.backward()
        for found, wanted in ((head.weight.grad, dv), (head.bias.grad, dc)):
            error = np.linalg.norm(found.double().numpy() - wanted)
            assert error <= accuracy * np.linalg.norm(dv)
        if method.options.objective in ("mi_margin", "mi_adm", "sela"):
            np.testing.assert_array_equal(method.labels[0, ids].numpy(), y.argmax(1))
        with torch.no_grad():
            head.weight -= 0.5 * head.weight.grad
            head.bias -= 0.5 * head.bias.grad
        p.v, p.c = p.v - 0.5 * dv, p.c - 0.5 * dc
        gone += np.abs(0.5 * dv).sum()
    assert gone > 0.1


def test_the_gradient_is_that_of_the_solved_energy(rng):
    """Envelope: finite differences of min_y E, solved anew at each end by the printed EM."""
    exact = "mi_margin.tol=1e-13", "mi_margin.newton_steps=20", "mi_margin.margin_weight=0"
    method = make("mi_margin.balance=3.0", "mi_margin.average=1", *exact)
    x = 2.0 * rng.normal(size=(B, D))
    loss = method.step(torch.arange(B), (torch.from_numpy(x),))
    loss.backward()
    v, c = (t.detach().numpy().copy() for t in (method.head.weight, method.head.bias))

    def solved(v):
        sigma = printed.softmax(x @ v.T + c)
        sigma = (1 - 1e-6) * sigma + 1e-6 / K
        return printed.energy(sigma, printed.em(sigma, 3.0), 3.0)

    for at in ((0, 0), (1, 3), (2, 4)):
        ends = []
        for sign in (1, -1):
            moved = v.copy()
            moved[at] += sign * 1e-5
            ends.append(solved(moved))
        slope = (ends[0] - ends[1]) / 2e-5
        assert method.head.weight.grad[at].item() == pytest.approx(slope, rel=1e-5, abs=1e-8)


def test_labels_stand_still_under_the_printed_update_at_the_published_balance(rng, monkeypatch):
    sigma = printed.softmax(2.0 * rng.normal(size=(60, K)))
    exact = "mi_margin.floor=0", "mi_margin.tol=1e-13", "mi_margin.newton_steps=20"
    method = make(*exact, "mi_margin.average=1", n=60)
    seen, whole = [], mi_margin.pseudo_labels

    def spy(*args, **kwargs):
        seen.append(whole(*args, **kwargs))
        return seen[-1]

    monkeypatch.setattr(mi_margin, "pseudo_labels", spy)
    method._log_posterior = lambda rows: rows
    method.step(torch.arange(60), (torch.from_numpy(np.log(sigma)),))
    y = np.asarray(seen[0].labels)
    s = y / y.sum(axis=0)
    again = (sigma + 100 * 60 / K * s) / (1 + 100 * 60 / K * s.sum(axis=1))[:, None]
    np.testing.assert_allclose(again, y, rtol=0, atol=1e-8)
    assert np.abs(y - sigma).max() > 1e-2


def test_split_labels_are_optimal(rng):
    """KKT: tau ln y - ln sigma + w ln(k mean y) is the same for all clusters of a sample."""
    log_p = np.log(printed.softmax(3.0 * rng.normal(size=(50, 6)) + rng.normal(size=6)))
    y, error = split_labels(torch.from_numpy(log_p), balance=1.3, smoothing=0.5, rounds=80)
    y = y.numpy()
    kkt = 0.5 * np.log(y) - log_p + 1.3 * np.log(6 * y.mean(axis=0))
    assert np.ptp(kkt, axis=1).max() < 1e-6
    assert float(error) < 1e-8
    few = split_labels(torch.from_numpy(log_p), balance=1.3, smoothing=0.5, rounds=2)
    assert float(few.error) > 1e-4  # the error says so where it is not solved


def test_transport_labels_use_clusters_evenly(rng):
    p = printed.softmax(rng.normal(size=(600, 4)) + np.array([3.0, 0, 0, 0]))
    labels, error = transport_labels(torch.from_numpy(p), sharpness=25.0)
    plan = p**25.0
    for _ in range(5000):
        plan *= 150 / plan.sum(axis=0)
        plan /= plan.sum(axis=1, keepdims=True)
    np.testing.assert_array_equal(labels.numpy(), plan.argmax(axis=1))
    assert float(error) <= 1e-6
    sizes = np.bincount(labels.numpy(), minlength=4)
    assert sizes.min() > 120
    assert np.bincount(p.argmax(axis=1), minlength=4).max() > 400


def test_seeds_are_a_share_of_each_class():
    labels = torch.arange(200) % 4
    labels[0:100] = 0
    seeds = draw_seeds(labels, 0.1, n_clusters=4, generator=torch.Generator().manual_seed(0))
    given = seeds >= 0
    assert torch.equal(seeds[given], labels[given])
    for c in range(4):
        assert int((seeds == c).sum()) == max(1, round(0.1 * int((labels == c).sum())))
    with pytest.raises(UsageError, match=r"heads\.clusters=\[4\]"):
        draw_seeds(labels, 0.1, n_clusters=3, generator=torch.Generator())


def test_gaps_are_reported_for_each_epoch(rng):
    method = make("mi_margin.newton_steps=1")
    x = tuple(torch.from_numpy(4.0 * rng.normal(size=(B, D))) for _ in method.views)
    for _ in range(3):
        method.step(torch.arange(B), x)
    report = method.report()
    assert 0 < report["label_gap_mean"] <= report["label_gap_max"] * (1 + 1e-12)
    assert report["label_gap_max"] > 1e-6  # one step does not solve it, and the report says so
    method.begin_epoch(1)
    assert method.report() == {}
    solved = make("mi_margin.newton_steps=20")
    solved.step(torch.arange(B), x)
    assert 0 <= solved.report()["label_gap_max"] <= 1e-6


def test_the_last_layer_has_its_own_rate():
    method = make("mi_margin.head_lr=0.1", "optim.name=adam", "optim.lr=1e-5")
    groups = method.parameter_groups()
    assert [len(group.params) for group in groups] == [0, 2]
    assert groups[1].scale == pytest.approx(1e4)
    config = override(method.config, ["network.name=mlp"])
    network = build_network(config.network, (D,), seed=0)
    optimizer = build_optimizer(config.optim, MiMargin(config, network, 40).parameter_groups())
    assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([1e-5, 0.1])


def test_prediction_is_the_likeliest_cluster_inside_the_bounds(rng):
    rows = torch.from_numpy(printed.softmax(rng.normal(size=(40, K)) + np.array([2.0, 0, 0])))
    free = make().predict(rows)
    assert torch.equal(free.assignment.labels, rows.argmax(1))
    even = make("assignment.lower=0.9", "assignment.upper=1.1").predict(rows)
    assert int(even.assignment.counts.min()) >= 12
    assert free.centers.shape == (K, D)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["heads.clusters=[3, 4]"], r"learns one head.*heads\.clusters=\[3\]"),
        (["network.layers=2"], "linear classifier behind the encoder.*layers=1"),
        (["network.last_norm=true"], "linear classifier behind the encoder.*last_norm=true"),
        (["network.predictor=4"], "linear classifier behind the encoder.*predictor=4"),
        (["network.out_dim=7"], "network.out_dim must be heads.target=3"),
        (["mi_margin.objective=iic", "mi_margin.average=1"], "average must be 2"),
        (["mi_margin.objective=mi_d", "mi_margin.extra_weight=1"], "extra_weight"),
        (["mi_margin.objective=seeds"], "supervised"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_said(changes, message):
    with pytest.raises(UsageError, match=message):
        make(*changes)
