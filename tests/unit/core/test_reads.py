"""Numbers that are read together are the numbers, on every library."""

import array_api_compat as compat
import numpy as np
import pytest

from dualclust.algos.core import reads


@pytest.mark.parametrize("is_here", [True, False])
def test_numbers_in_their_order(xp, monkeypatch, is_here):
    if not hasattr(xp.asarray([1.0]), "tolist") and not is_here:
        pytest.skip("a library without other devices")
    monkeypatch.setattr(reads, "on_host", lambda array: is_here)
    x = xp.asarray(np.asarray([0.1, -2.5, 3.0]))
    space = compat.array_namespace(x)
    found = reads.read(space.max(x), 7, space.sum(x) > 0, xp.asarray([2**52 + 1])[0], 0.5)
    assert found == [3.0, 7.0, 1.0, 2.0**52 + 1, 0.5]
    assert all(type(number) is float for number in found)
    assert reads.read() == []
    assert reads.read(x[1]) == [-2.5]


def test_a_number_stays_an_array_away_from_the_host(xp, monkeypatch):
    x = xp.asarray(np.asarray([0.1, -2.5]))
    if reads.on_host(x):
        assert reads.unread(x[0]) == 0.1
        assert type(reads.unread(x[0])) is float
    monkeypatch.setattr(reads, "on_host", lambda array: False)
    kept = x[0]
    assert reads.unread(kept) is kept
