"""Errors planted in the library for the claims of SeCu."""

from __future__ import annotations

from ..planting import PlantedError

PLANTED: tuple[PlantedError, ...] = (
    # Batches (S1).
    PlantedError(
        "algos.prototypes.batch_prototypes",
        "off by one",
        "n_clusters=n_clusters)",
        "n_clusters=n_clusters + 1)",
    ),
    PlantedError(
        "algos.prototypes.batch_prototypes",
        "wrong argument",
        "prototype_sums(features, labels,",
        "prototype_sums(features, 0 * labels,",
    ),
    PlantedError(
        "algos.prototypes.prototype_sums",
        "off by one",
        "[:, None] == clusters",
        "[:, None] == clusters + 1",
        ("S1",),
    ),
    PlantedError(
        "algos.prototypes.normalize_sums",
        "inequality",
        "squares >= MIN_RESULTANT**2",
        "squares < MIN_RESULTANT**2",
        ("S1",),
    ),
    # The losses (S3a, S3b, S6).
    PlantedError(
        "algos.losses.log_softmax", "sign", "return logits - xp.log", "return logits + xp.log"
    ),
    PlantedError(
        "algos.losses.log_softmax", "axis", "xp.max(quarter, axis=-1", "xp.max(quarter, axis=0"
    ),
    PlantedError(
        "algos.losses.log_softmax", "axis", "xp.exp(logits), axis=-1", "xp.exp(logits), axis=0"
    ),
    PlantedError(
        "algos.losses.log_softmax", "factor", "/ (0.25 * temperature)", "/ (0.5 * temperature)"
    ),
    PlantedError(
        "algos.losses.log_softmax", "ignored argument", "/ (0.25 * temperature)", "/ 0.25"
    ),
    PlantedError("algos.losses.log_softmax", "dropped", "- xp.log(xp.sum", "- (xp.sum"),
    PlantedError("algos.losses.log_softmax", "wrong constant", "min=top - reach", "min=top - 0.25"),
    PlantedError(
        "algos.losses.center_loss", "gradient", "xp.where(own > 0, scores, frozen_scores)", "scores"
    ),
    PlantedError(
        "algos.losses.center_loss",
        "wrong order",
        "own > 0, scores, frozen_scores",
        "own > 0, frozen_scores, scores",
    ),
    PlantedError("algos.losses.center_loss", "sign", "return -xp.sum", "return xp.sum"),
    PlantedError(
        "algos.losses.center_loss", "wrong reduction", "return -xp.sum", "return -xp.mean"
    ),
    PlantedError(
        "algos.losses.center_loss",
        "ignored argument",
        "temperature=temperature)",
        "temperature=1.0)",
    ),
    PlantedError(
        "algos.losses.center_loss",
        "dropped",
        "xp.where(own > 0, log_p, xp.zeros_like(log_p))",
        "log_p",
    ),
    PlantedError(
        "algos.losses._one_hot",
        "off by one",
        "labels[..., None] == clusters",
        "labels[..., None] == clusters + 1",
        ("S3a", "S6", "C24"),
    ),
    PlantedError("algos.coke_losses.label_loss", "sign", "return -xp.take", "return xp.take"),
    PlantedError(
        "algos.coke_losses.label_loss",
        "ignored argument",
        "temperature=temperature)",
        "temperature=1.0)",
    ),
    PlantedError(
        "algos.coke_losses.label_loss",
        "wrong index",
        "xp.astype(labels, xp.int64)[..., None]",
        "xp.astype(0 * labels, xp.int64)[..., None]",
    ),
    # Centers (S3c to S3e).
    PlantedError(
        "algos.hardness_centers.hardness",
        "sign",
        "others - own / temperature",
        "own / temperature - others",
    ),
    PlantedError(
        "algos.hardness_centers.hardness",
        "dropped",
        "project_sphere(xp.astype(centers, xp.float64))",
        "xp.astype(centers, xp.float64)",
    ),
    PlantedError("algos.hardness_centers.hardness", "ignored argument", "own / temperature", "own"),
    PlantedError(
        "algos.hardness_centers._sigmoid",
        "rounding",
        "e / (1.0 + e))",
        "1.0 - 1.0 / (1.0 + e))",
        ("S3e",),
    ),
    PlantedError(
        "algos.hardness_centers._sigmoid", "inequality", "z >= 0, 1.0", "z < 0, 1.0", ("S3c", "S3e")
    ),
    PlantedError(
        "algos.hardness_centers._log_others",
        "dropped",
        "xp.where(own, -math.inf * xp.ones_like(logits), logits / temperature)",
        "logits / temperature",
        ("S3c", "S3e"),
    ),
    PlantedError(
        "algos.hardness_centers._log_others",
        "off by one",
        "[:, None] == clusters",
        "[:, None] == clusters + 1",
        ("S3c", "S3e"),
    ),
    PlantedError(
        "algos.hardness_centers._log_others",
        "ignored argument",
        "logits / temperature)",
        "logits)",
        ("S3c", "S3e"),
    ),
    PlantedError(
        "algos.hardness_centers._log_others",
        "wrong reduction",
        "total = xp.sum(",
        "total = xp.max(",
        ("S3c", "S3e"),
    ),
    PlantedError(
        "algos.hardness_centers.hardness_centers",
        "inequality",
        "gap <= tolerance, status",
        "gap <= 1e3 * tolerance, status",
    ),
    PlantedError(
        "algos.hardness_centers.hardness_centers",
        "sign",
        "axis=1) < 1.0 - INSIDE",
        "axis=1) > 1.0 - INSIDE",
    ),
    PlantedError(
        "algos.hardness_centers.hardness_centers",
        "dropped",
        "w = project_sphere(w, start)",
        "w = w + 0.0",
    ),
    PlantedError(
        "algos.hardness_centers.hardness_centers",
        "factor",
        "    gap = gap * per_sample\n    status",
        "    status",
    ),
    PlantedError(
        "algos.hardness_centers.hardness_centers",
        "off by one",
        "size == 0, status",
        "size == 1, status",
    ),
    PlantedError(
        "algos.hardness_centers.hardness_centers",
        "dropped",
        "w = w + step[:, None] * (target - w)",
        "w = target",
    ),
    PlantedError(
        "algos.hardness_centers.hardness_centers",
        "wrong argument",
        "vector_norm(w - target, axis=1)",
        "vector_norm(start - target, axis=1)",
    ),
    PlantedError(
        "algos.hardness_centers._linear_minimum",
        "factor",
        "(target - w), axis=1) / lam",
        "(target - w), axis=1)",
        ("S3c",),
    ),
    PlantedError(
        "algos.hardness_centers._linear_minimum", "dropped", "q[:, None] * x)", "x)", ("S3c",)
    ),
    PlantedError(
        "algos.hardness_centers._linear_minimum", "sign", "(target - w)", "(w - target)", ("S3c",)
    ),
    PlantedError(
        "algos.hardness_centers._line_search",
        "inequality",
        "first < 0, t, low",
        "first > 0, t, low",
        ("S3c",),
    ),
    PlantedError(
        "algos.hardness_centers._line_search",
        "ignored argument",
        "z - xp.take(t, labels) * b",
        "z - b",
        ("S3c",),
    ),
    # The online step (S4, S5, S11).
    PlantedError(
        "algos.duals.update_duals",
        "sign",
        "(n_samples * lower_share - c)",
        "(c - n_samples * lower_share)",
    ),
    PlantedError(
        "algos.duals.update_duals",
        "factor",
        "rho = duals.lower + step_size *",
        "rho = duals.lower + 0.5 * step_size *",
    ),
    PlantedError(
        "algos.duals.update_duals",
        "ignored argument",
        "(n_samples * lower_share - c)",
        "(lower_share - c)",
    ),
    PlantedError(
        "algos.duals.update_duals",
        "swapped bounds",
        "n_samples * upper_share)",
        "n_samples * lower_share)",
    ),
    PlantedError(
        "algos.duals.update_duals", "dropped", "Duals(xp.clip(rho, min=0.0),", "Duals(rho,"
    ),
    PlantedError("algos.duals.update_duals", "dropped", "xp.clip(rho_up, min=0.0))", "rho_up)"),
    PlantedError(
        "algos.duals.update_duals",
        "sign",
        "(c - n_samples * upper_share)",
        "(n_samples * upper_share - c)",
    ),
    PlantedError(
        "algos.duals.update_duals",
        "ignored argument",
        "rho = duals.lower + step_size",
        "rho = 0.0 * duals.lower + step_size",
    ),
    PlantedError(
        "algos.duals.update_duals",
        "wrong argument",
        "duals.upper + step_size",
        "duals.lower + step_size",
    ),
    PlantedError("algos.duals.update_duals", "wrong branch", "if free_sign:", "if not free_sign:"),
    PlantedError(
        "algos.duals.assign_batch", "sign", "duals.lower - duals.upper", "duals.lower + duals.upper"
    ),
    PlantedError("algos.duals.assign_batch", "wrong operator", "xp.argmax(", "xp.argmin("),
    PlantedError("algos.duals.assign_batch", "dropped", "chunk + price[..., None, :]", "chunk"),
    PlantedError(
        "algos.duals.assign_batch",
        "wrong argument",
        "            chunk.shape[-2],",
        "            chunk_size,",
    ),
    PlantedError(
        "algos.duals.assign_batch",
        "wrong order",
        "xp.argmax(chunk + price[..., None, :], axis=-1)",
        "price.shape[-1] - 1 - xp.argmax(xp.flip(chunk + price[..., None, :], axis=-1), axis=-1)",
    ),
    PlantedError(
        "algos.duals.assign_batch",
        "swapped bounds",
        "lower_share=lower_share,",
        "lower_share=upper_share,",
    ),
    PlantedError(
        "algos.duals.assign_batch", "ignored argument", "free_sign=free_sign,", "free_sign=False,"
    ),
    PlantedError(
        "algos.duals.assign_batch",
        "wrong index",
        "scores[..., first : min(first + chunk_size, b), :]",
        "scores[..., : min(chunk_size, b - first), :]",
    ),
    # Bounds (S5, S8, C16, C27).
    PlantedError(
        "algos.bounds._fraction",
        "rounding",
        "return simple if float(simple) == value else exact",
        "return exact",
        ("S5",),
    ),
    PlantedError(
        "algos.bounds._round", "wrong branch", "if up == (rounding", "if up != (rounding", ("S5",)
    ),
    PlantedError(
        "algos.bounds._round",
        "rounding",
        "return round(value)",
        "return math.floor(value)",
        ("S5", "C27"),
    ),
    PlantedError(
        "algos.bounds.from_ratios", "wrong argument", "rounding, up=True)", "rounding, up=False)"
    ),
    PlantedError(
        "algos.bounds.from_ratios",
        "ignored argument",
        "_round(r * n / k, rounding, up=True)",
        "_round(r * n / k, 'inward', up=True)",
    ),
    PlantedError(
        "algos.bounds.from_ratios",
        "factor",
        "shares = [r / k for r in least]",
        "shares = [1 * r for r in least]",
    ),
    PlantedError(
        "algos.bounds.from_ratios",
        "ignored argument",
        '_ratios("upper", upper, k)',
        '_ratios("upper", math.inf, k)',
    ),
    PlantedError(
        "algos.bounds.from_ratios",
        "off by one",
        "[_round(r * n / k, rounding, up=True)",
        "[_round(r * n / k, rounding, up=True) + 1",
    ),
    PlantedError(
        "algos.bounds._check_feasible",
        "off by one",
        "if total > n:",
        "if total > n + 1:",
        ("S5", "C16"),
    ),
    PlantedError(
        "algos.bounds._check_feasible", "inequality", "if total < n:", "if total <= n:", ("S5",)
    ),
    PlantedError(
        "algos.bounds._check_feasible", "inequality", "if lo > hi]", "if lo >= hi]", ("S5",)
    ),
    # Passes with enforced bounds (S7, S8), by the text and by the engine.
    PlantedError(
        "algos.assignment.assign",
        "ignored argument",
        "else bounds.n_samples - state.seen",
        "else bounds.n_samples",
    ),
    PlantedError(
        "algos.assignment.assign",
        "wrong argument",
        "AssignmentState(duals, state.start,",
        "AssignmentState(duals, duals,",
    ),
    PlantedError(
        "algos.assignment.assign",
        "dropped",
        "rho = project_l1_ball(rho, steps.l1_radius)",
        "rho = rho + 0.0",
    ),
    PlantedError(
        "algos.assignment.assign",
        "dropped",
        "rho_up = project_l1_ball(rho_up, steps.l1_radius)",
        "rho_up = rho_up + 0.0",
    ),
    PlantedError(
        "algos.assignment.assign", "ignored argument", "chunk_size=steps.chunk_size", "chunk_size=1"
    ),
    PlantedError(
        "algos.assignment.assign", "dropped", "steps.step_size / m if", "steps.step_size if"
    ),
    PlantedError(
        "algos.assignment.assign",
        "ignored argument",
        "free_sign=steps.free_sign",
        "free_sign=False",
    ),
    PlantedError(
        "algos.assignment.assign",
        "swapped bounds",
        "            lower=bounds.lower,",
        "            lower=bounds.upper,",
    ),
    PlantedError(
        "algos.assignment.assign",
        "wrong branch",
        "steps.step_size if constant else math.nan",
        "steps.step_size",
        ("R1",),
    ),
    PlantedError(
        "algos.assignment.assign_stream",
        "off by one",
        "counts < full_at",
        "counts <= full_at",
        ("S8", "T2"),
    ),
    PlantedError(
        "algos.assignment.assign_stream",
        "inequality",
        "0 <= remaining <= owed",
        "0 <= remaining < owed",
        ("S8", "T2"),
    ),
    PlantedError(
        "algos.assignment.assign_stream",
        "off by one",
        "0 <= remaining <= owed",
        "0 <= remaining <= owed + 1",
        ("S8", "T2"),
    ),
    PlantedError(
        "algos.assignment.assign_stream",
        "swapped bounds",
        "lower if 0 <= remaining <= owed else upper",
        "upper if 0 <= remaining <= owed else lower",
        ("S8", "T2"),
    ),
    PlantedError("algos.assignment.assign_stream", "dropped", "row + price", "row", ("S8", "T2")),
    PlantedError(
        "algos.assignment.assign_stream",
        "wrong argument",
        "min(chunk_size, n - first)",
        "chunk_size",
        ("S8", "T2"),
    ),
    PlantedError(
        "algos.assignment.assign_stream", "dropped", "counts - before", "counts", ("S8", "T2")
    ),
    PlantedError(
        "algos.assignment.assign_stream",
        "sign",
        "duals.lower - duals.upper",
        "duals.lower + duals.upper",
        ("S8", "T2"),
    ),
    PlantedError(
        "backends.numba_engine._assign_stream",
        "off by one",
        "counts[j] >= upper[j] or (completing",
        "counts[j] > upper[j] or (completing",
        ("S8", "T2"),
    ),
    PlantedError(
        "backends.numba_engine._assign_stream",
        "off by one",
        "if counts[y] >= upper[y] or",
        "if counts[y] > upper[y] or",
        ("S8", "T2"),
    ),
    PlantedError(
        "backends.numba_engine._assign_stream",
        "inequality",
        "not completing and shortage >= remaining",
        "not completing and shortage > remaining",
        ("S8", "T2"),
    ),
    PlantedError(
        "backends.numba_engine._assign_stream",
        "sign",
        "rho[j] - rho_up[j]",
        "rho[j] + rho_up[j]",
        ("S8", "T2"),
    ),
    PlantedError(
        "backends.numba_engine._assign_stream",
        "wrong argument",
        "m * lower_share[j]",
        "chunk_size * lower_share[j]",
        ("S8", "T2"),
    ),
    PlantedError(
        "backends.numba_engine._assign_stream",
        "ignored argument",
        "floor = -np.inf if free_sign else 0.0",
        "floor = 0.0",
        ("S8",),
    ),
    PlantedError(
        "backends.numba_engine._first_argmax",
        "off by one",
        "for j in range(full, k):\n        best",
        "for j in range(full + 1, k):\n        best",
        ("S7", "S8"),
    ),
    PlantedError(
        "backends.numba_engine._first_argmax",
        "wrong order",
        "first = min(first, j)",
        "first = j",
        ("S7",),
    ),
    # The entropy rule (S9) and the published steps (S13).
    PlantedError(
        "algos.entropy_assignment.published_rule",
        "wrong constant",
        "batch_size=128",
        "batch_size=64",
    ),
    PlantedError(
        "algos.entropy_assignment.published_rule",
        "wrong argument",
        'first_pass="published"',
        'first_pass="exact"',
    ),
    PlantedError(
        "algos.entropy_assignment.published_rule",
        "wrong formula",
        "PUBLISHED_STRENGTH * check",
        "PUBLISHED_STRENGTH * 2e-5 * n_samples * check",
    ),
    PlantedError(
        "algos.entropy_assignment.PUBLISHED_STRENGTH", "wrong constant", "0.12", "0.252", ("S9",)
    ),
    PlantedError(
        "algos.entropy_assignment.entropy_prices", "sign", "return -(rule", "return (rule"
    ),
    PlantedError(
        "algos.entropy_assignment.entropy_prices",
        "dropped",
        "rule.weight / rule.n_samples",
        "rule.weight",
    ),
    PlantedError(
        "algos.entropy_assignment._gain", "wrong formula", "xp.log1p(m)", "xp.log(m)", ("S9",)
    ),
    PlantedError(
        "algos.steps.PUBLISHED",
        "wrong constant",
        'PublishedSetting(20.0, 1024, 0.4, "SeCu',
        'PublishedSetting(2.0, 1024, 0.4, "SeCu',
        ("S13",),
    ),
    PlantedError(
        "algos.steps.PUBLISHED", "wrong constant", '1024, 0.4, "SeCu', '1024, 0.9, "SeCu', ("S13",)
    ),
    PlantedError("algos.steps.published_steps", "dropped", ", mean_over_chunk=True", ""),
    PlantedError(
        "algos.steps.published_steps",
        "wrong argument",
        "StepRule(setting.eta, setting.batch_size,",
        "StepRule(setting.ratio, setting.batch_size,",
    ),
    PlantedError("algos.steps.published_steps", "ignored argument", "setting.batch_size,", "128,"),
)
