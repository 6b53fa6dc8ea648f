"""Bounds on loads: what builds them, and what is refused."""

import numpy as np
import pytest

from dualclust.algos.bounds import LoadBounds, loads_of
from dualclust.algos.core.errors import InfeasibleBoundsError, InvalidTypeError, InvalidValueError
from tests.compare import assert_equal

SIZES = np.asarray([3.0, 0.0, 1.0, 4.0])


def test_loads_by_number_and_by_cluster(xp):
    found = LoadBounds.from_loads(xp.asarray(SIZES), 2, lower=[1, 2.5], upper=7)
    assert_equal(found.lower, xp.asarray([1.0, 2.5]))
    assert_equal(found.upper, xp.asarray([7.0, 7.0]))
    assert_equal(found.sizes, xp.asarray(SIZES))
    assert found.n_clusters == 2
    whole = LoadBounds.from_loads(xp.asarray([3, 1]), 2)
    assert_equal(whole.sizes, xp.asarray([3.0, 1.0]))
    assert_equal(whole.upper, xp.asarray([4.0, 4.0]))  # none but all of it


def test_shares_of_the_mean_load():
    found = LoadBounds.from_ratios(SIZES, 4, lower=[0.5, 0.0, 1.0, 1.0], upper=np.inf)
    assert found.lower.tolist() == [1.0, 0.0, 2.0, 2.0]
    assert found.upper.tolist() == [8.0] * 4
    assert LoadBounds.from_ratios(SIZES, 2).upper.tolist() == [4.4] * 2
    assert LoadBounds.from_ratios(SIZES, 2).lower.tolist() == [3.6] * 2


def test_the_size_that_all_rows_have():
    assert LoadBounds.from_loads(np.full(3, 2.5), 2).common_size == 2.5
    assert LoadBounds.from_loads(SIZES, 2).common_size is None
    assert LoadBounds.from_loads(np.zeros(3), 2).common_size is None
    assert LoadBounds.from_loads(np.zeros(0), 2).common_size is None


def test_sums_of_decimal_fractions_are_rounded_once(xp):
    sizes = xp.asarray([0.1] * 10 + [1e9])
    assert_equal(loads_of(sizes, xp.asarray([0] * 10 + [2]), 3), xp.asarray([1.0, 0.0, 1e9]))
    tight = LoadBounds.from_loads(np.asarray([0.1, 0.2]), 2, lower=0.15, upper=0.15)
    assert tight.lower.tolist() == [0.15] * 2  # 0.1 + 0.2 is more than 0.3


@pytest.mark.parametrize(
    ("make", "clusters", "excess", "words"),
    [
        (lambda: LoadBounds.from_loads(SIZES, 2, lower=5), (0, 1), 2, "10, 2 more than all sizes"),
        (lambda: LoadBounds.from_loads(SIZES, 2, lower=[0, 9]), (1,), 1, "9 exceeds upper bound 8"),
        (lambda: LoadBounds.from_loads(SIZES, 2, upper=3.5), (0, 1), 1, "7, 1 less than all sizes"),
        (
            lambda: LoadBounds.from_loads(SIZES, 2, lower=[0, 3], upper=[9, 2]),
            (1,),
            1,
            "lower bound 3 exceeds upper bound 2 for cluster 1",
        ),
        (lambda: LoadBounds.from_ratios(SIZES, 2, lower=1.5, upper=9), (0, 1), 4, "12, 4 more"),
    ],
)
def test_what_no_loads_meet(make, clusters, excess, words):
    with pytest.raises(InfeasibleBoundsError, match=words) as error:
        make()
    assert (error.value.clusters, error.value.excess) == (clusters, excess)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: LoadBounds.from_loads(-SIZES, 2), InvalidValueError, "at least 0, got -4"),
        (lambda: LoadBounds.from_loads(SIZES[None], 2), InvalidValueError, "sizes must have shape"),
        (lambda: LoadBounds.from_loads(SIZES + np.nan, 2), InvalidValueError, "sizes must be fin"),
        (lambda: LoadBounds.from_loads(SIZES > 1, 2), InvalidTypeError, "sizes must have a real"),
        (lambda: LoadBounds.from_loads([3.0], 2), InvalidTypeError, "sizes"),
        (lambda: LoadBounds.from_loads(SIZES, 0), InvalidValueError, "n_clusters"),
        (lambda: LoadBounds.from_loads(SIZES, 2, lower=-1), InvalidValueError, "lower must lie"),
        (lambda: LoadBounds.from_loads(SIZES, 2, lower=np.inf), InvalidValueError, "lower must"),
        (lambda: LoadBounds.from_loads(SIZES, 2, upper=[9]), InvalidValueError, "k=2.*got 1"),
        (lambda: LoadBounds.from_loads(SIZES, 2, upper="9"), InvalidTypeError, "upper"),
        (lambda: LoadBounds.from_loads(np.full(3, 1e308), 2), InvalidValueError, "sum that float"),
    ],
)
def test_what_is_refused(make, error, words):
    with pytest.raises(error, match=words):
        make()
