"""ProPos's alignment as a sum over pairs of samples: claims P20 and P21."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from ...algos.losses.propos import prototypes, scattering
from ..references.sphere_points import random_units
from ..references.violations import difference, excess, unless, worst
from ..registry.claims import Status, claim

Floats = NDArray[np.float64]


def _alignment_over_pairs(x: Floats, y: Floats, share: Floats, tau: float) -> float:
    """Return Eq. 16."""
    weights = _pair_weights(x, y, share)
    return -float(np.sum(weights * (x @ y.T))) / tau


def _pair_weights(x: Floats, y: Floats, share: Floats) -> Floats:
    """Return w_ij of Eq. 16, over the clusters that have a sample."""
    lengths = []
    for features in (x, y):
        sums = prototypes.weighted_sums(features, share)
        lengths.append(np.linalg.norm(np.asarray(sums.sums), axis=1))
    product = lengths[0] * lengths[1]
    present = product > 0
    inverse = np.where(present, 1.0 / np.where(present, product, 1.0), 0.0)
    weights: Floats = (share * inverse) @ share.T / np.sum(present)
    return weights


@claim(
    id="P20",
    paper="ProPos",
    place="Eq. 13 to 16",
    statement="""
    Prototypical alignment is a sum over pairs of samples with weights
    w_ij = (1 / K) sum_k p(k|x_i) p(k|x_j) / (c_k c'_k).
    """,
    hypotheses="c_k, c'_k > 0, that is P5; K counts the clusters that are in the batch.",
    status=Status.HOLDS,
    derivation="""
    mu_k . mu'_k = (sum_i p_ik f_i) . (sum_j p_jk f'_j) / (c_k c'_k), and the product of two sums is
    the sum over all pairs, i = j among them. Summing over k and dividing by -K tau gives Eq. 16.
    A description, not another way to train: c_k depends on the features, and a gradient that takes
    w_ij for constants points elsewhere. The weights do not sum to 1.
    """,
    tolerance=1e-12,
    covers=("losses.propos.scattering.prototypical_alignment",),
)
def check_alignment_over_pairs() -> float:
    """Return the violation of the identity, for hard and for soft shares."""
    violations = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        x, y = random_units(seed, 24, 5), random_units(seed + 40, 24, 5)
        share = np.eye(6)[rng.integers(0, 6, size=24)]
        if seed % 2:
            share = rng.dirichlet(np.ones(6), size=24)
        online, target = (
            prototypes.normalize_sums(prototypes.weighted_sums(f, share)) for f in (x, y)
        )
        for tau in (0.5, 0.2):
            value = scattering.prototypical_alignment(online, target, temperature=tau)
            violations.append(difference(value, _alignment_over_pairs(x, y, share, tau)))
        # A cluster that one of the views lacks is in neither sum nor number.
        some = np.asarray([True, True, False, True, True, True])
        fewer = target._replace(valid=np.asarray(target.valid) & some)
        value = scattering.prototypical_alignment(online, fewer, temperature=0.5)
        both = np.flatnonzero(np.asarray(online.valid) & np.asarray(fewer.valid))
        cosines = [float(online.vectors[k] @ target.vectors[k]) for k in both]
        violations.append(difference(value, -2.0 * sum(cosines) / len(cosines)))
    return worst(*violations)


@claim(
    id="P21",
    paper="ProPos",
    place="Section 6.4",
    statement="w_ij > 0 for samples of one cluster, and w_ij = 0 for samples of two.",
    hypotheses="Hard labels, which Eq. 13 to 16 state, and c_k, c'_k > 0.",
    status=Status.HOLDS,
    derivation="""
    For hard labels p(k|x_i) p(k|x_j) is 1 for the common cluster of i and j, and 0 for all k if
    they have none; the rest of a term is 1 / (c_k c'_k) > 0. With posteriors every weight is
    positive and the statement is false.
    """,
    covers=("losses.propos.prototypes.weighted_sums",),
)
def check_weights_of_pairs() -> float:
    """Return the violation over all labelings of 4 samples by 3 clusters; zero tolerance."""
    violations = []
    x, y = np.abs(random_units(1, 4, 3)), np.abs(random_units(2, 4, 3))  # no sum cancels
    for labels in itertools.product(range(3), repeat=4):
        weights = _pair_weights(x, y, np.eye(3)[list(labels)])
        same = np.equal.outer(labels, labels)
        violations.append(unless(np.all((weights > 0) == same) and np.all(weights[~same] == 0)))
        share = np.eye(3)[list(labels)]
        sums = prototypes.weighted_sums(x, share)
        for k in range(3):  # c_k is the length of the sum of the cluster's own directions
            total = sum((x[i] for i in range(4) if labels[i] == k), np.zeros(3))
            violations.append(excess(difference(sums.sums[k], total), 1e-14))
        violations.append(difference(sums.mass, np.sum(share, axis=0)))
    soft = _pair_weights(x, y, np.full((4, 3), 1.0 / 3.0))
    return worst(*violations, unless(np.all(soft > 0)))
