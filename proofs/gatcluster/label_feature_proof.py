"""GATCluster's printed proof of its Label Feature Theorem, in fractions: claim G4."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np

from ...algos.theory import label_features
from ..references.violations import unless, worst
from ..registry.claims import Status, claim
from .label_feature_report import report_violations


def _simplex_grid(k: int, steps: int) -> list[tuple[Fraction, ...]]:
    return [
        tuple(Fraction(c, steps) for c in counts)
        for counts in itertools.product(range(steps + 1), repeat=k)
        if sum(counts) == steps
    ]


def _square_length(row: tuple[Fraction, ...]) -> Fraction:
    return sum((x * x for x in row), Fraction(0))


def _is_one_hot(row: tuple[Fraction, ...]) -> bool:
    return sorted(row)[-1] == 1 and sum(x != 0 for x in row) == 1


@claim(
    id="G4",
    paper="GATCluster",
    place="Appendix C, and A3, A9 of Appendices B and C",
    statement="The printed proof of the Label Feature Theorem.",
    hypotheses="Those of G1.",
    status=Status.ERRATUM,
    derivation="""
    What does not hold as printed, and the repair:

    1. "||l_i||_2 = 1, 0 <= l_ih <= 0": of label features it is the sum that is 1, and the bounds
       are 0 and 1. As printed no l exists.
    2. A3 and A8, second line: the squares of y_ih and y_jh are missing. For y_i = y_j = (3/5, 4/5)
       it reads 4/5, not 0.
    3. A9 concludes l_i = l_j from y_i = y_j: that is A12, shown later. After A12 "A11 and A10"
       should be A11 and A12.
    4. The opposite of "every l_i is one-hot" is "*some* l_i has all entries below 1", not "every"
       one. With one one-hot row and one mixed row neither of the two printed cases applies.
    5. l_h^2 < l_h is false at l_h = 0. What is needed is that some entry lies strictly between 0
       and 1; entries that are 0 or 1 give equality.
    6. "r = 0 => l_i != l_j and l_i != l_j => r = 0, thus r = 0 => ..." should end in an
       equivalence.

    Row by row the proof is two lines: l_h^2 <= l_h with equality iff l_h is 0 or 1; hence
    sum l_h^2 = 1 = sum l_h iff all entries are 0 or 1, and as they sum to 1, iff l is one-hot.
    """,
    tolerance=1e-12,
    covers=("theory.label_features.check_label_features",),
)
def check_proof() -> float:
    """Return the violation, in fractions, of the repaired steps and of each slip being one."""
    violations = []
    for k, steps in ((2, 12), (3, 8), (4, 5)):
        for row in _simplex_grid(k, steps):
            one_hot = _is_one_hot(row)
            violations.append(unless((_square_length(row) == 1) == one_hot))
            violations.append(unless(_square_length(row) <= 1))
            violations.append(unless(all(x * x <= x for x in row)))
            pair = np.asarray([[float(x) for x in row]] * 2)
            report = label_features.check_label_features(pair, np.ones((2, 2)))
            violations.append(unless(report.one_hot == one_hot))
    rows = np.asarray([[float(x) for x in row] for row in _simplex_grid(3, 4)])
    for i, j in itertools.product(range(len(rows)), repeat=2):  # one row mixed, or both, or none
        for r in (np.ones((2, 2), dtype=np.bool_), np.eye(2, dtype=np.bool_)):
            violations.append(worst(*report_violations(rows[[i, j]], r)))
    y = (Fraction(3, 5), Fraction(4, 5))
    without_squares = sum((2 * a - 2 * a * a for a in y), Fraction(0))
    violations.append(unless(without_squares == Fraction(4, 5) and _square_length(y) == 1))
    mixed = ((Fraction(1), Fraction(0)), (Fraction(1, 2), Fraction(1, 2)))
    every = all(_is_one_hot(row) for row in mixed)
    opposite = all(x < 1 for row in mixed for x in row)
    violations.append(unless(not every and not opposite))
    violations.append(unless(not Fraction(0) ** 2 < Fraction(0)))
    for i, j in itertools.product(range(3), repeat=2):  # step 6, for one-hot rows with A7
        violations.append(unless((np.eye(3)[i] @ np.eye(3)[j] == 0.0) == (i != j)))
    return worst(*violations)
