"""Errors planted in label features and relations for the claims of GATCluster."""

from __future__ import annotations

from ..planting import PlantedError

_FEATURES = "algos.theory.label_features."
_EQUIVALENCE = "algos.theory.equivalence."
_RELATIONS = "algos.losses.gatcluster.relations."

PLANTED: tuple[PlantedError, ...] = (
    # Label features and relations
    PlantedError(
        _FEATURES + "label_feature_value",
        "ignored argument",
        "_pairs(x, r, 0.0)",
        "_pairs(x, r | True, 0.0)",
    ),
    PlantedError(
        _FEATURES + "label_feature_value",
        "dropped",
        "_value(x, _pairs(x, r, 0.0)[0])",
        "_pairs(x, r, 0.0)[0]",
    ),
    PlantedError(
        _FEATURES + "label_feature_value", "sign", "return _value(x,", "return -_value(x,"
    ),
    PlantedError(
        _FEATURES + "_value",
        "dropped",
        "cost - float(compat.array_namespace(x).sum(x * x))",
        "cost",
        ("G1", "G2", "G3"),
    ),
    PlantedError(
        _FEATURES + "_value", "sign", "cost - float(", "cost + float(", ("G1", "G2", "G3")
    ),
    PlantedError(
        _FEATURES + "_value", "wrong formula", ".sum(x * x)", ".sum(x)", ("G1", "G2", "G3")
    ),
    PlantedError(
        _FEATURES + "_value",
        "wrong branch",
        "if cost < math.inf else cost",
        "if cost < math.inf else 100.0",
        ("G1", "G2", "G3"),
    ),
    PlantedError(
        _FEATURES + "_pairs",
        "factor",
        "cost = cost - float(xp.sum(logs))",
        "cost = cost - 0.5 * float(xp.sum(logs))",
        ("G1", "G3"),
    ),
    PlantedError(
        _FEATURES + "_pairs",
        "wrong branch",
        "xp.where(r[i:end, :], d, 1.0 - d)",
        "xp.where(r[i:end, :], 1.0 - d, d)",
        ("G1", "G2", "G3"),
    ),
    PlantedError(
        _FEATURES + "_pairs", "dropped", "    y = project_sphere(x)", "    y = x", ("G1", "G2")
    ),
    PlantedError(
        _FEATURES + "_pairs",
        "dropped",
        "cost = cost - float(xp.sum(logs))",
        "cost = -float(xp.sum(logs))",
        ("G1",),
    ),
    PlantedError(
        _FEATURES + "_pairs",
        "wrong index",
        "xp.where(r[i:end, :], d",
        "xp.where(r[: end - i, :], d",
        ("G1",),
    ),
    PlantedError(
        _FEATURES + "_pairs",
        "wrong index",
        "columns < columns[i:end, None]",
        "columns < columns[: end - i, None]",
        ("G1",),
    ),
    PlantedError(
        _FEATURES + "_pairs",
        "wrong reduction",
        "agree and bool(xp.all(q",
        "agree and bool(xp.any(q",
        ("G1", "G4"),
    ),
    PlantedError(
        _FEATURES + "_pairs", "wrong reduction", "gaps = xp.max(", "gaps = xp.min(", ("G1", "G4")
    ),
    PlantedError(
        _FEATURES + "_pairs",
        "wrong operator",
        "bool(xp.all(equal == r[i:end, :]))",
        "bool(xp.all(equal <= r[i:end, :]))",
        ("G1", "G4"),
    ),
    PlantedError(
        _FEATURES + "_pairs",
        "wrong operator",
        "bool(xp.all(equal == r[i:end, :]))",
        "bool(xp.all(equal >= r[i:end, :]))",
        ("G1", "G4"),
    ),
    PlantedError(
        _FEATURES + "_pairs",
        "dropped",
        "separated = separated and bool(",
        "separated = bool(",
        ("G1",),
    ),
    PlantedError(
        _FEATURES + "_pairs",
        "inequality",
        "(columns < columns",
        "(columns <= columns",
        ("G1", "G4"),
    ),
    PlantedError(
        _FEATURES + "_pairs",
        "wrong reduction",
        "~xp.any(earlier, axis=1)",
        "~xp.all(earlier, axis=1)",
        ("G1", "G4"),
    ),
    PlantedError(
        _FEATURES + "check_label_features",
        "dropped",
        "attained=agree and one_hot",
        "attained=agree",
    ),
    PlantedError(
        _FEATURES + "check_label_features",
        "dropped",
        "attained=agree and one_hot",
        "attained=one_hot",
    ),
    PlantedError(
        _FEATURES + "check_label_features",
        "wrong reduction",
        "one_hot = bool(xp.all(",
        "one_hot = bool(xp.any(",
    ),
    PlantedError(_FEATURES + "check_label_features", "dropped", "<= tol)) and simplex", "<= tol))"),
    PlantedError(
        _FEATURES + "check_label_features",
        "wrong reduction",
        "bool(xp.all(mass > n * tol))",
        "bool(xp.any(mass > n * tol))",
    ),
    PlantedError(
        _FEATURES + "check_label_features",
        "axis",
        "mass = xp.sum(x, axis=0)",
        "mass = xp.sum(x, axis=1)",
    ),
    PlantedError(
        _FEATURES + "check_label_features",
        "dropped",
        "xp.maximum(xp.abs(sums - 1.0), xp.clip(-xp.min(x, axis=1), min=0.0))",
        "xp.abs(sums - 1.0)",
    ),
    PlantedError(
        _FEATURES + "check_label_features",
        "ignored argument",
        "_pairs(x, r, tol)",
        "_pairs(x, r, 1e-9)",
    ),
    PlantedError(
        _FEATURES + "check_label_features",
        "swapped bounds",
        "lower_bound=-float(n)",
        "lower_bound=-float(k)",
    ),
    PlantedError(
        _FEATURES + "check_label_features",
        "wrong argument",
        "check_relations(relations, k)",
        "check_relations(relations, n)",
    ),
    PlantedError(
        _FEATURES + "check_label_features", "dropped", "broken = list(report.broken)", "broken = []"
    ),
    PlantedError(
        _FEATURES + "LabelFeatureReport.hypotheses_hold",
        "wrong operator",
        "return not self.broken",
        "return self.simplex",
        ("G1",),
    ),
    PlantedError(
        _EQUIVALENCE + "check_relations",
        "dropped",
        "diagonal = (at[:, None] == at) & ~r",
        "diagonal = (at[:, None] == 0) & (at == 0) & ~r",
    ),
    PlantedError(
        _EQUIVALENCE + "check_relations",
        "wrong formula",
        "lopsided = r & ~xp.matrix_transpose(r)",
        "lopsided = r & ~r",
    ),
    PlantedError(
        _EQUIVALENCE + "check_relations",
        "wrong operator",
        "wrong = r != (first[:, None] == first)",
        "wrong = r & ~(first[:, None] == first)",
    ),
    PlantedError(
        _EQUIVALENCE + "check_relations",
        "wrong operator",
        "wrong = r != (first[:, None] == first)",
        "wrong = ~r & (first[:, None] == first)",
    ),
    PlantedError(
        _EQUIVALENCE + "check_relations", "inequality", "if n_classes < k:", "if n_classes <= k:"
    ),
    PlantedError(
        _EQUIVALENCE + "check_relations", "swapped bounds", "if n_classes > k:", "if n_classes > n:"
    ),
    PlantedError(
        _EQUIVALENCE + "check_relations",
        "wrong index",
        "triple = (i, h, c_h)",
        "triple = (i, c_i, h)",
    ),
    PlantedError(
        _EQUIVALENCE + "check_relations", "wrong branch", "elif c_i < c_h:", "elif c_i > c_h:"
    ),
    PlantedError(
        _EQUIVALENCE + "check_relations", "off by one", "first == at, xp", "first <= at, xp"
    ),
    PlantedError(
        _EQUIVALENCE + "as_relation",
        "wrong operator",
        "return relations == 1",
        "return relations == 0",
        ("G1", "G7"),
    ),
    PlantedError(
        _RELATIONS + "relation_matrix",
        "wrong operator",
        "labels[..., :, None] == labels[..., None, :]",
        "labels[..., :, None] <= labels[..., None, :]",
    ),
    PlantedError(
        _RELATIONS + "relation_matrix",
        "axis",
        "labels[..., :, None] == labels[..., None, :]",
        "labels[:, None] == labels[None, :]",
    ),
    PlantedError(
        _RELATIONS + "relation_matrix",
        "wrong formula",
        "labels[..., :, None] == labels[..., None, :]",
        "abs(labels[..., :, None] - labels[..., None, :]) <= 1",
    ),
    PlantedError(
        _RELATIONS + "usable_labels", "rounding", "math.ceil(min_share", "math.floor(min_share"
    ),
    PlantedError(
        _RELATIONS + "usable_labels", "wrong constant", "min_share * n / k", "min_share * n"
    ),
    PlantedError(
        _RELATIONS + "usable_labels", "wrong reduction", "xp.min(counts)", "xp.max(counts)"
    ),
    PlantedError(
        _RELATIONS + "usable_labels", "inequality", "xp.min(counts) >=", "xp.min(counts) >"
    ),
    PlantedError(
        _RELATIONS + "usable_labels", "wrong branch", ", labels, alone)", ", alone, labels)"
    ),
    PlantedError(
        _RELATIONS + "usable_labels",
        "wrong constant",
        "min_share: float = 0.1",
        "min_share: float = 0.2",
    ),
    PlantedError(_RELATIONS + "relation_loss", "sign", "costs = -xp.log", "costs = xp.log"),
    PlantedError(
        _RELATIONS + "relation_loss",
        "ignored argument",
        "labels, labels, floor))",
        "labels, labels, 1e-5))",
    ),
    PlantedError(
        _RELATIONS + "relation_loss",
        "wrong argument",
        "xp.sum(costs), logits.shape[0], floor",
        "xp.sum(costs), logits.shape[1], floor",
    ),
    PlantedError(
        _RELATIONS + "_pair_mean", "sign", "total - n * math", "total + n * math", ("G1", "G11")
    ),
    PlantedError(
        _RELATIONS + "_pair_mean", "wrong constant", "(n * (n + 1))", "(n * n)", ("G1", "G11")
    ),
    PlantedError(
        _RELATIONS + "_unit_labels",
        "wrong formula",
        "u / xp.sqrt(xp.sum(u * u, axis=1, keepdims=True))",
        "u / xp.sum(u, axis=1, keepdims=True)",
        ("G1", "G11"),
    ),
    PlantedError(
        _RELATIONS + "_agreement",
        "wrong operator",
        "labels[:, None] == other_labels",
        "labels[:, None] != other_labels",
        ("G1", "G11"),
    ),
    PlantedError(
        _RELATIONS + "_agreement",
        "factor",
        "(1.0 - 2.0 * floor) * q",
        "(1.0 - floor) * q",
        ("G1", "G11"),
    ),
)
