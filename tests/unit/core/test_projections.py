"""Projections by hand, on every array library, and at extreme lengths."""

import math

import numpy as np
import pytest

from dualclust.algos.core.errors import InvalidTypeError, InvalidValueError
from dualclust.algos.core.projections import (
    project_capped,
    project_l1_ball,
    project_simplex,
    project_sphere,
)
from tests.compare import assert_close, assert_equal, assert_same_kind, to_numpy
from tests.refusals import is_refusal, message_of

ALL = {
    "sphere": project_sphere,
    "simplex": project_simplex,
    "l1_ball": lambda x: project_l1_ball(x, 1.0),
    "capped": lambda x: project_capped(x, 0.5),
}


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_results_are_of_the_kind_of_the_input(xp, rng, name, dtype):
    for shape in ((4,), (3, 4), (2, 3, 4), (0, 4)):
        x = xp.asarray(rng.normal(size=shape), dtype)
        p = ALL[name](x)
        assert_same_kind(p, x)


@pytest.mark.parametrize("name", ALL)
def test_leading_axes_are_a_batch(xp, rng, name):
    x = rng.normal(size=(2, 3, 5))
    whole = to_numpy(ALL[name](xp.asarray(x)))
    for i, j in np.ndindex(2, 3):
        assert_equal(xp.asarray(whole[i, j]), ALL[name](xp.asarray(x[i, j])))


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        ([0.5, 0.25, 0.25], [0.5, 0.25, 0.25]),
        ([0.0, 0.0], [0.5, 0.5]),
        ([2.0, 0.0], [1.0, 0.0]),
        ([1.0, 0.5, -1.0], [0.75, 0.25, 0.0]),
        ([7.0], [1.0]),
        ([-5.0, -5.0, -5.0, -5.0], [0.25] * 4),
    ],
)
def test_the_simplex_by_hand(xp, x, expected):
    assert_close(project_simplex(xp.asarray(x)), xp.asarray(expected))
    assert_close(project_simplex(xp.asarray(x) * 3.0, 3.0), xp.asarray(expected) * 3.0)


@pytest.mark.parametrize(
    ("x", "radius", "expected"),
    [
        ([0.25, -1.0], 1.0, [0.25, 0.0]),
        ([2.0, 1.5], 1.0, [0.75, 0.25]),
        ([-1.0, -2.0], 1.0, [0.0, 0.0]),
        ([0.5, 0.5], 1.0, [0.5, 0.5]),
        ([5.0, -1.0, 2.0], math.inf, [5.0, 0.0, 2.0]),
        ([1e9, -1.0], 1e-6, [1e-6, 0.0]),
    ],
)
def test_the_l1_ball_by_hand(xp, x, radius, expected):
    assert_close(project_l1_ball(xp.asarray(x), radius), xp.asarray(expected))


@pytest.mark.parametrize(
    ("x", "cap", "expected"),
    [
        ([5.0, 0.0, 0.0], 0.5, [0.5, 0.25, 0.25]),
        ([5.0, 4.0, 0.0], 0.5, [0.5, 0.5, 0.0]),
        ([5.0, 0.25, 0.0], 0.5, [0.5, 0.375, 0.125]),
        ([0.0, 0.0, 0.0, 0.0], 0.25, [0.25] * 4),
        ([9.0, 0.0, -9.0, 4.0], 0.25, [0.25] * 4),
        ([2.0, 0.0], 1.0, [1.0, 0.0]),
        ([3.0], 1.0, [1.0]),
    ],
)
def test_the_capped_simplex_by_hand(xp, x, cap, expected):
    assert_close(project_capped(xp.asarray(x), cap), xp.asarray(expected))


@pytest.mark.parametrize("k", [1, 2, 3, 7, 10, 49, 93, 98, 100, 103, 107, 161, 1000])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_cap_of_one_over_k_leaves_the_uniform_point(xp, rng, k, dtype):
    p = project_capped(xp.asarray(rng.normal(size=k), dtype), 1.0 / k)
    uniform = xp.asarray(np.full(k, 1.0 / k), dtype)
    assert_close(p, uniform, rtol=0.0, atol=8 * k * float(np.finfo(dtype).eps))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("gap", [1e3, 1e5, 1e8, 1e12, 1e20, 1e30])
def test_a_huge_entry_does_not_cost_the_small_ones_their_digits(xp, dtype, gap):
    for sign in (1.0, -1.0):
        x = xp.asarray([sign * gap, 0.25, 0.0], dtype)
        expected = [0.5, 0.375, 0.125] if sign > 0 else [0.0, 0.5, 0.5]
        assert_close(project_capped(x, 0.5), xp.asarray(expected, dtype))
        expected = [1.0, 0.0, 0.0] if sign > 0 else [0.0, 0.625, 0.375]
        assert_close(project_simplex(x), xp.asarray(expected, dtype))


def test_the_sphere_by_hand(xp):
    assert_close(project_sphere(xp.asarray([3.0, 4.0])), xp.asarray([0.6, 0.8]))
    assert_close(project_sphere(xp.asarray([[-2.0]])), xp.asarray([[-1.0]]))


@pytest.mark.parametrize("size", [5e-324, 1e-308, 1e-160, 1.0, 1e160, 1e308])
def test_lengths_neither_overflow_nor_vanish(xp, size):
    x = xp.asarray([[size, -size, 0.0]])
    assert_close(project_sphere(x), xp.asarray([[0.5**0.5, -(0.5**0.5), 0.0]]))


def test_a_zero_row_stays_or_takes_the_fallback(xp):
    x = xp.asarray([[0.0, 0.0], [0.0, -2.0], [-0.0, 0.0]])
    assert_equal(project_sphere(x) + 0.0, xp.asarray([[0.0, 0.0], [0.0, -1.0], [0.0, 0.0]]))
    fallback = xp.asarray([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    assert_equal(
        project_sphere(x, fallback) + 0.0, xp.asarray([[1.0, 0.0], [0.0, -1.0], [0.0, 1.0]])
    )


@pytest.mark.parametrize("cap", [0.2, 0.2499])
def test_an_empty_set_is_refused(xp, cap):
    text = message_of(InvalidValueError, project_capped, xp.asarray(np.zeros(4)), cap)
    wrong = f"cap must be at least 1/k = 0.25 for k=4 entries, got {cap}"
    assert text == f"{wrong}. To fix this, pass a larger cap"


@pytest.mark.parametrize(
    ("project", "options", "text"),
    [
        (project_simplex, {"total": 0.0}, "total must lie in (0, inf), got 0.0"),
        (project_simplex, {"total": math.nan}, "total must lie in (0, inf), got nan"),
        (project_l1_ball, {"radius": -1.0}, "radius must lie in (0, inf), got -1.0"),
        (project_capped, {"cap": 1.5}, "cap must lie in (0, 1], got 1.5"),
        (project_capped, {"cap": 0.0}, "cap must lie in (0, 1], got 0.0"),
    ],
)
def test_invalid_options_are_named(xp, project, options, text):
    assert is_refusal(
        message_of(InvalidValueError, project, xp.asarray([1.0, 2.0]), **options), text
    )


@pytest.mark.parametrize("total", [math.inf, 1e-60, 1e60])
def test_a_total_that_the_dtype_cannot_hold_is_refused(xp, total):
    with pytest.raises(InvalidValueError, match="total must lie in"):
        project_simplex(xp.asarray([1.0, 0.5], "float32"), total)


@pytest.mark.parametrize("total", [1e-60, 1e60])
def test_a_wider_dtype_holds_the_same_total(xp, total):
    p = to_numpy(project_simplex(xp.asarray([0.75 * total, 0.5 * total], "float64"), total))
    np.testing.assert_allclose(p, [0.625 * total, 0.375 * total], rtol=1e-14)


@pytest.mark.parametrize("name", ALL)
def test_what_is_no_real_array_is_refused(xp, name):
    for x in (xp.asarray([1, 2]), xp.asarray([True, False]), [1.0, 2.0], 1.0):
        with pytest.raises(InvalidTypeError, match=r"^x must"):
            ALL[name](x)


@pytest.mark.parametrize("name", ALL)
def test_an_axis_without_entries_is_an_error_of_ours(xp, name):
    for shape in ((0,), (2, 0), ()):
        with pytest.raises(InvalidValueError):
            ALL[name](xp.asarray(np.zeros(shape)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_range_of_totals_has_its_ends(xp, dtype):
    info = np.finfo(dtype)
    for total in (float(info.smallest_normal), float(info.max)):
        assert_close(project_simplex(xp.asarray([0.0], dtype), total), xp.asarray([total], dtype))


def test_a_point_of_the_ball_stays_to_the_last_bit(xp, rng):
    for _ in range(20):
        x = xp.asarray(rng.uniform(size=3))
        radius = float(to_numpy(xp.namespace.sum(x, axis=-1, keepdims=True))[0])
        assert_equal(project_l1_ball(x, radius), x)


@pytest.mark.parametrize("k", [10, 1000])
def test_caps_that_are_one_over_k_but_for_rounding_are_taken(xp, k):
    x = xp.asarray(np.zeros(k))
    near, far = ((1.0 - share * 1e-15 * k) / k for share in (0.75, 1.5))
    assert_close(project_capped(x, near), xp.asarray(np.full(k, 1.0 / k)), rtol=1e-11)
    assert "cap must be at least 1/k" in message_of(InvalidValueError, project_capped, x, far)


def test_what_three_full_entries_leave_goes_to_the_next(xp):
    """The cap is a little below a third: the fourth entry takes the rest, the fifth nothing."""
    cap = 1.0 / (3.0 + 1.5e-9)
    found = to_numpy(project_capped(xp.asarray([9.0, 9.0, 9.0, 0.0, -9.0]), cap))
    expected = [cap, cap, cap, 1.0 - 3.0 * cap, 0.0]
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-14)
