"""The judge accepts what is right and refuses each figure that is not, with no code of ours."""

from __future__ import annotations

import ast
import math
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import tests.judge
import tests.judge_bounds
import tests.judge_centers
import tests.judge_figures
import tests.judge_files
import tests.judge_runs
from dualclust.algos.bounds.forbidden_pairs import check_feasible
from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.core.errors import InfeasibleBoundsError
from dualclust.algos.online.assignment import assign
from dualclust.algos.online.certificates import dual_value, size_certificate
from tests.judge import judge_assignment
from tests.judge_bounds import judge_dual_value, judge_infeasible, judge_sizes, judge_stream

MODULES = [
    tests.judge,
    tests.judge_bounds,
    tests.judge_centers,
    tests.judge_figures,
    tests.judge_files,
    tests.judge_runs,
]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_the_judge_has_none_of_the_librarys_code(module):
    names = set()
    for node in ast.walk(ast.parse(Path(module.__file__).read_text())):
        if isinstance(node, ast.ImportFrom):
            names.add(node.module)
        elif isinstance(node, ast.Import):
            names |= {name.name for name in node.names}
    own = {name for name in names if name.startswith("tests.")}
    assert own <= {module.__name__ for module in MODULES}
    assert names - own <= NUMBERS | {"__future__", "collections.abc", "pathlib", "types", "typing"}


NUMBERS = {"csv", "fractions", "json", "numpy", "re", "scipy.optimize", "scipy.special"}


class Found(NamedTuple):
    """A certificate made by hand: two of three rows may be in cluster 0, and one wants to leave."""

    labels: tuple[int, ...] = (0, 0, 1)
    counts: tuple[int, ...] = (2, 1)
    prices: tuple[float, ...] = (0.0, 0.25)
    objective: float = 2.25
    upper_bound: float = 2.25
    rounding: float = 2.0**-46 * 2.5
    violation: int = 0
    gap: float = 0.0
    status: str = "optimal"


SCORES = np.asarray([[1.0, 0.0], [0.75, 0.0], [0.75, 0.5]])
LOWER, UPPER = np.asarray([0, 1]), np.asarray([2, 2])


@pytest.mark.parametrize("exact", [True, False])
def test_a_certificate_made_by_hand_is_right(exact):
    found = judge_assignment(SCORES, None, LOWER, UPPER, Found(), exact=exact)
    assert found.objective == found.dual == Fraction(9, 4)
    assert (found.error == 0) == exact
    weights = np.full(3, 0.5)
    half = Found(prices=(0.0, 0.125), objective=1.125, upper_bound=1.125, rounding=2.0**-47)
    judge_assignment(SCORES, weights, LOWER, UPPER, half, exact=exact)


WRONG = {
    "labels": [(0, 0, 2), (0, 0, 0), (0, 1, 0), (0, 0), (0, -1, 1)],
    "counts": [(1, 2), (2, 2)],
    "prices": [(0.0, 0.76), (0.0, 0.24), (0.0, math.nan), (0.0,), (1e17, 0.25), (0.0, -0.25)],
    "objective": [2.25 + 1e-13, 2.25 - 1e-13, 2.0, math.nan],
    "upper_bound": [2.25 - 1e-12, 2.25 + 1e-12, 2.0, math.inf],
    "rounding": [-1.0, 1e-11, math.inf],
    "violation": [1, -1],
    "gap": [1e-12, 0.5, -1e-12, math.nan],
    "status": ["within gap"],
}
CASES = [(field, value) for field, values in WRONG.items() for value in values]


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize(("field", "value"), CASES)
def test_a_wrong_figure_is_refused(field, value, exact):
    wrong = Found()._replace(**{field: value})
    with pytest.raises((AssertionError, ValueError)):
        judge_assignment(SCORES, None, LOWER, UPPER, wrong, exact=exact)


def test_a_forbidden_pair_is_refused():
    scores = SCORES.copy()
    scores[1, 1] = -np.inf
    judge_assignment(scores, None, LOWER, UPPER, Found())
    scores[2, 1] = -np.inf
    with pytest.raises(AssertionError, match="forbidden"):
        judge_assignment(scores, None, LOWER, UPPER, Found())


@pytest.mark.parametrize("exact", [True, False])
def test_prices_of_any_size_excuse_no_loss(exact):
    """Labels that are not the best, "optimal" where the rounding of wild prices is not counted."""
    scores, one = np.asarray([[1.0, 0.0], [0.0, 1.0]]), np.asarray([1, 1])
    wild = Found((1, 0), (1, 1), (1e17, -1e17), 0.0, 0.0, 2.0**-46 * 2e17)
    with pytest.raises(AssertionError, match="D at most upper_bound"):
        judge_assignment(scores, None, one, one, wild, exact=exact)


def test_a_gap_is_of_the_size_of_the_scores():
    scores, one = np.asarray([[1.0, 1.0], [-1.0, -0.5]]), np.asarray([1, 1])
    near = Found((1, 0), (1, 1), (0.0, 0.0), 0.0, 0.5, 2.0**-45, 0, 0.25, "within gap")
    judge_assignment(scores, None, one, one, near)
    for gap in (1.0, 0.2499, 0.0):
        with pytest.raises(AssertionError, match="gap"):
            judge_assignment(scores, None, one, one, near._replace(gap=gap))


def test_a_dual_value_is_refused_where_it_is_too_small_or_too_large():
    bounds = SizeBounds.from_counts([1, 1], n_samples=2)
    scores, prices = np.asarray([[1.0, 0.0], [1.0, 0.5]]), np.asarray([0.0, 0.25])
    value = dual_value(scores, prices, bounds)
    assert value == 1.75
    judge_dual_value(scores, prices, bounds.lower, bounds.upper, value)
    for wrong in (value - 1e-12, value + 1e-12):
        with pytest.raises(AssertionError, match="D is"):
            judge_dual_value(scores, prices, bounds.lower, bounds.upper, wrong)


def test_a_proof_that_no_labels_exist_is_refused_where_a_number_is_wrong():
    allowed = np.asarray([[True, False, True], [False, True, False], [False, True, True]])
    lower, upper = np.asarray([0, 0, 3]), np.asarray([3, 3, 3])
    with pytest.raises(InfeasibleBoundsError) as caught:
        check_feasible(allowed, lower, upper)
    error = caught.value
    judge_infeasible(lower, upper, allowed, error)
    wrong = [
        {"lower": (0, 0, 0)},
        {"lower": (0, 0, -1)},
        {"upper": (0, 0, 1)},
        {"required": 4},
        {"available": 1},
    ]
    for change in wrong:
        claim = InfeasibleBoundsError(
            "", clusters=error.clusters, excess=error.excess, vector=error.vector._replace(**change)
        )
        with pytest.raises(AssertionError):
            judge_infeasible(lower, upper, allowed, claim)
    for clusters, excess in (((0,), error.excess), (error.clusters, error.excess + 1)):
        claim = InfeasibleBoundsError("", clusters=clusters, excess=excess, vector=error.vector)
        with pytest.raises(AssertionError):
            judge_infeasible(lower, upper, allowed, claim)


def test_a_stream_is_refused_where_a_number_is_wrong(rng):
    bounds = SizeBounds.from_ratios(3, n_samples=30, lower=0.9)
    labels, state = assign(rng.normal(size=(30, 3)), bounds)
    found = size_certificate(state, bounds)
    shares, sides = (bounds.lower_share, bounds.upper_share), (bounds.lower, bounds.upper)
    judge_stream(labels, None, state, *sides, 30)
    judge_sizes(state, *shares, found)
    for wrong in (
        state._replace(seen=29),
        state._replace(counts=state.counts + 1),
        state._replace(counts=state.counts[::-1] + np.asarray([0, 1, -1])),
    ):
        with pytest.raises(AssertionError):
            judge_stream(labels, None, wrong, *sides, 30)
    with pytest.raises(AssertionError, match="inside"):
        judge_stream(labels, None, state, sides[0] + 2, sides[1], 30)
    for wrong in (
        found._replace(at_least=found.at_least + 1.0),
        found._replace(at_most=found.at_most - 25.0),
    ):
        with pytest.raises(AssertionError, match=r"counts between|sizes proven"):
            judge_sizes(state, *shares, wrong)
