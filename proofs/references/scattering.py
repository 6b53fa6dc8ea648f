"""ProPos's scattering losses written out cluster by cluster, apart from those of the library."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ...algos.losses.propos.prototypes import Prototypes
from .sphere_points import random_units

__all__ = ["all_valid", "log_sum_exp", "masked", "printed_psl"]

Floats = NDArray[np.float64]


def all_valid(vectors: Floats) -> Prototypes:
    """Return the prototypes of every cluster."""
    return Prototypes(vectors, np.ones(vectors.shape[0], dtype=np.bool_))


def log_sum_exp(x: Floats) -> float:
    """Return the logarithm of the sum of the exponentials."""
    return float(np.max(x) + np.log(np.sum(np.exp(x - np.max(x)))))


def printed_psl(online: Floats, target: Floats, tau: float, own: str, others: str) -> float:
    """Return PSL with the views of the denominator's own term and of the others named."""
    total, k = 0.0, online.shape[0]
    views = {"online": online, "target": target}
    for i in range(k):
        terms = [math.exp(float(online[i] @ views[own][i]) / tau)]
        terms += [math.exp(float(online[i] @ views[others][j]) / tau) for j in range(k) if j != i]
        total += -float(online[i] @ target[i]) / tau + math.log(sum(terms))
    return float(total / k)


def masked(seed: int, n: int, d: int) -> tuple[Prototypes, Prototypes]:
    """Return two views, each without some clusters, whose rows hold what must not count."""
    rng = np.random.default_rng(seed)
    x, y = random_units(seed, n, d), random_units(seed + 50, n, d)
    one, two = rng.random((2, n)) < 0.8
    return Prototypes(x, one), Prototypes(y, two)
