"""CoKe's objective, centers, labels and convergence (claims C1, C2, C19 to C25 and C30)."""

from __future__ import annotations

import itertools
import math

import numpy as np

from ..algos import bounds, centers, coke_losses, losses, offline, projections
from . import online_runs
from .online_runs import Floats, Ints
from .registry import Status, claim

__all__: list[str] = []

PAPER = "CoKe"


def _distances(x: Floats, c: Floats) -> Floats:
    """``||x_i - c_k||^2``, (n, k)."""
    return np.asarray(((x[:, None, :] - c[None, :, :]) ** 2).sum(axis=-1))


def _triplet_objective(x: Floats, c: Floats, labels: Ints) -> float:
    """Eq. 1, term by term."""
    d, total = _distances(x, c), 0.0
    for i, y in enumerate(labels):
        for k in range(len(c)):
            if k != y:
                total += float(d[i, y] - d[i, k])
    return total


def _proxy_objective(x: Floats, c: Floats, labels: Ints) -> float:
    """Eq. 2 (and 24) for one-hot mu."""
    d, mu = _distances(x, c), labels[:, None] == np.arange(len(c))
    return float(((len(c) - 1) * mu * d - (1 - mu) * d).sum())


def _means_objective(x: Floats, c: Floats, labels: Ints) -> float:
    """Eq. 3."""
    return float(_distances(x, c)[np.arange(len(x)), labels].sum())


def _paper_centers(x: Floats, labels: Ints, k: int) -> Floats:
    """Eq. 12 by the library; a cluster without a direction keeps the first axis."""
    state = centers.init_sums(k, x.shape[1], xp=np)
    state = centers.add_to_sums(state, x, labels)
    return np.asarray(centers.mean_centers(state, np.eye(x.shape[1])[np.zeros(k, dtype=int)]))


def _exact_centers(x: Floats, labels: Ints, k: int) -> Floats:
    """Best unit centers of Eq. 2: ``Pi(sum_{i in k} x_i - (N/K) x_bar)``."""
    mu = (labels[:, None] == np.arange(k)).astype(float)
    v = mu.T @ x - x.sum(axis=0) / k
    return np.asarray(v / np.linalg.norm(v, axis=1, keepdims=True))


def _unit(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    return np.asarray(projections.project_sphere(rng.normal(size=shape)))


@claim(
    id="C1",
    paper=PAPER,
    place="Eq. 1 and 2",
    statement="For one-hot mu the objectives of Eq. 1 and Eq. 2 are equal.",
    hypotheses="None.",
    status=Status.HOLDS,
    derivation="With y the label, sum_{k != y} (d_y - d_k) = (K-1) d_y - sum_{k != y} d_k.",
    mutations=("dualclust.proofs.coke_clustering._proxy_objective",),
)
def proxy_objective() -> float:
    """Largest difference on integer vectors, exact."""
    rng, worst = np.random.default_rng(1), 0.0
    for k in (1, 2, 5):
        x, c = (rng.integers(-4, 5, size=(m, 3)).astype(float) for m in (7, k))
        labels = rng.integers(0, k, size=7)
        worst = max(worst, abs(_triplet_objective(x, c, labels) - _proxy_objective(x, c, labels)))
    return worst


@claim(
    id="C2",
    paper=PAPER,
    place="Eq. 2 to 3",
    statement="For fixed x, Eq. 2 reduces to k-means.",
    hypotheses="Unit x and c and a data mean of exactly 0 (the paper: close to 0). For the labels"
    " alone no hypothesis is needed.",
    status=Status.EXTRA,
    derivation="Eq. 2 = K (Eq. 3) - sum_i sum_k ||x_i - c_k||^2; the last sum has no mu, and on the"
    " sphere equals 2KN - 2N x_bar.(sum_k c_k), a constant if x_bar = 0. Otherwise the best center"
    " is Pi(sum_{i in k} x_i - (N/K) x_bar), and Eq. 12 is worse (C21).",
    tolerance=1e-9,
    covers=("centers.mean_centers",),
    mutations=("dualclust.proofs.coke_clustering._exact_centers",),
)
def reduction() -> float:
    """The identity, the constant at x_bar = 0, and the best centers against 50 others."""
    rng, worst = np.random.default_rng(2), 0.0
    for k in (2, 4):
        half = _unit(rng, (6, 3))
        for x in (np.concatenate([half, -half]), _unit(rng, (12, 3)) + 0.0):
            labels = np.arange(12) // 2 % k
            best = _proxy_objective(x, _exact_centers(x, labels, k), labels)
            for _ in range(50):
                c, y = _unit(rng, (k, 3)), rng.integers(0, k, size=12)
                gap = k * _means_objective(x, c, y) - _proxy_objective(x, c, y)
                constant = 24.0 * k - 2.0 * float(x.sum(axis=0) @ c.sum(axis=0))
                worst = max(worst, abs(gap - constant), best - _proxy_objective(x, c, labels))
        x, labels = np.concatenate([half, -half]), np.arange(12) // 2 % k
        difference = _exact_centers(x, labels, k) - _paper_centers(x, labels, k)
        worst = max(worst, float(np.abs(difference).max()))
    return worst


@claim(
    id="C19",
    paper=PAPER,
    place="Eq. 12",
    statement="The best unit center of a cluster is the direction of the sum of its features.",
    hypotheses="The sum is not 0: an empty or canceling cluster has none (here it keeps its own).",
    status=Status.EXTRA,
    derivation="sum ||x - c||^2 = 2n - 2 c.(sum x), and c.v <= ||v|| with equality at v/||v||. The"
    " division by the count cancels in Pi.",
    tolerance=1e-9,
    covers=("centers.mean_centers", "centers.add_to_sums", "projections.project_sphere"),
    mutations=("dualclust.algos.centers.mean_centers", "dualclust.algos.centers.add_to_sums"),
)
def spherical_centers() -> float:
    """Shortfall of c.v from ||v||; change of a center that has no direction."""
    rng, worst = np.random.default_rng(19), 0.0
    x, labels = _unit(rng, (40, 5)), rng.integers(0, 3, size=40)
    c = _paper_centers(x, labels, 3)
    for k in range(3):
        v = x[labels == k].sum(axis=0)
        worst = max(worst, abs(float(c[k] @ v) - float(np.linalg.norm(v))))
    opposite = np.asarray([[0.6, 0.8], [-0.6, -0.8]])
    kept = _paper_centers(opposite, np.zeros(2, dtype=np.int64), 2)
    return max(worst, float(np.abs(kept - np.asarray([1.0, 0.0])).max()))


def _renormalized_center(x: Floats, batch: int) -> Floats:
    """The released code's running center: normalized after every batch."""
    c, seen = np.zeros(x.shape[1]), 0
    for i in range(0, len(x), batch):
        part = x[i : i + batch]
        c = (seen * c + part.sum(axis=0)) / (seen + len(part))
        c, seen = c / np.linalg.norm(c), seen + len(part)
    return np.asarray(c)


@claim(
    id="C20",
    paper=PAPER,
    place="Eq. 13",
    statement="The center after m samples is the direction of the sum of the first m: batches do"
    " not matter.",
    hypotheses="Raw sums are kept. The released code keeps normalized means, which is not Eq. 13.",
    status=Status.HOLDS,
    derivation="Addition is associative; here also in bits, as sums are integers. A normalized mean"
    " weighs old samples by 1/||mean|| > 1 at each batch: on a cluster of unit vectors around a"
    " direction with noise 8 times as long the centers part by more than 30 degrees.",
    covers=("centers.add_to_sums", "centers.merge_sums", "centers.mean_centers"),
    mutations=(
        "dualclust.algos.centers.add_to_sums",
        "dualclust.proofs.coke_clustering._renormalized_center",
    ),
)
def running_centers() -> float:
    """Splits that change a bit; degrees by which the released center is off, short of 30."""
    rng = np.random.default_rng(20)
    x = _unit(rng, (300, 16))
    labels, whole = np.zeros(300, dtype=np.int64), centers.init_sums(1, 16, xp=np)
    whole, worst = centers.add_to_sums(whole, x, labels), 0.0
    for batch in (1, 7, 128):
        split = centers.init_sums(1, 16, xp=np)
        for i in range(0, 300, batch):
            split = centers.add_to_sums(split, x[i : i + batch], labels[i : i + batch])
        same = np.array_equal(split.sums, whole.sums) and int(split.counts[0]) == 300
        worst = max(worst, 0.0 if same else 1.0)
    first, second = (
        centers.add_to_sums(centers.init_sums(1, 16, xp=np), x[part], labels[part])
        for part in (slice(0, 100), slice(100, 300))
    )
    merged = centers.merge_sums(first, second)
    worst = max(worst, 0.0 if np.array_equal(merged.sums, whole.sums) else 1.0)
    axis = np.eye(16)[0]
    cluster = np.asarray(projections.project_sphere(axis + 2.0 * rng.normal(size=(300, 16))))
    right = cluster.sum(axis=0) / np.linalg.norm(cluster.sum(axis=0))
    cosine = float(np.clip(_renormalized_center(cluster, 4) @ right, -1.0, 1.0))
    return max(worst, 30.0 - math.degrees(math.acos(cosine)))


@claim(
    id="C21",
    paper=PAPER,
    place="Corollary 1",
    statement="The method converges if mu^{t-1} is kept whenever mu^t does not lower the loss.",
    hypotheses="Left out: every step lowers the *same* loss, Eq. 24. The centers of Eq. 12 do only"
    " for x_bar = 0, and a gradient step on Eq. 14 need not. With exact centers (C2) and exact"
    " steps the values converge; nothing is said about the parameters.",
    status=Status.REFUTED,
    derivation="""Two clusters of two equal vectors at +-10 degrees. At the centers (0, 1) and (0,
    -1), which C2 says are exact, Eq. 24 is -16 sin(10 deg) = -2.778. Eq. 12 moves the centers onto
    the data, where it is -16 sin(10 deg)^2 = -0.482: the center step raised the loss, and the proof
    needs it to fall.""",
    counterexample="x = (cos 10, +-sin 10) twice each, K = 2: -2.778 becomes -0.482.",
    tolerance=1e-9,
    covers=("centers.mean_centers",),
    mutations=(
        "dualclust.algos.centers.mean_centers",
        "dualclust.proofs.coke_clustering._proxy_objective",
    ),
)
def center_step() -> float:
    """Distance of both values from the closed forms; exact centers must not raise the loss."""
    angle = math.radians(10.0)
    x = np.asarray([[math.cos(angle), s * math.sin(angle)] for s in (1, 1, -1, -1)])
    labels = np.asarray([0, 0, 1, 1])
    before = _proxy_objective(x, np.asarray([[0.0, 1.0], [0.0, -1.0]]), labels)
    after = _proxy_objective(x, _paper_centers(x, labels, 2), labels)
    worst = max(abs(before + 16.0 * math.sin(angle)), abs(after + 16.0 * math.sin(angle) ** 2))
    if after <= before:
        return 1.0
    rng = np.random.default_rng(21)
    for _ in range(20):
        y, c = rng.integers(0, 2, size=4), _unit(rng, (2, 2))
        apart = x[y == 0].sum(axis=0) - x[y == 1].sum(axis=0)
        if np.abs(apart).max() > 1e-9:  # else no center is better than another
            exact = _proxy_objective(x, _exact_centers(x, y, 2), y)
            worst = max(worst, exact - _proxy_objective(x, c, y))
    return worst


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
    covers=("centers.running_average",),
    mutations=("dualclust.algos.centers.running_average",),
)
def moving_average() -> float:
    """Distance from the plain mean after every epoch."""
    rng, worst = np.random.default_rng(22), 0.0
    values = rng.normal(size=(40, 3, 4))
    average = np.full((3, 4), np.nan)  # ignored at count 1
    for t in range(1, 41):
        average = centers.running_average(average, values[t - 1], t)
        worst = max(worst, float(np.abs(average - values[:t].mean(axis=0)).max()))
    pair = centers.running_average(np.asarray([1.0, 0.0]), np.asarray([0.0, 1.0]), 2)
    return max(worst, abs(float(np.linalg.norm(pair)) - math.sqrt(0.5)))


def _mean_view(views: Floats) -> Floats:
    """The vector that is labeled for two views, (2, n, d) to (n, d)."""
    return np.asarray(0.5 * views.sum(axis=0))


@claim(
    id="C23",
    paper=PAPER,
    place="Eq. 17",
    statement="The label of two views under one label is that of their mean vector.",
    hypotheses="The mean is not normalized: its length sets the weight of the prices.",
    status=Status.HOLDS,
    derivation="(1/2) sum_j x^j.c_k = ((x^1 + x^2)/2).c_k. Normalized, the same labels come out"
    " without prices only: a factor on the scores is a factor on the prices.",
    mutations=("dualclust.proofs.coke_clustering._mean_view",),
)
def two_views() -> float:
    """Labels that differ on dyadic vectors, exact; 1 if normalizing never changes a label."""
    rng = np.random.default_rng(23)
    views = online_runs.dyadic_scores(rng, (2, 400, 4), 8)
    c, rho = online_runs.dyadic_scores(rng, (4, 3), 8), np.asarray([0.0, 0.25, 0.5])
    scored = (0.5 * (views[0] @ c + views[1] @ c) + rho).argmax(axis=1)
    mean = _mean_view(views)
    worst = float(((mean @ c + rho).argmax(axis=1) != scored).sum())
    direction = projections.project_sphere(mean, np.tile([1.0, 0, 0, 0], (400, 1)))
    changed = ((direction @ c + rho).argmax(axis=1) != scored).any()
    return worst if changed else 1.0


@claim(
    id="C24",
    paper=PAPER,
    place="Section 3.4, two views; appendix B.2.2",
    statement="alpha onehot(y) + (1 - alpha) p is a distribution, and so is the smoothed label.",
    hypotheses="0 <= alpha <= 1; a label of at least one entry above 0. p carries no gradient (it"
    " does as printed in Algorithm 2).",
    status=Status.HOLDS,
    derivation="A convex combination of distributions; a softmax over the support.",
    tolerance=1e-12,
    covers=(
        "coke_losses.two_view_targets",
        "coke_losses.smoothed_labels",
        "coke_losses.two_view_loss",
        "coke_losses.label_loss",
        "losses.soft_cross_entropy",
    ),
    mutations=(
        "dualclust.algos.coke_losses.two_view_targets",
        "dualclust.algos.coke_losses.smoothed_labels",
        "dualclust.algos.coke_losses.label_loss",
    ),
)
def targets() -> float:
    """Distance of sums from 1, negative entries, and the loss against its definition."""
    rng, worst = np.random.default_rng(24), 0.0
    scores, labels = rng.uniform(-1, 1, size=(2, 30, 6)), rng.integers(0, 6, size=30)
    for alpha in (0.0, 0.2, 1.0):
        t = coke_losses.two_view_targets(labels, scores, temperature=0.05, alpha=alpha)
        worst = max(worst, float(np.abs(t.sum(axis=-1) - 1.0).max()), -float(t.min()))
        p = np.exp(scores / 0.05) / np.exp(scores / 0.05).sum(axis=-1, keepdims=True)
        plain = alpha * np.eye(6)[labels] + (1.0 - alpha) * p[::-1]
        worst = max(worst, float(np.abs(t - plain).max()))
        got = coke_losses.two_view_loss(scores, scores, labels, temperature=0.05, alpha=alpha)
        halves = losses.soft_cross_entropy(scores, t, temperature=0.05)
        worst = max(worst, float(np.abs(got - halves.mean(axis=0)).max()))
    own = coke_losses.label_loss(scores[0], labels, temperature=0.05)
    worst = max(worst, float(np.abs(own + np.log(p[0][np.arange(30), labels])).max()))
    weights = np.asarray([[0.75, 0.25, 0.0], [0.0, 0.0, 1.0]])
    smooth = coke_losses.smoothed_labels(weights, temperature=0.5)
    ratio = float(smooth[0, 0] / smooth[0, 1])
    worst = max(worst, float(np.abs(smooth.sum(axis=1) - 1.0).max()), abs(ratio - math.e))
    return float(max(worst, np.abs(smooth[weights == 0.0]).max()))


# What each update of Algorithm 2 is, and the number printed beside it.
ALGORITHM_2 = {"labels": (10, 13), "centers": (13, 11), "duals": (11, 14)}


@claim(
    id="C25",
    paper=PAPER,
    place="Algorithm 2",
    statement="The comments name Eq. 13 for the labels, 11 for the centers and 14 for the duals.",
    hypotheses="None.",
    status=Status.ERRATUM,
    derivation="Labels are Eq. 10 (17 for two views), centers Eq. 13, duals Eq. 11; Eq. 14 is the"
    " loss.",
    mutations=("dualclust.proofs.coke_clustering.ALGORITHM_2",),
)
def algorithm_two() -> float:
    """References that are right as printed, or not as repaired."""
    repaired = {"labels": 10, "centers": 13, "duals": 11}
    printed = {"labels": 13, "centers": 11, "duals": 14}
    wrong = [ALGORITHM_2[key] != (repaired[key], printed[key]) for key in repaired]
    return float(sum(wrong) + sum(right == told for right, told in ALGORITHM_2.values()))


@claim(
    id="C30",
    paper=PAPER,
    place="Section 4.1.3",
    statement="Instance classification is the special case K = N.",
    hypotheses="Left out: gamma_k = 1 for all k. With gamma = 0 clusters may stay empty.",
    status=Status.EXTRA,
    derivation="N samples, N clusters of at least one: exactly one each, so mu is a permutation."
    " Without the bounds equal rows share a cluster.",
    covers=("offline.assign_exact",),
    mutations=("dualclust.algos.offline.assign_exact",),
)
def instance_classification() -> float:
    """Clusters that are not of one sample; shortfall from the best of all permutations."""
    rng, worst = np.random.default_rng(30), 0.0
    for n in (1, 3, 6):
        scores = online_runs.dyadic_scores(rng, (n, n))
        found = offline.assign_exact(scores, bounds.from_counts([1] * n, n_samples=n))
        sizes = np.bincount(found.labels, minlength=n)
        best = max(
            scores[np.arange(n), list(order)].sum() for order in itertools.permutations(range(n))
        )
        worst = max(worst, float(np.abs(sizes - 1).max()), float(best) - found.objective)
    free = offline.assign_exact(np.eye(3)[[0, 0, 0]], bounds.from_counts([0] * 3, n_samples=3))
    return worst if len(set(free.labels.tolist())) == 1 else 1.0
