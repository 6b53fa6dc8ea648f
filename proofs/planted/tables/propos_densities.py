"""Errors planted in densities, k-means and figures for the claims of ProPos."""

from __future__ import annotations

from ..planting import PlantedError

_DENSITY = "algos.theory.von_mises_fisher."
_KMEANS = "algos.clustering.lloyd."
_SUMS = "algos.clustering._cluster_sums."
_EMPTY = "algos.clustering._empty_clusters."
_SOFTMAX = "algos.losses.cross_entropy.log_softmax"

PLANTED: tuple[PlantedError, ...] = (
    # Densities
    PlantedError(
        _DENSITY + "log_sphere_area", "factor", "half = 0.5 * check", "half = 1.0 * check"
    ),
    PlantedError(_DENSITY + "log_sphere_area", "dropped", "math.log(2.0) + half", "half"),
    PlantedError(
        _DENSITY + "log_sphere_area", "sign", "- math.lgamma(half)", "+ math.lgamma(half)"
    ),
    PlantedError(
        _DENSITY + "log_normalizer",
        "off by one",
        '0.5 * check_count("n_features", n_features, 2) - 1.0',
        '0.5 * check_count("n_features", n_features, 2)',
    ),
    PlantedError(
        _DENSITY + "log_normalizer",
        "sign",
        "- concentration - _scaled",
        "+ concentration - _scaled",
    ),
    PlantedError(
        _DENSITY + "log_normalizer",
        "dropped",
        "-log_sphere_area(n_features) - concentration",
        "-concentration",
    ),
    PlantedError(
        _DENSITY + "log_normalizer",
        "dropped",
        "xp.clip(xp.astype(kappa, xp.float64), min=0.0)",
        "xp.abs(xp.astype(kappa, xp.float64))",
    ),
    PlantedError(_DENSITY + "log_density", "factor", "(0.5 * squares)", "squares"),
    PlantedError(
        _DENSITY + "log_density", "sign", "- concentration * (0.5", "+ concentration * (0.5"
    ),
    PlantedError(_DENSITY + "log_density", "dropped", " - scaled\n", "\n"),
    PlantedError(
        _DENSITY + "log_density", "dropped", "-log_sphere_area(d) - concentration", "-concentration"
    ),
    PlantedError(_DENSITY + "log_density", "off by one", "0.5 * d - 1.0", "0.5 * d"),
    PlantedError(
        _DENSITY + "log_density",
        "wrong operator",
        "points.valid & means.valid",
        "points.valid | means.valid",
    ),
    PlantedError(
        _DENSITY + "log_bessel_i",
        "sign",
        "- math.lgamma(nu + 1.0)",
        "+ math.lgamma(nu + 1.0)",
        ("P12",),
    ),
    PlantedError(_DENSITY + "_uniform", "dropped", "- 0.5 * xp.log1p(excess)\n", "\n", ("P12",)),
    PlantedError(_DENSITY + "_uniform", "sign", "- correction *", "+ correction *", ("P12",)),
    PlantedError(
        _DENSITY + "_power_series", "off by one", "range(1, N_SERIES + 1)", "range(1, 20)", ("P12",)
    ),
    PlantedError(
        _DENSITY + "_power_series",
        "wrong formula",
        "(j * (nu + j))",
        "(j * (nu + j - 1.0))",
        ("P12",),
    ),
    PlantedError(
        _DENSITY + "_hankel", "factor", "(nu + 0.5) * xp.log(kappa)", "nu * xp.log(kappa)", ("P12",)
    ),
    PlantedError(
        _DENSITY + "_hankel", "sign", "(2 * j - 1) ** 2 - 4.0", "(2 * j - 1) ** 2 + 4.0", ("P12",)
    ),
    PlantedError(
        _DENSITY + "_scaled_log",
        "wrong branch",
        "if nu >= UNIFORM_FROM:",
        "if nu >= 0.5:",
        ("P12",),
    ),
    PlantedError(
        _DENSITY + "debye_polynomials",
        "wrong constant",
        "Fraction(5, 8 * (i + 3))",
        "Fraction(5, 8 * (i + 1))",
        ("P12",),
    ),
    PlantedError(
        _SOFTMAX,
        "axis",
        "xp.sum(xp.exp(logits), axis=-1, keepdims=True)",
        "xp.sum(xp.exp(logits), axis=0, keepdims=True)",
        ("P1", "P17"),
    ),
    PlantedError(
        _SOFTMAX,
        "dropped",
        "return logits - xp.log(xp.sum(xp.exp(logits), axis=-1, keepdims=True))",
        "return logits",
        ("P1", "P17"),
    ),
    PlantedError(_SOFTMAX, "factor", "(0.25 * temperature)", "(0.5 * temperature)", ("P1",)),
    # k-means
    PlantedError(
        _KMEANS + "kmeans",
        "ignored argument",
        "frame_of(features, metric, weights)",
        "frame_of(features, metric, None)",
    ),
    PlantedError(
        _KMEANS + "kmeans",
        "off by one",
        "while state.n_iter < max_iter",
        "while state.n_iter <= n_iter",
    ),
    PlantedError(_KMEANS + "kmeans", "ignored argument", '(empty == "relocate")', '(empty != "")'),
    PlantedError(_KMEANS + "kmeans", "ignored argument", "changed <= tol", "changed <= 0.0"),
    PlantedError(
        _KMEANS + "kmeans",
        "wrong argument",
        "share_changed(frame.source.group, labels, state.labels)",
        "share_changed(frame.source.group, labels, labels)",
    ),
    PlantedError(
        _KMEANS + "kmeans",
        "ignored argument",
        "    if state is None:\n        check_reach",
        "    if True:\n        check_reach",
    ),
    PlantedError(
        _KMEANS + "kmeans",
        "wrong argument",
        "sums, state.labels, state.centers, movable",
        "sums, state.labels, centers * 0.5, movable",
    ),
    PlantedError(
        _KMEANS + "nearest_labels",
        "factor",
        "-0.5 * xp.sum(centers * centers, axis=1)",
        "-xp.sum(centers * centers, axis=1)",
        ("P19",),
    ),
    PlantedError(
        _KMEANS + "nearest_labels",
        "sign",
        "best_clusters(scores, offsets)",
        "best_clusters(-scores, offsets)",
        ("P19",),
    ),
    PlantedError(_KMEANS + "nearest_labels", "dropped", "* frame.score_unit", "", ("P19",)),
    PlantedError(
        _KMEANS + "nearest_labels",
        "ignored argument",
        "if frame.weights is not None:",
        "if False:",
        ("P19",),
    ),
    PlantedError(
        _SUMS + "best_centers",
        "wrong branch",
        "if frame.spherical:\n        return",
        "if False:\n        return",
        ("P19",),
    ),
    PlantedError(
        _EMPTY + "relocate_empty",
        "dropped",
        "squared = squared * frame.weights[first : group.first_row + stop]",
        "pass",
        ("P19",),
    ),
    PlantedError(
        _EMPTY + "_farthest", "wrong order", "descending=True", "descending=False", ("P19",)
    ),
    # Figures
    PlantedError(
        "algos.clustering.metrics.imbalance_ratio",
        "wrong reduction",
        "int(xp.min(counts)) / largest",
        "float(xp.mean(counts)) / largest",
        ("P29",),
    ),
    PlantedError(
        "algos.clustering.metrics.imbalance_ratio",
        "swapped bounds",
        "int(xp.min(counts)) / largest",
        "largest / int(xp.min(counts))",
        ("P29",),
    ),
    PlantedError(
        "algos.clustering.metrics.uniformity",
        "dropped",
        "project_sphere(xp.astype(at_least_float32(features), xp.float64))",
        "xp.astype(features, xp.float64)",
        ("P11", "P29"),
    ),
    PlantedError(
        "algos.clustering.metrics.uniformity",
        "axis",
        "xp.std(unit, axis=0)",
        "xp.std(unit, axis=1)",
        ("P11", "P29"),
    ),
)
