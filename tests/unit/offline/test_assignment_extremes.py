"""Labels, bounds and proofs where arithmetic is at its limits: ties, tiny, huge and forbidden."""

import math
from fractions import Fraction

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.core.errors import InfeasibleBoundsError, InvalidTypeError, InvalidValueError
from dualclust.algos.offline import DEFAULT_OPTIONS, SolverOptions
from dualclust.algos.offline.assignment import assign_exact, assign_offline, assign_source
from dualclust.algos.scores import statistics
from dualclust.algos.scores.sources import feature_source, product_source, score_source
from tests.compare import to_numpy
from tests.problems import best_value

TIES = {
    "three values": lambda n, k: np.tile(np.arange(k) % 3 * 1.0, (n, 1)),
    "all equal": lambda n, k: np.ones((n, k)),
    "zeros and ones": lambda n, k: np.random.default_rng(0).integers(0, 2, (n, k)) * 1.0,
    "few distinct rows": lambda n, k: np.repeat(
        np.random.default_rng(0).normal(size=(5, k)), n // 5, axis=0
    ),
    "integers": lambda n, k: np.random.default_rng(0).integers(0, 3, (n, k)) * 1.0,
    "all the same row": lambda n, k: np.tile(np.random.default_rng(0).normal(size=k), (n, 1)),
}


FEW = SolverOptions(full_entries=0)


@pytest.fixture(params=[DEFAULT_OPTIONS, FEW], ids=["all clusters", "few candidates"])
def options(request):
    return request.param


def value(scores, labels, weights=None):
    """The objective in rational arithmetic."""
    weights = np.ones(len(labels)) if weights is None else weights
    rows = zip(scores.tolist(), labels.tolist(), weights.tolist(), strict=True)
    return sum((Fraction(row[y]) * Fraction(w) for row, y, w in rows), Fraction(0))


@pytest.mark.parametrize("unit", [1e-6, 1e-8, 1e-30])
def test_equal_scores_that_are_small_are_optimal_whatever_prices_paths_leave(unit, options):
    """Every price may be shifted where all sizes are given: that must not cost the proof."""
    for n, k in ((37, 6), (7, 3), (40, 4)):
        lower = [n // k + (i < n % k) for i in range(k)]
        bounds = SizeBounds.from_counts(lower, lower, n_samples=n)
        for start in (None, np.zeros(k), np.full(k, -3.0)):
            found = assign_exact(np.full((n, k), unit), bounds, prices=start, options=options)
            assert (found.gap, found.status) == (0.0, "optimal")
            assert found.counts.tolist() == lower


@pytest.mark.parametrize("kind", TIES)
@pytest.mark.parametrize("ratios", [(0.9, 1.1), (0.0, math.inf), (0.5, math.inf)], ids=str)
def test_collapsed_and_integer_scores_reach_the_tolerance(kind, ratios):
    n, k = 5000, 40
    scores = TIES[kind](n, k)
    bounds = SizeBounds.from_ratios(k, n_samples=n, lower=ratios[0], upper=ratios[1])
    found = assign_offline(scores, bounds)
    assert found.gap <= 1e-4
    assert found.violation == 0
    if ratios[0] == 0.0:
        assert found.objective == scores.max(axis=1).sum()
        assert found.status == "optimal"


def test_without_bounds_the_best_cluster_of_each_row_is_optimal():
    """However far out a few columns are, and however many rows tie."""
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 100, (2661, 100)).astype(float)
    scores[:2634, 0] += 1e6
    found = assign_offline(scores, SizeBounds.from_counts([0] * 100, n_samples=2661))
    assert found.status == "optimal"
    assert found.objective == scores.max(axis=1).sum()


def test_an_optimum_of_0_has_a_gap_of_0(xp, options):
    bounds = SizeBounds.from_counts([1, 1, 0], [2, 2, 1], n_samples=3, **xp.place)
    found = assign_exact(xp.asarray(np.zeros((3, 3))), bounds, options=options)
    assert (found.objective, found.gap, found.status) == (0.0, 0.0, "optimal")


def test_scores_of_both_signs_that_cancel_have_a_gap_that_means_something(options):
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(400, 4))
    bounds = SizeBounds.from_ratios(4, n_samples=400, lower=0.9, upper=1.1)
    shift = assign_exact(scores, bounds, options=options).objective / 400.0
    found = assign_offline(scores - shift, bounds, options=options)
    assert abs(found.objective) < 1e-9
    assert found.gap <= 1e-4


class TestWeights:
    @pytest.mark.parametrize(
        ("dtype", "unit"),
        [("float32", 1e-46), ("float64", 1e-300), ("float32", 1e39), ("float64", 1e300)],
    )
    def test_of_any_unit_give_the_same_labels(self, xp, rng, dtype, unit, options):
        scores = xp.asarray(rng.normal(size=(40, 4)), dtype)
        weights = 1.0 + rng.integers(0, 4, size=40)
        bounds = SizeBounds.from_ratios(4, n_samples=40, lower=0.9, upper=1.1, **xp.place)
        plain = assign_exact(scores, bounds, weights=xp.asarray(weights), options=options)
        found = assign_exact(scores, bounds, weights=xp.asarray(weights * unit), options=options)
        np.testing.assert_array_equal(to_numpy(found.labels), to_numpy(plain.labels))
        assert found.objective == pytest.approx(plain.objective * unit, rel=1e-12)
        assert found.status == "optimal"

    def test_are_not_rounded_to_the_dtype_of_the_scores(self):
        """Two rows want one place; which is right shows in the ninth digit of their weights."""
        scores = np.asarray([[1.0, 0.0], [1.0, 0.0]], np.float32)
        bounds = SizeBounds.from_counts([1, 1], n_samples=2)
        for weights in ([1.0, 1.0 + 1e-9], [1.0 + 1e-9, 1.0]):
            found = assign_exact(scores, bounds, weights=np.asarray(weights))
            assert found.labels[np.argmax(weights)] == 0

    def test_of_0_leave_a_forbidden_pair_forbidden(self, xp):
        scores = xp.asarray([[0.0, -math.inf], [0.0, 1.0]])
        bounds = SizeBounds.from_counts([1, 1], n_samples=2, **xp.place)
        found = assign_exact(scores, bounds, weights=xp.asarray([0.0, 1.0]))
        assert to_numpy(found.labels).tolist() == [0, 1]

    def test_times_scores_do_not_overflow_to_a_forbidden_pair(self):
        scores = np.full((4, 2), -1.7e308)
        scores[:, 0] = 0.0
        bounds = SizeBounds.from_counts([1, 1], n_samples=4)
        with pytest.raises(InvalidValueError, match="a sum that float64 holds") as error:
            assign_exact(scores, bounds, weights=np.full(4, 2.0))
        assert not isinstance(error.value, InfeasibleBoundsError)
        found = assign_exact(scores, bounds, weights=np.full(4, 0.5))
        assert np.bincount(found.labels).tolist() == [3, 1]
        assert found.status == "optimal"


class TestScales:
    def test_rows_that_differ_little_beside_rows_that_do_not_differ(self, options):
        rng = np.random.default_rng(0)
        for seed in range(20):
            scores = np.ones((7, 3))
            scores[:4] = 1e-18 * rng.normal(size=(4, 3))
            lower = np.bincount(rng.integers(0, 3, 7), minlength=3)
            found = assign_exact(
                scores, SizeBounds.from_counts(lower.tolist(), n_samples=7), options=options
            )
            rest = scores - scores[:, :1] * (scores[:, :1] == 1.0)
            best = best_value(rest, lower, np.full(3, 7))
            assert float(value(rest, found.labels)) == pytest.approx(best, rel=1e-12), seed
            assert found.status == "optimal"

    @pytest.mark.parametrize("exponent", [-1060, -1030, -950, -120, 120, 950, 1000])
    def test_of_any_size_give_the_labels_of_ordinary_scores(self, exponent, options):
        rng = np.random.default_rng(1)
        scores = rng.integers(-1000, 1001, (60, 4)) * 1.0  # exact in any unit
        bounds = SizeBounds.from_ratios(4, n_samples=60, lower=0.95, upper=1.05)
        best = value(scores, assign_exact(scores, bounds, options=options).labels)
        found = assign_exact(np.ldexp(scores, exponent), bounds, options=options)
        assert value(scores, found.labels) == best
        assert found.status == "optimal"
        assert found.objective == math.ldexp(float(best), exponent)

    @pytest.mark.parametrize("scale", [1e-42, 3e38])
    def test_of_float32_at_the_ends_of_its_range(self, scale, options):
        rng = np.random.default_rng(2)
        scores = (np.clip(rng.normal(size=(60, 4)) / 4.0, -1, 1) * scale).astype(np.float32)
        bounds = SizeBounds.from_ratios(4, n_samples=60, lower=0.95, upper=1.05)
        wide = scores.astype(np.float64)
        best = value(wide, assign_exact(wide / scale, bounds, options=options).labels)
        found = assign_exact(scores, bounds, options=options)
        assert float(value(wide, found.labels)) == pytest.approx(float(best), rel=1e-12)
        assert found.status == "optimal"

    @pytest.mark.parametrize("value", [-1e308, 1.7e308])
    def test_a_sum_that_float64_does_not_hold_is_an_error(self, value, xp, options):
        bounds = SizeBounds.from_counts([0] * 3, n_samples=2, **xp.place)
        with pytest.raises(InvalidValueError, match="the labels stay the same"):
            assign_exact(xp.asarray(np.full((2, 3), value)), bounds, options=options)

    def test_a_large_row_that_no_sample_shows(self, options):
        """The unit is looked up on a few rows; the pass meets the one that it does not fit."""
        n = 1500
        scores = np.random.default_rng(3).normal(size=(n, 4))
        bounds = SizeBounds.from_ratios(4, n_samples=n, lower=0.99, upper=1.01)
        plain = assign_exact(scores, bounds, options=options)
        shown = statistics.strided_ids(n, options.typical_rows, scores).tolist()
        row = next(iter(set(range(n)) - set(shown)))
        far = scores.copy()
        far[row] += np.where(np.arange(4) == plain.labels[row], 1.5e308, -1.5e308)
        found = assign_exact(far, bounds, options=options)
        np.testing.assert_array_equal(found.labels, plain.labels)


def test_products_that_overflow_are_no_forbidden_pairs(xp):
    rows = xp.asarray(np.full((4, 2), 1e20), "float32")
    centers = xp.asarray(np.asarray([[1e-20, 0.0], [-1e20, 0.0]]), "float32")
    bounds = SizeBounds.from_counts([1, 1], n_samples=4, **xp.place)
    ignored = np.errstate(over="ignore")  # numpy warns as well
    with ignored, pytest.raises(InvalidValueError, match="one that overflows") as error:
        assign_source(product_source(feature_source(rows), centers), bounds)
    assert not isinstance(error.value, InfeasibleBoundsError)


class TestSources:
    def test_rows_that_are_not_those_of_the_bounds_are_refused(self, xp, rng):
        source = score_source(xp.asarray(rng.normal(size=(20, 3))))
        bounds = SizeBounds.from_ratios(3, n_samples=21, lower=0.5, **xp.place)
        with pytest.raises(InvalidValueError, match=r"of the 20 rows of the source, got .* 21"):
            assign_source(source, bounds)

    def test_longdouble_is_refused(self):
        if np.finfo(np.longdouble).bits == 64:
            pytest.skip("longdouble is float64 here")
        wide = np.zeros((4, 2), np.longdouble)
        with pytest.raises(InvalidTypeError, match=r"at most 64 bits, got .*To fix this"):
            assign_offline(wide, SizeBounds.from_counts([1, 1], n_samples=4))
        with pytest.raises(InvalidTypeError, match="features must have at most 64 bits"):
            feature_source(wide)

    @pytest.mark.parametrize("weights", [[1.0, -1.0], [1.0], [0.0, 0.0], [1.0, math.inf]])
    def test_bad_weights_are_refused(self, xp, weights):
        rows, weights = xp.asarray(np.eye(2)), xp.asarray(weights)
        with pytest.raises(InvalidValueError, match="weights must"):
            score_source(rows, weights)
        with pytest.raises(InvalidValueError, match="weights must"):
            product_source(feature_source(rows), rows, weights=weights)
