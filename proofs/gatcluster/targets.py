"""GATCluster's targets, what they prevent and what they depend on: claims G6, G10 and G12."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from ...algos.losses.gatcluster import tasks
from ..references.simplex_points import logits_of, simplex_grid
from ..references.violations import below_by, difference, excess, unless, worst
from ..registry.claims import Status, claim

Floats = NDArray[np.float64]


def _printed_targets(features: Floats, power: int = 1) -> Floats:
    """Return Eq. 5, and Eq. 11 with the power 2."""
    with np.errstate(invalid="ignore", divide="ignore"):
        balanced = features**power / np.sum(features, axis=0)
        found: Floats = balanced / np.sum(balanced, axis=1, keepdims=True)
    return found


@claim(
    id="G6",
    paper="GATCluster",
    place="Eq. 5",
    statement="Dividing by the cluster mass z_h balances assignments and prevents empty clusters.",
    hypotheses="z_h > 0 for the formula; soft label features for any effect.",
    status=Status.REFUTED,
    derivation="""
    A one-hot row has one entry: divided by its mass and normalized it is 1 again. Once label
    features are one-hot, which is what the method aims for, they are their own targets, whatever
    the sizes are, and an empty cluster stays empty. As printed it does not even have targets:
    l_h / z_h = 0 / 0 for all samples. For soft rows with uneven masses the formula does move mass
    to the small clusters.
    """,
    counterexample="""
    Four samples, three clusters, rows e_1, e_1, e_1, e_2: the targets are the same rows, sizes 3, 1
    and 0; as printed, NaN.
    """,
    tolerance=1e-15,
    covers=("losses.gatcluster.tasks.balanced_targets",),
)
def check_one_hot_rows_are_their_targets() -> float:
    """Return how far targets of one-hot rows are from these, and the printed ones from NaN."""
    violations = []
    for labels in itertools.product(range(3), repeat=4):
        features = np.eye(3)[list(labels)]
        for sharpness in (1.0, 2.0):
            targets = tasks.balanced_targets(logits_of(features), sharpness=sharpness)
            violations.append(difference(targets, features))
        missing = len(set(labels)) < 3
        violations.append(unless(np.any(np.isnan(_printed_targets(features))) == missing))
    rng = np.random.default_rng(8)
    for sharpness in (1, 2):  # soft rows of two batches with an uneven mass each
        rows = rng.dirichlet((3.0, 1.0, 0.3, 1.0), size=(2, 7))
        found = tasks.balanced_targets(np.log(rows) + 1.0, sharpness=float(sharpness))
        printed = [_printed_targets(batch, sharpness) for batch in rows]
        violations.append(difference(found, np.stack(printed)))
    default = np.asarray(tasks.balanced_targets(np.log(rows[0])))
    violations.append(difference(default, _printed_targets(rows[0])))
    faint = np.asarray([[0.7, 0.3 - 1e-3, 1e-3], [0.2, 0.8 - 1e-3, 1e-3]])
    for empty in (0.5, 1e-5):  # in units of samples: the third mass is 0.002
        found = tasks.balanced_targets(np.log(faint), empty=empty)
        shares = faint / np.maximum(np.sum(faint, axis=0), empty)
        violations.append(difference(found, shares / np.sum(shares, axis=1, keepdims=True)))
    soft = np.asarray([[0.8, 0.2], [0.6, 0.4]])
    moved = np.mean(np.asarray(tasks.balanced_targets(logits_of(soft))), axis=0)
    return worst(*violations, below_by(0.3, moved[1], 0.1))


@claim(
    id="G10",
    paper="GATCluster",
    place="Eq. 11",
    statement="The attention target is a more confident version of l, and keeps its high scores.",
    hypotheses="All masses z_h are equal. Then it is true.",
    status=Status.REFUTED,
    derivation="""
    The target is proportional to l_h^2 / z_h. With equal masses it is l_h^2 normalized: same order,
    and the largest entry grows, since l_max^2 / sum l^2 >= l_max iff l_max >= sum l^2, which holds
    as a mean of l is at most its maximum. With unequal masses the order turns over where
    (l_a / l_b)^2 < z_a / z_b: a crowded cluster loses its uncertain samples to a small one.
    """,
    counterexample="""
    l = (0.6, 0.4) in a batch with masses (9, 1): 0.36 / 9 and 0.16 / 1, so (0.2, 0.8).
    """,
    tolerance=1e-12,
    covers=("losses.gatcluster.tasks.balanced_targets",),
)
def check_target_turns_over() -> float:
    """Return how far the counterexample is from (0.2, 0.8), and equal masses from the claim."""
    batch = np.asarray([[0.6, 0.4]] + [[8.4 / 9.0, 0.6 / 9.0]] * 9)
    violations = [difference(np.sum(batch, axis=0), (9.0, 1.0))]
    targets = np.asarray(tasks.balanced_targets(logits_of(batch), sharpness=2.0))
    violations.append(difference(targets[0], (0.2, 0.8)))
    for k, steps in ((2, 16), (3, 8)):
        rows = simplex_grid(k, steps)  # symmetric: equal masses
        found = np.asarray(tasks.balanced_targets(logits_of(rows), sharpness=2.0))
        violations.append(excess(np.max(rows, axis=1), np.max(found, axis=1)))
        top = rows == np.max(rows, axis=1, keepdims=True)
        violations.append(difference(found * top, np.max(found, axis=1, keepdims=True) * top))
        violations.append(difference(found, rows**2 / np.sum(rows**2, axis=1, keepdims=True)))
    return worst(*violations)


@claim(
    id="G12",
    paper="GATCluster",
    place="Section 4.2, Algorithm 1",
    statement="The size m_1 of the parts that targets are computed in does not affect results.",
    hypotheses="""
    Batch normalization in evaluation mode, m_1 divides M, and equality up to rounding.
    """,
    status=Status.EXTRA,
    derivation="""
    In evaluation mode the network treats each image by itself, so that label features do not depend
    on the company, and targets are computed once all M are there. Three limits. The loop runs
    floor(M / m_1) times: for m_1 that does not divide M, the tail has no label features. With the
    statistics of the batch, as in training mode, features depend on m_1. And a matrix product of
    fewer rows may sum in another order: equal to rounding, not to the bit. Targets of parts alone,
    without putting them together, would differ.

    The library's networks and its loop over parts need torch and have their own tests. Here a small
    network stands in for any, and what is checked of the library are the targets: those of all
    rows, in any order, are Eq. 5 over all of them, and those of separate batches are not.
    """,
    tolerance=1e-12,
    covers=("losses.gatcluster.tasks.balanced_targets",),
)
def check_parts() -> float:
    """Return the difference that parts make in evaluation mode, and the violation of the limits."""
    rng = np.random.default_rng(0)
    images, first, second = (rng.normal(size=s) for s in ((24, 9), (9, 16), (16, 3)))
    whole = _network(images, first, second)
    targets = np.asarray(tasks.balanced_targets(whole))
    order = rng.permutation(24)
    soft = np.exp(whole) / np.sum(np.exp(whole), axis=1, keepdims=True)
    apart = np.asarray(tasks.balanced_targets(np.reshape(whole, (3, 8, 3))))
    violations = [
        difference(targets, _printed_targets(soft)),
        difference(tasks.balanced_targets(whole[order]), targets[order]),
        excess(1e-2, difference(np.reshape(apart, (24, 3)), targets)),
    ]
    for size in (1, 4, 8, 24):
        parts = _in_parts(images, first, second, size)
        violations.append(difference(tasks.balanced_targets(parts), targets))
    alone = np.concatenate([tasks.balanced_targets(whole[:8]), targets[8:]])
    violations.append(excess(1e-2, difference(alone, targets)))
    violations.append(difference(_in_parts(images, first, second, 7).shape[0], 21))
    trained = _in_parts(images, first, second, 8, training=True)
    violations.append(excess(1e-2, difference(tasks.balanced_targets(trained), targets)))
    return worst(*violations)


def _network(x: Floats, first: Floats, second: Floats, training: bool = False) -> Floats:
    """Return a small network with batch normalization; its running statistics are 0 and 1."""
    hidden = x @ first / 3.0
    if training:
        hidden = (hidden - np.mean(hidden, axis=0)) / np.std(hidden, axis=0)
    logits: Floats = np.tanh(hidden) @ second
    return logits


def _in_parts(
    x: Floats, first: Floats, second: Floats, size: int, training: bool = False
) -> Floats:
    """Run Algorithm 1, lines 7 to 11."""
    parts = [
        _network(x[u * size : (u + 1) * size], first, second, training)
        for u in range(x.shape[0] // size)
    ]
    return np.concatenate(parts)
