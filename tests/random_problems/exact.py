"""The best labels of a small problem in whole numbers: a reference without rounding.

Floating-point scores are whole multiples of a power of two, so that sums of them are exact as
Python integers, from 1e-300 to 1e300. Labels are the best ones inside the bounds if and only if no
cycle of moves from cluster to cluster gains anything (Klein 1967). `best_value` begins at labels
inside the bounds and makes such moves until there is none; a node more stands for the room that
bounds leave. Nothing of the library is called.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Whole", "as_fraction", "best_value", "value_of", "whole"]

Array = NDArray[Any]

NOTHING = np.asarray(0, dtype=object)


class Whole(NamedTuple):
    """Scores as Python integers in units of ``2**exponent``; forbidden pairs are 0 there.

    Attributes
    ----------
    numbers : (n, k) array of int objects
    allowed : (n, k) bool array
    exponent : int
    """

    numbers: Array
    allowed: Array
    exponent: int


def whole(scores: Array, weights: Array | None = None) -> Whole:
    """Return the scores, times the weights, as integers of one unit: nothing is rounded."""
    allowed = np.isfinite(scores)
    numbers, lowest = _integers(np.where(allowed, scores, 0.0))
    if weights is not None:
        factors, more = _integers(weights[:, None])
        numbers, lowest = numbers * factors, lowest + more
    return Whole(numbers, allowed, lowest)


def _integers(values: Array) -> tuple[Array, int]:
    mantissas, exponents = np.frexp(values.astype(np.float64))
    digits = np.ldexp(mantissas, 53).astype(np.int64)
    exponents = np.where(digits == 0, 0, exponents) - 53
    lowest = int(exponents[digits != 0].min()) if digits.any() else 0
    shifts = np.where(digits == 0, 0, exponents - lowest)
    return digits.astype(object) << shifts.astype(object), lowest


def as_fraction(number: int, exponent: int) -> Fraction:
    """``number * 2**exponent``."""
    return Fraction(number) * Fraction(2) ** exponent


def value_of(problem: Whole, labels: Array, *, sizes: bool = False) -> Fraction:
    """Return what labels are worth, or the sum of the absolute values of the terms."""
    taken = problem.numbers[np.arange(len(labels)), labels]
    return as_fraction(sum(abs(v) for v in taken) if sizes else sum(taken), problem.exponent)


def best_value(problem: Whole, lower: Array, upper: Array, labels: Array) -> Fraction:
    """Return the largest value of labels inside the bounds, starting from some that are."""
    labels = labels.copy()
    k = problem.numbers.shape[1]
    largest = int(np.abs(problem.numbers).max(initial=0))
    never = np.asarray(4 * (k + 2) * largest + 1, dtype=object)  # above all cycles
    while True:
        costs, rows = _moves(problem, labels, lower, upper, never)
        cycle = _gaining_cycle(costs, never)
        if cycle is None:
            return value_of(problem, labels)
        for a, b in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
            if a < k and b < k:
                labels[rows[a, b]] = b


def _moves(
    problem: Whole, labels: Array, lower: Array, upper: Array, never: Array
) -> tuple[Array, Array]:
    """What a move from cluster to cluster costs, and the row that makes it; node k is the room."""
    numbers, allowed, _ = problem
    k = numbers.shape[1]
    costs = np.full((k + 1, k + 1), never)
    rows = np.full((k, k), -1)
    for a in range(k):
        here = np.flatnonzero(labels == a)
        if here.size:
            lost = np.where(allowed[here], numbers[here, a][:, None] - numbers[here], never)
            rows[a] = here[np.argmin(lost, axis=0)]
            costs[a, :k] = lost.min(axis=0)
    counts = np.bincount(labels, minlength=k)
    costs[:k, k] = np.where(counts < upper, NOTHING, never)
    costs[k, :k] = np.where(counts > lower, NOTHING, never)
    return costs, rows


def _gaining_cycle(costs: Array, never: Array) -> list[int] | None:
    """Return the nodes of a cycle of negative cost, by Bellman and Ford; None if there is none."""
    m = len(costs)
    distance, before = np.zeros(m, dtype=object), np.full(m, -1)
    for _ in range(m + 1):
        through = distance[:, None] + costs
        through[costs >= never] = never
        best = np.argmin(through, axis=0)
        least = through[best, np.arange(m)]
        is_less = (least < distance).astype(bool)
        if not is_less.any():
            return None
        before[is_less] = best[is_less]
        distance = np.where(is_less, least, distance)
        cycle = _cycle(before)
        if cycle is not None:
            return cycle
    return None


def _cycle(before: Array) -> list[int] | None:
    """Return a cycle of the graph in which each node has at most one before it, in its order."""
    seen = np.zeros(len(before), dtype=np.int64)
    for start in range(len(before)):
        node = start
        while node >= 0 and not seen[node]:
            seen[node] = start + 1
            node = int(before[node])
        if node >= 0 and seen[node] == start + 1:
            cycle, at = [node], int(before[node])
            while at != node:
                cycle.append(at)
                at = int(before[at])
            return cycle[::-1]
    return None
