"""Small problems of hostile shapes, drawn from a generator of random numbers."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Drawn",
    "draw_counts",
    "draw_problem",
    "draw_scores",
    "draw_start",
    "draw_weights",
    "draw_wild_start",
]

Array = NDArray[Any]
Rng = np.random.Generator


class Drawn(NamedTuple):
    """Scores in their own dtype, and sizes; `weights` in float64, or none."""

    scores: Array
    lower: Array
    upper: Array
    weights: Array | None


def draw_shape(rng: Rng) -> tuple[int, int]:
    """Rows and clusters: mostly few, k up to n."""
    n = int(rng.choice([1, 2, 3, *range(4, 41)]))
    if rng.random() < 0.04:
        n = int(rng.integers(41, 301))
    k = int(rng.integers(1, max(n, 1) + 1)) if rng.random() < 0.5 else int(rng.integers(1, 7))
    if rng.random() < 0.1:
        k = max(1, n - int(rng.integers(0, 3)))
    return n, min(k, 60)


def spread() -> int:
    """Largest exponent of scores and weights, 12 unless ``RANDOM_PROBLEMS_SPREAD`` says more.

    Beyond 1e-290 and 1e290 some sums are subnormal or overflow: `make slow` goes there, up to 307.
    """
    return int(os.environ.get("RANDOM_PROBLEMS_SPREAD", "12"))


def draw_scores(rng: Rng, n: int, k: int) -> Array:
    """An (n, k) array of float16, float32 or float64, without forbidden pairs."""
    kinds = [
        _normal, _normal, _integers, _ties, _duplicates, _rank_one, _constant, _constant_rows,
        _crowded, _denormal, _mixed_rows, _mixed_entries, _clusters,
    ]  # fmt: skip
    scores = kinds[rng.integers(len(kinds))](rng, n, k)
    dtype = rng.choice(["float64", "float64", "float32", "float16"])
    kind = rng.random()
    with np.errstate(over="ignore", under="ignore"):
        if kind < 0.15:
            scores = scores * 10.0 ** float(rng.integers(-spread(), spread()))
        elif kind < 0.3:
            scores = scores * 10.0 ** float(rng.integers(-8, 9))
        elif kind < 0.35:
            scores = scores + 10.0 ** float(rng.integers(0, 17))
        top = float(np.finfo(dtype).max)
        return np.clip(np.nan_to_num(scores, posinf=top), -top, top).astype(dtype)


def _normal(rng: Rng, n: int, k: int) -> Array:
    return rng.normal(size=(n, k))


def _integers(rng: Rng, n: int, k: int) -> Array:
    return rng.integers(-3, 4, (n, k)).astype(float)


def _ties(rng: Rng, n: int, k: int) -> Array:
    return rng.integers(0, 2, (n, k)).astype(float)


def _duplicates(rng: Rng, n: int, k: int) -> Array:
    rows = rng.normal(size=(int(rng.integers(1, 4)), k))
    return rows[rng.integers(0, len(rows), n)]


def _rank_one(rng: Rng, n: int, k: int) -> Array:
    return np.outer(rng.normal(size=n), rng.normal(size=k))


def _constant(rng: Rng, n: int, k: int) -> Array:
    return np.full((n, k), rng.choice([0.0, -0.0, 1.0, -1.0, 0.1]))


def _constant_rows(rng: Rng, n: int, k: int) -> Array:
    return np.repeat(rng.normal(size=(n, 1)), k, axis=1)


def _crowded(rng: Rng, n: int, k: int) -> Array:
    return 1.0 + 10.0 ** float(rng.integers(-16, -3)) * rng.normal(size=(n, k))


def _denormal(rng: Rng, n: int, k: int) -> Array:
    return rng.integers(-4, 5, (n, k)) * max(10.0 ** -spread(), 5e-324)


def _mixed_rows(rng: Rng, n: int, k: int) -> Array:
    top = float(rng.choice([3, 20, 150, 300]))
    top = min(top, spread())
    return rng.normal(size=(n, k)) * 10.0 ** rng.uniform(-top, top, (n, 1))


def _mixed_entries(rng: Rng, n: int, k: int) -> Array:
    top = float(rng.choice([3, 20, 150, 300]))
    top = min(top, spread())
    return rng.normal(size=(n, k)) * 10.0 ** rng.uniform(-top, top, (n, k))


def _clusters(rng: Rng, n: int, k: int) -> Array:
    """Cosines of a mixture of Zipf weights with its centers."""
    weights = 1.0 / np.arange(1, k + 1)
    member = rng.choice(k, size=n, p=weights / weights.sum())
    centers = rng.normal(size=(k, 8))
    rows = centers[member] + 10.0 ** rng.uniform(-2, 1) * rng.normal(size=(n, 8))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)) @ (
        centers / np.linalg.norm(centers, axis=1, keepdims=True)
    ).T


def draw_counts(rng: Rng, n: int, k: int) -> tuple[Array, Array]:
    """Bounds that some labels keep, from equal ones to none at all."""
    kind = rng.random()
    if kind < 0.2:
        counts = np.full(k, n // k)
        counts[: n % k] += 1
    elif kind < 0.4:
        weights = 1.0 / np.arange(1, k + 1) ** rng.uniform(0.5, 2.0)
        counts = rng.multinomial(n, weights / weights.sum())
    elif kind < 0.5:
        counts = np.zeros(k, dtype=np.int64)
        counts[rng.integers(k)] = n
    else:
        counts = np.bincount(rng.integers(0, k, n), minlength=k)
    below, above = rng.choice([0, 0, 1, 3, n + 1], 2)
    lower = np.maximum(counts - rng.integers(0, below + 1, k), 0)
    upper = np.minimum(counts + rng.integers(0, above + 1, k), n)
    return lower.astype(np.int64), np.maximum(upper, lower).astype(np.int64)


def draw_weights(rng: Rng, n: int) -> Array | None:
    """Weights of the rows, mostly none: zeros, small numbers, or up to 1e300."""
    if n == 0 or rng.random() < 0.75:
        return None
    kind = rng.integers(4)
    if kind == 0:
        weights = rng.integers(0, 3, n).astype(float)
    elif kind == 1:
        weights = rng.random(n)
    else:
        weights = 10.0 ** rng.uniform(-spread(), spread() if kind == 2 else 0, n)
    return weights if weights.any() else None


def draw_problem(rng: Rng, *, forbids: bool = True) -> Drawn:
    """A problem of assignment, some with forbidden pairs and some of these infeasible."""
    n, k = draw_shape(rng)
    scores = draw_scores(rng, n, k)
    lower, upper = draw_counts(rng, n, k)
    if forbids and n and rng.random() < 0.25:
        labels = rng.integers(0, k, n)
        scores = np.where(rng.random((n, k)) < rng.uniform(0.0, 0.9), -np.inf, scores)
        scores = scores.astype(scores.dtype)
        if rng.random() < 0.7:  # some labels keep the bounds
            own = np.repeat(np.arange(k), lower)
            own = rng.permutation(np.concatenate([own, labels])[:n])
            replaced = np.isinf(scores[np.arange(n), own])
            scores[np.arange(n)[replaced], own[replaced]] = 0.0
            counts = np.bincount(own, minlength=k)
            lower, upper = np.minimum(lower, counts), np.maximum(upper, counts)
    return Drawn(scores, lower, upper, draw_weights(rng, n))


def draw_start(rng: Rng, scores: Array) -> tuple[Array | None, Array | None]:
    """Prices to start from of the scale of the scores, and how far they are off; mostly none."""
    k = scores.shape[1]
    if rng.random() < 0.6:
        return None, None
    finite = scores[np.isfinite(scores)].astype(np.float64)
    scale = float(np.median(np.abs(finite - np.median(finite)))) if finite.size else 1.0
    scale = min(scale, 1e300)
    prices = rng.normal(size=k) * scale * float(rng.choice([0.0, 0.1, 1.0, 10.0]))
    reach = scale * 10.0 ** rng.uniform(-3, 2, k) if rng.random() < 0.4 else np.zeros(k)
    return prices, reach if (reach > 0.0).all() else None


def draw_wild_start(rng: Rng, scores: Array) -> tuple[Array | None, Array | None]:
    """The same of any scale."""
    k = scores.shape[1]
    scale = 10.0 ** (rng.uniform(-300, 300) if rng.random() < 0.5 else rng.uniform(-20, 20))
    prices = rng.normal(size=k) * scale
    kind = rng.random()
    if kind < 0.15:
        prices = prices * 10.0 ** rng.uniform(-300, 0, k)
    elif kind < 0.25:
        prices = np.where(rng.random(k) < 0.5, 0.0, prices)
    reach = None
    if rng.random() < 0.4:
        reach = 10.0 ** rng.uniform(-300, 300) * rng.uniform(0.5, 2.0, k)
    return np.clip(prices, -1e300, 1e300), reach
