"""Hardness-weighted centers: certified fixed points, and the printed iteration."""

import math

import numpy as np
import pytest
import torch

from dualclust.algos.clustering.hardness_weighted import (
    CenterStatus,
    HardnessCenters,
    hardness,
    hardness_centers,
)
from dualclust.algos.core.errors import DeviceMismatchError, InvalidTypeError, InvalidValueError
from dualclust.algos.core.projections import project_sphere
from tests.compare import assert_close, assert_equal, assert_same_kind, to_numpy
from tests.problems import unit_rows
from tests.refusals import is_refusal, message_of

X = unit_rows(np.random.default_rng(0).normal(size=(20, 4)))
W = unit_rows(np.random.default_rng(1).normal(size=(3, 4)))
Y = (X @ W.T).argmax(axis=1)


def printed_step(x, y, w, other, lam):
    """The right-hand side of Eq. 4 for every cluster; `other` are the fixed centers."""
    a = np.exp(x @ other.T / lam)
    a[np.arange(len(x)), y] = 0.0
    p = 1.0 / (1.0 + a.sum(axis=1) / np.exp((x * w[y]).sum(axis=1) / lam))
    new = w.copy()
    for j in range(len(w)):
        if (y == j).any():
            new[j] = ((1.0 - p)[y == j, None] * x[y == j]).sum(axis=0)
            new[j] /= np.linalg.norm(new[j])
    return new


def two_groups():
    """One cluster of two groups 90 degrees apart, and another center away from both."""
    x = unit_rows(np.asarray([[1.0, 0.0, 0.0]] * 5 + [[0.0, 1.0, 0.0]] * 5 + [[0.0, 0.0, 1.0]]))
    w = unit_rows(np.asarray([[1.0, 0.2, 0.0], [0.5, 0.5, 1.0]]))
    return x, np.asarray([0] * 10 + [1]), w


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_results_are_of_the_kind_of_the_centers(xp, dtype):
    centers = xp.asarray(W, dtype)
    result = hardness_centers(xp.asarray(X, dtype), xp.asarray(Y), centers, temperature=0.5)
    assert isinstance(result, HardnessCenters)
    assert_same_kind(result.centers, centers)
    assert_same_kind(result.residual, xp.asarray(np.zeros(3)))
    assert_same_kind(result.gap, xp.asarray(np.zeros(3)))
    assert_same_kind(result.status, xp.asarray([0, 0, 0]))
    assert type(result.n_iter) is int
    norms = np.linalg.norm(to_numpy(result.centers).astype(np.float64), axis=1)
    np.testing.assert_allclose(norms, 1.0, rtol=4 * np.finfo(dtype).eps)


def test_a_certified_center_is_a_fixed_point_of_the_printed_equation(xp):
    result = hardness_centers(xp.asarray(X), xp.asarray(Y), xp.asarray(W), temperature=0.5)
    assert to_numpy(result.status).tolist() == [CenterStatus.CERTIFIED] * 3
    w = to_numpy(result.centers)
    again = printed_step(X, Y, w, W, 0.5)
    np.testing.assert_allclose(again, w, atol=1e-4)
    np.testing.assert_allclose(
        np.linalg.norm(again - w, axis=1), to_numpy(result.residual), atol=1e-10
    )
    assert (to_numpy(result.gap) <= 1e-8).all()


def test_hardness_is_one_minus_the_softmax(xp):
    logits = X @ W.T / 0.3
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    expected = 1.0 - p[np.arange(20), Y]
    q = hardness(xp.asarray(X), xp.asarray(Y), xp.asarray(W), temperature=0.3)
    assert_close(q, xp.asarray(expected), rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("temperature", [0.05, 0.01, 0.003])
def test_hardness_keeps_its_digits_where_p_rounds_to_one(xp, dtype, temperature):
    x, w = xp.asarray([[1.0, 0.0]], dtype), xp.asarray([[1.0, 0.0], [-1.0, 0.0]], dtype)
    q = hardness(x, xp.asarray([0]), w, temperature=temperature)
    assert_close(q, xp.asarray([math.exp(-2.0 / temperature)]), rtol=1e-12)
    q = hardness(x, xp.asarray([1]), w, temperature=temperature)
    assert_close(q, xp.asarray([1.0]))


def test_hardness_of_float32_features_is_computed_in_float64(xp):
    x, w = xp.asarray(X, "float32"), xp.asarray(W, "float32")
    wide = xp.asarray(to_numpy(x), "float64"), xp.asarray(to_numpy(w), "float64")
    for temperature in (0.5, 0.01):
        narrow_q = hardness(x, xp.asarray(Y), w, temperature=temperature)
        wide_q = hardness(wide[0], xp.asarray(Y), wide[1], temperature=temperature)
        assert_close(narrow_q, wide_q, rtol=1e-12)


def test_the_minimum_inside_the_ball_is_told(xp):
    # x = (1, 1, -1) on a line, and A = 1: T(1) = -1 and T(-1) = 1, so no fixed point exists.
    x, y = xp.asarray([[1.0], [1.0], [-1.0]]), xp.asarray([0, 0, 0])
    result = hardness_centers(x, y, xp.asarray([[1.0], [0.0]]), temperature=0.1)
    assert to_numpy(result.status).tolist() == [CenterStatus.INTERIOR, CenterStatus.EMPTY]
    assert to_numpy(result.centers).tolist() == [[1.0], [0.0]]
    assert float(to_numpy(result.gap)[0]) > 1.0
    assert "inside the ball" in CenterStatus(int(result.status[0])).advice


@pytest.mark.parametrize("temperature", [0.05, 0.1, 0.2])
def test_the_printed_iteration_does_not_converge_where_ours_does(xp, temperature):
    x, y, w = two_groups()
    last, history = w, []
    for _ in range(500):
        new = printed_step(x, y, last, w, temperature)
        history.append(np.linalg.norm(new[0] - last[0]))
        last = new
    assert min(history[-50:]) > 0.1  # it still jumps between the groups
    result = hardness_centers(xp.asarray(x), xp.asarray(y), xp.asarray(w), temperature=temperature)
    status = int(result.status[0])
    assert status in (CenterStatus.CERTIFIED, CenterStatus.NOT_CONVERGED)
    found = to_numpy(result.centers)[0]
    if status == CenterStatus.CERTIFIED:
        np.testing.assert_allclose(found[:2], [0.5**0.5] * 2, atol=1e-3)
        assert float(result.gap[0]) <= 1e-8
    else:
        assert float(result.gap[0]) > 1e-8


def test_the_printed_iteration_converges_at_a_large_temperature():
    x, y, w = two_groups()
    last = w
    for _ in range(100):
        last = printed_step(x, y, last, w, 1.0)
    np.testing.assert_allclose(printed_step(x, y, last, w, 1.0), last, atol=1e-9)


def test_an_empty_cluster_keeps_its_center(xp):
    result = hardness_centers(
        xp.asarray(X), xp.asarray(np.where(Y == 1, 0, Y)), xp.asarray(W), temperature=0.3
    )
    assert int(result.status[1]) == CenterStatus.EMPTY
    assert_close(result.centers[1, :], xp.asarray(W[1]))
    assert float(result.gap[1]) == 0.0


def test_without_samples_all_clusters_are_empty(xp):
    result = hardness_centers(xp.asarray(X[:0]), xp.asarray(Y[:0]), xp.asarray(W), temperature=0.3)
    assert to_numpy(result.status).tolist() == [CenterStatus.EMPTY] * 3
    assert_close(result.centers, xp.asarray(W))
    assert_equal(
        hardness(xp.asarray(X[:0]), xp.asarray(Y[:0]), xp.asarray(W), temperature=0.3),
        xp.asarray(np.zeros(0)),
    )


def test_a_single_cluster_has_nothing_to_be_far_from(xp):
    y = xp.asarray(np.zeros(20, np.int64))
    w = xp.asarray(W[:1])
    assert_equal(hardness(xp.asarray(X), y, w, temperature=0.3), xp.asarray(np.zeros(20)))
    result = hardness_centers(xp.asarray(X), y, w, temperature=0.3)
    assert to_numpy(result.status).tolist() == [CenterStatus.CERTIFIED]
    assert_close(result.centers, w)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("temperature", [1e-6, 1e-3, 1.0, 1e3, 1e6])
def test_extreme_temperatures_give_unit_centers_and_no_nan(xp, dtype, temperature):
    features, centers = xp.asarray(X, dtype), xp.asarray(W, dtype)
    q = to_numpy(hardness(features, xp.asarray(Y), centers, temperature=temperature))
    assert ((q >= 0) & (q <= 1)).all()
    result = hardness_centers(
        features, xp.asarray(Y), centers, temperature=temperature, max_iter=30
    )
    for part in result[:3]:
        assert np.isfinite(to_numpy(part)).all()
    np.testing.assert_allclose(
        np.linalg.norm(to_numpy(result.centers), axis=1), 1.0, rtol=4 * np.finfo(dtype).eps
    )
    if temperature >= 1e3:  # all samples are equally hard: the plain mean
        means = unit_rows(np.stack([X[Y == j].sum(axis=0) for j in range(3)]))
        np.testing.assert_allclose(to_numpy(result.centers), means, atol=1e-2)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_labels_of_any_integer_dtype(xp, dtype):
    x, w, options = xp.asarray(X), xp.asarray(W), {"temperature": 0.3, "max_iter": 5}
    expected = hardness_centers(x, xp.asarray(Y), w, **options)
    result = hardness_centers(x, xp.asarray(Y, dtype), w, **options)
    for a, b in zip(result[:4], expected[:4], strict=True):
        assert_equal(a, b)


def test_more_clusters_than_the_dtype_of_the_labels_can_number(xp, rng):
    w = xp.asarray(unit_rows(rng.normal(size=(300, 4))))
    x = xp.asarray(X)
    wide = hardness_centers(x, xp.asarray(Y), w, temperature=0.3, max_iter=5)
    narrow = hardness_centers(x, xp.asarray(Y, "int8"), w, temperature=0.3, max_iter=5)
    assert_equal(narrow.status, wide.status)
    assert_equal(narrow.centers, wide.centers)


def test_inputs_are_not_changed(xp):
    arrays = [xp.asarray(X), xp.asarray(Y), xp.asarray(W)]
    hardness_centers(*arrays, temperature=0.3)
    for array, before in zip(arrays, (X, Y, W), strict=True):
        np.testing.assert_array_equal(to_numpy(array), before)


@pytest.mark.parametrize("function", [hardness, hardness_centers])
@pytest.mark.parametrize(
    ("error", "change", "text"),
    [
        (InvalidValueError, {"temperature": 0.0}, "temperature must lie in (0, inf), got 0.0"),
        (InvalidValueError, {"temperature": math.nan}, "temperature must lie in (0, inf), got nan"),
        (InvalidValueError, {"temperature": math.inf}, "temperature must lie in (0, inf), got inf"),
        (InvalidTypeError, {"temperature": "1"}, "temperature must be a number, got '1' (str)"),
        (
            InvalidValueError,
            {"features": X[:, :3]},
            "centers must have shape (k, 3), got (3, 4)",
        ),
        (InvalidValueError, {"labels": Y[:5]}, "labels must have shape (20,), got (5,)"),
        (
            InvalidValueError,
            {"labels": np.full(20, 3)},
            "labels must lie in [0, 3), got values from 3 to 3",
        ),
        (
            InvalidValueError,
            {"features": np.where(np.eye(20, 4) > 0, np.nan, X)},
            "features must be finite, got nan at index (0, 0). "
            "To fix this, drop or impute that entry",
        ),
        (
            InvalidValueError,
            {"centers": np.where(np.eye(3, 4, 1) > 0, np.inf, W)},
            "centers must be finite, got inf at index (0, 1). "
            "To fix this, drop or impute that entry",
        ),
    ],
)
def test_invalid_arguments_are_named(xp, function, error, change, text):
    arguments = {"features": X, "labels": Y, "centers": W, "temperature": 0.3} | change
    arrays = {n: xp.asarray(v) if isinstance(v, np.ndarray) else v for n, v in arguments.items()}
    assert is_refusal(message_of(error, function, **arrays), text)


@pytest.mark.parametrize("options", [{"tol": 0.0}, {"max_iter": 0}, {"tol": math.nan}])
def test_invalid_options_are_refused(xp, options):
    with pytest.raises(InvalidValueError):
        hardness_centers(xp.asarray(X), xp.asarray(Y), xp.asarray(W), temperature=0.3, **options)


def test_two_libraries_are_refused():
    with pytest.raises(DeviceMismatchError):
        hardness_centers(X, torch.from_numpy(Y), W, temperature=0.3)


def test_a_parameter_of_a_module_is_a_tensor():
    centers = torch.nn.Parameter(torch.from_numpy(W))
    x, y = torch.from_numpy(X), torch.from_numpy(Y)
    result = hardness_centers(x, y, centers, temperature=0.3)
    assert_close(
        result.centers.detach(),
        hardness_centers(x, y, centers.detach(), temperature=0.3).centers,
    )


def test_each_status_says_what_to_do():
    advice = {status: status.advice for status in CenterStatus}
    assert len(set(advice.values())) == 4
    assert all(text.endswith(".") for text in advice.values())


def test_a_start_that_is_no_unit_vector_is_scaled_to_one(xp):
    x, y = xp.asarray(X), xp.asarray(np.zeros(20, np.int64))
    result = hardness_centers(x, y, xp.asarray(W[:2] * 3.0), temperature=0.3)
    assert_close(result.centers[1, :], project_sphere(xp.asarray(W[1])))
