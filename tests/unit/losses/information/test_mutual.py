"""Mutual information with a margin, against plain loops and the facts that its terms rest on."""

import math

import numpy as np
import pytest
import torch

from dualclust.algos.core.errors import InvalidTypeError, InvalidValueError
from dualclust.algos.losses.information.mutual import (
    information_margin_loss,
    margin_term,
    mean_entropy,
    mutual_information,
    prior_divergence,
)
from tests.compare import assert_close, assert_equal, to_numpy

TEMPERATURES = [1e-3, 0.05, 1.0, 1e3]
TOLERANCE = {"float32": 5e-5, "float64": 1e-12}
SHAPES = [(1, 1), (1, 4), (5, 1), (6, 4), (2, 3, 5, 4)]
TERMS = {
    "entropy": mean_entropy,
    "divergence": prior_divergence,
    "information": mutual_information,
}


def loop_log_softmax(row, temperature):
    logits = [float(s) / temperature for s in row]
    top = max(logits)
    log_z = top + math.log(math.fsum(math.exp(v - top) for v in logits))
    return [v - log_z for v in logits]


def loop_entropy(p):
    return -math.fsum(v * math.log(v) for v in p if v > 0)


def loop_terms(scores, prior, temperature):
    """Mean entropy, entropy of the mean, and its divergence from u, of one batch."""
    rows = [[math.exp(v) for v in loop_log_softmax(row, temperature)] for row in scores]
    mean = [math.fsum(column) / len(rows) for column in zip(*rows, strict=True)]
    divergence = math.fsum(
        p * (math.log(p) - math.log(u)) for p, u in zip(mean, prior, strict=True) if p > 0
    )
    return math.fsum(map(loop_entropy, rows)) / len(rows), loop_entropy(mean), divergence


def over_batches(function, scores):
    return np.array([function(scores[at]) for at in np.ndindex(scores.shape[:-2])]).reshape(
        scores.shape[:-2]
    )


def problem(shape=(6, 4), seed=0):
    """Scores, a prior and a weight matrix."""
    rng = np.random.default_rng(seed)
    prior = rng.dirichlet(np.full(shape[-1], 3.0))
    return rng.uniform(-1.0, 1.0, shape), prior, rng.normal(size=(*shape[:-2], 3, shape[-1]))


def near(actual, desired, xp, dtype):
    tol = TOLERANCE[dtype]
    assert_close(actual, xp.asarray(desired, dtype), rtol=tol, atol=tol)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("temperature", TEMPERATURES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_losses_are_the_loops(xp, shape, temperature, dtype):
    scores, prior, weights = (a.astype(dtype) for a in problem(shape))
    k, at = shape[-1], {"temperature": temperature}
    uniform = [1.0 / k] * k
    sure, spread, fair = (
        over_batches(lambda s, i=i: loop_terms(s, prior, temperature)[i], scores) for i in range(3)
    )
    even = over_batches(lambda s: loop_terms(s, uniform, temperature)[2], scores)
    length = over_batches(lambda v: math.fsum(float(w) ** 2 for w in v.ravel()), weights)
    s, u, v = xp.asarray(scores), xp.asarray(prior), xp.asarray(weights)
    near(mean_entropy(s, **at), sure, xp, dtype)
    near(prior_divergence(s, u, **at), fair, xp, dtype)
    near(prior_divergence(s, **at), even, xp, dtype)
    near(mutual_information(s, **at), spread - sure, xp, dtype)
    near(margin_term(v, margin_weight=0.25), 0.25 * length, xp, dtype)
    near(
        information_margin_loss(s, v, u, margin_weight=0.25, fairness_weight=1.3, **at),
        sure + 1.3 * fair + 0.25 * length,
        xp,
        dtype,
    )
    near(
        information_margin_loss(s, v, margin_weight=0.0, **at),
        sure - spread + math.log(k),
        xp,
        dtype,
    )


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_the_extremes(xp, dtype):
    sure_and_even = xp.asarray(np.eye(4)[[0, 1, 2, 3, 0, 1, 2, 3]] * 1e4, dtype)
    collapsed = xp.asarray(np.eye(4)[[2] * 5] * 1e4, dtype)
    undecided = xp.asarray(np.zeros((5, 4)), dtype)
    k = math.log(4.0)
    for scores, expected in (
        (sure_and_even, (0.0, 0.0, k)),
        (collapsed, (0.0, k, 0.0)),
        (undecided, (k, 0.0, 0.0)),
    ):
        for term, value in zip(TERMS.values(), expected, strict=True):
            near(term(scores), value, xp, dtype)


# The equation, and where its second line holds --------------------------------------------------


def test_the_two_lines_differ_by_a_constant_for_a_uniform_prior_only(xp):
    """Claim M2. Eq. (a) prints the second line for any u."""
    uniform, skewed = np.full(3, 1.0 / 3.0), np.array([0.5, 0.3, 0.2])
    for prior, constant in ((uniform, True), (skewed, False)):
        gaps = []
        for seed in range(5):
            scores = 3.0 * np.random.default_rng(seed).normal(size=(6, 3))
            _, spread, _ = loop_terms(scores, prior, 1.0)
            gaps.append(float(prior_divergence(xp.asarray(scores), xp.asarray(prior))) + spread)
        assert (np.ptp(gaps) < 1e-12) == constant, gaps
        if constant:
            np.testing.assert_allclose(gaps, math.log(3.0), rtol=1e-12)


def test_without_the_margin_any_separating_plane_reaches_the_optimum():
    """Claim M5: the entropy goes to 0 along c v for the worst plane too; the margin forbids it."""
    x = np.array([[-1.0, 0.0], [-1.2, 1.0], [1.0, 0.0], [1.2, 1.0]])
    best, poor = np.array([[-1.0, 1.0], [0.0, 0.0]]), np.array([[-1.0, 1.0], [0.9, -0.9]])
    for v in (best, poor):
        free = [float(mean_entropy(c * x @ v)) for c in (1.0, 10.0, 100.0, 1000.0)]
        assert free == sorted(free, reverse=True)
        assert free[-1] < 1e-12

    def least(v, weight):
        scale = np.geomspace(1e-2, 1e3, 400)
        return min(
            float(information_margin_loss(c * x @ v, c * v, margin_weight=weight)) for c in scale
        )

    assert least(best, 0.0) < 1e-12
    assert least(poor, 0.0) < 1e-12
    assert least(best, 1e-3) < least(poor, 1e-3) - 0.01


def test_an_avoided_cluster_still_has_a_gradient():
    """As printed, the mean probability underflows: 0 log 0 is NaN, and so is every gradient."""
    raw = np.array([[0.0, 0.5, 200.0], [0.3, 0.0, 300.0]])
    s = torch.tensor(raw, dtype=torch.float32, requires_grad=True)
    mean = torch.softmax(s, dim=-1).mean(dim=0)
    printed = (mean * (mean * 3).log()).sum()
    assert bool(printed.isnan())
    ours = prior_divergence(s)
    ours.backward()
    np.testing.assert_allclose(ours.item(), math.log(3.0), rtol=1e-6)
    assert bool(s.grad.isfinite().all())
    # And in the range of the numbers the pull is right, where a mean of probabilities has none.
    s = torch.tensor(raw / 10, dtype=torch.float32, requires_grad=True)
    exact = torch.tensor(raw / 10, dtype=torch.float64, requires_grad=True)
    for t in (s, exact):
        prior_divergence(t).backward()
    np.testing.assert_allclose(s.grad[:, :2].numpy(), exact.grad[:, :2].numpy(), rtol=1e-4)
    assert (s.grad[:, :2] < 0).all()


# Gradients -------------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0.05, 1.0, 1e3])
def test_gradients_match_finite_differences(temperature):
    scores, prior, weights = problem((4, 3))
    s, v = (torch.tensor(a, requires_grad=True) for a in (scores, weights))
    u = torch.from_numpy(prior)
    tol = {"eps": 1e-6 * min(temperature, 1.0), "atol": 1e-4 / min(temperature, 1.0)}
    for term in TERMS.values():
        assert torch.autograd.gradcheck(
            lambda s, f=term: f(s, temperature=temperature), (s,), **tol
        )
    for p in (None, u):
        assert torch.autograd.gradcheck(
            lambda s, v, p=p: information_margin_loss(
                s, v, p, margin_weight=0.1, fairness_weight=1.3, temperature=temperature
            ),
            (s, v),
            **tol,
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("temperature", [1e-3, 1e-2, 1.0, 1e3])
def test_values_and_gradients_are_finite(temperature, dtype):
    scores, prior, weights = problem((7, 4))
    s = torch.tensor(scores, dtype=dtype, requires_grad=True)
    v, u = torch.tensor(weights, dtype=dtype), torch.tensor(prior, dtype=dtype)
    loss = information_margin_loss(s, v, u, margin_weight=0.1, temperature=temperature)
    loss = loss - mutual_information(s, temperature=temperature)
    loss.backward()
    assert bool(loss.isfinite())
    assert bool(s.grad.isfinite().all())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype):
    scores, _, weights = problem((64, 4))
    half, v = torch.from_numpy(scores).to(dtype), torch.from_numpy(weights).to(dtype)
    for term in TERMS.values():
        assert_equal(term(half, temperature=0.05), term(half.float(), temperature=0.05))
    assert_equal(
        information_margin_loss(half, v, margin_weight=0.1),
        information_margin_loss(half.float(), v.float(), margin_weight=0.1),
    )
    s = half.clone().requires_grad_()
    information_margin_loss(s, v, margin_weight=0.1, temperature=0.05).backward()
    assert s.grad.dtype == dtype
    assert bool(s.grad.isfinite().all())


def test_a_training_step_under_autocast_loses_only_the_digits_of_its_scores():
    rng = np.random.default_rng(0)
    f = torch.from_numpy(rng.normal(size=(32, 8))).float()
    v = torch.from_numpy(rng.normal(size=(8, 4))).float().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        scores = f @ v
        assert scores.dtype == torch.bfloat16
        inside = information_margin_loss(scores, v, margin_weight=0.01, temperature=0.05)
        inside.backward()
    outside = information_margin_loss(
        scores.detach().float(), v.detach(), margin_weight=0.01, temperature=0.05
    )
    assert_equal(inside, outside)
    assert bool(v.grad.isfinite().all())


# What is refused -------------------------------------------------------------------------------


def test_batches_and_priors_that_do_not_fit(xp):
    scores, _, weights = problem()
    s, v = xp.asarray(scores), xp.asarray(weights)
    for term in TERMS.values():
        for wrong in (s[0, :], s[:0, :]):
            with pytest.raises(InvalidValueError, match=r"must have shape \(..., b, k\)"):
                term(wrong)
        with pytest.raises(InvalidValueError, match=r"temperature must lie in \(0, inf\)"):
            term(s, temperature=0.0)
        with pytest.raises(InvalidTypeError, match="must have a real floating dtype"):
            term(xp.asarray([[1, 2]]))
    with pytest.raises(InvalidValueError, match=r"prior must have shape \(4,\), got \(3,\)"):
        prior_divergence(s, xp.asarray(np.full(3, 1.0 / 3.0)))
    with pytest.raises(InvalidTypeError, match="prior must be an array"):
        prior_divergence(s, [0.25] * 4)
    with pytest.raises(InvalidTypeError, match=r"^prior must have a real floating dtype"):
        prior_divergence(s, xp.asarray([0, 0, 1, 0]))
    with pytest.raises(InvalidValueError, match=r"weights must have shape \(..., d, k\)"):
        margin_term(v[0, :], margin_weight=1.0)
    for value in (-1.0, math.inf, math.nan):
        with pytest.raises(InvalidValueError, match=r"margin_weight must lie in \[0, 1e\+30\]"):
            margin_term(v, margin_weight=value)
        with pytest.raises(InvalidValueError, match="fairness_weight must lie in"):
            information_margin_loss(s, v, margin_weight=0.0, fairness_weight=value)


def test_a_margin_of_weight_zero_is_zero_for_weights_of_any_size(xp):
    huge = xp.asarray([[3e38, -3e38]], "float32")
    assert to_numpy(margin_term(huge, margin_weight=0.0)) == 0.0
