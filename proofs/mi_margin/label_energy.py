"""Lemma B.1 of MI + margin written out once more, apart from the library: energy, dual, residual.

With prices p and multipliers nu, ``nu_i > max_k p_k``, the dual of E is

``D = sum_k l_k (1 - ln(l_k / p_k)) + (1 / M) sum_i ( sum_k b_ik (1 - ln(b_ik / (nu_i - p_k))) -
nu_i )``,   ``l = lambda u``,  ``b = beta s``

by ``-b ln y + g y >= b (1 - ln(b / g))`` for every term, with equality at ``y = b / g``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

__all__ = ["Weights", "dual_value", "energy", "printed_duals", "printed_step", "residual"]

Floats = NDArray[np.float64]


class Weights(NamedTuple):
    """Weights lambda and beta, and the shares u."""

    fairness_weight: float
    beta: float
    prior: Floats

    @property
    def options(self) -> dict[str, Any]:
        """As keywords of the library's functions."""
        return self._asdict()


def energy(s: Floats, y: Floats, w: Weights) -> float:
    """Return E(y), with 0 ln 0 = 0 and inf where mass is missing."""
    fit = w.beta / len(s) * np.sum(xlogy(s, y))
    return -float(fit + np.sum(xlogy(w.fairness_weight * w.prior, np.mean(y, axis=0))))


def printed_duals(s: Floats, y: Floats, w: Weights) -> tuple[Floats, Floats]:
    """Return the prices ``lambda u / mean y`` and the least multipliers that are safe with them."""
    p = w.fairness_weight * w.prior / np.mean(y, axis=0)
    nu = np.maximum(w.beta + y @ p, np.max(p + w.beta * s, axis=1))
    return p, nu


def dual_value(s: Floats, p: Floats, nu: Floats, w: Weights) -> float:
    """Return D(p, nu): a lower bound on E over all labels on the simplex."""
    wanted, target = w.fairness_weight * w.prior, w.beta * s
    clusters = wanted - xlogy(wanted, wanted) + xlogy(wanted, p)
    entries = target - xlogy(target, target) + xlogy(target, nu[:, None] - p)
    return float(np.sum(clusters) + (np.sum(entries) - np.sum(nu)) / len(s))


def residual(s: Floats, y: Floats, w: Weights) -> float:
    """Return the largest ``|s - y (nu - p) / beta|``, for the prices and multipliers of y."""
    p = w.fairness_weight * w.prior / np.mean(y, axis=0)
    nu = w.beta + y @ p
    error = np.max(np.abs(s - y * (nu[:, None] - p) / w.beta))
    return float(max(error, np.max(p - nu[:, None]) / w.beta))


def printed_step(s: Floats, y: Floats, lam: float, n: float, u: Floats) -> Floats:
    """Return one sweep of Algorithm 1 as printed, with its N."""
    share = y / np.sum(y, axis=0)
    found: Floats = (s + lam * n * u * share) / (1.0 + lam * n * (share @ u)[:, None])
    return found
