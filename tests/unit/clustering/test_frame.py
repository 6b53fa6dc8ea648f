"""The coordinates of k-means: mean, unit, grid and weights by hand, and what does not fit them."""

import numpy as np
import pytest

from dualclust.algos.clustering._frame import check_reach, frame_of, map_rows, scores_of
from dualclust.algos.core.errors import DeviceMismatchError, InvalidValueError
from dualclust.algos.core.exact_sums import LIMIT, UNIT_GRID, Grid
from dualclust.algos.scores.sources import FeatureSource, alone, feature_source
from tests.compare import to_numpy
from tests.libraries import ONE_EACH
from tests.problems import unit_rows
from tests.refusals import message_of
from tests.thread_ranks import groups_on_threads

# Around (2, -1) with more room in the second column, and more of it below.
X = np.asarray([[1.0, 1.0], [3.0, 2.0], [2.0, -7.0], [2.0, 0.0]])


def test_the_frame_of_points(xp):
    frame = frame_of(xp.asarray(X), "euclidean", None)
    assert to_numpy(frame.origin).tolist() == [2.0, -1.0]
    assert (frame.unit, frame.spherical, frame.weight_unit) == (8.0, False, 1.0)
    assert frame.grid == Grid(8.0, 50, 2)
    assert frame.weights is None
    assert frame.score_unit == 64.0
    inside = (X - [2.0, -1.0]) / 8.0
    assert to_numpy(frame.inside(xp.asarray(X))).tolist() == inside.tolist()
    assert to_numpy(frame.source.rows(1, 3)).tolist() == inside[1:3].tolist()
    assert to_numpy(frame.block(xp.asarray(X[1:3]), 1, 3)).tolist() == inside[1:3].tolist()
    taken = frame.source.take(xp.asarray([3, 0]))
    assert to_numpy(taken).tolist() == inside[[3, 0]].tolist()
    assert to_numpy(frame.raw.rows(0, 4)).tolist() == X.tolist()
    assert frame.source.largest == 2.0


def test_points_on_the_other_side(xp):
    """The largest entry is below 0 in one column and above it in the other."""
    frame = frame_of(xp.asarray(-X), "euclidean", None)
    assert to_numpy(frame.origin).tolist() == [-2.0, 1.0]
    assert (frame.unit, frame.grid) == (8.0, Grid(8.0, 50, 2))
    one = frame_of(xp.asarray([[5.0]]), "euclidean", None)
    assert (to_numpy(one.origin).tolist(), one.unit, one.grid.unit) == ([5.0], 1.0, 8.0)


def test_how_many_rows_are_held():
    """At most 2^23 entries; rows that are not held are computed anew."""

    def rows(start, stop):
        return np.stack([np.arange(start, stop) % 2 * 2.0 - 1.0, np.zeros(stop - start)], axis=1)

    def framed(n):
        return frame_of(FeatureSource(2, rows, None, alone(n)), "euclidean", None)

    assert framed(2**22).held is not None
    frame = framed(2**22 + 2)
    assert frame.held is None
    assert frame.source.rows(1, 4).tolist() == [[0.5, 0.0], [-0.5, 0.0], [0.5, 0.0]]
    assert frame.block(rows(1, 4), 1, 4).tolist() == [[0.5, 0.0], [-0.5, 0.0], [0.5, 0.0]]


def test_the_grid_of_weighted_rows_keeps_120_bits():
    """Three limbs of 40 bits for a million rows."""
    n = 2**20
    source = FeatureSource(1, lambda a, b: np.arange(a, b)[:, None] % 2 * 2.0 - 1.0, None, alone(n))
    for metric, unit in (("euclidean", 2.0), ("cosine", 1.0)):
        assert frame_of(source, metric, np.ones(n)).grid == Grid(unit, 40, 3)


def test_weights_are_in_units_of_a_power_of_two(xp):
    w = np.asarray([0.5, 0.0, 5.0, 3.0])
    frame = frame_of(xp.asarray(X), "euclidean", xp.asarray(w))
    assert frame.weight_unit == 8.0
    assert to_numpy(frame.weights).tolist() == (w / 8.0).tolist()
    assert frame.score_unit == 8.0 * 64.0
    assert frame.grid == Grid(8.0, 50, 3)  # 120 bits
    assert to_numpy(frame.origin).tolist() == [2.0, -1.0]  # of all rows alike
    unit = frame_of(xp.asarray(unit_rows(X)), "cosine", xp.asarray(w))
    assert (unit.weight_unit, unit.score_unit) == (8.0, 8.0)
    assert unit.grid == Grid(1.0, 50, 3)
    other = next(library for library in ONE_EACH if library.namespace is not xp.namespace)
    message_of(DeviceMismatchError, frame_of, xp.asarray(X), "euclidean", other.asarray(np.ones(4)))


def test_the_frame_of_the_sphere_is_the_identity(xp):
    x = unit_rows(X)
    frame = frame_of(xp.asarray(x), "cosine", None)
    assert to_numpy(frame.origin).tolist() == [0.0, 0.0]
    assert (frame.unit, frame.spherical, frame.weight_unit) == (1.0, True, 1.0)
    assert frame.grid == UNIT_GRID
    assert frame.held is None
    assert frame.source.largest == LIMIT
    points = xp.asarray(X)
    assert frame.inside(points) is points


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_an_entry_that_no_unit_row_has_is_named(sign):
    x = unit_rows(X)
    x[2, 1] = sign * LIMIT
    frame_of(x, "cosine", None)
    x[2, 1] = sign * 1.25
    assert message_of(InvalidValueError, frame_of, x, "cosine", None) == (
        "features must be unit rows for metric='cosine', got an entry of 1.25. "
        "To fix this, normalize the rows with dualclust.algos.core.project_sphere"
    )


def test_scores_are_half_of_what_a_center_saves(xp):
    """``(||x - m||^2 - ||x - c||^2) / 2`` times the weight, in units of the frame."""
    w, centers = np.asarray([0.5, 1.0, 2.0, 3.0]), np.asarray([[2.0, 3.0], [0.0, -5.0], [4.0, 0.0]])
    to_mean = ((X - X.mean(axis=0)) ** 2).sum(axis=1)[:, None]
    expected = (to_mean - ((X[:, None] - centers) ** 2).sum(axis=2)) / 2.0
    for weights in (None, w):
        own = None if weights is None else xp.asarray(weights)
        frame = frame_of(xp.asarray(X), "euclidean", own)
        source = scores_of(frame, frame.inside(xp.asarray(centers)))
        scores = to_numpy(source.block(0, 4)) * frame.score_unit
        factor = 1.0 if weights is None else weights[:, None]
        np.testing.assert_allclose(scores, factor * expected, rtol=1e-12, atol=1e-12)
    x = unit_rows(X)
    frame = frame_of(xp.asarray(x), "cosine", xp.asarray(w))
    scores = to_numpy(scores_of(frame, xp.asarray(centers)).block(0, 4)) * frame.score_unit
    np.testing.assert_allclose(scores, w[:, None] * (x @ centers.T), rtol=1e-12)


# What does not fit -----------------------------------------------------------------------------


def test_weights_whose_scores_overflow_or_vanish():
    """The unit is a power of two above the largest weight, between 1e-300 and 1e300."""
    x = unit_rows(X)
    for fits, does_not in ((-997, -998), (995, 996)):
        frame = frame_of(x, "cosine", np.full(4, 2.0**fits))
        assert frame.score_unit == 2.0 ** (fits + 1)
        told = message_of(InvalidValueError, frame_of, x, "cosine", np.full(4, 2.0**does_not))
        assert told.startswith("features must have squared distances that neither overflow nor")
        points = X / 4.0  # unit 2
        frame = frame_of(points, "euclidean", np.full(4, 2.0 ** (fits - 2)))
        assert frame.score_unit == 2.0 ** (fits + 1)
        message_of(InvalidValueError, frame_of, points, "euclidean", np.full(4, 2.0**does_not / 4))


def test_points_too_far_apart_for_single_precision():
    far = np.float32(np.finfo(np.float32).max) / np.float32(64)
    x = np.asarray([[far, 1.0], [-far, 1.0]], np.float32)
    told = message_of(InvalidValueError, frame_of, x, "euclidean", None)
    assert f"got entries {2.0 * float(far):g} apart" in told
    below = np.nextafter(x, np.float32(0), dtype=np.float32)
    assert frame_of(below, "euclidean", None).unit == 2.0**122
    for one_sided in (below + below[0], below - below[0]):  # half as far from the middle
        assert frame_of(one_sided, "euclidean", None).unit == 2.0**122


def test_centers_out_of_reach_are_named(xp):
    """Up to 1e-4 of the root of the largest number times the unit, from the largest of the mean."""
    x = (X * [-1.0, 1.0]).astype(np.float32)  # mean (-2, -1), unit 8
    frame = frame_of(xp.asarray(x), "euclidean", None)
    most = np.sqrt(float(np.finfo(np.float32).max)) / 1e4 * 8.0 + 2.0
    inside = xp.asarray([[0.0, 0.0], [0.0, most]])
    check_reach(frame, inside)
    check_reach(frame, -inside)
    for beyond in (inside, -inside):
        told = message_of(InvalidValueError, check_reach, frame, beyond * (1.0 + 1e-12))
        assert told == (
            f"centers must be among the features, got an entry of {most:g}, where scores overflow "
            f"beyond {most:g}. To fix this, start from rows "
            f"(dualclust.algos.clustering.start_centers)"
        )


@pytest.mark.parametrize("shape", [(0, 2), (3, 0)])
def test_no_rows_or_no_columns(xp, shape):
    x = xp.asarray(np.zeros(shape))
    told = message_of(InvalidValueError, frame_of, x, "euclidean", None)
    assert told == (
        f"features must have rows and columns, got shape {shape}. To fix this, pass at least one"
    )


# Blocks and ranks ------------------------------------------------------------------------------


def sizes_of(k, d, n):
    source = FeatureSource(d, lambda a, b: np.broadcast_to(0.0, (b - a, d)), None, alone(n))
    return list(map_rows(lambda block, a, b: (a, b, block.shape[0]), source, k))


def test_blocks_of_rows_fit_into_the_cache():
    """At most 2^18 entries of scores or rows, and at least 64 rows."""
    assert sizes_of(1, 1, 8193) == [(0, 8192, 8192), (8192, 8193, 1)]
    assert sizes_of(1, 32, 8193)[0] == (0, 8192, 8192)
    assert sizes_of(32, 1, 8193)[0] == (0, 8192, 8192)
    assert sizes_of(33, 1, 8193)[0] == (0, 4096, 4096)
    assert sizes_of(1, 33, 8193)[0] == (0, 4096, 4096)
    assert sizes_of(1, 2048, 300)[0] == (0, 128, 128)
    assert sizes_of(1, 10_000, 129) == [(0, 64, 64), (64, 128, 64), (128, 129, 1)]


def recorded(x, group):
    """A source of this rank's rows, and the blocks that are read; no other edges are right."""
    own, reads = x[group.first_row : group.first_row + group.n_local], []

    def rows(start, stop):
        assert 0 <= start <= stop <= group.n_local
        reads.extend([(start, stop)] if stop > start else [])
        return own[start:stop]

    return FeatureSource(x.shape[1], rows, lambda ids: x[ids], group), reads


TIMES = 2**11


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("edges", [None, [0, 9, 9, 18, 29]])
def test_the_frame_of_many_blocks_and_ranks(edges, sign):
    """A block is 8,192 rows, four of those that come 2,048 times."""
    x = np.random.default_rng(0).integers(-40, 20, size=(29, 3)).astype(float)
    x[23] = [190.0, 3.0, -130.0]
    x = sign * np.repeat(x, TIMES, axis=0)

    def work(group):
        source, reads = recorded(x, group)
        frame = frame_of(source, "euclidean", None)
        n = group.n_local
        assert reads == 3 * [(i, min(i + 4 * TIMES, n)) for i in range(0, n, 4 * TIMES)]
        inside = (x[group.first_row : group.first_row + n] - frame.origin) / 256.0
        np.testing.assert_array_equal(frame.held, inside)
        del reads[:]
        np.testing.assert_array_equal(frame.source.rows(0, n), inside)
        assert reads == []  # they are held
        return frame

    whole = [work(alone(len(x)))] if edges is None else []
    ranks = groups_on_threads([TIMES * i for i in edges or []], work) if edges else []
    for frame in [*whole, *ranks]:
        np.testing.assert_allclose(frame.origin, x.mean(axis=0), rtol=1e-14)
        assert frame.unit == 256.0
        assert frame.grid == Grid(256.0, 45, 2)  # of so many rows


def test_the_mean_of_many_blocks(xp):
    x = xp.asarray(np.tile(X, (5_000, 1)), "float32")
    frame = frame_of(x, "euclidean", None)
    assert to_numpy(frame.origin).tolist() == [2.0, -1.0]
    assert frame.origin.dtype == x.dtype
    assert frame.held is None or frame.held.dtype == x.dtype
    assert frame_of(xp.asarray(unit_rows(X), "float32"), "cosine", None).origin.dtype == x.dtype


@pytest.mark.parametrize("first", [0, 16])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_the_first_row_that_is_not_finite_is_named_on_all_ranks(value, first):
    x = np.ones((29 * TIMES, 2))
    first *= TIMES
    x[[first, first + 1, first + 5 * TIMES, 25 * TIMES], 1] = value

    def work(group):
        source, _ = recorded(x, group)
        return message_of(InvalidValueError, frame_of, source, "euclidean", None)

    expected = (
        f"features must be finite, got a NaN or an infinity in row {first}. "
        "To fix this, drop or impute that entry"
    )
    edges = [TIMES * i for i in (0, 9, 9, 18, 29)]
    for told in (work(alone(len(x))), *groups_on_threads(edges, work)):
        assert told == expected


def test_rows_that_are_finite_when_read_again():
    """Which one it was cannot be known then."""
    times = iter([np.nan])
    source = FeatureSource(
        1,
        lambda a, b: np.full((b - a, 1), next(times, 1.0) if b > a else 1.0),
        lambda ids: np.ones((len(ids), 1)),
        alone(5),
    )
    assert "in row 0." in message_of(InvalidValueError, frame_of, source, "euclidean", None)


def test_a_feature_source_is_taken_as_it_is():
    source = feature_source(X)
    assert frame_of(source, "euclidean", None).raw is source
