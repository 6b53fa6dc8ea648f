"""The step of SeCu against a transcription of its equations in NumPy loops, and its limits.

`printed_secu.Printed` is the transcription.
"""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from dualclust.algos.core.errors import InfeasibleBoundsError, InvalidValueError
from tests.problems import cone_features
from tests.train.printed_secu import Printed
from tests.train.secu_methods import D, compare_state, draw_views, make, on_features

CASES = {
    "default": [],
    "lower only": ["assignment.upper=inf"],
    "upper only": ["assignment.lower=0"],
    "loose": ["assignment.lower=0.3", "assignment.upper=2.5"],
    "temperatures": ["loss.temperature=0.3", "loss.center_temperature=1.0", "loss.tau=0.7"],
    "one-hot": ["loss.tau=1.0"],
    "soft": ["loss.tau=0.0"],
    "slow": ["assignment.kappa=0.2", "assignment.kappa_floor=0.05"],
    "published": ["assignment.steps=secu-cifar", "assignment.upper=inf"],
    "entropy": ["secu.constraint=entropy"],
    "entropy, published first pass": ["secu.constraint=entropy", "secu.first_pass=published"],
    "weak entropy": ["secu.constraint=entropy", "secu.alpha=0.02"],
    "predictor": ["network.predictor=8"],
    "predictor, entropy": ["network.predictor=8", "secu.constraint=entropy"],
}


@pytest.mark.parametrize("changes", CASES.values(), ids=CASES)
def test_three_epochs_are_the_printed_equations(changes, rng):
    """Losses, labels, prices and both gradients, with center updates between the steps."""
    method = on_features(make(changes=changes))
    printed = Printed(method)
    relabeled, positive, terms = 0, 0, 4 if method.config.network.predictor else 2
    for epoch in range(3):
        method.begin_epoch(epoch)
        printed.begin_epoch(epoch)
        for ids in np.array_split(rng.permutation(120), 4):
            before = printed.labels[1][ids].copy()
            x = draw_views(rng, ids, terms=terms)
            leaf = [torch.tensor(view, requires_grad=True) for view in x]
            loss = method.step(torch.from_numpy(ids), tuple(leaf))
            method.centers.grad = None
            loss.backward()
            expected = printed.step(ids, x)
            assert loss.item() == pytest.approx(expected.loss, rel=1e-10)
            compare_state(method, printed)
            for view in range(terms):
                np.testing.assert_allclose(
                    leaf[view].grad.numpy(), expected.dx[view], rtol=1e-8, atol=1e-13
                )
            for head, k in enumerate(printed.k):
                found = method.centers.grad[head].numpy()
                np.testing.assert_allclose(found[:k], expected.dw[head], rtol=1e-8, atol=1e-13)
                assert (found[k:] == 0).all()
            with torch.no_grad():
                method.centers -= 5.0 * method.centers.grad
            for w, d in zip(printed.w, expected.dw, strict=True):
                w -= 5.0 * d
            relabeled += int((printed.labels[1][ids] != before).sum()) if epoch else 0
            positive += sum(int((rho > 0).sum()) for rho in printed.rho + printed.rho_up)
    positive += printed.moved
    # The comparison has seen old labels that differ from new ones, and prices at work.
    assert relabeled > 10
    assert positive > 10


def test_bounds_without_slack_have_one_signed_price(rng):
    method = on_features(
        make((2, 4, 8), n=64, changes=["assignment.lower=1.0", "assignment.upper=1.0"])
    )
    printed = Printed(method)
    for epoch in range(2):
        method.begin_epoch(epoch)
        printed.begin_epoch(epoch)
        for ids in np.array_split(rng.permutation(64), 4):
            x = draw_views(rng, ids)
            loss = method.step(torch.from_numpy(ids), tuple(torch.from_numpy(x)))
            assert loss.item() == pytest.approx(printed.step(ids, x).loss, rel=1e-10)
            compare_state(method, printed)
    assert (method.heads.duals.lower < 0).any()
    assert (method.heads.duals.upper == 0).all()


def term_features(network, views):
    """Unit features of each view in a pass of its own, then those of their predictions."""
    rows = [network(view) for view in views]
    if network.predictor is not None:
        rows += [network.predictor(row) for row in rows]
    return torch.stack([F.normalize(row, dim=1) for row in rows])


VARIANTS = {
    "size": [],
    "entropy": ["secu.constraint=entropy"],
    "predictor": ["network.predictor=8"],
    "predictor, entropy": ["network.predictor=8", "secu.constraint=entropy"],
}


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
def test_a_network_in_float32_gives_the_loss_of_its_features(changes, rng):
    """The features of the network, float32 scores, real optimizer steps, an epoch change."""
    method = make(changes=["loss.temperature=0.3", "loss.center_temperature=0.3", *changes])
    printed = Printed(method)
    parameters = [p for group in method.parameter_groups() for p in group.params]
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    images = torch.randn(120, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    for epoch in range(2):
        method.begin_epoch(epoch)
        printed.w = [
            method.centers.detach()[h, :k].double().numpy().copy() for h, k in enumerate(printed.k)
        ]
        printed.begin_epoch(epoch)
        for ids in torch.from_numpy(rng.permutation(120)).split(40):
            views = images[ids], images[ids] + 0.3
            with torch.no_grad():
                x = term_features(method.network, views).double().numpy()
            for head, k in enumerate(printed.k):
                printed.w[head] = method.centers.detach()[head, :k].double().numpy().copy()
            loss = method.step(ids, views)
            expected = printed.step(ids.numpy(), x)
            assert loss.item() == pytest.approx(expected.loss, rel=1e-5)
            compare_state(method, printed)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


# Where gradients go ----------------------------------------------------------------------------


def gradients(changes=(), epoch=1):
    """Gradients of one step of a fresh method, and the method."""
    method = make(changes=changes)
    method.begin_epoch(epoch)
    images = torch.randn(24, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    ids = torch.arange(24)
    loss = method.step(ids, (images, images + 0.1))
    loss.backward()
    network = torch.cat([p.grad.reshape(-1) for p in method.network.parameters()])
    return method, network, method.centers.grad, loss.detach()


def test_the_encoder_learns_from_the_representation_loss_alone():
    _, network, centers, loss = gradients()
    _, same_network, other_centers, other = gradients(["loss.center_temperature=1.0"])
    assert torch.equal(network, same_network)
    assert not torch.equal(centers, other_centers)
    assert other != loss
    assert network.abs().sum() > 0


@pytest.mark.parametrize("change", ["loss.temperature=1.0", "loss.tau=0.9"])
def test_the_centers_learn_from_the_center_loss_alone(change):
    _, network, centers, loss = gradients()
    _, other_network, same_centers, other = gradients([change])
    assert torch.equal(centers, same_centers)
    assert not torch.equal(network, other_network)
    assert other != loss


def test_a_center_learns_nothing_from_samples_of_others():
    method, _, gradient, _ = gradients()
    for head, k in enumerate(method.config.heads.clusters):
        used = torch.bincount(method.labels[head, :24], minlength=k) > 0
        assert (gradient[head, :k][used].abs().sum(dim=1) > 0).all()
        assert (gradient[head, :k][~used] == 0).all()
    assert not method.snapshot.requires_grad
    assert not method.heads.duals.lower.requires_grad


def test_gradients_of_the_centers_are_those_of_finite_differences(rng):
    """Moves one center: the loss of its own samples follows, with the other centers held."""
    method = on_features(make(changes=["loss.center_temperature=0.3"]))
    ids, x = torch.arange(30), tuple(torch.from_numpy(draw_views(rng, np.arange(30))))
    method.step(ids, x).backward()
    gradient, labels = method.centers.grad.clone(), method.labels.clone()
    start = method.centers.detach().clone()

    def frozen_center_loss(moved):
        """Eq. 1 with the labels and all competing centers held at the start."""
        total = torch.zeros((), dtype=torch.float64)
        for head, k in enumerate(method.config.heads.clusters):
            live, held = F.normalize(moved[head, :k], dim=1), F.normalize(start[head, :k], dim=1)
            for view in x:
                logits, own = view @ held.T / 0.3, (view @ live.T / 0.3)
                y = labels[head, :30]
                mixed = logits.scatter(1, y[:, None], own.gather(1, y[:, None]))
                total += F.cross_entropy(mixed, y) / (2 * 3)
        return total

    for head, cluster, axis in [(0, 0, 3), (0, 2, 1), (1, 4, 0), (2, 1, 7)]:
        step = torch.zeros_like(start)
        step[head, cluster, axis] = 1e-6
        slope = (frozen_center_loss(start + step) - frozen_center_loss(start - step)) / 2e-6
        assert gradient[head, cluster, axis] == pytest.approx(slope.item(), rel=1e-5, abs=1e-10)


def test_the_snapshot_stands_still_within_an_epoch(rng):
    method = make()
    before = method.snapshot.clone()
    with torch.no_grad():
        method.centers += 0.3
    images = torch.randn(24, 1, 8, 8)
    method.step(torch.arange(24), (images, images))
    assert torch.equal(method.snapshot, before)
    method.begin_epoch(1)
    assert torch.equal(method.snapshot, F.normalize(method.centers.detach(), dim=2))


def test_extreme_temperatures_give_no_nan():
    for value in (1e-3, 1e3):
        changes = [f"loss.temperature={value}", f"loss.center_temperature={value}"]
        _, network, centers, loss = gradients(changes)
        assert network.isfinite().all()
        assert centers.isfinite().all()
        assert loss.isfinite()


def test_the_predictor_learns_and_prediction_goes_without_it(rng):
    method = make(changes=["network.predictor=8"])
    images = torch.randn(24, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    method.step(torch.arange(24), (images, images + 0.1)).backward()
    gradients = [p.grad.abs().sum() for p in method.network.predictor.parameters()]
    assert len(gradients) > 0
    assert all(g > 0 for g in gradients)
    torch.testing.assert_close(
        method.features(images), F.normalize(method.network(images), dim=1), rtol=0, atol=0
    )


# Heads side by side ----------------------------------------------------------------------------


def test_a_head_does_not_feel_the_others(rng):
    """Labels, prices and gradients of a head are the same alone and next to wider ones."""
    changes = ["assignment.kappa=0.5"]
    alone = on_features(make((3,), changes=changes))
    beside = on_features(make((3, 11, 6), changes=changes))
    with torch.no_grad():
        beside.centers[0, :3] = alone.centers[0]
    for method in (alone, beside):
        method.begin_epoch(0)
        method.heads.rule = method.heads.rule._replace(chunk_size=4)
    for ids in np.array_split(rng.permutation(120), 5):
        x = tuple(torch.from_numpy(draw_views(rng, ids)))
        for method in (alone, beside):
            method.centers.grad = None
            method.step(torch.from_numpy(ids), x).backward()
        assert torch.equal(alone.labels[0], beside.labels[0])
        assert torch.equal(alone.heads.duals.lower[0], beside.heads.duals.lower[0, :3])
        assert torch.equal(alone.heads.duals.upper[0], beside.heads.duals.upper[0, :3])
        torch.testing.assert_close(
            alone.centers.grad[0] / 3, beside.centers.grad[0, :3], rtol=1e-12, atol=1e-18
        )


def test_padded_clusters_get_nothing(rng):
    method = make((2, 9), changes=["assignment.upper=inf"])
    padded = method.centers.detach()[0, 2:].clone()
    optimizer = torch.optim.SGD(method.parameter_groups()[1].params, lr=1.0)
    images = torch.randn(120, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    for epoch in range(2):
        method.begin_epoch(epoch)
        for ids in torch.from_numpy(rng.permutation(120)).split(30):
            method.step(ids, (images[ids], images[ids])).backward()
            optimizer.step()
            optimizer.zero_grad()
    assert torch.equal(method.centers.detach()[0, 2:], padded)
    assert int(method.labels[0].max()) < 2
    assert (method.heads.duals.lower[0, 2:] == 0).all()
    assert int(method.labels[1].max()) >= 2


def test_training_sizes_count_the_stored_labels():
    method = make((7, 3, 5))
    method.labels = torch.randint(0, 5, method.labels.shape)
    expected = torch.bincount(method.labels[0], minlength=7)
    assert torch.equal(method.training_sizes(), expected)
    assert int(method.training_sizes().sum()) == 120


# Start, prediction, state ----------------------------------------------------------------------


def test_k_means_starts_every_head_and_leaves_the_padding():
    method = make((3, 7))
    before = method.centers.detach().clone()
    images = torch.randn(120, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        features = method.features(images)
    method.init_centers(features)
    after = method.centers.detach()
    assert torch.equal(after[0, 3:], before[0, 3:])
    assert not torch.equal(after[1], before[1])
    assert method.centers.requires_grad
    assert method.centers.grad is None
    lengths = torch.tensor([[1.0] * 3 + [0.0] * 4, [1.0] * 7])
    torch.testing.assert_close(after.norm(dim=2), lengths)
    again = make((3, 7))
    again.init_centers(features)
    assert torch.equal(after, again.centers.detach())


@pytest.mark.parametrize(
    ("clusters", "lower", "upper"),
    [
        ((3, 7), 0.9, 1.1),
        ((7, 3), 0.9, 1.1),
        ((40,), 0.5, 1.7),
        ((2, 4), 1.0, 1.0),
        ((5,), 0.0, math.inf),
        ((5, 6), 0.0, 1.05),
        ((6, 5), 0.95, math.inf),
    ],
    ids=str,
)
def test_predicted_sizes_are_inside_for_any_heads(clusters, lower, upper):
    method = make(clusters, changes=[f"assignment.lower={lower}", f"assignment.upper={upper}"])
    features = torch.from_numpy(cone_features(120, 3, d=D)).float()
    found = method.predict(features)
    bounds, labels = method.bounds[0], found.assignment.labels
    sizes = torch.bincount(labels, minlength=clusters[0])
    assert torch.equal(sizes, found.assignment.counts)
    assert (bounds.lower <= sizes).all()
    assert (sizes <= bounds.upper).all()
    assert found.assignment.violation == 0
    unit = F.normalize(features, dim=1)
    scores = unit @ F.normalize(method.centers.detach()[0, : clusters[0]], dim=1).T
    value = float(scores.double()[torch.arange(120), labels].sum())
    assert found.assignment.objective == pytest.approx(value, rel=1e-9)
    assert found.assignment.objective <= found.assignment.upper_bound + 1e-9
    assert found.assignment.upper_bound == pytest.approx(value, abs=1e-9)
    assert (found.margins >= 0).all()
    assert found.centers.shape == (clusters[0], D)
    torch.testing.assert_close(found.centers.norm(dim=1), torch.ones(clusters[0]))
    assert not found.features.requires_grad
    assert not found.centers.requires_grad


def test_prediction_wants_the_images_of_training():
    with pytest.raises(InvalidValueError, match=r"scores must have shape \(120, 3\)"):
        make().predict(torch.zeros(7, D))


def test_bounds_that_no_assignment_satisfies_are_refused():
    with pytest.raises(InfeasibleBoundsError, match="lower bound 6 exceeds upper bound 5"):
        make((3, 23), changes=["assignment.lower=1.0"])


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
def test_state_comes_back_to_the_bit(changes, rng):
    method = make(changes=changes)
    images = torch.randn(120, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    method.step(torch.arange(60), (images[:60], images[:60])).backward()
    other = make(changes=["seed=5", *changes])
    other.load_state_dict(method.state_dict())
    for one in (method, other):
        one.begin_epoch(1)
    losses = [one.step(torch.arange(120), (images, images + 0.1)) for one in (method, other)]
    assert torch.equal(*losses)
    assert torch.equal(method.labels, other.labels)
    for name, value in method.heads.state_dict().items():
        assert torch.equal(value, other.heads.state_dict()[name])
    # The state of the one does not change with the other.
    other.labels += 1
    assert not torch.equal(method.labels, other.labels)


@pytest.mark.parametrize("name", ["network", "centers", "labels", "heads", "certificate"])
def test_a_state_without_a_part_is_refused(name):
    method = make()
    state = method.state_dict()
    del state[name]
    with pytest.raises(KeyError, match=name):
        make().load_state_dict(state)
