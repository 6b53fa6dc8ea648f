"""Claims of SeCu's supplement about its losses: S3a and S3b on Eq. 1 to 3, S6 on their sum.

What a stop-gradient makes of a derivative is seen without automatic differentiation: by differences
with the detached argument held fixed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...algos.core import projections
from ...algos.losses import coke, cross_entropy, secu
from ..registry.claims import Status, claim

__all__ = ["center_losses", "distance_losses", "slopes_of", "unit_rows"]

PAPER = "SeCu supplement"


def unit_rows(rng: np.random.Generator, n: int, d: int) -> Any:
    """Return the random directions, (n, d)."""
    return projections.project_sphere(rng.normal(size=(n, d)))


def distance_losses(x: Any, centers: Any, labels: Any, lam: float) -> Any:
    """Return Eq. 1 as printed, per sample: the loss in squared distances."""
    squares = ((x[:, None, :] - centers) ** 2).sum(axis=2) / (2.0 * lam)
    own = squares[np.arange(len(labels)), labels]
    return np.log(np.exp(-squares).sum(axis=1)) + own


def center_losses(x: Any, centers: Any, labels: Any, lam: float, frozen: Any = None) -> Any:
    """Return the library's loss of centers per sample; the stop-gradient acts on `frozen`.

    A derivative with `frozen` held fixed is what a stop-gradient makes of it.
    """
    held = centers if frozen is None else frozen
    return secu.center_loss(x @ centers.T, x @ held.T, labels, temperature=lam)


@claim(
    id="S3a",
    paper=PAPER,
    place="section 1.3, Eq. 1",
    statement="The softmax loss equals the one in squared distances, exp(-|x - w|^2 / 2 lambda).",
    hypotheses="All centers of one length; unit features are not needed. Gradients: on the sphere.",
    status=Status.EXTRA,
    derivation="""
    -|x - w_k|^2 / 2 = x . w_k - |x|^2 / 2 - |w_k|^2 / 2. If |w_k| is the same for all k, the last
    two terms are a common factor of numerator and denominator; |x| may be anything. With centers
    of different lengths the two losses differ. As functions on the whole space they differ even
    at unit centers: the gradient in w_y is (1 - p) (w_y - x) / lambda in distances, and
    -(1 - p) x / lambda in products. The difference is along w_y, so that both have one tangent
    part on the sphere, and only there may one be used for the other.

    One could hold that the claim simply holds, since the paper takes unit features and centers. We
    count the sphere as a hypothesis, because the paper goes on to use more than the values there:
    its remark on gradient descent (S3d) takes the gradient of the form in distances in the whole
    space, where the two differ by a radial part; and because the released centers are parameters
    of any length, normalized in the forward pass, which the printed form in distances is not.

    Check: the library's losses (`center_loss` for the centers, `label_loss` for the features)
    against the form in distances, at random points with centers of length 1 and 0.7; with
    different lengths they must differ. Gradients by differences: with the other centers frozen,
    that of center j is -sum (1 - p) x / lambda over its own samples and over no others, and its
    tangent part is that of the form in distances.
    """,
    tolerance=1e-8,
    covers=("losses.secu.center_loss", "losses.coke.label_loss"),
)
def two_forms_of_the_loss() -> float:
    """Return the difference of the forms where they are equal.

    Return 1 where they should differ and do not.
    """
    rng = np.random.default_rng(30)
    worst = 0.0
    for lam in (0.1, 0.5, 2.0):
        x, labels = rng.normal(size=(20, 3)), rng.integers(0, 4, 20)
        for length in (1.0, 0.7):
            centers = length * unit_rows(rng, 4, 3)
            told = distance_losses(x, centers, labels, lam)
            worst = max(worst, float(np.abs(center_losses(x, centers, labels, lam) - told).max()))
            ours = coke.label_loss(x @ centers.T, labels, temperature=lam)
            worst = max(worst, float(np.abs(ours - told).max()))
        centers = unit_rows(rng, 4, 3)
        slopes = [
            slopes_of(form, x, centers, labels, lam) for form in (center_losses, distance_losses)
        ]
        along = [s - (s * centers).sum(axis=1, keepdims=True) * centers for s in slopes]
        worst = max(worst, float(np.abs(along[0] - along[1]).max()) * lam)
        frozen = _frozen_difference(x, centers, labels, lam)
        worst = max(worst, float(np.abs(frozen - slopes[0]).max()) * lam)
        worst = max(worst, float(np.abs(frozen - _pulls(x, centers, labels, lam)).max()) * lam)
        uneven = centers * np.asarray([[1.0], [0.5], [1.0], [1.0]])
        gap = center_losses(x, uneven, labels, lam) - distance_losses(x, uneven, labels, lam)
        if float(np.abs(gap).max()) < 1e-3:
            return 1.0
    return worst


def _pulls(x: Any, centers: Any, labels: Any, lam: float) -> Any:
    """Return ``-sum (1 - p) x / lambda`` over the samples of each center, in plain NumPy."""
    e = np.exp(x @ centers.T / lam)
    share = e / e.sum(axis=1, keepdims=True)
    member = labels[:, None] == np.arange(len(centers))
    return -((member * (1.0 - share)).T @ x) / lam


def _frozen_difference(x: Any, centers: Any, labels: Any, lam: float) -> Any:
    """Return the gradient of the loss over *all* samples, with its frozen centers fixed."""
    slope, h = np.zeros_like(centers), 1e-5
    for place in np.ndindex(*centers.shape):
        moved = []
        for sign in (1.0, -1.0):
            w = centers.copy()
            w[place] += sign * h
            moved.append(float(center_losses(x, w, labels, lam, frozen=centers).sum()))
        slope[place] = (moved[0] - moved[1]) / (2.0 * h)
    return slope


def slopes_of(form: Any, x: Any, centers: Any, labels: Any, lam: float) -> Any:
    """Return the gradient of the summed loss in each center, through its own samples only."""
    slope, h = np.zeros_like(centers), 1e-5
    for j in range(centers.shape[0]):
        mine = labels == j
        for i in range(centers.shape[1]):
            moved = []
            for sign in (1.0, -1.0):
                w = centers.copy()
                w[j, i] += sign * h
                moved.append(form(x[mine], w, labels[mine], lam).sum())
            slope[j, i] = (moved[0] - moved[1]) / (2.0 * h)
    return slope


@claim(
    id="S3b",
    paper=PAPER,
    place="section 1.3, Eq. 2 and 3",
    statement="""
    log sum_k exp(s_k / lambda) = max over distributions q of q . s / lambda + H(q), attained at
    the softmax p.
    """,
    hypotheses="lambda > 0.",
    status=Status.HOLDS,
    derivation="""
    With log p_k = s_k / lambda - L, where L is the log-sum-exp: L - (q . s / lambda + H(q)) =
    sum_k q_k (log q_k - log p_k) = KL(q | p), which is nonnegative and 0 only at q = p. So the
    maximizer exists, is unique and is the softmax. Note for S3c: alternating over w (a minimum)
    and q (a *maximum*) is no descent method.

    Check: the identity with the divergence at random q, and the value at p, with log p from
    `losses.log_softmax`, for scores of any sign and size, as many rows as clusters, two leading
    axes, and float32; the logarithms of a row belong to one distribution.
    """,
    tolerance=1e-10,
    covers=("losses.cross_entropy.log_softmax",),
)
def softmax_maximizes() -> float:
    """Return the relative error of the identity L - value(q) = KL(q | p), and of L = value(p)."""
    rng = np.random.default_rng(31)
    worst = 0.0
    for lam, shape in ((0.05, (50, 6)), (1.0, (6, 6)), (20.0, (2, 6, 6)), (0.05, (3, 1))):
        for offset in (0.0, -3.0, 1e4 * lam):
            s = rng.uniform(-1.0, 1.0, shape) + offset
            log_p = cross_entropy.log_softmax(s, temperature=lam)
            top = (s / lam).max(axis=-1)
            total = top + np.log(np.exp(s / lam - top[..., None]).sum(axis=-1))
            worst = max(worst, float(np.abs(np.exp(log_p).sum(axis=-1) - 1.0).max()))
            for q in (np.exp(log_p), rng.dirichlet(np.ones(shape[-1]), shape[:-1])):
                log_q = np.log(np.maximum(q, 1e-300))
                value = (q * (s / lam - log_q)).sum(axis=-1)
                divergence = (q * (log_q - log_p)).sum(axis=-1)
                error = np.abs(total - value - divergence) / (1.0 + np.abs(total))
                worst = max(worst, float(error.max()))
    rough = cross_entropy.log_softmax(
        np.asarray([[0.5, 0.25, -1.0]], dtype=np.float32), temperature=0.5
    )
    exact = np.asarray([[1.0, 0.5, -2.0]])
    exact = exact - np.log(np.exp(exact).sum())
    if rough.dtype != np.float32 or float(np.abs(rough - exact).max()) > 1e-6:
        return 1.0
    return worst


@claim(
    id="S6",
    paper=PAPER,
    place="section 2, first display",
    statement="The objective is the sum over samples i and clusters j of l(x_i, y_i).",
    hypotheses="None makes it meant: l(x_i, y_i) has no j.",
    status=Status.ERRATUM,
    derivation="""
    A sum over j of a term without j is K times the term: the printed objective is K times the
    sum over samples, with the same minimizers but K times the gradients and hence another meaning
    of every learning rate. The sum over samples is meant (in the second display of the section
    the sum over j is right, since -y_ij log p_ij has a j). `losses.center_loss` returns one value
    per sample. Check: it equals -log p of the label, where the label's own score is the live one
    and all others are the frozen ones (which differ here), and its double sum is K times its sum.
    """,
    tolerance=1e-12,
    covers=("losses.secu.center_loss",),
)
def sum_over_samples() -> float:
    """Return the relative error of the sum over samples against a transcription, and of K."""
    rng = np.random.default_rng(6)
    n, k, worst = 7, 4, 0.0
    for lam in (0.3, 1.5):
        scores, frozen = rng.uniform(-1.0, 1.0, (2, n, k))
        labels = rng.integers(0, k, n)
        once = double = 0.0
        for i, y in enumerate(labels):
            e = [float(np.exp((scores if j == y else frozen)[i, j] / lam)) for j in range(k)]
            for j in range(k):
                double += -float(np.log(e[y] / sum(e)))
                once += -float(np.log(e[y] / sum(e))) if j == y else 0.0
        ours = secu.center_loss(scores, frozen, labels, temperature=lam)
        if ours.shape != (n,):
            return float("inf")
        total = float(ours.sum())
        worst = max(worst, abs(total - once) / once, abs(double - k * total) / double)
    return worst
