"""The losses that pseudo-labels give, against loops; their energy, and the printed update's N."""

import math

import array_api_compat
import numpy as np
import pytest
import torch

from dualclust.algos.core.errors import InvalidTypeError, InvalidValueError
from dualclust.algos.losses.cross_entropy import log_softmax
from dualclust.algos.losses.information.pseudo_label import (
    pseudo_label_divergence,
    pseudo_label_loss,
    reverse_cross_entropy,
)
from dualclust.algos.pseudo_labels.energy import pseudo_label_energy
from tests.compare import assert_close, assert_equal, to_numpy

TEMPERATURES = [1e-3, 0.05, 1.0, 1e3]
TOLERANCE = {"float32": 5e-5, "float64": 1e-12}
SHAPES = [(1, 1), (1, 4), (6, 4), (2, 3, 5, 4)]


def loop_softmax(row, temperature):
    logits = [float(s) / temperature for s in row]
    top = max(logits)
    z = math.fsum(math.exp(v - top) for v in logits)
    return [math.exp(v - top) / z for v in logits]


def loop_reverse(scores, labels, temperature):
    """H(sigma, y) of each sample."""
    out = np.empty(scores.shape[:-1])
    for at in np.ndindex(out.shape):
        sigma = loop_softmax(scores[at], temperature)
        out[at] = -math.fsum(p * math.log(y) for p, y in zip(sigma, labels[at], strict=True))
    return out


def loop_energy(sigma, y, u, beta, lam):
    """Lemma B.1 of one batch of posteriors."""
    m, k = len(sigma), len(u)
    reverse = math.fsum(
        sigma[i][j] * math.log(y[i][j]) for i in range(m) for j in range(k) if sigma[i][j] > 0
    )
    fair = math.fsum(u[j] * math.log(math.fsum(y[i][j] for i in range(m)) / m) for j in range(k))
    return -beta / m * reverse - lam * fair


def loop_update(sigma, u, lam, n, iterations):
    """The update that Algorithm 1 prints, with its undefined N, from y = sigma."""
    y = np.array(sigma)
    for _ in range(iterations):
        s = y / y.sum(axis=0)
        y = (sigma + lam * n * u * s) / (1.0 + lam * n * (u * s).sum(axis=1, keepdims=True))
    return y


def problem(shape=(6, 4), seed=0):
    """Scores, pseudo-labels, a prior and a weight matrix."""
    rng = np.random.default_rng(seed)
    labels = rng.dirichlet(np.full(shape[-1], 2.0), size=shape[:-1]).reshape(shape)
    prior = rng.dirichlet(np.full(shape[-1], 3.0))
    return rng.uniform(-1.0, 1.0, shape), labels, prior, rng.normal(size=(*shape[:-2], 3, 2))


def near(actual, desired, xp, dtype):
    tol = TOLERANCE[dtype]
    assert_close(actual, xp.asarray(desired, dtype), rtol=tol, atol=tol)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("temperature", TEMPERATURES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_losses_are_the_loops(xp, shape, temperature, dtype):
    scores, labels, prior, weights = (a.astype(dtype) for a in problem(shape))
    at, k = {"temperature": temperature}, shape[-1]
    s, y, u, v = (xp.asarray(a) for a in (scores, labels, prior, weights))
    reverse = loop_reverse(scores, labels, temperature)
    near(reverse_cross_entropy(s, y, **at), reverse, xp, dtype)
    length = (weights.astype(np.float64) ** 2).sum(axis=(-2, -1))
    near(
        pseudo_label_loss(s, y, v, margin_weight=0.25, **at),
        reverse.mean(axis=-1) + 0.25 * length,
        xp,
        dtype,
    )
    for share, given in ((prior, u), (np.full(k, 1.0 / k), None)):
        divergence = np.empty(shape[:-2])
        for i in np.ndindex(shape[:-2]):
            mean = labels[i].astype(np.float64).mean(axis=0)
            divergence[i] = math.fsum(
                float(a) * math.log(a / b) for a, b in zip(share, mean, strict=True)
            )
        near(pseudo_label_divergence(y, given), divergence, xp, dtype)


def test_zeros_cost_nothing_without_mass_and_much_with_it(xp):
    certain = xp.asarray([[99.0, -1e4]])
    label = xp.asarray([[1.0, 0.0]])
    assert to_numpy(reverse_cross_entropy(certain, label)) == [0.0]
    wrong = to_numpy(reverse_cross_entropy(certain, xp.asarray([[0.0, 1.0]])))
    np.testing.assert_allclose(wrong, 708.396, rtol=1e-5)
    empty = to_numpy(pseudo_label_divergence(label))
    np.testing.assert_allclose(empty, 0.5 * 708.396 - math.log(2.0), rtol=1e-5)
    assert to_numpy(pseudo_label_divergence(label, label[0, :])) == 0.0


def test_a_uniform_label_teaches_nothing_in_reverse():
    scores, *_ = problem()
    uniform = torch.full((6, 4), 0.25, dtype=torch.float64)
    s = torch.tensor(scores, requires_grad=True)
    reverse_cross_entropy(s, uniform).sum().backward()
    np.testing.assert_allclose(s.grad.numpy(), 0.0, atol=1e-15)
    s = torch.tensor(scores, requires_grad=True)
    torch.nn.functional.cross_entropy(s, uniform).backward()
    assert s.grad.abs().max() > 0.01


@pytest.mark.parametrize("temperature", [0.05, 1.0])
def test_the_gradient_of_the_network_is_the_derived_one(temperature):
    """sigma (a - <sigma, a>) / (M T) with a = -log y."""
    scores, labels, _, weights = problem()
    s, v = torch.tensor(scores, requires_grad=True), torch.from_numpy(weights)
    y = torch.from_numpy(labels)
    pseudo_label_loss(s, y, v, margin_weight=0.1, temperature=temperature).backward()
    sigma = np.array([loop_softmax(row, temperature) for row in scores])
    a = -np.log(labels)
    expected = sigma * (a - (sigma * a).sum(axis=1, keepdims=True)) / (6 * temperature)
    np.testing.assert_allclose(s.grad.numpy(), expected, rtol=1e-9, atol=1e-13)


# The update, and the N that it leaves open -------------------------------------------------------


def energy_of(scores, y, prior, lam, beta=1.0, temperature=1.0):
    log_p = log_softmax(scores, temperature=temperature)
    sigma = array_api_compat.array_namespace(log_p).exp(log_p)
    return pseudo_label_energy(sigma, y, fairness_weight=lam, beta=beta, prior=prior)


def energy_at(scores, y, prior, lam, beta):
    return float(energy_of(scores, y, prior, lam, beta))


def test_the_energy_is_the_sum_of_the_losses(xp):
    scores, labels, prior, _ = problem()
    s, y, u = (xp.asarray(a) for a in (scores, labels, prior))
    sigma = [loop_softmax(row, 0.5) for row in scores]
    expected = loop_energy(sigma, labels, prior, 0.5, 7.0)
    assert float(energy_of(s, y, u, 7.0, 0.5, 0.5)) == pytest.approx(expected, rel=1e-13)
    reverse = float(xp.namespace.mean(reverse_cross_entropy(s, y, temperature=0.5)))
    fair = float(pseudo_label_divergence(y, u)) - float((prior * np.log(prior)).sum())
    assert 0.5 * reverse + 7.0 * fair == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize("beta", [1.0, 0.25])
@pytest.mark.parametrize("lam", [0.3, 2.0])
def test_the_printed_update_descends_to_the_optimum_for_n_equal_to_b_over_beta(lam, beta):
    """Claim M3, the erratum: N is not defined; 2, its value elsewhere, minimizes something else."""
    scores, _, prior, _ = problem((8, 3), seed=3)
    scores, m = 2.0 * scores + np.array([1.5, 0.0, 0.0]), 8
    sigma = np.array([loop_softmax(row, 1.0) for row in scores])
    steps = [loop_update(sigma, prior, lam, m / beta, t) for t in (0, 1, 2, 5, 10, 100, 1000)]
    energies = [energy_at(scores, y, prior, lam, beta) for y in steps]
    assert (np.diff(energies) < 1e-12).all()
    assert energies[1] < energies[0] - 1e-3
    y = steps[-1]
    # Optimal, by the linear lower bound of a convex function over the simplices.
    t = torch.tensor(y, requires_grad=True)
    energy_of(torch.from_numpy(scores), t, torch.from_numpy(prior), lam, beta).backward()
    slope = t.grad.numpy()
    assert ((slope * y).sum() - slope.min(axis=1).sum()) < 1e-8
    for n in (2.0, 1.0, 2.0 * m / beta):
        other = loop_update(sigma, prior, lam, n, 2000)
        assert energy_at(scores, other, prior, lam, beta) > energies[-1] + 1e-4
        elsewhere = n * beta * lam / m  # the lambda for which this N is right
        assert energy_at(scores, other, prior, elsewhere, beta) < energy_at(
            scores, y, prior, elsewhere, beta
        )


def test_no_derivative_through_the_solver_is_needed():
    """The value of the solved energy has the derivative of the energy with y fixed."""
    scores, _, prior, _ = problem((5, 3), seed=4)
    lam, m, u = 0.7, 5, torch.from_numpy(prior)

    def solved(s):
        sigma = np.array([loop_softmax(row, 1.0) for row in s])
        y = loop_update(sigma, prior, lam, m, 3000)
        return energy_at(s, y, prior, lam, 1.0), y

    _, y = solved(scores)
    s = torch.tensor(scores, requires_grad=True)
    energy_of(s, torch.from_numpy(y), u, lam).backward()
    h = 1e-5
    for i, k in np.ndindex(2, 3):
        step = np.zeros_like(scores)
        step[i, k] = h
        slope = (solved(scores + step)[0] - solved(scores - step)[0]) / (2 * h)
        np.testing.assert_allclose(s.grad.numpy()[i, k], slope, rtol=1e-5, atol=1e-8)


def test_the_energy_is_convex_and_its_minimizer_need_not_be_unique(xp):
    """Claim M1: the case in which two different labelings are both best."""
    certain = xp.asarray([[200.0, 0.0, 0.0], [200.0, 0.0, 0.0]])
    prior = xp.asarray([0.2, 0.4, 0.4])
    one = xp.asarray([[0.6, 0.3, 0.1], [0.6, 0.1, 0.3]])
    two = xp.asarray([[0.6, 0.2, 0.2], [0.6, 0.2, 0.2]])
    a, b = (energy_of(certain, y, prior, 1.0) for y in (one, two))
    assert_close(a, b)
    scores, labels, u, _ = problem()
    other = problem(seed=1)[1]
    s, u = xp.asarray(scores), xp.asarray(u)
    ends = [energy_at(s, xp.asarray(y), u, 3.0, 1.0)
            for y in (labels, other, 0.5 * (labels + other))]  # fmt: skip
    assert ends[2] < 0.5 * (ends[0] + ends[1])


# Gradients -------------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0.05, 1.0, 1e3])
def test_gradients_match_finite_differences(temperature):
    scores, labels, prior, weights = problem((4, 3))
    s, y, v = (torch.tensor(a, requires_grad=True) for a in (scores, labels, weights))
    u = torch.from_numpy(prior)
    tol = {"eps": 1e-6 * min(temperature, 1.0), "atol": 1e-4 / min(temperature, 1.0)}
    at = {"temperature": temperature}
    assert torch.autograd.gradcheck(lambda s, y: reverse_cross_entropy(s, y, **at), (s, y), **tol)
    assert torch.autograd.gradcheck(lambda y: pseudo_label_divergence(y, u), (y,))
    assert torch.autograd.gradcheck(
        lambda s, y: energy_of(s, y, u, 3.0, temperature=temperature), (s, y), **tol
    )
    assert torch.autograd.gradcheck(
        lambda s, v: pseudo_label_loss(s, y.detach(), v, margin_weight=0.1, **at), (s, v), **tol
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("temperature", [1e-3, 1.0, 1e3])
def test_values_and_gradients_are_finite_with_zeros(temperature, dtype):
    scores, _, prior, _ = problem((4, 4))
    s = torch.tensor(scores, dtype=dtype, requires_grad=True)
    y = torch.eye(4, dtype=dtype)[[0, 1, 1, 0]].requires_grad_()
    u = torch.tensor(prior, dtype=dtype)
    loss = reverse_cross_entropy(s, y, temperature=temperature).mean()
    loss = loss + 100.0 * pseudo_label_divergence(y, u)
    loss.backward()
    assert bool(loss.isfinite())
    assert bool(s.grad.isfinite().all())
    assert bool(y.grad.isfinite().all())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype):
    scores, labels, prior, weights = problem((64, 4))
    s, y, u, v = (torch.from_numpy(a).to(dtype) for a in (scores, labels, prior, weights))
    full = [a.float() for a in (s, y, u, v)]
    assert_equal(reverse_cross_entropy(s, y), reverse_cross_entropy(*full[:2]))
    assert_equal(pseudo_label_divergence(y, u), pseudo_label_divergence(*full[1:3]))
    assert_equal(
        pseudo_label_loss(s, y, v, margin_weight=0.5),
        pseudo_label_loss(full[0], full[1], full[3], margin_weight=0.5),
    )


def test_autocast_changes_no_bit():
    scores, labels, prior, _ = problem((64, 4))
    s, y, u = (torch.from_numpy(a).float() for a in (scores, labels, prior))

    def losses():
        return reverse_cross_entropy(s, y), pseudo_label_divergence(y, u)

    outside = losses()
    with torch.autocast("cpu", torch.bfloat16):
        for found, expected in zip(losses(), outside, strict=True):
            assert_equal(found, expected)


def test_what_does_not_fit_is_refused(xp):
    scores, labels, _, weights = problem()
    s, y, v = (xp.asarray(a) for a in (scores, labels, weights))
    with pytest.raises(InvalidValueError, match=r"pseudo_labels must have shape \(6, 4\)"):
        reverse_cross_entropy(s, y[:5, :])
    with pytest.raises(InvalidValueError, match=r"pseudo_labels must have shape \(..., b, k\)"):
        pseudo_label_divergence(y[:0, :])
    with pytest.raises(InvalidValueError, match=r"scores must have shape \(..., b, k\)"):
        pseudo_label_loss(s[:0, :], y[:0, :], v, margin_weight=0.0)
    with pytest.raises(InvalidTypeError, match="must have a real floating dtype"):
        pseudo_label_divergence(xp.asarray([[1, 0]]))
