"""GATCluster's Label Feature Theorem, and what is true of it: claims G1 to G3.

Small instances are enumerated. A relation is given by the class of each sample; by the symmetry of
Eq. 2 in the samples, one relation for each partition of n into k class sizes stands for all.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ...algos.losses.gatcluster import relations
from ...algos.theory import label_features
from ..references.simplex_points import logits_of, simplex_grid
from ..references.violations import below_by, difference, excess, unless, worst
from ..registry.claims import Status, claim
from .label_feature_report import printed_relation_loss, printed_value, report_violations

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def _class_sizes(n: int, k: int, largest: int | None = None) -> Iterator[tuple[int, ...]]:
    """Return the partitions of the number n into k parts, in descending order."""
    if k == 0:
        if n == 0:
            yield ()
        return
    for first in range(min(n, largest or n), 0, -1):
        for rest in _class_sizes(n - first, k - 1, first):
            yield (first, *rest)


def _relation(sizes: tuple[int, ...]) -> Bools:
    classes = np.repeat(np.arange(len(sizes)), sizes)
    found: Bools = np.equal.outer(classes, classes)
    return found


_RELATED = np.asarray([[1, 0, 1, 0], [0, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 1]], dtype=np.bool_)


def _related(labels: list[int]) -> Bools:
    found: Bools = np.asarray(relations.relation_matrix(np.asarray(labels)))
    return found


def _assignments(n: int, k: int) -> Iterator[Floats]:
    """Return all k^n arrays of one-hot rows."""
    eye = np.eye(k)
    for labels in itertools.product(range(k), repeat=n):
        yield eye[np.asarray(labels, dtype=np.int64)]


def _attained(r: Bools, k: int) -> int:
    """Return the number of one-hot assignments with the value -N.

    Renaming the clusters changes no value: assignments with the first sample in cluster 0 are
    counted, times k.
    """
    n, number = r.shape[0], 0
    for features in _assignments(n - 1, k):
        rows = np.concatenate([np.eye(k)[:1], features])
        number += int(label_features.label_feature_value(rows, r) == -n)
    return k * number


@claim(
    id="G1",
    paper="GATCluster",
    place="Section 3.1 and Appendix C",
    statement="""
    Label Feature Theorem: at the optimum of Eq. 2 all label features are one-hot, l_i = l_j iff
    r_ij = 1, l_i != l_j iff r_ij = 0, and there are k different ones.
    """,
    hypotheses="""
    Left out by the paper: r is an equivalence relation with exactly k classes (so that N >= k), and
    is given, not computed from l.
    """,
    status=Status.EXTRA,
    derivation="""
    E >= -N: the cross-entropies are nonnegative, and on the simplex l . l = sum l_h^2 <= sum l_h =
    1 with equality iff every l_h is 0 or 1, that is for one-hot rows only. So E = -N iff all rows
    are one-hot and all cosines equal r. Cosines of one-hot rows are 0 and 1 and define an
    equivalence with as many classes as there are different rows, all k of them since p_h > 0. Hence
    -N is reached **iff** r is an equivalence with exactly k classes, and then exactly at the k!
    ways to give each class its own unit vector.

    Without the hypothesis the theorem is false or empty:

    - more than k classes, or r not transitive: no one-hot assignment has a finite E, since some
      pair is equal with r = 0 (two of c > k classes share a vector; in r_12 = r_23 = 1, r_13 = 0
      either a related pair differs or l_1 = l_3). Distinct rows without zeros have a finite E: an
      optimum, which E as a lower semicontinuous function on a compact set has up to the open
      condition on p_h, is *not* one-hot;
    - fewer than k classes: E comes as near to -N as one likes, by mass e -> 0 in the unused
      cluster, but p_h > 0 is an open condition, and there is no optimum at all. Empty, and no
      protection from collapse.
    """,
    counterexample="""
    Of the statement without the hypothesis: N = 3, k = 2, r = I. The point (1, 0), (1/2, 1/2),
    (0, 1) has E = -4 log(1 - 1/sqrt 2) - 5/2 = 2.412, the least value on a grid; each of the eight
    one-hot assignments is infinite.
    """,
    tolerance=1e-12,
    covers=(
        "theory.label_features.label_feature_value",
        "theory.label_features.check_label_features",
        "theory.equivalence.check_relations",
        "losses.gatcluster.relations.relation_loss",
    ),
)
def check_label_feature_theorem() -> float:
    """Return the violation of the repaired theorem, and of the three refutations."""
    violations = []
    for n, k in ((2, 2), (3, 2), (4, 2), (6, 2), (3, 3), (4, 3), (5, 3), (4, 4), (5, 4)):
        violations.append(_enumeration_violation(n, k))
    violations += _grid_violations() + _refutations() + _checker_violations()
    return worst(*violations, *_training_violations())


def _training_violations() -> list[float]:
    """Return whether the loss of training is least where E is, and is a mean over single pairs."""
    violations = []
    for labels in itertools.product(range(3), repeat=4):
        for floor in (1e-2, 0.2):
            loss = relations.relation_loss(
                logits_of(np.eye(3)[[0, 0, 1, 2]]), np.asarray(labels), floor=floor
            )
            right = np.array_equal(_related(list(labels)), _relation((2, 1, 1)))
            gap = float(loss) + math.log1p(-floor)
            violations.append(abs(gap) if right else excess(0.1, gap))
    rng = np.random.default_rng(7)
    for n, k in ((1, 3), (5, 2), (6, 4)):
        rows, drawn = rng.dirichlet(np.ones(k), size=n), rng.integers(0, k, size=n)
        loss = relations.relation_loss(logits_of(rows) + 3.0, drawn, floor=0.2)
        violations.append(difference(loss, printed_relation_loss(rows, drawn, 0.2)))
        loss = relations.relation_loss(logits_of(rows), drawn)
        exact = printed_relation_loss(rows, drawn, 1e-5)  # where 1 - 1 of a cosine is magnified
        violations.append(excess(difference(loss, exact), 1e-9))
    return violations


def _enumeration_violation(n: int, k: int) -> float:
    """Check that the injections of the classes into the clusters reach -N: k! for k classes.

    For fewer classes these leave a cluster empty and are not feasible; for more there are none.
    """
    return worst(
        *(
            difference(_attained(_relation(sizes), k), math.perm(k, classes))
            for classes in range(1, n + 1)
            for sizes in _class_sizes(n, classes)
        )
    )


def _grid_violations() -> list[float]:
    """Check for N = 3, k = 2 that a grid of the simplices has two points with the value -N."""
    r, values = _relation((2, 1)), []
    grid = np.arange(9) / 8.0
    for a, b, c in itertools.product(grid, repeat=3):
        features = np.asarray([[a, 1 - a], [b, 1 - b], [c, 1 - c]])
        values.append(label_features.label_feature_value(features, r))
    values.sort()
    return [difference(values[:2], -3.0), below_by(-3.0, values[2], 0.1)]


def _refutations() -> list[float]:
    eye, violations = np.eye(3, dtype=np.bool_), []
    path = np.asarray([[1, 1, 0], [1, 1, 1], [0, 1, 1]], dtype=np.bool_)
    between = np.asarray([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])
    for r in (eye, path):
        for features in _assignments(3, 2):
            violations.append(unless(label_features.label_feature_value(features, r) == math.inf))
        violations.append(unless(label_features.label_feature_value(between, r) < 10.0))
    stated = -4.0 * math.log(1.0 - math.sqrt(0.5)) - 2.5
    violations.append(difference(label_features.label_feature_value(between, eye), stated))
    for a, b, c in itertools.product(np.arange(9) / 8.0, repeat=3):
        features = np.asarray([[a, 1 - a], [b, 1 - b], [c, 1 - c]])
        violations.append(excess(stated, label_features.label_feature_value(features, eye)))
    together, values = np.ones((2, 2), dtype=np.bool_), []
    for e in (0.25, 2.0**-6, 2.0**-20):
        features = np.asarray([[1.0 - e, e]] * 2)
        values.append(label_features.label_feature_value(features, together))
        violations.append(difference(values[-1], -2.0 * ((1.0 - e) ** 2 + e**2)))
    return [*violations, below_by(values[1:], values[:-1], 1e-3), excess(-2.0, values)]


def _checker_violations() -> list[float]:
    """Check what the checker says of right and wrong rows, and of right and wrong r."""
    violations = []
    chain = np.asarray([[1, 1, 0], [1, 1, 1], [0, 1, 1]], dtype=np.bool_)
    lopsided = np.asarray([[1, 1, 0], [0, 1, 0], [0, 0, 1]], dtype=np.bool_)
    alone = np.asarray([[1, 0, 0], [0, 1, 0], [0, 0, 0]], dtype=np.bool_)
    classes = ([0, 0, 0], [0, 1, 0], [0, 1, 1], [0, 1, 2])
    for r in (chain, lopsided, alone, *(np.equal.outer(c, c) for c in classes)):
        for features in _assignments(3, 3):
            violations += report_violations(features, r)
    rng, rows = np.random.default_rng(5), np.concatenate([simplex_grid(3, 2), simplex_grid(3, 4)])
    for _ in range(50):
        features, c = rows[rng.integers(0, len(rows), size=4)], rng.integers(0, 4, size=4)
        violations += report_violations(features, np.equal.outer(c, c))
        features = features + rng.choice([0.0, 1e-10, 4e-9, 0.03], size=(4, 3))
        for tol in (1e-9, 0.05):
            violations += report_violations(features, np.equal.outer(c, c), tol=tol)
    disjoint = np.asarray([[0.6, 0.4, 0.0], [0.6, 0.4, 0.0], [0.0, 0.0, 1.0]])
    violations += report_violations(disjoint, np.equal.outer([0, 0, 1], [0, 0, 1]))
    for off in ([1.0, 0.5, 0.0], [1.0, 0.0, 1.0], [0.6, 0.6, -0.2], [1.2, -0.2, 0.0]):
        violations += report_violations(np.asarray([off, *np.eye(3).tolist()]), np.eye(4) > 0)
    return violations + _block_violations()


def _block_violations() -> list[float]:
    """Check more pairs than one block holds, with the error in the first or the last."""
    k, n, violations = 64, 300, []
    c = np.sort(np.arange(n) % k)
    for odd in (None, 0, n - 1):
        features = np.eye(k)[c]
        if odd is not None:  # halfway to the next cluster
            features[odd] = 0.5 * (features[odd] + np.eye(k)[(c[odd] + 1) % k])
        report = label_features.check_label_features(features, np.equal.outer(c, c))
        mates, others = (int(np.sum(c == (c[odd or 0] + i) % k)) for i in (0, 1))
        value = (mates - 1) * math.log(2.0) - 2.0 * others * math.log(1.0 - math.sqrt(0.5)) + 0.5
        value = -n if odd is None else value - n
        right = odd is None
        violations += [
            difference(report.value / n, value / n),
            unless(report.separated == right and report.attained == right),
            unless(report.one_hot == right and report.n_distinct == k + (not right)),
        ]
    return violations


@claim(
    id="G2",
    paper="GATCluster",
    place="Sections 3.1 and 3.3.3",
    statement="The nonempty cluster constraint p_h > 0 avoids trivial solutions.",
    hypotheses="r is given with k classes (G1). In training it is estimated from l.",
    status=Status.REFUTED,
    derivation="""
    If all label features are alike, so are all labels that k-means finds in them, and r = 1
    everywhere: collapse is consistent with its own relations. For that r, l_i = (1 - e, e, 0...)
    in every row, with e spread over the other clusters, satisfies all constraints, and
    E = -N ((1 - e)^2 + ...) tends to the infimum -N. The constraint forbids only the limit itself.

    With p_h >= d > 0 in its place the problem has an optimum, but no one-hot one: an assignment
    that uses all clusters separates related samples, at infinite cost. The theorem's conclusion
    then fails altogether.
    """,
    counterexample="""
    N = 4, k = 3, r = 1: rows (1 - 2 e, e, e) for e = 2^-4, 2^-10, 2^-30 are feasible with values
    that fall to -4, and no feasible one-hot assignment has a finite value.
    """,
    tolerance=1e-12,
    covers=(
        "theory.label_features.label_feature_value",
        "losses.gatcluster.relations.relation_matrix",
    ),
)
def check_collapse_is_feasible() -> float:
    """Return how far the collapsed points are from feasible, consistent and falling to -N."""
    violations, values = [unless(np.array_equal(_related([2, 0, 2, 1]), _RELATED))], []
    for e in (2.0**-4, 2.0**-10, 2.0**-30):
        features = np.asarray([[1.0 - 2.0 * e, e, e]] * 4)
        r = relations.relation_matrix(np.argmax(features, axis=1))
        violations += [unless(np.all(r)), excess(e / 2.0, np.mean(features, axis=0))]
        values.append(label_features.label_feature_value(features, r))
        violations.append(difference(values[-1], -4.0 * ((1.0 - 2.0 * e) ** 2 + 2.0 * e**2)))
    violations += [below_by(values[1:], values[:-1], 1e-3), difference(values[-1], -4.0 + 2.0**-26)]
    for features in _assignments(4, 3):
        if np.all(np.mean(features, axis=0) > 0.0):
            value = label_features.label_feature_value(features, np.ones((4, 4)))
            violations.append(unless(value == math.inf))
    # The last difference has the next order of e, 24 e^2; it is far below the tolerance.
    return worst(*violations)


def _dac_value(features: Floats, r: Bools) -> float:
    """Return Eq. 1 for rows of unit length: Eq. 2 without its second sum."""
    return label_features.label_feature_value(features, r) + float(np.sum(features * features))


@claim(
    id="G3",
    paper="GATCluster",
    place="Appendix B, Eq. 1",
    statement="""
    At the optimum of DAC's Eq. 1, l_i = l_j iff r_ij = 1, but k different ones cannot be
    guaranteed, so that trivial solutions are obtained, such as l_i = (1, 0, ..., 0) for all i.
    """,
    hypotheses="""
    The optimum is 0, which asks for an r with at most k classes. The trivial point is optimal only
    if r is estimated from it: for a given r with two classes or more it costs infinity.
    """,
    status=Status.EXTRA,
    derivation="""
    Eq. 1 is 0 iff all inner products equal r. Equal unit vectors have the product 1 and no others
    do, so that l_i = l_j iff r_ij = 1: the number of different rows is the number m of classes of
    r, whatever k >= m is. That is the appendix's claim, and it is right. More than k classes do not
    fit into k nonnegative dimensions, and 0 is not reached.

    Two steps of the appendix are not needed or not right. It assumes one-hot rows: the conclusion
    on equality does not use it, and for m < k rows at the optimum need not be one-hot, only have
    disjoint supports. And its example, all rows (1, 0, ..., 0), is optimal only for r = 1. For a
    given r with r_ij = 0 somewhere its cost is -log 0. It is a fixed point of estimating r and
    fitting l in turn, not a minimizer of Eq. 1.

    One could hold that the appendix is true as it stands, since in the method r *is* estimated from
    l, for which the example is right. We say that a hypothesis is missing, because the sentence is
    about "the optimum" of Eq. 1, in whose statement r is given: with two classes or more the
    trivial point is the worst there is, and with more than k classes the first half fails as well.
    """,
    tolerance=1e-12,
    covers=(
        "theory.label_features.label_feature_value",
        "losses.gatcluster.relations.relation_matrix",
    ),
)
def check_trivial_optimum_of_dac() -> float:
    """Return the violation over all class sizes for N = 4, k = 3, and of the two exceptions."""
    violations = []
    for classes in (1, 2, 3, 4):
        for sizes in _class_sizes(4, classes):
            r, reached = _relation(sizes), 0
            for features in _assignments(4, 3):
                if _dac_value(features, r) == 0.0:
                    reached += 1
                    distinct = np.unique(features, axis=0).shape[0]
                    violations.append(difference(distinct, classes))
                    violations.append(unless(np.array_equal(features @ features.T > 0, r)))
            violations.append(difference(reached, math.perm(3, classes)))
    collapsed = np.asarray([[1.0, 0.0, 0.0]] * 4)
    estimated = relations.relation_matrix(np.argmax(collapsed, axis=1))
    violations.append(difference(_dac_value(collapsed, estimated), 0.0))
    violations.append(unless(_dac_value(collapsed, _relation((3, 1))) == math.inf))
    violations.append(unless(np.array_equal(_related([2, 0, 2, 1]), _RELATED)))
    # Eq. 1 of soft rows, added up pair by pair.
    rng = np.random.default_rng(6)
    rows, c = rng.dirichlet(np.ones(3), size=5), np.asarray([0, 2, 0, 1, 1])
    r = np.equal.outer(c, c)
    exact = printed_value(rows, r) + float(np.sum(rows * rows))
    violations.append(difference(_dac_value(rows, r), exact))
    two = np.asarray([[0.6, 0.8, 0.0], [0.6, 0.8, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 1.0]])
    violations.append(difference(_dac_value(two, _relation((2, 2))), 0.0))  # optimal, not one-hot
    return worst(*violations)
