"""Errors planted in the library for the claims of Theorem R and its two-sided form."""

from __future__ import annotations

from ..planting import PlantedError

PLANTED: tuple[PlantedError, ...] = (
    # Certificates (R1, T2).
    PlantedError(
        "algos.certificates.size_certificate", "ignored argument", "(rho - rho_0) / h", "rho / h"
    ),
    PlantedError(
        "algos.certificates.size_certificate",
        "ignored argument",
        "(rho_up - rho_up_0) / h",
        "rho_up / h",
    ),
    PlantedError(
        "algos.certificates.size_certificate",
        "sign",
        "bounds.lower_share - (rho",
        "bounds.lower_share + (rho",
    ),
    PlantedError(
        "algos.certificates.size_certificate",
        "swapped bounds",
        "state.seen * bounds.upper_share",
        "state.seen * bounds.lower_share",
    ),
    PlantedError(
        "algos.certificates.size_certificate", "dropped", "(rho - rho_0) / h", "(rho - rho_0)"
    ),
    PlantedError(
        "algos.certificates.size_certificate",
        "wrong branch",
        "if state.free_sign:",
        "if not state.free_sign:",
    ),
    PlantedError(
        "algos.certificates.size_certificate",
        "dropped",
        "if h is None or math.isnan(h):",
        "if h is None:",
    ),
    PlantedError(
        "algos.certificates.size_certificate",
        "off by one",
        "at_most = state.seen *",
        "at_most = (state.seen + 1) *",
    ),
    PlantedError(
        "algos.certificates._rounding",
        "wrong constant",
        "return 4.0 * eps",
        "return 4e9 * eps",
        ("R1",),
    ),
    PlantedError(
        "algos.assignment.next_pass",
        "wrong argument",
        "AssignmentState(state.duals, state.duals,",
        "AssignmentState(state.duals, state.start,",
    ),
    PlantedError(
        "algos.assignment.next_pass", "dropped", "xp.zeros_like(state.counts)", "state.counts"
    ),
    PlantedError(
        "algos.assignment.next_pass",
        "dropped",
        "AssignmentState(state.duals, state.duals,",
        "AssignmentState(init_duals(state.counts.shape, xp=xp), state.duals,",
    ),
    # Weak duality (R6, S5).
    PlantedError(
        "algos.certificates.dual_value",
        "wrong operator",
        "xp.max(block, axis=1)",
        "xp.min(block, axis=1)",
    ),
    PlantedError(
        "algos.certificates.dual_value", "sign", "xp.float64) + prices", "xp.float64) - prices"
    ),
    PlantedError(
        "algos.certificates.dual_value",
        "wrong index",
        "scores[i : min(i + rows, n), :]",
        "scores[: min(rows, n), :]",
    ),
    PlantedError(
        "algos.certificates.dual_value",
        "dropped",
        "total = price_of_bounds(prices, bounds)",
        "total = 0.0",
    ),
    PlantedError(
        "algos.certificates.dual_value", "axis", "xp.max(block, axis=1)", "xp.max(block, axis=0)"
    ),
    PlantedError(
        "algos.certificates.price_of_bounds",
        "swapped bounds",
        "penalty * high - bonus * low",
        "penalty * low - bonus * high",
    ),
    PlantedError(
        "algos.certificates.price_of_bounds",
        "sign",
        "xp.clip(-prices, min=0.0)",
        "xp.clip(prices, min=0.0)",
    ),
    PlantedError(
        "algos.certificates.price_of_bounds",
        "dropped",
        "n - (xp.sum(bounds.lower) - bounds.lower)",
        "n - xp.sum(bounds.lower)",
    ),
    PlantedError(
        "algos.certificates.price_of_bounds",
        "wrong operator",
        "high = xp.minimum(",
        "high = xp.maximum(",
    ),
    PlantedError(
        "algos.certificates.objective", "wrong reduction", "float(xp.sum(", "float(xp.mean("
    ),
    PlantedError(
        "algos.certificates.objective",
        "wrong index",
        "labels, xp.int64)[:, None]",
        "labels * 0, xp.int64)[:, None]",
    ),
    PlantedError("algos.certificates.objective", "sign", "return float(", "return -float("),
    # Regret, and orders (T3 to T7): prices that never move, or move for nothing.
    PlantedError(
        "algos.duals.assign_batch",
        "dropped",
        "        duals = update_duals(",
        "        _ = update_duals(",
    ),
    PlantedError(
        "algos.duals.assign_batch", "sign", "step_size=step_size,", "step_size=-step_size,"
    ),
    PlantedError(
        "algos.duals.update_duals", "dropped", "lower_share - c)", "lower_share - 0.0 * c)"
    ),
    PlantedError(
        "algos.duals.update_duals", "factor", "+ step_size * (c -", "+ 2.0 * step_size * (c -"
    ),
    PlantedError(
        "algos.projections.project_l1_ball",
        "factor",
        "xp.where(inside, clipped, project_simplex(x, radius))",
        "xp.where(inside, clipped, 0.5 * project_simplex(x, radius))",
    ),
)
