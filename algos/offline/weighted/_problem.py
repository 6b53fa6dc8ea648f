"""Rows with sizes in units that the parts of the plain solver take: scores of a row of size 1."""

from __future__ import annotations

import math
from typing import NamedTuple

import array_api_compat as compat

from ...bounds.loads import LOAD_ROUNDING, LoadBounds
from ...core.errors import InfeasibleBoundsError
from ...core.reads import entries, read
from ...core.types import Array
from ...scores.blocks import row_blocks
from ...scores.sources import ScoreSource
from ...scores.statistics import PART_ROWS

__all__ = ["Problem", "in_size", "problem_of"]

LEAST_SIZE = 2.0**-10
"""Of the mean size: rows that are smaller count as large where sizes divide."""


class Problem(NamedTuple):
    """Scores, sizes in a unit that makes the largest about 1, and bounds that all loads have.

    `divisors` are the sizes, none below a part of the mean.
    """

    source: ScoreSource
    sizes: Array
    divisors: Array
    lower: Array
    upper: Array


def problem_of(source: ScoreSource, bounds: LoadBounds) -> tuple[Problem, float]:
    """Return the problem in a unit of size, and that unit.

    Bounds are what those of the other clusters leave, too, a rounding wider (`LOAD_ROUNDING`).
    """
    xp, n = compat.array_namespace(bounds.sizes), int(bounds.sizes.shape[0])
    values = entries("sizes", bounds.sizes)
    unit = math.ldexp(1.0, math.frexp(max(values, default=0.0))[1])
    total = math.fsum(v / unit for v in values)
    low, high = ([v / unit for v in entries("loads", b)] for b in (bounds.lower, bounds.upper))
    high = [min(v, total) for v in high]
    needed, room = math.fsum(low), math.fsum(high)
    slack = LOAD_ROUNDING * total
    least = [max(v, total - (room - u), 0.0) for v, u in zip(low, high, strict=True)]
    most = [min(u, total - (needed - v)) for v, u in zip(low, high, strict=True)]
    device = compat.device(bounds.sizes)
    lower, upper = (
        xp.asarray(side, dtype=xp.float64, device=device)
        for side in ([v - slack for v in least], [v + slack for v in most])
    )
    sizes = bounds.sizes / unit
    divisors = xp.clip(sizes, min=LEAST_SIZE * (total or 2.0**10 * n) / max(n, 1))
    source = _without_too_large(source, sizes, upper)
    return Problem(source, sizes, divisors, lower, upper), unit


def _without_too_large(source: ScoreSource, sizes: Array, upper: Array) -> ScoreSource:
    """Forbid pairs of a row and a cluster that does not hold it: no labels inside have them.

    Raises `InfeasibleBoundsError` for a row that none holds.
    """
    xp = compat.array_namespace(sizes)
    if not sizes.shape[0]:
        return source
    largest, least, most = read(xp.max(sizes), xp.min(upper), xp.max(upper))
    if largest <= least:
        return source
    if largest > most:
        row = int(xp.argmax(sizes))
        msg = (
            f"no labels have loads inside the bounds: sample {row} is {largest / most:.4g} times "
            "as large as what any cluster holds. To fix this, raise upper bounds, or split it"
        )
        raise InfeasibleBoundsError(msg, clusters=tuple(range(int(upper.shape[0]))), excess=1)

    def fitting(scores: Array, own: Array) -> Array:
        return xp.where(own[:, None] <= upper, scores, xp.full_like(scores, -math.inf))

    return source._replace(
        block=lambda a, b: fitting(source.block(a, b), sizes[a:b]),
        take=lambda ids: fitting(source.take(ids), xp.take(sizes, ids)),
    )


def in_size(problem: Problem, prices: Array | None) -> ScoreSource:
    """The scores with prices added, in units of size: those of rows of size 1."""
    xp, source = compat.array_namespace(problem.sizes), problem.source
    prices = xp.zeros_like(problem.lower) if prices is None else prices

    def priced(scores: Array, sizes: Array, divisors: Array) -> Array:
        whole = xp.astype(scores, xp.float64) + sizes[:, None] * prices
        return whole / divisors[:, None]

    def block(start: int, stop: int) -> Array:
        scores, parts = source.block(start, stop), list[Array]()
        for a, b in row_blocks(stop - start, PART_ROWS, at_least_one=True):  # float64 of few rows
            own = (v[start + a : start + b] for v in (problem.sizes, problem.divisors))
            parts.append(priced(scores[a:b, :], *own))
        return xp.concat(parts)

    def take(ids: Array) -> Array:
        parts = (xp.take(v, ids) for v in (problem.sizes, problem.divisors))
        return priced(source.take(ids), *parts)

    return ScoreSource(source.n_clusters, block=block, take=take, group=source.group)
