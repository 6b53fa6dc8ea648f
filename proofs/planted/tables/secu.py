"""Errors planted in the library for the claims of SeCu."""

from __future__ import annotations

from ..planting import PlantedError
from . import errors_in

PLANTED: tuple[PlantedError, ...] = (
    # Batches (S1).
    *errors_in(
        "algos.losses.propos.prototypes.batch_prototypes",
        ("off by one", "n_clusters=n_clusters)", "n_clusters=n_clusters + 1)"),
        (
            "wrong argument",
            "prototype_sums(features, labels,",
            "prototype_sums(features, 0 * labels,",
        ),
    ),
    *errors_in(
        "algos.losses.propos.prototypes.prototype_sums",
        ("off by one", "[:, None] == clusters", "[:, None] == clusters + 1"),
        claims=("S1",),
    ),
    *errors_in(
        "algos.losses.propos.prototypes.normalize_sums",
        ("inequality", "squares >= MIN_RESULTANT**2", "squares < MIN_RESULTANT**2"),
        claims=("S1",),
    ),
    # The losses (S3a, S3b, S6).
    *errors_in(
        "algos.losses.cross_entropy.log_softmax",
        ("sign", "return logits - xp.log", "return logits + xp.log"),
        ("axis", "xp.max(quarter, axis=-1", "xp.max(quarter, axis=0"),
        ("axis", "xp.exp(logits), axis=-1", "xp.exp(logits), axis=0"),
        ("factor", "/ (0.25 * temperature)", "/ (0.5 * temperature)"),
        ("ignored argument", "/ (0.25 * temperature)", "/ 0.25"),
        ("dropped", "- xp.log(xp.sum", "- (xp.sum"),
        ("wrong constant", "min=top - reach", "min=top - 0.25"),
    ),
    *errors_in(
        "algos.losses.secu.center_loss",
        ("gradient", "xp.where(own > 0, scores, frozen_scores)", "scores"),
        ("wrong order", "own > 0, scores, frozen_scores", "own > 0, frozen_scores, scores"),
        ("sign", "return -xp.sum", "return xp.sum"),
        ("wrong reduction", "return -xp.sum", "return -xp.mean"),
        ("ignored argument", "temperature=temperature)", "temperature=1.0)"),
        ("dropped", "xp.where(own > 0, log_p, xp.zeros_like(log_p))", "log_p"),
    ),
    *errors_in(
        "algos.losses.secu._one_hot",
        ("off by one", "labels[..., None] == clusters", "labels[..., None] == clusters + 1"),
        claims=(
            "S3a",
            "S6",
            "C24",
        ),
    ),
    *errors_in(
        "algos.losses.coke.label_loss",
        ("sign", "return -xp.take", "return xp.take"),
        ("ignored argument", "temperature=temperature)", "temperature=1.0)"),
        (
            "wrong index",
            "xp.astype(labels, xp.int64)[..., None]",
            "xp.astype(0 * labels, xp.int64)[..., None]",
        ),
    ),
    # Centers (S3c to S3e).
    *errors_in(
        "algos.clustering.hardness_weighted.hardness",
        ("sign", "others - own / temperature", "own / temperature - others"),
        (
            "dropped",
            "project_sphere(xp.astype(centers, xp.float64))",
            "xp.astype(centers, xp.float64)",
        ),
        ("ignored argument", "own / temperature", "own"),
    ),
    *errors_in(
        "algos.clustering.hardness_weighted._sigmoid",
        ("rounding", "e / (1.0 + e))", "1.0 - 1.0 / (1.0 + e))"),
        claims=("S3e",),
    ),
    *errors_in(
        "algos.clustering.hardness_weighted._sigmoid",
        ("inequality", "z >= 0, 1.0", "z < 0, 1.0"),
        claims=(
            "S3c",
            "S3e",
        ),
    ),
    *errors_in(
        "algos.clustering.hardness_weighted._log_others",
        (
            "dropped",
            "xp.where(own, -math.inf * xp.ones_like(logits), logits / temperature)",
            "logits / temperature",
        ),
        ("off by one", "[:, None] == clusters", "[:, None] == clusters + 1"),
        ("ignored argument", "logits / temperature)", "logits)"),
        ("wrong reduction", "total = xp.sum(", "total = xp.max("),
        claims=(
            "S3c",
            "S3e",
        ),
    ),
    *errors_in(
        "algos.clustering.hardness_weighted.hardness_centers",
        ("inequality", "gap <= tol, status", "gap <= 1e3 * tol, status"),
        ("sign", "vector_norm(w, axis=1) < 1.0", "vector_norm(w, axis=1) > 1.0"),
        ("dropped", "w = project_sphere(w, start)", "w = w + 0.0"),
        ("factor", "    gap = gap * per_sample\n    status", "    status"),
        ("off by one", "size == 0, status", "size == 1, status"),
        ("dropped", "w = w + step[:, None] * (target - w)", "w = target"),
        (
            "wrong argument",
            "vector_norm(w - target, axis=1)",
            "vector_norm(start - target, axis=1)",
        ),
    ),
    *errors_in(
        "algos.clustering.hardness_weighted._linear_minimum",
        ("factor", "(target - w), axis=1) / lam", "(target - w), axis=1)"),
        ("dropped", "q[:, None] * x)", "x)"),
        ("sign", "(target - w)", "(w - target)"),
        claims=("S3c",),
    ),
    *errors_in(
        "algos.clustering._newton_center.newton_center",
        ("dropped", "v / xp.clip(xp.linalg.vector_norm(v), min=1.0)", "0.0 * v"),
        ("sign", "xp.clip(rise, min=0.0)", "xp.clip(rise, max=0.0)"),
        claims=("S3c",),
    ),
    *errors_in(
        "algos.clustering.hardness_weighted._line_search",
        ("inequality", "first < 0, t, low", "first > 0, t, low"),
        ("ignored argument", "z - xp.take(t, labels) * b", "z - b"),
        claims=("S3c",),
    ),
    # The online step (S4, S5, S11).
    *errors_in(
        "algos.online.duals.update_duals",
        ("sign", "(n_samples * rule.lower_share - c)", "(c - n_samples * rule.lower_share)"),
        ("factor", "rho = duals.lower + h *", "rho = duals.lower + 0.5 * h *"),
        ("ignored argument", "(n_samples * rule.lower_share - c)", "(rule.lower_share - c)"),
        ("swapped bounds", "n_samples * rule.upper_share)", "n_samples * rule.lower_share)"),
        ("dropped", "rho = xp.clip(rho, min=0.0)", "rho = rho + 0.0"),
        ("dropped", "rho_up = xp.clip(rho_up, min=0.0)", "rho_up = rho_up + 0.0"),
        ("sign", "(c - n_samples * rule.upper_share)", "(n_samples * rule.upper_share - c)"),
        (
            "ignored argument",
            "rho = duals.lower + h",
            "rho = 0.0 * duals.lower + h",
        ),
        ("wrong argument", "duals.upper + h", "duals.lower + h"),
        ("wrong branch", "if rule.free_sign:", "if not rule.free_sign:"),
    ),
    *errors_in(
        "algos.online.duals.assign_batch",
        ("sign", "duals.lower - duals.upper", "duals.lower + duals.upper"),
        ("wrong operator", "xp.argmax(", "xp.argmin("),
        ("dropped", "chunk + price[..., None, :]", "chunk"),
        ("wrong argument", "chunk.shape[-2], rule)", "rule.chunk_size, rule)"),
        (
            "wrong order",
            "xp.argmax(chunk + price[..., None, :], axis=-1)",
            "xp.argmax((chunk + price[..., None, :])[..., ::-1], axis=-1)",
        ),
        (
            "swapped bounds",
            "chunk.shape[-2], rule)",
            "chunk.shape[-2], rule._replace(lower_share=rule.upper_share))",
        ),
        (
            "ignored argument",
            "chunk.shape[-2], rule)",
            "chunk.shape[-2], rule._replace(free_sign=False))",
        ),
        (
            "wrong index",
            "scores[..., first : min(first + rule.chunk_size, b), :]",
            "scores[..., : min(rule.chunk_size, b - first), :]",
        ),
    ),
    # Bounds (S5, S8, C16, C27).
    *errors_in(
        "algos.bounds._ratios.simplest",
        ("rounding", "return simple if float(simple) == value else exact", "return exact"),
        claims=("S5",),
    ),
    *errors_in(
        "algos.bounds._ratios.rounded",
        ("wrong branch", "if up == (rounding", "if up != (rounding"),
        claims=("S5",),
    ),
    *errors_in(
        "algos.bounds._ratios.rounded",
        ("rounding", "return round(value)", "return math.floor(value)"),
        claims=(
            "S5",
            "C27",
        ),
    ),
    *errors_in(
        "algos.bounds.sizes.SizeBounds.from_ratios",
        ("wrong argument", "rounding, up=True)", "rounding, up=False)"),
        (
            "ignored argument",
            "rounded(r * n / k, rounding, up=True)",
            "rounded(r * n / k, 'inward', up=True)",
        ),
        ("factor", "shares = of_each(lambda r: r / k", "shares = of_each(lambda r: 1 * r"),
        ("ignored argument", 'ratios_of("upper", upper, k)', 'ratios_of("upper", math.inf, k)'),
        (
            "off by one",
            "lambda r: rounded(r * n / k, rounding, up=True)",
            "lambda r: rounded(r * n / k, rounding, up=True) + 1",
        ),
    ),
    *errors_in(
        "algos.bounds.infeasibility.check_sums",
        ("off by one", "if total > n:", "if total > n + 1:"),
        claims=(
            "S5",
            "C16",
        ),
    ),
    *errors_in(
        "algos.bounds.infeasibility.check_sums",
        ("inequality", "if total < n:", "if total <= n:"),
        ("inequality", "if lo > hi]", "if lo >= hi]"),
        claims=("S5",),
    ),
    # Passes with enforced bounds (S7, S8), by the text and by the engine.
    *errors_in(
        "algos.online.assignment.remaining_samples",
        ("ignored argument", "else bounds.n_samples - state.seen", "else bounds.n_samples"),
        claims=("S7", "S8"),
    ),
    *errors_in(
        "algos.online.assignment.assign",
        ("wrong argument", "AssignmentState(duals, state.start,", "AssignmentState(duals, duals,"),
        ("dropped", "rho = project_l1_ball(rho, steps.l1_radius)", "rho = rho + 0.0"),
        ("dropped", "rho_up = project_l1_ball(rho_up, steps.l1_radius)", "rho_up = rho_up + 0.0"),
        ("ignored argument", "chunk_size=steps.chunk_size", "chunk_size=1"),
        ("dropped", "steps.step_size / m if", "steps.step_size if"),
        ("ignored argument", "free_sign=steps.free_sign", "free_sign=False"),
        ("swapped bounds", "            lower=bounds.lower,", "            lower=bounds.upper,"),
    ),
    *errors_in(
        "algos.online.assignment.assign",
        ("wrong branch", "steps.step_size if constant else math.nan", "steps.step_size"),
        claims=("R1",),
    ),
    *errors_in(
        "algos.online.assignment.assign_stream",
        ("off by one", "counts < full_at", "counts <= full_at"),
        ("inequality", "0 <= remaining <= owed", "0 <= remaining < owed"),
        ("off by one", "0 <= remaining <= owed", "0 <= remaining <= owed + 1"),
        (
            "swapped bounds",
            "lower if 0 <= remaining <= owed else upper",
            "upper if 0 <= remaining <= owed else lower",
        ),
        ("dropped", "row + price", "row"),
        ("wrong argument", "min(chunk_size, n - first)", "chunk_size"),
        ("dropped", "counts - before", "counts"),
        ("sign", "duals.lower - duals.upper", "duals.lower + duals.upper"),
        claims=(
            "S8",
            "T2",
        ),
    ),
    *errors_in(
        "backends.numba_engine._assign_stream",
        (
            "off by one",
            "counts[j] >= upper[j] or (completing",
            "counts[j] > upper[j] or (completing",
        ),
        ("off by one", "if counts[y] >= upper[y] or", "if counts[y] > upper[y] or"),
        (
            "inequality",
            "not completing and shortage >= remaining",
            "not completing and shortage > remaining",
        ),
        ("sign", "rho[j] - rho_up[j]", "rho[j] + rho_up[j]"),
        ("wrong argument", "m * lower_share[j]", "chunk_size * lower_share[j]"),
        claims=(
            "S8",
            "T2",
        ),
    ),
    *errors_in(
        "backends.numba_engine._assign_stream",
        ("ignored argument", "floor = -np.inf if free_sign else 0.0", "floor = 0.0"),
        claims=("S8",),
    ),
    *errors_in(
        "backends.numba_engine._first_of_few",
        ("off by one", "for j in range(len(row)):", "for j in range(1, len(row)):"),
        claims=(
            "S7",
            "S8",
        ),
    ),
    *errors_in(
        "backends.numba_engine._first_of_few",
        ("wrong order", "if value > best:", "if value >= best:"),
        claims=("S7",),
    ),
    # The entropy rule (S9) and the published steps (S13).
    *errors_in(
        "algos.baselines.entropy.published_rule",
        ("wrong constant", "batch_size=128", "batch_size=64"),
        ("wrong argument", 'first_pass="published"', 'first_pass="exact"'),
        (
            "wrong formula",
            "PUBLISHED_STRENGTH * check",
            "PUBLISHED_STRENGTH * 2e-5 * n_samples * check",
        ),
    ),
    *errors_in(
        "algos.baselines.entropy.PUBLISHED_STRENGTH",
        ("wrong constant", "0.12", "0.252"),
        claims=("S9",),
    ),
    *errors_in(
        "algos.baselines.entropy.entropy_prices",
        ("sign", "return -(rule", "return (rule"),
        ("dropped", "rule.weight / rule.n_samples", "rule.weight"),
    ),
    *errors_in(
        "algos.baselines.entropy._gain",
        ("wrong formula", "xp.log1p(m)", "xp.log(m)"),
        claims=("S9",),
    ),
    *errors_in(
        "algos.online.step_sizes.PUBLISHED",
        (
            "wrong constant",
            'PublishedSetting(20.0, 1024, 0.4, "SeCu',
            'PublishedSetting(2.0, 1024, 0.4, "SeCu',
        ),
        ("wrong constant", '1024, 0.4, "SeCu', '1024, 0.9, "SeCu'),
        claims=("S13",),
    ),
    *errors_in(
        "algos.online.step_sizes.published_steps",
        ("dropped", ", mean_over_chunk=True", ""),
        (
            "wrong argument",
            "StepRule(setting.eta, setting.batch_size,",
            "StepRule(setting.ratio, setting.batch_size,",
        ),
        ("ignored argument", "setting.batch_size,", "128,"),
    ),
)
