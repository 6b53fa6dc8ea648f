"""The claims of GATCluster: verdicts, and errors in the parts of checks of the paper alone.

Errors in the library that they must notice are in `dualclust.proofs.planted.tables.gatcluster`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dualclust.algos.theory import label_features
from dualclust.proofs import gatcluster as claims
from dualclust.proofs.gatcluster import (
    label_feature_proof,
    label_feature_report,
    label_feature_theorem,
    tables,
    targets,
)
from dualclust.proofs.registry.claims import REGISTRY, Status
from tests.proofs.planted import assert_noticed

TABLES = "dualclust.proofs.gatcluster.tables."
TARGETS = "dualclust.proofs.gatcluster.targets."
VERDICTS = {
    "G1": (Status.EXTRA, "library"),
    "G2": (Status.REFUTED, "library"),
    "G3": (Status.EXTRA, "library"),
    "G4": (Status.ERRATUM, "library"),
    "G5": (Status.HOLDS, "library"),
    "G6": (Status.REFUTED, "library"),
    "G7": (Status.HOLDS, "library"),
    "G8": (Status.ERRATUM, "library"),
    "G9": (Status.ERRATUM, "library"),
    "G10": (Status.REFUTED, "library"),
    "G11": (Status.ERRATUM, "library"),
    "G12": (Status.EXTRA, "library"),
    "G13": (Status.HOLDS, "library"),
    "G14": (Status.ERRATUM, "print"),
    "G15": (Status.ERRATUM, "print"),
    "G16": (Status.EMPIRICAL, "paper"),
    "G17": (Status.REFUTED, "print"),
    "G18": (Status.ERRATUM, "print"),
    "G19": (Status.HOLDS, "library"),
}
IDS = [c.id for c in REGISTRY.values() if c.paper == "GATCluster"]


def in_one_part(x: Any, first: Any, second: Any, size: int, training: bool = False) -> Any:
    return targets._network(x, first, second, training)


PLANTED: list[tuple[str, str, Any]] = [
    ("G14", TABLES + "STL10", tables.STL10 | {"GATCluster": (0.58, 0.45, 0.36)}),
    (
        "G14",
        TABLES + "IMAGENET_10",
        tables.IMAGENET_10 | {"GATCluster": (0.762, 0.609, 0.572)},
    ),
    (
        "G15",
        TABLES + "ABLATION",
        tables.ABLATION | {"No TI": (0.576, 0.536, 0.016)},  # the full setting ahead
    ),
    ("G15", TABLES + "_welch", lambda a, b, n: 0.01),
    ("G16", TARGETS + "_in_parts", in_one_part),
    ("G17", TABLES + "IMAGE_SIZE", tables.IMAGE_SIZE | {96: (0.678, 0.02)}),
    ("G17", TABLES + "_welch", lambda a, b, n: 0.049),
    (
        "G18",
        TABLES + "RESOLUTION",
        tables.RESOLUTION | {8: ((0.742, 0.719, 0.018), (0.608, 0.584))},
    ),
    ("G18", TABLES + "_welch", lambda a, b, n: 0.04),
]


def test_the_verdicts() -> None:
    assert claims.__all__
    assert {i: (REGISTRY[i].status, REGISTRY[i].about) for i in IDS} == VERDICTS


@pytest.mark.parametrize(("claim_id", "target", "replacement"), PLANTED)
def test_a_planted_error_is_noticed(
    claim_id: str, target: str, replacement: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_noticed(claim_id, monkeypatch, target, replacement)


def test_every_mutation_listed_is_planted() -> None:
    planted = {(claim_id, target) for claim_id, target, _ in PLANTED}
    listed = {(i, target) for i in IDS for target in REGISTRY[i].mutations}
    assert planted == listed
    assert all(REGISTRY[i].about != "library" for i, _ in listed)


def test_one_hot_rows_in_fractions() -> None:
    one, half = label_feature_proof.Fraction(1), label_feature_proof.Fraction(1, 2)
    assert label_feature_proof._is_one_hot((one, 0 * one))
    assert not label_feature_proof._is_one_hot((half, half))
    assert label_feature_proof._square_length((half, half)) == half


def test_a_report_that_is_wrong_in_one_word_is_seen() -> None:
    """The second reading of single pairs disagrees with every changed field."""
    r, features = np.eye(3, dtype=np.bool_), np.eye(3)[[0, 1, 1]]
    right = label_features.check_label_features(features, r)
    assert max(label_feature_report.report_violations(features, r)) <= 1e-12
    for name in ("simplex", "nonempty", "attained", "one_hot", "separated"):
        wrong = right._replace(**{name: not getattr(right, name)})
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(label_features, "check_label_features", lambda *_, **__: wrong)  # noqa: B023
            assert max(label_feature_report.report_violations(features, r)) >= 1.0


@pytest.mark.slow
@pytest.mark.parametrize(("n", "k"), [(6, 3), (6, 4), (7, 2)])
def test_larger_enumerations_of_the_theorem(n: int, k: int) -> None:
    assert label_feature_theorem._enumeration_violation(n, k) == 0.0


@pytest.mark.parametrize("k", [2, 3, 4])
def test_an_enumeration_can_fail(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(label_features, "label_feature_value", lambda x, r: -float(len(x)))
    assert label_feature_theorem._enumeration_violation(3, k) > 0.0
