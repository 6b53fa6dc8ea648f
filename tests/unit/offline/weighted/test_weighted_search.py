"""Labels of rows with sizes, against HiGHS: programs of shares, whole programs, infeasibility."""

import numpy as np
import pytest

import dualclust as dc
from dualclust.algos.bounds import LoadBounds
from dualclust.algos.core.errors import InfeasibleBoundsError
from dualclust.algos.offline.weighted import assign_weighted
from dualclust.algos.scores.sources import score_source
from tests.compare import to_numpy
from tests.judge_weighted import judge_weighted
from tests.libraries import LIBRARIES
from tests.weighted_problems import Weighted, best_weighted, weighted_problem

PLAIN = LIBRARIES[0]


def bounds_of(xp, problem):
    return LoadBounds.from_loads(
        xp.asarray(problem.sizes),
        problem.scores.shape[1],
        lower=problem.lower.tolist(),
        upper=problem.upper.tolist(),
    )


def judged(xp, problem, **options):
    """What the library finds, which the judge has seen."""
    bounds = bounds_of(xp, problem)
    found = assign_weighted(xp.asarray(problem.scores), bounds, **options)
    found = found._replace(
        **{name: to_numpy(getattr(found, name)) for name in found._fields[:4]},
        prices=to_numpy(found.prices),
    )
    best = best_weighted(problem, whole=True) if options.get("exact") else None
    judge_weighted(problem.scores, bounds_of(PLAIN, problem), found, best=best)
    return found


def assert_as_promised(seed):
    """Return whether whole rows fit, and whether a repair has found such labels."""
    problem = weighted_problem(seed)
    shares, best = (best_weighted(problem, whole=whole) for whole in (False, True))
    try:
        rounded = judged(PLAIN, problem, repair=False)
    except InfeasibleBoundsError:
        assert best is None
        return False, False
    is_plain = len(set(problem.sizes)) == 1
    assert is_plain or shares is not None  # of rows of one size, whole rows decide
    if not is_plain:
        assert rounded.objective >= rounded.upper_bound - 1e-7
        assert rounded.upper_bound <= shares + 1e-6
    found = judged(PLAIN, problem)
    if best is None:
        assert found.status == "inside up to one row"
        with pytest.raises(InfeasibleBoundsError, match="branch and bound"):
            judged(PLAIN, problem, exact=True)
        return False, False
    assert best <= found.upper_bound + 1e-7
    exact = judged(PLAIN, problem, exact=True)
    assert exact.objective == pytest.approx(best, abs=1e-7)
    assert exact.status == "inside"
    assert exact.gap <= 1e-7
    return True, found.status == "inside"


@pytest.mark.parametrize(
    "part", [0, *(pytest.param(part, marks=pytest.mark.slow) for part in (1, 2, 3, 4))]
)
def test_values_and_loads_are_as_promised(part):
    outcomes = [assert_as_promised(seed) for seed in range(100 * part, 100 * part + 100)]
    fits, repaired = np.sum(outcomes, axis=0)
    assert 60 < fits < 100  # both kinds are among them
    assert repaired > 0.8 * fits


def test_every_library_keeps_the_promise(xp):
    """Two problems of one shape, for libraries that compile each shape anew."""
    rng = np.random.default_rng(0)
    for _ in range(2):
        scores, sizes = rng.normal(size=(9, 3)), rng.integers(1, 9, 9).astype(float)
        scores[0, 0] = -np.inf
        mean = np.full(3, sizes.sum() / 3)
        problem = Weighted(scores, sizes, 0.7 * mean, 1.3 * mean)
        shares = best_weighted(problem, whole=False)
        found = judged(xp, problem, repair=False)
        assert found.objective >= shares - 1e-7
        assert judged(xp, problem).status == "inside"


def rows_with_sizes(n, k, seed):
    """Rows around k centers that few of them are near; a few rows are large."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(n, k)).astype(np.float32)
    scores[np.arange(n), rng.choice(k, n, p=rng.dirichlet(np.ones(k)))] += 2.0
    return scores, rng.lognormal(0.0, 1.0, n)


@pytest.mark.parametrize("seed", range(2))
def test_regions_newton_and_columns_lead_to_the_bound(seed):
    """Too many scores for one program: the proof adds up all of them."""
    n, k = 30_000, 12
    scores, sizes = rows_with_sizes(n, k, seed)
    bounds = LoadBounds.from_ratios(sizes, k, lower=0.9, upper=1.1)
    rounded = assign_weighted(scores, bounds, repair=False)
    judge_weighted(scores, bounds, rounded)
    assert rounded.objective >= rounded.upper_bound * (1 - 1e-9)
    assert np.count_nonzero(rounded.prices) > 5
    assert abs(rounded.overload).max() > 0.0  # so that there is something to repair
    found = assign_weighted(scores, bounds, prices=rounded.prices)
    judge_weighted(scores, bounds, found)
    assert (found.status, found.gap < 1e-4) == ("inside", True)
    assert found.upper_bound == pytest.approx(rounded.upper_bound, rel=1e-9)


def test_many_rows_of_few_that_a_cluster_may_have():
    n, k = 30_000, 12
    scores, sizes = rows_with_sizes(n, k, 3)
    scores[40:, 0] = -np.inf
    bounds = LoadBounds.from_loads(sizes, k, lower=[0.9 * sizes[:40].sum()] + [0.0] * (k - 1))
    found = assign_weighted(score_source(scores), bounds)
    judge_weighted(scores, bounds, found)
    assert (found.labels == 0).sum() > 20
    bounds = LoadBounds.from_loads(sizes, k, lower=[1.1 * sizes[:40].sum()] + [0.0] * (k - 1))
    with pytest.raises(InfeasibleBoundsError, match="cluster 0 needs at least") as error:
        assign_weighted(scores, bounds)
    assert error.value.clusters == (0,)


def test_rows_of_one_size_are_the_plain_problem_to_the_bit():
    scores, _ = rows_with_sizes(3000, 7, 5)
    counts = dc.SizeBounds.from_counts([400] * 7, [500] * 7, n_samples=3000)
    plain = dc.assign_exact(scores, counts)
    bounds = LoadBounds.from_loads(np.full(3000, 4.0), 7, lower=1598.0, upper=2003.0)
    found = assign_weighted(scores, bounds)
    judge_weighted(scores, bounds, found, best=plain.objective)
    np.testing.assert_array_equal(found.labels, plain.labels)
    assert found.objective == plain.objective
    np.testing.assert_array_equal(4.0 * found.prices, plain.prices)
    np.testing.assert_array_equal(found.loads, 4.0 * plain.counts)
    assert (found.status, found.n_shared, found.gap) == ("inside", 0, plain.gap)
    start = plain.prices + np.linspace(0.0, 0.3, 7)
    again = assign_weighted(scores, bounds, prices=start / 4.0)
    plain = dc.assign_exact(scores, counts, prices=start)
    np.testing.assert_array_equal(4.0 * again.prices, plain.prices)
    assert (again.prices != found.prices).any()


def test_weights_count_in_the_objective_and_sizes_in_the_bounds():
    problem = weighted_problem(1001)
    weights = np.random.default_rng(3).uniform(0.5, 5.0, len(problem.sizes))
    scaled = problem._replace(scores=weights[:, None] * problem.scores)
    found = assign_weighted(problem.scores, bounds_of(PLAIN, problem), weights=weights)
    expected = assign_weighted(scaled.scores, bounds_of(PLAIN, problem))
    assert found.upper_bound == pytest.approx(expected.upper_bound)
    assert found.objective == pytest.approx(
        (weights * problem.scores[np.arange(len(weights)), found.labels]).sum()
    )


@pytest.mark.parametrize(("score", "size"), [(2.0**900, 2.0**600), (2.0**-900, 2.0**-600)])
def test_any_unit_of_scores_and_sizes(score, size):
    problem = weighted_problem(1002)
    assert problem.scores.shape[1] > 1
    plain = judged(PLAIN, problem)
    scaled = Weighted(
        score * problem.scores,
        size * problem.sizes,
        size * problem.lower,
        size * problem.upper,
    )
    found = assign_weighted(scaled.scores, bounds_of(PLAIN, scaled))
    np.testing.assert_array_equal(found.labels, plain.labels)
    assert found.objective == pytest.approx(score * plain.objective, rel=1e-12)
    np.testing.assert_allclose(found.loads, size * plain.loads, rtol=1e-12)
    assert found.upper_bound == pytest.approx(score * plain.upper_bound, rel=1e-9)
