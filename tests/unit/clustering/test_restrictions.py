"""Fixed rows, forbidden pairs, prices to start from: known answers, checks, blocks, and ranks."""

import itertools

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.clustering._restrictions import Restrictions, restrictions_of
from dualclust.algos.clustering.constrained import constrained_kmeans, kmeans
from dualclust.algos.core.errors import (
    InfeasibleBoundsError,
)
from dualclust.algos.scores.blocks import MOST_ROWS
from dualclust.algos.scores.sources import FeatureSource, Group, score_source
from tests.compare import assert_equal, to_numpy
from tests.passes import counted_passes
from tests.problems import unit_rows


def bounds_on(xp, n, k, **sides):
    found = SizeBounds.of(k, n_samples=n, xp=xp.namespace, device=xp.device, **sides)
    return xp.freeze(found)


def rules(rng, n, k, share=0.2):
    """Labels of some rows, and pairs that forbid no row all clusters; and the mask of both."""
    fixed = np.where(rng.random(n) < share, rng.integers(0, k, size=n), -1)
    allowed = rng.random((n, k)) > share
    allowed[np.arange(n), rng.integers(0, k, size=n)] = True
    allowed[np.arange(n), np.maximum(fixed, 0)] |= fixed >= 0
    pairs = np.argwhere(~allowed)
    rng.shuffle(pairs)
    allowed &= (fixed[:, None] < 0) | (fixed[:, None] == np.arange(k))
    return fixed, np.concatenate([pairs, pairs[:3]]), allowed


# Scores -----------------------------------------------------------------------------------------


def test_forbidden_pairs_are_minus_infinity_in_blocks_and_in_chosen_rows(xp, rng):
    n, k = 40, 5
    scores = rng.normal(size=(n, k))
    fixed, pairs, allowed = rules(rng, n, k)
    found = restrictions_of(xp.asarray(fixed), xp.asarray(pairs), bounds_on(xp, n, k))
    source = found.of_scores(score_source(xp.asarray(scores)))
    want = np.where(allowed, scores, -np.inf)
    for start, stop in [(0, n), (0, 0), (7, 8), (3, 31), (39, 40)]:
        assert_equal(source.block(start, stop), xp.asarray(want[start:stop]))
    for ids in ([], [39], [5, 5, 0, 38, 7, 5], rng.permutation(n)):
        ids = np.asarray(ids, dtype=np.int64)
        assert_equal(source.take(xp.asarray(ids)), xp.asarray(want[ids]))


def test_whole_blocks_and_parts_of_them_forbid_the_same_pairs(rng):
    n, k = MOST_ROWS + 100, 3
    fixed, pairs, allowed = rules(rng, n, k)
    found = restrictions_of(fixed, pairs, SizeBounds.of(k, n_samples=n))
    assert found.edges[0] == 0
    assert found.edges[-1] == len(pairs) == found.keys.shape[0]
    source = found.of_scores(score_source(np.zeros((n, k))))
    m = MOST_ROWS
    for start, stop in [(0, m), (m, n), (0, n), (m - 5, m + 5), (m, m + 9), (0, m + 9), (n - 1, n)]:
        np.testing.assert_array_equal(np.isfinite(source.block(start, stop)), allowed[start:stop])


@pytest.mark.parametrize("only", ["fixed", "forbidden"])
def test_either_of_them_alone(xp, rng, only):
    n, k = 30, 4
    scores = rng.normal(size=(n, k))
    fixed, pairs, _ = rules(rng, n, k)
    allowed = np.ones((n, k), bool)
    if only == "fixed":
        allowed = (fixed[:, None] < 0) | (fixed[:, None] == np.arange(k))
    else:
        allowed[pairs[:, 0], pairs[:, 1]] = False
    found = restrictions_of(
        xp.asarray(fixed) if only == "fixed" else None,
        xp.asarray(pairs) if only == "forbidden" else None,
        bounds_on(xp, n, k),
    )
    source = found.of_scores(score_source(xp.asarray(scores)))
    want = np.where(allowed, scores, -np.inf)
    assert_equal(source.block(4, 29), xp.asarray(want[4:29]))
    ids = np.asarray([3, 3, 29, 0])
    assert_equal(source.take(xp.asarray(ids)), xp.asarray(want[ids]))


def test_no_rule_is_no_restriction():
    bounds = SizeBounds.of(2, n_samples=3)
    assert restrictions_of(None, None, bounds) is None
    assert restrictions_of(None, np.zeros((0, 2), np.int64), bounds) is None


def test_rows_are_counted_over_all_ranks(rng):
    n, k, first = 60, 4, 25
    scores = rng.normal(size=(n, k))
    fixed, pairs, allowed = rules(rng, n, k)
    group = Group(first, n - first, n, lambda array: array)
    here = score_source(scores[first:])._replace(group=group, take=lambda ids: scores[ids])
    source = restrictions_of(fixed, pairs, SizeBounds.of(k, n_samples=n)).of_scores(here)
    want = np.where(allowed, scores, -np.inf)
    np.testing.assert_array_equal(source.block(5, 20), want[first + 5 : first + 20])
    np.testing.assert_array_equal(source.take(np.asarray([59, 0])), want[[59, 0]])


# Answers ----------------------------------------------------------------------------------------


def best_value(scores, allowed, bounds):
    """The optimum over all labels, one after the other."""
    n, k = scores.shape
    low, high = to_numpy(bounds.lower), to_numpy(bounds.upper)
    best = -np.inf
    for labels in itertools.product(range(k), repeat=n):
        counts = np.bincount(labels, minlength=k)
        if (low <= counts).all() and (counts <= high).all() and allowed[range(n), labels].all():
            best = max(best, scores[range(n), labels].sum())
    return best


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_labels_are_the_best_that_keep_the_rules(xp, metric, weighted):
    n, k = 7, 3
    for seed in range(4):
        rng = np.random.default_rng(seed)
        x, centers = rng.normal(size=(n, 2)), rng.normal(size=(k, 2))
        if metric == "cosine":
            x, centers = unit_rows(x), unit_rows(centers)
            scores = x @ centers.T
        else:
            around = x.mean(axis=0)
            squared = ((x[:, None] - centers) ** 2).sum(axis=2)
            scores = 0.5 * (((x - around) ** 2).sum(axis=1)[:, None] - squared)
        weights = rng.uniform(0.5, 2.0, size=n) if weighted else None
        scores = scores if weights is None else scores * weights[:, None]
        fixed, pairs, allowed = rules(rng, n, k, share=0.3)
        bounds = bounds_on(xp, n, k, max_count=[3, 4, 7])
        options = {} if weights is None else {"weights": xp.asarray(weights)}
        call = (xp.asarray(x), bounds, xp.asarray(centers))
        options |= {"fixed": xp.asarray(fixed), "forbidden": xp.asarray(pairs), "metric": metric}
        best = best_value(scores, allowed, bounds)
        if best == -np.inf:
            with pytest.raises(InfeasibleBoundsError):
                constrained_kmeans(*call, max_iter=0, gap=0.0, **options)
            continue
        found = constrained_kmeans(*call, max_iter=0, gap=0.0, **options)
        labels = to_numpy(found.labels)
        assert allowed[range(n), labels].all()
        assert scores[range(n), labels].sum() == pytest.approx(best, abs=1e-12)
        assert found.gap == 0.0
        assert found.assignment.upper_bound == pytest.approx(best, abs=1e-12)


def test_rules_hold_while_centers_move(xp, rng):
    n, k = 60, 4
    x = unit_rows(rng.normal(size=(n, 3)))
    fixed, pairs, allowed = rules(rng, n, k, share=0.15)
    bounds, seen = bounds_on(xp, n, k, lower=0.6, upper=1.4), []
    found = constrained_kmeans(
        xp.asarray(x),
        bounds,
        xp.asarray(x[:k]),
        fixed=xp.asarray(fixed),
        forbidden=xp.asarray(pairs),
        max_iter=4,
        tol=0.0,
        progress=lambda state, churn: seen.append(to_numpy(state.labels)),
    )
    for labels in (*seen, to_numpy(found.labels)):
        assert allowed[range(n), labels].all()
    assert (to_numpy(found.counts) >= 9).all()
    assert (to_numpy(found.counts) <= 21).all()


def test_free_bounds_with_rules_are_kept(xp, rng):
    """No bound binds, and still the nearest center is not always the label."""
    x = np.asarray([[0.0], [1.0], [10.0], [11.0]])
    found = constrained_kmeans(
        xp.asarray(x),
        bounds_on(xp, 4, 2),
        xp.asarray(x[[0, 3]]),
        metric="euclidean",
        fixed=xp.asarray([-1, 1, -1, -1]),
        forbidden=xp.asarray([[2, 1]]),
        max_iter=0,
    )
    assert to_numpy(found.labels).tolist() == [0, 1, 0, 1]


def test_free_bounds_alone_are_free_k_means(xp, rng):
    x = unit_rows(rng.normal(size=(50, 3)))
    weights = xp.asarray(rng.uniform(size=50))
    for metric in ("cosine", "euclidean"):
        call = {"metric": metric, "weights": weights, "max_iter": 5, "tol": 0.0}
        free = kmeans(xp.asarray(x), xp.asarray(x[:4]), **call)
        found = constrained_kmeans(xp.asarray(x), bounds_on(xp, 50, 4), xp.asarray(x[:4]), **call)
        assert_equal(found.labels, free.labels)
        assert_equal(found.centers, free.centers)
        assert_equal(found.counts, free.counts)
        assert (found.objective, found.n_iter) == (free.objective, free.n_iter)
        assert (found.gap, found.assignment.violation, found.assignment.status) == (
            0.0,
            0,
            "optimal",
        )
        assert found.assignment.upper_bound == free.objective
        assert not to_numpy(found.assignment.prices).any()


# Empty clusters ---------------------------------------------------------------------------------


def test_an_empty_cluster_moves_to_the_farthest_row_that_may_join_it(xp):
    """The row at -50 is farthest, but fixed; that at 30 must not join cluster 2; 20 is next."""
    x = np.asarray([*[0.0] * 20, 30.0, 20.0, -50.0, 200.0])[:, None]
    call = (xp.asarray(x), bounds_on(xp, 24, 3), xp.asarray([[0.0], [200.0], [-900.0]]))
    options = {"metric": "euclidean", "max_iter": 1, "tol": 0.0}
    known = np.where(x[:, 0] == -50.0, 0, -1)
    pairs = xp.asarray([[20, 2], [21, 1]])
    for rule, want in (
        ({}, -50.0),
        ({"fixed": xp.asarray(known)}, 30.0),
        ({"fixed": xp.asarray(known), "forbidden": pairs}, 20.0),
    ):
        found = constrained_kmeans(*call, **rule, **options)
        assert to_numpy(found.centers)[2, 0] == want


@pytest.mark.parametrize(("weight", "want"), [(1.0, -50.0), (16.0, 30.0), (2.0, -50.0)])
def test_the_farthest_row_counts_by_its_weight(xp, weight, want):
    """30 ** 2 times 16 is more than 50 ** 2, and times 2 it is not; a fixed row counts nothing."""
    x = np.asarray([*[0.0] * 20, 30.0, 20.0, -50.0, 200.0])[:, None]
    found = constrained_kmeans(
        xp.asarray(x),
        bounds_on(xp, 24, 3),
        xp.asarray([[0.0], [200.0], [-900.0]]),
        metric="euclidean",
        max_iter=1,
        tol=0.0,
        weights=xp.asarray(np.where(x[:, 0] == 30.0, weight, 1.0)),
        fixed=xp.asarray(np.where(np.arange(24) == 0, 0, -1)),
    )
    assert to_numpy(found.centers)[2, 0] == want


def test_where_no_row_may_join_an_empty_cluster_its_center_stays(xp):
    x = np.asarray([[0.0], [1.0], [5.0]])
    found = constrained_kmeans(
        xp.asarray(x),
        bounds_on(xp, 3, 2),
        xp.asarray([[0.0], [90.0]]),
        metric="euclidean",
        max_iter=1,
        forbidden=xp.asarray([[0, 1], [1, 1], [2, 1]]),
    )
    assert to_numpy(found.centers)[1, 0] == 90.0
    assert to_numpy(found.counts).tolist() == [3, 0]


def test_which_rows_may_be_a_new_center():
    found = Restrictions(3, np.asarray([0, -1, -1, -1]), np.asarray([1 * 3 + 2, 2 * 3 + 0]))
    for movable, want in (
        ([False, False, True], [False, False, True, True]),
        ([True, False, False], [False, True, False, True]),
        ([False, True, False], [False, True, True, True]),
    ):
        np.testing.assert_array_equal(found.relocatable(np.asarray(movable), 4), want)


# Prices and states ------------------------------------------------------------------------------


def test_prices_to_start_from_save_work_and_change_no_value(rng):
    x, n, k = unit_rows(rng.normal(size=(3000, 8)) + 0.5), 3000, 20
    bounds = SizeBounds.of(k, n_samples=n, lower=0.95, upper=1.05)
    with counted_passes() as cold:
        first = constrained_kmeans(x, bounds, x[:k], max_iter=0)
    with counted_passes() as warm:
        again = constrained_kmeans(x, bounds, x[:k], max_iter=0, prices=first.assignment.prices)
    assert sum(warm.values()) < sum(cold.values())
    assert again.gap <= 1e-4
    assert again.objective == pytest.approx(first.objective, rel=2e-4)


def test_a_run_with_rules_goes_on_from_a_state(rng):
    x, n, k = rng.normal(size=(200, 3)), 200, 5
    fixed, pairs, _ = rules(rng, n, k, share=0.1)
    bounds, states = SizeBounds.of(k, n_samples=n, lower=0.8, upper=1.2), []
    options = {"metric": "euclidean", "fixed": fixed, "forbidden": pairs, "tol": 0.0}
    whole = constrained_kmeans(
        x, bounds, x[:k], max_iter=5, progress=lambda s, c: states.append(s), **options
    )
    rest = constrained_kmeans(x, bounds, x[:k], max_iter=5, state=states[1], **options)
    assert rest.centers.tobytes() == whole.centers.tobytes()
    np.testing.assert_array_equal(rest.labels, whole.labels)


def test_ranks_change_no_bit():
    """Two ranks with their own rows each, and the rules of all rows."""
    from tests.unit.clustering.test_kmeans_sources import on_ranks

    rng = np.random.default_rng(0)
    n, k = 2 * MOST_ROWS + 300, 6
    x = unit_rows(rng.normal(size=(n, 3))).astype(np.float32)
    fixed, pairs, allowed = rules(rng, n, k, share=0.05)

    def work(source):
        bounds = SizeBounds.of(k, n_samples=n, lower=0.8, upper=1.2)
        return constrained_kmeans(
            source, bounds, x[:k], fixed=fixed, forbidden=pairs, max_iter=2, tol=0.0
        )

    alone = FeatureSource(3, lambda a, b: x[a:b], lambda ids: x[ids], Group(0, n, n, lambda a: a))
    want = work(alone)
    assert allowed[range(n), want.labels].all()
    results, errors = on_ranks(x, [0, MOST_ROWS, n], work)
    assert errors == [None, None]
    np.testing.assert_array_equal(np.concatenate([r.labels for r in results]), want.labels)
    for found in results:
        assert found.centers.tobytes() == want.centers.tobytes()
        assert found.objective == want.objective
