"""Center sums are integers: no batch split, order, merge or library can change a bit of them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dualclust.algos.clustering.centers import add_to_sums, init_sums, mean_centers, merge_sums
from dualclust.algos.core.projections import project_sphere
from tests.compare import to_numpy
from tests.examples import examples
from tests.libraries import LIBRARIES
from tests.problems import unit_rows

NUMPY = LIBRARIES[0]


@st.composite
def samples(draw):
    """Random float features, not only dyadic ones, with labels and start centers."""
    n, k, d = draw(st.integers(0, 30)), draw(st.integers(1, 5)), draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    x = unit_rows(rng.normal(size=(n, d))).astype(dtype)
    return x, rng.integers(0, k, size=n), unit_rows(rng.normal(size=(k, d))).astype(dtype)


def sums_of(xp, x, y, shape, cuts=(), order=None):
    order = np.arange(len(x)) if order is None else order
    state = init_sums(*shape, xp=xp.namespace, device=xp.device)
    for rows in np.split(order, cuts):
        state = add_to_sums(xp.freeze(state), xp.asarray(x[rows]), xp.asarray(y[rows]))
    return state


def assert_same_sums(a, b):
    np.testing.assert_array_equal(to_numpy(a.sums), to_numpy(b.sums), strict=True)
    np.testing.assert_array_equal(to_numpy(a.counts), to_numpy(b.counts), strict=True)


@given(problem=samples(), data=st.data())
@examples(60)
def test_any_split_and_order_gives_the_same_bits(xp, problem, data):
    x, y, start = problem
    whole = sums_of(NUMPY, x, y, start.shape)
    order = np.asarray(data.draw(st.permutations(range(len(x)))), dtype=np.int64)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(x)), max_size=4)))
    again = sums_of(xp, x, y, start.shape, cuts, order)
    assert_same_sums(again, whole)
    parted = sums_of(xp, x, y, start.shape)
    np.testing.assert_array_equal(
        to_numpy(mean_centers(again, xp.asarray(start))),
        to_numpy(mean_centers(parted, xp.asarray(start))),
    )


@given(problem=samples(), data=st.data())
@examples(100)
def test_merging_is_associative_and_commutative(problem, data):
    x, y, start = problem
    cuts = sorted(data.draw(st.lists(st.integers(0, len(x)), min_size=2, max_size=2)))
    a, b, c = (
        sums_of(NUMPY, x[rows], y[rows], start.shape) for rows in np.split(np.arange(len(x)), cuts)
    )
    whole = sums_of(NUMPY, x, y, start.shape)
    assert_same_sums(merge_sums(merge_sums(a, b), c), whole)
    assert_same_sums(merge_sums(c, merge_sums(b, a)), whole)


@given(problem=samples())
@examples(60)
def test_centers_are_those_of_plain_means(xp, problem):
    x, y, start = problem
    state = sums_of(xp, x, y, start.shape)
    centers = to_numpy(mean_centers(state, xp.asarray(start.astype(np.float64))))
    for j, center in enumerate(centers):
        mean = x[y == j].astype(np.float64).sum(axis=0)
        if np.linalg.norm(mean) > 1e-3:
            np.testing.assert_allclose(center, mean / np.linalg.norm(mean), rtol=0, atol=1e-6)
            np.testing.assert_allclose(to_numpy(state.sums)[j] / 2.0**36, mean, rtol=0, atol=1e-9)
        elif not (y == j).any():
            np.testing.assert_allclose(center, start[j], rtol=1e-6)


@given(problem=samples())
@examples(60)
def test_all_libraries_give_the_same_centers(problem):
    x, y, start = problem
    results = []
    for xp in LIBRARIES:
        if not xp.flags:
            state = sums_of(xp, x, y, start.shape)
            results.append(to_numpy(mean_centers(state, xp.asarray(start))))
    eps = np.finfo(start.dtype).eps
    for other in results[1:]:
        np.testing.assert_allclose(other, results[0], rtol=0, atol=2 * eps)


@given(problem=samples())
@examples(60)
def test_centers_are_unit_rows_and_never_nan(xp, problem):
    x, y, start = problem
    cancelled = np.concatenate([x, -x]), np.concatenate([y, y])
    for features, labels in ((x, y), cancelled):
        centers = mean_centers(sums_of(xp, features, labels, start.shape), xp.asarray(start))
        lengths = np.linalg.norm(to_numpy(centers), axis=1)
        np.testing.assert_allclose(lengths, 1.0, rtol=8 * np.finfo(start.dtype).eps)
    np.testing.assert_allclose(to_numpy(centers), start, rtol=8 * np.finfo(start.dtype).eps)


@given(problem=samples(), seed=st.integers(0, 2**32))
@examples(100)
def test_turning_the_features_turns_the_centers(problem, seed):
    x, y, start = (a.astype(np.float64) if a.dtype.kind == "f" else a for a in problem)
    d = x.shape[1]
    turn, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(d, d)))
    state = sums_of(NUMPY, x, y, start.shape)
    plain = mean_centers(state, start)
    turned = mean_centers(sums_of(NUMPY, x @ turn, y, start.shape), start @ turn)
    length = np.linalg.norm(state.sums / 2.0**36, axis=1)
    clear = (length > 1e-2) | (state.counts == 0)
    np.testing.assert_allclose(turned[clear], (plain @ turn)[clear], rtol=0, atol=1e-7)


def test_features_and_their_opposites_cancel_to_the_last_bit():
    x = project_sphere(np.random.default_rng(0).normal(size=(1000, 8)))
    state = sums_of(NUMPY, np.concatenate([x, -x]), np.zeros(2000, np.int64), (1, 8))
    assert not state.sums.any()
    assert state.counts.tolist() == [2000]
