"""Errors planted in the library for the claims of CoKe."""

from __future__ import annotations

from ..planting import PlantedError

PLANTED: tuple[PlantedError, ...] = (
    # The projection (C6, C8, C9, C12, C15).
    PlantedError(
        "algos.projections.project_l1_ball",
        "dropped",
        "xp.where(inside, clipped, project_simplex(x, radius))",
        "clipped",
    ),
    PlantedError(
        "algos.projections.project_l1_ball",
        "wrong formula",
        "project_simplex(x, radius))",
        "clipped * radius / xp.sum(clipped, axis=-1, keepdims=True))",
    ),
    PlantedError(
        "algos.projections.project_l1_ball",
        "inequality",
        "keepdims=True) <= radius",
        "keepdims=True) >= radius",
    ),
    PlantedError(
        "algos.projections.project_l1_ball",
        "ignored argument",
        "project_simplex(x, radius))",
        "project_simplex(x, 1.0))",
    ),
    PlantedError(
        "algos.projections.project_l1_ball",
        "wrong formula",
        "clipped = xp.clip(x, min=0.0)",
        "clipped = xp.abs(x)",
    ),
    PlantedError(
        "algos.projections.project_l1_ball",
        "axis",
        "xp.sum(clipped, axis=-1",
        "xp.sum(clipped, axis=0",
    ),
    PlantedError(
        "algos.projections.project_simplex",
        "dropped",
        "axis=-1) - total) / j",
        "axis=-1)) / j",
        ("C6", "C8"),
    ),
    PlantedError(
        "algos.projections.project_simplex",
        "wrong index",
        "support - 1, axis=-1)",
        "0 * support, axis=-1)",
        ("C6", "C8"),
    ),
    PlantedError(
        "algos.projections.project_simplex",
        "sign",
        "xp.clip(x - theta, min=0.0)",
        "xp.clip(x + theta, min=0.0)",
        ("C6", "C8"),
    ),
    PlantedError(
        "algos.projections.project_sphere",
        "wrong operator",
        "largest = xp.max(xp.abs(x)",
        "largest = xp.max((x)",
    ),
    PlantedError(
        "algos.projections.project_sphere",
        "dropped",
        "w = scaled / xp.where(zero, xp.ones_like(norm), norm)",
        "w = scaled",
    ),
    PlantedError(
        "algos.projections.project_sphere",
        "wrong order",
        "xp.where(zero, fallback, w)",
        "xp.where(zero, w, fallback)",
    ),
    PlantedError(
        "algos.projections.project_sphere",
        "dropped",
        "scaled = x / xp.where(zero, xp.ones_like(largest), largest)",
        "scaled = x",
    ),
    # Steps of Theorem 1 (C10, C15).
    PlantedError(
        "algos.steps.theorem_steps", "factor", "math.sqrt(2 * n_samples)", "math.sqrt(n_samples)"
    ),
    PlantedError("algos.steps.theorem_steps", "ignored argument", "tau / math", "1.0 / math"),
    PlantedError("algos.steps.theorem_steps", "factor", "l1_radius=tau", "l1_radius=2.0 * tau"),
    PlantedError("algos.steps.theorem_steps", "wrong constant", ", 1, l1_radius", ", 2, l1_radius"),
    PlantedError("algos.steps.theorem_steps", "dropped", ", l1_radius=tau", ""),
    # Centers (C2, C19 to C22), by the text and by the engine.
    PlantedError(
        "algos.centers.add_to_sums",
        "rounding",
        "xp.astype(xp.round(scaled), xp.int64)",
        "xp.astype(scaled, xp.int64)",
    ),
    PlantedError(
        "algos.centers.add_to_sums", "wrong index", "labels[i:last]", "labels[: last - i]"
    ),
    PlantedError(
        "algos.centers.add_to_sums", "dropped", "state.counts + segment_sum(", "segment_sum("
    ),
    PlantedError(
        "algos.centers.add_to_sums", "dropped", "sums = sums + segment_sum(", "sums = segment_sum("
    ),
    PlantedError(
        "algos.centers.add_to_sums", "factor", "* 2.0**FRACTION_BITS", "* 2.0**(FRACTION_BITS - 1)"
    ),
    PlantedError(
        "algos.centers.sum_batch",
        "rounding",
        "xp.astype(xp.round(scaled), xp.int64)",
        "xp.astype(scaled, xp.int64)",
    ),
    PlantedError(
        "algos.centers.sum_batch",
        "wrong index",
        "(sums[..., :d], sums[..., d])",
        "(sums[..., :d], sums[..., d - 1])",
    ),
    PlantedError(
        "algos.centers.sum_batch", "ignored argument", "(rows * b,))", "(rows * b,)) % n_clusters"
    ),
    PlantedError(
        "algos.centers.merge_sums", "dropped", "first.counts + second.counts", "first.counts"
    ),
    PlantedError(
        "algos.centers.merge_sums", "sign", "first.sums + second.sums", "first.sums - second.sums"
    ),
    PlantedError("algos.centers.merge_sums", "dropped", "first.sums + second.sums", "second.sums"),
    PlantedError(
        "algos.centers.mean_centers", "ignored argument", "xp.float64), fallback)", "xp.float64))"
    ),
    PlantedError(
        "algos.centers.mean_centers",
        "dropped",
        "project_sphere(xp.astype(state.sums, xp.float64), fallback)",
        "xp.astype(state.sums, xp.float64) * 0.5**FRACTION_BITS",
    ),
    PlantedError(
        "algos.centers.mean_centers",
        "wrong argument",
        "xp.astype(state.sums, xp.float64), fallback",
        "xp.astype(state.counts[:, None] - state.sums, xp.float64), fallback",
    ),
    PlantedError(
        "algos.exact_sums.means_of_sums",
        "dropped",
        " + carry * 2**grid.bits",
        "",
    ),
    PlantedError("algos.exact_sums.means_of_sums", "factor", "mean * grid.unit", "mean"),
    PlantedError(
        "algos.exact_sums.means_of_sums",
        "off by one",
        "xp.clip(counts, min=1)",
        "xp.clip(counts, min=2)",
    ),
    PlantedError(
        "algos.exact_sums.means_of_sums",
        "ignored argument",
        "limb - quotient * by",
        "limb - quotient",
    ),
    PlantedError(
        "algos.centers.running_average", "off by one", "average) / count", "average) / (count + 1)"
    ),
    PlantedError(
        "algos.centers.running_average",
        "sign",
        "average + (value - average)",
        "average - (value - average)",
    ),
    PlantedError(
        "algos.centers.running_average", "wrong constant", "if count == 1", "if count == 0"
    ),
    PlantedError(
        "backends.numba_engine._segment_sum",
        "dropped",
        "+= values[i, j]",
        "= values[i, j]",
        ("C19", "C20"),
    ),
    PlantedError(
        "backends.numba_engine._segment_sum",
        "wrong index",
        "sums[segment, j] +=",
        "sums[segment, 0] +=",
        ("C19", "C20"),
    ),
    PlantedError(
        "algos.segments.segment_sum",
        "dropped",
        "at_ends[1:, :] - at_ends[:-1, :]",
        "at_ends[1:, :]",
        ("C19", "C20"),
    ),
    PlantedError(
        "algos.segments.segment_sum",
        "wrong order",
        "xp.take(values, order, axis=0), axis=0",
        "values, axis=0",
        ("C19", "C20"),
    ),
    # Targets and losses (C24).
    PlantedError(
        "algos.coke_losses.smoothed_labels",
        "ignored argument",
        "lowest), temperature=temperature)",
        "lowest), temperature=0.5)",
    ),
    PlantedError(
        "algos.coke_losses.smoothed_labels", "inequality", "support = w > 0", "support = w >= 0"
    ),
    PlantedError(
        "algos.coke_losses.smoothed_labels", "dropped", "xp.where(support, w, lowest)", "w"
    ),
    PlantedError(
        "algos.coke_losses.two_view_targets",
        "wrong order",
        "xp.flip(reference_scores, axis=0)",
        "reference_scores",
    ),
    PlantedError(
        "algos.coke_losses.two_view_targets", "wrong argument", "tau=alpha)", "tau=1.0 - alpha)"
    ),
    PlantedError(
        "algos.coke_losses.two_view_targets",
        "ignored argument",
        "temperature=temperature, tau",
        "temperature=1.0, tau",
    ),
    PlantedError(
        "algos.coke_losses.two_view_loss", "factor", "return 0.5 * xp.sum", "return xp.sum"
    ),
    PlantedError(
        "algos.coke_losses.two_view_loss",
        "gradient",
        "two_view_targets(labels, frozen_scores,",
        "two_view_targets(labels, scores,",
    ),
    PlantedError(
        "algos.coke_losses.two_view_loss",
        "axis",
        "temperature=temperature), axis=0)",
        "temperature=temperature), axis=1)",
    ),
    PlantedError("algos.losses.mixed_targets", "wrong argument", "(1.0 - tau) * p", "tau * p"),
    PlantedError(
        "algos.losses.mixed_targets",
        "wrong order",
        "tau * _one_hot(labels, p) + (1.0 - tau) * p",
        "(1.0 - tau) * _one_hot(labels, p) + tau * p",
    ),
    PlantedError(
        "algos.losses.mixed_targets",
        "dropped",
        "p = xp.exp(log_softmax(reference_scores, temperature=temperature))",
        "p = log_softmax(reference_scores, temperature=temperature)",
    ),
    PlantedError("algos.losses.soft_cross_entropy", "sign", "return -xp.sum(", "return xp.sum("),
    PlantedError(
        "algos.losses.soft_cross_entropy", "wrong reduction", "return -xp.sum(", "return -xp.mean("
    ),
    PlantedError(
        "algos.losses.soft_cross_entropy",
        "ignored argument",
        "temperature=temperature), axis",
        "temperature=1.0), axis",
    ),
    # The exact solver (C3, C4, C13, C30): lists of all clusters, short lists, cut lists.
    PlantedError(
        "algos.offline.assign_exact", "sign", "assign_offline(scores,", "assign_offline(-scores,"
    ),
    PlantedError(
        "algos.offline.assign_exact", "wrong constant", "tolerance=0.0)", "tolerance=0.02)"
    ),
    PlantedError(
        "algos.offline._solve_in_full",
        "ignored argument",
        "box, 0.0)",
        "PriceBox(prices, xp.full_like(prices, 1e-3)), 0.5)",
        ("C4",),
    ),
    PlantedError(
        "algos.list_solver._proven",
        "dropped",
        "xp.maximum(_best_listed(listing, rows, inside), listing.cuts[rows])",
        "_best_listed(listing, rows, inside)",
        ("C4", "R6"),
    ),
    PlantedError(
        "algos.list_solver._proven",
        "dropped",
        "inside = xp.clip(prices, listing.low, listing.high)",
        "inside = prices",
        ("C4", "R6"),
    ),
    PlantedError(
        "algos.list_solver._proven",
        "dropped",
        "objective += listing.settled_value",
        "objective += 0.0",
        ("C4",),
    ),
    PlantedError(
        "algos.list_solver._proven",
        "sign",
        "listing.settled_value + price_of_bounds",
        "listing.settled_value - price_of_bounds",
        ("C4", "R6"),
    ),
    PlantedError(
        "algos.list_solver._proven",
        "dropped",
        "listing.settled, [listing",
        "0 * listing.settled, [listing",
        ("C4",),
    ),
    PlantedError(
        "algos.list_solver._beyond_lists",
        "sign",
        "listing.cuts[rows] - best, min=0.0",
        "best - listing.cuts[rows], max=0.0",
        ("C4",),
    ),
    PlantedError(
        "algos.list_solver.solve_lists", "dropped", "bound = worth + beyond", "bound = worth"
    ),
    PlantedError(
        "algos.list_solver.solve_lists",
        "dropped",
        "bounds.lower - listing.settled, bounds",
        "bounds.lower, bounds",
    ),
    PlantedError(
        "algos.list_solver.solve_lists",
        "swapped bounds",
        "            lower=lower,\n",
        "            lower=upper,\n",
    ),
    PlantedError(
        "algos.list_solver.solve_lists", "sign", "xp.float64) * prices))", "xp.float64) * -prices))"
    ),
    PlantedError(
        "algos.shortlists.shortlist",
        "swapped bounds",
        "at_most = scores + high",
        "at_most = scores + low",
        ("C4",),
    ),
    PlantedError(
        "algos.shortlists.shortlist",
        "swapped bounds",
        "xp.max(scores + low, axis=1)",
        "xp.max(scores + high, axis=1)",
        ("C4",),
    ),
    PlantedError(
        "algos.shortlists.shortlist", "wrong branch", "if width < k:", "if width > k:", ("C4", "R6")
    ),
    PlantedError(
        "algos.shortlists.shortlist",
        "off by one",
        "order[:, width:]",
        "order[:, width + 1 :]",
        ("C4", "R6"),
    ),
    PlantedError(
        "algos.shortlists._list_block",
        "off by one",
        "is_open = names[:, 0], found > 1",
        "is_open = names[:, 0], found > 2",
        ("C4",),
    ),
    PlantedError(
        "algos.shortlists._list_block",
        "inequality",
        "found == 1, labels",
        "found >= 1, labels",
        ("C4",),
    ),
    PlantedError(
        "algos.shortlists.list_open",
        "dropped",
        "        xp.sum(group.gather(counts), axis=0),",
        "        0 * xp.sum(group.gather(counts), axis=0),",
    ),
    PlantedError(
        "algos.shortlists.list_open",
        "sign",
        "        low,\n        high,",
        "        high,\n        low,",
    ),
    PlantedError(
        "algos.shortlists.list_all",
        "dropped",
        "xp.where(listed, order, xp.full_like(order, -1))",
        "order",
        ("C4",),
    ),
    PlantedError(
        "backends.numba_shortlists._shortlist",
        "swapped bounds",
        "at_most = row[j] + high[j]",
        "at_most = row[j] + low[j]",
        ("C4",),
    ),
    PlantedError(
        "backends.numba_shortlists._insert",
        "wrong operator",
        "cuts[i] = max(",
        "cuts[i] = min(",
        ("C4", "R6"),
    ),
    PlantedError(
        "algos.transport._Chains.__init__",
        "swapped bounds",
        "low[a] if p > 0 else high[a] if p < 0",
        "high[a] if p > 0 else low[a] if p < 0",
        ("C4",),
    ),
    PlantedError(
        "algos.transport._Chains.__init__",
        "sign",
        "priced = [s + pi[a]",
        "priced = [s - pi[a]",
        ("C4",),
    ),
    PlantedError(
        "algos.transport._Chains._loss",
        "sign",
        "(score + self.pi[own]) - (s + self.pi[v])",
        "(s + self.pi[v]) - (score + self.pi[own])",
        ("C4",),
    ),
    PlantedError(
        "algos.transport._Chains.run",
        "dropped",
        "self.pi = [p + rise for p in self.pi]",
        "self.pi = list(self.pi)",
        ("C4",),
    ),
    PlantedError(
        "backends.numba_transport._loss", "sign", "return own - (", "return -own + (", ("C4",)
    ),
    PlantedError(
        "backends.numba_transport._label",
        "sign",
        "+ prices[a]\n            if priced",
        "- prices[a]\n            if priced",
        ("C4",),
    ),
)
