"""SeLa's two objectives against loops, and against a transport solved in plain loops."""

import math

import numpy as np
import pytest
import torch

from dualclust.algos.core.errors import InvalidTypeError, InvalidValueError
from dualclust.algos.losses.information.self_labeling import self_labeling_loss, transport_objective
from tests.compare import assert_close, assert_equal

TEMPERATURES = [1e-3, 0.05, 1.0, 1e3]
TOLERANCE = {"float32": 5e-5, "float64": 1e-12}
SHAPES = [(1, 1), (1, 3), (6, 4), (2, 3, 5, 3)]


def loop_log_softmax(row, temperature):
    logits = [float(s) / temperature for s in row]
    top = max(logits)
    log_z = top + math.log(math.fsum(math.exp(v - top) for v in logits))
    return [v - log_z for v in logits]


def loop_objectives(scores, plan, shares, sharpness, temperature):
    """E(p, n Q), the linear part and the smoothed value, of one batch."""
    n, k = scores.shape
    mean, linear, divergence = 0.0, 0.0, 0.0
    for i in range(n):
        log_p = loop_log_softmax(scores[i], temperature)
        for j in range(k):
            q = float(plan[i, j])
            mean -= n * q * log_p[j] / n
            linear -= q * (log_p[j] - math.log(n))
            divergence += q * math.log(q * n / float(shares[j])) if q > 0 else 0.0
    return mean, linear, linear + divergence / sharpness


def loop_transport(scores, shares, sharpness, sweeps=2000):
    """Q = diag(a) P^lambda diag(b), by scaling rows and columns in turn."""
    n, k = scores.shape
    plan = np.array([[math.exp(sharpness * v) for v in loop_log_softmax(r, 1.0)] for r in scores])
    for _ in range(sweeps):
        for j in range(k):
            plan[:, j] *= shares[j] / plan[:, j].sum()
        for i in range(n):
            plan[i] /= n * plan[i].sum()
    return plan


def problem(shape=(6, 4), seed=0):
    """Scores, a plan and shares."""
    rng = np.random.default_rng(seed)
    plan = rng.dirichlet(np.ones(shape[-1]), size=shape[:-1]).reshape(shape) / shape[-2]
    return rng.uniform(-1.0, 1.0, shape), plan, rng.dirichlet(np.full(shape[-1], 3.0))


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("temperature", TEMPERATURES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_objectives_are_the_loops(xp, shape, temperature, dtype):
    scores, plan, shares = (a.astype(dtype) for a in problem(shape))
    n, k = shape[-2:]
    plan[..., 0, 0] = 0.0
    s, q, c = (xp.asarray(a) for a in (scores, plan, shares))
    at, tol = {"temperature": temperature}, {"rtol": TOLERANCE[dtype], "atol": TOLERANCE[dtype]}
    for share, given in ((shares, c), (np.full(k, 1.0 / k), None)):
        expected = np.array(
            [loop_objectives(scores[i], plan[i], share, 25.0, temperature)
             for i in np.ndindex(shape[:-2])]
        ).reshape(*shape[:-2], 3)  # fmt: skip
        mean, linear, smooth = (xp.asarray(expected[..., i], dtype) for i in range(3))
        assert_close(self_labeling_loss(s, n * q, **at), mean, **tol)
        assert_close(transport_objective(s, q, given, sharpness=math.inf, **at), linear, **tol)
        assert_close(transport_objective(s, q, given, sharpness=25.0, **at), smooth, **tol)


def test_the_cross_entropy_is_a_transport_cost(xp):
    """E(p, q) + log n = <Q, -log P>."""
    scores, plan, _ = problem()
    s, q = xp.asarray(scores), xp.asarray(plan)
    cost = transport_objective(s, q, sharpness=math.inf)
    assert_close(self_labeling_loss(s, 6.0 * q) + math.log(6.0), cost, rtol=1e-13)


@pytest.mark.parametrize("sharpness", [1.0, 5.0])
def test_the_scaled_plan_is_the_smoothed_optimum(xp, rng, sharpness):
    scores, _, shares = problem()
    best = loop_transport(scores, shares, sharpness)
    np.testing.assert_allclose(best.sum(axis=0), shares, rtol=1e-9)
    s, c = xp.asarray(scores), xp.asarray(shares)
    value = float(transport_objective(s, xp.asarray(best), c, sharpness=sharpness))
    for _ in range(20):
        # Along a cycle, row and column sums stay.
        i, j = rng.choice(6, 2, replace=False), rng.choice(4, 2, replace=False)
        step = np.zeros((6, 4))
        step[np.ix_(i, j)] = [[1.0, -1.0], [-1.0, 1.0]]
        moved = best + 0.3 * best[np.ix_(i, j)].min() * step
        other = float(transport_objective(s, xp.asarray(moved), c, sharpness=sharpness))
        assert other > value


def test_without_shares_the_loss_is_least_at_one_cluster(xp):
    """The reason for the transport: alternating both steps freely ends in a collapse."""
    scores, _, _ = problem()
    lifted = scores + np.array([50.0, 0.0, 0.0, 0.0])
    one = np.eye(4)[[0] * 6]
    even = np.eye(4)[[0, 1, 2, 3, 0, 1]]
    losses = [float(self_labeling_loss(xp.asarray(s), xp.asarray(q)))
              for s, q in ((lifted, one), (scores, even))]  # fmt: skip
    assert losses[0] < 1e-12 < losses[1]


@pytest.mark.parametrize("temperature", [0.05, 1.0, 1e3])
def test_gradients_match_finite_differences(temperature):
    scores, plan, shares = problem((4, 3))
    s, q = (torch.tensor(a, requires_grad=True) for a in (scores, plan))
    c, at = torch.from_numpy(shares), {"temperature": temperature}
    tol = {"eps": 1e-6 * min(temperature, 1.0), "atol": 1e-4 / min(temperature, 1.0)}
    assert torch.autograd.gradcheck(lambda s, q: self_labeling_loss(s, q, **at), (s, q), **tol)
    assert torch.autograd.gradcheck(
        lambda s, q: transport_objective(s, q, c, sharpness=25.0, **at), (s, q), **tol
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("temperature", [1e-3, 1.0, 1e3])
def test_values_and_gradients_are_finite_with_zeros(temperature, dtype):
    scores, *_ = problem((4, 4))
    s = torch.tensor(scores, dtype=dtype, requires_grad=True)
    q = (torch.eye(4, dtype=dtype)[[0, 1, 1, 0]] / 4).requires_grad_()
    loss = transport_objective(s, q, sharpness=25.0, temperature=temperature)
    loss = loss + self_labeling_loss(s, 4 * q, temperature=temperature)
    loss.backward()
    assert bool(loss.isfinite())
    assert bool(s.grad.isfinite().all() and q.grad.isfinite().all())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype):
    s, q, _ = (torch.from_numpy(a).to(dtype) for a in problem((64, 4)))
    assert_equal(self_labeling_loss(s, 64 * q), self_labeling_loss(s.float(), 64 * q.float()))
    assert_equal(
        transport_objective(s, q, sharpness=25.0),
        transport_objective(s.float(), q.float(), sharpness=25.0),
    )


def test_autocast_changes_no_bit():
    s, q, _ = (torch.from_numpy(a).float() for a in problem((64, 4)))
    outside = self_labeling_loss(s, q), transport_objective(s, q, sharpness=25.0)
    with torch.autocast("cpu", torch.bfloat16):
        inside = self_labeling_loss(s, q), transport_objective(s, q, sharpness=25.0)
    for a, b in zip(inside, outside, strict=True):
        assert_equal(a, b)


def test_what_does_not_fit_is_refused(xp):
    scores, plan, _ = problem()
    s, q = xp.asarray(scores), xp.asarray(plan)
    with pytest.raises(InvalidValueError, match=r"targets must have shape \(6, 4\)"):
        self_labeling_loss(s, q[:5, :])
    with pytest.raises(InvalidValueError, match=r"plan must have shape \(6, 4\)"):
        transport_objective(s, q[:5, :], sharpness=1.0)
    with pytest.raises(InvalidValueError, match=r"shares must have shape \(4,\)"):
        transport_objective(s, q, q[0, :3], sharpness=1.0)
    with pytest.raises(InvalidTypeError, match=r"^shares must have a real floating dtype"):
        transport_objective(s, q, xp.asarray([0, 0, 1, 0]), sharpness=1.0)
    for wrong in (0.0, -1.0, math.nan, 1e31):
        with pytest.raises(InvalidValueError, match="sharpness must lie in"):
            transport_objective(s, q, sharpness=wrong)
    with pytest.raises(InvalidValueError, match=r"scores must have shape \(..., b, k\)"):
        self_labeling_loss(s[:0, :], q[:0, :])
    with pytest.raises(InvalidTypeError, match="must have a real floating dtype"):
        transport_objective(s, xp.asarray([[1, 2]]), sharpness=1.0)
