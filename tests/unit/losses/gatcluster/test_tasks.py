"""GATCluster's targets and losses against plain loops; the printed slips, each shown failing."""

import math

import numpy as np
import pytest
import torch

from dualclust.algos.losses.gatcluster.relations import relation_loss
from dualclust.algos.losses.gatcluster.tasks import (
    PUBLISHED_WEIGHTS,
    LossWeights,
    attention_loss,
    balanced_targets,
    entropy_loss,
    gatcluster_loss,
    transformation_loss,
)
from tests.compare import assert_close, assert_equal, assert_same_kind, to_numpy

SHAPES = [(1, 1), (5, 1), (1, 3), (2, 2), (7, 4), (2, 3, 5)]
DTYPES = ["float32", "float64"]
TOLERANCE = {
    "float32": {"rtol": 2e-5, "atol": 2e-6},
    "float64": {"rtol": 1e-11, "atol": 1e-13},
}
EMPTY = -1e4  # a logit of probability 0


def loop_softmax(logits):
    logits = np.asarray(logits, np.float64)
    out = np.empty_like(logits)
    for at in np.ndindex(logits.shape[:-1]):
        top = max(logits[at])
        e = [math.exp(v - top) for v in logits[at]]
        out[at] = [v / math.fsum(e) for v in e]
    return out


def loop_targets(features, power):
    """Eq. 5 and 11 of one batch, entry by entry, as printed."""
    n, k = features.shape
    z = [math.fsum(features[j, h] for j in range(n)) for h in range(k)]
    out = np.empty((n, k))
    for i in range(n):
        scaled = [features[i, h] ** power / z[h] for h in range(k)]
        out[i] = [v / math.fsum(scaled) for v in scaled]
    return out


def loop_transformation(features, targets):
    return np.array([-math.fsum(a * b) for a, b in zip(features, targets, strict=True)])


def loop_entropy(features):
    p = [math.fsum(column) / len(column) for column in features.T]
    return math.fsum(v * math.log(v) for v in p if v > 0)


def loop_attention(logits, targets):
    """Eq. 10 with log(1 - l) from the other entries' sum."""
    features, out = loop_softmax(logits), []
    for row, goal in zip(features, targets, strict=True):
        terms = []
        for h, (p, t) in enumerate(zip(row, goal, strict=True)):
            rest = math.fsum(v for g, v in enumerate(row) if g != h)
            terms.append(-t * math.log(p) - ((1 - t) * math.log(rest) if rest else 0.0))
        out.append(math.fsum(terms) / len(row))
    return np.array(out)


def batched(function, *stacks):
    """Apply a loop for one (n, k) batch to the last two axes of each."""
    if stacks[0].ndim == 2:
        return np.asarray(function(*stacks))
    return np.stack([batched(function, *parts) for parts in zip(*stacks, strict=True)])


def problem(shape=(7, 4), seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    targets = rng.dirichlet(np.ones(shape[-1]), size=shape[:-1]).reshape(shape)
    return scale * rng.normal(size=shape), targets


def one_hot_logits(labels, k):
    return np.where(np.eye(k)[labels] > 0, 0.0, EMPTY)


# Values ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale", [0.1, 3.0])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_everything_is_its_loop(xp, shape, scale, dtype):
    logits, targets = (a.astype(dtype) for a in problem(shape, scale=scale))
    x, t = xp.asarray(logits), xp.asarray(targets)
    features = loop_softmax(logits)
    for found, expected in (
        (balanced_targets(x), batched(lambda a: loop_targets(a, 1), features)),
        (balanced_targets(x, sharpness=2.0), batched(lambda a: loop_targets(a, 2), features)),
        (transformation_loss(x, t), batched(loop_transformation, features, targets)),
        (entropy_loss(x), batched(loop_entropy, features)),
        (attention_loss(x, t), batched(loop_attention, logits, targets)),
    ):
        assert_close(found, xp.asarray(expected.astype(dtype)), **TOLERANCE[dtype])


@pytest.mark.parametrize("shape", [(1, 3), (6, 4)], ids=str)
def test_the_total_is_equation_12(xp, shape):
    logits, targets = problem(shape)
    other, goals = problem(shape, seed=1)
    labels = np.arange(shape[0]) % 2
    arrays = [xp.asarray(a) for a in (logits, other, labels, targets, goals)]
    found = gatcluster_loss(*arrays)
    expected = [
        float(relation_loss(arrays[0], arrays[2])),
        loop_transformation(loop_softmax(logits), targets).mean(),
        loop_attention(other, goals).mean(),
        loop_entropy(loop_softmax(logits)) + loop_entropy(loop_softmax(other)),
    ]
    np.testing.assert_allclose([float(v) for v in found[1:]], expected, rtol=1e-11)
    total = expected[0] + 5.0 * expected[1] + 5.0 * expected[2] + 3.0 * expected[3]
    assert float(found.total) == pytest.approx(total, rel=1e-11)
    for part in found:
        assert_same_kind(part, xp.asarray(0.0))
    alone = gatcluster_loss(*arrays, weights=LossWeights(0.0, 0.0, 0.0), floor=0.1)
    assert_equal(alone.total, relation_loss(arrays[0], arrays[2], floor=0.1))


def test_targets_are_distributions_and_spread_the_mass(xp):
    logits, _ = problem((200, 3))
    logits += [2.0, 0.0, -2.0]
    before = loop_softmax(logits).mean(axis=0)
    for sharpness in (0.5, 1.0, 2.0, 7.0):
        t = to_numpy(balanced_targets(xp.asarray(logits), sharpness=sharpness))
        np.testing.assert_allclose(t.sum(axis=1), 1.0, rtol=1e-14)
        assert (t >= 0).all()
    after = to_numpy(balanced_targets(xp.asarray(logits))).mean(axis=0)
    assert np.ptp(after) < 0.5 * np.ptp(before)


# Empty and certain clusters --------------------------------------------------------------------


def test_an_empty_cluster_has_targets_of_zero_and_the_printed_form_none(xp):
    features = np.array([[0.75, 0.25, 0.0], [0.5, 0.5, 0.0]])
    with np.errstate(invalid="ignore"):
        printed = features / features.sum(axis=0)
    assert np.isnan(printed).any()
    logits = np.log(np.where(features > 0, features, 1.0)) + np.where(features > 0, 0.0, EMPTY)
    for sharpness in (1.0, 2.0):
        t = balanced_targets(xp.asarray(logits), sharpness=sharpness)
        without = balanced_targets(xp.asarray(logits[:, :2]), sharpness=sharpness)
        assert_close(t[:, :2], without)
        assert (to_numpy(t)[:, 2] == 0).all()


def test_a_ghost_of_a_cluster_fades_instead_of_taking_a_share(xp):
    # Eq. 5 divides by the mass: however small it is, an even ghost weighs 1 / n everywhere.
    n = 8
    shares = []
    for ghost in (1e-2, 1e-5, 1e-7, 1e-9, 1e-12):
        features = np.column_stack([np.full(n, 1.0 - ghost), np.full(n, ghost)])
        assert loop_targets(features, 1)[0, 1] == pytest.approx(0.5)
        shares.append(float(balanced_targets(xp.asarray(np.log(features)))[0, 1]))
    np.testing.assert_allclose(shares[:2], 0.5)
    for ghost, share in zip((1e-7, 1e-9, 1e-12), shares[2:], strict=True):
        assert share == pytest.approx(n * ghost / 1e-5, rel=0.1)


def test_the_released_eps_and_ours_agree_on_what_is_not_empty(xp):
    logits, _ = problem((50, 4), scale=2.0)
    features = loop_softmax(logits)
    for power in (1, 2):
        scaled = features**power / (features.sum(axis=0) + 1e-5)
        released = scaled / scaled.sum(axis=1, keepdims=True)
        found = to_numpy(balanced_targets(xp.asarray(logits), sharpness=float(power)))
        np.testing.assert_allclose(found, released, rtol=1e-4)


def test_padded_clusters_change_nothing(xp):
    logits, targets = problem((6, 4))
    padded = np.concatenate([logits, np.full((6, 2), EMPTY)], axis=1)
    zeros = np.concatenate([targets, np.zeros((6, 2))], axis=1)
    a, b = xp.asarray(logits), xp.asarray(padded)
    t, u = xp.asarray(targets), xp.asarray(zeros)
    assert_close(balanced_targets(b)[:, :4], balanced_targets(a))
    assert_close(entropy_loss(b), entropy_loss(a))
    assert_close(transformation_loss(b, u), transformation_loss(a, t))
    assert_close(attention_loss(b, u) * 1.5, attention_loss(a, t), rtol=1e-13)


@pytest.mark.parametrize("margin", [10.0, 50.0, 1000.0, 1e6])
@pytest.mark.parametrize("dtype", DTYPES)
def test_certain_and_wrong_costs_its_margin(xp, margin, dtype):
    # l = (1, 0) up to rounding: -log l_2 - log(1 - l_1) = 2 * margin; 1 - l itself is 0.
    x, t = xp.asarray([[margin, 0.0]], dtype), xp.asarray([[0.0, 1.0]], dtype)
    assert_close(attention_loss(x, t), xp.asarray([margin], dtype), rtol=1e-4)


# Gradients -------------------------------------------------------------------------------------


def leaf(array):
    return torch.tensor(array, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("shape", [(1, 1), (3, 2), (4, 5), (2, 3, 4)], ids=str)
def test_gradients_match_finite_differences(shape):
    logits, targets = problem(shape)
    x, t = leaf(logits), leaf(targets)
    check = torch.autograd.gradcheck
    assert check(lambda x: balanced_targets(x), (x,))
    assert check(lambda x: balanced_targets(x, sharpness=2.0, empty=0.9), (x,))
    assert check(transformation_loss, (x, t))
    assert check(entropy_loss, (x,))
    assert check(attention_loss, (x, t))


def test_the_gradient_of_the_total_matches_finite_differences():
    (logits, targets), (other, goals) = problem((4, 3)), problem((4, 3), seed=1)
    y, t, g = torch.tensor([0, 1, 1, 2]), torch.from_numpy(targets), torch.from_numpy(goals)
    x, a = leaf(logits), leaf(other)
    assert torch.autograd.gradcheck(
        lambda x, a: gatcluster_loss(x, a, y, t, g, floor=0.01).total, (x, a)
    )


def test_the_gradient_of_soft_attention_is_the_derivative_by_hand():
    # d/dx_g of -t log l_h - (1 - t) log(1 - l_h), summed: sum_h (l_h - t_h) / (1 - l_h) (..) / k.
    logits, targets = problem((5, 4))
    x = leaf(logits)
    attention_loss(x, torch.from_numpy(targets)).sum().backward()
    p = loop_softmax(logits)
    slope = (p - targets) / (p * (1 - p)) / 4
    expected = np.empty_like(p)
    for i, h in np.ndindex(p.shape):
        expected[i, h] = sum(slope[i, g] * p[i, g] * ((g == h) - p[i, h]) for g in range(4))
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-11)


@pytest.mark.parametrize("margin", [20.0, 100.0, 1e4])
def test_the_gradient_of_a_certain_wrong_label_does_not_vanish(margin):
    x = torch.tensor([[margin, 0.0]], requires_grad=True)
    attention_loss(x, torch.tensor([[0.0, 1.0]])).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [[1.0, -1.0]], rtol=1e-6)


# What the printed or released form does --------------------------------------------------------


def test_erratum_equation_3_swaps_two_weights(xp):
    assert PUBLISHED_WEIGHTS == LossWeights(transformation=5.0, attention=5.0, entropy=3.0)
    (logits, targets), (other, goals) = problem((6, 3)), problem((6, 3), seed=1)
    arrays = [xp.asarray(a) for a in (logits, other, np.arange(6) % 3, targets, goals)]
    found = gatcluster_loss(*arrays)
    printed = found.relation + 5 * found.transformation + 5 * found.entropy + 3 * found.attention
    assert abs(float(found.total) - float(printed)) > 1.0


def test_erratum_the_uniform_frequency_is_one_over_k_not_one_over_m(xp):
    m, k = 6, 3
    uniform = xp.asarray(np.zeros((m, k)))
    assert float(entropy_loss(uniform)) == pytest.approx(-math.log(k))
    assert sum([1 / m] * k) != 1.0  # p_h = 1/m is no distribution
    for seed in range(20):
        logits, _ = problem((m, k), seed=seed)
        assert float(entropy_loss(xp.asarray(logits))) > -math.log(k)


def test_erratum_an_overwritten_frequency_has_no_gradient_and_ours_has():
    logits = torch.tensor([[8.0, 0.0, -9.0], [0.0, 8.0, -9.0]], dtype=torch.float64)
    x = logits.clone().requires_grad_()
    p = torch.softmax(x, 1).mean(0)
    torch.where(p < 1e-5, torch.full_like(p, 1e-5), p)[2].log().backward()
    assert x.grad.abs().max() == 0.0
    x.grad = None
    entropy_loss(x).backward()
    assert (x.grad[:, 2] < -1e-9).all()  # descent revives the cluster


def test_erratum_most_entropy_does_not_exclude_collapse(xp):
    same = xp.asarray(np.zeros((6, 3)))  # l_i = 1/k for all i: one argmax, and the optimum of L_E
    spread = xp.asarray(one_hot_logits([0, 1, 2, 0, 1, 2], 3))
    assert_close(entropy_loss(same), entropy_loss(spread), rtol=1e-14)


def test_erratum_balanced_targets_do_not_prevent_empty_clusters(xp):
    labels = np.array([0, 0, 0, 1, 0])
    logits = xp.asarray(one_hot_logits(labels, 3))  # cluster 2 is empty, and stays so
    for sharpness in (1.0, 2.0):
        found = balanced_targets(logits, sharpness=sharpness)
        assert_equal(found, xp.asarray(np.eye(3)[labels]))


def test_erratum_sharpened_targets_can_be_less_confident(xp):
    features = np.array([[0.6, 0.4]] + [[8.4 / 9, 0.6 / 9]] * 9)
    np.testing.assert_allclose(features.sum(axis=0), [9.0, 1.0])
    found = to_numpy(balanced_targets(xp.asarray(np.log(features)), sharpness=2.0))
    np.testing.assert_allclose(found[0], [0.2, 0.8], rtol=1e-12)


def test_erratum_softness_of_a_target_only_scales_the_gradient(xp):
    soft = np.array([[0.5, 0.3, 0.2]])
    corners = [
        float(transformation_loss(xp.asarray(one_hot_logits([h], 3)), xp.asarray(soft))[0])
        for h in range(3)
    ]
    np.testing.assert_allclose(corners, [-0.5, -0.3, -0.2])
    inner = float(transformation_loss(xp.asarray(np.log(soft)), xp.asarray(soft))[0])
    assert inner > corners[0]  # the target itself is not the optimum, its argmax is


def test_the_transformation_loss_is_at_its_end_for_equal_corners_only(xp):
    labels = np.array([0, 1, 2])
    x, t = xp.asarray(one_hot_logits(labels, 3)), xp.asarray(np.eye(3)[labels])
    assert_equal(transformation_loss(x, t), xp.asarray([-1.0, -1.0, -1.0]))
    logits, targets = problem((50, 3))
    values = to_numpy(transformation_loss(xp.asarray(logits), xp.asarray(targets)))
    assert (values > -1).all()
    assert (values < 0).all()


def test_label_features_in_parts_give_the_same_targets_and_targets_in_parts_do_not(xp):
    rng = np.random.default_rng(0)
    images, weights = rng.normal(size=(12, 5)), rng.normal(size=(5, 3))
    whole = xp.asarray(images) @ xp.asarray(weights)
    parts = [xp.asarray(images[i : i + 4]) @ xp.asarray(weights) for i in (0, 4, 8)]
    joined = xp.namespace.concat(parts, axis=0)
    # Not bitwise: a product of fewer rows may be summed in another order.
    assert_close(balanced_targets(joined), balanced_targets(whole), rtol=1e-12)
    apart = xp.namespace.concat([balanced_targets(p) for p in parts], axis=0)
    assert float(np.abs(to_numpy(apart) - to_numpy(balanced_targets(whole))).max()) > 0.01


# Precision and read-backs ----------------------------------------------------------------------


def all_losses(x, t, y):
    return (
        balanced_targets(x),
        balanced_targets(x, sharpness=2.0),
        transformation_loss(x, t),
        entropy_loss(x),
        attention_loss(x, t),
        *gatcluster_loss(x, x, y, t, t),
    )


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_half_precision_is_computed_in_float32(name):
    logits, targets = problem((8, 4), scale=5.0)
    half, y = torch.from_numpy(logits).to(getattr(torch, name)), torch.arange(8) % 4
    t = torch.from_numpy(targets).float()
    for found, expected in zip(all_losses(half, t, y), all_losses(half.float(), t, y), strict=True):
        assert found.dtype == torch.float32
        assert_equal(found, expected)


def test_autocast_changes_nothing():
    logits, targets = problem((32, 10), scale=5.0)
    x, t = torch.from_numpy(logits).float(), torch.from_numpy(targets).float()
    y = torch.arange(32) % 10
    plain = all_losses(x, t, y)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = all_losses(x, t, y)
    for found, expected in zip(cast, plain, strict=True):
        assert_equal(found, expected)


def test_nothing_is_read_back():
    x = torch.zeros(6, 3, device="meta", requires_grad=True)
    t, y = torch.zeros(6, 3, device="meta"), torch.zeros(6, dtype=torch.int64, device="meta")
    sum(part.sum() for part in all_losses(x, t, y)).backward()
    with pytest.raises((RuntimeError, NotImplementedError)):
        float(t.sum())  # so that the check can fail
