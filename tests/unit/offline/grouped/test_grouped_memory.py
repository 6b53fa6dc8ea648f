"""Rows that are far from every border have no candidates: they cost no memory."""

import tracemalloc

import numpy as np

from dualclust.algos.bounds import GroupBounds, SizeBounds
from dualclust.algos.offline.grouped._search import problem_of, solved
from dualclust.algos.scores.sources import score_source


def test_most_scores_are_read_and_not_kept(rng):
    """Scores and clusters of all pairs, with what is made of them, take 53 bytes a pair."""
    n, k = 30_000, 50
    scores = rng.normal(size=(n, k)).astype(np.float32)
    sizes = SizeBounds.from_ratios(k, n_samples=n, lower=0.9, upper=1.1)
    groups = GroupBounds.from_shares(rng.integers(0, 2, n), k, lower=0.8, upper=1.25)
    problem = problem_of(score_source(scores), sizes, groups)
    solved(problem, None)  # what is compiled takes memory as well
    tracemalloc.start()
    try:
        found, proof = solved(problem, None)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert not found.is_stuck
    assert proof.lost == 0.0
    assert peak < 30 * n * k
