"""Errors planted in the library for the claims of MI + margin."""

from __future__ import annotations

from ..planting import PlantedError

_INFORMATION = "algos.information_losses."
_ENERGY = "algos.pseudo_labels_energy."
_EM = "algos.pseudo_labels_em."
_SOLVER = "algos.pseudo_labels."
_NEWTON = "algos.pseudo_labels_newton."
_LOSSES = "algos.pseudo_label_losses."
_JOINT = "algos.joint_information."
_SELA = "algos.self_labeling."

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
    # Energy and gap
    PlantedError(
        _ENERGY + "label_objective",
        "sign",
        "return entropy - xp.sum(",
        "return entropy + xp.sum(",
    ),
    PlantedError(_ENERGY + "label_objective", "factor", "beta / m *", "beta *"),
    PlantedError(
        _ENERGY + "label_objective",
        "wrong formula",
        "target * _log(y, target)",
        "y * _log(target, y)",
    ),
    PlantedError(
        _ENERGY + "label_objective", "dropped", "_log(mass / m, balance", "_log(mass, balance"
    ),
    PlantedError(_ENERGY + "label_objective", "wrong operator", "mass = mass + xp", "mass = xp"),
    PlantedError(
        _ENERGY + "label_objective",
        "dropped",
        "entropy = entropy - xp.sum(target",
        "entropy = -xp.sum(target",
    ),
    PlantedError(
        _ENERGY + "_log",
        "wrong branch",
        "xp.where(needed > 0,",
        "xp.where(needed >= 0,",
        claims=("M1",),
    ),
    PlantedError(
        _ENERGY + "label_gap", "factor", "return total", "return 0.5 * total", claims=("M1", "M3")
    ),
    PlantedError(
        _ENERGY + "label_gap",
        "dropped",
        "total = xp.sum(_divergence(prices * mean, wanted))",
        "total = xp.sum(0.0 * wanted)",
        claims=("M1", "M3"),
    ),
    PlantedError(
        _ENERGY + "label_gap",
        "dropped",
        "total = total + xp.sum((slack + top) * (1.0 - xp.sum(y, axis=1))) / m",
        "pass",
        claims=("M1",),
    ),
    PlantedError(
        _ENERGY + "label_gap",
        "sign",
        "(1.0 - xp.sum(y, axis=1))",
        "(xp.sum(y, axis=1) - 1.0)",
        claims=("M1",),
    ),
    PlantedError(
        _ENERGY + "label_gap",
        "wrong branch",
        "slack = xp.maximum(slack, xp",
        "slack = xp.minimum(slack, xp",
        claims=("M1",),
    ),
    PlantedError(
        _ENERGY + "label_gap",
        "ignored argument",
        "    if duals is None:\n        prices = wanted",
        "    if True:\n        prices = wanted",
        claims=("M1", "M3"),
    ),
    PlantedError(
        _ENERGY + "label_gap",
        "dropped",
        "total = total + xp.sum(terms) / m",
        "total = total + xp.sum(terms)",
        claims=("M1", "M3"),
    ),
    PlantedError(
        _ENERGY + "_divergence",
        "sign",
        "value = error - target * log",
        "value = target * log - error",
        claims=("M1", "M3"),
    ),
    PlantedError(
        _ENERGY + "_divergence",
        "wrong branch",
        "log = xp.where(ratio < -0.5, small, log)",
        "pass",
        claims=("M1",),
    ),
    PlantedError(_ENERGY + "_clipped", "wrong constant", "max=1.0", "max=0.5", claims=("M1",)),
    PlantedError(
        _ENERGY + "floor_outputs",
        "dropped",
        "return (1.0 - epsilon) * xp.astype(sigma, xp.float64) + epsilon * u",
        "return xp.astype(sigma, xp.float64)",
    ),
    PlantedError(_ENERGY + "floor_outputs", "dropped", "(1.0 - epsilon) * xp.astype", "xp.astype"),
    PlantedError(
        _ENERGY + "floor_outputs",
        "ignored argument",
        "check_problem(sigma, 0.0, 0.0, u)",
        "check_problem(sigma, 0.0, 0.0, None)",
    ),
    PlantedError(
        _ENERGY + "floor_outputs",
        "wrong constant",
        "epsilon: float = 1e-6",
        "epsilon: float = 1e-8",
    ),
    # Expectation maximization
    PlantedError(
        _EM + "em_step",
        "ignored argument",
        "(beta * sigma + pull) / (beta +",
        "(sigma + pull) / (1.0 +",
    ),
    PlantedError(_EM + "em_step", "dropped", "(y / mass)", "y"),
    PlantedError(_EM + "em_step", "axis", "xp.sum(y, axis=0)", "xp.sum(y, axis=1, keepdims=True)"),
    PlantedError(
        _EM + "em_step",
        "ignored argument",
        "check_problem(sigma, balance, beta, u, labels)",
        "check_problem(sigma, balance, beta, None, labels)",
    ),
    PlantedError(_EM + "em_step", "dropped", "balance * sigma.shape[0] * u", "balance * u"),
    PlantedError(_EM + "em_labels", "off by one", "range(n_iter)", "range(n_iter - 1)"),
    PlantedError(
        _EM + "em_labels", "ignored argument", "floor_outputs(sigma, epsilon=epsilon, u=u)", "sigma"
    ),
    PlantedError(
        _EM + "em_labels",
        "ignored argument",
        "floor_outputs(sigma, epsilon=epsilon, u=u)",
        "floor_outputs(sigma, epsilon=epsilon)",
    ),
    PlantedError(
        _EM + "em_labels",
        "ignored argument",
        "balance=balance, beta=beta, u=u)",
        "balance=balance, u=u)",
    ),
    PlantedError(
        _EM + "em_labels", "wrong argument", "em_step(sigma, labels,", "em_step(labels, labels,"
    ),
    PlantedError(
        _EM + "em_labels", "wrong constant", "least = TINY if epsilon > 0 else 0.0", "least = TINY"
    ),
    # The solver
    PlantedError(_SOLVER + "pseudo_labels", "dropped", "m * share * u_scaled", "share * u_scaled"),
    PlantedError(
        _SOLVER + "pseudo_labels",
        "ignored argument",
        "check_problem(sigma, balance, beta, u)",
        "check_problem(sigma, balance, beta, None)",
    ),
    PlantedError(
        _SOLVER + "pseudo_labels", "ignored argument", "tol * weight", "1e3 * tol * weight"
    ),
    PlantedError(
        _SOLVER + "pseudo_labels",
        "wrong branch",
        "bound(problem, state) <= goal",
        "bound(problem, state) >= goal",
    ),
    PlantedError(
        _SOLVER + "pseudo_labels", "ignored argument", "init(problem, start)", "init(problem, None)"
    ),
    PlantedError(
        _SOLVER + "pseudo_labels",
        "dropped",
        "LabelDuals(total * state.prices, total * state.slack)",
        "LabelDuals(state.prices, state.slack)",
    ),
    PlantedError(
        _SOLVER + "pseudo_labels",
        "off by one",
        "max_iter if n_iter is None else n_iter",
        "max_iter if n_iter is None else n_iter + 1",
    ),
    PlantedError(
        _SOLVER + "pseudo_labels", "ignored argument", "**weights, duals=duals)", "**weights)"
    ),
    PlantedError(
        _NEWTON + "residual", "wrong reduction", "xp.max(error)", "xp.mean(error)", claims=("M3",)
    ),
    PlantedError(
        _NEWTON + "residual",
        "dropped",
        "(worst + 0.0) / xp.where(",
        "worst * xp.where(",
        claims=("M3",),
    ),
    PlantedError(
        _NEWTON + "bound",
        "factor",
        "return total / problem",
        "return 1e-6 * total / problem",
        claims=("M1", "M3"),
    ),
    PlantedError(
        _NEWTON + "iterate",
        "sign",
        "moved = y[rows, :] + step * dy",
        "moved = y[rows, :] - step * dy",
        claims=("M1", "M3", "M4"),
    ),
    PlantedError(
        _NEWTON + "init", "ignored argument", "if labels is not None:", "if False:", claims=("M3",)
    ),
    PlantedError(
        _NEWTON + "Problem.targets",
        "dropped",
        "return self.weight * sigma",
        "return sigma",
        claims=("M1", "M3"),
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
        _LOSSES + "pseudo_label_energy",
        "ignored argument",
        "return beta * xp.mean",
        "return xp.mean",
    ),
    PlantedError(
        _LOSSES + "pseudo_label_energy", "ignored argument", "fairness_weight * fair", "fair"
    ),
    PlantedError(
        _LOSSES + "pseudo_label_energy",
        "ignored argument",
        "log_prior(prior, log_mean)",
        "log_prior(None, log_mean)",
    ),
    PlantedError(
        _LOSSES + "pseudo_label_energy",
        "wrong reduction",
        "xp.mean(reverse, axis=-1)",
        "xp.sum(reverse, axis=-1)",
    ),
    PlantedError(_LOSSES + "pseudo_label_energy", "sign", "fair = -xp.sum(", "fair = xp.sum("),
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
        "log_prior(shares, log_p)",
        "log_prior(None, log_p)",
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
        "wrong branch",
        "    if sharpness == math.inf:\n        return cost",
        "    if sharpness == math.inf:\n        return 0.0 * cost",
    ),
)
