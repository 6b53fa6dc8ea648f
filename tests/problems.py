"""Problems that carry their known answer, and slow, plain transcriptions of what is to be checked.

Scores are multiples of 1/16, numbers of samples and steps powers of two wherever a test demands
equal bits: every sum is then exact in float64, in any order.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.online.step_sizes import StepRule
from tests.libraries import Library

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Stream(NamedTuple):
    """Samples in order, feasible bounds on the counts, and a step rule."""

    scores: Floats
    lower: Ints
    upper: Ints
    rule: StepRule

    def bounds(self, xp: Library) -> SizeBounds:
        """The bounds as arrays of a library."""
        size = self.scores.shape[0]
        return xp.freeze(
            SizeBounds.from_counts(
                self.lower.tolist(),
                self.upper.tolist(),
                n_samples=size,
                xp=xp.namespace,
                device=xp.device,
            )
        )


@st.composite
def counted_bounds(draw: Any, n: int, k: int) -> tuple[Ints, Ints]:
    """Bounds around the sizes of some assignment, hence feasible; often without any slack."""
    labels = draw(arrays(np.int64, n, elements=st.integers(0, k - 1)))
    sizes = np.bincount(labels, minlength=k)
    below, above = (draw(arrays(np.int64, k, elements=st.integers(0, 3))) for _ in range(2))
    return np.maximum(sizes - below, 0), np.minimum(sizes + above, n)


@st.composite
def dyadic_streams(draw: Any, max_k: int = 5) -> Stream:
    """Streams on which all arithmetic is exact; ties are frequent."""
    n, k = draw(st.sampled_from([1, 2, 4, 8, 16])), draw(st.integers(1, max_k))
    scores = draw(arrays(np.int64, (n, k), elements=st.integers(-16, 16))) / 16.0
    lower, upper = draw(counted_bounds(n, k))
    step = 2.0 ** -draw(st.integers(0, 8))
    chunk, free_sign = draw(st.sampled_from([1, 2, 3, 7, 16])), draw(st.booleans())
    return Stream(scores, lower, upper, StepRule(step, chunk, free_sign))


@st.composite
def float_streams(draw: Any, max_n: int = 30, max_k: int = 5) -> Stream:
    """Streams of ordinary floats, of any scale and step; ties have probability zero."""
    n, k = draw(st.integers(1, max_n)), draw(st.integers(1, max_k))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    scores = rng.normal(size=(n, k)) * 10.0 ** draw(st.integers(-6, 6))
    lower, upper = draw(counted_bounds(n, k))
    step = draw(st.floats(1e-9, 1e3))
    chunk, free_sign = draw(st.integers(1, n + 1)), draw(st.booleans())
    return Stream(scores, lower, upper, StepRule(step, chunk, free_sign))


class Replay(NamedTuple):
    """What the rules of `assign` say about labels that somebody chose."""

    gaps: Floats  # best admissible priced score, minus that of the label; inf if not admissible
    ties: Ints  # admissible clusters of a lower index that are as good
    rho: Floats
    rho_up: Floats
    counts: Ints


def replay(
    scores: Floats,
    labels: Ints,
    bounds: SizeBounds,
    rule: StepRule,
    start: tuple[Floats, Floats] | None = None,
) -> Replay:
    """Run the duals on given labels, from the start of a pass, one sample at a time."""
    n, k = scores.shape
    rho, rho_up = (np.zeros(k), np.zeros(k)) if start is None else start
    counts, gaps, ties = np.zeros(k, np.int64), np.zeros(n), np.zeros(n, np.int64)
    for first in range(0, n, rule.chunk_size):
        batch = range(first, min(first + rule.chunk_size, n))
        before = counts.copy()
        for i in batch:
            limit = bounds.upper
            if bounds.n_samples is not None:
                owed = np.maximum(bounds.lower - counts, 0).sum()
                limit = bounds.lower if owed >= bounds.n_samples - i else bounds.upper
            y, is_open, priced = labels[i], counts < limit, scores[i] + rho - rho_up
            gaps[i] = priced[is_open].max() - priced[y] if is_open[y] else np.inf
            ties[i] = np.count_nonzero(is_open[:y] & (priced[:y] == priced[y]))
            counts[y] += 1
        m, taken = len(batch), counts - before
        h = rule.step_size / m if rule.mean_over_chunk else rule.step_size
        rho = rho - h * (taken - m * bounds.lower_share)
        if not rule.free_sign:
            rho = np.maximum(rho, 0.0)
            rho_up = np.maximum(rho_up + h * (taken - m * bounds.upper_share), 0.0)
    return Replay(gaps, ties, rho, rho_up, counts)


def best_value(scores: Floats, lower: Ints, upper: Ints) -> float:
    """Largest objective of any assignment inside the bounds, by trying all k^n; -inf if none."""
    n, k = scores.shape
    every = np.array(list(itertools.product(range(k), repeat=n)), dtype=np.int64).reshape(-1, n)
    counts = np.stack([(every == j).sum(axis=1) for j in range(k)], axis=1)
    inside = ((lower <= counts) & (counts <= upper)).all(axis=1)
    values = scores[np.arange(n), every].sum(axis=1)
    return float(values[inside].max()) if inside.any() else -np.inf


def unit_rows(x: Floats) -> Floats:
    """Rows scaled to unit length."""
    return np.asarray(x / np.linalg.norm(x, axis=-1, keepdims=True))


def cone_features(n: int, seed: int, d: int = 128, spread: float = 0.6) -> Floats:
    """Unit vectors around one direction, as an untrained network gives."""
    rng = np.random.default_rng(seed)
    axis = unit_rows(rng.normal(size=(1, d)))
    return unit_rows(axis + spread * rng.normal(size=(n, d)) / np.sqrt(d))


def cone_scores(n: int, k: int, seed: int = 0) -> Floats:
    """Cosines of cone features with random centers: without prices most clusters stay empty."""
    x = cone_features(n, seed)
    centers = unit_rows(np.random.default_rng(seed + 1).normal(size=(k, x.shape[1])))
    return np.asarray(x @ centers.T)


def mixture_scores(n: int, k: int, seed: int = 0, d: int = 128) -> Floats:
    """Cosines of a mixture with Zipf weights and noisy centers, as in the middle of a training."""
    rng = np.random.default_rng(seed)
    truth = unit_rows(rng.normal(size=(k, d)))
    weights = 1.0 / np.arange(1, k + 1)
    member = rng.choice(k, size=n, p=weights / weights.sum())
    x = unit_rows(truth[member] + rng.normal(size=(n, d)) / np.sqrt(d))
    centers = unit_rows(truth + 0.5 * rng.normal(size=(k, d)) / np.sqrt(d))
    return np.asarray(x @ centers.T)


def in_order(scores: Floats, order: str, seed: int = 0) -> Floats:
    """Put the rows in an order; "adversarial" shows the duals all easy samples of a cluster first.

    Then the prices are wrong as long as possible, and the last rows are the contested ones.
    """
    if order == "random":
        index = np.random.default_rng(seed).permutation(scores.shape[0])
    elif order == "sorted":
        index = np.argsort(scores.argmax(axis=1), kind="stable")
    else:
        top = np.sort(scores, axis=1)[:, -2:]
        index = np.lexsort((top[:, 0] - top[:, 1], -scores.argmax(axis=1)))
    return scores[index]


def symmetric_relations(n: int) -> Iterator[Ints]:
    """All reflexive and symmetric relations on n samples."""
    pairs = list(itertools.combinations(range(n), 2))
    for bits in itertools.product([0, 1], repeat=len(pairs)):
        r = np.eye(n, dtype=np.int64)
        for (i, j), bit in zip(pairs, bits, strict=True):
            r[i, j] = r[j, i] = bit
        yield r
