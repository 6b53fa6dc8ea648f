"""CoKe's objective, centers and convergence (claims C1, C2, C19 to C21, C25 and C30)."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np

from ... import backends
from ...algos import bounds
from ...algos.clustering import centers
from ...algos.core import exact_sums, projections
from ...algos.offline import assignment
from ..references import online_runs, optimality
from ..references.online_runs import Floats, Ints
from ..registry.claims import Status, claim

__all__: list[str] = []

PAPER = "CoKe"


def _distances(x: Floats, c: Floats) -> Floats:
    """Return ``||x_i - c_k||^2``, (n, k)."""
    return np.asarray(((x[:, None, :] - c[None, :, :]) ** 2).sum(axis=-1))


def _triplet_objective(x: Floats, c: Floats, labels: Ints) -> float:
    """Return Eq. 1, term by term."""
    d, total = _distances(x, c), 0.0
    for i, y in enumerate(labels):
        for k in range(len(c)):
            if k != y:
                total += float(d[i, y] - d[i, k])
    return total


def _proxy_objective(x: Floats, c: Floats, labels: Ints) -> float:
    """Return Eq. 2 (and 24) for one-hot mu."""
    d, mu = _distances(x, c), labels[:, None] == np.arange(len(c))
    return float(((len(c) - 1) * mu * d - (1 - mu) * d).sum())


def _means_objective(x: Floats, c: Floats, labels: Ints) -> float:
    """Return Eq. 3."""
    return float(_distances(x, c)[np.arange(len(x)), labels].sum())


def _paper_centers(x: Floats, labels: Ints, k: int) -> Floats:
    """Return the library's Eq. 12; a cluster without a direction keeps an axis of its own."""
    state = centers.init_sums(k, x.shape[1], xp=np)
    state = centers.add_to_sums(state, x, labels)
    return np.asarray(centers.mean_centers(state, _kept_centers(k, x.shape[1])))


def _kept_centers(k: int, d: int) -> Floats:
    """Return the centers from before, each another one."""
    turned = np.roll(np.eye(d), 1, axis=0)
    return np.asarray(turned[np.arange(k) % d])


def _exact_centers(x: Floats, labels: Ints, k: int) -> Floats:
    """Return the best unit centers of Eq. 2: ``Pi(sum_{i in k} x_i - (N/K) x_bar)``."""
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
    mutations=("dualclust.proofs.coke.clustering._proxy_objective",),
    derivation="With y the label, sum_{k != y} (d_y - d_k) = (K-1) d_y - sum_{k != y} d_k.",
    about="paper",
)
def proxy_objective() -> float:
    """Return the largest difference on integer vectors, exact."""
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
    covers=("clustering.centers.mean_centers", "core.exact_sums.means_of_sums"),
)
def reduction() -> float:
    """Return the errors of the identity, of the constant at x_bar = 0, and of the best centers."""
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
        worst = max(worst, float(np.abs(difference).max()), _mean_is_not_best(rng, k))
    return worst


def _mean_is_not_best(rng: np.random.Generator, k: int) -> float:
    """Return by how much, off the sphere, the library's means are no least squares of Eq. 3.

    Two rows far out cancel, so that what they leave of the others shows every digit.
    """
    x, labels = rng.uniform(-2.5, 2.5, (14, 3)), rng.integers(0, k, size=14)
    far = 2.0**40
    x[:2], labels[:2] = [[far, 1.0, -far], [-far, 0.1, far]], 0
    labels[3] = k  # alone; and k + 1 has no sample
    grid = exact_sums.grid_of(far, 14)
    sums = exact_sums.sum_rows(x, labels, grid, n_clusters=k + 2)
    counts = np.bincount(labels, minlength=k + 2)
    means = exact_sums.means_of_sums(sums, counts, grid)
    worst = float(np.abs(means[k + 1]).max())
    for j in np.unique(labels):
        for column in range(3):
            total = sum(map(Fraction, x[labels == j, column].tolist()))
            worst = max(worst, abs(float(total / int(counts[j])) - float(means[j, column])))
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
    covers=(
        "clustering.centers.mean_centers",
        "clustering.centers.add_to_sums",
        "core.projections.project_sphere",
    ),
)
def spherical_centers() -> float:
    """Return the shortfall of c.v from ||v||; change of a center that has no direction."""
    rng, worst = np.random.default_rng(19), 0.0
    x, labels = _unit(rng, (40, 5)), rng.integers(0, 4, size=40)
    for mode in online_runs.ENGINES:
        with backends.engine(mode):
            c = _paper_centers(x, labels, 5)
        for k in range(4):
            v = x[labels == k].sum(axis=0)
            worst = max(worst, abs(float(c[k] @ v) - float(np.linalg.norm(v))))
            worst = max(worst, abs(float(np.linalg.norm(c[k])) - 1.0))
        opposite = np.asarray([[0.6, 0.8], [1.0, 0.0], [-0.6, -0.8]])
        with backends.engine(mode):
            kept = _paper_centers(opposite, np.asarray([0, 1, 0]), 3)
        wanted = _kept_centers(3, 2)  # 0 cancels, 2 is empty
        wanted[1] = [1.0, 0.0]
        worst = max(worst, float(np.abs(kept - wanted).max()))
    rows = [[3e300, -4e300], [3e-300, 4e-300], [-3.0, -4.0], [0.0, 0.0]]
    large = projections.project_sphere(np.asarray(rows))
    wanted = np.asarray([[0.6, -0.8], [0.6, 0.8], [-0.6, -0.8], [0.0, 0.0]])
    return max(worst, float(np.abs(large - wanted).max()))


def _renormalized_center(x: Floats, batch: int) -> Floats:
    """Return the released code's running center, which is normalized after every batch."""
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
    " direction with noise 8 times as long the centers part by more than 30 degrees. Check: sums"
    " and counts of three clusters, whole, in batches of three sizes and merged, by the engine and"
    " by the readable text, are equal to the bit; each entry is nearer to the sum of features than"
    " numbers cut off would be; the centers are its directions.",
    covers=(
        "clustering.centers.add_to_sums",
        "clustering.centers.merge_sums",
        "clustering.centers.sum_batch",
        "clustering.centers.mean_centers",
    ),
)
def running_centers() -> float:
    """Return 1 if a split changes a bit, or the degrees that the released center lacks to 30."""
    rng = np.random.default_rng(20)
    x, labels, d, k = _unit(rng, (300, 16)), rng.integers(0, 3, size=300), 16, 3
    nothing, worst = centers.init_sums(k, d, xp=np), 0.0
    whole = centers.add_to_sums(nothing, x, labels)
    exact = np.stack([x[labels == j].sum(axis=0) for j in range(k)])
    unit = 2.0**-exact_sums.FRACTION_BITS
    rounding = np.bincount(labels)[:, None] * 0.5 * unit + 1e-13
    off = float((np.abs(whole.sums * unit - exact) / rounding).max())
    # Rounded to the nearest, errors cancel; cut off, they add up to the whole bound.
    worst = max(worst, 0.0 if off < 0.5 else 1.0)
    worst = max(worst, float(np.abs(whole.counts - np.bincount(labels)).max()))
    for mode in online_runs.ENGINES:
        with backends.engine(mode):
            for batch in (1, 7, 128):
                split, summed = nothing, nothing
                for i in range(0, 300, batch):
                    part = slice(i, min(i + batch, 300))
                    split = centers.add_to_sums(split, x[part], labels[part])
                    heads = np.stack([(labels[part] + 1) % k, labels[part]])
                    added = centers.sum_batch(x[part], heads, n_clusters=k)
                    second = centers.CenterSums(added.sums[1], added.counts[1])
                    summed = centers.merge_sums(summed, second)
                    other = centers.CenterSums(*(np.roll(v[0], -1, axis=0) for v in added))
                    worst = max(worst, _unequal(other, second))
                worst = max(worst, _unequal(split, whole), _unequal(summed, whole))
        if mode == "auto":
            first, second = (
                centers.add_to_sums(nothing, x[part], labels[part])
                for part in (slice(0, 100), slice(100, 300))
            )
            worst = max(worst, _unequal(centers.merge_sums(first, second), whole))
            direction = exact / np.linalg.norm(exact, axis=1, keepdims=True)
            apart = centers.mean_centers(whole, np.zeros((k, d))) - direction
            worst = max(worst, 0.0 if float(np.abs(apart).max()) < 1e-9 else 1.0)
    wide, y = _unit(rng, (70, 2**12)), rng.integers(0, k, size=70)  # converted 16 rows at a time
    parts = centers.add_to_sums(centers.init_sums(k, 2**12, xp=np), wide, y)
    told = np.stack([wide[y == j].sum(axis=0) for j in range(k)])
    worst = max(worst, 0.0 if float(np.abs(parts.sums * unit - told).max()) < 1e-9 else 1.0)
    axis = np.eye(d)[0]
    cluster = np.asarray(projections.project_sphere(axis + 2.0 * rng.normal(size=(300, d))))
    right = cluster.sum(axis=0) / np.linalg.norm(cluster.sum(axis=0))
    cosine = float(np.clip(_renormalized_center(cluster, 4) @ right, -1.0, 1.0))
    return max(worst, 30.0 - math.degrees(math.acos(cosine)))


def _unequal(a: centers.CenterSums, b: centers.CenterSums) -> float:
    """Return 1 unless both sums and counts are the same integers."""
    return 0.0 if np.array_equal(a.sums, b.sums) and np.array_equal(a.counts, b.counts) else 1.0


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
    covers=("clustering.centers.mean_centers",),
)
def center_step() -> float:
    """Return the distance of both values from the closed forms.

    With exact centers, the loss must not rise either.
    """
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


# What each update of Algorithm 2 is, and the number printed next to it.
ALGORITHM_2 = {"labels": (10, 13), "centers": (13, 11), "duals": (11, 14)}


@claim(
    id="C25",
    paper=PAPER,
    place="Algorithm 2",
    mutations=("dualclust.proofs.coke.clustering.ALGORITHM_2",),
    statement="The comments name Eq. 13 for the labels, 11 for the centers and 14 for the duals.",
    hypotheses="None.",
    status=Status.ERRATUM,
    derivation="Labels are Eq. 10 (17 for two views), centers Eq. 13, duals Eq. 11; Eq. 14 is the"
    " loss.",
    about="print",
)
def algorithm_two() -> float:
    """Return the references that are right as printed, or not as repaired."""
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
    " Without the bounds equal rows share a cluster. Check: few samples against all permutations;"
    " 260 of them, where the solver works on few candidates, by prices that prove the labels.",
    tolerance=1e-9,
    covers=("offline.assignment.assign_exact",),
)
def instance_classification() -> float:
    """Return the clusters that are not of one sample.

    Add the shortfall from the best of all permutations.
    """
    rng, worst = np.random.default_rng(30), 0.0
    for n in (1, 3, 6):
        scores = online_runs.dyadic_scores(rng, (n, n))
        found = assignment.assign_exact(scores, bounds.SizeBounds.from_counts([1] * n, n_samples=n))
        sizes = np.bincount(found.labels, minlength=n)
        best = max(
            scores[np.arange(n), list(order)].sum() for order in itertools.permutations(range(n))
        )
        worst = max(worst, float(np.abs(sizes - 1).max()), float(best) - found.objective)
    many = online_runs.dyadic_scores(rng, (260, 260), 2**10)  # too many for all to be candidates
    limits = bounds.SizeBounds.from_counts([1] * 260, n_samples=260)
    found = assignment.assign_exact(many, limits)
    worst = max(worst, float(len(set(found.labels.tolist())) != 260))
    worst = max(worst, optimality.gap_by_hand(many, limits, found))
    free = assignment.assign_exact(
        np.eye(3)[[0, 0, 0]], bounds.SizeBounds.from_counts([0] * 3, n_samples=3)
    )
    return worst if len(set(free.labels.tolist())) == 1 else 1.0
