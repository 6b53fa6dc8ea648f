"""Claims of SeCu's supplement about batches, variances, labels and duals: S1, S2, S4, S5 and S7.

Those of the losses are in `losses`, of Theorem 1 in `centers`, of the tables in `tables`.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from ... import backends
from ...algos import bounds
from ...algos.core.errors import InfeasibleBoundsError
from ...algos.losses import cross_entropy
from ...algos.losses.propos import prototypes
from ...algos.online import assignment, certificates, duals
from ..references import feasible_sizes, online_runs
from ..registry.claims import Status, claim

PAPER = "SeCu supplement"


@claim(
    id="S1",
    paper=PAPER,
    place="section 1.1, Proposition 1",
    statement="In a batch of b samples at least K - b of the K clusters have no positive sample.",
    hypotheses="One hard label per sample. Left out: for b > K the number is max(0, K - b).",
    status=Status.HOLDS,
    derivation="""
    Each sample is a positive of one cluster, so that at most min(b, K) clusters have one, and
    b different labels reach that number: the bound is attained. The printed proof assumes that
    *exactly* K - b - 1 clusters have none; the negation of "at least K - b" is "at most
    K - b - 1", for which the same count (at least b + 1 clusters with a positive) works.

    Check: all labelings for K, b <= 5, counted one by one; `batch_prototypes` masks exactly the
    clusters without a sample, of the labelings that miss fewest and most, whatever the features.
    """,
    covers=("losses.propos.prototypes.batch_prototypes",),
)
def batch_misses_clusters() -> float:
    """Return the largest error of max(0, K - b) as the least number of missed clusters."""
    rng, worst = np.random.default_rng(1), 0
    for k, b in product(range(1, 6), repeat=2):
        labels = np.asarray(list(product(range(k), repeat=b)))
        missed = np.asarray([k - len(set(row.tolist())) for row in labels])
        worst = max(worst, abs(int(missed.min()) - max(0, k - b)))
        for row in {int(missed.argmin()), int(missed.argmax()), len(labels) // 3}:
            x = rng.uniform(0.1, 3.0, (b, 2))  # in one quadrant: no two cancel
            found = prototypes.batch_prototypes(x, labels[row], n_clusters=k)
            if found.valid.shape != (k,):
                return float("inf")
            present = [j in labels[row] for j in range(k)]
            worst = max(worst, int((found.valid != present).sum()))
    return float(worst)


def _ratio_of_variances(k: int, a2: Fraction) -> Fraction:
    """Return Var_neg / Var_pos as printed."""
    return Fraction(k - 2, k - 1) / (1 - a2) + Fraction(1, k - 1)


def _variance(points: Any) -> float:
    """Return the mean squared distance of points (m, d) from their mean."""
    return float(((points - points.mean(axis=0)) ** 2).sum(axis=1).mean())


def _cluster(mean: Any) -> Any:
    """Return two unit vectors with this mean."""
    turned = np.asarray([-mean[1], mean[0]]) / np.linalg.norm(mean)
    reach = np.sqrt(1.0 - mean @ mean)
    return np.stack([mean + reach * turned, mean - reach * turned])


@claim(
    id="S2",
    paper=PAPER,
    place="section 1.2, Proposition 2",
    statement="""
    Var_neg = ((K - 2) / ((K - 1)(1 - a^2)) + 1 / (K - 1)) Var_pos, where a is the length of every
    cluster mean: the negatives of a center vary more than its positives.
    """,
    hypotheses="""
    Unit features, equal sizes, K >= 2, 0 <= a < 1. Left out: the cluster means are *random*,
    independent and of mean zero, and the equation is one of expectations.
    """,
    status=Status.EXTRA,
    derivation="""
    For a set of unit vectors with mean m the variance is 1 - |m|^2. So Var_pos = 1 - a^2, and
    Var_neg = 1 - |(sum of K - 1 other means) / (K - 1)|^2. For independent means of expectation
    zero the cross terms vanish on average and the square is a^2 / (K - 1), which gives the ratio
    by algebra. For *given* means it is false in general: if all K means add up to zero (the
    simplex, to which the method drives them) the sum of the others is minus the own mean, the
    square is a^2 / (K - 1)^2, and Var_neg is larger by a^2 (K - 2) / (K - 1)^2 than printed. The
    inequality Var_neg >= Var_pos survives in both cases.

    Check: the algebra in fractions; the expectation over all choices of means from {+-a e1,
    +-a e2}, with two unit vectors per cluster; the three-cluster simplex, where the printed ratio
    must fail by that difference.
    """,
    tolerance=1e-12,
    mutations=(
        "dualclust.proofs.secu.supplement._ratio_of_variances",
        "dualclust.proofs.secu.supplement._variance",
    ),
    about="paper",
)
def variance_of_negatives() -> float:
    """Return the error of the algebra, of the expectation, and of the difference at the simplex."""
    worst = 0.0
    for k, a2 in product(range(2, 9), (Fraction(0), Fraction(1, 4), Fraction(16, 25))):
        exact = 1 - a2 / (k - 1)
        worst = max(worst, float(abs(_ratio_of_variances(k, a2) * (1 - a2) - exact)))
    a = 0.8
    means = a * np.asarray([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    for k in (2, 3, 4):
        negatives = [
            _variance(np.concatenate([_cluster(m) for m in others]))
            for others in product(means, repeat=k - 1)
        ]
        printed = float(_ratio_of_variances(k, Fraction(16, 25))) * _variance(_cluster(means[0]))
        worst = max(worst, abs(float(np.mean(negatives)) - printed))
    turns = 2.0 * np.pi * np.arange(3) / 3.0
    simplex = a * np.stack([np.cos(turns), np.sin(turns)], axis=1)
    others = _variance(np.concatenate([_cluster(m) for m in simplex[1:]]))
    printed = float(_ratio_of_variances(3, Fraction(16, 25))) * _variance(_cluster(simplex[0]))
    return max(worst, abs(others - printed - a * a / 4.0))


def _printed_cost(scores: Any, prices: duals.Duals, temperature: float) -> Any:
    """Return ``-log p_ij - rho_j + rho'_j`` with the duals of the supplement."""
    log_p = cross_entropy.log_softmax(scores, temperature=temperature)
    return -log_p - prices.lower[:, None] + prices.upper[:, None]


@claim(
    id="S4",
    paper=PAPER,
    place="section 2, update of the labels",
    statement="The label argmin_j -log p_ij - rho_j + rho'_j solves the online step for a sample.",
    hypotheses="rho, rho' >= 0. Left out: a rule for ties (ours: the lowest index).",
    status=Status.HOLDS,
    derivation="""
    The Lagrangian is linear in y_i, and a linear function on the simplex is least at a vertex.
    Since -log p_ij = -s_ij / lambda + log Z_i, and log Z_i is the same for all j, the rule is
    argmax_j s_ij + lambda (rho_j - rho'_j): duals in units of similarity are lambda times those
    printed, and so are their steps. The released code works on s. Its step of 0.1 at lambda =
    0.05 is thus 2 in the units of the supplement; the printed rule with 0.1 is 20 times slower.

    Check: whole streams of two heads side by side, each with its own shares, step and prices at the
    start, labeled by `duals.assign_batch` on scores, with lambda times the step and batches longer
    than a chunk; every label must have the least printed cost under duals that are updated by the
    printed formulas, written out in the check.
    """,
    tolerance=1e-9,
    covers=("online.duals.assign_batch", "online.duals.update_duals"),
)
def label_of_the_online_step() -> float:
    """Return the most by which a label's printed cost exceeds the least one, over a stream."""
    rng = np.random.default_rng(4)
    heads, k, b, chunk, lam = 2, 5, 12, 8, 0.05
    eta = np.asarray([[4.0], [1.5]])  # of a chunk
    low = rng.dirichlet(np.full(k, 8.0), heads) * 0.9
    high = low * np.asarray([[1.2], [1.6]])
    printed = duals.Duals(*rng.uniform(0.0, 4.0, (2, heads, k)))
    state = duals.Duals(lam * printed.lower, lam * printed.upper)
    worst = 0.0
    for _ in range(30):
        scores = rng.uniform(-1.0, 1.0, (heads, b, k)) + np.linspace(0.5, 0.0, k)
        labels, state = duals.assign_batch(
            scores,
            state,
            duals.DualRule(
                lower_share=low, upper_share=high, step_size=lam * eta / chunk, chunk_size=chunk
            ),
        )
        for part in (slice(0, chunk), slice(chunk, b)):
            cost = _printed_cost(scores[:, part], printed, lam)
            chosen = np.take_along_axis(cost, labels[:, part, None], axis=-1)[..., 0]
            worst = max(worst, float((chosen - cost.min(axis=-1)).max()))
            taken = (labels[:, part, None] == np.arange(k)).sum(axis=1)
            step = eta * taken.sum(axis=1, keepdims=True) / chunk  # a short chunk counts for less
            share = taken / taken.sum(axis=1, keepdims=True)
            printed = duals.Duals(
                np.maximum(0.0, printed.lower - step * (share - low)),
                np.maximum(0.0, printed.upper + step * (share - high)),
            )
        apart = [np.abs(mine - lam * told).max() for mine, told in zip(state, printed, strict=True)]
        worst = max(worst, *map(float, apart))
    return worst


@claim(
    id="S5",
    paper=PAPER,
    place="section 2, update of the duals",
    statement="""
    rho <- max(0, rho - eta (mean y - gamma / K)) and rho' <- max(0, rho' + eta (mean y -
    gamma' / K)) is dual ascent for gamma N / K <= n_j <= gamma' N / K.
    """,
    hypotheses="""
    Left out: 0 <= gamma <= 1 <= gamma', else no assignment exists; in whole samples, that
    K ceil(gamma N / K) <= N <= K floor(gamma' N / K).
    """,
    status=Status.EXTRA,
    derivation="""
    The dual function, to be minimized over rho, rho' >= 0, is D = sum_i max_j (s_ij + rho_j -
    rho'_j) - sum_j rho_j l_j + sum_j rho'_j u_j. With n the counts of labels that attain the
    maxima, (n - l, u - n) is a subgradient: D at any other point is at least the value at those
    same labels. The printed step is the projected subgradient step, taken per batch.

    Bounds: counts with l <= n_j <= u and sum N exist if and only if l <= u and K l <= N <= K u
    (add up; conversely hand out the rest below u). For real shares that reads gamma <= 1 <=
    gamma'; whole samples need the rounded version, which is stricter: gamma = 1 with N = 100 and
    K = 3 is feasible for the relaxed problem and for no assignment.

    Check: the subgradient inequality and the step against `duals.update_duals`; `dual_value` of
    rho - rho' lies between any feasible value and D, and equals D for rho' = 0. The conditions on
    bounds by z3, with one for each cluster (l_k <= u_k, sum l <= N <= sum u), for all reals and
    for all whole numbers at K <= 6, and that rounding inward loses no size; as a control z3 must
    find an N for which gamma = gamma' = 1 has room in reals only. `from_ratios` against an
    enumeration, because z3 knows the condition and not the code: its verdicts, and for each
    rounding its whole bounds and its shares, where a ratio is the decimal fraction that was typed
    (0.9 of 300 samples is 270; the float next to 0.9 would round up to 271).
    """,
    tolerance=1e-10,
    covers=(
        "online.duals.update_duals",
        "bounds.sizes.SizeBounds.from_ratios",
        "online.certificates.dual_value",
    ),
)
def dual_ascent_and_feasibility() -> float:
    """Return the worst error of the subgradient inequality, the step, duality and verdicts."""
    rng = np.random.default_rng(5)
    n, k = 12, 3
    low, high = np.asarray([2.0, 3.0, 4.0]), np.asarray([4.0, 5.0, 6.0])  # and imply no others
    sizes = bounds.SizeBounds.from_counts([2, 3, 4], [4, 5, 6], n_samples=n)
    inside = np.asarray([0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 2])
    worst = 0.0
    for _ in range(50):
        scores = rng.normal(size=(n, k))
        rho, rho_up = rng.uniform(0.0, 1.0, (2, k))
        labels = (scores + rho - rho_up).argmax(axis=1)
        counts = np.bincount(labels, minlength=k)
        here, slope = _dual(scores, rho, rho_up, low, high), (counts - low, high - counts)
        far, far_up = rng.uniform(0.0, 1.0, (2, k))
        tangent = here + slope[0] @ (far - rho) + slope[1] @ (far_up - rho_up)
        worst = max(worst, tangent - _dual(scores, far, far_up, low, high))
        value = certificates.dual_value(scores, rho - rho_up, sizes)
        feasible = float(scores[np.arange(n), rng.permutation(inside)].sum())
        worst = max(worst, feasible - value, value - here)
        for one, other in ((rho, 0.0 * rho), (0.0 * rho, rho_up)):
            alone = certificates.dual_value(scores, one - other, sizes)
            worst = max(worst, abs(alone - _dual(scores, one, other, low, high)))
        step = duals.update_duals(
            duals.Duals(rho, rho_up),
            counts,
            n,
            duals.DualRule(lower_share=low / n, upper_share=high / n, step_size=0.3),
        )
        worst = max(
            worst,
            float(np.abs(step.lower - np.maximum(0.0, rho - 0.3 * slope[0])).max()),
            float(np.abs(step.upper - np.maximum(0.0, rho_up - 0.3 * slope[1])).max()),
        )
    for k in range(1, 7):
        for whole in (False, True):
            worst = max(worst, feasible_sizes.room_unproven(k, whole=whole))
    worst = max(worst, feasible_sizes.rounding_unproven(), feasible_sizes.real_ratios_mislead(3))
    return max(worst, _wrong_verdicts(), _wrong_bounds())


def _dual(scores: Any, rho: Any, rho_up: Any, low: Any, high: Any) -> float:
    return float((scores + rho - rho_up).max(axis=1).sum() - rho @ low + rho_up @ high)


def _wrong_verdicts() -> float:
    """Return the ratios of which `from_ratios` says otherwise than an enumeration of counts."""
    wrong = 0
    ratios = [Fraction(0), Fraction(1, 2), Fraction(9, 10), Fraction(1)]
    tops = [Fraction(9, 10), Fraction(1), Fraction(11, 10), Fraction(3, 2), Fraction(2)]
    for n, k in product(range(1, 9), range(1, 4)):
        sizes = [c for c in product(range(n + 1), repeat=k) if sum(c) == n]
        for low, high in product(ratios, tops):
            exists = any(all(low * n <= k * m <= high * n for m in c) for c in sizes)
            try:
                bounds.SizeBounds.from_ratios(
                    k, n_samples=n, lower=float(low), upper=float(high), rounding="inward"
                )
                wrong += not exists
            except InfeasibleBoundsError:
                wrong += exists
    return float(wrong)


def _wrong_bounds() -> float:
    """Return the bounds of `from_ratios` that are not those of exact arithmetic."""
    wrong = 0
    typed = [("0.9", "1.1"), ("0.4", "1.7"), ("0.7", "1.3"), ("0", "3")]
    for (low, high), n, k in product(typed, (100, 300, 1000), (3, 7)):
        a, b = Fraction(low) / k, min(Fraction(high) / k, Fraction(1))
        for rounding in bounds.ROUNDING:
            found = bounds.SizeBounds.from_ratios(
                k,
                n_samples=n,
                lower=[float(low)] * k,
                upper=float(high),
                rounding=rounding,
            )
            wrong += sum(not _rounded(int(v), n * a, rounding, up=True) for v in found.lower)
            wrong += sum(not _rounded(int(v), n * b, rounding, up=False) for v in found.upper)
            shares = np.concatenate([found.lower_share - float(a), found.upper_share - float(b)])
            wrong += int((np.abs(shares) > 1e-15).sum()) + (found.n_samples != n)
    uneven = bounds.SizeBounds.from_ratios(
        2, n_samples=10, lower=[0.5, 1.1], upper=[0.9, 1.7], rounding="inward"
    )
    wrong += uneven.lower.tolist() != [3, 6]
    wrong += uneven.upper.tolist() != [4, 8]
    return float(wrong)


def _rounded(size: int, exact: Fraction, rounding: str, *, up: bool) -> bool:
    """Return whether a whole size is what `rounding` makes of a bound."""
    if rounding == "nearest":
        return abs(size - exact) <= Fraction(1, 2)
    over = size - exact
    return 0 <= over < 1 if up == (rounding == "inward") else -1 < over <= 0


@claim(
    id="S7",
    paper=PAPER,
    place="section 2, last sentence",
    statement="Without dual variables the online assignment is the greedy one.",
    hypotheses="rho = rho' = 0; ties by the same rule.",
    status=Status.HOLDS,
    derivation="""
    argmax_j s_ij + 0. With no lower bound and no upper one the duals never leave zero: the lower
    one is max(0, 0 - h c) = 0, the upper one max(0, h (c - m)) = 0 since c <= m. So `assign`
    without bounds is greedy as well, to the last bit and with ties at the lowest index.

    Check: scores with many ties, K = 5 and 130 (more than the engine compares at once), in one call
    and in two, by the engine and by the readable text.
    """,
    covers=("online.duals.assign_batch", "online.assignment.assign"),
)
def without_duals_greedy() -> float:
    """Return labels that differ from the first argmax, prices that left 0, and lost objective."""
    rng, worst = np.random.default_rng(7), 0.0
    for n, k in ((120, 5), (60, 130)):
        scores = np.round(rng.uniform(-1.0, 1.0, (n, k)) * 4.0) / 4.0  # many ties
        greedy = scores.argmax(axis=1)
        labels, prices = duals.assign_batch(
            np.stack([scores, scores[::-1]]),
            duals.init_duals((2, k), xp=np),
            duals.DualRule(
                lower_share=np.zeros(k), upper_share=np.ones(k), step_size=0.7, chunk_size=16
            ),
        )
        worst = max(worst, float((labels != np.stack([greedy, greedy[::-1]])).sum()))
        worst = max(worst, float(np.abs(prices).max()))
        free = bounds.SizeBounds.from_ratios(k, n_samples=n, lower=0.0)
        for mode in online_runs.ENGINES:
            with backends.engine(mode):
                first, state = assignment.assign(scores[:50], free)
                second, state = assignment.assign(scores[50:], free, state)
            online = np.concatenate([first, second])
            lost = certificates.objective(scores, greedy) - certificates.objective(scores, online)
            worst = max(worst, float((online != greedy).sum()), abs(lost))
            worst = max(worst, float(np.abs(state.duals).max()))
            worst = max(worst, float(np.abs(state.counts - np.bincount(greedy, minlength=k)).max()))
    return worst
