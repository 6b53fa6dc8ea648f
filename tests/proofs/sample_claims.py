"""Claims for the tests of planted errors; nothing registers them on import."""

from __future__ import annotations

import os

import numpy as np

from dualclust.algos.bounds import sizes
from dualclust.algos.online import step_sizes
from dualclust.algos.scores import statistics
from dualclust.proofs.registry.claims import Status, claim


def step_of_a_theorem() -> float:
    """Sees errors of `theorem_steps`; never ends where the radius is 3."""
    rule = step_sizes.theorem_steps(5000, tau=2.0)
    while rule.l1_radius == 3.0:
        pass
    if rule.l1_radius == 4.0:
        os.abort()
    return abs(rule.step_size - 0.02)


def stride() -> float:
    """Reaches `strided_ids` and `median` without naming them."""
    ids = statistics.strided_ids(8, 5, np.zeros(1))
    return float(np.abs(ids - [0, 5, 2, 7, 4]).max()) + 0.0 * statistics.median(np.ones(3))


def bound() -> float:
    """Names `from_ratios` and does not look at what it returns."""
    sizes.SizeBounds.from_ratios(2, n_samples=4, lower=0.5)
    return 0.0


def always_wrong() -> float:
    """Does not stand, whatever the library does."""
    step_sizes.theorem_steps(5000, tau=2.0)
    return 1.0


CHECKS = {
    "Z1": (step_of_a_theorem, ("dualclust.algos.online.step_sizes.theorem_steps",)),
    "Z2": (stride, ()),
    "Z3": (bound, ("bounds.sizes.SizeBounds.from_ratios",)),
    "Z4": (always_wrong, ("online.step_sizes.theorem_steps",)),
}


def register() -> None:
    """Add the claims to the register of this process."""
    for claim_id, (check, covers) in CHECKS.items():
        claim(
            id=claim_id,
            paper="dualclust",
            place="tests",
            statement="A sample.",
            hypotheses="none",
            status=Status.HOLDS,
            derivation="none",
            covers=covers,
        )(check)
