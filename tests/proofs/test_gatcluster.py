"""The claims of GATCluster: each stands as it is, and each notices a planted error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dualclust.algos import attention, equivalence, gatcluster, label_features, metrics, relations
from dualclust.proofs import gatcluster as claims
from dualclust.proofs import gatcluster_tables, gatcluster_targets, label_feature_theorem
from dualclust.proofs.registry import REGISTRY, Status
from tests.proofs.planted import assert_noticed

ALGOS = "dualclust.algos."
THEOREM = "dualclust.proofs.label_feature_theorem."
TARGETS = "dualclust.proofs.gatcluster_targets."
TABLES = "dualclust.proofs.gatcluster_tables."

# The replacements below call the functions as they were when this module was imported.
value, check_features = label_features.label_feature_value, label_features.check_label_features
polygon_map = label_features.polygon_map
relation_matrix, check_relations = relations.relation_matrix, equivalence.check_relations
relation, dac_value = label_feature_theorem._relation, label_feature_theorem._dac_value
square_length = label_feature_theorem._square_length
balanced_targets, entropy_loss = gatcluster.balanced_targets, gatcluster.entropy_loss
transformation_loss, gatcluster_loss = gatcluster.transformation_loss, gatcluster.gatcluster_loss
attention_map, isotropic = attention.attention_map, attention.isotropic_gaussian
full_gaussian, clustering_scores = attention.full_gaussian, metrics.clustering_scores
in_parts, information = gatcluster_targets._in_parts, gatcluster_tables._information


def unordered_pairs(features: Any, r: Any) -> float:
    """Half of the cross-entropies: a slip that no value of a one-hot assignment shows."""
    squares = float(np.sum(np.asarray(features) ** 2))
    return 0.5 * (value(features, r) + squares) - squares


def capped(features: Any, r: Any) -> float:
    """A cross-entropy that is clamped, as released."""
    return min(value(features, r), 100.0)


def uncritical(features: Any, r: Any, **kwargs: Any) -> Any:
    """A report that takes every relation for one of k classes."""
    report = check_features(features, r, **kwargs)
    return report._replace(relations=report.relations._replace(broken=(), triple=None))


def lenient(features: Any, r: Any) -> Any:
    return check_features(features, r, tol=0.1)._replace(one_hot=True)


def one_path(labels: Any) -> Any:
    """Relations from a threshold: the neighbors in a chain are related."""
    close: Any = np.abs(np.subtract.outer(labels, labels)) <= 1
    return close


def apart(labels: Any) -> Any:
    return relation_matrix(np.arange(len(labels)))


def overwritten_entropy(logits: Any) -> Any:
    """The mean entropy of the rows, for the entropy of the mean."""
    p = np.exp(logits - np.log(np.sum(np.exp(logits), axis=-1, keepdims=True)))
    return np.mean(np.sum(p * np.log(np.where(p > 0, p, 1.0)), axis=-1))


def relu_gaussian(raw: Any) -> Any:
    """The paper's delta, without a least value."""
    found = isotropic(raw)
    delta = np.maximum(raw[2], 0.0)
    return found._replace(variances=np.asarray([delta, delta]))


def tilted_too_far(raw: Any) -> Any:
    found = full_gaussian(raw)
    return found._replace(correlation=1.02 * found.correlation / np.abs(found.correlation))


def swapped_weights(x: Any, y: Any, labels: Any, t: Any, a: Any) -> Any:
    weights = gatcluster.LossWeights(transformation=5.0, attention=3.0, entropy=5.0)
    return gatcluster_loss(x, y, labels, t, a, weights=weights)


def with_the_tail(x: Any, first: Any, second: Any, size: int, training: bool = False) -> Any:
    done = in_parts(x, first, second, size, training)
    rest = gatcluster_targets._network(x[done.shape[0] :], first, second)
    return np.concatenate([done, rest])


def sorted_targets(logits: Any, **kwargs: Any) -> Any:
    """Keeps the order of every row, as the paper says."""
    found = np.asarray(balanced_targets(logits, **kwargs))
    order = np.argsort(np.argsort(logits, axis=1), axis=1)
    return np.take_along_axis(np.sort(found, axis=1), order, axis=1)


PLANTED: list[tuple[str, str, Callable[..., Any] | Any]] = [
    ("G1", ALGOS + "label_features.label_feature_value", unordered_pairs),
    ("G1", ALGOS + "label_features.label_feature_value", capped),
    ("G1", ALGOS + "label_features.check_label_features", uncritical),
    ("G1", THEOREM + "_relation", lambda sizes: np.eye(sum(sizes), dtype=np.bool_)),
    ("G2", ALGOS + "label_features.label_feature_value", capped),
    ("G2", ALGOS + "relations.relation_matrix", apart),
    ("G3", ALGOS + "label_features.label_feature_value", capped),
    ("G3", ALGOS + "relations.relation_matrix", apart),
    ("G3", THEOREM + "_dac_value", lambda x, r: dac_value(x, r) - float(np.sum(x * x))),
    ("G4", THEOREM + "_square_length", lambda row: sum(row)),
    ("G4", THEOREM + "_is_one_hot", lambda row: all(x * x < 1 for x in row)),
    ("G4", ALGOS + "label_features.check_label_features", lenient),
    (
        "G5",
        ALGOS + "gatcluster.transformation_loss",
        lambda x, t: transformation_loss(x, t) / np.linalg.norm(t, axis=1),
    ),
    ("G6", ALGOS + "gatcluster.balanced_targets", lambda x, **_: balanced_targets(0.001 * x)),
    ("G6", TARGETS + "_printed_targets", lambda x: x),
    ("G7", ALGOS + "relations.relation_matrix", one_path),
    (
        "G7",
        ALGOS + "equivalence.check_relations",
        lambda r, k: check_relations(r, k)._replace(transitive=True),
    ),
    ("G8", ALGOS + "gatcluster.entropy_loss", overwritten_entropy),
    ("G8", ALGOS + "gatcluster.entropy_loss", lambda x: entropy_loss(x) / np.log(2.0)),
    (
        "G9",
        ALGOS + "attention.attention_map",
        lambda g, size, alpha=0.1: attention_map(g, size, alpha=0.5 * alpha),
    ),
    ("G9", ALGOS + "attention.isotropic_gaussian", relu_gaussian),
    ("G9", ALGOS + "attention.full_gaussian", tilted_too_far),
    ("G10", ALGOS + "gatcluster.balanced_targets", sorted_targets),
    ("G11", ALGOS + "gatcluster.gatcluster_loss", swapped_weights),
    ("G11", ALGOS + "gatcluster.entropy_loss", lambda x: -entropy_loss(x)),
    (
        "G12",
        ALGOS + "gatcluster.balanced_targets",
        lambda x: np.exp(x - np.log(np.sum(np.exp(x), axis=1, keepdims=True))),
    ),
    ("G12", TARGETS + "_in_parts", with_the_tail),
    (
        "G13",
        ALGOS + "metrics.clustering_scores",
        lambda y, t: clustering_scores(y, t)._replace(nmi_geometric=clustering_scores(y, t).nmi),
    ),
    (
        "G13",
        ALGOS + "metrics.clustering_scores",
        lambda y, t: clustering_scores(y, t)._replace(acc=float(np.mean(y == t))),
    ),
    ("G13", TABLES + "_information", lambda y, t: (information(y, t)[0], 1.0, 1.0)),
    ("G14", TABLES + "STL10", gatcluster_tables.STL10 | {"GATCluster": (0.58, 0.45, 0.36)}),
    (
        "G14",
        TABLES + "IMAGENET_10",
        gatcluster_tables.IMAGENET_10 | {"GATCluster": (0.762, 0.609, 0.572)},
    ),
    (
        "G15",
        TABLES + "ABLATION",
        gatcluster_tables.ABLATION | {"No TI": (0.576, 0.536, 0.016)},  # the full setting ahead
    ),
    ("G15", TABLES + "_welch", lambda a, b, n: 0.01),
    ("G17", TABLES + "IMAGE_SIZE", gatcluster_tables.IMAGE_SIZE | {96: (0.678, 0.02)}),
    ("G17", TABLES + "_welch", lambda a, b, n: 0.049),
    (
        "G18",
        TABLES + "RESOLUTION",
        gatcluster_tables.RESOLUTION | {8: ((0.742, 0.719, 0.018), (0.608, 0.584))},
    ),
    ("G18", TABLES + "_welch", lambda a, b, n: 0.04),
    ("G19", ALGOS + "label_features.polygon_map", lambda x: polygon_map(x**2)),
    ("G19", ALGOS + "label_features.polygon_map", lambda x: polygon_map(x[..., ::-1])),
]

IDS = [c.id for c in REGISTRY.values() if c.paper == "GATCluster"]


def test_every_row_is_registered() -> None:
    assert claims.__all__
    assert sorted(IDS, key=lambda i: int(i[1:])) == [f"G{i}" for i in range(1, 20)]


@pytest.mark.parametrize(("claim_id", "target", "replacement"), PLANTED)
def test_a_planted_error_is_noticed(
    claim_id: str, target: str, replacement: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_noticed(claim_id, monkeypatch, target, replacement)


def test_every_claim_that_is_not_empirical_has_its_planted_errors() -> None:
    planted = {(claim_id, target) for claim_id, target, _ in PLANTED}
    listed = {(i, target) for i in IDS for target in REGISTRY[i].mutations}
    assert planted == listed
    bare = [i for i in IDS if not REGISTRY[i].mutations]
    assert all(REGISTRY[i].status is Status.EMPIRICAL for i in bare)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "k"), [(6, 3), (6, 4), (7, 2)])
def test_larger_enumerations_of_the_theorem(n: int, k: int) -> None:
    assert label_feature_theorem._enumeration_violation(n, k) == 0.0


@pytest.mark.parametrize("k", [2, 3, 4])
def test_an_enumeration_can_fail(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(label_features, "label_feature_value", lambda x, r: -float(len(x)))
    assert label_feature_theorem._enumeration_violation(3, k) > 0.0
