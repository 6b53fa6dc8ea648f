"""What a few rows say about all scores: ids from all over, ranges, and the unit."""

import itertools
import math
import threading

import array_api_compat as compat
import numpy as np
import pytest

from dualclust.algos.core.workers import workers
from dualclust.algos.scores.blocks import MOST_ROWS
from dualclust.algos.scores.sources import ScoreSource, score_source
from dualclust.algos.scores.statistics import (
    FAR,
    allowed_pairs,
    check_range,
    in_range,
    kept_in_memory,
    map_taken,
    median,
    rescaled,
    score_range,
    strided_ids,
)
from tests.compare import assert_same_kind, to_numpy
from tests.libraries import ONE_EACH
from tests.thread_ranks import groups_on_threads

each_library = pytest.mark.parametrize("library", ONE_EACH, ids=lambda row: row.name)
"""Of tests with many shapes, which some libraries compile one by one."""


@pytest.mark.parametrize("n", [1, 2, 7, 8, 100, 1024])
def test_strided_ids_visit_every_row_once(xp, n):
    ids = to_numpy(strided_ids(n, n, xp.asarray([0.0])))
    assert sorted(ids.tolist()) == list(range(n))
    part = to_numpy(strided_ids(n, (n + 1) // 2, xp.asarray([0.0])))
    np.testing.assert_array_equal(part, ids[: len(part)])


def test_neighbors_in_the_order_lie_far_apart(xp):
    ids = to_numpy(strided_ids(100_000, 500, xp.asarray([0.0])))
    assert np.diff(np.sort(ids)).max() <= 400  # 500 rows from all over 100,000


def test_the_range_of_scores_ignores_rows_that_are_far_out(xp):
    scores = np.asarray([[0.0, 1.0], [0.0, 2.0], [0.0, 1e30], [1.0, -math.inf]])
    assert score_range(xp.asarray(scores)) == 2.0
    assert score_range(xp.asarray(np.ones((3, 2)))) == 1.0
    assert median(xp.asarray(np.zeros(0))) == 0.0


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_rows_are_taken_in_parts_that_threads_share_out(xp, threads):
    """Of NumPy; several ranks, or scores that all ranks read together, take them at once."""
    scores = np.arange(40.0).reshape(20, 2)
    wanted = np.tile(np.asarray([7, 0, 19, 3, 3, 11, 5, 2]), 75)
    source, ids = score_source(xp.asarray(scores)), xp.asarray(wanted)
    together = source.group._replace(gather=lambda array: array)
    for own, is_shared in (
        (source, True),
        (source._replace(in_turn=True), False),
        (source._replace(group=together), False),
    ):
        taken, by = [], set()

        def take(part, own=own, taken=taken, by=by):
            taken.append(to_numpy(part).tolist())
            by.add(threading.get_ident())
            return own.take(part)

        with workers(threads):
            found = list(map_taken(lambda rows: rows, own._replace(take=take), ids))
        np.testing.assert_array_equal(np.concatenate([to_numpy(a) for a in found]), scores[wanted])
        lengths = [a.shape[0] for a in found]
        assert lengths == ([256, 256, 88] if is_shared and compat.is_numpy_array(ids) else [600])
        assert sorted(map(len, taken)) == sorted(lengths)
        assert is_shared or by == {threading.get_ident()}


@each_library
def test_the_ids_are_those_of_the_golden_ratio(library):
    """In steps of n / 1.618..., or of the next number that shares no factor with n."""
    like = library.asarray([0.0])
    found = strided_ids(1000, 4, like)
    assert to_numpy(found).tolist() == [0, 619, 238, 857]
    assert_same_kind(found, library.asarray(np.zeros(4, np.int64)))
    assert to_numpy(strided_ids(233, 3, like)).tolist() == [0, 144, 55]
    assert to_numpy(strided_ids(0, 0, like)).tolist() == []


@each_library
@pytest.mark.parametrize(
    ("values", "middle"), [([], 0.0), ([5.0, 1.0, 2.0], 2.0), ([3.0, 1.0, 10.0, 2.0], 3.0)]
)
def test_the_upper_median(library, values, middle):
    assert median(library.asarray(values, "float64")) == middle


@each_library
@pytest.mark.parametrize(
    ("ranges", "middle"),
    [
        ([3.0, 0.0, 5.0, 1.0, 4.0, 0.0, 2.0], 3.0),
        ([0.0, 4.0, 0.0, 0.0, 3.0, 2.0, 0.0], 3.0),
        ([0.0, 0.0, 5.0], 5.0),
        ([7.0, 0.0, 2.0], 7.0),
        ([0.0], 1.0),
        ([], 1.0),
    ],
)
def test_the_range_is_the_upper_median_of_those_above_0(library, ranges, middle):
    low = np.arange(len(ranges)) - 3.0
    scores = np.stack([low, low + ranges, low], axis=1)
    assert score_range(library.asarray(scores)) == middle


@each_library
def test_the_range_of_rows_with_forbidden_pairs_and_of_rows_that_overflow(library):
    scores = np.asarray([[2.0, -math.inf, 5.0], [-math.inf] * 3, [0.0, 4.0, -math.inf]])
    assert score_range(library.asarray(scores)) == 4.0
    far = library.asarray([[1e308, -1e308], [0.0, 3.0]])
    with np.errstate(over="ignore"):
        assert score_range(far) == 3.0
    wide = library.asarray([[3e38, -3e38], [2e38, -2e38]], "float32")  # not of float64
    assert score_range(wide) == pytest.approx(6e38, rel=1e-6)


@each_library
@pytest.mark.parametrize(("dtype", "most"), [("float32", 2.0**100), ("float64", 2.0**900)])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_sums_of_scores_up_to_a_size_stay_finite(library, dtype, most, sign):
    beyond = np.nextafter(np.asarray(most, dtype), np.asarray(np.inf, dtype))
    assert check_range(library.asarray([0.0, sign * most, -math.inf], dtype))
    assert not check_range(library.asarray([0.0, sign * beyond], dtype))


def test_half_precision_is_always_in_range():
    assert check_range(np.asarray([65504.0], np.float16))


def unit_of(scores, shown):
    """The source after a look at one row, and whether it is as it was."""
    source = score_source(np.asarray(scores))
    found = in_range(source, np.asarray([shown]))
    return found, found is source


@pytest.mark.parametrize("power", [-FAR - 1, -1, 0, FAR - 1])
def test_scores_in_range_keep_their_unit(power):
    assert unit_of([[0.5 * 2.0**power, -(2.0**power)]], 0)[1]


@each_library
@pytest.mark.parametrize(("power", "exponent"), [(-FAR - 2, -1), (FAR, 1), (1023, 924)])
def test_scores_out_of_range_get_the_nearest_unit_in_range(library, power, exponent):
    assert FAR == 100
    scores = library.asarray([[0.5, -1.0, 0.25]] * 3) * 2.0**power
    source = score_source(scores)._replace(exponent=7)
    found = in_range(source, library.asarray(np.asarray([1])))
    assert found.exponent == 7 + exponent
    inner = np.asarray([[0.5, -1.0, 0.25]]) * 2.0 ** (power - exponent)
    for rows in (found.block(1, 2), found.take(library.asarray(np.asarray([2])))):
        np.testing.assert_array_equal(to_numpy(rows), inner)
        assert_same_kind(rows, library.asarray(inner))


def test_a_unit_is_sought_on_all_rows_where_those_shown_are_0():
    found, is_same = unit_of([[0.0, 0.0], [2.0**-500, 0.0]], 0)
    assert not is_same
    assert found.exponent == -399
    assert to_numpy(found.block(0, 2)).tolist() == [[0.0, 0.0], [2.0**-101, 0.0]]
    assert in_range(found, np.asarray([1])) is found
    assert rescaled(score_source(np.zeros((0, 2)))).exponent == 0


class Recorded:
    """A source whose calls are kept, each of rows that there are."""

    def __init__(self, scores, group=None):
        plain = score_source(scores)
        self.group = plain.group if group is None else group
        self.read = []

        def block(start, stop):
            assert 0 <= start <= stop <= self.group.n_local
            self.read.append(stop - start)
            return plain.block(self.group.first_row + start, self.group.first_row + stop)

        self.source = ScoreSource(plain.n_clusters, block, plain.take, self.group)


@pytest.mark.parametrize("edges", [[0, 4], [0, 1, 1, 4], [0, 0, 3, 4]])
def test_ranks_agree_on_the_unit_and_on_the_pairs(edges):
    """Whoever has the largest score, and whoever has none; each row is read once."""
    scores = np.asarray([[2.0**-300, 0.0], [0.0, -math.inf], [1.0, 2.0], [-(2.0**-200), 0.0]])
    scores[2] *= 2.0**-400

    def look(group):
        one, other = Recorded(scores, group), Recorded(scores, group)
        unit, allowed = rescaled(one.source).exponent, allowed_pairs(other.source)
        assert sum(one.read) == sum(other.read) == group.n_local
        return unit, allowed

    for unit, allowed in groups_on_threads(edges, look):
        assert unit == -99
        np.testing.assert_array_equal(allowed, np.isfinite(scores))


def test_pairs_of_no_rows(xp):
    found = allowed_pairs(score_source(xp.asarray(np.zeros((0, 3)))))
    assert (tuple(found.shape), str(found.dtype).rpartition(".")[2]) == ((0, 3), "bool")


@pytest.mark.parametrize("n", [0, MOST_ROWS + 5, 3 * MOST_ROWS])
@pytest.mark.parametrize("alone", [True, False])
def test_blocks_that_are_kept_give_any_rows(xp, n, alone):
    scores = np.random.default_rng(0).normal(size=(n, 3))
    source, joins = score_source(xp.asarray(scores)), []
    if not alone:  # of two ranks, of which the other has no rows
        group = source.group._replace(gather=lambda array: joins.append(array) or array)
        source = source._replace(group=group)
    kept = kept_in_memory(source, like=xp.asarray(scores))
    edges = [e for e in (0, 1, MOST_ROWS - 1, MOST_ROWS, MOST_ROWS + 1, n) if e <= n]
    for start, stop in itertools.combinations_with_replacement(edges, 2):
        np.testing.assert_array_equal(to_numpy(kept.block(start, stop)), scores[start:stop])
    ids = np.arange(n - 1, -1, -2)
    for _ in range(2):
        np.testing.assert_array_equal(to_numpy(kept.take(xp.asarray(ids))), scores[ids])
    assert len(joins) == (not alone)  # rows by id wait for no other rank


def test_scores_are_multiplied_once_and_then_read(xp):
    scores, asked = xp.asarray(np.random.default_rng(0).normal(size=(40, 3))), []
    plain = score_source(scores)
    source = plain._replace(
        block=lambda a, b: asked.append((a, b)) or plain.block(a, b), take=None, in_turn=True
    )
    kept = kept_in_memory(source, like=scores)
    ids = xp.asarray(np.asarray([7, 3]))
    np.testing.assert_array_equal(to_numpy(kept.block(2, 5)), to_numpy(scores)[2:5])
    np.testing.assert_array_equal(to_numpy(kept.take(ids)), to_numpy(scores)[[7, 3]])
    assert (asked, kept.in_turn, kept.group) == ([(0, 40)], False, plain.group)
