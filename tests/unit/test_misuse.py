"""Misuse that once gave a silent wrong answer."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dualclust.algos.assignment import assign
from dualclust.algos.bounds import from_counts, from_ratios, stream_bounds
from dualclust.algos.centers import init_sums, merge_sums
from dualclust.algos.certificates import violation
from dualclust.algos.errors import InvalidValueError
from dualclust.algos.hardness_centers import hardness_centers
from dualclust.algos.kmeans import kmeans_plus_plus


def test_a_pass_cannot_change_its_bounds_to_what_it_cannot_keep(rng) -> None:
    scores = rng.normal(size=(200, 5))
    loose = from_ratios(5, n_samples=200, lower=0.9)
    tight = from_counts([1] * 5, [200] * 4 + [1], n_samples=200)
    state = assign(scores[:100], loose).state
    with pytest.raises(InvalidValueError, match="from a pass under the same bounds"):
        assign(scores[100:], tight, state)


def test_sizes_of_a_stream_have_no_violation() -> None:
    with pytest.raises(InvalidValueError, match="known number of samples"):
        violation(np.asarray([1000, 0]), stream_bounds(2, lower=0.9, upper=1.1))


def test_sums_of_other_shapes_do_not_broadcast() -> None:
    with pytest.raises(InvalidValueError, match=r"second\.sums must have shape"):
        merge_sums(init_sums(3, 2, xp=np), init_sums(1, 2, xp=np))


@pytest.mark.parametrize("draws", [[0.5, 1.0], [-0.1, 0.5], [0.5, math.nan]])
def test_draws_outside_the_unit_interval(rng, draws) -> None:
    with pytest.raises(InvalidValueError, match="uniforms must lie in"):
        kmeans_plus_plus(rng.normal(size=(5, 2)), np.asarray(draws))


def test_a_row_that_is_not_finite_starts_no_cluster(rng) -> None:
    x = rng.normal(size=(5, 2))
    x[3, 1] = math.nan
    with pytest.raises(InvalidValueError, match=r"features must be finite, got nan at index"):
        kmeans_plus_plus(x, np.asarray([0.1, 0.2]))


def test_the_length_of_a_center_is_not_part_of_the_problem(rng) -> None:
    x = rng.normal(size=(30, 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    labels = np.arange(30) % 3
    unit = hardness_centers(x, labels, x[:3], temperature=0.5)
    long = hardness_centers(x, labels, 5.0 * x[:3], temperature=0.5)
    np.testing.assert_allclose(long.centers, unit.centers, atol=1e-12)
