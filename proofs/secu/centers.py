"""Claims of SeCu's supplement about Theorem 1, the centers: S3c to S3e.

Notation: q_i = 1 - p_ij for the samples i of cluster j; T(w) = Pi(sum q_i x_i), where q depends on
w; f(w) = sum_i log(1 + A_i exp(-x_i . w / lambda)), the loss of cluster j as a function of its own
center alone.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...algos.clustering import hardness_weighted
from ...algos.core import projections
from ...algos.losses import secu
from ..registry.claims import Status, claim
from .losses import center_losses, distance_losses, slopes_of, unit_rows

PAPER = "SeCu supplement"


# Three samples at +1, two at -1 on the line; the other two clusters have their centers at +1, -1.
_LINE = np.asarray([[1.0], [1.0], [1.0], [-1.0], [-1.0]])
_LINE_LAMBDA = 0.1


def _line_centers(own: float) -> Any:
    return np.asarray([[own], [1.0], [-1.0]])


def _pull(x: Any, labels: Any, centers: Any, lam: float, cluster: int = 0) -> Any:
    """Return the numerator of Eq. 4, sum of (1 - p) x over the cluster."""
    q = hardness_weighted.hardness(x, labels, centers, temperature=lam)
    return (q * (labels == cluster)) @ x


@claim(
    id="S3c",
    paper=PAPER,
    place="section 1.3, Theorem 1 and Eq. 4",
    statement="""
    With features and labels fixed, the optimal center is w_j = Pi(sum_i (1 - p_ij) x_i /
    sum_i (1 - p_ij)), a closed form.
    """,
    hypotheses="""
    None as a formula: p_ij depends on w_j. As a *sufficient* condition it holds if the numerator
    at w is not zero, K >= 2 and the other centers are fixed.
    """,
    status=Status.REFUTED,
    derivation="""
    Eq. 4 is an equation in w_j, w = T(w). It need not have a solution: see the counterexample,
    where the optimum is one of two points, T exchanges them, and neither solves Eq. 4. So the
    condition is not necessary.

    It is sufficient. f is convex (log(1 + A e^-z) in the linear function z), its gradient is
    -g / lambda with g = sum q_i x_i, and if w = g / |g| then grad f(w) . (v - w) =
    |g| (1 - w . v) / lambda >= 0 for all |v| <= 1: w minimizes f over the whole ball, hence over
    the sphere. In general f(w) - min f <= g . (T(w) - w) / lambda, a certificate for any w. If
    the minimum over the ball lies inside it, grad f = 0 there and no unit vector solves Eq. 4
    with a nonzero numerator (a solution would be another minimum on the ball; on the segment
    between the two f is constant, so each x_i . w is, and the numerator there is zero as well).

    Check: the counterexample, which gets the status INTERIOR; on random clusters of three sizes,
    one of them empty, at four temperatures from 0.02 to 1, every solution is certified or interior
    within 60 steps, and no point of a polar grid of the disk is below a certified center by more
    than its gap. Gap and residual are those of the
    returned center, worked out in the check in nats per sample, also where the method was stopped
    early; a center is certified if and only if that gap is within the tolerance asked for.
    """,
    counterexample="""
    d = 1, lambda = 0.1, x = (1, 1, 1, -1, -1) in one cluster, the other two centers at 1 and -1.
    Unit centers are 1 and -1; f(1) = 42.08 < f(-1) = 61.39, so the optimum is 1. But T(1) = -1 and
    T(-1) = 1: iterating Eq. 4 alternates for ever and the optimum does not satisfy it.
    """,
    tolerance=1e-9,
    covers=(
        "clustering.hardness_weighted.hardness_centers",
        "clustering.hardness_weighted.hardness",
    ),
)
def closed_form_of_the_center() -> float:
    """Return how far the counterexample is from standing, and a certified center from best."""
    labels = np.zeros(5, dtype=np.int64)
    up, down = _line_centers(1.0), _line_centers(-1.0)
    best, other = (float(center_losses(_LINE, w, labels, _LINE_LAMBDA).sum()) for w in (up, down))
    pulls = [float(_pull(_LINE, labels, w, _LINE_LAMBDA)[0]) for w in (up, down)]
    worst = max(0.0, best - other, pulls[0], -pulls[1])
    found = hardness_weighted.hardness_centers(_LINE, labels, up, temperature=_LINE_LAMBDA)
    if int(found.status[0]) != hardness_weighted.CenterStatus.INTERIOR:
        return 1.0
    rng = np.random.default_rng(32)
    turns, radii = np.meshgrid(np.linspace(0.0, 2.0 * np.pi, 181), np.linspace(0.0, 1.0, 11))
    disk = (radii * np.asarray([np.cos(turns), np.sin(turns)])).reshape(2, -1).T
    certified = 0
    for lam in (0.02, 0.1, 0.5, 1.0):
        for _ in range(4):
            x, centers = unit_rows(rng, 9, 2), unit_rows(rng, 4, 2)
            labels = np.asarray([0, 0, 0, 0, 0, 1, 1, 1, 2], dtype=np.int64)
            found = hardness_weighted.hardness_centers(
                x, labels, centers, temperature=lam, max_iter=60
            )
            worst = max(worst, _wrong_certificate(x, labels, centers, lam, found, 1e-8))
            for j in range(3):
                if int(found.status[j]) != hardness_weighted.CenterStatus.CERTIFIED:
                    settled = int(found.status[j]) == hardness_weighted.CenterStatus.INTERIOR
                    worst = max(worst, 0.0 if settled else 1.0)
                    continue
                certified += 1
                mine, w = x[labels == j], centers.copy()
                zeros = np.full(len(mine), j)
                w[j] = found.centers[j]
                value = float(center_losses(mine, w, zeros, lam).mean())
                scores = np.repeat((mine @ w.T)[None], len(disk), axis=0)
                scores[:, :, j] = disk @ mine.T
                others = secu.center_loss(
                    scores, scores, np.repeat(zeros[None], len(disk), axis=0), temperature=lam
                )
                below = value - float(others.mean(axis=1).min()) - float(found.gap[j])
                worst = max(worst, below)
            rough = hardness_weighted.hardness_centers(
                x, labels, centers, temperature=lam, max_iter=1, tol=1e-12
            )
            for factor in (0.02, 0.5, 2.0):  # of a gap that is reached: tolerances around it
                tolerance = max(1e-12, factor * float(rough.gap[0]))
                again = hardness_weighted.hardness_centers(
                    x, labels, centers, temperature=lam, max_iter=1, tol=tolerance
                )
                wrong = _wrong_certificate(x, labels, centers, lam, again, tolerance)
                worst = max(worst, wrong)
    return worst if certified >= 12 else 1.0


def _wrong_certificate(
    x: Any, labels: Any, centers: Any, lam: float, found: Any, tolerance: float
) -> float:
    """Return the error of gap and residual, in plain NumPy.

    Return 1 where a status contradicts the gap.
    """
    worst = 0.0
    for j, start in enumerate(centers):
        mine, w = x[labels == j], found.centers[j]
        worst = max(worst, abs(float(np.linalg.norm(w)) - 1.0))
        empty = int(found.status[j]) == hardness_weighted.CenterStatus.EMPTY
        if len(mine) == 0 or empty:
            worst = max(worst, float(np.abs(w - start).max()), float(empty != (len(mine) == 0)))
            continue
        others = np.exp(mine @ np.delete(centers, j, axis=0).T / lam).sum(axis=1)
        q = others / (others + np.exp(mine @ w / lam))
        pull = q @ mine
        target = pull / np.linalg.norm(pull)
        gap = float(pull @ (target - w)) / (lam * len(mine))
        worst = max(worst, abs(float(found.gap[j]) - max(gap, 0.0)))
        worst = max(worst, abs(float(found.residual[j]) - float(np.linalg.norm(w - target))) * 1e-2)
        told = int(found.status[j]) == hardness_weighted.CenterStatus.CERTIFIED
        if abs(gap - tolerance) > 1e-3 * tolerance:  # not at the edge itself
            worst = max(worst, float(told != (gap <= tolerance)))
    return worst


def _printed_gradient(x: Any, q: Any, w: Any) -> Any:
    """Return the gradient of Eq. 1 as printed, ``w - sum q x / sum q``."""
    return w - (q @ x) / q.sum()


def _kappa(x: Any, q: Any, w: Any, lam: float) -> float:
    """Return the largest eigenvalue of ``P_w (sum q (1 - q) x x^T) P_w / (lambda |sum q x|)``."""
    across = x - np.outer(x @ w, w)
    spread = (across * (q * (1.0 - q))[:, None]).T @ across
    return float(np.linalg.eigvalsh(spread)[-1]) / (lam * float(np.linalg.norm(q @ x)))


def _iterate(x: Any, centers: Any, lam: float, damping: float) -> float:
    """Return the distance of the center of cluster 0 from a fixed point after 300 damped steps."""
    labels, w = np.zeros(len(x), dtype=np.int64), centers.copy()
    step = 1.0
    for _ in range(300):
        target = projections.project_sphere(_pull(x, labels, w, lam))
        moved = projections.project_sphere((1.0 - damping) * w[0] + damping * target)
        step = float(np.linalg.norm(target - w[0]))
        if step < 1e-9:
            break
        w[0] = moved
    return step


# Angles of the samples of one cluster around its axis, in degrees; the other center is opposite
# or across. The first two are steep (kappa > 1), the last two flat.
_FANS = ((40.0, 0.05, 180.0), (30.0, 0.1, 180.0), (20.0, 0.5, 180.0), (60.0, 1.0, 90.0))


@claim(
    id="S3d",
    paper=PAPER,
    place="section 1.3, remark on gradient descent",
    statement="""
    The gradient of Eq. 1 is w - sum (1 - p) x / sum (1 - p); a step with learning rate 1 attains
    the solution, which suggests a constant learning rate.
    """,
    hypotheses="None makes it true at small temperatures.",
    status=Status.REFUTED,
    derivation="""
    The gradient of Eq. 1 is sum(1 - p) / lambda times the printed vector. So a rate of 1 with the
    printed vector is the rate lambda / sum(1 - p) with the true one: no constant, but one that
    grows as the cluster becomes sure.

    A step with rate 1 is w <- T(w). At a fixed point dq_i = -q_i (1 - q_i) x_i . dw / lambda, so
    that the Jacobian of T on the tangent space is -M with M = P_w (sum q (1 - q) x x^T) P_w /
    (lambda |sum q x|): symmetric, with eigenvalues in [0, kappa]. The iteration is locally stable
    for kappa < 1 and unstable for kappa > 1, where our runs end in cycles of length two. A damped
    step w <- Pi((1 - e) w + e T(w)) has the Jacobian (1 - e) - e M, so that e = 1 / (1 + kappa)
    is locally stable always.

    Check: finite differences against the printed vector and the factor; on four fans of samples,
    the plain iteration converges exactly where kappa < 1, and the damped one always.
    """,
    counterexample="""
    Samples at -40 and +40 degrees, the other center at 180 degrees, lambda = 0.05: the fixed
    point is at 0 degrees, kappa = 10.8; from 1 degree off, w <- T(w) does not converge.
    """,
    tolerance=1e-5,
    covers=("clustering.hardness_weighted.hardness_centers",),
)
def learning_rate_one() -> float:
    """Return the error of the factor sum(1 - p) / lambda; 1 for each fan that behaves otherwise."""
    rng = np.random.default_rng(33)
    worst = 0.0
    for lam in (0.1, 0.5):
        x, centers, labels = unit_rows(rng, 6, 3), unit_rows(rng, 3, 3), np.zeros(6, dtype=np.int64)
        q = hardness_weighted.hardness(x, labels, centers, temperature=lam)
        true = slopes_of(distance_losses, x, centers, labels, lam)[0]
        product = slopes_of(center_losses, x, centers, labels, lam)[0]
        factor = float(q.sum()) / lam
        printed = factor * _printed_gradient(x, q, centers[0])
        radial = factor * centers[0]
        worst = max(worst, float(np.abs(true / factor - printed / factor).max()))
        worst = max(worst, float(np.abs((product + radial - printed) / factor).max()))
    wrong = 0
    for degrees, lam, across in _FANS:
        half, other = math.radians(degrees), math.radians(across)
        x = np.asarray([[math.cos(half), s * math.sin(half)] for s in (1.0, -1.0)])
        x = np.concatenate([x, x])
        centers = np.asarray([[1.0, 0.0], [math.cos(other), math.sin(other)]])
        labels = np.zeros(4, dtype=np.int64)
        found = hardness_weighted.hardness_centers(
            x, labels, centers, temperature=lam, tol=1e-12, max_iter=500
        )
        w = np.stack([found.centers[0], centers[1]])
        q = hardness_weighted.hardness(x, labels, w, temperature=lam)
        kappa = _kappa(x, q, w[0], lam)
        turn = math.radians(1.0)
        w[0] = (
            np.asarray([[math.cos(turn), -math.sin(turn)], [math.sin(turn), math.cos(turn)]])
            @ (w[0])
        )
        plain, damped = (_iterate(x, w, lam, e) for e in (1.0, 1.0 / (1.0 + kappa)))
        wrong += (plain < 1e-6) != (kappa < 1.0)
        wrong += damped > 1e-6
        wrong += (kappa > 1.0) != (degrees in (40.0, 30.0))
    return worst + float(wrong)


@claim(
    id="S3e",
    paper=PAPER,
    place="section 1.3, Eq. 4 (silent)",
    statement="The weights 1 - p and their sum in Eq. 4 can be formed.",
    hypotheses="Silent about K = 1, empty clusters, and sure samples in finite precision.",
    status=Status.ERRATUM,
    derivation="""
    For K = 1, p = 1 and Eq. 4 is 0 / 0; likewise for a cluster without samples. In float32, p
    rounds to 1 once the other clusters' share is below 6e-8: at lambda = 0.05 from a gap of 0.85
    in similarity, although 1 - p = exp(-gap / lambda) is far from underflow (4e-18 at the largest
    gap, 2). Only directions matter in Eq. 4, so that weights of 1e-18 are as good as others.

    Repair: 1 - p is the logistic function of log A - x . w / lambda, where A sums over the other
    clusters only. A cluster without samples, or without weight, keeps its center.

    Check: `hardness` against exp for gaps from 0 to 2, relative, and against the other clusters'
    share for K = 5 and centers of any length; the naive float32 difference is 0 at gap 2; K = 1 and
    an empty cluster keep their centers, and have the status of an empty one or no weight.
    """,
    tolerance=1e-11,
    covers=(
        "clustering.hardness_weighted.hardness",
        "clustering.hardness_weighted.hardness_centers",
    ),
)
def weights_that_vanish() -> float:
    """Return the relative error of 1 - p; 1 where a degenerate center moves."""
    lam, worst = 0.05, 0.0
    centers = np.asarray([[1.0, 0.0], [-1.0, 0.0]])
    labels = np.zeros(1, dtype=np.int64)
    for cosine in np.linspace(0.0, 1.0, 21):
        x = np.asarray([[cosine, math.sqrt(1.0 - cosine * cosine)]])
        exact = 1.0 / (1.0 + math.exp(2.0 * cosine / lam))
        q = float(hardness_weighted.hardness(x, labels, centers, temperature=lam)[0])
        worst = max(worst, abs(q - exact) / exact)
    rng = np.random.default_rng(34)
    for temperature in (0.05, 0.7):
        x, several, y = unit_rows(rng, 30, 4), unit_rows(rng, 5, 4), rng.integers(0, 5, 30)
        e = np.exp(x @ several.T / temperature)
        own = np.arange(5) == y[:, None]
        exact = np.where(own, 0.0, e).sum(axis=1) / e.sum(axis=1)
        lengths = np.asarray([[1.0], [0.5], [2.0], [1.0], [3.0]])
        q = hardness_weighted.hardness(x, y, lengths * several, temperature=temperature)
        worst = max(worst, float(np.abs(q / exact - 1.0).max()))
    x = np.asarray([[0.6, 0.8]])
    e = np.exp(np.asarray([1.0, -1.0], dtype=np.float32) / np.float32(lam))
    if np.float32(1.0) - e[0] / e.sum() != 0.0:
        return 1.0
    alone = hardness_weighted.hardness_centers(x, labels, centers[:1], temperature=lam)
    empty = hardness_weighted.hardness_centers(x, labels, centers, temperature=lam)
    kept = np.abs(alone.centers - centers[:1]).max() + np.abs(empty.centers[1] - centers[1]).max()
    if int(empty.status[1]) != hardness_weighted.CenterStatus.EMPTY or not kept == 0.0:
        return 1.0
    return worst
