"""GATCluster's step against a transcription of its released code, by options that ask for it."""

import math

import numpy as np
import pytest
import torch

from dualclust.algos.losses.gatcluster.attention import attention_map, released_gaussian
from dualclust.algos.losses.gatcluster.released import released_gatcluster_loss, released_pair_cap
from dualclust.algos.losses.gatcluster.tasks import balanced_targets, gatcluster_loss
from tests.compare import assert_close, to_numpy
from tests.train.methods.gatcluster.test_gatcluster import M, N, compare, draw_images, make
from tests.train.released_gatcluster import Released, row_balanced, window

RELEASED = [
    "gatcluster.losses=released",
    "gatcluster.target_eps=1e-5",
    "gatcluster.window=released",
]
CASES = {
    "as for STL-10": ["gatcluster.drop_remainder=true"],
    "as for ImageNet-10": ["gatcluster.label_relu=true", "gatcluster.window_conv=false"],
    "every image alone": ["gatcluster.min_share=1.0"],
}


@pytest.mark.parametrize("changes", CASES.values(), ids=CASES)
def test_large_batches_are_those_of_the_released_code(changes):
    """Labels, targets by way of the loss, the loss, all gradients, with steps between."""
    method = make(*RELEASED, *changes)
    plain, views = draw_images()
    compare(method, Released(method), torch.arange(N).split(M), plain, views, tol=1e-8)


@pytest.mark.parametrize("left_out", RELEASED)
def test_each_option_is_seen(left_out):
    method = make(*[change for change in RELEASED if change != left_out])
    plain, views = draw_images()
    with pytest.raises(AssertionError):
        compare(method, Released(method), [torch.arange(M)], plain, views, tol=1e-8)


# The parts by themselves ------------------------------------------------------------------------


def test_the_released_window(xp, rng):
    raw = rng.normal(size=(5, 3))
    found = attention_map(released_gaussian(xp.asarray(raw)), (6, 4), alpha=0.1)
    for i in range(5):
        expected = window(raw[i], 6, 4)
        np.testing.assert_allclose(to_numpy(found)[i], expected, rtol=1e-10, atol=1e-300)


def test_the_second_number_of_a_released_window_has_no_part():
    raw = torch.tensor([0.3, 0.7, -0.2], dtype=torch.float64, requires_grad=True)
    attention_map(released_gaussian(raw), (5, 5)).sum().backward()
    assert raw.grad[1] == 0
    assert (raw.grad[[0, 2]] != 0).all()


@pytest.mark.parametrize("power", [1, 2])
def test_the_released_targets_do_not_add_up_to_one(xp, rng, power):
    logits = rng.normal(size=(1000, 10))
    x = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    found = balanced_targets(xp.asarray(logits), sharpness=float(power), eps=1e-5)
    assert_close(found, xp.asarray(row_balanced(x, power)), rtol=1e-12)
    sums = to_numpy(found).sum(axis=1)
    assert 0.99 < sums.min()
    assert sums.max() < 1 - 1e-4
    exact = to_numpy(balanced_targets(xp.asarray(logits), sharpness=float(power)))
    np.testing.assert_allclose(exact.sum(axis=1), 1.0, rtol=1e-12)


@pytest.mark.parametrize(("k", "sharp"), [(10, False), (10, True), (3, True)])
def test_the_cap_of_a_pair_depends_on_the_rows(xp, k, sharp):
    """10.8 for one-hot rows and 9.67 for uniform ones of ten clusters, with an unrelated pair."""
    logits = np.zeros((2, k))
    logits[:, 0] = 800.0 if sharp else 0.0
    t = xp.asarray(np.full((2, k), 1 / k))
    x = xp.asarray(logits)
    found = released_gatcluster_loss(x, x, xp.asarray(np.asarray([0, 1])), t, t)
    cap = released_pair_cap(1.0 if sharp else k**-0.5)
    own = -math.log1p(-math.exp(-cap)) * 2 / 3  # of the pairs i = j
    assert float(found.relation) == pytest.approx(cap / 3 + own, rel=1e-4)
    if k == 10:
        assert cap == pytest.approx(10.82 if sharp else 9.67, abs=0.01)


def test_both_losses_agree_where_nothing_is_near_zero(xp, rng):
    logits, attended = rng.normal(size=(2, 12, 4))
    labels = rng.integers(0, 3, 12)
    t = rng.dirichlet(np.ones(4), 12)
    args = tuple(map(xp.asarray, (logits, attended, labels, t, t)))
    exact, released = gatcluster_loss(*args, floor=1e-12), released_gatcluster_loss(*args)
    for a, b in zip(exact, released, strict=True):
        assert float(a) == pytest.approx(float(b), rel=1e-3)
    assert float(exact.entropy) == pytest.approx(float(released.entropy), rel=1e-12)
    assert float(exact.attention) == pytest.approx(float(released.attention), rel=1e-12)


def test_a_dead_cluster_has_no_gradient_as_released():
    """The entropy of `gatcluster` pushes it; here its mean is overwritten."""
    start = torch.zeros(6, 3, dtype=torch.float64)
    start[:, 2] = -40.0
    t, y = torch.full((6, 3), 1 / 3, dtype=torch.float64), torch.zeros(6, dtype=torch.int64)
    slopes = []
    for loss in (gatcluster_loss, released_gatcluster_loss):
        x = start.clone().requires_grad_()
        loss(x, x, y, t, t).entropy.backward()
        slopes.append(float(x.grad[:, 2].abs().max()))
    assert slopes[0] > 10 * slopes[1]


def test_certain_and_wrong_costs_a_hundred_and_no_nan():
    x = torch.tensor([[2000.0, 0.0]], dtype=torch.float64, requires_grad=True)
    t = torch.tensor([[0.0, 1.0]], dtype=torch.float64)
    found = released_gatcluster_loss(x, x, torch.zeros(1, dtype=torch.int64), t, t)
    assert float(found.attention.detach()) == 100.0
    found.total.backward()
    assert x.grad.isfinite().all()
