r"""The best labels of all that keep clusters, and groups in clusters, inside their bounds.

Problem: for scores ``s_ik`` and the bounds of `bounds.groups`

maximize ``sum_i s_{i, y_i}``   subject to   ``l_k <= n_k <= u_k``,   ``L_gk <= n_gk <= U_gk``.

The bounds are a laminar family, so that the linear relaxation has integral corners, and labels are
optimal if and only if there are prices ``p_k`` of clusters and ``q_gk`` of groups in them such that

* ``y_i = argmax_k s_ik + p_k + q_{g_i k}`` for every sample, and
* a price is above 0 only where its count is at the lower bound, below 0 only at the upper one.

For any prices, no labels inside the bounds are worth more than

``D(p, q) = sum_i max_k (s_ik + p_k + q_{g_i k})``
``          + sum_k (u_k p_k^- - l_k p_k^+) + sum_gk (U_gk q_gk^- - L_gk q_gk^+)``.

Method, with the means of the plain problem:

1. *Start* from the prices of a quarter of each group, found in the same way, down to a problem
   that is small: there from 0.
2. *Collect* candidates of a pass over the scores, priced by ``p_k + q_gk``: a row whose best
   cluster leads for all prices within a radius is fixed; of the others a few clusters are kept.
3. *Augment*: Newton's method refines the prices within the radius, and shortest paths move free
   rows until all bounds hold (`_augmenting_paths`), in a tree: groups in a cluster below
   the cluster, clusters below the root.
4. *Prove*: a pass over the scores adds up what rows lose by their labels at the new prices. If that
   is nothing, they are optimal. Else 2 again, around the new prices, with a larger radius.

It ends: in the end all clusters are candidates of all rows, for which the paths are exact.

================  ================  =======  ===========================================
symbol            here              shape    meaning
================  ================  =======  ===========================================
:math:`s_{i,k}`   ``scores``        (n, k)   minus infinity forbids a pair
:math:`g_i`       ``groups``        (n,)     group of a sample; -1: none
:math:`p_k`       ``prices``        (k,)     in units of score, float64
:math:`q_{gk}`    ``group_prices``  (G, k)   added for samples of the group
:math:`D(p, q)`   ``upper_bound``   ()       no labels inside the bounds are worth more
================  ================  =======  ===========================================
"""

from __future__ import annotations

from typing import NamedTuple

import array_api_compat as compat

from ...bounds.groups import GroupBounds, check_counts_exist
from ...bounds.sizes import SizeBounds, check_bounds
from ...core.checks import check_kind, check_pair, check_same_place, check_shape
from ...core.errors import InvalidValueError
from ...core.precision import times_power_of_two
from ...core.segments import segment_counts
from ...core.types import Array
from ...scores.sources import ScoreSource, largest_score
from ...scores.statistics import in_range, map_taken, places_of, source_of_one_rank, strided_ids
from .._proof import in_unit, relative_gap, rounding_of
from ._search import Found, Problem, Proof, problem_of, solved

__all__ = ["GroupedAssignment", "assign_grouped"]


class GroupedAssignment(NamedTuple):
    """Labels inside all bounds, and how far they can be from the best ones.

    Attributes
    ----------
    labels : (n,) int64 array
    counts : (k,) int64 array
        Size of each cluster.
    group_counts : (G, k) int64 array
        Samples of each group in each cluster.
    prices : (k,) float64 array
    group_prices : (G, k) float64 array
        A sample of group g has the label of its largest ``s_ik + p_k + q_gk``.
    objective, upper_bound, rounding, gap : float
        As in `offline.OfflineAssignment`.
    """

    labels: Array
    counts: Array
    group_counts: Array
    prices: Array
    group_prices: Array
    objective: float
    upper_bound: float
    rounding: float
    gap: float

    @property
    def status(self) -> str:
        """Proven: "optimal", or "within gap"."""
        return "optimal" if self.gap == 0.0 else "within gap"


def assign_grouped(
    scores: Array | ScoreSource,
    bounds: SizeBounds,
    groups: GroupBounds,
    *,
    weights: Array | None = None,
    prices: tuple[Array, Array] | None = None,
) -> GroupedAssignment:
    """Find the best labels that keep clusters, and groups in them, inside their bounds.

    Parameters
    ----------
    scores : (n, k) real array, or ScoreSource
        Finite, or minus infinity where a sample must not go. A source of one rank.
    bounds : SizeBounds
        Of the clusters, on the library and device of `scores`; n = ``bounds.n_samples``.
    groups : GroupBounds
        Of groups in clusters.
    weights : (n,) real array, optional
        At least 0: the objective is ``sum_i w_i s_{i, y_i}``. Sizes count samples.
    prices : pair of (k,) and (G, k) float64 arrays, optional
        `prices` and `group_prices` to start from, such as those of a similar problem.

    Returns
    -------
    GroupedAssignment

    Raises
    ------
    InfeasibleBoundsError
        If no labels are inside the bounds; the error names groups and clusters that prove it, or
        says that forbidden pairs leave none.
    InvalidValueError, InvalidTypeError, DeviceMismatchError
        For NaN, plus infinity, and shapes, dtypes or places that do not fit.

    Notes
    -----
    Guarantee: all bounds hold, and the labels are optimal, to rounding; the gap is proven.
    Cost: a few passes over the scores and a path for each few rows that the bounds move, on
    G k + k + 1 nodes. Memory: candidates of the rows near a border, at worst all n k.
    Source: the flow of fair assignment (Ahmadian, Epasto, Kumar and Mahdian, KDD 2019, relax it);
    laminar families keep it integral (Edmonds 1970). The method is ours
    (docs/decisions/0081-groups.md). Claims: docs/claims.md#L1.

    Examples
    --------
    Two brothers want the same class; the one who loses less goes to the other.

    >>> import numpy as np
    >>> scores = np.asarray([[0.9, 0.1], [0.8, 0.6], [0.2, 0.3]])
    >>> sizes = SizeBounds.from_counts([1, 1], [2, 2], n_samples=3)
    >>> apart = GroupBounds.at_most_one(np.asarray([0, 0, -1]), 2)
    >>> found = assign_grouped(scores, sizes, apart)
    >>> found.labels, round(found.objective, 3), found.status
    (array([0, 1, 1]), 1.8, 'optimal')
    """
    check_bounds(bounds)
    check_kind("groups", groups, GroupBounds, "build it by GroupBounds.from_counts or .from_shares")
    source = source_of_one_rank(scores, weights, bounds=bounds.lower, groups=groups.groups)
    n, k = source.group.n_total, source.n_clusters
    if bounds.n_samples != n:
        msg = f"bounds must be of the {n} samples of scores, got those of {bounds.n_samples}"
        msg = f"{msg}. To fix this, make them with n_samples={n}"
        raise InvalidValueError(msg)
    check_shape("bounds.lower", bounds.lower, (k,))
    check_shape("groups.groups", groups.groups, (n,))
    check_shape("groups.lower", groups.lower, (groups.n_groups, k))
    check_counts_exist(bounds, groups)
    some = strided_ids(n, min(n, 2**10), bounds.lower)
    source = in_range(source, some) if n else source
    problem = problem_of(source, bounds, groups)
    start = None if prices is None else _start(problem, prices, groups, some)
    found, proof = solved(problem, start)
    return _result(problem, groups, found, proof)


def _start(problem: Problem, prices: tuple[Array, Array], groups: GroupBounds, ids: Array) -> Array:
    """Return prices of all nodes from those of clusters and groups.

    Prices that are far above what a path through all clusters is worth, by the rows `ids`, would
    cost the digits of the scores: they are lowered.
    """
    check_pair("prices", prices, "arrays, of clusters and of groups")
    clusters, of_groups = prices
    k = problem.source.n_clusters
    check_same_place(bounds=problem.lower, prices=clusters, group_prices=of_groups)
    check_shape("prices[0]", clusters, (k,))
    check_shape("prices[1]", of_groups, (groups.n_groups, k))
    xp = compat.array_namespace(clusters)
    clusters, of_groups = (
        times_power_of_two(xp.astype(part, xp.float64), -problem.source.exponent)
        for part in (clusters, of_groups)
    )
    cells = xp.reshape(problem.cells[1:, :], (-1,))
    chosen = places_of(cells < problem.n_cells)
    both = xp.reshape(of_groups + clusters, (-1,))
    start = xp.concat([xp.take(both, chosen), clusters])
    if bool(xp.all(xp.isfinite(start))):
        most = 4.0 * (k + 1) * max(map_taken(largest_score, problem.source, ids), default=0.0)
        return xp.clip(start, -most, most)
    msg = "prices must be finite, got some that are not. To fix this, leave them out"
    raise InvalidValueError(msg)


def _result(problem: Problem, groups: GroupBounds, found: Found, proof: Proof) -> GroupedAssignment:
    """Return labels, counts and prices of clusters and groups, in the unit of the caller."""
    xp, k = compat.array_namespace(found.prices), problem.source.n_clusters
    cells = problem.groups * k + found.labels
    in_cells = segment_counts(cells, n_segments=(groups.n_groups + 1) * k)[k:]
    prices = found.prices[problem.n_cells :]
    nodes = xp.take(found.prices, xp.reshape(problem.cells[1:, :], (-1,)))
    result = GroupedAssignment(
        labels=found.labels,
        counts=segment_counts(found.labels, n_segments=k),
        group_counts=xp.reshape(in_cells, (groups.n_groups, k)),
        prices=prices,
        group_prices=xp.reshape(nodes, (groups.n_groups, k)) - prices,
        objective=proof.objective,
        upper_bound=proof.objective + proof.lost,
        rounding=2.0 * rounding_of(proof.size),
        gap=relative_gap(proof.lost, proof.size, proof.objective + proof.lost),
    )
    return in_unit(result, problem.source.exponent)
