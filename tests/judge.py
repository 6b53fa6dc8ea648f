"""Judges assignments and their proofs, in plain NumPy and integers, with no code of the library.

Each function takes the problem and what was found, and raises `AssertionError` at the first claim
that does not hold. Small problems are added up in integers, without rounding; larger ones in long
doubles, whose error is bounded, and then in integers as well where that error decides.

O is the objective, S the sum of the absolute scores of the labels, p are the prices, l and u the
bounds, also those implied by the other clusters' bounds and n. No labels inside the bounds exceed
``D = O + lost``, with ``lost = sum_i max_k (s_ik + p_k) - (s_iy + p_y) + sum_k p+_k (n_k - l_k) +
p-_k (u_k - n_k)``. R is what rounding may hide: 64 roundings of S by what `gap` documents, one of
S where losses are added, and one of each weight times a score. Prices excuse nothing.

`judge_assignment`
    Labels are clusters, on allowed pairs; counts are theirs, inside the bounds; violation is 0.
    ``|objective - O| <= rounding``, and <= 64 roundings of S. ``rounding`` is at most 128 roundings
    of all terms, as two sums of them have. ``D <= upper_bound + rounding``, but for what products
    are rounded by. ``gap max(S, |upper_bound|)`` is ``upper_bound - objective >= 0``, and ``lost``
    is at most that plus R. Optimal if, and only if, the gap is 0; then ``lost <= R``.

`tests.judge_bounds` and `tests.judge_centers` judge the rest of what the library proves.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

SMALL = 256  # scores up to which all is added up in integers
EPS, TINY = Fraction(1, 2**52), Fraction(1, 2**1074)
LONG_EPS = Fraction(float(np.finfo(np.longdouble).eps))
UNIT = 2**1126  # of the integers: each float64 is a whole number of these


class Verdict(NamedTuple):
    """True objective, and what labels may be worth at most: fractions, off by at most `error`."""

    objective: Fraction
    dual: Fraction
    error: Fraction


def require(holds: Any, claim: str, *figures: Any) -> None:
    """Refuse what was found unless a claim holds."""
    assert holds, f"refused: {claim}: {', '.join(map(str, figures))}"


def numbers(x: Any, exact: bool) -> Any:
    """Return float64 numbers as integers, in an array of objects, or as long doubles."""
    x = np.asarray(x, np.float64)
    if not exact:
        return x.astype(np.longdouble)
    part, power = np.frexp(x)
    whole, power = (part * 2.0**53).astype(np.int64).ravel().tolist(), power.ravel().tolist()
    found = np.empty(x.size, object)
    found[:] = [i << (e + 1073) for i, e in zip(whole, power, strict=True)]
    return found.reshape(x.shape)


def total(x: Any) -> tuple[Fraction, Fraction]:
    """Return the sum of products of two `numbers`, and by how much it may be off."""
    if x.dtype == object:
        return Fraction(sum(x.ravel().tolist()), UNIT**2), Fraction(0)
    x = np.concatenate([x.ravel(), np.zeros(1, np.longdouble)])
    parts = np.add.reduceat(x, range(0, x.size, 256))
    off = np.abs(x).sum() * (1 + x.size * np.finfo(np.longdouble).eps)
    require(np.isfinite(off), "sums stay in the range of long doubles")
    found = sum(Fraction(*part.as_integer_ratio()) for part in parts)
    return found, 264 * LONG_EPS * Fraction(*off.as_integer_ratio())


def implied(lower: Any, upper: Any, n: int) -> tuple[list[int], list[int]]:
    """Return bounds that respect the other clusters' and the number of samples."""
    low, high = [int(v) for v in lower], [int(v) for v in upper]
    below, above = n - sum(high), n - sum(low)
    pairs = list(zip(low, high, strict=True))
    return [max(a, below + b) for a, b in pairs], [min(b, above + a) for a, b in pairs]


def judge_assignment(
    scores: Any,
    weights: Any,
    lower: Any,
    upper: Any,
    found: Any,
    *,
    doubt: float = 0.0,
    exact: bool | None = None,
) -> Verdict:
    """Judge labels inside bounds and their certificate; `found` has the fields of the library's.

    Scores that the library has computed may differ from these; `doubt` bounds the sum over rows of
    the most by which one of a row does.
    """
    scores, lower, upper = np.asarray(scores, np.float64), np.asarray(lower), np.asarray(upper)
    (n, k), i, y = scores.shape, np.arange(len(scores)), np.asarray(found.labels)
    prices, sizes = np.asarray(found.prices), np.bincount(y, minlength=k)
    require(y.shape == (n,) and len(sizes) == k, "a label below k for each row", y, k)
    require(np.array_equal(found.counts, sizes), "counts are of the labels", found.counts, sizes)
    outside = max(0, (lower - sizes).max(), (sizes - upper).max())
    require(found.violation == outside == 0, "sizes are inside", found.violation, outside)
    require(np.isfinite(scores[i, y]).all(), "no label is on a forbidden pair")
    objective, bound, rounding, gap = figures = [
        float(v) for v in (found.objective, found.upper_bound, found.rounding, found.gap)
    ]
    require(np.isfinite([*figures, *prices]).all() and prices.shape == (k,), "finite", figures)
    is_exact = scores.size <= SMALL if exact is None else exact
    allowed, p = np.isfinite(scores), numbers(prices, is_exact)
    s = numbers(np.where(allowed, scores, 0.0), is_exact)
    one = numbers(1.0, is_exact)[()]
    s, p = s * (one if weights is None else numbers(weights, is_exact)[:, None]), p * one
    priced = np.where(allowed, s + p, (s[i, y] + p[y])[:, None])  # a forbidden pair is no better
    best = priced.argmax(axis=1)
    regret = priced[i, best] - priced[i, y]
    low, high = implied(lower, upper, n)
    each = zip(sizes.tolist(), low, high, prices, strict=True)
    missed = [c - a if q > 0 else b - c if q < 0 else 0 for c, a, b, q in each]
    worth, e = total(s[i, y])
    size, _ = total(abs(s[i, y]))
    lost, off = (
        sum(pair)
        for pair in zip(total(regret), total(abs(p) * np.array(missed, dtype=p.dtype)), strict=True)
    )
    if not is_exact:  # of the priced scores
        off += 4 * LONG_EPS * total(abs(s[i, best]) + abs(s[i, y]) + abs(p[best]) + abs(p[y]))[0]
    # Of a unit, powers of two above the largest weight and score, small numbers are subnormal.
    factor = 1.0 if weights is None else float(np.max(weights, initial=1.0))
    largest = float(abs(scores[allowed]).max(initial=0.0)) or 1.0  # of zeros the unit is 1
    floor = (n + 4) * TINY * max(1, 4 * Fraction(factor) * Fraction(largest))
    o, ub, r, g = map(Fraction, (objective, bound, rounding, gap))
    product = total(abs(s[i, best]))[0] if weights is not None else Fraction(0)
    rounded = EPS * (size + abs(ub) + product) + floor  # losses, the bound, weights times scores
    explained = 64 * EPS * size + rounded
    if not is_exact and exact is None and 8 * off > explained:
        return judge_assignment(scores, weights, lower, upper, found, doubt=doubt, exact=True)
    e, explained = e + Fraction(doubt), explained + 2 * Fraction(doubt)
    require(abs(o - worth) <= r + e, "objective within rounding", objective, float(worth), rounding)
    require(abs(o - worth) <= 64 * EPS * size + e + floor, "objective", objective, float(worth))
    terms = total(np.where(allowed, abs(s), 0 * abs(s)).max(axis=1))[0] + n * total(abs(p))[0]
    require(0 <= r <= 129 * EPS * (size + e + terms) + floor, "128 of rounded terms", rounding)
    require(o <= ub, "objective at most upper_bound", objective, bound)
    dual, out = worth - Fraction(doubt) + lost + off, r + rounded + 2 * Fraction(doubt)
    require(dual <= ub + out, "D at most upper_bound", float(dual), bound, float(out))
    scale = max(size, abs(ub))
    stated, tolerance = g * scale, EPS * (4 * scale + 64 * g * size) + g * e + floor
    require(abs(stated - (ub - o)) <= tolerance, "gap is of upper_bound", gap, objective, bound)
    require(g >= 0 and lost + off <= ub - o + explained, "gap proven", gap, float(lost))
    require((found.status == "optimal") == (g == 0), "optimal has no gap", gap, found.status)
    return Verdict(worth, worth + lost, e + off)
