"""Philox against its published answers and plain integers; the numbers against the normal law."""

import random

import numpy as np
import pytest
import torch
from scipy import stats

from dualclust.algos.core.errors import DualclustError
from dualclust.algos.core.random import normal_noise, philox
from tests.compare import assert_equal, assert_same_kind, to_numpy

# Counter, key and result of the known-answer tests of Random123 (philox4x32, 10 rounds).
KNOWN = [
    ((0,) * 4, (0,) * 2, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((2**32 - 1,) * 4, (2**32 - 1,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


def integer_philox(counter, key):
    """The ten rounds in Python's integers, which do not wrap around."""
    (a, b, c, d), (k, m) = counter, key
    for _ in range(10):
        p, q = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = (q >> 32) ^ b ^ k, q % 2**32, (p >> 32) ^ d ^ m, p % 2**32
        k, m = (k + 0x9E3779B9) % 2**32, (m + 0xBB67AE85) % 2**32
    return a, b, c, d


def bits(xp, counter, key):
    block = np.asarray([counter[0] | counter[1] << 32], np.uint64).astype(np.int64)
    words = philox(
        xp.asarray(block),
        key=key[0] | key[1] << 32,
        stream=counter[2] | counter[3] << 32,
        xp=xp.namespace,
    )
    return tuple(int(to_numpy(w)[0]) for w in words)


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN)
def test_published_answers(xp, counter, key, expected):
    assert bits(xp, counter, key) == expected
    assert integer_philox(counter, key) == expected


def test_bits_are_those_of_the_integers(xp):
    draw = random.Random(0)
    for _ in range(20):
        counter, key = ([draw.getrandbits(32) for _ in range(n)] for n in (4, 2))
        assert bits(xp, counter, key) == integer_philox(counter, key)


@pytest.mark.parametrize("shape", [(), (0,), (7,), (3, 5), (2, 0, 3)])
def test_shape_and_dtype(xp, shape):
    found = normal_noise(
        shape, key=1, xp=xp.namespace, dtype=xp.namespace.float32, device=xp.device
    )
    assert_same_kind(found, xp.asarray(np.zeros(shape), "float32"))


def test_noise_is_a_function_of_key_stream_and_place(xp):
    def noise(n, **which):
        return normal_noise((n,), xp=xp.namespace, device=xp.device, **which)

    torch.manual_seed(1)
    once = noise(9, key=3, stream=4)
    torch.manual_seed(2)
    assert_equal(noise(9, key=3, stream=4), once)
    assert_equal(noise(5, key=3, stream=4), once[:5])
    for other in ({"key": 4, "stream": 4}, {"key": 3, "stream": 5}, {"key": 3}):
        assert not (to_numpy(noise(9, **other)) == to_numpy(once)).any()


def test_libraries_agree(xp):
    found = to_numpy(normal_noise((1000,), key=7, xp=xp.namespace, device=xp.device))
    plain = normal_noise((1000,), key=7, xp=np)
    np.testing.assert_allclose(found, plain, rtol=1e-13, atol=1e-15)


def test_numbers_are_normal_and_independent():
    """Fixed keys: each bound is four standard deviations of its statistic, or p > 1e-4."""
    x = normal_noise((2, 100_000), key=2**63 + 5, stream=1, xp=np)
    n = x.size
    assert abs(x.mean()) < 4 / np.sqrt(n)
    assert abs(x.var() - 1) < 4 * np.sqrt(2 / n)
    assert stats.kstest(x.ravel(), "norm").pvalue > 1e-4
    assert abs((x[0] * x[1]).mean()) < 4 / np.sqrt(n / 2)
    flat = x.ravel()
    assert abs((flat[0::2] * flat[1::2]).mean()) < 4 / np.sqrt(n / 2)  # both of one block
    assert np.abs(x).max() < 8.66


@pytest.mark.parametrize("name", ["key", "stream"])
@pytest.mark.parametrize("value", [-1, 2**64, 1.0, True])
def test_keys_are_integers_of_64_bits(name, value):
    with pytest.raises(DualclustError, match=name):
        normal_noise((2,), xp=np, **{"key": 0, name: value})


@pytest.mark.parametrize("stream", [0, 5, 2**40 + 3])
def test_a_stream_in_an_array_is_its_number(xp, stream):
    def noise(stream):
        return normal_noise((7,), key=3, stream=stream, xp=xp.namespace, device=xp.device)

    assert_equal(noise(xp.asarray(np.asarray(stream))), noise(stream))
