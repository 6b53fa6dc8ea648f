"""The references that the checks of ProPos's claims compare with."""

from __future__ import annotations

import numpy as np
import pytest

from dualclust.proofs.references import lloyd, split_mix


@pytest.mark.parametrize(("seed", "words"), split_mix.KNOWN_WORDS.items())
def test_the_reference_of_the_noise_has_the_known_words(seed: int, words: tuple[int, ...]) -> None:
    assert tuple(split_mix.random_words(seed, len(words))) == words


def test_a_stream_of_the_reference_begins_where_the_one_before_could_end() -> None:
    later = split_mix.random_words(5 + 2**32 * 0x9E3779B97F4A7C15, 2)
    assert list(split_mix.random_words(5, 2, stream=1)) == list(later)


def test_the_reference_of_lloyds_algorithm_finds_two_pairs() -> None:
    x = np.asarray([[0.0], [1.0], [10.0], [13.0]])
    found = lloyd.lloyd(x, x[:2], 10, spherical=False)
    assert found.labels.tolist() == [0, 0, 1, 1]
    assert found.centers[:, 0].tolist() == [0.5, 11.5]
    assert found.values == sorted(found.values)
    moved = lloyd.lloyd(x, np.asarray([[6.0], [99.0]]), 1, spherical=False)
    assert moved.centers[:, 0].tolist() == [6.0, 13.0]  # the farthest row
    kept = lloyd.lloyd(x, np.asarray([[6.0], [99.0]]), 1, spherical=False, relocate=False)
    assert kept.centers[:, 0].tolist() == [6.0, 99.0]
