"""Numbers that are read together are the numbers, on every library."""

import array_api_compat as compat
import numpy as np
import pytest
import torch

from dualclust.algos.core import reads
from dualclust.algos.core.errors import InvalidTypeError
from tests.refusals import message_of
from tests.second_device import DEVICE


def test_numbers_in_their_order(xp):
    x = xp.asarray(np.asarray([0.1, -2.5, 3.0]))
    space = compat.array_namespace(x)
    found = reads.read(space.max(x), 7, space.sum(x) > 0, xp.asarray([2**52 + 1])[0], 0.5)
    assert found == [3.0, 7.0, 1.0, 2.0**52 + 1, 0.5]
    assert all(type(number) is float for number in found)
    assert reads.read() == []
    assert reads.read(x[1]) == [-2.5]


def test_a_number_stays_an_array_away_from_the_host(xp):
    x = xp.asarray(np.asarray([0.1, -2.5]))
    if reads.on_host(x):
        assert reads.unread(x[0]) == 0.1
        assert type(reads.unread(x[0])) is float
    else:
        kept = x[0]
        assert reads.unread(kept) is kept


@pytest.mark.parametrize("dtype", ["int8", "int64", "float32", "float64"])
def test_entries_of_an_array_are_numbers_of_its_kind(xp, dtype):
    found = reads.entries("x", xp.asarray([3, 0, 2], dtype))
    assert found == [3, 0, 2]
    assert {type(v) for v in found} == {float if dtype.startswith("float") else int}
    assert reads.entries("x", xp.asarray([], dtype)) == []


def test_entries_of_a_sequence_are_what_it_holds(xp):
    mixed = [1, 2.5, xp.asarray(0.5), "a", None]
    found = reads.entries("x", mixed)
    assert found == [1, 2.5, 0.5, "a", None]
    assert type(found[2]) is float
    assert reads.entries("x", (1, 2)) == [1, 2]
    row = xp.asarray([1.0, 2.0])
    assert reads.entries("x", [row])[0] is row


@pytest.mark.parametrize("shape", [(), (1, 2), (2, 1)])
def test_entries_have_one_axis(xp, shape):
    x = xp.asarray(np.ones(shape))
    text = message_of(InvalidTypeError, reads.entries, "x", x)
    assert text.startswith(f"x must be a 1-D array of real numbers, got {x.dtype} of shape {shape}")


def test_entries_are_real_numbers(xp):
    for dtype in ("bool", "complex128"):
        x = xp.asarray([1, 0], dtype)
        assert "1-D array of real numbers" in message_of(InvalidTypeError, reads.entries, "x", x)
    for wrong in ("12", None, {1, 2}, 3):
        text = message_of(InvalidTypeError, reads.entries, "x", wrong)
        assert text.startswith(f"x must be numbers, got {wrong!r} ({type(wrong).__name__})")


def test_a_graph_ends_where_it_is_left():
    x = torch.ones(2, requires_grad=True)
    assert not reads.detached(x).requires_grad
    plain = np.ones(2)
    assert reads.detached(plain) is plain


@pytest.mark.parametrize(("n", "reads_of"), [(1, 1), (2, 1), (3, 1)])
def test_several_numbers_are_read_as_one_array(transfers, n, reads_of):
    numbers = [torch.tensor(float(i), device=DEVICE) for i in range(n)]
    before = sum(transfers.reads.values())
    assert reads.read(*numbers) == [float(i) for i in range(n)]
    assert sum(transfers.reads.values()) - before == reads_of
