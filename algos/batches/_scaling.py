r"""Prices of one batch by Sinkhorn's steps with a clip: what soft and hard labels share.

The dual of `soft` has a value for each row and a price for each cluster. Its minimum in the one is
the minimum in the other in turn:

1. *Rows*: ``v_i = epsilon log sum_j exp((s_ij + pi_j) / epsilon)``
2. *Clusters*: let ``m_j`` be the mass that column j has at price 0. The price is 0 if m_j lies
   inside the bounds, and otherwise the nearer bound holds with equality:
   ``exp(pi_j / epsilon) = clip(m_j, n l_j, n u_j) / m_j``.

All exponentials are taken once, at the prices of the start, so that each row has a 1:
``E_ij = exp((s_ij + pi0_j - largest_i) / epsilon)``. With factors ``b_j = exp((pi_j - pi0_j) /
epsilon)`` a step is two products of a matrix with a vector:

``m = E^T (w / (E b))``,   ``b <- clip(m exp(-pi0 / epsilon), n l, n u) / m``.

Prices move by at most `FARTHEST` temperatures until exponentials are taken anew. All of this is in
the dtype of the scores but prices, which are float64. Tables of n k numbers are used up by
the next one (`_tables`).

With slack, one mode is slow: a common shift of all prices leaves every label as it is, and the dual
value falls along it by ``n - sum l_j [pi_j > 0] - sum u_j [pi_j < 0]``. `shifted` jumps to the
minimum, at which one of the prices is 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import array_api_compat as compat

from ..core.checks import check_count, check_interval, check_real, check_same_place, check_shape
from ..core.errors import InvalidValueError
from ..core.precision import at_least_float32
from ..core.types import Array, Namespace
from ._tables import shift_table

__all__ = ["Options", "Ranks", "Scaled", "scaled"]

LARGEST = 1e37  # of scores: sums with prices do not overflow in float32
FARTHEST = 60.0  # temperatures that a price moves from one set of exponentials
MOST, LEAST = math.exp(FARTHEST), math.exp(-FARTHEST)
FLAT = 1e-12  # a slope that counts as 0, in units of n


class Options(NamedTuple):
    """Temperature and length of the iteration; `balance_soft` says what each is."""

    epsilon: float
    n_iter: int = 3
    tol: float = 0.0
    max_iter: int = 100_000

    def checked(self) -> Options:
        """Raise unless each option is in its range."""
        check_interval("epsilon", self.epsilon, 1e-30, 1e30)
        check_count("n_iter", self.n_iter, 1)
        check_interval("tol", self.tol, 0.0, math.inf)
        check_count("max_iter", self.max_iter, 1)
        return self


class Ranks(NamedTuple):
    """How the ranks that share a batch exchange numbers; all call together.

    Attributes
    ----------
    rank : int
        The place of this rank among them.
    total : callable
        Adds up the arrays of all ranks.
    gather : callable
        Joins the arrays of all ranks, of one shape, along a new first axis.
    """

    rank: int
    total: Callable[[Array], Array]
    gather: Callable[[Array], Array]


class Rows(NamedTuple):
    """The exponentials of a batch.

    Attributes
    ----------
    logs : (n, k) array
        ``(s + pi0 - largest) / epsilon``; without s in a row that does not count.
    entries : (n, k) array
        Their exponentials.
    columns : (k, n) array
        The transpose.
    counted : boolean (n,) array
        Whether the largest score of a row is finite.
    share : (n,) array
        Weight of each row in units of the total; 0 for a row that does not count.
    """

    logs: Array
    entries: Array
    columns: Array
    counted: Array
    share: Array


class Scaled(NamedTuple):
    """A batch under its prices: the plan is ``entries * factors / sums``.

    Attributes
    ----------
    rows : Rows
    prices : (k,) float64 array
    factors : (k,) array
        Of the prices since the exponentials were taken.
    sums : (n,) array
        ``entries @ factors``.
    total : () array
        n, the weights of the rows of all ranks that count.
    residual : () float64 array, or None
    n_iter : int
    """

    rows: Rows
    prices: Array
    factors: Array
    sums: Array
    total: Array
    residual: Array | None
    n_iter: int


Bounds = Callable[[Array], tuple[Array, Array]]
"""The total n to lower and upper bounds in units of it, (k,) float64 each."""


def scaled(
    scores: Array,
    bounds: Bounds,
    options: Options,
    *,
    prices: Array | None = None,
    weights: Array | None = None,
    ranks: Ranks | None = None,
) -> Scaled:
    """Find prices of a batch by `Options.n_iter` steps, or as many as its `tol` needs."""
    xp = check_real("scores", scores)
    n, k = check_shape("scores", scores, ("n", "k"))
    if k == 0:
        msg = "scores must have at least one column. To fix this, give one for each cluster"
        raise InvalidValueError(msg)
    check_same_place(scores=scores, prices=prices, weights=weights)
    epsilon, n_iter, tol, max_iter = options.checked()
    x, pi, done, residual = at_least_float32(scores), prices, 0, None
    if pi is None:
        pi = xp.zeros((k,), dtype=xp.float64, device=compat.device(scores))
    check_shape("prices", pi, (k,))
    if weights is not None:
        check_shape("weights", weights, (n,))
    while True:
        rows = _exponentials(xp, x, pi, epsilon, weights)
        total = xp.sum(rows.share)
        total = total if ranks is None else ranks.total(total)
        rows = rows._replace(share=rows.share / xp.clip(total, min=LEAST))
        lower, upper = (xp.astype(bound, x.dtype) for bound in bounds(total))
        at_zero = xp.clip(xp.astype(pi, x.dtype) / -epsilon, -FARTHEST, FARTHEST)
        at_zero = xp.exp(at_zero)
        sums, done = xp.sum(rows.entries, axis=1), done + n_iter
        for _ in range(n_iter):
            mass = _mass(rows, sums, ranks)
            wanted = xp.clip(at_zero * mass, lower, upper)
            factors = xp.clip(wanted / mass, LEAST, MOST)
            sums = xp.matmul(rows.entries, factors)
        pi = xp.where(total > 0, pi + epsilon * xp.log(factors), pi)
        if tol == 0.0:
            break
        mass = _mass(rows, sums, ranks)
        wanted = xp.clip(at_zero * mass, lower, upper)
        residual = xp.sum(xp.abs(wanted - factors * mass), dtype=xp.float64)
        if done >= max_iter or float(residual) <= tol:
            break
        pi = shifted(pi, *bounds(total))
    return Scaled(rows, pi, factors, sums, total, residual, done)


def _exponentials(
    xp: Namespace, x: Array, prices: Array, epsilon: float, weights: Array | None
) -> Rows:
    """Take the exponentials at some prices; a row without a finite largest score has none of s."""
    counted = xp.abs(xp.max(x, axis=1, keepdims=True)) < LARGEST
    logs = shift_table(xp.where(counted, x, 0.0), xp.astype(prices, x.dtype), None)
    logs = shift_table(logs, None, xp.max(logs, axis=1, keepdims=True), epsilon=epsilon)
    entries, counted = xp.exp(logs), counted[:, 0]
    share = xp.astype(counted, x.dtype)
    if weights is not None:
        share = share * xp.astype(weights, x.dtype)
    return Rows(logs, entries, entries.T, counted, share)


def _mass(rows: Rows, sums: Array, ranks: Ranks | None) -> Array:
    """Mass of each column at factor 1, in units of n, where each row has its share."""
    xp = compat.array_namespace(sums)
    mass = xp.matmul(rows.columns, rows.share / sums)
    mass = mass if ranks is None else ranks.total(mass)
    return xp.clip(mass, min=LEAST)


def shifted(prices: Array, lower: Array, upper: Array) -> Array:
    """Shift all prices alike so that the dual value is least; bounds are in units of n.

    The slope of the dual along the shift, 1 less the bounds that hold, rises by ``u - l`` where a
    price becomes positive: the highest prices first.

    Examples
    --------
    Lower bounds of all three clusters leave a part of the mass, so that not all are held by them.

    >>> import numpy as np
    >>> shifted(np.asarray([0.3, 0.5, 0.4]), np.full(3, 0.3), np.ones(3))
    array([0. , 0.2, 0.1])
    """
    xp = compat.array_namespace(prices)
    order = xp.argsort(prices, descending=True)
    lower, upper = xp.take(lower, order), xp.take(upper, order)
    slope = 1.0 - xp.cumulative_sum(lower) - (xp.sum(upper) - xp.cumulative_sum(upper))
    last = xp.sum(xp.astype(slope < -FLAT, xp.int64))
    last = xp.clip(last, max=prices.shape[0] - 1)
    return prices - xp.take(prices, xp.take(order, xp.reshape(last, (1,))))
