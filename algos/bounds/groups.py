r"""Bounds on groups of samples in each cluster: fair shares, teams, at most one of a family.

Problem: sample i belongs to a group ``g_i``, or to none. Beside the sizes of clusters
(`sizes`), the samples of each group in each cluster are bounded:

``l_k <= n_k <= u_k``,   ``L_gk <= n_gk <= U_gk``,   with   ``n_gk = |{i : g_i = g, y_i = k}|``.

The samples of a group in a cluster are part of those of the cluster, so that the bounded sets are a
*laminar family*: of two that meet, one contains the other. Counts inside all bounds exist if and
only if a network has a flow: from the root to each group (``n_g``), to each cluster (``L_gk`` to
``U_gk``), and back to the root (``l_k`` to ``u_k``). If it has none, Hoffman's theorem names some
groups and clusters whose bounds contradict each other, and the error says which and by how much.

==============  ============  =======  =============================================
symbol          here          shape    meaning
==============  ============  =======  =============================================
:math:`g_i`     ``groups``    (n,)     group of each sample; -1: none
:math:`L_{gk}`  ``lower``     (G, k)   least samples of group g in cluster k
:math:`U_{gk}`  ``upper``     (G, k)   most
:math:`n_g`     ``sizes``     (G,)     samples of each group
==============  ============  =======  =============================================
"""

from __future__ import annotations

import math
from typing import NamedTuple

import array_api_compat as compat

from ..core.checks import check_count, check_integral, check_shape
from ..core.errors import InfeasibleBoundsError, InvalidValueError
from ..core.reads import entries
from ..core.segments import segment_counts
from ..core.types import Array
from ._ratios import Count, Ratio, counts_of, ratios_of
from .sizes import SizeBounds

__all__ = ["GroupBounds", "check_counts_exist"]

LARGEST_TOTAL = 2**31 - 1  # SciPy's flows are 32-bit
MOST_GROUPS = 2**24  # a number beyond is a name that was not counted from 0 on


class GroupBounds(NamedTuple):
    """Groups, and bounds on the samples of each group in each cluster; build them by a method.

    Attributes
    ----------
    groups : (n,) int64 array
        Group of each sample, from 0 on; -1 for a sample of no group, which no bound here counts.
    lower, upper : (G, k) int64 array
        Fewest and most samples of each group in each cluster; 0 and n_g bound nothing.
    """

    groups: Array
    lower: Array
    upper: Array

    @property
    def n_groups(self) -> int:
        """Return the number of groups, G."""
        return int(self.lower.shape[0])

    @property
    def n_clusters(self) -> int:
        """Return the number of clusters, k."""
        return int(self.lower.shape[1])

    @property
    def sizes(self) -> Array:
        """Return the samples of each group, and last of none, (G + 1,) int64."""
        xp, ids = compat.array_namespace(self.groups), self.groups
        ids = xp.where(ids < 0, xp.full_like(ids, self.n_groups), ids)
        return segment_counts(ids, n_segments=self.n_groups + 1)

    @classmethod
    def from_counts(
        cls,
        groups: Array,
        n_clusters: int,
        *,
        lower: Count | Array = 0,
        upper: Count | Array | None = None,
    ) -> GroupBounds:
        """Bound the samples of each group in each cluster by whole numbers.

        Parameters
        ----------
        groups : (n,) integer array
            From 0 to G - 1, or -1.
        n_clusters : int
            k >= 1.
        lower, upper : int, sequence of G ints, or (G, k) integer array
            For all groups, for each group in any cluster, or for each. No upper bound by default.

        Raises
        ------
        InvalidValueError, InvalidTypeError
            For groups below -1, bounds below 0 or crossed, and shapes that do not fit.

        Examples
        --------
        Two of each skill in each of two teams:

        >>> import numpy as np
        >>> skills = np.asarray([0, 0, 0, 0, 1, 1, 1, 1])
        >>> GroupBounds.from_counts(skills, 2, lower=2, upper=2).upper
        array([[2, 2],
               [2, 2]])
        """
        k = check_count("n_clusters", n_clusters, 1)
        groups, sizes = _sizes(groups)
        low = _table("lower", lower, len(sizes), k)
        high = [[n] * k for n in sizes] if upper is None else _table("upper", upper, len(sizes), k)
        for g, (some, most) in enumerate(zip(low, high, strict=True)):
            for j in range(k):
                if some[j] > most[j]:
                    msg = (
                        f"lower must be at most upper, got {some[j]} and {most[j]} for group {g} "
                        f"in cluster {j}. To fix this, widen the bounds"
                    )
                    raise InvalidValueError(msg)
        high = [[min(u, n) for u in row] for row, n in zip(high, sizes, strict=True)]
        return cls(groups, _array(low, groups, k), _array(high, groups, k))

    @classmethod
    def from_shares(
        cls,
        groups: Array,
        n_clusters: int,
        *,
        lower: Ratio = 0.9,
        upper: Ratio = 1.1,
    ) -> GroupBounds:
        """Bound each group in each cluster by shares of its mean, ``n_g / k``: fair clusters.

        Parameters
        ----------
        groups, n_clusters
            As in `from_counts`.
        lower, upper : float, or sequence of G floats
            In units of n_g / k, rounded outward to whole samples; ``lower=0`` and ``upper=inf``
            bound nothing.

        Notes
        -----
        Where clusters may have different sizes, the share of a group *in* a cluster is then only
        inside ``lower / u'`` to ``upper / l'`` times its share of the data, with the clusters'
        sizes between l' and u' times n / k: that share itself is no laminar bound.

        Examples
        --------
        >>> import numpy as np
        >>> bounds = GroupBounds.from_shares(np.asarray([0] * 10 + [1] * 30), 4)
        >>> bounds.lower.tolist(), bounds.upper.tolist()
        ([[2, 2, 2, 2], [6, 6, 6, 6]], [[3, 3, 3, 3], [9, 9, 9, 9]])
        """
        k = check_count("n_clusters", n_clusters, 1)
        groups, sizes = _sizes(groups)
        if not sizes:
            return cls(groups, _array([], groups, k), _array([], groups, k))
        least, most = (
            [ratios_of(name, ratio, k)[0] for ratio in _of_each_group(name, given, len(sizes))]
            for name, given in (("lower", lower), ("upper", upper))
        )
        for name, ratios, rule in (("lower", least, "at most"), ("upper", most, "at least")):
            beyond = [r for r in ratios if (r > 1 if name == "lower" else r < 1)]
            if beyond:
                msg = (
                    f"{name} must be {rule} 1, in units of the mean n_g / k, got "
                    f"{float(beyond[0]):g}. To fix this, widen it"
                )
                raise InvalidValueError(msg)
        low = [math.floor(r * n / k) for r, n in zip(least, sizes, strict=True)]
        high = [min(math.ceil(r * n / k), n) for r, n in zip(most, sizes, strict=True)]
        return cls(
            groups,
            _array([[v] * k for v in low], groups, k),
            _array([[v] * k for v in high], groups, k),
        )

    @classmethod
    def at_most_one(cls, groups: Array, n_clusters: int) -> GroupBounds:
        """Keep the samples of each group apart: families, cliques that must not be together.

        Examples
        --------
        >>> import numpy as np
        >>> GroupBounds.at_most_one(np.asarray([0, 0, -1, 1, 1]), 2).upper
        array([[1, 1],
               [1, 1]])
        """
        return cls.from_counts(groups, n_clusters, upper=1)

    @classmethod
    def at_least_one(cls, groups: Array, n_clusters: int) -> GroupBounds:
        """Give each cluster a sample of each group.

        Examples
        --------
        >>> import numpy as np
        >>> GroupBounds.at_least_one(np.asarray([0, 0, 1, 1, 1]), 2).lower
        array([[1, 1],
               [1, 1]])
        """
        return cls.from_counts(groups, n_clusters, lower=1)


def check_counts_exist(bounds: SizeBounds, groups: GroupBounds) -> Array:
    """Return counts inside the bounds on clusters and on groups in them; raise if there are none.

    Parameters
    ----------
    bounds : SizeBounds
    groups : GroupBounds

    Returns
    -------
    (G + 1, k) int64 array
        Samples of each group in each cluster; the last row is of those of no group.

    Raises
    ------
    InfeasibleBoundsError
        Naming groups and clusters that contradict each other; `excess` says by how many samples.

    Notes
    -----
    Exact, in whole numbers: a maximum flow on G + k + 3 nodes and G k arcs (SciPy, Dinic). Its
    minimum cut is the proof (Hoffman 1960): of the nodes on one side, what must leave is more than
    what may enter.

    Examples
    --------
    >>> import numpy as np
    >>> sizes = SizeBounds.from_counts([2, 2], [3, 2], n_samples=5)
    >>> check_counts_exist(sizes, GroupBounds.at_most_one(np.asarray([0, 0, -1, -1, -1]), 2))
    array([[1, 1],
           [2, 1]])
    >>> check_counts_exist(sizes, GroupBounds.at_most_one(np.asarray([0, 0, 0, -1, -1]), 2))
    Traceback (most recent call last):
        ...
    dualclust.algos.core.errors.InfeasibleBoundsError: no labels are inside the bounds: group 0 \
has 3 samples, of which all clusters take at most 2. To fix this, widen the bounds
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import breadth_first_order, maximum_flow

    xp, k = compat.array_namespace(groups.groups), groups.n_clusters
    n, n_groups = int(groups.groups.shape[0]), groups.n_groups
    if n > LARGEST_TOTAL:
        msg = f"groups must be of at most {LARGEST_TOTAL} samples, got {n}"
        msg = f"{msg}. To fix this, solve parts of the rows on their own"
        raise InvalidValueError(msg)
    *sizes, alone = entries("sizes", groups.sizes)
    low, high = (
        entries("bounds", xp.reshape(part, (-1,))) for part in (groups.lower, groups.upper)
    )
    # Nodes: groups, the samples of none, clusters, the root.
    root = n_groups + 1 + k
    arcs = [(root, g, size, size) for g, size in enumerate([*sizes, alone])]
    arcs += [(c // k, n_groups + 1 + c % k, lo, high[c]) for c, lo in enumerate(low)]
    arcs += [(n_groups, n_groups + 1 + j, 0, alone) for j in range(k)]
    pairs = zip(entries("lower", bounds.lower), entries("upper", bounds.upper), strict=True)
    arcs += [
        (n_groups + 1 + j, root, min(lo, n + 1), min(hi, n)) for j, (lo, hi) in enumerate(pairs)
    ]
    left = [0] * (root + 1)  # what has entered each node, and not left it, at the lower bounds
    for a, b, lower, _ in arcs:
        left[a] -= lower
        left[b] += lower
    source, sink = root + 1, root + 2
    flow_arcs = [(a, b, upper - lower) for a, b, lower, upper in arcs if upper > lower]
    flow_arcs += [(source, v, d) for v, d in enumerate(left) if d > 0]
    flow_arcs += [(v, sink, -d) for v, d in enumerate(left) if d < 0]
    tails, heads, capacities = zip(*flow_arcs, strict=True) if flow_arcs else ((), (), ())
    network = coo_array((capacities, (tails, heads)), shape=(sink + 1, sink + 1)).tocsr()
    network = network.astype("int32")
    found = maximum_flow(network, source, sink)
    if found.flow_value == sum(d for d in left if d > 0):
        counts = [low[g * k : (g + 1) * k] for g in range(n_groups)] + [[0] * k]
        flow = found.flow.tocoo()
        for a, b, sent in zip(
            *(part.tolist() for part in (flow.row, flow.col, flow.data)), strict=True
        ):
            if a <= n_groups < b < root:
                counts[a][b - n_groups - 1] += sent
        return _array(counts, groups.groups, k)
    residual = network - found.flow
    residual.eliminate_zeros()
    side = set(breadth_first_order(residual, source, return_predecessors=False).tolist())
    need = sum(lower for a, b, lower, _ in arcs if a not in side and b in side)
    most = sum(upper for a, b, _, upper in arcs if a in side and b not in side)
    inside = side if root not in side else set(range(root)) - side
    in_groups = sorted(v for v in inside if v < n_groups)
    clusters = sorted(v - n_groups - 1 for v in inside if n_groups < v < root)
    what = _explained(in_groups, clusters, need, most, is_too_few=root in side)
    msg = f"no labels are inside the bounds: {what}. To fix this, widen the bounds"
    raise InfeasibleBoundsError(
        msg,
        clusters=tuple(clusters) or tuple(range(k)),
        excess=need - most,
    )


def _explained(
    groups: list[int], clusters: list[int], need: int, most: int, *, is_too_few: bool
) -> str:
    """Say in words why the bounds of some groups and clusters, and no others, fail."""
    if groups and not clusters:
        names, has = _names("group", groups), "have" if len(groups) > 1 else "has"
        if is_too_few:
            return f"clusters need at least {need} samples of {names}, which {has} {most}"
        return f"{names} {has} {need} samples, of which all clusters take at most {most}"
    if clusters and not groups:
        names, one = _names("cluster", clusters), len(clusters) == 1
        if is_too_few:
            verb = "needs" if one else "need"
            return (
                f"{names} {verb} at least {need} samples, but may have at most {most} of the groups"
            )
        verb = "takes" if one else "take"
        return f"groups need at least {need} places in {names}, which {verb} {most}"
    both = f"{_names('group', groups)} and {_names('cluster', clusters)}"
    return f"the bounds of {both} contradict each other by {need - most} samples"


def _names(what: str, numbers: list[int]) -> str:
    """Write a list of groups or clusters in English, cut after ten."""
    words = [str(v) for v in numbers[:10]]
    if len(numbers) > 10:
        words.append(f"{len(numbers) - 10} more")
    if len(words) == 1:
        return f"{what} {words[0]}"
    return f"{what}s {', '.join(words[:-1])} and {words[-1]}"


def _sizes(groups: Array) -> tuple[Array, list[int]]:
    """Return groups as int64, and how many samples each has."""
    xp = check_integral("groups", groups)
    (n,) = check_shape("groups", groups, ("n",))
    groups = xp.astype(groups, xp.int64)
    if not n:
        return groups, []
    least, largest = int(xp.min(groups)), int(xp.max(groups))
    if least < -1:
        msg = f"groups must be at least -1, got {least}. To fix this, count groups from 0 on"
        raise InvalidValueError(msg)
    if largest >= MOST_GROUPS:
        msg = (
            f"groups must be below {MOST_GROUPS}, got {largest}"
            ". To fix this, number the groups that there are from 0 on"
        )
        raise InvalidValueError(msg)
    counts = segment_counts(groups + 1, n_segments=largest + 2)[1:]
    return groups, entries("sizes", counts)


def _of_each_group(name: str, ratio: Ratio, n_groups: int) -> list[float]:
    """Return one ratio for each group."""
    values = [ratio] * n_groups if isinstance(ratio, int | float) else entries(name, ratio)
    if len(values) != n_groups:
        msg = f"{name} must be one number or one per group ({n_groups}), got {len(values)}"
        msg = f"{msg}. To fix this, give one for each group"
        raise InvalidValueError(msg)
    return values


def _table(name: str, value: Count | Array, n_groups: int, k: int) -> list[list[int]]:
    """Return a bound for each group in each cluster, as lists."""
    if compat.is_array_api_obj(value) and len(getattr(value, "shape", ())) == 2:
        xp = check_integral(name, value)
        check_shape(name, value, (n_groups, k))
        flat = entries(name, xp.reshape(value, (-1,)))
        rows = [flat[g * k : (g + 1) * k] for g in range(n_groups)]
    else:
        rows = [[v] * k for v in counts_of(name, value, n_groups)]
    least = min((v for row in rows for v in row), default=0)
    if least < 0:
        msg = f"{name} must be at least 0, got {least}. To fix this, pass 0 or more"
        raise InvalidValueError(msg)
    return rows


def _array(rows: list[list[int]], like: Array, k: int) -> Array:
    xp = compat.array_namespace(like)
    flat = xp.asarray([v for row in rows for v in row], dtype=xp.int64, device=compat.device(like))
    return xp.reshape(flat, (len(rows), k))
