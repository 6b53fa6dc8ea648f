"""ACC by trying every map, NMI and ARI from their definitions, and the two scores of sizes."""

import itertools
import math

import array_api_strict
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn import metrics as sklearn_metrics

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.clustering.metrics import (
    ClusteringScores,
    churn,
    clustering_scores,
    effective_clusters,
    imbalance_ratio,
    regret,
    uniformity,
)
from dualclust.algos.core.errors import InvalidTypeError, InvalidValueError
from dualclust.algos.offline.assignment import assign_exact
from tests.compare import to_numpy
from tests.problems import best_value, unit_rows

PERFECT = ClusteringScores(1.0, 1.0, 1.0, 1.0, 1.0)


@st.composite
def partitions(draw, max_n=14, max_k=5):
    n = draw(st.integers(1, max_n))
    pair = (draw(arrays(np.int64, n, elements=st.integers(0, max_k - 1))) for _ in range(2))
    return tuple(pair)


def brute_force_accuracy(labels, classes):
    """Best share of agreement over all one-to-one maps of clusters to classes."""
    found, true = np.unique(labels), np.unique(classes)
    most = 0
    if len(found) <= len(true):
        for images in itertools.permutations(true, len(found)):
            mapping = dict(zip(found, images, strict=True))
            most = max(most, sum(mapping[y] == t for y, t in zip(labels, classes, strict=True)))
    else:
        for images in itertools.permutations(found, len(true)):
            mapping = dict(zip(images, true, strict=True))
            hits = sum(mapping.get(y) == t for y, t in zip(labels, classes, strict=True))
            most = max(most, hits)
    return most / len(labels)


def entropy(labels):
    return -math.fsum(
        q * math.log(q) for q in (np.unique(labels, return_counts=True)[1] / len(labels))
    )


def mutual_information(labels, classes):
    n = len(labels)
    total = 0.0
    for y, t in itertools.product(np.unique(labels), np.unique(classes)):
        joint = np.mean((labels == y) & (classes == t))
        if joint:
            total += joint * math.log(joint * n * n / ((labels == y).sum() * (classes == t).sum()))
    return total


def pair_counting_ari(labels, classes):
    """From the definition: agreements over pairs, less their mean, over the most possible."""
    pairs = list(itertools.combinations(range(len(labels)), 2))
    same = [labels[i] == labels[j] for i, j in pairs]
    true = [classes[i] == classes[j] for i, j in pairs]
    both = sum(a and b for a, b in zip(same, true, strict=True))
    a, b = sum(same), sum(true)
    expected = a * b / len(pairs) if pairs else 0.0
    most = (a + b) / 2
    return 1.0 if most == expected else (both - expected) / (most - expected)


@given(partitions())
def test_accuracy_is_the_best_over_all_maps(pair):
    assert clustering_scores(*pair).acc == pytest.approx(brute_force_accuracy(*pair), abs=1e-15)


@given(partitions())
def test_information_and_pairs_are_those_of_the_definitions(pair):
    found = clustering_scores(*pair)
    h = [entropy(side) for side in pair]
    information = mutual_information(*pair)
    if min(h) > 0:
        assert found.nmi == pytest.approx(2 * information / sum(h), abs=1e-9)
        assert found.nmi_geometric == pytest.approx(information / math.sqrt(h[0] * h[1]), abs=1e-9)
    assert found.ari == pytest.approx(pair_counting_ari(*pair), abs=1e-12)


@given(partitions())
def test_ranges_and_symmetry(pair):
    one, other = clustering_scores(*pair), clustering_scores(*reversed(pair))
    assert one == pytest.approx(other, abs=1e-9)
    assert 1 / len(pair[0]) <= one.acc <= 1
    assert -1e-12 <= one.nmi <= 1 + 1e-12
    assert one.nmi <= one.nmi_geometric + 1e-9  # arithmetic mean >= geometric mean
    assert -0.5 <= one.ari <= 1
    assert one.ami <= 1 + 1e-12


@given(partitions(), st.permutations(range(5)), st.permutations(range(5)))
def test_names_of_clusters_and_classes_do_not_matter(pair, map_a, map_b):
    renamed = np.array(map_a)[pair[0]] * 7 - 3, np.array(map_b)[pair[1]] + 1000
    assert clustering_scores(*renamed) == pytest.approx(clustering_scores(*pair), abs=1e-9)


@given(partitions(), st.randoms(use_true_random=False))
def test_the_order_of_samples_does_not_matter(pair, random):
    order = list(range(len(pair[0])))
    random.shuffle(order)
    moved = clustering_scores(*(side[order] for side in pair))
    assert moved == pytest.approx(clustering_scores(*pair), abs=1e-9)


def test_the_five_figures_are_those_of_scikit_learn(rng):
    labels, classes = rng.integers(0, 12, size=500), rng.integers(0, 7, size=500)
    found = clustering_scores(labels, classes)
    assert found.nmi == sklearn_metrics.normalized_mutual_info_score(classes, labels)
    assert found.ari == sklearn_metrics.adjusted_rand_score(classes, labels)
    assert found.ami == sklearn_metrics.adjusted_mutual_info_score(classes, labels)


def test_a_perfect_clustering_under_other_names(rng):
    classes = rng.integers(0, 10, size=300)
    names = rng.permutation(10)
    assert clustering_scores(names[classes], classes) == pytest.approx(PERFECT, abs=1e-12)
    # Exactly, also where the formulas are a rounding away.
    in_turn = np.arange(17) % 3
    assert clustering_scores((in_turn + 1) % 3, in_turn) == PERFECT


def test_splitting_each_class_in_two_keeps_half_of_the_accuracy():
    classes = np.repeat(np.arange(4), 10)
    labels = np.arange(40) // 5
    found = clustering_scores(labels, classes)
    assert found.acc == 0.5
    assert found.nmi == pytest.approx(2 * math.log(4) / (math.log(4) + math.log(8)))
    assert found.nmi_geometric == pytest.approx(math.sqrt(math.log(4) / math.log(8)))


@pytest.mark.parametrize(
    ("labels", "classes", "expected"),
    [
        ([0], [0], PERFECT),
        ([3, 3, 3], [1, 1, 1], PERFECT),
        ([0, 0, 0, 0], [0, 1, 0, 1], ClusteringScores(0.5, 0.0, 0.0, 0.0, 0.0)),
        ([0, 1, 2, 3], [0, 0, 0, 0], ClusteringScores(0.25, 0.0, 0.0, 0.0, 0.0)),
        ([0, 1, 2, 3], [3, 2, 1, 0], PERFECT),
    ],
)
def test_degenerate_partitions(labels, classes, expected):
    found = clustering_scores(np.array(labels), np.array(classes))
    assert found == pytest.approx(expected, abs=1e-12)
    assert all(isinstance(value, float) for value in found)


def test_any_library_in_any_combination(xp):
    labels, classes = np.array([0, 0, 1, 1, 2, 2]), np.array([1, 1, 0, 0, 0, 2])
    expected = clustering_scores(labels, classes)
    assert clustering_scores(xp.asarray(labels), xp.asarray(classes)) == expected
    assert clustering_scores(xp.asarray(labels), torch.from_numpy(classes)) == expected
    assert clustering_scores(array_api_strict.asarray(labels), xp.asarray(classes)) == expected


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint64", "bool"])
def test_any_integer_dtype(dtype):
    labels, classes = np.array([0, 0, 1, 1, 1]), np.array([1, 1, 0, 0, 1])
    expected = clustering_scores(labels, classes)
    assert clustering_scores(labels.astype(dtype), classes) == expected
    if dtype != "uint64":
        narrow = torch.from_numpy(labels).to(getattr(torch, dtype))
        assert clustering_scores(narrow, classes) == expected


def test_other_dtypes_lengths_and_no_sample_are_refused(xp):
    y = xp.asarray([0, 1, 1])
    with pytest.raises(InvalidTypeError, match="labels must have an integer dtype, got float64"):
        clustering_scores(xp.asarray([0.0, 1.0, 1.0]), y)
    with pytest.raises(InvalidTypeError, match="classes must have an integer dtype, got float32"):
        clustering_scores(y, xp.asarray([0.0, 1.0, 1.0], "float32"))
    with pytest.raises(InvalidValueError, match=r"classes must have shape \(3,\), got \(2,\)"):
        clustering_scores(y, xp.asarray([0, 1]))
    with pytest.raises(InvalidValueError, match=r"labels must have shape \(n,\), got \(1, 3\)"):
        clustering_scores(xp.asarray([[0, 1, 1]]), y)
    empty = xp.asarray(np.zeros(0, np.int64))
    with pytest.raises(InvalidValueError, match="labels must not be empty"):
        clustering_scores(empty, empty)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([7], 1.0),
        ([5, 5, 5, 5], 4.0),
        ([0, 9, 0], 1.0),
        ([3, 0, 3], 2.0),
        ([1, 3], math.exp(-(0.25 * math.log(0.25) + 0.75 * math.log(0.75)))),
        ([10**15, 10**15], 2.0),
    ],
)
def test_effective_clusters(xp, counts, expected):
    assert effective_clusters(xp.asarray(counts)) == pytest.approx(expected, rel=1e-14)


@given(arrays(np.int64, 6, elements=st.integers(0, 50)).filter(lambda c: c.sum() > 0))
def test_effective_clusters_lie_between_one_and_the_nonempty(counts):
    found = effective_clusters(counts)
    assert 1 - 1e-12 <= found <= np.count_nonzero(counts) + 1e-12
    assert found == pytest.approx(math.exp(entropy(np.repeat(np.arange(6), counts))))


def test_effective_clusters_need_a_sample(xp):
    with pytest.raises(InvalidValueError, match="counts must not all be 0"):
        effective_clusters(xp.asarray([0, 0]))


def test_churn_is_the_share_of_changed_labels(xp):
    a, b = xp.asarray([0, 1, 2, 3]), xp.asarray([0, 1, 0, 3])
    assert churn(a, b) == churn(b, a) == 0.25
    assert churn(a, a) == 0.0
    assert churn(a, xp.asarray(to_numpy(a) + 1)) == 1.0
    empty = xp.asarray(np.zeros(0, np.int64))
    assert churn(empty, empty) == 0.0
    with pytest.raises(InvalidValueError, match=r"previous must have shape \(4,\), got \(3,\)"):
        churn(a, xp.asarray([0, 1, 2]))


@pytest.mark.parametrize(
    ("counts", "expected"),
    [([7], 1.0), ([5, 5, 5], 1.0), ([0, 9, 3], 0.0), ([3, 9, 4], 1 / 3), ([1, 2**62], 2.0**-62)],
)
def test_imbalance_is_the_smallest_over_the_largest_size(xp, counts, expected):
    assert imbalance_ratio(xp.asarray(counts)) == expected


def test_imbalance_needs_a_sample(xp):
    with pytest.raises(InvalidValueError, match="counts must not all be 0"):
        imbalance_ratio(xp.asarray([0, 0]))
    with pytest.raises(InvalidValueError, match=r"counts must have shape \(k,\)"):
        imbalance_ratio(xp.asarray([[1, 2]]))


def test_regret_against_the_best_of_all_labels(xp, rng):
    scores, labels = rng.normal(size=(6, 3)), np.array([0, 1, 2, 0, 1, 2])
    best = best_value(scores, np.array([2, 2, 2]), np.array([2, 2, 2]))
    found = regret(xp.asarray(scores), xp.asarray(labels), best)
    assert found == pytest.approx((best - scores[np.arange(6), labels].sum()) / 6)
    assert found > 0.0
    bounds = SizeBounds.from_counts(
        [2] * 3, [2] * 3, n_samples=6, xp=xp.namespace, device=xp.device
    )
    exact = assign_exact(xp.asarray(scores), xp.freeze(bounds))
    assert regret(xp.asarray(scores), exact.labels, best) == pytest.approx(0.0, abs=1e-12)


def test_regret_refused(xp):
    scores, labels = xp.asarray(np.zeros((2, 2))), xp.asarray([0, 1])
    with pytest.raises(InvalidValueError, match="best must lie in"):
        regret(scores, labels, math.nan)
    with pytest.raises(InvalidValueError, match="at least one row"):
        regret(scores[:0, :], labels[:0], 0.0)
    with pytest.raises(InvalidValueError, match=r"labels must lie in \[0, 2\)"):
        regret(scores, labels + 1, 0.0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_uniformity_is_the_mean_deviation_of_unit_rows(xp, rng, dtype):
    x = (rng.normal(size=(50, 7)) + 1.0).astype(dtype)
    unit = unit_rows(x.astype(np.float64))
    columns = [math.sqrt(np.mean([(v - c.mean()) ** 2 for v in c])) for c in unit.T]
    assert uniformity(xp.asarray(x)) == pytest.approx(math.fsum(columns) / 7, rel=1e-12)


@given(st.integers(1, 30), st.integers(1, 8), st.integers(0, 2**32), st.floats(0.0, 50.0))
def test_uniformity_lies_between_collapse_and_the_sphere(n, d, seed, shift):
    x = np.random.default_rng(seed).normal(size=(n, d)) + shift
    assert 0.0 <= uniformity(x) <= d**-0.5 + 1e-12
    assert uniformity(np.repeat(x[:1], 5, axis=0)) == pytest.approx(0.0, abs=1e-15)


def test_uniformity_of_rows_all_over_the_sphere():
    x = np.random.default_rng(0).normal(size=(20_000, 16))
    assert uniformity(x) == pytest.approx(0.25, rel=1e-2)
    assert uniformity(x + 3.0) < 0.15


def test_uniformity_refused(xp):
    with pytest.raises(InvalidValueError, match="at least one row and column"):
        uniformity(xp.asarray(np.zeros((0, 3))))
    with pytest.raises(InvalidValueError, match="features must be finite"):
        uniformity(xp.asarray([[math.nan, 1.0]]))
    with pytest.raises(InvalidTypeError, match="real floating"):
        uniformity(xp.asarray([[1, 2]]))
