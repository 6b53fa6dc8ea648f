"""Proofs that no sizes exist: those by hand are accepted, changed ones are refused."""

import copy
import pickle

import numpy as np
import pytest

from dualclust.algos.bounds.farkas import FarkasVector, verify_infeasibility
from dualclust.algos.bounds.forbidden_pairs import check_feasible, feasibility
from dualclust.algos.bounds.infeasibility import explain
from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.core.errors import InfeasibleBoundsError, InvalidTypeError, InvalidValueError
from tests.compare import assert_equal, assert_same_kind, to_numpy
from tests.refusals import assert_refused

CHAIN = [[1, 0, 0], [1, 1, 0], [0, 1, 1], [0, 0, 1]]

PROOFS = {
    "lower bounds": ([3, 0, 4], [9, 9, 9], 5, FarkasVector((1, 0, 1), (0, 0, 0), 7, 5)),
    "upper bounds": ([0, 0], [2, 2], 5, FarkasVector((0, 0), (1, 1), -4, -5)),
    "crossed": ([0, 3], [9, 2], 5, FarkasVector((0, 1), (0, 1), 1, 0)),
    "reach": ([0, 0, 3], [4, 4, 4], CHAIN, FarkasVector((0, 0, 1), (0, 0, 0), 3, 2)),
    "confined": ([0, 0, 0], [1, 0, 4], CHAIN, FarkasVector((0, 0, 0), (1, 1, 0), -1, -2)),
    "no cluster": ([0, 0], [9, 9], [[1, 1], [0, 0]], FarkasVector((0, 0), (0, 0), 0, None, 1)),
}


@pytest.mark.parametrize("name", PROOFS)
def test_proofs_by_hand_are_accepted(xp, name):
    lower, upper, samples, vector = PROOFS[name]
    assert verify_infeasibility(lower, upper, samples, vector)
    if not isinstance(samples, int):
        allowed = xp.asarray(samples, bool)
        assert verify_infeasibility(lower, upper, allowed, vector)
    assert verify_infeasibility(xp.asarray(lower), xp.asarray(upper), samples, vector)
    assert vector.excess > 0


@pytest.mark.parametrize("name", [name for name in PROOFS if isinstance(PROOFS[name][2], int)])
def test_a_number_and_a_full_matrix_mean_the_same(name):
    lower, upper, samples, vector = PROOFS[name]
    full = np.ones((samples, len(lower)), bool)
    assert verify_infeasibility(lower, upper, full, vector)
    assert not verify_infeasibility(lower, upper, full, vector._replace(required=-samples - 99))


@pytest.mark.parametrize("name", PROOFS)
@pytest.mark.unjudged(reason="its proofs are made by hand")
def test_a_changed_proof_is_refused(name):
    lower, upper, samples, vector = PROOFS[name]
    k = len(lower)
    wrong = [
        vector._replace(required=vector.required + 1),
        vector._replace(required=vector.required - 1),
        vector._replace(available=(vector.available or 0) - 1),
        vector._replace(lower=(-1, *vector.lower[1:])),
        vector._replace(upper=(*vector.upper[:-1], -1)),
        vector._replace(lower=(*vector.lower, 0)),
        vector._replace(lower=tuple(float(v) for v in vector.lower)),
        vector._replace(sample=0),
        FarkasVector((0,) * k, (0,) * k, 0, 0),
        FarkasVector((), (), 0, 0),
    ]
    for other in wrong:
        assert not verify_infeasibility(lower, upper, samples, other), other


@pytest.mark.parametrize("name", PROOFS)
def test_a_proof_proves_nothing_about_feasible_bounds(name):
    _, _, samples, vector = PROOFS[name]
    k = len(vector.lower)
    n = samples if isinstance(samples, int) else np.ones((4, k), bool)
    assert not verify_infeasibility([0] * k, [9] * k, n, vector)


def test_multiples_of_a_proof_are_proofs():
    lower, upper, samples, vector = PROOFS["confined"]
    twice = FarkasVector((0, 0, 0), (2, 2, 0), -2, -4)
    assert verify_infeasibility(lower, upper, samples, twice)
    assert twice.excess == 2 * vector.excess


def test_weights_count_and_do_not_overflow():
    lower, upper = [0, 10**30], [10**31, 10**31]
    vector = FarkasVector((0, 1), (0, 0), 10**30, 10**29)
    allowed = [[True, False], [True, True]]
    assert verify_infeasibility(lower, upper, allowed, vector, weights=[10**30, 10**29])
    assert not verify_infeasibility(lower, upper, allowed, vector, weights=[10**30, 10**30])
    vector = FarkasVector((0, 1), (0, 0), 10**30, 2)
    assert verify_infeasibility(lower, upper, 2, vector, weights=[1, 1])


@pytest.mark.unjudged(reason="its proofs are made by hand")
def test_a_sample_of_weight_zero_needs_no_cluster():
    vector = FarkasVector((0,), (0,), 0, None, 0)
    assert verify_infeasibility([0], [1], [[False]], vector)
    assert not verify_infeasibility([0], [1], [[False]], vector, weights=[0])
    assert feasibility(np.asarray([[False]]), [0], [1], weights=[0]).feasible


@pytest.mark.parametrize(
    ("vector", "text"),
    [
        (PROOFS["lower bounds"][3], "clusters 0 and 2 need at least 7 samples together, "
         "but only 5 may join any of them"),
        (PROOFS["upper bounds"][3], "5 samples may join only clusters 0 and 1, "
         "which take at most 4 together"),
        (PROOFS["crossed"][3], "cluster 1 needs at least 1 samples more than it takes at most"),
        (PROOFS["reach"][3], "cluster 2 needs at least 3 samples, but only 2 may join it"),
        (PROOFS["confined"][3], "2 samples may join only clusters 0 and 1, "
         "which take at most 1 together"),
        (PROOFS["no cluster"][3], "sample 1 may join no cluster"),
        (FarkasVector((2, 0), (0, 1), 5, 3),
         "the bounds of clusters 0 and 1 contradict each other by 2 samples"),
        (FarkasVector((1,) * 13, (0,) * 13, 5, 3),
         "clusters 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 3 more need at least 5 samples together, "
         "but only 3 may join any of them"),
    ],
)  # fmt: skip
def test_one_sentence_names_the_clusters(vector, text):
    assert explain(vector) == text


@pytest.mark.parametrize(
    ("lower", "upper", "n"), [([3, 0, 4], [9, 9, 9], 5), ([0, 0], [2, 2], 5), ([0, 3], [9, 2], 5)]
)
def test_bounds_refuse_with_the_whole_proof(lower, upper, n):
    with pytest.raises(InfeasibleBoundsError) as caught:
        SizeBounds.from_counts(lower, upper, n_samples=n)
    vector = caught.value.vector
    assert verify_infeasibility(lower, upper, n, vector)
    assert vector.excess == caught.value.excess
    assert set(vector.clusters) <= set(caught.value.clusters)
    for clone in (copy.copy(caught.value), pickle.loads(pickle.dumps(caught.value))):
        assert clone.vector == vector


def test_ratios_too_and_a_stream_has_no_whole_numbers():
    with pytest.raises(InfeasibleBoundsError) as caught:
        SizeBounds.from_ratios(3, n_samples=100, lower=1.0, rounding="inward")
    assert verify_infeasibility([34] * 3, [100] * 3, 100, caught.value.vector)
    with pytest.raises(InfeasibleBoundsError) as caught:
        SizeBounds.for_stream(2, lower=0.0, upper=0.9)
    assert caught.value.vector is None


@pytest.mark.parametrize("name", [n for n, p in PROOFS.items() if not isinstance(p[2], int)])
def test_the_proof_is_found(xp, name):
    lower, upper, samples, vector = PROOFS[name]
    found = feasibility(xp.asarray(samples, bool), lower, upper)
    assert not found.feasible
    assert (found.labels, found.counts) == (None, None)
    assert found.vector == vector


def test_labels_are_of_the_kind_of_the_matrix(xp):
    found = feasibility(xp.asarray(CHAIN, bool), [1, 2, 1], [1, 2, 1])
    assert_same_kind(found.labels, xp.asarray(np.zeros(4, np.int64)))
    assert to_numpy(found.labels).tolist() == [0, 1, 1, 2]
    assert found.counts == (1, 2, 1)
    assert found.vector is None


def test_forbidden_scores_are_forbidden_pairs(xp):
    scores = np.where(np.asarray(CHAIN, bool), -5.0, -np.inf)
    found = feasibility(xp.asarray(scores), xp.asarray([1, 2, 1]), xp.asarray([1, 2, 1]))
    assert_equal(found.labels, xp.asarray(np.asarray([0, 1, 1, 2])))
    assert not feasibility(xp.asarray(scores, "float32"), [3, 0, 0], [4, 4, 4]).feasible


def test_weights_may_be_split(xp):
    allowed = xp.asarray([[True, True]], bool)
    found = feasibility(allowed, [1, 1], [1, 1], weights=xp.asarray([2]))
    assert (found.labels, found.counts) == (None, (1, 1))
    found = feasibility(allowed, [1, 1], [1, 1], weights=[3])
    assert explain(found.vector) == (
        "3 samples may join only clusters 0 and 1, which take at most 2 together"
    )


def test_no_sample_at_all():
    none = np.zeros((0, 2), bool)
    assert feasibility(none, [0, 0], [1, 1]).counts == (0, 0)
    found = feasibility(none, [0, 1], [1, 1])
    assert verify_infeasibility([0, 1], [1, 1], none, found.vector)


def test_the_error_carries_the_vector_and_says_it():
    allowed = np.asarray(CHAIN, bool)
    check_feasible(allowed, [1, 2, 1], [1, 2, 1])
    with pytest.raises(InfeasibleBoundsError, match="cluster 2 needs at least 3") as caught:
        check_feasible(allowed, [0, 0, 3], [4, 4, 4])
    error = caught.value
    assert (error.clusters, error.excess) == ((2,), 1)
    assert verify_infeasibility([0, 0, 3], [4, 4, 4], allowed, error.vector)


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"allowed": [[True]]}, InvalidTypeError, "allowed must be an array"),
        ({"allowed": np.ones((2, 2), int)}, InvalidTypeError, "allowed must be boolean"),
        ({"allowed": np.ones(2, bool)}, InvalidValueError, "allowed must have shape"),
        ({"allowed": np.ones((2, 0), bool)}, InvalidValueError, "at least one column"),
        ({"allowed": np.full((2, 2), np.nan)}, InvalidValueError, "must not hold NaN"),
        ({"lower": [0]}, InvalidValueError, "lower must have 2 entries"),
        ({"lower": [0, -1]}, InvalidValueError, "at least 0"),
        ({"upper": [1.5, 2]}, InvalidTypeError, "must be an int"),
        ({"weights": [1]}, InvalidValueError, "weights must have 2 entries"),
        ({"weights": [2**31, 0]}, InvalidValueError, "add up to at most"),
    ],
)
def test_refusals_say_what_and_why(change, error, text):
    arguments = {"allowed": np.ones((2, 2), bool), "lower": [0, 0], "upper": [2, 2], **change}
    assert_refused(error, text, feasibility, **arguments)


@pytest.mark.parametrize(
    ("lower", "upper", "vector"),
    [
        # What each adds up to is below what it asks for, but for a negative multiplier.
        ([0], [5], FarkasVector((-1,), (0,), 0, -3)),
        ([0], [5], FarkasVector((0,), (-1,), 5, 3)),
        ([4], [5], FarkasVector((True,), (0,), 4, 3)),
        ([4], [5], FarkasVector((1.0,), (0,), 4, 3)),
        ([4], [5], FarkasVector((1,), (0,), 4, 3, sample=0)),
        ([3], [5], FarkasVector((1,), (0,), 3, 3)),
        # One of the vectors has another length.
        ([4], [5], FarkasVector((1, 0), (0,), 4, 3)),
        ([4], [5], FarkasVector((1,), (0, 0), 4, 3)),
        ([], [], FarkasVector((), (), 0, 0)),
    ],
)
@pytest.mark.unjudged(reason="its proofs are made by hand")
def test_what_looks_like_a_proof_is_refused(lower, upper, vector):
    assert verify_infeasibility([4], [5], 3, FarkasVector((1,), (0,), 4, 3))
    for samples in (3, [[True]] * 3):
        assert not verify_infeasibility(lower, upper, samples, vector)


@pytest.mark.unjudged(reason="its proofs are made by hand")
def test_a_sample_without_a_cluster_is_a_proof_only_if_it_is_named():
    samples = [[0, 0], [1, 1], [0, 0]]
    none = (0, 0)
    for sample, proven in ((0, True), (2, True), (1, False), (None, False)):
        vector = FarkasVector(none, none, 0, None, sample)
        assert verify_infeasibility([0, 0], [9, 9], samples, vector) == proven
        assert vector.excess == 1
    assert not verify_infeasibility([0, 0], [9, 9], samples, FarkasVector(none, none, 0, 0, 0))
    assert not verify_infeasibility([5, 0], [9, 9], samples, FarkasVector((1, 0), none, 5, 1))


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"upper": [5]}, "upper must have an entry for each cluster of lower, 2, got 1"),
        ({"upper": [5] * 3}, "upper must have an entry for each cluster of lower, 2, got 3"),
        ({"samples": [[True, True], [True]]}, r"samples\[1\] .* each cluster of lower, 2, got 1"),
        ({"samples": [[True] * 3]}, r"samples\[0\] .* each cluster of lower, 2, got 3"),
        ({"weights": [1, 1]}, "weights must have an entry for each row of samples, 3, got 2"),
        ({"weights": [1] * 4}, "weights must have an entry for each row of samples, 3, got 4"),
    ],
)
def test_lists_about_other_clusters_or_samples_are_refused(changed, says):
    given = {"lower": [4, 0], "upper": [5, 5], "samples": [[True, True]] * 3} | changed
    with pytest.raises(InvalidValueError, match=f"{says}. To fix this, give as many"):
        verify_infeasibility(vector=FarkasVector((1, 0), (0, 0), 4, 3), **given)
