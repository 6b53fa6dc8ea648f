"""Claims of the MI + margin supplement about its loss and experiments: M2, M5 to M8, M10.

Those about the pseudo-labels are in `labels`, M9 is in `baselines`.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, softmax, xlogy

from ...algos.losses.information import mutual
from ...algos.pseudo_labels import em, energy, solver
from ..references.violations import difference, excess, unless, worst
from ..registry.claims import Status, claim
from . import label_energy
from .label_energy import Weights

PAPER = "MI + margin supplement"


@claim(
    id="M2",
    paper=PAPER,
    place="appendix A, Eq. (a)",
    statement="-H(mean s) equals KL(mean s | u) up to a constant.",
    hypotheses="Left out: u is uniform.",
    status=Status.EXTRA,
    derivation="""
    KL(q | u) = -H(q) - sum_k q_k ln u_k. For u_k = 1 / K the last term is ln K for every q on the
    simplex. For any other u it is linear in q and not constant there, and the two losses have
    different minimizers: -H wants q uniform, KL wants q = u.

    Check, with the functions of `information.mutual`, for a batch of batches and at two
    temperatures: each is its transcription; KL + H(mean s) - ln K is 0 for uniform u; for
    u = (0.5, 0.3, 0.2) the difference takes values more than 0.1 apart.
    """,
    tolerance=1e-12,
    covers=(
        "losses.information.mutual.prior_divergence",
        "losses.information.mutual.mutual_information",
        "losses.information.mutual.information_margin_loss",
    ),
)
def entropy_and_divergence() -> float:
    """Return the largest deviation from ln K for uniform u and from the transcription.

    Return 1 for a constant.
    """
    rng = np.random.default_rng(42)
    u, third = np.asarray([0.5, 0.3, 0.2]), np.full(3, 1.0 / 3.0)
    violations, constants = [], []
    for t in (1.0, 0.5) * 10:
        scores = rng.normal(size=(2, 9, 3)) + 2.0 * rng.normal(size=3)
        v = rng.normal(size=(2, 2, 3))
        info = np.asarray(mutual.mutual_information(scores, temperature=t))
        sure = np.asarray(mutual.mean_entropy(scores, temperature=t))
        s = softmax(scores / t, axis=-1)
        q = s.mean(axis=1)
        entropies = -xlogy(s, s).sum(axis=2).mean(axis=1), -xlogy(q, q).sum(axis=1)
        uniform = np.asarray(mutual.prior_divergence(scores, temperature=t))
        other = np.asarray(mutual.prior_divergence(scores, u, temperature=t))
        violations += [
            difference(sure, entropies[0]),
            difference(info, entropies[1] - entropies[0]),
            difference(uniform + info + sure, math.log(3.0)),
            difference(other, np.sum(q * np.log(q / u), axis=1)),
        ]
        constants += (other + entropies[1]).tolist()
        for prior, weight in ((None, 1.0), (u, 1.3), (u, 0.0)):
            loss = mutual.information_margin_loss(
                scores, v, prior, margin_weight=0.1, fairness_weight=weight, temperature=t
            )
            fair = np.sum(q * np.log(q / (third if prior is None else prior)), axis=1)
            exact = entropies[0] + weight * fair + 0.1 * np.sum(v * v, axis=(1, 2))
            violations.append(difference(loss, exact))
    plain = mutual.information_margin_loss(scores, v, margin_weight=0.1)
    s = softmax(scores, axis=-1)
    exact = math.log(3.0) + xlogy(q := s.mean(axis=1), q).sum(axis=1)
    exact = exact - xlogy(s, s).sum(axis=2).mean(axis=1) + 0.1 * np.sum(v * v, axis=(1, 2))
    return worst(*violations, difference(plain, exact), unless(np.ptp(constants) > 0.1))


@claim(
    id="M5",
    paper=PAPER,
    place="appendix A, first paragraph",
    statement="Decisiveness alone does not favor large margins if the classifier's norm is free.",
    hypotheses="Separable data: some hyperplane has all samples at a positive distance.",
    status=Status.HOLDS,
    derivation="""
    Two clusters, logit difference z_i = v . x_i + b, and any (v, b) with |z_i| >= m > 0. Then
    (c v, c b) has |z_i| >= c m, and the entropy of a sample is h(z) = |z| p + ln(1 + e^-|z|) with
    p = 1 / (1 + e^|z|), at most (1 + |z|) e^-|z|, which falls for |z| > 0. So the mean entropy is
    at most (1 + c m) e^(-c m) -> 0 as c grows: every separating plane, however small its margin,
    reaches the infimum 0 in the limit. The norm term grows as c^2 and excludes it.

    Check: three separating planes of margins 1, 0.5 and 0.01 on one data set, scaled: the entropy
    is h, is below the bound, and below 1e-12 for the largest scale, also where the scale is the
    inverse of a temperature; the margin term is c^2 times, the loss of M2 the sum of its terms.
    """,
    tolerance=1e-12,
    covers=(
        "losses.information.mutual.mean_entropy",
        "losses.information.mutual.margin_term",
        "losses.information.mutual.information_margin_loss",
    ),
)
def decisiveness_without_margin() -> float:
    """Return the most by which a mean entropy exceeds its bound, and the last one."""
    x = np.asarray([[1.0, 0.0], [2.0, 1.0], [-1.0, 0.0], [-2.0, -1.0]])
    violations = []
    for shift in (0.0, 0.5, 0.99):
        z = x[:, 0] + shift
        margin, entropy = float(np.abs(z).min()), math.inf
        for c in (1.0, 10.0, 100.0, 4000.0):
            scores = np.stack([0.5 * c * z, -0.5 * c * z], axis=1)
            entropy = float(mutual.mean_entropy(scores))
            long = np.abs(c * z)
            exact = np.mean(long * expit(-long) + np.log1p(np.exp(-long)))
            by_heat = mutual.mean_entropy(scores / c, temperature=1.0 / c)
            v = c * np.asarray([[0.5, -0.5], [0.0, 0.0]])
            norm = float(mutual.margin_term(v, margin_weight=2.0))
            whole = mutual.information_margin_loss(scores, v, margin_weight=2.0)
            fair = mutual.prior_divergence(scores)
            violations += [
                difference((entropy, by_heat), exact),
                excess(entropy, (1.0 + c * margin) * math.exp(-c * margin)),
                difference(norm / (c * c), 1.0),
                difference(whole / (c * c), (entropy + fair + norm) / (c * c)),
            ]
        violations.append(entropy)
    rng = np.random.default_rng(47)
    scores, v = rng.normal(size=(3, 5, 4)), rng.normal(size=(3, 2, 4))
    s = softmax(scores / 0.3, axis=-1)
    sure = mutual.mean_entropy(scores, temperature=0.3)
    norm = mutual.margin_term(v, margin_weight=0.7)
    violations.append(difference(sure, -xlogy(s, s).sum(axis=2).mean(axis=1)))
    violations.append(difference(norm, 0.7 * np.sum(v * v, axis=(1, 2))))
    return worst(*violations)


# Point-symmetric, so that balanced planes pass through the origin or cut between its sides.
_SIDE = np.asarray([[1.0, 0.4], [1.6, 2.4], [2.6, 1.0], [1.1, 1.6]])
_POINTS = np.concatenate([_SIDE, -_SIDE])


def _largest_margin() -> tuple[Any, float]:
    """Return direction and half-width of the widest empty strip that halves the points."""
    turns = np.linspace(0.0, np.pi, 20_001)
    directions = np.stack([np.cos(turns), np.sin(turns)], axis=1)
    sorted_ = np.sort(_POINTS @ directions.T, axis=0)
    half = len(_POINTS) // 2
    widths = 0.5 * (sorted_[half] - sorted_[half - 1])
    best = int(widths.argmax())
    return directions[best], float(widths[best])


def _trained_direction(gamma: float) -> Any:
    """Return the best direction found for ``mean H + KL + gamma |v|^2``, from many starts."""

    def loss(parameters: Any) -> float:
        v = 0.5 * np.stack([parameters[:2], -parameters[:2]], axis=1)
        scores = _POINTS @ v + 0.5 * parameters[2] * np.asarray([1.0, -1.0])
        value = mutual.information_margin_loss(scores, v, margin_weight=gamma)
        return float(value) / gamma

    best, value = np.zeros(2), math.inf
    for turn in np.linspace(0.0, np.pi, 7)[:-1]:
        start = math.log(1.0 / gamma) * np.asarray([math.cos(turn), math.sin(turn), 0.0])
        found = minimize(loss, start, method="Nelder-Mead", options={"fatol": 1e-6})
        if found.fun < value:
            best, value = found.x[:2], float(found.fun)
    return best / np.linalg.norm(best)


@claim(
    id="M6",
    paper=PAPER,
    place="appendix A, Eq. (a)",
    statement="The term gamma |v|^2 leads to margin maximization.",
    hypotheses="""
    Left out: separable data, the global minimizer, gamma -> 0; the fairness term decides which
    sizes the separated sides have.
    """,
    status=Status.EXTRA,
    derivation="""
    Two clusters; with w = v_1 - v_2 the logit differences are z_i = w . x_i + b, and |v|^2 >=
    |w|^2 / 2 with equality at a minimizer. Let m* be the largest margin of a plane that separates
    the samples into equal halves, L = ln(1 / gamma). Scaling that plane to |w| = L / m* gives
    |z_i| >= L, an entropy of at most (1 + L) gamma by M5, a fairness term of O(gamma^2), and the
    norm term gamma L^2 / (2 m*^2), which dominates: min loss <= gamma L^2 / (2 m*^2) (1 + o(1)).
    A minimizer thus has a fairness term and entropies of O(gamma L^2): its sides are equal halves,
    and each |z_i| >= L (1 - o(1)). If its plane has margin m', then |w| m' >= L (1 - o(1)), and
    its norm term is at least gamma L^2 / (2 m'^2) (1 - o(1)). Compared: m' >= m* (1 - o(1)).
    Nothing follows at a given gamma, nor for a local minimizer.

    Check: eight points in the plane; the angle between the best classifier found and the widest
    strip is below 1 degree for gamma = 1e-6, falls from 0.1 to 1e-2, 1e-4 and 1e-6, and is above
    15 degrees for gamma = 0.1.
    """,
    covers=(
        "losses.information.mutual.margin_term",
        "losses.information.mutual.information_margin_loss",
    ),
)
def margin_as_gamma_vanishes() -> float:
    """Return by how many degrees the angles differ from those listed."""
    strip, _ = _largest_margin()
    angles = []
    for gamma in (0.1, 1e-2, 1e-4, 1e-6):
        cosine = abs(float(_trained_direction(gamma) @ strip))
        angles.append(math.degrees(math.acos(min(1.0, cosine))))
    rises = max(b - a for a, b in pairwise(angles))
    return max(0.0, angles[-1] - 1.0, rises, 15.0 - angles[0])


@claim(
    id="M7",
    paper=PAPER,
    place="appendix D, Figure 5",
    statement="Updating the pseudo-labels for each batch after every iteration converges faster.",
    hypotheses="One run of a linear classifier on MNIST; the other schedule is not described.",
    status=Status.EMPIRICAL,
    derivation="""
    Printed are accuracies after 50 epochs from one initialization: 63 % and 52.35 %, 10.65 points
    apart, without repetitions, and the text does not say which curve is which schedule. What can
    be said exactly: for fixed outputs the labels of a batch depend on no other batch, and labels
    solved for stale outputs are not optimal for new ones. Check: the difference; and on a toy
    batch, labels of the outputs before a change leave a gap of more than 0.001 for those after it,
    by energies and by the proof, which solving again removes.
    """,
    tolerance=1e-9,
)
def schedules_of_figure_5() -> float:
    """Return the error of 10.65, and by how much stale labels are as good as new ones."""
    rng = np.random.default_rng(43)
    before, after = rng.dirichlet(np.ones(3), (2, 8))
    solve = solver.pseudo_labels
    stale, new = (
        np.asarray(solve(s, fairness_weight=1.0, tol=1e-10).labels) for s in (before, after)
    )
    gaps = [float(energy.label_gap(after, y, fairness_weight=1.0)) for y in (stale, new)]
    w = Weights(1.0, 1.0, np.full(3, 1.0 / 3.0))
    lost = label_energy.energy(after, stale, w) - label_energy.energy(after, new, w)
    return worst(
        excess(1e-3, lost),
        excess((lost, gaps[1]), (gaps[0], 1e-9)),
        difference(_FIGURE_5[0] - _FIGURE_5[1], 10.65),
    )


_FIGURE_5 = (63.0, 52.35)

# Table 1, VGG4: side of the input; stride and channels of the four convolutions (5 x 5, padding 2);
# the last shape printed. A 2 x 2 pooling of stride 2 follows the first three.
_VGG4 = {
    "grey": (28, 1, (64, 128, 256, 512), (512, 3, 3)),
    "RGB 32": (32, 1, (32, 64, 128, 256), (256, 4, 4)),
    "RGB 96": (96, 2, (128, 256, 512, 1024), (1024, 1, 1)),
}


def _side_after(side: int, kernel: int, stride: int, padding: int) -> int:
    return (side + 2 * padding - kernel) // stride + 1


@claim(
    id="M8",
    paper=PAPER,
    place="appendix E.1, Table 1",
    statement="The last feature maps of VGG4 are 512 x 3 x 3, 256 x 4 x 4 and 1024 x 1 x 1.",
    hypotheses="Left out: sizes are rounded down, as is the default of PyTorch.",
    status=Status.HOLDS,
    derivation="""
    A window of size f, stride s and padding p takes a side n to floor((n + 2 p - f) / s) + 1.
    Grey: 28, 28, 14, 14, 7, 7, 3, 3. RGB 32: 32, 16, 8, 4. RGB 96 with stride 2: 96, 48, 24, 12,
    6, 3, 1, 1. With sizes rounded up the first would end at 4 and the third at 1. The networks
    themselves are built in `train`, whose tests hold them against these shapes.
    """,
    about="paper",
    mutations=(
        "dualclust.proofs.mi_margin.objective._side_after",
        "dualclust.proofs.mi_margin.objective._VGG4",
    ),
)
def shapes_of_vgg4() -> float:
    """Return the entries of the last shapes that are not as printed."""
    wrong = 0
    for side, stride, channels, printed in _VGG4.values():
        for layer in range(4):
            side = _side_after(side, 5, stride, 2)
            if layer < 3:
                side = _side_after(side, 2, 2, 0)
        wrong += sum(a != b for a, b in zip((channels[-1], side, side), printed, strict=True))
    return float(wrong)


@claim(
    id="M10",
    paper=PAPER,
    place="appendix E.3",
    statement="All methods reach convergence within 50 epochs.",
    hypotheses="No criterion of convergence given, neither for training nor for Algorithm 1.",
    status=Status.EMPIRICAL,
    derivation="""
    Not checked, because no criterion is given and the runs need the paper's data and hardware.
    Why it matters: Algorithm 1 has an inner loop "while not converged". For lambda = 100, as
    printed, its error shrinks by 1 - 1 / 101 per sweep at best, even for soft outputs, so that 5
    sweeps and 2,000 sweeps give different labels, and training differs with them. Check: on one
    soft batch, the error of the energy after 5 sweeps is more than a thousand times that after
    2,000, and the error of the labels shrinks by 0.990 to 0.995 in the sweeps after 10 and 299.
    """,
)
def sweeps_until_convergence() -> float:
    """Return by how much the number of sweeps does not decide the accuracy as stated."""
    s, w = (
        np.random.default_rng(44).dirichlet(np.ones(4), 20),
        Weights(100.0, 1.0, np.full(4, 0.25)),
    )
    run = em.em_labels
    best = np.asarray(solver.pseudo_labels(s, fairness_weight=100.0, tol=1e-12).labels)
    after = {
        n: np.asarray(run(s, fairness_weight=100.0, n_iter=n)) for n in (5, 10, 11, 299, 300, 2000)
    }
    lost = {n: label_energy.energy(s, y, w) for n, y in after.items()}
    gap = float(energy.label_gap(s, after[5], fairness_weight=100.0))
    least = label_energy.energy(s, best, w)
    error = {n: float(np.linalg.norm(y - best)) for n, y in after.items()}
    rates = error[11] / error[10], error[300] / error[299]
    return worst(
        excess(1e3 * (lost[2000] - least), lost[5] - least),
        excess(lost[5] - least, gap),
        excess(rates, 0.995),
        excess(0.99, rates),
    )
