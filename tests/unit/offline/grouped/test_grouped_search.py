"""Labels inside bounds on groups, against whole programs of HiGHS: values and infeasibility."""

import numpy as np
import pytest

from dualclust.algos.bounds import GroupBounds, SizeBounds
from dualclust.algos.core.errors import InfeasibleBoundsError, InvalidValueError
from dualclust.algos.offline.grouped import assign_grouped
from dualclust.algos.offline.grouped._search import Found, _proof, problem_of
from dualclust.algos.scores.sources import score_source
from tests.compare import to_numpy
from tests.grouped_problems import Grouped, best_grouped, grouped_problem
from tests.judge_groups import judge_grouped


def solved(xp, problem):
    """What the library finds; the judge sees it as well."""
    sizes = SizeBounds.from_counts(
        problem.lower.tolist(),
        problem.upper.tolist(),
        n_samples=len(problem.scores),
        xp=xp.namespace,
        device=xp.device,
    )
    bounds = GroupBounds.from_counts(
        xp.asarray(problem.groups),
        problem.scores.shape[1],
        lower=xp.asarray(problem.group_lower),
        upper=xp.asarray(problem.group_upper),
    )
    return assign_grouped(xp.asarray(problem.scores), sizes, bounds)


def assert_as_good(xp, seed):
    problem = grouped_problem(seed)
    best = best_grouped(problem)
    if best is None:
        with pytest.raises(InfeasibleBoundsError):
            solved(xp, problem)
        return False
    found = solved(xp, problem)
    assert found.status == "optimal"
    assert found.objective == pytest.approx(best, abs=1e-9)
    return True


@pytest.mark.parametrize(
    "part", [0, 1, *(pytest.param(part, marks=pytest.mark.slow) for part in (2, 3, 4))]
)
def test_values_are_those_of_a_whole_program(part, plain):
    outcomes = [assert_as_good(plain, seed) for seed in range(100 * part, 100 * part + 100)]
    assert 50 < sum(outcomes) < 100  # both kinds are among them


def test_every_library_finds_the_optimum(xp):
    """Two problems of one shape, for libraries that compile each shape anew."""
    rng = np.random.default_rng(0)
    groups = np.asarray([0, 1, 0, 1, 0, 1, 0, 1, -1])
    for _ in range(2):
        scores = rng.normal(size=(9, 3))
        scores[0, 0] = -np.inf
        sizes, most = np.asarray([[2, 2, 2], [4, 4, 4]]), np.full((2, 3), 2)
        problem = Grouped(scores, groups, *sizes, np.ones_like(most), most)
        best = best_grouped(problem)
        assert best is not None
        assert solved(xp, problem).objective == pytest.approx(best, abs=1e-9)


@pytest.fixture(name="plain", scope="module")
def plain_numpy():
    from tests.libraries import LIBRARIES

    return LIBRARIES[0]


def test_a_start_anywhere_ends_at_the_same_value(plain):
    rng = np.random.default_rng(0)
    for seed in range(1000, 1030):
        problem = grouped_problem(seed)
        if best_grouped(problem) is None:
            continue
        first = solved(plain, problem)
        n, k = problem.scores.shape
        sizes = SizeBounds.from_counts(problem.lower, problem.upper, n_samples=n)
        bounds = GroupBounds.from_counts(
            problem.groups, k, lower=problem.group_lower, upper=problem.group_upper
        )
        away = 10.0 * rng.normal(size=k), 10.0 * rng.normal(size=problem.group_lower.shape)
        for prices in ((first.prices, first.group_prices), away):
            again = assign_grouped(problem.scores, sizes, bounds, prices=prices)
            assert again.objective == pytest.approx(first.objective, abs=1e-9)
            assert again.status == "optimal"


def rows_of_groups(n, k, seed, *, n_groups=3):
    """Rows around k centers in groups that prefer some of them, so that both bounds bind."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(n, k)).astype(np.float32)
    scores[np.arange(n), rng.choice(k, n, p=rng.dirichlet(np.ones(k)))] += 2.0
    likes, others = scores.argmax(axis=1) % n_groups, rng.integers(0, n_groups, n)
    groups = np.where(rng.random(n) < 0.5, likes, others)
    return scores, groups.astype(np.int64)


def counted(scores):
    """Scores that count the rows of their passes, and those that are taken by their ids."""
    plain, passed, taken = score_source(scores), [], []

    def block(start, stop):
        passed.append(stop - start)
        return plain.block(start, stop)

    def take(ids):
        taken.append(len(ids))
        return plain.take(ids)

    return plain._replace(block=block, take=take), passed, taken


@pytest.mark.parametrize("seed", range(2))
def test_radius_newton_and_levels_lead_to_the_optimum(seed):
    """Too many rows for lists of all clusters: the proof adds up all scores."""
    n, k = 48_000, 12
    scores, groups = rows_of_groups(n, k, seed)
    sizes = SizeBounds.from_ratios(k, n_samples=n, lower=0.9, upper=1.1)
    bounds = GroupBounds.from_shares(groups, k, lower=0.8, upper=1.3)
    source, passed, taken = counted(scores)
    found = assign_grouped(source, sizes, bounds)
    judge_grouped(scores, sizes, bounds, found)
    assert found.status == "optimal"
    assert np.count_nonzero(found.group_prices) > k  # bounds of both kinds bind
    assert np.count_nonzero(found.prices)
    # The quarter of the rows leads so near that a pass of candidates and one of the proof do,
    # beside that of the judge of all tests.
    assert sum(passed) <= 3 * n
    assert sum(taken) < 1.2 * n
    unit = 2.0**-300
    source, passed, taken = counted(unit * scores.astype(float))
    prices = unit * found.prices, unit * found.group_prices
    again = assign_grouped(source, sizes, bounds, prices=prices)
    assert again.objective == pytest.approx(unit * found.objective, rel=1e-12)
    assert sum(passed) <= 4 * n  # one more finds the largest score
    assert sum(taken) < 0.5 * n


def test_many_rows_with_pairs_that_are_forbidden():
    """A sample may have no labels inside its bounds, and names rows of its own: all rows decide."""
    n, k = 48_000, 12
    scores, groups = rows_of_groups(n, k, 3)
    scores[16:, 0] = -np.inf  # few rows may join the first cluster, which needs nearly all of them
    sizes = SizeBounds.from_counts([15] + [0] * (k - 1), n_samples=n)
    bounds = GroupBounds.from_counts(groups, k)
    found = assign_grouped(scores, sizes, bounds)
    judge_grouped(scores, sizes, bounds, found)
    assert (found.status, int(found.counts[0]) >= 15) == ("optimal", True)
    scores[40_001, :] = -np.inf
    with pytest.raises(InfeasibleBoundsError, match="sample 40001 may join no cluster"):
        assign_grouped(scores, sizes, bounds)
    scores[40_001, :] = np.nan
    with pytest.raises(InvalidValueError, match="row 40001"):
        assign_grouped(scores, sizes, bounds)


def test_a_start_that_is_far_off_widens_the_search():
    """Not once all clusters are candidates of all rows, which is the last of a dozen passes."""
    n, k = 48_000, 12
    scores, groups = rows_of_groups(n, k, 4)
    source, passed, _ = counted(scores)
    sizes = SizeBounds.from_ratios(k, n_samples=n, lower=0.9, upper=1.1)
    bounds = GroupBounds.from_shares(groups, k, lower=0.8, upper=1.3)
    rng = np.random.default_rng(4)
    away = rng.normal(size=k), rng.normal(size=(3, k))
    found = assign_grouped(source, sizes, bounds, prices=away)
    assert found.status == "optimal"
    assert sum(passed) <= 9 * n


def test_without_groups_it_is_the_plain_problem():
    import dualclust as dc

    scores, _ = rows_of_groups(3000, 7, 5)
    sizes = dc.SizeBounds.from_ratios(7, n_samples=3000, lower=0.9, upper=1.1)
    for groups in (np.full(3000, -1), np.arange(3000) % 4):
        found = assign_grouped(scores, sizes, GroupBounds.from_counts(groups, 7))
        assert found.objective == pytest.approx(dc.assign_exact(scores, sizes).objective)
        assert not found.group_prices.any()


def test_families_of_three_are_kept_apart():
    """A thousand groups: only few of the pairs of a group and a cluster can bind."""
    n, k = 3000, 10
    scores, _ = rows_of_groups(n, k, 7)
    families = np.arange(n) // 3
    scores += scores.reshape(-1, 3, k).mean(axis=1).repeat(3, axis=0)  # brothers want the same
    sizes = SizeBounds.from_ratios(k, n_samples=n, lower=0.9, upper=1.1)
    found = assign_grouped(scores, sizes, GroupBounds.at_most_one(families, k))
    assert found.group_counts.max() == 1
    assert found.status == "optimal"
    together = np.sort(scores.argmax(axis=1).reshape(-1, 3), axis=1)
    assert (np.diff(together, axis=1) == 0).any(axis=1).mean() > 0.2  # what it had to part


def test_scores_of_any_scale_and_weights():
    problem = grouped_problem(1001)
    n, k = problem.scores.shape
    sizes = SizeBounds.from_counts(problem.lower, problem.upper, n_samples=n)
    bounds = GroupBounds.from_counts(
        problem.groups, k, lower=problem.group_lower, upper=problem.group_upper
    )
    plain = assign_grouped(problem.scores, sizes, bounds)
    for scale in (2.0**-900, 2.0**900):
        found = assign_grouped(scale * problem.scores, sizes, bounds)
        assert found.objective == scale * plain.objective
        assert found.status == "optimal"
    weights = np.random.default_rng(3).uniform(0.0, 5.0, n)
    found = assign_grouped(problem.scores, sizes, bounds, weights=weights)
    best = best_grouped(problem._replace(scores=weights[:, None] * problem.scores))
    assert found.objective == pytest.approx(best, abs=1e-9)
    assert to_numpy(found.labels).shape == (n,)


@pytest.mark.parametrize("seed", range(6))
def test_a_proof_is_the_dual_value_less_the_objective(seed):
    """For any labels inside the bounds, and any prices of clusters and of groups in them."""
    rng = np.random.default_rng(seed)
    n, k = 40, 3
    scores, labels = rng.normal(size=(n, k)), rng.integers(0, k, n)
    groups, each = rng.integers(-1, 2, n), np.arange(2)[:, None]
    counts = np.bincount(labels, minlength=k)
    in_groups = ((groups == each)[:, :, None] & (labels[:, None] == np.arange(k))).sum(axis=1)
    sizes = SizeBounds.from_counts(np.maximum(counts - 2, 0), counts + 1, n_samples=n)
    bounds = GroupBounds.from_counts(
        groups, k, lower=np.maximum(in_groups - 1, 0), upper=in_groups + 2
    )
    problem = problem_of(score_source(scores), sizes, bounds)
    p, q = rng.normal(size=k), rng.normal(size=(2, k))
    binds = problem.cells[1:, :] < problem.n_cells
    q = np.where(binds, q, 0.0)
    nodes = np.concatenate([(p + q)[binds], p])
    found = _proof(problem, Found(labels, nodes, False))
    added = p + np.concatenate([np.zeros((1, k)), q])[groups + 1]
    paid = [
        np.where(price > 0.0, low * price, high * price).sum()
        for price, low, high in ((p, sizes.lower, sizes.upper), (q, bounds.lower, bounds.upper))
    ]
    value, objective = (scores + added).max(axis=1).sum() - sum(paid), scores[range(n), labels]
    assert found.objective == pytest.approx(objective.sum(), abs=1e-12)
    assert found.size == pytest.approx(abs(objective).sum(), abs=1e-12)
    assert found.lost == pytest.approx(value - objective.sum(), abs=1e-10)
    assert found.lost >= value - objective.sum() > 1.0
