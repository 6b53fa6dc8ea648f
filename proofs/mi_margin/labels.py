"""Claims of the MI + margin supplement about its pseudo-labels: M1, M3 and M4.

E(y) = -(beta / M) sum_ik s_ik ln y_ik - lambda sum_k u_k ln(mean_i y_ik), with outputs s and labels
y of M samples on the simplex. `label_energy` has it a second time, apart from the library.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import softmax

from ...algos.losses.information import pseudo_label
from ...algos.pseudo_labels import em, energy, solver
from ..references.violations import difference, excess, unless, worst
from ..registry.claims import Status, claim
from . import label_energy
from .label_energy import Weights

PAPER = "MI + margin supplement"

_U = np.asarray([0.5, 0.3, 0.2])
_LARGE = 2**17 // 192 + 40  # rows of 192 columns that fill more than one block


def _energy(s: Any, y: Any, **weights: Any) -> float:
    return float(energy.pseudo_label_energy(s, y, **weights))


def _curvature(s: Any, y: Any, step: Any, w: Weights) -> float:
    """Return the second derivative of E at y along `step`."""
    within = w.beta / len(y) * (s * (step / y) ** 2).sum()
    across = w.fairness_weight * (w.prior * (step.sum(axis=0) / y.sum(axis=0)) ** 2).sum()
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

    Check: the energy, the losses that it is the sum of, and its gap are a transcription's, the gap
    being E less the dual for any prices and multipliers; Jensen's inequality on random labels,
    zeros included; the second derivative against differences; both minimizers by energy and by
    proven gap; a violation for lambda = -1 in the transcription.
    """,
    tolerance=1e-9,
    covers=(
        "pseudo_labels.energy.pseudo_label_energy",
        "losses.information.pseudo_label.reverse_cross_entropy",
        "losses.information.pseudo_label.pseudo_label_divergence",
        "pseudo_labels.solver.pseudo_labels",
    ),
)
def energy_is_convex() -> float:
    """Return the worst of the violations listed in the claim."""
    rng = np.random.default_rng(40)
    violations = [*_energy_violations(), *_gap_violations()]
    for beta, weight in ((1.0, 1.0), (0.5, 20.0), (0.0, 3.0), (2.0, 0.0)):
        w = Weights(weight, beta, _U)
        for sharp in (1.0, 0.05):
            s = rng.dirichlet(np.full(3, sharp), 6)
            ends = [rng.dirichlet(np.full(3, 0.5), 6) for _ in range(2)]
            ends[0][0], s[0] = (0.0, 0.4, 0.6), (0.0, 0.5, 0.5)
            for t in (0.1, 0.5, 0.8):
                between = _energy(s, (1.0 - t) * ends[0] + t * ends[1], **w.options)
                chord = (1.0 - t) * _energy(s, ends[0], **w.options)
                violations.append(excess(between, chord + t * _energy(s, ends[1], **w.options)))
            y, step = rng.dirichlet(np.full(3, 5.0), 6), rng.normal(size=(6, 3))
            step -= step.mean(axis=1, keepdims=True)
            h = 1e-4 * float(y.min()) / float(np.abs(step).max())
            three = [_energy(s, y + h * c * step, **w.options) for c in (-1.0, 0.0, 1.0)]
            second = (three[0] - 2.0 * three[1] + three[2]) / h**2
            exact = _curvature(s, y, step, w)
            violations.append(excess(abs(second - exact) / (1.0 + exact), 1e-2))
    return worst(*violations, *_two_minimizers(), _still_convex_below_zero())


def _energy_violations() -> list[float]:
    """Compare the library's energies, and their two terms, with the transcription."""
    rng, violations = np.random.default_rng(46), []
    for weight, beta in ((1.5, 0.7), (0.0, 2.0), (20.0, 0.0)):
        w = Weights(weight, beta, _U)
        scores, y = 2.0 * rng.normal(size=(2, 7, 3)), rng.dirichlet(np.ones(3), (2, 7))
        for t in (1.0, 0.4):
            s = softmax(scores / t, axis=-1)
            exact = [label_energy.energy(s[i], y[i], w) for i in range(2)]
            violations += [difference(_energy(s[i], y[i], **w.options), exact[i]) for i in range(2)]
            entropies = pseudo_label.reverse_cross_entropy(scores, y, temperature=t)
            violations.append(difference(entropies, -np.sum(s * np.log(y), axis=-1)))
            # What the losses of the network's step add up to, less the entropy of u.
            fair = pseudo_label.pseudo_label_divergence(y, _U) - np.sum(_U * np.log(_U))
            terms = beta * np.mean(entropies, axis=-1) + weight * fair
            violations.append(difference(terms, exact))
        for u in (_U, np.full(3, 1.0 / 3.0)):
            found = pseudo_label.pseudo_label_divergence(y, None if u[0] < 0.5 else u)
            exact = [float(np.sum(u * np.log(u / y[i].mean(axis=0)))) for i in range(2)]
            violations.append(difference(found, exact))
    # 0 ln 0 = 0, and no mass is infinitely dear only where some is wanted.
    s, y = (
        np.asarray([[0.0, 1.0, 0.0], [0.5, 0.5, 0.0]]),
        np.asarray([[0.0, 1.0, 0], [0.4, 0.6, 0]]),
    )
    part = Weights(2.0, 1.0, np.asarray([0.5, 0.5, 0.0]))
    violations.append(difference(_energy(s, y, **part.options), label_energy.energy(s, y, part)))
    violations.append(unless(_energy(s, y, fairness_weight=2.0) == math.inf))
    violations.append(unless(_energy(s, y[::-1], **part.options) == math.inf))
    s, y = rng.dirichlet(np.ones(192), (2, _LARGE))
    uniform = Weights(3.0, 1.0, np.full(192, 1.0 / 192.0))
    violations.append(
        difference(_energy(s, y, fairness_weight=3.0), label_energy.energy(s, y, uniform))
    )
    gap = energy.label_gap(s, y, fairness_weight=3.0)
    duals = label_energy.printed_duals(s, y, uniform)
    proven = label_energy.energy(s, y, uniform) - label_energy.dual_value(s, *duals, uniform)
    return [*violations, difference(gap, proven)]


def _gap_violations() -> list[float]:
    """Compare `label_gap` with E less the dual, for its own duals and for given ones."""
    rng, violations = np.random.default_rng(47), []
    for weight, beta in ((1.5, 0.7), (0.3, 2.0), (0.0, 1.0)):
        w = Weights(weight, beta, _U)
        s, y = rng.dirichlet(np.full(3, 0.6), (2, 8))
        own = label_energy.printed_duals(s, y, w)
        prices = weight * rng.uniform(0.2, 2.0, size=3) + (weight == 0.0)
        given = prices, prices.max() + rng.uniform(0.1, 2.0, size=8)
        proof = energy.LabelDuals(given[0], given[1] - prices.max())
        for labels in (y, y * rng.uniform(0.8, 1.2, size=(8, 1))):  # also off the simplex
            value = label_energy.energy(s, labels, w)
            found = energy.label_gap(s, labels, duals=proof, **w.options)
            violations.append(difference(found, value - label_energy.dual_value(s, *given, w)))
        found = energy.label_gap(s, y, **w.options)
        value = label_energy.energy(s, y, w)
        violations.append(difference(found, value - label_energy.dual_value(s, *own, w)))
        best = solver.pseudo_labels(s, tol=1e-12, **w.options).labels
        violations.append(excess(value - label_energy.energy(s, best, w), found))
    return violations


def _two_minimizers() -> list[float]:
    """Return whether both labels of the claim have the least energy, by a proof."""
    sure = np.asarray([[1.0, 0.0, 0.0]] * 2)
    one = np.asarray([[2 / 3, 1 / 4, 1 / 12], [2 / 3, 1 / 12, 1 / 4]])
    two = np.asarray([[2 / 3, 1 / 6, 1 / 6]] * 2)
    least = -4.0 / 3.0 * math.log(2.0 / 3.0) - 2.0 / 3.0 * math.log(1.0 / 6.0)
    found = solver.pseudo_labels(sure, fairness_weight=1.0, tol=1e-11)
    violations = [difference(found.objective, least)]
    for y in (one, two):
        violations.append(difference(_energy(sure, y, fairness_weight=1.0), least))
        violations.append(excess(energy.label_gap(sure, y, fairness_weight=1.0), 1e-12))
    return violations


def _still_convex_below_zero() -> float:
    """Return 0 if E with lambda = -1 violates convexity between two labels, as it should."""
    sure, w = np.asarray([[1.0, 0.0, 0.0]]), Weights(-1.0, 1.0, np.full(3, 1.0 / 3.0))
    ends = [np.asarray([[0.5, 0.4, 0.1]]), np.asarray([[0.5, 0.1, 0.4]])]
    middle = label_energy.energy(sure, 0.5 * (ends[0] + ends[1]), w)
    chord = 0.5 * sum(label_energy.energy(sure, y, w) for y in ends)
    return 0.0 if middle - chord > 0.1 else 1.0


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
    E for the weight lambda N beta / M instead. The rate is poor for sharp outputs.

    The network then descends mean_i H(s_i, y_i) + gamma |v|^2 with y fixed. That is descent on
    min_y E, whose derivative in s is -(beta / M) ln y at the minimizer (Danskin), only if y is
    solved.

    Check, for beta = 2 and uneven shares: `em_step` and `em_labels` are printed steps with
    N = M / beta from the floored start; E never rises; the limit agrees with `pseudo_labels`, whose
    gap and residual are a transcription's, also for few or a fixed number of steps, from a start
    and in blocks; with N = M the limit is worse by a margin; differences of min_y E have that
    derivative; `pseudo_label_loss` is the loss of the network.
    """,
    tolerance=1e-9,
    covers=(
        "pseudo_labels.em.em_step",
        "pseudo_labels.em.em_labels",
        "pseudo_labels.solver.pseudo_labels",
        "pseudo_labels.energy.pseudo_label_energy",
        "losses.information.pseudo_label.pseudo_label_loss",
    ),
)
def algorithm_1_minimizes() -> float:
    """Return the worst of the violations listed in the claim."""
    rng = np.random.default_rng(41)
    m, w = 12, Weights(1.5, 2.0, _U)
    s = rng.dirichlet(np.full(3, 2.0), m)
    y = wrong = s
    violations, before = [], label_energy.energy(s, s, w)
    for sweep in range(300):
        printed = label_energy.printed_step(s, y, w.fairness_weight, m / w.beta, _U)
        y = em.em_step(s, y, **w.options)
        after = label_energy.energy(s, y, w)
        violations += [difference(y, printed), excess(after, before)]
        before = after
        wrong = label_energy.printed_step(s, wrong, w.fairness_weight, float(m), _U)
        if sweep < 3:
            violations.append(_labels_after(s, sweep, w))
    solved = solver.pseudo_labels(s, tol=1e-12, **w.options)
    violations += [excess(solved.gap, 0.0), difference(before, solved.objective)]
    violations.append(excess(energy.label_gap(s, y, **w.options), 0.0))
    violations.append(difference(_energy(s, y, **w.options), before))
    other = solver.pseudo_labels(s, tol=1e-12, **w._replace(fairness_weight=3.0).options)
    violations.append(excess(np.abs(wrong - np.asarray(other.labels)), 1e-5))
    violations.append(unless(label_energy.energy(s, wrong, w) - before > 1e-3))
    return worst(*violations, *_solver_violations(s, w), *_envelope_violations(s, y, w))


def _labels_after(s: Any, n_iter: int, w: Weights) -> float:
    """Compare `em_labels` with printed steps of the floored start, with a large floor."""
    floor = 0.25
    y = (1.0 - floor) * s + floor * w.prior
    for _ in range(n_iter):
        y = label_energy.printed_step(s, y, w.fairness_weight, len(s) / w.beta, w.prior)
    found = em.em_labels(s, n_iter=n_iter, epsilon=floor, **w.options)
    return difference(found, y)


def _solver_violations(s: Any, w: Weights) -> list[float]:
    """Compare what the solver says of its labels, on every path, with the transcription."""
    rng, violations = np.random.default_rng(48), []
    solve, best = solver.pseudo_labels, solver.pseudo_labels(s, **w.options)
    start = rng.dirichlet(np.ones(3), len(s))
    wide = rng.dirichlet(np.ones(9), 4), Weights(2.0, 0.5, rng.dirichlet(np.ones(9)))
    paths: tuple[dict[str, Any], ...] = (
        {},
        {"max_iter": 2},
        {"n_iter": 2},
        {"n_iter": 12},
        {"start": start},
        {"block_rows": 5},
        {"tol": 1e-2},
    )
    for options in paths:
        for outputs, weights in ((s, w), wide):
            if "start" in options and outputs is not s:
                continue
            found = solve(outputs, **weights.options, **options)
            y = np.asarray(found.labels)
            value = label_energy.energy(outputs, y, weights)
            p = np.asarray(found.duals.prices)
            nu = np.asarray(found.duals.slack) + p.max()
            proven = value - label_energy.dual_value(outputs, p, nu, weights)
            violations += [
                difference(found.objective, value),
                difference(found.gap, proven),
                difference(found.residual, label_energy.residual(outputs, y, weights)),
                difference(y.sum(axis=1), 1.0),
            ]
            if options.keys() & {"max_iter", "n_iter"}:
                steps = options.get("max_iter", options.get("n_iter"))
                violations.append(unless(found.n_iter == steps))
            if not options.keys() & {"max_iter", "n_iter", "tol"} or found.n_iter == 12:
                violations.append(excess(found.gap, 1e-10 * weights.beta))
    rough = solve(s, tol=1e-2, **w.options)
    violations.append(unless(rough.n_iter < best.n_iter and rough.gap <= 1e-2 * w.beta))
    warm = solve(s, start=best.labels, max_iter=1, **w.options)
    cold = solve(s, max_iter=1, **w.options)
    return [*violations, excess(warm.gap, 0.5 * float(cold.gap))]


def _envelope_violations(s: Any, y: Any, w: Weights) -> list[float]:
    """Return the error of the derivative beyond 1e-6, and of the network's loss."""
    rng = np.random.default_rng(45)
    step = rng.normal(size=s.shape) * s
    step -= s * step.sum(axis=1, keepdims=True)
    solve, h = solver.pseudo_labels, 1e-4
    ends = [float(solve(s + c * h * step, tol=1e-13, **w.options).objective) for c in (1, -1)]
    exact = -w.beta / len(s) * float((step * np.log(y)).sum())
    violations = [excess(abs((ends[0] - ends[1]) / (2.0 * h) - exact), 1e-6)]
    v, t = rng.normal(size=(2, 5, 3)), 0.5
    outputs, labels = softmax(np.stack([s, s[::-1]]) / t, axis=-1), np.stack([y, y[::-1] ** 2])
    loss = pseudo_label.pseudo_label_loss(
        np.stack([s, s[::-1]]), labels, v, margin_weight=0.1, temperature=t
    )
    fit = -np.sum(outputs * np.log(labels), axis=(1, 2)) / len(s)
    return [*violations, difference(loss, fit + 0.1 * np.sum(v * v, axis=(1, 2)))]


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

    Check: both counterexamples by `em_labels` with e = 0; `floor_outputs` is that mixture, e = 1e-6
    and u uniform unless given; the floored start and the solver reach the optimum; the divergence
    of labels without a cluster is finite, -u ln of the smallest normal number more than without it.
    """,
    counterexample="""
    lambda = 3, beta = 1, two clusters, u uniform. s = (1, 0), (1, 0), (1, 0): NaN after one step.
    s = (1, 0), (1, 0), (0.6, 0.4): the limit from y = s has the labels (1, 0), (1, 0),
    (0.16, 0.84) and E = 2.7920; the optimum is E = 2.6204.
    """,
    tolerance=1e-4,
    covers=(
        "pseudo_labels.em.em_labels",
        "pseudo_labels.energy.floor_outputs",
        "losses.information.pseudo_label.pseudo_label_divergence",
        "pseudo_labels.solver.pseudo_labels",
    ),
)
def start_at_the_output() -> float:
    """Return how far the counterexamples are from standing, and the repair from the optimum."""
    run, w = em.em_labels, Weights(3.0, 1.0, np.full(2, 0.5))
    with np.errstate(invalid="ignore", divide="ignore"):
        dead = np.asarray(run(_DEAD, fairness_weight=3.0, n_iter=2, epsilon=0.0))
    stuck = np.asarray(run(_ZERO, fairness_weight=3.0, n_iter=2000, epsilon=0.0))
    solved = solver.pseudo_labels(_ZERO, fairness_weight=3.0, tol=1e-10)
    mended = solver.pseudo_labels(_DEAD, fairness_weight=3.0, tol=1e-10)
    floored = np.asarray(run(_ZERO, fairness_weight=3.0, n_iter=2000))
    best = label_energy.energy(_ZERO, np.asarray(solved.labels), w)
    lost = label_energy.energy(_ZERO, stuck, w) - best
    return worst(
        *_floor_violations(),
        unless(np.any(np.isnan(dead))),
        unless(np.max(np.abs(stuck[:2, 1])) == 0.0),
        difference(stuck[2], (0.16, 0.84)),
        difference((best, lost), (2.6204, 2.7920 - 2.6204)),
        excess(label_energy.energy(_ZERO, floored, w), best),
        excess((solved.gap, mended.gap), 1e-9),
        difference(mended.objective, label_energy.energy(_DEAD, np.asarray(mended.labels), w)),
    )


def _floor_violations() -> list[float]:
    """Compare floored outputs, and the divergence with a zero, with their formulas."""
    floor, s = energy.floor_outputs, np.asarray([[1.0, 0.0, 0.0], [0.3, 0.2, 0.5]])
    least = 1e6 * (np.asarray(floor(s)) - s)  # the part of u, in units of the default
    violations = [
        difference(floor(s, epsilon=0.2, prior=_U), 0.8 * s + 0.2 * _U),
        difference(floor(s, epsilon=0.2), 0.8 * s + 0.2 / 3.0),
        difference(least, 1.0 / 3.0 - s),
    ]
    first = np.asarray(em.em_labels(s, fairness_weight=3.0, n_iter=0))
    violations.append(difference(1e6 * (first - np.asarray(floor(s))), 0.0))
    s = np.asarray([[0.7, 0.3, 0.0], [0.2, 0.8, 0.0]])
    lowest = math.log(float(np.finfo(np.float64).smallest_normal))
    for u in (_U, np.full(3, 1.0 / 3.0)):
        found = pseudo_label.pseudo_label_divergence(s, None if u[0] < 0.5 else u)
        exact = np.sum(u * np.log(u)) - np.sum(u[:2] * np.log((0.45, 0.55))) - u[2] * lowest
        violations.append(difference(found, exact))
    return violations
