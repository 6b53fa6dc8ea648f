"""CoKe's averages, views and losses: how labels become targets (claims C22 to C24)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...algos.clustering import centers
from ...algos.core import projections
from ...algos.losses import coke, cross_entropy, secu
from ...algos.online import duals
from ..references import online_runs
from ..references.online_runs import Floats
from ..registry.claims import Status, claim

__all__: list[str] = []

PAPER = "CoKe"


@claim(
    id="C22",
    paper=PAPER,
    place="Section 3.4, moving average",
    statement="The recursion with weight 1/(t - T') is the mean over the last t - T' epochs.",
    hypotheses="The averaged centers are not of unit length, which the paper does not say.",
    status=Status.HOLDS,
    derivation="(1 - 1/n) (S_{n-1}/(n-1)) + v_n/n = S_n/n. The mean of two orthogonal unit vectors"
    " has length 1/sqrt(2).",
    tolerance=1e-12,
    covers=("clustering.centers.running_average",),
)
def moving_average() -> float:
    """Return the distance from the plain mean after every epoch."""
    rng, worst = np.random.default_rng(22), 0.0
    values = rng.normal(size=(40, 3, 4))
    average = np.full((3, 4), np.nan)  # ignored at count 1
    for t in range(1, 41):
        average = centers.running_average(average, values[t - 1], t)
        if not np.isfinite(average).all():
            return math.inf
        worst = max(worst, float(np.abs(average - values[:t].mean(axis=0)).max()))
    pair = centers.running_average(np.asarray([1.0, 0.0]), np.asarray([0.0, 1.0]), 2)
    return max(worst, abs(float(np.linalg.norm(pair)) - math.sqrt(0.5)))


@claim(
    id="C23",
    paper=PAPER,
    place="Eq. 17",
    statement="The label of two views under one label is that of their mean vector.",
    hypotheses="The mean is not normalized: its length sets the weight of the prices.",
    status=Status.HOLDS,
    derivation="(1/2) sum_j x^j.c_k = ((x^1 + x^2)/2).c_k. Normalized, the same labels come out"
    " without prices only: a factor on the scores is a factor on the prices. Check: a stream of"
    " batches labeled by `assign_batch` on mean vectors, on mean scores, and sample by sample by"
    " Eq. 17 with the prices it left; all exact.",
    covers=("online.duals.assign_batch",),
)
def two_views() -> float:
    """Return the labels that differ on dyadic vectors, exact.

    Return 1 if normalizing never changes a label.
    """
    rng = np.random.default_rng(23)
    views = online_runs.dyadic_scores(rng, (2, 384, 4), 8)
    c, rho = online_runs.dyadic_scores(rng, (4, 3), 8), np.asarray([0.0, 0.25, 0.5])
    mean, low = 0.5 * (views[0] + views[1]), np.asarray([0.5, 0.25, 0.125])
    start = duals.Duals(rho, np.zeros(3))

    def label(scores: Floats) -> tuple[Any, duals.Duals]:
        return duals.assign_batch(
            scores,
            start,
            duals.DualRule(
                lower_share=low, upper_share=np.ones(3), step_size=1.0 / 64.0, chunk_size=8
            ),
        )

    by_vector, last = label(mean @ c)
    scores = 0.5 * (views[0] @ c) + 0.5 * (views[1] @ c)
    by_score, same = label(scores)
    worst = float((by_vector != by_score).sum()) + float(np.abs(last.lower - same.lower).max())
    prices = rho
    for i in range(0, 384, 8):
        priced = sum(views[j, i : i + 8] @ c for j in (0, 1)) / 2.0 + prices  # Eq. 17
        worst += float((priced.argmax(axis=1) != by_vector[i : i + 8]).sum())
        taken = np.bincount(by_vector[i : i + 8], minlength=3)
        prices = np.maximum(0.0, prices - (taken - 8 * low) / 64.0)
    worst += float(np.abs(prices - last.lower).max())
    direction = projections.project_sphere(mean, np.tile([1.0, 0, 0, 0], (384, 1)))
    changed = (label(direction @ c)[0] != by_vector).any()
    return worst if changed else 1.0


@claim(
    id="C24",
    paper=PAPER,
    place="Section 3.4, two views; appendix B.2.2",
    statement="alpha onehot(y) + (1 - alpha) p is a distribution, and so is the smoothed label.",
    hypotheses="0 <= alpha <= 1; a label of at least one entry above 0. p carries no gradient (it"
    " does as printed in Algorithm 2).",
    status=Status.HOLDS,
    derivation="A convex combination of distributions; a softmax over the support. Check: both"
    " targets and the three losses against their definitions in plain NumPy, with other scores for"
    " the target than for the loss, two heads, and targets that are no distribution of either view;"
    " averaged labels of one to six clusters.",
    tolerance=1e-12,
    covers=(
        "losses.coke.two_view_targets",
        "losses.coke.smoothed_labels",
        "losses.coke.two_view_loss",
        "losses.coke.label_loss",
        "losses.secu.mixed_targets",
        "losses.cross_entropy.soft_cross_entropy",
    ),
)
def targets() -> float:
    """Return the errors of sums, signs and losses of the targets against their definitions."""
    rng, worst = np.random.default_rng(24), 0.0
    scores, frozen = rng.uniform(-1, 1, size=(2, 2, 3, 20, 6))  # views, heads, samples, clusters
    labels = rng.integers(0, 6, size=(3, 20))
    chosen = np.eye(6)[labels]
    for alpha, temperature in ((0.0, 0.05), (0.2, 0.05), (0.7, 1.5), (1.0, 0.05)):
        log_p, p = _log_softmax(scores / temperature), np.exp(_log_softmax(frozen / temperature))
        t = coke.two_view_targets(labels, frozen, temperature=temperature, alpha=alpha)
        worst = max(worst, float(np.abs(t.sum(axis=-1) - 1.0).max()), -float(t.min()))
        plain = alpha * chosen + (1.0 - alpha) * p[::-1]
        worst = max(worst, float(np.abs(t - plain).max()))
        mixed = secu.mixed_targets(labels, frozen[0], temperature=temperature, tau=alpha)
        worst = max(worst, float(np.abs(mixed - plain[1]).max()))
        got = coke.two_view_loss(scores, frozen, labels, temperature=temperature, alpha=alpha)
        told = -(plain * log_p).sum(axis=-1).mean(axis=0)
        worst = max(worst, float(np.abs(got - told).max()) / 40.0)
        soft = rng.dirichlet(np.ones(6), (3, 20))
        got = cross_entropy.soft_cross_entropy(scores[0], soft, temperature=temperature)
        worst = max(worst, float(np.abs(got + (soft * log_p[0]).sum(axis=-1)).max()) / 40.0)
        own = coke.label_loss(scores[0], labels, temperature=temperature)
        worst = max(worst, float(np.abs(own + (chosen * log_p[0]).sum(axis=-1)).max()) / 40.0)
    for temperature in (0.5, 0.1):
        weights = rng.dirichlet(np.full(6, 0.7), 30) * (rng.random((30, 6)) < 0.5)
        weights[0] = [0.0, 0.0, 1.0, 0.0, 0.0, 0.0]
        weights[1] = 0.0
        smooth = coke.smoothed_labels(weights, temperature=temperature)
        e = np.where(weights > 0.0, np.exp(weights / temperature), 0.0)
        total = e.sum(axis=1, keepdims=True)
        told = e / np.where(total > 0.0, total, 1.0)
        worst = max(worst, float(np.abs(smooth - told).max()))
    default = coke.smoothed_labels(np.asarray([0.75, 0.25, 0.0]))
    return max(worst, abs(float(default[0] / default[1]) - math.e))


def _log_softmax(logits: Floats) -> Floats:
    top = logits.max(axis=-1, keepdims=True)
    return np.asarray(logits - top - np.log(np.exp(logits - top).sum(axis=-1, keepdims=True)))
