"""What a result states about itself, recomputed: on every library, few candidates and all."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dualclust.algos.bounds.farkas import verify_infeasibility
from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.core.errors import (
    DeviceMismatchError,
    InfeasibleBoundsError,
    InvalidTypeError,
    InvalidValueError,
)
from dualclust.algos.offline import DEFAULT_OPTIONS, SolverOptions
from dualclust.algos.offline._proof import relative_gap
from dualclust.algos.offline.assignment import (
    OfflineAssignment,
    assign_exact,
    assign_offline,
    assign_source,
)
from dualclust.algos.scores.sources import feature_source, product_source
from tests.compare import assert_same_kind, to_numpy
from tests.examples import examples
from tests.libraries import LIBRARIES
from tests.offline_results import check
from tests.problems import best_value, cone_features, counted_bounds, float_streams

NUMPY = LIBRARIES[0]


def ratios(xp, n, k, **options):
    options = {"lower": 0.75, "upper": 1.25, "rounding": "outward"} | options
    return xp.freeze(SizeBounds.from_ratios(k, n_samples=n, **xp.place, **options))


def counts(xp, n, lower, upper):
    bounds = SizeBounds.from_counts(lower, upper, n_samples=n, **xp.place)
    return xp.freeze(bounds)


FEW = SolverOptions(full_entries=0, pass_width=2)
"""Of small problems all clusters are candidates; the passes of large ones must find the same."""


@pytest.fixture(params=[DEFAULT_OPTIONS, FEW], ids=["all clusters", "few candidates"])
def options(request):
    return request.param


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_results_are_of_the_library_of_the_scores(xp, rng, dtype, options):
    scores, bounds = xp.asarray(rng.normal(size=(17, 3)), dtype), ratios(xp, 17, 3)
    found = assign_offline(scores, bounds, options=options)
    check(found, scores, bounds)
    assert_same_kind(found.labels, xp.asarray(np.zeros(17, np.int64)))
    assert_same_kind(found.counts, xp.asarray(np.zeros(3, np.int64)))
    assert_same_kind(found.prices, xp.asarray(np.zeros(3)))
    assert isinstance(found.objective, float)
    assert isinstance(found.upper_bound, float)


def test_libraries_agree(xp, rng, options):
    for k, n in ((2, 5), (4, 40)):
        scores = rng.normal(size=(n, k))
        expected = assign_exact(scores, ratios(NUMPY, n, k), options=options)
        found = assign_exact(xp.asarray(scores), ratios(xp, n, k), options=options)
        np.testing.assert_array_equal(to_numpy(found.labels), expected.labels)
        assert found.objective == pytest.approx(expected.objective, rel=1e-12)
        assert found.upper_bound == pytest.approx(expected.upper_bound, rel=1e-12)


@given(float_streams())
def test_any_problem_is_solved(stream):
    bounds = stream.bounds(NUMPY)
    found = assign_exact(stream.scores, bounds)
    assert found.status == "optimal"
    check(found, stream.scores, bounds)


@given(st.data(), st.integers(1, 20), st.integers(1, 5), st.booleans())
def test_any_ties_end_inside_the_bounds(data, n, k, few):
    scores = data.draw(arrays(np.float32, (n, k), elements=st.sampled_from([-1.0, 0.0, 1.0])))
    lower, upper = data.draw(counted_bounds(n, k))
    bounds = counts(NUMPY, n, lower.tolist(), upper.tolist())
    found = assign_exact(scores, bounds, options=FEW if few else DEFAULT_OPTIONS)
    check(found, scores, bounds)
    assert found.status == "optimal"


@given(st.data(), st.integers(1, 6), st.integers(1, 3), st.sampled_from([0.0, 1e-4, 0.5]))
def test_the_optimum_lies_between_objective_and_bound(data, n, k, tolerance):
    elements = st.floats(-1.0, 1.0, width=32) | st.sampled_from([0.0, 1.0])
    scores = data.draw(arrays(np.float64, (n, k), elements=elements))
    lower, upper = data.draw(counted_bounds(n, k))
    bounds = counts(NUMPY, n, lower.tolist(), upper.tolist())
    found = assign_offline(scores, bounds, tol=tolerance, options=FEW)
    best = best_value(scores, lower, upper)
    assert found.objective <= best + 1e-12
    assert best <= found.upper_bound + 1e-12
    if tolerance == 0.0:
        assert found.objective == pytest.approx(best, abs=1e-12)


@given(st.integers(0, 2**32), st.integers(-300, 300), st.booleans())
@examples(50)
def test_scores_of_any_magnitude(seed, exponent, few):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(30, 3)) * 10.0**exponent
    bounds = ratios(NUMPY, 30, 3, lower=1.0, upper=1.0)
    found = assign_exact(scores, bounds, options=FEW if few else DEFAULT_OPTIONS)
    check(found, scores, bounds)
    assert found.gap <= 1e-12


def test_one_cluster_and_one_sample(xp, options):
    found = assign_offline(xp.asarray(np.ones((9, 1))), counts(xp, 9, [9], [9]), options=options)
    assert (found.objective, found.status) == (9.0, "optimal")
    scores = xp.asarray([[0.0, 2.0, 1.0]])
    assert to_numpy(
        assign_offline(scores, ratios(xp, 1, 3, lower=0.0), options=options).labels
    ).tolist() == [1]
    forced = assign_offline(scores, counts(xp, 1, [0, 0, 1], [1, 0, 1]), options=options)
    assert to_numpy(forced.labels).tolist() == [2]
    none = counts(NUMPY, 1, [0, 0, 0], [1, 1, 1])._replace(n_samples=0)
    assert assign_exact(np.zeros((0, 3)), none, prices=np.zeros(3)).labels.shape == (0,)


def test_a_cluster_may_have_to_stay_empty(xp, rng, options):
    scores = rng.normal(size=(12, 3))
    found = assign_exact(
        xp.asarray(scores), counts(xp, 12, [0, 0, 0], [12, 0, 12]), options=options
    )
    np.testing.assert_array_equal(
        to_numpy(found.labels), np.where(scores[:, 0] >= scores[:, 2], 0, 2)
    )


def test_prices_of_a_solution_are_a_start(rng, options):
    scores = rng.normal(size=(300, 6)) + rng.normal(size=6)
    bounds = ratios(NUMPY, 300, 6, lower=0.9, upper=1.1)
    first = assign_exact(scores, bounds, options=options)
    again = assign_exact(scores, bounds, prices=first.prices, options=options)
    assert again.objective == pytest.approx(first.objective, abs=1e-12)
    far = assign_exact(scores, bounds, prices=100.0 * rng.normal(size=6), options=options)
    assert far.objective == pytest.approx(first.objective, abs=1e-12)


def test_complementary_slackness(rng, options):
    scores = rng.normal(size=(200, 5)) + 2 * rng.normal(size=5)
    bounds = ratios(NUMPY, 200, 5)
    found = assign_exact(scores, bounds, options=options)
    assert (found.counts[found.prices > 0] == bounds.lower[found.prices > 0]).all()
    assert (found.counts[found.prices < 0] == bounds.upper[found.prices < 0]).all()
    priced = scores + found.prices
    chosen = priced[np.arange(200), found.labels]
    assert (priced.max(axis=1) - chosen).max() <= 1e-12


def test_weights_scale_the_rows(xp, rng, options):
    """A weight multiplies what a sample counts in the objective, not in the sizes."""
    scores, weights = rng.normal(size=(40, 4)), rng.exponential(size=40)
    weights[:5] = 0.0
    bounds = ratios(xp, 40, 4)
    found = assign_exact(xp.asarray(scores), bounds, weights=xp.asarray(weights), options=options)
    check(found, scores, bounds, weights)
    scaled = assign_exact(xp.asarray(scores * weights[:, None]), bounds, options=options)
    assert found.objective == pytest.approx(scaled.objective, abs=1e-12)


class TestForbiddenPairs:
    """A score of minus infinity."""

    def test_equal_to_the_best_of_all(self, options):
        """From prices so far off, too, that their rounding hides what scores differ by."""
        solved = refused = 0
        for seed in range(60):
            rng = np.random.default_rng(seed)
            n, k = int(rng.integers(1, 7)), int(rng.integers(1, 4))
            scores = rng.normal(size=(n, k))
            scores[rng.random((n, k)) < 0.6] = -math.inf
            scores[np.arange(n), rng.integers(0, k, n)] = rng.normal(size=n)
            sizes = np.bincount(rng.integers(0, k, n), minlength=k)
            slack = seed % 2
            lower, upper = np.maximum(sizes - slack, 0), np.minimum(sizes + slack, n)
            best = best_value(scores, lower, upper)
            bounds = counts(NUMPY, n, lower.tolist(), upper.tolist())
            if best > -math.inf:
                prices = None if seed % 2 else 1e5 * rng.normal(size=k)
                found = assign_exact(scores, bounds, prices=prices, options=options)
                check(found, np.where(scores == -math.inf, -1e6, scores), bounds)
                assert found.objective == pytest.approx(best, abs=1e-12)
                assert found.gap == 0.0
                solved += 1
            else:
                with pytest.raises(InfeasibleBoundsError) as error:
                    assign_exact(scores, bounds, options=options)
                proof = error.value.vector
                assert proof is not None
                assert verify_infeasibility(lower, upper, scores > -math.inf, proof)
                refused += 1
        assert solved > 20
        assert refused > 8

    def test_on_every_library(self, xp, options):
        scores = xp.asarray([[1.0, -math.inf], [0.5, 0.0], [1.0, 0.25]])
        found = assign_exact(scores, counts(xp, 3, [1, 1], [1, 2]), options=options)
        assert to_numpy(found.labels).tolist() == [0, 1, 1]


def test_products_are_equal_to_the_matrix(xp, options):
    """Scores that are multiplied a block at a time."""
    x, c = cone_features(300, 0, d=8), cone_features(5, 1, d=8)
    bounds = ratios(xp, 300, 5)
    offsets = np.linspace(-0.1, 0.1, 5)
    source = product_source(
        feature_source(xp.asarray(x)), xp.asarray(c), offsets=xp.asarray(offsets)
    )
    found = assign_source(source, bounds, tol=0.0, options=options)
    check(found, x @ c.T + offsets, bounds)
    assert found.status == "optimal"


def test_gap_and_status():
    """Relative to the scores of the labels, or to the bound where that is larger."""
    assert relative_gap(0.0, 2.0, 2.0) == relative_gap(0.0, 0.0, 0.0) == 0.0
    assert relative_gap(1.0, 3.0, 4.0) == 0.25
    assert relative_gap(1.0, 4.0, -3.0) == 0.25
    assert relative_gap(1.0, 8.0, 0.0) == 0.125  # scores of both signs that add up to nearly 0
    assert relative_gap(1e-300, 0.0, 1e-300) == 1.0
    assert relative_gap(1e-300, 1e300, 1e300) > 0.0  # too little for float64, and yet not proven

    def status(gap):
        empty = np.zeros(0)
        return OfflineAssignment(empty, empty, empty, 1.0, 1.0, 0.0, 0, gap).status

    assert (status(0.0), status(1e-300)) == ("optimal", "within gap")


def test_misuse_is_refused(xp, rng):
    scores, bounds = xp.asarray(rng.normal(size=(20, 3))), ratios(xp, 20, 3)
    for bad, place in ((math.nan, 4), (math.inf, 7)):
        broken = to_numpy(scores)
        broken[place, 1] = bad
        with pytest.raises(InvalidValueError, match=f"row {place} is not so"):
            assign_offline(xp.asarray(broken), bounds)
    stream = SizeBounds.for_stream(3, **xp.place)
    with pytest.raises(InvalidValueError, match="known number of samples"):
        assign_offline(scores, stream)
    for n, k in ((19, 3), (20, 4)):
        with pytest.raises(InvalidValueError, match=r"scores must have shape"):
            assign_offline(scores, ratios(xp, n, k))
    with pytest.raises(InvalidValueError, match="tol must lie in"):
        assign_offline(scores, bounds, tol=-1.0)
    with pytest.raises(InvalidValueError, match=r"prices must have shape \(3,\)"):
        assign_offline(scores, bounds, prices=xp.asarray([0.0]))
    with pytest.raises(InvalidValueError, match="prices must be finite"):
        assign_offline(scores, bounds, prices=xp.asarray([0.0, math.nan, 0.0]))
    with pytest.raises(InvalidTypeError, match="real floating"):
        assign_offline(xp.asarray(np.ones((20, 3), np.int64)), bounds)
    with pytest.raises(InvalidTypeError, match="got list"):
        assign_offline(to_numpy(scores).tolist(), bounds)
    other = next(library for library in LIBRARIES if library.namespace is not xp.namespace)
    with pytest.raises(DeviceMismatchError, match="same array library"):
        assign_offline(scores, ratios(other, 20, 3))


def test_a_tensor_with_a_graph_gives_labels_without_one_and_without_a_warning() -> None:
    torch = pytest.importorskip("torch")
    scores = torch.randn(600, 4, generator=torch.Generator().manual_seed(0), requires_grad=True)
    weights = torch.ones(600, dtype=torch.float64, requires_grad=True)
    bounds = SizeBounds.from_ratios(4, n_samples=600, lower=1.0, xp=torch)
    for own in (None, weights):  # warnings are errors
        found = assign_exact(scores, bounds, weights=own)
        assert not found.prices.requires_grad
        assert found.counts.tolist() == [150] * 4
