"""The generator against its published words; the numbers against their laws."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from dualclust.algos.core.errors import DualclustError, InvalidTypeError, InvalidValueError
from dualclust.algos.core.random import normal_noise, random_signs, uniforms
from tests.compare import assert_equal, assert_same_kind, to_numpy
from tests.libraries import LIBRARIES
from tests.refusals import assert_refused


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
    assert np.abs(x).max() < 8.58


@pytest.mark.parametrize(("name", "bits"), [("key", 64), ("stream", 31)])
@pytest.mark.parametrize("value", [-1, None, 1.0, True])
def test_keys_and_streams_are_integers_below_a_bound(name, bits, value):
    value = 2**bits if value is None else value
    assert_refused(DualclustError, name, normal_noise, (2,), xp=np, **{"key": 0, name: value})
    normal_noise((2,), xp=np, **{"key": 0, name: 2**bits - 1})


@pytest.mark.parametrize("stream", [0, 5, 2**31 - 1])
def test_a_stream_in_an_array_is_its_number(xp, stream):
    def noise(stream):
        return normal_noise((7,), key=3, stream=stream, xp=xp.namespace, device=xp.device)

    assert_equal(noise(xp.asarray(np.asarray(stream))), noise(stream))


# Signs -----------------------------------------------------------------------------------------


def test_signs_are_the_highest_bits_of_the_words(xp):
    found = random_signs((2, 5), key=9, stream=3, xp=xp.namespace, device=xp.device)
    words = split_mix(9, 10, stream=3)
    signs = np.asarray([-1.0 if word >= 2**63 else 1.0 for word in words])
    assert_equal(found, xp.asarray(signs.reshape(2, 5)))


def test_signs_are_even_and_independent():
    """A fixed key: each bound is four standard deviations."""
    signs = random_signs((2, 100_000), key=2**63 + 5, stream=1, xp=np)
    assert set(np.unique(signs)) == {-1.0, 1.0}
    assert abs(signs.mean()) < 4 / np.sqrt(signs.size)
    assert abs((signs[0] * signs[1]).mean()) < 4 / np.sqrt(signs.size / 2)
    assert random_signs((0, 3), key=1, xp=np).shape == (0, 3)


# Uniform numbers -------------------------------------------------------------------------------


def split_mix(seed, n, stream=0):
    """SplitMix64 in Python's integers, as published, after so many times 2^32 words."""
    mask = 2**64 - 1
    state = (seed + stream * 2**32 * 0x9E3779B97F4A7C15) & mask
    for _ in range(n):
        state = (state + 0x9E3779B97F4A7C15) & mask
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        yield z ^ (z >> 31)


def test_the_first_words_of_the_published_generator():
    words = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert list(split_mix(1234567, 3)) == words


@pytest.mark.parametrize("seed", [0, 1, 1234567, 2**63 - 1, 2**63, 2**64 - 1])
def test_uniform_numbers_are_those_of_the_generator_on_every_library(xp, seed):
    found = uniforms(seed, 100, xp=xp.namespace, device=xp.device)
    assert_equal(found, xp.asarray([(word >> 11) * 2.0**-53 for word in split_mix(seed, 100)]))


def test_uniform_numbers_are_uniform():
    found = uniforms(7, 10**5, xp=LIBRARIES[0].namespace)
    assert 0.0 <= found.min() < found.max() < 1.0
    shares = np.histogram(found, bins=20, range=(0, 1))[0] / 1e5
    np.testing.assert_allclose(shares, 0.05, atol=5e-3)
    assert abs(np.corrcoef(found[:-1], found[1:])[0, 1]) < 0.02


@pytest.mark.parametrize(
    ("seed", "n", "error"),
    [(-1, 3, InvalidValueError), (2**64, 3, InvalidValueError), (0.5, 3, InvalidTypeError)],
)
def test_seeds_refused(seed, n, error):
    with pytest.raises(error, match="seed must be"):
        uniforms(seed, n, xp=LIBRARIES[0].namespace)


def test_a_number_of_uniform_numbers_is_at_least_0():
    assert uniforms(3, 0, xp=LIBRARIES[0].namespace).shape == (0,)
    with pytest.raises(InvalidValueError, match="n must be at least 0, got -1"):
        uniforms(3, -1, xp=LIBRARIES[0].namespace)


# Normal numbers, bit by bit --------------------------------------------------------------------


@pytest.mark.parametrize("stream", [5, 2**31 - 1])
def test_normal_numbers_are_those_of_box_and_muller(xp, stream):
    """Two uniform numbers of 53 bits for each pair, in Python's numbers."""
    expected, words = [], split_mix(9, 40, stream)
    for first, second in zip(words, words, strict=True):
        u, v = (word // 2**11 / 2**53 for word in (first, second))
        radius = math.sqrt(-2.0 * math.log1p(-u))
        expected += [radius * math.cos(2 * math.pi * v), radius * math.sin(2 * math.pi * v)]
    for n in (39, 40):
        found = normal_noise((n,), key=9, stream=stream, xp=xp.namespace, device=xp.device)
        np.testing.assert_allclose(to_numpy(found), expected[:n], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("bit", [0, 1])
def test_the_ends_of_the_uniform_numbers_have_normal_ones(xp, monkeypatch, bit):
    """A uniform number of 0 is no normal number of infinity, and neither is the largest."""
    from dualclust.algos.core import random as ours

    def ends(key, n, *rest):
        return xp.asarray(np.asarray([-bit, 0]))

    monkeypatch.setattr(ours, "_words", ends)
    found = to_numpy(normal_noise((2,), key=1, xp=xp.namespace, device=xp.device))
    assert found.tolist() == [pytest.approx(bit * math.sqrt(2 * 53 * math.log(2)), rel=1e-12), 0.0]
