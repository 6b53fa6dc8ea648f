"""The adjusted Rand index: scikit-learn's, its edges, and numbers that do not matter."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from dualclust.algos.core.errors import (
    DeviceMismatchError,
    InvalidTypeError,
    InvalidValueError,
)
from dualclust.algos.selection import adjusted_rand_index
from tests.libraries import ONE_EACH

STRICT = next(row for row in ONE_EACH if row.name == "strict")


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


@pytest.mark.parametrize("library", ONE_EACH, ids=lambda row: row.name)
def test_pairs_are_counted_as_whole_numbers(library):
    """100 million of them, which float32 would round; one cluster says nothing of any other."""
    labels = np.arange(10_003) % 2
    zeros = np.zeros_like(labels)
    assert adjusted_rand_index(library.asarray(zeros), library.asarray(labels), 2) == 0.0
    assert adjusted_rand_index(library.asarray(labels), library.asarray(zeros), 2) == 0.0
    assert adjusted_rand_index(library.asarray(zeros), library.asarray(zeros), 1) == 1.0


def test_partitions_of_unequal_sizes_by_hand():
    """Rows 3 and 2, columns 1, 3 and 1; one pair of ten is together in both."""
    one, other = np.asarray([0, 0, 0, 1, 1]), np.asarray([0, 1, 1, 1, 2])
    expected = (1.0 - 4.0 * 3.0 / 10.0) / ((4.0 + 3.0) / 2.0 - 4.0 * 3.0 / 10.0)
    assert adjusted_rand_index(one, other, 3) == pytest.approx(expected, rel=1e-15)
    assert adjusted_rand_index(other, one, 3) == pytest.approx(expected, rel=1e-15)


def test_errors():
    two = np.asarray([0, 1])
    with pytest.raises(InvalidValueError, match="n_clusters must be at least 1, got 0"):
        adjusted_rand_index(two, two, 0)
    with pytest.raises(InvalidValueError, match="labels must lie in"):
        adjusted_rand_index(np.asarray([0, 2]), two, 2)
    with pytest.raises(InvalidValueError, match=r"labels must have shape \(n,\)"):
        adjusted_rand_index(two[:, None], two, 2)
    with pytest.raises(InvalidValueError, match=r"other must have shape \(2,\)"):
        adjusted_rand_index(two, np.asarray([0, 1, 1]), 2)
    with pytest.raises(DeviceMismatchError, match="other"):
        adjusted_rand_index(two, STRICT.asarray(two), 2)
    with pytest.raises(InvalidValueError, match="at least one sample"):
        adjusted_rand_index(np.zeros(0, np.int64), np.zeros(0, np.int64), 2)
    with pytest.raises(InvalidValueError, match="other must lie in"):
        adjusted_rand_index(np.asarray([0, 1]), np.asarray([0, 2]), 2)
    with pytest.raises(InvalidTypeError, match="labels"):
        adjusted_rand_index(np.asarray([0.0]), np.asarray([0]), 1)
