"""The density against 60 digits, against integrals, and where the printed formula overflows."""

import math
from fractions import Fraction
from functools import cache

import mpmath
import numpy as np
import pytest
import torch
from array_api_compat import torch as torch_namespace
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, special

from dualclust.algos.core.errors import DeviceMismatchError, DualclustError
from dualclust.algos.theory.von_mises_fisher import (
    debye_polynomials,
    log_bessel_i,
    log_density,
    log_normalizer,
    log_sphere_area,
)
from tests.compare import assert_same_kind, to_numpy
from tests.examples import examples
from tests.libraries import ONE_EACH
from tests.problems import unit_rows
from tests.refusals import assert_refused

KAPPAS = [0.0, 1e-300, 1e-8, 0.1, 1.0, 5.0, 29.9, 30.0, 30.1, 100.0, 1e3, 1e4, 1e8, 1e100, 1e300]
# Around each change of method (orders 12, 20, 50), and the dimensions of practice.
DIMENSIONS = [2, 3, 5, 16, 25, 26, 27, 41, 42, 101, 102, 128, 512, 2048, 4096]


def digits_for(kappa):
    """60 digits after the cancellation of log I and kappa."""
    return 60 + int(abs(math.log10(kappa))) if kappa else 60


@cache  # the same for each library; its digits depend on kappa alone
def reference_log_bessel(nu, kappa):
    return mpmath.log(mpmath.besseli(nu, kappa, maxterms=10**6))


def reference_scaled(d, kappa):
    """``log C_d(0) - log C_d(kappa) - kappa``, which is h of the module."""
    nu, kappa = mpmath.mpf(d) / 2 - 1, mpmath.mpf(kappa)
    if kappa == 0:
        return mpmath.mpf(0)
    log_i = reference_log_bessel(nu, kappa)
    return log_i - nu * mpmath.log(kappa / 2) + mpmath.loggamma(nu + 1) - kappa


@pytest.mark.parametrize("d", DIMENSIONS)
def test_normalizer_against_60_digits(xp, d):
    found = to_numpy(log_normalizer(xp.asarray(KAPPAS), n_features=d))
    for value, kappa in zip(found, KAPPAS, strict=True):
        with mpmath.workdps(digits_for(kappa)):
            area = mpmath.log(2) + mpmath.mpf(d) / 2 * mpmath.log(mpmath.pi)
            area -= mpmath.loggamma(mpmath.mpf(d) / 2)
            reference = -area - mpmath.mpf(kappa) - reference_scaled(d, kappa)
            # The sum of three numbers: relative to the largest of them.
            scale = max(abs(area), abs(mpmath.mpf(kappa)), abs(reference))
            assert abs(mpmath.mpf(float(value)) - reference) <= 1e-15 * scale, (d, kappa)


@pytest.mark.parametrize("d", DIMENSIONS)
def test_at_the_mean_no_digit_is_lost(xp, d):
    """log f(mu) + log area = -h: one number, without cancellation, for any kappa."""
    mean = np.eye(1, d)
    found = to_numpy(log_density(xp.asarray(mean), xp.asarray(mean), xp.asarray(KAPPAS)))
    for value, kappa in zip(found, KAPPAS, strict=True):
        with mpmath.workdps(digits_for(kappa)):
            h = reference_scaled(d, kappa)
            area = mpmath.mpf(log_sphere_area(d))
            error = abs(mpmath.mpf(float(value)) + area + h)
            assert error <= 1e-15 * max(abs(h), abs(area)), (d, kappa)


@pytest.mark.parametrize("order", [0.0, 0.5, 1.0, 7.3, 11.999, 12.0, 20.0, 50.0, 1023.0, 1e5])
def test_log_bessel_against_60_digits(xp, order):
    points = [0.0, 1e-200, 1e-3, 1.0, 30.0, 200.0, 3e4]
    found = to_numpy(log_bessel_i(order, xp.asarray(points)))
    assert found[0] == (0.0 if order == 0.0 else -np.inf)
    for value, x in zip(found[1:], points[1:], strict=True):
        with mpmath.workdps(digits_for(x)):
            reference = reference_log_bessel(mpmath.mpf(order), mpmath.mpf(x))
            terms = abs(order * math.log(x / 2)), math.lgamma(order + 1), x, abs(reference)
            assert abs(mpmath.mpf(float(value)) - reference) <= 1e-15 * max(terms), (order, x)


def test_log_bessel_is_scipys_where_that_can_hold_it(xp, rng):
    x = rng.uniform(0.1, 300.0, size=50)
    for order in (0.0, 1.0, 2.5, 11.0, 13.0, 60.0):
        found = to_numpy(log_bessel_i(order, xp.asarray(x)))
        np.testing.assert_allclose(found, np.log(special.ive(order, x)) + x, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize(
    ("d", "dtype"), [(512, np.float64), (128, np.float32)], ids=["512, float64", "128, float32"]
)
def test_erratum_the_printed_normalizer_overflows(d, dtype):
    """Eq. 17, claim P12: I_{d/2-1}(2) is 0 in floating point, and C_d infinite."""
    nu, kappa = dtype(d / 2 - 1), dtype(2.0)
    with np.errstate(all="ignore"):
        bessel = dtype(special.iv(nu, kappa))
        printed = kappa**nu / (dtype(2 * np.pi) ** dtype(d / 2) * bessel)
    assert bessel == 0.0
    assert not np.isfinite(printed)
    assert np.isfinite(log_normalizer(np.asarray(kappa), n_features=d))


@pytest.mark.parametrize("kappa", [0.0, 0.5, 2.0, 31.0])
@pytest.mark.parametrize("d", [2, 3, 10, 40])
def test_the_density_integrates_to_one(d, kappa):
    """Over latitudes: the points at an angle t from the mean form a sphere of radius sin t."""
    mean = np.eye(1, d)[0]

    def at(t):
        x = np.zeros(d)
        x[:2] = np.cos(t), np.sin(t)
        ring = log_sphere_area(d - 1) if d > 2 else math.log(2.0)
        return math.exp(log_density(x, mean, np.asarray(kappa)) + ring) * np.sin(t) ** (d - 2)

    total, _ = integrate.quad(at, 0.0, np.pi, epsabs=1e-12, points=[0.2, 1.0])
    assert math.isclose(total, 1.0, rel_tol=1e-9)


def test_erratum_the_printed_likelihood_is_no_density():
    """Eq. 26, claim P17: over x and k it integrates to the area, 2 pi on the circle, and not K."""
    angles = np.arange(4096) * (2 * np.pi / 4096)
    x = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    mu, tau = unit_rows(np.asarray([[1.0, 0.0], [0.3, 1.0], [-0.2, -1.0]])), 0.5
    printed = np.exp(x @ mu.T / tau)
    printed /= printed.sum(axis=1, keepdims=True)
    element = 2 * np.pi / 4096
    assert math.isclose(printed.sum() * element, 2 * np.pi, rel_tol=1e-12)
    assert abs(printed.sum() * element - 3.0) > 3.0
    density = np.exp(log_density(x[:, None, :], mu, np.asarray(1 / tau)))
    np.testing.assert_allclose(density.sum(axis=0) * element, 1.0, rtol=1e-12)


def test_log_density_is_the_formula_in_loops(xp, rng):
    x, mean, kappa = rng.normal(size=(4, 5)), rng.normal(size=(3, 5)), [0.0, 2.0, 50.0]
    expected = np.zeros((4, 3))
    for i, j in np.ndindex(4, 3):
        cosine = sum(a * b for a, b in zip(unit_rows(x)[i], unit_rows(mean)[j], strict=True))
        normalizer = -log_sphere_area(5)
        if kappa[j]:
            bessel = special.iv(1.5, kappa[j])
            normalizer = np.log(kappa[j] ** 1.5 / ((2 * np.pi) ** 2.5 * bessel))
        expected[i, j] = normalizer + kappa[j] * cosine
    found = log_density(xp.asarray(x[:, None, :]), xp.asarray(mean), xp.asarray(kappa))
    np.testing.assert_allclose(to_numpy(found), expected, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_results_are_of_the_kind_of_the_input(xp, dtype):
    kappa = xp.asarray([1.0, 20.0], dtype)
    assert_same_kind(log_normalizer(kappa, n_features=30), kappa)
    assert_same_kind(log_bessel_i(2.0, kappa), kappa)
    x = xp.asarray(np.eye(2, 3), dtype)
    assert_same_kind(log_density(x, x, kappa), kappa)


def test_half_precision_is_computed_in_more():
    kappa = torch.tensor([1.0, 300.0], dtype=torch.bfloat16)
    found = log_normalizer(kappa, n_features=512)
    assert found.dtype == torch.float32
    exactly = log_normalizer(kappa.double(), n_features=512)
    np.testing.assert_allclose(found, exactly, rtol=1e-7)


@pytest.mark.parametrize("d", [2, 3, 7, 30, 512])
def test_gradients(d):
    kappa = torch.tensor([0.0, 0.3, 5.0, 40.0, 900.0], dtype=torch.float64, requires_grad=True)
    x = torch.eye(5, d, dtype=torch.float64).requires_grad_()
    mean = torch.from_numpy(unit_rows(np.random.default_rng(0).normal(size=(5, d))))
    value = log_density(x, mean, kappa)
    value.sum().backward()
    for i, k in enumerate(kappa.tolist()):
        ratio = mpmath.besseli(d / 2, k) / mpmath.besseli(d / 2 - 1, k) if k else 0.0
        cosine = float(mean[i] @ x[i].detach()) if i < d else 0.0
        assert math.isclose(kappa.grad[i], cosine - float(ratio), rel_tol=1e-9, abs_tol=1e-12)
    # Along the sphere; a row of zeros has no direction.
    along = x.detach() * (x.detach() * mean).sum(1, keepdim=True)
    slope = kappa.detach()[:, None] * (mean - along) * x.detach().any(1, keepdim=True)
    torch.testing.assert_close(x.grad, slope, rtol=1e-12, atol=1e-11)
    inner = kappa.detach()[1:4].clone().requires_grad_()
    torch.autograd.gradcheck(lambda k: log_normalizer(k, n_features=d), inner)


def test_debye_polynomials_are_those_of_the_tables():
    """D_1, D_2 (DLMF 10.41.10), and at p = 1 the numbers of Stirling's series."""
    first, second, third = debye_polynomials(3)
    assert first == {1: Fraction(3, 24), 3: Fraction(-5, 24)}
    assert second == {
        2: Fraction(1, 16),
        4: Fraction(-6, 16),
        6: Fraction(5, 16),
    }
    assert sum(first.values()) == Fraction(-1, 12)
    assert sum(second.values()) == 0
    assert sum(third.values()) == Fraction(1, 360)


def test_rotation_and_length_change_nothing(rng):
    x, mean = rng.normal(size=(6, 4)), rng.normal(size=(6, 4))
    rotation, _ = np.linalg.qr(rng.normal(size=(4, 4)))
    kappa = rng.uniform(0.0, 100.0, size=6)
    before = log_density(x, mean, kappa)
    np.testing.assert_allclose(
        log_density(x @ rotation, mean @ rotation, kappa), before, rtol=1e-12
    )
    np.testing.assert_allclose(log_density(8.0 * x, 0.1 * mean, kappa), before, rtol=1e-13)


def finite_everywhere(d, x, mean, kappa):
    x, mean, kappa = (
        torch.tensor(a, dtype=torch.float64, requires_grad=True) for a in (x, mean, kappa)
    )
    value = log_density(x, mean, kappa)
    value.backward()
    for part in (value, x.grad, mean.grad, kappa.grad):
        assert not torch.isnan(part).any()
    if abs(kappa.item()) < 1e100:
        assert torch.isfinite(value)
        assert torch.isfinite(x.grad).all()


number = st.one_of(
    st.floats(-1e300, 1e300), st.sampled_from([0.0, -0.0, 1.0, 5e-324, 1e-154, 2e-154])
)


@st.composite
def densities(draw):
    d = draw(st.sampled_from([2, 3, 4, 25, 26, 60]))
    rows = st.lists(number, min_size=d, max_size=d)
    kappa = draw(st.one_of(st.floats(-1.0, 1e300), st.sampled_from([0.0, 30.0, 5e-324])))
    return d, draw(rows), draw(rows), kappa


@given(problem=densities())
@examples(40)
def test_no_nan(problem):
    finite_everywhere(*problem)


@pytest.mark.slow
@given(problem=densities())
@settings(max_examples=10_000)
def test_no_nan_at_length(problem):
    finite_everywhere(*problem)


def finite_on(xp, d, x, mean, kappa):
    value = to_numpy(log_density(xp.asarray(x), xp.asarray(mean), xp.asarray(kappa)))
    normalizer = to_numpy(log_normalizer(xp.asarray(kappa), n_features=d))
    bessel = to_numpy(log_bessel_i(d / 2 - 1, xp.asarray(abs(kappa))))
    assert np.isfinite([value, normalizer]).all()
    assert np.isfinite(bessel) or (kappa == 0 and bessel == -math.inf)


@given(problem=densities())
@examples(40)
def test_no_nan_on_every_library(xp, problem):
    finite_on(xp, *problem)


@pytest.mark.slow
@pytest.mark.parametrize("xp", ONE_EACH, ids=lambda library: library.name, indirect=True)
@given(problem=densities())
@settings(max_examples=10_000)
def test_no_nan_on_every_library_at_length(xp, problem):
    finite_on(xp, *problem)


def test_nothing_is_read_back():
    kappa = torch.ones(3, dtype=torch.float64)
    with torch._subclasses.fake_tensor.FakeTensorMode():
        x = torch_namespace.ones((3, 8), dtype=torch.float64)
        assert log_density(x, x, torch_namespace.ones_like(x[:, 0])).shape == kappa.shape


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: log_normalizer(np.ones(2), n_features=1), "n_features"),
        (lambda: log_normalizer(3.0, n_features=3), "kappa"),
        (lambda: log_bessel_i(-1.0, np.ones(2)), "order"),
        (lambda: log_bessel_i(math.nan, np.ones(2)), "order"),
        (lambda: log_density(np.ones((2, 3)), np.ones((2, 4)), np.ones(2)), "mean"),
        (lambda: log_density(np.ones((2, 1)), np.ones((2, 1)), np.ones(2)), "n_features"),
        (lambda: log_density(np.ones((2, 3)), torch.ones(2, 3), np.ones(2)), "mean"),
    ],
)
def test_errors_name_the_argument(call, message):
    assert_refused(DualclustError, message, call)


@pytest.mark.parametrize("strange", ["x", "mean", "kappa"])
def test_every_array_of_a_density_comes_from_one_library(strange, rng):
    arrays = {"x": unit_rows(rng.normal(size=(4, 3))), "mean": unit_rows(np.eye(1, 3))[0]}
    arrays["kappa"] = np.full(4, 2.0)
    arrays[strange] = torch.from_numpy(arrays[strange])
    assert_refused(DeviceMismatchError, strange, log_density, **arrays)


def test_both_expansions_are_right_around_order_12():
    for nu in (11.5, 12.0, 12.5):
        expected = float(mpmath.log(mpmath.besseli(nu, 3.0)))
        assert float(log_bessel_i(nu, np.asarray(3.0))) == pytest.approx(expected, rel=1e-12)
