"""What the offline solver does in the end: online passes, all scores, and the unit of a source."""

import numpy as np
import pytest

from benchmarks.families import FAMILIES
from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.core.errors import DeviceMismatchError, InvalidTypeError, InvalidValueError
from dualclust.algos.offline import SolverOptions, _all_scores
from dualclust.algos.offline._all_scores import raise_no_labels
from dualclust.algos.offline._reduced import ReducedSolution
from dualclust.algos.offline.assignment import assign_exact, assign_offline, assign_source
from dualclust.algos.scores.sources import score_source
from tests.passes import counted_passes

N, K = 20, 5
ZERO, ONES = np.zeros(K), np.ones(K)
BOUNDS = SizeBounds.from_counts([0] * K, n_samples=N)


def test_scores_that_allow_labels_but_lead_to_none_are_an_error(monkeypatch):
    none = ReducedSolution(None, ZERO, 0.0, ZERO, is_stuck=False)
    monkeypatch.setattr(_all_scores, "solve_reduced", lambda *args, **options: none)
    with pytest.raises(InvalidValueError, match=r"^scores differ too much for float64: .*clip"):
        assign_offline(np.zeros((N, K)), BOUNDS)


def test_tolerances_prices_and_bounds_that_are_refused():
    scores = np.zeros((N, K))
    assert assign_offline(scores, BOUNDS, tol=1.0).gap == 0.0
    with pytest.raises(InvalidValueError, match=r"tol must lie in \[0, 1\], got 1\.001"):
        assign_offline(scores, BOUNDS, tol=1.001)
    with pytest.raises(InvalidTypeError, match="bounds must be"):
        assign_source(score_source(scores), [0] * K)
    few = SizeBounds.from_counts([0] * 4, n_samples=N)
    with pytest.raises(InvalidValueError, match=r"bounds\.lower must have shape \(5,\)"):
        assign_source(score_source(scores), few)
    strict = pytest.importorskip("array_api_strict")
    for name in ("prices", "weights"):
        other = {name: strict.ones(K if name == "prices" else N, dtype=strict.float64)}
        with pytest.raises(DeviceMismatchError, match=name):
            assign_offline(scores, BOUNDS, **other)
    for name in ("prices", "price_radius"):  # whatever else is wrong with them
        given = {"prices": np.zeros(K), "price_radius": np.ones(K)}
        given[name] = strict.ones(K + 1, dtype=strict.float64)
        with pytest.raises(DeviceMismatchError, match=name):
            assign_source(score_source(scores), BOUNDS, **given)


def test_the_error_names_what_all_scores_would_take():
    with pytest.raises(InvalidValueError, match=r"268435456 scores are more than .*about 4 GiB"):
        raise_no_labels(2**28, SolverOptions())


def test_the_best_prices_of_a_small_problem_spare_looks_at_its_candidates():
    made, prices, looks = FAMILIES["crowded"](2_000, 32, 1), None, []
    for _ in range(2):
        with counted_passes() as passes:
            prices = assign_exact(made.scores, made.bounds, prices=prices).prices
        looks.append(passes["_smoothed_dual.evaluate"])
    assert 2 * looks[1] <= looks[0]
