"""Random problems of assignment with all samples at hand, each result against exact arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.core.errors import InfeasibleBoundsError, InvalidValueError
from dualclust.algos.offline import (
    DEFAULT_OPTIONS,
    OfflineAssignment,
    SolverOptions,
    assign_exact,
    assign_offline,
    assign_source,
)
from dualclust.algos.scores.deadline import Deadline
from dualclust.algos.scores.sources import feature_source, product_source
from dualclust.backends import engine
from tests.highs import is_feasible
from tests.judge import judge_assignment
from tests.random_problems.drawn import Drawn, draw_problem, draw_start, draw_wild_start
from tests.random_problems.exact import Whole, as_fraction, best_value, value_of, whole
from tests.random_problems.options import draw_options

__all__ = ["Call", "check_result", "random_assignment", "random_source", "random_start"]

Array = NDArray[Any]

EPS, TINY = Fraction(1, 2**52), Fraction(1, 2**1074)
ROUNDINGS = 64
"""What a sum may be off by, in spacings of float64 relative to its terms: as the library says."""

LARGEST = float(np.finfo(np.float64).max)

FEW = 2**11
"""Scores that the reference texts get: readable loops, of which 20,000 take half a minute."""

TOO_LARGE = Fraction(10) ** 300
"""From sums of such sizes on a problem may be refused, because float64 does not hold its value."""

FARTHEST = Fraction(2) ** 340
"""How many times the largest score a price may be under options that let regions grow."""


class Call(NamedTuple):
    """A problem, and how it is called."""

    problem: Drawn
    prices: Array | None
    reach: Array | None
    tol: float
    options: SolverOptions
    mode: Any
    n_looks: int | None = None

    def solve(self) -> OfflineAssignment:
        """Call the library."""
        (scores, lower, upper, weights), prices, reach, tol, options, mode, n_looks = self
        bounds = SizeBounds.from_counts(lower, upper, n_samples=len(scores))
        start: dict[str, Any] = {"prices": prices, "price_radius": reach, "options": options}
        if n_looks is not None:  # a clock that moves by a second each time somebody looks at it
            start["time_limit"] = Deadline(float(n_looks), clock=count(-1.0).__next__)
        with engine(mode):
            if tol == 0.0:
                return assign_exact(scores, bounds, weights=weights, **start)
            return assign_offline(scores, bounds, weights=weights, tol=tol, **start)


def random_assignment(rng: np.random.Generator) -> str:
    """Draw a problem, solve it, check the result; return what became of it, in a word."""
    problem = draw_problem(rng)
    return solved(rng, problem, *draw_start(rng, problem.scores))


def random_start(rng: np.random.Generator) -> str:
    """The same from prices of any scale, and a radius of any."""
    problem = draw_problem(rng)
    return solved(rng, problem, *draw_wild_start(rng, problem.scores))


def solved(
    rng: np.random.Generator, problem: Drawn, prices: Array | None, reach: Array | None
) -> str:
    """Solve a problem by options that are drawn, and check the result."""
    call = Call(
        problem,
        prices,
        reach,
        float(rng.choice([0.0, 0.0, 1e-9, 1e-4, 0.01, 1.0])),
        draw_options(rng),
        "reference" if rng.random() < 0.05 and problem.scores.size <= FEW else "auto",
        int(rng.integers(0, 12)) if rng.random() < 0.2 else None,
    )
    exact = whole(problem.scores, problem.weights)
    try:
        found = call.solve()
    except InfeasibleBoundsError as error:
        check_infeasible(problem, error)
        return "infeasible"
    except InvalidValueError as error:
        check_refused(call, exact, error)
        return "refused"
    return check_result(exact, problem, found, call)


def check_infeasible(problem: Drawn, error: InfeasibleBoundsError) -> None:
    """No labels keep the bounds: HiGHS agrees, and the vector proves it in whole numbers."""
    allowed = np.isfinite(problem.scores)
    assert not is_feasible(allowed, problem.lower, problem.upper), "HiGHS finds labels"
    vector = error.vector
    assert vector is not None
    if vector.sample is not None:
        assert not allowed[vector.sample].any()
        return
    p, q = (np.asarray(v) for v in (vector.lower, vector.upper))
    assert (p >= 0).all()
    assert (q >= 0).all()
    most = np.where(allowed, p - q, -(2**40)).max(axis=1).sum()
    assert p @ problem.lower - q @ problem.upper > most, "the vector proves nothing"


def check_refused(call: Call, exact: Whole, error: InvalidValueError) -> None:
    """What float64 cannot hold may be refused, and what the options leave no memory for."""
    said, (n, k) = str(error), exact.numbers.shape
    if "float64 holds" in said:
        start = 0.0 if call.prices is None else float(np.abs(call.prices).max())
        sizes = as_fraction(int(np.abs(exact.numbers).sum()), exact.exponent)
        if "prices" in said:  # they are in a unit of the largest product
            sizes = max(sizes, largest_product(call.problem))
            sizes *= 1 if call.options == DEFAULT_OPTIONS else FARTHEST
        assert sizes > TOO_LARGE or start > 1e290, f"refused: {said}"
    elif "their sum overflows" in said:
        assert call.problem.weights is not None
        assert Fraction(float(call.problem.weights.max())) * n >= Fraction(LARGEST), said
    elif "options.last_entries" in said:
        assert n * k > call.options.last_entries
        assert call.tol > 0.0
        assert not exact.allowed.all(), f"refused: {said}"
    else:
        msg = f"refused: {said}"
        raise AssertionError(msg) from error


def check_result(exact: Whole, problem: Drawn, found: OfflineAssignment, call: Call) -> str:
    """Labels inside the bounds, and every figure on the right side of the exact one."""
    scores, lower, upper, _ = problem
    n, k = scores.shape
    labels = np.asarray(found.labels)
    assert labels.shape == (n,)
    assert labels.dtype == np.int64
    counts = np.bincount(labels, minlength=k)
    assert counts.shape == (k,), "a label beyond k"
    assert ((lower <= counts) & (counts <= upper)).all(), "counts outside the bounds"
    assert np.array_equal(found.counts, counts)
    assert exact.allowed[np.arange(n), labels].all(), "a forbidden pair"
    assert found.violation == 0
    assert np.isfinite(found.prices).all()
    figures = found.objective, found.upper_bound, found.rounding, found.gap
    assert all(map(math.isfinite, figures)), figures
    assert 0.0 <= found.gap
    assert found.rounding >= 0.0
    value = value_of(exact, labels)
    best = best_value(exact, lower, upper, labels)
    size = value_of(exact, labels, sizes=True)
    # What comparisons within a row cannot tell: of the scores alone, whatever the prices were.
    largest = as_fraction(int(np.abs(exact.numbers).max(axis=1, initial=0).sum()), exact.exponent)
    blurred = ROUNDINGS * EPS * largest + 2 * n * TINY * max(largest_product(problem), 1)
    rounding = min(Fraction(found.rounding), 10 * blurred) if largest else Fraction()
    said = (
        f"value {shown(value)}, best {shown(best)}, objective {found.objective:.17g}, "
        f"bound {found.upper_bound:.17g}, gap {found.gap:g}, rounding {found.rounding:g}, "
        f"of scores {shown(blurred)}"
    )
    assert abs(value - Fraction(found.objective)) <= rounding, f"objective: {said}"
    assert best <= Fraction(found.upper_bound) + rounding, f"upper_bound: {said}"
    stated = Fraction(found.gap) * max(size, abs(Fraction(found.upper_bound)))
    assert best - value <= stated + rounding, f"gap: {said}"
    assert (found.status == "optimal") == (found.gap == 0.0)
    judge_assignment(scores, problem.weights, lower, upper, found)
    if call.options == DEFAULT_OPTIONS and call.n_looks is None:
        # Prices are differences of scores, and at them each row loses their rounding at most.
        prices = 8 * EPS * n * as_fraction(int(np.abs(exact.numbers).max()), exact.exponent)
        assert found.gap <= call.tol or stated <= blurred + prices, f"not proven: {said}"
    return found.status


def largest_product(problem: Drawn) -> Fraction:
    """The largest score times the largest weight: far below it, float64 has no digits left."""
    scores = np.abs(problem.scores[np.isfinite(problem.scores)]).max(initial=0.0)
    weight = 1.0 if problem.weights is None else problem.weights.max()
    return Fraction(float(scores)) * Fraction(float(weight))


def shown(number: Fraction) -> str:
    """A number that may lie beyond float64."""
    try:
        return f"{float(number):.17g}"
    except OverflowError:
        return "beyond float64"


def random_source(rng: np.random.Generator) -> str:
    """Features and centers, multiplied a block at a time: the scores are those of the source."""
    n, k, d = int(rng.integers(1, 41)), int(rng.integers(1, 8)), int(rng.integers(1, 5))
    dtype = rng.choice(["float32", "float64"])
    scale = 10.0 ** rng.integers(-12, 13)
    x, centers = (rng.integers(-3, 4, shape).astype(dtype) for shape in ((n, d), (k, d)))
    x = (x * dtype_of(dtype, scale)).astype(dtype)
    ratio = float(rng.choice([0.0, 0.5, 0.9, 1.0]))
    bounds = SizeBounds.from_ratios(k, n_samples=n, lower=ratio)
    options, tol = draw_options(rng), float(rng.choice([0.0, 1e-6, 0.5]))
    source = product_source(feature_source(x), centers)
    scores = np.asarray(source.block(0, n))
    found = assign_source(source, bounds, tol=tol, options=options)
    problem = Drawn(scores, np.asarray(bounds.lower), np.asarray(bounds.upper), None)
    call = Call(problem, None, None, tol, options, "auto")
    return check_result(whole(scores), problem, found, call)


def dtype_of(dtype: str, value: float) -> Any:
    """The number in this precision, so that products with it stay in it."""
    return np.dtype(dtype).type(value)
