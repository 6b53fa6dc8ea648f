"""The parts of which the checks of GATCluster's theorem are made."""

from __future__ import annotations

import numpy as np
import pytest

from dualclust.algos.theory import label_features
from dualclust.proofs.gatcluster import (
    label_feature_proof,
    label_feature_report,
    label_feature_theorem,
)


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
