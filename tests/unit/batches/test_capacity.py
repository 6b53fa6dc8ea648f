"""Choices inside a capacity: those of deferred acceptance, one proposal at a time."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dualclust.algos.batches import capped_choices
from tests.compare import to_numpy
from tests.libraries import Library


def one_at_a_time(scores, capacity, top_k):
    """Gale and Shapley's algorithm as they tell it."""
    n, k = scores.shape
    wishes = [
        [j for j in sorted(range(k), key=lambda j: (-row[j], j)) if row[j] > -math.inf]
        for row in scores.tolist()
    ]
    asked, had, holds = [0] * n, [0] * n, [[] for _ in range(k)]
    waiting = list(range(n))
    while waiting:
        i = waiting.pop()
        while had[i] < top_k and asked[i] < len(wishes[i]):
            j = wishes[i][asked[i]]
            asked[i] += 1
            had[i] += 1
            holds[j].append(i)
            if len(holds[j]) > capacity:
                worst = max(holds[j], key=lambda r: (-scores[r, j], r))
                holds[j].remove(worst)
                had[worst] -= 1
                if worst != i:
                    waiting.append(worst)
    return [sorted(j for j in range(k) if i in holds[j]) for i in range(n)]


def instance(seed):
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(1, 12)), int(rng.integers(1, 6))
    scores = np.round(rng.random((n, k)), 1 if seed % 2 else 6)  # ties in every second one
    if seed % 5 == 0:
        scores[rng.random((n, k)) < 0.2] = -math.inf
    return scores, int(rng.integers(0, n + 1)), int(rng.integers(1, k + 1))


def test_equal_to_one_proposal_at_a_time():
    for seed in range(300):
        scores, capacity, top_k = instance(seed)
        wanted = one_at_a_time(scores, capacity, top_k)
        for options in ({"n_rounds": scores.size + 1}, {}):
            found, _ = capped_choices(scores, capacity, top_k=top_k, **options)
            assert [sorted(j for j in row if j >= 0) for row in found.tolist()] == wanted, seed


@pytest.mark.parametrize("n_rounds", [1, 2, 8])
def test_no_cluster_has_more_than_its_capacity(xp: Library, n_rounds):
    scores = np.random.default_rng(3).random((60, 6)) + np.linspace(1.0, 0.0, 6)
    counted = np.arange(60) < 50
    found, asked = capped_choices(
        xp.asarray(scores), 10, top_k=2, counted=xp.asarray(counted), n_rounds=n_rounds
    )
    found = to_numpy(found)
    sizes = np.bincount(found[found >= 0], minlength=6)
    assert sizes.max() <= 10
    assert (found[50:] == -1).all()
    best = np.sort(np.argsort(-scores[:50], axis=1)[:, :2].ravel())
    np.testing.assert_array_equal(to_numpy(asked), np.bincount(best, minlength=6))
    if n_rounds == 8:  # all seats are wanted
        assert sizes.sum() == 60


def test_rows_with_room_everywhere_get_what_they_want():
    scores = np.random.default_rng(4).random((9, 5))
    found, _ = capped_choices(scores, 9, top_k=3)
    np.testing.assert_array_equal(found, np.argsort(-scores, axis=1)[:, :3])


def test_nan_is_no_choice():
    scores = np.asarray([[math.nan, 0.1], [0.3, 0.2]])
    assert capped_choices(scores, 2, top_k=2)[0].tolist() == [[1, -1], [0, 1]]
