"""Errors planted in the library for the claims of GATCluster; more in `label_features`."""

from __future__ import annotations

from ..planting import PlantedError

_FEATURES = "algos.theory.label_features."
_LOSSES = "algos.losses.gatcluster.tasks."
_ATTENTION = "algos.losses.gatcluster.attention."
_SCORES = "algos.clustering.metrics.clustering_scores"

PLANTED: tuple[PlantedError, ...] = (
    # Targets and losses
    PlantedError(
        _LOSSES + "balanced_targets",
        "sign",
        "sharp - log_z",
        "sharp + log_z",
    ),
    PlantedError(_LOSSES + "balanced_targets", "dropped", "sharp - log_z", "sharp"),
    PlantedError(
        _LOSSES + "balanced_targets",
        "factor",
        "sharp - log_z",
        "sharp - sharpness * log_z",
    ),
    PlantedError(
        _LOSSES + "balanced_targets",
        "axis",
        "_log_sum_exp(log_l, axis=-2)",
        "_log_sum_exp(log_l, axis=0)",
    ),
    PlantedError(
        _LOSSES + "balanced_targets",
        "ignored argument",
        "min=math.log(empty)",
        "min=math.log(1e-5)",
    ),
    PlantedError(
        _LOSSES + "balanced_targets",
        "wrong formula",
        "_log_sum_exp(log_l, axis=-2)",
        "_log_sum_exp(sharpness * log_l, axis=-2)",
    ),
    PlantedError(
        _LOSSES + "balanced_targets",
        "dropped",
        "xp.exp(log_softmax(sharp - log_z))",
        "xp.exp(sharp - log_z)",
    ),
    PlantedError(_LOSSES + "_transformation", "sign", "return -xp.sum", "return xp.sum", ("G5",)),
    PlantedError(
        _LOSSES + "_transformation", "axis", "* targets, axis=-1)", "* targets, axis=0)", ("G5",)
    ),
    PlantedError(
        _LOSSES + "_transformation",
        "dropped",
        "xp.exp(log_l) * targets",
        "log_l * targets",
        ("G5",),
    ),
    PlantedError(
        _LOSSES + "_transformation",
        "wrong reduction",
        "return -xp.sum",
        "return -xp.mean",
        ("G5",),
    ),
    PlantedError(_LOSSES + "_entropy", "sign", "return xp.sum", "return -xp.sum", ("G8",)),
    PlantedError(
        _LOSSES + "_entropy",
        "wrong index",
        "math.log(log_l.shape[-2])",
        "math.log(log_l.shape[-1])",
        ("G8",),
    ),
    PlantedError(
        _LOSSES + "_entropy",
        "axis",
        "_log_sum_exp(log_l, axis=-2)",
        "_log_sum_exp(log_l, axis=0)",
        ("G8",),
    ),
    PlantedError(
        _LOSSES + "_entropy",
        "wrong formula",
        "_log_sum_exp(log_l, axis=-2) - math.log(log_l.shape[-2])",
        "xp.mean(log_l, axis=-2, keepdims=True)",
        ("G8",),
    ),
    PlantedError(
        _LOSSES + "_attention",
        "dropped",
        "targets * log_l + (1.0 - targets) * _log_complement(log_l)",
        "targets * log_l",
        ("G11",),
    ),
    PlantedError(
        _LOSSES + "_attention", "factor", "axis=-1) / log_l.shape[-1]", "axis=-1)", ("G11",)
    ),
    PlantedError(
        _LOSSES + "_log_complement",
        "wrong branch",
        "xp.where(top, _log_sum_exp(others, axis=-1), xp.log1p(-small))",
        "xp.log1p(-xp.clip(xp.exp(log_l), max=1.0 - 1e-9))",
        ("G11",),
    ),
    PlantedError(
        _LOSSES + "gatcluster_loss",
        "wrong argument",
        "xp.sum(_entropy(log_l))",
        "2.0 * _entropy(log_l[0, ...])",
    ),
    PlantedError(
        _LOSSES + "gatcluster_loss",
        "dropped",
        "xp.sum(_entropy(log_l))",
        "_entropy(log_l[0, ...])",
    ),
    PlantedError(
        _LOSSES + "LossWeights.of",
        "wrong order",
        "self.attention * attention",
        "self.entropy * attention",
    ),
    PlantedError(
        _LOSSES + "LossWeights.of", "ignored argument", "self.relation * relation", "relation"
    ),
    PlantedError(
        _LOSSES + "gatcluster_loss",
        "ignored argument",
        "relation_loss(logits, labels, floor=floor)",
        "relation_loss(logits, labels)",
    ),
    PlantedError(
        _LOSSES + "gatcluster_loss",
        "wrong argument",
        "relation_loss(logits, labels",
        "relation_loss(attention_logits, labels",
    ),
    PlantedError(
        _LOSSES + "gatcluster_loss",
        "wrong argument",
        "_attention(log_l[1, ...], attention_targets)",
        "_attention(log_l[1, ...], targets)",
    ),
    PlantedError(
        _LOSSES + "gatcluster_loss",
        "wrong reduction",
        "xp.mean(_transformation(",
        "xp.sum(_transformation(",
    ),
    PlantedError(
        _LOSSES + "LossWeights",
        "wrong order",
        "attention: float = 5.0\n    entropy: float = 3.0",
        "attention: float = 3.0\n    entropy: float = 5.0",
    ),
    PlantedError(
        _LOSSES + "LossWeights", "wrong constant", "relation: float = 1.0", "relation: float = 0.5"
    ),
    PlantedError(
        _LOSSES + "LossWeights.__post_init__",
        "dropped",
        '"transformation", "attention", "entropy", "relation"',
        '"transformation", "entropy"',
        ("G11",),
    ),
    PlantedError(
        _LOSSES + "LossWeights.__post_init__",
        "sign",
        "0.0, math.inf)",
        "-math.inf, math.inf)",
        ("G11",),
    ),
    # Attention
    PlantedError(
        _ATTENTION + "attention_map", "sign", "xp.exp(-form / alpha)", "xp.exp(form / alpha)"
    ),
    PlantedError(_ATTENTION + "attention_map", "ignored argument", "-form / alpha", "-form / 0.1"),
    PlantedError(_ATTENTION + "attention_map", "factor", "-form / alpha", "-0.5 * form / alpha"),
    PlantedError(
        _ATTENTION + "attention_map", "dropped", "scales = xp.sqrt(variances)", "scales = variances"
    ),
    PlantedError(
        _ATTENTION + "attention_map",
        "axis",
        "down, across = steps[0][..., :, None], steps[1][..., None, :]",
        "down, across = steps[1][..., :, None], steps[0][..., None, :]",
    ),
    PlantedError(
        _ATTENTION + "attention_map", "off by one", "grid / (length - 1) if", "grid / length if"
    ),
    PlantedError(_ATTENTION + "attention_map", "wrong branch", "else grid + 0.5", "else grid"),
    PlantedError(
        _ATTENTION + "attention_map", "sign", "across - rho * down", "across + rho * down"
    ),
    PlantedError(
        _ATTENTION + "attention_map", "wrong constant", "alpha: float = 0.1", "alpha: float = 0.05"
    ),
    PlantedError(
        _ATTENTION + "isotropic_gaussian",
        "dropped",
        "min_variance + (1.0 - min_variance) * _sigmoid(raw[..., 2:])",
        "_sigmoid(raw[..., 2:])",
    ),
    PlantedError(
        _ATTENTION + "isotropic_gaussian",
        "factor",
        "min_variance + (1.0 - min_variance) * _sigmoid",
        "min_variance + _sigmoid",
    ),
    PlantedError(
        _ATTENTION + "isotropic_gaussian",
        "wrong index",
        "_sigmoid(raw[..., :2])",
        "_sigmoid(raw[..., 1:])",
    ),
    PlantedError(
        _ATTENTION + "isotropic_gaussian",
        "wrong constant",
        "min_variance: float = 1e-4",
        "min_variance: float = 1e-3",
    ),
    PlantedError(
        _ATTENTION + "full_gaussian",
        "wrong formula",
        "max_correlation * xp.tanh(raw[..., 4])",
        "xp.tanh(raw[..., 4])",
    ),
    PlantedError(
        _ATTENTION + "full_gaussian",
        "wrong index",
        "_sigmoid(raw[..., 2:4])",
        "_sigmoid(raw[..., 1:3])",
    ),
    PlantedError(
        _ATTENTION + "full_gaussian",
        "dropped",
        "min_variance + (1.0 - min_variance) * _sigmoid",
        "_sigmoid",
    ),
    PlantedError(
        _ATTENTION + "full_gaussian",
        "wrong constant",
        "max_correlation: float = 0.95",
        "max_correlation: float = 0.9",
    ),
    PlantedError(_ATTENTION + "_sigmoid", "factor", "tanh(0.5 * x)", "tanh(x)", ("G9",)),
    # Figures
    PlantedError(_FEATURES + "polygon_map", "off by one", "xp.arange(1, k + 1,", "xp.arange(0, k,"),
    PlantedError(_FEATURES + "polygon_map", "factor", "2.0 * math.pi / k", "math.pi / k"),
    PlantedError(
        _FEATURES + "polygon_map",
        "wrong order",
        "xp.sum(features * xp.sin(angle), axis=-1), xp.sum(features * xp.cos(angle), axis=-1)",
        "xp.sum(features * xp.cos(angle), axis=-1), xp.sum(features * xp.sin(angle), axis=-1)",
    ),
    PlantedError(
        _FEATURES + "polygon_map", "axis", "        axis=-1,\n    )", "        axis=0,\n    )"
    ),
    PlantedError(
        _SCORES,
        "wrong argument",
        "linear_sum_assignment(table, maximize=True)",
        "linear_sum_assignment(table)",
    ),
    PlantedError(_SCORES, "wrong formula", "table[rows, columns].sum()", "table.max(axis=0).sum()"),
    PlantedError(
        _SCORES,
        "wrong argument",
        "nmi=float(nmi(true, found))",
        'nmi=float(nmi(true, found, average_method="max"))',
    ),
    PlantedError(_SCORES, "dropped", ', average_method="geometric"', ""),
    PlantedError(_SCORES, "dropped", "metrics.adjusted_rand_score(", "metrics.rand_score("),
    PlantedError(
        _SCORES,
        "wrong formula",
        "metrics.adjusted_mutual_info_score(true, found)",
        "nmi(true, found)",
    ),
    PlantedError(_SCORES, "wrong constant", "sum() / found.shape[0]", "sum() / table.max()"),
)
