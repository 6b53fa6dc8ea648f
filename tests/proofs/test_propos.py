"""The references that the checks of ProPos's claims compare with."""

from __future__ import annotations

import numpy as np
import pytest

from dualclust.proofs.references import lloyd, philox


@pytest.mark.parametrize(("counter", "key", "answer"), philox.KNOWN_ANSWERS)
def test_the_reference_of_the_noise_has_the_known_answers(
    counter: tuple[int, ...], key: tuple[int, int], answer: tuple[int, ...]
) -> None:
    words = philox.random_words(np.asarray(counter, dtype=np.uint64), key)
    assert tuple(words.tolist()) == answer


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
