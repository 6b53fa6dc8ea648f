r"""Runs of the online assignment that checks share: many streams at once, and tiny optima by trial.

The primal-dual step is that of `algos.online.duals` with nothing added (no caps, no completion),
for a leading axis of streams:

``y_i = argmax_k s_ik + rho_k - rho'_k``,   ``rho <- Pi( max(0, rho - h (c - m gamma / N)) )``

where Pi is CoKe's projection onto ``sum rho <= tau`` if a radius is given, else the identity.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...algos import bounds
from ...algos.core import projections
from ...algos.online import duals

__all__ = [
    "ENGINES",
    "Floats",
    "Ints",
    "Run",
    "best_by_trial",
    "counts_of",
    "cross_terms",
    "dyadic_runs",
    "dyadic_scores",
    "enforced_labels",
    "every_label",
    "orders",
    "prefix_counts",
    "run_online",
    "steered_scores",
    "values_of",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


STEPS = (0.25, 0.5, 1.0, 0.0625)

ENGINES: tuple[Literal["auto", "reference"], ...] = ("auto", "reference")
"""Modes of `backends.engine`: what is claimed of a kernel holds for its readable text as well."""


class Run(NamedTuple):
    """Labels (m, n), and prices before each batch and after the last, (m, t + 1, k) each."""

    labels: Ints
    lower: Floats
    upper: Floats


def run_online(
    scores: Floats,
    lower_share: Floats,
    upper_share: Floats | None = None,
    *,
    step_size: float,
    batch: int = 1,
    radius: float = math.inf,
    start: Floats | None = None,
) -> Run:
    """Label the streams `scores` (m, n, k) in their order, by prices alone.

    `step_size` is h = eta / b, per sample; `start` (k,) the lower prices before the first sample.
    """
    m, n, k = scores.shape
    first = np.zeros(k) if start is None else start
    prices = duals.Duals(np.tile(first, (m, 1)), np.zeros((m, k)))
    upper_share = np.ones(k) if upper_share is None else upper_share
    labels, history = [], [prices]
    for i in range(0, n, batch):
        y, prices = duals.assign_batch(
            scores[:, i : i + batch],
            prices,
            duals.DualRule(
                lower_share=lower_share,
                upper_share=upper_share,
                step_size=step_size,
                chunk_size=batch,
            ),
        )
        if not math.isinf(radius):
            prices = prices._replace(lower=projections.project_l1_ball(prices.lower, radius))
        labels.append(y)
        history.append(prices)
    return Run(
        np.concatenate(labels, axis=1),
        np.stack([p.lower for p in history], axis=1),
        np.stack([p.upper for p in history], axis=1),
    )


def enforced_labels(
    scores: Floats,
    limits: bounds.SizeBounds,
    *,
    step_size: float,
    chunk_size: int = 1,
    start: duals.Duals | None = None,
    free_sign: bool = False,
) -> tuple[Ints, duals.Duals]:
    """Return the labels (n,) and last prices of one pass by the rule of `assign`, sample by sample.

    Written out apart from the library, to be compared to the bit: use dyadic numbers. A cluster is
    closed at its upper bound, or at its lower one from the first sample on at which no more samples
    are left than are owed.
    """
    n, k = scores.shape
    low, high = np.asarray(limits.lower), np.asarray(limits.upper)
    rho, rho_up = np.zeros((2, k)) if start is None else np.asarray(start)
    counts, labels = np.zeros(k, dtype=np.int64), np.zeros(n, dtype=np.int64)
    for first in range(0, n, chunk_size):
        before, last = counts.copy(), min(first + chunk_size, n)
        for i in range(first, last):
            owed = sum(max(int(low[j] - counts[j]), 0) for j in range(k))
            ends = limits.n_samples is not None and owed >= limits.n_samples - i
            free = [j for j in range(k) if counts[j] < (low[j] if ends else high[j])]
            priced = scores[i] + (rho - rho_up)
            labels[i] = max(free, key=lambda j: (float(priced[j]), -j))
            counts[labels[i]] += 1
        taken, m = counts - before, last - first
        rho = rho - step_size * (taken - m * limits.lower_share)
        if not free_sign:
            rho = np.maximum(rho, 0.0)
            rho_up = np.maximum(rho_up + step_size * (taken - m * limits.upper_share), 0.0)
    return labels, duals.Duals(rho, rho_up)


def values_of(scores: Floats, labels: Ints) -> Floats:
    """Return ``sum_i s_{i, y_i}`` of each stream, (m,)."""
    chosen = np.take_along_axis(scores, labels[..., None], axis=-1)[..., 0]
    return np.asarray(chosen.sum(axis=-1))


def counts_of(labels: Ints, k: int) -> Ints:
    """Return the samples of each cluster in each stream, (m, k)."""
    return np.asarray((labels[..., None] == np.arange(k)).sum(axis=-2))


def cross_terms(prices: Floats, best: Ints, share: Floats) -> Floats:
    """Return ``sum_i rho^{i-1} . (gamma / N - mu*_i)`` of each stream, for batches of one, (m,)."""
    steps = prices[:, : best.shape[1]]
    at_best = np.take_along_axis(steps, best[..., None], axis=-1)[..., 0]
    return np.asarray((steps @ share - at_best).sum(axis=-1))


def every_label(n: int, k: int) -> Ints:
    """Return all k^n label vectors, (k^n, n)."""
    return np.array(list(itertools.product(range(k), repeat=n)), dtype=np.int64)


def orders(n: int) -> Ints:
    """Return all n! orders, (n!, n)."""
    return np.array(list(itertools.permutations(range(n))), dtype=np.int64)


def best_by_trial(scores: Floats, lower: Ints, upper: Ints | None = None) -> tuple[Floats, Ints]:
    """Return best value inside the bounds of each tiny problem, (m,), and its labels, (m, n)."""
    _, n, k = scores.shape
    every = every_label(n, k)
    counts = counts_of(every, k)
    upper = np.full(k, n) if upper is None else upper
    every = every[((lower <= counts) & (counts <= upper)).all(axis=1)]
    values = sum(scores[:, i, every[:, i]] for i in range(n))
    assert isinstance(values, np.ndarray)
    return values.max(axis=1), every[values.argmax(axis=1)]


def dyadic_scores(rng: np.random.Generator, shape: tuple[int, ...], top: int = 16) -> Floats:
    """Return the multiples of 1/16 in [-top/16, top/16].

    With steps that are powers of two, sums are exact.
    """
    return rng.integers(-top, top + 1, size=shape) / 16.0


def steered_scores(
    wish: Callable[[Floats, list[int]], int],
    n: int,
    lower_share: Floats,
    upper_share: Floats,
    *,
    step_size: float,
    reach: float = 1.0,
) -> Floats:
    """Return rows of range `reach` by which an adversary makes the prices label as it wishes.

    Before each sample `wish` sees the prices ``rho - rho'`` and the clusters that some row can
    make win, and names one of them; the row is `reach` there and 0 elsewhere. Returns (1, n, k).
    """
    k = lower_share.shape[0]
    rho, rho_up, unit = np.zeros(k), np.zeros(k), np.eye(k)
    rows = np.zeros((1, n, k))
    for i in range(n):
        prices = rho - rho_up
        wins = [j for j in range(k) if int(np.argmax(prices + reach * unit[j])) == j]
        y = wish(prices, wins)
        rows[0, i, y] = reach
        rho = np.maximum(0.0, rho - step_size * (unit[y] - lower_share))
        rho_up = np.maximum(0.0, rho_up + step_size * (unit[y] - upper_share))
    return rows


def _shares(rng: np.random.Generator, k: int) -> tuple[Floats, Floats]:
    """Return the shares in sixteenths with room on both sides of some sizes, often without any."""
    sizes = rng.multinomial(16, np.ones(k) / k)
    below, above = rng.integers(0, 4, size=k), rng.integers(0, 4, size=k)
    slack = rng.integers(0, 2)
    low = np.maximum(sizes - slack * below, 0) / 16.0
    return low, np.minimum(sizes + slack * above, 16) / 16.0


def _streams(seed: int, *, two_sided: bool) -> list[tuple[Floats, Floats, Floats, float, int]]:
    """Return the scores, both shares, h and b.

    They are every order of up to five samples, and longer streams.
    """
    rng, found = np.random.default_rng(seed), []
    for n in (2, 3, 4, 5):
        perms = orders(n)
        for k in (2, 3, 4):
            scores = dyadic_scores(rng, (8, n, k))[:, perms].reshape(-1, n, k)
            low, high = _shares(rng, k)
            found.append((scores, low, high, float(rng.choice(STEPS)), int(rng.integers(1, 4))))
    for k in (2, 3, 5, 8):
        for kind in ("any", "ties", "sorted"):
            scores = dyadic_scores(rng, (64, 128, k), 16 if kind == "any" else 2)
            if kind == "sorted":
                scores = np.sort(scores, axis=1)
            low, high = _shares(rng, k)
            found.append((scores, low, high, float(rng.choice(STEPS)), int(rng.integers(1, 9))))
    if not two_sided:
        return [(s, low, np.ones_like(low), h, b) for s, low, _, h, b in found]
    return found


def dyadic_runs(
    seed: int, *, two_sided: bool
) -> list[tuple[Floats, Floats, Floats, float, int, Run]]:
    """Run `_streams` as they are: scores, both shares, h and b, and what came of them."""
    return [
        (s, low, high, h, b, run_online(s, low, high, step_size=h, batch=b))
        for s, low, high, h, b in _streams(seed, two_sided=two_sided)
    ]


def prefix_counts(labels: Ints, k: int, batch: int) -> tuple[Ints, Ints]:
    """Return the samples and sizes after every batch, (t + 1,) and (m, t + 1, k)."""
    n = labels.shape[1]
    ends = np.minimum(np.arange(0, n + batch, batch), n)
    ends = np.unique(ends)
    one_hot = (labels[..., None] == np.arange(k)).astype(np.int64)
    running = np.concatenate([np.zeros_like(one_hot[:, :1]), np.cumsum(one_hot, axis=1)], axis=1)
    return ends, running[:, ends]
