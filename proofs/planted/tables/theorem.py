"""Errors planted in the library for the claims of Theorem R and its two-sided form."""

from __future__ import annotations

from ..planting import PlantedError
from . import errors_in

PLANTED: tuple[PlantedError, ...] = (
    # Certificates (R1, T2).
    *errors_in(
        "algos.online.certificates.size_certificate",
        ("ignored argument", "(rho - rho_0) / h", "rho / h"),
        ("ignored argument", "(rho_up - rho_up_0) / h", "rho_up / h"),
        ("sign", "bounds.lower_share - (rho", "bounds.lower_share + (rho"),
        ("swapped bounds", "state.seen * bounds.upper_share", "state.seen * bounds.lower_share"),
        ("dropped", "(rho - rho_0) / h", "(rho - rho_0)"),
        ("wrong branch", "if state.free_sign:", "if not state.free_sign:"),
        ("dropped", "if h is None or math.isnan(h):", "if h is None:"),
        ("off by one", "at_most = state.seen *", "at_most = (state.seen + 1) *"),
    ),
    *errors_in(
        "algos.online.certificates._rounding",
        ("wrong constant", "return 4.0 * eps", "return 4e9 * eps"),
        claims=("R1",),
    ),
    *errors_in(
        "algos.online.assignment.next_pass",
        (
            "wrong argument",
            "AssignmentState(state.duals, state.duals,",
            "AssignmentState(state.duals, state.start,",
        ),
        ("dropped", "xp.zeros_like(state.counts)", "state.counts"),
        (
            "dropped",
            "AssignmentState(state.duals, state.duals,",
            "AssignmentState(init_duals(state.counts.shape, xp=xp), state.duals,",
        ),
    ),
    # Weak duality (R6, S5).
    *errors_in(
        "algos.online.certificates.dual_value",
        ("wrong operator", "best = xp.max(priced, axis=1)", "best = xp.min(priced, axis=1)"),
        ("sign", "score, zero), prices)", "score, zero), -prices)"),
        ("wrong index", "scores[i : min(i + rows, n), :]", "scores[: min(rows, n), :]"),
        ("dropped", "terms = _price_terms(prices, bounds)", "terms = []"),
        ("axis", "best = xp.max(priced, axis=1)", "best = xp.max(priced, axis=0)"),
    ),
    *errors_in(
        "algos.bounds.sizes.price_of_bounds",
        ("swapped bounds", "penalty * high - bonus * low", "penalty * low - bonus * high"),
        ("sign", "xp.clip(-prices, min=0.0)", "xp.clip(prices, min=0.0)"),
    ),
    *errors_in(
        "algos.bounds.sizes.implied_bounds",
        ("dropped", "n - (xp.sum(bounds.lower) - bounds.lower)", "n - xp.sum(bounds.lower)"),
        ("wrong operator", "high = xp.minimum(", "high = xp.maximum("),
        claims=("R6",),
    ),
    *errors_in(
        "algos.online.certificates.objective",
        ("wrong reduction", "float(xp.sum(", "float(xp.mean("),
        ("wrong index", "labels, xp.int64)[:, None]", "labels * 0, xp.int64)[:, None]"),
        ("sign", "return float(", "return -float("),
    ),
    # Regret, and orders (T3 to T7): prices that never move, or move for nothing.
    *errors_in(
        "algos.online.duals.assign_batch",
        ("dropped", "        duals = update_duals(", "        _ = update_duals("),
        ("sign", "[-2], rule)", "[-2], rule._replace(step_size=-rule.step_size))"),
    ),
    *errors_in(
        "algos.online.duals.update_duals",
        ("dropped", "rule.lower_share - c)", "rule.lower_share - 0.0 * c)"),
        ("factor", "+ h * (c -", "+ 2.0 * h * (c -"),
    ),
    *errors_in(
        "algos.core.projections.project_l1_ball",
        (
            "factor",
            "xp.where(inside, clipped, project_simplex(x, radius))",
            "xp.where(inside, clipped, 0.5 * project_simplex(x, radius))",
        ),
    ),
    # Rows that have sizes (R9).
    *errors_in(
        "algos.offline.weighted._search._proven",
        ("sign", "prices * (loads - problem.lower)", "prices * (problem.lower - loads)"),
        claims=("R9",),
    ),
    *errors_in(
        "algos.offline.weighted._program.rounded",
        ("wrong argument", "share, best - value)", "share, value - best)"),
        claims=("R9",),
    ),
)
