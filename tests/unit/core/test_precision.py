"""Half precision is raised and nothing else; logarithms of probabilities stay finite at 0."""

import math

import numpy as np
import pytest
import torch

from dualclust.algos.core.errors import InvalidTypeError
from dualclust.algos.core.precision import (
    LARGEST_WEIGHT,
    at_least_float32,
    finite_log,
    times_power_of_two,
)
from tests.compare import assert_close, assert_equal, to_numpy

FLOOR = {"float32": 87.33654475, "float64": 708.39641853226408}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_wider_arrays_pass_as_they_are(xp, dtype):
    x = xp.asarray([1.0, -2.5], dtype)
    assert at_least_float32(x) is x


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_every_half_number_of_torch_keeps_its_value(dtype):
    every = torch.arange(-(2**15), 2**15).to(torch.int16).view(dtype)
    every = every[every.isfinite()]
    raised = at_least_float32(every)
    assert raised.dtype == torch.float32
    assert torch.equal(raised.to(dtype), every)
    assert torch.equal(raised.double(), every.double())


def test_float16_of_numpy():
    x = np.asarray([65504.0, 6e-8, -0.0], np.float16)
    assert_equal(at_least_float32(x), x.astype(np.float32))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_gradients_pass_to_the_half_numbers(dtype):
    x = torch.tensor([1.0, 2.0], dtype=dtype, requires_grad=True)
    (at_least_float32(x) ** 2).sum().backward()
    assert x.grad.dtype == dtype
    assert x.grad.tolist() == [2.0, 4.0]


def test_scores_must_be_real_arrays(xp):
    for call in (at_least_float32, finite_log):
        with pytest.raises(InvalidTypeError, match="must have a real floating dtype"):
            call(xp.asarray([1, 2]))
        with pytest.raises(InvalidTypeError, match="got list"):
            call([1.0])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_logarithm_is_that_of_numpy_down_to_its_floor(xp, dtype):
    tiny = float(np.finfo(dtype).smallest_normal)
    p = np.asarray([1.0, 0.5, 1e-6, 4 * tiny, tiny], dtype)
    assert_close(finite_log(xp.asarray(p)), xp.asarray(np.log(p)))
    at_zero = to_numpy(finite_log(xp.asarray([0.0, tiny / 4], dtype)))
    np.testing.assert_allclose(at_zero, -FLOOR[dtype], rtol=1e-7)


def test_below_the_floor_there_is_no_gradient():
    p = torch.tensor([0.0, 1e-320, 0.5], dtype=torch.float64, requires_grad=True)
    finite_log(p).sum().backward()
    assert p.grad.tolist() == [0.0, 0.0, 2.0]


def test_the_largest_weight_of_a_term_is_finite_in_float32():
    assert LARGEST_WEIGHT * 3 * FLOOR["float32"] < np.finfo(np.float32).max
    assert LARGEST_WEIGHT == 1e30  # as the messages of the losses say it


def test_powers_of_two_are_exact_wherever_the_product_is_a_number():
    values = np.asarray([1.5, -0.75])
    assert times_power_of_two(values, 0) is values
    for exponent in (-1021, -7, -1, 1, 6, 1023):
        found = times_power_of_two(values, exponent)
        assert found.tolist() == [math.ldexp(1.5, exponent), math.ldexp(-0.75, exponent)]
    # A power alone would be out of range.
    assert times_power_of_two(np.asarray([2.0**-1000]), 2020).tolist() == [2.0**1020]
    assert times_power_of_two(np.asarray([2.0**1000]), -2019).tolist() == [2.0**-1019]
