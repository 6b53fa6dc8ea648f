"""Twenty hard instances: right by HiGHS where they are small, and in bounded work where not.

The work is counted, not timed: passes over the scores, looks of Newton's method at the candidates,
and augmenting paths. The bounds leave a factor of about two to what was counted.
"""

import numpy as np
import pytest

import dualclust as dc
from tests.highs import best_plan
from tests.passes import OVER_SCORES, counted_work
from tests.programs import program

PROGRAM = program("hard_instances")
each = pytest.mark.parametrize("name", list(PROGRAM.HARD))

# Passes over scores or samples of them, and looks at the candidates.
MOST = {"nearly as many": (80, 140)}
USUAL = (25, 90)


@each
def test_small_ones_are_as_good_as_those_of_highs(name):
    hard = PROGRAM.HARD[name](60)
    found = dc.assign_exact(hard.scores, hard.bounds)
    allowed = np.isfinite(hard.scores)
    scores = np.where(allowed, hard.scores, 0.0)
    best = best_plan(scores, hard.lower, hard.upper, allowed=allowed)
    # HiGHS is content with reduced costs of 1e-7.
    assert found.objective == pytest.approx(best.value, rel=1e-6, abs=1e-6)
    assert found.gap == 0.0


@each
def test_work_is_bounded(name):
    hard = PROGRAM.HARD[name](20_000)
    n, k = hard.scores.shape
    with counted_work() as count:
        found = dc.assign_exact(hard.scores, hard.bounds)
    assert found.gap == 0.0
    assert np.all((hard.lower <= found.counts) & (found.counts <= hard.upper))
    assert np.all(np.isfinite(hard.scores[np.arange(n), found.labels]))
    passes, steps = MOST.get(name, USUAL)
    assert 0 < sum(count[where] for where in OVER_SCORES) <= passes
    assert count["_smoothed_dual.evaluate"] <= steps
    # A path moves a row at least, and a row does not come back more than a few times.
    assert count["paths"] <= n + k
    assert count["moved"] <= 5 * n


@pytest.mark.parametrize("name", ["identical rows", "twin columns", "duplicates", "all equal"])
def test_rows_that_are_alike_move_together(name):
    """As many paths as pairs of clusters at most, for however many rows."""
    hard = PROGRAM.HARD[name](5_000)
    k = hard.scores.shape[1]
    with counted_work() as count:
        dc.assign_exact(hard.scores, hard.bounds)
    assert count["paths"] <= k * k


@pytest.mark.parametrize("k", [20, 100])
@pytest.mark.parametrize("sizes", ["even", "loose"])
def test_identical_rows_are_read_once_and_need_few_looks(k, sizes):
    """The linear program of the one distinct row tells the prices, and all that ties is kept."""
    n = 5_000
    bounds = getattr(PROGRAM, sizes)(n, k)
    hard = PROGRAM.Instance(np.repeat(PROGRAM.gaussian(1, k), n, axis=0), *bounds)
    with counted_work() as count:
        found = dc.assign_exact(hard.scores, hard.bounds)
    assert found.gap == 0.0
    # A first pass that keeps too few candidates would add two, and a dozen looks.
    assert sum(count[where] for where in OVER_SCORES) <= 6
    assert count["_smoothed_dual.evaluate"] <= 12
    assert count["paths"] <= k
