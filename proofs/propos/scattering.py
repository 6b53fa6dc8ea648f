"""ProPos's loss that scatters prototypes: claims P1, P3, P4 and P7."""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import NDArray

from ...algos.losses import cross_entropy
from ...algos.losses.propos import prototypes, scattering
from ..references.scattering import all_valid, log_sum_exp, masked, printed_psl
from ..references.sphere_points import at_angles, random_units, regular_simplex
from ..references.violations import below_by, difference, excess, worst
from ..registry.claims import Status, claim

Floats = NDArray[np.float64]


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
    covers=("losses.propos.scattering.psl_cross_view",),
)
def check_decoupled_info_nce() -> float:
    """Return the violation of the identity for the difference, and of its interval."""
    violations = []
    for seed, (k, tau) in enumerate(itertools.product((2, 5, 40), (0.07, 0.5, 1.0))):
        x, y = random_units(seed, k, 6), random_units(seed + 100, k, 6)
        cosines, printed = x @ y.T / tau, []
        for i in range(k):
            positive, negatives = cosines[i, i], np.delete(cosines[i], i)
            info_nce = -float(cross_entropy.log_softmax(np.append(negatives, positive))[-1])
            uniformity = log_sum_exp(negatives)
            gap = info_nce - (uniformity - positive)
            low, high = (math.log1p(math.exp(s / tau) / (k - 1)) for s in (-2.0, 2.0))
            violations += [
                difference(gap, math.log1p(math.exp(positive - uniformity))),
                excess(low, gap),
                excess(gap, high),
            ]
            printed.append(info_nce)
        ours = scattering.psl_cross_view(all_valid(x), all_valid(y), temperature=tau)
        violations.append(difference(ours, np.mean(printed)))
    return worst(*violations)


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
        "losses.propos.scattering.psl_same_view",
        "losses.propos.scattering.psl_cross_view",
        "losses.propos.scattering.psl_mixed_view",
    ),
)
def check_three_scattering_losses() -> float:
    """Return the violation of the three closed forms, and of their being different."""
    forms = (
        (scattering.psl_same_view, "online", "online"),
        (scattering.psl_cross_view, "target", "target"),
        (scattering.psl_mixed_view, "target", "online"),
    )
    violations = []
    cases = [(random_units(s, 7, 5), random_units(s + 50, 7, 5)) for s in range(5)]
    for online, target in [*cases, (at_angles(0, 90), at_angles(30, 120))]:
        values = []
        for function, own, others in forms:
            a, b = all_valid(online), all_valid(target)
            values.append(float(function(a, b, temperature=0.5)))
            violations.append(difference(values[-1], printed_psl(online, target, 0.5, own, others)))
            same = [float(f(a, a, temperature=0.5)) for f, _, _ in forms]
            violations.append(max(same) - min(same))
        apart = min(abs(a - b) for a, b in itertools.combinations(values, 2))
        violations.append(excess(1e-3, apart))
    none = np.zeros(4, dtype=np.bool_)
    for seed, tau in itertools.product(range(4), (0.05, 0.5)):
        a, b = masked(seed, 8, 5)
        both = a.valid & b.valid
        for function, own, others in forms:
            found = float(function(a, b, temperature=tau))
            exact = printed_psl(a.vectors[both], b.vectors[both], tau, own, others)
            violations.append(difference(found, exact))
            nobody = prototypes.Prototypes(np.eye(4), none)
            violations.append(difference(function(nobody, nobody, temperature=tau), 0.0))
    return worst(*violations, *_gradient_violations())


def _gradient_violations() -> list[float]:
    """Check the gradients at mu' = mu by central differences, also of Eq. 28's closed form."""
    mu, tau, h, gradients = random_units(8, 5, 3), 0.5, 1e-5, []
    for function in (
        scattering.psl_same_view,
        scattering.psl_cross_view,
        scattering.psl_mixed_view,
    ):
        slopes = np.zeros_like(mu)
        for place in np.ndindex(*mu.shape):
            step = np.zeros_like(mu)
            step[place] = h
            ahead, behind = (
                float(function(all_valid(mu + s), all_valid(mu), temperature=tau))
                for s in (step, -step)
            )
            slopes[place] = (ahead - behind) / (2.0 * h)
        gradients.append(slopes)
    soft = np.exp(np.asarray(cross_entropy.log_softmax(mu @ mu.T, temperature=tau)))
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
    covers=("losses.propos.scattering.prototypical_uniformity",),
)
def check_uniformity_bound() -> float:
    """Return the violation of the lower bound, its equality at the simplex, and the two errors."""
    violations = []
    for k, tau in itertools.product((2, 3, 10, 50), (0.1, 0.5, 2.0)):
        at_optimum = scattering.prototypical_uniformity(
            all_valid(regular_simplex(k)), temperature=tau
        )
        violations.append(difference(at_optimum, _simplex_bound(k, tau)))
        for seed in range(8):
            value = scattering.prototypical_uniformity(
                all_valid(random_units(seed, k, 4)), temperature=tau
            )
            violations.append(excess(_simplex_bound(k, tau), value))
        found, _ = masked(k, k, 4)
        values = np.exp(found.vectors @ found.vectors.T / tau) * found.valid
        rows = np.sum(values * (1.0 - np.eye(k)), axis=1)[found.valid]
        exact = np.mean(np.log(rows)) if np.sum(found.valid) > 1 else 0.0
        value = scattering.prototypical_uniformity(found, temperature=tau)
        violations.append(difference(value, exact))
    square = all_valid(at_angles(0, 90, 180, 270))
    in_plane = scattering.prototypical_uniformity(square, temperature=0.5)
    violations.append(below_by(_simplex_bound(4, 0.5), in_plane, 0.3))
    for k, error in ((10, 0.706), (1000, 0.0074)):
        simplex = all_valid(regular_simplex(k))
        parts = scattering.prototypical_uniformity(simplex, temperature=0.5) - 2.0
        whole = scattering.psl_same_view(simplex, simplex, temperature=0.5)
        violations.append(max(0.0, difference(whole - parts, error) - 5e-4))
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
    covers=("losses.propos.scattering.psl_mixed_view",),
)
def check_prototypes_of_one_class_collide() -> float:
    """Return by how much the loss fails to fall while one class is torn apart."""
    values, violations = [], []
    for t in range(0, 61, 5):
        found = all_valid(at_angles(t, -t, 180))
        values.append(float(scattering.psl_mixed_view(found, found, temperature=0.5)))
        exact = printed_psl(found.vectors, found.vectors, 0.5, "target", "online")
        violations.append(excess(abs(values[-1] - exact), 1e-12))
    return worst(*violations, below_by(values[1:], values[:-1], 1e-3))
