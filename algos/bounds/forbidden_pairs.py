r"""Feasibility of size bounds if some pairs are forbidden: labels, or a proof that none exist.

Problem: sample i may join only the clusters in its row of `allowed`; is there an assignment with
``l_k <= n_k <= u_k``? If all pairs are allowed, the sums of the bounds decide (`sizes`); with
forbidden pairs it is a flow problem in integers. Samples with equal rows form one group g of
``w_g`` samples, and the network

``source -> g`` (capacity w_g),  ``g -> k`` if allowed,  ``k -> sink`` (l_k),
``k -> rest`` (u_k - l_k),  ``rest -> sink`` (n - sum_k l_k)

has a flow of n if and only if labels exist: the flow must fill both kinds of arcs into the sink, so
each cluster gets its l_k. Otherwise the minimum cut is a proof, of one of two kinds (`farkas`):

* if ``rest`` is on the sink's side, the groups on the source's side may join only clusters whose
  upper bounds are together too small;
* if it is on the source's side, the clusters on the sink's side need more samples than may join
  any of them.

=====================  ===============  ======  ===============================================
symbol                 here             shape   meaning
=====================  ===============  ======  ===============================================
A_i                    ``allowed``      (n, k)  boolean, or scores with -inf for forbidden pairs
l_k, u_k               ``lower, ...``   (k,)    bounds in whole samples
w_i                    ``weights``      (n,)    integers; 1 by default
=====================  ===============  ======  ===============================================
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import array_api_compat as compat
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import maximum_flow

from ..core.checks import check_count, check_shape
from ..core.errors import InvalidTypeError, InvalidValueError
from ..core.reads import entries
from ..core.types import Array
from .farkas import FarkasVector
from .infeasibility import infeasible

__all__ = ["Feasibility", "check_feasible", "feasibility"]

LARGEST_TOTAL = 2**31 - 1  # SciPy's flows are 32-bit


class Feasibility(NamedTuple):
    """Either an assignment, or a proof that none exists.

    Attributes
    ----------
    labels : (n,) int64 array or None
        Labels inside the bounds, in the library and on the device of `allowed`. None if there are
        none, and for weights other than 1, whose samples may be split.
    counts : tuple of k ints or None
        Sizes inside the bounds.
    vector : FarkasVector or None
        Proof that no labels lie inside the bounds; `farkas.verify_infeasibility` checks it.
    """

    labels: Array | None
    counts: tuple[int, ...] | None
    vector: FarkasVector | None

    @property
    def feasible(self) -> bool:
        """Tell whether an assignment exists."""
        return self.vector is None


def feasibility(
    allowed: Array,
    lower: Sequence[int] | Array,
    upper: Sequence[int] | Array,
    *,
    weights: Sequence[int] | Array | None = None,
) -> Feasibility:
    """Find labels inside the bounds that use only allowed pairs, or a proof that none exist.

    Parameters
    ----------
    allowed : (n, k) boolean array, or (n, k) real array
        Which clusters a sample may join. A score of -inf forbids a pair.
    lower, upper : (k,) sequences of ints, or integer arrays
        Smallest and largest sizes; lower >= 0.
    weights : (n,) sequence of ints >= 0, or integer array, optional
        A sample of weight w counts as w samples that may go to different clusters. Fitting whole
        samples of different weights is bin packing, NP-hard. A proof of infeasibility holds for
        whole samples as well; an assignment need not.

    Returns
    -------
    Feasibility

    Raises
    ------
    InvalidTypeError
        If `allowed` is neither boolean nor real, or bounds or weights are no integers.
    InvalidValueError
        For shapes that do not fit, a negative bound or weight, a NaN among the scores, or a total
        weight of 2^31 or more.

    Notes
    -----
    Decided exactly, in integers. Cost: reading `allowed` on the host, O(n k), and a maximum flow on
    as many nodes as there are different rows plus k (SciPy, Dinic's algorithm). Hoffman (1960)
    proved that one of the two cuts exists.

    Examples
    --------
    >>> import numpy as np
    >>> allowed = np.asarray([[True, False], [True, False], [True, True]])
    >>> feasibility(allowed, [1, 1], [2, 3]).labels
    array([0, 0, 1])
    >>> from dualclust.algos.bounds.infeasibility import explain
    >>> explain(feasibility(allowed, [1, 1], [1, 3]).vector)
    '2 samples may join only cluster 0, which takes at most 1'
    >>> explain(feasibility(allowed, [0, 2], [3, 3]).vector)
    'cluster 1 needs at least 2 samples, but only 1 may join it'
    """
    xp, n, k = _check_allowed(allowed)
    low, high = (_checked(name, b, k) for name, b in (("lower", lower), ("upper", upper)))
    each = [1] * n if weights is None else _checked("weights", weights, n)
    total = sum(each)
    if total > LARGEST_TOTAL:
        msg = (
            f"weights must add up to at most {LARGEST_TOTAL}, got {total}"
            ". To fix this, pass a smaller number"
        )
        raise InvalidValueError(msg)
    high = [min(u, total) for u in high] if all(lo <= total for lo in low) else high
    groups: dict[bytes, list[int]] = {}
    for i, row in enumerate(_rows_on_host(allowed)):
        groups.setdefault(bytes(row), []).append(i)
    vector = _obvious(low, high, groups, each)
    if vector is not None:
        return Feasibility(None, None, vector)
    patterns, members = list(groups), list(groups.values())
    sizes = [sum(each[i] for i in group) for group in members]
    flow, reached = _flow(patterns, sizes, low, high)
    if reached is not None:
        return Feasibility(None, None, _cut_proof(patterns, sizes, low, high, reached))
    counts = tuple(sum(row[j] for row in flow) for j in range(k))
    if weights is not None and any(w != 1 for w in each):
        return Feasibility(None, counts, None)
    labels = [0] * n
    for group, row in zip(members, flow, strict=True):
        clusters = (j for j, count in enumerate(row) for _ in range(count))
        for i, j in zip(group, clusters, strict=True):
            labels[i] = j
    found = xp.asarray(labels, dtype=xp.int64, device=compat.device(allowed))
    return Feasibility(found, counts, None)


def check_feasible(
    allowed: Array,
    lower: Sequence[int] | Array,
    upper: Sequence[int] | Array,
    *,
    weights: Sequence[int] | Array | None = None,
) -> None:
    """Raise unless labels inside the bounds exist; parameters as in `feasibility`.

    Raises
    ------
    InfeasibleBoundsError
        With the proof in its attribute `vector`.

    Examples
    --------
    >>> import numpy as np
    >>> check_feasible(np.asarray([[0.5, -np.inf], [0.1, -np.inf]]), [0, 1], [2, 2])
    Traceback (most recent call last):
        ...
    dualclust.algos.core.errors.InfeasibleBoundsError: no labels are inside the bounds: \
cluster 1 needs at least 1 samples, but only 0 may join it. To fix this, \
widen the bounds or allow more pairs
    """
    vector = feasibility(allowed, lower, upper, weights=weights).vector
    if vector is None:
        return
    raise infeasible(vector)


def _obvious(
    low: list[int], high: list[int], groups: dict[bytes, list[int]], each: list[int]
) -> FarkasVector | None:
    """Find proofs without a flow: a sample without cluster, crossed bounds, large lower bounds."""
    k, none = len(low), (0,) * len(low)
    stranded = [i for i in groups.get(bytes(k), ()) if each[i] > 0]
    if stranded:
        return FarkasVector(none, none, 0, None, stranded[0])
    for j in range(k):
        if low[j] > high[j]:
            one = tuple(int(i == j) for i in range(k))
            return FarkasVector(one, one, low[j] - high[j], 0)
    if sum(low) > sum(each):
        needy = tuple(int(v > 0) for v in low)
        patterns, members = list(groups), list(groups.values())
        sizes = [sum(each[i] for i in group) for group in members]
        return _lower_proof(patterns, sizes, low, needy)
    return None


def _flow(
    patterns: list[bytes], sizes: list[int], low: list[int], high: list[int]
) -> tuple[list[list[int]], set[int] | None]:
    """Return the flow from groups to clusters, or the nodes on the source's side of a minimum cut.

    Nodes: groups 0 ... m-1, clusters m ... m+k-1, then rest, source, sink.
    """
    m, k, total = len(patterns), len(low), sum(sizes)
    rest, source, sink = m + k, m + k + 1, m + k + 2
    arcs = [(source, g, sizes[g]) for g in range(m)]
    arcs += [(g, m + j, sizes[g]) for g in range(m) for j in range(k) if patterns[g][j]]
    arcs += [(m + j, sink, low[j]) for j in range(k)]
    arcs += [(m + j, rest, high[j] - low[j]) for j in range(k)]
    arcs.append((rest, sink, total - sum(low)))
    tails, heads, capacities = zip(*arcs, strict=True)
    graph = coo_array((capacities, (tails, heads)), shape=(sink + 1, sink + 1)).tocsr()
    # Old versions of SciPy want 32-bit numbers of nodes too.
    parts = (part.astype("int32") for part in (graph.data, graph.indices, graph.indptr))
    graph = csr_array(tuple(parts), shape=graph.shape)
    result = maximum_flow(graph, source, sink)
    if int(result.flow_value) == total:
        flow = [[0] * k for _ in range(m)]
        moved = result.flow.tocoo()
        triples = zip(moved.row.tolist(), moved.col.tolist(), moved.data.tolist(), strict=True)
        for tail, head, amount in triples:
            if tail < m <= head < m + k:
                flow[tail][head - m] = amount
        return flow, None
    left = (graph - result.flow).tocoo()
    following: dict[int, list[int]] = {}
    for tail, head, amount in zip(
        left.row.tolist(), left.col.tolist(), left.data.tolist(), strict=True
    ):
        if amount > 0:
            following.setdefault(tail, []).append(head)
    reached, todo = {source}, [source]
    while todo:
        for head in following.get(todo.pop(), ()):
            if head not in reached:
                reached.add(head)
                todo.append(head)
    return [], reached


def _cut_proof(
    patterns: list[bytes],
    sizes: list[int],
    low: list[int],
    high: list[int],
    reached: set[int],
) -> FarkasVector:
    m, k = len(patterns), len(low)
    inside = tuple(int(m + j in reached) for j in range(k))
    if m + k in reached:  # then clusters beyond the cut cannot reach their lower bounds
        return _lower_proof(patterns, sizes, low, tuple(1 - v for v in inside))
    confined = sum(
        size
        for pattern, size in zip(patterns, sizes, strict=True)
        if not any(ok and not full for ok, full in zip(pattern, inside, strict=True))
    )
    room = sum(v * u for v, u in zip(inside, high, strict=True))
    return FarkasVector((0,) * k, inside, -room, -confined)


def _lower_proof(
    patterns: list[bytes], sizes: list[int], low: list[int], needy: tuple[int, ...]
) -> FarkasVector:
    required = sum(v * lo for v, lo in zip(needy, low, strict=True))
    available = sum(
        size
        for pattern, size in zip(patterns, sizes, strict=True)
        if any(ok and wants for ok, wants in zip(pattern, needy, strict=True))
    )
    return FarkasVector(needy, (0,) * len(low), required, available)


def _check_allowed(allowed: Array) -> tuple[Any, int, int]:
    if not compat.is_array_api_obj(allowed):
        msg = (
            f"allowed must be an array, got {type(allowed).__name__}. To fix this, convert it, "
            f"e.g. numpy.asarray(allowed)"
        )
        raise InvalidTypeError(msg)
    xp = compat.array_namespace(allowed)
    if not xp.isdtype(allowed.dtype, ("bool", "real floating")):
        msg = (
            f"allowed must be boolean, or real scores with -inf for forbidden pairs, "
            f"got {allowed.dtype}"
            ". To fix this, pass an array of numbers"
        )
        raise InvalidTypeError(msg)
    n, k = check_shape("allowed", allowed, ("n", "k"))
    if k == 0:
        msg = (
            f"allowed must have at least one column, got shape {(n, k)}. "
            f"To fix this, pass at least one"
        )
        raise InvalidValueError(msg)
    if xp.isdtype(allowed.dtype, "real floating") and bool(xp.any(xp.isnan(allowed))):
        msg = "allowed must not hold NaN. To fix this, use -inf for forbidden pairs"
        raise InvalidValueError(msg)
    return xp, n, k


def _rows_on_host(allowed: Array) -> Any:
    """Yield rows as lists of booleans, read a block at a time."""
    xp = compat.array_namespace(allowed)
    n, k = allowed.shape
    rows = max(1, 2**20 // k)
    for first in range(0, n, rows):
        block = allowed[first : min(first + rows, n), :]
        if not xp.isdtype(block.dtype, "bool"):
            block = block > -xp.inf
        if hasattr(block, "tolist"):
            yield from block.tolist()
        else:
            yield from ([bool(block[i, j]) for j in range(k)] for i in range(block.shape[0]))


def _checked(name: str, values: Sequence[int] | Array, length: int) -> list[int]:
    found = entries(name, values)
    if len(found) != length:
        msg = (
            f"{name} must have {length} entries, got {len(found)}"
            ". To fix this, give one for each cluster"
        )
        raise InvalidValueError(msg)
    return [check_count(f"{name}[{i}]", v, 0) for i, v in enumerate(found)]
