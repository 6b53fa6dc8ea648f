"""The adjusted Rand index: scikit-learn's, its edges, and numbers that do not matter."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from dualclust.algos.core.errors import InvalidTypeError, InvalidValueError
from dualclust.algos.selection import adjusted_rand_index


@pytest.mark.parametrize("seed", range(5))
def test_it_is_that_of_scikit_learn(xp, seed):
    rng = np.random.default_rng(seed)
    n, k = 60, 2 + seed
    a = rng.integers(k, size=n)
    b = np.where(rng.random(n) < 0.3 * seed, a, rng.integers(k, size=n))
    found = adjusted_rand_index(xp.asarray(a), xp.asarray(b), k)
    assert found == pytest.approx(adjusted_rand_score(a, b), abs=1e-12)


@pytest.mark.parametrize(
    ("labels", "other", "value"),
    [
        ([0], [2], 1.0),
        ([0, 0, 0], [1, 1, 1], 1.0),
        ([0, 1, 2], [2, 0, 1], 1.0),
        ([0, 0, 0], [0, 1, 2], 0.0),
        ([0, 1, 0, 1], [0, 0, 1, 1], -0.5),
    ],
)
def test_edges(labels, other, value):
    assert adjusted_rand_index(np.asarray(labels), np.asarray(other), 3) == value


def test_partitions_that_know_nothing_of_each_other_agree_by_nothing():
    rng = np.random.default_rng(0)
    for k in (2, 30):
        found = adjusted_rand_index(rng.integers(k, size=20_000), rng.integers(k, size=20_000), k)
        assert abs(found) < 0.002


def test_errors():
    with pytest.raises(InvalidValueError, match="at least one sample"):
        adjusted_rand_index(np.zeros(0, np.int64), np.zeros(0, np.int64), 2)
    with pytest.raises(InvalidValueError, match="other must lie in"):
        adjusted_rand_index(np.asarray([0, 1]), np.asarray([0, 2]), 2)
    with pytest.raises(InvalidTypeError, match="labels"):
        adjusted_rand_index(np.asarray([0.0]), np.asarray([0]), 1)
