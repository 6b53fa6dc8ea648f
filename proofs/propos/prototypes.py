"""ProPos's prototypes: sums of directions, and clusters that have none: claims P5 and P6."""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import NDArray

from ...algos.losses.propos import prototypes, scattering
from ..references.scattering import log_sum_exp, printed_psl
from ..references.violations import below_by, difference, excess, unless, worst
from ..registry.claims import Status, claim

Floats = NDArray[np.float64]


def _printed_center(features: Floats, share: Floats) -> Floats:
    """Return Eq. 6 for one cluster."""
    total = np.sum(share[:, None] * features, axis=0)
    with np.errstate(invalid="ignore"):
        center: Floats = total / np.linalg.norm(total)
    return center


@claim(
    id="P5",
    paper="ProPos",
    place="Eq. 6 and 7, section 4.1",
    statement="""
    Prototypes are normalized sums over the batch; losses and logits of empty clusters are zeroed.
    """,
    hypotheses="Every cluster has a sample in the batch, and its features do not cancel.",
    status=Status.ERRATUM,
    derivation="""
    A cluster without samples, or with two opposite features, has the sum 0: the fraction is 0 / 0.
    A logit that is set to zero is not out of the denominator: it adds e^0 = 1. The released code
    writes -10 instead and adds e^-10 for each empty cluster; that is small at tau = 0.5, but at
    tau <= 0.1 legal logits reach -1 / tau <= -10, and an empty cluster then outweighs a real one.
    It also judges emptiness by the labels of one rank, while the centers are those of all: the loss
    depends on how many ranks share a batch.

    Repair: such a cluster is masked, and leaves every sum. Adding an empty cluster then changes the
    loss in no bit, and sums over ranks are added before anything is divided or judged.
    """,
    covers=(
        "losses.propos.prototypes.batch_prototypes",
        "losses.propos.prototypes.normalize_sums",
        "losses.propos.prototypes.prototype_sums",
        "losses.propos.scattering.psl_same_view",
        "losses.propos.scattering.psl_cross_view",
        "losses.propos.scattering.psl_mixed_view",
    ),
)
def check_masked_prototypes() -> float:
    """Return the violation, zero tolerance, of the mask, its neutrality and the sums over ranks."""
    x = np.asarray([[2.0, 0.0], [0.0, 4.0], [1.0, 0.0], [-8.0, 0.0], [0.0, -1.0]])
    labels = np.asarray([0, 1, 2, 2, 3])
    found = prototypes.batch_prototypes(x, labels, n_clusters=5)
    units = np.asarray([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0], [0.0, -1.0], [0.0, 0.0]])
    violations = [
        difference(found.vectors, units),
        unless(np.array_equal(found.valid, [True, True, False, True, False])),
        unless(np.all(np.isnan(_printed_center(x, (labels == 4).astype(np.float64))))),
        unless(np.all(np.isnan(_printed_center(np.sign(x), (labels == 2).astype(np.float64))))),
    ]
    kept = prototypes.Prototypes(found.vectors[[0, 1, 3]], found.valid[[0, 1, 3]])
    for tau in (0.05, 0.5):
        for function in (
            scattering.psl_mixed_view,
            scattering.psl_same_view,
            scattering.psl_cross_view,
        ):
            masked = float(function(found, found, temperature=tau))
            violations.append(difference(masked, float(function(kept, kept, temperature=tau))))
            half = printed_psl(kept.vectors, kept.vectors, tau, "target", "online")
            violations.append(excess(abs(masked - half), 1e-12))
        # Row of cluster 1: its own logit, 0 of cluster 0, -1 / tau of cluster 3, two empty ones.
        real = np.asarray([1.0 / tau, 0.0, -1.0 / tau])
        zeroed, filled = (log_sum_exp(np.append(real, [v, v])) for v in (0.0, -10.0))
        violations.append(below_by(log_sum_exp(real), zeroed, 1e-9))
        violations.append(excess(filled, zeroed))
        violations.append(unless((min(real) < -10.0) == (tau < 0.1)))  # below an empty one
    ranks = [
        prototypes.prototype_sums(x[s], labels[s], n_clusters=5) for s in (slice(3), slice(3, 5))
    ]
    both = prototypes.normalize_sums(
        prototypes.PrototypeSums(ranks[0].sums + ranks[1].sums, ranks[0].mass + ranks[1].mass)
    )
    violations += [difference(both.vectors, units), unless(np.array_equal(both.valid, found.valid))]
    alone = prototypes.normalize_sums(ranks[0])  # judged locally, cluster 2 exists and 3 does not
    violations.append(unless(not np.array_equal(alone.valid, both.valid)))
    return worst(*violations, *_resultant_violations())


def _resultant_violations() -> list[float]:
    """Check Eq. 6 of uneven batches to 1e-12, and from which length on features cancel."""
    violations = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        x, labels = 3.0 * rng.normal(size=(20, 4)), rng.integers(-1, 5, size=20)
        x[3] = 0.0
        found = prototypes.batch_prototypes(x, labels, n_clusters=5)
        sums = prototypes.prototype_sums(x, labels, n_clusters=5)
        lengths = np.linalg.norm(x, axis=1)
        for k in range(5):
            mine = (labels == k) & (lengths > 0.0)
            total = np.sum(x[mine] / lengths[mine][:, None], axis=0)
            violations.append(excess(difference(sums.sums[k], total), 1e-12))
            violations.append(difference(sums.mass[k], np.sum(mine)))
            center = total / (np.linalg.norm(total) if np.any(mine) else 1.0)
            violations.append(excess(difference(found.vectors[k], center), 1e-12))
    lower = prototypes.batch_prototypes(x.astype(np.float32), labels, n_clusters=5).vectors
    violations.append(unless(lower.dtype == np.float32))
    mass = np.asarray([8.0, 8.0, 0.0, 0.5])
    total = np.asarray([[2.0**-16, 0.0], [2.0**-18, 0.0], [1.0, 0.0], [0.3, 0.4]])
    found = prototypes.normalize_sums(prototypes.PrototypeSums(total, mass))
    violations.append(unless(np.array_equal(found.valid, [True, False, False, True])))
    violations.append(difference(found.vectors[:3], [[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]]))
    return [*violations, excess(difference(found.vectors[3], (0.6, 0.8)), 1e-15)]


@claim(
    id="P6",
    paper="ProPos",
    place="Section 4.1",
    statement="A batch smaller than K cannot cover all clusters.",
    hypotheses="Labels are hard. With posteriors, which Eq. 6 allows, one sample covers all.",
    status=Status.EXTRA,
    derivation="""
    b samples have at most b different labels: the pigeonhole principle. A soft posterior gives
    every cluster a share of every sample, and so a direction to all K clusters from a single one:
    the sentence is about the hard labels that are used (section 8.3), not about Eq. 6 as stated.

    One could hold that the sentence is true without more, since the method has hard labels
    throughout. We name the hypothesis, because the prototypes that the sentence is about are
    defined a few lines above it for any posterior, and this library takes posteriors as well
    (`weighted_sums`): there, a batch of one covers all clusters.

    Check: all labelings of up to three samples; sums and masses of shares one by one, a sample
    without direction among them.
    """,
    covers=("losses.propos.prototypes.batch_prototypes", "losses.propos.prototypes.weighted_sums"),
)
def check_pigeonhole() -> float:
    """Return the violation over all labelings of up to 3 samples, and of the soft exception."""
    violations = []
    for b, k in itertools.product((1, 2, 3), (2, 3, 4)):
        x = np.ones((b, 2))
        for labels in itertools.product(range(k), repeat=b):
            found = prototypes.batch_prototypes(x, np.asarray(labels), n_clusters=k)
            n_valid = int(np.sum(found.valid))
            violations += [excess(n_valid, min(b, k)), difference(n_valid, len(set(labels)))]
    soft = prototypes.weighted_sums(np.ones((1, 2)), np.full((1, 4), 0.25))
    violations.append(unless(np.all(prototypes.normalize_sums(soft).valid)))
    violations += [difference(soft.mass, 0.25), excess(abs(soft.sums - 0.125**0.5 / 2.0), 1e-15)]
    rng = np.random.default_rng(9)
    x, share = rng.normal(size=(6, 3)), rng.dirichlet(np.ones(4), size=6)
    x[2] = 0.0
    sums, mass = np.zeros((4, 3)), np.zeros(4)
    for i, k in itertools.product((0, 1, 3, 4, 5), range(4)):
        sums[k] += share[i, k] * x[i] / math.sqrt(float(x[i] @ x[i]))
        mass[k] += share[i, k]
    own = prototypes.weighted_sums(x, share)
    gaps = difference(own.sums, sums), difference(own.mass, mass)
    return worst(*violations, excess(gaps, 1e-13))
