"""Random problems against independent references, with a new seed each time, which is printed."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.offline import OfflineAssignment, SolverOptions, assign_offline
from tests.highs import best_plan
from tests.random_problems.assignments import Call, check_result
from tests.random_problems.drawn import Drawn, draw_counts, draw_problem, draw_scores
from tests.random_problems.exact import best_value, value_of, whole
from tests.random_problems.options import draw_options
from tests.random_problems.run import KINDS, new_seed, run, run_one

SECONDS = 3.0
"""Of the processor, for the problems of a test run; `make slow` runs fifteen minutes of them."""


def failures(seed, seconds):
    return [done.failure for done in run(seed, seconds=seconds) if done.failure]


def test_random_problems():
    seed = new_seed()
    assert not failures(seed, SECONDS), f"python -m tests.random_problems --seed {seed}"


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_problem_is_a_function_of_its_seed_and_number(kind):
    outcomes = [run_one(7, number, kind) for number in range(3)]
    assert outcomes == [run_one(7, number, kind) for number in range(3)]
    assert [done.outcome for done in run(7, n=3, seconds=0.0, kind=kind)] == outcomes


@pytest.mark.parametrize(
    ("seed", "number", "kind"),
    [
        (1, 5914, "assignment"),  # of 18,000 scores, by the reference texts
        (2, 1017, "start"),  # squares of prices overflowed
        (4101, 242, "start"),  # scores of 0, prices of which rounding was left
        (4101, 2215, "start"),  # the same of constant rows
        (4102, 1233, "assignment"),
        (4103, 1441, "start"),  # a difference of scores overflowed
        (4103, 3729, "start"),  # digits of weights were lost, and not counted as rounding
        (4104, 639, "start"),  # a bound of 0 above that of the prices
        (4104, 838, "start"),  # prices beyond float32
        (4106, 2912, "start"),  # one cluster, in little memory
        (41, 3287, "groups"),  # prices given were a thousand times what scores can differ by
        (22, 3174, "groups"),  # their unit is a power of two that no float64 holds
        (51, 1921, "links"),  # HiGHS ended within 1e-6 of the best, which was said to be found
        (11, 13696, "left out"),  # a price above 0 where nobody is left out
    ],
)
def test_problems_that_failed_once(seed, number, kind, monkeypatch):
    monkeypatch.setenv("RANDOM_PROBLEMS_SPREAD", "300")
    assert run_one(seed, number, kind) in ("optimal", "within gap", "refused")


@pytest.mark.parametrize(("seed", "number"), [(1185960667, 3644), (7112029, 5704)])
def test_prices_that_do_not_fit_may_be_refused_where_the_sum_fits(seed, number, monkeypatch):
    """They are in a unit of the largest score times the largest weight, which may be another row's,
    and options may let a region around them grow without an end."""
    monkeypatch.setenv("RANDOM_PROBLEMS_SPREAD", "307")
    assert run_one(seed, number, "start") in ("refused", "optimal")  # by prices of 0


@pytest.mark.parametrize("n_first", [1, 28, 38])
def test_labels_worth_nothing_are_optimal(n_first):
    """Prices are left with their rounding; at prices of 0 there is none."""
    bounds = SizeBounds.from_counts([n_first, 39 - n_first], [n_first, 39 - n_first], n_samples=39)
    for scores in (np.zeros((39, 2)), np.full((39, 2), 1e-198)):
        found = assign_offline(scores, bounds, tol=1e-9)
        assert (found.gap, found.upper_bound) == (0.0, found.objective)


@pytest.mark.parametrize("seed", range(30))
def test_the_exact_reference_agrees_with_highs(seed):
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(1, 25)), int(rng.integers(1, 8))
    scores = rng.integers(-8, 9, (n, k)) / 4.0
    lower, upper = draw_counts(rng, n, k)
    counts = lower.copy()  # some labels inside the bounds, whatever they are worth
    while counts.sum() < n:
        counts[np.flatnonzero(counts < upper)[0]] += 1
    labels = rng.permutation(np.repeat(np.arange(k), counts))
    exact, best = whole(scores), best_plan(scores, lower, upper)
    assert best is not None
    found = best_value(exact, lower, upper, labels)
    assert abs(float(found) - best.value) <= 1e-6
    assert value_of(exact, labels) == sum(
        (Fraction(float(s)) for s in scores[np.arange(n), labels]), Fraction()
    )


def solved(scores, lower, upper):
    """A problem, the call that solves it, and its result: right ones."""
    problem = Drawn(scores, lower, upper, None)
    call = Call(problem, None, None, 0.0, SolverOptions(), "auto")
    return whole(scores), problem, call.solve(), call


WRONG = {
    "the bound is too small": lambda found: found._replace(upper_bound=found.objective - 0.5),
    "the objective is not that of the labels": lambda found: found._replace(
        objective=found.objective + 0.5, upper_bound=found.upper_bound + 0.5
    ),
    "other labels are better": lambda found: found._replace(labels=found.labels[::-1].copy()),
    "counts are others": lambda found: found._replace(counts=found.counts[::-1].copy()),
    "a gap that is no gap": lambda found: found._replace(gap=0.25),
    "prices that prove less": lambda found: found._replace(prices=found.prices + np.eye(3)[0]),
}


@pytest.mark.parametrize("name", sorted(WRONG))
def test_what_is_wrong_is_noticed(name):
    scores = np.random.default_rng(0).normal(size=(9, 3))
    exact, problem, found, call = solved(scores, np.asarray([2, 3, 4]), np.asarray([2, 3, 4]))
    assert isinstance(found, OfflineAssignment)
    assert check_result(exact, problem, found, call) == "optimal"
    with pytest.raises(AssertionError):
        check_result(exact, problem, WRONG[name](found), call)


def test_problems_are_of_all_shapes(monkeypatch):
    monkeypatch.setenv("RANDOM_PROBLEMS_SPREAD", "307")
    seen = {"ties": 0, "forbidden": 0, "weights": 0, "tiny": 0, "huge": 0, "options": 0}
    for seed in range(300):
        rng = np.random.default_rng(seed)
        scores, lower, upper, weights = draw_problem(rng)
        assert (lower <= upper).all()
        assert lower.sum() <= len(scores) <= upper.sum()
        finite = np.abs(scores[np.isfinite(scores)].astype(np.float64))
        seen["ties"] += len(np.unique(scores)) < scores.size // 2
        seen["forbidden"] += bool(np.isinf(scores).any())
        seen["weights"] += weights is not None
        seen["tiny"] += bool((finite[finite > 0.0] < 1e-200).any())
        seen["huge"] += bool((finite > 1e200).any())
        seen["options"] += draw_options(rng) != SolverOptions()
    assert min(seen.values()) >= 10, seen
    assert draw_scores(np.random.default_rng(0), 3, 2).shape == (3, 2)
