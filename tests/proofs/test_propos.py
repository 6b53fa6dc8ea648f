"""The claims of ProPos: verdicts, and errors in the parts of checks of the paper alone.

Errors in the library that they must notice are in `dualclust.proofs.planted.tables.propos`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dualclust.proofs import propos
from dualclust.proofs.propos import mixture, tables
from dualclust.proofs.references import lloyd, philox
from dualclust.proofs.registry.claims import REGISTRY, Status
from tests.proofs.planted import assert_noticed

TABLES = "dualclust.proofs.propos.tables."
VERDICTS = {
    "P1": (Status.EXTRA, "library"),
    "P2": (Status.HOLDS, "library"),
    "P3": (Status.ERRATUM, "library"),
    "P4": (Status.EXTRA, "library"),
    "P5": (Status.ERRATUM, "library"),
    "P6": (Status.EXTRA, "library"),
    "P7": (Status.REFUTED, "library"),
    "P8": (Status.HOLDS, "library"),
    "P9": (Status.REFUTED, "library"),
    "P10": (Status.HOLDS, "library"),
    "P11": (Status.REFUTED, "library"),
    "P12": (Status.HOLDS, "library"),
    "P13": (Status.ERRATUM, "library"),
    "P14": (Status.HOLDS, "library"),
    "P15": (Status.EXTRA, "paper"),
    "P16": (Status.REFUTED, "library"),
    "P17": (Status.REFUTED, "library"),
    "P18": (Status.EXTRA, "library"),
    "P19": (Status.REFUTED, "library"),
    "P20": (Status.HOLDS, "library"),
    "P21": (Status.HOLDS, "library"),
    "P22": (Status.REFUTED, "print"),
    "P23": (Status.ERRATUM, "print"),
    "P24": (Status.EMPIRICAL, "print"),
    "P25": (Status.EMPIRICAL, "library"),
    "P26": (Status.ERRATUM, "print"),
    "P27": (Status.EMPIRICAL, "print"),
    "P28": (Status.HOLDS, "library"),
    "P29": (Status.EMPIRICAL, "library"),
}
IDS = [c.id for c in REGISTRY.values() if c.paper == "ProPos"]

moving_objective = mixture._moving_objective
PLANTED: list[tuple[str, str, Any]] = [
    (
        "P15",
        "dualclust.proofs.propos.mixture._moving_objective",
        lambda sympy, theta, fixed: moving_objective(sympy, theta, theta),
    ),
    ("P22", TABLES + "STL_10", {n: (75.0, 86.0, 73.0) for n in ("CC", "TCL", "ProPos")}),
    ("P22", TABLES + "IMAGENET_10", dict.fromkeys(("IDFD", "ProPos"), (9, 9, 9))),
    (
        "P23",
        TABLES + "IMAGENET_DOGS",
        tables.IMAGENET_DOGS | {"TCL": (57.7, 62.1, 52.3)},  # for a gain of 20 percent
    ),
    ("P24", TABLES + "HOURS_BYOL", (9.0, 9.0, 14.7, 1.7, 2.6, 12.0)),
    ("P26", TABLES + "WITHOUT_ALIGNMENT", tables.FULL),
    ("P26", TABLES + "FULL", ((85.1, 0.01), (91.6, 0.01), (83.5, 0.01))),
    ("P27", TABLES + "FURTHER", {"ImageNet-50": ((82.8, 69.1), (82.2, 66.1), (0.6, 2.0))}),
]


def test_the_verdicts() -> None:
    assert propos.__all__
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


@pytest.mark.parametrize(("counter", "key", "answer"), philox.KNOWN_ANSWERS)
def test_the_reference_of_the_noise_has_the_known_answers(
    counter: tuple[int, ...], key: tuple[int, int], answer: tuple[int, ...]
) -> None:
    words = philox.random_words(np.asarray(counter, dtype=np.uint64), key)
    assert tuple(words.tolist()) == answer


def test_the_reference_of_lloyds_algorithm_finds_two_pairs() -> None:
    x = np.asarray([[0.0], [1.0], [10.0], [13.0]])
    found = lloyd.lloyd(x, x[:2], 10, spherical=False)
    assert found.labels.tolist() == [0, 0, 1, 1]
    assert found.centers[:, 0].tolist() == [0.5, 11.5]
    assert found.values == sorted(found.values)
    moved = lloyd.lloyd(x, np.asarray([[6.0], [99.0]]), 1, spherical=False)
    assert moved.centers[:, 0].tolist() == [6.0, 13.0]  # the farthest row
    kept = lloyd.lloyd(x, np.asarray([[6.0], [99.0]]), 1, spherical=False, relocate=False)
    assert kept.centers[:, 0].tolist() == [6.0, 99.0]
