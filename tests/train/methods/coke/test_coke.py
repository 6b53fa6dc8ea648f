"""The step of CoKe against a transcription of its equations in NumPy loops, and its limits.

`printed_coke.Printed` is the transcription.
"""

import copy
import math

import numpy as np
import pytest
import torch

from dualclust.algos.clustering.centers import add_to_sums, init_sums, mean_centers, sum_batch
from dualclust.algos.core.errors import UsageError
from dualclust.train.loop.optim import build_optimizer, set_rates
from tests.problems import cone_features
from tests.train.coke_methods import (
    AVERAGED,
    MULTI,
    PREDICTOR,
    D,
    N,
    draw_images,
    draw_views,
    make,
    on_features,
)
from tests.train.printed_coke import Printed

CASES = {
    "one view": ["coke.views=one"],
    "one view, predictor": ["coke.views=one", *PREDICTOR, "coke.beta=0.3"],
    "one view, predictor alone": ["coke.views=one", *PREDICTOR, "coke.beta=1.0"],
    "two views": [],
    "two views, predictor": [*PREDICTOR, "loss.tau=0.6"],
    "multi-crop": MULTI,
    "multi-crop, small crops for less": [*MULTI, "coke.crop_weight=0.2"],
    "multi-crop, predictor": [*MULTI, *PREDICTOR, "coke.beta=0.7"],
    "averages": AVERAGED,
    "averages, predictor": [*AVERAGED, *PREDICTOR, "coke.slots=5", "coke.smoothing=0.2"],
    "one slot": [*AVERAGED, "coke.slots=1"],
    "second stage without averages": ["coke.second_stage=2", "coke.average=false"],
    "centers once an epoch": ["coke.centers=epoch"],
    "two frozen epochs": ["optim.frozen_epochs=2"],
    "lower only": ["assignment.upper=inf", "assignment.lower=0.5"],
    "published": ["assignment.steps=coke-cifar", "assignment.upper=inf"],
    "without slack": ["assignment.lower=1.0", "assignment.upper=1.0"],
}


def compare_state(method, printed, tol=1e-6):
    running = mean_centers(method.sums, method.centers).double().numpy()
    for head, k in enumerate(printed.k):
        seen = printed.labels[head] >= 0
        found = method.labels[head].numpy()
        np.testing.assert_array_equal(found[seen], printed.labels[head][seen])
        assert (found[~seen] == 0).all()
        for dual, expected in zip(
            method.heads.duals, (printed.rho[head], printed.rho_up[head]), strict=True
        ):
            np.testing.assert_allclose(dual[head, :k].numpy(), expected, rtol=1e-9, atol=1e-12)
            assert (dual[head, k:] == 0).all()
        past = method.past[head, :k].double().numpy()
        np.testing.assert_allclose(past, printed.past[head], rtol=tol, atol=0.1 * tol)
        np.testing.assert_allclose(running[head, :k], printed.running(head), rtol=tol, atol=tol)
        if printed.averaging:
            compare_averages(method, printed, head, tol)


def compare_averages(method, printed, head, tol):
    for i, pairs in enumerate(printed.averages[head]):
        clusters, weights = (table[head, i].tolist() for table in method.averages)
        assert sum(weights) == pytest.approx(1.0, rel=tol)
        for slot, (cluster, weight) in enumerate(pairs):
            assert weights[slot] == pytest.approx(weight, rel=tol)
            assert clusters[slot] == cluster or weight == 0


@pytest.mark.parametrize("changes", CASES.values(), ids=CASES)
def test_epochs_are_the_printed_equations(changes, rng):
    """Loss, labels, prices, centers, averaged labels and the gradients, in float64."""
    clusters = (2, 4, 6) if "assignment.lower=1.0" in changes else (3, 7, 5)
    method = on_features(make(clusters, changes=changes, dtype=torch.float64))
    printed = Printed(method)
    relabeled = positive = 0
    for epoch in range(5 if method.averaging else 4):
        method.begin_epoch(epoch)
        printed.begin_epoch(epoch)
        for ids in np.array_split(rng.permutation(N), 4):
            before = printed.labels[1][ids].copy()
            x = draw_views(rng, method, ids)
            leaves = [torch.tensor(view, requires_grad=True) for view in x]
            loss = method.step(torch.from_numpy(ids), tuple(leaves))
            loss.backward()
            expected = printed.step(ids, x)
            assert loss.item() == pytest.approx(expected.loss, rel=1e-8)
            compare_state(method, printed)
            for leaf, slope in zip(leaves, expected.dx, strict=True):
                if epoch < printed.frozen:
                    assert leaf.grad is None
                else:
                    np.testing.assert_allclose(leaf.grad.numpy(), slope, rtol=1e-6, atol=1e-11)
            relabeled += int((printed.labels[1][ids] != before).sum()) if epoch else 0
        positive += sum(int((rho != 0).sum()) for rho in printed.rho + printed.rho_up)
    # The comparison has seen old labels that differ from new ones, and prices at work.
    assert relabeled > 10
    assert positive > 3


@pytest.mark.parametrize("case", ["one view, predictor", "two views", "multi-crop", "averages"])
def test_a_network_in_float32_gives_the_loss_of_its_features(case, rng):
    """The rows of the network, float32 scores, real optimizer steps, epoch changes."""
    method = make(changes=[*CASES[case], "loss.temperature=0.3"])
    printed = Printed(method)
    optimizer = build_optimizer(method.config.optim, method.parameter_groups())
    images = draw_images(method, N)
    for epoch in range(4):
        method.begin_epoch(epoch)
        printed.begin_epoch(epoch)
        set_rates(optimizer, 0.05 if epoch else 0.0)
        for ids in torch.from_numpy(rng.permutation(N)).split(15):
            views = tuple(view[ids] for view in images)
            with torch.no_grad():
                x = [method._rows(view).double().numpy() for view in views]
            loss = method.step(ids, views)
            assert loss.item() == pytest.approx(printed.step(ids.numpy(), x).loss, rel=1e-4)
            compare_state(method, printed, tol=1e-4)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


@pytest.mark.parametrize(
    "changes",
    [
        ["coke.views=one"],
        ["coke.views=one", *PREDICTOR],
        [*MULTI, *PREDICTOR, "loss.tau=1.0"],
        [*AVERAGED, "coke.second_stage=1"],
    ],
    ids=["one view", "predictor", "multi-crop", "averages"],
)
def test_gradients_of_the_network_are_those_of_finite_differences(changes):
    """With targets that do not move with the network: the loss after a small move follows."""
    method = make(changes=changes, dtype=torch.float64)
    images, ids = draw_images(method, N, dtype=torch.float64), torch.arange(N)
    for epoch in range(3):
        method.begin_epoch(epoch)
        if epoch < 2:
            method.step(ids, images)
    state = copy.deepcopy(method.state_dict())
    method.step(ids, images).backward()
    checked = 0
    for name, parameter in method.network.named_parameters():
        if "norm" in name or parameter.ndim < 2:
            continue
        at = int(parameter.grad.abs().argmax())
        slope, values = float(parameter.grad.view(-1)[at]), []
        for move in (1e-6, -1e-6):
            method.load_state_dict(copy.deepcopy(state))
            with torch.no_grad():
                parameter.view(-1)[at] += move
            values.append(method.step(ids, images).item())
        method.load_state_dict(copy.deepcopy(state))
        assert (values[0] - values[1]) / 2e-6 == pytest.approx(slope, rel=1e-5, abs=1e-9)
        checked += 1
    assert checked >= 4


# The initial epoch, and what moves when ---------------------------------------------------------


@pytest.mark.parametrize("name", ["sgd", "adamw", "lars"])
def test_the_initial_epoch_leaves_the_network_and_the_optimizer_unchanged(name):
    method = make(changes=[f"optim.name={name}"])
    optimizer = build_optimizer(method.config.optim, method.parameter_groups())
    before = [p.detach().clone() for p in method.network.parameters()]
    centers = method.centers.clone()
    images = draw_images(method, N)
    method.begin_epoch(0)
    for ids in torch.arange(N).split(15):
        optimizer.zero_grad()
        loss = method.step(ids, tuple(view[ids] for view in images))
        assert loss > 0
        loss.backward()
        optimizer.step()
    assert all(torch.equal(p, q) for p, q in zip(method.network.parameters(), before, strict=True))
    assert not optimizer.state
    assert len(method.labels[0].unique()) > 1
    method.begin_epoch(1)
    moved = (method.centers != centers).any(dim=2)
    for head, k in enumerate(method.config.heads.clusters):
        used = torch.bincount(method.labels[head], minlength=k) > 0
        assert torch.equal(moved[head, :k], used)
        assert not moved[head, k:].any()


def test_the_loss_uses_labels_and_centers_of_the_epoch_before(rng):
    """Moving the sums of now, or the prices, changes no loss of this epoch."""
    method = on_features(make(dtype=torch.float64))
    for epoch in range(2):
        method.begin_epoch(epoch)
        x = tuple(torch.from_numpy(view) for view in draw_views(rng, method, np.arange(N)))
        method.step(torch.arange(N), x)
    method.begin_epoch(2)
    other = copy.deepcopy(method)
    noise = rng.integers(-(2**36), 2**36, other.sums.sums.shape)
    other.sums.sums.copy_(torch.from_numpy(noise))
    other.heads.duals.lower.zero_()
    ids = torch.arange(30)
    losses = [one.step(ids, tuple(view[:30] for view in x)) for one in (method, other)]
    assert torch.equal(*losses)
    assert not torch.equal(method.labels[1, :30], other.labels[1, :30])
    again = [one.step(torch.arange(30, 60), tuple(v[30:] for v in x)) for one in (method, other)]
    assert torch.equal(*again)


def test_the_sums_of_a_batch_are_those_of_the_checked_function(rng):
    x = torch.from_numpy(cone_features(50, 1, d=D)).float()
    labels = torch.from_numpy(rng.integers(0, 4, size=(3, 50)))
    batch = sum_batch(x, labels, n_clusters=5)
    for head in range(3):
        one = add_to_sums(init_sums(5, D, xp=torch), x, labels[head])
        assert torch.equal(batch.sums[head], one.sums)
        assert torch.equal(batch.counts[head], one.counts)


def test_centers_do_not_depend_on_the_batches(rng):
    """With one batch or six, the same labels give the same centers to the last bit."""
    x = torch.from_numpy(cone_features(N, 2, d=D)).float()
    found = []
    for size in (60, 10):
        method = on_features(make(changes=["coke.centers=epoch", "coke.views=one"]))
        method.heads.assign = lambda scores: scores.argmax(2)
        method.begin_epoch(0)
        for ids in torch.arange(N).split(size):
            method.step(ids, (x[ids],))
        method.begin_epoch(1)
        found.append(method.centers)
    assert torch.equal(*found)


def test_an_averaged_center_is_the_mean_of_unit_centers(rng):
    """Not of unit length, in the loss; of unit length, for prediction."""
    method = on_features(make(changes=AVERAGED, dtype=torch.float64))
    made = []
    for epoch in range(5):
        method.begin_epoch(epoch)
        made.append(method.centers.clone())
        for ids in np.array_split(rng.permutation(N), 4):
            x = draw_views(rng, method, ids)
            method.step(torch.from_numpy(ids), tuple(torch.from_numpy(view) for view in x))
    past = method.past.clone()
    torch.testing.assert_close(past, (made[3] + made[4]) / 2)  # of epochs 2 and 3
    assert (past[0, :3].norm(dim=1) < 1 - 1e-4).all()
    target = method.target_centers(torch.empty(0))
    method.begin_epoch(5)
    expected = method.past[0, :3]
    torch.testing.assert_close(target, expected / expected.norm(dim=1, keepdim=True))


def test_a_cluster_that_gets_nothing_keeps_its_average():
    """In the second stage, as released: its last unit center does not come back."""
    method = on_features(make(clusters=(3,), changes=AVERAGED, dtype=torch.float64))
    x = torch.from_numpy(cone_features(N, 1, d=D))
    turn = torch.linalg.qr(torch.from_numpy(cone_features(D, 2, d=D)))[0]
    clusters = 3
    for epoch in range(5):
        method.begin_epoch(epoch)
        method.heads.assign = lambda scores, k=clusters: (torch.arange(N) % k).expand(1, N)
        method.step(torch.arange(N), ((x @ turn if epoch == 3 else x),))
        if epoch == 3:  # the average of two epochs is not a unit center
            clusters = 2
    before = method.past.clone()
    assert before[0, 2].norm() < 1 - 1e-3
    method.begin_epoch(5)
    assert torch.equal(method.past[0, 2], before[0, 2])
    assert not torch.equal(method.past[0, :2], before[0, :2])


# Heads side by side, start, prediction -----------------------------------------------------------


def test_a_head_does_not_feel_the_others(rng):
    """Labels, prices and centers of a head are the same alone and next to wider ones."""
    alone, beside = (
        on_features(make(clusters, dtype=torch.float64)) for clusters in ((3,), (3, 11, 6))
    )
    beside.centers[0, :3] = alone.centers[0]
    for epoch in range(2):
        batches = np.array_split(rng.permutation(N), 5)
        for method in (alone, beside):
            method.begin_epoch(epoch)
            method.heads.rule = method.heads.rule._replace(chunk_size=4)
        for ids in batches:
            x = tuple(torch.from_numpy(view) for view in draw_views(rng, alone, ids))
            for method in (alone, beside):
                method.step(torch.from_numpy(ids), x)
        assert torch.equal(alone.labels[0], beside.labels[0])
        assert torch.equal(alone.heads.duals.lower[0], beside.heads.duals.lower[0, :3])
        assert torch.equal(alone.sums.sums[0], beside.sums.sums[0, :3])
        assert int(beside.labels[2].max()) < 6


def test_k_means_starts_every_head_and_leaves_the_padding():
    methods = [make((3, 7), changes=[f"heads.init={init}"]) for init in ("kmeans", "random")]
    images = draw_images(methods[0], N)[0]
    before = methods[0].centers.clone()
    for method in methods:
        method.start(lambda function, **_: function(images).detach())
    assert torch.equal(methods[1].centers, before)
    assert torch.equal(methods[0].centers[0, 3:], before[0, 3:])
    assert not torch.equal(methods[0].centers[1], before[1])
    torch.testing.assert_close(methods[0].centers.norm(dim=2), torch.ones(2, 7))


@pytest.mark.parametrize(("lower", "upper"), [(0.9, 1.1), (0.5, math.inf), (1.0, 1.0)])
def test_predicted_sizes_are_inside(lower, upper):
    bounds = [f"assignment.lower={lower}", f"assignment.upper={upper}"]
    method = make((3, 4, 6), changes=bounds)
    method.begin_epoch(0)
    found = method.predict(torch.from_numpy(cone_features(N, 3, d=D)).float())
    bounds, sizes = method.bounds[0], found.assignment.counts
    assert torch.equal(sizes, torch.bincount(found.assignment.labels, minlength=3))
    assert (bounds.lower <= sizes).all()
    assert (sizes <= bounds.upper).all()
    torch.testing.assert_close(found.centers.norm(dim=1), torch.ones(3))


# Refusals and state ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (["optim.frozen_epochs=0"], "optim.frozen_epochs must be 1 or more"),
        (["coke.second_stage=6", "coke.views=one"], "coke.second_stage must be below epochs=6"),
        (["coke.second_stage=2"], "average must be false with views='two'"),
        (["coke.views=multi"], r"needs a table \[small\]"),
        (["coke.views=three"], "one of 'one', 'two', 'multi'"),
        (["coke.beta=1.5"], "beta"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_settings_that_contradict_each_other_are_refused(changes, words):
    with pytest.raises(UsageError, match=words):
        make(changes=changes)


def test_state_comes_back_to_the_bit(rng):
    method, other = make(changes=AVERAGED), make(changes=[*AVERAGED, "seed=5"])
    images = draw_images(method, N)
    for epoch in range(4):
        method.begin_epoch(epoch)
        method.step(torch.arange(N), images)
    other.load_state_dict(copy.deepcopy(method.state_dict()))
    assert torch.equal(*(one.target_centers(torch.empty(0)) for one in (method, other)))
    for one in (method, other):
        one.begin_epoch(4)
    losses = [one.step(torch.arange(N), images) for one in (method, other)]
    assert torch.equal(*losses)
    for a, b in zip(flat(method.state_dict()), flat(other.state_dict()), strict=True):
        assert torch.equal(a, b)
    other.labels += 1  # the state of the one does not change with the other
    assert not torch.equal(method.labels, other.labels)


def flat(state):
    if isinstance(state, dict):
        return [leaf for part in state.values() for leaf in flat(part)]
    return [torch.as_tensor(state)]


PARTS = [
    *("epoch", "network", "centers", "past", "sums", "labels", "averages", "duals"),
    *("sums.counts", "averages.weights", "duals.lower"),
]


@pytest.mark.parametrize("name", PARTS)
def test_a_state_without_a_part_is_refused(name):
    state = make(changes=AVERAGED).state_dict()
    table, _, key = name.rpartition(".")
    del (state[table] if table else state)[key]
    with pytest.raises(KeyError, match=key):
        make(changes=AVERAGED).load_state_dict(state)


def test_the_parts_are_all_there_are():
    assert set(make(changes=AVERAGED).state_dict()) == {name.partition(".")[0] for name in PARTS}
