"""GATCluster's steps against a transcription of its equations in NumPy, and what they promise.

`printed_gatcluster.Printed` is the transcription.
"""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from dualclust.algos.core.errors import UsageError
from dualclust.train.config.methods.gatcluster import GatclusterOptions
from dualclust.train.config.run import RunConfig, override
from dualclust.train.methods.base import Batch
from dualclust.train.methods.gatcluster._targets import related
from dualclust.train.methods.gatcluster.method import GATCluster
from dualclust.train.networks.network import build_network
from dualclust.train.networks.normalization import BatchNorm
from dualclust.train.state.seeding import generator
from tests.train.printed_gatcluster import Printed

K, N, M, RATE = 3, 40, 20, 0.02
SMALL = [
    f"heads.clusters=[{K}]",
    f"heads.target={K}",
    "assignment.lower=0.0",
    "assignment.upper=inf",
    "network.layers=0",
    "gatcluster.sub_batch=8",
    "gatcluster.repeats=2",
    "gatcluster.chunk=7",
]


class SmallMap(nn.Sequential):
    """One convolution of 4 × 4 images to a map of 3 × 3."""

    def __init__(self):
        layers = nn.Conv2d(1, 4, 2, bias=False), BatchNorm(4), nn.ReLU(), nn.Flatten()
        super().__init__(*layers)
        self.map_shape = (4, 3, 3)


def make(*changes, dtype=torch.float64, n=N, encoder=None):
    config = override(RunConfig(method="gatcluster"), [*SMALL, *changes])
    torch.manual_seed(3)
    network = build_network(config.network, (1, 4, 4), encoder=encoder or SmallMap())
    return GATCluster(config, network.to(dtype).train(), n)


def draw_images(dtype=torch.float64):
    """Noisy copies of three images, and the same with more noise: plain and first views."""
    draws = torch.Generator().manual_seed(0)
    kinds = 2 * torch.randn(K, 1, 4, 4, generator=draws, dtype=torch.float64)
    plain = kinds[torch.arange(N) % K]
    plain = plain + 0.5 * torch.randn(plain.shape, generator=draws, dtype=torch.float64)
    views = plain + 0.5 * torch.randn(plain.shape, generator=draws, dtype=torch.float64)
    return plain.to(dtype), views.to(dtype)


def same_partition(a, r):
    np.testing.assert_array_equal(a[:, None] == a, r)


def compare(method, printed, batches, plain, views, tol):
    """Train both on the same large batches; targets, losses and gradients agree at every step."""
    guarded = []
    drawn = method.draws([len(ids) for ids in batches])
    for ids, (uniforms, orders) in zip(batches, drawn, strict=True):
        expected = printed.targets(plain[ids].double().numpy())
        guarded.append(expected.guarded)
        parts = [rows for order in orders for rows in printed.parts(order.numpy())]
        images = views[ids].double().numpy()
        seen = 0
        for loss in method.losses(Batch(ids, (plain[ids], views[ids]), (uniforms, orders))):
            if seen == 0:
                assert (method.labels[0, ids].numpy() == expected.l.argmax(1)).all()
            value, gradients = printed.step(images, expected, parts[seen], RATE)
            assert loss.item() == pytest.approx(value, rel=tol)
            method.network.zero_grad()
            loss.backward()
            for name, parameter in method.network.named_parameters():
                scale = max(float(np.abs(gradients[name]).max()), 1e-3)
                np.testing.assert_allclose(
                    parameter.grad.double().numpy() / scale, gradients[name] / scale, atol=tol
                )
            with torch.no_grad():
                for parameter in method.network.parameters():
                    parameter -= RATE * parameter.grad
            seen += 1
        assert seen == len(parts)
    return guarded


CASES = {
    "released": ([], False),
    "rest of each pass unused": (["gatcluster.drop_remainder=true"], False),
    "as the tables print the branches": (
        [
            "gatcluster.label_channels=4",
            "gatcluster.label_relu=true",
            "gatcluster.head_layers=3",
            "gatcluster.window_conv=false",
            "gatcluster.alpha=0.05",
        ],
        False,
    ),
    "every image alone": (["gatcluster.min_share=1.0"], True),
    "elliptic windows, other weights": (
        [
            "gatcluster.window=full",
            "gatcluster.relation=0.5",
            "gatcluster.transformation=2.0",
            "gatcluster.attention=1.5",
            "gatcluster.entropy=0.7",
        ],
        False,
    ),
}


LONG = {"rest of each pass unused", "as the tables print the branches"}
"""Cases of `make slow`."""


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n in LONG)) for n in CASES]
)
def test_two_large_batches_are_the_printed_equations(name):
    """Eq. 4 to 12 at 1e-6, all gradients, with steps between: nothing is set back to agree."""
    changes, guarded = CASES[name]
    method = make("gatcluster.floor=1e-3", *changes)
    plain, views = draw_images()
    found = compare(method, Printed(method), torch.arange(N).split(M), plain, views, tol=1e-6)
    assert found == [guarded] * 2


def test_single_precision_is_the_printed_equations_to_four_digits():
    method = make("gatcluster.floor=1e-3", dtype=torch.float32)
    plain, views = draw_images(torch.float32)
    compare(method, Printed(method), [torch.arange(M)], plain, views, tol=1e-4)


def test_targets_and_relation_are_the_printed_ones():
    method = make()
    plain, _ = draw_images()
    ids = torch.arange(N)
    expected = Printed(method).targets(plain.numpy())
    found = method.targets(ids, plain, method.draws([N])[0][0])
    np.testing.assert_allclose(found.labels.numpy(), expected.t, rtol=1e-10)
    np.testing.assert_allclose(found.attention.numpy(), expected.ta, rtol=1e-10)
    same_partition(found.relation.numpy(), expected.r)
    assert len(found.relation.unique()) == K
    assert not found.labels.requires_grad
    assert method.network.training


def test_the_chunk_changes_memory_alone():
    plain, _ = draw_images()
    found = []
    for m in (3, 40):
        method = make(f"gatcluster.chunk={m}")
        found.append(method.targets(torch.arange(N), plain, method.draws([N])[0][0]))
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=0)


def uniforms_of(k, starts=5):
    draws = torch.Generator().manual_seed(0)
    return torch.rand(starts, k, 2, generator=draws, dtype=torch.float64)


@pytest.mark.parametrize(("rows", "alone"), [([0, 0, 0, 1, 1, 1], False), ([0] * 6, True)])
def test_the_guard_lets_every_image_stand_alone(rows, alone):
    """Where k-means finds fewer than k clusters, r is the identity."""
    sharp = torch.eye(2, dtype=torch.float64)[rows]
    found = related(sharp, GatclusterOptions(), uniforms_of(2), may_read=True)
    assert len(found.unique()) == (6 if alone else 2)


def test_the_guard_asks_for_a_share_of_the_mean_size():
    sharp = torch.eye(2)[[0] * 19 + [1]]
    for share, classes in ((0.1, 2), (0.2, 20)):  # the smallest has 0.1 of M / k images
        options = GatclusterOptions(min_share=share)
        found = related(sharp, options, uniforms_of(2), may_read=False)
        assert len(found.unique()) == classes


# Parts -----------------------------------------------------------------------------------------


def test_every_pass_sees_every_image_once_in_an_order_of_its_own():
    ((_, orders),) = make().draws([M])
    assert [order.sort().values.tolist() for order in orders] == [list(range(M))] * 2
    assert not torch.equal(orders[0], orders[1])


@pytest.mark.parametrize("part", [0, 1])
def test_draws_are_a_function_of_seed_epoch_and_batch(part):
    def drawn(seed, epoch, batch):
        method = make(f"seed={seed}")
        method.begin_epoch(epoch)
        return method.draws([M, M])[batch][part]

    assert torch.equal(drawn(5, 2, 1), drawn(5, 2, 1))
    for other in ((6, 2, 1), (5, 3, 1), (5, 2, 0)):
        assert not torch.equal(drawn(5, 2, 1), drawn(*other))


def test_orders_do_not_depend_on_the_draws_of_k_means():
    """More starts change where k-means begins, and no pass over the images."""
    few, many = (make(f"gatcluster.n_init={n}").draws([M])[0] for n in (2, 5))
    assert few[0].shape == (2, K, 3)
    assert many[0].shape == (5, K, 3)
    assert few[0].dtype == torch.float64
    assert torch.equal(few[1], many[1])


def test_draws_do_not_depend_on_the_lengths_of_other_batches():
    one, other = make().draws([M, 7])[1], make().draws([N, 7])[1]
    assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
    assert make().draws([7])[0][1].shape == (2, 7)


def test_two_runs_take_the_same_steps():
    plain, views = draw_images()
    found = []
    for _ in range(2):
        method, losses = make(), []
        for epoch in range(2):
            method.begin_epoch(epoch)
            drawn = method.draws([M, M])
            for ids, draws in zip(torch.arange(N).split(M), drawn, strict=True):
                for loss in method.losses(Batch(ids, (plain[ids], views[ids]), draws)):
                    method.network.zero_grad()
                    loss.backward()
                    with torch.no_grad():
                        for parameter in method.network.parameters():
                            parameter -= RATE * parameter.grad
                    losses.append(loss.item())
        found.append(losses)
    assert found[0] == found[1]
    assert len(set(found[0])) == len(found[0]) == 2 * 2 * 2 * 3


@pytest.mark.parametrize(
    ("total", "size", "drop", "lengths"),
    [
        (1000, 32, False, [32] * 8 + [31] * 24),
        (1000, 32, True, [32] * 31),
        (33, 32, False, [17, 16]),
        (20, 32, True, [20]),
        (3, 2, False, [3]),
        (4, 2, False, [2, 2]),
        (1, 8, False, [1]),
        (32, 32, True, [32]),
        (31, 32, True, [31]),
    ],
)
def test_lengths_of_the_parts(total, size, drop, lengths):
    method = make(f"gatcluster.sub_batch={size}", f"gatcluster.drop_remainder={str(drop).lower()}")
    parts = method.parts(torch.arange(total))
    assert [len(part) for part in parts] == lengths


# Prediction and state --------------------------------------------------------------------------


def test_the_label_is_the_largest_entry_of_the_label_feature():
    method = make()
    plain, _ = draw_images()
    method.network.eval()
    rows = method.features(plain).detach()
    torch.testing.assert_close(rows.sum(1), torch.ones(N, dtype=torch.float64))
    found = method.predict(rows)
    assert torch.equal(found.assignment.labels, rows.argmax(1))
    assert torch.equal(found.features, rows)


def test_bounds_hold_where_they_are_set():
    method = make("assignment.lower=0.9", "assignment.upper=1.1")
    plain, _ = draw_images()
    method.network.eval()
    sizes = method.predict(method.features(plain).detach()).assignment.counts
    assert sizes.min() >= 12
    assert sizes.max() <= 14


def test_the_state_holds_the_branches():
    method, other = make(), make("seed=1")
    assert not torch.equal(method.branches.window_layer.weight, other.branches.window_layer.weight)
    other.load_state_dict(method.state_dict())
    for a, b in zip(method.network.parameters(), other.network.parameters(), strict=True):
        assert torch.equal(a, b)
    assert any(name.startswith("predictor.label_head") for name in method.state_dict()["network"])


def test_features_without_positions_are_a_map_of_one_point():
    method = make(encoder=nn.Sequential(nn.Flatten(), nn.Linear(16, 6)), dtype=torch.float32)
    plain, views = draw_images(torch.float32)
    losses = list(method.losses(Batch(torch.arange(M), (plain[:M], views[:M]))))
    assert method.branches.map_shape == (6, 1, 1)
    assert all(loss.isfinite() for loss in losses)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["heads.clusters=[3, 6]"], r"has one head, got heads.clusters=\[3, 6\]"),
        (["network.layers=2"], "would mix the points of the map"),
        (["network.predictor=8"], "network.predictor=8. To fix: network.predictor=0"),
    ],
)
def test_misuse_is_named(changes, message):
    with pytest.raises(UsageError, match=message):
        make(*changes)


def test_relations_have_a_stream_of_their_own():
    draws = [generator(0, name, 0, 0).initial_seed() for name in ("relations", "passes")]
    assert draws[0] != draws[1]


@pytest.mark.parametrize("losses", ["exact", "released"])
def test_the_parts_of_the_loss_carry_their_weights(losses):
    plain, views = draw_images()
    ids = torch.arange(M)
    values = SimpleNamespace()
    names = ("relation", "transformation", "attention", "entropy")
    for name in names:
        others = [f"gatcluster.{other}=0.0" for other in names if other != name]
        for weight in (1.0, 2.0):
            whole = f"gatcluster.sub_batch={M}", "gatcluster.repeats=1"
            own = f"gatcluster.{name}={weight}", f"gatcluster.losses={losses}"
            method = make(*others, *whole, *own)
            [loss] = method.losses(Batch(ids, (plain[:M], views[:M])))
            setattr(values, f"{name}{weight}", loss.item())
        one, two = getattr(values, f"{name}1.0"), getattr(values, f"{name}2.0")
        assert two == pytest.approx(2 * one, rel=1e-12)
        assert abs(one) > 1e-3
