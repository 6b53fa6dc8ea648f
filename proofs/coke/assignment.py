"""CoKe's online assignment, section 3.2.1: the problem, the rule, the projection (claims C3 to C8).

Scores and prices are multiples of 1/16 where equality is meant, so that sums are exact.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from ... import backends
from ...algos import bounds
from ...algos.core import projections
from ...algos.offline import assignment
from ...algos.online import certificates, duals
from ..references import online_runs, optimality
from ..references.online_runs import Floats, Ints
from ..registry.claims import Status, claim

__all__: list[str] = []

PAPER = "CoKe"


def _instances(seed: int, count: int) -> list[tuple[Floats, Ints]]:
    """Return the tiny problems (n, k) with whole lower bounds that some labels satisfy."""
    rng, made = np.random.default_rng(seed), []
    for _ in range(count):
        n, k = int(rng.integers(1, 6)), int(rng.integers(2, 4))
        low = rng.multinomial(n, np.ones(k) / k)
        low = np.maximum(low - rng.integers(0, 2, size=k), 0)
        made.append((online_runs.dyadic_scores(rng, (n, k)), low))
    return made


@claim(
    id="C3",
    paper=PAPER,
    place="Section 3.2.1",
    statement="The regret against the relaxed optimum is at least that against the best labels.",
    hypotheses="None: every label vector is a relaxed assignment.",
    status=Status.HOLDS,
    derivation="A maximum over a larger set is not smaller. For whole gamma both are equal (C4), so"
    " that nothing is lost; and no prices promise less than the relaxed optimum. Check: for gamma,"
    " whole and not, the linear program against all labels whose sizes reach gamma; for"
    " whole gamma it lies between the objective of `assign_exact` and `dual_value` at any prices.",
    tolerance=1e-9,
    covers=("offline.assignment.assign_exact", "online.certificates.dual_value"),
)
def relaxation() -> float:
    """Return by how much best labels exceed the linear program, or it the value of any prices."""
    rng, worst = np.random.default_rng(33), -math.inf
    for scores, low in _instances(3, 60):
        limits = bounds.SizeBounds.from_counts(low, n_samples=len(scores))
        relaxed, _ = optimality.linear_program(scores, low)
        worst = max(worst, assignment.assign_exact(scores, limits).objective - relaxed)
        for prices in (np.zeros(len(low)), online_runs.dyadic_scores(rng, low.shape)):
            worst = max(worst, relaxed - certificates.dual_value(scores, prices, limits))
        part = np.maximum(low - 0.375, 0.0)
        best, _ = online_runs.best_by_trial(scores[None], np.ceil(part).astype(np.int64))
        worst = max(worst, float(best[0]) - optimality.linear_program(scores, part)[0])
    return worst


@claim(
    id="C4",
    paper=PAPER,
    place="Section 3.2.1 (implicit)",
    statement="The relaxed problem has an optimum of whole labels.",
    hypotheses="Left out: gamma_k whole. For gamma = (1.35, 1.35) it fails.",
    status=Status.EXTRA,
    derivation="""
    The constraints are those of a transportation problem, a totally unimodular matrix: with whole
    right-hand sides every vertex is whole. With fractions it is not: three rows (1, 0) and gamma =
    (1.35, 1.35) give 3 - 1.35 = 1.65, labels 1 or 2.

    Check: for whole gamma the linear program, all labels and `assign_exact` agree. `assign_exact`
    takes one path for few scores, where all clusters are candidates, and another for many, where
    it fixes most samples and keeps candidates of the others: on both, with bounds on both sides
    that differ from cluster to cluster and with pairs that are forbidden, labels and prices must
    prove each other best by R6, worked out in the check. Candidates truncated to two, in trust
    regions that miss the best prices, must not promise less than the best labels of all are worth,
    nor where augmenting paths carry prices out of the region. By the engines and by the readable
    text of the kernels.
    """,
    tolerance=1e-8,
    covers=(
        "offline.assignment.assign_exact",
        "offline._candidates.collect_candidates",
        "offline._reduced.solve_reduced",
    ),
    counterexample="s = three rows (1, 0), gamma = (1.35, 1.35): optimum 1.65.",
)
def integrality() -> float:
    """Return |LP - best labels| and |LP - exact solver| for whole gamma; the fractional value."""
    worst = 0.0
    for scores, low in _instances(4, 40):
        relaxed, _ = optimality.linear_program(scores, low)
        best, _ = online_runs.best_by_trial(scores[None], low)
        limits = bounds.SizeBounds.from_counts(low, n_samples=len(scores))
        found = assignment.assign_exact(scores, limits)
        worst = max(worst, abs(relaxed - float(best[0])), abs(found.objective - float(best[0])))
    for mode in online_runs.ENGINES:
        with backends.engine(mode):
            rng = np.random.default_rng(44)
            for _ in range(20):
                few = optimality.full_problem(
                    rng, int(rng.integers(3, 30)), int(rng.integers(2, 7))
                )
                worst = max(worst, _unproven(few))
            worst = max(worst, _unproven(optimality.reduced_problem(45, 8_300, 8)))
            promised, n_truncated, n_solved = optimality.unsound_candidates(46, 75)
            worst = max(worst, promised, 0.0 if n_truncated > 100 and n_solved > 15 else 1.0)
            worst = max(worst, optimality.held_prices())
    value, mu = optimality.linear_program(np.tile([1.0, 0.0], (3, 1)), np.asarray([1.35, 1.35]))
    fraction = float(np.abs(mu - mu.round()).max())
    return max(worst, abs(value - 1.65), 0.0 if fraction > 0.1 else 1.0)


def _unproven(problem: optimality.Problem) -> float:
    found = assignment.assign_exact(problem.scores, problem.limits)
    return optimality.gap_by_hand(problem.scores, problem.limits, found)


@claim(
    id="C5",
    paper=PAPER,
    place="Eq. 7 and 10",
    statement="The one-hot vector at argmax_k s_k + rho_k maximizes Eq. 7.",
    hypotheses="A rule for ties; here the lowest index.",
    status=Status.HOLDS,
    derivation="Eq. 7 is linear on a simplex, whose vertices are the one-hot vectors.",
    covers=("online.duals.assign_batch",),
)
def closed_form() -> float:
    """Return the worst loss against all vertices, and ties not given to the lowest index; exact."""
    rng, worst = np.random.default_rng(5), 0.0
    for k in (1, 2, 5):
        scores = online_runs.dyadic_scores(rng, (2, 200, k), 4)
        rho, rho_up = np.abs(online_runs.dyadic_scores(rng, (2, 2, k), 8))
        labels, _ = duals.assign_batch(
            scores,
            duals.Duals(rho, rho_up),
            duals.DualRule(
                lower_share=np.zeros(k), upper_share=np.ones(k), step_size=1.0, chunk_size=200
            ),
        )
        priced = scores + (rho - rho_up)[:, None]
        got = np.take_along_axis(priced, labels[..., None], axis=-1)
        worst = max(worst, float((priced - got).max()))
        earlier = (priced == got) & (np.arange(k) < labels[..., None])
        worst = max(worst, float(earlier.sum()))
    return worst


@claim(
    id="C6",
    paper=PAPER,
    place="Section 3.2.1, Delta_tau",
    statement="Pi onto {rho >= 0, sum rho <= tau} is well defined and computed by sorting.",
    hypotheses="tau > 0.",
    status=Status.HOLDS,
    derivation="p is the projection of v if and only if p is in the set and (v - p).(z - p) <= 0"
    " for every z in it; it is enough to try the vertices 0 and tau e_k.",
    tolerance=1e-12,
    covers=("core.projections.project_l1_ball",),
)
def projection() -> float:
    """Return the worst violation of membership and of the variational inequality."""
    rng, worst = np.random.default_rng(6), 0.0
    v = rng.normal(size=(20, 4))
    far = projections.project_l1_ball(v, math.inf)
    worst = max(worst, float(np.abs(far - np.maximum(v, 0.0)).max()))
    for k, tau in itertools.product((1, 2, 7), (0.5, 3.0)):
        v = rng.normal(size=(200, k)) * 2.0
        p = projections.project_l1_ball(v, tau)
        worst = max(worst, float(-p.min()), float(p.sum(axis=1).max() - tau))
        at_zero = ((v - p) * -p).sum(axis=1)
        at_vertex = tau * (v - p) + at_zero[:, None]
        worst = max(worst, float(at_zero.max()), float(at_vertex.max()))
    return worst


@claim(
    id="C7",
    paper=PAPER,
    place="Eq. 22",
    statement="L_i(mu, rho^{i-1}) <= L_i(mu~, rho^{i-1}) for every mu on the simplex.",
    hypotheses="None.",
    status=Status.HOLDS,
    derivation="C5; the term -rho.gamma/N is the same on both sides. Checked where fractional mu"
    " are: at random weights of denominator 16, exactly.",
    covers=("online.duals.assign_batch",),
)
def best_response() -> float:
    """Return the worst excess of a mixed assignment over the label's."""
    rng, worst = np.random.default_rng(7), 0.0
    scores = online_runs.dyadic_scores(rng, (64, 32, 4))
    share = np.asarray([0.25, 0.25, 0.25, 0.125])
    run = online_runs.run_online(scores, share, step_size=0.5)
    priced = scores + run.lower[:, :-1]
    got = np.take_along_axis(priced, run.labels[..., None], axis=-1)[..., 0]
    for favorite in range(4):
        weights = 0.1 + 0.6 * (np.arange(4) == favorite)
        mu = rng.multinomial(16, weights, size=(64, 32)) / 16.0
        worst = max(worst, float(((priced * mu).sum(axis=-1) - got).max()))
    return worst


def _one_step(rho: Floats, chosen: int, share: Floats, eta: float, tau: float) -> Floats:
    """Return one published step from `rho` (k,) after a sample of cluster `chosen`."""
    sizes = (np.arange(len(rho)) == chosen).astype(np.int64)
    moved = duals.update_duals(
        duals.Duals(rho, np.zeros_like(rho)),
        sizes,
        1,
        duals.DualRule(lower_share=share, upper_share=np.ones_like(rho), step_size=eta),
    )
    return np.asarray(projections.project_l1_ball(moved.lower, tau))


@claim(
    id="C8",
    paper=PAPER,
    place="Eq. 23",
    statement="(rho^{i-1} - rho).(mu~ - gamma/N) <= (||rho^{i-1} - rho||^2 - ||rho^i - rho||^2) /"
    " (2 eta) + eta for every rho in the domain.",
    hypotheses="gamma >= 0, sum gamma <= N.",
    status=Status.HOLDS,
    derivation="A projection does not move points apart: ||rho^i - rho||^2 <= ||rho^{i-1} - eta g -"
    " rho||^2 with g = mu~ - gamma/N; expand, and ||g||^2 <= 2, attained for gamma = N e_j and"
    " mu~ = e_k. For equal bounds ||g||^2 <= 1 + 1/K, half of it (R5).",
    tolerance=1e-12,
    covers=("online.duals.update_duals", "core.projections.project_l1_ball"),
)
def one_step_bound() -> float:
    """Return the worst excess at random points and vertices; and the tight case must be tight."""
    rng, worst = np.random.default_rng(8), -math.inf
    for _ in range(400):
        k, eta, tau = int(rng.integers(1, 6)), float(rng.choice([0.05, 0.5, 2.0])), 1.5
        before = rng.dirichlet(np.ones(k)) * tau * rng.random()
        other = (
            tau * np.eye(k)[rng.integers(k)] if rng.random() < 0.5 else rng.dirichlet(np.ones(k))
        )
        share = rng.dirichlet(np.ones(k)) * rng.random()
        chosen = int(rng.integers(k))
        after = _one_step(before, chosen, share, eta, tau)
        left = (before - other) @ (np.eye(k)[chosen] - share)
        fall = ((before - other) ** 2).sum() - ((after - other) ** 2).sum()
        worst = max(worst, float(left - fall / (2.0 * eta) - eta))
    # No projection is active here, and ||g||^2 = 2: the bound is an equality.
    before, other = np.asarray([0.75, 0.25]), np.asarray([0.0, 1.0])
    after = _one_step(before, 0, np.asarray([0.0, 1.0]), 0.25, 4.0)
    left = (before - other) @ np.asarray([1.0, -1.0])
    fall = ((before - other) ** 2).sum() - ((after - other) ** 2).sum()
    return max(worst, abs(float(left - fall / 0.5 - 0.25)))
