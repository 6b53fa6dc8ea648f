"""Errors planted in pseudo-labels and their solver for the claims of MI + margin."""

from __future__ import annotations

from ..planting import PlantedError

_ENERGY = "algos.pseudo_labels.energy."
_EM = "algos.pseudo_labels.em."
_SOLVER = "algos.pseudo_labels.solver."
_NEWTON = "algos.pseudo_labels._newton."

PLANTED: tuple[PlantedError, ...] = (
    # Energy and gap
    PlantedError(
        _ENERGY + "pseudo_label_energy",
        "sign",
        "return entropy - xp.sum(",
        "return entropy + xp.sum(",
    ),
    PlantedError(_ENERGY + "pseudo_label_energy", "factor", "beta / m *", "beta *"),
    PlantedError(
        _ENERGY + "pseudo_label_energy",
        "wrong formula",
        "target * _log(y, target)",
        "y * _log(target, y)",
    ),
    PlantedError(
        _ENERGY + "pseudo_label_energy", "dropped", "_log(mass / m, wanted", "_log(mass, wanted"
    ),
    PlantedError(
        _ENERGY + "pseudo_label_energy", "wrong operator", "mass = mass + xp", "mass = xp"
    ),
    PlantedError(
        _ENERGY + "pseudo_label_energy",
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
        "return (1.0 - epsilon) * xp.astype(sigma, xp.float64) + epsilon * shares",
        "return xp.astype(sigma, xp.float64)",
    ),
    PlantedError(_ENERGY + "floor_outputs", "dropped", "(1.0 - epsilon) * xp.astype", "xp.astype"),
    PlantedError(
        _ENERGY + "floor_outputs",
        "ignored argument",
        "check_problem(sigma, 0.0, 0.0, prior)",
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
    PlantedError(_EM + "em_step", "dropped", "(y / mass)", "y", ("M10",)),
    PlantedError(_EM + "em_step", "axis", "xp.sum(y, axis=0)", "xp.sum(y, axis=1, keepdims=True)"),
    PlantedError(
        _EM + "em_step",
        "ignored argument",
        "check_problem(sigma, fairness_weight, beta, prior, labels)",
        "check_problem(sigma, fairness_weight, beta, None, labels)",
    ),
    PlantedError(
        _EM + "em_step",
        "dropped",
        "fairness_weight * sigma.shape[0] * shares",
        "fairness_weight * shares",
    ),
    PlantedError(_EM + "em_labels", "off by one", "range(n_iter)", "range(n_iter - 1)"),
    PlantedError(
        _EM + "em_labels",
        "ignored argument",
        "floor_outputs(sigma, epsilon=epsilon, prior=prior)",
        "sigma",
    ),
    PlantedError(
        _EM + "em_labels",
        "ignored argument",
        "floor_outputs(sigma, epsilon=epsilon, prior=prior)",
        "floor_outputs(sigma, epsilon=epsilon)",
    ),
    PlantedError(
        _EM + "em_labels",
        "ignored argument",
        "fairness_weight=fairness_weight, beta=beta, prior=prior)",
        "balance=balance, u=u)",
    ),
    PlantedError(
        _EM + "em_labels",
        "wrong argument",
        "em_step(sigma, labels,",
        "em_step(labels, labels,",
        ("M10",),
    ),
    PlantedError(
        _EM + "em_labels", "wrong constant", "least = TINY if epsilon > 0 else 0.0", "least = TINY"
    ),
    # The solver
    PlantedError(
        _SOLVER + "pseudo_labels", "dropped", "m * fair * scaled", "fair * scaled", ("M7",)
    ),
    PlantedError(
        _SOLVER + "pseudo_labels",
        "ignored argument",
        "check_problem(sigma, fairness_weight, beta, prior)",
        "check_problem(sigma, fairness_weight, beta, None)",
    ),
    PlantedError(
        _SOLVER + "pseudo_labels", "ignored argument", "tol * weight", "1e3 * tol * weight"
    ),
    PlantedError(
        _SOLVER + "pseudo_labels",
        "wrong branch",
        "bound(problem, state) <= goal",
        "bound(problem, state) >= goal",
        ("M7",),
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
        _NEWTON + "_advance",
        "sign",
        "moved = block.labels + step * dy",
        "moved = block.labels - step * dy",
        claims=("M1", "M3", "M4"),
    ),
    PlantedError(
        _NEWTON + "init", "ignored argument", "if labels is not None:", "if False:", claims=("M3",)
    ),
    PlantedError(
        "algos.pseudo_labels._interior_point.Problem.targets",
        "dropped",
        "return self.weight * sigma",
        "return sigma",
        claims=("M1", "M3"),
    ),
)
