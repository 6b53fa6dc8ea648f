"""Errors planted in the library for the claims of CoKe."""

from __future__ import annotations

from ..planting import PlantedError
from . import errors_in

PLANTED: tuple[PlantedError, ...] = (
    # The projection (C6, C8, C9, C12, C15).
    *errors_in(
        "algos.core.projections.project_l1_ball",
        ("dropped", "xp.where(inside, clipped, project_simplex(x, radius))", "clipped"),
        (
            "wrong formula",
            "project_simplex(x, radius))",
            "clipped * radius / xp.sum(clipped, axis=-1, keepdims=True))",
        ),
        ("inequality", "keepdims=True) <= radius", "keepdims=True) >= radius"),
        ("ignored argument", "project_simplex(x, radius))", "project_simplex(x, 1.0))"),
        ("wrong formula", "clipped = xp.clip(x, min=0.0)", "clipped = xp.abs(x)"),
        ("axis", "xp.sum(clipped, axis=-1", "xp.sum(clipped, axis=0"),
    ),
    *errors_in(
        "algos.core.projections.project_simplex",
        ("dropped", "axis=-1) - total) / j", "axis=-1)) / j"),
        ("wrong index", "support - 1, axis=-1)", "0 * support, axis=-1)"),
        ("sign", "xp.clip(x - theta, min=0.0)", "xp.clip(x + theta, min=0.0)"),
        claims=(
            "C6",
            "C8",
        ),
    ),
    *errors_in(
        "algos.core.projections.project_sphere",
        ("wrong operator", "largest = xp.max(xp.abs(x)", "largest = xp.max((x)"),
        ("dropped", "w = scaled / xp.where(zero, xp.ones_like(norm), norm)", "w = scaled"),
        ("wrong order", "xp.where(zero, fallback, w)", "xp.where(zero, w, fallback)"),
        ("dropped", "scaled = x / xp.where(zero, xp.ones_like(largest), largest)", "scaled = x"),
    ),
    # Steps of Theorem 1 (C10, C15).
    *errors_in(
        "algos.online.step_sizes.theorem_steps",
        ("factor", "math.sqrt(2 * n_samples)", "math.sqrt(n_samples)"),
        ("ignored argument", "tau / math", "1.0 / math"),
        ("factor", "l1_radius=tau", "l1_radius=2.0 * tau"),
        ("wrong constant", ", 1, l1_radius", ", 2, l1_radius"),
        ("dropped", ", l1_radius=tau", ""),
    ),
    # Centers (C2, C19 to C22), by the text and by the engine.
    *errors_in(
        "algos.clustering.centers.add_to_sums",
        ("dropped", "state.counts + segment_counts(", "segment_counts("),
        ("dropped", "sums = state.sums + sum_rows(", "sums = sum_rows("),
    ),
    *errors_in(
        "algos.core.exact_sums.split",
        ("rounding", "limb = xp.round(rest)", "limb = xp.floor(rest)"),
        ("factor", "(scale / grid.unit)", "(0.5 * scale / grid.unit)"),
        claims=("C20",),
    ),
    *errors_in(
        "algos.core.exact_sums.add_limbs",
        ("wrong index", "labels[i:last]", "labels[: last - i]"),
        ("dropped", "sums = sums + segment_sum(", "sums = segment_sum("),
        claims=("C20",),
    ),
    *errors_in(
        "algos.clustering.centers.sum_batch",
        ("wrong index", "(sums[..., :d], sums[..., d])", "(sums[..., :d], sums[..., d - 1])"),
        ("ignored argument", "(rows * b,))", "(rows * b,)) % n_clusters"),
    ),
    *errors_in(
        "algos.clustering.centers.merge_sums",
        ("dropped", "first.counts + second.counts", "first.counts"),
        ("sign", "first.sums + second.sums", "first.sums - second.sums"),
        ("dropped", "first.sums + second.sums", "second.sums"),
    ),
    *errors_in(
        "algos.clustering.centers.mean_centers",
        ("ignored argument", "xp.float64), fallback)", "xp.float64))"),
        (
            "dropped",
            "project_sphere(xp.astype(state.sums, xp.float64), fallback)",
            "xp.astype(state.sums, xp.float64) * 0.5**FRACTION_BITS",
        ),
        (
            "wrong argument",
            "xp.astype(state.sums, xp.float64), fallback",
            "xp.astype(state.counts[:, None] - state.sums, xp.float64), fallback",
        ),
    ),
    *errors_in(
        "algos.core.exact_sums.means_of_sums",
        ("dropped", " + carry * 2**grid.bits", ""),
        ("factor", "mean * grid.unit", "mean"),
        ("off by one", "xp.clip(counts, min=1)", "xp.clip(counts, min=2)"),
        ("ignored argument", "limb - quotient * by", "limb - quotient"),
    ),
    *errors_in(
        "algos.clustering.centers.running_average",
        ("off by one", "average) / count", "average) / (count + 1)"),
        ("sign", "average + (value - average)", "average - (value - average)"),
        ("wrong constant", "if count == 1", "if count == 0"),
    ),
    *errors_in(
        "backends.numba_engine._segment_sum",
        ("dropped", "+= values[i, j]", "= values[i, j]"),
        ("wrong index", "sums[segment, j] +=", "sums[segment, 0] +="),
        claims=(
            "C19",
            "C20",
        ),
    ),
    *errors_in(
        "backends.numba_engine._add_limbs",
        ("dropped", "+= bits[j] - MAGIC_BITS", "= bits[j] - MAGIC_BITS"),
        ("wrong index", "limb * d :", ":"),
        ("factor", "values[i, j] * first", "values[i, j] * scale"),
        claims=(
            "C19",
            "C20",
        ),
    ),
    *errors_in(
        "algos.core.segments.segment_sum",
        ("dropped", "at_ends[1:, :] - at_ends[:-1, :]", "at_ends[1:, :]"),
        ("wrong order", "xp.take(values, order, axis=0), axis=0", "values, axis=0"),
        claims=(
            "C19",
            "C20",
        ),
    ),
    # Targets and losses (C24).
    *errors_in(
        "algos.losses.coke.smoothed_labels",
        ("ignored argument", "lowest), temperature=temperature)", "lowest), temperature=0.5)"),
        ("inequality", "support = w > 0", "support = w >= 0"),
        ("wrong formula", "xp.exp(log_p), zero", "log_p, zero"),
    ),
    *errors_in(
        "algos.losses.coke.two_view_targets",
        ("wrong order", "xp.flip(reference_scores, axis=0)", "reference_scores"),
        ("wrong argument", "tau=alpha)", "tau=1.0 - alpha)"),
        ("ignored argument", "temperature=temperature, tau", "temperature=1.0, tau"),
    ),
    *errors_in(
        "algos.losses.coke.two_view_loss",
        ("factor", "return 0.5 * xp.sum", "return xp.sum"),
        ("gradient", "two_view_targets(labels, frozen_scores,", "two_view_targets(labels, scores,"),
        ("axis", "temperature=temperature), axis=0)", "temperature=temperature), axis=1)"),
    ),
    *errors_in(
        "algos.losses.secu.mixed_targets",
        ("wrong argument", "(1.0 - tau) * p", "tau * p"),
        (
            "wrong order",
            "tau * _one_hot(labels, p) + (1.0 - tau) * p",
            "(1.0 - tau) * _one_hot(labels, p) + tau * p",
        ),
        (
            "dropped",
            "p = xp.exp(log_softmax(reference_scores, temperature=temperature))",
            "p = log_softmax(reference_scores, temperature=temperature)",
        ),
    ),
    *errors_in(
        "algos.losses.cross_entropy.soft_cross_entropy",
        ("sign", "return -xp.sum(", "return xp.sum("),
        ("wrong reduction", "return -xp.sum(", "return -xp.mean("),
        ("ignored argument", "temperature=temperature), axis", "temperature=1.0), axis"),
    ),
    # The exact solver (C3, C4, C13, C30): all clusters as candidates, few, and truncated ones.
    *errors_in(
        "algos.offline.assignment.assign_exact",
        ("sign", "        scores,\n", "        -scores,\n"),
        ("wrong constant", "tol=0.0,", "tol=0.02,"),
    ),
    *errors_in(
        "algos.offline._all_scores.solve_in_time",
        (
            "ignored argument",
            "region, tol,",
            "TrustRegion(zero, xp.full_like(zero, 1e-3)), 0.5,",
        ),
        claims=("C4",),
    ),
    *errors_in(
        "algos.offline._proof.proven",
        (
            "dropped",
            "candidates.fixed_counts, [candidates",
            "0 * candidates.fixed_counts, [candidates",
        ),
        ("dropped", "candidates.fixed_value, candidates", "0.0, candidates"),
        claims=("C4",),
    ),
    *errors_in(
        "algos.offline._proof._inside",
        ("dropped", "inside = xp.clip(prices, candidates.low, candidates.high)", "inside = prices"),
        claims=("C4",),
    ),
    *errors_in(
        "algos.offline._proof._lost",
        ("dropped", "inside, whole=is_cut)", "inside, whole=False)"),
        ("dropped", "lost + slack, n_terms", "lost, n_terms"),
        claims=("C4",),
    ),
    *errors_in(
        "algos.offline._proof._regret_of",
        (
            "sign",
            "xp.maximum(regret, _beyond",
            "xp.maximum(regret, -_beyond",
        ),
        (
            "sign",
            "regret = regrets(*lists, prices, slots)",
            "regret = -regrets(*lists, prices, slots)",
        ),
        claims=("C4",),
    ),
    *errors_in(
        "algos.offline._proof._slackness",
        ("swapped bounds", "counts - low, high - counts", "high - counts, counts - low"),
        claims=("C4",),
    ),
    *errors_in(
        "algos.offline._reduced._worth",
        (
            "sign",
            "candidates.truncation[rows] - first - best, min=0.0",
            "best - candidates.truncation[rows], max=0.0",
        ),
        claims=("C4",),
    ),
    *errors_in(
        "algos.offline._reduced._worth",
        ("sign", "xp.float64) * prices)", "xp.float64) * -prices)"),
        claims=("C4", "R6"),
    ),
    *errors_in(
        "algos.offline._reduced.solve_reduced",
        ("dropped", "bound = worth + truncated", "bound = worth"),
    ),
    *errors_in(
        "algos.offline._reduced.labels_by_paths",
        ("dropped", "bounds.lower - candidates.fixed_counts, bounds", "bounds.lower, bounds"),
        ("swapped bounds", "            lower=lower,\n", "            lower=upper,\n"),
        claims=(
            "C4",
            "R6",
        ),
    ),
    *errors_in(
        "algos.offline._candidates.select_candidates",
        ("swapped bounds", "at_most = scores + high", "at_most = scores + low"),
        ("swapped bounds", "xp.max(scores + low, axis=1)", "xp.max(scores + high, axis=1)"),
        claims=("C4",),
    ),
    *errors_in(
        "algos.offline._candidates.select_candidates",
        ("wrong branch", "if width < k:", "if width > k:"),
        ("off by one", "order[:, width:]", "order[:, width + 1 :]"),
        claims=(
            "C4",
            "R6",
        ),
    ),
    *errors_in(
        "algos.offline._free_rows.split_rows",
        (
            "off by one",
            "n_candidates == 1, n_candidates > 1",
            "n_candidates == 1, n_candidates > 2",
        ),
        ("inequality", "clusters[:, 0], n_candidates == 1", "clusters[:, 0], n_candidates >= 1"),
        claims=("C4",),
    ),
    *errors_in(
        "backends.numba_free_rows._split_rows",
        ("off by one", "elif n_candidates[i] > 1", "elif n_candidates[i] > 2"),
        ("dropped", "counts[labels[i]] += 1", "counts[labels[i]] += 0"),
        claims=("C4",),
    ),
    *errors_in(
        "algos.offline._candidates.collect_candidates",
        ("sign", "first_free, low, high)", "first_free, high, low)"),
    ),
    *errors_in(
        "algos.offline._candidates._of_all_ranks",
        ("dropped", "xp.sum(group.gather(part.counts)", "0 * xp.sum(group.gather(part.counts)"),
        claims=("C4",),
    ),
    *errors_in(
        "backends.numba_candidates._select_candidates",
        ("swapped bounds", "_mark(row, high, threshold", "_mark(row, low, threshold"),
        claims=("C4",),
    ),
    *errors_in(
        "backends.numba_candidates._select_candidates",
        ("dropped", "truncation[i] = keys[width]", "truncation[i] = -np.inf"),
        claims=(
            "C4",
            "R6",
        ),
    ),
    *errors_in(
        "algos.offline._augmenting_paths._Flow.__init__",
        (
            "swapped bounds",
            "low[v] if price > 0 else high[v] if price < 0",
            "high[v] if price > 0 else low[v] if price < 0",
        ),
        claims=("C4",),
    ),
    *errors_in(
        "algos.offline._augmenting_paths._Flow._label",
        ("sign", "priced = [s + self.prices[a]", "priced = [s - self.prices[a]"),
        claims=("C4",),
    ),
    *errors_in(
        "algos.offline._augmenting_paths._Flow._reduced_cost",
        (
            "sign",
            "loss + (self.prices[u] - self.prices[v])",
            "loss + (self.prices[v] - self.prices[u])",
        ),
        claims=("C4",),
    ),
    *errors_in(
        "algos.offline._augmenting_paths._Flow._update",
        (
            "dropped",
            "(self.prices[v] + rise)",
            "self.prices[v]",
        ),
        claims=("C4",),
    ),
    *errors_in(
        "backends.numba_augmenting_paths._reach_from_roots",
        ("dropped", "heaps.loss[x] + (", "0.0 * heaps.loss[x] + 0.0 * ("),
        claims=("C4",),
    ),
    *errors_in(
        "backends.numba_augmenting_paths._best_slots",
        ("sign", "+ prices[a]\n            if priced", "- prices[a]\n            if priced"),
        claims=("C4",),
    ),
)
