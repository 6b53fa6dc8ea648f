"""Gaussian windows against the quadratic form written out, and what the printed one does."""

import math

import numpy as np
import pytest
import torch

from dualclust.algos.core.errors import DeviceMismatchError, InvalidTypeError, InvalidValueError
from dualclust.algos.losses.gatcluster.attention import (
    Gaussian,
    attended_features,
    attention_map,
    full_gaussian,
    isotropic_gaussian,
)
from tests.compare import assert_close, assert_equal, assert_same_kind, to_numpy
from tests.refusals import message_of

SIZES = [(1, 1), (1, 5), (2, 2), (6, 6), (5, 3), (10, 8)]
DTYPES = ["float32", "float64"]


def loop_map(mean, covariance, size, alpha):
    """Eq. 9, point by point, with the matrix's inverse."""
    out, inverse = np.empty(size), np.linalg.inv(covariance)
    for i, j in np.ndindex(size):
        u = [0.5 if n == 1 else p / (n - 1) for p, n in zip((i, j), size, strict=True)]
        v = np.asarray(u) - mean
        out[i, j] = math.exp(-(v @ inverse @ v) / alpha)
    return out


def covariance_of(gaussian, at=()):
    (a, b), rho = to_numpy(gaussian.variances)[at], float(to_numpy(gaussian.correlation)[at])
    c = rho * math.sqrt(a * b)
    return np.array([[a, c], [c, b]])


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-np.asarray(x, np.float64)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("alpha", [0.1, 1.0])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_the_map_is_the_loop(xp, rng, size, alpha, dtype):
    raw = rng.normal(size=(2, 3, 5)).astype(dtype)
    for gaussian in (full_gaussian(xp.asarray(raw)), isotropic_gaussian(xp.asarray(raw[..., :3]))):
        found = attention_map(gaussian, size, alpha=alpha)
        assert_same_kind(found, xp.asarray(np.zeros((2, 3, *size), dtype)))
        for at in np.ndindex(2, 3):
            mean = to_numpy(gaussian.mean)[at].astype(np.float64)
            expected = loop_map(mean, covariance_of(gaussian, at), size, alpha)
            tol = 2e-4 if dtype == "float32" else 1e-10
            np.testing.assert_allclose(to_numpy(found)[at], expected, rtol=tol, atol=1e-30)


def test_parameters_are_the_printed_functions_of_the_outputs(xp, rng):
    raw = rng.normal(size=(4, 5))
    mean, variances, rho = full_gaussian(xp.asarray(raw), min_variance=0.01, max_correlation=0.8)
    np.testing.assert_allclose(to_numpy(mean), sigmoid(raw[:, :2]), rtol=1e-14)
    np.testing.assert_allclose(to_numpy(variances), 0.01 + 0.99 * sigmoid(raw[:, 2:4]), rtol=1e-14)
    np.testing.assert_allclose(to_numpy(rho), 0.8 * np.tanh(raw[:, 4]), rtol=1e-14)
    mean, variances, rho = isotropic_gaussian(xp.asarray(raw[:, :3]), min_variance=0.01)
    delta = 0.01 + 0.99 * sigmoid(raw[:, 2])
    np.testing.assert_allclose(to_numpy(mean), sigmoid(raw[:, :2]), rtol=1e-14)
    np.testing.assert_allclose(to_numpy(variances), np.stack([delta, delta], axis=1), rtol=1e-14)
    assert (to_numpy(rho) == 0).all()


def test_a_full_window_without_tilt_is_the_isotropic_one(xp):
    raw = xp.asarray([0.3, -0.2, -1.0])
    full = full_gaussian(xp.asarray([0.3, -0.2, -1.0, -1.0, 0.0]))
    assert_close(
        attention_map(full, (6, 6)), attention_map(isotropic_gaussian(raw), (6, 6)), rtol=1e-13
    )


@pytest.mark.parametrize("tilt", [-1.0, 1.0])
def test_a_tilt_favors_a_diagonal(xp, tilt):
    a = to_numpy(attention_map(full_gaussian(xp.asarray([0.0, 0.0, 0.0, 0.0, tilt])), (5, 5)))
    main, other = a[0, 0], a[0, 4]
    assert (main > other) == (tilt > 0)
    np.testing.assert_allclose(a, a.T, rtol=1e-12)
    np.testing.assert_allclose(a, a[::-1, ::-1], rtol=1e-12)


def test_swapping_the_axes_transposes_the_map(xp):
    a = attention_map(full_gaussian(xp.asarray([0.5, -1.0, 0.3, -0.7, 0.4])), (4, 7))
    b = attention_map(full_gaussian(xp.asarray([-1.0, 0.5, -0.7, 0.3, 0.4])), (7, 4))
    np.testing.assert_allclose(to_numpy(a), to_numpy(b).T, rtol=1e-12)


def test_maps_lie_in_zero_to_one_with_one_at_the_center(xp, rng):
    raw = rng.normal(scale=3.0, size=(200, 5))
    a = to_numpy(attention_map(full_gaussian(xp.asarray(raw)), (6, 6)))
    assert (a >= 0).all()
    assert (a <= 1).all()
    center = Gaussian(xp.asarray([0.5, 1.0]), xp.asarray([0.1, 0.2]), xp.asarray(0.5))
    assert float(attention_map(center, (3, 3))[1, 2]) == 1.0


@pytest.mark.parametrize("raw", [1e300, -1e300, 0.0])
def test_every_output_gives_a_positive_definite_matrix(xp, raw):
    for tilt in (-1e300, 0.0, 1e300):
        gaussian = full_gaussian(xp.asarray([raw, raw, raw, -raw, tilt]))
        determinant = np.linalg.det(covariance_of(gaussian))
        assert determinant >= 0.99e-8 * (1 - 0.95**2)
        assert np.isfinite(to_numpy(attention_map(gaussian, (6, 6)))).all()


def test_the_least_variance_of_the_docstring_keeps_a_point_inside(xp, rng):
    for size in (2, 6, 10):
        v = 3 / (0.1 * (size - 1) ** 2)
        means = rng.uniform(size=(500, 2))
        gaussian = Gaussian(
            xp.asarray(means), xp.asarray(np.full((500, 2), v)), xp.asarray(np.zeros(500))
        )
        a = to_numpy(attention_map(gaussian, (size, size)))
        assert a.max(axis=(1, 2)).min() > 0.84


# What the printed or released form does --------------------------------------------------------


def test_erratum_alpha_as_printed_gives_another_map_than_the_one_executed(xp):
    gaussian = isotropic_gaussian(xp.asarray([0.4, -0.3, 0.2]))
    mean, delta = to_numpy(gaussian.mean), float(gaussian.variances[0])
    grid = np.stack(np.meshgrid(np.arange(6) / 5, np.arange(6) / 5, indexing="ij"), axis=-1)
    d2 = ((grid - mean) ** 2).sum(axis=-1)
    executed = np.exp(-d2 / (2 * 0.05 * delta))
    np.testing.assert_allclose(to_numpy(attention_map(gaussian, (6, 6))), executed, rtol=1e-12)
    printed = to_numpy(attention_map(gaussian, (6, 6), alpha=0.05))
    assert np.abs(printed - executed).max() > 0.1
    np.testing.assert_allclose(printed, executed**2, rtol=1e-11)


def test_erratum_a_relu_lets_the_covariance_vanish_and_this_one_does_not(xp):
    d2, delta = np.zeros(1), np.maximum(np.array([-1.0]), 0.0)
    with np.errstate(invalid="ignore"):
        assert np.isnan(np.exp(-d2 / (0.1 * delta))).all()
    gaussian = isotropic_gaussian(xp.asarray([0.0, 0.0, -1e300]))
    a = attention_map(gaussian, (3, 3))
    assert float(a[1, 1]) == 1.0
    assert float(gaussian.variances[0]) == 1e-4


def test_erratum_a_map_of_one_row_is_nan_as_published(xp):
    with np.errstate(invalid="ignore"):
        assert np.isnan(np.arange(1) / (1 - 1)).all()
    a = attention_map(isotropic_gaussian(xp.asarray([0.0, 0.0, 0.0])), (1, 1))
    assert_equal(a, xp.asarray([[1.0]]))


def test_erratum_pooling_is_a_sum_because_a_mean_would_shrink_with_the_window(xp, rng):
    features = xp.asarray(rng.normal(size=(2, 4, 6, 6)))
    window = attention_map(isotropic_gaussian(xp.asarray(np.zeros((2, 3)))), (6, 6))
    found = attended_features(features, window)
    expected = np.zeros((2, 4))
    for s, c, i, j in np.ndindex(2, 4, 6, 6):
        expected[s, c] += to_numpy(features)[s, c, i, j] * to_numpy(window)[s, i, j]
    assert_close(found, xp.asarray(expected), rtol=1e-12)


# Gradients, precision, read-backs --------------------------------------------------------------


@pytest.mark.parametrize("size", [(1, 4), (3, 3)], ids=str)
def test_gradients_match_finite_differences(rng, size):
    raw = torch.tensor(rng.normal(size=(2, 5)), requires_grad=True)
    features = torch.tensor(rng.normal(size=(2, 3, *size)), requires_grad=True)
    check = torch.autograd.gradcheck
    assert check(lambda r: attention_map(full_gaussian(r), size), (raw,))
    assert check(lambda r: attention_map(isotropic_gaussian(r[:, :3]), size), (raw,))
    assert check(
        lambda f, r: attended_features(f, attention_map(full_gaussian(r), size)), (features, raw)
    )


def chain(raw, features):
    return attended_features(features, attention_map(full_gaussian(raw), (6, 6)))


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_half_precision_is_computed_in_float32(rng, name):
    raw, features = (
        torch.tensor(rng.normal(size=shape)).to(getattr(torch, name))
        for shape in ((3, 5), (3, 4, 6, 6))
    )
    assert chain(raw, features).dtype == torch.float32
    assert_equal(chain(raw, features), chain(raw.float(), features.float()))
    round_ = isotropic_gaussian(raw[:, :3])
    assert {part.dtype for part in round_} == {torch.float32}
    half = Gaussian(*(part.to(raw.dtype) for part in round_))
    assert attention_map(half, (6, 6)).dtype == torch.float32


def test_autocast_changes_nothing(rng):
    raw, features = torch.tensor(rng.normal(size=(3, 5))).float(), torch.ones(3, 4, 6, 6)
    plain = chain(raw, features)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert_equal(chain(raw, features), plain)


def test_nothing_is_read_back():
    raw = torch.zeros(3, 5, device="meta", requires_grad=True)
    features = torch.zeros(3, 4, 6, 6, device="meta")
    chain(raw, features).sum().backward()
    assert raw.grad is not None
    assert (raw.grad.shape, raw.grad.device.type) == ((3, 5), "meta")
    round_ = attention_map(isotropic_gaussian(raw[:, :3]), (6, 6))
    assert (round_.shape, round_.device.type, round_.requires_grad) == ((3, 6, 6), "meta", True)
    round_.sum().backward()


# What is refused -------------------------------------------------------------------------------


def test_arguments_are_checked(xp):
    for make, length in ((isotropic_gaussian, 3), (full_gaussian, 5)):
        text = message_of(InvalidValueError, make, xp.asarray(np.zeros((2, 4))))
        rule = f"raw must have shape (..., {length}), got (2, 4)"
        assert text == f"{rule}. To fix this, give the last layer of the network {length} outputs"
        with pytest.raises(InvalidTypeError):
            make(xp.asarray(np.zeros(length, np.int64)))
        for bad in (0.0, 1e-9, 1.0, math.nan):
            with pytest.raises(InvalidValueError, match=r"min_variance must lie in"):
                make(xp.asarray(np.zeros(length)), min_variance=bad)
    with pytest.raises(InvalidValueError, match=r"max_correlation must lie in \[0, 0.999999\]"):
        full_gaussian(xp.asarray(np.zeros(5)), max_correlation=1.0)
    good = full_gaussian(xp.asarray(np.zeros((2, 5))))
    with pytest.raises(InvalidValueError, match="size must be at least 1, got 0"):
        attention_map(good, (0, 3))
    with pytest.raises(InvalidValueError, match=r"size must be \(H, W\), got \(3,\)"):
        attention_map(good, (3,))
    with pytest.raises(InvalidValueError, match="alpha must lie in"):
        attention_map(good, (2, 3), alpha=0.0)
    with pytest.raises(InvalidValueError, match=r"gaussian.mean must have shape \(\.\.\., 2\)"):
        attention_map(good._replace(mean=good.mean[:, :1]), (2, 3))
    with pytest.raises(InvalidValueError, match=r"gaussian.variances must have shape"):
        attention_map(good._replace(variances=good.variances[:1, :]), (2, 3))
    with pytest.raises(InvalidValueError, match=r"gaussian.correlation must have shape"):
        attention_map(good._replace(correlation=good.correlation[:1]), (2, 3))
    features = xp.asarray(np.zeros((2, 4, 3, 3)))
    with pytest.raises(InvalidValueError, match=r"attention must have shape \(2, 3, 3\)"):
        attended_features(features, xp.asarray(np.zeros((3, 3))))
    with pytest.raises(InvalidValueError, match=r"features must have shape \(\.\.\., c, H, W\)"):
        attended_features(features[0, 0, ...], xp.asarray(np.zeros((3, 3))))


def test_two_libraries_are_refused():
    with pytest.raises(DeviceMismatchError):
        attended_features(torch.zeros(2, 3, 3), np.zeros((3, 3)))
