"""The checker of the Label Feature Theorem: verdicts that no renaming changes, and true triples."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dualclust.algos.theory.equivalence import check_relations
from dualclust.algos.theory.label_features import (
    check_label_features,
    label_feature_value,
    polygon_map,
)
from tests.compare import to_numpy
from tests.examples import examples


@st.composite
def labelings(draw, max_n=7, max_c=4):
    """Labels of n samples in which each of c clusters has one."""
    c = draw(st.integers(1, max_c))
    rest = draw(st.lists(st.integers(0, c - 1), max_size=max_n - c))
    return np.array(draw(st.permutations([*range(c), *rest])), dtype=np.int64), c


@st.composite
def simplex_rows(draw, n, k):
    """Rows of the simplex, multiples of 1/16 or one-hot; no cluster is promised to be filled."""
    cuts = np.sort(draw(arrays(np.int64, (n, k - 1), elements=st.sampled_from([0, 3, 8, 16]))), 1)
    edges = np.concatenate([np.zeros((n, 1)), cuts, np.full((n, 1), 16)], axis=1)
    return np.diff(edges, axis=1) / 16.0


@given(case=labelings(), k=st.integers(1, 5), data=st.data())
@examples(40)
def test_a_labeling_is_accepted_iff_it_has_k_clusters(xp, case, k, data):
    labels, c = case
    r = np.equal.outer(labels, labels)
    report = check_relations(xp.asarray(r), k)
    assert (report.n_classes, report.transitive) == (c, True)
    assert bool(report.broken) == (c != k)
    if c <= k:
        names = np.array(data.draw(st.permutations(range(k))))
        found = check_label_features(xp.asarray(np.eye(k)[names[labels]]), xp.asarray(r))
        assert found.value == -len(labels)
        assert (found.one_hot, found.separated, found.n_distinct) == (True, True, c)
        assert (found.attained, found.hypotheses_hold) == (True, c == k)


@given(n=st.integers(1, 8), data=st.data())
@examples(60)
def test_any_relation_is_judged_by_the_definition(xp, n, data):
    r = data.draw(arrays(np.bool_, (n, n))) | np.eye(n, dtype=bool)
    if data.draw(st.booleans()):
        r = r | r.T
    report = check_relations(xp.asarray(r), n)
    steps = (r.astype(int) @ r.astype(int)) > 0
    assert report.symmetric == bool((r == r.T).all())
    assert report.transitive == (report.symmetric and bool((steps <= r).all()))
    if report.symmetric and not report.transitive:
        i, j, h = report.triple
        assert r[i, j]
        assert r[j, h]
        assert not r[i, h]
        assert f"r[{i}, {j}] = r[{j}, {h}] = 1, but r[{i}, {h}] = 0" in report.broken[0]


@given(case=labelings(), data=st.data())
@examples(60)
def test_one_changed_pair_is_found(xp, case, data):
    labels, c = case
    r = np.equal.outer(labels, labels)
    if len(labels) < 3:
        return
    i = data.draw(st.integers(0, len(labels) - 1))
    j = data.draw(st.integers(0, len(labels) - 1).filter(lambda j: j != i))
    changed = r.copy()
    changed[i, j] ^= True
    lopsided = check_relations(xp.asarray(changed), c)
    assert not lopsided.symmetric
    assert lopsided.broken[0].startswith("r is not symmetric")
    changed[j, i] ^= True
    report = check_relations(xp.asarray(changed), c)
    if report.transitive:  # two of three alone, joined or parted: another partition
        assert report.n_classes == c + (1 if r[i, j] else -1)
        assert report.broken
    else:
        a, b, h = report.triple
        assert {i, j} <= {a, b, h}


@given(case=labelings(max_n=6, max_c=3), k=st.integers(2, 4), data=st.data())
@examples(60)
def test_no_value_is_below_minus_n_and_only_the_theorem_reaches_it(xp, case, k, data):
    labels, _ = case
    features = data.draw(simplex_rows(len(labels), k))
    r = np.equal.outer(labels, labels)
    report = check_label_features(xp.asarray(features), xp.asarray(r))
    assert report.value >= report.lower_bound - 1e-9
    assert report.attained == (report.value <= report.lower_bound + 1e-9)
    if report.attained and report.nonempty:
        assert report.hypotheses_hold
        assert report.one_hot
        assert report.separated
        assert report.n_distinct == k


@given(case=labelings(max_n=6, max_c=3), k=st.integers(2, 4), data=st.data())
@examples(40)
def test_order_and_names_do_not_matter(xp, case, k, data):
    labels, _ = case
    features = data.draw(simplex_rows(len(labels), k))
    r = np.equal.outer(labels, labels)
    rows = np.array(data.draw(st.permutations(range(len(labels)))))
    columns = np.array(data.draw(st.permutations(range(k))))
    before = check_label_features(xp.asarray(features), xp.asarray(r))
    after = check_label_features(
        xp.asarray(features[rows][:, columns]), xp.asarray(r[rows][:, rows])
    )
    assert after.value == pytest.approx(before.value, rel=1e-11, abs=1e-11)
    for name in ("simplex", "nonempty", "attained", "one_hot", "separated", "n_distinct"):
        assert getattr(after, name) == getattr(before, name)
    # Cosines do not know the length of a row, and the second sum is quadratic in it.
    halved = label_feature_value(xp.asarray(0.5 * features), xp.asarray(r))
    cost = before.value + (features**2).sum()
    assert halved == pytest.approx(cost - 0.25 * (features**2).sum(), rel=1e-11, abs=1e-11)


@given(k=st.integers(1, 9), shift=st.integers(0, 8), data=st.data())
@examples(40)
def test_the_polygon_holds_every_point_and_turns_with_the_clusters(xp, k, shift, data):
    features = data.draw(simplex_rows(4, k))
    v = to_numpy(polygon_map(xp.asarray(features)))
    assert (np.hypot(v[:, 0], v[:, 1]) <= 1.0 + 1e-12).all()
    turned = to_numpy(polygon_map(xp.asarray(np.roll(features, shift, axis=1))))
    z, w = (p[:, 1] + 1j * p[:, 0] for p in (v, turned))
    np.testing.assert_allclose(w, z * np.exp(2j * np.pi * shift / k), atol=1e-12)


@st.composite
def finite_cases(draw):
    n, k = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    top = draw(st.sampled_from([1.0, 1e300]))
    entry = st.one_of(st.floats(-top, top), st.sampled_from([0.0, 1.0, top, 5e-324]))
    return draw(arrays(np.float64, (n, k), elements=entry)), draw(arrays(np.bool_, (n, n)))


def judge_finite(xp, case):
    features, r = case
    x = xp.asarray(features)
    with np.errstate(over="ignore"):  # squares of 1e300, whose sum is rightly infinite
        report = check_label_features(x, xp.asarray(r))
    assert not np.isnan(report.value)
    assert np.isfinite(to_numpy(polygon_map(x))).all()


@given(case=finite_cases())
@examples(40)
def test_no_finite_input_gives_nan(xp, case):
    judge_finite(xp, case)


@pytest.mark.slow
@given(case=finite_cases())
@settings(max_examples=10_000)
def test_no_finite_input_gives_nan_at_length(xp, case):
    judge_finite(xp, case)
