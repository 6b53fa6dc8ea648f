"""Engines of `candidates_of_blocks` against the text of `select_candidates`, to the bit."""

import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

torch = pytest.importorskip("torch")

from dualclust.algos.offline._candidates import candidates_of_blocks, select_candidates  # noqa: E402
from dualclust.backends import torch_lists  # noqa: E402
from tests.backends.rows import row_id, rows_of  # noqa: E402
from tests.backends.test_select_candidates import rows_at_the_threshold  # noqa: E402
from tests.backends.test_torch_engine import Sorts  # noqa: E402
from tests.compare import to_numpy  # noqa: E402
from tests.examples import examples  # noqa: E402

ROWS = rows_of("candidates_of_blocks")
each_row = pytest.mark.parametrize("row", ROWS, ids=row_id)


def assert_conforms(engine, blocks, low, high, width, asarray=torch.asarray):
    """The lists of each block, one below the other; of a row that cannot be used, none."""
    with np.errstate(invalid="ignore", over="ignore"):
        lists = [select_candidates.reference(s, low, high, width=width) for s in blocks]
    expected = [np.concatenate(column) for column in zip(*lists, strict=True)]
    found = engine(asarray(low), asarray(high), iter([asarray(s) for s in blocks]), width=width)
    usable, (*_, counts, _) = expected[2] > 0, found
    np.testing.assert_array_equal(
        np.minimum(to_numpy(counts), width + 1), np.minimum(expected[2], width + 1), strict=True
    )
    for place in (0, 1, 3):
        a, b = to_numpy(found[place]), expected[place]
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a[usable], b[usable])


conforms = partial(assert_conforms, torch_lists.candidates_of_blocks)
KINDS = [np.float32, np.float64]


def in_blocks(scores, rows):
    return [scores[i : i + rows] for i in range(0, len(scores), rows)]


@each_row
@given(data=st.data(), n=st.integers(1, 7), k=st.integers(1, 40), width=st.integers(1, 4))
@examples(150)
def test_an_engine_gives_the_candidates_of_each_block(row, data, n, k, width):
    dtype = data.draw(st.sampled_from(KINDS))
    entries = st.integers(-16, 16).map(lambda v: v / 16.0) | st.sampled_from(
        [-math.inf, math.inf, math.nan]
    )
    scores = data.draw(arrays(dtype, (n, k), elements=entries))
    middle = data.draw(arrays(np.int64, k, elements=st.integers(-16, 16))) / 16.0
    radius = data.draw(arrays(np.int64, k, elements=st.integers(0, 8))) / 16.0
    blocks = in_blocks(scores, data.draw(st.integers(1, n)))
    ends = middle - radius, middle + radius
    assert_conforms(row.engine(), blocks, *ends, width, row.arrays().asarray)


@pytest.mark.parametrize("k", [1, 63, 64, 65, 128, 200, 401])
@pytest.mark.parametrize("dtype", KINDS)
def test_any_number_of_clusters(k, dtype):
    """Few of a row, more than are kept, and rows of ties, in blocks of which one is short."""
    rng = np.random.default_rng(k)
    scores = rng.normal(size=(50, k)).astype(dtype)
    scores[::3] = np.round(scores[::3])
    scores[5:9] = 0.0
    prices, radius = rng.normal(size=k), 0.3 * rng.exponential(size=k)
    for width in (1, 2, 5, k, k + 1):
        for blocks in ([scores], in_blocks(scores, 21)):
            conforms(blocks, prices - radius, prices + radius, width)
            conforms(blocks, 0 * prices, 0 * prices, width)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("offset", [0.0, 1000.0, -1000.0])
def test_clusters_within_rounding_of_the_threshold_are_candidates(dtype, offset):
    for scores, low, high in rows_at_the_threshold(dtype, offset):
        conforms([scores], low, high, 2)


@pytest.mark.parametrize("dtype", KINDS)
def test_keys_that_are_hard_to_order(dtype):
    """Tiny ones, neighbors of either sign, zeros of both signs, all the same."""
    rng, eps, k = np.random.default_rng(0), np.finfo(dtype).eps, 12
    box = np.full(k, 20.0)
    steps = np.stack([rng.permutation(k) for _ in range(6)])
    neighbors = (1.0 + steps * eps).astype(dtype)
    zeros = np.where(rng.random((6, k)) < 0.5, -0.0, 0.0).astype(dtype)
    for scores, prices in (
        (neighbors, 0 * box),
        (-neighbors, 0 * box),
        (zeros, -0.0 * box),
        (np.ones((6, k), dtype), box),
    ):
        for width in (3, k - 1, k):
            conforms([scores], prices, prices, width)
    tiny = (rng.normal(size=(6, k)) * 1e-30).astype(dtype)
    whole = rng.integers(-3, 1, size=(6, k)).astype(dtype)  # keys from -2 to 1
    for width in (3, k):
        conforms([whole], -box, 1 + 0 * box, width)
        conforms([tiny], 0 * box, 1e-28 + 0 * box, width)


@pytest.mark.parametrize("dtype", KINDS)
def test_prices_that_have_no_bound_make_every_cluster_a_candidate(dtype):
    scores = np.random.default_rng(0).normal(size=(5, 7)).astype(dtype)
    far = np.full(7, 1e300)
    found = torch_lists.candidates_of_blocks(
        torch.asarray(-far), torch.asarray(far), [torch.asarray(scores)], width=7
    )
    assert (to_numpy(found[2]) == 7).all()
    assert (np.sort(to_numpy(found[0]), axis=1) == np.arange(7)).all()


@pytest.mark.parametrize("k", [2, 200])
def test_rows_without_a_best_cluster_have_no_candidate(k):
    bad = [math.inf, math.nan, -math.inf]
    for column in (0, 1, k - 1):
        scores = torch.zeros(4, k)
        scores[:3, column] = torch.tensor(bad)
        scores[2] = -math.inf
        box = torch.ones(k, dtype=torch.float64)
        for some in (scores, scores[:3]):
            lists = torch_lists.candidates_of_blocks(-box, box, [some], width=2)
            clusters, values, n, truncation = lists
            assert n.tolist() == [0, 0, 0, min(k, 3)][: len(some)]
            assert (clusters[:3] == -1).all()
            assert (values[:3] == -math.inf).all()
            assert (truncation[:3] == -math.inf).all()
            assert all(len(column) == len(some) for column in lists)


def test_no_rows_have_empty_lists():
    box = torch.ones(5, dtype=torch.float64)
    lists = candidates_of_blocks(-box, box, [torch.zeros(0, 5)], width=3)
    assert [tuple(column.shape) for column in lists] == [(0, 3), (0, 3), (0,), (0,)]
    found = torch_lists.candidates_of_blocks(-box, box, [torch.zeros(0, 5)], width=3)
    assert [(a.shape, a.dtype) for a in found] == [(a.shape, a.dtype) for a in lists]


def test_sorts_keep_the_order_of_ties_on_any_device():
    box = torch.zeros(4, dtype=torch.float64)
    with Sorts() as seen:
        found = torch_lists.candidates_of_blocks(box, box, [torch.zeros(3, 4)], width=3)
    assert found[0].tolist() == [[0, 1, 2], [1, 2, 3], [2, 3, 0]]
    assert seen.stable == [True] * 3
