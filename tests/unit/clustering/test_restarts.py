"""Lost clusters start again as half of the largest."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualclust.algos.clustering.restarts import Split, split_largest
from dualclust.algos.core.errors import InvalidTypeError, InvalidValueError
from tests.refusals import assert_refused


def test_the_smallest_comes_first_and_takes_half_of_the_largest(xp):
    mass = xp.asarray([50.0, 0.0, 30.0, 0.5, 19.5])
    # 50 becomes 25 + 25; then 30 is the largest.
    assert split_largest(mass, least=0.1) == (Split(1, 0), Split(3, 2))


def test_a_cluster_can_be_the_source_of_several(xp):
    mass = xp.asarray([96.0, 1.0, 0.0, 3.0])
    assert split_largest(mass, least=0.5) == (Split(2, 0), Split(1, 0), Split(3, 2))


@pytest.mark.parametrize("mass", [[1.0, 1.0, 1.0], [3.0, 2.0, 1.0], [0.0, 0.0], [7.0]])
def test_without_a_starved_cluster_nothing_restarts(xp, mass):
    assert split_largest(xp.asarray(mass), least=0.1) == ()


def test_zero_switches_it_off(xp):
    assert split_largest(xp.asarray([1.0, 0.0]), least=0.0) == ()


def test_equal_masses_go_by_the_lowest_index(xp):
    assert split_largest(xp.asarray([0.0, 5.0, 5.0, 0.0]), least=0.5) == (Split(0, 1), Split(3, 2))


def test_no_cluster_is_never_starved(xp):
    assert split_largest(xp.asarray(np.empty(0)), least=0.5) == ()


@given(st.lists(st.floats(0.0, 1e9), min_size=1, max_size=12), st.floats(0.0, 0.5))
def test_no_split_leaves_a_starved_cluster(xp, masses, least):
    held = list(masses)
    splits = split_largest(xp.asarray(masses, "float64"), least=least)
    for cluster, source in splits:
        assert held[cluster] == min(held)
        assert held[source] == max(held)
        held[cluster] = held[source] = (held[cluster] + held[source]) / 2
    assert min(held) >= least * sum(masses) / len(masses) * (1 - 1e-12)
    assert len(splits) < len(masses)


@pytest.mark.parametrize(
    ("mass", "least", "error", "match"),
    [
        ([1.0, -1.0], 0.1, InvalidValueError, "mass must be at least 0, got -1"),
        ([1.0, float("nan")], 0.1, InvalidValueError, "mass"),
        ([[1.0]], 0.1, InvalidValueError, "mass"),
        ([1.0], 0.6, InvalidValueError, "least"),
        ([1.0], "a", InvalidTypeError, "least"),
        ([1, 0], 0.1, InvalidTypeError, "mass must have a real floating"),
    ],
)
def test_what_is_refused(xp, mass, least, error, match):
    assert_refused(error, match, split_largest, xp.asarray(mass), least=least)
