"""Directions of vectors: their values, which vectors have one, and their gradients."""

import math

import numpy as np
import pytest
import torch

from dualclust.algos.core.directions import _one_bit, unit_directions
from dualclust.algos.core.errors import InvalidValueError
from tests.compare import assert_close, assert_equal, to_numpy
from tests.refusals import message_of


def test_rows_are_divided_by_their_length(xp, rng):
    x = rng.normal(size=(2, 5, 3))
    found = unit_directions(xp.asarray(x))
    expected = x / np.sqrt((x**2).sum(axis=-1, keepdims=True))
    assert_close(found.vectors, xp.asarray(expected), rtol=1e-14)
    assert_equal(found.valid, xp.asarray(np.ones((2, 5), bool)))
    assert unit_directions(xp.asarray(x[0, 0])).valid.shape == ()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_vector_has_a_direction_above_the_root_of_the_smallest_number(xp, dtype):
    edge = float(np.finfo(dtype).smallest_normal) ** 0.5
    below = float(np.nextafter(np.asarray(edge, dtype), np.asarray(0.0, dtype)))
    above = float(np.nextafter(np.asarray(edge, dtype), np.asarray(1.0, dtype)))
    x = xp.asarray([[below, 0.0], [0.0, -above], [above, above], [0.0, 0.0]], dtype)
    found = unit_directions(x)
    assert to_numpy(found.valid).tolist() == [False, True, True, False]
    half = math.sqrt(0.5)
    expected = [[0.0, 0.0], [0.0, -1.0], [half, half], [0.0, 0.0]]
    assert_close(found.vectors, xp.asarray(expected, "float64"), rtol=4e-15)


def test_at_the_edge_itself_there_is_none(xp):
    """In float64 the root of the smallest normal number is a power of two."""
    x = xp.asarray([[2.0**-511, 0.0]])
    assert to_numpy(unit_directions(x).valid).tolist() == [False]


@pytest.mark.parametrize("length", [2.0**-500, 1e-30, 3.0, 2.0**1000, 1.7e308])
def test_lengths_of_all_sizes(xp, length):
    """The largest entry is one whose logarithm a rounding upwards would take out of range."""
    found = unit_directions(xp.asarray([[0.6 * length, -0.8 * length], [length, 0.0]]))
    assert to_numpy(found.valid).tolist() == [True, True]
    assert_close(found.vectors, xp.asarray([[0.6, -0.8], [1.0, 0.0]]), rtol=4e-15)


def test_float32_rows_are_computed_in_float64(xp):
    x = np.asarray([[1.0, 2.0**-20]], np.float32)
    found = unit_directions(xp.asarray(x))
    assert_close(found.vectors, unit_directions(xp.asarray(x.astype(np.float64))).vectors, rtol=0.0)


def test_the_gradient_is_the_projection_divided_by_the_length():
    x = torch.tensor([[3.0, 4.0], [1e-200, 0.0], [0.0, 0.0]], dtype=torch.float64)
    x.requires_grad_()
    pull = torch.tensor([[1.0, 2.0], [1.0, 1.0], [1.0, 1.0]], dtype=torch.float64)
    (unit_directions(x).vectors * pull).sum().backward()
    w = np.asarray([0.6, 0.8])
    expected = (np.eye(2) - np.outer(w, w)) @ np.asarray([1.0, 2.0]) / 5.0
    np.testing.assert_allclose(x.grad[0].numpy(), expected, rtol=1e-14)
    assert x.grad[1:].tolist() == [[0.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize("shape", [(), (3, 0), (0,)])
def test_vectors_have_columns(xp, shape):
    text = message_of(InvalidValueError, unit_directions, xp.asarray(np.zeros(shape)))
    assert text.startswith(f"x must have at least one column, got shape {shape}")


@pytest.mark.parametrize("exponent", [-510, -3, 1, 60, 1023])
def test_a_power_of_two_changes_no_bit(xp, rng, exponent):
    """Whatever the device makes of powers: CUDA's are off by a last bit for every eighth."""
    x = rng.uniform(1.0, 1.9, size=(50, 3))
    moved = unit_directions(xp.asarray(np.ldexp(x, exponent)))
    assert_equal(moved.vectors, unit_directions(xp.asarray(x)).vectors)


def test_numbers_are_rounded_to_one_bit(rng):
    found = _one_bit(np.exp(rng.uniform(-350.0, 709.0, size=1000)))
    assert set(np.frexp(found)[0].tolist()) == {0.5}
    edges = np.asarray([1.0, 1.4999, 1.5001, 2.0])
    assert (_one_bit(edges) * 2.0**60).tolist() == [1.0, 1.0, 2.0, 2.0]
    assert _one_bit(np.asarray([np.finfo(float).max])).tolist() == [2.0**964]
