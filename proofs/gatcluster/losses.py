"""GATCluster's losses, relations and attention: claims G5, G7 to G9, G11 and G19."""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from ...algos.clustering import constrained
from ...algos.core.errors import InvalidValueError
from ...algos.losses.gatcluster import attention, relations, tasks
from ...algos.theory import equivalence, label_features
from ..references.simplex_points import logits_of, simplex_grid
from ..references.violations import below_by, difference, excess, unless, worst
from ..registry.claims import Status, claim
from .label_feature_report import printed_relation_loss, relation_violations

Floats = NDArray[np.float64]


@claim(
    id="G5",
    paper="GATCluster",
    place="Eq. 4",
    statement="-l . t lies in [-1, 0], and is -1 iff both are the same one-hot vector.",
    hypotheses="Both on the simplex.",
    status=Status.HOLDS,
    derivation="""
    All products are nonnegative, so that -l . t <= 0. By Cauchy and Schwarz l . t <= ||l|| ||t|| <=
    1, since ||l||^2 <= sum l_h = 1. Equality needs ||l|| = ||t|| = 1, so both one-hot (G4), and
    parallel, so the same. In l it is linear: whatever t is, the least value is at the one-hot
    vector of its largest entry, and how soft t is only scales the gradient.
    """,
    tolerance=1e-14,
    covers=("losses.gatcluster.tasks.transformation_loss",),
)
def check_transformation_range() -> float:
    """Return the violation over all pairs of a grid of the simplex, k = 2, 3 and 4."""
    violations = []
    for k, steps in ((2, 8), (3, 6), (4, 4)):
        rows = simplex_grid(k, steps)
        for target in rows:
            targets = np.tile(target, (rows.shape[0], 1))
            values = np.asarray(tasks.transformation_loss(logits_of(rows), targets))
            violations += [excess(-1.0, values), excess(values, 0.0)]
            same = np.all(rows == target, axis=1) & (np.max(target) == 1.0)
            violations.append(unless(np.array_equal(values < -1.0 + 1e-9, same)))
            corners = np.asarray(tasks.transformation_loss(logits_of(np.eye(k)), targets[:k]))
            violations.append(difference(np.min(values), np.min(corners)))
            violations.append(difference(corners, -target))
    rows, targets = np.random.default_rng(2).dirichlet(np.ones(4), size=(2, 3, 5))
    values = tasks.transformation_loss(np.log(rows) + 2.0, targets)  # scores of any offset
    return worst(*violations, difference(values, -np.sum(rows * targets, axis=2)))


@claim(
    id="G7",
    paper="GATCluster",
    place="Eq. 6",
    statement="The labels of k-means on label features give the relations r.",
    hypotheses="""
    For G1 exactly k clusters must be found. The released code takes r = I where one is small, which
    the paper does not say.
    """,
    status=Status.HOLDS,
    derivation="""
    "Has the same label" is reflexive, symmetric and transitive, with one class for each label that
    occurs, at most k: r of Eq. 6 is an equivalence by construction, unlike thresholds on
    similarities. The clause "or i = j" adds nothing. The guard of the code relates every sample to
    itself alone, N > k classes, for which G1 is false: for such a batch all pairs are pushed apart.
    """,
    covers=(
        "losses.gatcluster.relations.relation_matrix",
        "losses.gatcluster.relations.usable_labels",
        "theory.equivalence.check_relations",
    ),
)
def check_relations_of_labels() -> float:
    """Return the violation over all labelings of 5 samples by 3 clusters, and by k-means."""
    violations = []
    every = [np.asarray(labels) for labels in itertools.product(range(-1, 2), repeat=5)]
    for seed in range(4):
        rows = np.random.default_rng(seed).dirichlet(np.ones(3), size=30)
        found = constrained.kmeans(rows, rows[:3], metric="euclidean")
        every.append(np.asarray(found.labels))
    for labels in every:
        r = np.asarray(relations.relation_matrix(labels))
        violations.append(unless(np.array_equal(r, np.equal.outer(labels, labels))))
        report = equivalence.check_relations(r, 3)
        violations.append(unless(report.reflexive and report.symmetric and report.transitive))
        violations.append(difference(report.n_classes or 0, len(set(labels.tolist()))))
    several = np.stack(every[:7])
    batch = np.asarray(relations.relation_matrix(several))
    violations.append(unless(np.array_equal(batch, several[:, :, None] == several[:, None, :])))
    return worst(*violations, *_every_relation(), *_guard_violations())


def _every_relation() -> list[float]:
    """Return half of all relations of 3 samples, and all symmetric ones of 4, triple by triple."""
    violations = []
    for bits in itertools.product((False, True), repeat=8):
        r = np.reshape(np.asarray((True, *bits)), (3, 3))
        violations += relation_violations(r, 2, equivalence.check_relations(r, 2))
    above = np.triu_indices(4, 1)
    for bits in itertools.product((False, True), repeat=6):
        r = np.eye(4, dtype=np.bool_)
        r[above] = bits
        r |= r.T
        violations += relation_violations(r, 3, equivalence.check_relations(r.astype(np.int64), 3))
    return violations


def _guard_violations() -> list[float]:
    """Check that labels are kept once the smallest cluster has ceil(share n / k) samples."""
    alone = relations.usable_labels(np.asarray([0, 0, 0, 0, 1]), 3)
    report = equivalence.check_relations(relations.relation_matrix(alone), 3)
    violations = [unless(report.n_classes == 5 and len(report.broken) == 1)]
    for n, k, share in ((40, 2, 0.1), (33, 2, 0.1), (30, 3, 0.1), (12, 3, 1.0), (9, 3, 0.0)):
        least = math.ceil(share * n / k)
        for smallest in range(n // k + 1):
            labels = np.arange(n) % (k - 1) + 1
            labels[:smallest] = 0
            options = {} if share == 0.1 else {"min_share": share}
            found = relations.usable_labels(labels, k, **options)
            fits = min(int(np.sum(labels == h)) for h in range(k)) >= least
            violations.append(unless(np.array_equal(found, labels if fits else np.arange(n))))
    return violations


@claim(
    id="G8",
    paper="GATCluster",
    place="Eq. 8",
    statement="""
    Maximal entropy makes p uniform, so that p_h = 1/m > 0 and trivial solutions are avoided.
    """,
    hypotheses="At the optimum of the entropy term alone; and p_h = 1/k.",
    status=Status.ERRATUM,
    derivation="""
    sum_h p_h log p_h is strictly convex, with the least value -log k at p_h = 1/k; m is the number
    of samples, and entries 1/m would sum to k/m. In the total loss the term is weighed against
    others, whose optimum need not be uniform. And uniform p is not the absence of a trivial
    solution: l_i = (1/k, ..., 1/k) for all i attains the optimum with all samples alike.
    """,
    tolerance=1e-12,
    covers=("losses.gatcluster.tasks.entropy_loss",),
)
def check_entropy_optimum() -> float:
    """Return the violation of the bound, of its equality at 1/k, and of the collapsed optimum."""
    violations = []
    for k, m in itertools.product((2, 3, 10), (6, 60)):
        for seed in range(5):
            rows = np.random.default_rng(seed).dirichlet(np.ones(k), size=m)
            p = np.mean(rows, axis=0)
            value = float(tasks.entropy_loss(logits_of(rows)))
            violations.append(difference(value, np.sum(p * np.log(p))))
            divergence = math.log(k) + value  # KL of p from 1/k
            violations.append(excess(0.5 * np.sum(np.abs(p - 1.0 / k)) ** 2, divergence))  # Pinsker
        balanced = np.eye(k)[np.arange(k * m) % k]
        for rows in (balanced, np.full((m, k), 1.0 / k)):
            violations.append(difference(tasks.entropy_loss(logits_of(rows)), -math.log(k)))
        if m != k:
            violations.append(excess(0.1, abs(k / m - 1.0)))
    rows = np.random.default_rng(3).dirichlet(np.ones(4), size=(3, 5))
    p = np.mean(rows, axis=1)
    values = tasks.entropy_loss(np.log(rows) + 2.0)  # one for each batch
    return worst(*violations, difference(values, np.sum(p * np.log(p), axis=1)))


def _printed_attention(u: Floats, mean: Floats, delta: float, alpha: float) -> Floats:
    """Return Eq. 9 for Sigma = delta I."""
    with np.errstate(invalid="ignore", divide="ignore"):
        found: Floats = np.exp(-np.sum((u - mean) ** 2, axis=-1) / delta / alpha)
    return found


@claim(
    id="G9",
    paper="GATCluster",
    place="Eq. 9 and Table S8",
    statement="The attention map is exp(-(1/alpha) (u - mu)' Sigma^-1 (u - mu)).",
    hypotheses="Sigma is positive definite, and the map has more than one row and column.",
    status=Status.ERRATUM,
    derivation="""
    The network's delta comes out of a ReLU, which is 0 for every negative input: then Sigma = 0,
    and at u = mu the exponent is 0 / 0. Coordinates i / (H - 1) are 0 / 0 for H = 1. The released
    code has a sigmoid and adds a constant; its exponent -d^2 / (2 * 0.05 delta) also makes alpha
    0.1, not the 0.05 of the text. Repair: delta = v + (1 - v) sigmoid(r) with v > 0, and for
    a full Sigma two such variances and a correlation c tanh(r) with c < 1, of determinant at least
    v^2 (1 - c^2). Every finite output is then a window, whose values are in [0, 1].
    """,
    tolerance=1e-12,
    covers=(
        "losses.gatcluster.attention.attention_map",
        "losses.gatcluster.attention.isotropic_gaussian",
        "losses.gatcluster.attention.full_gaussian",
    ),
)
def check_attention_windows() -> float:
    """Return the violation of Eq. 9 where it is defined, and of our windows being finite."""
    violations = []
    corner = _printed_attention(np.zeros((1, 2)), np.zeros(2), 0.0, 0.05)
    violations.append(unless(np.all(np.isnan(corner))))
    u = np.stack(np.meshgrid(np.arange(6) / 5.0, np.arange(4) / 3.0, indexing="ij"), axis=-1)
    rng = np.random.default_rng(0)
    for _ in range(20):
        raw = rng.normal(size=3)
        window = attention.isotropic_gaussian(raw, min_variance=0.02)
        mean, delta = expit(raw[:2]), 0.02 + 0.98 * float(expit(raw[2]))
        violations += [difference(window.mean, mean), difference(window.variances, delta)]
        violations.append(difference(window.correlation, 0.0))
        exact = _printed_attention(u, mean, delta, 0.1)
        violations.append(difference(attention.attention_map(window, (6, 4)), exact))
        raw = 2.0 * rng.normal(size=5)
        full = attention.full_gaussian(raw, min_variance=0.03, max_correlation=0.8)
        s, rho = np.sqrt(0.03 + 0.97 * expit(raw[2:4])), 0.8 * math.tanh(raw[4])
        sigma = np.outer(s, s) * np.asarray([[1.0, rho], [rho, 1.0]])
        violations.append(below_by(0.0, np.linalg.eigvalsh(sigma)[0], 1e-6))
        violations += [difference(full.variances, s * s), difference(full.correlation, rho)]
        z = u - expit(raw[:2])
        form = np.einsum("...i,ij,...j->...", z, np.linalg.inv(sigma), z)
        found = attention.attention_map(full, (6, 4), alpha=0.5)
        violations.append(difference(found, np.exp(-form / 0.5)))
    raw = rng.normal(size=(2, 3, 5))  # a window for each image, and for each of their parts
    many = attention.attention_map(attention.full_gaussian(raw), (2, 5))
    one = attention.attention_map(attention.full_gaussian(raw[1, 2]), (2, 5))
    violations.append(difference(np.asarray(many)[1, 2], one))
    least = attention.isotropic_gaussian(np.asarray([0.0, 0.0, -1e300])).variances
    violations.append(difference(least, 1e-4))
    narrow = attention.full_gaussian(np.asarray([0.0, 0.0, -1e300, 1e300, -1e300]))
    violations.append(difference((*narrow.variances, narrow.correlation), (1e-4, 1.0, -0.95)))
    for far in itertools.product((-1e300, 0.0, 1e300), repeat=3):
        window = attention.isotropic_gaussian(np.asarray(far))
        violations.append(below_by(0.0, window.variances, 1e-5))
        for size in ((1, 1), (1, 4), (6, 6)):
            found = np.asarray(attention.attention_map(window, size))
            violations.append(unless(np.all((found >= 0.0) & (found <= 1.0))))
    middle = attention.isotropic_gaussian(np.zeros(3))
    violations.append(difference(attention.attention_map(middle, (1, 1)), 1.0))
    return worst(*violations)


@claim(
    id="G11",
    paper="GATCluster",
    place="Eq. 3 and Eq. 12",
    statement="The losses are weighted by alpha_1, alpha_2 and alpha_3 = 5, 5 and 3.",
    hypotheses="The order of Eq. 12.",
    status=Status.ERRATUM,
    derivation="""
    Eq. 3 gives alpha_2 to the entropy and alpha_3 to the attention, Eq. 12 the other way round;
    with 5 and 3 the two readings are different losses. The released code follows Eq. 12: 5 for
    transformations, 5 for attention, 3 for the entropies of both branches. Here weights have names.

    Check: the total and its parts against Eq. 12 written out, pair by pair in L_R, for the
    published weights, for others, for the ablation without pairs, and for other cosines' floors.
    """,
    tolerance=1e-12,
    covers=("losses.gatcluster.tasks.gatcluster_loss", "losses.gatcluster.tasks.LossWeights"),
)
def check_weights() -> float:
    """Return the violation of Eq. 12, and of Eq. 3 being another loss by 0.5 nats or more."""
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(2, 12, 4))
    labels = rng.integers(0, 3, size=12)
    t, a = rng.dirichlet(np.ones(4), size=(2, 12))
    p, q = softmax(x, axis=1), softmax(y, axis=1)
    means = (np.mean(p, axis=0), np.mean(q, axis=0))
    invariance = -float(np.mean(np.sum(p * t, axis=1)))
    cross = float(np.mean(-a * np.log(q) - (1.0 - a) * np.log1p(-q)))
    entropy = sum(float(np.sum(m * np.log(m))) for m in means)
    cases: tuple[tuple[dict[str, float], tuple[float, ...], float], ...] = (
        ({}, (5.0, 5.0, 3.0, 1.0), 0.2),
        ({"transformation": 2.0, "attention": 0.5, "entropy": 7.0}, (2.0, 0.5, 7.0, 1.0), 0.1),
        ({"relation": 0.0}, (5.0, 5.0, 3.0, 0.0), 0.2),
    )
    violations = []
    for given, w, floor in cases:
        weights = tasks.LossWeights(**given)
        found = tasks.gatcluster_loss(x, y, labels, t, a, weights=weights, floor=floor)
        pairs = printed_relation_loss(p, labels, floor)
        total = w[3] * pairs + w[0] * invariance + w[1] * cross + w[2] * entropy
        violations.append(difference(found, (total, pairs, invariance, cross, entropy)))
    plain = tasks.gatcluster_loss(x, y, labels, t, a)
    pairs = printed_relation_loss(p, labels, 1e-5)  # where 1 - 1 of a cosine is magnified
    total = pairs + 5.0 * invariance + 5.0 * cross + 3.0 * entropy
    violations.append(excess(difference(plain.total, total), 1e-9))
    swapped = total - 2.0 * cross + 2.0 * entropy
    violations.append(excess(0.5, abs(swapped - total)))
    for wrong in ({"attention": -1.0}, {"relation": math.nan}):
        try:
            tasks.LossWeights(**wrong)
            violations.append(1.0)
        except InvalidValueError:
            pass
    sure = np.asarray([[1e4, 0.0, 0.0], [0.0, 1e4, 0.0]])  # certain and wrong costs the whole gap
    costs = tasks.attention_loss(sure, np.eye(3)[[1, 1]])
    violations.append(difference(costs, ((2e4 - math.log(2.0)) / 3.0, 0.0)))
    return worst(*violations)


@claim(
    id="G19",
    paper="GATCluster",
    place="Appendix A, A1",
    statement="The map to two dimensions draws label features with their sum of 1.",
    hypotheses="None; for k >= 4 different label features may share a point.",
    status=Status.HOLDS,
    derivation="""
    The map is linear, so on the simplex affine: a mixture is drawn between its parts. The unit
    vector of cluster h goes to (sin, cos) of 2 pi h / k, the corners of a regular k-gon, and the
    whole simplex to the k-gon. A simplex of k - 1 > 2 dimensions does not fit into two: for k = 4
    the middles of both diagonals are the center, a picture in which the two look alike.
    """,
    tolerance=1e-12,
    covers=("theory.label_features.polygon_map",),
)
def check_polygon() -> float:
    """Return the violation of the corners, of affinity and of the coincidence for k = 4."""
    violations = []
    for k in (1, 2, 3, 4, 10):
        roots = np.exp(2j * np.pi * np.arange(1, k + 1) / k)
        corners = np.asarray(label_features.polygon_map(np.eye(k)))
        violations += [difference(corners[:, 1], roots.real), difference(corners[:, 0], roots.imag)]
        a, b = np.random.default_rng(k).dirichlet(np.ones(k), size=(2, 20))
        drawn = label_features.polygon_map(0.25 * a + 0.75 * b)
        apart = (label_features.polygon_map(rows) for rows in (a, b))
        violations.append(
            difference(drawn, sum(w * z for w, z in zip((0.25, 0.75), apart, strict=True)))
        )
        violations.append(excess(np.linalg.norm(np.asarray(drawn), axis=1), 1.0))
    middles = label_features.polygon_map(np.asarray([[0.5, 0.0, 0.5, 0.0], [0.0, 0.5, 0.0, 0.5]]))
    batch = np.random.default_rng(4).dirichlet(np.ones(3), size=(2, 5))
    drawn = [np.asarray(label_features.polygon_map(rows)) for rows in batch]
    violations.append(difference(label_features.polygon_map(batch), np.stack(drawn)))
    return worst(*violations, difference(middles, 0.0))
