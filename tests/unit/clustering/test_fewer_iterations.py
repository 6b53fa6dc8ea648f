"""What saves iterations of constrained k-means: a sample at first, rough labels, steps beyond."""

import numpy as np
import pytest

import dualclust as dc
from dualclust.algos.clustering import _labels, _sampled_start
from dualclust.algos.clustering._frame import frame_of
from dualclust.algos.clustering._over_relaxation import relaxed_centers
from dualclust.algos.clustering._sampled_start import (
    FEWEST_TIMES,
    ROWS_PER_CLUSTER,
    sampled_problem,
)
from dualclust.algos.clustering.constrained import constrained_kmeans
from tests.compare import to_numpy
from tests.problems import unit_rows
from tests.programs import program

N, K = 10_240, 10


@pytest.fixture(scope="module")
def rows():
    return program("kmeans").data(N, K, 6, "float64", 2)


def bounds_of(n=N, lower=0.9, upper=1.1):
    return dc.SizeBounds.from_ratios(K, n_samples=n, lower=lower, upper=upper)


# Steps beyond the best centers -----------------------------------------------------------------


def test_a_step_beyond_the_means_is_no_farther_from_them(xp, rng):
    old, best = rng.normal(size=(2, 5, 3))
    best[4] = old[4]
    found = to_numpy(relaxed_centers(xp.asarray(old), xp.asarray(best), spherical=False))
    np.testing.assert_allclose(found[:4] - best[:4], 0.8 * (best[:4] - old[:4]), rtol=1e-12)
    np.testing.assert_array_equal(found[4], old[4])


def test_a_step_beyond_directions_stays_on_the_sphere_and_comes_no_less_near(xp, rng):
    old, best = (unit_rows(rng.normal(size=(200, 3))) for _ in range(2))
    best[-1] = -old[-1]
    found = to_numpy(relaxed_centers(xp.asarray(old), xp.asarray(best), spherical=True))
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0, rtol=1e-12)
    assert np.all((found * best).sum(axis=1) >= (old * best).sum(axis=1) - 1e-12)
    across = found - (found * best).sum(axis=1, keepdims=True) * best
    assert np.all((across * old).sum(axis=1)[:-1] < 0.0)  # on the other side of the best


def test_centers_that_stay_do_so_to_the_bit(xp):
    """And only these: a coordinate that stays is none. No projection touches them, either."""
    old = xp.asarray(np.asarray([[3.0, 4.0], [1.0, 0.0], [0.6, 0.8]]))
    best = xp.asarray(np.asarray([[3.0, 4.0], [1.0, 1.0], [0.8, 0.6]]))
    flat = to_numpy(relaxed_centers(old, best, spherical=False))
    np.testing.assert_allclose(flat, [[3.0, 4.0], [1.0, 1.8], [0.96, 0.44]])
    round_ = to_numpy(relaxed_centers(old, best, spherical=True))
    np.testing.assert_array_equal(round_[0], [3.0, 4.0])
    lengths = np.linalg.norm(flat[1:], axis=1, keepdims=True)
    np.testing.assert_allclose(round_[1:], flat[1:] / lengths)


def test_steps_beyond_save_iterations_and_lose_nothing(rows):
    """Steps to the means take 266 iterations from these starts; these take about 143."""
    starts = [rows[s * K : (s + 1) * K] for s in range(4)]
    found = [constrained_kmeans(rows, bounds_of(), s, metric="euclidean") for s in starts]
    assert all(run.converged for run in found)
    assert sum(run.n_iter for run in found) < 200
    values = [run.objective for run in found]
    assert min(values) > 0.97 * max(values)


def test_the_last_step_is_to_the_means(rows):
    states = []
    found = constrained_kmeans(
        rows, bounds_of(), rows[:K], metric="euclidean", progress=lambda s, _: states.append(s)
    )
    before = states[-2].labels
    means = np.stack([rows[before == j].mean(axis=0) for j in range(K)])
    np.testing.assert_allclose(found.centers, means, rtol=1e-9, atol=1e-9)
    beyond = np.stack([rows[states[-4].labels == j].mean(axis=0) for j in range(K)])
    assert np.abs(states[-3].centers - beyond).max() > 1e-6


# The first iterations --------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
def test_a_sample_has_bounds_in_proportion_and_the_weights_of_its_rows(xp, weighted):
    m = ROWS_PER_CLUSTER * K
    n = FEWEST_TIMES * m
    x = np.arange(2.0 * n).reshape(n, 2)
    weights = xp.asarray(x[:, 0] + 1.0) if weighted else None
    bounds = dc.SizeBounds.from_counts(
        [2] + [n // K] * (K - 1), [n] * K, n_samples=n, xp=xp.namespace, device=xp.device
    )
    frame = frame_of(xp.asarray(x), "euclidean", weights)
    own = frame.raw._replace(multiply=lambda a, b: 0)
    sample = sampled_problem(frame._replace(raw=own), bounds)
    assert sample.features.multiply is own.multiply
    assert sample.bounds.n_samples == m
    found = to_numpy(sample.features.rows(0, m))
    assert np.unique(found[:, 0]).shape == (m,)
    assert np.ptp(found[:, 0]) > 0.9 * np.ptp(x[:, 0])  # from all over the data
    np.testing.assert_array_equal(to_numpy(sample.bounds.lower), [0] + [m // K] * (K - 1))
    np.testing.assert_array_equal(to_numpy(sample.bounds.upper), [m] * K)
    if weighted:
        np.testing.assert_array_equal(to_numpy(sample.weights), found[:, 0] + 1.0)
    else:
        assert sample.weights is None


def test_no_sample_where_it_saves_nothing():
    m = ROWS_PER_CLUSTER * K
    x = np.arange(2.0 * FEWEST_TIMES * m).reshape(-1, 2)
    n = len(x)
    assert sampled_problem(frame_of(x, "euclidean", None), bounds_of(n)) is not None
    assert sampled_problem(frame_of(x[1:], "euclidean", None), bounds_of(n - 1)) is None
    weights = np.zeros(n)
    weights[np.setdiff1d(np.arange(n), _sampled_start.strided_ids(n, m, x))[0]] = 1.0
    assert sampled_problem(frame_of(x, "euclidean", weights), bounds_of(n)) is None
    weights[np.setdiff1d(np.arange(n), _sampled_start.strided_ids(n, m, x))] = 1.0
    weights[_sampled_start.strided_ids(n, 1, x)] = 0.5  # a single one with weight
    assert sampled_problem(frame_of(x, "euclidean", weights), bounds_of(n)) is not None


def test_no_sample_where_centers_are_rows_that_lie_far_out_of_it(rng):
    """They are among all rows, and scores of the sample alone would overflow."""
    x = rng.normal(size=(7700, 3)).astype(np.float32)
    m = ROWS_PER_CLUSTER * K
    left_out = np.setdiff1d(np.arange(len(x)), _sampled_start.strided_ids(len(x), m, x))
    x[left_out[0]] = 1e20
    centers = np.concatenate([x[left_out[:1]], x[:9]])
    bounds = bounds_of(len(x), 0.5, 1.5)
    assert sampled_problem(frame_of(x, "euclidean", None), bounds) is not None
    found = constrained_kmeans(x, bounds, centers, metric="euclidean", max_iter=2)
    assert np.isfinite(found.centers).all()
    assert np.all((found.counts >= bounds.lower) & (found.counts <= bounds.upper))


def test_no_sample_whose_scores_vanish(rng):
    """Nearly all of the weight lies on a row that the sample leaves out."""
    x = 1e-10 * rng.normal(size=(7700, 3))
    weights = np.full(len(x), 1e-285)
    m = ROWS_PER_CLUSTER * K
    weights[np.setdiff1d(np.arange(len(x)), _sampled_start.strided_ids(len(x), m, x))[0]] = 1.0
    bounds = bounds_of(len(x), 0.5, 1.5)
    found = constrained_kmeans(x, bounds, x[:K], metric="euclidean", weights=weights, max_iter=1)
    assert np.isfinite(found.centers).all()


def test_labels_are_rough_while_many_change(rows):
    states = []
    found = constrained_kmeans(
        rows,
        bounds_of(),
        rows[:K],
        metric="euclidean",
        prices=np.zeros(K),  # no sample
        progress=lambda s, _: states.append(s),
    )
    shares = [1.0, 1.0, *(s.changed for s in states[:-1])]
    expected = [_labels.ROUGH if share > _labels.MANY else _labels.NEAR for share in shares]
    assert {_labels.ROUGH, _labels.NEAR} == set(expected)
    assert all(state.gap <= most for state, most in zip(states, expected[1:], strict=True))
    assert found.gap <= 1e-4


# Bounds that do not bind -----------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
def test_bounds_that_do_not_bind_need_no_solver(rows, weighted):
    weights = np.linspace(0.5, 2.0, N) if weighted else None
    wide = bounds_of(lower=0.01, upper=9.0)
    options = {"weights": weights, "prices": np.zeros(K), "max_iter": 6}
    found = constrained_kmeans(rows, wide, rows[:K], metric="euclidean", **options)
    squares = ((rows[:, None, :] - found.centers) ** 2).sum(axis=2)
    np.testing.assert_array_equal(found.labels, squares.argmin(axis=1))
    np.testing.assert_array_equal(found.counts, np.bincount(found.labels, minlength=K))
    scores = (((rows - rows.mean(axis=0)) ** 2).sum(axis=1) - squares.min(axis=1)) / 2.0
    value = float((scores if weights is None else weights * scores).sum())
    np.testing.assert_allclose(found.objective, value, rtol=1e-9)
    assert (found.gap, found.assignment.violation) == (0.0, 0)


def test_bounds_that_a_few_rows_miss_are_kept(rows):
    """The rows that are looked at first do not tell: the pass over all of them does."""
    centers = np.concatenate([rows[: K - 1], np.full((1, 6), 1e3)])
    bounds = dc.SizeBounds.from_counts([0] * (K - 1) + [3], n_samples=N)
    labeler = _labels.Labeler(frame_of(rows, "euclidean", None), bounds, None)
    found = labeler.labels(centers, None, 0.0)
    assert int(found.counts[-1]) == 3


def test_the_rounding_of_free_labels_follows_the_terms_that_cancel(rows):
    """Scores have both signs: of a sum near 0, rounding is not near 0."""
    centers = rows[:K] * 2.0
    wide = bounds_of(lower=0.0, upper=9.99)
    frame = frame_of(rows, "euclidean", None)
    found = _labels.Labeler(frame, wide, None).labels(centers, None, 0.0)
    best = (
        ((rows - rows.mean(axis=0)) ** 2).sum(axis=1)
        - ((rows[:, None, :] - centers) ** 2).sum(axis=2).min(axis=1)
    ) / 2.0
    assert np.abs(best).sum() > 1.05 * abs(best.sum())
    assert found.rounding == pytest.approx(_labels.ROUNDING * np.abs(best).sum(), rel=1e-6)


def test_ties_are_no_reason_to_solve(rows):
    """Rows of weight 0 may go to any cluster: where only these are looked at, all rows decide."""
    weights = np.ones(N)
    weights[_sampled_start.strided_ids(N, 1024, rows)] = 0.0
    frame = frame_of(rows, "euclidean", weights)
    wide = bounds_of(lower=0.0, upper=9.0)
    found = _labels.Labeler(frame, wide, None).labels(rows[:K], None, 0.0)
    squares = ((rows[:, None, :] - rows[:K]) ** 2).sum(axis=2)
    np.testing.assert_array_equal(found.labels, squares.argmin(axis=1))
