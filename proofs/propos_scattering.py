"""ProPos's prototypes and the loss that scatters them: claims P1 and P3 to P7."""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import NDArray

from ..algos import losses, prototype_losses, prototypes
from .registry import Status, claim
from .sphere_points import at_angles, random_units, regular_simplex
from .violations import below_by, difference, excess, unless, worst

_LOSSES = "dualclust.algos.prototype_losses."
_PROTOTYPES = "dualclust.algos.prototypes."

Floats = NDArray[np.float64]


def _all_valid(vectors: Floats) -> prototypes.Prototypes:
    return prototypes.Prototypes(vectors, np.ones(vectors.shape[0], dtype=np.bool_))


def _log_sum_exp(x: Floats) -> float:
    return float(np.max(x) + np.log(np.sum(np.exp(x - np.max(x)))))


@claim(
    id="P1",
    paper="ProPos",
    place="Eq. 1 and 2",
    statement="InfoNCE is approximately instance alignment plus instance uniformity.",
    hypotheses="""
    None for the identity below. The paper bounds no error: it is small only where the negatives
    outweigh the positive, M >> exp(2 / tau).
    """,
    status=Status.EXTRA,
    derivation="""
    With a = exp(s+ / tau) and B = sum of exp(s-_i / tau) over the M negatives, Eq. 1 is
    log((a + B) / a) and Eq. 2 is log(B / a). Their difference is log(1 + a / B), which is positive:
    Eq. 2 is always too small. Cosines lie in [-1, 1], so that a / B lies between exp(-2 / tau) / M
    and exp(2 / tau) / M, and both ends are reached. The upper end is log(1 + exp(2 / tau) / M): at
    tau = 0.5 and M = 9 it is 1.96 nats, at M = 4096 it is 0.013.
    """,
    tolerance=1e-12,
    covers=("prototype_losses.psl_cross_view",),
    mutations=(_LOSSES + "psl_cross_view", "dualclust.algos.losses.log_softmax"),
)
def check_decoupled_info_nce() -> float:
    """Return the violation of the identity for the difference, and of its interval."""
    violations = []
    for seed, (k, tau) in enumerate(itertools.product((2, 5, 40), (0.07, 0.5, 1.0))):
        x, y = random_units(seed, k, 6), random_units(seed + 100, k, 6)
        cosines, printed = x @ y.T / tau, []
        for i in range(k):
            positive, negatives = cosines[i, i], np.delete(cosines[i], i)
            info_nce = -float(losses.log_softmax(np.append(negatives, positive))[-1])
            uniformity = _log_sum_exp(negatives)
            gap = info_nce - (uniformity - positive)
            low, high = (math.log1p(math.exp(s / tau) / (k - 1)) for s in (-2.0, 2.0))
            violations += [
                difference(gap, math.log1p(math.exp(positive - uniformity))),
                excess(low, gap),
                excess(gap, high),
            ]
            printed.append(info_nce)
        ours = prototype_losses.psl_cross_view(_all_valid(x), _all_valid(y), temperature=tau)
        violations.append(difference(ours, np.mean(printed)))
    return worst(*violations)


def _printed_psl(online: Floats, target: Floats, tau: float, own: str, others: str) -> float:
    """PSL with the views of the denominator's own term and of the others named."""
    total, k = 0.0, online.shape[0]
    views = {"online": online, "target": target}
    for i in range(k):
        terms = [math.exp(float(online[i] @ views[own][i]) / tau)]
        terms += [math.exp(float(online[i] @ views[others][j]) / tau) for j in range(k) if j != i]
        total += -float(online[i] @ target[i]) / tau + math.log(sum(terms))
    return float(total / k)


@claim(
    id="P3",
    paper="ProPos",
    place="Eq. 4, Eq. 28 and the released code",
    statement="The prototype scattering loss is defined by Eq. 4, and again by Eq. 28.",
    hypotheses="The two definitions agree only where both views have the same prototypes.",
    status=Status.ERRATUM,
    derivation="""
    Eq. 4 compares the online view with itself in the denominator, with the constant
    mu_k . mu_k = 1 as its first term; Eq. 28 compares the two views throughout, and calls mu the
    *target* prototypes where Eq. 6 calls them the online ones. The released code takes the first
    term of Eq. 28 and the others of Eq. 4. Values: for online prototypes at 0 and 90 degrees and
    targets turned by 30 degrees, all three differ. At mu' = mu they are equal, but their gradients
    are not even there: with mu' constant that of Eq. 28 is
    (-mu'_k + sum_j softmax_kj mu'_j) / (K tau), in which no prototype is pushed by another online
    one. Repair: each form has a function of its own, and the published numbers are those of the
    mixed one.
    """,
    tolerance=1e-12,
    covers=(
        "prototype_losses.psl_same_view",
        "prototype_losses.psl_cross_view",
        "prototype_losses.psl_mixed_view",
    ),
    mutations=(
        _LOSSES + "psl_same_view",
        _LOSSES + "psl_cross_view",
        _LOSSES + "psl_mixed_view",
    ),
)
def check_three_scattering_losses() -> float:
    """Return the violation of the three closed forms, and of their being different."""
    forms = (
        (prototype_losses.psl_same_view, "online", "online"),
        (prototype_losses.psl_cross_view, "target", "target"),
        (prototype_losses.psl_mixed_view, "target", "online"),
    )
    violations = []
    cases = [(random_units(s, 7, 5), random_units(s + 50, 7, 5)) for s in range(5)]
    for online, target in [*cases, (at_angles(0, 90), at_angles(30, 120))]:
        values = []
        for function, own, others in forms:
            a, b = _all_valid(online), _all_valid(target)
            values.append(float(function(a, b, temperature=0.5)))
            violations.append(
                difference(values[-1], _printed_psl(online, target, 0.5, own, others))
            )
            same = [float(f(a, a, temperature=0.5)) for f, _, _ in forms]
            violations.append(max(same) - min(same))
        apart = min(abs(a - b) for a, b in itertools.combinations(values, 2))
        violations.append(excess(1e-3, apart))
    return worst(*violations, *_gradient_violations())


def _gradient_violations() -> list[float]:
    """Gradients at mu' = mu by central differences: Eq. 28's closed form, and three directions."""
    mu, tau, h, gradients = random_units(8, 5, 3), 0.5, 1e-5, []
    for function in (
        prototype_losses.psl_same_view,
        prototype_losses.psl_cross_view,
        prototype_losses.psl_mixed_view,
    ):
        slopes = np.zeros_like(mu)
        for place in np.ndindex(*mu.shape):
            step = np.zeros_like(mu)
            step[place] = h
            ahead, behind = (
                float(function(_all_valid(mu + s), _all_valid(mu), temperature=tau))
                for s in (step, -step)
            )
            slopes[place] = (ahead - behind) / (2.0 * h)
        gradients.append(slopes)
    soft = np.exp(np.asarray(losses.log_softmax(mu @ mu.T, temperature=tau)))
    closed = (soft @ mu - mu) / (mu.shape[0] * tau)
    violations = [excess(difference(gradients[1], closed), 1e-8)]
    for a, b in itertools.combinations(gradients, 2):
        cosine = np.sum(a * b) / (np.linalg.norm(a) * np.linalg.norm(b))
        violations.append(below_by(cosine, 1.0, 1e-3))
    return violations


def _simplex_bound(k: int, tau: float) -> float:
    return math.log(k - 1) - 1.0 / ((k - 1) * tau)


@claim(
    id="P4",
    paper="ProPos",
    place="Eq. 5",
    statement="""
    PSL is approximately prototypical alignment plus uniformity, and the latter spreads the
    prototypes uniformly.
    """,
    hypotheses="""
    K <= d + 1 for the optimum below. The error is bounded for large K only: log(1 + exp(2 / tau) /
    (K - 1)) at most.
    """,
    status=Status.EXTRA,
    derivation="""
    The first half is P1 with K - 1 negatives. The error at the optimum, with s = -1 / (K - 1) for
    all pairs, is log(1 + exp((1 - s) / tau) / (K - 1)): at tau = 0.5 it is 0.706 nats for K = 10
    and 0.0074 for K = 1000. For the 10 classes of the main tables "approximately" leaves out a
    third of the uniformity, which is 1.975 there.

    The second half: log is concave, so by Jensen's inequality the mean over k of
    log sum_{j != k} exp(s_kj / tau) is at least log(K - 1) + mean s / tau over the K (K - 1)
    pairs. The sum of s over these is ||sum_k mu_k||^2 - K >= -K, so that uniformity is at least
    log(K - 1) - 1 / ((K - 1) tau). Equality asks for equal cosines in each row and a zero sum, the
    regular simplex, which needs K - 1 dimensions. Four prototypes in the plane do not reach it.
    """,
    tolerance=1e-12,
    covers=("prototype_losses.prototypical_uniformity",),
    mutations=(
        _LOSSES + "prototypical_uniformity",
        "dualclust.proofs.propos_scattering._simplex_bound",
    ),
)
def check_uniformity_bound() -> float:
    """Return the violation of the lower bound, its equality at the simplex, and the two errors."""
    violations = []
    for k, tau in itertools.product((2, 3, 10, 50), (0.1, 0.5, 2.0)):
        at_optimum = prototype_losses.prototypical_uniformity(
            _all_valid(regular_simplex(k)), temperature=tau
        )
        violations.append(difference(at_optimum, _simplex_bound(k, tau)))
        for seed in range(8):
            value = prototype_losses.prototypical_uniformity(
                _all_valid(random_units(seed, k, 4)), temperature=tau
            )
            violations.append(excess(_simplex_bound(k, tau), value))
    square = _all_valid(at_angles(0, 90, 180, 270))
    in_plane = prototype_losses.prototypical_uniformity(square, temperature=0.5)
    violations.append(below_by(_simplex_bound(4, 0.5), in_plane, 0.3))
    for k, error in ((10, 0.706), (1000, 0.0074)):
        simplex = _all_valid(regular_simplex(k))
        parts = prototype_losses.prototypical_uniformity(simplex, temperature=0.5) - 2.0
        whole = prototype_losses.psl_same_view(simplex, simplex, temperature=0.5)
        violations.append(max(0.0, difference(whole - parts, error) - 5e-4))
    return worst(*violations)


def _printed_center(features: Floats, share: Floats) -> Floats:
    """Eq. 6 for one cluster."""
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
        "prototypes.batch_prototypes",
        "prototypes.normalize_sums",
        "prototypes.prototype_sums",
    ),
    mutations=(
        _PROTOTYPES + "batch_prototypes",
        _PROTOTYPES + "normalize_sums",
        _PROTOTYPES + "prototype_sums",
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
        masked = float(prototype_losses.psl_mixed_view(found, found, temperature=tau))
        without = float(prototype_losses.psl_mixed_view(kept, kept, temperature=tau))
        violations.append(difference(masked, without))
        # Row of cluster 1: its own logit, 0 of cluster 0, -1 / tau of cluster 3, two empty ones.
        real = np.asarray([1.0 / tau, 0.0, -1.0 / tau])
        zeroed, filled = (_log_sum_exp(np.append(real, [v, v])) for v in (0.0, -10.0))
        violations.append(below_by(_log_sum_exp(real), zeroed, 1e-9))
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
    return worst(*violations)


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
    """,
    covers=("prototypes.batch_prototypes", "prototypes.weighted_sums"),
    mutations=(_PROTOTYPES + "batch_prototypes", _PROTOTYPES + "weighted_sums"),
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
    return worst(*violations)


@claim(
    id="P7",
    paper="ProPos",
    place="Section 4.1",
    statement="""
    PSL has no class collision, since prototypes are definitely negatives of each other.
    """,
    hypotheses="No two clusters share a class: K at most the number of classes, pure clusters.",
    status=Status.REFUTED,
    derivation="""
    Whoever asks for more clusters than there are classes has two prototypes of one class by the
    pigeonhole principle, and the loss does not know. It is least at the regular simplex (P4), where
    *all* prototypes are equally far apart, those of one class as far as those of two. In the
    counterexample the loss falls at every step that takes the two prototypes of one class away from
    each other: the collision is the same as that of instances, one level up. The paper's Fig. 6,
    where over-clustering costs NMI on CIFAR-10, agrees.
    """,
    counterexample="""
    Two classes, K = 3. The prototype of class B is at 180 degrees, the two of class A at plus and
    minus t: the loss falls from t = 0 to t = 60 degrees, the regular simplex.
    """,
    covers=("prototype_losses.psl_mixed_view",),
    mutations=(_LOSSES + "psl_mixed_view",),
)
def check_prototypes_of_one_class_collide() -> float:
    """Return by how much the loss fails to fall while one class is torn apart."""
    values = []
    for t in range(0, 61, 5):
        found = _all_valid(at_angles(t, -t, 180))
        values.append(float(prototype_losses.psl_mixed_view(found, found, temperature=0.5)))
    return below_by(values[1:], values[:-1], 1e-3)
