r"""Rows that must be together, and rows that must not: labels with their loss proven per run.

Problem: for scores ``s_ik``, sizes between bounds, and pairs of rows

maximize ``sum_i s_{i, y_i}``  subject to  ``l_k <= n_k <= u_k``,  ``y_i = y_j`` for pairs that must
link,  ``y_i != y_j`` for pairs that cannot.

Whether such labels exist is NP-hard to tell (cannot-link alone is the coloring of a graph). What is
promised is a bound, labels, and how far these are from it:

1. *Merge*: rows that must be together, also by way of others, are a *block* c of ``m_c`` rows. Each
   of its rows gets the mean score of the block. Parts of a block may then go to several clusters at
   no gain, so that the plain program for these scores is the linear relaxation of the problem
   whose rows are blocks, and has integral corners.
2. *Relax*: cannot-link pairs are covered by cliques that share no row. Of a clique, a cluster has
   at most the largest of its blocks. These are bounds on groups (`assignment`), and a relaxation;
   where the graph is a partition into cliques of single rows, it is the problem itself. Only pairs
   of a clique and a cluster that labels have broken are bounded, in a few rounds, as long as the
   labels of 3 are not good enough.
3. *Repair*, after each round: blocks of more than one row, and rows of pairs, keep or get a cluster
   of their own in turn: the best at the prices of 2 among those that none of their partners has.
   All other rows then get the best labels in what room is left, inside all bounds.
4. *Prove*: the value of 2 bounds what any labels are worth. Where the repair fails, or leaves a
   gap, a small problem of the linked rows and all others is solved as a whole (HiGHS).

===================  ===============  =======  =================================================
symbol               here             shape    meaning
===================  ===============  =======  =================================================
:math:`s_{i,k}`      ``scores``       (n, k)   minus infinity forbids a pair
\-                   ``must_link``    (a, 2)   rows that have one label
\-                   ``cannot_link``  (b, 2)   rows that have two
:math:`m_c`          ``sizes``        (C,)     rows of each block
:math:`p_k`          ``prices``       (k,)     of the relaxation
===================  ===============  =======  =================================================
"""

from __future__ import annotations

import math
from typing import NamedTuple

import array_api_compat as compat

from ...bounds.sizes import SizeBounds, check_bounds
from ...core.checks import check_integral, check_interval, check_shape
from ...core.errors import InfeasibleBoundsError, InvalidValueError
from ...core.reads import entries, read
from ...core.segments import segment_counts
from ...core.types import Array
from ...scores.sources import ScoreSource
from ...scores.statistics import source_of_one_rank
from .._proof import relative_gap, rounding_of
from .._whole_program import OFF, best_whole
from ._links import links_of
from ._relaxation import Problem, Relaxed, merged, relaxed, repaired, tightened

__all__ = ["LinkedAssignment", "assign_linked"]

ROUNDS = 3
"""Most rounds in which broken cliques are bounded, and labels repaired again."""

SMALL = 2**13
"""Blocks times clusters up to which a gap is closed by an integer program."""


class LinkedAssignment(NamedTuple):
    """Labels that keep links and sizes, and how far they can be from the best ones.

    Attributes
    ----------
    labels : (n,) int64 array
    counts : (k,) int64 array
    prices : (k,) float64 array
        Of the relaxation.
    n_repaired : int
        Linked rows whose label the relaxation had otherwise.
    objective, upper_bound, rounding, gap : float
        As in `offline.OfflineAssignment`; where an integer program has proven it, `rounding` holds
        the tolerance of that, 1e-12 of the largest score of a block, for each.
    """

    labels: Array
    counts: Array
    prices: Array
    n_repaired: int
    objective: float
    upper_bound: float
    rounding: float
    gap: float

    @property
    def status(self) -> str:
        """Proven: "optimal", or "within gap"."""
        return "optimal" if self.gap == 0.0 else "within gap"


def assign_linked(
    scores: Array | ScoreSource,
    bounds: SizeBounds,
    *,
    must_link: Array | None = None,
    cannot_link: Array | None = None,
    weights: Array | None = None,
    prices: Array | None = None,
    tol: float = 1e-4,
) -> LinkedAssignment:
    """Find good labels inside bounds on sizes that keep pairs of rows together, or apart.

    Parameters
    ----------
    scores : (n, k) real array, or ScoreSource
        Finite, or minus infinity where a row must not go. A source of one rank.
    bounds : SizeBounds
    must_link, cannot_link : (a, 2) and (b, 2) integer arrays, optional
        Pairs of rows that have one label, and pairs that have two.
    weights : (n,) real array, optional
        At least 0: the objective is ``sum_i w_i s_{i, y_i}``. Sizes count rows.
    prices : (k,) float64 array, optional
        To start from.
    tol : float in [0, 1]
        Relative gap that ends the search; whether it can be proven is not known before.

    Returns
    -------
    LinkedAssignment

    Raises
    ------
    InfeasibleBoundsError
        If no labels are inside: the error names rows that must be together and apart, a clique of
        more rows than clusters, a cycle of odd length for two, groups (cliques) and clusters that
        contradict each other, or says that a search of all labels found none.
    InvalidValueError, InvalidTypeError, DeviceMismatchError
        For rows that do not exist, and shapes, dtypes or places that do not fit; and where no
        labels were found, though some may exist, which happens to large problems alone.

    Notes
    -----
    Guarantee: links and sizes hold, and `gap` is proven by a relaxation, or by an integer program
    where rows and clusters are few. Cost: `assign_exact` for the relaxation, and once more from its
    prices after a repair; further rounds, those of `assign_grouped`, only beyond `tol`.
    Source: the pairs are those of Wagstaff et al. (ICML 2001), whose rule neither looks for other
    labels where it is stuck nor says what it has lost. The method is ours.
    Claims: docs/claims.md#L2, #L3.

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.asarray([[0.9, 0.1], [0.8, 0.7], [0.6, 0.2], [0.3, 0.2]])
    >>> sizes = SizeBounds.from_counts([2, 2], [2, 2], n_samples=4)
    >>> pairs = {"must_link": np.asarray([[0, 3]]), "cannot_link": np.asarray([[1, 3]])}
    >>> found = assign_linked(scores, sizes, **pairs)
    >>> found.labels, round(found.objective, 3), found.status
    (array([0, 1, 1, 0]), 2.1, 'optimal')
    """
    check_bounds(bounds)
    check_interval("tol", tol, 0.0, 1.0)
    scores = source_of_one_rank(scores, weights, bounds=bounds.lower)
    n, k = scores.group.n_total, scores.n_clusters
    must, cannot = (
        _pairs(name, pairs, n)
        for name, pairs in (("must_link", must_link), ("cannot_link", cannot_link))
    )
    problem = merged(scores, bounds, links_of(must, cannot, k))
    bound: Relaxed | None = relaxed(problem, prices)
    found: LinkedAssignment | None = None
    for _ in range(ROUNDS + 1):
        if bound is None:
            break
        last = bound
        each = repaired(problem, bound), None if found is None else found.labels
        results = [_result(problem, bound, labels) for labels in each if labels is not None]
        found = max(results, key=lambda one: one.objective, default=None)
        if found is not None and found.gap <= tol:
            return found
        bound = tightened(problem, bound)
    if problem.n_units * k <= SMALL:
        found = _of_program(problem, last) or found
    if found is None:
        msg = (
            "no labels were found that keep all pairs of must_link and cannot_link and the sizes, "
            "nor is it shown that there are none. To fix this, leave out pairs, or widen the bounds"
        )
        raise InvalidValueError(msg)
    return found


def _pairs(name: str, pairs: Array | None, n: int) -> list[tuple[int, int]]:
    """Return pairs of different rows as Python numbers."""
    if pairs is None:
        return []
    xp = check_integral(name, pairs)
    check_shape(name, pairs, ("m", 2))
    flat = entries(name, xp.reshape(pairs, (-1,)))
    wrong = next((row for row in flat if not 0 <= row < n), None)
    if wrong is not None:
        msg = f"{name} must name rows from 0 to {n - 1}, got {wrong}. To fix this, count from 0"
        raise InvalidValueError(msg)
    both = list(zip(flat[::2], flat[1::2], strict=True))
    if name == "cannot_link":
        same = next((i for i, j in both if i == j), None)
        if same is not None:
            msg = f"{name} must be pairs of two rows, got row {same} twice. To fix this, drop it"
            raise InvalidValueError(msg)
    return [pair for pair in both if pair[0] != pair[1]]


def _of_program(problem: Problem, bound: Relaxed) -> LinkedAssignment | None:
    """Step 4, for a small problem: the best labels of all, or None where time is up."""
    xp, device = compat.array_namespace(bound.prices), compat.device(bound.prices)
    links, source = problem.links, problem.source
    n, k = source.group.n_total, source.n_clusters
    places = entries("places", problem.places)
    alone = [row for row in range(n) if places[row] < 0]
    units = [*links.blocks, *([row] for row in alone)]
    single = source.take(xp.asarray(alone, dtype=xp.int64, device=device))
    lengths = xp.asarray([[len(rows)] for rows in links.blocks], dtype=xp.float64, device=device)
    sums = problem.means * xp.reshape(lengths, (-1, 1))
    flat = entries("scores", xp.reshape(xp.concat([sums, xp.astype(single, xp.float64)]), (-1,)))
    apart = [(a, b) for a, others in enumerate(links.partners) for b in others if a < b]
    sides = entries("lower", problem.bounds.lower), entries("upper", problem.bounds.upper)
    values = [flat[u * k : (u + 1) * k] for u in range(len(units))]
    whole = best_whole(values, [len(rows) for rows in units], *sides, apart=apart)
    if whole.bound is None:
        msg = "no labels keep the links and the bounds on sizes, as a search of all has shown"
        msg = f"{msg}. To fix this, leave out pairs, or widen the bounds"
        raise InfeasibleBoundsError(msg, clusters=tuple(range(k)), excess=1)
    if whole.labels is None or not whole.is_best:
        return None
    labels = [0] * n
    for rows, label in zip(units, whole.labels, strict=True):
        for row in rows:
            labels[row] = label
    found = xp.asarray(labels, dtype=xp.int64, device=device)
    result = _result(problem, bound, found)
    if result.gap == 0.0:
        return result
    largest = max((abs(v) for v in flat if math.isfinite(v)), default=0.0)
    off = math.ldexp(OFF * len(units) * largest, source.exponent)
    return result._replace(upper_bound=result.objective, gap=0.0, rounding=result.rounding + off)


def _result(problem: Problem, bound: Relaxed, labels: Array) -> LinkedAssignment:
    """Add up what labels are worth, beside the bound of the relaxation."""
    xp, source = compat.array_namespace(labels), problem.source
    k = source.n_clusters

    def of_block(start: int, stop: int) -> list[float]:
        label = labels[start:stop, None]
        own = xp.take_along_axis(source.block(start, stop), label, axis=1)
        own = xp.astype(own, xp.float64)
        return read(xp.sum(own), xp.sum(xp.abs(own)))

    blocks = list(source.map_blocks(of_block, like=bound.prices, at_least_one=True))
    sums = (math.fsum(part) for part in zip(*blocks, strict=True))
    objective, size = (math.ldexp(part, source.exponent) for part in sums)
    lost = bound.upper_bound - objective
    rounding = 2.0 * rounding_of(size)
    lost = 0.0 if lost <= rounding else lost
    counts = segment_counts(labels, n_segments=k)
    is_other = (problem.places >= 0) & (labels != bound.labels)
    return LinkedAssignment(
        labels=labels,
        counts=counts,
        prices=bound.prices,
        n_repaired=int(xp.sum(xp.astype(is_other, xp.int64))),
        objective=objective,
        upper_bound=objective + lost,
        rounding=rounding,
        gap=relative_gap(lost, size, objective + lost),
    )
