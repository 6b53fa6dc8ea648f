"""Reports on label features and relations, written pair by pair to compare the library's with.

Loops over single pairs and entries, so that an axis, a reduction or a shortcut of the library is
not repeated here.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import NDArray

from ...algos.theory import equivalence, label_features
from ..references.violations import difference, excess, unless

__all__ = [
    "printed_relation_loss",
    "printed_value",
    "relation_violations",
    "report_violations",
]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def printed_value(features: Floats, r: Bools) -> float:
    """Return Eq. 2 over ordered pairs, with 0 log 0 = 0."""
    total = 0.0
    for i, j in itertools.product(range(len(features)), repeat=2):
        a, b = features[i], features[j]
        cosine = float(a @ b) / math.sqrt(float(a @ a) * float(b @ b))
        cosine = 1.0 if abs(cosine - 1.0) <= 1e-12 else cosine
        agreement = cosine if r[i, j] else 1.0 - cosine
        total += -math.log(agreement) if agreement > 0.0 else math.inf
    return total - float(np.sum(features * features))


def printed_relation_loss(features: Floats, labels: NDArray[np.int64], floor: float) -> float:
    """Return Eq. 7 over unordered pairs, i = j included, with agreements kept in [f, 1 - f]."""
    costs = []
    for i, j in itertools.combinations_with_replacement(range(len(features)), 2):
        a, b = features[i], features[j]
        cosine = float(a @ b) / math.sqrt(float(a @ a) * float(b @ b))
        agreement = cosine if labels[i] == labels[j] else 1.0 - cosine
        costs.append(-math.log(floor + (1.0 - 2.0 * floor) * agreement))
    return math.fsum(costs) / len(costs)


def relation_violations(r: Bools, k: int, found: equivalence.RelationReport) -> list[float]:
    """Return whether a report on relations says what each single entry, pair and triple says."""
    n = len(r)
    reflexive = all(r[i, i] for i in range(n))
    symmetric = all(r[i, j] == r[j, i] for i, j in itertools.product(range(n), repeat=2))
    triples = itertools.product(range(n), repeat=3)
    broken = {(i, j, h) for i, j, h in triples if r[i, j] and r[j, h] and not r[i, h]}
    equivalent = reflexive and symmetric and not broken
    number = len({tuple(row) for row in r.tolist()}) if equivalent else None
    words = [] if reflexive else ["not reflexive"]
    words += [] if symmetric else ["not symmetric"]
    if not words and broken:
        words = ["not transitive"]
    if number is not None and number != k:
        words = [f"{number} classes, {'fewer' if number < k else 'more'} than k = {k}"]
    violations = [
        unless(found.reflexive == reflexive and found.symmetric == symmetric),
        unless(found.transitive == equivalent),
        unless(found.n_classes == number),
        unless(len(found.broken) == len(words)),
        *(unless(w in text) for w, text in zip(words, found.broken, strict=False)),
    ]
    if reflexive and symmetric and broken:
        return [*violations, unless(found.triple in broken)]
    return [*violations, unless(found.triple is None)]


def report_violations(features: Floats, r: Bools, tol: float = 1e-9) -> list[float]:
    """Return whether a report on label features says what each single row, entry and pair says."""
    (n, k), found = features.shape, label_features.check_label_features(features, r, tol=tol)
    on_simplex = [abs(sum(row) - 1.0) <= tol and min(row) >= -tol for row in features.tolist()]
    one_hot = [max(row) >= 1.0 - tol for row in features.tolist()]
    mass = [float(np.mean(features[:, h])) for h in range(k)]
    equal = np.asarray([[np.max(np.abs(a - b)) <= tol for b in features] for a in features])
    separated = all(equal[i, j] == r[i, j] for i, j in itertools.product(range(n), repeat=2))
    right = all(on_simplex) and all(one_hot)
    value, empty = printed_value(features, r), [h for h in range(k) if mass[h] <= tol]
    outside = [i for i in range(n) if not on_simplex[i]]
    words = [f"row {i} is not on the simplex" for i in outside]
    kept = len(found.relations.broken)
    others = found.broken[kept:]
    both_infinite = value == math.inf and found.value == math.inf
    return [
        *relation_violations(r, k, found.relations),
        unless(found.broken[:kept] == found.relations.broken),
        unless(found.simplex == (not outside) and found.nonempty == (not empty)),
        0.0 if both_infinite else excess(difference(found.value, value), 1e-9),  # 1 - cos rounds
        difference(found.lower_bound, -float(n)),
        unless(found.one_hot == right and found.separated == separated),
        unless(found.attained == (right and separated)),
        unless(found.n_distinct == sum(not any(equal[i, :i]) for i in range(n))),
        unless(len(others) == bool(outside) + bool(empty)),
        unless(not outside or any(w in text for w in words for text in others)),
        unless(not empty or any(f"cluster {h} is empty" in t for h in empty for t in others)),
        unless(found.hypotheses_hold == (found.broken == ())),
    ]
