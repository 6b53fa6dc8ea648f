"""Candidates, the clusters that can be best: complete for every price in the trust region."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualclust.algos.bounds.farkas import verify_infeasibility
from dualclust.algos.core.errors import InfeasibleBoundsError, InvalidValueError
from dualclust.algos.offline import SolverOptions, _candidates
from dualclust.algos.offline._candidates import (
    DEVICE_ROWS,
    TooManyCandidatesError,
    all_candidates,
    collect_candidates,
    row_slices,
    rows_at_once,
    select_candidates,
)
from dualclust.algos.offline._free_rows import _rounded_up
from dualclust.algos.scores import blocks
from dualclust.algos.scores.sources import score_source
from dualclust.algos.scores.statistics import ScoresOutOfRangeError
from tests.compare import to_numpy
from tests.examples import examples


def candidates_of(xp, scores, low, high, width):
    source = score_source(xp.asarray(scores))
    return collect_candidates(source, xp.asarray(low), xp.asarray(high), width=width)


@given(st.integers(0, 2**32), st.integers(2, 6))
@examples(40)
def test_no_price_in_the_region_makes_another_cluster_best(xp, seed, width):
    rng = np.random.default_rng(seed)
    n, k = 12, int(rng.integers(1, 7))
    scores, middle, radius = rng.normal(size=(n, k)), rng.normal(size=k), rng.exponential(size=k)
    low, high = middle - radius, middle + radius
    found = candidates_of(xp, scores, low, high, width)
    is_free, labels = to_numpy(found.is_free), to_numpy(found.labels)
    clusters, values, truncation = (
        to_numpy(a) for a in (found.clusters, found.values, found.truncation)
    )
    assert clusters.shape[0] == is_free.sum()
    np.testing.assert_array_equal(
        np.bincount(labels[~is_free], minlength=k), to_numpy(found.fixed_counts)
    )
    assert found.fixed_value == pytest.approx(
        scores[np.arange(n), labels][~is_free].sum(), abs=1e-12
    )
    for _ in range(20):
        prices = rng.uniform(low, high)
        best = (scores + prices).argmax(axis=1)
        np.testing.assert_array_equal(best[~is_free], labels[~is_free])
        for row, i in enumerate(np.flatnonzero(is_free)):
            kept = clusters[row][clusters[row] >= 0]
            np.testing.assert_array_equal(values[row][: len(kept)], scores[i, kept])
            if best[i] not in kept:
                assert scores[i, best[i]] + prices[best[i]] <= truncation[row]


def test_the_size_of_the_blocks_changes_nothing(xp, rng):
    """Rows that come 200 times are in four blocks; fixed and free ones in each."""
    scores = rng.normal(size=(130, 3)).astype(np.float32)
    one = candidates_of(xp, scores, np.full(3, -0.2), np.full(3, 0.2), 2)
    many = candidates_of(xp, np.tile(scores, (200, 1)), np.full(3, -0.2), np.full(3, 0.2), 2)
    for name in ("clusters", "values", "truncation", "labels", "is_free"):
        row, rows = (to_numpy(getattr(found, name)) for found in (one, many))
        np.testing.assert_array_equal(rows, np.concatenate([row] * 200))
    assert 0 < len(to_numpy(one.clusters)) < 130
    for name in ("fixed_counts", "fixed_value", "fixed_size"):
        row, rows = (to_numpy(getattr(found, name)) for found in (one, many))
        np.testing.assert_allclose(rows, 200 * np.asarray(row), rtol=1e-9)
    fixed = ~to_numpy(one.is_free)
    sizes = scores[fixed, to_numpy(one.labels)[fixed]]
    assert one.fixed_size == pytest.approx(np.abs(sizes).sum(), rel=1e-6)
    assert (_candidates.SLACK, DEVICE_ROWS) == (8.0, 2**21)


def test_all_clusters_but_the_forbidden(xp):
    scores = np.asarray([[1.0, -math.inf, 2.0], [0.0, 1.0, 2.0]])
    found = all_candidates(score_source(xp.asarray(scores)), like=xp.asarray(np.zeros(3)))
    assert to_numpy(found.clusters).tolist() == [[2, 0, -1], [2, 1, 0]]  # the best first
    assert to_numpy(found.values).tolist() == [[2.0, 1.0, -math.inf], [2.0, 1.0, 0.0]]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("row", [7, 9_000])
def test_a_row_without_a_best_cluster_is_named(xp, bad, row):
    """In the first block or in another."""
    scores = np.zeros((row + 3, 3))
    scores[row] = bad
    source = score_source(xp.asarray(scores))
    box = xp.asarray(np.zeros(3))
    forbidden = bad == -math.inf
    expected = InfeasibleBoundsError if forbidden else InvalidValueError
    for collect in (
        lambda: collect_candidates(source, box, box, width=2),
        lambda: all_candidates(source, like=box),
    ):
        match = f"sample {row} may join no cluster" if forbidden else f"row {row} is not so"
        with pytest.raises(expected, match=match) as error:
            collect()
        if forbidden:
            vector = error.value.vector
            assert verify_infeasibility([0] * 3, [row + 3] * 3, scores > -math.inf, vector)


@pytest.mark.parametrize("place", ["free", "fixed"])
def test_scores_that_would_overflow_in_sums_are_told_apart_from_bad_ones(xp, place):
    scores = np.zeros((10, 3))
    scores[7] = 1e300 if place == "free" else [1e300, 0.0, 0.0]
    source, box = score_source(xp.asarray(scores)), xp.asarray(np.zeros(3))
    with pytest.raises(ScoresOutOfRangeError):
        collect_candidates(source, box, box, width=2)
    with pytest.raises(ScoresOutOfRangeError):
        all_candidates(source, like=box)


def test_truncation_is_at_least_what_a_truncated_cluster_is_worth(xp):
    """Prices are rounded to float32 for the pass, down as often as up."""
    rng = np.random.default_rng(0)
    scores, high = rng.normal(size=(200, 6)).astype(np.float32), 1.0 + rng.random(6)
    found = candidates_of(xp, scores, high - 4.0, high, 2)
    worth = np.sort(scores.astype(np.float64) + high, axis=1)[:, -3]
    is_free, truncation = to_numpy(found.is_free), to_numpy(found.truncation)
    assert (truncation > -math.inf).sum() > 100
    assert (truncation >= np.where(truncation > -math.inf, worth[is_free], truncation)).all()


def test_truncation_is_raised_by_the_rounding_of_a_price_and_of_its_sum():
    eps = 2.0**-52
    worth = np.asarray([2.0, -3.0, -math.inf, 0.0])
    found = _rounded_up(worth, 1.0, eps)
    assert found.tolist() == [2.0 + 3.0 * eps, -3.0 + 4.0 * eps, -math.inf, eps]
    assert _rounded_up(worth, 0.0, eps) is worth  # prices of 0 are not rounded


def test_a_pass_ends_with_the_block_that_is_too_much():
    """Candidates of 10,000 rows fit, two blocks have more: the other three are not read."""
    plain, read = score_source(np.zeros((5 * blocks.MOST_ROWS, 3))), []
    source = plain._replace(block=lambda a, b: read.append((a, b)) or plain.block(a, b))
    wide = np.ones(3)
    with pytest.raises(TooManyCandidatesError):
        collect_candidates(source, -wide, wide, width=2, max_entries=20_000)
    assert read == [(0, 8_192), (8_192, 16_384)]


def test_the_text_keeps_more_than_a_million_candidates_of_a_row():
    kept, k = 2**20 + 4, 2**20 + 8
    scores, far = np.arange(k, 0.0, -1.0)[None, :], np.full(k, float(k))
    clusters, values, n, lost = select_candidates.reference(scores, -far, far, width=kept)
    np.testing.assert_array_equal(clusters[0], np.arange(kept))
    np.testing.assert_array_equal(values, scores[:, :kept])
    assert (n.tolist(), lost.tolist()) == ([k], [4.0 + k])


def test_rows_are_gone_over_in_parts_of_a_cache_or_of_a_device(rng):
    kept = all_candidates(score_source(rng.normal(size=(20, 3))), like=np.zeros(3))
    options = SolverOptions(chunk_rows=7)
    assert list(row_slices(kept, options)) == [slice(0, 7), slice(7, 14), slice(14, 20)]
    torch = pytest.importorskip("torch")
    from tests.second_device import DEVICE

    assert rows_at_once(torch.zeros(1, device=DEVICE), options) == DEVICE_ROWS


def test_the_share_of_rows_that_lost_candidates():
    scores = np.asarray([[0.0, 0.0, 0.0, -9.0], [0.0, 0.0, -9.0, -9.0], [5.0, 0.0, 0.0, 0.0]] * 2)
    zero = np.zeros(4)
    kept = collect_candidates(score_source(scores), zero, zero, width=2)
    assert kept.truncated_share(6) == pytest.approx(2.0 / 6.0)
