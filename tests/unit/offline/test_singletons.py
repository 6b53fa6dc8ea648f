"""Rows that one cluster alone may take: their counts, and the bounds that the others are left."""

import math

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.offline._online_labels import (
    assign_remaining,
    remaining_bounds,
    singleton_counts,
)
from dualclust.algos.offline._online_prices import FORBIDDEN
from dualclust.algos.online.assignment import init_state
from dualclust.algos.online.step_sizes import StepRule
from tests.compare import assert_same_kind, to_numpy
from tests.libraries import ONE_EACH

each_library = pytest.mark.parametrize("library", ONE_EACH, ids=lambda row: row.name)
NEVER = -math.inf


def test_a_forbidden_pair_has_a_score_that_float32_holds_with_prices_beside_it():
    assert FORBIDDEN == -1e37
    assert np.isfinite(np.float32(10.0 * FORBIDDEN))


@each_library
def test_rows_with_one_finite_score_are_counted(library):
    scores = [
        [0.5, NEVER, NEVER],
        [0.1, 0.2, NEVER],
        [NEVER, NEVER, -3.0],
        [0.0, 1.0, 2.0],
        [NEVER, NEVER, 7.0],
    ]
    found = singleton_counts(library.asarray(scores))
    assert to_numpy(found).tolist() == [1, 0, 2]
    assert_same_kind(found, library.asarray(np.zeros(3, np.int64)))
    none = singleton_counts(library.asarray(np.zeros((0, 2))))
    assert to_numpy(none).tolist() == [0, 0]
    assert_same_kind(none, library.asarray(np.zeros(2, np.int64)))
    many = np.full((1, 2**20 + 1), NEVER)
    many[0, -1] = 0.0
    assert np.flatnonzero(to_numpy(singleton_counts(library.asarray(many)))).tolist() == [2**20]


@each_library
@pytest.mark.parametrize(
    ("lower", "upper", "forced", "left"),
    [
        ([2, 1], [3, 4], [2, 0], ([0, 1], [1, 4], 4, [0.0, 0.25], [0.25, 1.0])),
        ([2, 1], [3, 4], [3, 0], ([0, 1], [0, 4], 3, [0.0, 1 / 3], [0.0, 1.0])),
        ([2, 3], [3, 4], [3, 2], ([0, 1], [0, 2], 1, [0.0, 1.0], [0.0, 1.0])),
        ([2, 3], [3, 3], [3, 3], ([0, 0], [0, 0], 0, [0.0, 0.0], [0.0, 0.0])),
        ([3, 3], [3, 3], [1, 0], ([2, 3], [2, 3], 5, [0.4, 0.6], [0.4, 0.6])),
        ([1, 3], [6, 6], [3, 0], ([0, 3], [3, 6], 3, [0.0, 1.0], [1.0, 1.0])),
        ([1, 3], [6, 6], [4, 0], None),  # two rows for three places
        ([0, 0], [3, 6], [4, 0], None),  # more than the cluster takes
    ],
)
def test_the_bounds_that_singletons_leave(library, lower, upper, forced, left):
    xp, device = library.namespace, library.device
    bounds = SizeBounds.from_counts(lower, upper, n_samples=6, xp=xp, device=device)
    found = remaining_bounds(bounds, library.asarray(np.asarray(forced)))
    if left is None:
        assert found is None
        return
    assert found is not None
    assert to_numpy(found.lower).tolist() == left[0]
    assert to_numpy(found.upper).tolist() == left[1]
    assert found.n_samples == left[2]
    np.testing.assert_allclose(to_numpy(found.lower_share), left[3], atol=1e-15)
    np.testing.assert_allclose(to_numpy(found.upper_share), left[4], atol=1e-15)


@each_library
def test_singletons_get_their_cluster_and_the_others_are_labeled_in_their_order(library):
    """Of rows with a choice the second takes the last place of cluster 2, and its price follows."""
    scores = [
        [NEVER, 5.0, NEVER],
        [1.0, NEVER, 3.0],
        [NEVER, NEVER, -4.0],
        [0.0, 0.5, 0.75],
        [-2.0, NEVER, 9.0],
        [7.0, NEVER, NEVER],
    ]
    bounds = SizeBounds.from_counts([0, 0, 0], [3, 3, 2], n_samples=3, **library.place)
    labels, state = assign_remaining(
        library.asarray(scores), bounds, init_state(bounds), StepRule(2.0**-20)
    )
    assert to_numpy(labels).tolist() == [1, 2, 2, 2, 0, 0]
    assert_same_kind(labels, library.asarray(np.zeros(6, np.int64)))
    assert to_numpy(state.counts).tolist() == [1, 0, 2]  # of rows that had a choice
    assert (state.seen, state.step_size) == (3, 2.0**-20)
