"""Errors planted in the library for the claims of MI + margin; more in `pseudo_labels`."""

from __future__ import annotations

from ..planting import PlantedError

_INFORMATION = "algos.losses.information.mutual."
_LOSSES = "algos.losses.information.pseudo_label."
_JOINT = "algos.losses.information.joint."
_SELA = "algos.losses.information.self_labeling."

PLANTED: tuple[PlantedError, ...] = (
    # Information with a margin
    PlantedError(_INFORMATION + "mean_entropy", "sign", "return -xp.mean(", "return xp.mean("),
    PlantedError(
        _INFORMATION + "mean_entropy",
        "axis",
        "xp.sum(xp.exp(log_p) * log_p, axis=-1), axis=-1)",
        "xp.sum(xp.exp(log_p) * log_p, axis=-2), axis=-1)",
    ),
    PlantedError(
        _INFORMATION + "mean_entropy",
        "ignored argument",
        "_log_posterior(scores, temperature)",
        "_log_posterior(scores, 1.0)",
    ),
    PlantedError(
        _INFORMATION + "mean_entropy", "wrong reduction", "return -xp.mean(", "return -xp.sum("
    ),
    PlantedError(
        _INFORMATION + "prior_divergence",
        "ignored argument",
        "log_prior(prior, log_mean)",
        "log_prior(None, log_mean)",
    ),
    PlantedError(
        _INFORMATION + "prior_divergence",
        "wrong formula",
        "xp.exp(log_mean) * (log_mean - log_u)",
        "xp.exp(log_u) * (log_u - log_mean)",
    ),
    PlantedError(
        _INFORMATION + "prior_divergence",
        "ignored argument",
        "_log_posterior(scores, temperature)",
        "_log_posterior(scores, 1.0)",
    ),
    PlantedError(_INFORMATION + "prior_divergence", "dropped", "(log_mean - log_u)", "log_mean"),
    PlantedError(
        _INFORMATION + "mutual_information", "sign", "return xp.mean(", "return -xp.mean("
    ),
    PlantedError(
        _INFORMATION + "mutual_information",
        "axis",
        "_log_mean(log_p)[..., None, :]",
        "xp.mean(log_p, axis=-1, keepdims=True)",
    ),
    PlantedError(
        _INFORMATION + "mutual_information",
        "wrong formula",
        "_log_mean(log_p)[..., None, :]",
        "xp.mean(log_p, axis=-2, keepdims=True)",
    ),
    PlantedError(
        _INFORMATION + "mutual_information",
        "ignored argument",
        "_log_posterior(scores, temperature)",
        "_log_posterior(scores, 1.0)",
    ),
    PlantedError(
        _INFORMATION + "_log_mean",
        "axis",
        "xp.mean(xp.exp(log_p - top), axis=-2, keepdims=True)",
        "xp.mean(xp.exp(log_p - top), axis=0, keepdims=True)",
        claims=("M2",),
    ),
    PlantedError(
        _INFORMATION + "_log_mean",
        "dropped",
        "(top + log_mean)[..., 0, :]",
        "log_mean[..., 0, :]",
        claims=("M2",),
    ),
    PlantedError(
        _INFORMATION + "margin_term",
        "dropped",
        "math.sqrt(margin_weight)",
        "margin_weight",
    ),
    PlantedError(
        _INFORMATION + "margin_term", "wrong formula", "sum(v * v, axis", "sum(abs(v), axis"
    ),
    PlantedError(_INFORMATION + "margin_term", "axis", "axis=(-2, -1)", "axis=None"),
    PlantedError(
        _INFORMATION + "margin_term",
        "factor",
        ".sum(v * v, axis=(-2, -1))",
        ".sum(0.5 * v * v, axis=(-2, -1))",
    ),
    PlantedError(
        _INFORMATION + "information_margin_loss",
        "ignored argument",
        "fairness_weight * prior_divergence(scores, prior,",
        "prior_divergence(scores, prior,",
    ),
    PlantedError(
        _INFORMATION + "information_margin_loss",
        "ignored argument",
        "prior_divergence(scores, prior, ",
        "prior_divergence(scores, ",
    ),
    PlantedError(
        _INFORMATION + "information_margin_loss", "sign", "sure + fair +", "sure - fair +"
    ),
    PlantedError(
        _INFORMATION + "information_margin_loss",
        "dropped",
        "return sure + fair + margin_term(weights, margin_weight=margin_weight)",
        "return sure + fair",
    ),
    PlantedError(
        _INFORMATION + "information_margin_loss",
        "ignored argument",
        "mean_entropy(scores, temperature=temperature)",
        "mean_entropy(scores)",
    ),
    PlantedError(
        _INFORMATION + "information_margin_loss",
        "wrong constant",
        "fairness_weight: float = 1.0",
        "fairness_weight: float = 1.3",
    ),
    # Losses of the network
    PlantedError(
        _LOSSES + "reverse_cross_entropy",
        "wrong formula",
        "p * finite_log(pseudo_labels)",
        "pseudo_labels * finite_log(p)",
    ),
    PlantedError(
        _LOSSES + "reverse_cross_entropy",
        "ignored argument",
        "log_softmax(scores, temperature=temperature)",
        "log_softmax(scores)",
    ),
    PlantedError(_LOSSES + "reverse_cross_entropy", "sign", "return -xp.sum", "return xp.sum"),
    PlantedError(_LOSSES + "reverse_cross_entropy", "axis", "axis=-1", "axis=0"),
    PlantedError(
        _LOSSES + "pseudo_label_divergence",
        "wrong formula",
        "xp.exp(log_u) * (log_u - log_mean)",
        "xp.exp(log_mean) * (log_mean - log_u)",
    ),
    PlantedError(
        _LOSSES + "pseudo_label_divergence",
        "ignored argument",
        "log_prior(prior, log_mean)",
        "log_prior(None, log_mean)",
    ),
    PlantedError(
        _LOSSES + "pseudo_label_divergence", "dropped", "(log_u - log_mean)", "(-log_mean)"
    ),
    PlantedError(_LOSSES + "pseudo_label_divergence", "axis", "axis=-1", "axis=None"),
    PlantedError(
        _LOSSES + "pseudo_label_loss",
        "wrong argument",
        "reverse_cross_entropy(scores, pseudo_labels, temperature=temperature)",
        "reverse_cross_entropy(pseudo_labels, scores, temperature=temperature)",
    ),
    PlantedError(
        _LOSSES + "pseudo_label_loss",
        "wrong reduction",
        ".mean(reverse, axis=-1)",
        ".sum(reverse, axis=-1)",
    ),
    PlantedError(
        _LOSSES + "pseudo_label_loss",
        "ignored argument",
        "temperature=temperature",
        "temperature=1.0",
    ),
    PlantedError(
        _LOSSES + "pseudo_label_loss",
        "dropped",
        "return mean + margin_term(weights, margin_weight=margin_weight)",
        "return mean",
    ),
    PlantedError(
        _LOSSES + "_log_mean_label",
        "axis",
        "axis=-2",
        "axis=-1, keepdims=True",
        claims=("M1", "M4"),
    ),
    # The losses of two other methods
    PlantedError(
        _JOINT + "joint_distribution",
        "dropped",
        "0.5 * (joint + xp.matrix_transpose(joint))",
        "joint",
    ),
    PlantedError(
        _JOINT + "joint_distribution",
        "wrong argument",
        "xp.matmul(xp.matrix_transpose(p), q)",
        "xp.matmul(xp.matrix_transpose(p), p)",
    ),
    PlantedError(_JOINT + "joint_distribution", "wrong constant", "/ shape[-2]", "/ shape[-1]"),
    PlantedError(
        _JOINT + "joint_distribution",
        "ignored argument",
        "log_softmax(s, temperature=temperature)",
        "log_softmax(s)",
    ),
    PlantedError(
        _JOINT + "information_of_joint",
        "wrong argument",
        "for axis in (-1, -2)",
        "for axis in (-1, -1)",
    ),
    PlantedError(
        _JOINT + "information_of_joint",
        "dropped",
        "entropy_weight * (rows + columns)",
        "entropy_weight * rows",
    ),
    PlantedError(
        _JOINT + "information_of_joint",
        "ignored argument",
        "entropy_weight * (rows + columns)",
        "(rows + columns)",
    ),
    PlantedError(_JOINT + "information_of_joint", "axis", "axis=(-2, -1)", "axis=None"),
    PlantedError(
        _JOINT + "joint_information_loss", "sign", "loss = -information", "loss = information"
    ),
    PlantedError(
        _JOINT + "joint_information_loss",
        "ignored argument",
        "(joint, entropy_weight=entropy_weight)",
        "(joint)",
    ),
    PlantedError(
        _JOINT + "joint_information_loss",
        "wrong argument",
        "joint_distribution(scores, other_scores,",
        "joint_distribution(scores, scores,",
    ),
    PlantedError(_SELA + "self_labeling_loss", "factor", "rows / rows.shape[-1]", "rows / 2"),
    PlantedError(
        _SELA + "self_labeling_loss",
        "wrong argument",
        "soft_cross_entropy(scores, targets,",
        "soft_cross_entropy(targets, scores,",
    ),
    PlantedError(
        _SELA + "self_labeling_loss",
        "ignored argument",
        "temperature=temperature",
        "temperature=1.0",
    ),
    PlantedError(
        _SELA + "self_labeling_loss",
        "axis",
        "rows / rows.shape[-1], axis=-1",
        "rows / rows.shape[-1], axis=0",
    ),
    PlantedError(
        _SELA + "transport_objective",
        "ignored argument",
        'log_prior(shares, log_p, "shares")',
        'log_prior(None, log_p, "shares")',
    ),
    PlantedError(
        _SELA + "transport_objective",
        "dropped",
        "log_n * xp.sum(q, axis=(-2, -1)) - xp.sum",
        "-xp.sum",
    ),
    PlantedError(
        _SELA + "transport_objective",
        "wrong operator",
        "axis=(-2, -1)) / sharpness",
        "axis=(-2, -1)) * sharpness",
    ),
    PlantedError(_SELA + "transport_objective", "sign", "- log_n\n", "+ log_n\n"),
    PlantedError(
        _SELA + "transport_objective",
        "dropped",
        "return cost + xp.sum(q * (f",
        "return xp.sum(q * (f",
    ),
)
