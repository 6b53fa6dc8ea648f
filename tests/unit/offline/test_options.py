"""Options at their extremes: labels and proofs as by any others, or an error with the rule."""

import math
from dataclasses import fields, replace

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.core.errors import InvalidTypeError, InvalidValueError
from dualclust.algos.offline import SolverOptions, assign_offline
from tests.compare import to_numpy
from tests.problems import best_value

SMALL = {
    "full_entries": 0,
    "few_clusters": 0,
    "max_entries": 64,
    "entries_per_row": 0.0,
    "min_sample_rows": 2,
    "sample_rows_per_cluster": 1,
}
"""All steps of a problem of millions of rows, on some tens."""


def counted(xp, counts):
    return SizeBounds.from_counts(counts, counts, n_samples=sum(counts), **xp.place)


@pytest.mark.parametrize(
    ("chosen", "rule"),
    [
        ({"chunk_rows": 0}, "chunk_rows must be at least 1, got 0"),
        ({"sample_width": 0}, "sample_width must be at least 1, got 0"),
        ({"max_entries": -1}, "max_entries must be at least 0, got -1"),
        ({"edge_share": -0.5}, r"edge_share must lie in \[0, 1e\+09\], got -0.5"),
        ({"deviations": math.nan}, r"deviations must lie in \[0, 1e\+09\], got nan"),
        ({"max_stranded": math.inf}, r"max_stranded must lie in \[0, 1e\+09\], got inf"),
    ],
)
def test_what_says_nothing_is_refused(chosen, rule):
    with pytest.raises(InvalidValueError, match=f"^{rule}.*To fix this, pass a"):
        SolverOptions(**chosen)


@pytest.mark.parametrize(
    "chosen", [{"max_entries": 1.5}, {"typical_rows": True}, {"deviations": "4"}]
)
def test_what_is_no_number_is_refused(chosen):
    with pytest.raises(InvalidTypeError, match=f"^{next(iter(chosen))} must be a"):
        SolverOptions(**chosen)


def test_least_values_of_all_options_at_once():
    least = {}
    for field in fields(SolverOptions):
        kind = type(field.default)
        for value in (-1.0, 0, 1):
            try:
                SolverOptions(**{field.name: kind(value)})
            except InvalidValueError:
                continue
            least[field.name] = kind(value)
            break
    assert len(least) == len(fields(SolverOptions))
    rng = np.random.default_rng(0)
    scores, counts = rng.normal(size=(7, 3)), [1, 4, 2]
    bounds = SizeBounds.from_counts(counts, counts, n_samples=7)
    for tol in (0.0, 0.1):
        found = assign_offline(
            scores, bounds, tol=tol, options=SolverOptions(**{**least, "last_entries": 2**27})
        )
        best = best_value(scores, bounds.lower, bounds.upper)
        assert found.counts.tolist() == counts
        assert best <= found.upper_bound + found.rounding
        assert best - found.objective <= 2.0 * found.gap * max(abs(best), found.upper_bound) + 1e-12


@pytest.mark.parametrize(("each", "phase"), [(0.0, "online passes"), (6.0, "candidates")])
def test_rows_may_keep_so_many_candidates_each_where_that_is_more_in_all(each, phase):
    n, k = 1_000, 100
    bounds = SizeBounds.from_ratios(k, n_samples=n, lower=0.9, upper=1.1)
    options = SolverOptions(full_entries=0, max_entries=9, entries_per_row=each)
    options = replace(options, last_entries=8 * n)
    found = assign_offline(np.random.default_rng(0).normal(size=(n, k)), bounds, options=options)
    assert (found.phase, found.gap <= 1e-4) == (phase, each > 0.0)


def test_a_gap_of_rounding_alone_is_finite(xp):
    # All scores are 0, and so is the bound; what prices add and take away is rounded.
    options = SolverOptions(
        full_entries=0, max_entries=64, entries_per_row=0.0, max_passes=2, min_sample_rows=2
    )
    counts = [1, 4, 2, 1, 2, 1, 1]
    found = assign_offline(
        xp.asarray(np.zeros((12, 7))), counted(xp, counts), tol=1e-9, options=options
    )
    assert np.bincount(to_numpy(found.labels)).tolist() == counts
    assert found.objective == 0.0
    assert 0.0 <= found.upper_bound <= 1e-12
    assert 0.0 <= found.gap <= 2.0


def test_ranges_below_all_steps(xp):
    # One row has a score that sets the unit; in all others clusters differ by the least number.
    scores = np.zeros((24, 4))
    scores[:, 1] = 5e-324
    scores[20, 0] = 1e10
    counts = [6] * 4
    options = SolverOptions(**SMALL, typical_rows=2)
    for tol in (0.0, 1e-4):
        found = assign_offline(xp.asarray(scores), counted(xp, counts), tol=tol, options=options)
        assert np.bincount(to_numpy(found.labels)).tolist() == counts
        assert int(found.labels[20]) == 0
        assert found.upper_bound + found.rounding >= 1e10


def test_digits_that_the_unit_of_the_largest_score_leaves_out_are_rounding(xp):
    # A score that nobody takes sets the unit, in which the others are subnormal.
    scores = np.zeros((4, 2))
    scores[0, 0], scores[:, 1] = -(2.0**1000), np.asarray([1.0, 3.0, 5.0, 7.0]) / 3.0 * 2.0**-160
    bounds = SizeBounds.from_counts([0, 0], [4, 4], n_samples=4, **xp.place)
    found = assign_offline(xp.asarray(scores), bounds)
    exact = float(np.sum(scores[:, 1]))
    assert found.objective != exact
    assert abs(found.objective - exact) <= found.rounding <= 2.0**-170
