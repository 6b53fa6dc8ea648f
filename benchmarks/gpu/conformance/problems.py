"""Random instances of each kernel: arguments as NumPy arrays, and options."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["PROBLEMS", "Instance"]

Array = NDArray[Any]
Rng = np.random.Generator


class Instance(NamedTuple):
    """Arguments of a kernel, and how its result is compared: ``"bits"`` or ``"values"``."""

    name: str
    arrays: tuple[Array, ...]
    options: dict[str, Any]


def streams(rng: Rng, full: bool) -> Iterator[Instance]:
    """`assign_stream`: bounds of all kinds, with many ties and without, cold and warm prices."""
    sizes = [(512, 10), (4096, 130), (2000, 1000)] if full else [(48, 3), (40, 7)]
    kinds = ["ties", "normal", "float64", "infinite bounds", "free sign", "stream"]
    for n, k in sizes:
        for kind in kinds:
            ties = kind != "normal"
            scores = rng.integers(-16, 17, size=(n, k)) / 16.0 if ties else rng.normal(size=(n, k))
            scores[:, : max(1, k // 3)] += 0.5
            scores = scores.astype(np.float64 if kind == "float64" else np.float32)
            member = rng.choice(k, size=n, p=rng.dirichlet(np.ones(k)))
            counts = np.bincount(member, minlength=k)
            lower, upper = np.maximum(counts - 1, 0), counts + 1
            if kind == "infinite bounds":
                lower, upper = np.zeros(k, np.int64), np.full(k, n)
            if kind == "free sign":
                lower = upper = counts
            remaining = n
            if kind == "stream":
                remaining, lower, upper = -1, np.zeros(k, np.int64), np.full(k, 2**63 - 1)
            prices = rng.integers(0, 9, size=(2, k)) / 16.0
            options = {
                "lower_share": np.minimum(counts, lower if remaining >= 0 else counts) / n,
                "upper_share": np.minimum(upper, 2 * n) / n,
                "lower": lower.astype(np.int64),
                "upper": upper.astype(np.int64),
                "step_size": 2.0**-5 if ties else 0.01,
                "chunk_size": int(rng.choice([7, 64, n])),
                "remaining": remaining,
                "free_sign": kind == "free sign",
            }
            arrays = (scores, prices[0], prices[1], np.zeros(k, np.int64))
            yield Instance(f"{kind}, ({n}, {k}), chunk {options['chunk_size']}", arrays, options)


def candidates(rng: Rng, n: int, k: int, width: int, dtype: Any = np.float64) -> tuple[Array, ...]:
    """Some clusters of each row with their values; -1 and -inf where a row has fewer."""
    order = np.argsort(rng.random((n, k)), axis=1)[:, :width].astype(np.int32)
    lengths = rng.integers(1, order.shape[1] + 1, size=n)
    order[np.arange(order.shape[1]) >= lengths[:, None]] = -1
    values = np.take_along_axis(rng.normal(size=(n, k)), np.maximum(order, 0), axis=1)
    return np.where(order >= 0, values, -math.inf).astype(dtype), order


def shapes(full: bool) -> list[tuple[int, int, int]]:
    """Rows, clusters and candidates of a row."""
    return [(1, 1, 1), (300, 7, 7), (5000, 200, 16)] if full else [(1, 1, 1), (20, 5, 3)]


def smoothed(rng: Rng, full: bool) -> Iterator[Instance]:
    """`soft_counts`, sharp and soft."""
    for n, k, width in shapes(full):
        for temperature in (1e-6, 0.05, 10.0):
            values, clusters = candidates(rng, n, k, width)
            name = f"({n}, {k}), width {width}, temperature {temperature:g}"
            prices = rng.normal(size=k)
            yield Instance(name, (values, clusters, prices), {"temperature": temperature})


def _softmax(rng: Rng, n: int, k: int, width: int, temperature: float) -> tuple[Array, Array]:
    values, clusters = candidates(rng, n, k, width)
    shifted = (values - values.max(axis=1, keepdims=True)) / temperature
    p = np.exp(shifted)
    return p / p.sum(axis=1, keepdims=True), clusters


def curvatures(rng: Rng, full: bool) -> Iterator[Instance]:
    """`curvature`."""
    for n, k, width in shapes(full):
        p, clusters = _softmax(rng, n, k, width, 0.3)
        yield Instance(f"({n}, {k}), width {width}", (p, clusters), {"n_clusters": k})


def products(rng: Rng, full: bool) -> Iterator[Instance]:
    """`curvature_product`."""
    for n, k, width in shapes(full):
        p, clusters = _softmax(rng, n, k, width, 0.3)
        yield Instance(f"({n}, {k}), width {width}", (p, clusters, rng.normal(size=k)), {})


def paths(rng: Rng, full: bool) -> Iterator[Instance]:
    """`augmenting_paths`, on scores whose sums are exact."""
    for n, k, width in [(60, 5, 5), (400, 40, 8)] if full else [(16, 4, 4)]:
        for window in (math.inf, 0.25):
            values, clusters = candidates(rng, n, k, width)
            values = np.round(16 * values) / 16
            counts = np.bincount(rng.integers(0, k, size=n), minlength=k)
            options = {"lower": np.maximum(counts - 1, 0), "upper": counts + 1, "window": window}
            prices = rng.integers(-16, 17, size=k) / 16.0
            name = f"({n}, {k}), width {width}, window {window:g}"
            yield Instance(name, (values, clusters, prices), options)


def splits(rng: Rng, full: bool) -> Iterator[Instance]:
    """`split_rows`, with fixed and free rows, of which some are truncated."""
    for n, k, width in [(300, 7, 7), (5000, 200, 16)] if full else [(20, 5, 3)]:
        for dtype in (np.float32, np.float64):
            values, clusters = candidates(rng, n, k, width, dtype)
            n_candidates = (clusters >= 0).sum(axis=1)
            truncation = np.where(rng.random(n) < 0.5, rng.normal(size=n), -math.inf)
            arrays = (clusters, values, n_candidates, truncation)
            options = {"n_clusters": k, "largest": 2.0, "limit": 100.0}
            yield Instance(f"({n}, {k}), {dtype.__name__}", arrays, options)


def segments(rng: Rng, full: bool) -> Iterator[Instance]:
    """`segment_sum` of integers, also of columns that are no whole block."""
    for n, d, k in (
        [(1, 1, 1), (5000, 33, 100), (200_000, 3, 7)] if full else [(0, 2, 3), (50, 3, 4)]
    ):
        values = rng.integers(-(2**40), 2**40, size=(n, d))
        arrays = (values, rng.integers(0, k, size=n))
        yield Instance(f"({n}, {d}) in {k}", arrays, {"n_segments": k})


def selections(rng: Rng, full: bool) -> Iterator[Instance]:
    """`candidates_of_blocks`, with ties, forbidden pairs and rows that cannot be used."""
    for n, k, width in [(500, 10, 4), (3000, 1000, 16)] if full else [(30, 6, 3)]:
        for dtype in (np.float32, np.float64):
            scores = (rng.integers(-16, 17, size=(n, k)) / 16.0).astype(dtype)
            scores[rng.random((n, k)) < 0.05] = -math.inf
            scores[-1] = math.nan
            middle, radius = rng.integers(-8, 9, size=k) / 16.0, rng.integers(0, 5, size=k) / 16.0
            arrays = (middle - radius, middle + radius, scores[None])
            yield Instance(f"({n}, {k}), {dtype.__name__}", arrays, {"width": width})


def looks(rng: Rng, full: bool) -> Iterator[Instance]:
    """`best_clusters`, with ties and forbidden pairs, in one block of rows and in several."""
    for n, k in [(500, 10), (3000, 700), (40_000, 1000)] if full else [(40, 6)]:
        for dtype in (np.float32, np.float64):
            scores = (rng.integers(-16, 17, size=(n, k)) / 16.0).astype(dtype)
            scores[rng.random((n, k)) < 0.05] = -math.inf
            scores[:, 0] = 0.0
            prices = (rng.integers(-8, 9, size=k) / 16.0).astype(dtype)
            yield Instance(f"({n}, {k}), {dtype.__name__}", (scores, prices), {})


def systems(rng: Rng, full: bool) -> Iterator[Instance]:
    """`eliminate`, whole numbers that dominate their diagonal, some clusters not free."""
    for k in (1, 40, 1000) if full else (1, 5):
        matrix = rng.integers(-4, 5, size=(k, k)).astype(np.float64)
        matrix += matrix.T + 16.0 * k * np.eye(k)
        vectors = (rng.random(k) < 0.8).astype(float), rng.uniform(1.0, 2.0, k), rng.normal(size=k)
        yield Instance(f"({k}, {k})", (matrix, *vectors), {})


def labeled(rng: Rng, full: bool) -> Iterator[Instance]:
    """`regrets`, of labels that are the best and of others."""
    for n, k, width in shapes(full):
        values, clusters = candidates(rng, n, k, width)
        slots = rng.integers(0, (clusters >= 0).sum(axis=1))
        yield Instance(
            f"({n}, {k}), width {width}", (values, clusters, rng.normal(size=k), slots), {}
        )


PROBLEMS: dict[str, Callable[[Rng, bool], Iterator[Instance]]] = {
    "assign_stream": streams,
    "best_clusters": looks,
    "candidates_of_blocks": selections,
    "soft_counts": smoothed,
    "curvature": curvatures,
    "curvature_product": products,
    "augmenting_paths": paths,
    "segment_sum": segments,
    "split_rows": splits,
    "eliminate": systems,
    "regrets": labeled,
}
"""What each kernel is compared on; a kernel with a CUDA row and no line here is reported."""
