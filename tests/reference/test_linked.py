"""Pairs of rows together and apart, against all labels of small problems."""

import numpy as np
import pytest

from dualclust.algos.bounds import SizeBounds
from dualclust.algos.core.errors import InfeasibleBoundsError, InvalidValueError
from dualclust.algos.offline.grouped import assign_linked
from tests.judge_groups import judge_linked
from tests.linked_problems import among_many, best_linked, linked_problem


def solved(problem):
    sizes = SizeBounds.from_counts(problem.lower, problem.upper, n_samples=len(problem.scores))
    links = {"must_link": problem.must, "cannot_link": problem.cannot}
    return sizes, assign_linked(problem.scores, sizes, **links, tol=0.0)


@pytest.mark.parametrize(
    "part", [0, *(pytest.param(part, marks=pytest.mark.slow) for part in (1, 2, 3, 4))]
)
def test_labels_are_the_best_of_all(part):
    n_feasible = 0
    for seed in range(100 * part, 100 * part + 100):
        problem = linked_problem(seed)
        best = best_linked(problem)
        if best is None:
            with pytest.raises(InfeasibleBoundsError):
                solved(problem)
            continue
        sizes, found = solved(problem)
        assert found.objective == pytest.approx(best, abs=1e-9)
        assert found.status == "optimal"
        judge_linked(problem.scores, sizes, problem.must, problem.cannot, found)
        n_feasible += 1
    assert 30 < n_feasible < 70


def test_without_an_integer_program_bounds_hold_and_most_labels_are_optimal():
    """Relaxation, cliques and repair alone, as for large problems."""
    n_feasible = n_found = n_optimal = 0
    for seed in range(1000, 1150):
        problem = linked_problem(seed)
        best, problem = best_linked(problem), among_many(problem)
        n_feasible += best is not None
        try:
            sizes, found = solved(problem)
        except InfeasibleBoundsError:
            is_claimed = True
        except InvalidValueError:  # says that nothing is shown
            continue
        else:
            is_claimed = False
        assert is_claimed == (best is None)
        if best is None:
            continue
        judge_linked(problem.scores, sizes, problem.must, problem.cannot, found)
        assert found.objective <= best + 1e-9
        assert found.upper_bound >= best - 1e-9
        assert found.status != "optimal" or found.objective == pytest.approx(best, abs=1e-9)
        n_found += 1
        n_optimal += bool(np.isclose(found.objective, best))
    assert n_found >= 0.8 * n_feasible
    assert n_optimal >= 0.7 * n_feasible
