"""Infeasible bounds are refused with a proof, feasible ones never: brute force and HiGHS agree."""

import itertools
import random

import numpy as np
import pytest

from dualclust.algos.bounds.farkas import FarkasVector, verify_infeasibility
from dualclust.algos.bounds.forbidden_pairs import feasibility
from dualclust.algos.bounds.infeasibility import explain
from tests import highs


def instance(seed):
    """Up to 6 samples and 4 clusters, so that half of the instances are infeasible."""
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(1, 7)), int(rng.integers(1, 5))
    allowed = rng.random((n, k)) < rng.choice([0.3, 0.6, 0.9])
    if rng.random() < 0.9:  # else a sample may be without any cluster
        allowed[np.arange(n), rng.integers(0, k, n)] = True
    lower = rng.integers(0, 1 + int(rng.integers(1, 4)), k)
    upper = lower + rng.integers(-1 if rng.random() < 0.1 else 0, 4, k)
    return allowed, lower.tolist(), np.maximum(upper, 0).tolist()


def labelings(allowed):
    choices = [np.flatnonzero(row).tolist() for row in allowed]
    yield from itertools.product(*choices)


def exists(allowed, lower, upper):
    """Try all labelings."""
    k = allowed.shape[1]
    for labels in labelings(allowed):
        counts = [labels.count(j) for j in range(k)]
        if all(lo <= c <= hi for lo, c, hi in zip(lower, counts, upper, strict=True)):
            return True
    return False


def check(seed, *, by_highs):
    allowed, lower, upper = instance(seed)
    found = feasibility(allowed, lower, upper)
    possible = exists(allowed, lower, upper)
    assert found.feasible == possible, seed
    if by_highs:
        assert highs.is_feasible(allowed, lower, upper) == possible, seed
    if possible:
        labels = found.labels
        assert allowed[np.arange(len(labels)), labels].all(), seed
        counts = np.bincount(labels, minlength=len(lower)).tolist()
        assert counts == list(found.counts), seed
        assert all(a <= c <= b for a, c, b in zip(lower, counts, upper, strict=True)), seed
    else:
        assert verify_infeasibility(lower, upper, allowed, found.vector), seed
        assert explain(found.vector)
        assert found.vector.excess > 0
    return possible


def test_equal_to_all_labelings_and_highs():
    outcomes = [check(seed, by_highs=True) for seed in range(300)]
    assert 60 < sum(outcomes) < 240  # both kinds are there


@pytest.mark.slow
def test_equal_to_all_labelings_on_ten_thousand_instances():
    outcomes = [check(seed, by_highs=seed % 4 == 0) for seed in range(10_000)]
    assert 2000 < sum(outcomes) < 8000


def test_no_vector_proves_a_feasible_instance_infeasible():
    """Random multipliers, with the sums that belong to them: the verifier is sound."""
    proofs = 0
    for seed in range(300):
        allowed, lower, upper = instance(seed)
        possible = exists(allowed, lower, upper)
        draw = random.Random(seed)
        for _ in range(40):
            p, q = (tuple(draw.choice([0, 0, 1, 2]) for _ in lower) for _ in range(2))
            required = sum(m * b for m, b in zip(p, lower, strict=True))
            required -= sum(m * b for m, b in zip(q, upper, strict=True))
            best = [
                max((a - b for a, b, ok in zip(p, q, row, strict=True) if ok), default=None)
                for row in allowed.tolist()
            ]
            available = None if None in best else sum(best)
            vector = FarkasVector(p, q, required, available)
            proved = verify_infeasibility(lower, upper, allowed, vector)
            proofs += proved
            assert not (proved and possible), seed
    assert proofs > 100


def test_weights_are_copies_of_a_sample():
    for seed in range(60):
        allowed, lower, upper = instance(seed)
        rng = np.random.default_rng(seed)
        weights = rng.integers(0, 3, len(allowed))
        found = feasibility(allowed, lower, upper, weights=weights)
        copies = np.repeat(allowed, weights, axis=0)
        assert found.feasible == feasibility(copies, lower, upper).feasible, seed
        assert found.feasible == highs.is_feasible(allowed, lower, upper, weights=weights), seed
        if found.vector is not None:
            args = (lower, upper, allowed, found.vector)
            assert verify_infeasibility(*args, weights=weights.tolist()), seed


def test_larger_instances_agree_with_highs():
    for seed in range(12):
        rng = np.random.default_rng(seed)
        n, k = 60, 8
        groups = rng.random((6, k)) < 0.35
        groups[np.arange(6), rng.integers(0, k, 6)] = True
        allowed = groups[rng.integers(0, 6, n)]
        lower = rng.integers(0, 7, k).tolist()
        upper = [lo + int(rng.integers(0, 8)) for lo in lower]
        found = feasibility(allowed, lower, upper)
        assert found.feasible == highs.is_feasible(allowed, lower, upper), seed
        if found.vector is not None:
            assert verify_infeasibility(lower, upper, allowed, found.vector), seed
        else:
            assert allowed[np.arange(n), found.labels].all()
