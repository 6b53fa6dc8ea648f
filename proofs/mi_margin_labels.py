"""Claims of the MI + margin supplement about its pseudo-labels: M1, M3 and M4.

E(y) = -(beta / M) sum_ik s_ik ln y_ik - lambda sum_k u_k ln(mean_i y_ik), with outputs s and labels
y of M samples on the simplex.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..algos import pseudo_label_losses, pseudo_labels, pseudo_labels_em, pseudo_labels_energy
from .registry import Status, claim

PAPER = "MI + margin supplement"

_COVERS = (
    "pseudo_labels_energy.label_objective",
    "pseudo_label_losses.pseudo_label_energy",
)


def _energy(sigma: Any, y: Any, **weights: Any) -> float:
    return float(pseudo_labels_energy.label_objective(sigma, y, **weights))


def _curvature(sigma: Any, y: Any, step: Any, balance: float, beta: float, u: Any) -> float:
    """Second derivative of E at y along `step`."""
    within = beta / len(y) * (sigma * (step / y) ** 2).sum()
    across = balance * (u * (step.sum(axis=0) / y.sum(axis=0)) ** 2).sum()
    return float(within + across)


@claim(
    id="M1",
    paper=PAPER,
    place="appendix B, Lemma B.1",
    statement="E(y) is convex in y, for labels on the simplex.",
    hypotheses="""
    Left out: beta, lambda >= 0; 0 ln 0 = 0 and -ln 0 = inf at the boundary. Not claimed, and
    false: strictly convex.
    """,
    status=Status.EXTRA,
    derivation="""
    -ln is convex and decreasing, y_ik and mean_i y_ik are linear, and nonnegative weights keep
    convexity. Along a direction d the second derivative is (beta / M) sum s_ik (d_ik / y_ik)^2 +
    lambda sum_k u_k (sum_i d_ik / sum_i y_ik)^2 >= 0. With lambda < 0 the second term is
    negative and alone decides where s_ik = 0.

    The second derivative is 0 along any d with d_ik = 0 where s_ik > 0 and sum_i d_ik = 0 for all
    k: with zeros in s the minimizer need not be unique. Example: two samples, both s = (1, 0, 0),
    u uniform, beta = lambda = 1. E depends on the first entries and the column sums; with first
    entries a it is -(4/3) ln a - (2/3) ln((1 - a) / 2), least at a = 2/3. The labels
    (2/3, 1/4, 1/12), (2/3, 1/12, 1/4) and twice (2/3, 1/6, 1/6) are both minimizers. If all
    s_ik > 0 and beta > 0 it is strictly convex. So: compare energies, not labels.

    Check: Jensen's inequality on random labels, zeros included; the second derivative against
    differences; both minimizers by energy and by proven gap; a violation for lambda = -1 in a
    transcription; the energy by scores agrees with that by outputs.
    """,
    tolerance=1e-9,
    covers=_COVERS,
    mutations=(
        "dualclust.algos.pseudo_labels_energy.label_objective",
        "dualclust.algos.pseudo_label_losses.pseudo_label_energy",
        "dualclust.proofs.mi_margin_labels._curvature",
    ),
)
def energy_is_convex() -> float:
    """Worst of the violations listed in the claim."""
    rng = np.random.default_rng(40)
    worst = 0.0
    u = np.asarray([0.5, 0.3, 0.2])
    for beta, balance in ((1.0, 1.0), (0.5, 20.0), (0.0, 3.0), (2.0, 0.0)):
        weights = {"balance": balance, "beta": beta, "u": u}
        for sharp in (1.0, 0.05):
            sigma = rng.dirichlet(np.full(3, sharp), 6)
            ends = [rng.dirichlet(np.full(3, 0.5), 6) for _ in range(2)]
            ends[0][0], sigma[0] = (0.0, 0.4, 0.6), (0.0, 0.5, 0.5)
            for t in (0.1, 0.5, 0.8):
                between = _energy(sigma, (1.0 - t) * ends[0] + t * ends[1], **weights)
                chord = (1.0 - t) * _energy(sigma, ends[0], **weights)
                worst = max(worst, between - chord - t * _energy(sigma, ends[1], **weights))
            y, step = rng.dirichlet(np.full(3, 5.0), 6), rng.normal(size=(6, 3))
            step -= step.mean(axis=1, keepdims=True)
            h = 1e-4 * float(y.min()) / float(np.abs(step).max())
            three = [_energy(sigma, y + h * s * step, **weights) for s in (-1.0, 0.0, 1.0)]
            second = (three[0] - 2.0 * three[1] + three[2]) / h**2
            exact = _curvature(sigma, y, step, balance, beta, u)
            worst = max(worst, abs(second - exact) / (1.0 + exact) - 1e-2)
            scores = np.log(np.maximum(sigma, 1e-300))
            by_scores = pseudo_label_losses.pseudo_label_energy(
                scores, y, u, fairness_weight=balance, beta=beta
            )
            worst = max(worst, abs(float(by_scores) - _energy(sigma, y, **weights)))
    sure = np.asarray([[1.0, 0.0, 0.0]] * 2)
    one = np.asarray([[2 / 3, 1 / 4, 1 / 12], [2 / 3, 1 / 12, 1 / 4]])
    two = np.asarray([[2 / 3, 1 / 6, 1 / 6]] * 2)
    worst = max(worst, abs(_energy(sure, one, balance=1.0) - _energy(sure, two, balance=1.0)))
    for y in (one, two):
        worst = max(worst, float(pseudo_labels_energy.label_gap(sure, y, balance=1.0)))
    return max(worst, _still_convex_below_zero())


def _still_convex_below_zero() -> float:
    """0 if E with lambda = -1 violates convexity between two labels, as it should."""
    sure = np.asarray([[1.0, 0.0, 0.0]])
    ends = [np.asarray([[0.5, 0.4, 0.1]]), np.asarray([[0.5, 0.1, 0.4]])]

    def energy(y: Any) -> float:
        return float(-(sure * np.log(y)).sum() + np.log(y.mean(axis=0)).sum() / 3.0)

    excess = energy(0.5 * (ends[0] + ends[1])) - 0.5 * (energy(ends[0]) + energy(ends[1]))
    return 0.0 if excess > 0.1 else 1.0


def _printed_step(sigma: Any, y: Any, lam: float, n: float, u: Any) -> Any:
    """One sweep of Algorithm 1 as printed, with its N."""
    s = y / y.sum(axis=0)
    return (sigma + lam * n * u * s) / (1.0 + lam * n * (s @ u)[:, None])


@claim(
    id="M3",
    paper=PAPER,
    place="appendix C, Algorithm 1",
    statement="Alternating S = y / sum_j y_j and y = (s + lambda N u S) / (1 + ...) minimizes E.",
    hypotheses="""
    Left out: N = M / beta, where M is the batch; y > 0 at the start wherever the optimum is.
    """,
    status=Status.EXTRA,
    derivation="""
    By Jensen, -ln sum_i y_ik <= -sum_i S_ik ln(y_ik / S_ik) for any S with columns on the simplex,
    with equality for S = y / sum y. Inserting it leaves, for each sample, the problem min -sum_k
    (beta s_ik / M + lambda u_k S_ik) ln y_ik, solved by normalizing the weights: this is the
    printed step times M / beta, so that lambda N must be lambda M / beta. The surrogate touches E
    at the current y, hence no step raises E. A positive fixed point has y_ik (nu_i - p_k) =
    beta s_ik with p_k = lambda u_k / mean_i y_ik and nu_i - p_k >= 0, the optimality conditions
    of the convex problem. The supplement never says what N is. With another N the sweep minimizes
    E for the balance lambda N beta / M instead. The rate is poor for sharp outputs.

    The network then descends mean_i H(s_i, y_i) + gamma |v|^2 with y fixed. That is descent on
    min_y E, whose derivative in s is -(beta / M) ln y at the minimizer (Danskin), only if y is
    solved.

    Check, for beta = 2: `em_step` is the printed step with N = M / beta; E never rises; the limit
    agrees with `pseudo_labels`, whose gap is proven; with N = M the limit is worse by a margin;
    differences of min_y E have that derivative; `pseudo_label_loss` is the loss of the network.
    """,
    tolerance=1e-9,
    covers=(
        "pseudo_labels_em.em_step",
        "pseudo_labels_em.em_labels",
        "pseudo_labels.pseudo_labels",
        "pseudo_label_losses.pseudo_label_loss",
    ),
    mutations=(
        "dualclust.algos.pseudo_labels_em.em_step",
        "dualclust.algos.pseudo_labels.pseudo_labels",
        "dualclust.algos.pseudo_labels_energy.label_objective",
        "dualclust.algos.pseudo_label_losses.pseudo_label_loss",
        "dualclust.proofs.mi_margin_labels._printed_step",
    ),
)
def algorithm_1_minimizes() -> float:
    """Worst of the violations listed in the claim."""
    rng = np.random.default_rng(41)
    m, beta, lam = 12, 2.0, 1.5
    sigma, u = rng.dirichlet(np.full(3, 2.0), m), np.asarray([0.5, 0.3, 0.2])
    weights: dict[str, Any] = {"balance": lam, "beta": beta, "u": u}
    y = wrong = sigma
    worst, before = 0.0, _energy(sigma, sigma, **weights)
    for _ in range(300):
        printed = _printed_step(sigma, y, lam, m / beta, u)
        y = pseudo_labels_em.em_step(sigma, y, **weights)
        after = _energy(sigma, y, **weights)
        worst = max(worst, float(np.abs(y - printed).max()), after - before)
        before = after
        wrong = _printed_step(sigma, wrong, lam, float(m), u)
    solved = pseudo_labels.pseudo_labels(sigma, tol=1e-12, **weights)
    worst = max(worst, float(solved.gap), abs(before - float(solved.objective)))
    worst = max(worst, float(pseudo_labels_energy.label_gap(sigma, y, **weights)))
    lost = _energy(sigma, wrong, **weights) - before
    other = pseudo_labels.pseudo_labels(sigma, tol=1e-12, **(weights | {"balance": lam * beta}))
    worst = max(worst, float(np.abs(wrong - other.labels).max()) - 1e-5)
    worst = max(worst, _envelope_error(sigma, y, weights))
    return worst if lost > 1e-3 else 1.0


def _envelope_error(sigma: Any, y: Any, weights: dict[str, Any]) -> float:
    """Excess over 1e-6 of the derivative's error; and the error of the loss of the network."""
    rng = np.random.default_rng(45)
    step = rng.normal(size=sigma.shape) * sigma
    step -= sigma * step.sum(axis=1, keepdims=True)
    solve, h = pseudo_labels.pseudo_labels, 1e-4
    ends = [float(solve(sigma + s * h * step, tol=1e-13, **weights).objective) for s in (1, -1)]
    exact = -weights["beta"] / len(sigma) * float((step * np.log(y)).sum())
    error = abs((ends[0] - ends[1]) / (2.0 * h) - exact) - 1e-6
    v = rng.normal(size=(2, sigma.shape[1]))
    loss = pseudo_label_losses.pseudo_label_loss(np.log(sigma), y, v, margin_weight=0.1)
    printed = float(-(sigma * np.log(y)).sum() / len(sigma) + 0.1 * (v * v).sum())
    return max(float(error), abs(float(loss) - printed))


_ZERO = np.asarray([[1.0, 0.0], [1.0, 0.0], [0.6, 0.4]])
_DEAD = np.asarray([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])


@claim(
    id="M4",
    paper=PAPER,
    place="appendix C, Algorithm 1, first line",
    statement="The output of the network is a suitable start of the labels.",
    hypotheses="True if no output is 0, which a softmax in finite precision does not ensure.",
    status=Status.REFUTED,
    derivation="""
    A step multiplies: y_ik = 0 and s_ik = 0 give y_ik = 0 for ever, and a column of zeros gives
    S = 0 / 0. But where s_ik = 0 the optimum may, and for a cluster without output must, have
    y_ik > 0: 0 ln y costs nothing there, and -ln(mean y) is infinite without mass. A softmax
    rounds to 0 from a gap of about 104 in float32 and 17 in float16.

    Repair: start from (1 - e) s + e u; or solve, with zeros as they are (`pseudo_labels`).

    Check: both counterexamples by `em_labels` with e = 0; the floored start and the solver reach
    the optimum; the divergence of labels without a cluster is finite, yet above 300 nats.
    """,
    counterexample="""
    lambda = 3, beta = 1, two clusters, u uniform. s = (1, 0), (1, 0), (1, 0): NaN after one step.
    s = (1, 0), (1, 0), (0.6, 0.4): the limit from y = s has the labels (1, 0), (1, 0),
    (0.16, 0.84) and E = 2.7920; the optimum is E = 2.6204.
    """,
    tolerance=1e-4,
    covers=(
        "pseudo_labels_em.em_labels",
        "pseudo_labels_energy.floor_outputs",
        "pseudo_label_losses.pseudo_label_divergence",
    ),
    mutations=(
        "dualclust.algos.pseudo_labels_em.em_labels",
        "dualclust.algos.pseudo_labels.pseudo_labels",
        "dualclust.algos.pseudo_label_losses.pseudo_label_divergence",
        "dualclust.proofs.mi_margin_labels._ZERO",
    ),
)
def start_at_the_output() -> float:
    """How far the counterexamples are from standing, and the repair from the optimum."""
    run = pseudo_labels_em.em_labels
    with np.errstate(invalid="ignore", divide="ignore"):
        dead = run(_DEAD, balance=3.0, n_iter=2, epsilon=0.0)
    stuck = run(_ZERO, balance=3.0, n_iter=2000, epsilon=0.0)
    solved = pseudo_labels.pseudo_labels(_ZERO, balance=3.0, tol=1e-10)
    floored = run(_ZERO, balance=3.0, n_iter=2000)
    best = float(solved.objective)
    lost = _energy(_ZERO, stuck, balance=3.0) - best
    if not np.isnan(dead).any() or np.abs(stuck[:2, 1]).max() > 0.0:
        return 1.0
    cost = float(pseudo_label_losses.pseudo_label_divergence(_DEAD))
    if not 300.0 < cost < 1e3:
        return 1.0
    mended = pseudo_labels.pseudo_labels(_DEAD, balance=3.0, tol=1e-10)
    worst = max(float(solved.gap), float(mended.gap), _energy(_ZERO, floored, balance=3.0) - best)
    return max(worst, 0.01 - lost)
