"""The checker of the Label Feature Theorem against loops over all features of a grid."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from dualclust.algos.core.errors import InvalidTypeError, InvalidValueError
from dualclust.algos.losses.gatcluster.relations import relation_matrix, usable_labels
from dualclust.algos.theory.equivalence import check_relations
from dualclust.algos.theory.label_features import (
    check_label_features,
    label_feature_value,
    polygon_map,
)
from tests.compare import assert_close, assert_equal, to_numpy
from tests.problems import symmetric_relations
from tests.refusals import message_of


def loop_value(features, relations):
    """Eq. 2 in Python floats; 0 log 0 = 0."""
    total = 0.0
    for i, a in enumerate(features):
        for j, b in enumerate(features):
            dot = math.fsum(p * q for p, q in zip(a, b, strict=True))
            d = dot / math.sqrt(math.fsum(p * p for p in a) * math.fsum(q * q for q in b))
            d = 1.0 if abs(d - 1.0) < 1e-12 else d
            q = d if relations[i][j] else 1.0 - d
            total += math.inf if q <= 0 else -math.log(q)
        total -= math.fsum(p * p for p in a)
    return total


def grid_points(k, parts):
    """All points of the simplex whose entries are multiples of 1 / parts."""
    every = itertools.product(range(parts + 1), repeat=k)
    return np.array([p for p in every if sum(p) == parts], dtype=float) / parts


def of_labels(labels):
    return np.equal.outer(labels, labels).astype(np.int64)


# The theorem -----------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_bound_is_attained_exactly_under_the_repaired_hypotheses(n, k):
    points = grid_points(k, 3 if n == k == 3 else 4)  # n products of them all
    for r in symmetric_relations(n):
        holds = not check_relations(r, k).broken
        optima = []
        for index in itertools.product(range(len(points)), repeat=n):
            features = points[list(index)]
            if not (features.sum(axis=0) > 0).all():
                continue
            value = label_feature_value(features, r)
            assert value >= -n - 1e-12
            if value <= -n + 1e-9:
                optima.append(features)
        assert bool(optima) == holds
        assert len(optima) == (math.factorial(k) if holds else 0)
        for features in optima:
            report = check_label_features(features, r)
            assert report.hypotheses_hold
            assert report.attained
            assert report.one_hot
            assert report.separated
            assert report.n_distinct == k


@pytest.mark.parametrize("labels", [[0, 1, 2, 1, 0], [0, 0, 1, 2, 3, 3], [0], [0, 0]])
def test_all_relabelings_are_accepted(xp, labels):
    k = max(labels) + 1
    r = xp.asarray(of_labels(labels))
    for order in itertools.permutations(range(k)):
        features = xp.asarray(np.eye(k)[np.array(order)[labels]])
        report = check_label_features(features, r)
        assert report.value == report.lower_bound == -len(labels)
        assert report.broken == ()
        assert report[5:9] == (True, True, True, k)


def test_each_report_is_that_of_the_loops_over_a_grid():
    points = grid_points(2, 4)
    for r in symmetric_relations(3):
        for index in itertools.product(range(len(points)), repeat=3):
            features = points[list(index)]
            report = check_label_features(features, r)
            one_hot = bool((features.max(axis=1) == 1).all())
            separated = all(
                bool((features[i] == features[j]).all()) == bool(r[i, j])
                for i, j in itertools.product(range(3), repeat=2)
            )
            value = loop_value(features.tolist(), r.tolist())
            assert report.value == pytest.approx(value, rel=1e-12, abs=1e-12)
            assert report.attained == (report.value <= -3 + 1e-9)
            assert report.one_hot == one_hot
            assert report.separated == separated
            assert report.n_distinct == len({tuple(f) for f in features.tolist()})
            assert report.nonempty == bool((features.sum(axis=0) > 0).all())
            assert report.simplex


def test_constraints_that_fail_are_named(xp):
    r = xp.asarray(of_labels([0, 1]))
    off = check_label_features(xp.asarray([[1.0, 0.0], [0.5, 1.0]]), r)
    assert not off.simplex
    assert off.broken == ("row 1 is not on the simplex: it sums to 1.5, with least entry 0.5",)
    negative = check_label_features(xp.asarray([[1.0, 0.0], [-0.5, 1.5]]), r)
    assert negative.broken == ("row 1 is not on the simplex: it sums to 1, with least entry -0.5",)
    empty = check_label_features(xp.asarray([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]), r)
    assert not empty.nonempty
    assert empty.broken[-1] == "cluster 1 is empty: p_h = 0"
    assert empty.broken[0].startswith("r has 2 classes, fewer than k = 3")
    assert empty.attained  # but not by a feasible point
    assert not empty.hypotheses_hold


def test_a_tolerance_serves_features_of_a_softmax(xp):
    labels = [0, 1, 2, 2]
    logits = np.where(np.eye(3)[labels] > 0, 0.0, -12.0)
    features = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    r = xp.asarray(of_labels(labels))
    strict = check_label_features(xp.asarray(features), r)
    loose = check_label_features(xp.asarray(features), r, tol=1e-4)
    assert (strict.attained, strict.one_hot) == (False, False)
    assert (loose.attained, loose.one_hot, loose.n_distinct) == (True, True, 3)
    assert strict.value > strict.lower_bound


def test_blocks_of_rows_change_nothing(xp, monkeypatch):
    labels = np.arange(50) % 4
    logits = np.random.default_rng(0).normal(size=(50, 4))
    features = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    whole = check_label_features(xp.asarray(features), xp.asarray(of_labels(labels)))
    monkeypatch.setattr("dualclust.algos.theory.label_features._BLOCK_ENTRIES", 1000)
    parts = check_label_features(xp.asarray(features), xp.asarray(of_labels(labels)))
    assert parts._replace(value=0.0) == whole._replace(value=0.0)
    assert parts.value == pytest.approx(whole.value, rel=1e-13)


# What the printed theorem and its proof say ----------------------------------------------------


def test_erratum_more_classes_than_clusters_have_an_optimum_that_is_not_one_hot():
    # N = 3, k = 2, every sample on its own: the best of the grid is (1,0), (.5,.5), (0,1).
    points, r = grid_points(2, 20), np.eye(3)
    values = {}
    for index in itertools.product(range(len(points)), repeat=3):
        if (points[list(index)].sum(axis=0) > 0).all():
            values[index] = label_feature_value(points[list(index)], r)
    best = min(values, key=values.__getitem__)
    assert values[best] == pytest.approx(2.41, abs=0.005)
    assert {tuple(p) for p in points[list(best)]} == {(1.0, 0.0), (0.5, 0.5), (0.0, 1.0)}
    report = check_label_features(points[list(best)], r)
    assert not report.one_hot
    assert "more than k = 2" in report.broken[0]


@pytest.mark.parametrize(("delta", "expected"), [(0.2, -3.040), (0.1, -3.361), (0.01, -3.923)])
def test_erratum_fewer_classes_than_clusters_approach_the_bound_and_are_not_one_hot(
    delta, expected
):
    # N = 4, k = 3, two classes, p_h >= delta: the open constraint made closed.
    r = of_labels([0, 0, 1, 1])

    def value(flat):
        x = np.clip(flat.reshape(4, 3), 1e-12, 1.0)
        y = x / np.linalg.norm(x, axis=1, keepdims=True)
        d = np.clip(y @ y.T, 1e-12, 1 - 1e-12)
        return -np.where(r > 0, np.log(d), np.log(1 - d)).sum() - (x * x).sum()

    rng, found = np.random.default_rng(0), []
    limits = [
        {"type": "eq", "fun": lambda f: f.reshape(4, 3).sum(axis=1) - 1.0},
        {"type": "ineq", "fun": lambda f: f.reshape(4, 3).mean(axis=0) - delta},
    ]
    start = np.array([[1.0, 0, 0], [1, 0, 0], [0, 1 - 2 * delta, 2 * delta]])[[0, 1, 2, 2]]
    for _ in range(6):
        x0 = 0.9 * start + 0.1 * rng.dirichlet(np.ones(3), size=4)
        result = minimize(
            value,
            x0.ravel(),
            bounds=[(0, 1)] * 12,
            constraints=limits,
            method="SLSQP",
            options={"maxiter": 500, "ftol": 1e-12},
        )
        if result.success:
            found.append((result.fun, result.x.reshape(4, 3)))
    best, features = min(found, key=lambda pair: pair[0])
    assert best == pytest.approx(expected, abs=0.002)
    assert (1.0 - (features**2).sum(axis=1)).max() > delta
    assert check_label_features(features, r, tol=1e-6).value > -4.0


def test_erratum_a_relation_that_is_not_transitive_has_no_attained_bound():
    r = np.array([[1, 1, 0], [1, 1, 1], [0, 1, 1]])
    points = grid_points(2, 8)
    values = [
        label_feature_value(points[list(index)], r)
        for index in itertools.product(range(len(points)), repeat=3)
    ]
    assert min(values) > -2.5
    assert check_relations(r, 2).triple == (0, 1, 2)


def test_erratum_the_nonempty_constraint_does_not_exclude_collapse_of_estimated_relations(xp):
    values = []
    for eps in (1e-1, 1e-3, 1e-6, 1e-9):
        features = np.array([[1.0 - eps, eps]] * 5)
        # k-means on equal features: one cluster, hence r = 1 everywhere.
        report = check_label_features(xp.asarray(features), xp.asarray(np.ones((5, 5))), tol=0.0)
        assert report.nonempty
        assert "fewer than k = 2" in report.broken[0]
        values.append(report.value)
    assert values == sorted(values, reverse=True)
    assert values[-1] == pytest.approx(-5.0, abs=1e-7)


def test_erratum_equal_features_are_no_optimum_of_fixed_relations_but_of_estimated_ones(xp):
    # Appendix B calls l_i = (1, 0, 0) for all i optimal. With r fixed and two classes it is worst.
    same = xp.asarray(np.eye(3)[[0, 0, 0, 0]])
    assert label_feature_value(same, xp.asarray(of_labels([0, 0, 1, 1]))) == math.inf
    assert label_feature_value(same, xp.asarray(of_labels([0, 0, 0, 0]))) == -4.0


def test_erratum_the_opposite_of_all_rows_one_hot_is_some_row_not():
    # Appendix C negates "every row is one-hot" to "every entry of every row is below 1".
    features = np.array([[1.0, 0.0], [0.5, 0.5]])
    all_one_hot = bool((features.max(axis=1) == 1).all())
    printed_opposite = bool((features < 1).all())
    assert not all_one_hot
    assert not printed_opposite  # neither holds: one is not the negation of the other
    # "l^2 < l" fails at 0, which every one-hot row has; row by row it is l . l <= 1.
    assert not (features**2 < features).all()
    for point in grid_points(3, 8):
        assert (point @ point == 1.0) == (point.max() == 1.0)


def test_erratum_the_second_line_of_a3_lacks_its_squares():
    a, b = np.array([0.6, 0.8]), np.array([1.0, 0.0])
    left = ((a - b) ** 2).sum()
    printed = (a + b - 2 * a * b).sum()
    repaired = (a**2 + b**2 - 2 * a * b).sum()
    assert left == pytest.approx(repaired)
    assert left != pytest.approx(printed)


def test_erratum_equal_directions_are_equal_rows_on_the_simplex_only(xp):
    # A9 concludes l_i = l_j from y_i = y_j, which is A12's and needs ||l||_1 = 1; the appendix
    # prints ||l||_2 = 1, which leaves of the simplex its corners, and 0 <= l <= 0, which leaves
    # nothing of it.
    r = xp.asarray(np.ones((2, 2)))
    report = check_label_features(xp.asarray([[1.0, 0.0], [2.0, 0.0]]), r)
    assert not report.separated
    assert report.value == -5.0  # below -N: the simplex is what makes -N a bound
    assert report.broken[1].startswith("row 1 is not on the simplex")
    points = grid_points(3, 8)
    corners = points[np.isclose(np.linalg.norm(points, axis=1), 1.0)]
    assert {tuple(p) for p in corners} == {tuple(p) for p in np.eye(3)}
    assert not (points <= 0).all(axis=1).any()


def test_erratum_the_guard_of_the_released_code_breaks_a_hypothesis(xp):
    labels = usable_labels(xp.asarray([0, 0, 0, 0, 0]), 2)
    report = check_relations(relation_matrix(labels), 2)
    assert report.n_classes == 5
    assert report.broken[0].startswith("r has 5 classes, more than k = 2")


def test_erratum_unrelated_rows_may_differ_without_being_one_hot_for_fewer_classes():
    # |{l}| is the number of classes; one-hot follows only where that is k (claim G3).
    features = np.array([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
    report = check_label_features(features, of_labels([0, 0, 1]))
    assert report.separated
    assert report.n_distinct == 2
    assert not report.one_hot
    assert not report.attained


# The polygon map -------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("k", [1, 2, 3, 4, 10])
def test_the_polygon_map_is_its_loop(xp, rng, k, dtype):
    features = rng.dirichlet(np.ones(k), size=(2, 5)).astype(dtype)
    expected = np.zeros((2, 5, 2))
    for at in np.ndindex(2, 5):
        for h in range(1, k + 1):
            expected[at][0] += features[at][h - 1] * math.sin(2 * math.pi * h / k)
            expected[at][1] += features[at][h - 1] * math.cos(2 * math.pi * h / k)
    found = polygon_map(xp.asarray(features))
    atol = 2e-6 if dtype == "float32" else 1e-14
    assert_close(found, xp.asarray(expected.astype(dtype)), rtol=0.0, atol=atol)


@pytest.mark.parametrize("k", [2, 3, 10])
def test_one_hot_vectors_are_the_corners(xp, k):
    v = to_numpy(polygon_map(xp.asarray(np.eye(k))))
    z = v[:, 1] + 1j * v[:, 0]
    np.testing.assert_allclose(z**k, 1.0, atol=1e-12)
    assert len(np.unique(z.round(6))) == k


def test_the_polygon_map_is_affine_and_not_injective_from_four_on(xp, rng):
    a, b = rng.dirichlet(np.ones(5), size=2)
    mixed = polygon_map(xp.asarray(0.3 * a + 0.7 * b))
    parts = 0.3 * polygon_map(xp.asarray(a)) + 0.7 * polygon_map(xp.asarray(b))
    assert_close(mixed, parts, rtol=1e-12, atol=1e-15)
    same = to_numpy(polygon_map(xp.asarray([[0.5, 0.0, 0.5, 0.0], [0.0, 0.5, 0.0, 0.5]])))
    np.testing.assert_allclose(same, 0.0, atol=1e-15)


def test_the_polygon_map_of_tensors():
    x = torch.rand(3, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(polygon_map, (x,))
    half = x.detach().half()
    assert_equal(polygon_map(half), polygon_map(half.float()))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert_equal(polygon_map(half.float()), polygon_map(half))
    assert polygon_map(torch.zeros(3, 4, device="meta")).shape == (3, 2)


# What is refused -------------------------------------------------------------------------------


def test_arguments_are_checked(xp):
    features, r = xp.asarray(np.eye(3)), xp.asarray(np.eye(3))
    text = message_of(
        InvalidValueError, check_label_features, features, xp.asarray(0.5 * np.eye(3))
    )
    wrong = "relations must hold 0 and 1, got 0.5 at index (0, 0)"
    assert text == f"{wrong}. To fix this, pass truth values"
    with pytest.raises(InvalidValueError, match=r"relations must have shape \(3, 3\), got \(2, 2"):
        check_label_features(features, r[:2, :2])
    with pytest.raises(InvalidValueError, match="features must have at least one row"):
        check_label_features(features[:, :0], r)
    with pytest.raises(InvalidValueError, match=r"features must be finite, got nan at index"):
        check_label_features(xp.asarray(np.full((3, 3), np.nan)), r)
    with pytest.raises(InvalidValueError, match=r"tol must lie in \[0, 0.1\]"):
        check_label_features(features, r, tol=1.0)
    with pytest.raises(InvalidTypeError, match="features must have a real floating dtype"):
        label_feature_value(xp.asarray(np.eye(3, dtype=np.int64)), r)
    with pytest.raises(InvalidValueError, match=r"features must have shape \(\.\.\., k\)"):
        polygon_map(xp.asarray(np.zeros((3, 0))))
