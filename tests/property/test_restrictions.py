"""Fixed rows keep their label, forbidden pairs never occur, and the proven gap is never too small.

The true optimum is that of HiGHS; where it finds no plan, the error's proof is checked.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualclust.algos.bounds.farkas import verify_infeasibility
from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.clustering.constrained import constrained_kmeans
from dualclust.algos.clustering.seeded import seeded_centers
from dualclust.algos.core.errors import InfeasibleBoundsError
from dualclust.algos.scores.sources import feature_source
from tests import highs
from tests.examples import examples
from tests.problems import unit_rows


@st.composite
def restricted(draw):
    """Rows, bounds inside which labels exist, rules that most labels break; pairs that are left."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n, k = draw(st.integers(2, 60)), draw(st.integers(1, 6))
    x = rng.normal(size=(n, 3)) + 1.5 * rng.normal(size=3)
    if draw(st.booleans()):
        x = x[rng.integers(0, max(1, n // 4), size=n)]  # many equal rows
    labels = rng.integers(0, k, size=n)
    sizes = np.bincount(labels, minlength=k)
    if draw(st.integers(0, 3)) == 0:  # perhaps no labels keep the rules
        sizes = rng.permutation(sizes)
    slack = draw(st.integers(0, 3))
    bounds = (np.maximum(sizes - slack, 0), np.minimum(sizes + slack, n))
    fixed = np.where(rng.random(n) < draw(st.sampled_from([0.0, 0.2, 0.9])), labels, -1)
    allowed = rng.random((n, k)) > draw(st.sampled_from([0.0, 0.3, 0.9]))
    allowed[np.arange(n), labels] = True
    pairs = np.argwhere(~allowed)
    allowed &= (fixed[:, None] < 0) | (fixed[:, None] == np.arange(k))
    return x, bounds, fixed, pairs, allowed


def outcome(work):
    """What `work` returns, or the error that says that no labels exist."""
    try:
        return work(), None
    except InfeasibleBoundsError as error:
        return None, error


@examples(150)
@given(restricted(), st.sampled_from(["cosine", "euclidean"]), st.integers(0, 3), st.booleans())
def test_rules_bounds_and_gap_hold(problem, metric, max_iter, exact):
    x, (lower, upper), fixed, pairs, allowed = problem
    (n, k), rows = allowed.shape, np.arange(len(x))
    x = unit_rows(x) if metric == "cosine" else x
    bounds = SizeBounds.of(k, n_samples=n, min_count=lower, max_count=upper)
    start = seeded_centers(
        feature_source(x), min(k, n), fixed=fixed.clip(max=min(k, n) - 1), seed=1, metric=metric
    )
    start = np.concatenate([start, np.repeat(start[:1], k - len(start), axis=0)])
    options = {"fixed": fixed, "forbidden": pairs, "metric": metric, "tol": 0.0}
    gap = 0.0 if exact else 1e-2
    found, error = outcome(
        lambda: constrained_kmeans(x, bounds, start, max_iter=max_iter, gap=gap, **options)
    )
    if error is not None:
        assert not highs.is_feasible(allowed, lower, upper)
        assert verify_infeasibility(lower, upper, allowed, error.vector)
        return
    labels, counts = found.labels, np.bincount(found.labels, minlength=k)
    np.testing.assert_array_equal(labels[fixed >= 0], fixed[fixed >= 0])
    assert allowed[rows, labels].all()
    np.testing.assert_array_equal(counts, found.counts)
    assert ((lower <= counts) & (counts <= upper)).all()
    around = 0.0 if metric == "cosine" else x.mean(axis=0)
    centers = found.centers - around
    scores = (x - around) @ centers.T
    if metric == "euclidean":
        scores = scores - 0.5 * (centers**2).sum(axis=1)
    own = scores[rows, labels]
    best = highs.best_plan(scores, lower, upper, allowed=allowed)
    assert best is not None
    noise = 1e-9 * (1.0 + np.abs(own).sum())
    assert own.sum() == pytest.approx(found.objective, abs=noise)
    assert best.value <= found.assignment.upper_bound + noise
    assert best.value - own.sum() <= found.gap * max(np.abs(own).sum(), abs(best.value)) + noise
    assert found.gap <= gap
