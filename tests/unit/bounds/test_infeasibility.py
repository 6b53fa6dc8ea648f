"""What is said where no labels satisfy the bounds, and by how much they miss."""

import itertools
import math
import sys

import numpy as np
import pytest

from dualclust.algos.bounds.farkas import FarkasVector, verify_infeasibility
from dualclust.algos.bounds.infeasibility import explain
from dualclust.algos.bounds.sizes import SizeBounds, implied_bounds, price_of_bounds
from dualclust.algos.core.errors import InfeasibleBoundsError, InvalidValueError
from tests.compare import to_numpy
from tests.refusals import is_refusal, message_of


@pytest.mark.parametrize(
    ("lower", "upper", "clusters", "excess"),
    [
        (1.2, 2.0, (0, 1, 2), 3),  # (1.2 - 1) * 12 = 2.4 samples too many
        (0.0, [0.8, 1.0, 1.0], (0, 1, 2), 1),  # 0.8 samples too few
        ([0.0, 1.2, 0.0], [3.0, 1.1, 3.0], (1,), 1),  # crossed by 0.4 samples
        ([1.2, 0.0, 1.2], [1.1, 3.0, 1.1], (0, 2), 1),
    ],
)
def test_shares_that_rounding_would_allow_miss_by_whole_samples(lower, upper, clusters, excess):
    """Rounded outward the counts fit, so that there is no proof in whole samples."""
    with pytest.raises(InfeasibleBoundsError) as caught:
        SizeBounds.from_ratios(3, n_samples=12, lower=lower, upper=upper)
    error = caught.value
    assert error.vector is None
    assert (error.clusters, error.excess) == (clusters, excess)


def test_shares_may_miss_by_the_rounding_of_floats_and_no_more():
    for k in (2, 4):
        edge, beyond = 2.0**-40, 2.0**-40 + 2.0**-50
        SizeBounds.from_ratios(k, n_samples=40, lower=1.0 + edge)
        SizeBounds.from_ratios(k, n_samples=40, lower=0.0, upper=1.0 - edge)
        with pytest.raises(InfeasibleBoundsError, match="lower must be at most 1 on average"):
            SizeBounds.from_ratios(k, n_samples=40, lower=1.0 + beyond)
        with pytest.raises(InfeasibleBoundsError, match="upper must be at least 1 on average"):
            SizeBounds.from_ratios(k, n_samples=40, lower=0.0, upper=1.0 - beyond)


@pytest.mark.parametrize(
    ("lower", "upper", "clusters"),
    [
        ([1.5, 1.0, 0.0], 1.0, (0,)),
        ([1.5, 0.0, 1.25], [1.0, 3.0, 1.0], (0, 2)),
        (1.1, math.inf, (0, 1, 2)),
        (0.0, 0.9, (0, 1, 2)),
    ],
)
def test_the_clusters_of_a_stream_that_contradict_each_other(lower, upper, clusters):
    with pytest.raises(InfeasibleBoundsError) as caught:
        SizeBounds.for_stream(3, lower=lower, upper=upper)
    assert (caught.value.clusters, caught.value.excess) == (clusters, 1)


def test_a_stream_may_have_no_slack():
    SizeBounds.for_stream(3, lower=1.0, upper=1.0)
    SizeBounds.for_stream(2, lower=[1.5, 0.5], upper=[1.5, 0.5])


def test_only_the_clusters_whose_bounds_cross_are_named():
    with pytest.raises(InfeasibleBoundsError) as caught:
        SizeBounds.for_stream(3, lower=[1.0, 0.0, 1.2], upper=[1.0, 3.0, 1.1])
    assert (caught.value.clusters, caught.value.excess) == ((2,), 1)
    lower, upper = [1, 5, 4, 2], [9, 2, 3, 2]
    with pytest.raises(InfeasibleBoundsError) as caught:
        SizeBounds.from_counts(lower, upper, n_samples=12)
    assert (caught.value.clusters, caught.value.excess) == ((1, 2), 3)
    assert caught.value.vector == FarkasVector((0, 1, 0, 0), (0, 1, 0, 0), 3, 0)
    assert verify_infeasibility(lower, upper, 12, caught.value.vector)


@pytest.mark.parametrize(
    ("lower", "upper", "text"),
    [
        ((2, 0), (0, 0), "the bounds of cluster 0 contradict each other by 3 samples"),
        ((0, 0), (0, 2), "the bounds of cluster 1 contradict each other by 3 samples"),
        ((1, 0), (0, 1), "the bounds of clusters 0 and 1 contradict each other by 3 samples"),
        ((1, 1), (1, 1), "the bounds of clusters 0 and 1 contradict each other by 3 samples"),
        ((2, 0), (1, 0), "the bounds of cluster 0 contradict each other by 3 samples"),
        ((2, 0), (2, 0), "cluster 0 needs at least 3 samples more than it takes at most"),
    ],
)
def test_other_multipliers_have_a_sentence_too(lower, upper, text):
    assert explain(FarkasVector(lower, upper, 2, -1)) == text


@pytest.mark.parametrize(
    ("k", "names"),
    [
        (2, "clusters 0 and 1"),
        (10, "clusters 0, 1, 2, 3, 4, 5, 6, 7, 8 and 9"),
        (11, "clusters 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 1 more"),
    ],
)
def test_ten_clusters_are_named(k, names):
    text = explain(FarkasVector((1,) * k, (0,) * k, 5, 3))
    words = f"{names} need at least 5 samples together, but only 3 may join any of them"
    assert text.partition(". To fix this, ")[0] == words


def test_implied_bounds_are_the_sizes_that_occur(xp):
    """Of all sizes between the bounds that add up to n: the least and the largest of a cluster."""
    cases = [([1, 0, 2], [3, 9, 4], 7), ([0, 0, 0], [2, 3, 9], 10), ([4, 1, 0], [5, 5, 5], 6)]
    for lower, upper, n in cases:
        ranges = [range(lo, hi + 1) for lo, hi in zip(lower, upper, strict=True)]
        fits = np.asarray([s for s in itertools.product(*ranges) if sum(s) == n])
        bounds = SizeBounds.from_counts(
            lower, upper, n_samples=n, xp=xp.namespace, device=xp.device
        )
        low, high = implied_bounds(bounds)
        assert to_numpy(low).tolist() == fits.min(axis=0).tolist()
        assert to_numpy(high).tolist() == fits.max(axis=0).tolist()
        prices = np.asarray([0.5, -0.25, -2.0])
        expected = 0.25 * fits[:, 1].max() + 2.0 * fits[:, 2].max() - 0.5 * fits[:, 0].min()
        assert price_of_bounds(xp.asarray(prices), bounds) == expected


def test_the_most_samples_that_there_can_be():
    assert SizeBounds.from_counts([0], n_samples=sys.maxsize).n_samples == sys.maxsize
    text = message_of(InvalidValueError, SizeBounds.from_counts, [0], n_samples=sys.maxsize + 1)
    assert is_refusal(text, f"n_samples must be at most {sys.maxsize}, got {sys.maxsize + 1}")


def test_of_several_clusters_the_first_is_named():
    text = message_of(InvalidValueError, SizeBounds.from_counts, [0, -2, -1], n_samples=9)
    assert is_refusal(text, "lower must be at least 0, got -2 for cluster 1")
    text = message_of(
        InfeasibleBoundsError, SizeBounds.from_counts, [0, 4, 5], [9, 2, 1], n_samples=9
    )
    assert text.startswith("lower bound 4 exceeds upper bound 2 for cluster 1, in samples.")
    options = {"lower": [0.0, 0.875, 0.75], "upper": [3.0, 0.5, 0.25]}
    text = message_of(InfeasibleBoundsError, SizeBounds.of, 3, n_samples=9, **options)
    assert text.startswith("lower bound 0.875 exceeds upper bound 0.5 for cluster 1, in units of")
