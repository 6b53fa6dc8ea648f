"""The comparisons that the other tests rely on can fail."""

import array_api_strict
import numpy as np
import pytest
import torch

from tests.compare import assert_close, assert_equal, assert_same_labels, label_gaps, to_numpy
from tests.libraries import LIBRARIES


def test_equal_arrays_are_close(xp):
    assert_close(xp.asarray([1.0, 2.0]), xp.asarray([1.0, 2.0 + 1e-15]))
    assert_equal(xp.asarray([1, 2]), xp.asarray([1, 2]))


@pytest.mark.parametrize("compare", [assert_close, assert_equal])
@pytest.mark.parametrize(
    ("actual", "desired", "why"),
    [
        (np.ones(2), torch.ones(2, dtype=torch.float64), "library"),
        (torch.ones(2, dtype=torch.float64), np.ones(2), "library"),
        (array_api_strict.ones(2), np.ones(2), "library"),
        (np.ones(2, np.float32), np.ones(2), "dtype"),
        (np.ones(2, np.int32), np.ones(2, np.int64), "dtype"),
        (np.ones(2), np.ones((2, 1)), "shape"),
        (np.ones(1), np.ones(()), "shape"),
        (
            array_api_strict.ones(2, device=array_api_strict.Device("device1")),
            array_api_strict.ones(2),
            "device",
        ),
        (np.ones(2), np.asarray([1.0, 1.001]), "Mismatched elements"),
        (np.ones(2), np.asarray([1.0, np.nan]), "nan|x and y"),
    ],
)
def test_another_kind_or_value_fails(compare, actual, desired, why):
    with pytest.raises(AssertionError, match=why):
        compare(actual, desired)


def test_integers_are_compared_exactly_by_default():
    with pytest.raises(AssertionError):
        assert_close(np.asarray([10**15]), np.asarray([10**15 + 1]))


@pytest.mark.parametrize("other", [np.nextafter(1.0, 2.0), 1.0 + 1e-15])
def test_equal_means_the_last_bit(other):
    with pytest.raises(AssertionError):
        assert_equal(np.asarray([1.0]), np.asarray([other]))


def test_equal_sees_the_sign_of_a_zero():
    with pytest.raises(AssertionError, match="sign of a zero"):
        assert_equal(np.asarray([0.0]), np.asarray([-0.0]))


SCORES = np.asarray([[0.5, 0.5, 0.1], [0.0, 0.3, 0.2]])
PRICES = np.asarray([0.0, 0.0, 0.25])


def test_labels_on_a_tie_are_the_same():
    best = np.asarray([0, 2])
    assert label_gaps(SCORES, PRICES, best).tolist() == [0.0, 0.0]
    assert_same_labels(SCORES, PRICES, best, np.asarray([1, 2]))


@pytest.mark.parametrize("worse", [[2, 2], [0, 1]])
@pytest.mark.parametrize("first", [True, False])
def test_a_label_below_the_best_score_fails(worse, first):
    pair = (np.asarray([0, 2]), np.asarray(worse))
    with pytest.raises(AssertionError, match="first" if not first else "second"):
        assert_same_labels(SCORES, PRICES, *(pair if first else pair[::-1]))


def test_labels_within_the_tolerance_are_the_same():
    assert_same_labels(SCORES, PRICES, np.asarray([2, 2]), np.asarray([0, 2]), tol=0.16)


def test_labels_of_another_length_or_of_nan_scores_fail():
    with pytest.raises(AssertionError):
        assert_same_labels(SCORES, PRICES, np.asarray([0]), np.asarray([0, 2]))
    with pytest.raises(AssertionError, match="NaN"):
        assert_same_labels(SCORES * np.nan, PRICES, np.asarray([0, 2]), np.asarray([0, 2]))


def test_copies_to_and_from_a_library_are_faithful(xp):
    data = np.asarray([[1.5, -2.0], [0.0, 3.0]], dtype=np.float32)
    there = xp.asarray(data)
    np.testing.assert_array_equal(to_numpy(there), data, strict=True)
    assert xp.asarray([1, 2]).dtype == xp.namespace.int64


def test_read_only_arrays_refuse_to_be_written_to():
    (library,) = (row for row in LIBRARIES if row.readonly)
    first, (second,) = library.freeze((library.asarray([1.0]), (np.zeros(2),)))
    for array in (first, second):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 2.0


def test_the_minimal_row_refuses_boolean_indexing(xp):
    if xp.flags:
        x = xp.asarray([1.0, 2.0])
        with pytest.raises(RuntimeError, match="boolean_indexing"):
            x[x > 1.0]
