"""Sources of scores: every block and every row by its id, weights, units, and what is refused."""

import math

import numpy as np
import pytest

from dualclust.algos.core.errors import InvalidValueError
from dualclust.algos.core.reads import on_host
from dualclust.algos.core.workers import workers
from dualclust.algos.scores.blocks import MOST_ROWS
from dualclust.algos.scores.sources import (
    Group,
    ScoreSource,
    alone,
    check_weights,
    feature_source,
    largest_score,
    product_source,
    score_source,
    subsample,
)
from tests.compare import assert_same_kind, to_numpy
from tests.libraries import ONE_EACH, SECOND

each_library = pytest.mark.parametrize("library", ONE_EACH, ids=lambda row: row.name)

SCORES = np.asarray([[1.0, -2.0, 0.5], [0.0, 4.0, -math.inf], [3.0, 0.25, -8.0], [-1.0, 2.0, 0.0]])
WEIGHTS = np.asarray([0.5, 3.0, 0.0, 1.25])


def true_scores(source, rows):
    return to_numpy(rows).astype(np.float64) * 2.0**source.exponent


def assert_is_source_of(source, scores, library, exact=True):
    """Blocks, ids in any order, and the group: all say the same rows."""
    n, k = scores.shape
    assert (source.n_clusters, source.in_turn) == (k, False)
    assert source.group[:3] == (0, n, n)
    compare = np.testing.assert_array_equal if exact else np.testing.assert_allclose
    compare(true_scores(source, source.block(1, n - 1)), scores[1:-1])
    ids = [n - 1, 0, 2]
    compare(true_scores(source, source.take(library.asarray(np.asarray(ids)))), scores[ids])


@each_library
def test_a_matrix(library):
    for dtype in ("float32", "float64"):
        source = score_source(library.asarray(SCORES, dtype))
        assert source.exponent == 0
        assert_is_source_of(source, SCORES, library)
        assert_same_kind(source.block(0, 4), library.asarray(SCORES, dtype))
    with_weights = score_source(library.asarray(SCORES, "float32"), library.asarray(WEIGHTS))
    # A forbidden pair stays one, also in a row without weight.
    expected = np.where(np.isfinite(SCORES), SCORES, 0.0) * WEIGHTS[:, None]
    assert_is_source_of(with_weights, np.where(np.isfinite(SCORES), expected, SCORES), library)
    assert_same_kind(with_weights.block(0, 4), library.asarray(SCORES))


def test_half_precision_becomes_float32():
    scores = np.asarray([[0.5, 1.0], [2.0, -4.0]], np.float16)
    source, features = score_source(scores), feature_source(scores)
    ids = np.asarray([1])
    for rows in (source.block(0, 2), source.take(ids), features.rows(0, 2), features.take(ids)):
        assert rows.dtype == np.float32
    assert source.take(ids).tolist() == features.take(ids).tolist() == [[2.0, -4.0]]


@pytest.mark.parametrize(("size", "weight"), [(1e300, 1e300), (1e-300, 1e-300), (1e308, 3.0)])
def test_weights_and_scores_of_any_size_stay_numbers(size, weight):
    """Scores and weights near 1: their unit is in the exponent."""
    scores, weights = np.asarray([[0.5, -0.25], [1.0, 0.0]]) * size, np.asarray([0.5, 1.0]) * weight
    source = score_source(scores, weights)
    found = source.block(0, 2)
    assert 0.25 <= np.abs(found).max() < 1.0
    _, powers = math.frexp(size), math.frexp(size)[1] + math.frexp(weight)[1]
    assert source.exponent == powers
    plain = np.asarray([[0.5, -0.25], [1.0, 0.0]]) * np.asarray([[0.5], [1.0]])
    np.testing.assert_allclose(found / found.max(), plain / plain.max(), rtol=1e-15)


def test_the_unit_of_weighted_scores_is_that_of_all_blocks():
    """The largest may be in any block, or the smallest number of them all."""
    n = 2 * MOST_ROWS + 5
    for row in (0, MOST_ROWS - 1, MOST_ROWS, 2 * MOST_ROWS, n - 1):
        scores = np.ones((n, 2))
        scores[row, 1] = -48.0
        assert score_source(scores, np.ones(n)).exponent == 6 + 1
    assert score_source(np.ones((0, 2)), np.ones(0)).exponent == 0


@each_library
def test_features(library):
    x = np.arange(12.0).reshape(4, 3)
    features = library.asarray(x)
    source = feature_source(features)
    assert source.n_features == 3
    assert source.largest == (None if on_host(features) else 11.0)
    assert source.group[:3] == (0, 4, 4)
    np.testing.assert_array_equal(to_numpy(source.rows(1, 3)), x[1:3])
    ids = library.asarray(np.asarray([3, 0]))
    np.testing.assert_array_equal(to_numpy(source.take(ids)), x[[3, 0]])


@pytest.mark.parametrize("row", [0, MOST_ROWS - 1, MOST_ROWS, 2 * MOST_ROWS + 4])
@pytest.mark.usefixtures("transfers")
def test_features_of_a_device_know_their_largest_entry(row):
    there, x = SECOND[0], np.full((2 * MOST_ROWS + 5, 2), 5.0)
    x[[1, 2], [0, 1]] = math.inf, math.nan
    x[row, 1] = -9.0
    assert feature_source(there.asarray(x)).largest == 9.0
    for shape in ((0, 3), (3, 0)):
        assert feature_source(there.asarray(np.zeros(shape))).largest is None


CENTERS = np.asarray([[1.0, 0.0, 2.0], [0.0, -1.0, 0.5]])
X = np.asarray([[1.0, 2.0, 3.0], [0.0, -1.0, 4.0], [5.0, 0.0, 0.0], [2.0, 2.0, -2.0]])


@each_library
def test_products(library):
    x, centers = library.asarray(X), library.asarray(CENTERS)
    features, offsets = feature_source(x), np.asarray([0.5, -4.0])
    for own, weights in ((None, None), (offsets, None), (None, WEIGHTS), (offsets, WEIGHTS)):
        source = product_source(
            features,
            centers,
            offsets=None if own is None else library.asarray(own),
            weights=None if weights is None else library.asarray(weights),
        )
        expected = X @ CENTERS.T + (0.0 if own is None else own)
        expected = expected if weights is None else expected * weights[:, None]
        assert source.exponent == (0 if weights is None else 2)
        assert_is_source_of(source, expected, library, exact=False)
    alike = feature_source(library.asarray(X.astype(np.float32)))
    narrow = product_source(alike, library.asarray(CENTERS.astype(np.float32)))
    assert_same_kind(narrow.block(0, 4), library.asarray(np.zeros((4, 2), np.float32)))


def test_weights_of_a_rank_are_those_of_its_rows():
    group = Group(2, 2, 4, lambda array: array)
    features = feature_source(X)._replace(rows=lambda a, b: X[2 + a : 2 + b], group=group)
    source = product_source(features, CENTERS, weights=np.asarray([8.0, 8.0, 1.0, 2.0]))
    expected = (X @ CENTERS.T)[2:] * [[1.0], [2.0]]
    np.testing.assert_allclose(source.block(0, 2) * 2.0**source.exponent, expected)
    np.testing.assert_allclose(source.block(1, 2) * 2.0**source.exponent, expected[1:])


def test_the_caller_s_product_is_used():
    seen = []
    features = feature_source(X)._replace(
        multiply=lambda rows, columns: seen.append((rows.shape, columns.shape)) or rows @ columns
    )
    source = product_source(features, CENTERS)
    source.block(1, 4)
    source.take(np.asarray([0]))
    assert seen == [((3, 3), (3, 2)), ((1, 3), (3, 2))]


def test_products_that_overflow_are_refused_and_infinite_rows_are_not():
    """A row that is infinite itself is the solver's to name."""
    x = np.full((2, 2), 1e200)
    big = np.asarray([[1e200, 0.0], [0.0, 1.0]])
    with np.errstate(over="ignore", invalid="ignore"):
        with pytest.raises(InvalidValueError, match=r"overflows float64\. To fix this, scale"):
            product_source(feature_source(x), big).block(0, 1)
        x[0, 0] = math.inf
        found = product_source(feature_source(x), np.eye(2) + 1.0).block(0, 1)
    assert found.tolist() == [[math.inf, math.inf]]


def test_shapes_and_weights_that_do_not_fit_are_refused():
    features = feature_source(X)
    with pytest.raises(InvalidValueError, match=r"centers must have shape \(k, 3\)"):
        product_source(features, CENTERS[:, :2])
    with pytest.raises(InvalidValueError, match=r"weights must have shape \(4,\)"):
        product_source(features, CENTERS, weights=np.ones(3))
    with pytest.raises(InvalidValueError, match=r"features must have shape \(n, d\)"):
        feature_source(np.ones(3))
    with pytest.raises(InvalidValueError, match=r"weights must have shape \(4,\)"):
        score_source(SCORES, np.ones(5))
    empty = product_source(feature_source(np.zeros((3, 2))), np.zeros((0, 2)))
    assert empty.block(0, 3).shape == (3, 0)


@each_library
def test_some_rows_are_a_problem_of_their_own(library):
    ids = library.asarray(np.asarray([3, 0, 2]))
    source = score_source(library.asarray(SCORES), library.asarray(WEIGHTS))
    part = subsample(source, ids)
    expected = true_scores(source, source.block(0, 4))[[3, 0, 2]]
    assert part.exponent == source.exponent != 0
    assert_is_source_of(part, expected, library)
    assert part.group.is_alone
    several = source._replace(group=Group(0, 4, 4, lambda array: array))
    assert subsample(several, ids).in_turn  # all ranks take rows together
    assert subsample(source._replace(in_turn=True), ids).in_turn


def test_weights_of_a_sum_that_is_0_or_no_number_are_refused():
    for bad, text in (
        ([1.0, -2.0], "not all 0, got values from -2 to 1. To fix this"),
        ([0.0, 0.0], "got values from 0 to 0"),
        ([1.0, math.inf], "got values from 1 to inf"),
        ([1e308, 1e308], r"got values from 1e\+308 to 1e\+308"),
    ):
        with np.errstate(over="ignore"), pytest.raises(InvalidValueError, match=text):
            check_weights("weights", np.asarray(bad), 2)
    assert check_weights("weights", np.zeros(0), 0).tolist() == []
    found = check_weights("weights", np.asarray([0.0, 0.25], np.float32), 2)
    assert (found.tolist(), found.dtype) == ([0.0, 0.25], np.float64)


@each_library
def test_the_largest_finite_size(library):
    for values, largest in (
        ([[1.0, -3.0], [2.0, 0.0]], 3.0),
        ([[1.0, -3.0], [5.0, 0.0]], 5.0),
        ([[-1.0, -math.inf]], 1.0),
        ([[-1.0, math.inf], [-7.0, 3.0]], 7.0),
        ([[math.nan, -2.0]], 2.0),
        ([[math.inf, -math.inf]], 0.0),
        ([[-4.0, -2.0]], 4.0),
    ):
        assert largest_score(library.asarray(values)) == largest
    for shape in ((0, 3), (3, 0)):
        assert largest_score(library.asarray(np.zeros(shape))) == 0.0


def test_a_pass_sees_all_blocks_or_those_within_rows():
    m = MOST_ROWS
    group = Group(10, 2 * m + 1, 3 * m, lambda array: array)
    source = ScoreSource(3, lambda a, b: None, lambda ids: None, group)
    like = np.zeros(1)

    def edges(**options):
        return list(source.map_blocks(lambda a, b: (a, b), like=like, **options))

    assert edges() == [(0, m), (m, 2 * m), (2 * m, 2 * m + 1)]
    assert edges(within=(2, m + 3)) == [(2, m + 2), (m + 2, m + 3)]
    assert edges(within=(2, 2)) == []
    assert edges(within=(2, 2), at_least_one=True) == [(2, 2)]


def test_ranks_that_read_together_read_in_one_thread():
    from threading import Barrier, get_ident

    source, like = score_source(np.zeros((2 * MOST_ROWS, 1))), np.zeros(1)
    both = Barrier(2, timeout=30.0)

    def meet(start, stop):
        both.wait()
        return get_ident()

    with workers(2):
        assert len(set(source.map_blocks(meet, like=like))) == 2
        in_turn = source._replace(in_turn=True)
        threads = set(in_turn.map_blocks(lambda start, stop: get_ident(), like=like))
        assert threads == {get_ident()}


@pytest.mark.parametrize("first", [0, 7, 2**21])
def test_the_part_of_a_rank(first):
    group, values = Group(first, 2, 2**21 + 9, lambda array: array), np.arange(2**21 + 9)
    assert group.own(values).tolist() == [first, first + 1]


def test_a_rank_with_all_rows_is_alone_only_where_it_is_the_only_one():
    assert alone(5).is_alone
    assert alone(5)[:3] == (0, 5, 5)
    assert not Group(0, 5, 5, lambda array: array).is_alone
