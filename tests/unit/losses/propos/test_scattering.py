"""The losses against plain loops, one form against another, and the errata of the paper."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from dualclust.algos.core.errors import DualclustError
from dualclust.algos.core.random import normal_noise
from dualclust.algos.losses.propos.prototypes import Prototypes, batch_prototypes
from dualclust.algos.losses.propos.scattering import (
    perturbed,
    positive_sampling_alignment,
    prototypical_alignment,
    prototypical_uniformity,
    psl_cross_view,
    psl_mixed_view,
    psl_same_view,
)
from tests.compare import assert_close, assert_equal, assert_same_kind, to_numpy
from tests.problems import unit_rows
from tests.refusals import assert_refused

FORMS = {
    "same view": psl_same_view,
    "cross view": psl_cross_view,
    "mixed view": psl_mixed_view,
}
ALL = {
    **FORMS,
    "alignment": prototypical_alignment,
    "uniformity": lambda mu, target, *, temperature: prototypical_uniformity(
        mu, temperature=temperature
    ),
}
TEMPERATURES = [1e-3, 0.1, 0.5, 1.0, 1e3]
EPS = {"float32": 2.0**-23, "float64": 2.0**-52}


def dot(a, b):
    return math.fsum(float(x) * float(y) for x, y in zip(a, b, strict=True))


def log_sum_exp(values):
    top = max(values)
    return top + math.log(math.fsum(math.exp(v - top) for v in values))


def loop_loss(name, mu, target, valid, tau):
    """Eq. 4, Eq. 28, the released form and both terms of Eq. 5, cluster by cluster."""
    members = [k for k in range(len(mu)) if valid[k]]
    losses = []
    for k in members:
        others = [j for j in members if j != k]
        same = [dot(mu[k], mu[j]) / tau for j in others]
        cross = [dot(mu[k], target[j]) / tau for j in others]
        positive = dot(mu[k], target[k]) / tau
        if name == "same view":
            losses.append(log_sum_exp([dot(mu[k], mu[k]) / tau, *same]) - positive)
        elif name == "cross view":
            losses.append(log_sum_exp([positive, *cross]) - positive)
        elif name == "mixed view":
            losses.append(log_sum_exp([positive, *same]) - positive)
        elif name == "alignment":
            losses.append(-positive)
        elif same:
            losses.append(log_sum_exp(same))
    return math.fsum(losses) / len(losses) if losses else 0.0


def prototypes(xp, rows, valid, dtype="float64"):
    rows = np.where(np.asarray(valid)[:, None], rows, 0.0)
    return Prototypes(xp.asarray(rows, dtype), xp.asarray(np.asarray(valid)))


def pair(xp, seed=0, k=7, d=5, dtype="float64", valid=None, target_valid=None):
    """Prototypes of two views that are near each other, and the masks."""
    rng = np.random.default_rng(seed)
    mu = unit_rows(rng.normal(size=(k, d)))
    target = unit_rows(mu + 0.3 * rng.normal(size=(k, d)))
    valid = np.ones(k, bool) if valid is None else valid
    target_valid = valid if target_valid is None else target_valid
    return prototypes(xp, mu, valid, dtype), prototypes(xp, target, target_valid, dtype)


MASKS = {
    "all": [True] * 7,
    "some": [True, False, True, True, False, True, False],
    "two": [False, True, False, False, True, False, False],
    "one": [False, True] + [False] * 5,
    "none": [False] * 7,
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("name", ALL)
def test_losses_are_the_loops(xp, name, mask, dtype):
    mu, target = pair(xp, dtype=dtype, valid=np.asarray(MASKS[mask]))
    rows = to_numpy(mu.vectors), to_numpy(target.vectors)
    for tau in TEMPERATURES:
        found = ALL[name](mu, target, temperature=tau)
        expected = xp.asarray(loop_loss(name, *rows, MASKS[mask], tau), dtype)
        assert_close(found, expected, rtol=4 * EPS[dtype], atol=1e-15 * max(1.0, 1.0 / tau))


def test_a_cluster_counts_if_both_views_have_it(xp):
    a, b = np.asarray(MASKS["some"]), np.asarray([True, True, False, True, True, True, False])
    mu, target = pair(xp, valid=a, target_valid=b)
    for name in FORMS:
        found = FORMS[name](mu, target, temperature=0.5)
        rows = to_numpy(mu.vectors), to_numpy(target.vectors)
        assert math.isclose(found, loop_loss(name, *rows, a & b, 0.5), rel_tol=1e-14)


@pytest.mark.parametrize("tau", [0.05, 0.5])
@pytest.mark.parametrize("name", ALL)
def test_empty_clusters_more_change_nothing(xp, name, tau):
    """Claim P5, repaired: a masked cluster is in no numerator and no denominator."""
    mu, target = pair(xp)
    more = [
        Prototypes(
            xp.asarray(np.concatenate([to_numpy(p.vectors), np.zeros((90, 5))])),
            xp.asarray(np.asarray([True] * 7 + [False] * 90)),
        )
        for p in (mu, target)
    ]
    few, many = (ALL[name](*p, temperature=tau) for p in ((mu, target), more))
    assert_close(many, few, rtol=1e-14)


@pytest.mark.parametrize(("fill", "tau", "error"), [(0.0, 0.5, 1.0), (-10.0, 0.05, 1e-3)])
def test_erratum_other_masks_let_empty_clusters_in(fill, tau, error):
    """Claim P5: "zero out the logits" adds e^0 to each sum, the released -10 adds e^-10.

    At tau = 0.05 a legal logit reaches -20, so that -10 outweighs it.
    """
    mu = np.asarray([[1.0, 0.0], [-1.0, 0.0]])  # cosines 1 and -1
    losses = []
    for n_empty in (0, 98):
        logits = np.full((2, 2 + n_empty), fill)
        logits[:, :2] = mu @ mu.T / tau
        if fill:  # the positive is left out, to see the negatives
            logits[np.arange(2), np.arange(2)] = -np.inf
            losses.append(np.log(np.exp(logits).sum(axis=1)).mean())
        else:
            losses.append((np.log(np.exp(logits).sum(axis=1)) - 1 / tau).mean())
    assert losses[1] - losses[0] > error
    ours = Prototypes(np.concatenate([mu, np.zeros((98, 2))]), np.arange(100) < 2)
    if fill:
        found = prototypical_uniformity(ours, temperature=tau)
    else:
        found = psl_same_view(ours, ours, temperature=tau)
    assert math.isclose(found, losses[0], rel_tol=1e-12)


def test_erratum_the_three_forms_are_three_functions(xp):
    """Claim P3: other values, and other gradients: which rows of the target they see."""
    rng = np.random.default_rng(0)
    mu = unit_rows(rng.normal(size=(10, 32)))
    target = unit_rows(mu + 0.1 * rng.normal(size=(10, 32)))
    everyone = [True] * 10
    online, other = prototypes(xp, mu, everyone), prototypes(xp, target, everyone)
    values = {name: float(FORMS[name](online, other, temperature=0.5)) for name in FORMS}
    a, b, c = values.values()
    assert min(abs(a - b), abs(a - c), abs(b - c)) > 1e-3
    # One view seen as both: all agree.
    agreed = [float(FORMS[name](online, online, temperature=0.5)) for name in FORMS]
    np.testing.assert_allclose(agreed, agreed[0], rtol=1e-14)


def test_only_the_cross_view_form_has_negatives_in_the_target():
    mu = torch.eye(3, 4, dtype=torch.float64)
    valid = torch.ones(3, dtype=torch.bool)
    for name, form in FORMS.items():
        target = torch.eye(3, 4, dtype=torch.float64).requires_grad_()
        form(Prototypes(mu, valid), Prototypes(target, valid), temperature=0.5).backward()
        pulled = target.grad.abs() > 1e-12
        off_diagonal = bool((pulled[:, :3] & ~torch.eye(3, dtype=torch.bool)).any())
        assert off_diagonal == (name == "cross view")


def simplex(k):
    """Regular simplex: k unit rows with equal cosines -1/(k-1)."""
    return unit_rows(np.eye(k) - 1.0 / k)


@pytest.mark.parametrize(("k", "error"), [(2, None), (10, 0.706), (1000, 0.0074)])
def test_uniformity_is_least_at_the_simplex_and_eq_5_is_an_approximation(k, error):
    """Claim P4: the bound is reached, and the approximation is off by up to `error` nats."""
    tau = 0.5
    mu = Prototypes(simplex(k), np.ones(k, bool))
    bound = math.log(k - 1) - 1 / ((k - 1) * tau)
    uniformity = prototypical_uniformity(mu, temperature=tau)
    assert math.isclose(uniformity, bound, rel_tol=1e-12, abs_tol=1e-12)
    rng = np.random.default_rng(0)
    for _ in range(5):
        other = Prototypes(unit_rows(rng.normal(size=(k, min(k, 50)))), np.ones(k, bool))
        assert prototypical_uniformity(other, temperature=tau) > bound - 1e-12
    if error:
        terms = prototypical_alignment(mu, mu, temperature=tau) + uniformity
        gap = psl_same_view(mu, mu, temperature=tau) - terms
        assert math.isclose(gap, error, rel_tol=1e-2)


def test_alignment_is_a_sum_over_pairs_of_samples(rng):
    """Eq. 13 to 16, claims P20 and P21: weights 1 / (c c') within a cluster, 0 elsewhere."""
    f, g = unit_rows(rng.normal(size=(24, 6))), unit_rows(rng.normal(size=(24, 6)))
    y, k, tau = rng.integers(0, 4, size=24), 4, 0.5
    total = 0.0
    for i, j in np.ndindex(24, 24):
        if y[i] == y[j]:
            c, c_ = (np.linalg.norm(x[y == y[i]].sum(axis=0)) for x in (f, g))
            total -= dot(f[i], g[j]) / (c * c_ * k * tau)
    mu, target = (batch_prototypes(x, y, n_clusters=k) for x in (f, g))
    assert math.isclose(prototypical_alignment(mu, target, temperature=tau), total, rel_tol=1e-13)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_alignment_of_samples_is_the_loop(xp, rng, dtype):
    p, t = rng.normal(size=(9, 4)).astype(dtype), rng.normal(size=(9, 4)).astype(dtype)
    terms = []
    for a, b in zip(p, t, strict=True):
        la, lb = math.sqrt(dot(a, a)), math.sqrt(dot(b, b))
        terms.append(
            math.fsum((float(x) / la - float(y) / lb) ** 2 for x, y in zip(a, b, strict=True))
        )
    found = positive_sampling_alignment(xp.asarray(p), xp.asarray(t))
    assert_close(found, xp.asarray(sum(terms) / 9, dtype), rtol=2 * EPS[dtype] + 1e-14)
    # Eq. 3 and the released loss: -2 cos, which is less by 2 (claims P2, P8).
    cosines = (unit_rows(p.astype(float)) * unit_rows(t.astype(float))).sum(axis=1)
    assert math.isclose(float(found) - 2.0, (-2.0 * cosines).mean(), abs_tol=1e-6)


def test_alignment_keeps_its_digits_where_the_vectors_agree(xp):
    angle = 1e-9
    a, b = [[1.0, 0.0]], [[math.cos(angle), math.sin(angle)]]
    assert 2 - 2 * b[0][0] == 0.0  # what -2 cos + 2 gives
    found = positive_sampling_alignment(xp.asarray(a), xp.asarray(b))
    assert math.isclose(found, angle**2, rel_tol=1e-12)


def test_a_pair_without_an_angle_counts_as_a_right_one(xp):
    a, b = [[0.0, 0.0], [1.0, 0.0]], [[1.0, 0.0], [2.0, 0.0]]
    assert float(positive_sampling_alignment(xp.asarray(a), xp.asarray(b))) == 1.0
    nothing = xp.asarray(np.zeros((0, 2)))
    assert float(positive_sampling_alignment(nothing, nothing)) == 0.0


def test_noise_on_the_sphere_and_off_it(xp, rng):
    """Claim P8: sigma is an angle on the sphere; as released it shrinks as the features grow."""
    x = 40.0 * unit_rows(rng.normal(size=(200, 256)))
    noise = normal_noise((200, 256), key=1, xp=np)
    features, eps = xp.asarray(x), xp.asarray(noise)
    on, off = (perturbed(features, eps, sigma=1e-3, on_sphere=s) for s in (True, False))
    assert_close(on, xp.asarray(unit_rows(x) + 1e-3 * noise), rtol=1e-12, atol=1e-15)
    assert_close(off, xp.asarray(x + 1e-3 * noise), rtol=1e-12)
    assert_equal(perturbed(features, eps, sigma=0.0, on_sphere=False), features)
    angles = [
        np.arccos((unit_rows(to_numpy(v)) * unit_rows(x)).sum(axis=1)).mean() for v in (on, off)
    ]
    assert math.isclose(angles[0], 0.016, rel_tol=0.02)
    assert math.isclose(angles[1], 0.016 / 40, rel_tol=0.02)


def test_erratum_a_noisy_feature_leaves_its_cluster():
    """Claim P9: at a margin of m = sigma one in six crosses the face, Phi(-1) = 0.159."""
    n, sigma = 40_000, 0.01
    center = np.zeros((n, 2))
    center[:, 0] = sigma  # the face is the second axis
    v = perturbed(center, normal_noise((n, 2), key=5, xp=np), sigma=sigma, on_sphere=False)
    crossed, expected = (v[:, 0] < 0).mean(), stats.norm.cdf(-1.0)
    assert abs(crossed - expected) < 4 * math.sqrt(expected * (1 - expected) / n)


def test_erratum_two_prototypes_of_one_class_are_no_negatives():
    """Claim P7: with more clusters than classes the loss pushes apart what is one class."""
    same_class = np.asarray([[1.0, 0.0], [math.cos(0.2), math.sin(0.2)], [-1.0, 0.0]])
    mu = torch.from_numpy(same_class).requires_grad_()
    valid = torch.ones(3, dtype=torch.bool)
    online, target = Prototypes(mu, valid), Prototypes(mu.detach(), valid)
    psl_mixed_view(online, target, temperature=0.5).backward()
    between = same_class[1] - same_class[0]
    tangent = between - same_class[0] * (between @ same_class[0])
    assert -mu.grad[0].numpy() @ tangent < 0.0  # the step of descent leads away


@pytest.mark.parametrize("tau", [1e-3, 0.5, 1e3])
@pytest.mark.parametrize("name", ALL)
def test_gradients(name, tau):
    rng = np.random.default_rng(3)
    mu, target = (torch.from_numpy(unit_rows(rng.normal(size=(5, 4)))) for _ in range(2))
    valid = torch.tensor([True, True, False, True, True])

    def loss(a, b):
        # In units of 1 / tau: differences have no digits left of a large loss.
        both = Prototypes(a, valid), Prototypes(b, valid)
        return tau * ALL[name](*both, temperature=tau)

    inputs = mu.requires_grad_(), target.requires_grad_()
    if name == "uniformity":
        assert torch.autograd.gradcheck(lambda a: loss(a, target.detach()), inputs[:1])
    else:
        assert torch.autograd.gradcheck(loss, inputs, eps=1e-7, atol=1e-5, rtol=1e-3)
    value = loss(*inputs)
    gradient = torch.autograd.grad(value, inputs[0])[0]
    assert (gradient[2] == 0).all()
    assert (gradient[0] != 0).any()


def test_gradients_of_the_alignment():
    rng = np.random.default_rng(0)
    x, t, e = (torch.from_numpy(rng.normal(size=(4, 3))).requires_grad_() for _ in range(3))
    assert torch.autograd.gradcheck(positive_sampling_alignment, (x, t))
    for on_sphere in (True, False):
        assert torch.autograd.gradcheck(
            lambda f, n, s=on_sphere: perturbed(f, n, sigma=0.1, on_sphere=s), (x, e)
        )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_results_are_of_the_kind_of_the_input(xp, dtype):
    mu, target = pair(xp, dtype=dtype)
    scalar = xp.asarray(0.0, dtype)
    for name in ALL:
        assert_same_kind(ALL[name](mu, target, temperature=0.5), scalar)
    assert_same_kind(positive_sampling_alignment(mu.vectors, target.vectors), scalar)
    assert_same_kind(perturbed(mu.vectors, target.vectors, sigma=1.0), mu.vectors)


@pytest.mark.parametrize("name", ALL)
def test_autocast_and_half_precision_compute_in_more(name):
    rng = np.random.default_rng(0)
    rows = [torch.from_numpy(unit_rows(rng.normal(size=(9, 16)))).bfloat16() for _ in range(2)]
    valid = torch.ones(9, dtype=torch.bool)
    half = [Prototypes(r, valid) for r in rows]
    exactly = ALL[name](*(Prototypes(r.double(), valid) for r in rows), temperature=0.05)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = ALL[name](*half, temperature=0.05)
        single = ALL[name](*(Prototypes(r.float(), valid) for r in rows), temperature=0.05)
        alignment = positive_sampling_alignment(*rows)
    assert found.dtype == single.dtype == alignment.dtype == torch.float32
    np.testing.assert_allclose([found, single], float(exactly), rtol=1e-6)
    np.testing.assert_allclose(
        alignment, positive_sampling_alignment(*(r.double() for r in rows)), rtol=1e-6
    )


ONE = Prototypes(np.eye(2), np.asarray([True, True]))
WIDE = Prototypes(np.eye(2, 3), ONE.valid)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        *((lambda f=f: f(ONE, ONE, temperature=0.0), "temperature") for f in ALL.values()),
        *((lambda f=f: f(ONE, WIDE, temperature=1.0), "target") for f in FORMS.values()),
        (
            lambda: psl_same_view(ONE, Prototypes(np.eye(2), ONE.valid[:1]), temperature=1.0),
            "valid",
        ),
        (lambda: perturbed(np.ones((2, 2)), np.ones((2, 3)), sigma=1.0), "noise"),
        (lambda: perturbed(np.ones((2, 2)), np.ones((2, 2)), sigma=-1.0), "sigma"),
        (lambda: positive_sampling_alignment(np.ones((2, 2)), np.ones((3, 2))), "target"),
        (lambda: positive_sampling_alignment(np.ones(2), np.ones(2)), "predicted"),
    ],
)
def test_errors_name_the_argument(call, message):
    assert_refused(DualclustError, message, call)
