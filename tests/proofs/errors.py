"""Errors to plant under the online assignment, as somebody might make them."""

from __future__ import annotations

from typing import Any

import numpy as np

from dualclust.algos import duals

ASSIGN, UPDATE = duals.assign_batch, duals.update_duals  # before anything is planted

ASSIGN_BATCH = "dualclust.algos.duals.assign_batch"
UPDATE_DUALS = "dualclust.algos.duals.update_duals"
PROJECT = "dualclust.algos.projections.project_l1_ball"


def least_wanted(scores: Any, prices: Any, **rule: Any) -> Any:
    """The argmin where the argmax belongs."""
    return ASSIGN(-scores, prices, **rule)


def frozen(scores: Any, prices: Any, **rule: Any) -> Any:
    """Prices that never move."""
    return ASSIGN(scores, prices, **rule)[0], prices


def greedy(scores: Any, prices: Any, **rule: Any) -> Any:
    """Prices that move, but are not looked at."""
    lower, upper = rule["lower_share"], rule["upper_share"]
    labels = np.argmax(scores, axis=-1)
    sizes = (labels[..., None] == np.arange(scores.shape[-1])).sum(axis=-2)
    n, step = scores.shape[-2], rule["step_size"]
    moved = UPDATE(prices, sizes, n, lower_share=lower, upper_share=upper, step_size=step)
    return labels, moved


def wrong_sign(prices: Any, sizes: Any, n: int, **rule: Any) -> Any:
    """Small clusters are made smaller."""
    return UPDATE(prices, sizes, n, **{**rule, "step_size": -rule["step_size"]})


def half_step(prices: Any, sizes: Any, n: int, **rule: Any) -> Any:
    """A lost factor."""
    return UPDATE(prices, sizes, n, **{**rule, "step_size": 0.5 * rule["step_size"]})


def rising(prices: Any, sizes: Any, n: int, **rule: Any) -> Any:
    """The samples of a cluster do not lower its price."""
    return UPDATE(prices, 0 * sizes, n, **rule)


def standing(prices: Any, sizes: Any, n: int, **rule: Any) -> Any:
    """No update at all."""
    return prices


def only_clipped(x: Any, radius: float) -> Any:
    """The sum is not bounded."""
    return np.clip(x, 0.0, None)


def rescaled(x: Any, radius: float) -> Any:
    """Scaled onto the simplex, which is not the nearest point of it."""
    p = np.clip(x, 0.0, None)
    total = p.sum(axis=-1, keepdims=True)
    return np.where(total > radius, p * radius / np.where(total > 0, total, 1.0), p)


def shrunk_and_moved(x: Any, radius: float) -> Any:
    """Off by a factor everywhere."""
    return 1.5 * np.clip(x, 0.0, None)
