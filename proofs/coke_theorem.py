"""CoKe's Theorem 1 step by step, its gaps, and what follows it (claims C9 to C18).

The repaired statement is `theorem`; this module has the printed one.
"""

from __future__ import annotations

import math

import numpy as np

from ..algos import bounds, duals, errors, projections, steps
from . import online_runs, price_steps, theorem
from .online_runs import Floats
from .registry import Status, claim

__all__: list[str] = []

PAPER = "CoKe"


def _cold_bound(tau: float, eta: float, n: int) -> float:
    """Right-hand side of the sum over i, with rho^0 = 0."""
    return tau**2 / (2.0 * eta) + eta * n


def _online_sum(run: online_runs.Run, share: Floats, rho: Floats) -> Floats:
    """``sum_i (rho^{i-1} - rho).(mu~_i - gamma / N)`` of each stream."""
    step = (run.labels[..., None] == np.arange(len(share))) - share
    return np.asarray(((run.lower[:, :-1] - rho) * step).sum(axis=(1, 2)))


@claim(
    id="C9",
    paper=PAPER,
    place="Appendix A.1, sum of Eq. 23",
    statement="The sum over i is at most tau^2 / (2 eta) + eta N.",
    hypotheses="Left out: rho^0 = 0. From a warm start it is tau^2 / eta + eta N.",
    status=Status.EXTRA,
    derivation="Telescoping leaves ||rho^0 - rho||^2 / (2 eta), at most tau^2 / (2 eta) for rho^0 ="
    " 0, since ||rho||_2 <= ||rho||_1 <= tau, but 2 tau^2 / (2 eta) between two vertices. That is"
    " attained: the counterexample sums to 17, the cold bound is 9, the warm one 17.",
    tolerance=1e-9,
    covers=("duals.update_duals", "projections.project_l1_ball"),
    counterexample="K = 2, tau = 1, eta = 1/16, N = 16, gamma = (0, N), rho^0 = (1, 0), rows"
    " (2, 0).",
    mutations=("dualclust.proofs.coke_theorem._cold_bound", "dualclust.algos.duals.update_duals"),
)
def telescoped() -> float:
    """Worst excess of cold runs; the warm run must exceed the cold bound, and meet the warm one."""
    rng, worst = np.random.default_rng(9), -math.inf
    for k, tau, eta in ((2, 1.0, 0.1), (3, 2.0, 0.5), (5, 0.5, 0.02)):
        scores, share = rng.uniform(-1, 1, size=(50, 40, k)), rng.dirichlet(np.ones(k)) * 0.9
        run = online_runs.run_online(scores, share, step_size=eta, radius=tau)
        for rho in (*tau * np.eye(k), np.zeros(k)):
            excess = _online_sum(run, share, rho) - _cold_bound(tau, eta, 40)
            worst = max(worst, float(excess.max()))
    rows, share = np.tile([2.0, 0.0], (1, 16, 1)), np.asarray([0.0, 1.0])
    first = np.asarray([1.0, 0.0])
    run = online_runs.run_online(rows, share, step_size=1.0 / 16.0, radius=1.0, start=first)
    total = float(_online_sum(run, share, np.asarray([0.0, 1.0]))[0])
    exceeds = _cold_bound(1.0, 1.0 / 16.0, 16) + 7.0 - total
    return max(worst, exceeds, abs(total - 17.0))


@claim(
    id="C10",
    paper=PAPER,
    place="Theorem 1, step size",
    statement="eta = tau / sqrt(2N) makes the bound tau sqrt(2N).",
    hypotheses="C9.",
    status=Status.HOLDS,
    derivation="tau^2/(2 eta) = eta N = tau sqrt(N/2); by the inequality of the means no eta does"
    " better.",
    tolerance=1e-12,
    covers=("steps.theorem_steps",),
    mutations=("dualclust.algos.steps.theorem_steps",),
)
def step_size() -> float:
    """Relative difference from tau sqrt(2N), and whether a step 1 % away does better."""
    worst = 0.0
    for n in (1, 1000, 1_281_167):
        for tau in (0.5, 56.0):
            eta = steps.theorem_steps(n, tau).step_size
            best = tau * math.sqrt(2 * n)
            worst = max(worst, abs(_cold_bound(tau, eta, n) / best - 1.0))
            for factor in (0.99, 1.01):
                worst = max(worst, best - _cold_bound(tau, factor * eta, n))
    return worst


@claim(
    id="C11",
    paper=PAPER,
    place="Appendix A.1, after the regret bound",
    statement="In stochastic order E[gamma/N - mu*_i] <= 0, so the cross term"
    " sum_i rho^{i-1}.(gamma/N - mu*_i) drops out of the bound.",
    hypotheses="What is needed is E[rho^{i-1}.(gamma/N - mu*_i)] <= 0. True for independent draws"
    " and the optimum of their distribution; not for a random permutation.",
    status=Status.REFUTED,
    derivation="""rho^{i-1} depends on who came before, and mu*_i on who is left. With a =
    (1/2, 0, 0), b = (3/4, 1, 0) and gamma = (1, 0, 1) the optimum is a -> 3, b -> 1. Let eta = 1.
    Order (a, b): a takes 1, rho = (0, 0, 1/2); b's cross term is 1/2 . 1/2 = 1/4. Order (b, a): b
    takes 2, rho = (1/2, 0, 1/2); a's is 1/4 + 1/2 (1/2 - 1) = 0. The mean is +1/8. What holds
    instead is theorem R, 5: at most B (pi/2) sqrt(N).""",
    counterexample="N = 2, K = 3, tau = 2, eta = 1: E[cross] = 1/8 = tau/16 > 0.",
    covers=("duals.assign_batch",),
    mutations=("dualclust.algos.duals.assign_batch", "dualclust.proofs.theorem.permutation_term"),
)
def cross_term() -> float:
    """Difference of the stored mean from 1/8; excess of the mean over the repaired bound."""
    scores, share = np.asarray([[[0.5, 0.0, 0.0], [0.75, 1.0, 0.0]]]), np.asarray([0.5, 0.0, 0.5])
    _, labels = online_runs.best_by_trial(scores, np.asarray([1, 0, 1]))
    perms = online_runs.orders(2)
    run = online_runs.run_online(scores[0, perms], share, step_size=1.0, radius=2.0)
    mean = float(online_runs.cross_terms(run.lower, labels[0, perms], share).mean())
    return max(abs(mean - 0.125), mean - 2.0 * theorem.permutation_term(2))


@claim(
    id="C12",
    paper=PAPER,
    place="Appendix A.1, regret",
    statement="E[R] <= tau sqrt(2N).",
    hypotheses="Independent draws; for a random permutation with sqrt(2) + pi/2 = 2.99 in place of"
    " sqrt(2).",
    status=Status.EXTRA,
    derivation="C10 with V >= 0 dropped (rho = 0 as comparator) and the cross term of C11: at most"
    " 0 for draws, at most tau (pi/2) sqrt(N) for permutations. OPT of a sample is at most N times"
    " the optimum of the distribution in the mean, by duality.",
    tolerance=1e-9,
    covers=("duals.assign_batch", "projections.project_l1_ball"),
    mutations=("dualclust.algos.duals.assign_batch",),
)
def expected_regret() -> float:
    """Exact means: all 4^4 sequences of four types, and all orders of N <= 5."""
    rng, worst = np.random.default_rng(12), -math.inf
    draws = np.stack(np.meshgrid(*[np.arange(4)] * 4, indexing="ij"), axis=-1).reshape(-1, 4)
    low, tau = np.asarray([2, 1, 1]), 1.0
    for _ in range(10):
        scores = online_runs.dyadic_scores(rng, (4, 3))[draws]
        best, _ = online_runs.best_by_trial(scores, low)
        rule = steps.theorem_steps(4, tau)
        run = online_runs.run_online(scores, low / 4.0, step_size=rule.step_size, radius=tau)
        regret = best - online_runs.values_of(scores, run.labels)
        worst = max(worst, float(regret.mean()) - tau * math.sqrt(8.0))
    for n, k in ((3, 3), (5, 3)):
        low = rng.multinomial(n, np.ones(k) / k)
        scores = online_runs.dyadic_scores(rng, (100, n, k))
        best, _ = online_runs.best_by_trial(scores, low)
        every = scores[:, online_runs.orders(n)]
        rule = steps.theorem_steps(n, tau)
        run = online_runs.run_online(
            every.reshape(-1, n, k), low / n, step_size=rule.step_size, radius=tau
        )
        value = online_runs.values_of(every.reshape(-1, n, k), run.labels).reshape(100, -1)
        limit = tau * (math.sqrt(2.0) + math.pi / 2.0) * math.sqrt(n)
        worst = max(worst, float((best - value.mean(axis=1)).max()) - limit)
    # Labels that minimize instead are what a check of this kind must not let pass.
    greedy = online_runs.run_online(np.asarray([[[0.0, 9.0]] * 4]), np.zeros(2), step_size=0.25)
    return max(worst, float((greedy.labels != 1).sum()))


def _lower_bound(violation: Floats, best: Floats, k: int, least: float) -> Floats:
    """The claimed lower bound on R, ``-K V OPT / min gamma``."""
    return -k * np.maximum(violation, 0.0) * best / least


@claim(
    id="C13",
    paper=PAPER,
    place="Appendix A.1, lower bound on the regret",
    statement="R >= -K V OPT / min_k gamma_k.",
    hypotheses="Left out: s >= 0 and gamma_k > 0. For cosines it is false.",
    status=Status.REFUTED,
    derivation="""Two rows (0, -1), gamma = (1, 1): OPT = -1, both labels 1 give 0, so R = -1 and
    V = 1, and the claim reads -1 >= 2. Shrinking labels by alpha and completing them loses nothing
    only where the completion adds s >= 0. With s >= 0 it is right (checked against all labels).
    Shifting s by 1 makes cosines nonnegative, but adds N to OPT. Sharper and without the sign: R >=
    -(sum rho*) V with optimal prices rho*, by sensitivity of the linear program.""",
    counterexample="s = ((0, -1), (0, -1)), gamma = (1, 1), labels (1, 1): R = -1, bound +2.",
    tolerance=1e-12,
    mutations=("dualclust.proofs.coke_theorem._lower_bound",),
)
def lower_bound() -> float:
    """Distance of the stored numbers; worst shortfall of R for s >= 0 over all k^n labels."""
    scores = np.asarray([[0.0, -1.0], [0.0, -1.0]])
    best, _ = online_runs.best_by_trial(scores[None], np.asarray([1, 1]))
    claimed = float(_lower_bound(np.ones(1), best, 2, 1.0)[0])
    worst = max(abs(float(best[0]) + 1.0), abs(claimed - 2.0))
    rng = np.random.default_rng(13)
    for n, k in ((3, 2), (4, 2), (5, 3), (6, 3)):
        low = 1 + rng.multinomial(n - k, np.ones(k) / k)
        every = online_runs.every_label(n, k)
        short = (low - online_runs.counts_of(every, k)).max(axis=1)
        for _ in range(20):
            scores = np.abs(online_runs.dyadic_scores(rng, (n, k)))
            best, _ = online_runs.best_by_trial(scores[None], low)
            regret = best - scores[np.arange(n), every].sum(axis=1)
            claims = _lower_bound(short.astype(float), best, k, float(low.min()))
            worst = max(worst, float((claims - regret).max()))
    return worst


def _least_tau(k: int, mean_score: float, ratio: float) -> float:
    """``K OPT / min gamma`` with OPT = N mean_score and gamma = ratio N / K."""
    return k**2 * mean_score / ratio


@claim(
    id="C14",
    paper=PAPER,
    place="Appendix A.1, violation",
    statement="E[V] <= sqrt(2N) / (1 - K OPT / (tau min gamma)) for tau large enough.",
    hypotheses="tau > K OPT / min gamma, and C11 to C13 repaired; the mean score is taken as 1/2.",
    status=Status.EXTRA,
    derivation="tau V <= tau sqrt(2N) - R and R >= -K V OPT / min gamma; solve for V. The condition"
    " is tau > K^2 s / gamma', s the mean score. K = 10: tau > 56. K = 3000, gamma' = 0.4 (the"
    " paper's): tau > 1.1e7, and the regret bound tau sqrt(2N) is 1.8e10, where 2N = 2.6e6 is"
    " trivial for cosines: vacuous. Theorem R has neither tau nor OPT.",
    tolerance=1e-12,
    mutations=("dualclust.proofs.coke_theorem._least_tau",),
)
def violation_bound() -> float:
    """The algebra at random numbers, and the size of the constants."""
    rng, worst = np.random.default_rng(14), 0.0
    for _ in range(200):
        tau, n, q = rng.uniform(1, 100), rng.integers(1, 10**6), rng.uniform(0, 0.99)
        bound = math.sqrt(2 * n) / (1.0 - q)  # q = K OPT / (tau min gamma)
        slack = tau * math.sqrt(2 * n) + q * tau * bound - tau * bound
        worst = max(worst, abs(slack) / (tau * bound))
    worst = max(worst, 0.0 if 55.0 < _least_tau(10, 0.5, 0.9) < 56.0 else 1.0)
    regret = _least_tau(3000, 0.5, 0.4) * math.sqrt(2 * 1_281_167)
    return max(worst, 0.0 if 1.7e10 < regret < 1.9e10 and regret > 2 * 1_281_167 else 1.0)


@claim(
    id="C15",
    paper=PAPER,
    place="Theorem 1",
    statement="E[R] and E[V] are O(sqrt N) with eta = tau / sqrt(2N).",
    hypotheses="As printed, for any tau; the proof needs tau > K OPT / min gamma, which grows like"
    " K^2, and C11 to C13.",
    status=Status.REFUTED,
    derivation="Rows (1, 0) and tau = 1/2: rho_2 <= 1/2 < 1 never outweighs the score, cluster 2"
    " stays empty, and V = gamma_2 = 0.4 N in every order. Theorem R replaces it: no projection, V"
    " <= (r/h + b) H_{K-1} + b for every order, O(sqrt N) for h = c / sqrt(N).",
    counterexample="s_i = (1, 0), gamma = (0.6 N, 0.4 N), tau = 1/2: V/N = 0.4 at every N.",
    tolerance=1e-12,
    covers=("steps.theorem_steps", "projections.project_l1_ball"),
    mutations=("dualclust.algos.projections.project_l1_ball",),
)
def small_tau() -> float:
    """Difference of V / N from 0.4; and theorem R's update must stay below its bound here."""
    worst = 0.0
    for n in (128, 512, 1024):
        rows, share = np.tile(np.asarray([1.0, 0.0]), (1, n, 1)), np.asarray([0.6, 0.4])
        rule = steps.theorem_steps(n, 0.5)
        run = online_runs.run_online(rows, share, step_size=rule.step_size, radius=rule.l1_radius)
        short = float((n * share - online_runs.counts_of(run.labels, 2)).max())
        worst = max(worst, abs(short / n - 0.4))
        free = online_runs.run_online(rows, share, step_size=rule.step_size)
        short = float((n * share - online_runs.counts_of(free.labels, 2)).max())
        most = theorem.largest_price(2, 1.0, rule.step_size) / rule.step_size
        worst = max(worst, short - most)
    return worst


@claim(
    id="C16",
    paper=PAPER,
    place="Remark after Theorem 1",
    statement="The violation is avoided by raising gamma_k by a small factor.",
    hypotheses="Room for it: sum of the raised bounds at most N. Impossible for balanced clusters.",
    status=Status.EXTRA,
    derivation="By theorem R, 3, every order ends with n_k >= gamma_k if the update aims at gamma_k"
    " + B, B = (r/h + b) H_{K-1} + b: a promise, not an expectation. For gamma' = 1 any increase"
    " is infeasible. Completion (`assignment.assign`) needs no room at all.",
    covers=("bounds.from_ratios",),
    mutations=("dualclust.algos.duals.update_duals", "dualclust.algos.bounds.from_ratios"),
)
def raised_bounds() -> float:
    """Samples missing in sorted streams with raised aims; 1 if balanced bounds can be raised."""
    n, k, h, lower = 4096, 3, 1.0 / 16.0, 1000.0
    extra = theorem.largest_price(k, 1.0, h) / h
    rows = np.zeros((1, n, k))
    rows[0, :, 0] = 1.0
    rows[0, n // 2 :, 1] = 0.5
    share = np.full(k, (lower + extra) / n)
    run = online_runs.run_online(rows, share, step_size=h)
    missing = float((lower - online_runs.counts_of(run.labels, k)).max())
    try:
        bounds.from_ratios(4, n_samples=100, lower=1.01)
    except errors.InfeasibleBoundsError:
        return max(0.0, missing)
    return 1.0


@claim(
    id="C17",
    paper=PAPER,
    place="Eq. 11",
    statement="For batches of b the averaged step keeps the guarantee.",
    hypotheses="The theorem has b = 1. For b > 1 its bound is tau sqrt(2 N b), with eta = tau"
    " sqrt(b / (2N)); theorem R's violation is b (r/eta + 1) H_{K-1} + b.",
    status=Status.EXTRA,
    derivation="Sum Eq. 23 over N/b batches and multiply by b: b tau^2 / (2 eta) + eta N. The"
    " published eta = 20 with b = 1024 is h = 0.02 per sample.",
    tolerance=1e-9,
    covers=("duals.assign_batch",),
    mutations=("dualclust.algos.duals.assign_batch", "dualclust.algos.duals.update_duals"),
)
def mini_batch() -> float:
    """Worst excess over both bounds for b = 1, 4, 16."""
    rng, worst = np.random.default_rng(17), -math.inf
    n, k, tau = 1024, 4, 1.0
    scores, share = online_runs.dyadic_scores(rng, (8, n, k)), np.full(k, 0.225)
    scores[..., -1] = -1.0  # without prices cluster 3 stays empty
    for b in (1, 4, 16):
        eta = tau * math.sqrt(b / (2.0 * n))
        run = online_runs.run_online(scores, share, step_size=eta / b, batch=b, radius=tau)
        step = (run.labels[..., None] == np.arange(k)) - share
        before = np.repeat(run.lower[:, :-1], b, axis=1)
        for rho in (*tau * np.eye(k), np.zeros(k)):
            total = ((before - rho) * step).sum(axis=(1, 2))
            worst = max(worst, float(total.max()) - tau * math.sqrt(2 * n * b))
        run = online_runs.run_online(scores, share, step_size=eta / b, batch=b)
        short = float((n * share - online_runs.counts_of(run.labels, k)).max())
        most = theorem.largest_price(k, 2.0, eta) * b / eta
        worst = max(worst, short - most)
        gain = run.lower[:, -1] * b / eta - (n * share - online_runs.counts_of(run.labels, k))
        worst = max(worst, -float(gain.min()))
    return worst


@claim(
    id="C18",
    paper=PAPER,
    place="Eq. 18",
    statement="Without the projection the dual variables stay well bounded.",
    hypotheses="rho^0 = 0, sum gamma <= N; an observation in the paper.",
    status=Status.HOLDS,
    derivation="A theorem: max rho <= (r + eta) H_{K-1} + eta for any data and order (R3). For"
    " cosines r <= 2, and K = 3000 gives max rho <= 17.2 + 9.6 eta, against a sum of"
    " up to 6000 (R2). Check: z3 proves the induction step of R2 and R3 for all real prices,"
    " scores and shares, every batch size and K <= 5; without either hypothesis, best labels or"
    " sum gamma <= N, it must find a run beyond R2, and `update_duals` must repeat it.",
    covers=("duals.update_duals", "steps.published_steps"),
    mutations=(
        "dualclust.algos.duals.update_duals",
        "dualclust.algos.duals.assign_batch",
        "dualclust.proofs.price_steps._wins",
    ),
)
def bounded_duals() -> float:
    """Steps left unproven, controls that stay below; excess over R3 with the published step."""
    rng, bound = np.random.default_rng(18), theorem.sum_of_prices
    worst = max(price_steps.run_stays_below(bound, w) for w in price_steps.HYPOTHESES)
    for k in range(2, 6):
        unproven = price_steps.sum_unproven(k, bound) + price_steps.largest_unproven(k)
        worst = max(worst, unproven)
    if price_steps.run_stays_below(bound, None) < math.inf:  # with both hypotheses no run exists
        worst = math.inf
    rule = steps.published_steps("coke-cifar")
    for k in (2, 10, 50):
        scores = rng.uniform(0, 1, size=(4, 128 * 60, k))
        scores[..., -1] *= 0.5
        drift = (np.arange(scores.shape[1]) // 1280) % (k - 1)
        scores[:, np.arange(scores.shape[1]), drift] = 1.0
        share = np.full(k, 0.9 / k)
        run = online_runs.run_online(
            scores, share, step_size=rule.step_size / rule.chunk_size, batch=rule.chunk_size
        )
        most = theorem.largest_price(k, 1.0, rule.step_size)
        worst = max(worst, float(run.lower.max()) - most)
    update = duals.update_duals(
        duals.Duals(np.asarray([0.25]), np.zeros(1)),
        np.asarray([2]),
        2,
        lower_share=np.asarray([0.5]),
        upper_share=np.ones(1),
        step_size=0.125,
    )
    projected = projections.project_l1_ball(update.lower, math.inf)
    return max(worst, abs(float(projected[0]) - 0.125))
