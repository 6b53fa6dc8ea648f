"""ProPos as expectation maximization, and where it is not: claims P12 and P14 to P18."""

from __future__ import annotations

import itertools
import math
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...algos.losses import cross_entropy
from ...algos.theory import von_mises_fisher
from ..references.sphere_points import at_angles, random_units
from ..references.violations import difference, excess, unless, worst
from ..registry.claims import Status, claim

_HERE = "dualclust.proofs.propos.mixture."

Floats = NDArray[np.float64]

__all__ = ["log_joint", "log_likelihood"]


def log_joint(x: Floats, means: Floats, kappa: float) -> Floats:
    """Return ``log p(x, k)`` of a uniform mixture, (n, k)."""
    density = von_mises_fisher.log_density(x[:, None, :], means[None, :, :], np.asarray(kappa))
    return np.asarray(density) - math.log(means.shape[0])


def log_likelihood(joint: Floats) -> Floats:
    """Return ``log p(x)`` from ``log p(x, k)``, by row."""
    top = np.max(joint, axis=1, keepdims=True)
    value: Floats = (top + np.log(np.sum(np.exp(joint - top), axis=1, keepdims=True)))[:, 0]
    return value


def _elbo(q: Floats, joint: Floats) -> Floats:
    """Return ``sum_k q log(p(x, k) / q)`` with ``0 log 0 = 0``, by row."""
    log_q = np.log(np.where(q > 0, q, 1.0))
    value: Floats = np.sum(q * (joint - log_q), axis=1)
    return value


def _kl(q: Floats, log_posterior: Floats) -> Floats:
    log_q = np.log(np.where(q > 0, q, 1.0))
    value: Floats = np.sum(q * (log_q - log_posterior), axis=1)
    return value


@claim(
    id="P12",
    paper="ProPos",
    place="Eq. 17",
    statement="C_d(kappa) exp(kappa mu . v) is a probability density on the unit sphere.",
    hypotheses="d >= 2; at kappa = 0, where the constant reads 0 / 0, its limit 1 / area.",
    status=Status.HOLDS,
    derivation="""
    Around mu the integral is area(S^{d-2}) times that of exp(kappa cos t) sin^{d-2} t over [0, pi],
    and Poisson's integral for I_nu with nu = d/2 - 1 is that expression up to
    Gamma(nu + 1/2) sqrt(pi) (kappa / 2)^-nu: it is the reciprocal of C_d.

    True but not computable as printed: I_255(2), of d = 512, is 3e-505 and 0 in float64, and
    I_63(2), of d = 128, is 0 in float32. The constant is then infinite. Logarithms
    throughout repair it.
    """,
    tolerance=1e-11,
    covers=(
        "theory.von_mises_fisher.log_density",
        "theory.von_mises_fisher.log_normalizer",
        "theory.von_mises_fisher.log_sphere_area",
    ),
)
def check_density_integrates_to_one() -> float:
    """Return the violation of the integral, of the constant (mpmath) and of the underflow."""
    special: Any = import_module("scipy.special")
    mpmath: Any = import_module("mpmath")
    nodes, weights = np.polynomial.legendre.leggauss(400)
    t, weights = 0.5 * np.pi * (nodes + 1.0), 0.5 * np.pi * weights
    violations = []
    for d, kappa in itertools.product((2, 3, 8, 64, 512), (0.0, 0.5, 2.0, 25.0, 40.0)):
        x = np.zeros((t.shape[0], d))
        x[:, 0], x[:, 1] = np.cos(t), np.sin(t)
        mean = np.eye(d)[0]
        ring = math.log(2.0) if d == 2 else von_mises_fisher.log_sphere_area(d - 1)
        log_f = np.asarray(von_mises_fisher.log_density(x, mean, np.asarray(kappa)))
        total = np.sum(weights * np.exp(log_f + ring + (d - 2) * np.log(np.sin(t))))
        violations.append(difference(total, 1.0))
        constant = float(von_mises_fisher.log_normalizer(np.asarray(kappa), n_features=d))
        peak = float(von_mises_fisher.log_density(mean, mean, np.asarray(kappa)))
        violations.append(difference(constant + kappa, peak))
        nu = 0.5 * d - 1.0
        if kappa > 0.0:
            bessel = float(von_mises_fisher.log_bessel_i(nu, np.asarray(kappa)))
            own = nu * math.log(kappa) - 0.5 * d * math.log(2.0 * math.pi) - bessel
            violations.append(difference(constant / own, 1.0))
        if kappa > 0.0:
            with mpmath.workdps(50):
                nu = mpmath.mpf(d) / 2 - 1
                exact = mpmath.log(mpmath.mpf(kappa) ** nu / mpmath.besseli(nu, kappa))
                exact = float(exact - mpmath.mpf(d) / 2 * mpmath.log(2 * mpmath.pi))
            violations.append(difference(constant / exact, 1.0))
        area = 2.0 * math.pi ** (0.5 * d) / special.gamma(0.5 * d) if d < 100 else 0.0
        if area > 0.0:
            violations.append(difference(von_mises_fisher.log_sphere_area(d), math.log(area)))
    rng = np.random.default_rng(7)  # of any length, broadcast, with a row that has no direction
    x, means, kappas = rng.normal(size=(4, 1, 5)), rng.normal(size=(3, 5)), np.asarray([0.0, 2, 50])
    x[2] = 0.0
    found = np.asarray(von_mises_fisher.log_density(x, means, kappas))
    lengths = np.linalg.norm(x, axis=2) * np.linalg.norm(means, axis=1)
    cosines = np.sum(x * means, axis=2) / np.where(lengths > 0.0, lengths, 1.0)
    constants = np.asarray(von_mises_fisher.log_normalizer(kappas, n_features=5))
    violations.append(difference(found, constants + kappas * cosines))
    below = (
        von_mises_fisher.log_density(x, means, -kappas),
        von_mises_fisher.log_normalizer(np.asarray(-1.0), n_features=5),
    )
    uniform = -von_mises_fisher.log_sphere_area(5)
    violations += [difference(part, uniform) for part in below]
    violations.append(difference(special.iv(255.0, 2.0), 0.0))
    violations.append(difference(np.float32(special.iv(63.0, 2.0)), 0.0))
    return worst(*violations)


@claim(
    id="P14",
    paper="ProPos",
    place="Eq. 18 to 22",
    statement="log p(x) = ELBO(q) + KL(q || p(k|x)), and so ELBO(q) <= log p(x).",
    hypotheses="q(k) = 0 where p(k|x) = 0; 0 log 0 = 0.",
    status=Status.HOLDS,
    derivation="""
    p(x, k) = p(k|x) p(x) for every k, so that log p(x) = sum_k q(k) (log p(x, k) - log p(k|x));
    adding and subtracting sum_k q log q gives the two terms. KL >= 0 by Jensen's inequality, with
    equality iff q = p(k|x).
    """,
    tolerance=1e-12,
    covers=("losses.cross_entropy.log_softmax",),
)
def check_evidence_bound() -> float:
    """Return the violation of the identity and the bound, for soft, one-hot and exact q."""
    violations = []
    for seed in range(10):
        rng, k = np.random.default_rng(seed), 2 + seed % 4
        joint = log_joint(random_units(seed, 30, 4), random_units(seed + 20, k, 4), 3.0)
        log_posterior = np.asarray(cross_entropy.log_softmax(joint))
        truth = log_likelihood(joint)
        hard = np.eye(k)[rng.integers(0, k, size=30)]
        for q in (rng.dirichlet(np.ones(k), size=30), hard, np.exp(log_posterior)):
            violations.append(difference(_elbo(q, joint) + _kl(q, log_posterior), truth))
            violations.append(excess(_elbo(q, joint), truth))
        cosines = random_units(seed, 30, 4) @ random_units(seed + 20, k, 4).T
        exact = 3.0 * cosines - log_likelihood(3.0 * cosines)[:, None]
        violations.append(difference(log_posterior, exact))
        violations.append(
            difference(cross_entropy.log_softmax(cosines, temperature=1.0 / 3.0), exact)
        )
        violations.append(difference(cross_entropy.log_softmax(joint + 50.0)[0], exact[0]))
        violations.append(difference(_elbo(np.exp(log_posterior), joint), truth))
    return worst(*violations)


def _moving_objective(sympy: Any, theta: Any, fixed: Any) -> Any:
    """Return Eq. 23 for p(x, 1) = exp(theta) / 2 and p(x, 2) = 1 / 2, posterior at `fixed`."""
    posterior = 1 / (1 + sympy.exp(-fixed))
    return posterior * (theta - sympy.log(2)) + (1 - posterior) * (-sympy.log(2))


@claim(
    id="P15",
    paper="ProPos",
    place="Eq. 23",
    statement="The entropy of q is a constant of the maximization, and may be left out.",
    hypotheses="q = p(k|x; theta_t) stays that of the iterate before; Eq. 23 prints theta.",
    status=Status.EXTRA,
    derivation="""
    With q frozen at theta_t its entropy does not depend on theta: nothing is lost, and the gradient
    of sum_k q log p(x, k; theta) at theta_t is that of log p(x; theta) (Fisher's identity). With
    p(k|x; theta), as printed, the entropy is a function of theta. Take p(x, 1) = e^theta / 2 and
    p(x, 2) = 1 / 2: the frozen gradient is s = 1 / (1 + e^-theta), which is that of log p(x); the
    printed one has theta s (1 - s) more.
    """,
    mutations=(_HERE + "_moving_objective",),
    about="paper",
)
def check_frozen_posterior() -> float:
    """Return the violation of Fisher's identity and of the printed excess, in exact algebra."""
    sympy: Any = import_module("sympy")
    theta, at = sympy.symbols("theta at", real=True)
    log_p = sympy.log((sympy.exp(theta) + 1) / 2)
    s = 1 / (1 + sympy.exp(-theta))
    frozen = sympy.diff(_moving_objective(sympy, theta, at), theta).subs(at, theta)
    printed = sympy.diff(_moving_objective(sympy, theta, theta), theta)
    gaps = (frozen - sympy.diff(log_p, theta), printed - frozen - theta * s * (1 - s))
    return worst(*(unless(sympy.simplify(gap) == 0) for gap in gaps))


@claim(
    id="P16",
    paper="ProPos",
    place="Section 8.3, E-step",
    statement="After k-means, ELBO(q_{t+1}; theta_t) = log p(x; theta_t).",
    hypotheses="""
    It needs q = p(k|x; theta_t): one-hot posteriors (kappa to infinity), and centers and features
    of theta_t, where the method takes those of the averaged target network.
    """,
    status=Status.REFUTED,
    derivation="""
    For q one-hot at y the entropy is 0 and ELBO = log p(x, y) = log p(x) + log p(y|x). The last
    term is negative for every finite kappa, also at the best y: equality in P14 asks for a one-hot
    posterior. With cosine 1 to the own center and 0 to the K - 1 others, the gap is
    log(1 + (K - 1) exp(-1 / tau)).
    """,
    counterexample="""
    tau = 0.5, orthogonal centers, the feature at its center: the posterior of the own cluster is
    0.451 for K = 10 and 0.007 for K = 1000, the gaps are 0.797 and 4.914 nats.
    """,
    tolerance=1e-12,
    covers=("theory.von_mises_fisher.log_density",),
)
def check_hard_step_leaves_a_gap() -> float:
    """Return how far the gaps are from their closed form, and from being above 0.7 nats."""
    violations = []
    for k, stated in ((10, 0.797), (20, 1.274), (200, 3.33), (1000, 4.914)):
        means = np.eye(k)
        joint = log_joint(means[:1], means, 2.0)
        gap = float(log_likelihood(joint)[0] - _elbo(np.eye(k)[:1], joint)[0])
        violations.append(difference(gap, math.log1p((k - 1) * math.exp(-2.0))))
        violations.append(excess(abs(gap - stated), 5e-3))
        constant = float(von_mises_fisher.log_normalizer(np.asarray(2.0), n_features=k))
        peak = constant + 2.0 * means[0] - math.log(k)  # cosine 1 to the own center, 0 to others
        violations.append(excess(difference(joint[0] / peak, 1.0), 1e-11))
        violations.append(excess(0.7, gap))
    return worst(*violations)


@claim(
    id="P17",
    paper="ProPos",
    place="Eq. 26",
    statement="p(x|k) = exp(mu_k . v / tau) / sum_k' exp(mu_k' . v / tau) is a vMF density.",
    hypotheses="None makes it one.",
    status=Status.REFUTED,
    derivation="""
    At every v the K expressions sum to 1, so that their integrals over the sphere sum to its area.
    Densities would sum to K. The area is a rational multiple of a power of pi, never an integer; at
    d = 256 it is exp(-344). The expression is the *posterior* p(k|x) of vMF densities with equal
    concentrations and a uniform prior, in which the constants cancel (P18).
    """,
    counterexample="""
    d = 2, tau = 0.5, centers at 0, 100 and 180 degrees: the three integrals sum to 2 pi, while
    those of the densities are 1 each.
    """,
    tolerance=1e-11,
    covers=("theory.von_mises_fisher.log_density", "theory.von_mises_fisher.log_sphere_area"),
)
def check_posterior_is_no_density() -> float:
    """Return how far the integrals are from summing to the area, and the densities' from 1."""
    circle = at_angles(*(np.arange(720) / 2.0))
    means = at_angles(0, 100, 180)
    step = 2.0 * np.pi / circle.shape[0]
    printed = np.exp(np.asarray(cross_entropy.log_softmax(circle @ means.T, temperature=0.5)))
    integrals = step * np.sum(printed, axis=0)
    area = math.exp(von_mises_fisher.log_sphere_area(2))
    density = von_mises_fisher.log_density(circle[:, None, :], means, np.asarray(2.0))
    return worst(
        difference(np.sum(integrals), area),
        difference(area, 2.0 * math.pi),
        excess(0.5, np.min(np.abs(integrals - 1.0))),
        difference(step * np.sum(np.exp(np.asarray(density)), axis=0), 1.0),
        difference(np.sum(printed, axis=1), 1.0),
        *(
            difference(von_mises_fisher.log_sphere_area(d), math.log(a))
            for d, a in ((3, 4.0 * math.pi), (4, 2.0 * math.pi**2), (5, 8.0 / 3.0 * math.pi**2))
        ),
        excess(abs(von_mises_fisher.log_sphere_area(256) + 344.0), 1.0),
    )


@claim(
    id="P18",
    paper="ProPos",
    place="Eq. 27",
    statement="The M-step maximizes the likelihood by minimizing -log softmax(mu . v / tau)_y.",
    hypotheses="""
    Uniform prior, equal concentrations; and the likelihood is the discriminative one, the product
    of p(y_i | x_i), not p(x_i) and not the ELBO.
    """,
    status=Status.EXTRA,
    derivation="""
    By Bayes' rule with equal priors and constants, p(y|x) = exp(kappa mu_y . v) / sum_k
    exp(kappa mu_k . v): Eq. 27 is the negative log of it, with kappa = 1 / tau. With concentrations
    that differ, the constants C_d(kappa_k) stay and it is not.

    The ELBO of Eq. 24 has no denominator: for one-hot q it is kappa mu_y . v + constant, greatest
    at v = mu_y. Eq. 27 is smallest elsewhere: for two orthogonal centers on the circle at 45
    degrees *behind* mu_y, where v is as far as it can be from the other.

    One could hold that the sentence is right, since the loss that is minimized *is* a negative
    log-likelihood, of labels given features. We ask for the hypothesis to be named, because the
    section maximizes the likelihood of the features by way of the ELBO, and the two have different
    optima, so that "the likelihood" decides what the M-step does.
    """,
    tolerance=1e-12,
    covers=("losses.cross_entropy.log_softmax", "theory.von_mises_fisher.log_density"),
)
def check_discriminative_likelihood() -> float:
    """Return the violation of Bayes' rule, and of the two optima being 45 degrees apart."""
    violations = []
    for seed, tau in itertools.product(range(5), (0.1, 0.5)):
        x, means = random_units(seed, 20, 5), random_units(seed + 9, 6, 5)
        joint = log_joint(x, means, 1.0 / tau)
        printed = np.asarray(cross_entropy.log_softmax(x @ means.T, temperature=tau))
        violations.append(difference(joint - log_likelihood(joint)[:, None], printed))
    kappas = np.asarray([1.0, 4.0])
    x, means = random_units(3, 20, 5), random_units(4, 2, 5)
    unequal = np.asarray(von_mises_fisher.log_density(x[:, None, :], means, kappas))
    bayes = unequal - log_likelihood(unequal)[:, None]
    naive = np.asarray(cross_entropy.log_softmax(kappas * (x @ means.T)))
    violations.append(excess(0.1, difference(bayes, naive)))
    degrees = np.arange(-180.0, 180.0)
    v, centers = at_angles(*degrees), at_angles(0, 90)
    eq27 = -np.asarray(cross_entropy.log_softmax(v @ centers.T, temperature=0.5))[:, 0]
    elbo = log_joint(v, centers, 2.0)[:, 0]
    violations.append(difference(degrees[np.argmin(eq27)], -45.0))
    violations.append(difference(degrees[np.argmax(elbo)], 0.0))
    for d, kappa in ((3, 1.5), (6, 20.0)):
        x, mean = random_units(8, 7, d), random_units(9, 1, d)
        found = von_mises_fisher.log_density(x, mean, np.asarray(kappa))
        constant = von_mises_fisher.log_normalizer(np.asarray(kappa), n_features=d)
        violations.append(difference(found, constant + kappa * (x @ mean[0])))
    return worst(*violations)
