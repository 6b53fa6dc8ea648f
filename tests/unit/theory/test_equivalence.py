"""The check of relations against the definition of an equivalence relation, on every small one."""

import itertools

import numpy as np
import pytest

from dualclust.algos.core.errors import InvalidTypeError, InvalidValueError
from dualclust.algos.theory.equivalence import check_relations
from tests.problems import symmetric_relations


def classes_by_hand(r):
    """Number of classes if r is an equivalence relation, else None; by the definition."""
    n = len(r)
    every = range(n)
    if not all(r[i, i] for i in every) or not all(r[i, j] == r[j, i] for i in every for j in every):
        return None
    if any(r[i, j] and r[j, h] and not r[i, h] for i in every for j in every for h in every):
        return None
    return len({tuple(row) for row in r.tolist()})


@pytest.mark.parametrize("n", [1, 2, 3])
def test_every_relation_of_up_to_three_samples(n):
    for bits in itertools.product([0, 1], repeat=n * n):
        judge(np.array(bits).reshape(n, n))


@pytest.mark.parametrize("n", [4, 5])
def test_every_symmetric_relation_of_four_and_five_samples(n):
    for r in symmetric_relations(n):
        judge(r)


def judge(r):
    """Compare a report with the definitions; a named triple must be a broken one."""
    classes = classes_by_hand(r)
    report = check_relations(r, 2)
    assert report.reflexive == bool((np.diag(r) == 1).all())
    assert report.symmetric == bool((r == r.T).all())
    assert report.n_classes == classes
    assert report.transitive == (classes is not None)
    assert bool(report.broken) == (classes != 2)
    if report.triple is not None:
        i, j, h = report.triple
        assert r[i, j] == 1
        assert r[j, h] == 1
        assert r[i, h] == 0
    assert (report.triple is None) == (
        classes is not None or not report.symmetric or not report.reflexive
    )


@pytest.mark.parametrize(
    ("r", "k", "broken"),
    [
        ([[1, 0], [0, 0]], 2, "r is not reflexive: r[1, 1] = 0"),
        ([[1, 1], [0, 1]], 2, "r is not symmetric: r[0, 1] = 1, but r[1, 0] = 0"),
        (
            [[1, 1, 0], [1, 1, 1], [0, 1, 1]],
            2,
            "r is not transitive: r[0, 1] = r[1, 2] = 1, but r[0, 2] = 0",
        ),
        (
            [[1, 1], [1, 1]],
            2,
            "r has 1 classes, fewer than k = 2: -N is approached, but p_h > 0 keeps it from being "
            "attained",
        ),
        (
            [[1, 0], [0, 1]],
            1,
            "r has 2 classes, more than k = 1: so many orthogonal nonnegative vectors do not exist "
            "in R^1",
        ),
    ],
)
@pytest.mark.parametrize("dtype", ["bool", "int64", "float32"])
def test_what_is_broken_is_named(xp, r, k, broken, dtype):
    assert check_relations(xp.asarray(np.array(r, dtype)), k).broken == (broken,)


def test_arguments_are_checked(xp):
    r = xp.asarray(np.eye(3))
    with pytest.raises(InvalidValueError, match="relations must be square and not empty"):
        check_relations(r[:2, :], 3)
    with pytest.raises(InvalidValueError, match="relations must be square and not empty"):
        check_relations(r[:0, :0], 3)
    with pytest.raises(InvalidTypeError, match="relations must be bool or hold 0 and 1"):
        check_relations(xp.asarray(np.eye(3, dtype=np.complex128)), 3)
    with pytest.raises(InvalidValueError, match="n_clusters must be at least 1"):
        check_relations(r, 0)
