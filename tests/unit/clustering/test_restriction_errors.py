"""Fixed rows and forbidden pairs that no labels can keep: what is said, and the proof of it."""

import numpy as np
import pytest

from dualclust.algos.bounds.farkas import verify_infeasibility
from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.clustering.constrained import constrained_kmeans
from dualclust.algos.core.errors import (
    DeviceMismatchError,
    InfeasibleBoundsError,
    InvalidTypeError,
    InvalidValueError,
)
from tests.compare import to_numpy
from tests.libraries import ONE_EACH
from tests.refusals import is_refusal, message_of
from tests.unit.clustering.test_restrictions import bounds_on


@pytest.mark.parametrize(
    ("options", "text", "vector_of"),
    [
        (
            {"fixed": [1, 1, 1, -1, -1, -1]},
            "fixed puts 3 rows into cluster 1, which takes at most 2. "
            "To fix this, fix fewer rows there, or raise its upper bound",
            {"upper": [6, 2, 6]},
        ),
        (
            {"fixed": [0, 0, 0, 0, 0, -1]},
            "no labels are inside the bounds: clusters 1 and 2 need at least 2 samples together, "
            "but only 1 may join any of them, since 5 rows are fixed in other clusters. "
            "To fix this, fix fewer rows, or lower the lower bounds",
            {"upper": [6, 2, 6]},
        ),
    ],
)
def test_fixed_rows_that_contradict_bounds_come_with_a_proof(xp, options, text, vector_of):
    x = np.arange(6.0)[:, None]
    bounds = bounds_on(xp, 6, 3, min_count=[0, 1, 1], max_count=vector_of["upper"])
    options = {name: xp.asarray(rule) for name, rule in options.items()}
    with pytest.raises(InfeasibleBoundsError) as caught:
        constrained_kmeans(xp.asarray(x), bounds, xp.asarray(x[:3]), metric="euclidean", **options)
    assert str(caught.value) == text
    fixed = to_numpy(options["fixed"])
    allowed = (fixed[:, None] < 0) | (fixed[:, None] == np.arange(3))
    assert verify_infeasibility([0, 1, 1], vector_of["upper"], allowed, caught.value.vector)
    assert caught.value.clusters == caught.value.vector.clusters


@pytest.mark.parametrize("seed", range(60))
def test_a_proof_is_of_fixed_rows_and_forbidden_pairs_together(seed):
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(3, 8)), int(rng.integers(1, 4))
    allowed = rng.uniform(size=(n, k)) < 0.7
    fixed = np.where(rng.uniform(size=n) < 0.5, rng.integers(0, k, n), -1)
    allowed[np.arange(n), fixed] |= fixed >= 0
    pairs = np.argwhere(~allowed)
    pairs = np.concatenate([pairs, pairs[:1]])  # a pair may be named twice
    allowed &= (fixed[:, None] < 0) | (fixed[:, None] == np.arange(k))
    least = rng.multinomial(n, np.full(k, 1 / k))
    bounds = SizeBounds.from_counts(least, least, n_samples=n)
    x = np.arange(float(n))[:, None]
    rules = {"fixed": fixed, "forbidden": pairs}
    proof = None
    try:
        found = constrained_kmeans(x, bounds, x[:k], metric="euclidean", **rules)
    except InfeasibleBoundsError as error:
        proof = error
    if proof is None:
        assert allowed[np.arange(n), found.assignment.labels].all()
    else:
        assert verify_infeasibility(least, least, allowed, proof.vector), str(proof)
        assert (proof.clusters, proof.excess) == (proof.vector.clusters, proof.vector.excess)


def test_forbidden_pairs_that_leave_no_labels_come_with_a_proof(xp):
    x = np.arange(4.0)[:, None]
    bounds = bounds_on(xp, 4, 2, max_count=2)
    pairs = np.asarray([[0, 1], [1, 1], [3, 1]])
    with pytest.raises(InfeasibleBoundsError, match="3 samples may join only cluster 0") as caught:
        constrained_kmeans(
            xp.asarray(x),
            bounds,
            xp.asarray(x[:2]),
            metric="euclidean",
            forbidden=xp.asarray(pairs),
        )
    allowed = np.ones((4, 2), bool)
    allowed[pairs[:, 0], pairs[:, 1]] = False
    assert verify_infeasibility([0, 0], [2, 2], allowed, caught.value.vector)


def test_a_row_without_a_cluster_is_named():
    x = np.arange(4.0)[:, None]
    with pytest.raises(InfeasibleBoundsError, match="sample 2 may join no cluster"):
        constrained_kmeans(
            x,
            SizeBounds.of(2, n_samples=4),
            x[:2],
            metric="euclidean",
            forbidden=np.asarray([[2, 0], [2, 1]]),
        )


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        (
            {"fixed": [0, 1, 2, -1]},
            InvalidValueError,
            "fixed must hold clusters from 0 to 1, or -1 for a free row, got values from -1 to 2. "
            "To fix this, number rows and clusters from 0",
        ),
        (
            {"fixed": [0, 1, -2, -1]},
            InvalidValueError,
            "fixed must hold clusters from 0 to 1, or -1 for a free row, got values from -2 to 1. "
            "To fix this, number rows and clusters from 0",
        ),
        ({"fixed": [0, 1]}, InvalidValueError, "fixed must have shape (4,), got (2,)"),
        (
            {"forbidden": [[0, 2]]},
            InvalidValueError,
            "forbidden must hold clusters from 0 to 1, got 2. To fix this, number rows and "
            "clusters from 0; a pair is a row and a cluster, not two rows",
        ),
        (
            {"forbidden": [[-1, 0]]},
            InvalidValueError,
            "forbidden must hold rows from 0 to 3, got -1. To fix this, number rows and "
            "clusters from 0; a pair is a row and a cluster, not two rows",
        ),
        (
            {"forbidden": [[0, 1, 1]]},
            InvalidValueError,
            "forbidden must have shape (m, 2), got (1, 3)",
        ),
        (
            {"fixed": [-1, -1, 1, -1], "forbidden": [[0, 0], [2, 1]]},
            InvalidValueError,
            "forbidden must leave fixed rows their cluster, got the pair (2, 1), and row 2 is "
            "fixed in cluster 1. To fix this, drop one of the two",
        ),
        ({"prices": [0.0, 1.0, 2.0]}, InvalidValueError, "prices must have shape (2,), got (3,)"),
    ],
)
def test_rules_that_do_not_fit_are_named(xp, options, error, text):
    x = xp.asarray(np.arange(4.0)[:, None])
    options = {name: xp.asarray(rule) for name, rule in options.items()}
    call = (x, bounds_on(xp, 4, 2), x[:2, :])
    told = message_of(error, constrained_kmeans, *call, metric="euclidean", **options)
    assert is_refusal(told, text)


def test_rules_of_the_wrong_kind_are_refused(xp):
    x = xp.asarray(np.arange(4.0)[:, None])
    call = (x, bounds_on(xp, 4, 2), x[:2, :])
    for name, rule in (("fixed", np.zeros(4)), ("forbidden", np.zeros((1, 2)))):
        text = message_of(InvalidTypeError, constrained_kmeans, *call, **{name: xp.asarray(rule)})
        assert is_refusal(text, f"{name} must have an integer dtype, got {x.dtype}")
    text = message_of(
        InvalidValueError, constrained_kmeans, *call, prices=xp.asarray([0.0, np.nan])
    )
    assert is_refusal(text, "prices must be finite, got nan at index (1,)")
    with pytest.raises(InvalidTypeError, match="forbidden must be an array"):
        constrained_kmeans(*call, forbidden=[(0, 1)])


def test_rules_of_another_library_are_refused():
    x = np.arange(4.0)[:, None]
    other = next(row for row in ONE_EACH if row.name == "strict")
    for name in ("fixed", "prices"):
        with pytest.raises(DeviceMismatchError, match=f"{name} must be of the same array library"):
            constrained_kmeans(
                x, SizeBounds.of(2, n_samples=4), x[:2], **{name: other.asarray([0, 1, 0, 1])}
            )
