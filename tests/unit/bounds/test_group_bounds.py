"""Bounds on groups: what builds them, what is refused, and why no counts are inside."""

import numpy as np
import pytest

from dualclust.algos.bounds import GroupBounds, SizeBounds, check_counts_exist
from dualclust.algos.core.errors import InfeasibleBoundsError, InvalidTypeError, InvalidValueError
from tests.compare import assert_equal

GROUPS = np.asarray([0, 1, 1, -1, 1])


def test_counts_by_number_by_group_and_by_cell(xp):
    groups = xp.asarray(GROUPS)
    found = GroupBounds.from_counts(groups, 2, lower=[0, 1], upper=xp.asarray([[1, 0], [9, 2]]))
    assert_equal(found.groups, groups)
    assert_equal(found.lower, xp.asarray([[0, 0], [1, 1]]))
    assert_equal(found.upper, xp.asarray([[1, 0], [3, 2]]))  # at most the group's samples
    assert (found.n_groups, found.n_clusters) == (2, 2)


def test_shares_are_rounded_outward_and_exact():
    groups = np.repeat([0, 1], [1000, 3])
    found = GroupBounds.from_shares(groups, 10, lower=[0.9, 0.0], upper=[1.1, np.inf])
    assert found.lower[:, 0].tolist() == [90, 0]
    assert found.upper[:, 0].tolist() == [110, 3]


def test_no_groups_at_all():
    none = np.full(4, -1)
    for made in (
        GroupBounds.from_counts(none, 3),
        GroupBounds.from_shares(none, 3),
        GroupBounds.at_most_one(none, 3),
    ):
        assert made.lower.shape == made.upper.shape == (0, 3)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: GroupBounds.from_counts(np.asarray([0, -2]), 2), InvalidValueError, "-1, got -2"),
        (lambda: GroupBounds.from_counts(np.asarray([0.5]), 2), InvalidTypeError, "integer"),
        (lambda: GroupBounds.from_counts(np.asarray([2**40]), 2), InvalidValueError, "from 0 on"),
        (
            lambda: GroupBounds.from_counts(GROUPS, 2, lower=2, upper=1),
            InvalidValueError,
            "got 2 and 1 for group 0 in cluster 0",
        ),
        (lambda: GroupBounds.from_counts(GROUPS, 2, lower=-1), InvalidValueError, "at least 0"),
        (
            lambda: GroupBounds.from_counts(GROUPS, 2, upper=np.ones((3, 2), int)),
            InvalidValueError,
            r"shape \(2, 2\)",
        ),
        (lambda: GroupBounds.from_shares(GROUPS, 2, lower=1.2), InvalidValueError, "at most 1"),
        (lambda: GroupBounds.from_shares(GROUPS, 2, upper=0.5), InvalidValueError, "at least 1"),
    ],
)
def test_what_is_refused(make, error, words):
    with pytest.raises(error, match=words):
        make()


@pytest.mark.parametrize(
    ("groups", "lower", "upper", "sizes", "words", "excess"),
    [
        ([0, 0, 0, -1], 0, 1, ([0, 0], [4, 4]), "group 0 has 3 samples, of which all", 1),
        ([0, 1, 1, 1], [1, 0], None, ([0, 0], [4, 4]), "need at least 2 samples of group 0", 1),
        ([0, 0, 1, 1], 0, 1, ([3, 0], [4, 4]), "cluster 0 needs at least 3 samples, but may", 1),
        ([0, 0, 1, 1], 1, None, ([0, 0], [1, 4]), "at least 2 places in cluster 0, which takes", 1),
        ([0, 0, 0, 1], [0, 1], [[3, 0], [1, 1]], ([0, 0], [4, 4]), "group 1", 1),
    ],
)
def test_what_contradicts_what(xp, groups, lower, upper, sizes, words, excess):
    if isinstance(upper, list):
        upper = xp.asarray(upper)
    bounds = GroupBounds.from_counts(xp.asarray(groups), 2, lower=lower, upper=upper)
    clusters = SizeBounds.from_counts(*sizes, n_samples=4, xp=xp.namespace, device=xp.device)
    with pytest.raises(InfeasibleBoundsError, match=words) as caught:
        check_counts_exist(clusters, bounds)
    assert caught.value.excess == excess
