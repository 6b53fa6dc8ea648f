"""The check of label features exactly at its tolerance, and what it refuses."""

import math

import numpy as np
import pytest
import torch

from dualclust.algos.core.errors import DeviceMismatchError, InvalidTypeError, InvalidValueError
from dualclust.algos.theory.equivalence import as_relation, check_relations
from dualclust.algos.theory.label_features import (
    check_label_features,
    label_feature_value,
    polygon_map,
)
from dualclust.algos.theory.von_mises_fisher import log_bessel_i, log_density, log_normalizer

TOL = 0.0625
BELOW = math.nextafter(TOL, 0.0)


@pytest.mark.parametrize("row", [[1.0625, 0.0], [0.9375, 0.0], [1.0625, -0.0625]])
def test_the_simplex_has_a_tolerance(row):
    """By the sum of a row, and by its least entry."""
    features, r = np.asarray([row, [0.0, 1.0]]), np.eye(2)
    assert check_label_features(features, r, tol=TOL).simplex
    assert not check_label_features(features, r, tol=BELOW).simplex


def test_one_hot_equal_and_nonempty_have_it_too():
    features = np.asarray([[0.9375, 0.0625], [0.9375, 0.0625], [1.0, 0.0]])
    r = np.ones((3, 3))
    at = check_label_features(features, r, tol=TOL)
    assert (at.one_hot, at.separated, at.n_distinct) == (True, True, 1)
    below = check_label_features(features, r, tol=BELOW)
    assert (below.one_hot, below.separated, below.n_distinct) == (False, False, 2)
    # Mass of more than the tolerance for each sample: 2 / 16 of two samples is no more.
    assert not check_label_features(features[:2], r[:2, :2], tol=TOL).nonempty
    assert check_label_features(features[:2], r[:2, :2], tol=BELOW).nonempty


def test_cosines_within_1e_12_of_1_count_as_1():
    for gap, value in ((0.9e-12, 0.0), (1.2e-12, 1.2e-12)):
        angle = math.sqrt(2.0 * gap)
        features = np.asarray([[1.0, 0.0], [math.cos(angle), math.sin(angle)]])
        found = label_feature_value(features, np.ones((2, 2))) + (features**2).sum()
        assert found == pytest.approx(2.0 * value, abs=3e-13)


def test_features_agree_if_cosines_are_as_near_as_their_entries():
    """``1 - cos <= k tol``: two related rows that are as far apart as the tolerance allows."""
    t = 2.0**-10
    features = np.asarray([[1.0, 0.0], [1.0 - t, t]])
    assert check_label_features(features, np.ones((2, 2)), tol=t).attained
    # One-hot within a tenth and related, but at a right angle; as near, and not related.
    apart, near = np.eye(2), np.asarray([[1.0, 0.0], [0.9375, 0.0625]])
    assert not check_label_features(apart, np.ones((2, 2)), tol=0.1).attained
    assert not check_label_features(near, np.eye(2), tol=0.1).attained


def test_an_infinite_value_is_no_nan():
    """Also where the squares of features overflow, which are no simplex."""
    assert label_feature_value(np.asarray([[1e200, 0.0]] * 2), np.eye(2)) == math.inf


def test_the_ends_of_the_tolerance_belong_to_it():
    features, r = np.eye(2), np.eye(2)
    for tol in (0.0, 0.1):
        assert check_label_features(features, r, tol=tol).attained
    for tol in (-1e-12, math.nextafter(0.1, 1.0)):
        with pytest.raises(InvalidValueError, match=r"tol must lie in \[0, 0.1\]"):
            check_label_features(features, r, tol=tol)


def test_what_does_not_fit_is_named():
    features, r = np.eye(3), np.eye(3)
    for error, text, arguments in (
        (DeviceMismatchError, "relations", (features, torch.eye(3))),
        (InvalidValueError, r"relations must have shape \(3, 3\)", (features, np.eye(2))),
        (InvalidValueError, "features must have at least one row", (features[:0], r[:0, :0])),
        (InvalidValueError, r"features must have shape \(n, k\)", (features[0], r)),
    ):
        for function in (check_label_features, label_feature_value):
            with pytest.raises(error, match=text):
                function(*arguments)
    for relations in ([[1]], "r", 3):
        with pytest.raises(InvalidTypeError, match="relations"):
            as_relation(relations)
    with pytest.raises(InvalidValueError, match=r"got 2 at index \(1, 0\)"):
        check_relations(np.asarray([[1, 0], [2, 1]]), 2)
    with pytest.raises(InvalidValueError, match=r"relations must have shape \(n, n\)"):
        as_relation(np.ones(4))
    for shape in ((), (2, 0)):
        with pytest.raises(InvalidValueError, match=r"features must have shape \(\.\.\., k\)"):
            polygon_map(np.ones(shape))


def test_concentrations_and_arguments_below_0_count_as_0():
    """Of the von Mises-Fisher density, in each function; -0.5 has a power that is no number."""
    kappa, zero = np.asarray([-3.0, -0.5]), np.zeros(2)
    x, mean = np.asarray([[0.6, 0.8, 0.0]] * 2), np.asarray([0.0, 0.0, 1.0])
    np.testing.assert_array_equal(log_density(x, mean, kappa), log_density(x, mean, zero))
    for d in (3, 60):
        below, at = (log_normalizer(k, n_features=d) for k in (kappa, zero))
        np.testing.assert_array_equal(below, at)
    assert log_bessel_i(0.0, kappa).tolist() == [0.0, 0.0]
    assert log_bessel_i(1.5, kappa).tolist() == [-math.inf] * 2
